"""Formats by name, files by pattern, options checked with line and nearest key."""

import gzip
from pathlib import Path

import pytest

from runcast.data.cluster import Cluster, read_cluster
from runcast.data.errors import ClusterFileError, SourceError
from runcast.data.settings import EXAMPLES, Settings, read_settings
from runcast.data.sources.registry import SOURCES, check_options, find_files, options_of, read_source

LOG = "; UnixStartTime: 1000000000\n" + "".join(f"{n} {n} 0 {n} 1 -1 -1 1 -1 -1 1 -1 -1 -1 -1 -1 -1 -1\n" for n in range(1, 6))


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return read_settings({"LOGS": str(tmp_path), "RUNCAST_HOME": str(tmp_path)})


def cluster(folder: Path, *paths: str, options: str = "{}", more: str = "") -> Cluster:
    file = folder / "c.yaml"
    listed = ", ".join(f'"{path}"' for path in paths)
    file.write_text(f"# a cluster\nsource:\n  format: swf\n  paths: [{listed}]\n  options: {options}\ntime_zone: UTC\n{more}")
    return read_cluster(file)


@pytest.mark.parametrize("name", sorted(set(SOURCES) - {"slurm_sacct", "slurm_json", "acme"}))
def test_every_format_has_a_reader_and_options(name: str) -> None:
    assert callable(SOURCES[name])
    assert options_of(name).model_config["extra"] == "forbid"


def test_unknown_format_is_no_source() -> None:
    assert "oar" not in SOURCES
    with pytest.raises(KeyError):
        SOURCES["oar"]


def test_files_are_found_once_and_in_name_order(tmp_path: Path, settings: Settings) -> None:
    for name in ("b.swf", "a.swf", "d.txt"):
        (tmp_path / name).write_text(LOG)
    found = find_files(cluster(tmp_path, "${LOGS}/*.swf", "${LOGS}/a.swf", "${LOGS}/d.*"), settings)
    assert [path.name for path in found] == ["a.swf", "b.swf", "d.txt"]


@pytest.mark.parametrize(
    ("path", "match"),
    [
        pytest.param("${LOGS}/none-*.swf", r"names no file. Check source.paths in .*c.yaml", id="no match"),
        pytest.param("${OTHER}/x.swf", "OTHER is not set", id="variable not set"),
    ],
)
def test_path_that_names_nothing_is_an_error_before_anything_is_read(
    tmp_path: Path, settings: Settings, path: str, match: str
) -> None:
    (tmp_path / "a.swf").write_text(LOG)
    with pytest.raises(SourceError, match=match):
        read_source(cluster(tmp_path, "${LOGS}/a.swf", path), settings)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        pytest.param(
            "{executabel: unusable}", r"c.yaml:5: source.options.executabel: unknown key; did you mean 'executable'\?", id="near"
        ),
        pytest.param(
            "{colour: red}", r"c.yaml:5: source.options.colour: unknown key; known are executable, processors, status", id="far"
        ),
        pytest.param(
            "\n    status: none", r"c.yaml:6: source.options.status: Input should be 'recorded' or 'unusable'", id="value"
        ),
    ],
)
def test_option_that_the_format_does_not_have_is_refused_with_its_line(
    tmp_path: Path, settings: Settings, options: str, match: str
) -> None:
    (tmp_path / "a.swf").write_text(LOG)
    with pytest.raises(ClusterFileError, match=match):
        read_source(cluster(tmp_path, "${LOGS}/a.swf", options=options), settings)


@pytest.mark.parametrize("zone", ["Factory"])
def test_zone_that_only_python_has_is_refused_before_anything_is_read(tmp_path: Path, settings: Settings, zone: str) -> None:
    (tmp_path / "a.swf").write_text(LOG)
    chosen = cluster(tmp_path, "${LOGS}/a.swf").model_copy(update={"time_zone": zone})
    with pytest.raises(ClusterFileError, match=rf"c.yaml:6: time_zone: '{zone}' cannot be used .*Name a place"):
        read_source(chosen, settings)


@pytest.mark.parametrize("name", sorted(SOURCES))
def test_empty_log_that_is_compressed_is_an_empty_log_in_every_format(tmp_path: Path, name: str) -> None:
    clock = {"pai": ("Asia/Shanghai", "week")}
    zone, shows = clock.get(name, ("UTC", "calendar"))
    options = {"columns": {"submit_time": "a", "start_time": "b", "end_time": "c"}} if name == "table" else {}
    source = {"format": name, "paths": ["x"], "options": options}
    chosen = Cluster.model_validate({"name": "c", "source": source, "time_zone": zone, "clock": shows})
    path = tmp_path / "log.txt.gz"
    path.write_bytes(gzip.compress(b""))
    if name == "pai":  # a folder of tables, of which the one of jobs is read first
        path.rename(tmp_path / "pai_job_table.csv.gz")
        (tmp_path / "pai_job_table.header").write_text("job_name,inst_id,user,status,start_time,end_time\n")
        path = tmp_path / "pai_task_table.csv.gz"
        path.write_bytes(gzip.compress(b""))
    with pytest.raises(SourceError, match="the file is empty"):
        list(SOURCES[name](path, chosen))


def test_cluster_that_is_refused_is_not_read(tmp_path: Path, settings: Settings) -> None:
    (tmp_path / "a.swf").write_text(LOG)
    with pytest.raises(SourceError, match="c cannot be used: no runtime in it"):
        read_source(cluster(tmp_path, "${LOGS}/a.swf", more="refused: no runtime in it\n"), settings)


def test_files_are_read_one_after_the_other(tmp_path: Path, settings: Settings) -> None:
    for name in ("a.swf", "b.swf"):
        (tmp_path / name).write_text(LOG)
    batches = list(read_source(cluster(tmp_path, "${LOGS}/*.swf"), settings))
    assert [batch.jobs["source"][0].as_py() for batch in batches] == ["a.swf:2", "b.swf:2"]
    assert sum(batch.rows_in for batch in batches) == 10


def test_every_cluster_file_that_is_shipped_can_be_read_and_has_fitting_options() -> None:
    files = sorted(EXAMPLES.parent.rglob("*.yaml"))
    shipped = [
        (path, read_cluster(path)) for path in files if "${RUNCAST_" in path.read_text()
    ]  # the others are the operator's own
    assert len(shipped) >= 24
    for path, found in shipped:
        check_options(found)
        assert found.description
        root = "${RUNCAST_HOME}/demo/" if path.stem.startswith("demo_") else "${RUNCAST_TRACES}/"
        assert all(source.startswith(root) for source in found.source.paths)
