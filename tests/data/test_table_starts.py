"""Tables of schedulers that dispatch a job again: how often it was started, what its start is, and why it ended."""

from pathlib import Path
from typing import Any

import pytest

from runcast.data.cluster import Cluster
from runcast.data.sources import table
from runcast.data.sources.batch import Batch
from runcast.data.sources.table_options import Options

COLUMNS: dict[str, Any] = {
    "job_id": "id",
    "submit_time": "sub",
    "start_time": "beg",
    "end_time": "end",
    "starts": "n",
    "state": {
        "column": "state",
        "null_words": ["", "OTHER"],
        "detail": {"EXIT": {"column": "term", "null_words": ["", "TERM_UNKNOWN"], "values": {"TERM_OWNER": "CANCELLED"}}},
    },
}


def read(folder: Path, *rows: str, start_time_is: str = "first_start") -> Batch:
    path = folder / "t.csv"
    path.write_text("\n".join(["id,sub,beg,end,n,state,term", *rows]) + "\n")
    source = {"format": "table", "paths": ["t"], "options": {"columns": COLUMNS, "start_time_is": start_time_is}}
    (batch,) = table.read(path, Cluster.model_validate({"name": "c", "source": source, "time_zone": "Europe/Berlin"}))
    return batch


def job(folder: Path, n: str, state: str, term: str = "", *, end: str = "2024-03-01 11:00:00", **options: str) -> dict[str, Any]:
    (found,) = read(folder, f"7,2024-03-01 10:00:00,2024-03-01 10:00:10,{end},{n},{state},{term}", **options).jobs.to_pylist()
    return found


@pytest.mark.parametrize(
    ("n", "state", "term", "end", "expected"),
    [
        pytest.param("1", "DONE", "", "2024-03-01 11:00:00", ("COMPLETED", "event", 1, 3590.0, []), id="once"),
        pytest.param("3", "DONE", "", "2024-03-01 11:00:00", ("COMPLETED", "excluded", 3, None, ["requeued"]), id="three times"),
        pytest.param(
            "0", "EXIT", "TERM_OWNER", "2024-03-01 11:00:00", ("CANCELLED", "excluded", 0, None, ["never_started"]), id="never"
        ),
        pytest.param("", "DONE", "", "2024-03-01 11:00:00", ("COMPLETED", "event", 1, 3590.0, []), id="not counted"),
        pytest.param("1", "EXIT", "", "2024-03-01 11:00:00", ("FAILED", "event", 1, 3590.0, []), id="no detail"),
        pytest.param("1", "EXIT", "TERM_OWNER", "2024-03-01 11:00:00", ("CANCELLED", "censored", 1, 3590.0, []), id="detail"),
        pytest.param(
            "1", "EXIT", "TERM_UNKNOWN", "2024-03-01 11:00:00", ("FAILED", "event", 1, 3590.0, []), id="detail that is none"
        ),
        pytest.param(
            "1", "DONE", "TERM_OWNER", "2024-03-01 11:00:00", ("COMPLETED", "event", 1, 3590.0, []), id="detail of another word"
        ),
        pytest.param("1", "OTHER", "", "", ("RUNNING", "censored", 1, None, []), id="running"),
        pytest.param("0", "OTHER", "", "", ("PENDING", "excluded", 0, None, []), id="waiting"),
    ],
)
def test_starts_and_details_of_a_state(
    tmp_path: Path, n: str, state: str, term: str, end: str, expected: tuple[object, ...]
) -> None:
    found = job(tmp_path, n, state, term, end=end)
    assert tuple(found[name] for name in ("state", "label", "attempts", "runtime_s", "flags")) == expected


def test_last_start_bounds_the_last_run(tmp_path: Path) -> None:
    found = job(tmp_path, "3", "DONE", start_time_is="last_start")
    assert (found["label"], found["attempts"], found["runtime_s"], found["flags"]) == ("event", 3, 3590.0, [])


def test_end_in_the_repeated_hour_comes_after_its_start(tmp_path: Path) -> None:
    """Berlin: 3:00 became 2:00 on 2024-10-27, so the end at 2:10 is the second one."""
    batch = read(tmp_path, "7,2024-10-27 01:00:00,2024-10-27 02:50:00,2024-10-27 02:10:00,1,DONE,")
    assert (batch.rejects, batch.jobs["runtime_s"].to_pylist()) == ((), [1200.0])


@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        ({**COLUMNS, "restarts": "r"}, {}, "starts and restarts say the same"),
        (
            {name: column for name, column in COLUMNS.items() if name != "starts"},
            {"start_time_is": "first_start"},
            "needs start_time",
        ),
        ({**COLUMNS, "user": {"column": "u", "detail": {"x": {"column": "y"}}}}, {}, "`detail` is for state"),
        ({**COLUMNS, "state": {"column": "s", "detail": {"x": {"column": "y", "pattern": "z"}}}}, {}, "names no group value"),
    ],
)
def test_option_that_could_mean_two_things_is_refused(columns: dict[str, Any], options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Options.model_validate({"columns": columns, **options})
