from collections.abc import Callable
from datetime import UTC
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pytest

from runcast.data.cluster import GbdtParameters, Training
from runcast.evaluation.errors import NothingToJudge
from runcast.evaluation.replay import PREDICTION_COLUMNS, cuts, predictions_table, replay, submitted_in, test_rows
from runcast.features.matrix import OPEN_US, Matrix
from runcast.features.table import build
from runcast.training.errors import NotEnoughJobs

TRAINING = Training(min_jobs=200, gbdt=GbdtParameters(trees=10, leaves=7))
KINDS = ("request", "last_two", "nearest_median", "cart", "gbdt")
DAY_US = 86_400_000_000

test_rows.__test__ = False  # a function of the product, not a test


def us(text: str, zone: str = "UTC") -> int:
    return int(pd.Timestamp(text, tz=zone).timestamp() * 1e6)


def test_test_jobs_are_the_latest_fifth_of_the_ended_ones_by_submission(matrix: Matrix) -> None:
    rows = test_rows(matrix, 0.2)
    usable = np.flatnonzero((matrix.ended.end_us != OPEN_US) & (matrix.ended.runtime_s > 0))
    assert len(rows) == np.ceil(0.2 * len(usable))
    assert (np.diff(matrix.submit_us[rows]) >= 0).all()
    others = np.setdiff1d(usable, rows)
    assert matrix.submit_us[others].max() <= matrix.submit_us[rows].min()


@pytest.mark.parametrize(
    ("every", "zone", "expected"),
    [
        pytest.param("once", "UTC", ["2024-03-08 15:00"], id="at the first test job"),
        pytest.param("nightly", "UTC", ["2024-03-08", "2024-03-09", "2024-03-10", "2024-03-11"], id="midnights"),
        pytest.param("weekly", "UTC", ["2024-03-08"], id="every seventh midnight"),
    ],
)
def test_moments_of_training(every: str, zone: str, expected: list[str]) -> None:
    assert cuts(us("2024-03-08 15:00"), us("2024-03-11 01:00"), every, ZoneInfo(zone)) == [us(one) for one in expected]


def test_nights_are_those_of_the_cluster_across_a_change_of_clocks() -> None:
    zone = "America/Los_Angeles"  # 2024-03-10 has 23 hours
    found = cuts(us("2024-03-09 15:00", zone), us("2024-03-11 12:00", zone), "nightly", ZoneInfo(zone))
    assert found == [us(day, zone) for day in ("2024-03-09", "2024-03-10", "2024-03-11")]
    assert np.diff(found).tolist() == [DAY_US, DAY_US * 23 // 24]


@pytest.mark.parametrize("every", ["once", "weekly", "nightly"])
def test_every_test_job_is_answered_once_by_every_predictor(matrix: Matrix, every: str) -> None:
    rows = test_rows(matrix, 0.2)
    kinds = KINDS if every == "once" else ("nearest_median", "cart")
    done = replay(matrix, rows, kinds, TRAINING, every, UTC)
    assert list(done.forecasts) == list(kinds)
    for forecast in done.forecasts.values():
        assert len(forecast) == len(rows)
        assert ((forecast.p50_s >= 1) & (forecast.p50_s <= forecast.p90_s) & (forecast.p90_s <= 86_400)).all()
    assert sum(answered for _, _, answered in done.cuts) == len(rows)


def test_model_of_a_cut_knows_only_what_had_ended_before_it(matrix: Matrix) -> None:
    rows = test_rows(matrix, 0.2)
    done = replay(matrix, rows, ("nearest_median",), TRAINING, "nightly", UTC)
    for cut_us, learned, _ in done.cuts:
        assert learned == ((matrix.ended.end_us < cut_us) & (matrix.ended.runtime_s > 0)).sum()
    first_cut_us = done.cuts[0][0]
    assert first_cut_us <= matrix.submit_us[rows[0]] < first_cut_us + DAY_US


def test_what_happened_later_changes_no_answer(log: pd.DataFrame, matrix: Matrix) -> None:
    """Jobs that end after the last test submission but one are deleted, their own answers apart: nothing moves."""
    rows = test_rows(matrix, 0.2)
    done = replay(matrix, rows, KINDS, TRAINING, "once", UTC)
    middle_us = int(matrix.submit_us[rows[len(rows) // 2]])
    known = (matrix.submit_us <= middle_us) & ((matrix.ended.end_us < middle_us) | np.isin(np.arange(len(matrix)), rows))
    known |= matrix.submit_us <= matrix.submit_us[rows[0]]
    cut = build(log[known].reset_index(drop=True), "calendar", "UTC")
    asked = np.flatnonzero(np.isin(cut.job_key, matrix.job_key[rows]))
    again = replay(cut, asked, KINDS, TRAINING, "once", UTC)
    place = {key: at for at, key in enumerate(matrix.job_key[rows])}
    same = [place[key] for key in cut.job_key[asked]]
    assert len(same) > 50
    for kind in KINDS:
        assert (again.forecasts[kind].p50_s == done.forecasts[kind].p50_s[same]).all()


def test_same_log_and_seed_give_the_same_answers(matrix: Matrix) -> None:
    rows = test_rows(matrix, 0.2)
    one, two = (replay(matrix, rows, KINDS, TRAINING, "once", UTC) for _ in range(2))
    for kind in KINDS:
        for name in ("p50_s", "p90_s", "confidence"):
            assert (getattr(one.forecasts[kind], name) == getattr(two.forecasts[kind], name)).all()


def test_predictions_table_has_the_promised_columns(log: pd.DataFrame, matrix: Matrix) -> None:
    rows = test_rows(matrix, 0.2)
    done = replay(matrix, rows, ("request", "last_two"), TRAINING, "once", UTC)
    written = predictions_table("made_up", matrix, log["job_id"].to_numpy(object), done)
    assert tuple(written.column_names) == PREDICTION_COLUMNS
    assert str(written.schema.field("submit_time").type) == "timestamp[us, tz=UTC]"
    table = written.to_pandas()
    assert len(table) == 2 * len(rows)
    assert not table.isna().any().any()
    one = table[table["predictor"] == "last_two"].merge(log[["job_key", "job_id", "submit_time", "runtime_s"]], on="job_key")
    for name in ("job_id", "submit_time", "runtime_s"):
        assert (one[f"{name}_x"] == one[f"{name}_y"]).all()


def test_small_cluster_is_answered_by_the_baseline_and_says_so(make_log: Callable) -> None:
    small = build(make_log(jobs=100), "calendar", "UTC")
    done = replay(small, test_rows(small, 0.2), ("cart", "gbdt"), TRAINING, "once", UTC)
    assert set(done.forecasts["cart"].source) <= {"nearest_median", "training_median"}
    assert "gbdt needs 200" in done.fallbacks["gbdt"]


def test_nothing_ended_before_the_first_test_job(matrix: Matrix) -> None:
    with pytest.raises(NotEnoughJobs, match="no job had ended before the first test job"):
        replay(matrix, submitted_in(matrix, None, None), ("request",), TRAINING, "once", UTC)


def test_no_test_jobs(matrix: Matrix) -> None:
    with pytest.raises(NothingToJudge, match="no ended job with a runtime above 0 to test on"):
        replay(matrix, submitted_in(matrix, us("2030-01-01"), None), ("request",), TRAINING, "once", UTC)


def test_dates_choose_by_submission_half_open(matrix: Matrix) -> None:
    first, before = us("2024-03-20"), us("2024-03-22")
    submit_us = matrix.submit_us[submitted_in(matrix, first, before)]
    assert len(submit_us) > 20
    assert first <= submit_us.min() <= submit_us.max() < before


def test_progress_is_told_after_each_cut(matrix: Matrix) -> None:
    told: list[tuple[int, int]] = []
    replay(matrix, test_rows(matrix, 0.2), ("request",), TRAINING, "weekly", UTC, lambda done, of: told.append((done, of)))
    assert told == [(1, 2), (2, 2)]
