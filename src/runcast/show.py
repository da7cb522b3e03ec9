"""What the terminal shows: tables and lines made from the records and reports that the stages keep. Reads them, computes nothing."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Group
from rich.padding import Padding
from rich.table import Column, Table
from rich.text import Text

from runcast import night, records
from runcast.data.settings import Settings
from runcast.evaluation.errors import ReportDamaged, ReportMissing
from runcast.evaluation.metrics import finite
from runcast.evaluation.report_file import read_document
from runcast.registry.slug import model_name
from runcast.scheduler.bundle import read_manifest, resolve
from runcast.scheduler.errors import BundleError, BundleMissing

Record = Mapping[str, Any]


def plain(text: str, keep: str = "") -> str:
    """Return text that a terminal only shows: what it could act on (escapes, line ends, changes of direction) is written out.

    >>> print(plain("a" + chr(27) + "[31m" + chr(0x202e)))
    a\\x1b[31m\\u202e
    """
    return "".join(c if c.isprintable() or c in keep else c.encode("unicode_escape").decode() for c in text)


def percent(value: float | None) -> str:
    """Format a share; a dash where it is not known."""
    number = finite(value)
    return "–" if number is None else f"{100 * number:.1f} %"


def factor(value: float | None) -> str:
    """Format an error factor; a dash where it is not known."""
    number = finite(value)
    return "–" if number is None else f"×{number:.2f}"


def folders(settings: Settings) -> str:
    """The folders of the cluster files, as a message names them."""
    return ", ".join(map(str, settings.clusters))


def plain_table(*titles: str, right: Sequence[str] = ()) -> Table:
    """Return a table without a frame whose cells are never cut: the first column folds where the terminal is too narrow."""
    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, header_style="bold underline")
    for at, title in enumerate(titles):
        table.add_column(title, justify="right" if title in right else "left", no_wrap=at > 0, overflow="fold")
    return table


def hanging(head: str, text: str) -> Padding:
    """Return a paragraph whose name stands out and whose lines after the first are indented."""
    return Padding(Text.assemble((head, "bold"), ": ", text), (0, 0, 0, 2), expand=False)


def demo_lines(logs: Sequence[Any]) -> list[str]:
    """One line per demo log: its format, size and place."""
    return [
        f"{log.cluster}: {log.jobs} jobs, {log.first_day} to {log.last_day}, as {log.format} "
        f"({log.rejected} bad rows on purpose) in {log.folder}"
        for log in logs
    ]


def ingest_lines(report: Record) -> str:
    """What a load did, in a few lines."""
    lines = [
        f"{report['rows_in']} rows in = {report['accepted']} accepted + {report['rejected']} rejected + "
        f"{sum(report['skipped'].values())} skipped",
        f"{report['ended']} ended and {report['open']} open jobs kept, {report['duplicates']} duplicates merged; "
        f"{report['written_count']} {'file' if report['written_count'] == 1 else 'files'} of the lake written, which now holds "
        f"{report['partitions']} {'day' if report['partitions'] == 1 else 'days'} with ended jobs",
    ]
    for title, counts in (("rejected", report["rejected_by_reason"]), ("skipped", report["skipped"]), ("noted", report["notes"])):
        if counts:
            lines.append(f"{title}: " + ", ".join(f"{name} {count}" for name, count in counts.items()))
    return "\n".join(lines)


def rejects_table(found: Record, limit: int) -> Group:
    """The refused records, raw text made plain, the first `limit` of them (0: all); counts by reason below."""
    raw = Column("raw", overflow="fold")
    table = Table("where", "day", "reason", raw, box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold underline")
    shown = found["rejects"][: limit or None]
    for row in shown:
        reason = row["reason"] + (f" ({row['detail']})" if row["detail"] else "")
        cells = (f"{row['file']}:{row['line']}", row["day"] or "–", reason, row["raw"])
        table.add_row(*[Text(plain(cell)) for cell in cells])
    lines = [f"{found['count']} refused" + (f" beside jobs of {found['day']}" if found["day"] else ""), reasons(found)]
    if len(shown) < found["count"]:
        more = ": --limit 0, or --json" if len(shown) < len(found["rejects"]) else ""
        lines.insert(0, f"… and {found['count'] - len(shown)} more{more}")
    if found["refused_load"]:
        lines.append("The latest load was refused for these: nothing of it is in the lake.")
    if found["count"]:
        lines.append("Mend the log or its cluster file, then: runcast rejects replay --cluster " + found["cluster"])
    return Group(*([table] if shown else []), *[Text(line) for line in lines if line])


def replay_lines(result: Record) -> str:
    """What reading the log again changed."""
    return (
        f"{result['jobs'] - result['jobs_before']:+d} jobs in the lake (now {result['jobs']}), up to {result['through']}\n"
        f"{result['refused']} records are refused, {result['refused_before']} were"
        + (f": {reasons(result)}" if result["refused"] else "")
    )


def reasons(found: Record) -> str:
    return ", ".join(f"{reason} {count}" for reason, count in found["by_reason"].items())


def read_report(settings: Settings, cluster_name: str, day: str) -> dict[str, Any]:
    """Return the report of one night as it was written; raises ReportMissing, ReportDamaged."""
    return read_document(report_path(settings, cluster_name, day).with_suffix(".json"))


def report_path(settings: Settings, cluster_name: str, day: str) -> Path:
    return settings.reports / cluster_name / day / "report.html"


def report_table(report: Record) -> Table:
    """One row per predictor: its errors on all and on recurring jobs, and the coverage at each target."""
    targets = sorted({target for row in report["coverage"].values() for target in row})
    table = Table(
        "predictor",
        "MdAPE",
        "within 25 %",
        "factor",
        "MdAPE recurring",
        "p90 covers",
        *[f"coverage at {percent(float(target))}" for target in targets],
        title=f"{report['cluster']}: {report['jobs']} test jobs",
    )
    for name, slices in report["predictors"].items():
        everything, recurring = slices["all"], slices.get("recurring", {})
        table.add_row(
            name,
            percent(everything.get("mdape")),
            percent(everything.get("within_25")),
            factor(everything.get("error_factor")),
            percent(recurring.get("mdape")),
            percent(everything.get("p90_coverage")),
            *[percent(report["coverage"][name].get(target)) for target in targets],
        )
    return table


def worth_table(result: Record) -> Table:
    """One row per policy: mean times in minutes, the share of the oracle's gain over FIFO, and who pays."""
    dropped = ", ".join(f"{count} {why}" for why, count in result["dropped"].items() if count)
    title = f"{result['cluster']}: {result['jobs']} jobs on {result['capacity']} {result['unit']}, load {percent(result['offered_load'])}"
    table = Table(
        "policy",
        Column("plans", no_wrap=True),
        "JCT min",
        "wait min",
        "slowdown",
        "of oracle's gain",
        f"worst {result['payer'] or 'user'} loses min",
        "who lose",
        title=title + (f" (dropped: {dropped})" if dropped else ""),
    )
    for row in result["policies"]:
        worst_s = row["worst_loss_s"]
        table.add_row(
            row["policy"],
            row["plans"],
            f"{row['mean_completion_s'] / 60:.1f}",
            f"{row['mean_wait_s'] / 60:.1f}",
            f"{row['mean_bounded_slowdown']:.1f}",
            percent(row["share_of_oracle_gain"]),
            "–" if worst_s is None else f"{worst_s / 60:.1f} ({row['worst_jobs']} jobs)",
            percent(row["losing_share"]),
        )
    return table


def status_rows(settings: Settings, names: Sequence[str]) -> list[dict[str, Any]]:
    """Return the latest night of each cluster as plain values, with the latest live accuracy and the bundle that serves now.

    A rollback, or a night caught up, changes the bundle after the night: the version that served is `replaced_by` another then.
    """
    return [
        {**_as_it_serves(row, _serving(settings, name)), "live": latest_live(settings, name)}
        for name in names
        if (days := records.nights(settings, name))
        for row in night_rows(settings, name, days[-1])
    ]


def _as_it_serves(row: Record, serving: Record) -> dict[str, Any]:
    """Return the row of a night's model with what serves now."""
    if row["model"] is None:
        return {**row, **serving}
    did_serve = row["label"] is not None and row["label"] == row["registered"]
    is_replaced = did_serve and serving["serves"] is not None and serving["registered"] != row["label"]
    replaced_by = (serving["registered"] or serving["serves"]) if is_replaced else None
    choice = row["choice"] if row["registered"] == serving["registered"] else None
    return {**row, **serving, "champion": row["champion"] and not is_replaced, "replaced_by": replaced_by, "choice": choice}


def latest_live(settings: Settings, name: str) -> Record | None:
    """Return the latest day's live accuracy of a cluster without its parts by version and source; None where there is none.

    Of a record that is damaged, `damaged` says so in its stead.
    """
    path = max((settings.home / "live" / name).glob("*.json"), default=None)
    if path is None:
        return None
    try:
        record: dict[str, Any] = json.loads(path.read_bytes())
        live_line(record)
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return {"damaged": f"{path} is damaged. Look again: runcast live --cluster {name} --date {path.stem}"}
    return {key: value for key, value in record.items() if key not in ("by_model_version", "by_source")}


def live_lines(record: Record) -> str:
    """Say how right the served forecasts of a day were, by model version where there were several."""
    served = record["served"]
    lines = [live_line(record)]
    if len(record["by_model_version"]) > 1:
        lines += [f"  {name}: {_numbers(numbers)}" for name, numbers in record["by_model_version"].items()]
    if record["late"] or record["before_log"]:
        lines.append(
            f"  {record['late']} had a forecast only after they had ended, {record['before_log']} came before the service kept forecasts"
        )
    if served["rejected"]:
        reasons = ", ".join(f"{reason} {count}" for reason, count in served["rejected_by_reason"].items())
        lines.append(
            f"  {served['rejected']} of {served['lines']} lines refused: {reasons}; the first is {served['first_reject']}"
        )
    return "\n".join(lines)


def live_line(record: Record) -> str:
    """Say the live accuracy of a day in one line."""
    if "damaged" in record:
        return str(record["damaged"])
    ended = f"{record['cluster']}, jobs that ended on {record['day']}: {record['jobs']}"
    told = f"{ended}, {percent(record['unanswered_share'])} without a forecast in time"
    return f"{told}; {_numbers(record['all'])}" if record["answered"] else told


def _numbers(numbers: Record) -> str:
    return (
        f"{numbers['jobs']} forecasts, factor {factor(numbers['error_factor'])}, within 25 % {percent(numbers['within_25'])}, "
        f"p90 covers {percent(numbers['p90_coverage'])}"
    )


def rollback_lines(record: Record) -> str:
    """Say what a rollback did, or would do, and what comes next."""
    if record["is_dry"]:
        return f"would serve: {record['champion']}, of the night of {record['night']}, in place of {record['left']}; nothing was changed"
    return (
        f"serves now: {record['champion']}, of the night of {record['night']} ({record['bundle']})\n"
        f"left: {record['left']}, which does not come back. The next night trains and judges as always, and its model serves if it passes; "
        "pause the nights to stay here."
    )


def prune_lines(record: Record) -> str:
    """Say what retention deleted, or would."""
    done = "would go" if record["is_dry"] else "deleted"
    mib = record["bytes"] / 2**20
    lines = [
        f"{record['cluster']}: {len(record['versions'])} versions, {record['runs']} runs and {len(record['folders'])} folders or files "
        f"({mib:.1f} MiB) {done}; {len(record['kept'])} old versions stay, for an alias or a rollback names them"
    ]
    return "\n".join([*lines, *(f"  {name}" for name in (*record["versions"], *record["folders"]))])


def _serving(settings: Settings, name: str) -> dict[str, Any]:
    """Return what serves now: the model, its version in the registry and its bundle, None where nothing does; why, where it is damaged."""
    try:
        bundle = resolve(settings.bundles / name)
        manifest = read_manifest(bundle)
    except BundleMissing:
        return {"serves": None, "registered": None, "bundle": None}
    except BundleError as error:
        return {"serves": None, "registered": None, "bundle": str(error)}
    return {"serves": manifest.model_version, "registered": manifest.registered, "bundle": str(bundle)}


def night_rows(settings: Settings, name: str, day: str) -> list[dict[str, Any]]:
    """Return one row per model of a night: errors beside the best baseline, coverage, verdict, version, bundle, and what failed."""
    failed = records.read_failure(settings, name, day)
    order = [stage.name for stage in night.STAGES]
    stages = records.of_latest_run(records.read_night(settings, name, day), failed, order)
    missing = next((stage.name for stage in night.STAGES if stage.name not in stages), None)
    failure = None if failed is None else f"failed at {failed['stage']}: {failed['error']}"
    if "evaluate" not in stages:
        why = failure or f"not finished: {missing} has not ended"
        return [{"cluster": name, "day": day, "model": None, "verdict": why, "failure": failure}]
    try:
        report = read_report(settings, name, day)
    except (ReportMissing, ReportDamaged) as error:
        return [{"cluster": name, "day": day, "model": None, "verdict": str(error), "failure": failure or str(error)}]
    rows = []
    for kind in night.MODEL_KINDS:
        slices = report["predictors"].get(kind)
        verdict = report["verdicts"].get(kind, {})
        version = stages.get("register", {}).get("versions", {}).get(kind)
        rows.append(
            {
                "cluster": name,
                "day": day,
                "model": kind,
                "jobs": report["jobs"],
                "all": slices["all"] if slices else None,
                "recurring": slices.get("recurring") if slices else None,
                "best_baseline": verdict.get("best_baseline"),
                "best_baseline_value": verdict.get("best_baseline_value"),
                "coverage": report["coverage"].get(kind, {}),
                "uncovered": report.get("limits", {}).get("uncovered"),
                "verdict": verdict.get("text", ""),
                "version": version,
                "label": None if version is None else f"{model_name(name, kind)}/{version}",
                "champion": version is not None and stages.get("promote", {}).get("champions", {}).get(kind) == version,
                "serves": stages.get("export", {}).get("model_version"),
                "registered": stages.get("export", {}).get("registered"),
                "bundle": stages.get("export", {}).get("bundle"),
                "choice": stages.get("export", {}).get("choice"),
                "failure": failure,
                "failed_fits": records.failed_fits(stages),
                "drifting": stages.get("drift", {}).get("drifting", []),
                "warnings": records.warnings(stages),
                "accepted": stages.get("quality", {}).get("accepted"),
            }
        )
    return rows


def no_nights(settings: Settings) -> str:
    """What `status` says before the first night."""
    return f"No night has been run below {settings.home}. Run one: runcast nightly --cluster NAME"


def _targets(rows: Sequence[Record]) -> list[str]:
    """Return the targets whose coverage some night has, the smallest first: those of the clusters' files."""
    return sorted({target for row in rows for target in row.get("coverage") or {}}, key=float)


def _target(target: str) -> str:
    return f"{100 * float(target):.3g} %"


def status_table(rows: Sequence[Record]) -> Group:
    """A table of the nights' models, why some of them did not pass, what failed, and the bundles that serve; fits 80 columns."""
    targets = _targets(rows)
    titles = ("cluster", "model", "jobs", "factor", "recur.", "base", *map(_target, targets), "gate", "v")
    table = plain_table(*titles, right=[title for title in titles if title not in ("cluster", "model", "gate")])
    reasons, bundles, failures, broken, drifting, last = [], {}, {}, {}, {}, None
    accepted = {row["cluster"]: accepted_line(row["accepted"]) for row in rows if row.get("accepted")}
    limits = {row["cluster"]: f"{row['cluster']}: {row['uncovered']}" for row in rows if row.get("uncovered")}
    live = {row["cluster"]: f"live: {live_line(row['live'])}" for row in rows if row.get("live")}
    for row in rows:
        if "serves" in row:
            bundles[row["cluster"]] = _serves_line(row)
        if row.get("failure"):
            failures[row["cluster"]] = f"{row['cluster']}, night of {row['day']}: {row['failure']}"
        if row.get("failed_fits"):
            broken[row["cluster"]] = [f"{row['cluster']}, night of {row['day']}, {failed}" for failed in row["failed_fits"]]
        if row["model"] is None:
            table.add_row(
                Text(row["cluster"]),
                "–",
                *[""] * (4 + len(targets)),
                Text("failed" if row["failure"] else "unfinished", "red"),
                "",
            )
            if not row["failure"]:
                reasons.append(f"{row['cluster']}, night of {row['day']}: {row['verdict']}")
            continue
        everything, recurring, passed = row["all"] or {}, row["recurring"] or {}, row["verdict"] == "passed"
        table.add_row(
            Text(row["cluster"] if row["cluster"] != last else ""),
            row["model"],
            str(row["jobs"]),
            factor(everything.get("error_factor")),
            factor(recurring.get("error_factor")),
            factor(row["best_baseline_value"]),
            *[percent(row["coverage"].get(target)) for target in targets],
            _gate(row, passed),
            row["version"] or "–",
        )
        last = row["cluster"]
        drifting[row["cluster"]] = [f"{row['cluster']}, drift: {sentence}" for sentence in row.get("drifting", [])]
        if row.get("replaced_by"):
            reasons.append(f"{row['cluster']}, {row['model']}: {row['label']} served, and was replaced by {row['replaced_by']}")
        if not passed:
            reasons.append(f"{row['cluster']}, {row['model']}: {row['verdict']}")
    legend = (
        "factor: exp(mean |ln(p50 / runtime)|) on all test jobs; recur.: on recurring ones; base: the best baseline's; "
        + (f"{', '.join(map(_target, targets))}: share of jobs, surest first, at that median error; " if targets else "")
        + "v: version in MLflow"
    )
    changes = [line for lines in drifting.values() for line in lines]
    warned = {f"{row['cluster']}, warning: {plain(warning)}": None for row in rows for warning in row.get("warnings", ())}
    fits = [line for lines in broken.values() for line in lines]
    told = (
        "",
        legend,
        "",
        *failures.values(),
        *fits,
        *accepted.values(),
        *bundles.values(),
        *limits.values(),
        *live.values(),
        *reasons,
        *warned,
        *changes,
    )
    return Group(table, *[Text(plain(line, keep="\n")) for line in told])


def _serves_line(row: Record) -> str:
    """Say which bundle serves, and by which number it was chosen where it is the night's."""
    chosen = str(row.get("choice") or "").partition(": ")[2]
    why = f": {chosen}" if chosen else ""
    return f"{row['cluster']}: {row['serves'] or 'nothing'} serves ({row['bundle'] or 'no bundle'}){why}"


def _gate(row: Record, passed: bool) -> str:
    if row.get("replaced_by"):
        return "[yellow]replaced[/]"
    return "[green]champion[/]" if row["champion"] else "passed" if passed else "[yellow]not passed[/]"


def accepted_line(accepted: Record) -> str:
    """Say that a night went on in spite of its checks, and why."""
    checks = ", ".join(accepted["checks"])
    return (
        f"{accepted['cluster']}, night of {accepted['day']}: accepted although stopped by {checks}: {plain(accepted['reason'])}"
    )


def nights_table(settings: Settings, names: Sequence[str], day: str) -> Group:
    """The table that `make run` and `runcast nightly` end with."""
    return status_table([row for name in names for row in night_rows(settings, name, day)])


def what_next(settings: Settings, name: str, day: str) -> str:
    """Where to look and what to try, after a first night."""
    return "\n".join(
        [
            f"Report:  {report_path(settings, name, day)}   (opens without a network)",
            f"Bundle:  {settings.bundles / name / 'current'}",
            'Ask it:  echo \'{"user": "ada", "cpu_count": 8, "submit_time": "2026-07-01T09:00:00Z"}\' \\',
            f"           | .venv/bin/runcast predict --bundle {settings.bundles / name / 'current'}",
            f"All:     {settings.reports / 'index.html'}   (every cluster's latest night)",
            "Browse:  make ui            (Airflow and MLflow on loopback; it says where the password is)",
            "Yours:   README.md, 'Your own cluster in five minutes'",
        ]
    )


def record_lines(record: Record) -> str:
    """One line per value of a stage's record, nested values as JSON."""
    return "\n".join(f"{key}: {value if isinstance(value, str) else json.dumps(value)}" for key, value in record.items())


#: What a person wants to know of each stage, by the keys of its record.
_TOLD = {
    "ingest": ("rows_in", "accepted", "rejected", "ended", "open", "partitions"),
    "quality": ("rows", "checks", "stops_count", "warns_count"),
    "features": ("jobs", "runaways", "features", "feature_version"),
    "evaluate": ("failures", "jobs", "report"),
    "register": ("versions",),
    "promote": ("champions",),
    "export": ("choice", "model_version", "bundle"),
    "drift": ("judged", "drifting", "alarm", "webhook"),
}


def stage_line(record: Record) -> str:
    """Say in one line what a stage did."""
    told = _TOLD.get(record["stage"], ("failure", "served_by", "jobs", "censored_jobs"))
    line = f"  {record['stage']}: " + ", ".join(f"{key} {record[key]}" for key in told if record.get(key) not in (None, {}, []))
    return "\n".join([line, *(f"    warning: {plain(warning)}" for warning in records.warnings({record["stage"]: record}))])
