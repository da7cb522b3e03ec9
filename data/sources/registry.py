"""Formats by name, and the one way to read a cluster's log: paths expanded, options checked, files in name order."""

import difflib
import glob
import importlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import get_args

import pyarrow as pa
import pyarrow.compute as pc
import yaml
from pydantic import BaseModel, ValidationError

from runcast.data.cluster import Cluster, SourceFormat
from runcast.data.collect import collected_files
from runcast.data.errors import ClusterFileError, SourceError
from runcast.data.log_files import LogFiles
from runcast.data.pseudonyms import MAPPABLE, Pseudonyms, read_key
from runcast.data.settings import Settings
from runcast.data.sources.batch import Batch
from runcast.data.sources.pseudonymised import pseudonymised

#: Formats whose job ids are names that people gave: of pods, or of PAI's jobs.
_IDS_ARE_NAMES = ("kubernetes", "pai")

Read = Callable[[Path, Cluster], Iterator[Batch]]


class _Readers(Mapping[str, Read]):
    """`read` of each format's module, which bears the format's name and is imported when first asked for."""

    def __getitem__(self, name: str) -> Read:
        if name not in get_args(SourceFormat):
            raise KeyError(name)
        return format_module(name).read  # type: ignore[no-any-return]

    def __iter__(self) -> Iterator[str]:
        return iter(get_args(SourceFormat))

    def __len__(self) -> int:
        return len(get_args(SourceFormat))


SOURCES: Mapping[str, Read] = _Readers()


def options_of(name: str) -> type[BaseModel]:
    """Return the class that a format's `source.options` must fit."""
    return format_module(name).Options  # type: ignore[no-any-return]


def format_module(name: str) -> ModuleType:
    return importlib.import_module(f"runcast.data.sources.{name}")


def check_options(cluster: Cluster) -> None:
    """Raise ClusterFileError, with line and nearest key, where `source.options` does not fit the format, or Arrow lacks the zone."""
    _check_zone(cluster)
    model = options_of(cluster.source.format)
    try:
        model.model_validate(cluster.source.options)
    except ValidationError as error:
        raise ClusterFileError(
            "\n".join(_explain(cluster, model, e["loc"], e["type"], e["msg"]) for e in error.errors())
        ) from None


def _check_zone(cluster: Cluster) -> None:
    """Python and Arrow look zones up in databases of their own, and minimal systems lack older names such as US/Pacific."""
    try:
        pc.assume_timezone(pa.array([0], pa.timestamp("us")), cluster.time_zone)
    except pa.ArrowInvalid as error:
        raise ClusterFileError(
            f"{cluster.path}:{_line_of(cluster.path, ('time_zone',))}: time_zone: {cluster.time_zone!r} cannot be used for times on "
            f"this machine ({error}). Name a place, e.g. America/Los_Angeles, or install the system's tzdata (older names: tzdata-legacy)."
        ) from None


def find_files(cluster: Cluster, settings: Settings) -> list[Path]:
    """Expand `source.paths` into existing files, each once, in name order within each path; then what `source.collect` fetched.

    A format whose log is a folder of tables (pai) finds its file there; of other formats a pattern passes folders over. Raises
    SourceError where a path names no file, or an environment variable of it is not set.
    """
    find_in = getattr(format_module(cluster.source.format), "find_in", None)
    found: dict[Path, None] = {}
    for written in cluster.source.paths:
        pattern = settings.expand(written)
        paths = [Path(name) for name in sorted(glob.glob(pattern, recursive=True))]  # noqa: PTH207  Path.glob takes no absolute pattern
        files = [find_in(path) if find_in and path.is_dir() else path for path in paths]
        files = [path for path in files if not path.is_dir()]
        if not files:
            why = f"names only a folder; name its files, e.g. {written.rstrip('/') + '/*.txt'!r}." if paths else "names no file."
            raise SourceError(f"{cluster.name}: {written!r} (now {pattern}) {why} Check source.paths in {cluster.path}.")
        found |= dict.fromkeys(files)
    if cluster.source.collect is not None:
        found |= dict.fromkeys(collected_files(cluster, settings))
        if not found:
            raise SourceError(
                f"{cluster.name}: nothing has been collected yet. A night fetches it: runcast nightly --cluster {cluster.name}."
            )
    return list(found)


def read_source(cluster: Cluster, settings: Settings, log: LogFiles | None = None) -> Iterator[Batch]:
    """Yield the log of `cluster` batch by batch; nothing is read before options and paths have been checked.

    With `log`, its settled files are passed over. At the end LogChanged is raised where the log did not stand still.
    """
    if cluster.refused:
        raise SourceError(f"{cluster.name} cannot be used: {cluster.refused}")
    check_options(cluster)
    read = SOURCES[cluster.source.format]
    chosen = LogFiles(find_files(cluster, settings)) if log is None else log
    batches = _read_still(read, cluster, settings, chosen)
    names = pseudonyms_of(cluster, settings)
    return batches if names is None else pseudonymised(batches, names)


def read_file(path: Path, cluster: Cluster, settings: Settings) -> Iterator[Batch]:
    """Yield one file of the log as a load does, whether it stands still or not."""
    check_options(cluster)
    batches = SOURCES[cluster.source.format](path, cluster)
    names = pseudonyms_of(cluster, settings)
    return batches if names is None else pseudonymised(batches, names)


def _read_still(read: Read, cluster: Cluster, settings: Settings, log: LogFiles) -> Iterator[Batch]:
    for file in log.unread():
        yield from log.read(file, _begun_late(read, file, cluster))
    log.refuse_changed(find_files(cluster, settings))


def _begun_late(read: Read, file: Path, cluster: Cluster) -> Iterator[Batch]:
    """Yield what `read` gives, opening the file no earlier than the first batch is wanted: whoever takes it judges its errors."""
    yield from read(file, cluster)


def pseudonyms_of(cluster: Cluster, settings: Settings) -> Pseudonyms | None:
    """Return what the names of this cluster become, None where they stay; raises PseudonymKeyError where the key cannot be used.

    Ids that are names, or made of them without a key, are names too.
    """
    asked = cluster.pseudonymise
    if asked is None:
        return None
    made_of_names = cluster.source.format in _IDS_ARE_NAMES or (
        cluster.source.format == "table" and "job_id" not in cluster.source.options.get("columns", {})
    )
    columns = {*asked.columns, *(("job_id",) if made_of_names else ())}
    return Pseudonyms(read_key(Path(settings.expand(asked.key_file))), tuple(name for name in MAPPABLE if name in columns))


def _explain(cluster: Cluster, model: type[BaseModel], loc: tuple[int | str, ...], kind: str, message: str) -> str:
    line = _line_of(cluster.path, ("source", "options", *loc))
    path = [
        str(step) for step, before in zip(loc, (None, *loc), strict=False) if step != before
    ]  # pydantic names a choice by its key
    where = f"{cluster.path}:{line}: source.options.{'.'.join(path)}"
    if kind == "extra_forbidden" and len(loc) == 1:
        known = sorted(model.model_fields)
        near = difflib.get_close_matches(str(loc[0]), known, n=1)
        return f"{where}: unknown key" + (f"; did you mean {near[0]!r}?" if near else f"; known are {', '.join(known) or 'none'}")
    return f"{where}: {message.removeprefix('Value error, ')}"


def _line_of(path: Path, loc: tuple[int | str, ...]) -> int:
    """Return the 1-based line of `loc` in a cluster file, or of its nearest parent that stands there."""
    node = yaml.compose(path.read_text(encoding="utf-8"), Loader=yaml.SafeLoader) if path.is_file() else None
    line = 1
    for step in loc:
        if isinstance(node, yaml.MappingNode):
            pairs = {key.value: (key, value) for key, value in node.value}
            if str(step) not in pairs:
                break
            key, node = pairs[str(step)]
            line = key.start_mark.line + 1
        elif isinstance(node, yaml.SequenceNode) and isinstance(step, int):
            node = node.value[step]
            line = node.start_mark.line + 1
    return line
