"""Who may use what `make ui` starts: one account for Airflow and MLflow, its password drawn once, below RUNCAST_HOME/ui.

Files there are readable by their owner alone; whoever deletes the folder draws a new password. Loopback is no protection by itself:
every user of the machine reaches it, and whoever reaches MLflow without a password decides which model serves.
"""

import json
import os
import secrets
from collections.abc import Mapping
from pathlib import Path

USER = "operator"


def make_access(home: Path) -> Mapping[str, str]:
    """Make what is not there yet and return the environment that Airflow and MLflow read it by."""
    folder = home / "ui"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    folder.chmod(0o700)
    password = _kept(password_file(home), secrets.token_urlsafe(12))
    secret = _kept(folder / "mlflow_secret", secrets.token_urlsafe(32))
    _write(folder / "airflow.json", json.dumps({USER: password}))
    _write(
        folder / "mlflow.ini",
        f"[mlflow]\ndefault_permission = NO_PERMISSIONS\ndatabase_uri = sqlite:///{folder / 'mlflow_users.db'}\n"
        f"admin_username = {USER}\nadmin_password = {password}\n"
        "authorization_function = mlflow.server.auth:authenticate_request_basic_auth\n",
    )
    return {
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": f"{USER}:admin",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(folder / "airflow.json"),
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "False",
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(Path(__file__).resolve().parent / "plugins"),
        "MLFLOW_AUTH_CONFIG_PATH": str(folder / "mlflow.ini"),
        "MLFLOW_FLASK_SERVER_SECRET_KEY": secret,
    }


def password_file(home: Path) -> Path:
    """Where the account's password is."""
    return home / "ui" / "password"


def _kept(path: Path, new: str) -> str:
    """Return what the file holds; where there is none, it is made with `new`."""
    if not path.exists():
        _write(path, new + "\n")
    return path.read_text().strip()


def _write(path: Path, text: str) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        os.fchmod(file.fileno(), 0o600)
        file.write(text)
