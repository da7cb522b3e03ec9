"""The report's content as one JSON document: every number a reader or a gate needs, nothing of the machine or the hour.

Equal logs, settings and libraries give equal bytes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from runcast.data.cluster import Cluster
from runcast.evaluation.bootstrap import DRAWS, LEVEL, week_of
from runcast.evaluation.drift import Finding
from runcast.evaluation.facts import limits_outlived, notes, totals
from runcast.evaluation.gates import ChampionComparison, GateReport, judge, not_judged
from runcast.evaluation.importance import Importance, importance
from runcast.evaluation.metrics import BY_NAME, Floats
from runcast.evaluation.numbers import finite_only
from runcast.evaluation.replay import Cadence, Replay
from runcast.evaluation.scores import PER_JOB, Coverage, Intervals, Scores, coverages, intervals, score
from runcast.evaluation.slices import Slice, make_slices
from runcast.features.matrix import OPEN_US, Matrix
from runcast.training.forecast import hard_limit_s
from runcast.training.job import iso
from runcast.training.kinds import BASELINES, find_kind, find_predictor

#: Of the JSON document. A reader of reports refuses another one.
FORMAT = 1
#: A job as long as this share of those learned from is `long`.
_LONG_QUANTILE = 0.9


@dataclass(frozen=True)
class Judged:
    """A replay with its numbers: what figures, document and gates are made from."""

    matrix: Matrix
    done: Replay
    slices: tuple[Slice, ...]
    scores: Scores
    coverage: Coverage
    intervals: Intervals
    importance: Importance

    @property
    def actual_s(self) -> Floats:
        return self.matrix.ended.runtime_s[self.done.rows]


def judge_replay(matrix: Matrix, done: Replay, cluster: Cluster, draws: int = DRAWS) -> Judged:
    """Compute every number of a replay."""
    actual_s = matrix.ended.runtime_s[done.rows]
    learned_s = matrix.ended.runtime_s[done.last.rows]
    gated = [gate.rows for gate in cluster.evaluation.gates]
    slices = make_slices(matrix, done.rows, float(np.quantile(learned_s, _LONG_QUANTILE)), gated)
    scores = score(actual_s, done.forecasts, slices)
    present = [kind for kind in BASELINES if kind in done.forecasts] or list(done.forecasts)
    best = {metric: _best(scores, present, metric) for metric in PER_JOB}
    submit_us = matrix.submit_us[done.rows]
    week = week_of(submit_us, int(submit_us[0]))
    found = intervals(actual_s, done.forecasts, best, models_of(done.forecasts), week, cluster.training.seed, draws)
    return Judged(
        matrix,
        done,
        slices,
        scores,
        coverages(actual_s, done.forecasts, cluster.evaluation.targets),
        found,
        importance(matrix, done, models_of(done.forecasts), cluster.training.seed),
    )


def _best(scores: Scores, names: Sequence[str], metric: str) -> str:
    """Return which of `names` is best by `metric` on all jobs, the first where none has a value."""
    return BY_NAME[metric].better.best({name: scores[name]["all"][metric] for name in names}) or names[0]


def models_of(names: Sequence[str] | Mapping[str, Any]) -> list[str]:
    """Return those of the predictors that are judged: neither baselines nor comparisons."""
    return [name for name in names if find_predictor(name).is_model]


def verdicts(
    judged: Judged,
    cluster: Cluster,
    night: str,
    fingerprint: str,
    model_sha256: Mapping[str, str],
    champions: Mapping[str, ChampionComparison],
) -> dict[str, GateReport]:
    """Return the verdict on each model of the replay, by the cluster's gates."""
    return {
        kind: judge(
            cluster.evaluation.gates,
            cluster=cluster.name,
            kind=kind,
            night=night,
            data_fingerprint=fingerprint,
            model_sha256=model_sha256.get(kind, ""),
            scores=judged.scores,
            coverage=judged.coverage,
            baselines=[name for name in BASELINES if name in judged.done.forecasts],
            jobs=len(judged.done.rows),
            min_jobs=cluster.evaluation.min_test_jobs,
            distinct_answers=len(np.unique(judged.done.forecasts[kind].p50_s)),
            fallback_reason=judged.done.fallbacks.get(kind),
            champion=champions.get(kind),
        )
        for kind in models_of(judged.done.forecasts)
    }


def make_document(
    judged: Judged,
    cluster: Cluster,
    *,
    day: str | None,
    every: Cadence,
    fingerprint: str,
    feature_version: str,
    verdicts: Mapping[str, GateReport],
    champions: Mapping[str, ChampionComparison],
    libraries: Mapping[str, str],
    command: str,
    drift: Sequence[Finding] = (),
) -> dict[str, Any]:
    """Return the document; `cluster`, `jobs`, `predictors` and `coverage` are its promised part."""
    matrix, rows = judged.matrix, judged.done.rows
    limit_s = hard_limit_s(matrix.column("time_limit_s")[rows], matrix.column("is_limit_hard")[rows])
    limits = limits_outlived(judged.actual_s, limit_s)
    document = {
        "format": FORMAT,
        "cluster": cluster.name,
        "description": cluster.description,
        "day": day,
        "every": every,
        "jobs": len(rows),
        "predictors": judged.scores,
        "coverage": judged.coverage,
        "targets": list(cluster.evaluation.targets),
        "slices": {one.name: {"jobs": int(one.rows.sum()), "meaning": one.meaning} for one in judged.slices},
        "totals": totals(judged.actual_s, judged.done.forecasts),
        "limits": limits,
        "intervals": {**asdict(judged.intervals), "level": LEVEL},
        "verdicts": {kind: one.to_json() for kind, one in verdicts.items()},
        "importance": judged.importance,
        "champion": {kind: asdict(one) for kind, one in champions.items()},
        "fallbacks": dict(judged.done.fallbacks),
        "failures": {**judged.done.failures, **{kind: one.failure for kind, one in champions.items() if one.failure}},
        "drift": [one.to_json() for one in drift],
        "cuts": [
            {"at": iso(cut_us), "jobs_learned_from": learned, "jobs_answered": answered}
            for cut_us, learned, answered in judged.done.cuts
        ],
        "data": {
            "fingerprint": fingerprint,
            "jobs": len(matrix),
            "jobs_ended": int((matrix.ended.end_us != OPEN_US).sum()),
            "jobs_with_runtime": int(matrix.ended.has_runtime.sum()),
            "test_first_submit": iso(int(matrix.submit_us[rows[0]])),
            "test_last_submit": iso(int(matrix.submit_us[rows[-1]])),
            "test_censored": int((matrix.ended.label[rows] == "censored").sum()),
            "feature_version": feature_version,
            "features": len(matrix.names),
        },
        "parameters": {kind: find_kind(kind).parameters(cluster.training) for kind in models_of(judged.done.forecasts)},
        "training": {"window_days": cluster.training.window_days, "min_jobs": cluster.training.min_jobs},
        "seeds": {"training": cluster.training.seed, "bootstrap": judged.intervals.seed},
        "libraries": dict(libraries),
        "command": command,
        "notes": notes(matrix, limits),
    }
    return {name: finite_only(part) for name, part in document.items()}


def nothing_to_judge(
    cluster: Cluster,
    *,
    day: str,
    fingerprint: str,
    kinds: Sequence[str],
    reason: str,
    command: str,
    drift: Sequence[Finding] = (),
) -> dict[str, Any]:
    """Return the document of a night that had nothing to test on: no numbers, and verdicts that say why."""
    return {
        "format": FORMAT,
        "cluster": cluster.name,
        "description": cluster.description,
        "day": day,
        "every": "once",
        "jobs": 0,
        "predictors": {},
        "coverage": {},
        "targets": list(cluster.evaluation.targets),
        "slices": {},
        "totals": {},
        "limits": {},
        "verdicts": {kind: not_judged(cluster.name, kind, day, fingerprint, reason).to_json() for kind in kinds},
        "fallbacks": {},
        "failures": {},
        "drift": [one.to_json() for one in drift],
        "data": {"fingerprint": fingerprint},
        "command": command,
        "notes": [reason],
    }
