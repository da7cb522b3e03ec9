"""Job ids, array sets and node lists."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runcast.data.sources.slurm_ids import JOB_ID, STEP_ID, array_task_count, node_names


@pytest.mark.parametrize("text", ["60", "12_3", "12_[4-9%2]", "12_[1,3,5-7]", "12+0", "12_[1,2,...]"])
def test_ids_of_jobs(text):
    assert re.match(JOB_ID, text)
    assert not re.match(STEP_ID, text)


@pytest.mark.parametrize("text", ["60.batch", "60.extern", "60.0", "12_3.batch", "12+1.0", "60.interactive"])
def test_ids_of_steps(text):
    assert re.match(STEP_ID, text)
    assert not re.match(JOB_ID, text)


@pytest.mark.parametrize("text", ["", "JobID", "60 ", "60.", "a60", "12_", "-1"])
def test_what_is_no_id(text):
    assert not re.match(JOB_ID, text)
    assert not re.match(STEP_ID, text)


@pytest.mark.parametrize(
    ("tasks", "count"),
    [
        ("4-9%2", 6),
        ("1,3,5-7", 5),
        ("7", 1),
        ("0-99", 100),
        ("0-8:4", 3),
        ("10000%500", 1),
        ("1,2,...", None),
        ("", None),
        ("9-4", None),
    ],
)
def test_tasks_that_wait(tasks, count):
    assert array_task_count(tasks) == count


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("gpu[001-003,007],login1", ("gpu001", "gpu002", "gpu003", "gpu007", "login1")),
        ("a[1-2]b[3-4]", ("a1b3", "a1b4", "a2b3", "a2b4")),
        ("a[09-11]", ("a09", "a10", "a11")),
        ("cpn-f13-03-[01-02],cpn-f13-04-[01-02]", ("cpn-f13-03-01", "cpn-f13-03-02", "cpn-f13-04-01", "cpn-f13-04-02")),
        ("login1", ("login1",)),
        ("None assigned", ()),
        ("", ()),
        ("a[3-1]", None),
        ("a[1-", None),
        ("a[]", None),
        ("a[1-999999999]", None),
        ("a[1-2000]b[1-2000]", None),
        ("a,,b", None),
    ],
)
def test_node_list(text, names):
    assert node_names(text) == names


@given(st.text(alphabet=st.sampled_from("ab[]0123-,% "), max_size=30))
def test_any_node_list_is_expanded_or_not_understood(text):
    names = node_names(text)
    assert names is None or all(names)
