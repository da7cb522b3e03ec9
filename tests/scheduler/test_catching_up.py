"""A loaded bundle catches up with what was kept: what it told jobs itself counts as it was told, what another told does not."""

import math
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from runcast.scheduler.catching_up import P90_TOLD, Line, catch_up
from runcast.scheduler.predictor import Predictor
from runcast.training.running_margin import P90Told

CUT_S = 1_774_994_400
ASKED = {"submit_time": CUT_S + 6 * 86_400, "user": "u3", "gpu_count": 4}


@pytest.fixture(scope="module")
def bundle(make_bundle: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_bundle(tmp_path_factory.mktemp("bundles"), "runcast")


@pytest.fixture
def load(bundle: Path, now: datetime) -> Callable[[], Predictor]:
    return lambda: Predictor.load(bundle, now=now)


def kept(bundle: str | None, *, on_submission: bool = True, where: str = "behind") -> list[dict[str, Any]]:
    """What the journal holds of 60 jobs of 20 users that all ran 100 h; `bundle` had told each of them a p90 of 50 h."""
    events = []
    for n in range(60):
        submit = CUT_S + 60 * n
        job = {"job_id": str(n), "submit_time": submit, "user": f"u{n % 20}"}
        p90 = P90Told(f"demo:{n}:{submit * 1_000_000}", math.log(180_000), float("nan"), f"user u{n % 20}")
        line = [] if bundle is None else [Line(bundle, submit * 1_000_000, on_submission, p90).to_event()]
        submitted = {"event": "submitted", **job}
        ended = {"event": "ended", **job, "start_time": submit, "end_time": submit + 360_000, "state": "COMPLETED"}
        events += {"behind": [submitted, ended, *line], "before": [*line, submitted, ended]}[where]
    return events


def test_line_comes_back_from_its_event() -> None:
    for limit_s in (60.0, float("nan")):
        line = Line("b", 5, True, P90Told("demo:1:5", 1.5, limit_s, "user ada"))
        assert repr(Line.of(line.to_event())) == repr(line)


@pytest.mark.parametrize(
    ("on_submission", "where"), [(True, "behind"), (True, "before"), (False, "before")], ids=["later", "early", "predicted"]
)
def test_what_this_bundle_told_counts_as_it_was_told(load: Callable[[], Predictor], on_submission: bool, where: str) -> None:
    """Half of what they ran, 60 times: the margin covers that. Without lines the submissions are answered anew, and by far too little."""
    told, anew = load(), load()
    assert catch_up(told, kept(told.manifest.name, on_submission=on_submission, where=where)) == []
    lines = catch_up(anew, kept(None))
    assert [(line["event"], line["bundle"]) for line in lines] == [(P90_TOLD, anew.manifest.name)] * 60
    plain, answered_anew, as_told = (one.predict(ASKED)["p90_s"] for one in (load(), anew, told))
    assert plain < as_told < answered_anew


@pytest.mark.parametrize("on_submission", [True, False], ids=["on submission", "predicted"])
def test_what_another_bundle_told_does_not_count(load: Callable[[], Predictor], on_submission: bool) -> None:
    other, anew = load(), load()
    lines = catch_up(other, kept("20260101T000000Z-other", on_submission=on_submission, where="before"))
    assert lines == catch_up(anew, kept(None))
    assert other.predict(ASKED) == anew.predict(ASKED)


def test_a_second_death_finds_the_lines_of_the_first(load: Callable[[], Predictor]) -> None:
    first, second = load(), load()
    lines = catch_up(first, kept(None))
    assert catch_up(second, [*kept(None), *lines]) == []
    assert second.predict(ASKED) == first.predict(ASKED)


@pytest.mark.parametrize(
    "event",
    [
        {"event": "vanished", "job_id": "1", "submit_time": CUT_S},
        {"event": "submitted", "job_id": "1", "submit_time": CUT_S, "gone_field": 1},
        {"event": P90_TOLD, "submit_us": (CUT_S + 1) * 1_000_000},
        {"event": P90_TOLD, "submit_us": (CUT_S + 1) * 1_000_000, "bundle": "own", "job_key": "demo:1:1"},
        {},
    ],
    ids=["unknown kind", "field of another version", "line without a bundle", "line that lacks what it told", "nothing"],
)
def test_what_another_version_wrote_stops_nothing(load: Callable[[], Predictor], event: dict[str, Any]) -> None:
    predictor = load()
    event = {**event, "bundle": predictor.manifest.name} if event.get("bundle") == "own" else event
    assert len(catch_up(predictor, [event, *kept(None)])) == 60


@pytest.mark.parametrize(
    ("ran_s", "low", "high"), [(3_600_000, 1.0, 3.0), (1, 1 / 3, 1.0)], ids=["200 tasks of 1,000 h", "200 tasks of 1 s"]
)
def test_one_users_array_moves_the_p90_of_others_by_a_factor_of_three_at_most(
    load: Callable[[], Predictor], ran_s: int, low: float, high: float
) -> None:
    """The shift of jobs submitted much later, beside that of a bundle that was told nothing; histories are another matter."""
    predictor, quiet = load(), load()
    for n in range(200):
        job = {"job_id": str(n), "submit_time": CUT_S + n, "user": "eve"}
        predictor.tell({"event": "submitted", **job})
        predictor.tell({"event": "ended", **job, "start_time": CUT_S + n, "end_time": CUT_S + n + ran_s, "state": "COMPLETED"})
    later_us = (CUT_S + 100 * 86_400) * 1_000_000
    moved, trained = (one._margin.shift_log(later_us) for one in (predictor, quiet))  # type: ignore[union-attr]
    assert moved != trained
    assert low * 0.999 <= math.exp(moved - trained) <= high * 1.001
