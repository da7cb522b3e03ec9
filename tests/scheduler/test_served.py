"""Forecasts told to identified jobs: one line each, in the file of the day of submission, for as many days as are kept."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from runcast.scheduler import served
from runcast.scheduler.served import FIELDS, ServedLog

NOW = datetime(2026, 4, 10, 12, tzinfo=UTC)
ANSWER = {
    "p50_s": 10.0, "p90_s": 40.5, "point_s": 9.0, "confidence": 0.25, "source": "runcast", "n_history": 3, "model_version": "m",
}  # fmt: skip


def job(number: int, submit: datetime) -> dict[str, Any]:
    submit_us = round(submit.timestamp() * 1e6)
    return {"job_key": f"demo:{number}:{submit_us}", "submit_time": submit_us}


def write(log: ServedLog, *submits: datetime, now: datetime = NOW, first: int = 0) -> None:
    for number, submit in enumerate(submits, first):
        log.add("demo", job(number, submit), ANSWER, now)
    log.write(log.take(), now)


def outcomes(log: ServedLog) -> dict[str, int]:
    lines = (line.rpartition(" ") for line in log.lines.lines())
    return {name.split('"')[1]: int(count) for name, _, count in lines}


def test_line_says_what_was_told_and_when(tmp_path: Path) -> None:
    write(ServedLog(tmp_path / "served"), NOW - timedelta(microseconds=500))
    text = (tmp_path / "served" / "2026-04-10.jsonl").read_text()
    assert text.endswith("\n")
    line = json.loads(text)
    assert tuple(line) == FIELDS
    assert line == {
        "cluster": "demo", "job_key": "demo:0:1775822399999500", "submit_time": "2026-04-10T11:59:59.999500Z",
        "p50_s": 10.0, "p90_s": 40.5, "point_s": 9.0, "confidence": 0.25, "source": "runcast", "model_version": "m",
        "answered_at": "2026-04-10T12:00:00Z",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("submit", "file"),
    [
        (datetime(2026, 4, 10, 23, 59, 59, tzinfo=UTC), "2026-04-10.jsonl"),
        (datetime(2026, 4, 11, tzinfo=UTC), "2026-04-11.jsonl"),
        (datetime(2026, 4, 8, tzinfo=UTC), "2026-04-08.jsonl"),
        (datetime(2026, 4, 7, 23, 59, 59, tzinfo=UTC), None),
        (datetime(2026, 4, 12, tzinfo=UTC), None),
        (datetime(2099, 1, 1, tzinfo=UTC), None),
    ],
    ids=["today", "clock a little ahead", "first day kept", "older", "after tomorrow", "far future"],
)
def test_day_is_that_of_submission_and_only_days_that_are_kept_are_written(
    tmp_path: Path, submit: datetime, file: str | None
) -> None:
    log = ServedLog(tmp_path, days=3)
    write(log, submit)
    assert [path.name for path in tmp_path.iterdir()] == ([file] if file else [])
    assert outcomes(log) == ({"written": 1} if file else {"outside": 1})


def test_first_forecast_of_a_job_stands(tmp_path: Path) -> None:
    log = ServedLog(tmp_path)
    write(log, NOW)
    log.add("demo", job(0, NOW), {**ANSWER, "p50_s": 99.0}, NOW + timedelta(minutes=5))
    assert log.take() == []
    write(log, NOW, first=1)
    assert [json.loads(line)["p50_s"] for line in (tmp_path / "2026-04-10.jsonl").read_text().splitlines()] == [10.0, 10.0]


def test_old_days_go_and_other_files_stay(tmp_path: Path) -> None:
    for name in ("2026-04-07.jsonl", "2026-04-08.jsonl", "2026-04-09.jsonl", "notes.txt", "2026-04-07.jsonl.gz"):
        (tmp_path / name).write_text("{}\n")
    write(ServedLog(tmp_path, days=3), NOW)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "2026-04-07.jsonl.gz", "2026-04-08.jsonl", "2026-04-09.jsonl", "2026-04-10.jsonl", "notes.txt",
    ]  # fmt: skip


def test_line_that_a_killed_writer_cut_off_does_not_spoil_the_next(tmp_path: Path) -> None:
    (tmp_path / "2026-04-10.jsonl").write_text('{"cluster": "de')
    write(ServedLog(tmp_path), NOW)
    cut_off, whole = (tmp_path / "2026-04-10.jsonl").read_text().splitlines()
    assert (cut_off, tuple(json.loads(whole))) == ('{"cluster": "de', FIELDS)


def test_what_the_disk_refuses_is_counted_and_said(tmp_path: Path) -> None:
    (tmp_path / "served").write_text("a file in the folder's place")
    log = ServedLog(tmp_path / "served")
    write(log, NOW, NOW)
    assert outcomes(log) == {"disk": 2}
    assert "2 served forecasts could not be kept" in log.problem
    (tmp_path / "served").unlink()
    write(log, NOW, first=2)
    assert (outcomes(log), log.problem) == ({"disk": 2, "written": 1}, "")


def test_disk_that_stands_still_costs_lines_and_no_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(served, "MOST_WAITING", 3)
    log = ServedLog(tmp_path)
    write(log, *[NOW] * 5)
    assert outcomes(log) == {"waiting": 2, "written": 3}


@pytest.mark.parametrize(("days", "told"), [(0, 3), (35, 0)], ids=["no days are kept", "nobody was told"])
def test_where_there_is_nothing_to_keep_there_is_no_folder(tmp_path: Path, days: int, told: int) -> None:
    log = ServedLog(tmp_path / "served", days=days)
    write(log, *[NOW] * told)
    assert (log.problem, (tmp_path / "served").exists()) == ("", False)
