"""The modules beside the tests are imported by their own names; one Slurm serves all tests that need a real one."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from one_node import OneNode, one_node, plugin_files, why_not


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "slurm: starts a real one-node Slurm; skipped with the reason where it cannot (root, Debian packages)"
    )


#: Of job_submit.lua, as Lua text: short pauses, every line logged, so that a test sees what happened.
PLUGIN_SETTINGS = {
    "socket": "slurm_folder .. '/predict.sock'",
    "note": "'comment'",
    "order": "'site_factor'",
    "gpus_tracked": "true",
    "default_qos": "'normal'",
    "failures_allowed": "2",
    "pause_s": "1",
    "longest_pause_s": "1",
    "log_every_s": "0",
    "report_every": "1",
}


@pytest.fixture(scope="session")
def node() -> Iterator[OneNode]:
    """A real Slurm with the plugin inside and no service at its socket; a test that wants one starts it."""
    reason = why_not()
    if reason is not None:
        pytest.skip(f"no one-node Slurm: {reason}")
    with one_node(
        job_submit=plugin_files(**PLUGIN_SETTINGS), slurm_conf="PriorityType=priority/multifactor\n", cpus=2
    ) as running:
        yield running
