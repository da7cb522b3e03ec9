"""The bundle: a folder with all that a prediction needs, checked before it is used.

    manifest.json        what it is: the dataclasses below, with a hash over itself
    model/…              the predictor as neutral files (JSON, LightGBM's text): no pickle, no code
    state/…              the history of every key as of the cut

A cluster's bundles lie side by side in one folder, each under its own name and never changed once written; `current` is a link
to the one that serves. A new one is written beside under a temporary name, flushed to disk and renamed; then the link is replaced
in one step. Readers see the old bundle or the new one, whole. Reading loads nothing that the checks have not passed.
"""

import contextlib
import dataclasses
import fcntl
import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from runcast.data.pseudonyms import MAPPABLE
from runcast.scheduler.errors import BundleDamaged, BundleError, BundleExpired, BundleMismatch, BundleMissing, BundleTooNew
from runcast.scheduler.signature import SIGNATURE, require_signature, sign

FORMAT_VERSION = 2  # 2 added recipe_version
CURRENT = "current"
MANIFEST = "manifest.json"
KEPT = 3  # the current bundle, the one before for a rollback, and one that a slow reader may still hold

HOW_TO_MEND = "Export it again (`runcast export`), or point `current` to the bundle before."
#: A bundle of a million jobs has some 250 MiB; one above this is not read, so that it cannot take a scheduler host's memory.
MOST_BYTES = 2 * 2**30
MOST_BYTES_OF_MANIFEST = 2**20

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_FIRST_WITH_RECIPE = 2
_WRITTEN_AT = re.compile(r"\d{8}T\d{6}Z-")
_CLOCKS = ("calendar", "week", "relative")
_LIMIT_KINDS = ("hard", "advisory", "absent")


@dataclass(frozen=True)
class File:
    """One file of the bundle: path below the folder with `/`, SHA-256 in hex, size in bytes."""

    path: str
    sha256: str
    size_bytes: int


@dataclass(frozen=True)
class PseudonymsUsed:
    """Which columns of jobs the bundle knows by pseudonyms only, and the fingerprint of the key they were made with."""

    columns: tuple[str, ...]
    key_fingerprint: str


@dataclass(frozen=True)
class Manifest:
    """What a bundle is.

    `model_version` names the model (kind, night, start of its hash) and stands in every answer; `registered` is the registry's
    name and number, None for a baseline, which is not registered. `feature_version` must be the reader's own, and so must be
    `recipe_version`, of what the kind does beside its models; None where it does nothing. Times are ISO 8601
    in UTC: `data_cut` is the moment up to which the state knows the jobs, `created` when the bundle was written, `valid_until`
    from when it is refused. `clock` and `time_zone` are the cluster's, for the calendar features; `time_limit` says what a job's
    limit means there (hard: forecasts are capped by it; advisory: not; absent: not read); `gpus_tracked` whether no request for
    GPUs means none. `pseudonyms` says how names were replaced, None where they stand as they are.
    """

    format_version: int
    cluster: str
    kind: str
    model_version: str
    registered: str | None
    feature_version: str
    data_cut: str
    created: str
    valid_until: str
    clock: str
    time_zone: str
    time_limit: str
    gpus_tracked: bool
    files: tuple[File, ...]
    recipe_version: str | None = None
    pseudonyms: PseudonymsUsed | None = None

    def __post_init__(self) -> None:
        for name, allowed in (("clock", _CLOCKS), ("time_limit", _LIMIT_KINDS)):
            if getattr(self, name) not in allowed:
                raise BundleDamaged(f"manifest: {name}: expected one of {', '.join(allowed)}, found {getattr(self, name)!r}")
        _refuse_no_zone(self.time_zone)
        for name in ("data_cut", "created", "valid_until"):
            _refuse_no_moment(name, getattr(self, name))
        for file in self.files:
            if not _is_plain(file.path):
                raise BundleDamaged(f"manifest: files: {file.path!r} is not a plain path below the bundle")

    @property
    def name(self) -> str:
        """Name of the bundle's folder: when it was written and what model it holds."""
        return f"{moment_of(self.created):%Y%m%dT%H%M%SZ}-{self.model_version}"

    def to_json(self) -> str:
        """Return the manifest as it stands on disk: sorted keys, its own hash last added."""
        content = dataclasses.asdict(self)
        if self.pseudonyms is None:  # as bundles were written before there were any
            del content["pseudonyms"]
        return json.dumps({**content, "manifest_sha256": _hash_of(content)}, indent=2, sort_keys=True) + "\n"


def utc_text(moment: datetime) -> str:
    """Return an aware moment as the manifest writes it, e.g. 2020-09-26T16:00:00Z."""
    if moment.tzinfo is None:
        raise ValueError(f"{moment!r} has no time zone")
    return moment.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def moment_of(text: str) -> datetime:
    """Return a time of a manifest as an aware moment in UTC."""
    return datetime.fromisoformat(text).astimezone(UTC)


def is_expired(manifest: Manifest, now: datetime) -> bool:
    return now >= moment_of(manifest.valid_until)


def read_manifest(bundle: Path) -> Manifest:
    """Read a bundle's manifest alone; raises BundleMissing, BundleTooNew or BundleDamaged."""
    path = bundle / MANIFEST
    try:
        size_bytes = path.stat().st_size
        if size_bytes > MOST_BYTES_OF_MANIFEST:
            raise BundleDamaged(f"{path}: {size_bytes} bytes; at most {MOST_BYTES_OF_MANIFEST} are read. {HOW_TO_MEND}")
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise BundleMissing(f"{bundle}: no bundle here (no {MANIFEST}). Write one with `runcast export`.") from None
    except (OSError, ValueError, RecursionError) as error:
        raise BundleDamaged(f"{path}: cannot be read ({error}). {HOW_TO_MEND}") from error
    version = content.get("format_version") if isinstance(content, dict) else None
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise BundleDamaged(f"{path}: no format_version. {HOW_TO_MEND}")
    if version > FORMAT_VERSION:
        raise BundleTooNew(f"{path}: format {version}, this program reads up to {FORMAT_VERSION}. Update runcast on this host.")
    stated = content.pop("manifest_sha256", None)
    if stated != _hash_of(content):
        raise BundleDamaged(f"{path}: was altered after it was written (its own hash differs). {HOW_TO_MEND}")
    return _manifest(path, content)


def check(
    bundle: Path,
    *,
    feature_version: str,
    now: datetime,
    recipes: Mapping[str, str] | None = None,
    cluster: str | None = None,
    signers: Path | None = None,
) -> Manifest:
    """Return the manifest of a bundle that may be served at `now`; raises the BundleError that says why not.

    `recipes` are the reader's recipe versions by kind; `signers`, where given, is the file of keys one of which must have signed
    it. Reads every file: each must be there with the size and hash stated, and none besides.
    """
    manifest = read_manifest(bundle)
    if signers is not None:
        require_signature(bundle, manifest.to_json(), signers)
    if cluster is not None and manifest.cluster != cluster:
        raise BundleMismatch(
            f"{bundle}: is of cluster {manifest.cluster!r}, expected {cluster!r}. Name the bundle folder of {cluster}."
        )
    if manifest.feature_version != feature_version:
        raise BundleMismatch(
            f"{bundle}: its features are {manifest.feature_version}, this program computes {feature_version}. "
            f"Install the runcast version that wrote it, or export again with this one."
        )
    recipe = (recipes or {}).get(manifest.kind)
    if manifest.format_version >= _FIRST_WITH_RECIPE and manifest.recipe_version != recipe:
        raise BundleMismatch(
            f"{bundle}: its {manifest.kind} was made by recipe {manifest.recipe_version}, this program follows {recipe}. "
            f"Install the runcast version that wrote it, or train and export again with this one."
        )
    if is_expired(manifest, now):
        raise BundleExpired(
            f"{bundle}: valid until {manifest.valid_until}, now {utc_text(now)}. "
            "See why the nights have not exported (`runcast status`)."
        )
    check_files(bundle, manifest)
    return manifest


def check_files(bundle: Path, manifest: Manifest) -> None:
    """Raise BundleDamaged unless the bundle holds exactly the files listed, each with its size and hash."""
    listed = {file.path: file for file in manifest.files}
    folders = {parent.as_posix() for path in listed for parent in PurePosixPath(path).parents}
    present = {
        path: p
        for p in bundle.rglob("*")
        if (path := p.relative_to(bundle).as_posix()) not in folders or p.is_symlink() or not p.is_dir()
    }
    if (bundle / MANIFEST).is_symlink():
        raise BundleDamaged(f"{bundle}: {MANIFEST} is a link, not a file of the bundle. {HOW_TO_MEND}")
    if (total := sum(file.size_bytes for file in manifest.files)) > MOST_BYTES:
        raise BundleDamaged(f"{bundle}: {total} bytes of files; at most {MOST_BYTES} are read. {HOW_TO_MEND}")
    for path in sorted((listed.keys() | present.keys()) - {MANIFEST, SIGNATURE}):
        if path not in present:
            raise BundleDamaged(f"{bundle}: {path} is missing. {HOW_TO_MEND}")
        if path not in listed or not present[path].is_file() or present[path].is_symlink():
            raise BundleDamaged(f"{bundle}: {path} does not belong to it. {HOW_TO_MEND}")
        size = present[path].stat().st_size
        if size != listed[path].size_bytes:
            raise BundleDamaged(f"{bundle}: {path}: expected {listed[path].size_bytes} bytes, found {size}. {HOW_TO_MEND}")
        if _sha256(present[path]) != listed[path].sha256:
            raise BundleDamaged(f"{bundle}: {path}: was altered (its SHA-256 differs). {HOW_TO_MEND}")


def resolve(folder: Path) -> Path:
    """Return the bundle that `folder` means: itself, or what its `current` link points to."""
    if (folder / MANIFEST).exists():
        return folder.resolve()
    if (folder / CURRENT).is_symlink():
        try:
            return (folder / CURRENT).resolve()
        except (OSError, RuntimeError) as error:  # RuntimeError: links in a circle, up to Python 3.12
            raise BundleDamaged(f"{folder / CURRENT}: leads nowhere ({error}). {HOW_TO_MEND}") from error
    raise BundleMissing(f"{folder}: no bundle here (neither {MANIFEST} nor a {CURRENT} link). Write one with `runcast export`.")


def write_bundle(root: Path, content: Path, manifest: Manifest, sign_key: Path | None = None) -> Path:
    """Write the bundle below `root` from the folders in `content` and return its folder; `current` is not moved.

    `manifest.files` is filled from what is there; `sign_key`, where given, signs the manifest. Writing the same again returns the
    bundle that is there; one of the same name that is damaged is replaced.
    """
    files = tuple(
        File(p.relative_to(content).as_posix(), _sha256(p), p.stat().st_size) for p in sorted(content.rglob("*")) if p.is_file()
    )
    whole = dataclasses.replace(manifest, files=files)
    if not _NAME.fullmatch(whole.name):
        raise BundleError(f"{whole.name!r} cannot be a bundle's name")
    final = root / whole.name
    with _writer(root):
        if final.exists():
            with contextlib.suppress(BundleError):
                if read_manifest(final) == whole and (final / SIGNATURE).exists() == (sign_key is not None):
                    check_files(final, whole)
                    return final
        beside = root / f".{whole.name}.writing"
        beside.mkdir()
        (beside / MANIFEST).write_text(whole.to_json(), encoding="utf-8")
        if sign_key is not None:
            sign(beside / MANIFEST, sign_key)
        # Last, since it takes over the mode of `content`: a group that the folder hands on (setgid) is to reach every file.
        shutil.copytree(content, beside, copy_function=shutil.copyfile, dirs_exist_ok=True)
        _flush(beside)
        if final.exists():
            shutil.rmtree(final)
        beside.rename(final)
        _flush_folder(root)
    return final


def make_current(root: Path, name: str, keep: int = KEPT) -> None:
    """Let `current` point to the bundle called `name`, in one step; with it the latest `keep` - 1 written before it stay."""
    read_manifest(root / name)
    with _writer(root):
        link = root / f".{CURRENT}.writing"
        link.symlink_to(name)
        link.replace(root / CURRENT)
        _flush_folder(root)
        before = [b for b in bundles(root) if b < name]
        for old in before[: max(0, len(before) - (keep - 1))]:
            shutil.rmtree(root / old)


def bundles(root: Path) -> list[str]:
    """Return the names of the bundles below `root`, oldest first; what else lies there (a service's files) is left out."""
    return sorted(p.name for p in root.iterdir() if _WRITTEN_AT.match(p.name) and p.is_dir() and not p.is_symlink())


def old_bundles(root: Path, keep: int) -> list[Path]:
    """Return the bundles below `root` but the current one and the latest `keep` others, oldest first, whole or not; deletes nothing."""
    if not (root / CURRENT).is_symlink():
        return []
    current = (root / CURRENT).readlink().name
    others = sorted(
        p for p in root.iterdir() if p.is_dir() and not p.is_symlink() and not p.name.startswith(".") and p.name != current
    )
    return others[: max(0, len(others) - keep)]


@contextlib.contextmanager
def _writer(root: Path) -> Iterator[None]:
    """Hold the folder for one writer, and clear what a killed one left."""
    root.mkdir(parents=True, exist_ok=True)
    with (root / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for left in root.glob(".*.writing"):
            left.unlink() if left.is_symlink() else shutil.rmtree(left)
        yield


def _manifest(path: Path, content: Mapping[str, Any]) -> Manifest:
    if content["format_version"] < _FIRST_WITH_RECIPE:
        content = {**content, "recipe_version": None}
    fields = {f.name: f.type for f in dataclasses.fields(Manifest)}
    differing = sorted({"pseudonyms", *content} ^ fields.keys())
    if differing:
        raise BundleDamaged(f"{path}: keys missing or unknown: {', '.join(differing)}. {HOW_TO_MEND}")
    try:
        files = tuple(File(str(f["path"]), str(f["sha256"]), int(f["size_bytes"])) for f in content["files"])
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise BundleDamaged(f"{path}: files: {error!r}. {HOW_TO_MEND}") from error
    for name in fields.keys() - {"format_version", "gpus_tracked", "files", "registered", "recipe_version", "pseudonyms"}:
        if not isinstance(content[name], str):
            raise BundleDamaged(f"{path}: {name}: expected text, found {content[name]!r}. {HOW_TO_MEND}")
    if not isinstance(content["gpus_tracked"], bool):
        raise BundleDamaged(f"{path}: gpus_tracked: expected true or false, found {content['gpus_tracked']!r}. {HOW_TO_MEND}")
    for name in ("registered", "recipe_version"):
        if not isinstance(content[name], str | None):
            raise BundleDamaged(f"{path}: {name}: expected text or null, found {content[name]!r}. {HOW_TO_MEND}")
    return Manifest(**{**content, "files": files, "pseudonyms": _pseudonyms(path, content.get("pseudonyms"))})


def _pseudonyms(path: Path, content: Any) -> PseudonymsUsed | None:
    if content is None:
        return None
    try:
        columns, fingerprint = content["columns"], content["key_fingerprint"]
        if isinstance(fingerprint, str) and set(columns) <= {*MAPPABLE}:
            return PseudonymsUsed(tuple(columns), fingerprint)
    except (KeyError, TypeError):
        pass
    raise BundleDamaged(f"{path}: pseudonyms: expected columns and a key's fingerprint, found {content!r}. {HOW_TO_MEND}")


def _hash_of(content: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _is_plain(path: str) -> bool:
    parts = PurePosixPath(path).parts
    return (
        bool(parts)
        and not path.startswith("/")
        and "\\" not in path
        and ".." not in parts
        and path.isprintable()
        and PurePosixPath(path).as_posix() == path
    )


def _refuse_no_zone(name: str) -> None:
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):  # the latter two: a path, a folder
        raise BundleDamaged(
            f"manifest: time_zone: {name!r} is not known on this machine; correct it, or install time zone data (tzdata)"
        ) from None


def _refuse_no_moment(name: str, text: str) -> None:
    try:
        moment = datetime.fromisoformat(text)
        moment_of(text)  # overflows at either end of the calendar
    except (ValueError, OverflowError):
        raise BundleDamaged(f"manifest: {name}: {text!r} is not a time in ISO 8601") from None
    if moment.tzinfo is None:
        raise BundleDamaged(f"manifest: {name}: {text!r} has no time zone")


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _flush(folder: Path) -> None:
    for path in folder.rglob("*"):
        _flush_folder(path) if path.is_dir() else _flush_file(path)
    _flush_folder(folder)


def _flush_file(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())


def _flush_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
