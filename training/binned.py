"""Some rows of a LightGBM dataset as a training set, in the bins of the whole."""

import lightgbm
import numpy as np
from numpy.typing import NDArray


def rows_of(whole: lightgbm.Dataset, rows: NDArray[np.intp]) -> lightgbm.Dataset:
    """Return `rows` of a dataset that kept its raw data, with their labels; trees are those that `Dataset.subset` would give.

    `Dataset.subset` itself ends the process on some data (LightGBM 4.7.0, sparse features in one bundle), for the same rows always.
    """
    whole.construct()
    return lightgbm.Dataset(
        whole.get_data()[rows],
        whole.get_label()[rows],
        reference=whole,
        feature_name=whole.get_feature_name(),
        params=whole.get_params(),
    )
