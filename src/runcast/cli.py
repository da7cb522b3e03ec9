"""The command line: each command reads the settings, calls one job and shows its result; `--json` prints it as JSON.

An error that Runcast raises on purpose is printed as one message (exit code 1; 2 for a night that a quality check stopped);
anything else is a fault of ours and keeps its traceback.
"""

import datetime as dt
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

from runcast import night, show
from runcast.data.cluster import Cluster, find_cluster, read_cluster, read_clusters
from runcast.data.errors import QualityStop, RuncastError
from runcast.data.settings import Settings, read_settings

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Runtime forecasts for GPU and HPC jobs, learned nightly from a cluster's own log.",
)
clusters_app = typer.Typer(no_args_is_help=True, help="The cluster files: list them, check them.")
app.add_typer(clusters_app, name="clusters")

out = Console()
err = Console(stderr=True)

ClusterName = Annotated[str, typer.Option("--cluster", "-c", help="The cluster: its file's name without .yaml.")]
Day = Annotated[str | None, typer.Option("--date", help="Day YYYY-MM-DD in the cluster's zone; default: the latest one that is complete.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON on standard output.")]


def main() -> None:
    """Run the command line."""
    try:
        app()
    except QualityStop as error:
        err.print(f"[bold red]stopped:[/] {escape(str(error))}", soft_wrap=True)
        sys.exit(2)
    except RuncastError as error:
        err.print(f"[bold red]error:[/] {escape(str(error))}", soft_wrap=True)
        sys.exit(1)


@clusters_app.command("list")
def clusters_list(as_json: AsJson = False) -> None:
    """List every cluster file and whether it can be used."""
    settings = read_settings()
    rows = [_cluster_row(path, settings) for path in sorted(settings.clusters.glob("*.yaml"))]
    _result(rows, as_json, show.clusters_table(rows, settings))


@clusters_app.command("check")
def clusters_check(
    names: Annotated[list[str] | None, typer.Argument(help="Clusters to check; default: all.")] = None, as_json: AsJson = False
) -> None:
    """Check cluster files: the keys, the values, the adapter's options, and that the log's files are there."""
    settings = read_settings()
    chosen = names or sorted(read_clusters(settings.clusters))
    rows = [_cluster_row(find_cluster_file(settings, name), settings) for name in chosen]
    _result(rows, as_json, show.clusters_table(rows, settings))
    if any(row["problem"] and not row["refused"] for row in rows):
        raise typer.Exit(1)


@app.command()
def demo(as_json: AsJson = False) -> None:
    """Write the demo clusters' logs: made up, in three real formats, below RUNCAST_HOME/demo."""
    from runcast.data.demo import write_demo

    settings = read_settings()
    with _progress("writing the demo logs", as_json):
        written = write_demo(settings.home / "demo")
    _result(show.demo_json(written), as_json, "\n".join(show.demo_lines(written)))


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

    settings, chosen = _open(cluster)
    if sum([date is not None, first is not None or last is not None, everything]) != 1:
        raise typer.BadParameter("name what to load: one of --date D, --from D --to D, or --all")
    from_day, to_day = (date, date) if date else (first, last)
    with _progress(f"{cluster}: reading the log", as_json):
        report = load(chosen, settings, first=_day(from_day), last=_day(to_day))
    _result(report.to_json(), as_json, show.ingest_lines(report.to_json()))


def _stage_command(name: str, doc: str) -> None:
    """Add the command that runs one stage of a night."""

    def command(cluster: ClusterName, date: Day = None, as_json: AsJson = False) -> None:
        settings, chosen = _open(cluster)
        day = date or _default_day(chosen, settings)
        with _progress(f"{cluster}: {night.BY_NAME[name].title}, night of {day}", as_json):
            record = night.run_stage(name, cluster, day)
        _result(record, as_json, show.record_lines(record))

    command.__doc__ = doc
    app.command(name)(command)


_stage_command("quality", "Check what is in the lake for a day; exit code 2 when a stop check failed.")
_stage_command("features", "Build the feature table of all jobs known on a day.")
