"""Whether a model may serve: a typed list of conditions on the report's numbers, and the passed report as the key to promotion.

A cluster file lists its gates. Two stand for every cluster: enough test jobs, and more than one answer. Where a champion serves
already, the newcomer must be no worse than it on jobs neither had seen.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from runcast.data.cluster import Gate
from runcast.evaluation.errors import GateNotPassed, UnknownNumber
from runcast.evaluation.metrics import BY_NAME
from runcast.evaluation.scores import Coverage, Scores, best_of

#: A gate's metric of this form reads the coverage at a target: coverage_0.089.
COVERAGE_PREFIX = "coverage_"


@dataclass(frozen=True)
class GateResult:
    """One condition, what was found, and the sentence that says so."""

    name: str
    passed: bool
    sentence: str


@dataclass(frozen=True)
class GateReport:
    """The verdict on one model of one cluster for one night; `data` is the fingerprint of the jobs it was judged on."""

    cluster: str
    kind: str
    day: str
    data: str
    passed: bool
    results: tuple[GateResult, ...]

    @property
    def sentence(self) -> str:
        """Say the verdict in one line: the first condition that failed, or that all hold."""
        failed = [result.sentence for result in self.results if not result.passed]
        return failed[0] if failed else "; ".join(result.sentence for result in self.results)


@dataclass(frozen=True)
class ChampionComparison:
    """The serving champion and the newcomer's recipe, both trained on what had ended before the champion's cut, on later jobs."""

    cut: str
    jobs: int
    metric: str
    champion: float | None
    challenger: float | None
    reason: str | None = None  # why there is no comparison


def judge(
    gates: Sequence[Gate],
    *,
    cluster: str,
    kind: str,
    day: str,
    data: str,
    scores: Scores,
    coverage: Coverage,
    baselines: Sequence[str],
    jobs: int,
    min_jobs: int,
    distinct_answers: int,
    fallback_reason: str | None,
    champion: ChampionComparison | None = None,
) -> GateReport:
    """Judge the model `kind`; raises UnknownNumber where a gate asks for what the report does not hold."""
    results = [_is_a_model(kind, distinct_answers, fallback_reason), _has_enough_jobs(jobs, min_jobs)]
    results += [_hold(gate, kind, scores, coverage, baselines) for gate in gates]
    if champion is not None:
        results.append(_is_no_worse(kind, champion))
    return GateReport(cluster, kind, day, data, all(result.passed for result in results), tuple(results))


def require_passed(report: GateReport, *, cluster: str, kind: str, data: str) -> None:
    """Raise GateNotPassed unless `report` is the passed verdict on this cluster's model of these data."""
    for name, expected, found in (("cluster", cluster, report.cluster), ("kind", kind, report.kind), ("data", data, report.data)):
        if expected != found:
            raise GateNotPassed(
                f"{cluster}/{kind}: the report is about {name} {found!r}, expected {expected!r}; evaluate this model first"
            )
    if not report.passed:
        raise GateNotPassed(f"{cluster}/{kind} of {report.day}: {report.sentence}. The champion stays.")


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
    if ":" in gate.rows and gate.rows not in scores[kind]:  # a state or a group that no test job has tonight
        return GateResult(_name(gate), False, f"{where} has no value: the slice has no jobs")
    value = _number(gate, kind, scores, coverage)
    if value is None:
        return GateResult(_name(gate), False, f"{where} has no value: the slice has no jobs")
    conditions: list[tuple[bool, str]] = []
    if gate.at_most is not None:
        conditions.append((value <= gate.at_most, f"at most {gate.at_most:.4g} asked for"))
    if gate.at_least is not None:
        conditions.append((value >= gate.at_least, f"at least {gate.at_least:.4g} asked for"))
    if gate.than_best_baseline:
        conditions.append(_beats_best_baseline(gate, value, scores, coverage, baselines))
    passed = all(holds for holds, _ in conditions)
    return GateResult(_name(gate), passed, f"{kind}: {where} is {value:.4g}; " + "; ".join(text for _, text in conditions))


def _beats_best_baseline(
    gate: Gate, value: float, scores: Scores, coverage: Coverage, baselines: Sequence[str]
) -> tuple[bool, str]:
    if gate.metric.startswith(COVERAGE_PREFIX):
        best = max(baselines, key=lambda name: _number(gate, name, scores, coverage) or 0.0)
        bound = _number(gate, best, scores, coverage) or 0.0
        return value > bound, f"the best baseline ({best}) has {bound:.4g}"
    better = BY_NAME[gate.metric].better
    if better == "neither":
        raise UnknownNumber(
            f"gate on {gate.metric}: neither more nor less of it is better; "
            "set at_most or at_least, and than_best_baseline: false"
        )
    best = best_of(scores, baselines, gate.metric, gate.rows)
    bound_or_none = scores[best][gate.rows][gate.metric]
    if bound_or_none is None:
        return True, "no baseline has a value"
    bound = bound_or_none
    wins = {"lower": value < bound, "higher": value > bound, "nearer_0.9": abs(value - 0.9) < abs(bound - 0.9)}[better]
    return wins, f"the best baseline ({best}) has {bound:.4g}"


def _number(gate: Gate, name: str, scores: Scores, coverage: Coverage) -> float | None:
    if gate.metric.startswith(COVERAGE_PREFIX):
        target = gate.metric.removeprefix(COVERAGE_PREFIX)
        if target not in coverage[name] or gate.rows != "all":
            raise UnknownNumber(
                f"gate on {gate.metric}, rows {gate.rows!r}: coverage is known on all jobs at {', '.join(coverage[name])}"
            )
        return coverage[name][target]
    if gate.metric not in BY_NAME:
        raise UnknownNumber(f"gate on {gate.metric!r}: known metrics are {', '.join(BY_NAME)} and {COVERAGE_PREFIX}<target>")
    if gate.rows not in scores[name]:
        raise UnknownNumber(f"gate on {gate.metric}: no slice {gate.rows!r} in this report; it holds {', '.join(scores[name])}")
    return scores[name][gate.rows][gate.metric]


def _name(gate: Gate) -> str:
    return f"{gate.metric}[{gate.rows}]"


def _is_no_worse(kind: str, champion: ChampionComparison) -> GateResult:
    """No worse than the champion; where they cannot be compared, nothing speaks against the newcomer."""
    if champion.reason is not None or champion.champion is None or champion.challenger is None:
        return GateResult("champion", True, f"not compared with the champion: {champion.reason or 'no value'}")
    better = BY_NAME[champion.metric].better
    passed = champion.challenger <= champion.champion if better == "lower" else champion.challenger >= champion.champion
    return GateResult(
        "champion",
        passed,
        f"{kind}: {champion.metric} is {champion.challenger:.4g} on {champion.jobs} jobs submitted after the champion's cut "
        f"({champion.cut}), the champion has {champion.champion:.4g}",
    )
