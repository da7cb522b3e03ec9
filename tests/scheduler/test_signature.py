"""A host that insists on signatures serves what the operator's key has signed, and nothing else. OpenSSH signs and checks."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from runcast.scheduler import predictor
from runcast.scheduler.bundle import read_manifest
from runcast.scheduler.errors import BundleDamaged, BundleError, BundleUnsigned
from runcast.scheduler.predictor import Predictor

JOB = {"submit_time": "2026-04-01T00:00:00Z", "user": "u3", "gpu_count": 4}

pytestmark = [
    pytest.mark.attack,
    pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="no ssh-keygen here: bundles cannot be signed"),
]


def _key(folder: Path, name: str) -> Path:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)], check=True)
    return folder / name


@pytest.fixture
def key(tmp_path: Path) -> Path:
    return _key(tmp_path, "operator")


@pytest.fixture
def signers(tmp_path: Path, key: Path) -> Path:
    path = tmp_path / "signers"
    path.write_text(f"runcast {key.with_suffix('.pub').read_text()}")
    return path


@pytest.fixture
def signed(make_bundle: Callable[..., Path], tmp_path: Path, key: Path) -> Path:
    return make_bundle(tmp_path / "bundles", "nearest_median", sign_key=key)


def test_signed_bundle_is_served_with_and_without_insisting(signed: Path, signers: Path, now: datetime) -> None:
    assert Predictor.load(signed, now=now, signers=signers).manifest.cluster == "demo"
    assert Predictor.load(signed, now=now).manifest.cluster == "demo"


def test_bundle_that_nobody_signed_is_refused_where_the_host_insists(
    make_bundle: Callable[..., Path], tmp_path: Path, signers: Path, now: datetime
) -> None:
    bundle = make_bundle(tmp_path / "bundles", "nearest_median")
    assert Predictor.load(bundle, now=now).manifest.cluster == "demo"
    with pytest.raises(BundleUnsigned, match="not signed, and"):
        Predictor.load(bundle, now=now, signers=signers)


def test_key_of_somebody_else_is_refused(make_bundle: Callable[..., Path], tmp_path: Path, signers: Path, now: datetime) -> None:
    bundle = make_bundle(tmp_path / "bundles", "nearest_median", sign_key=_key(tmp_path, "stranger"))
    with pytest.raises(BundleUnsigned, match="is not by a key in"):
        Predictor.load(bundle, now=now, signers=signers)


def test_manifest_altered_and_sealed_again_is_refused(signed: Path, signers: Path, now: datetime) -> None:
    """Its own hash is right; the signature is of another text."""
    manifest = read_manifest(signed)
    later = (datetime.fromisoformat(manifest.valid_until) + timedelta(days=365)).isoformat()
    (signed / "manifest.json").write_text(type(manifest)(**{**manifest.__dict__, "valid_until": later}).to_json())
    assert Predictor.load(signed, now=now).manifest.valid_until == later
    with pytest.raises(BundleUnsigned, match="is not by a key in"):
        Predictor.load(signed, now=now, signers=signers)


def test_file_altered_below_a_signed_manifest_is_refused(signed: Path, signers: Path, now: datetime) -> None:
    with (signed / "state.npz").open("ab") as file:
        file.write(b"x")
    with pytest.raises(BundleDamaged, match=r"state\.npz"):
        Predictor.load(signed, now=now, signers=signers)


def test_file_altered_between_its_check_and_its_reading_is_not_read(
    signed: Path, signers: Path, now: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever brings the bundle changes it once its hashes have been found right: what was checked is what serves."""
    right = Predictor.load(signed, now=now, signers=signers).predict(JOB)
    checked = predictor.check

    def check_then_alter(*arguments: Any, **options: Any) -> Any:
        manifest = checked(*arguments, **options)
        (signed / "model" / "model.json").write_text("{}")
        (signed / "state.npz").write_bytes(b"")
        return manifest

    monkeypatch.setattr(predictor, "check", check_then_alter)
    assert Predictor.load(signed, now=now, signers=signers).predict(JOB) == right
    assert not [path for path in Path(tempfile.gettempdir()).glob("runcast-*") if (path / signed.name).exists()]


@pytest.mark.parametrize("kind", ["link", "pipe", "endless"])
def test_signed_bundle_with_something_else_in_a_files_place_is_refused(
    signed: Path, signers: Path, now: datetime, kind: str
) -> None:
    state = signed / "state.npz"
    state.unlink()
    if kind == "link":
        state.symlink_to("/dev/zero")
    elif kind == "pipe":
        os.mkfifo(state)
    else:
        with state.open("wb") as file:
            file.truncate(2**40)
    with pytest.raises(BundleDamaged, match=r"state\.npz"):
        Predictor.load(signed, now=now, signers=signers)


def test_same_bundle_signed_twice_is_one_and_has_the_same_bytes(
    make_bundle: Callable[..., Path], tmp_path: Path, signed: Path, key: Path
) -> None:
    before = (signed / "manifest.json.sig").read_bytes()
    assert make_bundle(tmp_path / "bundles", "nearest_median", sign_key=key) == signed
    assert (signed / "manifest.json.sig").read_bytes() == before


def test_bundle_written_before_the_key_was_named_is_written_again_with_it(
    make_bundle: Callable[..., Path], tmp_path: Path, key: Path, signers: Path, now: datetime
) -> None:
    unsigned = make_bundle(tmp_path / "bundles", "nearest_median")
    assert make_bundle(tmp_path / "bundles", "nearest_median", sign_key=key) == unsigned
    assert Predictor.load(unsigned, now=now, signers=signers).manifest.cluster == "demo"


def test_key_that_cannot_sign_is_named_and_leaves_no_bundle(make_bundle: Callable[..., Path], tmp_path: Path, key: Path) -> None:
    key.chmod(0o644)
    for broken in (key, tmp_path / "missing"):
        with pytest.raises(BundleError, match="cannot sign the bundle"):
            make_bundle(tmp_path / "other", "nearest_median", sign_key=broken)
    assert not [path for path in (tmp_path / "other").iterdir() if path.is_dir() and not path.name.startswith(".")]


def test_signers_file_that_is_missing_is_said(signed: Path, tmp_path: Path, now: datetime) -> None:
    with pytest.raises(BundleUnsigned, match="no such file"):
        Predictor.load(signed, now=now, signers=tmp_path / "none")
