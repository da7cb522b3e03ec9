"""The reference of cluster files, made from the models that read them: every key with type, default, example and meaning.

What a key means is the comment beside its field, so that there is one place to say it: `# ...` after it, or `#: ...` lines above.
"""

import ast
import inspect
import io
import textwrap
import tokenize
import types
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from functools import cache
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import yaml
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from runcast.data.cluster import Cluster, GateMetric, GateRows, SourceFormat
from runcast.data.columns import BY_NAME
from runcast.data.sources import table_options
from runcast.data.sources.registry import format_module, options_of
from runcast.data.sources.table_options import Column, SecondsFrom, Written

HEAD = """# Cluster files

One cluster is one file `NAME.yaml` in a folder of RUNCAST_CLUSTERS. This page is made from the code: `make reference` writes it,
and a test holds it against the code. Unknown keys, wrong types and impossible values are refused with the file's line.
`runcast clusters check NAME` reads the file and a thousand records of the log, and shows three jobs as they are understood.

The least that a file says:

```yaml
source:
  format: slurm_sacct
  paths: ["/var/log/slurm/sacct-*.txt"]
time_zone: Europe/Berlin
```

In the tables below, a default of *required* has to be given; *null* means that the key is left out or `null`.
"""

#: Examples where the default is none: by class and key.
EXAMPLES: Mapping[str, Any] = {
    "Cluster.name": "gpu_cluster",
    "Cluster.description": "A100 partition of the data centre",
    "Cluster.source": {"format": "slurm_sacct", "paths": ["/var/log/slurm/sacct-*.txt"]},
    "Cluster.time_zone": "Europe/Berlin",
    "Cluster.schedule": "30 2 * * *",
    "Cluster.pseudonymise": {"key_file": "/etc/runcast/pseudonyms.key"},
    "Cluster.refused": "the export holds no runtime",
    "Source.format": "slurm_sacct",
    "Source.paths": ["/var/log/slurm/sacct-*.txt", "${OLD_LOGS}/2023.txt.gz"],
    "Source.collect": {
        "command": ["sacct", "--allusers", "--starttime", "{first}", "--endtime", "{next}"],
        "since": "2026-01-01",
    },
    "Source.options": {"delimiter": "|"},
    "Collect.command": ["sacct", "--allusers", "--parsable2", "--starttime", "{first}", "--endtime", "{next}"],
    "Collect.since": "2026-01-01",
    "Collect.environment": {"SLURM_TIME_FORMAT": "%s"},
    "Collect.harmless_errors": ["^Warning: "],
    "Training.window_days": 365,
    "Training.held_back_share": 0.9,
    "Gate.at_most": 1.5,
    "Gate.at_least": 0.5,
    "Quality.null_share_at_most": {"user": 0.01},
    "Quality.row_count_factor": 4,
    "Drift.webhook_url_file": "/etc/runcast/webhook.url",
    "Export.sign_key": "/etc/runcast/bundles.key",
    "Export.served": ["/var/lib/runcast/served/*.jsonl"],
    "Pseudonymise.key_file": "/etc/runcast/pseudonyms.key",
    "lsf.unit_for_limits": "mb",
    "lsf.written": "2026-03-31",
    "lsf.fields": ["jobid", "stat", "submit_time", "start_time", "finish_time"],
    "table.columns": {"job_id": "JobID", "submit_time": {"column": "Submit", "time": "epoch_s"}},
    "table.kind": "csv",
    "table.comment": "#",
    "table.header": ["id", "user", "submit", "start", "end"],
    "table.records": "jobs",
    "table.only_where": {"kind": ["E"]},
    "table.null_words": ["", "NA", "none"],
    "table.runtime_clamped_at_s": 172_800,
    "table.array_pattern": r"^(?P<array>\d+)_(?P<task>\d+)$",
    "table.constants": {"state": "COMPLETED", "queue": "gpu"},
    "Column.column": "spec.nodes",
    "Column.time": "epoch_ms",
    "Column.unit": "minutes",
    "Column.times": "node_count",
    "Column.detail": {"EXIT": {"column": "reason", "values": {"TERM_OWNER": "CANCELLED"}}},
    "Column.pattern": r"^job-(?P<value>\d+)$",
    "Column.values": {"OK": "COMPLETED", "KO": "FAILED"},
    "Column.null_words": ["", "-1"],
    "slurm_sacct.slurm_cluster": "hpc",
    "slurm_sacct.partition_limits": {"gpu": "7-00:00:00"},
    "slurm_sacct.columns": ["JobID", "User", "Submit", "Start", "End", "State"],
    "slurm_sacct.record_end": "~#~",
    "slurm_json.slurm_cluster": "hpc",
    "slurm_json.partition_limits": {"gpu": "7-00:00:00"},
    "SecondsFrom.seconds_from": "2024-01-01T00:00:00",
    "Written.format": "%d.%m.%Y %H:%M:%S",
    "swf.unix_start_time": 1_000_000_000,
    "table.log_end": "2026-06-30T00:00:00Z",
    "kubernetes.user_label": "acme.org/submitter",
    "kubernetes.user_annotation": "acme.org/submitter",
}

#: What `time` takes, what such a time looks like in the log, and what it is in a cluster of Europe/Berlin.
TIMES: tuple[tuple[Any, str, str], ...] = (
    ("naive", "2024-03-01 10:00:00", "2024-03-01T09:00:00Z"),
    ("naive", "2024-03-01T10:00", "2024-03-01T09:00:00Z"),
    ("aware", "2024-03-01T10:00:00+08:00", "2024-03-01T02:00:00Z"),
    ("aware", "2024-03-01T10:00:00Z", "2024-03-01T10:00:00Z"),
    ("epoch_s", "1709287200", "2024-03-01T10:00:00Z"),
    ("epoch_ms", "1709287200000", "2024-03-01T10:00:00Z"),
    ("epoch_us", "1709287200000000", "2024-03-01T10:00:00Z"),
    ({"seconds_from": "2024-03-01T00:00:00"}, "36000", "2024-03-01T09:00:00Z"),
    ({"seconds_from": "2024-03-01T00:00:00Z", "unit": "milliseconds"}, "36000000", "2024-03-01T10:00:00Z"),
    ({"format": "%d.%m.%Y %H:%M:%S"}, "01.03.2024 10:00:00", "2024-03-01T09:00:00Z"),
    ({"format": "%m/%d/%Y %I:%M %p"}, "03/01/2024 10:00 AM", "2024-03-01T09:00:00Z"),
    ({"format": "%b %d %H:%M:%S %Y"}, "Mar  1 10:00:00 2024", "2024-03-01T09:00:00Z"),
    ({"format": "%Y%m%d%H%M%S%z"}, "20240301100000-0500", "2024-03-01T15:00:00Z"),
)


#: Whole `options` of a table, by what they read.
TABLE_EXAMPLES: Mapping[str, str] = {
    "A CSV with days first, lengths of time as clocks, and the site's own words:": """\
delimiter: ";"
time: {format: "%d.%m.%Y %H:%M:%S"}
null_words: ["", "n.n."]
columns:
  job_id: Auftrag
  user: Nutzer
  submit_time: Eingang
  start_time: Beginn
  runtime_s: {column: Dauer, unit: "hh:mm:ss"}
  time_limit_s: {column: Grenze, unit: "hh:mm"}
  mem_mib: {column: Speicher, unit: suffix}
  state: {column: Ende, values: {ok: COMPLETED, Abbruch: CANCELLED}}
""",
    "JSON with the jobs under one key, and marks after its times:": """\
records: RECORDS
time: {format: "%b %d %H:%M:%S %Y"}
columns:
  job_id: JOBID
  user: USER
  submit_time: SUBMIT_TIME
  start_time: START_TIME
  end_time: {column: FINISH_TIME, pattern: '^(?P<value>.*?)(?: [LEX])?$'}
  state: STAT
""",
    "JSON of objects within objects:": """\
time: aware
columns:
  job_id: metadata.uid
  submit_time: metadata.creationTimestamp
  start_time: status.startTime
  end_time: status.completionTime
  gpu_count: spec.resources.0.count
  restarts: status.restarts
""",
}

#: Words that a key takes although its type says only text.
_WORDS: Mapping[str, tuple[str, ...]] = {
    "Gate.metric": (*get_args(GateMetric), "coverage_0.089"),
    "Gate.rows": (*get_args(GateRows), "state:COMPLETED", "group:vc1"),
}


@dataclass(frozen=True)
class Key:
    """One key as the page shows it; `example` is a value that the key takes."""

    name: str
    type: str
    default: str
    example: Any
    meaning: str


def keys_of(model: type[BaseModel], title: str | None = None) -> list[Key]:
    """Return the keys of one class of settings, in the order of its fields; `title` names it among the examples."""
    said = meanings(model)
    keys = []
    for name, info in model.model_fields.items():
        example = EXAMPLES.get(f"{title or model.__name__}.{name}", _plain(info.default))
        if isinstance(info.default, BaseModel) and not example:
            example = {key.name: key.example for key in keys_of(type(info.default))[:1]}
        words = ", ".join(f"`{word}`" for word in _WORDS.get(f"{model.__name__}.{name}", ()))
        default = "the file's name" if (model, name) == (Cluster, "name") else _default(info)
        keys.append(Key(name, _type(info), default, example, said.get(name, "") + (f": {words}" if words else "")))
    return keys


def settings_classes(model: type[BaseModel] = Cluster, path: str = "") -> Iterator[tuple[str, type[BaseModel]]]:
    """Yield each class of settings below `model` with the path of its key, itself first; lists of one are marked `[]`."""
    yield path, model
    for name, info in model.model_fields.items():
        for kind in _parts(info.annotation):
            if isinstance(kind, type) and issubclass(kind, BaseModel):
                yield from settings_classes(kind, f"{path}.{name}".lstrip("."))


def meanings(model: type[BaseModel]) -> dict[str, str]:
    """Return the comments beside a class's fields, its own and those it inherits, by field."""
    found: dict[str, str] = {}
    for base in reversed(model.__mro__):
        if issubclass(base, BaseModel) and base is not BaseModel:
            found |= _comments(base)
    return found


@cache
def _comments(model: type[BaseModel]) -> Mapping[str, str]:
    source = textwrap.dedent(inspect.getsource(model))
    lines = source.splitlines()
    comments = {
        token.start[0]: token.string.lstrip("#: ")
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type == tokenize.COMMENT and not token.string.startswith("# noqa")
    }
    found = {}
    for node in ast.parse(source).body[0].body:  # type: ignore[attr-defined]  # a class has a body
        if not isinstance(node, ast.AnnAssign) or not isinstance(node.target, ast.Name):
            continue
        above = node.lineno
        while lines[above - 2].strip().startswith("#:"):
            above -= 1
        texts = [comments[at] for at in range(above, (node.end_lineno or node.lineno) + 1) if at in comments]
        found[node.target.id] = " ".join(texts)
    return found


def write_reference() -> str:
    """Return the page."""
    parts = [HEAD]
    for path, model in settings_classes():
        parts.append(f"## `{path}`" if path else "## Keys of the file")
        parts.append(_first_line(model) + _table(keys_of(model)))
    parts.append("# Formats of logs\n\nWhat `source.format` takes, and the `source.options` of each.")
    for name in get_args(SourceFormat):
        module, options = format_module(name), options_of(name)
        parts.append(f"## `format: {name}`\n\n{inspect.cleandoc(module.__doc__ or '')}")
        parts.append(_table(keys_of(options, name)).lstrip() if options.model_fields else "It has no options.")
        if name == "table":
            parts.append(_table_page())
    return "\n\n".join(part.strip() for part in parts) + "\n"


_STARTED = {
    table_options.RESTARTS: "How often the job was started again; `attempts` is one more.",
    table_options.STARTS: "How often the job was started: `attempts`; 0 is a job that never ran, whatever its start time says.",
}


def _table_page() -> str:
    rows = ["| column | kind | unit | meaning |", "|---|---|---|---|"]
    for name in table_options.MAPPABLE:
        column = BY_NAME.get(name)
        meaning = column.meaning if column else _STARTED[name]
        units = ", ".join(f"`{unit}`" for unit in table_options.units_of(name))
        kind = "time" if name in table_options.TIMES else "number" if name in table_options.NUMBERS else "text"
        rows.append(f"| `{name}` | {kind} | {units} | {meaning} |")
    times = ["| `time:` | in the log | is (Europe/Berlin) |", "|---|---|---|"]
    times += [f"| {_code(takes)} | `{written}` | {moment} |" for takes, written, moment in TIMES]
    return "\n\n".join(
        (
            "### `columns`\n\nKeys of `columns` are canonical columns. A value is the file's column, or how to read it:",
            _table(keys_of(Column)).lstrip(),
            "The canonical columns and their units (the first is the default):",
            "\n".join(rows),
            "`suffix`: each value names its own unit, a power of 1024: `4G`, `4Gi` and `4 GB` are 4096 MiB, `512M`, `1.5 TiB`, `4096B`; a "
            "number alone is not read. `hh:mm:ss` and `hh:mm`: `26:00:00`, `1-02:00:00` and `1 day, 02:00:00` are 26 hours.",
            "### What `time` takes\n\nOf one column, or of the whole file. Day, hour, minute and year have to be there; none is guessed.",
            "\n".join(times),
            _table(keys_of(SecondsFrom)).lstrip(),
            _table(keys_of(Written)).lstrip(),
            "### Examples of tables",
            *(f"{title}\n\n```yaml\noptions:\n{textwrap.indent(text, '  ')}```" for title, text in TABLE_EXAMPLES.items()),
        )
    )


def _first_line(model: type[BaseModel]) -> str:
    return (inspect.getdoc(model) or "").split("\n", 1)[0] + "\n\n"


def _table(keys: list[Key]) -> str:
    rows = ["| key | type | default | example | meaning |", "|---|---|---|---|---|"]
    for key in keys:
        rows.append(
            f"| `{key.name}` | {key.type} | {key.default} | {_code(key.example)} | {key.meaning.replace('|', '&#124;')} |"
        )
    return "\n".join(rows)


def _code(value: Any) -> str:
    """Return a value as one line of YAML that a table can hold."""
    text = yaml.safe_dump(value, default_flow_style=True, width=10_000, sort_keys=False).removesuffix("...\n").strip()
    return f"`{text.replace('|', '&#124;')}`" if "|" not in text else f"<code>{text.replace('|', '&#124;')}</code>"


def _plain(value: Any) -> Any:
    """Return a default as YAML has it."""
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json", exclude_defaults=True)
    if isinstance(value, tuple):
        return [_plain(one) for one in value]
    return None if value is PydanticUndefined else dict(value) if isinstance(value, Mapping) else value


def _default(info: FieldInfo) -> str:
    if info.is_required():
        return "*required*"
    if info.default is None:
        return "*null*"
    if isinstance(info.default, BaseModel):
        return "those of its keys"
    return _code(_plain(info.default))


def _parts(kind: Any) -> Iterator[Any]:
    """Yield a type and all that it is made of, without what a Literal holds."""
    yield kind
    if get_origin(kind) is not Literal:
        for part in get_args(kind):
            yield from _parts(part)


def _type(info: FieldInfo) -> str:
    bounds = [
        f"{sign} {getattr(rule, name)}"
        for rule in info.metadata
        for name, sign in _BOUNDS
        if getattr(rule, name, None) is not None
    ]
    return _words(info.annotation) + (f", {', '.join(bounds)}" if bounds else "")


_BOUNDS = (("gt", ">"), ("ge", "≥"), ("lt", "<"), ("le", "≤"))
_PLAIN = {
    str: "text",
    int: "whole number",
    float: "number",
    bool: "`true` or `false`",
    date: "day",
    Any: "any",
    type(None): "null",
}


def _words(kind: Any) -> str:
    origin, args = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return _words(args[0])
    if origin is Literal:
        return ", ".join(f"`{one}`" for one in args)
    if origin in (Union, types.UnionType):
        return " or ".join(dict.fromkeys(_words(one) for one in args if one is not type(None)))
    if origin is tuple:
        return f"list of {_words(args[0])}"
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return f"keys with {_words(args[1])}"
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return "keys"
    return _PLAIN.get(kind, {"datetime": "time", "date": "day"}.get(getattr(kind, "__name__", ""), str(kind)))
