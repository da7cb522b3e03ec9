"""Fixtures of the tests of deploy/."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from real_postgres import Postgres, real_postgres


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """A PostgreSQL server of its own, with the databases and roles that deploy/compose/databases.sh makes."""
    with real_postgres() as server:
        yield server
