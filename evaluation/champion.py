"""The champion beside the newcomer: both trained on what had ended before the champion's cut, judged on jobs submitted after it.

The champion as it serves has seen the jobs of the night's replay; only what came after its cut is new to it. The newcomer is
trained again at that cut, so that what is compared is the recipe, not a day more of history.
"""

from dataclasses import replace
from pathlib import Path

from runcast.data.cluster import Cluster
from runcast.evaluation.gates import ChampionComparison
from runcast.evaluation.metrics import BY_NAME, NEITHER, finite
from runcast.evaluation.replay import submitted_in
from runcast.features.catalog import feature_version
from runcast.features.matrix import Matrix
from runcast.training.errors import ModelFileError, NotEnoughJobs
from runcast.training.fitting import answer, fit_at, score_matrix
from runcast.training.kinds import find_kind
from runcast.training.scoring import load_scorer

_METRIC = "error_factor"


def compare_with_champion(matrix: Matrix, cluster: Cluster, kind: str, folder: Path) -> ChampionComparison:
    """Compare by the metric of the cluster's first gate where that is one of a forecast and has a better, else by the error factor.

    Where there is nothing to compare the result says why: the champion cannot be read, reads other features, or has the same recipe; or
    too few jobs have ended that were submitted after its cut.
    """
    asked_for = next((BY_NAME.get(gate.metric) for gate in cluster.evaluation.gates[:1]), None)
    metric = BY_NAME[_METRIC] if asked_for is None or asked_for.better is NEITHER else asked_for
    try:
        champion = load_scorer(folder)
    except ModelFileError as error:
        return ChampionComparison("", 0, metric.name, None, None, f"the champion cannot be read: {error}")
    card = champion.card
    cut, cut_us = str(card.training["cut"]), int(card.training["cut_us"])
    rows = submitted_in(matrix, cut_us, None)

    def without(reason: str) -> ChampionComparison:
        return ChampionComparison(cut, len(rows), metric.name, None, None, reason)

    if card.feature_version != feature_version():
        return without(f"it reads features of version {card.feature_version}, these are {feature_version()}")
    if champion.kind == kind and card.parameters == find_kind(kind).parameters(cluster.training):
        return without("it has the same recipe; the challenger has only learned from more jobs")
    if len(rows) < cluster.evaluation.min_test_jobs:
        return without(
            f"{len(rows)} jobs were submitted after its cut and have ended, {cluster.evaluation.min_test_jobs} asked for"
        )
    asked = matrix.take(rows)
    try:
        fit = fit_at(matrix, cut_us, (kind,), cluster.training)
    except NotEnoughJobs as error:
        return without(str(error))
    fitted = fit.fitted[kind]
    if fitted.fallback_reason is not None:
        return replace(without(fitted.fallback_reason), failure=fitted.failure)
    newcomer = answer(fit, asked)[kind]
    of_champion = score_matrix(champion, asked)
    served_s, new_s = (getattr(one, metric.of) for one in (of_champion, newcomer))
    actual_s = asked.ended.runtime_s
    served, new = (finite(metric.compute(actual_s, answers_s)) for answers_s in (served_s, new_s))
    return ChampionComparison(cut, len(rows), metric.name, served, new)
