"""What a night's jobs must look like: two suites of checks, made from columns.py, the cluster's ranges and the weeks before.

`jobs` looks at each job that ended on the day, `night` at one row of numbers that sum the day up. A check stops (nothing is
trained, the champion stays) or warns. Nearly every limit is relative to the 28 days before (quality_norms.py): what has always
been odd about a log does not stop it. This module knows nothing of Great Expectations beyond the names of its expectations; quality.py
runs them.

The frames hold numbers, states, labels and job keys only. User, job and path names are reduced to "known or not" before any check
sees them, so that no result and no page can show them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from runcast.data.cluster import Cluster
from runcast.data.columns import COLUMNS, LABELS
from runcast.data.quality_norms import (
    EXPECTED,
    MIN_NORM_DAYS,
    MIN_SHARE_ROWS,
    RENAMED,
    SIZES,
    Day,
    Norms,
    foreign_columns,
    is_null,
    new_share,
    renamed_share,
    zone_evidence,
)
from runcast.data.quality_units import LITTLE, MOST_GPUS_BY_NODE, MOST_MIB_BY_NODE, MUCH, Units
from runcast.data.states import OTHER, STATES

Severity = Literal["stop", "warn"]

_SIZE = "size"  # jobs of another size may differ in all of their counts
_SILENT_H = 8.0  # any log may be silent for so long
_IDS_LEFT = 0.6  # of the least share of ids in a row: half the rows, left out at random, leave half of it
_SELDOM = 0.05  # what so few give may well be absent on a day
_YEAR_S = 366 * 86_400.0
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


def night_frame(day: Day, norms: Norms, doubled_keys: int, refused_rows: int, units: Units) -> pd.DataFrame:
    """One row of numbers about the day; null where there is too little to tell."""
    lag_h, gain, _ = zone_evidence(day, norms)
    enough = day.rows >= MIN_SHARE_ROWS
    values = {
        "doubled_keys": doubled_keys,
        "refused_rows": refused_rows,
        "consecutive_id_share": day.consecutive_id_share,
        "repeated_id_share": day.repeated_id_share,
        "paired_share": day.paired_share,
        "silent_h": day.silent_h,
        "silent_end_h": day.silent_end_h,
        "foreign_columns": len({_SIZE if name in SIZES else name for name in foreign_columns(day, norms)}),
        "hour_lag_gain": gain,
        "hour_lag_h": lag_h,
        "limit_use": units.limit_use,
        "mib_by_node": units.mib_by_node,
        "gpus_by_node": units.gpus_by_node,
        "new_queue_share": new_share(day, norms, "queue") if enough else np.nan,
        "new_user_share": new_share(day, norms, "user") if enough else np.nan,
        **{f"known_{name}_share": day.known.get(name, np.nan) for name in EXPECTED},
        **{f"renamed_{name}_share": renamed_share(day, norms, name) if enough else np.nan for name in RENAMED},
    }
    return pd.DataFrame({name: [float(value)] for name, value in values.items()})


def jobs_suite(cluster: Cluster, day: Day, norms: Norms, frame: pd.DataFrame) -> list[Check]:
    """Checks of each job of the day, whose frame this is; what most jobs must be is counted over all of them."""
    checks = [
        *_row_counts(cluster, day, norms), *_identity(), *_states(day, norms), *_times(), *_ranges(), *_null_shares(cluster, norms),
    ]  # fmt: skip
    return [_over_all_rows(check, frame) for check in checks]


def _over_all_rows(check: Check, frame: pd.DataFrame) -> Check:
    """The check with its share of all rows; Great Expectations counts it over those whose value is known, which may be a handful."""
    columns = [check.arguments[name] for name in ("column", "column_A", "column_B") if name in check.arguments]
    mostly = check.arguments.get("mostly", 1.0)
    if mostly == 1.0 or check.expectation == "ExpectColumnValuesToNotBeNull":
        return check
    known = int(frame[columns].notna().all(axis=1).sum())
    share = max(0.0, 1 - (1 - mostly) * len(frame) / known) if known else mostly
    return replace(check, arguments={**check.arguments, "mostly": share})


def night_suite(cluster: Cluster, day: Day, norms: Norms) -> list[Check]:
    """Checks of the day's summary; those that compare with the days before only where these say something."""
    checks = [
        *_units(),
        _between(
            "job_once", "stop", "doubled_keys", None, 0, "every job_key once among the days of the window and the open jobs"
        ),
    ]
    if norms.is_usable:
        checks += [
            _refused_rows(norms),
            *_missing_rows(cluster, day, norms),
            *_repeated_rows(norms),
            *_columns(day, norms),
            *_lost_columns(day, norms),
            *_clock(day, norms),
            *_queues(),
        ]
    return checks


def _units() -> list[Check]:
    """Whatever the days before were: a unit that was wrong from the first day on is wrong on all of them."""
    return [
        _between("limit_unit", "stop", "limit_use", LITTLE, MUCH, "jobs that time out, or run longest, end near their limit"),
        _between("memory_unit", "stop", "mib_by_node", None, MOST_MIB_BY_NODE, "as much memory as a node can have"),
        _between("gpu_unit", "stop", "gpus_by_node", None, MOST_GPUS_BY_NODE, "as many GPUs as a node can have"),
    ]


def _refused_rows(norms: Norms) -> Check:
    """A day in whose place the log holds records that cannot be read; the limit of a load is a share of all the log."""
    usual, _ = norms.usual_rows(norms.days[-1].is_weekend)
    before = max(norms.refused[:-1], default=0)  # those of the last day may be tonight's
    most = max(50, 5 * before, int(0.3 * usual))
    text = f"at most {most} records refused beside the jobs of the day and the one before; at most {before} on a day before that"
    return _between("refused_rows", "stop", "refused_rows", None, most, f"{text} (see `runcast rejects`)")


def _missing_rows(cluster: Cluster, day: Day, norms: Norms) -> list[Check]:
    """Gaps in ids that are else in a row, and hours of silence while jobs run: rows that are not there, whatever the load of the day."""
    least, checks = norms.least_consecutive_id_share, []
    if not np.isnan(least):
        text = f"job ids in a row as before (one follows the other in at least {least:.0%} of cases on each of the days before)"
        checks.append(_between("id_gaps", "stop", "consecutive_id_share", _IDS_LEFT * least, None, text))
    severity: Severity = "stop" if cluster.schedule and not norms.is_down(day) else "warn"  # a finished log ends within a day
    before = norms.longest_silent_end_h
    longest = max(_SILENT_H, 1.5 * before)
    runs = "" if np.isnan(day.running) else f", while {day.running:g} jobs run (with few, the machines may be down)"
    text = (
        f"at most {longest:.3g} h at the end of the day in which no job comes, starts or ends{runs}; before, up to {before:.3g} h"
    )
    checks.append(_between("cut_short", severity, "silent_end_h", None, longest, text))
    before = norms.most("silent_h")
    longest = max(_SILENT_H, 1.5 * before)
    text = f"at most {longest:.3g} h in which no job comes, starts or ends; before, up to {before:.3g} h"
    checks.append(_between("silence", "warn", "silent_h", None, longest, text))
    return checks


def _repeated_rows(norms: Norms) -> list[Check]:
    ids, pairs = norms.most("repeated_id_share"), norms.most("paired_share")
    return [
        _between("doubled_ids", "stop", "repeated_id_share", None, ids + 0.3, f"job ids that repeat as before (at most {ids:.0%})"),
        _between(
            "doubled_jobs", "stop", "paired_share", None, (1 + pairs) / 2,
            f"jobs that come once, or differ in user, queue, size or time, as before (up to {pairs:.0%} came an even number of times)",
        ),
    ]  # fmt: skip


def _columns(day: Day, norms: Norms) -> list[Check]:
    """One column of other values may be a change of the work; two at once are columns that moved."""
    named = ", ".join(foreign_columns(day, norms)) or "none"
    text = f"values like those of the days before in every column (now foreign: {named})"
    return [
        _between("columns_in_place", "stop", "foreign_columns", None, 1, text),
        _between("columns_alike", "warn", "foreign_columns", None, 0, text),
        _between("few_new_users", "warn", "new_user_share", None, 0.5, "mostly users that were seen in the days before"),
    ]


def _clock(day: Day, norms: Norms) -> list[Check]:
    """Whether the day's hours fit better where the clock is moved; the gain in log likelihood says how much."""
    lag_h, _, before = zone_evidence(day, norms)
    text = (
        f"submissions at the hours of the days before (these fit best moved by {lag_h:+d} h; the gain was at most {before:.3g})"
    )
    return [
        _between("clock_moved", "stop", "hour_lag_gain", None, max(40.0, 3 * before), text),
        _between("clock_doubtful", "warn", "hour_lag_gain", None, max(15.0, 2 * before), text),
    ]


def _queues() -> list[Check]:
    text = "queues that were seen in the days before"
    return [
        _between("known_queues", "stop", "new_queue_share", None, 0.5, text),
        _between("few_new_queues", "warn", "new_queue_share", None, 0.1, text),
        *(
            _between(
                f"{name}_renamed",
                "stop",
                f"renamed_{name}_share",
                None,
                0.1,
                f"no {name} that goes as another comes in its place",
            )
            for name in RENAMED
        ),
    ]


def _states(day: Day, norms: Norms) -> list[Check]:
    """A word that states.py does not know is OTHER; a few are seen, many may be anything. Of a day with few jobs none stops."""
    if not norms.is_usable:
        return []
    usual = norms.most("other_share")
    arguments = {"column": "state", "value_set": [OTHER]}
    expectation, text = "ExpectColumnValuesToNotBeInSet", f"states that states.py knows, as before (but for at most {usual:.0%})"
    severity: Severity = "stop" if day.rows >= MIN_SHARE_ROWS else "warn"
    return [
        Check("new_state", severity, expectation, {**arguments, "mostly": 1 - min(1.0, max(0.2, 2 * usual))}, text),
        Check("new_state_seen", "warn", expectation, {**arguments, "mostly": max(0.0, 1 - usual)}, text),
    ]


def _row_counts(cluster: Cluster, day: Day, norms: Norms) -> list[Check]:
    """Too few rows stop where nothing explains them: machines that stood still at the end of the day or of the one before, or ids in a
    row, which say that the day was quiet.

    Hours of silence lower what is expected. A finished log (no schedule) only warns: its last day is seldom whole, and waiting would
    not mend it.
    """
    was_down = any(norms.is_down(one) for one in (*norms.days[-1:], day))
    severity: Severity = "stop" if cluster.schedule and not was_down else "warn"
    if (
        len(norms.days) < MIN_NORM_DAYS or not norms.rows
    ):  # a log that told nothing for weeks is no quiet cluster's: its export has died
        low = cluster.quality.min_rows
        return [_rows("row_count_minimum", severity, low, None, f"at least {low} jobs that ended on the day")]
    usual, fall = norms.usual_rows(day.is_weekend)
    fall = cluster.quality.row_count_factor or fall
    rise = cluster.quality.row_count_factor or max(5.0, fall)
    least = min(cluster.quality.min_rows, int(usual))
    checks = [_rows("row_count_minimum", severity, least, None, f"at least {least} jobs that ended on the day")]
    if usual:
        heard = norms.heard_share(day)
        low, high = int(usual / fall * heard), int(np.ceil(usual * rise))
        kind = "weekends" if day.is_weekend else "working days"
        why = f"of the {len(norms.days)} days before, whose {kind} have {usual:g} in the median"
        silent = f", less for {day.silent_h:.3g} h of silence" if heard < 1 else ""
        severity = "warn" if day.consecutive_id_share >= _IDS_LEFT * norms.least_consecutive_id_share else severity
        checks.append(
            _rows("row_count_low", severity, low, None, f"at least {low} jobs, a factor {fall:.3g} below those {why}{silent}")
        )
        checks.append(_rows("row_count_high", "warn", None, high, f"at most {high} jobs, a factor {rise:.3g} above those {why}"))
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
            "limit_respected",
            "stop",
            "limit_overrun",
            None,
            2,
            "runtimes within twice their hard limit (half; where most run longer, the limit may be read in a wrong unit)",
            mostly=0.5,
        ),
        _between(
            "limit_respected_mostly",
            "warn",
            "limit_overrun",
            None,
            1.2,
            "runtimes within 1.2 times their hard limit (95 %)",
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
    """Over all rows of the day: what the cluster's file allows; and that there is anything to learn where no days before can tell."""
    checks = []
    for name, most in cluster.quality.null_share_at_most.items():
        column = f"{name.removesuffix('_time')}_s" if name.endswith("_time") else name
        checks.append(_not_null(f"{name}_null_share", "stop", column, most, f"{name} null in at most {most:.0%} (cluster file)"))
    if not norms.is_usable:
        checks.append(_not_null("runtime_s_some", "stop", "runtime_s", 0.99, "a runtime for at least 1 % of the jobs"))
    return checks


def _lost_columns(day: Day, norms: Norms) -> list[Check]:
    """Columns that users give less often than on any of the days before. Of a day with few jobs none stops."""
    checks = []
    for name in EXPECTED:
        least, lost = norms.known_shares(name)
        for severity, low in (("stop", lost), ("warn", least - 0.2)):
            if low > _SELDOM and (severity == "warn" or day.rows >= MIN_SHARE_ROWS):
                text = f"{name} known for at least {low:.0%} of a user's jobs in the mean; on each of the days before at least {least:.0%}"
                checks.append(_between(f"{name}_null_rise_{severity}", severity, f"known_{name}_share", low, None, text))  # type: ignore[arg-type]
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
