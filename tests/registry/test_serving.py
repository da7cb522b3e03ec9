"""When a night that is run late changes the bundle of a later night."""

import datetime as dt

import pytest

from runcast.evaluation.choice import Choice
from runcast.registry.models import ModelVersion
from runcast.registry.serving import changes_later_bundle
from runcast.scheduler.bundle import FORMAT_VERSION, Manifest

CHOSEN = ModelVersion("runcast-venus-gbdt", "3", "venus", "gbdt", "2026-03-20", "data", "features", "a" * 64, "run", "models:/m")


def bundle_of(registered: str | None) -> Manifest:
    return Manifest(
        FORMAT_VERSION, "venus", "gbdt", "gbdt-2026-03-20-aaaaaaaa", registered, "features", "2026-04-01T00:00:00Z",
        "2026-04-01T02:00:00Z", "2026-04-08T02:00:00Z", "calendar", "UTC", "hard", True, (),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("day", "decided_by", "registered", "changes"),
    [
        pytest.param("2026-03-20", "2026-03-31", "runcast-venus-cart/7", True, id="its own model is chosen"),
        pytest.param("2026-03-25", "2026-03-25", "runcast-venus-cart/7", True, id="its report decides"),
        pytest.param("2026-03-20", None, None, True, id="its model is the first that passes: the baseline served"),
        pytest.param("2026-03-20", "2026-03-31", "runcast-venus-gbdt/3", False, id="the bundle holds it already"),
        pytest.param("2026-03-25", "2026-03-31", "runcast-venus-cart/7", False, id="a rollback by hand stays"),
    ],
)
def test_a_late_night_changes_the_later_bundle_only_where_it_is_why(
    day: str, decided_by: str | None, registered: str | None, changes: bool
) -> None:
    bundle = bundle_of(registered)
    choice = Choice("gbdt", decided_by, "gbdt serves")
    assert changes_later_bundle(dt.date.fromisoformat(day), choice, CHOSEN, bundle) is changes
    assert changes_later_bundle(dt.date.fromisoformat(day), choice, CHOSEN, None) is False, "no bundle serves yet"
    assert changes_later_bundle(dt.date.fromisoformat(day), Choice(None, None, ""), None, bundle) is False, "no model has passed"
