"""Names pass every part of MLflow, and two clusters never share one."""

import itertools

import pytest
from mlflow.utils.validation import _validate_logged_model_name, _validate_metric_name, _validate_model_name

from runcast.registry.errors import RegistryError
from runcast.registry.slug import metric_key, model_name, slug

AWKWARD = [
    "venus/gbdt",
    "venus:gbdt",
    "venus.gbdt",
    "venus gbdt",
    "venus-gbdt",
    "Größe",
    "集群",
    "a%b",
    'q"x',
    "../x",
    "-x",
    "x" * 300,
    "x" * 301,
]


@pytest.mark.parametrize("text", ["venus", "sdsc_sp2", "gpu-4", "A100"])
def test_plain_name_stays(text: str) -> None:
    assert slug(text) == text


@pytest.mark.parametrize("text", AWKWARD)
def test_any_name_is_accepted_everywhere(text: str) -> None:
    _validate_model_name(model_name(text, "gbdt"))
    _validate_logged_model_name(slug(text))
    _validate_metric_name(metric_key("gbdt", text, "mdape"))
    assert len(model_name(text, "gbdt")) <= 250


def test_differing_names_stay_apart() -> None:
    for one, other in itertools.combinations(AWKWARD, 2):
        assert slug(one) != slug(other)


@pytest.mark.parametrize("metric", ["mae@p90", "rmse%", "mape[venus]"])
def test_metric_that_mlflow_refuses_gets_a_name(metric: str) -> None:
    _validate_metric_name(metric_key(metric))


def test_target_keeps_its_dot() -> None:
    assert metric_key("gbdt", "coverage", "0.089") == "gbdt/coverage/0.089"


@pytest.mark.parametrize("blank", ["", "  "])
def test_blank_is_refused(blank: str) -> None:
    with pytest.raises(RegistryError, match="blank"):
        slug(blank)
