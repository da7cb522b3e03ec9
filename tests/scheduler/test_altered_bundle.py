"""A bundle altered by somebody who made every hash right again is refused with a reason, or answers; it never ends the process."""

import dataclasses
import hashlib
import json
import re
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from runcast.data.errors import RuncastError
from runcast.scheduler.bundle import MOST_BYTES, File, read_manifest
from runcast.scheduler.errors import BundleDamaged, BundleMismatch
from runcast.scheduler.predictor import Predictor
from runcast.training.errors import ModelFileError

pytestmark = pytest.mark.attack


def _seal(bundle: Path, **changed: Any) -> None:
    """Make sizes and hashes of the manifest those of the files that are there, and change what else it says."""
    if "files" not in changed:
        changed["files"] = tuple(
            File(p.relative_to(bundle).as_posix(), hashlib.sha256(p.read_bytes()).hexdigest(), p.stat().st_size)
            for p in sorted(bundle.rglob("*"))
            if p.is_file() and p.name != "manifest.json"
        )
    manifest = dataclasses.replace(read_manifest(bundle), **changed)
    (bundle / "manifest.json").write_text(manifest.to_json())


def _alter_model(bundle: Path, change: Callable[[dict[str, Any]], Any], texts: dict[str, str] | None = None) -> None:
    """Change model.json, and the texts beside it, and make the model's own hashes right."""
    path = bundle / "model" / "model.json"
    content = json.loads(path.read_text())
    content.pop("checksum")
    for name, text in (texts or {}).items():
        (bundle / "model" / name).write_text(text)
        content["files"][name] = hashlib.sha256(text.encode()).hexdigest()
    changed = change(content)
    content = content if changed is None else changed
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":")).encode()
    path.write_text(json.dumps(content | {"checksum": hashlib.sha256(canonical).hexdigest()}))
    _seal(bundle)


def _set(*path_and_value: Any) -> Callable[[dict[str, Any]], None]:
    *path, last, value = path_and_value

    def change(content: dict[str, Any]) -> None:
        for part in path:
            content = content[part]
        content[last] = value

    return change


def _margin(**changed: Any) -> Callable[[dict[str, Any]], None]:
    return lambda content: content["model"]["margin"].update(changed)


def _of_nodes(name: str, value: float) -> Callable[[dict[str, Any]], None]:
    """Of the tree's last node, which few jobs come to."""

    def change(content: dict[str, Any]) -> None:
        content["model"]["nodes"][name][-1] = value

    return change


@pytest.fixture
def gbdt(make_bundle: Callable[..., Path], tmp_path: Path) -> Path:
    return make_bundle(tmp_path, "gbdt")


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        ("gbdt", _set("columns", 7)),
        ("gbdt", _set("columns", [1, 2])),
        ("gbdt", _set("columns", [])),
        ("gbdt", _set("model", None)),
        ("gbdt", _set("model", "p90_factor", "two")),
        ("gbdt", _set("files", [])),
        ("gbdt", _set("files", {})),
        ("gbdt", _set("libraries", 3)),
        ("gbdt", _set("libraries", {"lightgbm": "x"})),
        ("gbdt", _set("encoder", "vocabularies", 3)),
        ("gbdt", _set("encoder", [])),
        ("gbdt", _set("kind", ["gbdt"])),
        ("nearest_median", _set("model", "fallback_s", "soon")),
        ("nearest_median", _set("model", "p90_factor", [1])),
        ("nearest_median", _set("model", "hit_share", {})),
        ("nearest_median", _set("columns", [])),
        ("nearest_median", _set("columns", ["no_such_feature"])),
        ("cart", _set("model", "nodes", {})),
        ("cart", _set("model", "nodes", "feature", [10**9])),
        ("cart", _set("model", "p90_factor", None)),
        ("runcast", _set("model", "margin", None)),
        ("runcast", _set("model", "margin", "residuals", ["x"] * 100)),
        ("runcast", _set("model", "margin", "level", "high")),
        ("runcast", _set("model", "calibration", "score", "ab")),
        ("runcast", _set("columns", ["nearest_median_s"])),
        ("runcast", _margin(size=10**12)),  # would remember every job there ever is
        ("runcast", _margin(size=0)),
        ("runcast", _margin(size=1.5)),
        ("runcast", _margin(level="high", residuals=[0.1], owners=[None])),  # with fewer than 50, read once jobs have ended
        ("runcast", _margin(level=-0.5)),
        ("runcast", _margin(level=2.0)),
        ("runcast", _margin(trained_log="x", residuals=[0.1], owners=[None])),
        ("runcast", _margin(trained_log=-900.0)),
        ("runcast", _margin(residuals=[0.1] * 60, owners=["user a"])),
        ("runcast", _margin(residuals=[0.1], owners="a")),
        ("runcast", _margin(residuals=[800.0] * 60, owners=[None] * 60)),
        ("runcast", _margin(residuals=[float("nan")] * 60, owners=[None] * 60)),
        ("runcast", _set("model", "calibration", {"score": [0.9, 0.1], "share": [0.1, 0.9]})),
        ("runcast", _set("model", "calibration", {"score": [0.1, 0.9], "share": [-5, 9]})),
        ("runcast", _set("model", "calibration", {"score": [0.1, 0.9], "share": [float("nan"), 1]})),
        ("runcast", _set("model", "calibration", {"score": [0.1, 0.2], "share": [0.5]})),
        ("runcast", _set("model", "calibration", {"score": [], "share": []})),
        ("nearest_median", _set("model", "fallback_s", float("inf"))),
        ("nearest_median", _set("model", "p90_factor", [1.5, 1e308])),  # finite for some jobs, for others not
        ("nearest_median", _set("model", "fallback_s", -5)),
        ("cart", _set("model", "p90_factor", -1)),
        ("cart", _of_nodes("p50_s", -1e308)),
        ("cart", _of_nodes("error_log", -1.0)),
        ("gbdt", _set("model", "p90_factor", float("nan"))),
        ("gbdt", _set("training", float("nan"))),
    ],
)
def test_altered_model_is_refused_with_a_named_error(
    make_bundle: Callable[..., Path], tmp_path: Path, now: datetime, kind: str, change: Callable[[dict[str, Any]], None]
) -> None:
    bundle = make_bundle(tmp_path, kind)
    assert Predictor.load(bundle, now=now).predict({"submit_time": now.isoformat()})["p50_s"] > 0
    _alter_model(bundle, change)
    with pytest.raises(RuncastError, match=r"model\.json|cannot answer|Export|export"):
        Predictor.load(bundle, now=now)


def test_tree_that_points_out_of_range_is_refused(gbdt: Path, now: datetime) -> None:
    """LightGBM would read outside its memory."""
    text = (gbdt / "model" / "p50.txt").read_text()
    three_digits = re.search(r"(?m)^split_feature=(?:.* )?(\d{3})\b", text)  # so that every length stays
    assert three_digits is not None
    altered = text[: three_digits.start(1)] + "999" + text[three_digits.end(1) :]
    _alter_model(gbdt, lambda content: None, {"p50.txt": altered})
    with pytest.raises(ModelFileError, match="split_feature: expected 0 to"):
        Predictor.load(gbdt, now=now)


@pytest.mark.parametrize("field", range(1, 4))
def test_open_job_of_a_number_beyond_any_clock_is_refused(gbdt: Path, now: datetime, field: int) -> None:
    """It was read, and later jobs beside it could not be answered."""
    arrays = dict(np.load(gbdt / "state.npz"))
    meta = json.loads(arrays["meta"].tobytes())
    meta["open"][0][field] = 10**30
    np.savez(gbdt / "state.npz", **{**arrays, "meta": np.frombuffer(json.dumps(meta).encode(), np.uint8)})
    _seal(gbdt)
    with pytest.raises(RuncastError, match=r"state\.npz: not a feature state"):
        Predictor.load(gbdt, now=now)


def test_files_outside_the_bundle_are_not_read(gbdt: Path, now: datetime) -> None:
    _alter_model(gbdt, _set("files", "../../secret", "0" * 64))
    with pytest.raises(ModelFileError, match="is not the name of a file beside it"):
        Predictor.load(gbdt, now=now)


def test_bundle_that_would_fill_the_memory_is_refused_before_it_is_read(gbdt: Path, now: datetime) -> None:
    """The file is sparse: it takes no disk, and reading it would take minutes."""
    with (gbdt / "state.npz").open("r+b") as file:
        file.truncate(MOST_BYTES + 1)
    files = tuple(dataclasses.replace(f, size_bytes=(gbdt / f.path).stat().st_size) for f in read_manifest(gbdt).files)
    _seal(gbdt, files=files)
    with pytest.raises(BundleDamaged, match="at most 2147483648 are read"):
        Predictor.load(gbdt, now=now)


def test_endless_manifest_is_refused(gbdt: Path, now: datetime) -> None:
    with (gbdt / "manifest.json").open("r+b") as file:
        file.truncate(2**32)
    with pytest.raises(BundleDamaged, match="at most 1048576 are read"):
        Predictor.load(gbdt, now=now)


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"cluster": "other"}, "the manifest says gbdt of other, the model is gbdt of demo"),
        ({"time_zone": "Asia/Tokyo"}, "clock calendar in Asia/Tokyo, the history calendar in Europe/Berlin"),
        ({"clock": "week"}, "clock week in Europe/Berlin"),
    ],
)
def test_manifest_of_something_else_is_refused(gbdt: Path, now: datetime, changed: dict[str, str], problem: str) -> None:
    _seal(gbdt, **changed)
    with pytest.raises(BundleMismatch, match=problem):
        Predictor.load(gbdt, now=now)


def test_bundle_of_another_cluster_is_refused_where_one_is_expected(gbdt: Path, now: datetime) -> None:
    assert Predictor.load(gbdt, now=now, cluster="demo").manifest.cluster == "demo"
    with pytest.raises(BundleMismatch, match="is of cluster 'demo', expected 'venus'"):
        Predictor.load(gbdt, now=now, cluster="venus")


def test_no_random_change_of_a_file_is_more_than_a_refusal(
    make_bundle: Callable[..., Path], tmp_path: Path, now: datetime
) -> None:
    """Sealed again, so that only what is checked beyond hashes stands in the way."""
    draw, refused = np.random.default_rng(4), 0
    bundle = make_bundle(tmp_path, "runcast")
    names = [file.path for file in read_manifest(bundle).files]
    for at in range(60):
        path = bundle / names[at % len(names)]
        whole = path.read_bytes()
        altered = bytearray(whole)
        for place in draw.integers(0, len(whole), 3):
            altered[place] = draw.integers(256)
        path.write_bytes(altered)
        _seal(bundle)
        try:
            Predictor.load(bundle, now=now)
        except RuncastError:
            refused += 1
        path.write_bytes(whole)
    assert refused > 10
