"""The model card and the experiment's page: what a person reads in MLflow, and that no name of a log does anything there."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from runcast.registry.card import LONGEST, code, model_card, model_description, text
from runcast.registry.page import COLUMNS, VIEW, experiment_tags, view_address
from runcast.registry.runs import Night, log_night
from runcast.registry.store import Store

TRAINING = {
    "jobs": 12_000,
    "censored_jobs": 600,
    "first_submit": "2026-01-01T00:10:00+00:00",
    "last_end": "2026-03-31T21:00:00+00:00",
}
HOSTILE = "<img src=x onerror=alert(1)>|[a](javascript:b) `c` **d**\n# e"


def _document(**changed: Any) -> dict[str, Any]:
    """A night on which gbdt is off by 2.5 and the best baseline by 3."""
    numbers = {
        name: {
            part: {"error_factor": factor, "mdape": 0.25, "within_25": 0.5, "p90_coverage": 0.905}
            for part in ("all", "recurring", "new_user")
        }
        for name, factor in (("nearest_median", 3.0), ("gbdt", 2.5))
    }
    results = [{"name": "error_factor[all]", "passed": True, "sentence": "gbdt: error_factor on all jobs is 2.5"}]
    verdict = {"passed": True, "results": results, "best_baseline": "nearest_median", "best_baseline_value": 3.0, "value": 2.5}
    return {
        "cluster": "venus",
        "day": "2026-03-31",
        "jobs": 3000,
        "predictors": numbers,
        "coverage": {"gbdt": {"0.089": 0.2}, "nearest_median": {"0.089": 0.1}},
        "slices": {"new_user": {"jobs": 40, "meaning": ""}},
        "verdicts": {"gbdt": verdict},
        "notes": ["This log has no time limits: the baseline `request` answers with the training median."],
        "data": {
            "fingerprint": "f" * 64,
            "feature_version": "abc",
            "test_first_submit": "2026-03-10T00:00:00+00:00",
            "test_last_submit": "2026-03-31T20:00:00+00:00",
        },
        "libraries": {"lightgbm": "4.7.0"},
        "command": "runcast evaluate --cluster venus --date 2026-03-31",
    } | changed


@pytest.mark.parametrize(
    "said",
    [
        "| error factor, all jobs (1 is perfect) | &nbsp;&nbsp;&nbsp;2.50× | &nbsp;&nbsp;&nbsp;3.00× |",
        "| jobs that ended within p90 (90 % is right) | &nbsp;&nbsp;&nbsp;90.5&nbsp;% | &nbsp;&nbsp;&nbsp;90.5&nbsp;% |",
        "| jobs, surest first, at a median error of 8.9 % | &nbsp;&nbsp;&nbsp;20.0&nbsp;% | &nbsp;&nbsp;&nbsp;10.0&nbsp;% |",
        "Learned from 12,000 ended jobs, submitted from 2026-01-01, ended by 2026-03-31; 5.0 % of them were censored",
        "Judged by replay on the latest 3,000, submitted 2026-03-10 to 2026-03-31",
        "- ✓ gbdt: error\\_factor on all jobs is 2.5",
        "the baseline `request` answers",
        "error factor 2.50× on 40 such jobs",
        '`mlflow.pyfunc.load_model("models:/runcast-venus-gbdt@champion").predict(jobs)`',
        "`runcast evaluate --cluster venus --date 2026-03-31`",
        "Features abc · data ffffffffffff · lightgbm 4.7.0",
    ],
)
def test_card_says(said: str) -> None:
    assert said in model_card(_document(), "gbdt", TRAINING)


def test_first_line_is_plain_text_for_tables_of_versions() -> None:
    first = model_card(_document(), "gbdt", TRAINING).splitlines()[0]
    assert first == "passed · error factor 2.50× · best baseline 3.00× · night of 2026-03-31"


def test_card_of_a_night_without_test_jobs_says_why() -> None:
    failed = {"passed": False, "results": [{"name": "enough_jobs", "passed": False, "sentence": "too little history: no job"}]}
    nothing = _document(
        jobs=0, predictors={}, coverage={}, slices={}, verdicts={"gbdt": failed}, data={"fingerprint": "f" * 64}, notes=["no job"]
    )
    card = model_card(nothing, "gbdt", TRAINING)
    assert card.splitlines()[0] == "not passed · night of 2026-03-31"
    assert "- ✗ too little history: no job" in card


def test_card_is_cut_at_what_mlflow_keeps() -> None:
    results = [{"name": "g", "passed": False, "sentence": f"gate {n} " + "x" * 200} for n in range(60)]
    card = model_card(_document(verdicts={"gbdt": {"passed": False, "results": results}}), "gbdt", TRAINING)
    assert len(card) <= LONGEST
    assert card.endswith("… the rest is in the report")


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("plain name", "plain name"),
        ("<script>alert(1)</script>", "&lt;script&gt;alert(1)&lt;/script&gt;"),
        ("[x](javascript:y)", "\\[x\\](javascript:y)"),
        ("![x](y)", "\\!\\[x\\](y)"),
        ("a|b", "a\\|b"),
        ("two\nlines\r\n# head", "two lines \\# head"),
        ("`code` *b* _i_", "\\`code\\` \\*b\\* \\_i\\_"),
        ("http://evil.example www.evil.example", "http&#8203;://evil.example www&#8203;.evil.example"),
        ("ada@evil.example", "ada@&#8203;evil.example"),
        ("&amp;", "&amp;amp;"),
    ],
)
def test_names_are_shown_and_do_nothing(written: str, shown: str) -> None:
    assert text(written) == shown


def test_command_with_a_backtick_stays_one_code_span() -> None:
    assert code("run `rm`\nx") == "`run 'rm' x`"


@pytest.mark.parametrize(
    "made",
    [
        pytest.param(lambda: model_card(_document(cluster=HOSTILE, notes=[HOSTILE]), "gbdt", TRAINING), id="card"),
        pytest.param(lambda: model_description(HOSTILE, "gbdt"), id="model"),
        pytest.param(lambda: experiment_tags(HOSTILE, "1", HOSTILE)["mlflow.note.content"], id="experiment"),
    ],
)
def test_hostile_names_make_no_tag_link_or_heading(made: Callable[[], str]) -> None:
    markdown = made()
    outside_code = "".join(part for at, part in enumerate(markdown.replace("\\`", "").split("`")) if at % 2 == 0)
    assert "<" not in outside_code
    assert "](javascript" not in outside_code.replace("\\](", "")
    assert "\n# e" not in markdown


def test_saved_view_is_what_mlflow_reads() -> None:
    """MLflow's pages want an object with a string name, a number createdAt and a string state that is JSON."""
    view = json.loads(experiment_tags("venus", "7", "")[f"mlflow.sharedViewState.{VIEW}"])
    state = json.loads(view["state"])
    assert (view["name"], view["createdAt"]) == ("Nights", 0)
    assert state["selectedColumns"] == [name for name, _ in COLUMNS]
    assert state["selectedColumns"][:2] == ["tags.`runcast.verdict`", "metrics.`all/error_factor`"]
    assert set(state["columnWidths"]) <= set(state["columnOrder"])


def test_experiment_page_leads_to_the_view_and_the_models(store: Store, night: Callable[..., Night]) -> None:
    nothing: dict[str, Any] = {"parameters": {}, "metrics": {}, "tags": {}, "note": "", "report": None}
    log_night(store, night(), **nothing, logged_at=datetime(2026, 1, 1, tzinfo=UTC), about="The <b>big</b> one")
    experiment = store.client.get_experiment(store.experiment_id("venus"))
    said = experiment.tags["mlflow.note.content"]
    assert f"[Compare the nights]({view_address(experiment.experiment_id)})" in said
    assert "[gbdt](#/models/runcast-venus-gbdt?" in said
    assert "The &lt;b&gt;big&lt;/b&gt; one" in said
    assert f"mlflow.sharedViewState.{VIEW}" in experiment.tags
