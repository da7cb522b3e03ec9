"""The drift stage: what it keeps, when it is an alarm, and what a webhook on this machine is told."""

import datetime as dt
import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from runcast.data.cluster import Cluster
from runcast.data.settings import Settings, read_settings
from runcast.evaluation.alarm import alarm
from runcast.evaluation.errors import ReportMissing

DAY = dt.date(2026, 3, 31)
NEXT_MORNING = dt.datetime(2026, 4, 1, 2, tzinfo=dt.UTC)


def finding(name: str, *, is_drift: bool = False, is_new: bool = False, limit: float | None = 0.45) -> dict[str, Any]:
    about = {"name": name, "kind": "feature", "value": 0.6, "usual": 0.2, "limit": limit, "moved": "null: 1 % before, 90 % now"}
    return {**about, "is_drift": is_drift, "is_new": is_new, "sentence": f"{name} has drifted"}


FOUND = [
    finding("mem_mib", is_drift=True, is_new=True),
    finding("cpu_count", is_drift=True),
    finding("node_count"),
    finding("priority", limit=None),
]


class Webhook(ThreadingHTTPServer):
    """Keeps what it is sent and answers with `status`."""

    status = 204

    def __init__(self) -> None:
        self.told: list[tuple[str, dict[str, str], Any]] = []
        super().__init__(("127.0.0.1", 0), _Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/hook?token=hidden"


class _Handler(BaseHTTPRequestHandler):
    server: Webhook

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.told.append((self.path, dict(self.headers), body))
        self.send_response(self.server.status)
        if self.server.status == 302:
            self.send_header("Location", self.server.url)
        self.end_headers()

    def log_message(self, *args: Any) -> None:
        """Say nothing."""


REPORT = {"jobs": 9, "data": {}, "predictors": {}, "verdicts": {}, "coverage": {}}


@pytest.fixture
def webhook() -> Iterator[Webhook]:
    with Webhook() as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    settings = read_settings({"RUNCAST_HOME": str(tmp_path / "home"), "SECRETS": str(tmp_path)})
    report = settings.reports / "made_up" / DAY.isoformat() / "report.json"
    report.parent.mkdir(parents=True)
    report.write_text(json.dumps({**REPORT, "drift": FOUND}))
    return settings


def a_cluster(**drift: Any) -> Cluster:
    source = {"format": "table", "paths": ["unused"]}
    return Cluster.model_validate({"name": "made_up", "time_zone": "Europe/Berlin", "source": source, "drift": drift})


def test_the_record_says_what_drifts_and_what_is_new(settings: Settings) -> None:
    record = alarm(a_cluster(), settings, DAY, NEXT_MORNING)
    assert (record["watched"], record["judged"]) == (4, 3)
    assert record["drifting"] == ["mem_mib has drifted", "cpu_count has drifted"]
    assert record["alarm"] == "made_up, 2026-03-31: mem_mib has drifted"
    assert record["webhook"] == "none configured"
    assert [one["name"] for one in record["nearest"]] == ["mem_mib", "cpu_count", "node_count", "priority"]


def test_a_cluster_file_can_ask_for_no_red_task(settings: Settings) -> None:
    record = alarm(a_cluster(fails_task=False), settings, DAY, NEXT_MORNING)
    assert record["alarm"] is None
    assert record["new"] == ["mem_mib has drifted"]


def test_what_was_told_before_is_no_alarm(settings: Settings) -> None:
    (settings.reports / "made_up" / DAY.isoformat() / "report.json").write_text(json.dumps({**REPORT, "drift": FOUND[1:]}))
    record = alarm(a_cluster(webhook_url_file="/absent"), settings, DAY, NEXT_MORNING)
    assert (record["alarm"], record["webhook"]) == (None, "not called")
    assert record["drifting"] == ["cpu_count has drifted"]


def test_a_night_without_a_report_says_what_to_do(settings: Settings) -> None:
    with pytest.raises(ReportMissing, match="runcast evaluate --cluster made_up --date 2026-04-02"):
        alarm(a_cluster(), settings, dt.date(2026, 4, 2), NEXT_MORNING)


def test_the_webhook_is_told_numbers_and_no_values(settings: Settings, webhook: Webhook, tmp_path: Path) -> None:
    (tmp_path / "url").write_text(webhook.url + "\n")
    record = alarm(a_cluster(webhook_url_file="${SECRETS}/url"), settings, DAY, NEXT_MORNING)
    assert record["webhook"] == "answered 204"
    ((path, headers, body),) = webhook.told
    assert (path, headers["Content-Type"]) == ("/hook?token=hidden", "application/json")
    assert body == {
        "cluster": "made_up",
        "day": "2026-03-31",
        "drift": [
            {"name": "mem_mib", "kind": "feature", "value": 0.6, "usual": 0.2, "limit": 0.45, "sentence": "mem_mib has drifted"}
        ],
    }
    assert "hidden" not in json.dumps(record)


def test_a_backfill_wakes_nobody(settings: Settings, webhook: Webhook, tmp_path: Path) -> None:
    (tmp_path / "url").write_text(webhook.url)
    record = alarm(a_cluster(webhook_url_file=str(tmp_path / "url")), settings, DAY, NEXT_MORNING + dt.timedelta(days=8))
    assert record["webhook"] == "not called"
    assert record["alarm"] is not None
    assert webhook.told == []


@pytest.mark.parametrize("status", [302, 404, 500])
def test_a_webhook_that_refuses_or_sends_elsewhere_is_told_of_and_not_followed(
    settings: Settings, webhook: Webhook, tmp_path: Path, status: int
) -> None:
    webhook.status = status
    (tmp_path / "url").write_text(webhook.url)
    record = alarm(a_cluster(webhook_url_file=str(tmp_path / "url")), settings, DAY, NEXT_MORNING)
    assert record["webhook"] == f"refused: answered {status}"
    assert len(webhook.told) == 1


@pytest.mark.parametrize(
    ("content", "outcome"),
    [
        (None, "not called: {file} cannot be read (FileNotFoundError)"),
        (b"\xff", "not called: {file} cannot be read (UnicodeDecodeError)"),
        (b"file:///etc/passwd", "not called: {file} holds no http or https address"),
        (b"https://", "not reached: URLError"),
        (b"https://[", "not reached: ValueError"),
        (b"", "not called: {file} holds no http or https address"),
        (b"http://127.0.0.1:1/closed", "not reached: URLError"),
        (b"http://127.0.0.1/a b\nc", "not reached: InvalidURL"),
    ],
)
def test_an_address_that_cannot_be_used_stops_nothing(
    settings: Settings, tmp_path: Path, content: bytes | None, outcome: str
) -> None:
    file = tmp_path / "url"
    if content is not None:
        file.write_bytes(content)
    record = alarm(a_cluster(webhook_url_file=str(file)), settings, DAY, NEXT_MORNING)
    assert record["webhook"] == outcome.format(file=file)
    assert record["alarm"] is not None
