"""A bundle is whole, its own cluster's, of the features here, and not stale; or it is refused with what to do."""

import dataclasses
import hashlib
import json
import os
import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from runcast.scheduler.bundle import (
    FORMAT_VERSION,
    File,
    Manifest,
    bundles,
    check,
    check_files,
    make_current,
    old_bundles,
    read_manifest,
    resolve,
    utc_text,
    write_bundle,
)
from runcast.scheduler.errors import BundleDamaged, BundleError, BundleExpired, BundleMismatch, BundleMissing, BundleTooNew

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
MANIFEST = Manifest(
    format_version=FORMAT_VERSION,
    cluster="venus",
    kind="gbdt",
    model_version="gbdt-2026-11-29-0123abcd",
    registered="runcast-venus-gbdt/3",
    feature_version="features-1",
    data_cut="2026-11-29T16:00:00Z",
    created="2026-11-30T02:00:00Z",
    valid_until="2026-12-07T02:00:00Z",
    clock="calendar",
    time_zone="Asia/Shanghai",
    time_limit="hard",
    gpus_tracked=True,
    files=(),
)


@pytest.fixture
def content(tmp_path: Path) -> Path:
    folder = tmp_path / "content"
    (folder / "model").mkdir(parents=True)
    (folder / "model" / "model.json").write_text('{"a": 1}')
    (folder / "state.bin").write_bytes(b"\0" * 1000)
    return folder


@pytest.fixture
def bundle(tmp_path: Path, content: Path) -> Path:
    return write_bundle(tmp_path / "bundles", content, MANIFEST)


def _check(bundle: Path, **changed: object) -> Manifest:
    return check(bundle, **{"feature_version": "features-1", "now": NOW, "cluster": "venus", **changed})


def _rewrite(bundle: Path, **changed: object) -> None:
    """Change the manifest and make its own hash right again, as another version of the program would write it."""
    manifest = dataclasses.replace(read_manifest(bundle), **changed)
    (bundle / "manifest.json").write_text(manifest.to_json())


def test_written_bundle_is_read_back(bundle: Path) -> None:
    manifest = _check(bundle)
    assert dataclasses.replace(manifest, files=()) == MANIFEST
    assert [(f.path, f.size_bytes) for f in manifest.files] == [("model/model.json", 8), ("state.bin", 1000)]
    # printf '{"a": 1}' | sha256sum
    assert manifest.files[0].sha256 == "f9d86028c6e0d64e225186f96acb69338b2c59764df79162107f5c4bb34d1310"
    assert bundle.name == "20261130T020000Z-gbdt-2026-11-29-0123abcd"


def _truncate(path: Path, by: int = 1) -> None:
    path.write_bytes(path.read_bytes()[:-by])


def _flip(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1] + b"?")


def _edit_manifest(bundle: Path) -> None:
    path = bundle / "manifest.json"
    path.write_text(path.read_text().replace("2026-12-07", "2036-12-07"))


def _link_out(bundle: Path) -> None:
    (bundle / "state.bin").rename(bundle.parent / "state.bin")
    (bundle / "state.bin").symlink_to(bundle.parent / "state.bin")


HARMS: dict[str, tuple[Callable[[Path], None], type[BundleError], str]] = {
    "cut off": (lambda b: _truncate(b / "state.bin"), BundleDamaged, "state.bin: expected 1000 bytes, found 999"),
    "altered": (lambda b: _flip(b / "state.bin"), BundleDamaged, "state.bin: was altered"),
    "missing": (lambda b: (b / "state.bin").unlink(), BundleDamaged, "state.bin is missing"),
    "stray folder": (lambda b: (b / "model" / "__pycache__").mkdir(), BundleDamaged, "model/__pycache__ does not belong"),
    "unlisted": (lambda b: (b / "model" / "extra.py").write_text("evil"), BundleDamaged, "model/extra.py does not belong"),
    "link": (lambda b: _link_out(b), BundleDamaged, "state.bin does not belong"),
    "manifest edited": (lambda b: _edit_manifest(b), BundleDamaged, "its own hash differs"),
    "manifest cut off": (lambda b: _truncate(b / "manifest.json", 3), BundleDamaged, "cannot be read"),
    "manifest half written": (lambda b: (b / "manifest.json").write_text('{"format_'), BundleDamaged, "cannot be read"),
    "not an object": (lambda b: (b / "manifest.json").write_text("[]"), BundleDamaged, "no format_version"),
    "not text": (lambda b: (b / "manifest.json").write_bytes(b"\xff\xfe"), BundleDamaged, "cannot be read"),
    "no manifest": (lambda b: (b / "manifest.json").unlink(), BundleMissing, "runcast export"),
    "newer format": (
        lambda b: _rewrite(b, format_version=3),
        BundleTooNew,
        "format 3, this program reads up to 2",
    ),
    "other cluster": (lambda b: _rewrite(b, cluster="philly"), BundleMismatch, "is of cluster 'philly', expected 'venus'"),
    "other features": (
        lambda b: _rewrite(b, feature_version="features-2"),
        BundleMismatch,
        "features are features-2, this program",
    ),
    "other recipe": (
        lambda b: _rewrite(b, recipe_version="recipe-2"),
        BundleMismatch,
        "its gbdt was made by recipe recipe-2, this program follows None",
    ),
    "expired": (lambda b: _rewrite(b, valid_until="2026-11-30T12:00:00Z"), BundleExpired, "valid until 2026-11-30T12:00:00Z"),
}


@pytest.mark.parametrize(("harm", "error", "why"), HARMS.values(), ids=HARMS)
def test_bundle_that_must_not_be_served_is_refused(
    bundle: Path, harm: Callable[[Path], None], error: type[BundleError], why: str
) -> None:
    _check(bundle)
    harm(bundle)
    with pytest.raises(error, match=re.escape(why)):
        _check(bundle)


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"valid_until": "tomorrow"}, "valid_until: 'tomorrow' is not a time"),
        ({"data_cut": "2026-11-29T16:00:00"}, "data_cut: .* has no time zone"),
        ({"time_zone": "Europe/Atlantis"}, "time_zone: 'Europe/Atlantis' is not known"),
        ({"time_zone": "../../etc/passwd"}, "time_zone: .* is not known"),
        ({"time_zone": ""}, "time_zone: '' is not known"),
        ({"clock": "sundial"}, "clock: expected one of calendar, week, relative"),
        ({"time_limit": "soft"}, "time_limit: expected one of"),
    ],
)
def test_manifest_that_means_nothing_is_refused(changed: dict[str, str], why: str) -> None:
    with pytest.raises(BundleDamaged, match=why):
        dataclasses.replace(MANIFEST, **changed)


@pytest.mark.parametrize("path", ["../outside", "/etc/passwd", "a/../../b", "a//b", "", "a\\b", "./a"])
def test_manifest_cannot_name_files_outside(path: str) -> None:
    with pytest.raises(BundleDamaged, match="not a plain path"):
        dataclasses.replace(MANIFEST, files=(File(path, "0" * 64, 1),))


def test_unknown_or_missing_keys_of_this_format_are_damage(bundle: Path) -> None:
    for change in ({"colour": "red"}, {"clock": None}):
        content = json.loads((bundle / "manifest.json").read_text())
        del content["manifest_sha256"]
        content |= change
        stamp = hashlib.sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
        (bundle / "manifest.json").write_text(json.dumps({**content, "manifest_sha256": stamp}))
        with pytest.raises(BundleDamaged, match=r"colour|clock"):
            read_manifest(bundle)
        write_bundle(bundle.parent, bundle.parent.parent / "content", MANIFEST)


def test_writing_again_returns_the_same_bundle(tmp_path: Path, content: Path, bundle: Path) -> None:
    before = (bundle / "state.bin").stat().st_ino
    assert write_bundle(tmp_path / "bundles", content, MANIFEST) == bundle
    assert (bundle / "state.bin").stat().st_ino == before


def test_damaged_bundle_of_the_same_name_is_replaced(tmp_path: Path, content: Path, bundle: Path) -> None:
    _flip(bundle / "state.bin")
    assert write_bundle(tmp_path / "bundles", content, MANIFEST) == bundle
    _check(bundle)


def _at(day: int) -> Manifest:
    return dataclasses.replace(MANIFEST, created=utc_text(datetime(2026, 11, day, tzinfo=UTC)))


def test_current_moves_in_one_step_and_the_previous_is_kept(tmp_path: Path, content: Path) -> None:
    root = tmp_path / "bundles"
    written = [write_bundle(root, content, _at(day)) for day in range(1, 6)]
    for bundle in written:
        make_current(root, bundle.name)
        assert resolve(root) == bundle
    assert bundles(root) == [b.name for b in written[-3:]]
    make_current(root, written[-2].name)
    assert resolve(root) == written[-2], "the way back"


@pytest.mark.parametrize(
    ("older", "keep", "left"), [(2, 4, 3), (3, 4, 4), (4, 4, 4), (2, 3, 3), (3, 3, 3), (0, 1, 1), (2, 1, 1), (2, 50, 3)]
)
def test_as_many_bundles_stay_as_are_to_be_kept_and_there(
    tmp_path: Path, content: Path, older: int, keep: int, left: int
) -> None:
    written = [write_bundle(tmp_path / "bundles", content, _at(day)) for day in range(1, older + 2)]
    make_current(tmp_path / "bundles", written[-1].name, keep)
    assert bundles(tmp_path / "bundles") == [bundle.name for bundle in written[-left:]]


@pytest.mark.parametrize(
    ("current", "keep", "gone"),
    [(5, 3, [1]), (5, 4, []), (5, 9, []), (1, 3, [2]), (1, 1, [2, 3, 4]), (3, 2, [1, 2])],
    ids=lambda one: str(one),
)
def test_retention_leaves_the_current_bundle_and_the_latest_others(
    tmp_path: Path, content: Path, current: int, keep: int, gone: list[int]
) -> None:
    root = tmp_path / "bundles"
    written = {day: write_bundle(root, content, _at(day)) for day in range(1, 6)}
    make_current(root, written[current].name, keep=9)
    assert old_bundles(root, keep) == [written[day] for day in gone]


def test_way_back_deletes_nothing_newer(tmp_path: Path, content: Path) -> None:
    root = tmp_path / "bundles"
    written = [write_bundle(root, content, _at(day)) for day in range(1, 5)]
    make_current(root, written[1].name, keep=2)
    assert bundles(root) == [b.name for b in written]


def test_reader_without_current_gets_a_named_error(tmp_path: Path) -> None:
    with pytest.raises(BundleMissing, match=r"neither manifest\.json nor a current link"):
        resolve(tmp_path)


def test_link_to_what_is_no_bundle_is_not_made(tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    with pytest.raises(BundleMissing):
        make_current(tmp_path, "x")
    assert not (tmp_path / "current").is_symlink()


def test_killed_at_any_step_of_writing_leaves_the_old_bundle_and_no_half_one(
    tmp_path: Path, content: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stop at the n-th flush, rename or link; then a reader finds the first bundle or the second, whole, and a rerun succeeds."""
    for stop_at in range(1, 30):
        root = tmp_path / f"bundles-{stop_at}"
        make_current(root, write_bundle(root, content, _at(1)).name)
        steps = iter(range(1, 1000))

        def step(name: str, real: Callable[..., object], stop_at: int = stop_at, steps: object = steps) -> Callable[..., object]:
            def run(*args: object, **kwargs: object) -> object:
                if next(steps) == stop_at:
                    raise KeyboardInterrupt(name)
                return real(*args, **kwargs)

            return run

        with monkeypatch.context() as killed:
            killed.setattr(os, "fsync", step("fsync", os.fsync))
            for name in ("rename", "replace", "symlink_to", "write_text", "mkdir"):
                killed.setattr(Path, name, step(name, getattr(Path, name)))
            try:
                make_current(root, write_bundle(root, content, _at(2)).name)
            except KeyboardInterrupt:
                stopped = True
            else:
                stopped = False
        _check(resolve(root))
        for name in bundles(root):
            _check(root / name)
        make_current(root, write_bundle(root, content, _at(2)).name)
        assert [p.name for p in root.iterdir() if p.name.endswith(".writing")] == []
        assert resolve(root).name.startswith("20261102")
        if not stopped:
            assert stop_at > 8, "every step was met"
            return
    pytest.fail("writing takes more steps than were tried")


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"format_version": 0}, "no format_version"),
        ({"format_version": True}, "no format_version"),
        ({"gpus_tracked": "no"}, "gpus_tracked"),
        ({"registered": 5}, "registered"),
        ({"valid_until": "9999-12-31T23:59:59-12:00"}, "valid_until"),
        ({"files": [{"path": "a", "sha256": "b", "size_bytes": float("inf")}]}, "files"),
    ],
)
def test_manifest_of_wrong_types_is_damage(bundle: Path, changed: dict[str, Any], why: str) -> None:
    content = json.loads((bundle / "manifest.json").read_text())
    del content["manifest_sha256"]
    content |= changed
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    content["manifest_sha256"] = hashlib.sha256(text.encode()).hexdigest()
    (bundle / "manifest.json").write_text(json.dumps(content))
    with pytest.raises(BundleDamaged, match=why):
        read_manifest(bundle)


def test_manifest_too_deep_to_read_is_damage(bundle: Path) -> None:
    (bundle / "manifest.json").write_text("[" * 100_000)
    with pytest.raises(BundleDamaged, match="cannot be read"):
        read_manifest(bundle)


def test_linked_manifest_is_refused(tmp_path: Path, bundle: Path) -> None:
    manifest = read_manifest(bundle)
    (bundle / "manifest.json").rename(tmp_path / "elsewhere")
    (bundle / "manifest.json").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(BundleDamaged, match="is a link"):
        check_files(bundle, manifest)


def test_links_in_a_circle_are_a_named_error(tmp_path: Path) -> None:
    (tmp_path / "current").symlink_to("current")
    with pytest.raises(BundleError):
        read_manifest(resolve(tmp_path))


def test_recipe_of_the_kind_must_be_the_readers_own(tmp_path: Path, content: Path) -> None:
    bundle = write_bundle(tmp_path, content, dataclasses.replace(MANIFEST, kind="runcast", recipe_version="r1"))
    assert _check(bundle, recipes={"runcast": "r1"}).recipe_version == "r1"
    with pytest.raises(BundleMismatch, match="its runcast was made by recipe r1, this program follows r2"):
        _check(bundle, recipes={"runcast": "r2"})
