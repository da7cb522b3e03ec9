"""Versions, aliases, the gate and the way back."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from mlflow.exceptions import MlflowException

from runcast.evaluation.gates import GateReport
from runcast.registry.errors import GateNotPassed, NoChampion
from runcast.registry.models import ModelVersion, champion, download, promote, rollback
from runcast.registry.runs import Night
from runcast.registry.store import Store

AT = datetime(2026, 1, 1, tzinfo=UTC)

Registers = Callable[[Night], ModelVersion]
Nights = Callable[..., Night]
Reports = Callable[..., GateReport]


def _aliases(store: Store) -> dict[str, str]:
    return {k: str(v) for k, v in store.client.get_registered_model("runcast-venus-gbdt").aliases.items()}


def test_registered_version_is_challenger_not_champion(store: Store, night: Nights, register_night: Registers) -> None:
    version = register_night(night())
    assert version.label == "runcast-venus-gbdt/1"
    assert _aliases(store) == {"challenger": "1"}
    with pytest.raises(NoChampion, match="the baseline serves"):
        champion(store, "venus", "gbdt")


def test_version_carries_the_card_and_its_files(store: Store, night: Nights, register_night: Registers, tmp_path: Path) -> None:
    version = register_night(night())
    found = store.client.get_model_version(version.name, version.version)
    assert found.description == "a card"
    assert found.tags["runcast.data_fingerprint"] == night().data_fingerprint
    assert (download(store, version, tmp_path / "copy") / "manifest.json").read_text() == "{}"


def test_same_night_twice_is_one_version(night: Nights, register_night: Registers) -> None:
    assert register_night(night()) == register_night(night())


def test_same_night_with_another_model_is_another_version(night: Nights, register_night: Registers) -> None:
    register_night(night())
    assert register_night(night(model_sha256="e" * 64)).version == "2"


def test_killed_between_files_and_version_reuses_the_files(
    store: Store, night: Nights, register_night: Registers, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as killed:
        killed.setattr(type(store.client), "create_model_version", _killed)
        with pytest.raises(KeyboardInterrupt):
            register_night(night())
    assert register_night(night()).version == "1"
    assert len(store.client.search_logged_models([store.experiment_id("venus")])) == 1


def test_killed_between_register_and_alias_leaves_the_old_champion(
    store: Store, night: Nights, register_night: Registers, monkeypatch: pytest.MonkeyPatch, make_report: Reports
) -> None:
    first = register_night(night(25))
    promote(store, first, make_report(first))
    second = register_night(night(26))
    with monkeypatch.context() as killed:
        killed.setattr(type(store.client), "set_registered_model_alias", _killed)
        with pytest.raises(KeyboardInterrupt):
            promote(store, second, make_report(second))
    assert champion(store, "venus", "gbdt") == first
    assert promote(store, second, make_report(second)).moved
    assert champion(store, "venus", "gbdt") == second


def _killed(*_args: object, **_kwargs: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        (None, "no report"),
        ({"failed": "error_factor 3.2, the best baseline has 2.9"}, "error_factor 3.2"),
        ({"data_fingerprint": "0" * 64}, "data: expected"),
        ({"cluster": "philly"}, "cluster: expected venus, found philly"),
        ({"night": "2020-09-25"}, "night: expected 2020-09-26, found 2020-09-25"),
        ({"kind": "cart"}, "kind: expected gbdt, found cart"),
        ({"model_sha256": "0" * 64}, "model: expected"),
    ],
    ids=["none", "failed", "other data", "other cluster", "other night", "other kind", "other model"],
)
def test_only_a_passed_report_on_the_same_data_promotes(
    store: Store, night: Nights, register_night: Registers, changed: dict[str, str] | None, why: str, make_report: Reports
) -> None:
    version = register_night(night())
    with pytest.raises(GateNotPassed, match=why):
        promote(store, version, None if changed is None else make_report(version, **changed))
    assert "champion" not in _aliases(store)


def test_promoting_twice_changes_nothing(store: Store, night: Nights, register_night: Registers, make_report: Reports) -> None:
    version = register_night(night())
    assert promote(store, version, make_report(version)).moved
    again = promote(store, version, make_report(version))
    assert (again.champion, again.moved) == (version, False)


def test_backfilled_night_does_not_replace_a_later_champion(
    store: Store, night: Nights, register_night: Registers, make_report: Reports
) -> None:
    later = register_night(night(26))
    promote(store, later, make_report(later))
    earlier = register_night(night(24))
    assert not promote(store, earlier, make_report(earlier)).moved
    assert _aliases(store) == {"challenger": "1", "champion": "1"}
    assert rollback(store, "venus", "gbdt", AT) == earlier, "as if the nights had run in order"


def test_rollback_goes_to_the_champion_before_and_stays_there(
    store: Store, night: Nights, register_night: Registers, make_report: Reports
) -> None:
    versions = [register_night(night(day)) for day in (23, 24, 25, 26)]
    for version in (versions[0], versions[1], versions[3]):  # 25 failed its gate
        promote(store, version, make_report(version))
    assert rollback(store, "venus", "gbdt", AT) == versions[1]
    assert champion(store, "venus", "gbdt") == versions[1]
    with pytest.raises(GateNotPassed, match="was rolled back"):
        promote(store, versions[3], make_report(versions[3]))
    assert rollback(store, "venus", "gbdt", AT) == versions[0]
    with pytest.raises(NoChampion, match="nothing to roll back to"):
        rollback(store, "venus", "gbdt", AT)


def test_killed_rollback_has_left_already_and_a_second_one_finishes_it(
    store: Store, night: Nights, register_night: Registers, monkeypatch: pytest.MonkeyPatch, make_report: Reports
) -> None:
    versions = [register_night(night(day)) for day in (23, 24, 25)]
    for version in versions:
        promote(store, version, make_report(version))
    with monkeypatch.context() as killed:
        killed.setattr(type(store.client), "set_registered_model_alias", _killed)
        with pytest.raises(KeyboardInterrupt):
            rollback(store, "venus", "gbdt", AT)
    assert champion(store, "venus", "gbdt") == versions[1]
    assert rollback(store, "venus", "gbdt", AT) == versions[1], "not one further"
    assert champion(store, "venus", "gbdt") == versions[1]


def test_readers_never_get_the_latest_instead_of_the_champion(
    store: Store, night: Nights, register_night: Registers, make_report: Reports
) -> None:
    first = register_night(night(25))
    promote(store, first, make_report(first))
    register_night(night(26))
    assert champion(store, "venus", "gbdt") == first
    with pytest.raises(NoChampion):
        champion(store, "venus", "cart")


def test_champions_of_clusters_and_kinds_do_not_meet(
    store: Store, night: Nights, register_night: Registers, make_report: Reports
) -> None:
    versions = [register_night(night(cluster=c, kind=k)) for c in ("venus", "ven.us") for k in ("gbdt", "cart")]
    for version in versions:
        promote(store, version, make_report(version))
    assert [champion(store, v.cluster, v.kind) for v in versions] == versions


def test_broken_store_is_not_taken_for_no_champion(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_args: object) -> None:
        raise MlflowException("disk I/O error")

    monkeypatch.setattr(type(store.client), "get_model_version_by_alias", broken)
    with pytest.raises(MlflowException, match="disk I/O error"):
        champion(store, "venus", "gbdt")
