"""What the DAGs of all clusters share: one for each usable cluster file, which errors are tried again, the day, the pool."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator
from typing import Any

import pendulum
from airflow.sdk import DAG, Asset, CronDataIntervalTimetable, Param, get_current_context, task

from runcast.data.cluster import Cluster, read_files
from runcast.data.settings import read_settings

DEFAULTS = {
    "owner": "runcast",
    "retries": 4,  # half an hour in all: a restart of MLflow, another night that ends
    "retry_delay": dt.timedelta(minutes=1),
    "retry_exponential_backoff": 2.0,  # each wait is twice the one before, and up to as much again; True would mean no growth
    "max_retry_delay": dt.timedelta(minutes=30),
    "execution_timeout": dt.timedelta(hours=2),
}
START = (2020, 1, 1)  # before any night that could be asked for; catchup is off, so it starts nothing

#: Of tasks that take a core for minutes. Made by pools.py, which also names it in the environment: a task in a pool that does not
#: exist waits for ever and only the scheduler's log says so, so without that name they share the pool that always exists.
HEAVY = {"pool": read_settings().environment.get("RUNCAST_POOL") or "default_pool"}

DATE = Param(None, type=["null", "string"], format="date", description="Day to load, YYYY-MM-DD; empty: from the data interval")


def live_clusters() -> Iterator[Cluster]:
    """Yield each usable cluster whose nights have a schedule: in a finished log nothing more ends."""
    for cluster in read_files(read_settings().clusters).values():
        if isinstance(cluster, Cluster) and cluster.refused is None and cluster.schedule is not None:
            yield cluster


def cluster_dag(cluster: Cluster, name: str, schedule: Any, doc_md: str, **more: Any) -> DAG:
    """Return an empty DAG `<name>_<cluster>`; `schedule` is a cron expression in the cluster's zone, assets, or None."""
    zone = pendulum.timezone(cluster.time_zone)
    return DAG(
        dag_id=f"{name}_{cluster.name}",
        description=cluster.description or cluster.name,
        doc_md=doc_md,
        schedule=CronDataIntervalTimetable(schedule, timezone=zone) if isinstance(schedule, str) else schedule,
        start_date=pendulum.datetime(*START, tz=zone),
        catchup=False,
        max_active_runs=1,  # two runs of one cluster would write the same files
        default_args=DEFAULTS,
        tags=["runcast", name, cluster.name],
        **{"dagrun_timeout": dt.timedelta(hours=12), **more},
    )


def product(cluster: Cluster, name: str) -> Asset:
    """Return what a stage leaves behind, as an asset that other DAGs can wait for: jobs, features, models or bundle."""
    return Asset(name=f"{cluster.name}_{name}", uri=f"runcast://{cluster.name}/{name}")


def attempt(do: Callable[..., Any], *words: Any, **named: Any) -> Any:
    """Return `do(...)`; bad data and settings fail the task at once, what may pass by itself is tried again."""
    from airflow.sdk.exceptions import AirflowFailException

    from runcast.data.errors import MayPass, RuncastError
    from runcast.data.files import keep_from_others

    keep_from_others()
    try:
        return do(*words, **named)
    except MayPass:
        raise
    except RuncastError as error:
        raise AirflowFailException(str(error)) from error


@task(doc_md="choose the day that is loaded")
def which_day(cluster_name: str) -> str:
    """Choose the day that this run is of, as YYYY-MM-DD in the cluster's zone."""
    return attempt(day_of_run, cluster_name, get_current_context())


def day_of_run(cluster_name: str, context: Any) -> str:
    """Return the day asked for; else the last full day of the data interval; else, without an interval, the cluster's default."""
    from runcast.data.cluster import find_cluster
    from runcast.data.days import latest_complete_day
    from runcast.night import choose_day

    settings = read_settings()
    cluster = find_cluster(settings.clusters, cluster_name)
    asked, interval_end = context["params"].get("date"), context.get("data_interval_end")
    if asked is None and cluster.schedule and interval_end is not None:
        day, why = latest_complete_day(cluster, interval_end).isoformat(), "the last full day of the data interval"
    else:
        day, why = choose_day(cluster, settings, asked, pendulum.now("UTC")), "asked for" if asked else "the latest day"
    print(f"{cluster_name}: {day} ({why})")  # noqa: T201 the task's log
    return day
