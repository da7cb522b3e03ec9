"""Small made-up training sets with the columns every predictor reads."""

from collections.abc import Callable

import numpy as np
import pytest

from runcast.training.candidates import READS
from runcast.training.forecast import Floats, Inputs

NAMES = (
    "time_limit_s", "last_two_mean_s_by_user", "nearest_median_s", "nearest_n", "nearest_spread_log", "hour", "user",
    *(name for name in READS if name != "time_limit_s"), "median_7_s_by_user", "log_mean_by_user",
)  # fmt: skip

Jobs = tuple[Inputs, Floats]


@pytest.fixture
def make_jobs() -> Callable[..., Jobs]:
    """Return a maker of `jobs` rows: runtimes follow the user (0..9) and the hour, a tenth of every feature is unknown.

    What slots and the user's level tell in seconds are earlier runs of the user, all else of them small numbers.
    """

    def make(jobs: int, seed: int = 3, unknown_share: float = 0.1) -> Jobs:
        rng = np.random.default_rng(seed)
        user, hour = rng.integers(0, 10, jobs), rng.integers(0, 24, jobs)
        typical_s = 60.0 * 2.0**user
        runtime_s = typical_s * np.exp(rng.normal(0, 0.3 + 0.05 * user)) * np.where(hour < 6, 2.0, 1.0)
        known = {
            "time_limit_s": np.full(jobs, 86_400.0),
            "last_two_mean_s_by_user": typical_s * np.exp(rng.normal(0, 0.4, jobs)),
            "nearest_median_s": typical_s * np.exp(rng.normal(0, 0.2, jobs)),
            "nearest_n": rng.integers(0, 8, jobs),
            "nearest_spread_log": np.abs(rng.normal(0.3, 0.1, jobs)),
            "hour": hour,
            "user": user,
        }
        for name in NAMES[len(known) :]:
            is_run = name.startswith(("last_", "fresh_s", "median_7_s", "mode_7_s", "running_")) and "_s_by_" in name
            known[name] = typical_s * np.exp(rng.normal(0, 0.4, jobs)) if is_run else rng.integers(0, 8, jobs)
        known["log_mean_by_user"] = np.log(typical_s) + rng.normal(0, 0.2, jobs)
        values = np.column_stack([known[name] for name in NAMES]).astype(np.float32)
        values[rng.random(values.shape) < unknown_share] = np.nan
        return Inputs(NAMES, values, np.full(jobs, np.nan)), runtime_s

    return make
