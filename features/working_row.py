"""The working row of the state face, and where in it the columns that a model reads lie.

In it stand a job's own features and the levels of its slots; then of each level what is ready in its key's slot of the store, and how
long ago its times are (in the order of the store); then of all levels the burst and the mean elapsed time; and last a NaN. A slot is one
of the levels, another one for each job, so its columns are not copied: their places are those of the level.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from runcast.features.catalog import CATEGORIES, NAMES, OWN_COUNT
from runcast.features.levels import LEVELS, SIBLING_STATS, SLOT_STATS, SLOTS
from runcast.features.slots import COLUMN, READY, TIMES

Places = NDArray[np.intp]

AGES = ("age_s", "fresh_age_s", "since_submit_s", "since_third_s", "running_latest_s")
READY_AT = OWN_COUNT + len(SLOTS)
AGES_AT = READY_AT + len(LEVELS) * len(READY)
BURST_AT = AGES_AT + len(LEVELS) * TIMES
MEAN_AT = BURST_AT + len(LEVELS)
NOTHING = MEAN_AT + len(LEVELS)  # a cell that is always NaN
WIDTH = NOTHING + 1

#: Stands for the level of a slot that a job has not: the one after the last.
NO_LEVEL = len(LEVELS)

CODE = "code_"  # begins the name of a category's column


class WorkingPlan:
    """Where `columns` lie: features, and of categories the codes of their texts. Made once, when a model is loaded.

    `codes` are (position, category, code by text); an unknown column raises ValueError.
    """

    def __init__(self, columns: Sequence[str], codes: Mapping[str, Mapping[str, int]] | None = None) -> None:
        known = codes or {}
        self.codes = [
            (at, name[len(CODE) :], known[name[len(CODE) :]]) for at, name in enumerate(columns) if _is_code(name, known)
        ]
        self._places = np.array([NOTHING if _is_code(name, known) else _fixed_place(name) for name in columns], np.intp)
        self._of_slots: list[tuple[Places, list[Places]]] = []
        for slot in SLOTS:
            stats = {f"{stat}_by_{slot}": stat for stat in SLOT_STATS}
            at = [place for place, name in enumerate(columns) if name in stats]
            by_level = [
                np.array([_place_in_slot(level, stats[columns[place]]) for place in at], np.intp) for level in range(NO_LEVEL + 1)
            ]
            self._of_slots.append((np.array(at, np.intp), by_level))
        self._levels = [-1] * len(SLOTS)

    def places(self, levels: Sequence[int]) -> Places:
        """Return where the columns of a job lie whose slots are these levels; the array is valid until the next call."""
        for step, level in enumerate(levels):
            if level != self._levels[step]:
                at, by_level = self._of_slots[step]
                self._places[at] = by_level[level]
                self._levels[step] = level
        return self._places


def _is_code(name: str, codes: Mapping[str, object]) -> bool:
    return name.startswith(CODE) and name[len(CODE) :] in codes


def _place(level: int, stat: str) -> int:
    if stat in AGES:
        return AGES_AT + level * TIMES + AGES.index(stat)
    if stat in ("burst_n", "running_mean_s"):
        return (BURST_AT if stat == "burst_n" else MEAN_AT) + level
    return READY_AT + level * len(READY) + COLUMN[stat]


def _place_in_slot(level: int, stat: str) -> int:
    """Return where a slot's statistic lies; a level without siblings has none of them as a slot either."""
    if level == NO_LEVEL or (stat in SIBLING_STATS and not LEVELS[level].has_siblings):
        return NOTHING
    return _place(level, stat)


def _fixed_places() -> dict[str, int]:
    """Return where each feature of the catalog lies, in its order; those of slots nowhere."""
    places = list(range(OWN_COUNT))
    for at in range(len(SLOTS)):
        places += [OWN_COUNT + at, *(NOTHING for _ in SLOT_STATS)]
    places += [_place(at, stat) for at, level in enumerate(LEVELS) for stat in level.stats]
    return dict(zip(NAMES, places, strict=True))


_FIXED_PLACES = _fixed_places()


def _fixed_place(name: str) -> int:
    if name not in _FIXED_PLACES:
        raise ValueError(f"{name!r} is neither a feature nor a category's code ({', '.join(CATEGORIES)})")
    return _FIXED_PLACES[name]
