"""The reference of cluster files: no key without its meaning, every example can be used, and the page is the code's."""

from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, get_args

import pytest
import yaml
from pydantic import BaseModel, TypeAdapter

from runcast.data import reference
from runcast.data.cluster import Cluster, SourceFormat
from runcast.data.sources import table
from runcast.data.sources.registry import options_of
from runcast.data.sources.table_options import Column, SecondsFrom, Written

ROOT = Path(__file__).parents[2]

CLASSES: dict[str, type[BaseModel]] = {
    **{path or "file": model for path, model in reference.settings_classes()},
    **{name: options_of(name) for name in get_args(SourceFormat)},
    "a column of a table": Column,
    "seconds_from": SecondsFrom,
    "format": Written,
}
KEYS = [
    pytest.param(model, key, id=f"{title}: {key.name}")
    for title, model in CLASSES.items()
    for key in reference.keys_of(model, title if title in get_args(SourceFormat) else None)
]


def test_page_is_what_the_code_says() -> None:
    page = (ROOT / "docs" / "cluster-file.md").read_text(encoding="utf-8")
    assert page == reference.write_reference(), "docs/cluster-file.md is stale: make reference"


def test_every_class_of_settings_is_there() -> None:
    assert {"file", "source", "training.gbdt", "evaluation.gates", "drift", "export", "retention", "pseudonymise"} <= set(CLASSES)


@pytest.mark.parametrize(("model", "key"), KEYS)
def test_key_has_a_type_a_meaning_and_an_example_that_it_takes(model: type[BaseModel], key: reference.Key) -> None:
    assert key.meaning, f"write a comment beside {model.__name__}.{key.name}: the page shows it"
    assert "class" not in key.type
    assert "typing" not in key.type
    assert key.example not in (None, [], {}), f"give {model.__name__}.{key.name} an example in reference.EXAMPLES"
    info = model.model_fields[key.name]
    TypeAdapter(Annotated[(info.annotation, *info.metadata)] if info.metadata else info.annotation).validate_python(key.example)


def test_comments_of_all_three_places_are_meanings() -> None:
    said = reference.meanings(Cluster)
    assert said["schedule"].startswith("when the night runs")  # after the field
    training = reference.meanings(dict(reference.settings_classes())["training"])
    assert training["held_back_share"].startswith("Learn only from jobs")  # above it
    assert "slurm_cluster" in reference.meanings(options_of("slurm_sacct"))  # of a class that it inherits from


@pytest.mark.parametrize(("takes", "written", "moment"), reference.TIMES)
def test_times_are_what_the_page_says(tmp_path: Path, takes: Any, written: str, moment: str) -> None:
    path = tmp_path / "t.csv"
    path.write_text(f"sub;run\n{written};1\n")
    options = {"columns": {"submit_time": "sub", "runtime_s": "run"}, "start_is_submit": True, "delimiter": ";", "time": takes}
    source = {"format": "table", "paths": [str(path)], "options": options}
    cluster = Cluster.model_validate({"name": "c", "source": source, "time_zone": "Europe/Berlin"})
    (batch,) = table.read(path, cluster)
    assert batch.jobs["submit_time"].to_pylist() == [datetime.fromisoformat(moment)]


@pytest.mark.parametrize(
    ("at", "name", "text", "expected"),
    [
        pytest.param(
            0,
            "log.csv",
            "Auftrag;Nutzer;Eingang;Beginn;Dauer;Grenze;Speicher;Ende\n"
            "7;n.n.;01.03.2024 10:00:00;01.03.2024 10:00:10;1-00:00:05;48:00;4 G;Abbruch\n",
            {
                "user": None,
                "queue_s": 10.0,
                "runtime_s": 86_405.0,
                "time_limit_s": 172_800.0,
                "mem_mib": 4096.0,
                "state": "CANCELLED",
            },
            id="days first",
        ),
        pytest.param(
            1,
            "log.json",
            '{"JOBS": 1, "RECORDS": [{"JOBID": "7", "USER": "ada", "STAT": "DONE", "SUBMIT_TIME": "Mar  1 10:00:00 2024",'
            ' "START_TIME": "Mar  1 10:00:10 2024", "FINISH_TIME": "Mar  1 11:00:10 2024 L"}]}',
            {"user": "ada", "queue_s": 10.0, "runtime_s": 3600.0, "state": "COMPLETED"},
            id="bjobs",
        ),
        pytest.param(
            2,
            "log.json",
            '[{"metadata": {"uid": "7", "creationTimestamp": "2024-03-01T10:00:00Z"}, "spec": {"resources": [{"count": 2}]}, "status":'
            ' {"startTime": "2024-03-01T10:00:10Z", "completionTime": "2024-03-01T10:01:10Z", "restarts": 1}}]',
            {"queue_s": 10.0, "runtime_s": 60.0, "gpu_count": 2.0, "attempts": 2},
            id="objects",
        ),
    ],
)
def test_examples_of_tables_read_what_they_are_for(
    tmp_path: Path, at: int, name: str, text: str, expected: dict[str, Any]
) -> None:
    options = yaml.safe_load(list(reference.TABLE_EXAMPLES.values())[at])
    (tmp_path / name).write_text(text)
    source = {"format": "table", "paths": [name], "options": options}
    cluster = Cluster.model_validate({"name": "c", "source": source, "time_zone": "Europe/Berlin"})
    (batch,) = table.read(tmp_path / name, cluster)
    (job,) = batch.jobs.to_pylist()
    assert {column: job[column] for column in expected} == expected
