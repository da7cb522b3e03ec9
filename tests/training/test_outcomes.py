import numpy as np
import pandas as pd
import pytest

from runcast.training.outcomes import read_outcomes, to_us

DAY_US = 86_400_000_000
ORIGIN = pd.Timestamp("2024-01-01T00:00:10", tz="UTC")


def jobs(*rows: tuple[float | None, float | None, str, float, str]) -> pd.DataFrame:
    """Rows of (end day, runtime_s, label, time_limit_s, time_limit_kind)."""
    return pd.DataFrame(
        {
            "submit_time": pd.to_datetime([ORIGIN] * len(rows), utc=True),
            "end_time": pd.to_datetime([None if r[0] is None else ORIGIN + pd.Timedelta(days=r[0]) for r in rows], utc=True),
            "runtime_s": pd.Series([r[1] for r in rows], dtype="float64"),
            "label": [r[2] for r in rows],
            "time_limit_s": [r[3] for r in rows],
            "time_limit_kind": [r[4] for r in rows],
        }
    )


TABLE = jobs(
    (3, 60.0, "event", 600.0, "hard"),
    (1, 30.0, "censored", 600.0, "advisory"),  # timed out: it held its nodes for 30 s, that is what is learned
    (2, 0.0, "event", np.nan, "absent"),  # under half a second in SWF: no ratio to it
    (None, None, "censored", 600.0, "hard"),  # still running
    (2, None, "excluded", np.nan, "absent"),  # cancelled in the queue
    (1, 45.0, "event", 900.0, "hard"),
)


def test_censored_jobs_are_learned_from_with_the_time_they_held() -> None:
    outcomes = read_outcomes(TABLE)
    assert outcomes.is_usable().tolist() == [True, True, False, False, False, True]
    assert outcomes.censored.tolist() == [False, True, False, True, False, False]


def test_only_a_hard_limit_is_a_cap() -> None:
    assert np.isnan(read_outcomes(TABLE).hard_limit_s).tolist() == [False, True, True, False, True, False]


@pytest.mark.parametrize(
    ("cut_days", "window_days", "expected"),
    [
        pytest.param(4, None, [1, 5, 0], id="everything that had ended, earliest end first, ties in table order"),
        pytest.param(3, None, [1, 5], id="a job that ends at the cut had not ended before it"),
        pytest.param(1, None, [], id="nothing had ended"),
        pytest.param(4, 1.5, [0], id="the window counts back from the cut"),
    ],
)
def test_jobs_known_at_a_cut(cut_days: float, window_days: float | None, expected: list[int]) -> None:
    outcomes = read_outcomes(TABLE)
    cut_us = int(outcomes.submit_us[0] + cut_days * DAY_US)
    assert outcomes.ended_before(cut_us, window_days).tolist() == expected


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_microseconds_whatever_the_unit_of_the_column(unit: str) -> None:
    times = pd.Series([pd.Timestamp("2024-01-01T00:00:10", tz="UTC"), pd.NaT]).dt.as_unit(unit)
    assert to_us(times).tolist() == [1704067210_000000, np.iinfo(np.int64).max]


def test_no_rows() -> None:
    assert len(read_outcomes(jobs())) == 0
