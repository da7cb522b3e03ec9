"""Several predictors fitted at one cut on the same jobs, and their answers for other jobs of the same matrix."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from runcast.data.cluster import Training
from runcast.features.encoder import Encoder
from runcast.features.matrix import Matrix
from runcast.training.baselines import READS
from runcast.training.comparisons import Helios, Mlaas
from runcast.training.conformal import residual_log, rolled
from runcast.training.errors import NotEnoughJobs
from runcast.training.forecast import Forecast, Inputs
from runcast.training.kinds import Fitted, find_kind, find_predictor, fit, fit_comparison
from runcast.training.ranked import Ranked
from runcast.training.rows import encoded_inputs, ended_before, owners, plain_inputs
from runcast.training.scoring import Rule, Scorer

_READS: tuple[str, ...] = tuple(dict.fromkeys(name for names in READS.values() for name in names))


@dataclass(frozen=True)
class Fit:
    """The predictors of one cut: `rows` are the jobs they learned from, `encoder` is None where no model was asked for.

    `compared` are the predictors of the literature, which are neither stored nor served.
    """

    cut_us: int
    rows: NDArray[np.intp]
    encoder: Encoder | None
    fitted: Mapping[str, Fitted]
    compared: Mapping[str, Mlaas | Helios]


def fit_at(matrix: Matrix, cut_us: int, kinds: Sequence[str], training: Training) -> Fit:
    """Fit `kinds` on what had ended before the cut; raises NotEnoughJobs where nothing had."""
    rows = ended_before(matrix, cut_us, training)
    if not len(rows):
        raise NotEnoughJobs(
            "no job had ended before the first test job. Come back in a few days, or load an earlier part of the log"
        )
    learned = matrix.take(rows)
    encoder = Encoder.fit(learned) if any(find_predictor(kind).is_model for kind in kinds) else None
    plain, encoded = _inputs(learned, encoder)
    found = {kind: fit_comparison(kind, learned, plain, training) for kind in kinds if find_predictor(kind).role == "comparison"}
    del learned  # of its features the encoded ones are a second copy: held for nothing while models are fitted
    runtime_s = matrix.ended.runtime_s[rows]
    fitted = {
        kind: fit(kind, plain if find_kind(kind).is_baseline else encoded, runtime_s, training)
        for kind in kinds
        if find_predictor(kind).role != "comparison"
    }
    fitted |= {kind: one for kind, one in found.items() if isinstance(one, Fitted)}
    return Fit(
        cut_us,
        rows,
        encoder,
        {kind: fitted[kind] for kind in kinds if kind in fitted},
        {kind: one for kind, one in found.items() if not isinstance(one, Fitted)},
    )


def answer(fit: Fit, matrix: Matrix) -> dict[str, Forecast]:
    """Return each predictor's forecast for every row of the matrix, whose rows are in submission order."""
    plain, encoded = _inputs(matrix, fit.encoder)
    found = {
        kind: _answer(fitted.rule, plain if find_kind(fitted.rule.kind).is_baseline else encoded, matrix)
        for kind, fitted in fit.fitted.items()
    }
    return found | {kind: compared.answer(matrix) for kind, compared in fit.compared.items()}


def _answer(rule: Rule, inputs: Inputs, matrix: Matrix) -> Forecast:
    """Return the rule's forecasts; one with a margin keeps it current by those of the jobs that have ended meanwhile."""
    inputs = inputs.select(rule.columns)
    if not isinstance(rule, Ranked):
        return rule.forecast(inputs)
    runtime_s = np.where(matrix.ended.has_runtime, matrix.ended.runtime_s, np.nan)
    p90_log = rule.p90_log(inputs)
    residual = residual_log(np.log(np.maximum(runtime_s, 1)), p90_log, inputs.hard_limit_s)
    return rule.answer(inputs, rolled(rule.margin, p90_log, residual, matrix.submit_us, matrix.ended.end_us, owners(matrix)))


def _inputs(matrix: Matrix, encoder: Encoder | None) -> tuple[Inputs, Inputs]:
    """Return the baselines' inputs and the models' (the former again where there is no encoder)."""
    plain = plain_inputs(matrix, _READS)
    return plain, plain if encoder is None else encoded_inputs(matrix, encoder)


def score_matrix(scorer: Scorer, matrix: Matrix) -> Forecast:
    """Return a stored predictor's forecast for every row, by the encoder it was trained with."""
    if not scorer.card.encoder:
        return _answer(scorer.rule, plain_inputs(matrix, scorer.columns), matrix)
    return _answer(scorer.rule, encoded_inputs(matrix, Encoder.from_json(json.dumps(scorer.card.encoder))), matrix)
