import numpy as np
import pytest

from runcast.training.conformal import (
    OVERRUN,
    Margin,
    conformal_factor,
    owner_of,
    residual_log,
    rolled,
    split_latest,
)


@pytest.mark.parametrize(
    ("actual_s", "expected"),
    [
        pytest.param([], 1.0, id="nothing to calibrate on"),
        pytest.param([1, 2, 3, 4, 5, 6, 7, 8, 9], 9.0, id="9 jobs: rank ceil(10 * 0.9) = 9"),
        pytest.param(list(range(1, 20)), 18.0, id="19 jobs: rank ceil(20 * 0.9) = 18"),
        pytest.param([3, 1, 2], 3.0, id="3 jobs: rank ceil(3.6) = 4, at most the largest"),
    ],
)
def test_factor_is_the_rank_of_split_conformal(actual_s: list[float], expected: float) -> None:
    assert conformal_factor(np.array(actual_s, float), np.ones(len(actual_s))) == expected


def test_covers_nine_tenths_of_exchangeable_jobs() -> None:
    rng = np.random.default_rng(5)
    calibration, later = rng.lognormal(0, 1, 2000), rng.lognormal(0, 1, 20_000)
    factor = conformal_factor(calibration, np.ones(2000))
    assert (later <= factor).mean() == pytest.approx(0.9, abs=0.015)


def test_latest_jobs_calibrate_and_too_few_do_not() -> None:
    earlier, latest = split_latest(800)
    assert (earlier[-1], latest[0], len(latest)) == (699, 700, 100)
    earlier, latest = split_latest(300)
    assert (len(earlier), len(latest)) == (300, 0)


def test_margin_is_the_rank_of_the_latest_residuals() -> None:
    margin = Margin(100, 0.9, [k / 10 for k in range(100, 0, -1)])
    assert margin.shift_log() == 9.1  # ceil(101 * 0.9)
    for _ in range(60):
        margin.add(0.0)
    assert margin.shift_log() == 3.1  # 40 latest of the old (4.0..0.1) and 60 zeros
    assert len(margin.content()["residuals"]) == 100


def test_margin_of_few_jobs_moves_nothing() -> None:
    assert Margin(500, 0.9, [3.0] * 49).shift_log() == 0
    assert Margin(500, 0.9, [3.0] * 50).shift_log() == 3


def test_margin_comes_back_from_its_content() -> None:
    margin = Margin(60, 0.9, np.random.default_rng(1).normal(size=200).tolist())
    assert Margin.read(margin.content()) == margin
    assert Margin.read(margin.content()).shift_log() == margin.shift_log()


def test_rolled_margin_takes_a_job_only_strictly_after_its_end() -> None:
    """By an oracle: every job looks at the seeds and at all jobs that had ended before it."""
    rng = np.random.default_rng(2)
    submit_us = np.sort(rng.integers(0, 1000, 300))
    end_us = submit_us + rng.integers(0, 200, 300)
    p90_log, runtime_log = rng.normal(size=300), rng.normal(size=300)
    runtime_log[::7] = np.nan
    seeds = rng.normal(size=55).tolist()
    found = rolled(Margin(80, 0.9, seeds), p90_log, runtime_log - p90_log, submit_us, end_us, np.full(len(p90_log), None))
    order = np.argsort(end_us, kind="stable")
    for job in range(300):
        seen = [
            runtime_log[one] - p90_log[one] for one in order if end_us[one] < submit_us[job] and not np.isnan(runtime_log[one])
        ]
        latest = sorted([*seeds, *seen][-80:])
        rank = min(-(-(len(latest) + 1) * 9 // 10), len(latest))
        assert found[job] == p90_log[job] + latest[rank - 1]


def test_a_job_that_outlived_its_limit_is_made_up_for_by_the_others() -> None:
    residual = residual_log(np.log([50.0, 120.0, 120.0]), np.log([100.0, 100.0, 100.0]), np.array([100.0, 100.0, np.nan]))
    assert residual.tolist() == pytest.approx([np.log(0.5), OVERRUN, np.log(1.2)])
    margin = Margin(100, 0.9, [k / 100 for k in range(95)] + [OVERRUN] * 5)
    assert margin.shift_log() == 0.90  # 91 of 95, which is 90 of all 100
    margin = Margin(100, 0.9, [k / 100 for k in range(60)] + [OVERRUN] * 40)
    assert margin.shift_log() == 0.58  # 98 % of those that can be covered


def test_rolling_margin_follows_a_change_of_regime() -> None:
    rng = np.random.default_rng(3)
    runtime_log = rng.normal(0, 1, 4000) + 2
    margin = Margin(500, 0.9, rng.normal(0, 1, 500).tolist())
    at = np.arange(4000)
    covered = runtime_log <= rolled(margin, np.zeros(4000), runtime_log, at * 10, at * 10 + 5, np.full(4000, None))
    assert covered[1000:].mean() == pytest.approx(0.9, abs=0.02)


@pytest.mark.parametrize("minutes", [1, 7, 180, 300, 600, 720, 1080, 4320])
def test_a_job_that_ran_exactly_its_limit_did_not_outlive_it(minutes: int) -> None:
    limit_s = np.array([60.0 * minutes])
    assert residual_log(np.log(limit_s), np.log(limit_s), limit_s) == [0.0]
    assert residual_log(np.log(limit_s + 1), np.log(limit_s), limit_s) == [OVERRUN]


def crowd(count: int, users: int = 100) -> tuple[list[float], list[str]]:
    """Residuals of many users' jobs in turn, evenly from 0 to 1."""
    draw = np.random.default_rng(4)
    return draw.permutation(np.linspace(0, 1, count)).tolist(), [f"user u{n % users}" for n in range(count)]


@pytest.mark.parametrize(
    ("attack", "low", "high"),
    [
        pytest.param([20.0] * 100, 0.96, 0.98, id="100 tasks that outlive p90 but no limit"),
        pytest.param([OVERRUN] * 100, 0.96, 0.99, id="100 tasks that outlive their limit"),
        pytest.param([20.0] * 100_000, 0.96, 0.98, id="any number of them"),
        pytest.param([-9.0] * 1000, 0.91, 0.93, id="an array of 1,000 one-second tasks"),
    ],
)
def test_one_owner_moves_the_margin_of_others_by_a_twentieth_of_the_window_at_most(
    attack: list[float], low: float, high: float
) -> None:
    """Without an attack it is the 0.92 quantile of 1,000 jobs, evenly from 0 to 1; 50 of 1,000 are the owner's, however many there were.

    All above the quantile: the 921st of 1,000 is the 921st of the 950 others, .969 of them; OVERRUN: at most .98. All below: 871 of 950.
    """
    margin = Margin(1000, 0.92, *crowd(1000))
    assert margin.shift_log() == pytest.approx(0.92, abs=0.001)
    for residual in attack:
        margin.add(residual, "user eve")
    assert margin.content()["owners"].count("user eve") == 50
    assert low < margin.shift_log() < high


def test_owners_in_league_move_the_margin_by_no_more_than_a_factor_of_three_from_training() -> None:
    margin = Margin(1000, 0.92, *crowd(1000)).trained()
    trained = margin.shift_log()
    for n in range(5000):
        margin.add(9.0, f"user eve{n % 100}")
    assert np.exp(margin.shift_log() - trained) == pytest.approx(3)
    for n in range(5000):
        margin.add(-9.0, f"user eve{n % 100}")
    assert np.exp(margin.shift_log() - trained) == pytest.approx(1 / 3)


def test_a_flood_of_one_owner_does_not_push_the_others_out() -> None:
    residuals, owners = crowd(1000)
    margin = Margin(1000, 0.92, residuals, owners)
    for _ in range(10_000):
        margin.add(-9.0, "user eve")
    assert margin.content()["residuals"][:950] == residuals[50:]


def test_a_group_of_users_that_are_not_named_holds_half_of_the_window_at_most() -> None:
    margin = Margin(100, 0.9, [0.0] * 100, [f"group g{n % 9}" for n in range(100)])
    for _ in range(500):
        margin.add(3.0, "group g0")
    assert margin.content()["owners"].count("group g0") == 50


def test_jobs_of_nobody_known_share_no_bound() -> None:
    margin = Margin(100, 0.9, [0.0] * 100)
    for _ in range(100):
        margin.add(3.0)
    assert margin.shift_log() == 3


def test_margin_of_a_model_from_before_owners_is_read_without_bounds() -> None:
    margin = Margin.read({"size": 100, "level": 0.9, "residuals": [0.5] * 60})
    assert (margin.shift_log(), margin.trained_log) == (0.5, None)


@pytest.mark.parametrize(
    ("user", "group", "owner"),
    [("ada", "g", "user ada"), (None, "g", "group g"), (None, None, None)],
    ids=["the user's", "the group's where no user is named", "nobody's"],
)
def test_whose_job_it_is(user: str | None, group: str | None, owner: str | None) -> None:
    assert owner_of(user, group) == owner
