"""The front page as it is written: from the records of nights that are there, after a night and after one that failed."""

import datetime as dt
import json
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest

from runcast import night, records
from runcast.data.errors import SourceError
from runcast.data.settings import Settings, read_settings
from runcast.front_page import LOCAL_MLFLOW, mlflow_pages, serving

CLUSTER = "description: A made-up one\nsource: {format: swf, paths: [nowhere.swf]}\ntime_zone: UTC\n"


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """A home with one cluster file, whose log is missing."""
    (tmp_path / "clusters").mkdir()
    (tmp_path / "clusters" / "small.yaml").write_text(CLUSTER)
    monkeypatch.setenv("RUNCAST_HOME", str(tmp_path / "var"))
    monkeypatch.setenv("RUNCAST_CLUSTERS", str(tmp_path / "clusters"))
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    return read_settings()


class Links(HTMLParser):
    def __init__(self, html: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found += [value for name, value in attrs if name in ("href", "src") and value]


def keep_whole_night(settings: Settings, cluster: str, day: str) -> None:
    for stage in night.STAGES:
        records.keep(settings, cluster, day, stage.name, {"kind": "gbdt"} if stage.name == "export" else {})


def page_of(settings: Settings) -> str:
    return (settings.reports / "index.html").read_text()


def test_failed_stage_is_kept_shown_and_raised(settings: Settings) -> None:
    with pytest.raises(SourceError, match=r"nowhere\.swf"):
        night.run_stage("ingest", "small", "2026-01-11")
    kept = records.read_failure(settings, "small", "2026-01-11")
    assert kept is not None
    assert (kept["stage"], kept["kind"]) == ("ingest", "SourceError")
    assert "nowhere.swf" in page_of(settings)
    assert "A made-up one" in page_of(settings)


def test_failure_is_over_once_its_stage_succeeds(settings: Settings) -> None:
    records.keep_failure(settings, "small", "2026-01-11", "quality", ValueError("no"), dt.datetime.now(dt.UTC))
    records.keep(settings, "small", "2026-01-11", "ingest", {"rows_in": 1})
    assert records.read_failure(settings, "small", "2026-01-11") is not None, "an earlier stage does not end it"
    records.keep(settings, "small", "2026-01-11", "quality", {})
    assert records.read_failure(settings, "small", "2026-01-11") is None
    assert records.read_night(settings, "small", "2026-01-11") == {"ingest": {"rows_in": 1}, "quality": {}}


def test_long_error_is_kept_short(settings: Settings) -> None:
    records.keep_failure(settings, "small", "2026-01-11", "ingest", ValueError("x" * 100_000), dt.datetime.now(dt.UTC))
    path = records.record_path(settings, "small", "2026-01-11", "failure")
    assert path.stat().st_size < 10_000


def test_links_resolve_to_files_that_are_there(settings: Settings) -> None:
    """Odd names too; a report that retention took away is not linked."""
    for name in ("small", "odd name #1"):
        for day in ("2026-01-10", "2026-01-11"):
            keep_whole_night(settings, name, day)
    reports = [settings.reports / "small" / "2026-01-11", settings.reports / "odd name #1" / "2026-01-10"]
    for folder in reports:
        folder.mkdir(parents=True)
        (folder / "report.html").write_text("a report")
    docs = settings.home / "quality" / "odd%20name%20%231" / "docs"
    docs.mkdir(parents=True)
    (docs / "index.html").write_text("docs")
    page = night.front_page(settings)
    local = [link for link in Links(page.read_text()).found if "://" not in link]
    assert {(page.parent / unquote(link)).resolve() for link in local} == {
        *(folder / "report.html" for folder in reports), docs / "index.html",
    }  # fmt: skip


def test_page_is_whole_and_nothing_else_is_left(settings: Settings) -> None:
    keep_whole_night(settings, "small", "2026-01-11")
    page = night.front_page(settings)
    assert page.read_text().rstrip().endswith("</html>")
    assert {one.name for one in page.parent.iterdir()} == {"index.html", ".index.lock"}


def test_error_is_raised_even_where_it_cannot_be_kept(settings: Settings) -> None:
    settings.home.mkdir()
    (settings.home / "nights").write_text("a file where the folder should be")
    with pytest.raises(SourceError) as raised:
        night.run_stage("ingest", "small", "2026-01-11")
    assert "could not be written" in "".join(raised.value.__notes__)


@pytest.mark.parametrize(
    ("uri", "address"),
    [
        ("sqlite:////srv/mlflow.db", LOCAL_MLFLOW),
        ("postgresql://user:secret@db/mlflow", LOCAL_MLFLOW),
        ("http://127.0.0.1:5000", "http://127.0.0.1:5000/"),
        ("https://ada:secret@mlflow.example/base/", "https://mlflow.example/base/"),
    ],
)
def test_address_of_mlflow_names_no_secret(uri: str, address: str) -> None:
    assert mlflow_pages(uri) == address


def test_cluster_leads_to_its_nights_in_mlflow(settings: Settings) -> None:
    keep_whole_night(settings, "small", "2026-01-11")
    records.keep(settings, "small", "2026-01-11", "register", {"experiment_id": "7"})
    links = Links(night.front_page(settings).read_text()).found
    assert "http://127.0.0.1:5000/#/experiments/7/runs?viewStateShareKey=nights&workflowType=machine_learning" in links


def test_no_bundle_serves_nothing(settings: Settings) -> None:
    assert serving(settings, "small") is None


def test_records_are_read_by_stage_whatever_else_lies_there(settings: Settings) -> None:
    folder = records.record_path(settings, "small", "2026-01-11", "ingest").parent
    folder.mkdir(parents=True)
    (folder / "ingest.json").write_text(json.dumps({"rows_in": 1}))
    (folder / ".quality.json.123").write_text("half a rec")
    assert records.read_night(settings, "small", "2026-01-11") == {"ingest": {"rows_in": 1}}


@pytest.mark.parametrize(
    ("stage", "content"),
    [
        ("export", "{}"), ("export", '{"kind": 3}'), ("evaluate", '{"all": [1]}'), ("evaluate", '{"all": {"gbdt": 1}}'),
        ("ingest", '{"rows_in": "x"}'),
        ("quality", '{"warns_count": null}'), ("quality", '{"stops": 3}'), ("register", '{"experiment_id": 7}'), ("failure", "{}"),
        ("failure", '{"stage": 1, "kind": 1, "error": 1, "at": 1}'), ("drift", "[]"), ("promote", ""),
    ],
)  # fmt: skip
def test_a_record_of_another_shape_is_that_nights_failure_and_hides_no_other(
    settings: Settings, stage: str, content: str
) -> None:
    for name in ("mars", "small"):
        keep_whole_night(settings, name, "2026-01-11")
    damaged = records.record_path(settings, "mars", "2026-01-11", stage)
    damaged.write_text(content)
    text = night.front_page(settings).read_text()
    assert f"{damaged} is damaged" in text
    assert "✓" in text, "the other cluster is shown as it is"
    records.keep(settings, "mars", "2026-01-11", "ingest", {"rows_in": 1})
    assert (stage in ("failure", "ingest")) is (records.read_failure(settings, "mars", "2026-01-11") is None), (
        "the next run mends it"
    )


def test_things_that_are_no_nights_are_passed_over(settings: Settings) -> None:
    keep_whole_night(settings, "small", "2026-01-11")
    (settings.home / "nights" / "small" / "lost+found").mkdir()
    (settings.home / "nights" / "small" / "notes.txt").write_text("x")
    (settings.home / "nights" / "README").write_text("x")
    assert "lost+found" not in night.front_page(settings).read_text()
