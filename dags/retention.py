"""
### The monthly upkeep of one cluster

`prune` deletes what the cluster file's `retention` no longer keeps: registered versions with their runs, trained models, bundles, reports
and records of nights. Jobs in the lake are never deleted, nor what an alias or the serving bundle names, nor what a rollback could go to,
nor what was written within the last day. `check_lake` reads every file of the lake against its manifest.

**What would go?** Run it by hand with `dry_run`, or `runcast prune --cluster NAME --dry-run`.

**When it is red**

- `check_lake`: files of the lake are not what was written; the message names them. Delete them and load their days again.
- `prune`: safe to clear and run again. What was deleted stays deleted, the rest goes now.

Airflow's own records are Airflow's: `AIRFLOW_HOME=RUNCAST_HOME/airflow airflow db clean --clean-before-timestamp DAY`.
"""

from __future__ import annotations

from airflow.sdk import DAG, Param, get_current_context, task
from runcast_dags import attempt, cluster_dag, live_clusters

from runcast.data.cluster import Cluster

SCHEDULE = "0 12 1 * *"  # the first of a month at noon: no night runs, and somebody is there


def retention(cluster: Cluster) -> DAG:
    """Return the DAG of one cluster's upkeep."""
    dry_run = Param(False, type="boolean", description="Say what would go, and delete nothing")
    with cluster_dag(cluster, "retention", SCHEDULE, __doc__, params={"dry_run": dry_run}) as dag:

        @task(doc_md="read the lake's files against their manifest")
        def check_lake() -> None:
            from runcast.rounds import check_lake

            print(attempt(check_lake, cluster.name))  # noqa: T201 the task's log

        @task(doc_md="delete what is no longer kept")
        def prune() -> None:
            from runcast.rounds import prune
            from runcast.show import prune_lines

            is_dry = get_current_context()["params"]["dry_run"]
            print(prune_lines(attempt(prune, cluster.name, is_dry=is_dry)))  # noqa: T201 the task's log

        check_lake()
        prune()
    return dag


for _cluster in live_clusters():
    _dag = retention(_cluster)
    globals()[_dag.dag_id] = _dag
