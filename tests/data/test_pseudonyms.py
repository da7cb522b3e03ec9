"""Pseudonyms: keyed, equal for equal names, alike for names that differ in digits, and nothing clear is left."""

import hashlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runcast.data.cluster import Cluster, read_cluster
from runcast.data.errors import HistoryMismatch, PseudonymKeyError, SourceError
from runcast.data.job import ingest
from runcast.data.lake import Lake
from runcast.data.pseudonyms import DEFAULT_COLUMNS, MAPPABLE, Pseudonyms, read_key
from runcast.data.settings import Settings, read_settings
from runcast.data.sources.registry import read_source
from runcast.features.levels import fold_digits

NAMES = Pseudonyms(hashlib.sha256(b"a key").digest(), DEFAULT_COLUMNS)
SECRET = "0123456789abcdef0123456789abcdef"
HEADER = "JobID|User|Account|Partition|Submit|Start|End|Elapsed|State|WorkDir|JobName\n"
ROWS = (
    "17_3|rusty|xray|gpu|2026-03-02T10:00:00|2026-03-02T10:01:00|2026-03-02T11:00:00|00:59:00|COMPLETED|/home/rusty/x1|tryout_1.sh\n"
    "18|rusty|xray|gpu|2026-03-02T10:05:00|2026-03-02T10:06:00|Unknown|00:00:10|RUNNING|/home/rusty/x2|tryout_2.sh\n"
    "19|yvette|xray|gpu|not a time|2026-03-02T10:06:00|2026-03-02T11:00:00|00:54:00|COMPLETED|/home/yvette|secretproject\n"
)
texts = st.text(min_size=1, max_size=20)


@given(texts, texts)
def test_equality_and_likeness_stay(one: str, other: str) -> None:
    ours, theirs = NAMES.of("job_name", one), NAMES.of("job_name", other)
    assert (ours == theirs) == (one == other)
    assert (fold_digits(ours) == fold_digits(theirs)) == (fold_digits(one) == fold_digits(other))


@given(st.lists(st.sampled_from(["run", "7", "08", "_", "\u0665", "x"]), min_size=1, max_size=6).map("".join))
def test_names_of_one_shape_stay_alike(name: str) -> None:
    """The second name has other digits, `\u0665` (an Arabic five) among them, where the first has some."""
    other = "".join("93" if c.isdigit() else c for c in name)
    assert fold_digits(NAMES.of("job_name", name)) == fold_digits(NAMES.of("job_name", "".join(other)))


def test_pseudonym_is_a_keyed_hash_of_its_column() -> None:
    """BLAKE2b keyed, by its own manual: letters a to p for the hex digits of the shape's hash, then the whole text's as a number."""
    key = NAMES.key

    def blake(size: int, text: bytes) -> bytes:
        return hashlib.blake2b(text, digest_size=size, key=key, person=b"job_name").digest()

    letters = "".join("abcdefghijklmnop"[int(c, 16)] for c in blake(10, b"shape:run_#.sh").hex())
    assert NAMES.of("job_name", "run_17.sh") == f"{letters}-{int.from_bytes(blake(8, b'text:run_17.sh'), 'big')}"
    assert NAMES.of("user", "rusty") != NAMES.of("account", "rusty")
    assert NAMES.of("user", "rusty") != Pseudonyms(b"k" * 32, DEFAULT_COLUMNS).of("user", "rusty")


def test_key_is_not_shown() -> None:
    assert "key" not in repr(NAMES)
    assert NAMES.fingerprint not in NAMES.key.hex()
    assert len(NAMES.fingerprint) == 16


def test_array_ids_follow_their_job_ids() -> None:
    names = Pseudonyms(NAMES.key, ("job_id",))
    told = names.mapped({"job_id": "17_3", "array_id": "17", "user": "rusty", "gpu_count": 2, "job_name": None})
    assert told["array_id"] == names.of("job_id", "17") != "17"
    assert (told["user"], told["gpu_count"], told["job_name"]) == ("rusty", 2, None)


def key_file(folder: Path, secret: str = SECRET, mode: int = 0o600) -> Path:
    path = folder / "names.key"
    path.write_text(secret + "\n")
    path.chmod(mode)
    return path


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o400])
def test_key_may_be_its_owners_and_its_groups(tmp_path: Path, mode: int) -> None:
    assert read_key(key_file(tmp_path, mode=mode)) == read_key(key_file(tmp_path / "..", mode=0o600))
    (tmp_path / ".." / "names.key").unlink()


@pytest.mark.parametrize(
    ("secret", "mode", "match"),
    [
        pytest.param(SECRET, 0o644, r"others than its owner and group may read it.*chmod 640", id="world-readable"),
        pytest.param(SECRET, 0o660, r"others than its owner write it", id="group-writable"),
        pytest.param("short", 0o600, r"has 5 characters, at least 32", id="short"),
    ],
)
def test_unsafe_key_is_refused(tmp_path: Path, secret: str, mode: int, match: str) -> None:
    with pytest.raises(PseudonymKeyError, match=match):
        read_key(key_file(tmp_path, secret, mode))


def test_missing_key_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(PseudonymKeyError, match=r"cannot be read \(No such file.*head -c 32 /dev/urandom"):
        read_key(tmp_path / "none.key")


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return read_settings({"RUNCAST_HOME": str(tmp_path / "home"), "KEYS": str(tmp_path)})


def cluster(folder: Path, asked: str = "pseudonymise: {key_file: '${KEYS}/names.key'}\n", rows: str = ROWS) -> Cluster:
    key_file(folder)
    (folder / "log.txt").write_text(HEADER + rows)
    file = folder / "hpc.yaml"
    file.write_text(
        f"source:\n  format: slurm_sacct\n  paths: ['{folder}/log.txt']\n  reject_share_at_most: 0.9\ntime_zone: UTC\n{asked}"
    )
    return read_cluster(file)


CLEAR = (b"rusty", b"yvette", b"xray", b"tryout_", b"secretproject", b"/home")


def test_nothing_clear_comes_out_of_the_source(tmp_path: Path, settings: Settings) -> None:
    batches = list(read_source(cluster(tmp_path), settings))
    jobs = {job["job_id"]: job for batch in batches for job in batch.jobs.to_pylist()}
    rejects = [reject for batch in batches for reject in batch.rejects]
    names = Pseudonyms(read_key(tmp_path / "names.key"), DEFAULT_COLUMNS)
    assert jobs["18"]["user"] == names.of("user", "rusty") == jobs["17_3"]["user"]
    assert fold_digits(jobs["17_3"]["job_name"]) == fold_digits(jobs["18"]["job_name"])
    assert jobs["17_3"]["job_name"] != jobs["18"]["job_name"]
    assert (jobs["18"]["queue"], jobs["18"]["job_key"]) == ("gpu", "hpc:18:1772445900000000")
    assert [(r.line, r.reason, r.raw) for r in rejects] == [
        (4, "submit_unreadable", f"(withheld: {len(ROWS.splitlines()[2])} characters)")
    ]
    assert not any(word in (repr(jobs) + repr(rejects)).encode() for word in CLEAR)


def test_an_error_that_would_quote_the_log_does_not(tmp_path: Path, settings: Settings) -> None:
    chosen = cluster(tmp_path)
    (tmp_path / "log.txt").write_text(ROWS)  # without its header, which names are then taken for
    with pytest.raises(SourceError, match=r"no header of sacct but \(withheld\)") as refused:
        list(read_source(chosen, settings))
    assert not any(word in str(refused.value).encode() for word in CLEAR)
    assert refused.value.__suppress_context__


@pytest.mark.parametrize(
    ("source", "mapped"),
    [
        pytest.param("{format: kubernetes, paths: [x]}", True, id="pods are named"),
        pytest.param("{format: pai, paths: [x]}", True, id="jobs of PAI are named"),
        pytest.param("{format: table, paths: [x], options: {columns: {user: u}}}", True, id="made of the row"),
        pytest.param("{format: table, paths: [x], options: {columns: {job_id: i}}}", False, id="the log's own"),
        pytest.param("{format: swf, paths: [x]}", False, id="numbers"),
    ],
)
def test_ids_that_are_names_are_names(tmp_path: Path, settings: Settings, source: str, mapped: bool) -> None:
    from runcast.data.sources.registry import pseudonyms_of

    key_file(tmp_path)
    (tmp_path / "c.yaml").write_text(f"source: {source}\ntime_zone: UTC\npseudonymise: {{key_file: '{tmp_path}/names.key'}}\n")
    names = pseudonyms_of(read_cluster(tmp_path / "c.yaml"), settings)
    assert names is not None
    assert names.maps("job_id") == names.maps("array_id") == mapped
    assert set(names.columns) <= set(MAPPABLE)


def test_one_history_has_one_way(tmp_path: Path, settings: Settings) -> None:
    """Another key, or clear names, would not meet the names that are there; a lake that is empty may begin anew."""
    ingest(cluster(tmp_path), settings)
    fingerprint = Lake(settings.lake).fingerprint("hpc")
    ingest(cluster(tmp_path), settings)
    with pytest.raises(
        HistoryMismatch, match=r"are pseudonyms in user, .* by key \w{16}, the cluster file now asks for in clear"
    ):
        ingest(cluster(tmp_path, asked=""), settings)
    chosen = cluster(tmp_path)
    key_file(tmp_path, SECRET[::-1])
    with pytest.raises(HistoryMismatch, match="begin anew with another RUNCAST_HOME"):
        ingest(chosen, settings)
    assert Lake(settings.lake).fingerprint("hpc") == fingerprint


def test_names_that_stand_in_clear_are_not_left_beside_pseudonyms(tmp_path: Path, settings: Settings) -> None:
    ingest(cluster(tmp_path, asked=""), settings)
    with pytest.raises(HistoryMismatch, match=r"are in clear, the cluster file now asks for pseudonyms"):
        ingest(cluster(tmp_path), settings)


def test_a_load_that_failed_leaves_the_choice_open(tmp_path: Path, settings: Settings) -> None:
    with pytest.raises(SourceError):
        ingest(cluster(tmp_path, rows=""), settings)
    ingest(cluster(tmp_path, asked=""), settings)
