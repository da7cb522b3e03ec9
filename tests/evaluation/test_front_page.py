"""The page of all clusters: what it says of nights good and bad, and that it is a page like any other: parsed, offline, harmless."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from typing import Any

import pytest

from runcast.evaluation.front_page import ClusterNights, Night, outcome_of, render_front_page, sparkline

STAGES = {
    "ingest": "read the log",
    "quality": "check it",
    "train_gbdt": "fit gbdt",
    "evaluate": "judge",
    "export": "write the bundle",
}
NOW = datetime(2026, 7, 1, 3, 5, tzinfo=UTC)
LONG_AGO = NOW - timedelta(hours=4)
SERVES = {"kind": "gbdt", "model_version": "gbdt-2026-06-30-abcdef12", "valid_until": "2026-07-08T03:00:00Z"}
HOSTILE = '<script>alert(1)</script>"><img src=x onerror=alert(1)> {{ 7 * 7 }}'
VOID = {"meta", "br", "img", "polyline", "circle"}


def night(
    day: str = "2026-06-30", *, factor: float = 2.0, without: tuple[str, ...] = (), model: str | None = None, **changed: Any
) -> Night:
    """A whole night on which gbdt is off by `factor` and the best of the baselines by 2.5, less the stages in `without`."""
    numbers = {
        "gbdt": {"error_factor": factor, "p90_coverage": 0.912},
        "request": {"error_factor": 9.0, "p90_coverage": 1.0},
        "nearest_median": {"error_factor": 2.5, "p90_coverage": 0.9},
    }
    stages: dict[str, Any] = {
        "ingest": {"rows_in": 1000, "rejected": 12},
        "quality": {"warns_count": 1, "broken_count": 0, "warns": [{"check": "null share of user"}], "stops": [], "broken": []},
        "train_gbdt": {},
        "evaluate": {"all": numbers},
        "export": {"kind": "gbdt", **({"model_version": model} if model else {})},
    }
    kept = {name: record for name, record in stages.items() if name not in without}
    return Night(
        **{
            "day": day,
            "stages": kept,
            "failure": None,
            "report": f"venus/{day}/report.html",
            "touched": NOW - timedelta(minutes=1),
            **changed,
        }
    )


def cluster(*nights: Night, name: str = "venus", **changed: Any) -> ClusterNights:
    links = {"data docs": "../quality/venus/docs/index.html"}
    given = {"cluster": name, "description": "A cluster", "nights": nights or (night(),), "serves": SERVES, "links": links}
    return ClusterNights(**{**given, **changed})


def failure(stage: str, kind: str = "NotEnoughJobs", error: str = "3 jobs, 500 needed") -> dict[str, str]:
    return {"stage": stage, "kind": kind, "error": error, "at": "2026-07-01T03:00:00+00:00"}


def rendered(*clusters: ClusterNights, mlflow: str = "http://127.0.0.1:5000/#/experiments") -> str:
    return render_front_page(clusters, STAGES, mlflow=mlflow, written_at=NOW)


class Page(HTMLParser):
    """Collects a page's tags, links and text; every end tag must close the latest open one."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.links: list[str] = []
        self.handlers: list[str] = []
        self.words: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag not in VOID:
            self.open.append(tag)
        self.links += [value or "" for name, value in attrs if name in ("href", "src", "xlink:href")]
        self.handlers += [name for name, _ in attrs if name.startswith("on")]

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open[-1:] != ["style"]:
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (night(), ("model", "")),
        (night(without=("export",)), ("unfinished", "export")),
        (night(without=("train_gbdt", "evaluate", "export")), ("unfinished", "train_gbdt")),
        (night(failure=failure("train_gbdt")), ("failed", "train_gbdt")),
        (night(failure=failure("quality", "QualityStop")), ("stopped", "quality")),
        (replace(night(), stages={**night().stages, "export": {"kind": "nearest_median"}}), ("baseline", "")),
    ],
    ids=["whole", "not exported", "killed", "failed, older records left", "stopped", "no model passed"],
)
def test_how_a_night_ended(given: Night, said: tuple[str, str]) -> None:
    assert outcome_of(given, STAGES) == said


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (cluster(), ["venus", "✓ a model serves", "gbdt-2026-06-30-abcdef12", "until 2026-07-08"]),
        (cluster(), ["2.00×", "nearest_median 2.50×", "20.0 % less", "91.2 %", "12", "1.2 %", "null share of user"]),
        (cluster(night(factor=3.0)), ["3.00×", "20.0 % more"]),
        (
            cluster(night(failure=failure("train_gbdt"))),
            ["✗ Failed at train_gbdt (fit gbdt)", "3 jobs, 500 needed", "--date 2026-06-30"],
        ),
        (
            cluster(night(failure=failure("quality", "QualityStop", "rows: expected 9; found 1"))),
            ["✗ Stopped by a check", "found 1"],
        ),
        (cluster(night(without=("export",))), ["… not finished: export next"]),
        (
            cluster(night(without=("export",), touched=LONG_AGO)),
            ["… Not finished: export (write the bundle) has not ended", "23:05 UTC"],
        ),
        (cluster(night("2026-06-29"), night(without=("evaluate", "export"))), ["judged on 2026-06-29", "2.00×"]),
        (
            cluster(
                night("2026-06-28", factor=1.5, model="gbdt-2026-06-28-0"),
                night("2026-06-29", factor=1.7, model="gbdt-2026-06-29-0"),
                night(factor=2.2, model="gbdt-2026-06-30-0"),
                serves={**SERVES, "model_version": "gbdt-2026-06-29-0"},
            ),
            ["gbdt-2026-06-29-0 in place of gbdt-2026-06-30-0", "1.70×", "judged on 2026-06-29"],
        ),
        (cluster(night(model="other"), serves=SERVES), ["abcdef12 in place of other", "2.00×"]),
        (cluster(serves=None), ["nothing", "–"]),
        (cluster(serves={**SERVES, "valid_until": "2026-06-30T00:00:00Z"}), ["past its date", "gives no forecasts"]),
        (cluster(serves={**SERVES, "kind": "nearest_median"}), ["2.50×"]),
    ],
    ids=[
        "serves",
        "numbers",
        "worse",
        "failed",
        "stopped",
        "under way",
        "killed",
        "older numbers",
        "rolled back",
        "rolled back to a night whose records are gone",
        "nothing",
        "expired",
        "baseline serves",
    ],
)
def test_page_says(given: ClusterNights, said: list[str]) -> None:
    text = Page(rendered(given)).text
    assert [one for one in said if one not in text] == []


@pytest.mark.parametrize("given", [night(), night(without=("export",))], ids=["whole", "under way"])
def test_good_nights_need_no_look(given: Night) -> None:
    assert "Needs a look" not in Page(rendered(cluster(given))).text


def test_page_without_a_night_says_how_to_begin() -> None:
    assert "No cluster has had a night yet" in Page(rendered()).text


def test_page_is_well_formed_runs_nothing_and_fetches_nothing() -> None:
    html = rendered(cluster(), cluster(night(failure=failure("ingest")), name="mars"))
    page = Page(html)
    assert page.open == []
    assert not {"script", "link", "iframe", "img"} & set(page.tags)
    assert page.handlers == []
    assert "@import" not in html
    assert "url(" not in html


def test_links_lead_to_reports_docs_and_mlflow() -> None:
    page = Page(rendered(cluster(night("2026-06-29"), night()), mlflow="https://mlflow.example/#/experiments"))
    assert page.links == [
        "venus/2026-06-30/report.html",
        "../quality/venus/docs/index.html",
        "venus/2026-06-29/report.html",
        "https://mlflow.example/#/experiments",
    ]


def test_hostile_names_are_text() -> None:
    hostile = night(failure=failure("ingest", error=HOSTILE))
    page = Page(rendered(cluster(hostile, name=HOSTILE, description=HOSTILE, serves={**SERVES, "model_version": HOSTILE})))
    assert "script" not in page.tags
    assert "img" not in page.tags
    assert page.handlers == []
    assert page.text.count("{{ 7 * 7 }}") >= 4
    assert "49" not in page.text.split()


def test_same_records_and_clock_give_the_same_bytes() -> None:
    assert rendered(cluster()) == rendered(cluster())


@pytest.mark.parametrize(
    ("points", "said"),
    [
        ([("2026-06-30", 2.0, 2.5)], "Error factor 2.00 on 2026-06-30, best baseline 2.50"),
        ([("2026-06-29", 3.0, None), ("2026-06-30", 2.0, None)], "Error factor 2.00 on 2026-06-30; 3.00 on 2026-06-29, 2 nights"),
        ([("2026-06-29", None, 2.5), ("2026-06-30", None, None)], "not known"),
    ],
    ids=["one night", "no baseline", "nothing served"],
)
def test_small_picture_says_its_numbers(points: list[tuple[str, float | None, float | None]], said: str) -> None:
    assert said in sparkline(points)


def test_small_picture_draws_lower_errors_lower_and_later_nights_to_the_right() -> None:
    served = sparkline([("a", 2.0, 4.0), ("b", 4.0, None), ("c", 3.0, 4.0)]).split('class="served"')[0].rsplit('points="', 1)[1]
    (ax, ay), (bx, by), (cx, cy) = (map(float, point.split(",")) for point in served.rstrip('" ').split())
    assert ax < bx < cx
    assert by < cy < ay  # y grows downwards


def test_small_picture_of_nothing_is_nothing() -> None:
    assert sparkline([("2026-06-30", None, None)]) == ""
