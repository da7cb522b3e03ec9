"""Refused records: where they stand, and what reading the log again makes of them."""

import json
import re
import sys
from datetime import date
from pathlib import Path

import pytest
from typer.testing import CliRunner

from runcast.cli import app, main
from runcast.data.cluster import Cluster, read_cluster
from runcast.data.errors import HistoryMismatch, LakeError, TooManyRejects, UnknownStates, UnreadableColumn
from runcast.data.job import ingest
from runcast.data.lake import Lake
from runcast.data.rejects import find_rejects, replay_rejects
from runcast.data.settings import Settings, read_settings
from runcast.show import plain

HEADER = "JobID|User|Submit|Start|End|Elapsed|State|JobName\n"
GOOD = "{id}|u1|2026-03-0{day}T10:00:00|2026-03-0{day}T10:01:00|2026-03-0{day}T11:00:00|00:59:00|COMPLETED|fine\n"
BAD_TIME = "90|u2|yesterday|2026-03-02T10:01:00|2026-03-02T11:00:00|00:59:00|COMPLETED|\x1b[31mred\x1b[0m\u202e\n"
NO_END = "91|u2|2026-03-03T10:00:00|2026-03-03T10:01:00|Unknown|00:59:00|COMPLETED|lost\n"
LOG = [
    HEADER,
    GOOD.format(id=1, day=2),
    BAD_TIME,
    GOOD.format(id=2, day=3),
    GOOD.format(id=3, day=3),
    NO_END,
    GOOD.format(id=4, day=4),
]


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.setenv("RUNCAST_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("RUNCAST_CLUSTERS", str(tmp_path))
    return read_settings()


def cluster(folder: Path, lines: list[str], more: str = "") -> Cluster:
    (folder / "log.txt").write_text("".join(lines))
    file = folder / "hpc.yaml"
    file.write_text(
        f"source:\n  format: slurm_sacct\n  paths: ['{folder}/log.txt']\n  reject_share_at_most: 0.5\n{more}time_zone: UTC\n"
    )
    return read_cluster(file)


def job_ids(settings: Settings) -> list[str]:
    return sorted(Lake(settings.lake).read_jobs("hpc")["job_id"].to_pylist())


def test_rejects_stand_beside_the_job_before_them(tmp_path: Path, settings: Settings) -> None:
    chosen = cluster(tmp_path, [LOG[0], LOG[5], *LOG[1:]])
    ingest(chosen, settings)
    found = find_rejects(chosen, settings)
    assert [(r["line"], r["day"], r["reason"]) for r in found["rejects"]] == [
        (2, "2026-03-02", "end_missing"),  # before any job: beside the one after it
        (4, "2026-03-02", "submit_unreadable"),
        (7, "2026-03-03", "end_missing"),
    ]
    assert (found["count"], found["by_reason"]) == (3, {"end_missing": 2, "submit_unreadable": 1})


@pytest.mark.parametrize(("day", "lines"), [("2026-03-02", [3]), ("2026-03-03", [6]), ("2026-03-04", [])])
def test_a_day_shows_those_that_stand_there(tmp_path: Path, settings: Settings, day: str, lines: list[int]) -> None:
    ingest(cluster(tmp_path, LOG), settings)
    done = CliRunner().invoke(app, ["rejects", "--cluster", "hpc", "--date", day, "--json"], catch_exceptions=False)
    found = json.loads(done.stdout)
    assert ([r["line"] for r in found["rejects"]], found["count"], found["day"]) == (lines, len(lines), day)


def test_terminal_is_shown_what_it_cannot_act_on(tmp_path: Path, settings: Settings, capsys: pytest.CaptureFixture[str]) -> None:
    ingest(cluster(tmp_path, LOG), settings)
    sys.argv[:] = ["runcast", "rejects", "--cluster", "hpc", "--limit", "1"]
    with pytest.raises(SystemExit, match="0"):
        main()
    shown = capsys.readouterr().out
    assert "log.txt:3" in shown
    assert "\\x1b[31mred\\x1b[0m\\u202e" in "".join(shown.split())
    assert all(c.isprintable() or c == "\n" for c in shown)
    assert "… and 1 more" in shown
    assert "end_missing 1, submit_unreadable 1" in shown or "submit_unreadable 1, end_missing 1" in shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b]0;title\x07", "\\x1b]0;title\\x07"),
        ("a\r\nb\x9b2J", "a\\r\\nb\\x9b2J"),
        ("\u2028\u200f\ufeff", "\\u2028\\u200f\\ufeff"),
        ("müller [bold]", "müller [bold]"),
        ("\ud800", "\\ud800"),
    ],
)
def test_plain_text_only_shows(text: str, shown: str) -> None:
    assert plain(text) == shown


def test_an_error_that_quotes_the_log_cannot_act(tmp_path: Path, settings: Settings, capsys: pytest.CaptureFixture[str]) -> None:
    cluster(tmp_path, ["\x1b[2J|no header\x07\n"])
    sys.argv[:] = ["runcast", "ingest", "--cluster", "hpc", "--all"]
    with pytest.raises(SystemExit, match="3"):
        main()
    said = capsys.readouterr().err
    assert "no header of sacct but '\\x1b[2J|no header\\x07'" in said
    assert all(c.isprintable() or c == "\n" for c in said)


def test_mended_records_become_jobs_once_and_the_rest_stay(tmp_path: Path, settings: Settings) -> None:
    ingest(cluster(tmp_path, LOG), settings)
    assert job_ids(settings) == ["1", "2", "3", "4"]
    mended = [line.replace("yesterday", "2026-03-02T09:00:00") for line in LOG]
    chosen = cluster(tmp_path, mended)
    result = replay_rejects(chosen, settings)
    assert (result["jobs_before"], result["jobs"]) == (4, 5)
    assert (result["refused_before"], result["refused"], result["by_reason"]) == (2, 1, {"end_missing": 1})
    assert job_ids(settings) == ["1", "2", "3", "4", "90"]
    fingerprint = Lake(settings.lake).fingerprint("hpc")
    again = replay_rejects(chosen, settings)
    assert (again["jobs"], again["refused"], again["files_written"]) == (5, 1, 0)
    assert Lake(settings.lake).fingerprint("hpc") == fingerprint


def test_a_fix_of_the_cluster_file_is_a_fix(tmp_path: Path, settings: Settings) -> None:
    """The file said that every time has its offset; one has none, and is local."""
    (tmp_path / "log.csv").write_text(
        "i,s,b,e\n1,2026-03-02T10:00:00Z,2026-03-02T10:01:00Z,2026-03-02T11:00:00Z\n" + "2,2026-03-02 10:00:00,,\n"
    )
    text = (
        f"source:\n  format: table\n  paths: ['{tmp_path}/log.csv']\n  reject_share_at_most: 0.5\n  options:\n    time: aware\n"
        "    columns: {job_id: i, submit_time: s, start_time: b, end_time: e}\ntime_zone: UTC\n"
    )
    (tmp_path / "hpc.yaml").write_text(text)
    ingest(read_cluster(tmp_path / "hpc.yaml"), settings)
    assert job_ids(settings) == ["1"]
    (tmp_path / "hpc.yaml").write_text(text.replace("aware", "naive"))
    result = replay_rejects(read_cluster(tmp_path / "hpc.yaml"), settings)
    assert (result["refused_before"], result["refused"], job_ids(settings)) == (1, 0, ["1", "2"])


def test_another_zone_is_no_fix_but_another_history(tmp_path: Path, settings: Settings) -> None:
    """A job's key holds its submission: every job would stand in the lake a second time."""
    chosen = cluster(tmp_path, LOG)
    ingest(chosen, settings)
    with pytest.raises(HistoryMismatch, match=r"time_zone is Europe/Berlin, the jobs of hpc in .* were read as UTC"):
        replay_rejects(chosen.model_copy(update={"time_zone": "Europe/Berlin"}), settings)
    assert job_ids(settings) == ["1", "2", "3", "4"]


def test_replay_reads_no_further_than_the_lake(tmp_path: Path, settings: Settings) -> None:
    chosen = cluster(tmp_path, LOG)
    ingest(chosen, settings, last=date(2026, 3, 3))
    result = replay_rejects(chosen, settings)
    assert (result["through"], job_ids(settings)) == ("2026-03-03", ["1", "2", "3"])


def refused_log(folder: Path) -> Cluster:
    """A log of which two of six records cannot be read, with a limit of a hundredth."""
    chosen = cluster(folder, LOG)
    file = folder / "hpc.yaml"
    file.write_text(file.read_text().replace("reject_share_at_most: 0.5", "reject_share_at_most: 0.01"))
    return read_cluster(file) if chosen else chosen


def printed_command(text: str, begins: str) -> list[str]:
    """The words of the command that a message prints, without `runcast`."""
    (line,) = re.findall(rf"runcast ({begins}[^`\n.,]*)", " ".join(text.split()))
    return line.split()


def test_a_refused_load_shows_what_it_refused_by_the_command_it_prints(tmp_path: Path, settings: Settings) -> None:
    with pytest.raises(TooManyRejects, match="2 of 6 records were refused") as refused:
        ingest(refused_log(tmp_path), settings)
    assert Lake(settings.lake).as_of_us("hpc") is None
    done = CliRunner().invoke(app, printed_command(str(refused.value), "rejects"), catch_exceptions=False)
    assert done.exit_code == 0
    assert "log.txt:3" in done.stdout
    assert "log.txt:6" in done.stdout
    assert "The latest load was refused for these" in " ".join(done.stdout.split())
    found = find_rejects(read_cluster(tmp_path / "hpc.yaml"), settings, date(2026, 3, 3))
    assert ([row["line"] for row in found["rejects"]], found["by_reason"]) == ([6], {"end_missing": 1})


def test_after_a_fix_the_printed_command_loads_what_was_refused(tmp_path: Path, settings: Settings) -> None:
    chosen = refused_log(tmp_path)
    with pytest.raises(TooManyRejects):
        ingest(chosen, settings)
    shown = CliRunner().invoke(app, ["rejects", "--cluster", "hpc"], catch_exceptions=False).stdout
    (tmp_path / "log.txt").write_text("".join(line for line in LOG if line not in (BAD_TIME, NO_END)))
    done = CliRunner().invoke(app, [*printed_command(shown, "rejects replay"), "--json"], catch_exceptions=False)
    result = json.loads(done.stdout)
    assert (result["refused_before"], result["refused"], result["jobs"], result["through"]) == (2, 0, 4, "2026-03-04")
    assert job_ids(settings) == ["1", "2", "3", "4"]
    assert find_rejects(chosen, settings)["refused_load"] is False, "forgotten: a load has succeeded"


def test_a_refused_load_leaves_the_rejects_of_the_lake_for_later(tmp_path: Path, settings: Settings) -> None:
    ingest(cluster(tmp_path, LOG), settings)
    refused = refused_log(tmp_path)
    with pytest.raises(TooManyRejects):
        ingest(refused, settings)
    assert find_rejects(refused, settings)["refused_load"] is True
    chosen = cluster(tmp_path, LOG)
    ingest(chosen, settings)
    found = find_rejects(chosen, settings)
    assert (found["count"], found["refused_load"]) == (2, False)


def test_the_command_printed_for_a_cluster_that_was_never_loaded_loads_it(tmp_path: Path, settings: Settings) -> None:
    chosen = cluster(tmp_path, LOG)
    for ask in (lambda: find_rejects(chosen, settings), lambda: Lake(settings.lake).read_jobs("hpc")):
        with pytest.raises(LakeError) as never:
            ask()
        assert printed_command(str(never.value), "ingest") == ["ingest", "--cluster", "hpc", "--all"]
    settings.home.mkdir()
    assert CliRunner().invoke(app, printed_command(str(never.value), "ingest"), catch_exceptions=False).exit_code == 0
    assert job_ids(settings) == ["1", "2", "3", "4"]


TABLE_TIMES = [
    ("1709287200", "aware"),
    ("1709287200000", "epoch_s"),
    ("1709287200000000", "epoch_s"),
    ("31.03.2024 10:00:00", "naive"),
    ("13/03/2024 10:00:00", "naive"),
    ("03/13/2024 10:00", "naive"),
    ("2024/03/01 10:00:00", "naive"),
    ("2024-03-01T10:00:00+01:00", "epoch_s"),
]


def table_cluster(folder: Path, when: str, time: str) -> Cluster:
    (folder / "t.csv").write_text("id,when,ran\n" + "".join(f"{n},{when},60\n" for n in range(30)))
    file = folder / "tab.yaml"
    columns = f"{{job_id: id, submit_time: {{column: when, time: {time}}}, runtime_s: ran}}"
    file.write_text(
        f"source:\n  format: table\n  paths: ['{folder}/t.csv']\n  options:\n    start_is_submit: true\n    columns: {columns}\n"
        "time_zone: UTC\n"
    )
    return read_cluster(file)


@pytest.mark.parametrize(("when", "wrong"), TABLE_TIMES, ids=[when for when, _ in TABLE_TIMES])
def test_the_form_of_time_that_a_refusal_names_reads_the_log(tmp_path: Path, settings: Settings, when: str, wrong: str) -> None:
    with pytest.raises(TooManyRejects) as refused:
        ingest(table_cluster(tmp_path, when, wrong), settings)
    (form,) = re.findall(r"`time: ([^`]+)`", str(refused.value))
    assert ingest(table_cluster(tmp_path, when, form), settings).accepted == 30


def test_a_log_whose_states_are_all_unknown_words_stops_and_says_how_to_map_them(tmp_path: Path, settings: Settings) -> None:
    rows = "".join(f"{n},2024-03-0{1 + n % 5}T10:00:00,60,{'KO' if n % 10 == 0 else 'OK'}\n" for n in range(100))
    (tmp_path / "t.csv").write_text("id,when,ran,state\n" + rows)
    file = tmp_path / "tab.yaml"

    def written(state: str) -> Cluster:
        columns = f"{{job_id: id, submit_time: when, runtime_s: ran, state: {state}}}"
        options = f"  options:\n    start_is_submit: true\n    columns: {columns}\n"
        file.write_text(f"source:\n  format: table\n  paths: ['{tmp_path}/t.csv']\n{options}time_zone: UTC\n")
        return read_cluster(file)

    with pytest.raises(
        UnknownStates, match=r"states of 100 of 100 jobs are words that nobody knows: 'OK' 90, 'KO' 10\."
    ) as stopped:
        ingest(written("state"), settings)
    assert Lake(settings.lake).as_of_us("tab") is None
    assert "{column: State, values: {OK: COMPLETED, KO: FAILED}}" in str(stopped.value)
    report = ingest(written("{column: state, values: {OK: COMPLETED, KO: FAILED}}"), settings)
    assert (report.accepted, report.notes.get("unknown_state")) == (100, None)
    states = Lake(settings.lake).read_jobs("tab")["state"].to_pylist()
    assert (states.count("COMPLETED"), states.count("FAILED")) == (90, 10)


@pytest.mark.parametrize(("share", "is_refused"), [(0.4, False), (0.6, True)])
def test_a_column_that_most_jobs_have_and_nothing_can_read_stops_the_load(
    tmp_path: Path, settings: Settings, share: float, is_refused: bool
) -> None:
    rows = "".join(f"{n},2024-03-0{1 + n % 5}T10:00:00,60,{'4G' if n < 100 * share else 4096}\n" for n in range(100))
    (tmp_path / "t.csv").write_text("id,when,ran,mem\n" + rows)
    options = (
        "  options:\n    start_is_submit: true\n    columns: {job_id: id, submit_time: when, runtime_s: ran, mem_mib: mem}\n"
    )
    file = tmp_path / "tab.yaml"
    file.write_text(f"source:\n  format: table\n  paths: ['{tmp_path}/t.csv']\n{options}time_zone: UTC\n")
    if is_refused:
        with pytest.raises(UnreadableColumn, match=r"mem_mib cannot be read in 60 of 100 jobs.*'4G' 60. Try `unit: suffix`"):
            ingest(read_cluster(file), settings)
        assert Lake(settings.lake).as_of_us("tab") is None
    else:
        notes = ingest(read_cluster(file), settings).notes
        assert (notes["unreadable_mem_mib"], notes["unreadable_mem_mib:4G"]) == (40, 40)


def test_a_few_unknown_words_are_noted_by_name(tmp_path: Path, settings: Settings) -> None:
    lines = [HEADER, *(GOOD.format(id=n, day=2) for n in range(30)), GOOD.format(id=99, day=2).replace("COMPLETED", "ODD")]
    notes = ingest(cluster(tmp_path, lines), settings).notes
    assert {name: notes[name] for name in ("unknown_state", "unknown_state:ODD")} == {"unknown_state": 1, "unknown_state:ODD": 1}


@pytest.mark.parametrize("words", [["rejects", "--cluster", "hpc"], ["rejects", "replay", "--cluster", "hpc"]])
def test_a_cluster_that_was_never_loaded_says_so(tmp_path: Path, settings: Settings, words: list[str]) -> None:
    cluster(tmp_path, LOG)
    settings.home.mkdir(exist_ok=True)  # a home of other clusters
    with pytest.raises(LakeError, match="hpc was never loaded"):
        CliRunner().invoke(app, words, catch_exceptions=False)


def test_the_cluster_must_be_named(settings: Settings) -> None:
    done = CliRunner().invoke(app, ["rejects"])
    assert done.exit_code == 2
    assert "name the cluster" in done.output
