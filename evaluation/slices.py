"""Which test jobs a number is about. Every slice but `long` and `state:` is known at submission.

`long` and the states are chosen by how the job turned out, so they favour predictors that err to that side: they say where errors
come from, not how good a forecast is.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from runcast.features.levels import NEAREST
from runcast.features.matrix import Matrix

#: Finished runs of its nearest key from which a job counts as recurring; MLaaS-in-the-Wild: 65 % of tasks recur at least 5 times.
RECURRING_RUNS = 5
#: Levels whose key is nobody's: their runs say nothing of this job's own past.
_NOBODYS = tuple(NEAREST.index(level) for level in ("queue", "size_limit", "size", "everything"))
#: Groups that get a slice of their own, by number of test jobs.
TOP_GROUPS = 5


@dataclass(frozen=True)
class Slice:
    """Test jobs by a property: `rows` is a mask over the test jobs."""

    name: str
    meaning: str
    rows: NDArray[np.bool_]


def make_slices(matrix: Matrix, rows: NDArray[np.intp], long_s: float) -> tuple[Slice, ...]:
    """Return the slices of the test jobs `rows`; `long_s` is the runtime from which a job is long."""
    test = matrix.take(rows)
    runs, level = test.column("nearest_n"), test.column("nearest_level")
    found = [
        Slice("all", "every test job", np.ones(len(rows), bool)),
        Slice(
            "recurring",
            f"at least {RECURRING_RUNS} finished runs of its nearest key (a user's or a group's) at submission",
            (runs >= RECURRING_RUNS) & ~np.isin(level, _NOBODYS),
        ),
        Slice("new_user", "no finished run of its user at submission", _is_new_user(test)),
        Slice(
            "long",
            f"ran {duration(long_s)} or longer, as the longest tenth of the jobs learned from did",
            test.ended.runtime_s >= long_s,
        ),
        Slice("multi_node", "asked for more than one node", test.column("node_count") > 1),
    ]
    for state in _most_frequent(test.ended.state, len(np.unique(test.ended.state))):
        found.append(Slice(f"state:{state}", f"ended as {state}", test.ended.state == state))
    groups = test.categories.get("group")
    if groups is not None:
        names = np.array([*groups.vocabulary, ""], dtype=object)[groups.codes]
        for group in _most_frequent(names[groups.codes >= 0], TOP_GROUPS):
            found.append(Slice(f"group:{group}", f"of group {group}", (names == group) & (groups.codes >= 0)))
    return tuple(found)


def duration(seconds: float) -> str:
    """Return a duration in the largest unit that leaves at least 1 of it.

    >>> duration(45), duration(5_400), duration(200_000)
    ('45 s', '1.5 h', '2.31 d')
    """
    for unit_s, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= unit_s:
            return f"{seconds / unit_s:.3g} {unit}" if seconds / unit_s < 10 else f"{seconds / unit_s:.0f} {unit}"
    return f"{seconds:.0f} s"


def _is_new_user(test: Matrix) -> NDArray[np.bool_]:
    """Tell whose user is known and has no finished run; no job's is where the log names no users."""
    users = test.categories.get("user")
    if users is None or "runs_by_user" not in test.names:
        return np.zeros(len(test), bool)
    return (users.codes >= 0) & ~(test.column("runs_by_user") >= 1)


def _most_frequent(values: NDArray[np.object_] | NDArray[np.str_], count: int) -> list[str]:
    """Return up to `count` values, the most frequent first, ties by name."""
    names, counts = np.unique(values.astype(str), return_counts=True)
    return [str(names[one]) for one in np.lexsort((names, -counts))[:count]]
