import datetime as dt
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from runcast.data.cluster import Cluster
from runcast.data.job import load
from runcast.data.lake import Lake
from runcast.data.schema import JOBS
from runcast.data.settings import Settings, read_settings
from runcast.data.sources.batch import Batch
from runcast.evaluation.errors import NothingToJudge
from runcast.evaluation.job import PREDICTORS, EvaluationReport, evaluate, replay
from runcast.evaluation.metrics import METRICS
from runcast.features.errors import FeaturesStale
from runcast.features.job import build_features
from runcast.training.job import folder_sha256, train

DAY = dt.date(2024, 4, 12)  # the last whole day of the made-up log
MODELS = ["cart", "gbdt", "runcast"]


def cluster(**changes: object) -> Cluster:
    return Cluster.model_validate(
        {
            "name": "made_up",
            "source": {"format": "table", "paths": ["unused"]},
            "time_zone": "UTC",
            "training": {"min_jobs": 300, "gbdt": {"trees": 15, "leaves": 7}, "runcast": {"trees": 15, "leaves": 7}},
            "drift": {"days": 2, "periods": 4, "min_jobs": 20},  # the test jobs span eight days
            **changes,
        }
    )


def to_arrow(table: pd.DataFrame) -> pa.Table:
    def plain(column: pd.Series) -> list[object]:
        return [None if np.ndim(value) == 0 and pd.isna(value) else value for value in column]

    table = table.assign(source="made_up:1")
    return pa.table({name: pa.array(plain(table[name]), JOBS.field(name).type) for name in JOBS.names}, schema=JOBS)


def prepared(settings: Settings, table: pd.DataFrame, day: dt.date = DAY, models: list[str] = MODELS) -> Settings:
    """Load jobs into a lake, build the features of a day and train `models`."""
    load(cluster(), Lake(settings.lake), [Batch(to_arrow(table))])
    build_features(cluster(), settings, day)
    for kind in models:
        train(cluster(), settings, day, kind)
    return settings


@pytest.fixture
def prepare(tmp_path: Path) -> Callable[..., Settings]:
    settings = read_settings({"RUNCAST_HOME": str(tmp_path / "home")})
    return lambda table, day=DAY, models=MODELS: prepared(settings, table, day, models)


@pytest.fixture(scope="module")
def night(log: pd.DataFrame, tmp_path_factory: pytest.TempPathFactory) -> tuple[Settings, EvaluationReport]:
    """One night with both models, evaluated once; tests only read it."""
    settings = prepared(read_settings({"RUNCAST_HOME": str(tmp_path_factory.mktemp("night"))}), log)
    return settings, evaluate(cluster(), settings, DAY)


def test_night_is_judged_and_reported(night: tuple[Settings, EvaluationReport]) -> None:
    settings, found = night
    folder = settings.reports / "made_up" / "2024-04-12"
    assert found.html == folder / "report.html"
    assert sorted(path.name for path in folder.iterdir()) == ["figures", "report.html", "report.json"]
    assert sorted(path.name for path in (folder / "figures").iterdir()) == [
        "calibration.svg", "importance.svg", "p90_by_week.svg", "residual_by_week.svg", "risk_coverage.svg", "slices.svg",
    ]  # fmt: skip
    written = json.loads((folder / "report.json").read_text())
    assert written == json.loads(json.dumps(found.document))
    assert list(found.verdicts) == MODELS
    for kind, verdict in found.verdicts.items():
        assert verdict.model_sha256 == folder_sha256(settings.models / "made_up" / "2024-04-12" / kind)
        assert verdict.night == "2024-04-12"
        assert verdict.data_fingerprint == written["data"]["fingerprint"]
        assert verdict.best_baseline in ("last_two", "nearest_median")


def test_document_has_the_promised_part(log: pd.DataFrame, night: tuple[Settings, EvaluationReport]) -> None:
    document = night[1].document
    assert document["cluster"] == "made_up"
    assert tuple(document["predictors"]) == PREDICTORS
    assert PREDICTORS == ("request", "last_two", "nearest_median", "mlaas", "helios", "cart", "gbdt", "runcast")
    for slices in document["predictors"].values():
        assert {"all", "recurring", "new_user", "long", "multi_node", "state:COMPLETED", "group:g0"} <= set(slices)
        for values in slices.values():
            assert list(values) == [metric.name for metric in METRICS]
    assert set(document["coverage"]["gbdt"]) == {"0.089", "0.108"}
    usable = log["end_time"].notna() & (log["end_time"] < pd.Timestamp("2024-04-13", tz="UTC"))
    assert document["jobs"] == np.ceil(0.2 * usable.sum())


def test_drift_is_told_of_jobs_baseline_and_models(night: tuple[Settings, EvaluationReport]) -> None:
    found = {one["name"]: one for one in night[1].document["drift"]}
    assert {"gpu_count", "time_limit_s", "user", "runtime_s", "nearest_median", *MODELS} <= set(found)
    assert "account" not in found, "the log names none"
    assert {found[name]["kind"] for name in ("nearest_median", *MODELS)} == {"error"}
    assert not any(one["is_drift"] for one in found.values())  # the same habits from the first day to the last
    assert "Does the work still look as it did?" in night[1].html.read_text()


def test_same_night_twice_gives_the_same_bytes(night: tuple[Settings, EvaluationReport]) -> None:
    settings, found = night

    def content() -> dict[str, bytes]:
        return {str(path): path.read_bytes() for path in sorted(found.folder.rglob("*")) if path.is_file()}

    before = content()
    evaluate(cluster(), settings, DAY)
    assert content() == before


def test_summary_travels_between_stages(night: tuple[Settings, EvaluationReport]) -> None:
    summary = night[1].summary()
    assert len(json.dumps(summary)) < 10_000
    assert summary["verdicts"]["gbdt"]["text"]


def test_model_that_was_not_trained_may_not_serve(log: pd.DataFrame, prepare: Callable) -> None:
    found = evaluate(cluster(), prepare(log, models=["cart"]), DAY)
    assert "no gbdt was trained for this night; train it, then evaluate" in found.verdicts["gbdt"].reasons
    assert "no cart was trained" not in found.verdicts["cart"].text


def test_small_log_is_answered_by_the_baseline_and_may_not_serve(make_log: Callable, prepare: Callable) -> None:
    found = evaluate(cluster(), prepare(make_log(jobs=150), models=[]), DAY)
    assert not found.verdicts["gbdt"].passed
    assert "gbdt needs 300 (training.min_jobs); nearest_median serves instead" in found.verdicts["gbdt"].text
    assert "29 test jobs, 100 asked for" in found.verdicts["gbdt"].text or "30 test jobs" in found.verdicts["gbdt"].text
    assert "needs 300" in found.html.read_text()


def test_nothing_to_test_on_is_a_report_that_says_so(log: pd.DataFrame, prepare: Callable) -> None:
    day = dt.date(2024, 3, 4)  # the first evening
    early = log[log["submit_time"] < pd.Timestamp("2024-03-04T03:00", tz="UTC")].head(3).copy()
    found = evaluate(cluster(), prepare(early, day, models=[]), day)
    assert found.document["jobs"] <= 1
    assert not any(verdict.passed for verdict in found.verdicts.values())
    assert found.html.exists()


def test_no_job_at_all_is_a_report_that_says_so(log: pd.DataFrame, prepare: Callable) -> None:
    day = dt.date(2024, 3, 4)
    waiting = log.head(3).assign(end_time=pd.NaT, start_time=pd.NaT, runtime_s=np.nan, state="PENDING", label="excluded")
    for name in ("start_time", "end_time"):
        waiting[name] = pd.to_datetime(waiting[name], utc=True)
    found = evaluate(cluster(), prepare(waiting, day, models=[]), day)
    assert found.document["jobs"] == 0
    assert found.verdicts["cart"].reasons[0].startswith("too little history: no ended job with a runtime above 0")
    assert "too little history" in found.html.read_text()
    assert len(json.dumps(found.summary())) < 10_000


def test_champion_and_newcomer_are_compared_on_what_neither_had_seen(log: pd.DataFrame, prepare: Callable) -> None:
    champion_day = dt.date(2024, 4, 2)
    settings = prepare(log, champion_day, models=["gbdt"])
    champion = settings.models / "made_up" / "2024-04-02" / "gbdt"
    prepare(log, models=[])
    other = cluster(training={"min_jobs": 300, "gbdt": {"trees": 30, "leaves": 15}})
    found = evaluate(other, settings, DAY, champions={"gbdt": champion}, kinds=("nearest_median", "gbdt"))
    told = found.document["champion"]["gbdt"]
    submitted = (log["submit_time"] >= pd.Timestamp("2024-04-03", tz="UTC")) & (
        log["end_time"] < pd.Timestamp("2024-04-13", tz="UTC")
    )
    assert told["jobs"] == submitted.sum() > 100
    assert (told["cut"], told["metric"], told["reason"]) == ("2024-04-03T00:00:00+00:00", "error_factor", None)
    assert 1 < told["challenger"] < 2
    assert 1 < told["champion"] < 2
    assert any(result.name == "champion" for result in found.verdicts["gbdt"].results)


@pytest.mark.parametrize(
    ("champion_day", "changes", "reason"),
    [
        pytest.param(
            dt.date(2024, 4, 2), {}, "it has the same recipe; the challenger has only learned from more jobs", id="same recipe"
        ),
        pytest.param(
            dt.date(2024, 4, 11), {"gbdt": {"trees": 20}}, "submitted after its cut and have ended, 100 asked for", id="too few"
        ),
    ],
)
def test_where_there_is_nothing_to_compare_the_reason_is_told(
    log: pd.DataFrame, prepare: Callable, champion_day: dt.date, changes: dict, reason: str
) -> None:
    settings = prepare(log, champion_day, models=["gbdt"])
    champion = settings.models / "made_up" / champion_day.isoformat() / "gbdt"
    prepare(log, models=[])
    training = {"min_jobs": 300, "gbdt": {"trees": 15, "leaves": 7}}
    found = evaluate(
        cluster(training=training | changes), settings, DAY, champions={"gbdt": champion}, kinds=("nearest_median", "gbdt")
    )
    assert reason in found.document["champion"]["gbdt"]["reason"]
    assert next(result for result in found.verdicts["gbdt"].results if result.name == "champion").passed


def test_champion_that_cannot_be_read_stops_nobody(log: pd.DataFrame, prepare: Callable, tmp_path: Path) -> None:
    found = evaluate(
        cluster(), prepare(log, models=[]), DAY, champions={"gbdt": tmp_path / "gone"}, kinds=("nearest_median", "gbdt")
    )
    assert "the champion cannot be read" in found.document["champion"]["gbdt"]["reason"]


def test_features_of_another_day_are_refused(night: tuple[Settings, EvaluationReport]) -> None:
    with pytest.raises(FeaturesStale):
        evaluate(cluster(), night[0], dt.date(2024, 4, 1))


def test_replay_writes_one_row_per_test_job_and_predictor(night: tuple[Settings, EvaluationReport], tmp_path: Path) -> None:
    told: list[str] = []
    document = replay(cluster(), night[0], every="weekly", predictions=tmp_path / "out" / "p.parquet", progress=told.append)
    table = pq.read_table(tmp_path / "out" / "p.parquet").to_pandas()
    assert len(table) == document["jobs"] * len(PREDICTORS)
    assert not table.duplicated(["job_key", "predictor"]).any()
    gbdt = table[table["predictor"] == "gbdt"]
    error_factor = np.exp(np.abs(np.log(gbdt["p50_s"] / gbdt["runtime_s"])).mean())
    assert document["predictors"]["gbdt"]["all"]["error_factor"] == pytest.approx(error_factor)
    assert told[0] == "1 of 2 trainings"
    assert document["command"] == "runcast replay --cluster made_up --test-share 0.2 --every weekly"


def test_replay_of_dates(log: pd.DataFrame, night: tuple[Settings, EvaluationReport]) -> None:
    document = replay(cluster(), night[0], first=dt.date(2024, 4, 1), last=dt.date(2024, 4, 3), kinds=("nearest_median",))
    chosen = log["submit_time"].between(
        pd.Timestamp("2024-04-01", tz="UTC"), pd.Timestamp("2024-04-04", tz="UTC"), inclusive="left"
    )
    assert document["jobs"] == (chosen & log["end_time"].notna()).sum()
    assert document["command"] == "runcast replay --cluster made_up --from 2024-04-01 --to 2024-04-03 --every once"


def test_replay_at_an_unknown_cadence(night: tuple[Settings, EvaluationReport]) -> None:
    with pytest.raises(NothingToJudge, match="unknown cadence 'hourly'; models are trained once, weekly, nightly"):
        replay(cluster(), night[0], every="hourly")


def test_jobs_past_their_limit_are_told_of(log: pd.DataFrame, prepare: Callable) -> None:
    """Every sixth job has a limit a second short: no p90 may say so, and coverage suffers for it."""
    short = log.copy()
    short.loc[::6, "time_limit_s"] = (short["runtime_s"] - 1).clip(lower=1)[::6]
    document = replay(cluster(), prepare(short, models=[]), kinds=("nearest_median",))
    told = [note for note in document["notes"] if "ran past their hard limit" in note]
    assert len(told) == 1
    assert 0.12 < float(told[0].split("%")[0]) / 100 < 0.21
