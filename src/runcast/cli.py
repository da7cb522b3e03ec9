"""The command line: each command reads the settings, calls one job, and shows its result (`--json` prints it as JSON).

Errors that Runcast raises on purpose are printed as one message, with exit code 1 (2 for a stopped night); anything else is a
fault of ours and keeps its traceback.
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
from rich.status import Status

from runcast import show
from runcast.data.cluster import Cluster, find_cluster, read_cluster, read_clusters
from runcast.data.errors import QualityStop, RuncastError
from runcast.data.settings import Settings, read_settings

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, help=__doc__.split(":")[0] + ".")
clusters_app = typer.Typer(no_args_is_help=True, help="The cluster files: list them, check one.")
app.add_typer(clusters_app, name="clusters")

out = Console()
err = Console(stderr=True)

ClusterName = Annotated[str, typer.Option("--cluster", "-c", help="Name of the cluster: its file's stem.")]
Day = Annotated[str | None, typer.Option("--date", help="Day YYYY-MM-DD, local to the cluster (default: the latest day that holds jobs).")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON on standard output.")]


def main() -> None:
    """Run the command line; a RuncastError becomes a message and an exit code."""
    try:
        app()
    except QualityStop as error:
        err.print(f"[bold red]stopped:[/] {escape(str(error))}", soft_wrap=True)
        sys.exit(2)
    except RuncastError as error:
        err.print(f"[bold red]error:[/] {escape(str(error))}", soft_wrap=True)
        sys.exit(1)
