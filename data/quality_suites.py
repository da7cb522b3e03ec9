"""What a night's jobs must look like: two suites of checks, made from columns.py, the cluster's ranges and the weeks before.

`jobs` looks at each job that ended on the day, `night` at one row of numbers that sum the day up. A check stops (nothing is
trained, the champion stays) or warns. Nearly every limit is relative to the 28 days before: what has always been odd about a log
does not stop it. This module knows nothing of Great Expectations beyond the names of its expectations; quality.py runs them.

The frames hold numbers, states, labels and job keys only. User, job and path names are reduced to "known or not" before any check
sees them, so that no result and no page can show them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from runcast.data.cluster import Cluster
from runcast.data.columns import COLUMNS, LABELS
from runcast.data.states import OTHER, STATES

Severity = Literal["stop", "warn"]

WINDOW_DAYS = 28  # four of each weekday
MIN_NORM_DAYS = 7  # fewer days before say little about the next
_MIN_SHARE_ROWS = 20  # a share of fewer jobs says little
_YEAR_S = 366 * 86_400.0
_COUNTED_NULLS = (*(c.name for c in COLUMNS if c.nullable and c.known_at == "submit"), "runtime_s")
_TEXTS = tuple(c.name for c in COLUMNS if c.nullable and c.type == "string")
_NUMBERS = tuple(c.name for c in COLUMNS if c.type in ("float64", "int32"))
#: Highest plausible value of a quantity, lowest is 0 (cpu_count, node_count, mem_mib, time_limit_s: above 0).
_RANGES: Mapping[str, tuple[float, float]] = {
    "gpu_count": (0, 100_000),
    "cpu_count": (0.001, 10_000_000),
    "mem_mib": (0.001, 1e12),
    "node_count": (0.001, 200_000),
    "time_limit_s": (1, 10 * _YEAR_S),
    "queue_s": (0, 2 * _YEAR_S),
}


@dataclass(frozen=True)
class Check:
    """One expectation by its Great Expectations name; `expected` is the sentence that a person reads when it fails."""

    name: str
    severity: Severity
    expectation: str
    arguments: Mapping[str, Any]
    expected: str


@dataclass(frozen=True)
class Norms:
    """What the days before looked like; shares are of all their jobs. `days` is how many there are (with or without jobs)."""

    days: int
    rows: int
    median_rows: float
    null_share: Mapping[str, float]
    other_share: float
    repeated_id_share: float
    queues: frozenset[str]
    users: frozenset[str]

    @property
    def is_usable(self) -> bool:
        return self.days >= MIN_NORM_DAYS and self.rows >= _MIN_SHARE_ROWS


def norms_of(jobs: pa.Table, rows_by_date: Mapping[str, int], days: int) -> Norms:
    """Sum up the window: `jobs` that ended in it and rows of each of its dates that has any; it is `days` long."""
    counts = [*rows_by_date.values(), *[0] * (days - len(rows_by_date))]
    return Norms(
        days=days,
        rows=jobs.num_rows,
        median_rows=float(np.median(counts)) if counts else 0.0,
        null_share={name: _share(is_null(jobs[name])) for name in _COUNTED_NULLS},
        other_share=_share(pc.equal(jobs["state"], OTHER)),
        repeated_id_share=_repeated_share(jobs["job_id"]),
        queues=frozenset(jobs["queue"].unique().drop_null().to_pylist()),
        users=frozenset(jobs["user"].unique().drop_null().to_pylist()),
    )


def jobs_frame(jobs: pa.Table) -> pd.DataFrame:
    """The day's jobs as numbers: times as epoch seconds, texts as 1 (known) or null, and what is derived to compare columns."""
    frame: dict[str, Any] = {"job_key": _plain(jobs["job_key"]), "job_key_code": _codes(jobs["job_key"])}
    for name in ("submit_time", "start_time", "end_time"):
        frame[f"{name.removesuffix('_time')}_s"] = _floats(jobs[name].cast(pa.int64())) / 1e6
    frame |= {name: _floats(jobs[name]) for name in _NUMBERS}
    frame |= {name: np.where(is_null(jobs[name]).to_numpy(), np.nan, 1.0) for name in _TEXTS}
    frame |= {"state": _plain(jobs["state"]), "label": _plain(jobs["label"])}
    frame["runtime_error_s"] = np.abs(frame["runtime_s"] - (frame["end_s"] - frame["start_s"]))
    hard = pc.equal(jobs["time_limit_kind"], "hard").to_numpy()
    frame["limit_overrun"] = np.where(hard & (frame["time_limit_s"] > 0), frame["runtime_s"] / frame["time_limit_s"], np.nan)
    frame["label_agrees"] = _label_agrees(jobs).astype(float)
    return pd.DataFrame(frame)


def night_frame(jobs: pa.Table, norms: Norms, doubled_keys: int) -> pd.DataFrame:
    """One row of numbers about the day; null where there is too little to tell."""
    enough = jobs.num_rows >= _MIN_SHARE_ROWS
    return pd.DataFrame(
        {
            "doubled_keys": [float(doubled_keys)],
            "other_state_share": [_share(pc.equal(jobs["state"], OTHER)) if enough else np.nan],
            "repeated_id_share": [_repeated_share(jobs["job_id"]) if enough else np.nan],
            "new_queue_share": [_new_share(jobs["queue"], norms.queues) if enough else np.nan],
            "new_user_share": [_new_share(jobs["user"], norms.users) if enough else np.nan],
        }
    )


def jobs_suite(cluster: Cluster, norms: Norms) -> list[Check]:
    """Checks of each job of the day."""
    return [*_row_counts(cluster, norms), *_identity(), *_times(), *_ranges(), *_null_shares(cluster, norms)]


def night_suite(norms: Norms) -> list[Check]:
    """Checks of the day's summary; those that compare with the days before only where these say something."""
    checks = [
        _between("job_once", "stop", "doubled_keys", None, 0, "every job_key once among the days of the window and the open jobs")
    ]
    if norms.is_usable:
        checks += [
            _between(
                "new_state", "stop", "other_state_share", None, norms.other_share + 0.05, "states that states.py knows, as before"
            ),
            _between(
                "doubled_jobs",
                "stop",
                "repeated_id_share",
                None,
                norms.repeated_id_share + 0.3,
                "job ids repeat no more than before",
            ),
            _between("known_queues", "stop", "new_queue_share", None, 0.5, "queues that were seen in the days before"),
            _between("few_new_queues", "warn", "new_queue_share", None, 0.1, "queues that were seen in the days before"),
            _between("few_new_users", "warn", "new_user_share", None, 0.5, "mostly users that were seen in the days before"),
        ]
    return checks


def is_null(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Null, or text that stands for nothing: an empty string is a null that a source forgot to make one."""
    if pa.types.is_string(column.type):
        return pc.or_(pc.is_null(column), pc.fill_null(pc.is_in(column, pa.array(["", "None"])), False))
    return pc.is_null(column, nan_is_null=pa.types.is_floating(column.type))


def _row_counts(cluster: Cluster, norms: Norms) -> list[Check]:
    """A finished log (no schedule) only warns: its last day is seldom whole, and waiting would not mend it."""
    factor, severity = cluster.quality.row_count_factor, "stop" if cluster.schedule else "warn"
    usual = norms.median_rows if norms.days >= MIN_NORM_DAYS else None
    low = cluster.quality.min_rows if usual is None else min(cluster.quality.min_rows, int(usual))
    checks = [_rows("row_count_minimum", severity, low, None, f"at least {low} jobs that ended on the day")]  # type: ignore[arg-type]
    if usual:
        low, high = int(usual / factor), int(np.ceil(usual * factor))
        why = f"within a factor {factor:g} of the {norms.days} days before, whose median is {usual:g}"
        checks.append(_rows("row_count_low", severity, low, None, why))  # type: ignore[arg-type]
        checks.append(_rows("row_count_high", "warn", None, high, why))
    return checks


def _identity() -> list[Check]:
    states, labels = sorted(STATES), sorted(LABELS)
    return [
        Check("job_key_unique", "stop", "ExpectColumnValuesToBeUnique", {"column": "job_key_code"}, "every job_key once"),
        Check("submit_known", "stop", "ExpectColumnValuesToNotBeNull", {"column": "submit_s"}, "a submission time for every job"),
        Check(
            "state_set", "stop", "ExpectColumnValuesToBeInSet", {"column": "state", "value_set": states}, "states of states.py"
        ),
        Check("state_known", "stop", "ExpectColumnValuesToNotBeNull", {"column": "state"}, "a state for every job"),
        Check(
            "label_set",
            "stop",
            "ExpectColumnValuesToBeInSet",
            {"column": "label", "value_set": labels},
            "event, censored or excluded",
        ),
        _between("label_role", "stop", "label_agrees", 1, 1, "labels that fit state and runtime (99 %)", mostly=0.99),
        _between("label_role_all", "warn", "label_agrees", 1, 1, "labels that fit state and runtime"),
    ]


def _times() -> list[Check]:
    pairs = [("start_not_before_submit", "start_s", "submit_s"), ("end_not_before_start", "end_s", "start_s")]
    checks = []
    for name, later, earlier in pairs:
        # Without ignore_row_if a row with a null would count as wrong: jobs that never started have no start.
        arguments = {"column_A": later, "column_B": earlier, "or_equal": True, "ignore_row_if": "either_value_is_missing"}
        expectation, text = "ExpectColumnPairValuesAToBeGreaterThanB", f"{earlier[:-2]} <= {later[:-2]}"
        checks.append(Check(name, "stop", expectation, {**arguments, "mostly": 0.99}, f"{text} (99 %)"))
        checks.append(Check(f"{name}_all", "warn", expectation, arguments, text))
    return [
        *checks,
        _between("runtime_range", "stop", "runtime_s", 0, _YEAR_S, "runtimes from 0 s to a year (99 %)", mostly=0.99),
        _between("runtime_is_end_less_start", "stop", "runtime_error_s", None, 1, "runtime_s = end - start (95 %)", mostly=0.95),
        _between(
            "limit_respected", "stop", "limit_overrun", None, 2, "runtimes within twice their hard limit (half)", mostly=0.5
        ),
        _between(
            "limit_respected_mostly",
            "warn",
            "limit_overrun",
            None,
            1.2,
            "runtimes within 1.2 of their hard limit (95 %)",
            mostly=0.95,
        ),
    ]


def _ranges() -> list[Check]:
    checks = []
    for name, (low, high) in _RANGES.items():
        checks.append(_between(f"{name}_range", "stop", name, low, high, f"{name} from {low:g} to {high:g} (90 %)", mostly=0.9))
        checks.append(_between(f"{name}_range_all", "warn", name, low, high, f"{name} from {low:g} to {high:g}"))
    return checks


def _null_shares(cluster: Cluster, norms: Norms) -> list[Check]:
    """Over all rows of the day: what the cluster's file allows, and no sudden rise over the days before."""
    checks = []
    for name, most in cluster.quality.null_share_at_most.items():
        column = f"{name.removesuffix('_time')}_s" if name.endswith("_time") else name
        checks.append(_not_null(f"{name}_null_share", "stop", column, most, f"{name} null in at most {most:.0%} (cluster file)"))
    if not norms.is_usable:
        return [*checks, _not_null("runtime_s_some", "stop", "runtime_s", 0.99, "a runtime for at least 1 % of the jobs")]
    for name, usual in norms.null_share.items():
        for severity, rise in (("stop", 0.5), ("warn", 0.2)):
            if usual + rise < 1:
                text = f"{name} null in at most {usual + rise:.0%}; the days before: {usual:.0%}"
                checks.append(_not_null(f"{name}_null_rise_{severity}", severity, name, usual + rise, text))  # type: ignore[arg-type]
    return checks


def _between(
    name: str, severity: Severity, column: str, low: float | None, high: float | None, expected: str, mostly: float = 1.0
) -> Check:
    arguments = {"column": column, "min_value": low, "max_value": high, "mostly": mostly}
    return Check(name, severity, "ExpectColumnValuesToBeBetween", arguments, expected)


def _not_null(name: str, severity: Severity, column: str, most: float, expected: str) -> Check:
    return Check(name, severity, "ExpectColumnValuesToNotBeNull", {"column": column, "mostly": round(1 - most, 6)}, expected)


def _rows(name: str, severity: Severity, low: int | None, high: int | None, expected: str) -> Check:
    return Check(name, severity, "ExpectTableRowCountToBeBetween", {"min_value": low, "max_value": high}, expected)


def _label_agrees(jobs: pa.Table) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """event or censored needs a runtime, excluded has none; a state that is cut from outside is no event; OTHER may be any."""
    usable = pc.invert(pc.equal(jobs["label"], "excluded"))
    has_runtime = pc.is_valid(jobs["runtime_s"])
    cut = pc.is_in(jobs["state"], pa.array([state for state, role in STATES.items() if role != "event" and state != OTHER]))
    wrong_event = pc.and_(pc.equal(jobs["label"], "event"), cut)
    agrees = pc.and_(pc.equal(usable, has_runtime), pc.invert(wrong_event))
    return pc.fill_null(agrees, False).to_numpy()  # type: ignore[no-any-return]


def _floats(column: pa.ChunkedArray) -> np.ndarray[Any, np.dtype[np.float64]]:
    return pc.fill_null(column.cast(pa.float64(), safe=False), np.nan).to_numpy()  # type: ignore[no-any-return]


def _codes(column: pa.ChunkedArray) -> np.ndarray[Any, np.dtype[np.int64]]:
    return column.combine_chunks().dictionary_encode().indices.to_numpy().astype(np.int64)  # type: ignore[no-any-return]


def _plain(column: pa.ChunkedArray) -> np.ndarray[Any, np.dtype[np.object_]]:
    """Text cut to 80 characters without any that a page or a spreadsheet could take for more than text."""
    cut = pc.utf8_slice_codeunits(column, 0, 80)
    return pc.replace_substring_regex(cut, r"[^\w@:./+ \-\[\]]", "?").to_numpy()  # type: ignore[no-any-return]


def _share(mask: pa.ChunkedArray) -> float:
    return pc.mean(mask.cast(pa.float64())).as_py() or 0.0


def _repeated_share(ids: pa.ChunkedArray) -> float:
    return 1 - pc.count_distinct(ids).as_py() / len(ids) if len(ids) else 0.0


def _new_share(column: pa.ChunkedArray, known: frozenset[str]) -> float:
    """Share of all rows whose value is known and was not seen before; 0 where nothing of the kind was."""
    if not known:
        return 0.0
    fresh = pc.invert(pc.is_in(column, pa.array(sorted(known))))
    return _share(pc.and_(pc.invert(is_null(column)), fresh))
