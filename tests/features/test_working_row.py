"""A model's columns of one job: the features it reads in its own order, and the codes of its categories."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runcast.features.catalog import NAMES
from runcast.features.levels import own_runs
from runcast.features.state import State
from runcast.features.working_row import WorkingPlan

HOUR_US = 3_600_000_000
CODES = {"user": {"ada": 1, "bob": 2}, "name_shape": {"train_#.sh": 1}}


def job(number: int, submit_us: int, **more: Any) -> dict[str, Any]:
    return {"job_key": f"c:{number}:{submit_us}", "submit_time": submit_us, **more}


@pytest.fixture(scope="module")
def state() -> State:
    """Three users' jobs: ended, running and waiting ones, some with siblings, some in arrays."""
    state = State("calendar", "Europe/Berlin")
    for number in range(60):
        submit = number * HOUR_US
        about = job(
            number, submit, user=("ada", "bob", "eve")[number % 3], job_name=f"train_{number % 2}.sh", gpu_count=float(number % 4),
            time_limit_s=3600.0 * (number % 5 + 1), array_id="a" if number % 7 == 0 else None, queue="gpu",
        )  # fmt: skip
        state.submitted(about)
        if number < 55:
            state.started({**about, "start_time": submit + 1})
        if number % 3 != 2 and number < 50:
            end = {"start_time": submit + 1, "end_time": submit + 1 + number * HOUR_US // 10, "runtime_s": number * 360.0}
            state.ended({**about, **end, "state": "COMPLETED", "label": "event"})
    return state


ASKED = [
    {"user": "ada", "job_name": "train_1.sh", "gpu_count": 2.0, "time_limit_s": 7200.0, "queue": "gpu"},
    {"user": "eve", "job_name": "train_0.sh", "gpu_count": 1.0, "array_id": "a"},
    {"user": "nobody"},
    {},
]


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    columns=st.lists(st.sampled_from([*NAMES, "code_user", "code_name_shape"]), min_size=1, max_size=40, unique=True),
    order=st.permutations(range(len(ASKED))),
)
def test_any_columns_in_any_order_are_those_of_the_whole_row(columns: list[str], order: list[int], state: State) -> None:
    """One plan for all of them, whose slots are of other levels from job to job."""
    plan = WorkingPlan(columns, CODES)
    for at in order:
        asked = job(1000, 61 * HOUR_US, **ASKED[at])
        values, texts = state.row(asked)
        whole = dict(zip(NAMES, values.tolist(), strict=True))
        for name, codes in CODES.items():
            whole[f"code_{name}"] = math.nan if texts[name] is None else float(codes.get(str(texts[name]), 0))
        found, n_history = state.read(asked, plan)
        np.testing.assert_array_equal(found, np.array([whole[name] for name in columns], np.float32))
        assert n_history == own_runs(whole["nearest_n"], whole["nearest_level"], "user" in ASKED[at])


@pytest.mark.parametrize(
    ("user", "code"), [("ada", 1.0), ("zz", 0.0), ("", math.nan), (None, math.nan)], ids=["known", "unseen", "empty", "null"]
)
def test_code_of_a_user(user: str | None, code: float, state: State) -> None:
    found, _ = state.read(job(1, 61 * HOUR_US, user=user), WorkingPlan(["code_user"], CODES))
    np.testing.assert_array_equal(found, np.array([code], np.float32))


def test_name_is_coded_by_its_shape(state: State) -> None:
    assert state.read(job(1, 61 * HOUR_US, job_name="train_977.sh"), WorkingPlan(["code_name_shape"], CODES))[0] == [1.0]


@pytest.mark.parametrize("column", ["no_such_feature", "code_queue"])
def test_column_that_is_not_computed_here_is_an_error(column: str) -> None:
    with pytest.raises(ValueError, match=column):
        WorkingPlan(["gpu_count", column], CODES)
