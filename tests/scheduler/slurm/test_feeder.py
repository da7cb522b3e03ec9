"""Passes of the feeder over sacct's text, with a service on a real socket; and the files of the nightly log."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from answering import answering
from test_accounting import ENDED, HOSTILE_NAMES, RUNNING, WAITING, het, text_of

from runcast.data.cluster import Cluster, Source
from runcast.data.sources import slurm_sacct
from runcast.scheduler.client import Client, ServiceError
from runcast.scheduler.slurm.accounting import FIELDS, jobs_in_log
from runcast.scheduler.slurm.feeder import EventsReport, tell_events, write_log
from runcast.scheduler.slurm.memory import MemoryFileError, held

pytestmark = pytest.mark.attack

NOW_S = 1796009500.0


class Accounting:
    """sacct and scontrol on records kept here; remembers how far back it was asked."""

    def __init__(self, *records: dict[str, str], only_by_id: Sequence[dict[str, str]] = ()) -> None:
        self.records = records
        self.only_by_id = only_by_id  # what ended before the time that is asked for
        self.asked: list[str] = []
        self.is_each_attempt = False

    def __call__(self, command: Sequence[str]) -> str:
        if command[0] == "scontrol":
            return "PartitionName=gpu DefaultTime=NONE MaxTime=7-00:00:00 State=UP\n"
        self.is_each_attempt = "--duplicates" in command
        self.asked.append(next(word for word in command if word.startswith("--starttime=")))
        by_id = self.only_by_id if any(word.startswith("--jobs=") for word in command) else ()
        return text_of(*self.records, *by_id, delimiter=next(word[12:] for word in command if word.startswith("--delimiter=")))


def test_a_job_is_told_as_it_goes_and_never_twice(tmp_path: Path) -> None:
    accounting = Accounting(WAITING)
    with answering(tmp_path / "s") as service, held(tmp_path / "m.json") as memory:
        client = Client(tmp_path / "s", 5.0)
        for records in ([WAITING], [WAITING], [RUNNING], [ENDED], [ENDED]):
            accounting.records = tuple(records)
            tell_events(memory, client, accounting, NOW_S, 86400.0, gpus_tracked=True)
        assert [event["event"] for event in service.events] == ["submitted", "started", "ended"]
    assert accounting.asked[0] == "--starttime=2026-11-29T02:31:40"  # a day back, and the overlap
    assert accounting.asked[1] == "--starttime=2026-11-30T02:31:40"


def test_nothing_is_lost_while_the_service_is_away(tmp_path: Path) -> None:
    accounting = Accounting(ENDED)
    with held(tmp_path / "m.json") as memory:
        client = Client(tmp_path / "s", 1.0)
        with pytest.raises(ServiceError, match="refused"):
            tell_events(memory, client, accounting, NOW_S, 86400.0, gpus_tracked=True)
        with answering(tmp_path / "s") as service:
            report = tell_events(memory, client, accounting, NOW_S + 900_000, 86400.0, gpus_tracked=True)
            assert report == EventsReport(records=1, told=3, refused=0, unreadable=0)
            assert len(service.events) == 3


def test_an_event_that_is_refused_does_not_hold_up_the_others(tmp_path: Path) -> None:
    bad = {**ENDED, "JobID": "18", "JobIDRaw": "18", "JobName": "refuse me"}
    with answering(tmp_path / "s") as service, held(tmp_path / "m.json") as memory:
        service.refused_names = {"refuse me"}
        report = tell_events(memory, Client(tmp_path / "s", 5.0), Accounting(ENDED, bad), NOW_S, 86400.0, gpus_tracked=True)
        assert (report.told, report.refused) == (3, 3)
        again = tell_events(memory, Client(tmp_path / "s", 5.0), Accounting(ENDED, bad), NOW_S, 86400.0, gpus_tracked=True)
        assert (again.told, again.refused) == (0, 0)


def test_a_hostile_record_forges_nothing_and_stops_nobody(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    forging = [{**ENDED, "JobID": str(100 + at), "JobName": name} for at, name in enumerate(HOSTILE_NAMES.values())]
    broken = [{**ENDED, "JobID": str(200 + at), "End": "\u00b2"} for at in range(30)]
    accounting = Accounting(*broken[:15], *forging, *broken[15:], ENDED)
    with answering(tmp_path / "s") as service, held(tmp_path / "m.json") as memory:
        report = tell_events(memory, Client(tmp_path / "s", 5.0), accounting, NOW_S, 86400.0, gpus_tracked=True)
        assert {event["job_id"] for event in service.events} == {"17", *(record["JobID"] for record in forging)}
        assert {event["user"] for event in service.events} == {"games"}
    assert (report.told, report.refused, report.unreadable) == (3 * (len(forging) + 1), 0, len(broken))
    assert "20 more" in caplog.text  # a user with many such jobs does not fill the log
    written = write_log(tmp_path, accounting, NOW_S, days=1)
    assert written == {"sacct-2026-11-30.txt": len(forging) + 1, "sacct-open.txt": 0}
    assert jobs_in_log((tmp_path / "sacct-2026-11-30.txt").read_text()) == len(forging) + 1
    source = Source(format="slurm_sacct", paths=("*",))
    cluster = Cluster(name="c", source=source, time_zone="UTC", gpus_tracked=True)
    batches = list(slurm_sacct.read(tmp_path / "sacct-2026-11-30.txt", cluster))
    jobs = [job for batch in batches for job in batch.jobs.to_pylist()]
    assert {(job["job_id"], job["user"]) for job in jobs} == {
        ("17", "games"),
        *((record["JobID"], "games") for record in forging),
    }
    assert [reject for batch in batches for reject in batch.rejects] == []


@pytest.mark.parametrize("status", [401, 404, 429, 500, 503])
def test_what_says_nothing_of_the_events_loses_none(tmp_path: Path, status: int) -> None:
    accounting = Accounting(ENDED)
    with answering(tmp_path / "s") as service, held(tmp_path / "m.json") as memory:
        client = Client(tmp_path / "s", 5.0)
        service.event_status = status
        with pytest.raises(ServiceError, match=str(status)):
            tell_events(memory, client, accounting, NOW_S, 86400.0, gpus_tracked=True)
        service.event_status = 200
        assert tell_events(memory, client, accounting, NOW_S, 86400.0, gpus_tracked=True).told == 3


def test_the_memory_does_not_grow_with_jobs_that_have_ended(tmp_path: Path) -> None:
    with answering(tmp_path / "s"), held(tmp_path / "m.json") as memory:
        client = Client(tmp_path / "s", 5.0)
        tell_events(memory, client, Accounting(ENDED, {**RUNNING, "JobID": "18"}), NOW_S, 86400.0, gpus_tracked=True)
        assert set(memory.load()["told"]) == {"17", "18"}
        tell_events(memory, client, Accounting({**RUNNING, "JobID": "18"}), NOW_S + 3 * 3600, 86400.0, gpus_tracked=True)
        assert set(memory.load()["told"]) == {"18"}


@pytest.mark.parametrize(
    "content",
    [
        pytest.param('{"17:1796009438": {"p50_s": 90.0}}', id="of_the_scorer"),
        pytest.param('{"told": {"17": {"submit_s": 5}}}', id="half_an_entry"),
        pytest.param('{"told": [1]}', id="a_list"),
        pytest.param('{"read_until_s": "x"}', id="no_time"),
    ],
)
def test_a_memory_file_that_is_not_the_feeders_is_named_and_stays_as_it_is(tmp_path: Path, content: str) -> None:
    (tmp_path / "m.json").write_text(content)
    with held(tmp_path / "m.json") as memory, pytest.raises(MemoryFileError, match="is not the feeder's own"):
        tell_events(memory, Client(tmp_path / "s", 1.0), Accounting(ENDED), NOW_S, 86400.0, gpus_tracked=True)
    assert (tmp_path / "m.json").read_text() == content


def test_the_log_has_a_file_for_each_day_and_one_for_open_jobs(tmp_path: Path) -> None:
    yesterday = {**ENDED, "JobID": "5", "JobIDRaw": "5", "Submit": "1795900000", "Start": "1795900001", "End": "1795996799"}
    written = write_log(tmp_path, Accounting(ENDED, yesterday, {**WAITING, "JobID": "18"}), NOW_S, days=2)
    assert written == {"sacct-2026-11-29.txt": 1, "sacct-2026-11-30.txt": 1, "sacct-open.txt": 1}
    header, line, end = (tmp_path / "sacct-2026-11-29.txt").read_text().split("\n")
    delimiter = header[len("JobID") : -len("User")].partition("User")[0]
    assert (header.split(delimiter), end) == ([*FIELDS], "")
    assert line.split(delimiter)[:2] == ["5", "games"]
    again = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    write_log(tmp_path, Accounting(yesterday, {**WAITING, "JobID": "18"}, ENDED), NOW_S, days=2)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == again  # same jobs, same bytes, whatever sacct's order


def test_parts_that_ended_long_before_the_last_are_told_and_logged_with_it(tmp_path: Path) -> None:
    early, late = het({"Start": "1795900001", "End": "1795900099"}, {"Start": "1795900001"})
    early["Submit"] = late["Submit"] = "1795900000"
    accounting = Accounting(late, only_by_id=[early])
    with answering(tmp_path / "s") as service, held(tmp_path / "m.json") as memory:
        tell_events(memory, Client(tmp_path / "s", 5.0), accounting, NOW_S, 86400.0, gpus_tracked=True)
        assert [(event["event"], event["job_id"], event["gpu_count"]) for event in service.events] == [
            ("submitted", "17", 4.0),
            ("started", "17", 4.0),
            ("ended", "17", 4.0),
        ]
    assert write_log(tmp_path / "log", accounting, NOW_S, days=1) == {"sacct-2026-11-30.txt": 2, "sacct-open.txt": 0}
    accounting.records = ({**late, "End": "Unknown", "State": "RUNNING"},)
    assert write_log(tmp_path / "open", accounting, NOW_S, days=1) == {"sacct-open.txt": 2}


FIRST_TRY = {**ENDED, "State": "REQUEUED", "Submit": "1796000000", "Start": "1796000001", "End": "1796009438"}


def test_a_requeued_job_is_the_same_job_in_the_events_and_in_the_nightly_log(tmp_path: Path) -> None:
    accounting = Accounting()
    with answering(tmp_path / "s") as service, held(tmp_path / "m.json") as memory:
        for record in (
            {**FIRST_TRY, "End": "Unknown", "State": "RUNNING"},
            FIRST_TRY,
            {**WAITING, "Submit": "1796009438"},
            ENDED,
        ):
            accounting.records = (record,)
            tell_events(memory, Client(tmp_path / "s", 5.0), accounting, NOW_S, 86400.0, gpus_tracked=True)
        assert [event["event"] for event in service.events] == ["submitted", "started", "ended"]
    accounting.records = (FIRST_TRY, ENDED)
    assert write_log(tmp_path / "log", accounting, NOW_S, days=1) == {"sacct-2026-11-30.txt": 2, "sacct-open.txt": 0}
    assert accounting.is_each_attempt
    source = Source(format="slurm_sacct", paths=("*",))
    batches = slurm_sacct.read(tmp_path / "log" / "sacct-2026-11-30.txt", Cluster(name="c", source=source, time_zone="UTC"))
    (job,) = [job for batch in batches for job in batch.jobs.to_pylist()]
    assert job["job_key"] == f"c:17:{service.events[-1]['submit_time'] * 1_000_000}" == "c:17:1796000000000000"
    assert (job["attempts"], job["runtime_s"], job["flags"]) == (2, 1.0, ["requeued"])


def test_a_job_that_waits_again_stands_in_the_log_of_open_jobs_with_its_first_try(tmp_path: Path) -> None:
    again = {**WAITING, "Submit": "1796009438"}
    assert write_log(tmp_path, Accounting(FIRST_TRY, again), NOW_S, days=1) == {"sacct-open.txt": 2}


def test_a_waiting_array_is_remembered_however_long_it_waits(tmp_path: Path) -> None:
    array = Accounting({**WAITING, "JobID": "2_[1-3]", "JobIDRaw": "2"})
    with answering(tmp_path / "s") as service, held(tmp_path / "m.json") as memory:
        for now_s in (NOW_S, NOW_S + 40 * 86400, NOW_S + 41 * 86400):
            tell_events(memory, Client(tmp_path / "s", 5.0), array, now_s, 86400.0, gpus_tracked=True)
        assert [event["job_id"] for event in service.events] == ["2_1", "2_2", "2_3"]


def test_purged_accounting_takes_nothing_out_of_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    other = {**ENDED, "JobID": "18", "JobIDRaw": "18"}
    write_log(tmp_path, Accounting(ENDED, other), NOW_S, days=1)
    assert "sacct-2026-11-30.txt" not in write_log(tmp_path, Accounting(ENDED), NOW_S, days=1)
    assert "has 2 jobs, sacct now knows only 1; it is kept" in caplog.text
    assert (tmp_path / "sacct-2026-11-30.txt").read_text().count("\n") == 3


def test_log_folder_that_cannot_be_one_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(MemoryFileError, match="cannot be the log's folder"):
        write_log(tmp_path / "file", Accounting(), NOW_S, days=1)
