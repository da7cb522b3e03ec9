"""The measured table of docs/accuracy.md: replays of many logs, one row for each log and predictor."""

import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

Document = Mapping[str, Any]

_HEAD = """# Accuracy on real logs

Rebuilt by `make accuracy` (`RUNCAST_TRACES` names the folder of the logs): `runcast replay --cluster LOG --test-share 0.2 --every once` for
each log, that is: the jobs that ran and ended, in order of submission; the latest fifth is answered, each job from what had ended strictly
before its submission; models are trained once, on what had ended before the first of them. One default configuration for all logs.

`MdAPE` and `within 25 %` are of the point estimate, the error factor, exp(mean |ln(p50 / runtime)|), of p50. Coverage at 8.9 % is the largest share of the
jobs, surest first, whose median error is at or below 8.9 %. **Bold** is the best of a log's column. `mlaas` and `helios` are the two published systems
of Table 2 as far as they are public. The smallest logs (a day, a morning) have too few jobs to learn from: there a baseline answers for the
models, and the report says so.
"""


def accuracy_page(documents: Iterable[Document]) -> str:
    """Return the page for replays as `runcast replay --json` gives them."""
    lines = [
        _HEAD,
        "| log | test jobs | predictor | MdAPE | within 25 % | error factor | coverage at 8.9 % | p90 covers |",
        "|---|--:|---|--:|--:|--:|--:|--:|",
    ]
    for document in documents:
        lines += _rows(document)
    return "\n".join(lines) + "\n"


def _rows(document: Document) -> list[str]:
    figures = {name: _figures(document, name) for name in document["predictors"]}
    best = (
        min(f[0] for f in figures.values()),
        max(f[1] for f in figures.values()),
        min(f[2] for f in figures.values()),
        max(f[3] for f in figures.values()),
    )
    rows: list[str] = []
    for name, found in figures.items():
        shown = [_bold(f"{value:.3f}", value == top and value > 0) for value, top in zip(found, best, strict=False)]
        first = (document["cluster"], str(document["jobs"])) if not rows else ("", "")
        rows.append(f"| {first[0]} | {first[1]} | {name} | {' | '.join(shown)} | {found[4]:.3f} |")
    return rows


def _figures(document: Document, name: str) -> tuple[float, float, float, float, float]:
    everything = document["predictors"][name]["all"]
    covered = document["coverage"][name].get("0.089") or 0.0
    return everything["mdape"], everything["within_25"], everything["error_factor"], covered, everything["p90_coverage"]


def _bold(text: str, is_best: bool) -> str:
    return f"**{text}**" if is_best else text


def replay_beside(cluster_name: str) -> str:
    """Replay one log in a process of its own, whose memory ends with it; returns the JSON."""
    words = [
        sys.executable,
        "-m",
        "runcast",
        "replay",
        "--cluster",
        cluster_name,
        "--test-share",
        "0.2",
        "--every",
        "once",
        "--json",
    ]
    return subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True).stdout


def write_page(path: Path, documents: Iterable[Document]) -> None:
    path.write_text(accuracy_page(documents), encoding="utf-8")
