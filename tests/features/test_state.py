"""The state: strictness in time, odd orders of events, what is told twice, and saving."""

import json
import math
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from runcast.features import state as state_module
from runcast.features.catalog import NAMES
from runcast.features.errors import StateError
from runcast.features.levels import RUNS_CAP
from runcast.features.state import State

Row = dict[str, Any]


def job(key: str, submit_s: float, start_s: float | None = None, end_s: float | None = None, **more: Any) -> Row:
    us = {"submit_time": submit_s, "start_time": start_s, "end_time": end_s}
    row: Row = {name: None if value is None else round(value * 1e6) for name, value in us.items()}
    row |= {"job_key": key, "user": "ann", "gpu_count": 2.0, "state": "COMPLETED", "label": "event"}
    row["runtime_s"] = None if end_s is None or start_s is None else float(end_s - start_s)
    return row | more


def ask(state: State, name: str, submit_s: float, **more: Any) -> float:
    return float(state.row(job("asked", submit_s, **more))[0][NAMES.index(name)])


def fresh() -> State:
    return State("calendar", "UTC")


@pytest.mark.parametrize(
    ("submit_s", "last_s"),
    [(10, math.nan), (100, math.nan), (100.000001, 100.0), (101, 100.0)],
    ids=["while it runs", "at its very end", "a microsecond later", "later"],
)
def test_a_job_is_history_only_strictly_after_its_end(submit_s: float, last_s: float) -> None:
    state = fresh()
    state.update(job("1", 0, 0, 100))
    assert ask(state, "last_1_s_by_user", submit_s) == pytest.approx(last_s, nan_ok=True)


def test_jobs_of_one_burst_do_not_see_each_other() -> None:
    state = fresh()
    for key in "abc":
        assert ask(state, "submitted_n_by_user", 50, array_id="7") == 0
        state.submitted(job(key, 50, array_id="7"))
    assert ask(state, "submitted_n_by_array", 51, array_id="7") == 3
    assert ask(state, "burst_n_by_array", 51, array_id="7") == 3


def test_last_two_is_one_where_only_one_ended_and_null_without_a_user() -> None:
    state = fresh()
    state.update(job("1", 0, 0, 100))
    assert ask(state, "last_two_mean_s_by_user", 101) == 100
    state.update(job("2", 101, 101, 151))
    assert ask(state, "last_two_mean_s_by_user", 200) == 75
    assert math.isnan(ask(state, "last_two_mean_s_by_user", 200, user=None))


def test_an_unseen_user_falls_back_to_a_wider_level_and_says_so() -> None:
    state = fresh()
    state.update(job("1", 0, 0, 100))
    assert ask(state, "nearest_level", 101) == 4  # the user with this size
    assert ask(state, "nearest_level", 101, user="zz") == 11  # the size alone
    assert ask(state, "nearest_level", 101, user="zz", gpu_count=7.0) == 12  # everything
    assert ask(state, "nearest_median_s", 101, user="zz") == 100
    assert ask(state, "submitted_n_by_user", 101, user="zz") == 0
    assert math.isnan(ask(state, "submitted_n_by_user", 101, user=None))


def test_null_and_empty_texts_are_the_same() -> None:
    state = fresh()
    state.update(job("1", 0, 0, 100, user=""))
    assert math.isnan(ask(state, "runs_by_user", 101, user=""))
    assert state.row(job("asked", 101, user=""))[1]["user"] is None


def test_zero_nodes_and_zero_gpus_are_not_divided_by() -> None:
    row = fresh().row(job("1", 0, gpu_count=8.0, node_count=0.0, cpu_count=4.0))[0]
    assert math.isnan(row[NAMES.index("gpus_per_node")])
    row = fresh().row(job("1", 0, gpu_count=0.0, node_count=1.0, cpu_count=4.0))[0]
    assert math.isnan(row[NAMES.index("cpus_per_gpu")])
    assert not np.isinf(row).any()


def test_a_start_without_a_submission_counts_as_one() -> None:
    state = fresh()
    state.started(job("1", 0, 5))
    assert ask(state, "running_n_by_user", 10) == 1
    assert ask(state, "submitted_n_by_user", 10) == 1
    assert ask(state, "running_gpus", 10) == 2


def test_a_requeued_job_runs_from_its_second_start() -> None:
    state = fresh()
    state.submitted(job("1", 0))
    state.started(job("1", 0, 5))
    state.started(job("1", 0, 60))
    assert ask(state, "running_n_by_user", 100) == 1
    assert ask(state, "waiting_n_by_user", 100) == 0
    assert ask(state, "running_mean_s_by_user", 100) == 40
    assert ask(state, "running_latest_s_by_user", 100) == 40
    state.ended(job("1", 0, 60, 110))
    assert ask(state, "running_gpus", 120) == 0


def test_what_is_told_twice_counts_once() -> None:
    state = fresh()
    for _ in range(2):
        state.update(job("1", 0, 10, 100))
        state.advance(1_000_000_000)
    assert ask(state, "runs_by_user", 101) == 1
    assert ask(state, "submitted_n_by_user", 101) == 1
    assert ask(state, "running_n_by_user", 101) == 0
    assert ask(state, "waiting_gpus", 101) == 0


def test_an_end_without_a_submission_is_history_and_nothing_else() -> None:
    state = fresh()
    state.ended(job("1", 0, 10, 100))
    assert ask(state, "runs_by_user", 101) == 1
    assert ask(state, "submitted_n_by_user", 101) == 0


def test_a_job_cancelled_before_it_started_waits_no_longer() -> None:
    state = fresh()
    state.update(job("1", 0, None, 100, state="CANCELLED", label="excluded"))
    assert ask(state, "waiting_n_by_user", 100) == 1
    assert ask(state, "waiting_n_by_user", 101) == 0
    assert ask(state, "runs_by_user", 101) == 0


def test_a_late_question_about_the_past_is_answered_as_of_what_was_counted() -> None:
    state = fresh()
    state.update(job("1", 0, 0, 100))
    assert ask(state, "age_s_by_user", 150) == 50
    assert ask(state, "age_s_by_user", 20) == 0


def filled() -> State:
    """A state with ended, running, waiting and pending jobs."""
    state, random = fresh(), np.random.default_rng(3)
    for at in range(300):
        submit = at * 10.0
        end = submit + 5 + float(random.integers(1, 500))
        row = job(
            f"j{at}",
            submit,
            submit + 5,
            end,
            user=f"u{random.integers(5)}",
            job_name=f"run_{random.integers(9)}",
            time_limit_s=600.0,
        )
        state.row(row)
        state.update(row)
    state.submitted(job("waits", 2_999))
    state.started(job("runs", 2_990, 2_995))
    return state


def test_a_saved_state_answers_as_before(tmp_path: Path) -> None:
    state = filled()
    state.save(tmp_path / "state.npz")
    again = State.load(tmp_path / "state.npz")
    for submit in (2_995, 3_000, 3_100, 10_000):
        for user in ("u1", "u4", "new", None):
            asked = job("asked", submit, user=user, job_name="run_3", time_limit_s=600.0)
            np.testing.assert_array_equal(state.row(asked)[0], again.row(asked)[0])
        for both in (state, again):
            both.update(job(f"more{submit}", submit, submit, submit + 50, job_name="run_3"))
            both.ended(job("runs", 2_990, 2_995, submit + 1))


def test_equal_states_give_equal_bytes_and_so_does_loading_one(tmp_path: Path) -> None:
    filled().save(tmp_path / "a.npz")
    filled().save(tmp_path / "b.npz")
    State.load(tmp_path / "a.npz").save(tmp_path / "c.npz")
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes() == (tmp_path / "c.npz").read_bytes()


@pytest.mark.parametrize("content", [b"", b"not a state", b"PK\x03\x04 broken"], ids=["empty", "text", "cut zip"])
def test_a_damaged_state_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "state.npz").write_bytes(content)
    with pytest.raises(StateError, match=r"state\.npz: not a feature state"):
        State.load(tmp_path / "state.npz")


def test_a_truncated_state_is_refused(tmp_path: Path) -> None:
    filled().save(tmp_path / "state.npz")
    whole = (tmp_path / "state.npz").read_bytes()
    (tmp_path / "state.npz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(StateError, match="damaged"):
        State.load(tmp_path / "state.npz")


def test_a_state_of_other_features_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    filled().save(tmp_path / "state.npz")
    monkeypatch.setattr("runcast.features.state.feature_version", lambda: "another")
    with pytest.raises(StateError, match="Export it again"):
        State.load(tmp_path / "state.npz")


def _altered(path: Path, name: str, change: Callable[[Any], Any]) -> None:
    """Write the state's file again, valid as an archive, with one array changed; `meta` is changed as what its JSON says."""
    with zipfile.ZipFile(path) as archive:
        arrays = {entry.removesuffix(".npy"): np.load(archive.open(entry)) for entry in archive.namelist()}
    if name == "meta":
        changed = change(json.loads(arrays["meta"].tobytes()))
        arrays["meta"] = np.frombuffer(json.dumps(changed).encode(), np.uint8)
    else:
        arrays[name] = change(arrays[name].copy())
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for entry, array in arrays.items():
            with archive.open(f"{entry}.npy", "w") as member:
                np.lib.format.write_array(member, array)


def _with(values: Any, at: Any, value: Any) -> Any:
    values[at] = value
    return values


@pytest.mark.parametrize(
    ("name", "change", "problem"),
    [
        ("ready", lambda a: a[:, :-1], "ready: expected float32"),
        ("ready", lambda a: a.astype(np.float64), "ready: expected float32"),
        ("ready", lambda a: a[:-1], "times: expected float64"),
        ("counts", lambda a: a[0], r"counts: expected int32 \(\d+, 5\)"),
        ("keys", lambda a: a[::-1].copy(), "rising"),
        ("keys", lambda a: a[:-1], "keys of"),
        ("slots", lambda a: _with(a, 0, 10**6), "each slot once"),
        ("slots", lambda a: _with(a, 0, -1), "each slot once"),
        ("open_slots", lambda a: _with(a, 0, 10**6), "a slot that is not there"),
        ("open_slots", lambda a: _with(a, 0, -5), "a slot that is not there"),
        ("open_sizes", lambda a: _with(a, 0, 10**6), "lengths that sum"),
        ("open_sizes", lambda a: _with(_with(a, 0, -1), 1, a[0] + a[1] + 1), "lengths that sum"),
        ("ended", lambda a: a.astype(np.float32), "ended: expected uint64"),
        ("meta", lambda meta: [], "TypeError"),
        ("meta", lambda meta: {**meta, "load": [1]}, "load: expected 4 numbers"),
        ("meta", lambda meta: {**meta, "load": "abcd"}, "meta: ValueError"),
        ("meta", lambda meta: {**meta, "open": meta["open"][:-1]}, "meta: ValueError"),
        ("meta", lambda meta: {**meta, "open": 7}, "meta: TypeError"),
        ("meta", lambda meta: {**meta, "pending": [[1]]}, "meta: ValueError"),
        ("meta", lambda meta: {**meta, "pending": [[1, 9, 0.0, 0, "k", 1, None, [], 0, 0, 0, 0, 0]]}, "event 0 of kind 9"),
        ("meta", lambda meta: {**meta, "pending": [[1, 0, 0.0, 0, "k", 1, None, [-1], 0, 0, 0, 0, 0]]}, "meta: OverflowError"),
        ("meta", lambda meta: {**meta, "most_per_node": None}, "meta: TypeError"),
    ],
)
def test_an_altered_state_is_refused_with_what_is_wrong(tmp_path: Path, name: str, change: Any, problem: str) -> None:
    path = tmp_path / "state.npz"
    filled().save(path)
    _altered(path, name, change)
    with pytest.raises(StateError, match=problem):
        State.load(path)


def test_a_state_larger_in_memory_than_on_disk_is_refused_before_it_takes_memory(tmp_path: Path) -> None:
    """A compressed gigabyte of zeros, and a header that claims a petabyte."""
    path = tmp_path / "state.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("ready.npy", "w", force_zip64=True) as member:
        np.lib.format.write_array_header_1_0(member, {"descr": "<f4", "fortran_order": False, "shape": (2**28,)})
        for _ in range(64):
            member.write(bytes(2**22))
    assert path.stat().st_size < 2**21
    tracemalloc.start()
    with pytest.raises(StateError, match="they are compressed, or overlap"):
        State.load(path)
    with zipfile.ZipFile(path, "w") as archive, archive.open("ready.npy", "w") as member:
        np.lib.format.write_array_header_1_0(member, {"descr": "<f4", "fortran_order": False, "shape": (2**48,)})
    with pytest.raises(StateError, match="is not what its"):
        State.load(path)
    assert tracemalloc.get_traced_memory()[1] < 10 * 2**20
    tracemalloc.stop()


def test_keys_beyond_the_bound_push_out_those_used_longest_ago(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each submission under a name of its own adds keys; ann's stay, since she goes on, and so do those of jobs that run."""
    monkeypatch.setattr(state_module, "MOST_NEW_KEYS", 400)
    state = fresh()
    state.update(job("old", 0, 0, 100, user="bob", job_name="old"))
    state.submitted(job("open", 1, user="eve", job_name="open"))
    for number in range(2000):
        at = 200 + number
        state.update(job(str(number), at, at, at + 0.5, job_name=f"{number * 7919:x}"))
        assert ask(state, "runs_by_user", at + 1) == min(number + 1, RUNS_CAP)
        assert len(state) <= 500
    assert ask(state, "runs_by_user", 3000, user="bob") == 0
    assert ask(state, "waiting_n_by_user", 3000, user="eve") == 1
    state.ended(job("open", 1, 3001, 3002, user="eve", job_name="open"))
    assert ask(state, "waiting_n_by_user", 3003, user="eve") == 0


def test_open_jobs_beyond_the_bound_hold_nothing_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_module, "MOST_OPEN", 3)
    state = fresh()
    for number in range(5):
        state.submitted(job(str(number), number))
    assert ask(state, "waiting_n_by_user", 10) == 3


def test_events_that_no_submission_has_counted_are_bounded_and_none_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_module, "MOST_PENDING", 10)
    bounded, whole = fresh(), fresh()
    for number in range(100):
        bounded.ended(job(str(number), 0, 0, number + 1))
    monkeypatch.setattr(state_module, "MOST_PENDING", 10_000)
    for number in range(100):
        whole.ended(job(str(number), 0, 0, number + 1))
    assert len(bounded._pending) == 10
    assert bounded.row(job("asked", 1000))[0].tobytes() == whole.row(job("asked", 1000))[0].tobytes()


def test_history_advanced_in_steps_is_that_advanced_at_once() -> None:
    stepwise, at_once = fresh(), fresh()
    for state in (stepwise, at_once):
        for number in range(50):
            state.update(job(str(number), number, number, 2 * number + 1))
    steps = 0
    while not stepwise.advance(60_000_000, 7):
        steps += 1
    assert steps > 5
    assert stepwise.row(job("asked", 60))[0].tobytes() == at_once.row(job("asked", 60))[0].tobytes()


def test_long_texts_are_not_kept_at_hand() -> None:
    state = fresh()
    for number in range(50):
        ask(state, "runs_by_user", 1, job_name=f"{number}" + "x" * 4000, work_dir=f"/{number}" + "y" * 4000)
    reader = state._reader
    held = [*reader._job_name, *reader._name_shape, *reader._shape, *(text for one in reader._asked for text in one[:6] if text)]
    assert max((len(text) for text in held if text), default=0) <= 256
