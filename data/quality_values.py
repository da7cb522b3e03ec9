"""What a failed check found, in the values themselves: "mem_mib: 2048 to 16384 before, 10 today"; "group users gone, root new".

For the night's record and the terminal; not for Great Expectations' pages, which name nothing. Users are counted and never named; queues,
groups and accounts, which administrators name, are, cut and without what a terminal or a page could act on.
"""

import re
from collections.abc import Mapping

import numpy as np

from runcast.data.quality_norms import AMOUNTS, EXPECTED, RENAMED, Day, Norms, foreign_columns
from runcast.data.quality_units import LITTLE, MOST_GPUS_BY_NODE, MOST_MIB_BY_NODE, MUCH, Units, memory_unit, time_unit

_SHOWN = 3  # words of a kind
_MOST_KIB_BY_NODE = 2.0**31  # 2 TiB; beyond are bytes


def values_found(day: Day, norms: Norms, units: Units) -> dict[str, str]:
    """Return what was found beside the numbers, by the name of the check."""
    foreign = "; ".join(_column(day, norms, name) for name in foreign_columns(day, norms))
    queues = _words(day, norms, "queue")
    found = {"columns_in_place": foreign, "columns_alike": foreign, "known_queues": queues, "few_new_queues": queues}
    found |= {f"{name}_renamed": _words(day, norms, name) for name in RENAMED}
    found["few_new_users"] = _new_users(day, norms)
    for name in EXPECTED if norms.is_usable else ():
        text = f"known for {day.known.get(name, np.nan):.0%} of a user's jobs, {norms.known_shares(name)[0]:.0%} or more before"
        found |= {f"{name}_null_rise_{severity}": text for severity in ("stop", "warn")}
    return {check: text for check, text in (found | _units(units)).items() if text}


def _units(units: Units) -> dict[str, str]:
    limit, runtime = time_unit(units.limit_use), time_unit(1 / units.runtime_ratio if units.runtime_ratio > 0 else np.nan)
    memory = "bytes" if units.mib_by_node > _MOST_KIB_BY_NODE else "KiB"
    say = "say so in the cluster file (`unit` of the column, or its format's option)"
    return {
        "limit_unit": f"jobs that end by their limit ran {units.limit_use:.3g} times as long"
        + (f": is time_limit_s in {limit}? Then {say}" if limit and not LITTLE <= units.limit_use <= MUCH else ""),
        "memory_unit": f"{units.mib_by_node:.4g} MiB a node in the median, at most {MOST_MIB_BY_NODE:.4g} can be"
        + f": is mem_mib in {memory}? Then {say}",
        "gpu_unit": f"{units.gpus_by_node:.4g} GPUs a node in the median, at most {MOST_GPUS_BY_NODE:g} can be: is gpu_count in percent "
        f"of a GPU? Then {say}",
        "runtime_is_end_less_start": f"is runtime_s in {runtime}? Then {say}" if runtime else "",
    }


def _column(day: Day, norms: Norms, name: str) -> str:
    if name not in AMOUNTS:
        return (
            _words(day, norms, name)
            if name in RENAMED or name == "queue"
            else f"{name}: {_new_users(day, norms) or 'other words'}"
        )
    before = np.concatenate([other.amounts[name] for other in norms.days if len(other.amounts.get(name, ()))])
    ours = day.amounts[name]
    off_by = float(np.median(before) / np.median(ours)) if np.median(ours) > 0 else np.nan
    unit = memory_unit(off_by) if name == "mem_mib" else time_unit(off_by) if name == "time_limit_s" else ""
    hint = f" (in {unit} since?)" if unit else ""
    return f"{name}: {_span(before)} before, {_span(ours)} today{hint}"


def _span(values: np.ndarray[tuple[int], np.dtype[np.float64]]) -> str:
    low, high = np.quantile(values, [0.05, 0.95], method="nearest")
    return f"{low:g}" if low == high else f"{low:g} to {high:g}"


def _words(day: Day, norms: Norms, column: str) -> str:
    """Return which words of a column are gone and which are new, the most frequent of each; empty where neither are."""
    before, today = norms.counts(column), day.words.get(column, {})
    gone, new = (_first(counts, others) for counts, others in ((before, today), (today, before)))
    said = ", ".join(f"{words} {what}" for words, what in ((gone, "gone"), (new, "new")) if words)
    return f"{column} {said}" if said else ""


def _first(counts: Mapping[str, int], others: Mapping[str, int]) -> str:
    words = sorted((word for word in counts if word not in others), key=lambda word: (-counts[word], word))
    rest = f" and {len(words) - _SHOWN} more" if len(words) > _SHOWN else ""
    return " and ".join(_plain(word) for word in words[:_SHOWN]) + rest if words else ""


def _new_users(day: Day, norms: Norms) -> str:
    known, today = norms.counts("user"), day.words.get("user", {})
    new = [count for user, count in today.items() if user not in known]
    return f"{len(new)} of {len(today)} users new, with {sum(new)} jobs" if new else ""


def _plain(word: str) -> str:
    return re.sub(r"[^\w@:./+ \-]", "?", word[:40])
