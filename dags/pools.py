"""The pool of tasks that take a core for minutes: `python dags/pools.py` makes it in Airflow's database, where it is not there yet.

Where RUNCAST_POOL=runcast_training stands in the environment that parses the DAGs, features, training, evaluation and replays of all
clusters run in it. One slot for each core keeps a small machine usable; slots that were changed in Airflow's pages stay as they are.
"""

import os

POOL = "runcast_training"
SLOTS = int(os.environ.get("RUNCAST_POOL_SLOTS") or os.cpu_count() or 1)


def ensure_pool(name: str = POOL, slots: int = SLOTS) -> None:
    """Make the pool unless there is one of that name; Airflow's database must have its tables."""
    from airflow.models.pool import Pool
    from airflow.utils.session import create_session

    with create_session() as session:
        if Pool.get_pool(name, session=session) is None:
            about = "Runcast: features, training, evaluation and replays, one core each"
            Pool.create_or_update_pool(name, slots=slots, description=about, include_deferred=False, session=session)


if __name__ == "__main__":
    ensure_pool()
