"""The C API gives the numbers of the Python package, for a table and for one row, and what is not whole is refused."""

import lightgbm
import numpy as np
import pytest

from runcast.training.booster import Booster
from runcast.training.errors import ModelFileError


@pytest.fixture(scope="module")
def trained() -> tuple[lightgbm.Booster, np.ndarray]:
    draw = np.random.default_rng(3)
    values = draw.normal(size=(2000, 12)).astype(np.float32)
    values[draw.random(values.shape) < 0.2] = np.nan
    target = np.nan_to_num(values[:, 0]) * 2 + np.nan_to_num(values[:, 1]) ** 2
    parameters = {"objective": "quantile", "alpha": 0.9, "num_leaves": 31, "verbosity": -1, "num_threads": 1}
    names = [f"feature_{at}" for at in range(12)]
    return lightgbm.train(parameters, lightgbm.Dataset(values, target, feature_name=names), 50), values


def test_answers_are_the_packages_for_a_table_and_for_each_row(trained: tuple[lightgbm.Booster, np.ndarray]) -> None:
    model, values = trained
    booster, expected = Booster(model.model_to_string()), model.predict(values, num_threads=1)
    edge = np.array([[value] * 12 for value in (np.nan, 0, -1, 1e30, -1e30, np.inf)], np.float32)
    assert booster.names == tuple(model.feature_name())
    assert (booster.predict(values) == expected).all()
    assert [booster.predict_one(row) for row in values[:300]] == expected[:300].tolist()
    assert [booster.predict_one(row) for row in edge] == model.predict(edge, num_threads=1).tolist()
    assert booster.predict(values[:0]).shape == (0,)


def test_rows_of_another_width_are_refused(trained: tuple[lightgbm.Booster, np.ndarray]) -> None:
    booster = Booster(trained[0].model_to_string())
    with pytest.raises(ValueError, match="expected rows of 12 features"):
        booster.predict(np.zeros((3, 11), np.float32))
    with pytest.raises(ValueError, match="broadcast"):
        booster.predict_one(np.zeros(11, np.float32))


def test_text_cut_off_anywhere_is_refused(trained: tuple[lightgbm.Booster, np.ndarray]) -> None:
    """The library itself would end the process."""
    text = trained[0].model_to_string()
    for cut in [0, 4, 100, *np.random.default_rng(0).integers(0, text.index("end of trees"), 60)]:
        with pytest.raises(ModelFileError, match="cannot be used"):
            Booster(text[:cut])


def test_text_of_something_else_is_refused() -> None:
    with pytest.raises(ModelFileError, match="does not begin with a header"):
        Booster("rubbish")
