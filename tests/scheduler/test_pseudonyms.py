"""A bundle whose names are pseudonyms: asked in clear with the key, refused without it, and nothing clear is kept beside it."""

import asyncio
import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from runcast.data.cluster import Cluster, Pseudonymise
from runcast.data.errors import PseudonymKeyError
from runcast.data.pseudonyms import DEFAULT_COLUMNS, Pseudonyms, read_key
from runcast.data.sources.batch import Batch
from runcast.data.sources.pseudonymised import pseudonymised
from runcast.scheduler.bundle import PseudonymsUsed, read_manifest
from runcast.scheduler.errors import BundleDamaged, BundleError, BundleMismatch, JobFieldError
from runcast.scheduler.export import history
from runcast.scheduler.journal import Journal
from runcast.scheduler.predictor import Predictor
from runcast.scheduler.rollover import Required
from runcast.scheduler.serve import main
from runcast.scheduler.served import ServedLog
from runcast.scheduler.service import Service

CUT = datetime(2026, 3, 31, 22, tzinfo=UTC)
JOB = {
    "user": "u3",
    "group": "g3",
    "queue": "gpu",
    "job_name": "train_1_4.sh",
    "gpu_count": 2,
    "cpu_count": 16,
    "submit_time": "2026-04-01T10:00:00Z",
}


def key_file(path: Path, secret: str = "a secret of thirty-two characters") -> Path:
    path.write_text(secret)
    path.chmod(0o600)
    return path


@pytest.fixture(scope="module")
def key(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return key_file(tmp_path_factory.mktemp("keys") / "names.key")


@pytest.fixture(scope="module")
def hidden(
    tmp_path_factory: pytest.TempPathFactory, make_bundle: Callable[..., Path], jobs: pa.Table, cluster: Cluster, key: Path
) -> Path:
    """The bundle of the made-up jobs with their names replaced, as `ingest` would have."""
    names = Pseudonyms(read_key(key), DEFAULT_COLUMNS)
    (batch,) = pseudonymised([Batch(jobs)], names)
    asked = cluster.model_copy(update={"pseudonymise": Pseudonymise(key_file=str(key))})
    used = PseudonymsUsed(names.columns, names.fingerprint)
    state = history(batch.jobs, cluster.clock, cluster.time_zone, CUT)
    return make_bundle(tmp_path_factory.mktemp("hidden"), "nearest_median", cluster=asked, state=state, pseudonyms=used)


@pytest.fixture(scope="module")
def clear(tmp_path_factory: pytest.TempPathFactory, make_bundle: Callable[..., Path]) -> Path:
    return make_bundle(tmp_path_factory.mktemp("clear"), "nearest_median")


def test_asked_in_clear_it_answers_as_the_clear_bundle_does(hidden: Path, clear: Path, key: Path) -> None:
    """Equal names meet, and names that differ in digits only: every feature of history is the same."""
    with_key, plain = Predictor.load(hidden, now=CUT, pseudonym_key=key), Predictor.load(clear, now=CUT)
    for job in (JOB, JOB | {"job_name": "train_1_77.sh"}, JOB | {"user": None}, JOB | {"user": "nobody"}):
        assert with_key.predict(job) == plain.predict(job)
    assert plain.predict(JOB)["n_history"] > 0
    for predictor in (with_key, plain):
        predictor.tell(
            {
                "event": "ended",
                "job_id": "x",
                **JOB,
                "start_time": JOB["submit_time"],
                "end_time": "2026-04-01T10:10:00Z",
                "state": "COMPLETED",
            }
        )
    later = JOB | {"submit_time": "2026-04-01T12:00:00Z"}
    assert with_key.predict(later) == plain.predict(later)


def test_name_too_long_is_refused_by_name_as_in_clear_and_not_remembered(hidden: Path, clear: Path, key: Path) -> None:
    for predictor in (Predictor.load(hidden, now=CUT, pseudonym_key=key), Predictor.load(clear, now=CUT)):
        with pytest.raises(JobFieldError, match="job_name: is 4097 characters long"):
            predictor.predict(JOB | {"job_name": "x" * 4097})


def test_asked_without_the_key_no_name_meets(hidden: Path, key: Path) -> None:
    """The key is what joins names: told as pseudonyms already, a clear name is nobody's."""
    in_clear = Predictor.load(hidden, now=CUT, has_pseudonyms=True)
    named = Predictor.load(hidden, now=CUT, pseudonym_key=key)
    assert in_clear.predict(named.with_pseudonyms(JOB)) == named.predict(JOB)
    assert in_clear.predict(JOB) == named.predict(JOB | {"user": "?", "group": "?", "job_name": "?"})


def test_bundle_says_which_key_and_does_not_hold_it(hidden: Path, key: Path) -> None:
    used = read_manifest(hidden).pseudonyms
    assert used == PseudonymsUsed(DEFAULT_COLUMNS, Pseudonyms(read_key(key), DEFAULT_COLUMNS).fingerprint)
    held = b"".join(path.read_bytes() for path in hidden.rglob("*") if path.is_file())
    assert key.read_bytes() not in held
    assert read_key(key) not in held
    assert read_key(key).hex().encode() not in held


@pytest.mark.parametrize(
    ("make_key", "error", "match"),
    [
        pytest.param(lambda folder: None, BundleMismatch, r"knows user, .* by pseudonyms only.*--pseudonym-key", id="none"),
        pytest.param(
            lambda folder: key_file(folder / "k", "another secret of thirty-two signs"), BundleMismatch,
            r"is not the key .* \(fingerprint \w{16}, expected \w{16}\)", id="another",
        ),
        pytest.param(lambda folder: folder / "none", PseudonymKeyError, r"cannot be read", id="missing"),
    ],
)  # fmt: skip
def test_wrong_key_is_refused(
    hidden: Path, tmp_path: Path, make_key: Callable[[Path], Path | None], error: type[Exception], match: str
) -> None:
    with pytest.raises(error, match=match):
        Predictor.load(hidden, now=CUT, pseudonym_key=make_key(tmp_path))


def test_cluster_file_and_history_must_agree(
    tmp_path: Path, make_bundle: Callable[..., Path], cluster: Cluster, key: Path
) -> None:
    asked = cluster.model_copy(update={"pseudonymise": Pseudonymise(key_file=str(key))})
    with pytest.raises(BundleError, match="asks for pseudonyms, the history holds clear names"):
        make_bundle(tmp_path, "nearest_median", cluster=asked)
    with pytest.raises(BundleError, match="asks for clear names, the history holds pseudonyms"):
        make_bundle(tmp_path, "nearest_median", pseudonyms=PseudonymsUsed(("user",), "0" * 16))


@pytest.mark.parametrize(
    "said", [[], {"columns": ["state"], "key_fingerprint": "0"}, {"columns": ["user"]}, {"columns": 7, "key_fingerprint": ""}]
)
def test_damaged_statement_is_refused(hidden: Path, tmp_path: Path, said: Any) -> None:
    import hashlib
    import shutil

    copy = tmp_path / "copy"
    shutil.copytree(hidden, copy)
    content = json.loads((copy / "manifest.json").read_text()) | {"pseudonyms": said}
    del content["manifest_sha256"]
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    (copy / "manifest.json").write_text(json.dumps(content | {"manifest_sha256": hashlib.sha256(text.encode()).hexdigest()}))
    with pytest.raises(BundleDamaged, match="pseudonyms: expected columns and a key's fingerprint"):
        read_manifest(copy)


async def post(service: Service, path: str, value: Any) -> tuple[int, Any]:
    """Ask the application as a web server does."""
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": json.dumps(value).encode(), "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    await service({"type": "http", "method": "POST", "path": path, "headers": []}, receive, send)
    return sent[0]["status"], json.loads(sent[1]["body"])


def test_service_keeps_no_clear_name(hidden: Path, tmp_path: Path, key: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Neither in the journal, nor among the served forecasts, nor in its log; a job told again is the same job."""
    journal = Journal(tmp_path / "events.journal")
    service = Service(hidden, journal, ServedLog(tmp_path / "served"), required=Required(key), clock=lambda: CUT)
    secret = JOB | {"user": "wystan", "job_name": "verysecret_17", "job_id": "9", "submit_time": "2026-03-31T21:59:00Z"}

    async def talk() -> list[tuple[int, Any]]:
        await service.start()
        answers = [
            await post(service, "/v1/predict", secret),
            await post(service, "/v1/events", [{"event": "submitted", **secret}, {"event": "submitted", **secret, "user": 7}]),
            await post(service, "/v1/events", {"event": "submitted", **secret}),
        ]
        await service.stop()
        return answers

    answers = asyncio.run(talk())
    journal.close()
    assert [status for status, _ in answers] == [200, 422, 200]
    kept = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert b"submitted" in kept
    for text in (kept, caplog.text.encode(), json.dumps(answers).encode()):
        assert b"wystan" not in text
        assert b"verysecret" not in text


def test_service_with_a_key_does_not_serve_a_clear_bundle(clear: Path, tmp_path: Path, key: Path) -> None:
    journal = Journal(tmp_path / "events.journal")
    service = Service(clear, journal, ServedLog(tmp_path / "served"), required=Required(key), clock=lambda: CUT)

    async def talk() -> tuple[int, Any]:
        await service.start()
        answer = await post(service, "/v1/predict", JOB)
        await service.stop()
        return answer

    status, answer = asyncio.run(talk())
    journal.close()
    assert status == 503
    assert "holds names in clear, but a key for pseudonyms was given" in answer["error"]["message"]


def test_unsafe_key_ends_the_service_at_once(hidden: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    unsafe = key_file(tmp_path / "k")
    unsafe.chmod(0o644)
    assert main(["--bundle", str(hidden), "--socket", str(tmp_path / "s"), "--pseudonym-key", str(unsafe)]) == 3
    assert "chmod 640" in capsys.readouterr().err
