"""The margin beside a scheduler is the rolled one: told job by job, late, twice and in any order of ends."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runcast.training import running_margin
from runcast.training.conformal import OVERRUN, Margin, residual_log, rolled
from runcast.training.running_margin import P90Told, RunningMargin

SEEDS = np.random.default_rng(0).normal(size=70).tolist()
OWNERS = [None, "user ada", "user eve", None, "group 1"] * 14


def trained(size: int) -> Margin:
    """The margin of training: seeds of several owners, later shifts bounded round its own."""
    return Margin(size, 0.9, SEEDS, OWNERS).trained()


JOBS = st.lists(
    st.tuples(
        st.integers(0, 60),  # submission
        st.one_of(st.none(), st.integers(0, 40)),  # how long it is in the system
        st.sampled_from([None, 0.0, 0.5, 60.0, 3600.0, 7200.5]),  # runtime (s)
        st.sampled_from([math.nan, 60.0, 3600.0]),  # hard limit (s)
        st.floats(-1, 12),  # ln(p90)
        st.sampled_from(
            [None, "user ada", "user eve", "group 1"]
        ),  # owner, of whom a window of 50 or 55 holds two jobs, of 80 four
    ),
    max_size=60,
)


def table(jobs: list[tuple]) -> tuple[np.ndarray, ...]:
    """Submission, end (or never), ln(p90) and residual of the jobs in submission order, as replay has them."""
    jobs = sorted(jobs, key=lambda job: job[0])
    submit = np.array([job[0] for job in jobs], np.int64)
    end = np.array([2**62 if job[1] is None else job[0] + job[1] for job in jobs], np.int64)
    p90 = np.array([job[4] for job in jobs], float)
    runtime = np.array([job[2] if job[2] and job[1] is not None else np.nan for job in jobs], float)
    residual = residual_log(np.log(np.maximum(runtime, 1)), p90, np.array([job[3] for job in jobs], float))
    return submit, end, p90, np.where(np.isnan(runtime), np.nan, residual)


@settings(max_examples=400, deadline=None, derandomize=True)
@given(jobs=JOBS, size=st.sampled_from([50, 55, 80]), at_most=st.sampled_from([1, 3, 10, 1000]))
def test_told_as_things_happen_it_is_the_rolled_margin_however_few_residuals_are_held(
    jobs: list[tuple], size: int, at_most: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(running_margin, "RESIDUALS_AT_MOST", at_most)
        _compare_with_rolled(jobs, size)


def _compare_with_rolled(jobs: list[tuple], size: int) -> None:
    jobs = sorted(jobs, key=lambda job: job[0])
    submit, end, p90, residual = table(jobs)
    running, found = RunningMargin(trained(size)), []
    events = [(int(at), 1, n) for n, at in enumerate(submit)] + [(int(at), 0, n) for n, at in enumerate(end) if at < 2**62]
    for at, is_submission, n in sorted(events, key=lambda event: (event[0], -event[1], event[2])):
        if is_submission:
            found.append(p90[n] + running.shift_log(at))
            running.told(P90Told(f"j{n}", float(p90[n]), jobs[n][3], jobs[n][5]))
        else:
            running.ended(f"j{n}", at, jobs[n][2])
    np.testing.assert_array_equal(
        found, rolled(trained(size), p90, residual, submit, end, np.array([job[5] for job in jobs], object))
    )


@settings(max_examples=200, deadline=None, derandomize=True)
@given(jobs=JOBS, data=st.data())
def test_order_in_which_ends_are_told_and_jobs_ask_changes_nothing(jobs: list[tuple], data: st.DataObject) -> None:
    """All are told first; then ends come in any order, with questions of any moment between them; late ones are counted too."""
    jobs = sorted(jobs, key=lambda job: job[0])
    _, end, p90, residual = table(jobs)
    running = RunningMargin(trained(55))
    for n in range(len(jobs)):
        running.told(P90Told(f"j{n}", float(p90[n]), jobs[n][3], jobs[n][5]))
    for n in data.draw(st.permutations([n for n in range(len(jobs)) if end[n] < 2**62])):
        running.shift_log(data.draw(st.integers(0, 100)))
        running.ended(f"j{n}", int(end[n]), jobs[n][2])
    ended = np.flatnonzero(~np.isnan(residual))
    ended = ended[np.argsort(end[ended], kind="stable")]
    for at in data.draw(st.lists(st.integers(0, 110), min_size=1, max_size=8)):
        expected = trained(55)
        for n in ended[end[ended] < at]:
            expected.add(float(residual[n]), jobs[n][5])
        assert running.shift_log(at) == expected.shift_log()


def test_job_counts_only_strictly_after_its_end() -> None:
    """With its residual there are 50, enough for a margin."""
    running = RunningMargin(Margin(500, 0.9, [5.0] * 49))
    running.told(P90Told("a", 0.0, math.nan))
    running.ended("a", 10, 60.0)
    assert [running.shift_log(at) for at in (9, 10, 11, 10)] == [0.0, 0.0, 5.0, 0.0]


def test_told_twice_counts_once_and_the_first_counts() -> None:
    running = RunningMargin(Margin(500, 0.9, [0.0] * 50))
    running.told(P90Told("a", 0.0, math.nan))
    running.told(P90Told("a", 9.0, math.nan))
    assert "a" in running
    for _ in range(2):
        running.ended("a", 10, math.e)
        running.told(P90Told("a", 0.0, math.nan))
    assert "a" in running, "it has ended: nothing it is told counts"
    assert list(running._residual) == [1.0]


def test_job_that_outlived_its_limit_counts_as_one_that_nothing_could_cover() -> None:
    running = RunningMargin(Margin(500, 0.9, [0.0] * 49))
    running.told(P90Told("a", 0.0, 60.0))
    running.ended("a", 10, 61.0)
    assert list(running._residual) == [OVERRUN]


@pytest.mark.attack
def test_memory_does_not_grow_with_the_jobs_that_have_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of another user, some told of late; questions between them, as of a busy week without a new bundle."""
    monkeypatch.setattr(running_margin, "RESIDUALS_AT_MOST", 64)
    running = RunningMargin(trained(55))
    for number in range(1000):
        running.told(P90Told(f"j{number}", 0.0, math.nan, f"user {number}"))
        running.ended(f"j{number}", number - number % 7 * 10, 60.0)
        running.shift_log(number)
    held = (running._end_us, running._order, running._residual, running._owner, running._owners, running._codes)
    assert max(map(len, held)) <= 64


def test_job_from_before_all_that_is_held_gets_the_margin_of_training(monkeypatch: pytest.MonkeyPatch) -> None:
    """What had ended strictly before it cannot be told from what had not; ends that late count from then on."""
    monkeypatch.setattr(running_margin, "RESIDUALS_AT_MOST", 1)
    running = RunningMargin(Margin(500, 0.9, [5.0] * 49))
    for name, end_us in (("a", 10), ("b", 20), ("c", 5)):
        running.told(P90Told(name, 0.0, math.nan))
        running.ended(name, end_us, 60.0)
    assert [running.shift_log(at) for at in (5, 10, 11, 21)] == [0.0, 0.0, 5.0, 5.0]


def test_jobs_that_never_end_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running_margin, "OPEN_AT_MOST", 2)
    monkeypatch.setattr(running_margin, "OVER_AT_MOST", 2)
    running = RunningMargin(Margin(500, 0.9))
    for name in "abc":
        running.told(P90Told(name, 0.0, math.nan))
    assert [name in running for name in "abc"] == [False, True, True]
    for name in "bcd":
        running.ended(name, 10, 5.0)
    assert [name in running for name in "abcd"] == [False, False, True, True]
