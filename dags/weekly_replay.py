"""
### A week's replay of one cluster

Replays what was known at the end of the day: the latest fifth of the jobs arrive in order, models are retrained every week, and every
predictor is judged beside the baselines. The nights judge models trained once; this says how they hold up over weeks. The report is
`RUNCAST_HOME/replay/<cluster>/<day>/report.html`, its numbers are a run of the cluster's experiment in MLflow.

It takes hours of one core on a large log, so it runs when the cluster file's `evaluation.replay_schedule` says (Saturdays at ten; null:
never) and after the nights where the pool is full.

**When it is red**: the lake does not reach the day (see `nightly_<cluster>`), or too few jobs have ended to learn from; or a fit was
killed or failed (the log names it), and a baseline answers in its place in the report. Safe to clear and run again: the report is
replaced whole, and the same replay is the same run.

Without Airflow: `runcast weekly --cluster NAME --date YYYY-MM-DD`.
"""

from __future__ import annotations

import datetime as dt

from airflow.sdk import DAG, task
from runcast_dags import DATE, HEAVY, attempt, cluster_dag, live_clusters, which_day

from runcast.data.cluster import Cluster


def weekly(cluster: Cluster) -> DAG:
    """Return the DAG of one cluster's weekly replays."""
    schedule = cluster.evaluation.replay_schedule
    more = {"params": {"date": DATE}, "dagrun_timeout": dt.timedelta(days=2)}
    with cluster_dag(cluster, "weekly", schedule, __doc__, **more) as dag:

        @task(**HEAVY, execution_timeout=dt.timedelta(hours=20), doc_md="replay the latest jobs, models retrained weekly")
        def replay(day: str) -> str:
            from airflow.sdk.exceptions import AirflowFailException

            from runcast.rounds import weekly_replay

            document = attempt(weekly_replay, cluster.name, day)
            if document["failures"]:  # the report is written and logged; a baseline answered in the place of these
                raise AirflowFailException("; ".join(document["failures"].values()))
            return document["report"]

        replay(which_day(cluster.name))
    return dag


for _cluster in live_clusters():
    _dag = weekly(_cluster)
    globals()[_dag.dag_id] = _dag
