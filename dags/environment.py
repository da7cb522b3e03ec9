"""Airflow's settings for one machine: everything below RUNCAST_HOME, loopback only, few workers."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from pools import POOL

from runcast.data.settings import Settings


def airflow_environment(settings: Settings, environment: Mapping[str, str]) -> dict[str, str]:
    """Return `environment` with the Airflow settings added that it does not name itself."""
    home = settings.home / "airflow"
    ours = {
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__DAGS_FOLDER": str(Path(__file__).resolve().parent),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "True",  # nothing starts before its operator says so
        "AIRFLOW__CORE__PARALLELISM": "4",  # the default forks 32 workers of about 130 MiB each
        "AIRFLOW__API__HOST": "127.0.0.1",  # the default is every interface
        "AIRFLOW__WORKERS__EXECUTION_API_TIMEOUT": "60",  # 5 s fail a task's start while one server on SQLite is busy
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{home / 'airflow.db'}?timeout=60",
        "RUNCAST_HOME": str(settings.home),
        "RUNCAST_CLUSTERS": os.pathsep.join(map(str, settings.clusters)),
        "RUNCAST_POOL": POOL,  # whoever takes these settings makes it: see pools.py
        "OMP_NUM_THREADS": "1",
        "MLFLOW_DISABLE_TELEMETRY": "true",
    }
    # `airflow standalone` starts its parts by the bare name `airflow`: this environment's own must be the first on the path.
    path = os.pathsep.join([str(Path(sys.executable).parent), environment.get("PATH", os.defpath)])
    return ours | dict(environment) | {"PATH": path}
