"""What every format of rows promises for whatever a file holds: rows add up, only SourceError escapes, columns have no order."""

import gzip
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from runcast.data.cluster import Cluster
from runcast.data.errors import SourceError
from runcast.data.schema import JOBS
from runcast.data.sources.batch import Batch
from runcast.data.sources.registry import SOURCES

pytestmark = pytest.mark.attack

#: Header and one good row of each format.
FORMATS = {
    "helios": (
        "job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue",
        "1,u,v,1,4,1,COMPLETED,2020-06-09 18:41:01,2020-06-09 18:41:01,2020-06-09 18:45:36,275,0",
    ),
    "pai": (
        "job_name,task_name,inst_num,status,start_time,end_time,plan_cpu,plan_mem,plan_gpu,gpu_type",
        "j1,worker,2.0,Terminated,110.0,182.0,600.0,29.3,50.0,T4",
    ),
}
FRAGMENTS = [
    "1",
    "2020-06-09 18:41:01",
    "2017-11-05 01:30:00",
    "-5",
    "1e300",
    "9" * 40,
    "nan",
    "inf",
    "None",
    " ",
    "é",
    "\x00",
    "\x85",
    "Running",
]


def write(folder: Path, name: str, content: bytes, header: str) -> Path:
    if name != "pai":
        path = folder / "log.csv"
        path.write_bytes(header.encode() + b"\n" + content)
        return path
    (folder / "pai_task_table.header").write_text(header)
    (folder / "pai_job_table.header").write_text("job_name,inst_id,user,status,start_time,end_time\n")
    (folder / "pai_job_table.csv").write_text("j1,i1,u1,Terminated,100.0,200.0\n1,i2,u1,Terminated,1,200.0\n")
    path = folder / "pai_task_table.csv"
    path.write_bytes(content)
    return path


def read(path: Path, name: str) -> list[Batch]:
    clock = {"pai": "week"}.get(name, "calendar")
    described = {"name": "c", "source": {"format": name, "paths": ["x"]}, "time_zone": "Asia/Shanghai", "clock": clock}
    return list(SOURCES[name](path, Cluster.model_validate(described)))


def without_source(batches: list[Batch]) -> list[list[dict[str, Any]]]:
    return [batch.jobs.drop(["source"]).to_pylist() for batch in batches]


def lines_of(name: str) -> st.SearchStrategy[bytes]:
    header, row = FORMATS[name]
    fields = st.lists(
        st.one_of(st.sampled_from(FRAGMENTS), *(st.just(value) for value in row.split(","))), max_size=header.count(",") + 3
    )
    good = st.tuples(st.integers(0, header.count(",")), st.sampled_from(FRAGMENTS)).map(lambda change: changed(row, *change))
    return st.lists(st.one_of(fields.map(",".join), good), max_size=6).map(lambda lines: "\n".join(lines).encode())


def changed(row: str, at: int, value: str) -> str:
    fields = row.split(",")
    fields[at] = value
    return ",".join(fields)


@pytest.mark.parametrize("name", sorted(FORMATS))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_rows_add_up_and_only_source_errors_escape(tmp_path: Path, name: str, data: st.DataObject) -> None:
    content = data.draw(st.one_of(lines_of(name), st.binary(max_size=120)))
    path = write(tmp_path, name, content, FORMATS[name][0])
    try:
        batches = read(path, name)
    except SourceError:  # the file is empty, or (pai) its first line does not fit the header
        event("refused as a whole")
        return
    for batch in batches:
        assert batch.jobs.schema == JOBS
        batch.jobs.validate(full=True)
    if b'"' not in content:
        lines = content.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        assert sum(batch.rows_in for batch in batches) == sum(bool(line) for line in lines)
    packed = path.with_name(path.name + ".gz")
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert without_source(read(packed, name)) == without_source(batches)


@pytest.mark.parametrize("name", sorted(FORMATS))
def test_good_row_is_a_job(tmp_path: Path, name: str) -> None:
    header, row = FORMATS[name]
    (batch,) = read(write(tmp_path, name, row.encode() + b"\n", header), name)
    (job,) = batch.jobs.to_pylist()
    assert (job["label"], job["state"], batch.rejects) == ("event", "COMPLETED", ())


@pytest.mark.parametrize("name", sorted(FORMATS))
def test_columns_have_no_order(tmp_path: Path, name: str) -> None:
    header, row = FORMATS[name]
    one = read(write(tmp_path, name, row.encode() + b"\n", header), name)
    turned_header, turned_row = (",".join(reversed(text.split(","))) for text in (header, row))
    other = read(write(tmp_path, name, turned_row.encode() + b"\n", turned_header), name)
    assert without_source(one) == without_source(other)


@pytest.mark.parametrize("name", sorted(FORMATS))
def test_missing_and_empty_files_are_errors(tmp_path: Path, name: str) -> None:
    path = write(tmp_path, name, b"", FORMATS[name][0])
    path.write_bytes(b"")
    with pytest.raises(SourceError, match="the file is empty"):
        read(path, name)
    path.unlink()
    with pytest.raises(SourceError, match="no such file"):
        read(path, name)
