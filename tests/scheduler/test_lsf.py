"""esub.runcast, run as LSF runs it: with the files and variables of LSF's manual, against a service on a real socket."""

import contextlib
import json
import shutil
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import ClassVar

import pytest

sys.path.insert(0, str(Path(__file__).parent / "slurm"))

from answering import FORECAST, RUBBISH, Answering, answering, nobody_accepts

pytestmark = pytest.mark.attack

ESUB = Path(__file__).parents[2] / "scheduler" / "lsf" / "esub.runcast"

#: The example of LSF's manual: bsub -q normal -x -P my_project -R "r1m rusage[dummy=1]" -n 90 sleep 10
MANUAL = """\
LSB_SUB_QUEUE="normal"
LSB_SUB_EXCLUSIVE=Y
LSB_SUB_RES_REQ="r1m rusage[dummy=1]"
LSB_SUB_PROJECT_NAME="my_project"
LSB_SUB_COMMAND_LINE="sleep 10"
LSB_SUB_NUM_PROCESSORS=90
LSB_SUB_MAX_NUM_PROCESSORS=90
"""


class Lsf:
    """A submission host: LSF_SERVERDIR with the esub and its settings, and the files of one submission."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.socket = folder / "s"
        self.esub = folder / "esub.runcast"
        shutil.copy(ESUB, self.esub)
        self.settings(SOCKET=str(self.socket))

    def settings(self, **settings: object) -> None:
        (self.folder / "esub.runcast.json").write_text(json.dumps(settings))

    def submit(self, parameters: str) -> str:
        """Run the esub as LSF does; return what it asks LSF to change."""
        parm, modify = self.folder / "parm", self.folder / "modify"
        parm.write_text(parameters)
        modify.write_text("")
        environment = {
            "LSB_SUB_PARM_FILE": str(parm),
            "LSB_SUB_MODIFY_FILE": str(modify),
            "LSB_SUB_MODIFY_ENVFILE": str(self.folder / "modify_env"),
            "LSB_SUB_ABORT_VALUE": "97",
            "LSF_INVOKE_CMD": "bsub",
        }
        done = subprocess.run(
            [sys.executable, "-IS", str(self.esub)], env=environment, cwd="/tmp", capture_output=True, timeout=20, check=False
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")  # stdout is the input of eexec
        return modify.read_text()


@pytest.fixture
def lsf(tmp_path: Path) -> Lsf:
    return Lsf(tmp_path)


def asked(lsf: Lsf, parameters: str, **forecast: float) -> tuple[dict[str, object], str]:
    """Return what the service was asked, and what the esub wrote."""
    with answering(lsf.socket) as service:
        service.forecasts = {name: dict(forecast) for name in ("train", "sleep 10", "")}
        written = lsf.submit(parameters)
    (job,) = service.asked
    return job, written


def test_the_manuals_example_gets_an_estimate(lsf: Lsf) -> None:
    job, written = asked(lsf, MANUAL, p90_s=3600.4)
    assert written == "LSB_SUB3_RUNTIME_ESTIMATION=3601\n"
    assert abs(job.pop("submit_time") - time.time()) < 60  # type: ignore[operator]
    assert job.pop("user")
    assert job == {
        "account": "my_project",
        "queue": "normal",
        "job_name": "sleep 10",
        "work_dir": "/tmp",
        "cpu_count": 90,
    }


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        pytest.param('LSB_SUB_JOB_NAME="train[1-9]%3"\n', {"job_name": "train"}, id="an_array_without_its_tasks"),
        pytest.param('LSB_SUB_JOB_NAME="say \\"hi\\" \\n"\n', {"job_name": 'say "hi" \\n'}, id="only_the_quote_is_escaped"),
        pytest.param('LSB_SUB_COMMAND_LINE="#!/bin/sh\nsleep 1"\n', {"job_name": "#!/bin/sh\nsleep 1"}, id="several_lines"),
        pytest.param('LSB_SUB_USER_GROUP="physics"\n', {"group": "physics"}, id="group"),
        pytest.param('LSB_SUB4_GPU_REQ="num=2:mode=exclusive_process"\n', {"gpu_count": 2}, id="gpu"),
        pytest.param('LSB_SUB4_GPU_REQ="mode=shared"\n', {"gpu_count": 1}, id="gpu_without_a_number_is_one"),
        pytest.param('LSB_SUB_RES_REQ="rusage[ngpus_physical=4.00]"\n', {"gpu_count": 4}, id="gpu_of_the_resource_request"),
        pytest.param(
            'LSB_SUB_NUM_PROCESSORS=5\nLSB_SUB_RES_REQ="span[ptile=2]"\nLSB_SUB4_GPU_REQ="num=2"\n',
            {"gpu_count": 6},
            id="gpu_of_each_host",
        ),
        pytest.param('LSB_SUB_NUM_PROCESSORS=5\nLSB_SUB4_GPU_REQ="num=2/task"\n', {"gpu_count": 10}, id="gpu_of_each_task"),
        pytest.param(
            'LSB_SUB_NUM_PROCESSORS=4\nLSB_SUB_RES_REQ="span[ptile=2] rusage[ngpus_physical=3/job]"\n',
            {"gpu_count": 3},
            id="gpu_of_the_job",
        ),
        pytest.param('LSB_SUB_RES_REQ="rusage[mem=100]"\n', {"gpu_count": None, "cpu_count": 1}, id="no_gpu_named"),
        pytest.param('LSB_SUB3_CWD="/scratch/x"\n', {"work_dir": "/scratch/x"}, id="folder"),
        pytest.param("LSB_SUB_RLIMIT_RUN=7200\n", {"time_limit_s": 7200}, id="run_limit_in_seconds"),
        pytest.param('LSB_SUB_QUEUE="long short"\n', {"queue": "long"}, id="first_of_several_queues"),
    ],
)
def test_options_become_a_job(lsf: Lsf, parameters: str, expected: dict[str, object]) -> None:
    job, _ = asked(lsf, parameters)
    assert {name: job.get(name) for name in expected} == expected


@pytest.mark.parametrize(
    ("parameters", "p90_s", "settings", "written"),
    [
        pytest.param("", 5.0, {}, "60", id="a_minute_at_least"),
        pytest.param("", 600.0, {"ESTIMATE_UNIT_S": 60}, "10", id="in_minutes_where_lsf_wants_them"),
        pytest.param("LSB_SUB_RLIMIT_RUN=7200\n", 600.0, {}, "600", id="below_the_run_limit"),
        pytest.param("LSB_SUB_RLIMIT_RUN=7200\n", 600.0, {"RUNLIMIT_RATIO": 5}, "1440", id="as_long_as_job_runlimit_ratio_asks"),
        pytest.param("LSB_SUB_RLIMIT_RUN=7200\n", 7200.0, {}, None, id="none_that_reaches_the_run_limit"),
    ],
)
def test_the_estimate_is_one_that_lsf_takes(
    lsf: Lsf, parameters: str, p90_s: float, settings: dict[str, object], written: str | None
) -> None:
    lsf.settings(SOCKET=str(lsf.socket), **settings)
    _, text = asked(lsf, parameters + 'LSB_SUB_JOB_NAME="train"\n', p50_s=1.0, p90_s=p90_s)
    assert text == ("" if written is None else f"LSB_SUB3_RUNTIME_ESTIMATION={written}\n")


@pytest.mark.parametrize(
    "parameters",
    [
        pytest.param(MANUAL + "LSB_SUB3_RUNTIME_ESTIMATION=600\n", id="the_users_own_estimate_stays"),
        pytest.param(MANUAL + "LSB_SUB_MODIFY=Y\n", id="bmod"),
        pytest.param(MANUAL + "LSB_SUB_RESTART=Y\n", id="brestart"),
    ],
)
def test_jobs_that_are_not_ours_to_estimate_are_not_asked_for(lsf: Lsf, parameters: str) -> None:
    with answering(lsf.socket) as service:
        assert lsf.submit(parameters) == ""
    assert service.asked == []


def test_the_run_limit_is_never_written(lsf: Lsf) -> None:
    _, written = asked(lsf, MANUAL + "LSB_SUB_RLIMIT_RUN=72000\n")
    assert "RLIMIT" not in written


@pytest.mark.parametrize("mode", ["hang", "trickle", "close", "stale", "refused_field", *RUBBISH])
def test_whatever_the_service_does_the_job_passes_in_time(lsf: Lsf, mode: str) -> None:
    with answering(lsf.socket) as service:
        service.mode, service.forget_s = mode, 2.0
        start = time.monotonic()
        assert lsf.submit(MANUAL) == ""
        assert time.monotonic() - start < 1.5  # the bound of 0.5 s, Python's start, a busy machine


def test_no_service_no_settings_and_no_file_cost_no_job(lsf: Lsf) -> None:
    assert lsf.submit(MANUAL) == ""
    with nobody_accepts(lsf.socket):
        assert lsf.submit(MANUAL) == ""
    (lsf.folder / "esub.runcast.json").write_text("{")
    assert lsf.submit(MANUAL) == ""
    lsf.settings(SOKCET="/run/s")
    assert lsf.submit(MANUAL) == ""
    done = subprocess.run([sys.executable, "-IS", str(lsf.esub)], env={}, capture_output=True, timeout=20, check=False)
    assert done.returncode == 0


def test_it_reads_any_parameter_file_in_reasonable_time(lsf: Lsf) -> None:
    with answering(lsf.socket) as service:
        lsf.submit('LSB_SUB_COMMAND_LINE="' + "\\" * 50_000 + "\n")
    assert isinstance(service, Answering)


def test_the_interpreter_of_the_first_line_starts_it() -> None:
    assert ESUB.read_text().startswith("#!/usr/bin/python3 -IS\n")
    assert ESUB.stat().st_mode & 0o111


class _OverTheNetwork(BaseHTTPRequestHandler):
    tokens: ClassVar[list[str]] = []

    def do_POST(self) -> None:
        self.tokens.append(self.headers["Authorization"])
        self.rfile.read(int(self.headers["Content-Length"]))
        text = json.dumps(FORECAST).encode()
        self.send_response(200 if self.headers["Authorization"] == "Bearer sesame-sesame-sesame" else 401)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


TOKEN = "sesame-sesame-sesame"


@pytest.mark.parametrize("over_tls", [False, True], ids=["plain", "tls"])
@pytest.mark.parametrize(("token", "written"), [(f"{TOKEN}\n", "LSB_SUB3_RUNTIME_ESTIMATION=401\n"), ("wrong", ""), (None, "")])
def test_a_service_elsewhere_is_asked_with_the_token(lsf: Lsf, token: str | None, written: str, over_tls: bool) -> None:
    if token is not None:
        (lsf.folder / "token").write_text(token)
    with elsewhere(lsf.folder, over_tls) as settings:
        lsf.settings(SOCKET="", HOST="localhost", TOKEN_FILE=str(lsf.folder / "token"), **settings)
        assert lsf.submit(MANUAL) == written


def test_a_service_elsewhere_gets_no_token_but_under_a_trusted_certificate(lsf: Lsf) -> None:
    (lsf.folder / "token").write_text(TOKEN)
    with elsewhere(lsf.folder, over_tls=False) as settings:  # another way to write 127.0.0.1: not taken for this machine
        lsf.settings(SOCKET="", HOST="127.1", TOKEN_FILE=str(lsf.folder / "token"), **settings)
        assert lsf.submit(MANUAL) == ""
    assert _OverTheNetwork.tokens == []
    with elsewhere(lsf.folder, over_tls=True) as settings:
        another = certificate(lsf.folder, "another")
        lsf.settings(SOCKET="", HOST="localhost", TOKEN_FILE=str(lsf.folder / "token"), **{**settings, "CA_FILE": another[0]})
        assert lsf.submit(MANUAL) == ""
    assert _OverTheNetwork.tokens == []


@contextlib.contextmanager
def elsewhere(folder: Path, over_tls: bool) -> Iterator[dict[str, object]]:
    """Yield the settings that lead to a service that speaks over the network."""
    _OverTheNetwork.tokens.clear()
    with _Quiet(("127.0.0.1", 0), _OverTheNetwork) as server:
        settings: dict[str, object] = {"PORT": server.server_address[1], "TIMEOUT_S": 5}
        if over_tls:
            settings["CA_FILE"], key = certificate(folder, "service")
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(str(settings["CA_FILE"]), key)
            server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield settings
        finally:
            server.shutdown()
            thread.join()


class _Quiet(HTTPServer):
    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing of a client that went away."""


def certificate(folder: Path, name: str) -> tuple[str, str]:
    """Make a certificate of localhost; return its path and its key's."""
    paths = str(folder / f"{name}.crt"), str(folder / f"{name}.key")
    words = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-out", paths[0], "-keyout", paths[1]]
    subprocess.run([*words, "-subj", f"/CN={name}", "-addext", "subjectAltName=DNS:localhost"], check=True, capture_output=True)
    return paths


def test_what_a_service_says_is_one_line_of_the_system_log(monkeypatch: pytest.MonkeyPatch) -> None:
    """A line end in its message would begin a line that the service chose."""
    esub = ModuleType("esub_runcast")
    esub.__file__ = str(ESUB)
    SourceFileLoader("esub_runcast", str(ESUB)).exec_module(esub)
    lines: list[str] = []
    monkeypatch.setattr(esub.syslog, "syslog", lambda _level, line: lines.append(line))

    def refuse(_environment: object, _settings: object) -> None:
        raise esub.NoEstimate("status 503: no\nesub: all is well\x1b[2J")

    monkeypatch.setattr(esub, "estimate", refuse)
    assert esub.main() == 0
    assert [line.isprintable() for line in lines] == [True]
