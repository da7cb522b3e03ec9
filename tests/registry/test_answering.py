"""A tracking store at which nobody answers, or somebody else: told within seconds, in words, and without a password."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from runcast.data.settings import read_settings
from runcast.registry.answering import wait_for_answer
from runcast.registry.errors import RegistryError, StoreUnavailable
from runcast.registry.store import open_store


@contextmanager
def server_that_says(*codes: int) -> Iterator[str]:
    """A server of this machine that answers each request with the next of `codes`, the last for ever."""
    left = list(codes)

    class Says(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(left.pop(0) if len(left) > 1 else left[0])
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Says) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The waits, which take no time here; the library's own retries are those that Runcast sets."""
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "3")
    monkeypatch.setenv("no_proxy", "*")
    return []


@pytest.mark.parametrize(
    ("uri", "told"),
    [
        ("http://127.0.0.1:9", "http://127.0.0.1:9"),
        ("http://ada:secret@127.0.0.1:9/mlflow", "http://ada:…@127.0.0.1:9/mlflow"),
        ("postgresql://ada:secret@127.0.0.1:9/mlflow", "postgresql://ada:…@127.0.0.1:9/mlflow"),
        ("postgresql+psycopg://127.0.0.1:9/mlflow", "postgresql+psycopg://127.0.0.1:9/mlflow"),
    ],
)
def test_what_is_waited_for_is_said_at_the_first_try(
    uri: str, told: str, slept: list[float], caplog: pytest.LogCaptureFixture
) -> None:
    def sleep(seconds: float) -> None:
        assert f"waiting for the tracking store at {told}, which does not answer (Connection refused)" in caplog.text
        slept.append(seconds)

    with pytest.raises(StoreUnavailable, match=r"does not answer \(Connection refused\).*What the night made is kept") as refused:
        wait_for_answer(uri, sleep)
    assert slept == [1, 2, 4]
    assert len(caplog.records) == 1
    assert "secret" not in caplog.text + str(refused.value)


@pytest.mark.parametrize(
    ("codes", "waits"),
    [((200,), []), ((503, 200), [1]), ((500, 429, 200), [1, 2]), ((401,), []), ((404,), [])],
    ids=["at once", "unavailable", "failing, then busy", "asks who it is", "another server"],
)
def test_a_server_is_waited_for_while_it_fails_and_no_longer(
    codes: tuple[int, ...], waits: list[float], slept: list[float]
) -> None:
    with server_that_says(*codes) as uri:
        wait_for_answer(uri, slept.append)
    assert slept == waits


def test_the_operator_may_say_how_often(
    slept: list[float], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    with server_that_says(503) as uri, pytest.raises(StoreUnavailable, match=r"does not answer as it should \(503"):
        wait_for_answer(uri, slept.append)
    assert (slept, caplog.text) == ([], "")


@pytest.mark.parametrize("uri", ["sqlite:////nowhere/mlflow.db", "postgresql:///mlflow", "databricks"])
def test_a_store_without_a_port_is_not_asked(uri: str, slept: list[float]) -> None:
    wait_for_answer(uri, slept.append)
    assert slept == []


@pytest.mark.parametrize(
    ("uri", "why"),
    [
        ("foo://x", "unsupported URI"),
        ("http://", "names no server"),
        ("http://host:port", "Port could not be cast"),
        ("sqlite:", "names no file"),
        ("sqlite://", "names no file"),
        ("sqlite:///:memory:", "names no file"),
        ("sqlite:///{file}", "file is not a database"),
    ],
)
def test_an_address_of_no_store_is_refused_by_name_and_nothing_is_made(
    uri: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "log.txt").write_text("no database " * 100)
    settings = read_settings({"RUNCAST_HOME": str(tmp_path), "MLFLOW_TRACKING_URI": uri.format(file=tmp_path / "log.txt")})
    with pytest.raises(RegistryError, match=rf"cannot be used \(.*{why}.*Check MLFLOW_TRACKING_URI"):
        open_store(settings)
    assert {path.name for path in tmp_path.iterdir()} - {"log.txt.lock"} == {"log.txt"}


@pytest.mark.parametrize("code", [401, 404])
def test_a_server_that_is_not_ours_to_use_is_told_as_such(code: int, slept: list[float], tmp_path: Path) -> None:
    with server_that_says(code) as uri, pytest.raises(RegistryError, match=f"error code {code}.*user, password or token") as told:
        open_store(read_settings({"RUNCAST_HOME": str(tmp_path), "MLFLOW_TRACKING_URI": uri}))
    assert not isinstance(told.value, StoreUnavailable)


def test_who_only_reads_makes_no_store(tmp_path: Path) -> None:
    settings = read_settings({"RUNCAST_HOME": str(tmp_path / "home")})
    with pytest.raises(RegistryError, match=r"mlflow\.db: no tracking store is there"):
        open_store(settings, must_exist=True)
    assert not settings.home.exists()
