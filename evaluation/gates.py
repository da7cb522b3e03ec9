"""Whether a model may serve: a typed list of conditions on the report's numbers, and the passed report as the key to promotion.

A cluster file lists its gates; one that asks for what no report holds is refused there. Two stand for every cluster: enough test
jobs, and more than one answer. Where a champion serves already, the newcomer must be no worse than it on jobs neither had seen.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from runcast.data.cluster import COVERAGE_PREFIX, Gate
from runcast.evaluation.metrics import direction_of, finite
from runcast.evaluation.scores import Coverage, Scores


@dataclass(frozen=True)
class GateResult:
    """One condition, what was found, and the sentence that says so."""

    name: str
    passed: bool
    sentence: str


@dataclass(frozen=True)
class GateReport:
    """The verdict on one model of one cluster and night; the registry promotes by it and compares what it is about.

    `best_baseline` and its value are by the metric and rows of the cluster's first gate, `value` is the model's.
    """

    cluster: str
    kind: str
    night: str
    data_fingerprint: str
    model_sha256: str
    passed: bool
    results: tuple[GateResult, ...]
    metric: str
    value: float | None = None
    best_baseline: str | None = None
    best_baseline_value: float | None = None

    @property
    def reasons(self) -> tuple[str, ...]:
        """The conditions that failed, each as a sentence; empty where all hold."""
        return tuple(result.sentence for result in self.results if not result.passed)

    @property
    def text(self) -> str:
        """Say the verdict in one line."""
        return "passed" if self.passed else "not passed: " + "; ".join(self.reasons)

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "text": self.text}

    @classmethod
    def from_json(cls, written: Mapping[str, Any]) -> "GateReport":
        """Return the verdict that `to_json` wrote, as it stands in report.json."""
        known = {name: value for name, value in written.items() if name != "text"}
        return cls(**{**known, "results": tuple(GateResult(**result) for result in written["results"])})


@dataclass(frozen=True)
class ChampionComparison:
    """The serving champion and the newcomer's recipe, both trained on what had ended before the champion's cut, on later jobs."""

    cut: str
    jobs: int
    metric: str
    champion: float | None
    challenger: float | None
    reason: str | None = None  # why there is no comparison
    failure: str | None = None  # of the newcomer's fit at that cut; a model that cannot be fitted is not promoted


def judge(
    gates: Sequence[Gate],
    *,
    cluster: str,
    kind: str,
    night: str,
    data_fingerprint: str,
    model_sha256: str,
    scores: Scores,
    coverage: Coverage,
    baselines: Sequence[str],
    jobs: int,
    min_jobs: int,
    distinct_answers: int,
    fallback_reason: str | None,
    champion: ChampionComparison | None = None,
) -> GateReport:
    """Judge the model `kind`; an empty `model_sha256` says that none was trained that night."""
    results = [_is_a_model(kind, distinct_answers, fallback_reason), _has_enough_jobs(jobs, min_jobs)]
    if fallback_reason is None and not model_sha256:
        results.append(GateResult("trained", False, f"no {kind} was trained for this night; train it, then evaluate"))
    results += [_hold(gate, kind, scores, coverage, baselines) for gate in gates]
    if champion is not None:
        results.append(_is_no_worse(kind, champion))
    first = gates[0] if gates else Gate()
    found = {name: number_of(first, name, scores, coverage) for name in (kind, *baselines)}
    best = _best(first, scores, coverage, baselines)
    return GateReport(
        cluster=cluster,
        kind=kind,
        night=night,
        data_fingerprint=data_fingerprint,
        model_sha256=model_sha256,
        passed=all(result.passed for result in results),
        results=tuple(results),
        metric=_name(first),
        value=found[kind],
        best_baseline=best,
        best_baseline_value=None if best is None else found[best],
    )


def not_judged(cluster: str, kind: str, night: str, data_fingerprint: str, reason: str) -> GateReport:
    """Return the failed verdict on a model that could not be judged."""
    return GateReport(cluster, kind, night, data_fingerprint, "", False, (GateResult("enough_jobs", False, reason),), metric="")


def _is_a_model(kind: str, distinct_answers: int, fallback_reason: str | None) -> GateResult:
    if fallback_reason is not None:
        return GateResult("is_a_model", False, fallback_reason)
    passed = distinct_answers > 1
    return GateResult(
        "is_a_model",
        passed,
        f"{kind} gives {distinct_answers} different answers" + ("" if passed else ": a constant is no model"),
    )


def _has_enough_jobs(jobs: int, min_jobs: int) -> GateResult:
    return GateResult("enough_jobs", jobs >= min_jobs, f"{jobs} test jobs, {min_jobs} asked for")


def _hold(gate: Gate, kind: str, scores: Scores, coverage: Coverage, baselines: Sequence[str]) -> GateResult:
    """Check one configured gate: its bounds, and the best baseline on the same rows."""
    where = f"{gate.metric} on {gate.rows} jobs"
    value = number_of(gate, kind, scores, coverage)
    if value is None:
        return GateResult(_name(gate), False, f"{kind}: {where} has no value: {_why_none(gate, kind, scores)}")
    conditions: list[tuple[bool, str]] = []
    if gate.at_most is not None:
        conditions.append((value <= gate.at_most, f"at most {gate.at_most:.4g} asked for"))
    if gate.at_least is not None:
        conditions.append((value >= gate.at_least, f"at least {gate.at_least:.4g} asked for"))
    if gate.than_best_baseline:
        conditions.append(_beats_best_baseline(gate, value, scores, coverage, baselines))
    passed = all(holds for holds, _ in conditions)
    # A verdict names what decided it: of a gate that fails, the conditions that fail.
    texts = [text for holds, text in conditions if passed or not holds]
    return GateResult(_name(gate), passed, f"{kind}: {where} is {value:.4g}; " + "; ".join(texts))


def _beats_best_baseline(
    gate: Gate, value: float, scores: Scores, coverage: Coverage, baselines: Sequence[str]
) -> tuple[bool, str]:
    best = _best(gate, scores, coverage, baselines)
    bound = None if best is None else number_of(gate, best, scores, coverage)
    if bound is None:
        return True, "no baseline has a value"
    return direction_of(gate.metric).is_better(value, bound), f"the best baseline ({best}) has {bound:.4g}"


def _best(gate: Gate, scores: Scores, coverage: Coverage, baselines: Sequence[str]) -> str | None:
    """Return the best baseline by the gate's number, None where none has one or no way is better."""
    return direction_of(gate.metric).best({name: number_of(gate, name, scores, coverage) for name in baselines})


def number_of(gate: Gate, name: str, scores: Scores, coverage: Coverage) -> float | None:
    """Return a predictor's number that a gate is about, None where it has none: no forecasts, or rows without jobs tonight."""
    if gate.metric.startswith(COVERAGE_PREFIX):
        return finite(coverage.get(name, {}).get(gate.metric.removeprefix(COVERAGE_PREFIX)))
    return finite(scores.get(name, {}).get(gate.rows, {}).get(gate.metric))


def _why_none(gate: Gate, kind: str, scores: Scores) -> str:
    rows = scores.get(kind, {}).get(gate.rows)
    has_jobs = rows is not None and any(value is not None for value in rows.values())
    return "it cannot be computed on them" if has_jobs else "there are none among the test jobs"


def _name(gate: Gate) -> str:
    return f"{gate.metric}[{gate.rows}]"


def _is_no_worse(kind: str, champion: ChampionComparison) -> GateResult:
    """No worse than the champion; where the two cannot be compared, nothing speaks against the newcomer but a fit that failed."""
    if champion.failure is not None:
        return GateResult("champion", False, f"not compared with the champion: {champion.failure}")
    served, new = finite(champion.champion), finite(champion.challenger)
    if champion.reason is not None or served is None:
        reason = champion.reason or f"the champion has no {champion.metric} on the {champion.jobs} jobs since its cut"
        return GateResult("champion", True, f"not compared with the champion: {reason}")
    said = "has no value" if new is None else f"is {new:.4g}"
    return GateResult(
        "champion",
        not direction_of(champion.metric).is_better(served, new),
        f"{kind}: {champion.metric} {said} on {champion.jobs} jobs submitted after the champion's cut "
        f"({champion.cut}), the champion has {served:.4g}",
    )
