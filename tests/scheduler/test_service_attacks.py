"""Each attack on the service in its short form, against a fresh service on a Unix socket or a port of loopback."""

import os
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from running import Running

sys.path.insert(0, str(Path(__file__).parents[1] / "attack"))

from service_attacks import ATTACKS, World

from runcast.scheduler.bundle import make_current

AS_ROOT = {
    "attack_by_asking_about_others",
    "attack_with_answers_that_nobody_reads",
    "attack_with_large_bodies",
    "attack_with_bodies_that_grow_when_read",
    "attack_by_reporting_as_another_account",
    "attack_with_many_connections",
    "attack_with_batches",
}


@pytest.fixture
def world(tmp_path: Path, make_bundle: Callable[..., Path]) -> Iterator[World]:
    running: list[Running] = []

    def bundle(kind: str = "gbdt", **changed: Any) -> Path:
        written = make_bundle(tmp_path / "bundles", kind, created=datetime.now(UTC), **changed)
        make_current(tmp_path / "bundles", written.name)
        return written

    def start(*options: str) -> Running:
        running.append(Running(tmp_path, *options))
        return running[-1]

    yield World(tmp_path, bundle, start)
    for service in running:
        service.close()


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.__name__.removeprefix("attack_"))
def test_attack_is_held(world: World, attack: Callable[[World], None]) -> None:
    if attack.__name__ in AS_ROOT and os.getuid() != 0:
        pytest.skip("connects as other accounts, which takes root")
    attack(world)
