"""
### A night of one cluster

Reads what the cluster's log holds up to the end of the day, retrains, judges the new models on jobs they have not seen, registers them,
and hands the winner to the scheduler.

**Which day?** The parameter `date` if given; else the last full local day before the end of the data interval; else, for a run that
has no interval, yesterday in the cluster's zone. The task `which_day` logs its choice. A past day reads nothing later than its end.

**When a task is red**

- `ingest`: the log is missing or of another format, or too many rows were rejected. The message names the file; nothing was written.
- `quality`: a stop check failed. The message names the check, what was expected and what was found. Nothing is trained, and the
  champion keeps serving. Mend the log, then clear the task.
- `train_*`, `evaluate`, `register`, `promote`, `export`: safe to clear and run again; each replaces its own output whole.

The same night without Airflow: `runcast nightly --cluster NAME --date YYYY-MM-DD`.
"""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pendulum
from airflow.sdk import DAG, Asset, CronDataIntervalTimetable, Param, get_current_context, task

from runcast.data.cluster import Cluster, read_cluster
from runcast.data.errors import ClusterFileError
from runcast.data.settings import read_settings
from runcast.night import BY_NAME, MODEL_KINDS, latest_complete_day

#: What a stage leaves behind, as an Airflow asset: other DAGs can wait for it.
PRODUCTS = {"ingest": "jobs", "features": "features", "register": "models", "export": "bundle"}

DEFAULTS = {
    "owner": "runcast",
    "retries": 2,
    "retry_delay": dt.timedelta(minutes=1),
    "retry_exponential_backoff": True,
    "execution_timeout": dt.timedelta(hours=2),
}
START = (2020, 1, 1)  # before any night that could be asked for; catchup is off, so it starts nothing


@task(retries=0)
def which_day(cluster_name: str) -> str:
    """Choose the day that this run loads, as YYYY-MM-DD in the cluster's zone."""
    from runcast.data.cluster import find_cluster

    context = get_current_context()
    cluster = find_cluster(read_settings().clusters, cluster_name)
    asked, interval_end = context["params"].get("date"), context.get("data_interval_end")
    if asked:
        day, why = str(asked), "asked for"
    elif cluster.schedule and interval_end is not None:
        day, why = latest_complete_day(cluster, interval_end), "the last full day of the data interval"
    else:
        day, why = latest_complete_day(cluster, pendulum.now("UTC")), "no interval: yesterday"
    print(f"{cluster_name}: the night of {day} ({why})")  # noqa: T201 the task's log
    return day


def stage_task(cluster: Cluster, name: str):
    """Return the task that runs one stage of a night and hands on the day."""
    product = PRODUCTS.get(name)
    outlets = [Asset(name=f"{cluster.name}_{product}", uri=f"runcast://{cluster.name}/{product}")] if product else []

    @task(task_id=name, doc_md=BY_NAME[name].title, outlets=outlets)
    def run(day: str) -> str:
        from airflow.sdk.exceptions import AirflowFailException

        from runcast.data.errors import RuncastError
        from runcast.night import run_stage

        try:
            run_stage(name, cluster.name, day)
        except RuncastError as error:  # bad data or settings: trying again cannot help
            raise AirflowFailException(str(error)) from error
        return day

    return run


def nightly(cluster: Cluster) -> DAG:
    """Return the DAG of one cluster's nights."""
    zone = pendulum.timezone(cluster.time_zone)
    schedule = CronDataIntervalTimetable(cluster.schedule, timezone=zone) if cluster.schedule else None
    with DAG(
        dag_id=f"nightly_{cluster.name}",
        description=cluster.description or f"Nights of {cluster.name}",
        doc_md=__doc__,
        schedule=schedule,
        start_date=pendulum.datetime(*START, tz=zone),
        catchup=False,
        max_active_runs=1,  # two nights of one cluster would write the same partitions
        default_args=DEFAULTS,
        params={
            "date": Param(None, type=["null", "string"], format="date", description="Day to load; empty: from the data interval")
        },
        tags=["runcast", cluster.source.format],
    ) as dag:
        ready = which_day(cluster.name)
        for name in ("ingest", "quality", "features"):
            ready = stage_task(cluster, name)(ready)
        trained = [stage_task(cluster, f"train_{kind}")(ready) for kind in MODEL_KINDS]
        judged = stage_task(cluster, "evaluate")(ready)
        trained >> judged
        for name in ("register", "promote", "export"):
            judged = stage_task(cluster, name)(judged)
    return dag


def unreadable(path: Path, reason: str) -> DAG:
    """Return a DAG whose only task fails with `reason`: a broken cluster file is seen and does not take the others with it."""
    with DAG(
        dag_id=f"nightly_{path.stem}", doc_md=reason, schedule=None, tags=["runcast", "broken"], default_args=DEFAULTS
    ) as dag:

        @task(retries=0)
        def cluster_file() -> None:
            from airflow.sdk.exceptions import AirflowFailException

            raise AirflowFailException(reason)

        cluster_file()
    return dag


def every_cluster() -> dict[str, DAG]:
    """Return one DAG for each usable file in the folder of cluster files."""
    dags: dict[str, DAG] = {}
    for path in sorted(read_settings().clusters.glob("*.yaml")):
        try:
            cluster = read_cluster(path)
        except ClusterFileError as error:
            dags[path.stem] = unreadable(path, str(error))
            continue
        if cluster.refused is None:
            dags[cluster.name] = nightly(cluster)
    return dags


globals().update({f"nightly_{name}": dag for name, dag in every_cluster().items()})
