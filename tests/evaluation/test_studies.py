"""Studies on logs small enough to know what must come out, and the page they are written to."""

import json
import re
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from runcast.cli import app
from runcast.data.cluster import Training
from runcast.evaluation.errors import OutsideCheckFailed, PageWithoutMarks, UnreadablePredictions
from runcast.evaluation.studies import cadence, censoring, figures, page, retraining
from runcast.evaluation.studies.ablation import ablate, family_of
from runcast.evaluation.studies.kept import find_or_keep
from runcast.evaluation.studies.outside import search
from runcast.evaluation.studies.trust import trust
from runcast.features.matrix import Matrix
from runcast.features.table import build
from runcast.training.forecast import Inputs

DAY_US = 86_400_000_000
UTC = ZoneInfo("UTC")
TRAINING = Training(min_jobs=100)


# --- what is kept


def test_a_finding_is_taken_again_only_for_the_same_question(tmp_path: Path) -> None:
    calls: list[int] = []

    def find() -> dict[str, int]:
        calls.append(1)
        return {"n": len(calls)}

    path = tmp_path / "kth.json"
    assert find_or_keep(path, {"data": "a", "windows": (1, 2)}, find) == {"n": 1}
    assert find_or_keep(path, {"data": "a", "windows": (1, 2)}, find) == {"n": 1}
    assert find_or_keep(path, {"data": "b", "windows": (1, 2)}, find) == {"n": 2}
    assert find_or_keep(path, {"data": "b", "windows": (1, 2)}, find, again=True) == {"n": 3}


# --- the page


def test_only_what_stands_between_the_marks_is_written_anew() -> None:
    text = "# A\n<!-- measured: x -->\nold\n<!-- end: x -->\nprose\n"
    assert page.replace_section(text, "x", "new\n") == "# A\n<!-- measured: x -->\nnew\n<!-- end: x -->\nprose\n"


@pytest.mark.parametrize(
    "text",
    ["", "<!-- measured: x -->", "<!-- end: x --><!-- measured: x -->", "<!-- measured: x -->" * 2 + "<!-- end: x -->"],
    ids=["no marks", "no end", "end first", "twice"],
)
def test_a_page_without_marks_is_refused(text: str) -> None:
    with pytest.raises(PageWithoutMarks, match="measured: x"):
        page.replace_section(text, "x", "new")


def test_a_factor_is_bold_where_its_interval_leaves_1_out() -> None:
    def row(times: float, low: float | None, high: float | None) -> str:
        three = {"mdape": 0.5, "within_25": 0.25, "error_factor": 2.0}
        told = {"features": 3, "left_out": three, "alone": three, "worth": {"times": times, "low": low, "high": high}}
        found = {"a": {"everything": three, "nothing": three, "families": {"load": told}}}
        return page.ablation_section(found).splitlines()[-1]

    assert "| **1.100 (1.050–1.200)** |" in row(1.1, 1.05, 1.2)
    assert "| **0.900 (0.800–0.990)** |" in row(0.9, 0.8, 0.99)
    assert "| 1.100 (0.900–1.200) |" in row(1.1, 0.9, 1.2)
    assert "| 1.100 |" in row(1.1, None, None)


# --- feature families


def test_codes_are_a_family_of_their_own() -> None:
    assert [family_of(name) for name in ("code_user", "hour_of_day", "month", "median_7_s_by_user", "gap_s_by_user")] == [
        "codes", "submission", "date", "history", "periodicity",
    ]  # fmt: skip


@pytest.fixture(scope="module")
def by_size(make_canonical):
    """A log whose runtimes follow the GPUs asked for and nothing else: 60 s for each, every job another user's."""
    rng = np.random.default_rng(3)
    gpus = rng.choice([1.0, 4.0, 16.0], 800)
    submit_s = np.sort(rng.uniform(0, 40 * 86_400, 800)).round()
    return build(
        make_canonical(
            cluster="c", job_id=[str(one) for one in range(800)], job_key=[f"c:{one}" for one in range(800)],
            user=[f"u{one}" for one in range(800)], submit_s=submit_s, start_s=submit_s, end_s=submit_s + 60 * gpus,
            gpu_count=gpus, state="COMPLETED", label="event", runtime_s=60 * gpus, attempts=1,
        ),
        "calendar",
        "UTC",
    )  # fmt: skip


def test_the_family_that_decides_is_enough_alone_and_others_are_not(by_size) -> None:
    found = ablate(by_size, TRAINING, 0.2)
    alone = {family: told["alone"]["error_factor"] for family, told in found["families"].items()}
    assert alone["request"] == pytest.approx(1.0, abs=0.02)
    assert alone["submission"] > 2
    assert found["everything"]["error_factor"] == pytest.approx(1.0, abs=0.05)
    assert found["nothing"]["error_factor"] > 2
    assert "topology" not in found["families"]  # no nodes are told: it says nothing in this log
    assert found["families"]["load"]["worth"]["times"] == pytest.approx(1.0, abs=0.05)


# --- cadence


def test_compared_weeks_are_spread_and_the_last_is_at_the_end() -> None:
    first = 1_704_103_200_000_000  # Monday 1 January 2024, 10:00
    submit_us = np.array([first, first + 30 * DAY_US])  # midnights from 2 to 31 January: 30, the last week begins on the 24th
    midnight = 1_704_153_600_000_000  # 2 January
    found = cadence.compared_weeks(submit_us, UTC, 2)
    assert [[(at - midnight) / DAY_US for at in (one[0], one[-1])] for one in found] == [[11, 18], [22, 29]]
    assert cadence.compared_weeks(submit_us[:1], UTC, 2) == []


@pytest.fixture
def changed_work(make_canonical) -> Matrix:
    """150 days of jobs that are nobody's and of one size: what can be learned is the hour's level, which jumps tenfold on day 125."""
    count = 2000
    submit_s = np.sort(np.random.default_rng(2).uniform(0, 150 * 86_400, count)).round()
    level_s = np.where(submit_s < 125 * 86_400, 100.0, 1000.0)
    runtime_s = (level_s * np.exp(np.random.default_rng(4).normal(0, 0.1, count))).round()
    log = make_canonical(
        cluster="c", job_id=[str(one) for one in range(count)], job_key=[f"c:{one}" for one in range(count)],
        submit_s=submit_s, start_s=submit_s, end_s=submit_s + runtime_s, gpu_count=1.0, state="COMPLETED", label="event",
        runtime_s=runtime_s, attempts=1,
    )  # fmt: skip
    return build(log, "calendar", "UTC")


def test_retraining_and_a_short_window_help_where_work_changes(changed_work: Matrix, monkeypatch) -> None:
    monkeypatch.setattr(cadence, "WINDOWS_DAYS", (30, None))
    found = cadence.compare_cadences(changed_work, TRAINING, 0.2, UTC, weeks=1)
    rows = {(row["window_days"], row["cadence"]): row for row in found["rows"]}
    assert len(rows) == 6
    assert rows[30, "nightly"]["error_factor"] < 1.3  # knows nothing but the new level by the last weeks
    assert rows[None, "once"]["error_factor"] > rows[None, "nightly"]["error_factor"]
    assert rows[None, "nightly"]["times"] == {"times": 1.0, "low": None, "high": None}  # two days are too few for an interval
    assert rows[30, "nightly"]["learned"] < rows[None, "nightly"]["learned"]


def test_runcast_itself_gains_by_retraining_where_work_changes(changed_work: Matrix) -> None:
    found = retraining.compare_retraining(changed_work, TRAINING, 0.2, UTC, weeks=1)
    rows = {row["way"]: row for row in found["rows"]}
    # One week is asked for its first and its fifth day; the first of both is where weekly and nightly are trained alike.
    assert {way: row["trainings"] for way, row in rows.items()} == {"once": 1, "weekly": 1, "nightly": 2, retraining.HELD_BACK: 2}
    assert rows["once"]["times"] == {"times": 1.0, "low": None, "high": None}
    assert rows["nightly"]["times"]["times"] < 0.9
    assert rows["nightly"]["error_factor"] < 1.3
    lines = page.retraining_section({"c": found}).splitlines()
    assert [line.split(" | ")[1] for line in lines[2:]] == [*rows]


# --- jobs that still run


def test_the_busiest_cut_is_the_midnight_with_most_long_jobs_running(make_canonical) -> None:
    # 90 days, a job of a minute every hour; on day 40 twenty jobs of three days begin: they run on the midnights of day 41, 42 and 43.
    short_s = np.arange(90 * 24) * 3600.0
    long_s = np.full(250, 40 * 86_400.0 + 1800)
    submit_s = np.concatenate([short_s, long_s])
    runtime_s = np.concatenate([np.full(len(short_s), 60.0), np.full(len(long_s), 3 * 86_400.0)])
    order = np.argsort(submit_s, kind="stable")
    submit_s, runtime_s = submit_s[order], runtime_s[order]
    count = len(submit_s)
    matrix = build(
        make_canonical(
            cluster="c", job_id=[str(one) for one in range(count)], job_key=[f"c:{one}" for one in range(count)],
            submit_s=submit_s, start_s=submit_s, end_s=submit_s + runtime_s, state="COMPLETED", label="event",
            runtime_s=runtime_s, attempts=1,
        ),
        "calendar",
        "UTC",
    )  # fmt: skip
    day = pd.Timestamp(censoring.busiest_cut(matrix, UTC), unit="us", tz="UTC") - pd.Timestamp("2024-03-04", tz="UTC")
    assert day == pd.Timedelta(days=41)


def test_weights_are_one_over_the_chance_of_having_been_seen_to_the_end() -> None:
    # Cut at 10: two ended after 2 s and 6 s, two have run for 4 s. In order of time watched: 2 ended, 4 and 4 running, 6 ended. The chance
    # of being watched for longer than 4 is (1 - 1/3)(1 - 1/2) = 1/3: the job of 6 s stands for three, the one of 2 s for itself.
    start = np.array([0, 6, 6, 0]) * 1_000_000
    end = np.array([2, 99, 99, 6]) * 1_000_000
    found = censoring.weighted(start, end, np.array([0, 3, 1, 2]), 10_000_000)
    assert found.tolist() == [0, 3, 3, 3]


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(1, 60)), min_size=1, max_size=40))
def test_weights_sum_to_all_that_began_and_never_drop_a_job(jobs: list[tuple[int, int]]) -> None:
    start = np.array([one for one, _ in jobs]) * 1_000_000
    end = start + np.array([one for _, one in jobs]) * 1_000_000
    order = np.argsort(end, kind="stable")
    found = censoring.weighted(start, end, order, 45_000_000)
    began, ended = start < 45_000_000, end < 45_000_000
    assert set(found.tolist()) == set(np.flatnonzero(ended).tolist())
    if ended.any() and (np.minimum(end, 45_000_000) - start)[began].max() in (end - start)[ended]:
        longest = (np.minimum(end, 45_000_000) - start)[began].max()
        is_longest = began & ((np.minimum(end, 45_000_000) - start) == longest)
        if ended[is_longest].all() and (np.bincount(found).max() < 20):  # nobody runs for longer than the longest that ended
            assert len(found) == pytest.approx(began.sum(), abs=1)


def test_the_yardstick_does_not_differ_from_itself_and_the_cut_leaves_out_the_running(make_log, monkeypatch) -> None:
    monkeypatch.setattr(censoring, "SEEDS", 1)
    found = censoring.probe(build(make_log(jobs=900, days=30), "calendar", "UTC"), TRAINING, UTC, None)
    ways = found["ways"]
    assert set(ways["yardstick"]["against_yardstick"]["all"].values()) == {0.0}
    assert ways["ended jobs"]["jobs"] == found["known"] == ways["yardstick"]["jobs"] - found["running"]
    assert ways["last days held back"]["jobs"] <= found["known"]
    assert sum(jobs for name, jobs in found["classes"].items() if name != "all") == found["asked"]


# --- a search outside


def _inputs(values: list[list[float]]) -> Inputs:
    return Inputs(("a",), np.array(values, np.float32), np.full(len(values), np.nan))


FAKE = """
import json, pathlib, sys
import numpy as np
folder = pathlib.Path(sys.argv[2])
np.save(folder / "answered_log.npy", np.load(folder / "asked.npy")[:, 0].astype(float) + np.load(folder / "learned_log.npy").sum())
(folder / "told.json").write_text(json.dumps({"version": "0", "best": "x", "wall_s": 1.0, "processor_s": 2.0}))
with (folder / "calls").open("a") as calls: calls.write(sys.argv[3])
"""


def test_arrays_go_out_and_answers_come_back_once_for_the_same_question(tmp_path: Path) -> None:
    # An interpreter of our own: a program that reads and writes what automl.py would.
    (tmp_path / "fake.py").write_text(FAKE)
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec {__import__("sys").executable} {tmp_path / "fake.py"} "$@"\n')
    python.chmod(0o755)
    for _ in range(2):
        answered, told = search(_inputs([[0.0]]), np.array([2.0]), _inputs([[1.0], [5.0]]), python, 9, tmp_path / "arrays")
        assert answered.tolist() == [3.0, 7.0]
        assert (told["best"], told["processor_s"]) == ("x", 2.0)
    assert (tmp_path / "arrays" / "calls").read_text() == "9"
    search(_inputs([[0.0]]), np.array([2.0]), _inputs([[1.0], [6.0]]), python, 9, tmp_path / "arrays")
    assert (tmp_path / "arrays" / "calls").read_text() == "99"


@pytest.mark.parametrize(
    ("script", "match"),
    [(None, "--python"), ("#!/bin/sh\necho no flaml here >&2\nexit 3\n", "code 3: no flaml here"), ("", "cannot be run")],
    ids=["no interpreter", "it fails", "not a program"],
)
def test_a_search_that_cannot_be_run_says_why(tmp_path: Path, script: str | None, match: str) -> None:
    python = None
    if script is not None:
        python = tmp_path / "python"
        python.write_text(script)
        python.chmod(0o755 if script else 0o644)
    with pytest.raises(OutsideCheckFailed, match=match):
        search(_inputs([[0.0]]), np.array([0.0]), _inputs([[1.0]]), python, 1, tmp_path / "arrays")
    assert not (tmp_path / "arrays" / "told.json").exists()


# --- a forecast's own word


def test_calibration_and_weekly_coverage_by_hand() -> None:
    # Two weeks of 100 jobs. The first: confidence 0.2, one in five is right, all end within p90. The second: confidence 0.9, all are
    # right, and half outlive their p90. Gaps: 0 and 0.1.
    submit_us = np.repeat([0, 7 * DAY_US], 100) + np.tile(np.arange(100), 2)
    actual_s = np.full(200, 100.0)
    point_s = np.where(np.arange(200) < 80, 200.0, 100.0)
    p90_s = np.where(np.arange(200) < 150, 100.0, 99.0)
    hard_limit_s = np.full(200, np.nan)
    hard_limit_s[190:], hard_limit_s[:10] = 99.0, 100.0  # the last ten outlived theirs, the first ten ended with it
    found = trust(submit_us, actual_s, point_s, np.full(200, 50.0), p90_s, np.repeat([0.2, 0.9], 100), hard_limit_s)
    assert found["calibration_error"] == pytest.approx((abs(0.2 - 0.2) * 100 + 0.1 * 100) / 200)
    assert [share for _, share in found["weeks"]] == [1.0, 0.5]
    assert (found["weeks_good"], found["covered"]) == (0.0, 0.75)
    assert found["width"] == pytest.approx(2.0)
    assert (found["outlived"], found["covered_others"]) == (0.05, 150 / 190)
    assert json.loads(json.dumps(found))["curve"][0][-1] == 1.0


# --- the command


PAGE = "".join(f"<!-- measured: {name} -->\n<!-- end: {name} -->\n" for name in ("ablation", "worth"))


@pytest.fixture
def small_log(tmp_path: Path, monkeypatch) -> Path:
    """A home with the cluster file of a small log: each user's jobs run as long as ever, limits say nothing."""
    rng = np.random.default_rng(5)
    lines = ["; UnixStartTime: 1767225600"]
    for number, user in enumerate(rng.integers(1, 5, 400)):
        lines.append(f"{number + 1} {number * 3600} 5 {60 * 4**user} 1 -1 -1 1 86400 -1 1 {user} 1 {user} 1 1 -1 -1")
    (tmp_path / "log.swf").write_text("\n".join(lines) + "\n")
    (tmp_path / "clusters").mkdir()
    text = f'source: {{format: swf, paths: ["{tmp_path / "log.swf"}"]}}\ntime_zone: UTC\ntraining: {{min_jobs: 50}}\n'
    (tmp_path / "clusters" / "small.yaml").write_text(text)
    (tmp_path / "page.md").write_text(PAGE)
    monkeypatch.setenv("RUNCAST_HOME", str(tmp_path / "var"))
    monkeypatch.setenv("RUNCAST_CLUSTERS", str(tmp_path / "clusters"))
    return tmp_path


def test_a_study_writes_its_section_and_figure_the_same_again(small_log: Path) -> None:
    words = ["study", "ablation", "small", "--page", str(small_log / "page.md")]
    files = [small_log / "page.md", small_log / "figures" / "ablation.svg"]
    assert CliRunner().invoke(app, words, catch_exceptions=False).exit_code == 0
    first = [path.read_bytes() for path in files]
    assert b"| | history |" in first[0]
    assert b"<!-- measured: worth -->\n<!-- end: worth -->" in first[0]
    assert CliRunner().invoke(app, [*words, "--again"], catch_exceptions=False).exit_code == 0
    assert [path.read_bytes() for path in files] == first


def test_a_study_figure_leaves_out_digits_but_no_letter_shrinks() -> None:
    row = {"cadence": "once", "window_days": None, "error_factor": 2.123456}
    drawn = figures.draw_cadence({"log": {"rows": [row, row | {"window_days": 30.0, "error_factor": 3.0}]}})
    scales = set(re.findall(r"scale\([^)]*\)", drawn))
    assert "scale(0.015625)" in scales  # matplotlib's letters are 64ths of a point
    assert not re.search(r"\d\.\d{3}", re.sub(r"scale\([^)]*\)", "", drawn))


def test_worth_asks_for_the_replays_first(small_log: Path) -> None:
    with pytest.raises(UnreadablePredictions, match="runcast accuracy small"):
        CliRunner().invoke(app, ["study", "worth", "small", "--page", str(small_log / "page.md")], catch_exceptions=False)


def test_an_unknown_study_is_refused(small_log: Path) -> None:
    done = CliRunner().invoke(app, ["study", "astrology"])
    assert done.exit_code == 2
    assert "no study 'astrology'" in done.output
    assert "censoring" in done.output
