"""What `source.collect` fetches, when, and what stays where it fails: with real programs, run as a night runs them."""

import datetime as dt
import gzip
import json
import os
import resource
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from runcast.data.cluster import Cluster, read_cluster
from runcast.data.collect import Collected, collect, collected_files
from runcast.data.errors import ClusterFileError, CollectFailed, SourceError
from runcast.data.job import ingest
from runcast.data.lake import Lake
from runcast.data.settings import Settings, read_settings

UTC = dt.UTC
MORNING = dt.datetime(2026, 3, 5, 3, tzinfo=UTC)  # the latest day that is over is the 4th
HEAD = "JobID|User|Submit|Start|End|State"


def day(of_march: int) -> dt.date:
    return dt.date(2026, 3, of_march)


@dataclass
class Site:
    """A cluster whose log is printed by a Python program, which keeps what it was called with in `calls`."""

    folder: Path
    program: str = "print(sys.argv[1])"
    words: Sequence[str] = ("{first}",)
    more: dict[str, Any] = field(default_factory=dict)  # of `collect`
    cluster_more: dict[str, Any] = field(default_factory=dict)

    @property
    def settings(self) -> Settings:
        return read_settings({"RUNCAST_HOME": str(self.folder / "var"), "PATH": os.environ["PATH"], "SECRET": "s3cret"})

    @property
    def cluster(self) -> Cluster:
        script = self.folder / "print_log.py"
        note = f"open({str(self.folder / 'calls')!r}, 'a').write(sys.argv[1] + chr(10))"
        script.write_text(f"import os, sys, time, json\n{note}\n{self.program}\n")
        command = [sys.executable, str(script), *self.words]
        since = {"since": "2026-03-01"} if any("{" in word for word in self.words) else {}
        source = {"format": "slurm_sacct", "collect": {"command": command, **since, **self.more}}
        return Cluster.model_validate({"name": "hpc", "source": source, "time_zone": "Europe/Berlin", **self.cluster_more})

    def collect(self, now: dt.datetime = MORNING, first: dt.date | None = None, last: dt.date | None = None) -> Collected:
        (self.folder / "calls").unlink(missing_ok=True)
        return collect(self.cluster, self.settings, first, last, now)

    def calls(self) -> list[str]:
        path = self.folder / "calls"
        return path.read_text().split() if path.exists() else []

    def files(self) -> dict[str, str]:
        folder = self.folder / "var" / "collected" / "hpc"
        return (
            {path.name: gzip.decompress(path.read_bytes()).decode() for path in sorted(folder.iterdir())}
            if folder.exists()
            else {}
        )


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def test_first_night_fetches_each_day_since_the_first_one_into_a_file_of_its_own(site: Site) -> None:
    assert site.collect() == Collected(written=4)
    assert site.files() == {f"2026-03-0{n}.gz": f"2026-03-0{n}\n" for n in (1, 2, 3, 4)}
    assert {path.stat().st_mode & 0o777 for path in collected_files(site.cluster, site.settings)} == {0o640}
    assert (site.folder / "var/collected/hpc").stat().st_mode & 0o027 == 0


@pytest.mark.parametrize(
    ("nights", "fetched"),
    [  # days and hours of March (UTC) on which a night runs; the days that the last one fetches. A day ends at 23:00 UTC
        pytest.param([(5, 3)], [1, 2, 3, 4], id="first night"),
        pytest.param([(5, 3), (5, 3)], [2, 3, 4], id="the same night again: the 1st was fetched 3 days after its end"),
        pytest.param([(5, 3), (6, 3)], [2, 3, 4, 5], id="the next night: a look-back of 3 days, and the new day"),
        pytest.param([(5, 3), (6, 3), (7, 3)], [3, 4, 5, 6], id="the night after"),
        pytest.param([(5, 3), (16, 3)], [*range(2, 16)], id="nights were missed: what was fetched early is fetched again"),
        pytest.param([(16, 3), (5, 3)], [1, 2, 3, 4], id="the clock was ahead: what it fetched is not believed"),
        pytest.param([(4, 22), (4, 23)], [1, 2, 3, 4], id="a day is over at midnight of the cluster's zone"),
    ],
)  # fmt: skip
def test_days_are_fetched_again_until_they_were_fetched_a_look_back_after_their_end(
    site: Site, nights: list[tuple[int, int]], fetched: list[int]
) -> None:
    for of_march, hour in nights:
        site.collect(dt.datetime(2026, 3, of_march, hour, tzinfo=UTC))
    assert site.calls() == [f"{day(n)}" for n in fetched]


def test_backfill_fetches_its_own_days_and_what_is_missing_before_them_only(site: Site) -> None:
    much_later = dt.datetime(2026, 5, 1, 3, tzinfo=UTC)
    site.collect(much_later, last=day(6))
    assert site.calls() == [f"{day(n)}" for n in range(1, 7)]
    site.collect(much_later, first=day(4), last=day(5))
    assert site.calls() == [f"{day(4)}", f"{day(5)}"]
    site.collect(much_later, first=day(8), last=day(8))
    assert site.calls() == [f"{day(7)}", f"{day(8)}"]


def test_day_of_a_clock_change_ends_at_midnight_of_the_clusters_zone(site: Site) -> None:
    site.more, site.cluster_more = {"since": "2026-10-25"}, {"lookback_days": 0}
    for hour, calls in ((22, []), (23, ["2026-10-25"])):  # 25 hours long: it began at 22:00 and ends at 23:00 UTC
        site.collect(dt.datetime(2026, 10, 25, hour, 30, tzinfo=UTC))
        assert site.calls() == calls


def test_command_gets_words_as_they_stand_without_a_shell_and_little_of_the_environment(site: Site) -> None:
    site.program = "print(json.dumps([sys.argv[1:], dict(os.environ), os.getcwd(), sys.stdin.read()]))"
    site.words = ("{first}T00:00:00", "{last:%d/%m/%Y}", "{next}", "$(id); `id` > x | y {{z}} * ${{SECRET}}")
    site.more = {"environment": {"SLURM_CONF": "/etc/${SECRET}.conf"}}
    site.collect(last=day(1))
    words, environment, folder, stdin = json.loads(site.files()["2026-03-01.gz"])
    assert words == ["2026-03-01T00:00:00", "01/03/2026", "2026-03-02", "$(id); `id` > x | y {z} * ${SECRET}"]
    environment.pop("LC_CTYPE", None)  # Python's own
    assert environment == {
        "PATH": os.environ["PATH"],
        "LC_ALL": "C.UTF-8",
        "TZ": "Europe/Berlin",
        "SLURM_CONF": "/etc/s3cret.conf",
    }
    assert (folder, stdin) == ("/", "")


def test_delimiter_is_random_for_each_day_and_of_the_form_that_the_reader_takes_from_the_header(site: Site) -> None:
    site.words = ("{first}", "{delimiter}")
    site.program = "print(sys.argv[2])"
    site.collect()
    drawn = [text.strip() for text in site.files().values()]
    assert len(set(drawn)) == 4
    assert all(len(one) == 18 and one[0] == one[-1] == "|" and int(one[1:-1], 16) >= 0 for one in drawn)


BAD = "print('half', flush=True)\n"
SLOW = {"timeout_s": 1}


@pytest.mark.parametrize(
    ("program", "more", "error"),
    [
        pytest.param(BAD + "sys.exit(3)", {}, r"hpc, 2026-03-01: .*ended with exit code 3, and said nothing", id="exit code"),
        pytest.param(BAD + "print('sacct: error', file=sys.stderr)", {}, r"exit code 0; standard error: 'sacct: error'", id="errors"),
        pytest.param(BAD + "sys.stderr.write('\\x1b' + 'x' * 10**7)", {}, r"error: '\\x1bx{100,200}'\. What", id="errors cut, escaped"),
        pytest.param(BAD + "os.kill(os.getpid(), 11)", {}, r"was ended by signal 11", id="crash"),
        pytest.param(BAD + "time.sleep(60)", SLOW, r"took longer than 1 s and was ended", id="hangs"),
        pytest.param(BAD + "os.close(1); os.close(2); time.sleep(60)", SLOW, r"took longer than 1 s", id="hangs, outputs closed"),
        pytest.param("while True: print('x' * 1000)", {"output_mib_at_most": 1}, r"printed more than 1 MiB and was ended", id="endless"),
    ],
)  # fmt: skip
def test_what_a_failed_command_printed_is_not_read_and_what_was_there_stays(
    site: Site, program: str, more: dict[str, Any], error: str
) -> None:
    site.collect(last=day(1))
    before = [(path, path.read_bytes()) for path in collected_files(site.cluster, site.settings)]
    site.program, site.more = program, more
    with pytest.raises(CollectFailed, match=error):
        site.collect(first=day(1))
    folder = site.folder / "var" / "collected" / "hpc"
    assert [(path, path.read_bytes()) for path in sorted(folder.iterdir())] == before


def test_failure_in_the_middle_keeps_the_days_before_it_and_the_next_run_goes_on_there(site: Site) -> None:
    good, site.cluster_more = site.program, {"lookback_days": 0}
    site.program = good + "\nif sys.argv[1] == '2026-03-03': sys.exit('down')"
    with pytest.raises(CollectFailed, match=r"hpc, 2026-03-03: .*exit code 1; standard error: 'down'"):
        site.collect()
    assert list(site.files()) == ["2026-03-01.gz", "2026-03-02.gz"]
    site.program = good
    site.collect()
    assert site.calls() == ["2026-03-03", "2026-03-04"]


CHILD = """import subprocess
child = subprocess.Popen(['sleep', '60']{outputs})
open({file!r}, 'w').write(str(child.pid))
"""


def test_time_out_ends_what_the_command_had_started_too(site: Site) -> None:
    started = site.folder / "started"
    site.program = CHILD.format(outputs="", file=str(started)) + "child.wait()"
    site.more = {"timeout_s": 2}
    with pytest.raises(CollectFailed, match="took longer than 2 s"):
        site.collect()
    assert is_gone(int(started.read_text()))


def test_disk_that_takes_no_more_leaves_nothing_and_ends_the_command(site: Site) -> None:
    site.program = "while True: sys.stdout.buffer.write(os.urandom(1 << 20))"
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    cluster = site.cluster
    resource.setrlimit(resource.RLIMIT_FSIZE, (4 << 20, hard))
    try:
        with pytest.raises(OSError, match="File too large"):
            collect(cluster, site.settings, None, None, MORNING)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert site.files() == {}


def test_command_that_leaves_a_process_behind_is_whole_and_the_process_ends(site: Site) -> None:
    started = site.folder / "started"
    site.program += "\n" + CHILD.format(outputs=", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL", file=str(started))
    site.collect(last=day(1))
    assert site.files() == {"2026-03-01.gz": "2026-03-01\n"}
    assert is_gone(int(started.read_text()))


def is_gone(pid: int) -> bool:
    """Whether a process has ended, within a few seconds; one that nobody has waited for counts as ended."""
    stat = Path(f"/proc/{pid}/stat")
    for _ in range(50):
        if not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] == "Z":
            return True
        time.sleep(0.1)
    return False


def test_lines_named_as_harmless_are_no_errors_and_a_failure_still_is_one(site: Site) -> None:
    site.program += "\nprint('Warning: deprecated', file=sys.stderr)"
    site.more = {"harmless_errors": ["^Warning: "]}
    site.collect(last=day(1))
    assert site.files() == {"2026-03-01.gz": "2026-03-01\n"}
    site.program += "; sys.exit(1)"
    with pytest.raises(CollectFailed, match=r"exit code 1; standard error: 'Warning: deprecated'"):
        site.collect(first=day(1))


def test_program_that_is_not_there_is_named_with_the_path_that_was_looked_at(site: Site) -> None:
    source = {"format": "slurm_sacct", "collect": {"command": ["no-such-sacct", "{first}"], "since": "2026-03-01"}}
    cluster = Cluster.model_validate({"name": "hpc", "source": source, "time_zone": "UTC"})
    with pytest.raises(CollectFailed, match=r"'no-such-sacct 2026-03-01' cannot be started \(No such file.*PATH is '"):
        collect(cluster, site.settings, None, None, MORNING)


@pytest.mark.parametrize(
    ("then", "now", "kept", "notes"),
    [
        pytest.param("a\nb\n", "", "a\nb\n", {"collected_had_more": 1}, id="accounting was purged"),
        pytest.param("a\nb\n", "a\n", "a\nb\n", {"collected_had_more": 1}, id="fewer"),
        pytest.param("a\nb\n", "a\nB\n", "a\nB\n", {"collected_files": 1}, id="as many: they may say more"),
        pytest.param("a\n", "a\nb\n", "a\nb\n", {"collected_files": 1}, id="more"),
    ],
)
def test_day_is_not_replaced_by_one_with_fewer_lines(site: Site, then: str, now: str, kept: str, notes: dict[str, int]) -> None:
    site.program = f"sys.stdout.write({then!r})"
    site.collect(last=day(1))
    site.program = f"sys.stdout.write({now!r})"
    assert site.collect(first=day(1), last=day(1)).to_notes() == notes
    assert site.files() == {"2026-03-01.gz": kept}


def test_day_whose_file_had_more_is_not_fetched_for_ever(site: Site) -> None:
    site.program = "print('a')"
    site.collect(dt.datetime(2026, 3, 2, 3, tzinfo=UTC))
    site.program = "pass"
    later = dt.datetime(2026, 3, 9, 3, tzinfo=UTC)
    assert site.collect(later, last=day(1)) == Collected(had_more=1)
    site.collect(later, last=day(1))
    assert site.calls() == []
    assert site.files() == {"2026-03-01.gz": "a\n"}


def test_command_that_names_no_day_prints_what_there_is_and_none_of_it_is_replaced(site: Site) -> None:
    site.words = ("now",)
    for minute in (0, 1):
        site.collect(MORNING.replace(minute=minute))
    assert site.files() == {"2026-03-05T03-00-00Z.gz": "now\n", "2026-03-05T03-01-00Z.gz": "now\n"}


SACCT = """
day, d = sys.argv[1:]
rows = [(f'{day[8:]}{n:02}', 'ada', f'{day}T10:{n:02}:00', f'{day}T10:{n:02}:10', f'{day}T11:{n:02}:10', 'COMPLETED') for n in range(20)]
print(*(d.join(row) for row in [('JobID', 'User', 'Submit', 'Start', 'End', 'State'), *rows]), sep='\\n')
"""


def test_ingest_fetches_before_it_reads_and_the_same_again_is_the_same_lake(site: Site) -> None:
    site.program, site.words = SACCT, ("{first}", "{delimiter}")
    first = ingest(site.cluster, site.settings, last=day(3), now=MORNING)
    assert (first.accepted, first.ended, first.rejected, first.notes["collected_files"]) == (60, 60, 0, 3)
    again = ingest(site.cluster, site.settings, first=day(3), last=day(3), now=MORNING)
    assert again.fingerprint == first.fingerprint
    following = ingest(site.cluster, site.settings, first=day(4), last=day(4), now=MORNING)
    assert Lake(site.settings.lake).rows_by_date("hpc") == {f"2026-03-0{n}": 20 for n in (1, 2, 3, 4)}
    assert following.rejected == 0


def test_ingest_that_cannot_fetch_leaves_the_lake_as_it_was(site: Site) -> None:
    site.program, site.words = SACCT, ("{first}", "{delimiter}")
    before = ingest(site.cluster, site.settings, last=day(3), now=MORNING).fingerprint
    site.program += "\nif day == '2026-03-04': sys.exit(1)"
    with pytest.raises(CollectFailed, match="hpc, 2026-03-04"):
        ingest(site.cluster, site.settings, first=day(4), last=day(4), now=MORNING)
    lake = Lake(site.settings.lake)
    assert lake.fingerprint("hpc") == before
    with lake.lock("hpc", 0.0):  # nobody is left in it
        pass


def test_files_that_paths_names_are_read_beside_what_is_fetched(site: Site, tmp_path: Path) -> None:
    old = tmp_path / "2025.txt"
    old.write_text(f"{HEAD}\n7|bob|2025-12-01T10:00:00|2025-12-01T10:00:00|2025-12-01T10:05:00|COMPLETED\n")
    site.program, site.words = SACCT, ("{first}", "{delimiter}")
    source = site.cluster.source.model_copy(update={"paths": (str(old),)})
    report = ingest(site.cluster.model_copy(update={"source": source}), site.settings, last=day(1), now=MORNING)
    assert report.ended == 21


def test_log_that_was_never_fetched_is_named_with_the_command_that_fetches_it(site: Site) -> None:
    with pytest.raises(SourceError, match=r"nothing has been collected yet.*runcast nightly --cluster hpc"):
        ingest(site.cluster, site.settings, last=day(3))  # without a clock nothing is fetched


COLLECT = "source: {format: swf, collect: {%s}}\ntime_zone: UTC\n"


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("source: {format: swf}\ntime_zone: UTC\n", r"source: name the log's files in `paths`, or a command .* in `collect`"),
        (COLLECT % "command: []", r"collect\.command: .*at least 1 item"),
        (COLLECT % "command: sacct --all", r"collect\.command: expected a list"),
        (COLLECT % 'command: ["{first}"]', r"the program is '\{first\}'; name it"),
        (COLLECT % 'command: [x, "{frist}"], since: 2026-01-01', r"'\{frist\}': known are \{first\}, \{last\}"),
        (COLLECT % 'command: [x, "{first.year}"], since: 2026-01-01', r"'\{first\.year\}': known are"),
        (COLLECT % 'command: [x, "{first!r}"], since: 2026-01-01', r"'\{first!r\}': known are"),
        (COLLECT % 'command: [x, "{first:{last}}"], since: 2026-01-01', r"known are"),
        (COLLECT % 'command: [x, "{"]', r"a brace that is meant is written twice"),
        (COLLECT % 'command: [x, "{first}"]', r"say with `since`"),
        (COLLECT % 'command: [x, "a\\0b"]', r"no argument can hold a null byte"),
        (COLLECT % 'command: [x], environment: {"A=B": c}', r"'A=B' cannot be a variable"),
        (COLLECT % 'command: [x], harmless_errors: ["("]', r"'\(' is no regular expression"),
        (COLLECT % "command: [x], timeout: 5", r"timeout: unknown key; did you mean 'timeout_s'"),
        (COLLECT % "command: [x]" + "clock: week\n", r"source\.collect fetches days of the calendar, and clock is 'week'"),
    ],
)  # fmt: skip
def test_collect_that_cannot_work_is_refused_as_the_file_is_read(tmp_path: Path, text: str, error: str) -> None:
    (tmp_path / "hpc.yaml").write_text(text)
    with pytest.raises(ClusterFileError, match=error):
        read_cluster(tmp_path / "hpc.yaml")
