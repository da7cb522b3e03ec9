"""GBDT: LightGBM on ln(runtime), one model for the median and one for the 0.9 quantile, over the same binned data."""

from typing import Any

import lightgbm
import numpy as np

from runcast.data.cluster import GbdtParameters
from runcast.features.catalog import FEATURES
from runcast.training.binned import rows_of
from runcast.training.booster import Booster
from runcast.training.conformal import conformal_factor, split_latest
from runcast.training.errors import ConstantPredictor
from runcast.training.forecast import Floats, Inputs
from runcast.training.scoring import Gbdt

#: A matrix of 200-300 features: with 255 bins, looking for splits costs more than counting rows. 63 bins and a third of the
#: features for each tree take a quarter of the time, and measured 1-4 % less error on the logs tried.
BINS = 63
FEATURE_SHARE = 0.3
_DATES = frozenset(feature.name for feature in FEATURES if feature.family == "date")


def without_dates(inputs: Inputs) -> Inputs:
    """Return all features but dates: in a log of a few months these are a clock, and what it says of the last weeks ends with them.

    Without them the error factor on the stretch before the test jobs fell from 2.94 to 2.83 on Philly, from 4.73 to 4.67 on Venus.
    """
    return inputs.select([name for name in inputs.names if name not in _DATES])


def fit_gbdt(inputs: Inputs, runtime_s: Floats, parameters: GbdtParameters, seed: int, threads: int) -> Gbdt:
    """Fit on ended jobs ordered by end time; raises ConstantPredictor where nothing splits.

    The median learns from all of them. The 0.9 quantile learns from the earlier ones and is corrected on the latest, which it
    has not seen.
    """
    earlier, latest = split_latest(len(runtime_s))
    common = _common(parameters, seed, threads)
    every = lightgbm.Dataset(
        inputs.values, np.log(runtime_s), feature_name=list(inputs.names), params=common, free_raw_data=False
    )
    p50 = lightgbm.train({**common, "objective": "regression_l1"}, every, parameters.trees)
    p90 = lightgbm.train({**common, "objective": "quantile", "alpha": 0.9}, rows_of(every, earlier), parameters.trees)
    if not any(tree["num_leaves"] > 1 for tree in p50.dump_model()["tree_info"]):
        raise ConstantPredictor(
            f"no feature splits the {len(runtime_s)} training jobs: the model would give every job the same forecast"
        )
    latest_p90_s = np.exp(np.asarray(p90.predict(inputs.values[latest], num_threads=threads))) if len(latest) else np.empty(0)
    return Gbdt("gbdt", inputs.names, _plain(p50), _plain(p90), conformal_factor(runtime_s[latest], latest_p90_s))


def _common(parameters: GbdtParameters, seed: int, threads: int) -> dict[str, Any]:
    return {
        "num_leaves": parameters.leaves,
        "learning_rate": parameters.learning_rate,
        "min_data_in_leaf": parameters.min_data_in_leaf,
        "max_bin": BINS,
        "feature_fraction": FEATURE_SHARE,
        "seed": seed,
        "num_threads": threads,
        "deterministic": True,
        "force_col_wise": True,  # the default chooses by a timing test: sums, hence bytes, would depend on the machine's load
        "verbosity": -1,
    }


def _plain(booster: lightgbm.Booster) -> Booster:
    """Return the booster as its text says it is, so that what is judged is what is stored."""
    return Booster(booster.model_to_string())


def fit_median(inputs: Inputs, runtime_s: Floats, parameters: GbdtParameters, seed: int, threads: int) -> Booster:
    """Return the median's model alone, of ln(runtime), on all that is given: what studies of features and windows compare."""
    common = _common(parameters, seed, threads)
    data = lightgbm.Dataset(inputs.values, np.log(runtime_s), feature_name=list(inputs.names), params=common)
    return _plain(lightgbm.train({**common, "objective": "regression_l1"}, data, parameters.trees))
