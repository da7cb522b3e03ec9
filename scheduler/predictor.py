"""A forecast for one job, from a bundle: history, encoder and model in one process.

    predictor = Predictor.load(Path("var/bundles/venus/current"))
    predictor.predict({"submit_time": "2020-09-27T10:00:00+08:00", "user": "u17", "gpu_count": 8})

Between two bundles `submitted`, `started` and `ended` keep the history current, and with it the margin of p90: of a job that was
submitted since the bundle's cut and is known by its job_id, p90 before the margin is remembered, as it was first told (by `predict`, or on
its submission), and held against its runtime when it ends. A new bundle begins with the margin of its own night.
Not safe for several threads at once. A process that answers within a tenth of a millisecond calls `gc.freeze()` after loading, so that no
collection walks the history.
"""

import contextlib
import json
import math
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from runcast.data.pseudonyms import Pseudonyms, read_key
from runcast.features.catalog import NAMES, feature_version
from runcast.features.encoder import Encoder
from runcast.features.errors import EncoderError
from runcast.features.state import State
from runcast.features.working_row import WorkingPlan
from runcast.scheduler.bundle import HOW_TO_MEND, Manifest, check, moment_of, resolve
from runcast.scheduler.errors import BundleDamaged, BundleMismatch
from runcast.scheduler.events import Kind, job_key, read_event
from runcast.scheduler.jobs import LONGEST_TEXT, read_job
from runcast.scheduler.private_copy import private_copy
from runcast.training.conformal import owner_of
from runcast.training.one_row import OneRanked, answerer
from runcast.training.ranked import Ranked, recipe_version
from runcast.training.running_margin import P90Told, RunningMargin
from runcast.training.scoring import Scorer, load_scorer

MODEL = "model"
STATE = "state.npz"

#: By kind, the version of what is done beside its models: features made of features, answers made of answers.
RECIPES = {"runcast": recipe_version()}


class Predictor:
    """A bundle, loaded; `manifest` says what it is, `cut_us` up to when (µs since 1970) its history knows the jobs."""

    def __init__(self, manifest: Manifest, scorer: Scorer, state: State, pseudonyms: Pseudonyms | None = None) -> None:
        encoder = encoder_of(scorer)
        names = NAMES if encoder is None else encoder.columns
        missing = [name for name in scorer.columns if name not in names]
        if missing:
            raise BundleMismatch(
                f"the model asks for features that are not computed here: {', '.join(missing[:5])}. Export it again."
            )
        self.manifest = manifest
        self.cut_us = round(moment_of(manifest.data_cut).timestamp() * 1e6)
        self._state, self._ask = state, answerer(scorer.rule)
        self._margin = RunningMargin(scorer.rule.margin) if isinstance(scorer.rule, Ranked) else None
        self._plan = WorkingPlan(scorer.columns, {} if encoder is None else encoder.codes)
        self._pseudonyms = pseudonyms

    @classmethod
    def load(
        cls,
        folder: Path,
        *,
        now: datetime | None = None,
        may_be_expired: bool = False,
        pseudonym_key: Path | None = None,
        has_pseudonyms: bool = False,
        cluster: str | None = None,
        signers: Path | None = None,
    ) -> "Predictor":
        """Load a bundle, or the one that `folder`/current points to, after every check; raises BundleError, PseudonymKeyError.

        A bundle that cannot answer is damaged, whatever its hashes say. `cluster`, where given, must be the bundle's, and a key in
        the file `signers` must have signed it; it is copied first, to where only this account can change it. `now` is the
        moment that valid_until is compared with, the clock's where it is not given. `pseudonym_key` is the key file of a cluster
        whose names are pseudonyms: jobs come with their names in clear. With `has_pseudonyms` they come as the lake holds them, and
        no key is needed.
        """
        bundle = resolve(folder)
        moment = datetime.min.replace(tzinfo=UTC) if may_be_expired else now or datetime.now(UTC)
        with contextlib.nullcontext(bundle) if signers is None else private_copy(bundle) as checked:
            manifest = check(
                checked, feature_version=feature_version(), recipes=RECIPES, now=moment, cluster=cluster, signers=signers
            )
            pseudonyms = None if has_pseudonyms else pseudonyms_of(manifest, pseudonym_key)
            scorer, state = load_scorer(checked / MODEL, manifest.feature_version), State.load(checked / STATE)
        if scorer.kind != manifest.kind or scorer.card.cluster != manifest.cluster:
            raise BundleMismatch(
                f"{bundle}: the manifest says {manifest.kind} of {manifest.cluster}, the model is {scorer.kind} of "
                f"{scorer.card.cluster}. Export it again (`runcast export`)."
            )
        if (state.clock, state.time_zone) != (manifest.clock, manifest.time_zone):
            raise BundleMismatch(
                f"{bundle}: the manifest says clock {manifest.clock} in {manifest.time_zone}, the history {state.clock} in "
                f"{state.time_zone}. Export it again (`runcast export`)."
            )
        try:
            predictor = cls(manifest, scorer, state, pseudonyms)
            predictor._refuse_unable()
        except (EncoderError, KeyError, TypeError, ValueError, IndexError, AttributeError, ArithmeticError) as error:
            raise BundleDamaged(f"{bundle}: cannot answer: {type(error).__name__}: {error}. {HOW_TO_MEND}") from error
        return predictor

    def _refuse_unable(self) -> None:
        """Raise ValueError where the answer to a job of which nothing is known is none: a number is missing or not finite."""
        answer, _ = self.ask(read_job({"submit_time": self.cut_us / 1e6}, self.manifest.time_limit))
        numbers = [answer[name] for name in ("p50_s", "p90_s", "point_s", "confidence")]
        if not all(isinstance(number, float) and math.isfinite(number) and number >= 0 for number in numbers):
            raise ValueError(f"p50_s, p90_s, point_s, confidence of a job without fields: {numbers}")

    def predict(self, told: Mapping[str, Any]) -> dict[str, Any]:
        """Return the forecast for a job about to be submitted; raises JobFieldError naming the field that is wrong.

        p50_s orders, p90_s plans, point_s is the single value meant to be right; confidence is between 0 and 1. `source` says
        what answered: the model's kind, a baseline, or training_median where nothing at all is known; `n_history` how many
        ended runs of the job's own stand behind it, up to 7: 0 for a user who has none, whoever's runs answered in their place.
        """
        answer, p90 = self.ask(read_job(self.with_pseudonyms(told), self.manifest.time_limit))
        if p90 is not None:
            self.remember(p90)
        return answer

    def with_pseudonyms(self, told: Any) -> Any:
        """Return a job or event as the bundle knows it; as it is told where names are in clear, or where it is none."""
        if self._pseudonyms is None or not isinstance(told, Mapping):
            return told
        return self._pseudonyms.mapped(told, LONGEST_TEXT)

    def tell(self, told: Mapping[str, Any]) -> None:
        """Take one event of a job into the history; raises JobFieldError naming the field that is wrong."""
        kind, job = read_event(self.with_pseudonyms(told), self.manifest.cluster, self.manifest.time_limit)
        self.take(kind, job)
        if kind == "submitted" and self.awaits(job):
            _, p90 = self.ask(job)
            if p90 is not None:
                self.remember(p90)

    def take(self, kind: Kind, job: Mapping[str, Any]) -> None:
        """Take an event that has been read, names replaced, into the history and the margin; see read_event.

        What a job is told is not remembered.
        """
        if kind == "submitted":
            self._state.submitted(job)
        elif kind == "started":
            self._state.started(job)
        else:
            self._state.ended(job)
            if self._margin is not None:
                end_us = job["submit_time"] if job["end_time"] is None else max(job["end_time"], job["submit_time"])
                self._margin.ended(job["job_key"], end_us, job["runtime_s"])

    def awaits(self, job: Mapping[str, Any]) -> bool:
        """Whether the margin lacks what this job, which was read, is told: it has an id and was submitted since the cut."""
        return (
            self._margin is not None
            and job.get("job_id") is not None
            and job["submit_time"] >= self.cut_us
            and job_key(self.manifest.cluster, job) not in self._margin
        )

    def advance(self, submit_us: int, at_most: int) -> bool:
        """Count events before a submission, so many at most; returns whether `ask` has none left to count."""
        return self._state.advance(submit_us, at_most)

    def remember(self, p90: P90Told) -> None:
        """Remember what `ask` told a job; what it was told first counts."""
        if self._margin is not None:
            self._margin.told(p90)

    def submitted(self, told: Mapping[str, Any]) -> None:
        """Tell that a job was submitted; see events.py for the fields."""
        self.tell({**told, "event": "submitted"})

    def started(self, told: Mapping[str, Any]) -> None:
        """Tell that a job started."""
        self.tell({**told, "event": "started"})

    def ended(self, told: Mapping[str, Any]) -> None:
        """Tell that a job ended, and how."""
        self.tell({**told, "event": "ended"})

    def answer(self, job: Mapping[str, Any]) -> dict[str, Any]:
        """Return the forecast for a job that has been read: canonical names, times in microseconds."""
        return self.ask(job)[0]

    def ask(self, job: Mapping[str, Any]) -> tuple[dict[str, Any], P90Told | None]:
        """Return the forecast for a job that has been read, and what is to be remembered of it where the margin awaits it."""
        row, n_history = self._state.read(job, self._plan)
        limit_s, p90 = job["time_limit_s"], None
        is_hard = limit_s is not None and job["time_limit_kind"] == "hard"
        hard_limit_s = float(np.float32(limit_s)) if is_hard else math.nan
        if self._margin is not None and isinstance(self._ask, OneRanked):
            answer, p90_log = self._ask.shifted(row, hard_limit_s, self._margin.shift_log(job["submit_time"]))
            if self.awaits(job):
                p90 = P90Told(job_key(self.manifest.cluster, job), p90_log, hard_limit_s, owner_of(job["user"], job["group"]))
        else:
            answer = self._ask(row, hard_limit_s)
        p50_s, p90_s, point_s, confidence, source = answer
        return {
            "p50_s": p50_s,
            "p90_s": p90_s,
            "point_s": point_s,
            "confidence": confidence,
            "source": source,
            "n_history": n_history,
            "model_version": self.manifest.model_version,
        }, p90


def pseudonyms_of(manifest: Manifest, key_file: Path | None) -> Pseudonyms | None:
    """Return the mapping that the bundle's names went through, None where they are in clear; raises where the key is not theirs."""
    used = manifest.pseudonyms
    if used is None:
        return None
    if key_file is None:
        raise BundleMismatch(
            f"the bundle of {manifest.cluster} knows {', '.join(used.columns)} by pseudonyms only. Name the key file of its "
            "cluster file with --pseudonym-key."
        )
    pseudonyms = Pseudonyms(read_key(key_file), used.columns)
    if pseudonyms.fingerprint != used.key_fingerprint:
        raise BundleMismatch(
            f"{key_file}: is not the key that the names of {manifest.cluster} were replaced with (fingerprint "
            f"{pseudonyms.fingerprint}, expected {used.key_fingerprint}). Name the key file of its cluster file."
        )
    return pseudonyms


def encoder_of(scorer: Scorer) -> Encoder | None:
    """Return the encoder that the model was trained with; None for a baseline, which reads plain features."""
    return Encoder.from_json(json.dumps(scorer.card.encoder)) if scorer.card.encoder else None
