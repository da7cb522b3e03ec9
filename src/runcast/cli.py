"""The command line: each command reads the settings, calls one job and shows its result; `--json` prints it as JSON.

An error that Runcast raises on purpose is printed as one message, with an exit code by kind (docs/exit-codes.md); anything else is a
fault of ours and keeps its traceback. With `--json` standard output holds one JSON object, also of a failure (outcome.py).
"""

import datetime as dt
import difflib
import importlib.metadata
import json
import os
import sys
import traceback
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.text import Text
from typer.exceptions import TyperException

from runcast import night, records, rounds, show
from runcast.data.cluster import Cluster, find_cluster, passed_over, read_clusters, read_files
from runcast.data.days import checked_day
from runcast.data.errors import ClusterFileError, Exit, NoSuchNight, QualityStop, RuncastError, UsageError
from runcast.data.refusals import told_where_refused
from runcast.data.settings import EXAMPLES, Settings, read_settings, require_home
from runcast.host import HOST_COMMANDS, run_host_command
from runcast.outcome import describe, exit_code, print_json, release_stdout, report, reserve_stdout
from runcast.show_clusters import clusters_table
from runcast.show_nights import last_nights, nights_history
from runcast.training.errors import FitFailed


def _version(is_asked: bool) -> None:
    if is_asked:
        sys.stdout.write(f"runcast {importlib.metadata.version('runcast')}\n")
        raise typer.Exit


app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Runtime forecasts for GPU and HPC jobs, learned nightly from a cluster's own log.",
)


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and end.", is_eager=True, callback=_version)
    ] = False,
) -> None:
    """Runtime forecasts for GPU and HPC jobs, learned nightly from a cluster's own log."""


clusters_app = typer.Typer(help="The cluster files: list them, check them.")
app.add_typer(clusters_app, name="clusters")
rejects_app = typer.Typer(help="Records of the log that were refused: look at them, read them again after a fix.")
app.add_typer(rejects_app, name="rejects")

WIDE = 10_000  # columns of what is piped or written to a file: nothing is wrapped there, unless COLUMNS is set

out = Console(width=None if sys.stdout.isatty() or "COLUMNS" in os.environ else WIDE)
err = Console(stderr=True)

ClusterName = Annotated[str, typer.Option("--cluster", "-c", help="The cluster: its file's name without .yaml.")]
Day = Annotated[
    str | None, typer.Option("--date", help="Day YYYY-MM-DD in the cluster's zone; default: the latest one that is complete.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON on standard output.")]


def main() -> None:
    """Run the command line; ends the process with the exit code."""
    as_json = "--json" in sys.argv[1:]
    if as_json:
        reserve_stdout()
    try:
        sys.exit(_run(sys.argv[1:]))
    finally:
        release_stdout()


def _run(words: list[str]) -> int:
    """Run a command and print how it failed, where it did; returns the exit code."""
    try:
        with told_where_refused("runcast"):
            ended = app(args=words or ["--help"], prog_name="runcast", standalone_mode=False)
        if ended == Exit.INTERRUPTED:  # typer's code after ctrl-C
            raise KeyboardInterrupt
        return int(ended or Exit.DONE)
    except TyperException as mistyped:
        return _failed(UsageError(mistyped.format_message()))
    except typer.Abort:  # Ctrl-C or Ctrl-D where a question is put
        return _failed(KeyboardInterrupt())
    except (RuncastError, KeyboardInterrupt) as error:
        return _failed(error)
    except Exception as error:  # noqa: BLE001 - a fault: its traceback is printed, and the process ends with its code
        traceback.print_exc(file=sys.stderr)
        return report(error)


def _failed(error: BaseException) -> int:
    """Say on standard error how a command failed; returns the exit code."""
    if isinstance(error, KeyboardInterrupt):
        err.print("interrupted: what had been written is whole. The same command again goes on from there.")
    else:
        title = "stopped" if isinstance(error, QualityStop) else "error"
        err.print(f"[bold red]{title}:[/] {escape(show.plain(str(error), keep=chr(10)))}", soft_wrap=True)
    return report(error)


@clusters_app.command("list")
def clusters_list(as_json: AsJson = False) -> None:
    """List every cluster file and whether it can be used."""
    settings = read_settings()
    rows = [_cluster_row(path, held, settings) for path, held in _cluster_files(settings).items()]
    _result({"clusters": rows}, as_json, clusters_table(rows, settings))


@clusters_app.command("check")
def clusters_check(
    names: Annotated[list[str] | None, typer.Argument(help="Clusters to check; default: all.")] = None, as_json: AsJson = False
) -> None:
    """Check cluster files: keys, values and options; read a thousand records of the log, show three jobs and what looks wrong."""
    settings = read_settings()
    files = _cluster_files(settings)
    if not files:
        raise ClusterFileError(
            f"{show.folders(settings)}: no cluster file (*.yaml) there. Set RUNCAST_CLUSTERS to the folder of yours."
        )
    unknown = sorted(set(names or ()) - {path.stem for path in files})
    if unknown:
        near = difflib.get_close_matches(unknown[0], [path.stem for path in files], n=1)
        raise typer.BadParameter(
            f"no cluster file for {', '.join(unknown)} in {', '.join(map(str, settings.clusters))}"
            + (f"; did you mean {near[0]!r}?" if near else "")
        )
    chosen = {path: held for path, held in files.items() if not names or path.stem in names}
    with _progress("reading the logs' first records", as_json):
        rows = [_cluster_row(path, held, settings, reads=True) for path, held in chosen.items()]
    bad = [row["name"] for row in rows if row["problem"] and not row["refused"]]
    error = ClusterFileError(f"not ready: {', '.join(bad)}")
    _result({"clusters": rows, **(describe(error) if bad else {})}, as_json, clusters_table(rows, settings))
    if bad:
        raise typer.Exit(exit_code(error))


@clusters_app.command("new")
def clusters_new(
    name: Annotated[
        str, typer.Argument(help="Of the new cluster: its file is NAME.yaml in the first folder of RUNCAST_CLUSTERS.")
    ],
    scheduler: Annotated[str, typer.Option("--from", help="What runs the cluster: slurm, lsf, pbs or kubernetes.")],
    time_zone: Annotated[str | None, typer.Option("--time-zone", help="Of the cluster; default: this machine's.")] = None,
    gpus_tracked: Annotated[
        bool | None, typer.Option("--gpus-tracked/--no-gpus-tracked", help="Whether a request without GPUs means 0 of them.")
    ] = None,
    since: Annotated[str | None, typer.Option("--since", help="First day to fetch, YYYY-MM-DD; default: a year ago.")] = None,
    logs: Annotated[
        str | None, typer.Option("--logs", help="Files that hold the log (quoted, with *), where it is not to be fetched.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Ask nothing: take what was found and the defaults.")] = False,
    as_json: AsJson = False,
) -> None:
    """Write the cluster file of a Slurm, LSF, PBS or Kubernetes cluster, check it, and show ten jobs as they are understood."""
    from runcast import new_cluster

    settings = read_settings()
    answers = new_cluster.Answers(time_zone, gpus_tracked, since, logs)
    ask = None if yes or as_json or not sys.stdin.isatty() else typer.prompt
    path = new_cluster.write(name, scheduler, answers, settings, dt.datetime.now(dt.UTC), ask)
    with _progress(f"{name}: reading the log's first records", as_json):
        row = _cluster_row(path, read_files(path.parent)[path], settings, reads=True, shown=new_cluster.SHOWN)
    error = ClusterFileError(f"{path} is written, and not ready: {row['problem']}")
    bad = row["problem"] is not None
    _result({"path": str(path), **row, **(describe(error) if bad else {})}, as_json, new_cluster.shown(path, row, settings))
    if bad:
        raise typer.Exit(exit_code(error))


@clusters_app.command("reference")
def clusters_reference() -> None:
    """Print the reference of cluster files: every key with type, default, example and meaning, in Markdown."""
    from runcast.data.reference import write_reference

    sys.stdout.write(write_reference())


@app.command()
def demo(as_json: AsJson = False) -> None:
    """Write the demo clusters' logs: made up, in three real formats, below RUNCAST_HOME/demo."""
    from runcast.data.demo import write_demo

    settings = read_settings()
    require_home(settings, is_made=True)
    with _progress("writing the demo logs", as_json):
        written = write_demo(settings.home / "demo")
    _result({"logs": [log.to_json() for log in written]}, as_json, "\n".join(show.demo_lines(written)))


@app.command()
def ingest(
    cluster: ClusterName,
    date: Day = None,
    first: Annotated[str | None, typer.Option("--from", help="First day to load.")] = None,
    last: Annotated[str | None, typer.Option("--to", help="Last day to load.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="Load all that the log holds.")] = False,
    as_json: AsJson = False,
) -> None:
    """Read the log into the lake: jobs, rejects and counts."""
    from runcast.data.job import ingest as load

    settings, chosen = _open(cluster, makes_home=True)
    if sum([date is not None, first is not None or last is not None, everything]) != 1:
        raise typer.BadParameter("name what to load: one of --date D, --from D --to D, or --all")
    from_day, to_day = (_day(text, chosen) for text in ((first, last) if date is None else (date, date)))
    with _progress(f"{cluster}: reading the log", as_json):
        report = load(chosen, settings, first=from_day, last=to_day, now=dt.datetime.now(dt.UTC))
    _result(report.to_json(), as_json, show.ingest_lines(report.to_json()))


@rejects_app.callback(invoke_without_command=True)
def rejects(
    context: typer.Context,
    cluster: Annotated[str | None, typer.Option("--cluster", "-c", help="The cluster: its file's name without .yaml.")] = None,
    date: Annotated[str | None, typer.Option("--date", help="Only those that stand in the log beside jobs of this day.")] = None,
    limit: Annotated[int, typer.Option("--limit", min=0, help="How many to show; 0: all.")] = 50,
    as_json: AsJson = False,
) -> None:
    """Show the records of the log that were refused: file, line, reason, raw text; counts by reason."""
    if context.invoked_subcommand is not None:
        return
    from runcast.data.rejects import find_rejects

    if cluster is None:
        raise typer.BadParameter("name the cluster: --cluster NAME")
    settings, chosen = _open(cluster)
    found = find_rejects(chosen, settings, _day(date, chosen))
    _result(found, as_json, show.rejects_table(found, limit))


@rejects_app.command("replay")
def rejects_replay(cluster: ClusterName, as_json: AsJson = False) -> None:
    """Read the log again after a fix of it or of its cluster file; records that can be read now become jobs, each once."""
    from runcast.data.rejects import replay_rejects

    settings, chosen = _open(cluster)
    with _progress(f"{cluster}: reading the log", as_json):
        result = replay_rejects(chosen, settings, dt.datetime.now(dt.UTC))
    _result(result, as_json, show.replay_lines(result))


def _stage_command(name: str, doc: str) -> None:
    """Add the command that runs one stage of a night."""

    def command(cluster: ClusterName, date: Day = None, as_json: AsJson = False) -> None:
        settings, chosen = _open(cluster)
        day = _night(date, chosen, settings)
        with _progress(f"{cluster}: {night.BY_NAME[name].title}, night of {day}", as_json):
            record = night.run_stage(name, cluster, day)
        _result(record, as_json, show.record_lines(record))

    command.__doc__ = doc
    app.command(name)(command)


_stage_command("quality", "Check what is in the lake for a day; exit code 4 when a stop check failed.")
_stage_command("features", "Build the feature table of all jobs known on a day.")


@app.command()
def train(
    cluster: ClusterName,
    date: Day = None,
    kind: Annotated[
        list[str] | None, typer.Option("--kind", help="Kind to train, repeatable; default: every model kind.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Fit the models on all that had ended by the end of a day."""
    settings, chosen = _open(cluster)
    day = _night(date, chosen, settings)
    records = []
    for name in kind or night.MODEL_KINDS:
        if name not in night.MODEL_KINDS:
            raise typer.BadParameter(f"no model kind {name!r}; known are {', '.join(night.MODEL_KINDS)}")
        with _progress(f"{cluster}: {night.BY_NAME[f'train_{name}'].title}, night of {day}", as_json):
            records.append(night.run_stage(f"train_{name}", cluster, day))
    _result_without(
        [record["failure"] for record in records],
        {"models": records},
        as_json,
        "\n".join(show.record_lines(record) for record in records),
    )


@app.command()
def evaluate(cluster: ClusterName, date: Day = None, as_json: AsJson = False) -> None:
    """Judge the models on the latest jobs of a night, beside the baselines; write the report."""
    settings, chosen = _open(cluster)
    day = _night(date, chosen, settings)
    with _progress(f"{cluster}: {night.BY_NAME['evaluate'].title}, night of {day}", as_json):
        record = night.run_stage("evaluate", cluster, day)
    report = show.read_report(settings, cluster, day)
    _result_without(record["failures"].values(), report, as_json, show.report_table(report))


@app.command()
def nightly(
    cluster: ClusterName,
    date: Day = None,
    accept_quality: Annotated[
        str | None,
        typer.Option(
            "--accept-quality",
            metavar="REASON",
            help="Train on the day named by --date although checks stopped it; those that did are passed over, no others.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Run a whole night: ingest, quality, features, train, evaluate, register, promote, export."""
    settings, chosen = _open(cluster, makes_home=True)
    if accept_quality is not None and date is None:
        raise typer.BadParameter("name the day that is accepted: --date")
    with _progress(f"{cluster}: which day", as_json):
        day = _night(date, chosen, settings)
    if accept_quality is not None:
        night.accept_quality(cluster, day, accept_quality)
    records = {}
    for stage in night.STAGES:
        with _progress(f"{cluster}, night of {day}: {stage.title}", as_json):
            records[stage.name] = night.run_stage(stage.name, cluster, day)
        if not as_json:
            _result({}, False, show.stage_line(records[stage.name]))
    _result_without(night.failures_of_fits(cluster, day), records, as_json, show.nights_table(settings, [cluster], day))


@app.command()
def replay(
    cluster: ClusterName,
    first: Annotated[str | None, typer.Option("--from", help="First day of the test jobs, by submission.")] = None,
    last: Annotated[str | None, typer.Option("--to", help="Last day of the test jobs, by submission.")] = None,
    test_share: Annotated[
        float | None, typer.Option("--test-share", min=0.001, max=0.999, help="Latest share of jobs to test on.")
    ] = None,
    every: Annotated[str, typer.Option("--every", help="How often models are retrained: once, weekly or nightly.")] = "once",
    as_of: Annotated[
        str | None, typer.Option("--as-of", help="Replay what was known at the end of this day; default: all of the log.")
    ] = None,
    predictions: Annotated[
        Path | None, typer.Option("--predictions", help="Write one row per test job and predictor to this Parquet.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Replay a whole log: jobs arrive in order, forecasts use only what had ended; every predictor beside every baseline."""
    from runcast.data.job import ingest as load
    from runcast.evaluation.job import replay as run_replay
    from runcast.evaluation.replay import CADENCES

    settings, chosen = _open(cluster, makes_home=True)
    if every not in CADENCES:
        raise typer.BadParameter(f"--every {every!r}; write one of {', '.join(CADENCES)}")
    if test_share is not None and (first is not None or last is not None):
        raise typer.BadParameter("name the test jobs once: by --test-share, or by --from and --to")
    from_day, to_day, as_of_day = (_day(text, chosen) for text in (first, last, as_of))
    if from_day and to_day and from_day > to_day:
        raise typer.BadParameter(f"--from {first} is after --to {last}")
    with _progress(f"{cluster}: reading the log", as_json):
        load(chosen, settings, first=None, last=as_of_day, now=dt.datetime.now(dt.UTC))
    with _progress(f"{cluster}: replaying, models trained {every}", as_json) as say:
        result = run_replay(
            chosen,
            settings,
            every=every,
            test_share=test_share,
            first=from_day,
            last=to_day,
            as_of=as_of_day,
            predictions=predictions,
            progress=say,
        )
    _result_without(result["failures"].values(), result, as_json, show.report_table(result))


@app.command()
def weekly(cluster: ClusterName, date: Day = None, as_json: AsJson = False) -> None:
    """Replay what was known at the end of a day, models retrained weekly; keep the report and log it to MLflow."""
    settings, chosen = _open(cluster)
    day = _night(date, chosen, settings)
    with _progress(f"{cluster}: weekly replay as of {day}", as_json) as say:
        result = rounds.weekly_replay(cluster, day, say)
    _result_without(result["failures"].values(), result, as_json, show.report_table(result))


@app.command()
def live(cluster: ClusterName, date: Day = None, as_json: AsJson = False) -> None:
    """Say how right the forecasts were that the service gave to the jobs that ended on a day; keep that and log it to MLflow."""
    settings, chosen = _open(cluster)
    day = _night(date, chosen, settings)
    with _progress(f"{cluster}: served forecasts of the jobs that ended on {day}", as_json):
        record = rounds.live_accuracy(cluster, day)
    _result(record, as_json, show.live_lines(record))


@app.command()
def prune(
    cluster: ClusterName,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would go, and delete nothing.")] = False,
    as_json: AsJson = False,
) -> None:
    """Delete old nights by the cluster file's `retention`: versions, runs, trained models, bundles, reports. Jobs are kept."""
    _open(cluster)
    with _progress(f"{cluster}: looking for what is no longer kept", as_json):
        record = rounds.prune(cluster, is_dry=dry_run)
    _result(record, as_json, show.prune_lines(record))


@app.command()
def accuracy(
    out_file: Annotated[Path, typer.Option("--out", help="Page to write.")] = Path("docs/accuracy.md"),
    clusters: Annotated[list[str] | None, typer.Argument(help="Logs to replay; default: every public one.")] = None,
    page_only: Annotated[bool, typer.Option("--page-only", help="Write the page from the latest replays, run none.")] = False,
    as_json: AsJson = False,
) -> None:
    """Replay many logs and write every predictor's errors and figures: docs/accuracy.md."""
    from runcast.accuracy import replay_beside, write_page
    from runcast.data.lake import Lake
    from runcast.evaluation.studies.kept import Replays

    settings = read_settings().with_examples()
    chosen = clusters or _public_logs()
    replays = Replays(settings.home / "accuracy")
    for name in chosen:
        find_cluster(settings.clusters, name)
        if not page_only:
            with _progress(f"replaying {name}", False):
                replay_beside(name, replays, settings.environment)
            err.print(f"  {name}: replayed")
    write_page(out_file, chosen, replays, Lake(settings.lake))
    _result({"page": str(out_file)}, as_json, f"written: {out_file}")


@app.command()
def study(
    name: Annotated[str, typer.Argument(help="ablation, cadence, retraining, censoring, outside or worth.")],
    clusters: Annotated[list[str] | None, typer.Argument(help="Logs; default: those the study is about.")] = None,
    page: Annotated[Path | None, typer.Option("--page", help="Page whose section is written; default: the study's.")] = None,
    python: Annotated[Path | None, typer.Option("--python", help="Interpreter that holds FLAML, for `outside`.")] = None,
    seconds: Annotated[float, typer.Option("--seconds", min=1, help="How long FLAML may search on each log.")] = 600.0,
    again: Annotated[bool, typer.Option("--again", help="Measure anew what was kept.")] = False,
    as_json: AsJson = False,
) -> None:
    """Measure what lies behind the accuracy on public logs, and write its section of docs/studies.md or docs/worth.md."""
    from runcast.evaluation.studies.job import STUDIES, Asked, run_study

    if name not in STUDIES:
        raise typer.BadParameter(f"no study {name!r}; known are {', '.join(STUDIES)}")
    settings, chosen_study = read_settings().with_examples(), STUDIES[name]
    logs = clusters or chosen_study.logs or _public_logs()
    asked, where = Asked(settings, python, seconds), page or Path("docs") / chosen_study.page
    with _progress(f"study {name}", False) as say:
        run_study(chosen_study, [find_cluster(settings.clusters, one) for one in logs], asked, where, again=again, progress=say)
    _result({"page": str(where)}, as_json, f"written: {where}")


@app.command()
def worth(
    cluster: ClusterName,
    predictions: Annotated[Path, typer.Option("--predictions", help="The Parquet that `replay --predictions` wrote.")],
    capacity: Annotated[
        int | None, typer.Option("--capacity", min=1, help="GPUs or processors of the pool; default: the log's peak use.")
    ] = None,
    load: Annotated[
        float | None, typer.Option("--load", min=0.01, help="Instead: the pool on which the jobs make this load, 0.9 for 90 %.")
    ] = None,
    predictor: Annotated[
        list[str] | None, typer.Option("--predictor", help="Predictor to weigh, repeatable; default: all in the file.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Schedule the test jobs of a replay again, by FIFO, SJF, QSSF and EASY: what the forecasts are worth."""
    from runcast.evaluation.worth.job import worth as weigh

    settings, chosen = _open(cluster, makes_home=True)
    if capacity is not None and load is not None:
        raise typer.BadParameter("name the pool once: by --capacity, or by --load")
    with _progress(f"{cluster}: scheduling", as_json):
        result = weigh(chosen, settings, predictions, capacity, predictor or (), load)
    _result(result, as_json, show.worth_table(result))


@app.command()
def export(cluster: ClusterName, date: Day = None, as_json: AsJson = False) -> None:
    """Write the champion's bundle for the scheduler and point `current` at it."""
    settings, chosen = _open(cluster)
    day = _night(date, chosen, settings)
    with _progress(f"{cluster}: {night.BY_NAME['export'].title}", as_json):
        record = night.run_stage("export", cluster, day)
    _result(record, as_json, show.record_lines(record))


@app.command()
def predict(
    bundle: Annotated[Path, typer.Option("--bundle", help="Folder of the bundle, for example var/bundles/NAME/current.")],
    pseudonym_key: Annotated[
        Path | None,
        typer.Option("--pseudonym-key", help="Key file of a cluster whose names are replaced; default: RUNCAST_PSEUDONYM_KEY."),
    ] = None,
    signers: Annotated[
        Path | None, typer.Option("--signers", help="Refuse a bundle that no key in this file has signed; see docs/security.md.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Where the bundle cannot be used: say it as JSON, too.")] = False,
) -> None:
    """Read jobs as JSON lines, write forecasts as JSON lines; one that cannot be read gets an error line with its line number."""
    from runcast.scheduler.jobs import parse
    from runcast.scheduler.predictor import Predictor

    predictor = Predictor.load(bundle, pseudonym_key=pseudonym_key or read_settings().pseudonym_key, signers=signers)
    bad = 0
    answer: dict[str, Any]
    for number, line in enumerate(sys.stdin.buffer, 1):
        if not line.strip():
            continue
        try:
            job = parse(line)
        except (ValueError, RecursionError) as error:
            answer, bad = {"line": number, "error": f"not JSON: {error}"}, bad + 1
        else:
            try:
                answer = predictor.predict(job)
            except (RuncastError, ValueError, RecursionError) as error:
                answer, bad = {"line": number, "error": str(error)}, bad + 1
        sys.stdout.write(json.dumps(answer) + "\n")
    if bad:
        err.print(f"{bad} jobs could not be read")
        raise typer.Exit(Exit.REFUSED)


def _host_command(name: str) -> None:
    """Add a command that a scheduler host has too; it reads its own options."""

    def command(context: typer.Context) -> None:
        raise typer.Exit(
            run_host_command(name, context.args)
        )  # reached by tests and `python -m runcast.cli` alone: see __main__.py

    command.__doc__ = f"{HOST_COMMANDS[name].meaning} `{name} --help` lists the options."
    settings = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}
    app.command(name, context_settings=settings)(command)


for _name in HOST_COMMANDS:
    _host_command(_name)


@app.command()
def status(
    cluster: Annotated[str | None, typer.Option("--cluster", "-c")] = None,
    html: Annotated[bool, typer.Option("--html", help="Write the page of all clusters and print where it is.")] = False,
    count: Annotated[
        int | None,
        typer.Option("--nights", min=1, help="The last N nights instead: error, baseline, p90, warnings, what served."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show the latest night of each cluster: models, errors, verdict, version, bundle, warnings."""
    settings = read_settings()
    require_home(settings)
    if html:
        page = night.front_page(settings)
        _result({"page": str(page)}, as_json, str(page))
        return
    if cluster:
        find_cluster(settings.clusters, cluster)
    names = [cluster] if cluster else records.clusters_with_nights(settings)
    if count is not None:
        nights = last_nights(settings, names, count)
        _result({"nights": nights}, as_json, nights_history(nights) if nights else show.no_nights(settings))
        return
    rows = show.status_rows(settings, names)
    _result({"nights": rows}, as_json, show.status_table(rows) if rows else show.no_nights(settings))


@app.command()
def rollback(
    cluster: ClusterName,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say which version would serve, and change nothing.")] = False,
    as_json: AsJson = False,
) -> None:
    """Go back to the version that served before, and its bundle; the one that is left does not come back. The next night is as always."""
    from runcast.registry.job import rollback as go_back

    settings, chosen = _open(cluster)
    day = records.latest_loaded(settings, cluster)
    if day is None:
        raise typer.BadParameter(f"{cluster} has had no night yet")
    with _progress(f"{cluster}: going back to the version that served before", as_json):
        record = go_back(chosen, settings, dt.date.fromisoformat(day), dt.datetime.now(dt.UTC), is_dry=dry_run)
    if not dry_run:
        night.front_page(settings)
    _result(record, as_json, show.rollback_lines(record))


def _open(name: str, *, makes_home: bool = False) -> tuple[Settings, Cluster]:
    """Return the settings and the cluster; a home that is not there is refused, unless the command makes it."""
    settings = read_settings()
    found = find_cluster(settings.clusters, name)
    require_home(settings, is_made=makes_home)
    return settings, found


def _public_logs() -> list[str]:
    return [name for name, example in read_clusters(EXAMPLES).items() if not example.refused]


def _night(date: str | None, cluster: Cluster, settings: Settings) -> str:
    """Return the day asked for as YYYY-MM-DD, or the default; what is no day, or is not over, is a wrong parameter."""
    try:
        return night.choose_day(cluster, settings, date, dt.datetime.now(dt.UTC))
    except NoSuchNight as error:
        raise typer.BadParameter(str(error)) from None


def _day(text: str | None, cluster: Cluster) -> dt.date | None:
    """Return the day that an option names; what is no day, or is not over, is a wrong parameter."""
    try:
        return None if text is None else checked_day(cluster, text, dt.datetime.now(dt.UTC))
    except NoSuchNight as error:
        raise typer.BadParameter(str(error)) from None


def _result(value: Any, as_json: bool, shown: Any) -> None:
    if as_json:
        print_json(value)
    else:
        is_text = isinstance(shown, str)  # names stand in it: no markup is read
        out.print(Text(show.plain(shown, keep="\n")) if is_text else shown, soft_wrap=is_text)


def _result_without(failures: Iterable[str | None], value: dict[str, Any], as_json: bool, shown: Any) -> None:
    """Print a result; where fits were killed or failed, say which and exit with a code of its own: what was done without them stands."""
    failed = [failure for failure in failures if failure]
    error = FitFailed("; ".join(failed))
    _result({**value, **(describe(error) if failed else {})}, as_json, shown)
    for failure in failed:
        err.print(f"[bold red]error:[/] {escape(show.plain(failure))}", soft_wrap=True)
    if failed:
        raise typer.Exit(exit_code(error))


@contextmanager
def _progress(text: str, quiet: bool) -> Iterator[Any]:
    """Show a spinner with `text` on standard error while the block runs; yields a function that changes the text."""
    if quiet or not err.is_terminal:
        yield lambda more: None
        return
    with err.status(escape(text)) as spinner:
        yield lambda more: spinner.update(escape(f"{text} ({more})"))


def _cluster_files(settings: Settings) -> dict[Path, Cluster | ClusterFileError]:
    """Return the folder's cluster files, and what is passed over for its ending as a problem."""
    files = read_files(settings.clusters)
    for path in passed_over(settings.clusters):
        files[path] = ClusterFileError(f"{path}: is passed over, since cluster files end in .yaml; rename it")
    return files


def _cluster_row(
    path: Path, held: Cluster | ClusterFileError, settings: Settings, *, reads: bool = False, shown: int = 3
) -> dict[str, Any]:
    """Describe one cluster file; `problem` says why it cannot be used now. With `reads`, what the log's first records come to."""
    from runcast.data.collect import collected_files
    from runcast.data.sources.registry import check_options, find_files

    if isinstance(held, ClusterFileError):
        return {"name": path.stem, "format": "", "time_zone": "", "schedule": None, "problem": str(held), "refused": None}
    problem, found = held.refused, None
    if problem is None:
        try:
            check_options(held)
            fetches = held.source.collect is not None and not held.source.paths and not collected_files(held, settings)
            if not fetches and not any(file.stat().st_size for file in find_files(held, settings)):
                problem = "every file that source.paths names is empty"
            elif reads:
                from runcast.data.preview import preview, preview_fetched

                found = (preview_fetched if fetches else preview)(held, settings, dt.datetime.now(dt.UTC), shown)
                problem = found.problem
        except RuncastError as error:
            problem = str(error)
    return {
        "name": held.name,
        "format": held.source.format,
        "time_zone": held.time_zone,
        "schedule": held.schedule,
        "problem": problem,
        "refused": held.refused,
        **({"preview": asdict(found) if found else None} if reads else {}),
    }
