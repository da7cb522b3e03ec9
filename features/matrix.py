"""One row per job, as the models read it: numbers, categories, and what became of the job.

Of the numpy level. The features come in catalog order; features of levels that cannot exist in the table (no user, say) are left
out, so a model keeps the names it was trained on and selects by them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

OPEN_US = np.iinfo(np.int64).max  # stands for "has not happened" in times of outcomes


@dataclass(frozen=True)
class Categories:
    """One text column: codes into `vocabulary`, -1 for null."""

    codes: NDArray[np.int32]
    vocabulary: tuple[str, ...]

    def take(self, rows: NDArray[Any]) -> "Categories":
        return Categories(self.codes[rows], self.vocabulary)


@dataclass(frozen=True)
class Ended:
    """What became of each job, known only later: for training and judging, never a feature.

    `start_us` and `end_us` are UTC microseconds, OPEN_US where it has not happened; `runtime_s` is NaN where there is none;
    `label` is the canonical label and `state` the canonical state.
    """

    start_us: NDArray[np.int64]
    end_us: NDArray[np.int64]
    runtime_s: NDArray[np.float64]
    label: NDArray[np.object_]
    state: NDArray[np.object_]

    def take(self, rows: NDArray[Any]) -> "Ended":
        return Ended(self.start_us[rows], self.end_us[rows], self.runtime_s[rows], self.label[rows], self.state[rows])

    @property
    def is_event(self) -> NDArray[np.bool_]:
        """Whether the job ended by itself."""
        return np.asarray(self.label == "event")

    @property
    def is_over(self) -> NDArray[np.bool_]:
        """Whether the job is known to have ended."""
        return np.asarray(self.end_us != OPEN_US)

    @property
    def has_runtime(self) -> NDArray[np.bool_]:
        """Whether the job is a row to train on or to judge by: it ended and ran for longer than 0 s."""
        return np.asarray(self.is_over & (self.runtime_s > 0))


@dataclass(frozen=True)
class Matrix:
    """Features of n jobs: `values` is float32 (n, m), column by column in memory, NaN for null."""

    names: tuple[str, ...]
    values: NDArray[np.float32]
    categories: Mapping[str, Categories]
    job_key: NDArray[np.object_]
    submit_us: NDArray[np.int64]
    ended: Ended

    def __len__(self) -> int:
        return len(self.submit_us)

    def column(self, name: str) -> NDArray[np.float32]:
        """Return one feature of all jobs; raises KeyError with the name where the matrix does not hold it."""
        try:
            return self.values[:, self.names.index(name)]
        except ValueError:
            raise KeyError(f"no feature {name!r} in this matrix of {len(self.names)}") from None

    def take(self, rows: NDArray[Any]) -> "Matrix":
        """Return the matrix of these rows (a mask or indices), in their order."""
        values = np.empty((self.submit_us[rows].shape[0], self.values.shape[1]), np.float32, order="F")
        for column in range(values.shape[1]):
            values[:, column] = self.values[:, column][rows]
        categories = {name: category.take(rows) for name, category in self.categories.items()}
        return Matrix(self.names, values, categories, self.job_key[rows], self.submit_us[rows], self.ended.take(rows))

    def select(self, names: tuple[str, ...]) -> "Matrix":
        """Return the matrix with these features in this order; one it does not hold is all NaN there."""
        values = np.full((len(self), len(names)), np.nan, np.float32, order="F")
        place = {name: at for at, name in enumerate(self.names)}
        for column, name in enumerate(names):
            if name in place:
                values[:, column] = self.values[:, place[name]]
        return Matrix(names, values, self.categories, self.job_key, self.submit_us, self.ended)
