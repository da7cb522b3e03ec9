"""Tables in a terminal: everything is there at 80 and at 120 columns, nothing is cut, and no state is told by colour alone."""

import io
import json
import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console, RenderableType

from runcast import night, records
from runcast.cli import _result
from runcast.data.errors import QualityStop
from runcast.data.settings import read_settings
from runcast.front_page import write_front_page
from runcast.scheduler.bundle import Manifest, make_current, write_bundle
from runcast.show import ingest_lines, live_lines, night_rows, stage_line, status_rows, status_table
from runcast.show_clusters import clusters_table
from runcast.show_nights import last_nights, nights_history

LONG = "the export holds no runtime. It has neither Start, End nor Elapsed, and CPUTimeRAW is elapsed time times the CPUs"


def shown(table: RenderableType, columns: int) -> str:
    sink = io.StringIO()
    Console(file=sink, width=columns, color_system=None).print(table)
    return sink.getvalue()


def row(**changed: Any) -> dict[str, Any]:
    """The runcast model of a night, as status_rows gives it."""
    return {
        "cluster": "demo_slurm",
        "day": "2026-06-30",
        "model": "runcast",
        "jobs": 123_456,
        "all": {"error_factor": 12.34},
        "recurring": {"error_factor": 11.5},
        "best_baseline": "nearest_median",
        "best_baseline_value": 13.5,
        "coverage": {"0.089": 1.0, "0.108": 0.406},
        "verdict": "passed",
        "version": "12",
        "champion": True,
        "serves": "runcast-2026-06-30-b3b84288",
        "bundle": "/srv/runcast/var/bundles/demo_slurm/20260701T033538Z-runcast-2026-06-30-b3b84288",
        "failure": None,
        **changed,
    }


STOPPED = row(model=None, cluster="mars", verdict="failed at ingest: no log", failure="failed at ingest: no log")
KILLED = row(model=None, cluster="io", verdict="not finished: evaluate has not ended", failure=None)


@pytest.mark.parametrize("columns", [80, 120])
@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([row()], ["demo_slurm", "123456", "×12.34", "×11.50", "×13.50", "100.0 %", "40.6 %", "champion", "12"]),
        ([row(champion=False)], ["passed"]),
        ([row(champion=False, verdict="not passed: worse")], ["not passed", "demo_slurm, runcast: not passed: worse"]),
        (
            [STOPPED, KILLED],
            ["failed", "mars, night of 2026-06-30: failed at ingest: no log", "unfinished", "io, night of 2026-06-30"],
        ),
        (
            [row(failure="failed at export: disk full")],
            ["demo_slurm, night of 2026-06-30: failed at export: disk full", "×12.34"],
        ),
        ([row(cluster="a_cluster_of_a_very_long_name_indeed")], ["×12.34", "champion"]),
        ([row(cluster="[red]x[/]")], ["[red]x[/]"]),
    ],
    ids=["champion", "passed", "not passed", "no night", "failed late", "long name", "markup"],
)
def test_status_fits_and_cuts_nothing(rows: list[dict[str, Any]], said: list[str], columns: int) -> None:
    text = shown(status_table(rows), columns)
    assert max(map(len, text.splitlines())) <= columns
    assert "…" not in text
    assert [one for one in said if one not in text] == []


@pytest.mark.parametrize("columns", [80, 120])
def test_list_of_clusters_fits_and_says_what_is_wrong_below(columns: int, tmp_path: Path) -> None:
    rows = [
        {"name": name, "format": of, "time_zone": zone, "schedule": schedule, "problem": problem, "refused": refused}
        for name, of, zone, schedule, problem, refused in (
            ("phillips", "slurm_sacct", "America/Los_Angeles", "30 2 * * *", None, None),
            ("slurm_kabre", "slurm_sacct", "America/Costa_Rica", None, LONG, LONG),
            ("[b]odd", "", "", None, "odd.yaml:3: unknown key", None),
        )
    ]
    text = shown(clusters_table(rows, read_settings({"RUNCAST_HOME": str(tmp_path)})), columns)
    lines = text.splitlines()
    assert max(map(len, lines)) <= columns
    assert "…" not in text
    assert lines[1].split() == ["phillips", "slurm_sacct", "America/Los_Angeles", "30", "2", "*", "*", "*", "log", "not", "read"]
    assert lines[2].split()[-1] == "refused"
    assert lines[3].split() == ["[b]odd", "by", "hand", "problem"]
    assert "3 cluster files in" in text
    assert f"slurm_kabre: {LONG}" in " ".join(text.split())


REPORT = {"jobs": 9, "data": {}, "drift": [], "predictors": {}, "verdicts": {}, "coverage": {}}


@pytest.mark.parametrize(
    ("champions", "is_champion"),
    [({"cart": "2"}, True), ({"cart": "1"}, False), ({"gbdt": "2"}, False), ({}, False)],
    ids=["the night's own", "one of a night before", "of another kind", "none"],
)
def test_champion_is_said_of_the_version_beside_it(tmp_path: Path, champions: dict[str, str], is_champion: bool) -> None:
    settings, day = read_settings({"RUNCAST_HOME": str(tmp_path)}), "2026-06-30"
    for stage, record in {"evaluate": {}, "register": {"versions": {"cart": "2"}}, "promote": {"champions": champions}}.items():
        records.keep(settings, "venus", day, stage, record)
    report = settings.reports / "venus" / day / "report.json"
    report.parent.mkdir(parents=True)
    report.write_text(json.dumps(REPORT))
    cart = next(row for row in night_rows(settings, "venus", day) if row["model"] == "cart")
    assert (cart["version"], cart["champion"]) == ("2", is_champion)


@pytest.mark.parametrize(
    ("stage", "has_verdicts"),
    [("ingest", False), ("quality", False), ("train_gbdt", False), ("evaluate", False), ("register", True), ("drift", True)],
)
def test_a_rerun_that_failed_shows_no_verdict_of_the_run_before(tmp_path: Path, stage: str, has_verdicts: bool) -> None:
    """Every stage of a night ended once; then it is run again and fails at `stage`."""
    settings, day = read_settings({"RUNCAST_HOME": str(tmp_path)}), "2026-06-30"
    for one in night.STAGES:
        records.keep(settings, "venus", day, one.name, {"kind": "cart"})
    report = settings.reports / "venus" / day / "report.json"
    report.parent.mkdir(parents=True)
    report.write_text(json.dumps({**REPORT, "verdicts": {"cart": {"text": "passed"}}}))
    records.keep_failure(settings, "venus", day, stage, ValueError("stopped"), datetime(2026, 7, 1, tzinfo=UTC))
    rows = night_rows(settings, "venus", day)
    assert [row["model"] for row in rows] == (["cart", "gbdt", "runcast"] if has_verdicts else [None])
    assert {row["failure"] for row in rows} == {f"failed at {stage}: stopped"}
    report.with_suffix(".html").touch()
    page = write_front_page(settings, {one.name: one.title for one in night.STAGES}, datetime(2026, 7, 1, tzinfo=UTC)).read_text()
    assert ("venus/2026-06-30/report.html" in page) is has_verdicts
    records.keep(settings, "venus", day, stage, {"kind": "cart"})
    after = [None] if stage == "ingest" else ["cart", "gbdt", "runcast"]  # a new load begins the next run: nothing is judged yet
    assert [row["model"] for row in night_rows(settings, "venus", day)] == after, "the failure is over"


@pytest.mark.parametrize("reached", ["ingest", "quality", "train_gbdt"])
def test_a_rerun_that_was_killed_shows_no_verdict_of_the_run_before(tmp_path: Path, reached: str) -> None:
    """Every stage of a night ended once; its second run is killed after `reached`, and leaves no failure."""
    settings, day = read_settings({"RUNCAST_HOME": str(tmp_path)}), "2026-06-30"
    names = [one.name for one in night.STAGES]
    for name in (*names, *names[: names.index(reached) + 1]):
        records.keep(settings, "venus", day, name, {"kind": "cart"})
    report = settings.reports / "venus" / day / "report.json"
    report.parent.mkdir(parents=True)
    report.write_text(json.dumps({**REPORT, "verdicts": {"cart": {"text": "passed"}}}))
    report.with_suffix(".html").touch()
    missing = names[names.index(reached) + 1]
    assert [row["verdict"] for row in night_rows(settings, "venus", day)] == [f"not finished: {missing} has not ended"]
    (row,) = last_nights(settings, ["venus"], 1)
    assert (row["serves"], row["error_factor"]) == (None, None)
    page = write_front_page(settings, {one.name: one.title for one in night.STAGES}, datetime(2026, 7, 1, tzinfo=UTC)).read_text()
    assert "venus/2026-06-30/report.html" not in page
    for name in names:
        records.keep(settings, "venus", day, name, {"kind": "cart"})
    assert [row["model"] for row in night_rows(settings, "venus", day)] == ["cart", "gbdt", "runcast"]


def test_the_columns_of_coverage_are_the_targets_of_the_cluster_files() -> None:
    own, usual = row(cluster="own", coverage={"0.5": 0.75, "0.1": 0.25}), row()
    text = shown(status_table([own]), 120)
    assert text.splitlines()[0].split()[6:] == ["10", "%", "50", "%", "gate", "v"]
    assert "10 %, 50 %: share of jobs" in " ".join(text.split())
    assert "×13.50 25.0 % 75.0 %" in " ".join(text.split())
    assert shown(status_table([own, usual]), 120).splitlines()[0].split()[6:-2:2] == ["8.9", "10", "10.8", "50"]


def test_a_load_tells_files_from_days() -> None:
    """Two days with jobs, the open jobs and the rejects are four files: not `4 of 2 partitions`."""
    report = {
        "rows_in": 9, "accepted": 8, "rejected": 1, "skipped": {}, "ended": 7, "open": 1, "duplicates": 0, "written_count": 4,
        "partitions": 2, "rejected_by_reason": {}, "notes": {},
    }  # fmt: skip
    assert "4 files of the lake written, which now holds 2 days with ended jobs" in ingest_lines(report)


def test_status_says_by_which_number_the_model_serves_and_what_p90_cannot_cover() -> None:
    chosen = row(
        choice="runcast serves: lowest error factor of three champions, ×1.80",
        uncovered="p90 can cover at most 74.7 % of the jobs.",
    )
    text = " ".join(shown(status_table([chosen]), 120).split())
    assert (
        "serves (/srv/runcast/var/bundles/demo_slurm/20260701T033538Z-runcast-2026-06-30-b3b84288): lowest error factor of three"
        in text
    )
    assert "demo_slurm: p90 can cover at most 74.7 % of the jobs." in text


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"\xff\xfe", b"[" * 100_000, b'{"all": {"cart": 3}, "stage": 3, "kind": "", "error": "", "at": ""}'],
    ids=["empty", "cut", "list", "bytes", "deep", "wrong types"],
)
@pytest.mark.parametrize("stage", ["evaluate", "failure"])
def test_a_damaged_record_is_told_of_and_hides_no_other_cluster(tmp_path: Path, stage: str, content: bytes) -> None:
    settings, day = read_settings({"RUNCAST_HOME": str(tmp_path)}), "2026-06-30"
    for name in ("mars", "venus"):
        records.keep(settings, name, day, "ingest", {})
    damaged = records.record_path(settings, "mars", day, stage)
    damaged.write_bytes(content)
    mars, venus = status_rows(settings, ["mars", "venus"])
    assert mars["failure"] == f"failed at {stage}: {damaged} is damaged. Delete it and run the night of {day} again."
    assert venus["failure"] is None


@pytest.mark.parametrize(
    "content", [None, b"", b'{"jobs": 9, "pre', b"[]", b"{}"], ids=["gone", "empty", "cut", "list", "nothing in it"]
)
def test_a_report_that_cannot_be_read_is_told_in_its_row_and_hides_no_other_cluster(
    tmp_path: Path, content: bytes | None
) -> None:
    settings, day = read_settings({"RUNCAST_HOME": str(tmp_path)}), "2026-06-30"
    for name in ("mars", "venus"):
        for stage in ("ingest", "evaluate"):
            records.keep(settings, name, day, stage, {})
        report = settings.reports / name / day / "report.json"
        report.parent.mkdir(parents=True)
        report.write_text(json.dumps(REPORT))
    told = settings.reports / "mars" / day / "report.json"
    if content is None:
        told.unlink()
    else:
        told.write_bytes(content)
    rows = status_rows(settings, ["mars", "venus"])
    assert [(row["cluster"], row["model"]) for row in rows] == [
        ("mars", None),
        *(("venus", kind) for kind in ("cart", "gbdt", "runcast")),
    ]
    assert str(told) in rows[0]["failure"]
    assert "runcast evaluate --cluster mars --date 2026-06-30" in rows[0]["failure"]
    assert f"mars, night of {day}: " in shown(status_table(rows), 120)


@pytest.mark.parametrize("content", [b"", b"[1]", b"{}", b'{"cluster": "venus", "all": 3}', b"[" * 100_000])
def test_a_damaged_record_of_live_accuracy_is_told(tmp_path: Path, content: bytes) -> None:
    settings = read_settings({"RUNCAST_HOME": str(tmp_path)})
    records.keep(settings, "venus", "2026-06-30", "ingest", {})
    (settings.home / "live" / "venus").mkdir(parents=True)
    (settings.home / "live" / "venus" / "2026-06-29.json").write_bytes(content)
    text = " ".join(shown(status_table(status_rows(settings, ["venus"])), 200).split())
    assert "2026-06-29.json is damaged. Look again: runcast live --cluster venus --date 2026-06-29" in text


@pytest.mark.parametrize(
    ("kept", "is_night"),
    [
        ({"quality": {}}, False),
        ({"features": {}, "train_cart": {}}, False),
        ({"failure": {"stage": "quality", "kind": "QualityStop", "error": "no", "at": "now"}}, False),
        ({"ingest": {}}, True),
        ({"failure": {"stage": "ingest", "kind": "SourceError", "error": "no", "at": "now"}}, True),
        ({"ingest": {}, "quality": {}}, True),
    ],
    ids=["quality by hand", "stages by hand", "a check by hand that stopped", "begun", "failed at once", "under way"],
)
def test_a_stage_run_by_hand_on_another_day_is_no_unfinished_night(tmp_path: Path, kept: dict[str, Any], is_night: bool) -> None:
    settings = read_settings({"RUNCAST_HOME": str(tmp_path)})
    records.keep(settings, "venus", "2026-06-29", "ingest", {})
    for stage, record in kept.items():
        records.keep(settings, "venus", "2026-06-30", stage, record)
    for stray in ("lost+found", "2026-13-99"):
        (settings.home / "nights" / "venus" / stray).mkdir()
    (settings.home / "nights" / "venus" / "2026-07-01").write_text("a file")
    assert records.nights(settings, "venus") == ["2026-06-29", *(["2026-06-30"] if is_night else [])]
    assert status_rows(settings, ["venus"])[0]["day"] == ("2026-06-30" if is_night else "2026-06-29")


def bundle_of(root: Path, version: str, registered: str | None) -> str:
    """Write a bundle that holds nothing but its manifest; return its folder's name."""
    content = root.parent / f"content-{root.name}-{version}"
    content.mkdir(parents=True)
    at = "2026-06-30T00:00:00Z"
    return write_bundle(
        root,
        content,
        Manifest(
            1, "venus", "cart", version, registered, "f", at, at, at, "calendar", "UTC", "hard", gpus_tracked=True, files=()
        ),
    ).name


@pytest.mark.parametrize(
    ("serves", "is_champion", "replaced_by"),
    [("runcast-venus-cart/2", True, None), ("runcast-venus-cart/1", False, "runcast-venus-cart/1"), (None, False, "other")],
    ids=["as the night left it", "rolled back", "a baseline since"],
)
def test_a_version_that_was_rolled_back_is_no_champion(
    tmp_path: Path, serves: str | None, is_champion: bool, replaced_by: str | None
) -> None:
    settings, day = read_settings({"RUNCAST_HOME": str(tmp_path)}), "2026-06-30"
    kept = {
        "ingest": {},
        "evaluate": {},
        "register": {"versions": {"cart": "2", "gbdt": "2"}},
        "promote": {"champions": {"cart": "2", "gbdt": "2"}},
        "export": {"kind": "cart", "registered": "runcast-venus-cart/2", "model_version": "cart-2"},
    }
    for stage, record in kept.items():
        records.keep(settings, "venus", day, stage, record)
    (settings.reports / "venus" / day).mkdir(parents=True)
    (settings.reports / "venus" / day / "report.json").write_text(json.dumps(REPORT))
    records.keep(settings, "mars", day, "ingest", {})  # of mars nothing is registered yet: its night ended before
    records.keep(settings, "mars", day, "evaluate", {})
    shutil.copytree(settings.reports / "venus", settings.reports / "mars")
    for name in ("venus", "mars"):
        root = settings.bundles / name
        make_current(root, bundle_of(root, "cart-2" if is_champion else "other", serves))
    assert {row["replaced_by"] for row in status_rows(settings, ["mars"])} == {None}
    rows = {row["model"]: row for row in status_rows(settings, ["venus"])}
    assert (rows["cart"]["champion"], rows["cart"]["replaced_by"]) == (is_champion, replaced_by)
    assert (rows["gbdt"]["champion"], rows["gbdt"]["replaced_by"]) == (True, None), "the champion of another kind stands"
    text = shown(status_table(list(rows.values())), 80)
    assert max(map(len, text.splitlines())) <= 80
    assert ("replaced" in text) is not is_champion


def test_what_serves_is_said_beside_a_night_that_failed(tmp_path: Path) -> None:
    settings = read_settings({"RUNCAST_HOME": str(tmp_path)})
    for name in ("mars", "venus"):
        records.keep(settings, name, "2026-06-30", "ingest", {})
        records.keep_failure(
            settings, name, "2026-06-30", "quality", ValueError("half the rows"), datetime(2026, 7, 1, tzinfo=UTC)
        )
    root = settings.bundles / "venus"
    make_current(root, bundle_of(root, "cart-2026-06-29", "runcast-venus-cart/2"))
    lines = shown(status_table(status_rows(settings, ["mars", "venus"])), 200).splitlines()
    assert "mars: nothing serves (no bundle)" in lines
    assert any(line.startswith("venus: cart-2026-06-29 serves (") for line in lines)


@pytest.mark.parametrize(
    ("latest", "loaded"),
    [({"ingest": {}}, "2026-06-30"), ({"failure": {"stage": "ingest", "kind": "SourceError", "error": "", "at": ""}}, "2026-06-29"),
     ({"ingest": {}, "failure": {"stage": "quality", "kind": "QualityStop", "error": "", "at": ""}}, "2026-06-30"), ({}, "2026-06-29")],
    ids=["loaded", "its log was missing", "stopped by a check", "none"],
)  # fmt: skip
def test_a_rollback_knows_the_history_up_to_the_latest_day_that_was_loaded(
    tmp_path: Path, latest: dict[str, Any], loaded: str
) -> None:
    """A bundle dated later would take events of a day that it does not know for known."""
    settings = read_settings({"RUNCAST_HOME": str(tmp_path)})
    assert records.latest_loaded(settings, "venus") is None
    records.keep(settings, "venus", "2026-06-29", "ingest", {})
    for stage, record in latest.items():
        records.keep(settings, "venus", "2026-06-30", stage, record)
    assert records.latest_loaded(settings, "venus") == loaded


def kept_nights(home: Path) -> None:
    """Three nights of one cluster as their stages keep them: a model that serves, a baseline with a warning, one that a check stopped."""
    settings = read_settings({"RUNCAST_HOME": str(home)})
    warn = {"check": "mem_mib_moved", "severity": "warn", "expected": "as before", "found": "0.7 of jobs", "job_keys": []}

    def night_of(day: str, kind: str, error: float, p90: float, warns: list[dict[str, Any]]) -> None:
        numbers = {kind: {"error_factor": error, "p90_coverage": p90}, "last_two": {"error_factor": 3.2}}
        numbers = {"nearest_median": {"error_factor": 3.0, "p90_coverage": p90}, **numbers}
        whole = {
            stage: {"stage": stage}
            for stage in ("features", "train_cart", "train_gbdt", "train_runcast", "register", "promote", "drift")
        }
        whole |= {
            "ingest": {"stage": "ingest", "rows_in": 10, "rejected": 0},
            "quality": {
                "stage": "quality",
                "warns": warns,
                "broken": [],
                "stops": [],
                "warns_count": len(warns),
                "broken_count": 0,
            },
            "evaluate": {"stage": "evaluate", "all": numbers, "jobs": 500},
            "export": {
                "kind": kind,
                "model_version": f"{kind}-{day}-b3b84288",
                "bundle": "x",
                "valid_until": f"{day[:8]}20T02:30:00+00:00",
            },
        }
        for stage in night.STAGES:
            records.keep(settings, "hpc", day, stage.name, whole[stage.name])

    night_of("2026-01-07", "runcast", 2.5, 0.91, [])
    night_of("2026-01-08", "nearest_median", 3.0, 0.88, [warn])
    records.keep(settings, "hpc", "2026-01-09", "ingest", {"stage": "ingest", "rows_in": 10, "rejected": 0})
    records.keep_failure(
        settings, "hpc", "2026-01-09", "quality", QualityStop("known_queues: expected queues seen before", ("known_queues",)),
        datetime(2026, 1, 10, tzinfo=UTC),
    )  # fmt: skip


def test_the_last_nights_say_error_baseline_p90_warnings_what_served_and_until_when(tmp_path: Path) -> None:
    kept_nights(tmp_path)
    settings = read_settings({"RUNCAST_HOME": str(tmp_path)})
    warning = "mem_mib_moved: expected as before; found 0.7 of jobs"
    nights = last_nights(settings, ["hpc"], 14)
    columns = ("day", "outcome", "error_factor", "best_baseline_factor", "p90_coverage", "warnings", "serves")
    assert [tuple(one[column] for column in columns) for one in nights] == [
        ("2026-01-07", "model", 2.5, 3.0, 0.91, [], "runcast-2026-01-07-b3b84288"),
        ("2026-01-08", "baseline", 3.0, 3.0, 0.88, [warning], "nearest_median-2026-01-08-b3b84288"),
        ("2026-01-09", "stopped", None, None, None, [], None),
    ]
    assert nights[0]["valid_until"] == "2026-01-20T02:30:00+00:00"
    assert [one["day"] for one in last_nights(settings, ["hpc"], 2)] == ["2026-01-08", "2026-01-09"]
    text = shown(nights_history(nights), 90)
    assert ["2026-01-07", "×2.50", "×3.00", "91.0", "%", "–", "runcast-2026-01-07-b3b84288", "2026-01-20"] in [
        line.split() for line in text.splitlines()
    ]
    assert "stopped: quality" in text
    assert f"hpc, 2026-01-08: {warning}" in text
    assert "hpc, 2026-01-09: failed at quality: known_queues: expected queues seen before" in text


def test_a_night_names_its_warnings_as_it_runs_and_in_the_table() -> None:
    warn = {"check": "mem_mib_moved", "severity": "warn", "expected": "as before", "found": "0.7 of \x1b[2Jjobs", "job_keys": []}
    record = {"stage": "quality", "rows": 5, "checks": 9, "warns": [warn], "warns_count": 1, "broken": []}
    assert stage_line(record).splitlines() == [
        "  quality: rows 5, checks 9, warns_count 1",
        "    warning: mem_mib_moved: expected as before; found 0.7 of \\x1b[2Jjobs",
    ]
    named = "mem_mib_moved: expected as before; found 0.7 of jobs"
    text = shown(status_table([row(warnings=[named]), row(model="cart", warnings=[named])]), 120)
    assert text.count(f"demo_slurm, warning: {named}") == 1


#: Closes a tag of rich's that was never opened, clears the screen, turns the line round.
HOSTILE = "v[/x][bold]" + chr(27) + "[2J" + chr(0x202E)


@pytest.mark.attack
def test_a_version_that_the_service_wrote_is_shown_and_not_acted_on(capsys: pytest.CaptureFixture[str]) -> None:
    """The service's account writes the lines that live accuracy is read from; another account looks at it."""
    numbers = {"jobs": 1, "error_factor": 1.5, "within_25": 1.0, "p90_coverage": 1.0}
    record = {
        "cluster": "venus", "day": "2026-06-29", "jobs": 2, "answered": 2, "unanswered_share": 0.0, "late": 0, "before_log": 0,
        "all": numbers, "by_model_version": {HOSTILE: numbers, "other": numbers}, "served": {"rejected": 0},
    }  # fmt: skip
    _result(record, False, live_lines(record))
    said = capsys.readouterr().out
    assert "v[/x][bold]\\x1b[2J\\u202e: 1 forecasts" in said
    assert all(c.isprintable() or c == "\n" for c in said)


@pytest.mark.attack
def test_status_acts_on_no_name_of_a_group_that_drifts() -> None:
    said = shown(status_table([row(drifting=[f"group {HOSTILE} is new"])]), 120)
    assert "v[/x][bold]" in said
    assert all(c.isprintable() or c == "\n" for c in said)
