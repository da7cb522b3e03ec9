"""States: spelling, roles, and the table that names each state's role once."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runcast.data.columns import LABELS
from runcast.data.states import ALIASES, OPEN_STATES, OTHER, STATES, canonical_state, canonical_states

# "JOB STATE CODES" of sacct(1) and squeue(1), Slurm 23.11, plus EXPEDITING of 24.11.
SLURM_MANUAL = """
BOOT_FAIL CANCELLED COMPLETED CONFIGURING COMPLETING DEADLINE EXPEDITING FAILED LAUNCH_FAILED NODE_FAIL OUT_OF_MEMORY PENDING
POWER_UP_NODE PREEMPTED RECONFIG_FAIL REQUEUED REQUEUE_FED REQUEUE_HOLD RESIZING RESV_DEL_HOLD REVOKED RUNNING SIGNALING
SPECIAL_EXIT STAGE_OUT STOPPED SUSPENDED TIMEOUT UPDATE_DB
""".split()  # noqa: SIM905 - reads as the manual does


@pytest.mark.parametrize("state", SLURM_MANUAL)
def test_every_state_of_the_manual_has_one_role(state):
    assert canonical_state(state) == state
    assert STATES[state] in LABELS


def test_the_table_holds_the_manual_and_other_only():
    assert set(STATES) == {*SLURM_MANUAL, OTHER}
    assert set(STATES) >= OPEN_STATES
    assert set(ALIASES.values()) <= set(STATES)


@pytest.mark.parametrize(
    ("state", "role"),
    [
        ("COMPLETED", "event"),
        ("FAILED", "event"),
        ("OUT_OF_MEMORY", "event"),
        ("TIMEOUT", "censored"),
        ("CANCELLED", "censored"),
        ("PREEMPTED", "censored"),
        ("NODE_FAIL", "censored"),
        ("DEADLINE", "censored"),
        ("RUNNING", "censored"),
        ("PENDING", "excluded"),
        (OTHER, "censored"),
    ],
)
def test_role_of_state(state, role):
    assert STATES[state] == role


@pytest.mark.parametrize(
    ("text", "state"),
    [
        ("CANCELLED by 54321", "CANCELLED"),
        ("CANCELLED+", "CANCELLED"),
        ("OUT_OF_ME+", "OUT_OF_MEMORY"),
        ("RESV_DEL_+", "RESV_DEL_HOLD"),
        ('["COMPLETED"]', "COMPLETED"),
        ("['CANCELLED by 7']", "CANCELLED"),
        (["COMPLETED"], "COMPLETED"),
        (["RUNNING", "COMPLETING"], "COMPLETING"),
        (["PENDING", "REQUEUED"], "REQUEUED"),
        (["SOMETHING_NEW", "FAILED"], "FAILED"),
        ([], OTHER),
        ("NODE_FAIL", "NODE_FAIL"),
        ("node fail", "NODE_FAIL"),
        ("DEADLINE", "DEADLINE"),
        ("CD", "COMPLETED"),
        ("Running", "RUNNING"),
        ("SOMETHING_NEW", OTHER),
        ("RE+", OTHER),
        ("+", OTHER),
        ("[" * 5000, OTHER),
        ("", OTHER),
        (None, OTHER),
    ],
    ids=lambda value: repr(value)[:30],
)
def test_spelling_of_state(text, state):
    assert canonical_state(text) == state


@given(st.text())
def test_any_text_has_a_state(text):
    assert canonical_state(text) in STATES


def test_column_of_states_equals_one_by_one():
    texts = ["COMPLETED", None, "CANCELLED by 3", "COMPLETED", "new"]
    assert canonical_states(pa.array(texts)).to_pylist() == [canonical_state(text) for text in texts]
    assert canonical_states(pa.chunked_array([pa.array([], pa.string())])).to_pylist() == []
    assert canonical_states(pa.array([None], pa.string())).to_pylist() == [OTHER]
