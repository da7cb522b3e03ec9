"""Schedules by hand, drawn as Gantt charts (one line per unit of the pool, one column per second), and the laws of each policy."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runcast.evaluation.worth.easy import doubled_plan_s, raised_plan_s, run_easy
from runcast.evaluation.worth.pool import Jobs, Schedule, peak_use
from runcast.evaluation.worth.queue import run_queue

NO_LIMIT = float("inf")


def jobs_of(*rows: tuple[float, float, int], limit_s: tuple[float, ...] | None = None) -> Jobs:
    """Jobs from (submitted, runs, size)."""
    submit_s, runtime_s, size = (list(column) for column in zip(*rows, strict=True))
    return Jobs(
        np.array(submit_s, dtype=float),
        np.array(runtime_s, dtype=float),
        np.array(size, dtype=np.int64),
        np.array(limit_s or [NO_LIMIT] * len(rows), dtype=float),
    )


def fifo(jobs: Jobs, capacity: int) -> Schedule:
    return run_queue(jobs, capacity, np.zeros(len(jobs)))


# For a pool of 2: A runs 4 s on 1, B 6 s on 2, C 2 s on 1, D 1 s on 1; they come at 0, 1, 2 and 3.
POOL_OF_2 = jobs_of((0, 4, 1), (1, 6, 2), (2, 2, 1), (3, 1, 1))


def test_fifo_lets_the_head_block_those_behind_it() -> None:
    # 0123456789012
    # AAAABBBBBBCC
    # ....BBBBBBD
    assert fifo(POOL_OF_2, 2).start_s.tolist() == [0, 4, 10, 10]


def test_shortest_job_first_passes_the_large_one() -> None:
    # B (6 s) heads alone at 1 and blocks nobody that is shorter: C comes at 2, D at 3, each shorter than B.
    # 01234567890
    # AAAABBBBBB
    # ..CCBBBBBB      D (1 s) comes at 3 when both units are busy, and is first at 4:
    # AAAAD
    # ..CC.BBBBBB     B needs both: 5
    assert run_queue(POOL_OF_2, 2, POOL_OF_2.runtime_s).start_s.tolist() == [0, 5, 2, 4]


def test_wrong_forecasts_order_the_queue_but_do_not_change_how_long_jobs_run() -> None:
    # One unit, A holds it for 3 s; B (1 s) is believed to take 9 s, C (5 s) to take 2 s.
    # 0123456789
    # AAACCCCCB
    jobs = jobs_of((0, 3, 1), (1, 1, 1), (2, 5, 1))
    assert run_queue(jobs, 1, np.array([3.0, 9.0, 2.0])).start_s.tolist() == [0, 8, 3]


def test_smallest_service_first_weighs_runtime_by_size() -> None:
    # A holds all 4 for 2 s. B: 3 s x4 = 12; C: 5 s x2 = 10; D: 6 s x1 = 6. SJF would be B first; QSSF is D, C, then B.
    # 01234567890
    # AADDDDDD
    # AACCCCC
    # AACCCCC
    # AA      BBB     (all four)
    jobs = jobs_of((0, 2, 4), (1, 3, 4), (1, 5, 2), (1, 6, 1))
    assert run_queue(jobs, 4, jobs.runtime_s * jobs.size).start_s.tolist() == [0, 8, 2, 2]
    assert run_queue(jobs, 4, jobs.runtime_s).start_s.tolist() == [0, 2, 5, 5]


def test_equals_start_in_the_order_of_their_submission() -> None:
    jobs = jobs_of((0, 2, 1), (0, 2, 1), (0, 2, 1))
    assert run_queue(jobs, 1, jobs.runtime_s).start_s.tolist() == [0, 2, 4]


def test_what_ends_makes_room_for_what_arrives_at_the_same_instant() -> None:
    jobs = jobs_of((0, 5, 1), (5, 1, 1))
    assert fifo(jobs, 1).start_s.tolist() == [0, 5]


@pytest.mark.parametrize(
    ("plan_s", "starts", "reserved_s"),
    [
        # C (2 s x1) is done by 4, when B needs both: it goes ahead at 2. D (1 s x1) comes at 3, when both are busy; at 4 B goes.
        # 01234567890
        # AAAABBBBBBD
        # ..CCBBBBBB
        pytest.param([4, 6, 2, 1], [0, 4, 2, 10], 4, id="runtimes as plans"),
        # C plans 3 s, until 5 > 4, and B leaves nothing beside itself: C waits. D plans 1 s from 3 to 4: it goes ahead.
        # 012345678901
        # AAAABBBBBBCC
        # ...DBBBBBB
        pytest.param([4, 6, 3, 1], [0, 4, 10, 3], 4, id="a plan too long is not let ahead"),
        # A plans 10 s, so B is promised 10: C and D go ahead. A ends at 4 after all; C is done at 4, B goes early, at 4.
        pytest.param([10, 6, 2, 1], [0, 4, 2, 10], 10, id="a reservation is a bound, not a date"),
        # A plans 2 s: at 2, before C arrives, it is doubled to 4. B is promised 2 (kept: the first promise), C plans until 4.
        pytest.param([2, 6, 2, 1], [0, 4, 2, 10], 2, id="a job that outlives its plan is planned at twice that"),
        # A plans 3 s: when C arrives at 2 the reservation is 3 and C (2 s) does not fit before it. At 3 A is doubled to 6, and
        # C goes, from 3 to 5; B, which could have gone at 4, has to wait for C: a short plan costs the head.
        # 0123456789012
        # AAAA.BBBBBBD
        # ...CCBBBBBB        D (1 s) comes at 3, after C: no room; at 4 it goes ahead of B until 5, when B is expected
        pytest.param([3, 6, 2, 1], [0, 5, 3, 4], 3, id="an underestimate delays the head"),
    ],
)
def test_easy_backfills_what_does_not_delay_the_head(plan_s: list[float], starts: list[float], reserved_s: float) -> None:
    done = run_easy(POOL_OF_2, 2, np.array(plan_s, dtype=float))
    assert done.start_s.tolist() == starts
    assert done.reserved_s[1] == reserved_s


def test_easy_backfills_a_long_job_into_what_the_head_leaves_free() -> None:
    # Pool of 4: A 5 s x3 runs; B needs 3 at 5 and leaves 1 beside it: C (20 s x1) may hold that one, D (20 s x1) may not too.
    # 0....5....0....5....0....5
    # AAAAABBBBD...                (x3, D at 9)
    # ..CCCCCCCCCCCCCCCCCCCC
    jobs = jobs_of((0, 5, 3), (1, 4, 3), (2, 20, 1), (3, 20, 1))
    assert run_easy(jobs, 4, jobs.runtime_s).start_s.tolist() == [0, 5, 2, 9]


@pytest.mark.parametrize(
    ("plan_s", "ran_s", "limit_s", "expected"),
    [
        pytest.param(10, 9, NO_LIMIT, 10, id="still within its plan"),
        pytest.param(10, 10, NO_LIMIT, 20, id="outlived: doubled"),
        pytest.param(10, 45, NO_LIMIT, 80, id="doubled as often as needed"),
        pytest.param(10, 10, 15, 15, id="up to the limit"),
        pytest.param(10, 10, 20, 20, id="the limit is twice the plan"),
        pytest.param(15, 15, 15, 30, id="a job that outlives its limit is doubled on"),
        pytest.param(10, 40, 15, 60, id="first the limit, then twice that, and again"),
    ],
)
def test_plan_is_doubled(plan_s: float, ran_s: float, limit_s: float, expected: float) -> None:
    assert doubled_plan_s(plan_s, 100.0, 100.0 + ran_s, limit_s) == expected


MINUTE_S = 60.0


@pytest.mark.parametrize(
    ("plan_s", "ran_s", "limit_s", "expected"),
    [
        pytest.param(600, 599, NO_LIMIT, 600, id="still within its plan"),
        pytest.param(600, 600, NO_LIMIT, 660, id="first a minute"),
        pytest.param(600, 660, NO_LIMIT, 960, id="then five more"),
        pytest.param(600, 960, NO_LIMIT, 1860, id="then a quarter of an hour"),
        pytest.param(600, 1859, NO_LIMIT, 1860, id="corrections missed are made up for"),
        pytest.param(600, 700, 800, 800, id="up to the limit"),
        pytest.param(600, 800, 800, 1700, id="a job that outlives its limit is raised on, by the third step"),
        pytest.param(1, 1 + 11_331 * MINUTE_S, NO_LIMIT, 1 + 17_331 * MINUTE_S, id="the last step again and again"),
    ],
)
def test_plan_is_raised(plan_s: float, ran_s: float, limit_s: float, expected: float) -> None:
    assert raised_plan_s(plan_s, 100.0, 100.0 + ran_s, limit_s) == expected


def test_easy_shortest_first_backfills_the_shortest_plan() -> None:
    # Pool of 3: A 6 s x2, B needs all 3 and is promised 6; C (4 s x1) and D (2 s x1) come at 2, both would be done by 6.
    # By submission C goes, and D after B; the shortest first it is D, and C, which at 4 would end at 8, after B.
    # 012345678901
    # AAAAAABBCCCC
    # AAAAAABB
    # ..DD..BB
    jobs = jobs_of((0, 6, 2), (1, 2, 3), (2, 4, 1), (2, 2, 1))
    assert run_easy(jobs, 3, jobs.runtime_s).start_s.tolist() == [0, 6, 2, 8]
    assert run_easy(jobs, 3, jobs.runtime_s, rank=jobs.runtime_s).start_s.tolist() == [0, 6, 8, 2]


def test_peak_use_counts_an_end_before_a_start_at_one_instant() -> None:
    #      0123456
    # x2   AA.CCC
    # x3   ..BB        A ends when B starts; C joins B at 3: 5
    assert peak_use(np.array([0.0, 2, 3]), np.array([2.0, 4, 6]), np.array([2, 3, 2])) == 5
    assert peak_use(np.array([]), np.array([]), np.array([], dtype=np.int64)) == 0


def test_job_larger_than_the_pool_is_refused() -> None:
    jobs = jobs_of((0, 1, 3))
    with pytest.raises(ValueError, match="size 3 cannot run in a pool of 2"):
        fifo(jobs, 2)
    with pytest.raises(ValueError, match="size 3 cannot run in a pool of 2"):
        run_easy(jobs, 2, jobs.runtime_s)


@pytest.mark.parametrize(
    ("rows", "match"),
    [([(5, 1, 1), (4, 1, 1)], "order"), ([(0, 0, 1)], "above 0 s"), ([(0, 1, 0)], "at least 1")],
)
def test_impossible_jobs_are_refused(rows: list[tuple[float, float, int]], match: str) -> None:
    with pytest.raises(ValueError, match=match):
        jobs_of(*rows)


# --- laws ---

PLANNED = st.tuples(st.integers(0, 12), st.integers(1, 9), st.integers(1, 4), st.integers(1, 12), st.integers(1, 12))
MANY = st.lists(PLANNED, min_size=1, max_size=14)  # submitted, runs, size, plan, limit
CAPACITY = st.integers(4, 7)


def drawn(rows: list[tuple[int, int, int, int, int]]) -> tuple[Jobs, np.ndarray]:
    rows = sorted(rows, key=lambda row: row[0])
    jobs = jobs_of(*[row[:3] for row in rows], limit_s=tuple(float(row[4]) for row in rows))
    return jobs, np.array([row[3] for row in rows], dtype=float)


def every_policy(jobs: Jobs, capacity: int, plan_s: np.ndarray) -> dict[str, Schedule]:
    return {
        "fifo": fifo(jobs, capacity),
        "sjf": run_queue(jobs, capacity, plan_s),
        "qssf": run_queue(jobs, capacity, plan_s * jobs.size),
        "easy": run_easy(jobs, capacity, plan_s),
    }


def in_use(jobs: Jobs, schedule: Schedule, second: int) -> int:
    running = (schedule.start_s <= second) & (second < schedule.start_s + jobs.runtime_s)
    return int(jobs.size[running].sum())


@given(MANY, CAPACITY)
def test_every_policy_keeps_to_the_clock_and_the_pool(rows: list, capacity: int) -> None:
    jobs, plan_s = drawn(rows)
    for schedule in every_policy(jobs, capacity, plan_s).values():
        assert (schedule.start_s >= jobs.submit_s).all()
        for second in range(int((schedule.start_s + jobs.runtime_s).max()) + 1):
            assert in_use(jobs, schedule, second) <= capacity


@given(MANY, CAPACITY)
def test_pool_is_never_idle_while_the_head_of_the_queue_fits(rows: list, capacity: int) -> None:
    jobs, plan_s = drawn(rows)
    ranks = {"fifo": plan_s * 0, "sjf": plan_s, "qssf": plan_s * jobs.size, "easy": plan_s * 0}
    for name, schedule in every_policy(jobs, capacity, plan_s).items():
        for second in range(int(schedule.start_s.max())):
            waiting = np.flatnonzero((jobs.submit_s <= second) & (schedule.start_s > second))
            if len(waiting):
                head = waiting[np.argmin(ranks[name][waiting])]
                assert in_use(jobs, schedule, second) + jobs.size[head] > capacity, (name, second)


@given(MANY, CAPACITY)
def test_easy_keeps_every_promise_when_plans_are_upper_bounds(rows: list, capacity: int) -> None:
    jobs, plan_s = drawn(rows)
    bounded = run_easy(jobs, capacity, jobs.runtime_s + plan_s)
    promised = ~np.isnan(bounded.reserved_s)
    assert (bounded.start_s[promised] <= bounded.reserved_s[promised]).all()
    exact = run_easy(jobs, capacity, jobs.runtime_s)
    promised = ~np.isnan(exact.reserved_s)
    assert (exact.start_s[promised] == exact.reserved_s[promised]).all()


@given(st.lists(st.tuples(st.integers(0, 12), st.integers(1, 9), st.just(1), st.just(1), st.just(1)), min_size=1, max_size=14))
def test_knowing_runtimes_never_loses_to_fifo_on_one_processor(rows: list) -> None:
    jobs, _ = drawn(rows)
    assert run_queue(jobs, 1, jobs.runtime_s).start_s.mean() <= fifo(jobs, 1).start_s.mean() + 1e-9


@pytest.mark.parametrize("ranked", [False, True], ids=["first come", "shortest first"])
@given(MANY, CAPACITY)
def test_easy_equals_a_scheduler_that_looks_at_every_second_anew(ranked: bool, rows: list, capacity: int) -> None:
    jobs, plan_s = drawn(rows)
    rank = jobs.runtime_s if ranked else None
    assert run_easy(jobs, capacity, plan_s, rank=rank).start_s.tolist() == easy_by_seconds(jobs, capacity, plan_s, rank)


def easy_by_seconds(jobs: Jobs, capacity: int, plan_s: np.ndarray, rank: np.ndarray | None) -> list[float]:
    """EASY as the definition reads, whole seconds only, everything found anew each second."""
    starts: list[float] = [NO_LIMIT] * len(jobs)
    plan = [int(one) for one in plan_s]

    def earliest(now: int, size: int, busy: list[int]) -> float:
        moments = sorted({now, *(starts[k] + plan[k] for k in busy)})
        return next(m for m in moments if capacity - sum(jobs.size[k] for k in busy if starts[k] + plan[k] > m) >= size)

    second = 0
    while NO_LIMIT in starts:
        running = [j for j in range(len(jobs)) if starts[j] <= second < starts[j] + jobs.runtime_s[j]]
        for j in running:
            while starts[j] + plan[j] <= second:
                plan[j] = int(jobs.limit_s[j]) if plan[j] < jobs.limit_s[j] < 2 * plan[j] else 2 * plan[j]
        queue = [j for j in range(len(jobs)) if jobs.submit_s[j] <= second and starts[j] == NO_LIMIT]
        free = capacity - sum(jobs.size[j] for j in running)
        while queue and jobs.size[queue[0]] <= free:
            starts[queue[0]] = second
            free -= jobs.size[queue[0]]
            running.append(queue.pop(0))
        for j in queue[1:] if rank is None else sorted(queue[1:], key=lambda j: rank[j]):
            if jobs.size[j] > free:
                continue

            before = earliest(second, jobs.size[queue[0]], running)  # may the head still start then if j starts now?
            starts[j] = second
            if earliest(second, jobs.size[queue[0]], [*running, j]) <= before:
                running.append(j)
                free -= jobs.size[j]
            else:
                starts[j] = NO_LIMIT
        second += 1
    return starts
