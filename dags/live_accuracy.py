"""
### How right the served forecasts were

Runs whenever a night has read the log: the jobs that ended on that day are joined with what the service had told them, and the day's error,
coverage and share of jobs without an answer are kept below `RUNCAST_HOME/live/<cluster>/` and in MLflow, run *live accuracy*.

**Which day?** That of each night that set it off; run by hand, the parameter `date` or yesterday.

**Skipped**: the cluster file does not say where `runcast serve` keeps what it told (`export.served`). The log says what to write.

**When it is red**

- no file where `export.served` points: the service does not run, its state is elsewhere, or the scheduler tells it no job ids.
- the lake does not reach the day: the night's `ingest` failed. See `nightly_<cluster>`.
- a share of unanswered jobs near 100 %, though it is green: the service is down, or its job keys differ from the log's.

Without Airflow: `runcast live --cluster NAME --date YYYY-MM-DD`; the latest day stands in `runcast status`.
"""

from __future__ import annotations

from airflow.sdk import DAG, get_current_context, task
from runcast_dags import DATE, attempt, cluster_dag, day_of_run, live_clusters, product

from runcast.data.cluster import Cluster


@task(doc_md="the days of the nights that set this run off")
def which_days(cluster_name: str) -> list[str]:
    """Return the days of the nights that set this run off, oldest first; of a run by hand, the day asked for or the latest."""
    context = get_current_context()
    told = [event.extra.get("day") for events in context["triggering_asset_events"].values() for event in events]
    return sorted({day for day in told if day}) or [attempt(day_of_run, cluster_name, context)]


def live_accuracy(cluster: Cluster) -> DAG:
    """Return the DAG that looks at one cluster's served forecasts, a task for each day."""
    with cluster_dag(cluster, "live_accuracy", [product(cluster, "jobs")], __doc__, params={"date": DATE}) as dag:

        @task(map_index_template="{{ day }}", doc_md="the forecasts of the jobs that ended on a day")
        def look(day: str) -> str:
            from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

            from runcast.evaluation.errors import NothingServed
            from runcast.rounds import live_accuracy
            from runcast.show import live_lines

            get_current_context()["day"] = day  # names the mapped task
            try:
                record = attempt(live_accuracy, cluster.name, day)
            except AirflowFailException as error:
                if isinstance(error.__cause__, NothingServed):
                    raise AirflowSkipException(str(error)) from None
                raise
            print(live_lines(record))  # noqa: T201 the task's log
            return record["record"]

        look.expand(day=which_days(cluster.name))
    return dag


for _cluster in live_clusters():
    _dag = live_accuracy(_cluster)
    globals()[_dag.dag_id] = _dag
