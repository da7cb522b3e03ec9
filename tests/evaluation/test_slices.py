from collections.abc import Callable

import numpy as np

from runcast.evaluation.slices import make_slices
from runcast.features.table import build

HOUR_S = 3600.0


def slices_of(jobs, rows=None, long_s: float = 4 * HOUR_S, gated: tuple[str, ...] = ()) -> dict[str, list[bool]]:
    matrix = build(jobs, "calendar", "UTC")
    chosen = np.arange(len(matrix)) if rows is None else np.array(rows)
    return {one.name: one.rows.tolist() for one in make_slices(matrix, chosen, long_s, gated)}


def test_recurring_from_five_finished_runs_of_its_key(make_canonical: Callable) -> None:
    """Seven jobs of a minute, one every hour: the sixth is the first that saw five finished runs."""
    jobs = make_canonical(
        job_key=list("abcdefg"), user=["u"] * 7, job_name=["x"] * 7, submit_s=np.arange(7) * HOUR_S,
        start_s=np.arange(7) * HOUR_S, end_s=np.arange(7) * HOUR_S + 60,
        runtime_s=np.full(7, 60.0), state="COMPLETED", label="event", time_limit_kind="absent",
    )  # fmt: skip
    assert slices_of(jobs)["recurring"] == [False] * 5 + [True] * 2


def test_history_of_the_whole_cluster_is_not_a_jobs_own(make_canonical: Callable) -> None:
    jobs = make_canonical(
        job_key=list("abcdefg"), user=[f"u{one}" for one in range(7)], submit_s=np.arange(7) * HOUR_S,
        start_s=np.arange(7) * HOUR_S, end_s=np.arange(7) * HOUR_S + 60,
        runtime_s=np.full(7, 60.0), state="COMPLETED", label="event", time_limit_kind="absent",
    )  # fmt: skip
    found = slices_of(jobs)
    assert not any(found["recurring"])
    assert all(found["new_user"])


def test_user_is_new_until_a_first_job_has_ended(make_canonical: Callable) -> None:
    jobs = make_canonical(
        job_key=list("abc"), user=["u", "u", "u"], submit_s=[0, 10, 200], start_s=[0, 10, 200], end_s=[100, 110, 300],
        runtime_s=[100.0, 100.0, 100.0], state="COMPLETED", label="event", time_limit_kind="absent",
    )  # fmt: skip
    assert slices_of(jobs)["new_user"] == [True, True, False]


def test_job_without_a_user_is_of_no_new_user(make_canonical: Callable) -> None:
    jobs = make_canonical(
        job_key=list("abc"), user=["u", None, None], submit_s=[0, 10, 200], start_s=[0, 10, 200], end_s=[100, 110, 300],
        runtime_s=[100.0, 100.0, 100.0], state="COMPLETED", label="event", time_limit_kind="absent",
    )  # fmt: skip
    assert slices_of(jobs)["new_user"] == [True, False, False]


def test_long_multi_node_states_and_the_largest_groups(make_canonical: Callable) -> None:
    groups = ["a"] * 3 + ["b"] * 2 + ["c", "d", "e", "f", None]
    jobs = make_canonical(
        job_key=list("abcdefghij"), group=groups, submit_s=np.arange(10), start_s=np.arange(10), end_s=np.arange(10) + 5 * HOUR_S,
        runtime_s=[HOUR_S] * 9 + [5 * HOUR_S], node_count=[2.0, 1.0] * 4 + [np.nan, 3.0],
        state=["COMPLETED"] * 8 + ["FAILED"] * 2, label="event", time_limit_kind="absent",
    )  # fmt: skip
    found = slices_of(jobs)
    assert found["long"] == [False] * 9 + [True]
    assert found["multi_node"] == [True, False] * 4 + [False, True]
    assert [name for name in found if name.startswith("state:")] == ["state:COMPLETED", "state:FAILED"]
    assert [name for name in found if name.startswith("group:")] == [f"group:{one}" for one in "abcde"]
    assert sum(found["group:a"]) == 3


def test_slices_are_about_the_test_jobs_only(make_canonical: Callable) -> None:
    jobs = make_canonical(
        job_key=list("abc"), user=["u", "u", "u"], submit_s=[0, 10, 200], start_s=[0, 10, 200], end_s=[100, 110, 300],
        runtime_s=[100.0, 100.0, 100.0], state=["FAILED", "COMPLETED", "COMPLETED"], label="event", time_limit_kind="absent",
    )  # fmt: skip
    found = slices_of(jobs, rows=[2])
    assert found["all"] == [True]
    assert "state:FAILED" not in found


def test_largest_queues_accounts_and_users_have_slices_and_those_that_a_gate_names(make_canonical: Callable) -> None:
    """Users u0 to u6 with 7, 6, … 1 jobs; u6 is too small for a slice of its own, and gets one because a gate is about it."""
    users = [f"u{one}" for one in range(7) for _ in range(7 - one)]
    count = len(users)
    jobs = make_canonical(
        job_key=[str(one) for one in range(count)], user=users, queue=["gpu"] * (count - 1) + [None], submit_s=np.arange(count),
        account=["a" if user < "u3" else "b:c" for user in users], start_s=np.arange(count), end_s=np.arange(count) + HOUR_S,
        runtime_s=np.full(count, HOUR_S), state="COMPLETED", label="event", time_limit_kind="absent",
    )  # fmt: skip
    found = slices_of(jobs, gated=("all", "user:u6", "user:nobody", "queue:u6", "account:b:c"))
    named = {name: sum(rows) for name, rows in found.items() if name.partition(":")[0] in ("queue", "account", "user", "group")}
    assert named == {
        "queue:gpu": 27, "account:a": 18, "account:b:c": 10,
        "user:u0": 7, "user:u1": 6, "user:u2": 5, "user:u3": 4, "user:u4": 3, "user:u6": 1,
    }  # fmt: skip
