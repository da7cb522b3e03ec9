"""The catalog: names, what may be read, and the version."""

import re

import pytest

from runcast.data.columns import BY_NAME
from runcast.features import catalog
from runcast.features.catalog import FEATURES, NAMES, Feature, feature_version
from runcast.features.errors import FeatureReadsFuture
from runcast.features.levels import LEVELS, NEAREST


@pytest.mark.parametrize("column", ["runtime_s", "end_time", "state", "start_time", "node_list", "queue_s", "flags"])
def test_a_feature_that_reads_the_future_of_its_own_job_does_not_build(column: str) -> None:
    with pytest.raises(FeatureReadsFuture, match=column):
        Feature("leak", "s", "request", (column,), "Leaks.")


def test_a_feature_of_an_unknown_column_does_not_build() -> None:
    with pytest.raises(ValueError, match="no canonical column"):
        Feature("odd", "s", "request", ("colour",), "Odd.")


@pytest.mark.parametrize("name", ["gres/gpu:a100", "cpu,mem", "a[0]", 'q"x', "Größe", "with space", ""])
def test_names_come_from_a_fixed_alphabet(name: str) -> None:
    with pytest.raises(ValueError, match="made of a-z"):
        Feature(name, "", "request", (), "Odd.")


def test_no_feature_is_a_time_or_an_id() -> None:
    """Trees cast to float32: epoch seconds would keep 128 s of resolution."""
    times = {name for name, column in BY_NAME.items() if column.type == "timestamp"}
    assert not times & set(NAMES)
    assert not {"job_id", "array_id", "job_key"} & set(NAMES)


def test_every_feature_says_what_it_is() -> None:
    assert all(re.fullmatch(r"[A-Z].*\.", feature.meaning) for feature in FEATURES)
    assert len(set(NAMES)) == len(NAMES)


def test_baselines_find_their_columns() -> None:
    assert {
        "time_limit_s",
        "last_two_mean_s_by_user",
        "nearest_median_s",
        "nearest_n",
        "nearest_spread_log",
        "nearest_level",
    } <= set(NAMES)
    assert set(NEAREST) <= {level.name for level in LEVELS}


def test_version_is_stable_and_follows_the_definitions(monkeypatch: pytest.MonkeyPatch) -> None:
    before = feature_version()
    assert re.fullmatch("[0-9a-f]{16}", before)
    assert before == feature_version()
    monkeypatch.setattr(catalog, "CODE_VERSION", catalog.CODE_VERSION + 1)
    assert feature_version() != before
