"""The model card: what a person reads in MLflow about a version, made from the night's report. Markdown, no user names."""

from collections.abc import Mapping
from typing import Any

Document = Mapping[str, Any]


def model_card(document: Document, kind: str, served_jobs: int) -> str:
    """Return the card of one kind: verdict, errors beside the best baseline, data, how to rebuild it."""
    verdict, data = document["verdicts"][kind], document["data"]
    lines = [
        f"**{document['cluster']} · {kind} · night of {document['day']}** — {verdict['text']}",
        "",
        *_errors(document, kind),
        "",
        f"- learned from {served_jobs} ended jobs; judged on the latest {document['jobs']}"
        + (f" ({data['test_first_submit']} to {data['test_last_submit']})" if document["jobs"] else ""),
        f"- features {data.get('feature_version', 'none')}; data {data['fingerprint'][:12]}",
        f"- judged again by: `{document['command']}`",
        "- a forecast is advice: it orders and plans, it never sets the limit at which a job is killed",
    ]
    return "\n".join(lines)


def _errors(document: Document, kind: str) -> list[str]:
    slices = document["predictors"].get(kind)
    if not slices:
        return ["Nothing could be judged."]
    best = document["verdicts"][kind].get("best_baseline")
    names = [kind, *([best] if best else [])]
    rows = ["| | " + " | ".join(names) + " |", "|---|" + "---|" * len(names)]
    for label, part, metric in (
        ("error factor, all jobs", "all", "error_factor"),
        ("error factor, recurring jobs", "recurring", "error_factor"),
        ("median error, all jobs", "all", "mdape"),
        ("within 25 %, all jobs", "all", "within_25"),
        ("p90 covers", "all", "p90_coverage"),
    ):
        rows.append(f"| {label} | " + " | ".join(_number(document, name, part, metric) for name in names) + " |")
    for target, share in document["coverage"].get(kind, {}).items():
        rows.append(
            f"| share of jobs at a median error of {100 * float(target):.1f} % | {100 * share:.1f} % |" + " |" * (len(names) - 1)
        )
    return rows


def _number(document: Document, name: str, part: str, metric: str) -> str:
    value = document["predictors"].get(name, {}).get(part, {}).get(metric)
    return "–" if value is None else f"{value:.3f}"
