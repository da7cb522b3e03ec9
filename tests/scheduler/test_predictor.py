"""The predictor's answers are the training side's, for any job."""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from runcast.data.cluster import Cluster
from runcast.data.schema import JOBS
from runcast.features.catalog import NAMES, feature_version
from runcast.features.encoder import Encoder
from runcast.features.matrix import Matrix
from runcast.features.state import State
from runcast.features.table import build
from runcast.scheduler.errors import BundleExpired, JobFieldError, ParityError
from runcast.scheduler.export import as_mappings, check_parity, features_beside, history, pack
from runcast.scheduler.jobs import SUBMISSION_FIELDS, read_job
from runcast.scheduler.predictor import Predictor
from runcast.training.fitting import fit_at, score_matrix
from runcast.training.scoring import ModelCard, Scorer, load_scorer, save_scorer

MakeBundle = Callable[..., Path]
CUT = datetime(2026, 3, 31, 22, tzinfo=UTC)  # of the made-up log
KINDS = ("cart", "gbdt", "runcast", "nearest_median")
JOB = {
    "submit_time": "2026-04-01T00:00:00+02:00",
    "user": "u3",
    "job_name": "train_1_0.sh",
    "gpu_count": 4,
    "cpu_count": 32,
    "queue": "gpu",
}
ANSWERS = ("p50_s", "p90_s", "point_s", "confidence", "source")


@pytest.fixture(scope="module")
def predictors(make_bundle: MakeBundle, tmp_path_factory: pytest.TempPathFactory, now: datetime) -> dict[str, Predictor]:
    root = tmp_path_factory.mktemp("bundles")
    return {kind: Predictor.load(make_bundle(root, kind), now=now) for kind in KINDS}


@pytest.mark.parametrize("kind", KINDS)
def test_answer_has_every_field_and_is_plain_json(predictors: dict[str, Predictor], kind: str) -> None:
    answer = predictors[kind].predict(JOB)
    assert json.loads(json.dumps(answer)) == answer
    assert 1 <= answer["p50_s"] <= answer["p90_s"]
    assert 0 <= answer["confidence"] <= 1
    assert (answer["source"], answer["model_version"]) == (kind, f"{kind}-2026-03-31-0123abcd")
    assert 1 <= answer["n_history"] <= 7


def test_unknown_job_is_answered_from_what_all_jobs_did(predictors: dict[str, Predictor]) -> None:
    for predictor in predictors.values():
        answer = predictor.predict({"submit_time": 1_775_000_000})
        assert 1 <= answer["n_history"] <= 7
        assert answer["p50_s"] >= 1


def test_n_history_counts_the_runs_of_the_job_s_own(
    cluster: Cluster, make_bundle: MakeBundle, tmp_path: Path, now: datetime
) -> None:
    """Nine runs of one user's script and two of another's: a user never seen has none, whoever's runs answer; without a user they count."""
    state = State(cluster.clock, cluster.time_zone)
    at_s = int(now.timestamp()) - 40_000
    predictor = Predictor.load(make_bundle(tmp_path, "nearest_median", state=state), now=now)
    for number, (user, name) in enumerate([("ada", "train.sh")] * 9 + [("bob", "plot.sh")] * 2):
        begin_s = at_s + 100 * number
        predictor.ended(
            {"job_id": str(number), "submit_time": begin_s, "start_time": begin_s, "end_time": begin_s + 60, "state": "COMPLETED",
             "user": user, "job_name": name, "queue": "gpu", "gpu_count": 1}
        )  # fmt: skip
    asked = [
        ({"user": "ada", "job_name": "train.sh", "queue": "gpu", "gpu_count": 1}, 7),
        ({"user": "ada", "job_name": "other.sh", "queue": "gpu", "gpu_count": 1}, 7),
        ({"user": "bob", "job_name": "plot.sh", "queue": "gpu", "gpu_count": 1}, 2),
        ({"user": "never_seen", "job_name": "train.sh", "queue": "gpu", "gpu_count": 1}, 0),
        ({"queue": "gpu", "gpu_count": 1}, 7),
    ]
    found = [predictor.predict({"submit_time": at_s + 10_000, **job})["n_history"] for job, _ in asked]
    assert found == [n for _, n in asked]


def test_nothing_known_at_all_says_so(cluster: Cluster, make_bundle: MakeBundle, tmp_path: Path, now: datetime) -> None:
    empty = State(cluster.clock, cluster.time_zone)
    predictor = Predictor.load(make_bundle(tmp_path, "nearest_median", state=empty), now=now)
    answer = predictor.predict(JOB)
    assert (answer["source"], answer["n_history"]) == ("training_median", 0)


def test_hard_limit_caps_and_an_advisory_one_does_not(predictors: dict[str, Predictor]) -> None:
    for predictor in predictors.values():
        capped = predictor.predict({**JOB, "time_limit_s": 5})
        assert capped["p50_s"] <= capped["p90_s"] <= 5
        assert predictor.predict({**JOB, "time_limit_s": 5, "time_limit_kind": "advisory"})["p90_s"] > 5


def test_wrong_field_is_named(predictors: dict[str, Predictor]) -> None:
    with pytest.raises(JobFieldError, match="gpu_count: expected a number"):
        predictors["gbdt"].predict({**JOB, "gpu_count": "8"})


def test_expired_bundle_is_not_loaded(make_bundle: MakeBundle, tmp_path: Path, now: datetime) -> None:
    bundle = make_bundle(tmp_path)
    with pytest.raises(BundleExpired):
        Predictor.load(bundle, now=now + timedelta(days=7))


@pytest.mark.parametrize("kind", KINDS)
def test_parity_with_the_training_side_on_the_latest_jobs(
    kind: str, make_bundle: MakeBundle, models: dict[str, Path], jobs: pa.Table, cluster: Cluster, tmp_path: Path
) -> None:
    assert check_parity(make_bundle(tmp_path, kind), models[kind], jobs, cluster) == 200


def test_bundle_with_another_history_fails_parity(
    make_bundle: MakeBundle, models: dict[str, Path], jobs: pa.Table, cluster: Cluster, tmp_path: Path
) -> None:
    bundle = make_bundle(tmp_path, state=State(cluster.clock, cluster.time_zone))
    with pytest.raises(ParityError, match="the training side says"):
        check_parity(bundle, models["gbdt"], jobs, cluster)


TEXTS = st.one_of(
    st.none(), st.sampled_from(["", "u3", "u4", "nobody", "gpu", "train_1_0.sh", "g1", "ü" * 50]), st.text(max_size=20)
)
NUMBERS = st.one_of(st.none(), st.sampled_from([0, 1, 8, 0.25, 1e15, 3600, 86_400, 1e-6]), st.floats(1e-6, 1e15))
TOLD = st.fixed_dictionaries(
    {},
    optional={
        **dict.fromkeys(
            ("user", "group", "account", "queue", "qos", "job_name", "work_dir", "array_id", "gpu_model", "framework"), TEXTS
        ),
        **dict.fromkeys(("gpu_count", "cpu_count", "mem_mib", "node_count", "time_limit_s"), NUMBERS),
        "priority": st.one_of(st.none(), st.floats(-1e15, 1e15)),
        "array_task": st.one_of(st.none(), st.integers(0, 10**6)),
    },
)


@settings(
    max_examples=30,
    deadline=None,
    derandomize=True,
    phases=(Phase.explicit, Phase.generate),  # shrinking would build the table's features hundreds of times
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(submit_s=st.integers(1_774_994_400, 1_780_000_000), told=st.lists(TOLD, min_size=1, max_size=12))
def test_any_job_is_answered_as_the_training_side_answers_it(
    submit_s: int,
    told: list[dict[str, Any]],
    predictors: dict[str, Predictor],
    models: dict[str, Path],
    jobs: pa.Table,
    cluster: Cluster,
) -> None:
    """At any moment from the cut on, with nulls, unseen users and extreme values: the same numbers as through the table face."""
    asked = [{**one, "submit_time": submit_s} for one in told]
    matrix = features_beside(jobs, as_table([read_job(one) for one in asked]), cluster)
    for kind in KINDS:
        expected = score_matrix(load_scorer(models[kind]), matrix)
        for at, one in enumerate(asked):
            answer = predictors[kind].predict(one)
            assert {name: answer[name] for name in ANSWERS} == {name: getattr(expected, name)[at] for name in ANSWERS}


def as_table(asked: list[dict[str, Any]]) -> pa.Table:
    """Return jobs that were read as rows of the canonical table, with nothing of what comes later."""
    later = {"state": "PENDING", "label": "excluded", "attempts": 0, "cluster": "demo", "source": "", "flags": []}
    rows = [
        {**dict.fromkeys(JOBS.names), **job, "job_key": f"asked:{at}", "job_id": str(at), **later} for at, job in enumerate(asked)
    ]
    times = {"submit_time": pa.array([row["submit_time"] for row in rows]).cast(JOBS.field("submit_time").type)}
    return pa.table(
        {f.name: times.get(f.name, pa.array([row[f.name] for row in rows if f.name not in times], f.type)) for f in JOBS},
        schema=JOBS,
    )


def test_log_told_event_by_event_gives_the_features_of_the_table(jobs: pa.Table, cluster: Cluster) -> None:
    """A replay of the whole log through the state equals the table face, bit for bit, for every job at its submission."""
    matrix = build(jobs.to_pandas(), cluster.clock, cluster.time_zone)
    state = State(cluster.clock, cluster.time_zone)
    places = [NAMES.index(name) for name in matrix.names]
    told = list(as_mappings(jobs))
    for job in told:
        if job["end_time"] is not None:
            state.update(job)
        else:
            state.submitted(job)
            if job["start_time"] is not None:
                state.started(job)
    for at, job in enumerate(told):
        values, _ = state.row(job)
        np.testing.assert_array_equal(values[places], matrix.values[at], err_msg=job["job_key"])


@pytest.fixture(scope="module")
def later(jobs: pa.Table, cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Matrix, datetime]:
    """A bundle and a model of `runcast` as of ten days before the made-up log ends, and the features of the whole log."""
    cut = CUT - timedelta(days=10)
    matrix = build(jobs.to_pandas(), cluster.clock, cluster.time_zone)
    fit = fit_at(matrix, round(cut.timestamp() * 1e6), ["runcast"], cluster.training)
    assert isinstance(fit.encoder, Encoder)
    root = tmp_path_factory.mktemp("later")
    card = ModelCard("demo", feature_version(), json.loads(fit.encoder.to_json()), {}, {}, {})
    save_scorer(Scorer(fit.fitted["runcast"].rule, card), root / "model")
    known = jobs.filter(pc.less(jobs["submit_time"], pa.scalar(cut, pa.timestamp("us", tz="UTC"))))
    bundle = pack(
        root, cluster=cluster, model=root / "model", state=history(known, cluster.clock, cluster.time_zone, cut),
        model_version="runcast-2026-03-21-0123abcd", registered=None, cut=cut, created=cut + timedelta(hours=2),
    )  # fmt: skip
    return bundle, root / "model", matrix, cut


def happenings(jobs: pa.Table, cut: datetime) -> list[tuple[str, dict[str, Any]]]:
    """All that happened since the cut, as it came: of one instant submissions first."""
    cut_us = round(cut.timestamp() * 1e6)
    found = []
    for at, job in enumerate(as_mappings(jobs)):
        job = {**job, "job_key": f"demo:{job['job_id']}:{job['submit_time']}"}
        for order, (kind, name) in enumerate((("submitted", "submit_time"), ("started", "start_time"), ("ended", "end_time"))):
            if job[name] is not None and job[name] >= cut_us:
                found.append((job[name], order, at, kind, job))
    return [(kind, job) for *_, kind, job in sorted(found, key=lambda one: one[:3])]


def test_log_replayed_through_the_predictor_is_answered_as_by_replay_margin_included(
    later: tuple[Path, Path, Matrix, datetime], jobs: pa.Table
) -> None:
    """p90 is raised by the margin as of each submission, bit for bit as in replay, and that margin moves."""
    bundle, model, matrix, cut = later
    predictor = Predictor.load(bundle, may_be_expired=True)
    since = np.flatnonzero(matrix.submit_us >= predictor.cut_us)
    expected = score_matrix(load_scorer(model), matrix.take(since))
    place = {key: at for at, key in enumerate(matrix.job_key[since])}
    margin = []
    for kind, job in happenings(jobs, cut):
        if kind == "submitted":
            answer, p90 = predictor.ask(job)
            assert p90 is not None
            predictor.remember(p90)
            wanted = {name: getattr(expected, name)[place[job["job_key"]]] for name in ANSWERS}
            assert {name: answer[name] for name in ANSWERS} == wanted
            margin.append(np.log(answer["p90_s"]) - p90.p90_log)
        predictor.take(kind, job)
    assert len(margin) == len(since) > 500
    assert len(set(np.round(margin, 6))) > 50, "the margin moves"


def test_events_alone_move_the_margin_too(later: tuple[Path, Path, Matrix, datetime], jobs: pa.Table) -> None:
    """A job is told on its submission where nobody asked before; what it was told by `predict` before that counts instead."""
    bundle, _, _, cut = later
    by_events, by_asking = (Predictor.load(bundle, may_be_expired=True) for _ in range(2))
    fields = {field.name for field in SUBMISSION_FIELDS}
    for kind, job in happenings(jobs, cut)[:400]:
        told = {name: value for name, value in job.items() if name in fields and value is not None}
        told["submit_time"] = job["submit_time"] / 1e6
        more = {name: job[name] / 1e6 for name in ("start_time", "end_time") if kind == "ended" and job[name] is not None}
        more |= {"start_time": job["start_time"] / 1e6} if kind == "started" else {}
        more |= {"state": job["state"]} if kind == "ended" else {}
        if kind == "submitted":
            by_asking.predict(told)
        for predictor in (by_events, by_asking):
            predictor.tell({**told, **more, "event": kind})
    asked = {"submit_time": cut.timestamp() + 10 * 86_400, "user": "u3", "gpu_count": 4}
    assert by_events.predict(asked) == by_asking.predict(asked)
    assert by_events.predict(asked)["p90_s"] != Predictor.load(bundle, may_be_expired=True).predict(asked)["p90_s"]


def test_only_identified_jobs_submitted_since_the_cut_count(later: tuple[Path, Path, Matrix, datetime]) -> None:
    bundle, _, _, cut = later
    predictor = Predictor.load(bundle, may_be_expired=True)
    cut_us = round(cut.timestamp() * 1e6)
    about = read_job({"submit_time": cut.timestamp(), "user": "u3", "job_id": "7"})
    assert [
        predictor.ask({**about, **changed})[1] is not None
        for changed in ({}, {"job_id": None}, {"submit_time": cut_us - 1}, {"submit_time": cut_us + 1})
    ] == [True, False, False, True]
