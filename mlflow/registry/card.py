"""The model card: what a person reads in MLflow about a version, made from the night's report. Markdown, no user names.

Its first line is plain text: MLflow's tables of versions and runs show the start of the card as it is written. Whatever a log or a
cluster file calls things is text here too: it makes no link, no table and no tag.
"""

import re
from collections.abc import Mapping
from typing import Any

from runcast.evaluation.metrics import BY_NAME
from runcast.evaluation.numbers import format_metric, percent
from runcast.registry.slug import model_name
from runcast.training.kinds import BASELINES, find_kind

Document = Mapping[str, Any]

LONGEST = 5000  # characters that MLflow keeps of a version's description

#: What the table shows: words, slice, metric.
_ROWS = (
    ("error factor, all jobs (1 is perfect)", "all", "error_factor"),
    ("error factor, recurring jobs", "recurring", "error_factor"),
    ("median error, all jobs", "all", "mdape"),
    ("forecasts within 25 % of the runtime", "all", "within_25"),
    ("jobs that ended within p90 (90 % is right)", "all", "p90_coverage"),
)
_FEWEST = 10  # jobs of a slice below which its number is noise
_PAD = "&nbsp;&nbsp;&nbsp;"  # MLflow draws tables without space between columns


def model_card(document: Document, kind: str, training: Mapping[str, Any]) -> str:
    """Return the card of one kind; `training` says what the model learned from (see training.scoring.ModelCard)."""
    parts = [
        _summary(document, kind),
        "\n".join(_errors(document, kind)),
        "&nbsp;",  # and none below them
        f"**What it predicts.** How long a job will hold its nodes, whatever ends it, from what is known when it is submitted: `p50_s` "
        f"(to order by), `p90_s` (to plan with), and how sure it is. {_sentence(find_kind(kind).meaning)}",
        "**Verdict.** " + _verdict(document, kind),
        "**Data.** " + _data(document, training),
        "**Limits.** " + _limits(document, kind),
        "**Use.** " + _use(document, kind),
        f"Features {text(document['data'].get('feature_version', 'none'))} · data {document['data']['fingerprint'][:12]} · "
        + " · ".join(f"{text(name)} {text(version)}" for name, version in document.get("libraries", {}).items()),
    ]
    return _within("\n\n".join(parts))


def model_description(cluster: str, kind: str) -> str:
    """Return what stands above all versions of a cluster's models of one kind."""
    return (
        f"How long jobs on {text(cluster)} will run, by the predictor {text(kind)}: {text(find_kind(kind).meaning)}.\n\n"
        f"A version is a night. Its description is its model card: verdict, errors beside the best baseline, data, limits, use. "
        f"The alias `champion` is the latest version that passed its gates; `challenger` is the latest night, passed or not. "
        f"Which kind serves, the scheduler's bundle says: {code(f'runcast status --cluster {cluster}')}.\n\n"
        f"Read it by alias, never by number: `models:/{model_name(cluster, kind)}@champion`."
    )


def text(written: object) -> str:
    """Return what a log or a file calls something as Markdown that shows it and does nothing else, on one line.

    >>> text("<b>a|b</b> [x](y)")
    '&lt;b&gt;a\\\\|b&lt;/b&gt; \\\\[x\\\\](y)'
    """
    line = re.sub(r"\s+", " ", str(written)).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    line = re.sub(r"([\\`*_{}\[\]#|~!])", r"\\\1", line)
    return re.sub(r"(?i)\b(https?|ftp|www)(:|\.)|(@)", r"\1\3&#8203;\2", line)  # a bare address is no link either


def code(written: object) -> str:
    """Return a command as a code span."""
    return "`" + " ".join(str(written).split()).replace("`", "'") + "`"


def _summary(document: Document, kind: str) -> str:
    """One line without any mark: verdict, error beside the baseline, night."""
    verdict = document["verdicts"][kind]
    said = ["passed" if verdict["passed"] else "not passed"]
    best, own = _best_baseline(document, kind), _value(document, kind, "all", "error_factor")
    if own is not None:
        said.append(f"error factor {_shown(document, kind, 'all', 'error_factor')}")
    if best is not None:
        said.append(f"best baseline {_shown(document, best, 'all', 'error_factor')}")
    return " · ".join([*said, f"night of {document['day']}"])


def _errors(document: Document, kind: str) -> list[str]:
    if kind not in document["predictors"]:
        return ["Nothing could be judged."]
    best = _best_baseline(document, kind)
    names = [kind, *([best] if best else [])]
    rows = [
        f"| {text(document['cluster'])} | " + " | ".join(_PAD + text(name) for name in names) + " |",
        "|:--|" + "--:|" * len(names),
    ]
    rows += [
        f"| {words} | " + " | ".join(_cell(_shown(document, name, part, metric)) for name in names) + " |"
        for words, part, metric in _ROWS
    ]
    for target in document["coverage"].get(kind, {}):
        shares = [document["coverage"].get(name, {}).get(target) for name in names]
        rows.append(
            f"| jobs, surest first, at a median error of {percent(float(target), 1)} | "
            + " | ".join(_cell(percent(share)) for share in shares)
            + " |"
        )
    return rows


def _cell(number: str) -> str:
    return _PAD + number.replace(" ", "&nbsp;")


def _verdict(document: Document, kind: str) -> str:
    verdict = document["verdicts"][kind]
    said = "Passed, it may serve." if verdict["passed"] else "Not passed, it does not serve."
    return said + "\n\n" + "\n".join(f"- {'✓' if one['passed'] else '✗'} {text(one['sentence'])}" for one in verdict["results"])


def _data(document: Document, training: Mapping[str, Any]) -> str:
    jobs, censored = int(training["jobs"]), int(training.get("censored_jobs") or 0)
    span = (
        f", submitted from {str(training['first_submit'])[:10]}, ended by {str(training['last_end'])[:10]}"
        if "last_end" in training
        else ""
    )
    learned = f"Learned from {jobs:,} ended jobs{span}"
    if censored:
        learned += f"; {percent(censored / jobs)} of them were censored (ended from outside) and count with the time they held their nodes"
    if not document["jobs"]:
        return f"{learned}."
    data = document["data"]
    return (
        f"{learned}. Judged by replay on the latest {document['jobs']:,}, submitted {data['test_first_submit'][:10]} to "
        f"{data['test_last_submit'][:10]}, by the same recipe trained on what had ended before them."
    )


def _limits(document: Document, kind: str) -> str:
    said = [_sentence(_prose(note)) for note in document["notes"]] if document["jobs"] else []
    about = document["slices"].get("new_user", {})
    if about.get("jobs", 0) >= _FEWEST and _value(document, kind, "new_user", "error_factor") is not None:
        said.append(
            f"Of users without a finished job it knows little: error factor {_shown(document, kind, 'new_user', 'error_factor')} on "
            f"{about['jobs']:,} such jobs."
        )
    return " ".join([*said, "A forecast is advice: it orders and plans, it never sets the limit at which a job is killed."])


def _use(document: Document, kind: str) -> str:
    name = model_name(document["cluster"], kind)
    load = f'mlflow.pyfunc.load_model("models:/{name}@champion").predict(jobs)'
    return (
        f"The scheduler asks the bundle, which holds the best champion. In Python: {code(load)}. "
        f"The night's report, with every number and figure, is the run's artifact `report/report.html`; judged again by "
        f"{code(document['command'])}."
    )


def _best_baseline(document: Document, kind: str) -> str | None:
    found = document["verdicts"][kind].get("best_baseline")
    return found if found in BASELINES else None


def _value(document: Document, name: str, part: str, metric: str) -> float | None:
    found: float | None = document["predictors"].get(name, {}).get(part, {}).get(metric)
    return found


def _shown(document: Document, name: str, part: str, metric: str) -> str:
    return format_metric(_value(document, name, part, metric), BY_NAME[metric])


def _prose(written: str) -> str:
    """Return text in which backticks set off names, as our own sentences do."""
    parts = written.split("`")
    if len(parts) % 2 == 0:
        return text(written)
    return "".join(code(part) if at % 2 else text(part) for at, part in enumerate(parts) if part)


def _sentence(words: str) -> str:
    return words[:1].upper() + words[1:] + ("" if words.endswith((".", "!", "?")) else ".")


def _within(card: str) -> str:
    """Return the card no longer than MLflow keeps, cut at a line."""
    if len(card) <= LONGEST:
        return card
    return card[: LONGEST - 40].rpartition("\n")[0] + "\n\n… the rest is in the report"
