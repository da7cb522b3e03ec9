"""Fixtures every folder shares."""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# Machines are shared: an example that waits for its turn is not a fault. The same examples every time, everywhere; `make fuzz` looks wider.
settings.register_profile("runcast", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("runcast")


@pytest.fixture(scope="session")
def traces() -> Path:
    """The folder of real logs, laid out as the cluster files expect; tests that ask for it are skipped where it is not named."""
    named = os.environ.get("RUNCAST_TRACES")
    if not named:
        pytest.skip("RUNCAST_TRACES is not set: no real logs to test on")
    folder = Path(named).resolve()
    if not folder.is_dir():
        pytest.fail(f"RUNCAST_TRACES={named}: no such folder")
    return folder
