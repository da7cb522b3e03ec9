"""The Arrow schema of canonical jobs and of rejects, derived from columns.py; every write and read declares it."""

import pyarrow as pa

from runcast.data.columns import COLUMNS

_TYPES: dict[str, pa.DataType] = {
    "string": pa.string(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "float64": pa.float64(),
    "int32": pa.int32(),
    "list<string>": pa.list_(pa.string()),
}

JOBS: pa.Schema = pa.schema([pa.field(c.name, _TYPES[c.type], nullable=c.nullable) for c in COLUMNS])

REJECTS: pa.Schema = pa.schema(
    [
        pa.field("cluster", pa.string(), nullable=False),
        pa.field("file", pa.string(), nullable=False),
        pa.field("line", pa.int64(), nullable=False),  # 1-based line, or record number where a format has no lines
        pa.field("reason", pa.string(), nullable=False),  # a short stable name, e.g. end_missing
        pa.field("detail", pa.string(), nullable=True),
        pa.field("raw", pa.string(), nullable=False),
        pa.field("day", pa.string(), nullable=True),  # local day of the job beside it in the file: where in the log it stands
    ]
)
