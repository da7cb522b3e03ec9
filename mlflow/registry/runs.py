"""One experiment for each cluster, in it one run for each night and kind.

A run is found again by its tags, so that logging the same night twice, or again after being killed, ends in the same single run:
parameters and tags are written over, and a metric at the same step and time is the same row.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from functools import partial
from math import isfinite
from pathlib import Path
from typing import TypeVar

from mlflow.entities import Dataset, DatasetInput, InputTag, Metric, Param, Run, RunTag

from runcast.registry.page import LIVE, REPLAY, experiment_tags
from runcast.registry.slug import slug
from runcast.registry.store import Store, while_locked

PARAMETERS_A_CALL = 100  # the most that MLflow takes in one call
METRICS_A_CALL = 1000

Item = TypeVar("Item")


@dataclass(frozen=True)
class Night:
    """What one training is, by name: the same values are the same run and the same model version."""

    cluster: str
    kind: str
    night: str  # YYYY-MM-DD in the cluster's zone
    cut: datetime  # end of that day, aware
    data_fingerprint: str  # of the lake partitions the training read
    feature_version: str
    model_sha256: str  # of the model folder, see folder_sha256 in the training stage

    @property
    def tags(self) -> dict[str, str]:
        """The tags a run and a model version are found by."""
        return {
            "runcast.cluster": self.cluster,
            "runcast.kind": self.kind,
            "runcast.night": self.night,
            "runcast.data_fingerprint": self.data_fingerprint,
            "runcast.feature_version": self.feature_version,
            "runcast.model_sha256": self.model_sha256,
        }

    @property
    def model_version(self) -> str:
        """Name of the model that answers carry: kind, night and the start of its hash; the same on every machine."""
        return f"{slug(self.kind)}-{self.night}-{self.model_sha256[:8]}"


def log_night(
    store: Store,
    night: Night,
    *,
    parameters: Mapping[str, object],
    metrics: Mapping[str, float],
    tags: Mapping[str, str],
    note: str,
    report: Path | None,
    logged_at: datetime,
    about: str = "",
) -> str:
    """Log one night of one kind and return its run id.

    `metrics` are keyed by metric_key; `note` is Markdown shown with the run; `report` is the night's report folder, copied under
    `report/`; `about` is the cluster file's description. Nothing that is not finite is logged: MLflow would show a changed number.
    Numbers are logged to four digits, which is what its tables have room for; report.json holds them whole.
    """
    client, run_id = store.client, _open_run(store, night, logged_at)
    _end_killed(store, night, run_id, logged_at)
    _describe(store, night.cluster, about)
    _log_dataset(store, run_id, night)
    for part in _parts([Param(key, str(value)) for key, value in sorted(parameters.items())], PARAMETERS_A_CALL):
        while_locked(partial(client.log_batch, run_id, params=part))
    cut_ms = int(night.cut.timestamp() * 1000)
    finite = [Metric(key, float(f"{value:.4g}"), cut_ms, 0) for key, value in sorted(metrics.items()) if isfinite(value)]
    _log_metrics(store, run_id, finite)
    named = [RunTag(key, value) for key, value in sorted({**tags, "mlflow.note.content": note}.items())]
    while_locked(lambda: client.log_batch(run_id, tags=named))
    if report is not None:
        client.log_artifacts(run_id, str(report), "report")
    _finish(store, run_id, logged_at)
    return run_id


def log_replay(
    store: Store,
    cluster: str,
    day: str,
    data_fingerprint: str,
    *,
    metrics: Mapping[str, float],
    tags: Mapping[str, str],
    note: str,
    report: Path,
    cut: datetime,
    logged_at: datetime,
) -> str:
    """Log the replay of what was known at the end of a day and return its run id; the report is copied under `report/`.

    The run is found again by cluster, day and data: the same replay is the same run, one on late accounting is another.
    """
    found_by = {"runcast.kind": REPLAY, "runcast.night": day, "runcast.data_fingerprint": data_fingerprint}
    run_id = _open_beside(store, cluster, found_by, f"{day} replay", logged_at)
    at_ms = int(cut.timestamp() * 1000)
    _log_metrics(store, run_id, [Metric(key, value, at_ms, 0) for key, value in sorted(metrics.items()) if isfinite(value)])
    named = [RunTag(key, value) for key, value in sorted({**tags, "mlflow.note.content": note}.items())]
    while_locked(lambda: store.client.log_batch(run_id, tags=named))
    store.client.log_artifacts(run_id, str(report), "report")
    _finish(store, run_id, logged_at)
    return run_id


def log_live(store: Store, cluster: str, day: date, *, metrics: Mapping[str, float], record: Path, logged_at: datetime) -> str:
    """Log a day's live accuracy as one step of the cluster's one live run and return the run's id; a step is days since 1970.

    A day logged again with the same numbers changes nothing; with others, those logged last are shown.
    """
    run_id = _open_beside(store, cluster, {"runcast.kind": LIVE}, "live accuracy", logged_at)
    step, at_ms = (day - date(1970, 1, 1)).days, int(logged_at.timestamp() * 1000)
    new = [
        Metric(key, value, at_ms, step)
        for key, value in sorted(metrics.items())
        if isfinite(value) and _at_step(store, run_id, key, step) != value
    ]
    _log_metrics(store, run_id, new)
    store.client.log_artifact(run_id, str(record), "days")
    _finish(store, run_id, logged_at)
    return run_id


def _at_step(store: Store, run_id: str, key: str, step: int) -> float | None:
    """Return the latest value of a metric at a step; None where there is none."""
    there = [one for one in store.client.get_metric_history(run_id, key) if one.step == step]
    return max(there, key=lambda one: one.timestamp).value if there else None


def _open_beside(store: Store, cluster: str, found_by: Mapping[str, str], name: str, at: datetime) -> str:
    """Return the run of these tags in the cluster's experiment, made at the first call."""
    experiment = store.experiment_id(cluster)
    wanted = " and ".join(f"tags.`{key}` = '{value}'" for key, value in found_by.items())
    found = store.client.search_runs([experiment], wanted, order_by=["attributes.start_time ASC"], max_results=1)
    if found:
        return str(found[0].info.run_id)
    tags = {"runcast.cluster": cluster, **found_by}
    run = while_locked(
        lambda: store.client.create_run(experiment, start_time=int(at.timestamp() * 1000), run_name=name, tags=tags)
    )
    return str(run.info.run_id)


def _finish(store: Store, run_id: str, at: datetime) -> None:
    while_locked(lambda: store.client.set_terminated(run_id, "FINISHED", int(at.timestamp() * 1000)))


def _log_metrics(store: Store, run_id: str, metrics: list[Metric]) -> None:
    for part in _parts(metrics, METRICS_A_CALL):
        while_locked(partial(store.client.log_batch, run_id, metrics=part))


def find_run(store: Store, night: Night) -> Run | None:
    """Return the run of this night, finished or not; None where there is none."""
    wanted = " and ".join(f"tags.`{key}` = '{value}'" for key, value in night.tags.items() if key != "runcast.cluster")
    found = store.client.search_runs(
        [store.experiment_id(night.cluster)], wanted, order_by=["attributes.start_time ASC"], max_results=1
    )
    return found[0] if found else None


def _open_run(store: Store, night: Night, logged_at: datetime) -> str:
    found = find_run(store, night)
    if found is not None:
        return str(found.info.run_id)
    run = while_locked(
        lambda: store.client.create_run(
            store.experiment_id(night.cluster),
            start_time=int(logged_at.timestamp() * 1000),
            run_name=f"{night.night} {night.kind}",
            tags={**night.tags, "mlflow.source.name": f"runcast nightly --cluster {night.cluster} --date {night.night}"},
        )
    )
    return str(run.info.run_id)


def _end_killed(store: Store, night: Night, run_id: str, at: datetime) -> None:
    """End the runs that a killed process left open, where the night's data or model have become others since."""
    same = f"attributes.status = 'RUNNING' and tags.`runcast.kind` = '{night.kind}' and tags.`runcast.night` = '{night.night}'"
    for run in store.client.search_runs([store.experiment_id(night.cluster)], same):
        if run.info.run_id != run_id:
            while_locked(partial(store.client.set_terminated, run.info.run_id, "KILLED", int(at.timestamp() * 1000)))


def _describe(store: Store, cluster: str, about: str) -> None:
    """Give the experiment its description and its saved view, where they are others."""
    experiment_id = store.experiment_id(cluster)
    present = store.client.get_experiment(experiment_id).tags
    for name, value in experiment_tags(cluster, experiment_id, about).items():
        if present.get(name) != value:
            while_locked(partial(store.client.set_experiment_tag, experiment_id, name, value))


def _log_dataset(store: Store, run_id: str, night: Night) -> None:
    dataset = Dataset(
        name=f"jobs of {night.cluster} ended by {night.night}",
        digest=night.data_fingerprint[:36],  # the longest MLflow keeps
        source_type="runcast lake",
        source=f"lake/jobs/cluster={night.cluster}",
    )
    while_locked(lambda: store.client.log_inputs(run_id, [DatasetInput(dataset, [InputTag("mlflow.data.context", "training")])]))


def _parts(items: list[Item], size: int) -> Iterable[list[Item]]:
    return (items[i : i + size] for i in range(0, len(items), size))
