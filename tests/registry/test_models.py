"""Versions, aliases, the gate and the way back."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from mlflow.exceptions import MlflowException

from runcast.evaluation.gates import GateReport
from runcast.registry.errors import GateNotPassed, NoChampion
from runcast.registry.models import (
    ModelVersion,
    Promotion,
    approve,
    approved_champion,
    champion,
    champions_after,
    download,
    mark_served,
    name_champion,
    promotion,
    served_before,
    sortable,
)
from runcast.registry.moving import NOTE, Move, finish, make
from runcast.registry.runs import Night
from runcast.registry.store import Store

AT = datetime(2026, 1, 1, tzinfo=UTC)

Registers = Callable[[Night], ModelVersion]
Nights = Callable[..., Night]
Reports = Callable[..., GateReport]


def promote(store: Store, version: ModelVersion, report: GateReport | None) -> Promotion:
    """What the job does, without a bundle."""
    approve(store, version, report)
    done = promotion(store, version)
    if done.moved:
        name_champion(store, version.name, version.version)
    return done


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


def test_approval_alone_leaves_the_old_champion(
    store: Store, night: Nights, register_night: Registers, make_report: Reports
) -> None:
    first = register_night(night(25))
    promote(store, first, make_report(first))
    second = register_night(night(26))
    approve(store, second, make_report(second))
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
    with pytest.raises(NoChampion, match="nothing to roll back to"):
        served_before(store, "venus", ["gbdt"], later)


Serves = Callable[..., ModelVersion]
GoesBack = Callable[[ModelVersion], ModelVersion]


@pytest.fixture
def serve(store: Store, night: Nights, register_night: Registers, make_report: Reports) -> Serves:
    """Register, promote and let serve from midnight of the day after; `is_served=False` leaves out the last."""

    def run(day: int, *, kind: str = "gbdt", is_served: bool = True) -> ModelVersion:
        version = register_night(night(day, kind=kind))
        promote(store, version, make_report(version))
        if is_served:
            mark_served(store, version.label, sortable(datetime(2020, 9, day + 1, tzinfo=UTC)))
        return version

    return run


@pytest.fixture
def go_back(store: Store, tmp_path: Path) -> Callable[[ModelVersion], ModelVersion]:
    """What the job does, without a bundle: from the version that serves to the one that served before."""

    def run(served: ModelVersion) -> ModelVersion:
        back = served_before(store, "venus", ["cart", "gbdt"], served)
        champions = champions_after(store, served, back)
        make(store, tmp_path, Move(sortable(AT), champions, served=back.label, left=served.label), keep=3)
        return back

    return run


def test_rollback_goes_to_what_served_before_and_what_it_left_stays_away(
    store: Store, serve: Serves, go_back: GoesBack, make_report: Reports
) -> None:
    first, second, third = serve(23), serve(24), serve(26)
    assert go_back(third) == second
    assert champion(store, "venus", "gbdt") == second
    with pytest.raises(GateNotPassed, match="was rolled back"):
        promote(store, third, make_report(third))
    assert go_back(second) == first
    with pytest.raises(NoChampion, match="nothing to roll back to"):
        go_back(first)


def test_what_served_later_did_not_serve_before(store: Store, serve: Serves) -> None:
    first, second = serve(23), serve(24)
    assert served_before(store, "venus", ["gbdt"], second) == first
    with pytest.raises(NoChampion, match="nothing to roll back to"):
        served_before(store, "venus", ["gbdt"], first)


def test_rollback_passes_over_a_night_that_passed_but_never_served(store: Store, serve: Serves, go_back: GoesBack) -> None:
    """Nights 23 and 26 ran and served; the one of 24 was caught up later and passed."""
    first, last = serve(23), serve(26)
    serve(24, is_served=False)
    assert go_back(last) == first


def test_rollback_to_another_kind_leaves_each_kind_its_champion(store: Store, serve: Serves, go_back: GoesBack) -> None:
    """gbdt served, then cart: going back gives cart its champion before, which had never served."""
    gbdt, silent, cart = serve(23), serve(23, kind="cart", is_served=False), serve(24, kind="cart")
    assert go_back(cart) == gbdt
    assert (champion(store, "venus", "gbdt"), champion(store, "venus", "cart")) == (gbdt, silent)


def test_rollback_from_the_only_champion_of_its_kind_leaves_none(store: Store, serve: Serves, go_back: GoesBack) -> None:
    gbdt, cart = serve(23), serve(24, kind="cart")
    assert go_back(cart) == gbdt
    with pytest.raises(NoChampion, match="no cart model"):
        champion(store, "venus", "cart")


@pytest.mark.parametrize(("killed_at", "still_serves"), [("set_model_version_tag", True), ("set_registered_model_alias", False)])
def test_killed_move_is_finished_by_whoever_comes_next(
    store: Store,
    serve: Serves,
    go_back: GoesBack,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    killed_at: str,
    still_serves: bool,
) -> None:
    """What is rolled back is no champion from the moment the home says so, though its alias still names it."""
    _, second, third = serve(23), serve(24), serve(25)
    with monkeypatch.context() as killed:
        killed.setattr(type(store.client), killed_at, _killed)
        with pytest.raises(KeyboardInterrupt):
            go_back(third)
    assert approved_champion(store, third.name) == (third if still_serves else None)
    assert finish(store, tmp_path, keep=3) is not None
    assert champion(store, "venus", "gbdt") == second
    assert finish(store, tmp_path, keep=3) is None, "once"
    assert not (tmp_path / NOTE).exists()


def test_move_to_a_bundle_that_is_gone_is_given_up(store: Store, serve: Serves, tmp_path: Path) -> None:
    first, second = serve(23), serve(24)
    make(store, tmp_path, Move(sortable(AT), {first.name: first.version}, "20260101T000000Z-gone", left=second.label), keep=3)
    assert champion(store, "venus", "gbdt") == second
    assert not (tmp_path / NOTE).exists()


@pytest.mark.parametrize("content", [b"", b'{"at": "2026', b"[]", b"{}", b'{"at": "", "champions": {}, "more": 1}', b"\xff"])
def test_a_damaged_note_of_a_move_is_given_up_and_told(
    store: Store, serve: Serves, tmp_path: Path, caplog: pytest.LogCaptureFixture, content: bytes
) -> None:
    served = serve(23)
    (tmp_path / NOTE).write_bytes(content)
    assert finish(store, tmp_path, keep=3) is None
    assert f"{tmp_path / NOTE}: damaged" in caplog.text
    assert champion(store, "venus", "gbdt") == served
    assert not (tmp_path / NOTE).exists()


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
