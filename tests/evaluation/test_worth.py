"""What the figures of merit mean, by hand; and the way from a replay's file and the lake to the table."""

import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from runcast.cli import app, main
from runcast.evaluation.errors import NothingToJudge, UnreadablePredictions
from runcast.evaluation.worth.job import read_predictions, weigh_frames
from runcast.evaluation.worth.merit import Loss, bounded_slowdown, loss, merit, share_of_gain
from runcast.evaluation.worth.policies import Plans, weigh
from runcast.evaluation.worth.pool import Jobs, Schedule

START = pd.Timestamp("2024-01-01", tz="UTC")
EASY = ("easy", "easy_p50", "easy_sjbf", "easy_p90_sjbf")


def schedule(*start_s: float) -> Schedule:
    return Schedule(np.array(start_s, dtype=float), np.full(len(start_s), np.nan))


def jobs_of(submit_s: list[float], runtime_s: list[float], size: list[int], limit_s: list[float] | None = None) -> Jobs:
    limits = limit_s or [float("inf")] * len(size)
    return Jobs(np.array(submit_s, float), np.array(runtime_s, float), np.array(size, np.int64), np.array(limits, float))


@pytest.mark.parametrize(
    ("wait_s", "runtime_s", "expected"),
    [
        pytest.param(0, 100, 1.0, id="no wait"),
        pytest.param(100, 100, 2.0, id="waits as long as it runs"),
        pytest.param(60, 1, 6.1, id="a second counts as ten"),
        pytest.param(0, 1, 1.0, id="never below one"),
    ],
)
def test_bounded_slowdown(wait_s: float, runtime_s: float, expected: float) -> None:
    assert bounded_slowdown(np.array([wait_s]), np.array([runtime_s])) == pytest.approx([expected])


def test_merit_is_means_over_jobs() -> None:
    # waits 0, 4, 10; runs 4, 20, 2: completions 4, 24, 12; slowdowns 1, 1.2, 1.2
    found = merit(jobs_of([0, 0, 1], [4, 20, 2], [1, 1, 1]), schedule(0, 4, 11))
    assert found.mean_completion_s == pytest.approx(40 / 3)
    assert found.mean_wait_s == pytest.approx(14 / 3)
    assert found.mean_bounded_slowdown == pytest.approx(3.4 / 3)


@pytest.mark.parametrize(
    ("fifo", "reached", "oracle", "expected"),
    [(100, 60, 50, 0.8), (100, 100, 50, 0.0), (100, 110, 50, -0.2), (100, 45, 50, 1.1), (100, 90, 100, None), (50, 50, 60, None)],
)
def test_share_of_the_oracles_gain(fifo: float, reached: float, oracle: float, expected: float | None) -> None:
    found = share_of_gain(fifo, reached, oracle)
    assert found == (None if expected is None else pytest.approx(expected))


def test_loss_is_the_worst_payers_mean_against_fifo() -> None:
    # a: +1 and +5, mean 3; b: +4 and -4, mean 0; c: -6; the last job is nobody's
    found = loss(schedule(1, 4, 5, 0, 0, 99), schedule(0, 0, 0, 4, 6, 0), np.array(["a", "b", "a", "b", "c", None], dtype=object))
    assert found == Loss("a", 2, 3.0, 1 / 3)


def test_nobody_is_named_where_the_log_names_nobody() -> None:
    assert loss(schedule(1), schedule(0), np.array([None], dtype=object)) == Loss(None, 0, None, None)


def test_table_of_policies_by_hand() -> None:
    # One unit. A holds it for 4 s; B (8 s) and C (2 s) come at 1 and 2. FIFO: B 4, C 12. The oracle: C 4, B 6.
    # `right` tells C from B; `wrong` has them the other way round.
    jobs = jobs_of([0, 1, 2], [4, 8, 2], [1, 1, 1], [10, 10, 10])
    right, wrong = np.array([4.0, 9, 3]), np.array([4.0, 3, 9])
    plans = {"right": Plans(right, right), "wrong": Plans(wrong, wrong)}
    rows = weigh(jobs, 1, np.array(["a", "b", "c"], dtype=object), plans, shakes=1)
    found = {(row["policy"], row["plans"]): row for row in rows}
    assert list(found) == [
        ("fifo", ""), ("sjf", "oracle"), ("sjf", "right"), ("sjf", "wrong"), ("qssf", "oracle"), ("qssf", "right"), ("qssf", "wrong"),
        *[(family, plan) for family in EASY for plan in ("oracle", "limit", "right", "wrong")],
    ]  # fmt: skip
    assert found["fifo", ""]["mean_wait_s"] == pytest.approx((0 + 3 + 10) / 3)
    assert found["sjf", "oracle"]["mean_wait_s"] == pytest.approx((0 + 5 + 2) / 3)
    assert found["sjf", "right"]["share_of_oracle_gain"] == pytest.approx(1.0)
    assert found["sjf", "wrong"]["share_of_oracle_gain"] == pytest.approx(0.0)
    assert (found["sjf", "right"]["worst"], found["sjf", "right"]["worst_loss_s"]) == ("b", 2.0)
    assert found["sjf", "right"]["losing_share"] == pytest.approx(1 / 3)
    assert found["easy", "limit"]["share_of_oracle_gain"] is None  # one unit: nothing to backfill, nothing to gain
    # so today is FIFO: the oracle's SJF has B 2 s later and C 8 s earlier
    assert found["sjf", "oracle"]["than_today"]["completion_s"] == {"mean": -2.0, "low": None, "high": None}


def test_differences_from_today_have_weekly_intervals() -> None:
    # The three jobs above in each of five weeks. Bounded slowdowns of A, B, C: 1, 1.1, 1.2 by FIFO; 1, 1.3, 1 by SJF.
    jobs = jobs_of([604_800.0 * week + at for week in range(5) for at in (0, 1, 2)], [4, 8, 2] * 5, [1] * 15)
    rows = weigh(jobs, 1, np.array([None] * 15, dtype=object), {}, shakes=1)
    told = next(row for row in rows if row["policy"] == "sjf")["than_today"]
    assert told["completion_s"] == {"mean": -2.0, "low": -2.0, "high": -2.0}  # every draw of weeks says the same
    assert told["slowdown"]["mean"] == pytest.approx(0, abs=1e-12)


def test_waits_are_means_over_shaken_arrivals() -> None:
    # One unit; A (100 s) and B (100 s) come at 0 and at 30: as they are B waits 70 s. Shaken, either comes up to a minute later.
    jobs, nobody = jobs_of([0, 30], [100, 100], [1, 1]), np.array([None, None], dtype=object)
    assert weigh(jobs, 1, nobody, {}, shakes=1)[0]["mean_wait_s"] == pytest.approx(35)
    many = weigh(jobs, 1, nobody, {}, shakes=400)[0]["mean_wait_s"]
    # By hand: whoever is second waits 100 - d, d = |30 + u - v| with u and v uniform over a minute: E d = 32.5, so a mean of 33.75.
    assert many == pytest.approx((100 - 32.5) / 2, abs=1)
    assert weigh(jobs, 1, nobody, {}, shakes=400)[0]["mean_wait_s"] == many


def test_easy_without_limits_has_no_row_and_a_missing_limit_is_the_longest() -> None:
    nobody = np.array([None] * 3, dtype=object)
    # Pool of 2. A (4 s x1, limit 4), B (6 s x2), C (2 s x1, no limit) may go ahead of B only if it plans to be done at 4.
    rows = weigh(jobs_of([0, 1, 2], [4, 6, 2], [1, 2, 1]), 2, nobody, {}, shakes=1)
    assert ("easy", "limit") not in [(row["policy"], row["plans"]) for row in rows]
    rows = weigh(jobs_of([0, 1, 2], [4, 6, 2], [1, 2, 1], [4, 6, float("inf")]), 2, nobody, {}, shakes=1)
    by_limit = next(row for row in rows if row["plans"] == "limit")
    assert by_limit["mean_wait_s"] == pytest.approx((0 + 3 + 8) / 3)  # C plans 6 s and waits for B


def frames(rows: list[tuple[int, int, float]], predictors: tuple[str, ...] = ("x",)) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Frames of (submitted, runs, GPUs); each predictor says twice the runtime for odd jobs, half for even ones."""
    keys = [f"c:{number:03d}" for number in range(len(rows))]
    submit = [START + pd.Timedelta(seconds=row[0]) for row in rows]
    known = pd.DataFrame(
        {
            "job_key": keys,
            "user": [f"u{number % 3}" for number in range(len(rows))],
            "group": None,
            "gpu_count": [row[2] for row in rows],
            "cpu_count": 99.0,
            "node_count": np.nan,
            "time_limit_s": np.nan,
            "time_limit_kind": "absent",
            "start_time": submit,
            "end_time": [one + pd.Timedelta(seconds=row[1]) for one, row in zip(submit, rows, strict=True)],
        }
    )
    runtime_s = np.array([float(row[1]) for row in rows])
    said_s = runtime_s * np.where(np.arange(len(rows)) % 2, 2.0, 0.5)
    told = [
        pd.DataFrame(
            {
                "cluster": "c", "job_key": keys, "job_id": keys, "submit_time": submit, "runtime_s": runtime_s, "predictor": name,
                "p50_s": said_s, "p90_s": said_s * 1.5, "point_s": said_s, "confidence": 0.5,
            }
        )
        for name in predictors
    ]  # fmt: skip
    return pd.concat(told, ignore_index=True), known


def test_capacity_is_the_peak_of_the_log_and_jobs_without_size_are_counted() -> None:
    # Two and a half GPUs at once from 2 to 4, rounded up to whole ones; null and 0 take no GPU.
    told, known = frames([(0, 4, 2.0), (2, 5, 0.5), (3, 5, 0.0), (4, 1, 0.25), (5, 1, np.nan)])
    found = weigh_frames(told, known)
    assert (found["unit"], found["capacity"], found["jobs"]) == ("GPUs", 3, 3)
    assert found["dropped"] == {"without a size": 2, "larger than the pool": 0}
    assert found["payer"] == "user"


def test_jobs_larger_than_the_pool_are_dropped_and_counted() -> None:
    found = weigh_frames(*frames([(0, 4, 2.0), (1, 5, 8.0), (2, 5, 1.0)]), capacity=4)
    assert (found["jobs"], found["dropped"]["larger than the pool"]) == (2, 1)
    assert found["offered_load"] == pytest.approx((4 * 2 + 5 * 1) / 4 / 2)


def test_log_without_gpus_counts_processors() -> None:
    told, known = frames([(0, 4, 0.0), (1, 5, 0.0)])
    assert weigh_frames(told, known)["unit"] == "processors"


def test_groups_pay_where_no_user_is_named() -> None:
    told, known = frames([(0, 4, 1.0), (1, 5, 1.0)])
    found = weigh_frames(told, known.assign(user=None, group=["g", "h"]), capacity=1)
    assert found["payer"] == "group"
    assert weigh_frames(told, known.assign(user=None), capacity=1)["payer"] is None


@settings(deadline=None, max_examples=25)
@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(1, 9), st.sampled_from([0.5, 1.0, 2.0])), min_size=2, max_size=12),
    st.randoms(use_true_random=False),
)
def test_order_of_rows_changes_nothing(rows: list[tuple[int, int, float]], draw) -> None:
    told, known = frames(rows, ("x", "y"))
    shuffled = [draw.sample(range(len(frame)), len(frame)) for frame in (told, known)]
    assert weigh_frames(told.iloc[shuffled[0]], known.iloc[shuffled[1]], 3) == weigh_frames(told, known, 3)


@pytest.mark.parametrize(
    ("change", "error", "match"),
    [
        (lambda told, known: (told, known.iloc[1:]), UnreadablePredictions, "1 of 3 predicted jobs are not in the lake.*c:000"),
        (lambda told, known: (told.iloc[1:], known), UnreadablePredictions, "x has 2 rows for 3 jobs"),
        (lambda told, known: (told.iloc[:0], known), NothingToJudge, "no rows"),
        (lambda told, known: (told, known.assign(gpu_count=0.0, cpu_count=np.nan)), NothingToJudge, "nothing can be scheduled"),
        (
            lambda told, known: (told, known.assign(gpu_count=9.0)),
            NothingToJudge,
            "none of 3 predicted jobs fits a pool of 4 GPUs",
        ),
    ],
)
def test_frames_that_cannot_be_weighed_are_refused(change, error: type[Exception], match: str) -> None:
    told, known = change(*frames([(0, 4, 1.0), (1, 5, 1.0), (2, 1, 1.0)], ("x", "y")))
    with pytest.raises(error, match=match):
        weigh_frames(told, known, 4)


def test_files_that_are_no_predictions_are_refused(tmp_path: Path) -> None:
    told, _ = frames([(0, 4, 1.0), (1, 5, 1.0)], ("x", "y"))
    path = tmp_path / "told.parquet"
    with pytest.raises(UnreadablePredictions, match="cannot be read"):
        read_predictions(path, "c")
    path.write_text("no parquet")
    with pytest.raises(UnreadablePredictions, match="cannot be read"):
        read_predictions(path, "c")
    told.drop(columns="p90_s").to_parquet(path)
    with pytest.raises(UnreadablePredictions, match="p90_s are missing"):
        read_predictions(path, "c")
    told.to_parquet(path)
    with pytest.raises(UnreadablePredictions, match="predictions for c, asked was d"):
        read_predictions(path, "d")
    with pytest.raises(UnreadablePredictions, match="no predictor z; the file holds x, y"):
        read_predictions(path, "c", ["z"])
    assert set(read_predictions(path, "c", ["y"])["predictor"]) == {"y"}


CLUSTER = """
description: A made-up log
source: {format: swf, paths: ["%s"]}
time_zone: UTC
training: {min_jobs: 200, gbdt: {trees: 10}}
"""


@pytest.fixture(scope="module")
def replayed(tmp_path_factory) -> Path:
    """A home with one replayed log: a job each 100 s, of a user who always runs 20 s or one who always runs 300 s, limit 600 s."""
    folder = tmp_path_factory.mktemp("worth")
    long_s = np.random.default_rng(5).random(1500) < 0.25
    lines = ["; UnixStartTime: 1767225600"]
    for number, is_long in enumerate(long_s):
        runtime_s, user = (300, 2) if is_long else (20, 1)
        lines.append(f"{number + 1} {number * 100} 5 {runtime_s} 1 -1 -1 1 600 -1 1 {user} 1 {user} 1 1 -1 -1")
    (folder / "log.swf").write_text("\n".join(lines) + "\n")
    (folder / "clusters").mkdir()
    (folder / "clusters" / "small.yaml").write_text(CLUSTER % (folder / "log.swf"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RUNCAST_HOME", str(folder / "var"))
        patch.setenv("RUNCAST_CLUSTERS", str(folder / "clusters"))
        done = CliRunner().invoke(
            app, ["replay", "--cluster", "small", "--predictions", str(folder / "told.parquet"), "--json"], catch_exceptions=False
        )
    assert done.exit_code == 0, done.output
    return folder


def test_command_weighs_the_file_of_a_replay(replayed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RUNCAST_HOME", str(replayed / "var"))
    monkeypatch.setenv("RUNCAST_CLUSTERS", str(replayed / "clusters"))
    words = ["worth", "--cluster", "small", "--predictions", str(replayed / "told.parquet"), "--predictor", "nearest_median"]
    done = CliRunner().invoke(app, [*words, "--capacity", "1", "--json"], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    result = json.loads(done.stdout)
    assert (result["unit"], result["capacity"], result["dropped"]["larger than the pool"]) == ("processors", 1, 0)
    found = {(row["policy"], row["plans"]): row for row in result["policies"]}
    assert {plans for _, plans in found} == {"", "oracle", "limit", "nearest_median"}
    assert found["sjf", "nearest_median"]["share_of_oracle_gain"] == pytest.approx(1.0)  # two users, two lengths: all is known
    assert found["sjf", "oracle"]["worst"] == "2"  # the long jobs pay
    shown = CliRunner().invoke(app, words, catch_exceptions=False)
    assert shown.exit_code == 0
    assert "small: 300 jobs on 3 processors" in shown.stdout
    assert "nearest_median" in shown.stdout


def test_command_says_what_is_wrong_with_a_file(replayed: Path, monkeypatch, capsys) -> None:
    monkeypatch.setenv("RUNCAST_HOME", str(replayed / "var"))
    monkeypatch.setenv("RUNCAST_CLUSTERS", str(replayed / "clusters"))
    shutil.copy(replayed / "log.swf", replayed / "wrong.parquet")
    monkeypatch.setattr("sys.argv", ["runcast", "worth", "-c", "small", "--predictions", str(replayed / "wrong.parquet")])
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code == 3
    assert "cannot be read as Parquet" in capsys.readouterr().err
