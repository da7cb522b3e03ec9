"""
### A night of one cluster

Reads what the cluster's log holds up to the end of the day, retrains, judges the new models on jobs they have not seen, registers them,
and hands the winner to the scheduler.

**Which day?** The parameter `date` if given; else the last full local day before the end of the data interval; else, for a run that
has no interval, yesterday in the cluster's zone (of a finished log: its last day). The task `which_day` logs its choice. A past day reads
nothing later than its end. A day that has not begun is refused.

**When a task is red**

- `ingest`: the log is missing or of another format, or too many rows were rejected. The message names the file; nothing was written.
- `quality`: a stop check failed. The message names the check, what was expected and what was found. Nothing is trained, and the
  champion keeps serving. Mend the log, then clear `ingest` and what follows. If the day is in order as it is (a renamed queue), trigger a
  run with its `date` and the reason as `accept_quality`: the checks that stopped it are passed over for that day, no others. The night's
  record, the page of all clusters and `runcast status` say so.
- `drift`: nothing is broken. The log of this task says what is submitted otherwise than before, or forecast worse; the night itself is
  done. It is told once; whether and when is set by `drift` in the cluster file.
- `train_*`: where the log says that a fit was killed (signal 11: a crash; 9: out of memory) or failed, only that kind is missing. The
  other kinds are judged, registered and may serve; the champion of the kind that failed stays. It is not tried again by itself: clear the
  task and what follows once the cause is mended (more memory, fewer slots in the pool, another version of the library).
- `fits`: a fit of this night was killed or failed, in training or in judging, and the log names it. The night is done without it. The
  page of all clusters and `runcast status` say the same.
- `train_*`, `evaluate`, `register`, `promote`, `export`: safe to clear and run again; each replaces its own output whole.
- yellow, *up for retry*: a lock that another night holds, a full disk, a log that cannot be fetched, a tracking server that does
  not answer. It is tried again four times, with waits that double from a minute. Bad data is not.

**Nights that were missed** (with AIRFLOW_HOME=RUNCAST_HOME/airflow where `make ui` runs):
`airflow backfill create --dag-id nightly_NAME --from-date 2026-01-07T00:00:00+01:00 --to-date
2026-01-09T23:59:59+01:00` runs three of them; a date without the zone's offset means UTC. In any order the lake, the champions and the
version that serves end as if each night had run in its turn (dags/DECISIONS.md says what is promised).

The same night without Airflow: `runcast nightly --cluster NAME --date YYYY-MM-DD`.
"""

from __future__ import annotations

import re
from pathlib import Path

from airflow.sdk import DAG, Param, TaskGroup, get_current_context, task
from runcast_dags import DATE, DEFAULTS, HEAVY, attempt, cluster_dag, product, which_day

from runcast.data.cluster import Cluster, read_files
from runcast.data.settings import read_settings
from runcast.night import BY_NAME, MODEL_KINDS

#: What a stage leaves behind, see runcast_dags.product.
PRODUCTS = {"ingest": "jobs", "features": "features", "register": "models", "export": "bundle"}
ACCEPT = Param(
    None,
    type=["null", "string"],
    minLength=1,
    description="Why the day named by `date` is trained on although checks stopped it; only the checks that did are passed over",
)
IN_POOL = {"features", "evaluate", *(f"train_{kind}" for kind in MODEL_KINDS)}


def stage_task(cluster: Cluster, name: str):
    """Return the task that runs one stage of a night and hands on the day."""
    outlets = [product(cluster, PRODUCTS[name])] if name in PRODUCTS else []

    rule = "all_done_min_one_success" if name == "evaluate" else "all_success"  # a kind whose fit failed does not stop the others

    @task(task_id=name, doc_md=BY_NAME[name].title, outlets=outlets, trigger_rule=rule, **(HEAVY if name in IN_POOL else {}))
    def run(day: str) -> str:
        from airflow.sdk.exceptions import AirflowFailException

        from runcast.night import accept_quality, failed_training, run_stage

        params = get_current_context()["params"]
        if name == "quality" and params.get("accept_quality"):
            if params.get("date") != day:
                raise AirflowFailException("accept_quality is of one day: name it as date")
            attempt(accept_quality, cluster.name, day, params["accept_quality"])
        if name == "evaluate" and (why := failed_training(cluster.name, day)):
            raise AirflowFailException(f"a kind was not trained at all: {why}")
        record = attempt(run_stage, name, cluster.name, day)
        if said := record.get("alarm") or record.get("failure"):  # the record is kept already; the red task is what is seen of it
            raise AirflowFailException(said)
        for asset in outlets:
            get_current_context()["outlet_events"][asset].extra = {"day": day}
        return day

    return run


@task(doc_md="red where a fit was killed or failed, so that the run is; stops nothing")
def fits(cluster_name: str, day: str) -> None:
    """Fail where the night had to go on without a fit."""
    from airflow.sdk.exceptions import AirflowFailException

    from runcast.night import failures_of_fits

    if failed := failures_of_fits(cluster_name, day):
        raise AirflowFailException("; ".join(failed))


def nightly(cluster: Cluster) -> DAG:
    """Return the DAG of one cluster's nights."""
    with cluster_dag(cluster, "nightly", cluster.schedule, __doc__, params={"date": DATE, "accept_quality": ACCEPT}) as dag:
        ready = which_day(cluster.name)
        for name in ("ingest", "quality", "features"):
            ready = stage_task(cluster, name)(ready)
        with TaskGroup("train", prefix_group_id=False, tooltip="every kind of model, side by side"):
            trained = [stage_task(cluster, f"train_{kind}")(ready) for kind in MODEL_KINDS]
        judged = stage_task(cluster, "evaluate")(ready)
        trained >> judged
        stage_task(cluster, "drift")(judged)  # leaves: nothing waits for them, and an alarm stops nothing
        fits(cluster.name, judged)
        for name in ("register", "promote", "export"):
            judged = stage_task(cluster, name)(judged)
    return dag


def unreadable(path: Path, reason: str) -> DAG:
    """Return a DAG whose only task fails with what is wrong: a broken cluster file is seen and does not take the others with it."""
    plain = re.sub(r"[^A-Za-z0-9_.-]", "_", path.stem)[:100]  # the file may be called what no DAG can be
    with DAG(dag_id=f"nightly_{plain}", doc_md=reason, schedule=None, tags=["runcast", "broken"], default_args=DEFAULTS) as dag:

        @task(retries=0, doc_md="say what is wrong with the cluster file")
        def cluster_file() -> None:
            from airflow.sdk.exceptions import AirflowFailException

            held = read_files(path.parent).get(path)
            if not isinstance(held, Cluster):
                raise AirflowFailException(str(held or f"{path}: no longer there"))

        cluster_file()
    return dag


_files = read_files(read_settings().clusters)
_dags = [unreadable(_path, str(_held)) for _path, _held in _files.items() if not isinstance(_held, Cluster)]
_dags += [nightly(_held) for _held in _files.values() if isinstance(_held, Cluster) and _held.refused is None]
globals().update({_dag.dag_id: _dag for _dag in _dags})  # of one id, the DAG of the cluster that can be used
