"""How an experiment opens in MLflow's own pages: what it is about, and a saved view with the columns that people compare.

By itself MLflow 3.17 shows runs without a single metric, and opens an experiment on its pages for language models. It keeps saved
views as tags of the experiment, listed under "Views"; the address of one opens it. The description, which stands above every page of
the experiment, leads there. Older and other versions ignore the tag and show what they always show.
"""

import json
from typing import Any

from runcast.registry.card import text
from runcast.registry.slug import model_name
from runcast.training.kinds import MODELS

#: Kinds of the runs beside the nights, as the tag runcast.kind has them.
REPLAY, LIVE = "replay", "live"

VIEW = "nights"  # the saved view's id, part of its address
_VIEW_TAG = f"mlflow.sharedViewState.{VIEW}"
_AS_TRAINING = "workflowType=machine_learning"  # not the pages for language models

#: Of the runs beside the nights, replays and live accuracy, every column would be empty.
_OF_NIGHTS = " AND ".join(f"tags.`runcast.kind` != '{kind}'" for kind in (REPLAY, LIVE))

#: Column, its width in pixels: the names of metrics are longer than MLflow's default.
COLUMNS: tuple[tuple[str, int], ...] = (
    ("tags.`runcast.verdict`", 130),
    ("metrics.`all/error_factor`", 130),
    ("metrics.`best_baseline/error_factor`", 205),
    ("metrics.`all/within_25`", 115),
    ("metrics.`all/mdape`", 100),
    ("metrics.`all/p90_coverage`", 150),
    ("metrics.`coverage/0.089`", 135),
    ("metrics.`recurring/error_factor`", 180),
    ("params.`jobs`", 90),
    ("params.`last_end`", 200),
    ("tags.`runcast.feature_version`", 200),
    ("attributes.`Models`", 260),
)


def experiment_tags(cluster: str, experiment_id: str, about: str) -> dict[str, str]:
    """Return the tags that make the experiment's pages; `about` is the cluster file's description."""
    return {"mlflow.note.content": _description(cluster, experiment_id, about), _VIEW_TAG: _view()}


def view_address(experiment_id: str) -> str:
    """Return the saved view's address below the server's: `#/experiments/…`."""
    return f"#/experiments/{experiment_id}/runs?viewStateShareKey={VIEW}&{_AS_TRAINING}"


def every_experiment() -> str:
    """Return the address of the list of experiments below the server's."""
    return f"#/experiments?{_AS_TRAINING}"


def _description(cluster: str, experiment_id: str, about: str) -> str:
    models = ", ".join(f"[{kind}](#/models/{model_name(cluster, kind)}?{_AS_TRAINING})" for kind in MODELS)
    return "\n\n".join(
        [
            f"How long jobs on {text(cluster)} will run: one run for each night and kind. "
            f"[Compare the nights]({view_address(experiment_id)}). Models: {models}.",
            *([text(about)] if about.strip() else []),
            "`error_factor`: off by a factor of so much, geometric mean, 1 is perfect. `within_25`: share of forecasts within 25 % of "
            "the runtime. `mdape`: half of the forecasts are off by no more. `p90_coverage`: share of jobs that ended within p90, 0.9 is "
            "right. `coverage/0.089`: share of jobs, the surest first, at a median error of 8.9 %. `share_of_best_baseline`: below 1 the "
            "model beats the best baseline. The prefix names the jobs: `all`, `recurring` and so on.",
        ]
    )


def _view() -> str:
    """Return the saved view in the form that MLflow's pages write: latest night first."""
    first = ["attributes.`Run Name`", "runDateAndNestInfo"]
    state: dict[str, Any] = {
        "searchFilter": _OF_NIGHTS,
        "orderByKey": "tags.`mlflow.runName`",  # by night; by the moment of logging a backfilled night would come first
        "orderByAsc": False,
        "startTime": "ALL",
        "lifecycleFilter": "Active",
        "datasetsFilter": [],
        "modelVersionFilter": "All Runs",
        "selectedColumns": [column for column, _ in COLUMNS],
        "columnOrder": [*first, *(column for column, _ in COLUMNS), "duration"],
        "columnWidths": {"attributes.`Run Name`": 170, "runDateAndNestInfo": 155, **dict(COLUMNS)},
    }
    return json.dumps(
        {"name": "Nights", "createdAt": 0, "updatedAt": 0, "state": json.dumps(state, sort_keys=True)}, sort_keys=True
    )
