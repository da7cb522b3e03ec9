from collections.abc import Callable

import numpy as np
import pytest

from runcast.data.cluster import GbdtParameters, Training
from runcast.training.errors import NotEnoughJobs, UnknownKind
from runcast.training.forecast import Inputs
from runcast.training.kinds import BASELINES, MODELS, find_kind, fit

TRAINING = Training(min_jobs=500, gbdt=GbdtParameters(trees=20))


def test_baselines_and_models_are_told_apart() -> None:
    assert BASELINES == ("request", "last_two", "nearest_median")
    assert MODELS == ("cart", "gbdt", "runcast")


@pytest.mark.parametrize("kind", MODELS)
def test_too_few_jobs_are_served_by_the_nearest_median(kind: str, make_jobs: Callable) -> None:
    fitted = fit(kind, *make_jobs(499), TRAINING)
    assert fitted.rule.kind == "nearest_median"
    assert fitted.fallback_reason == (
        f"499 ended jobs to learn from, {kind} needs 500 (training.min_jobs); nearest_median serves instead"
    )


@pytest.mark.parametrize("kind", MODELS)
def test_enough_jobs_are_served_by_the_model(kind: str, make_jobs: Callable) -> None:
    fitted = fit(kind, *make_jobs(500), TRAINING)
    assert (fitted.rule.kind, fitted.fallback_reason) == (kind, None)


@pytest.mark.parametrize("kind", MODELS)
def test_constant_predictor_is_replaced_and_said(kind: str, make_jobs: Callable) -> None:
    inputs, _ = make_jobs(500)
    alike = Inputs(inputs.names, np.ones_like(inputs.values), inputs.hard_limit_s)
    fitted = fit(kind, alike, np.arange(1.0, 501.0), TRAINING)
    assert fitted.rule.kind == "nearest_median"
    assert "would give every job the same forecast" in str(fitted.fallback_reason)


@pytest.mark.parametrize("kind", [*BASELINES, *MODELS])
def test_nothing_ended_cannot_be_served_at_all(kind: str, make_jobs: Callable) -> None:
    with pytest.raises(NotEnoughJobs, match="no job had ended"):
        fit(kind, *make_jobs(0), TRAINING)


def test_unknown_kind_names_the_known_ones() -> None:
    with pytest.raises(UnknownKind, match="no predictor 'forest'; known are request, last_two"):
        find_kind("forest")
