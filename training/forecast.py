"""What a predictor is asked and what it answers, for any number of jobs at once. Numpy only: a scheduler host uses it.

All durations are seconds. A forecast is advice: it orders and plans, it never becomes the limit that kills a job.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from runcast.training.errors import ModelFileError

Floats = NDArray[np.float64]

#: No forecast is below this: schedulers count in seconds, and ratios to 0 mean nothing.
FLOOR_S = 1.0


@dataclass(frozen=True)
class Inputs:
    """One row per job: `values` float32 (n, k) in the order of `names`, NaN = unknown; `hard_limit_s` float64 (n,).

    `hard_limit_s` holds a limit only where the job is killed at it (time_limit_kind "hard"), NaN elsewhere. `owner` is whose job it is
    (conformal.owner_of), where fitting needs it: no forecast depends on it but by p90's margin.
    """

    names: tuple[str, ...]
    values: NDArray[np.float32]
    hard_limit_s: Floats
    owner: NDArray[np.object_] | None = None

    def __post_init__(self) -> None:
        if self.values.ndim != 2 or self.values.shape != (len(self.hard_limit_s), len(self.names)):
            raise ValueError(
                f"expected values of shape (jobs, features) = ({len(self.hard_limit_s)}, {len(self.names)}), "
                f"found {self.values.shape}"
            )

    def __len__(self) -> int:
        return len(self.values)

    def column(self, name: str) -> Floats:
        """Return one feature as float64 (n,); raises ModelFileError where the features do not hold it."""
        if name not in self.names:
            raise ModelFileError(f"feature {name!r} is needed and is not among the {len(self.names)} given; rebuild the features")
        return self.values[:, self.names.index(name)].astype(np.float64)

    def select(self, names: Sequence[str]) -> "Inputs":
        """Return the features called `names` in that order; no copy where they already are."""
        if tuple(names) == self.names:
            return self
        missing = [name for name in names if name not in self.names]
        if missing:
            raise ModelFileError(
                f"the model was trained on features that are not given: {', '.join(missing[:5])}"
                f"{' …' if len(missing) > 5 else ''}; rebuild the features or retrain"
            )
        where = [self.names.index(name) for name in names]
        return Inputs(tuple(names), np.ascontiguousarray(self.values[:, where]), self.hard_limit_s, self.owner)

    def take(self, rows: NDArray[np.intp] | slice) -> "Inputs":
        return Inputs(self.names, self.values[rows], self.hard_limit_s[rows], None if self.owner is None else self.owner[rows])


@dataclass(frozen=True)
class Forecast:
    """One row per job: 1 <= p50_s <= p90_s <= the hard limit; confidence in [0, 1]; source names what answered.

    `point_s` is the single number meant to be right (within 25 %); `p50_s` orders, `p90_s` plans; the point of a job that may be very
    short or very long may lie beyond either. `confidence` rises with the
    expected correctness and is comparable within one predictor, not between predictors.
    """

    p50_s: Floats
    p90_s: Floats
    point_s: Floats
    confidence: Floats
    source: NDArray[np.str_]

    def __len__(self) -> int:
        return len(self.p50_s)


def joined(parts: Sequence[Forecast]) -> Forecast:
    """Return the forecasts one after the other."""
    return Forecast(**{one.name: np.concatenate([getattr(part, one.name) for part in parts]) for one in fields(Forecast)})


def hard_limit_s(time_limit_s: NDArray[Any], is_limit_hard: NDArray[Any]) -> Floats:
    """Return the limits that kill, NaN elsewhere, from the features of these names."""
    return np.where(is_limit_hard == 1, time_limit_s, np.nan).astype(np.float64)


def clip(
    p50_s: Floats,
    p90_s: Floats,
    confidence: Floats,
    source: NDArray[np.str_],
    hard_limit_s: Floats,
    point_s: Floats | None = None,
) -> Forecast:
    """Return the forecast under the rules every predictor obeys: at least 1 s, p50 <= p90, nothing above a hard limit.

    `point_s` defaults to p50. A limit below 1 s or NaN caps nothing. Raises ModelFileError where a value is not finite: a
    predictor must always have an answer.
    """
    for name, given in (
        ("p50_s", p50_s),
        ("p90_s", p90_s),
        ("confidence", confidence),
        ("point_s", p50_s if point_s is None else point_s),
    ):
        if not np.isfinite(given).all():
            raise ModelFileError(
                f"{name} is not finite for {int((~np.isfinite(given)).sum())} of {len(given)} jobs; retrain the model"
            )
    cap = np.where(hard_limit_s >= FLOOR_S, hard_limit_s, np.inf)  # NaN compares false
    low = np.minimum(np.maximum(p50_s, FLOOR_S), cap)
    high = np.minimum(np.maximum(p90_s, np.maximum(p50_s, FLOOR_S)), cap)
    point = low if point_s is None else np.minimum(np.maximum(point_s, FLOOR_S), cap)
    return Forecast(low, high, point, np.clip(confidence, 0.0, 1.0), source)
