"""What happened to the jobs: the part of the canonical record that training learns from and evaluation judges by.

The target is how long a job held its nodes, whatever ended it (see DECISIONS.md): a job cut from outside (censored) counts with
the time it held them.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from runcast.training.forecast import Floats

#: Canonical columns read here.
COLUMNS: tuple[str, ...] = ("submit_time", "end_time", "runtime_s", "label", "time_limit_s", "time_limit_kind")

_OPEN_US = np.iinfo(np.int64).max


@dataclass(frozen=True)
class Outcomes:
    """One row per job. Times are microseconds UTC; `end_us` is the largest int64 while open; `runtime_s` NaN where unusable."""

    submit_us: NDArray[np.int64]
    end_us: NDArray[np.int64]
    runtime_s: Floats
    censored: NDArray[np.bool_]
    hard_limit_s: Floats

    def __len__(self) -> int:
        return len(self.submit_us)

    def take(self, rows: NDArray[np.intp]) -> "Outcomes":
        return Outcomes(*(getattr(self, name)[rows] for name in self.__dataclass_fields__))

    def is_usable(self) -> NDArray[np.bool_]:
        """Tell which jobs can be learned from or judged by: ended, with a runtime above 0."""
        return np.logical_and(self.end_us != _OPEN_US, self.runtime_s > 0)

    def ended_before(self, cut_us: int, window_days: float | None = None) -> NDArray[np.intp]:
        """Return the usable jobs with end_time < cut (strictly), earliest end first, ties in table order.

        `window_days` keeps those that ended within that many days before the cut.
        """
        rows = np.flatnonzero(self.is_usable() & (self.end_us < cut_us))
        if window_days is not None:
            rows = rows[self.end_us[rows] >= cut_us - int(window_days * 86_400e6)]
        return rows[np.argsort(self.end_us[rows], kind="stable")]


def read_outcomes(jobs: pd.DataFrame) -> Outcomes:
    """Return the outcomes of canonical `jobs`, one per row, same order."""
    limit_s = jobs["time_limit_s"].to_numpy(np.float64, na_value=np.nan)
    return Outcomes(
        submit_us=to_us(jobs["submit_time"]),
        end_us=to_us(jobs["end_time"]),
        runtime_s=jobs["runtime_s"].to_numpy(np.float64, na_value=np.nan),
        censored=(jobs["label"] == "censored").to_numpy(bool),
        hard_limit_s=np.where((jobs["time_limit_kind"] == "hard").to_numpy(bool), limit_s, np.nan),
    )


def to_us(times: pd.Series) -> NDArray[np.int64]:
    """Return microseconds since 1970 UTC whatever the unit of `times`; the largest int64 for nulls."""
    utc = times.dt.tz_convert(None) if times.dt.tz is not None else times
    whole = utc.astype("datetime64[us]").to_numpy()
    return np.where(np.isnat(whole), _OPEN_US, whole.astype(np.int64))
