"""Which test jobs a number is about. Every slice but `long` and `state:` is known at submission.

`long` and the states are chosen by how the job turned out, so they favour predictors that err to that side: they say where errors
come from, not how good a forecast is. Groups, queues, accounts and users have slices of their own: the largest of each, and those that
a gate of the cluster file names. Names are as the lake holds them: pseudonyms where the cluster file asks for them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from runcast.features.levels import NEAREST
from runcast.features.matrix import Matrix

#: Finished runs of its nearest key from which a job counts as recurring; MLaaS-in-the-Wild: 65 % of tasks recur at least 5 times.
RECURRING_RUNS = 5
#: Levels whose key is nobody's: their runs say nothing of this job's own past.
_NOBODYS = tuple(NEAREST.index(level) for level in ("queue", "size_limit", "size", "everything"))
#: Columns whose values get slices of their own, by number of test jobs the largest LARGEST of each.
NAMED = ("group", "queue", "account", "user")
LARGEST = 5


@dataclass(frozen=True)
class Slice:
    """Test jobs by a property: `rows` is a mask over the test jobs."""

    name: str
    meaning: str
    rows: NDArray[np.bool_]


def make_slices(matrix: Matrix, rows: NDArray[np.intp], long_s: float, gated: Sequence[str] = ()) -> tuple[Slice, ...]:
    """Return the slices of the test jobs `rows`; `long_s` is the runtime from which a job is long, `gated` the rows of the gates."""
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
    for column in NAMED:
        asked_for = [rows.removeprefix(f"{column}:") for rows in gated if rows.startswith(f"{column}:")]
        found += _of_names(test, column, asked_for)
    return tuple(found)


def is_of_somebody(name: str) -> bool:
    """Say whether a slice is that of one queue, account or user; there are many, and they change from night to night."""
    return name.partition(":")[0] in NAMED[1:]


def _of_names(test: Matrix, column: str, asked_for: Sequence[str]) -> Iterator[Slice]:
    """Yield the slices of the most frequent values of a text column, and of those asked for that test jobs have."""
    category = test.categories.get(column)
    if category is None:
        return
    names = np.array([*category.vocabulary, ""], dtype=object)[category.codes]
    is_named = category.codes >= 0
    largest = _most_frequent(names[is_named], LARGEST)
    present = set(names[is_named])
    for name in dict.fromkeys([*largest, *(one for one in asked_for if one in present)]):
        yield Slice(f"{column}:{name}", f"of {column} {name}", (names == name) & is_named)


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
