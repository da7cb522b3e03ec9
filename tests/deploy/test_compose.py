"""The compose file: no root, no rights to gain, no secret in sight, nothing beyond loopback; and the folders and secrets it wants."""

import json
import re
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography.fernet import Fernet

COMPOSE = Path(__file__).resolve().parents[2] / "deploy" / "compose"
FILE = yaml.safe_load((COMPOSE / "compose.yaml").read_text())
OVERRIDE = yaml.safe_load((COMPOSE / "compose.s3.yaml").read_text())
SERVICES: dict[str, dict[str, Any]] = FILE["services"]
EVERY = pytest.mark.parametrize("name", sorted(SERVICES))


@EVERY
def test_no_service_runs_as_root_or_may_become_it(name: str) -> None:
    service = SERVICES[name]
    assert service["user"] == ("${SERVE_UID:-50001}" if name == "serve" else "${RUNCAST_UID:-50000}") + ":${RUNCAST_GID:-50000}"
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert service["read_only"] is True
    assert not {"privileged", "cap_add", "devices", "pid", "ipc"} & set(service)


def test_the_answers_read_bundles_and_nothing_else_of_the_nights() -> None:
    mounts = [volume.split(":") for volume in SERVICES["serve"]["volumes"]]
    assert ["${STATE}/home/bundles", "/var/lib/runcast/bundles", "ro"] in mounts
    assert {mount[0] for mount in mounts if len(mount) == 2} == {"${STATE}/serve", "${STATE}/run"}
    assert {"secrets", "environment"} & set(SERVICES["serve"]) == set()


@EVERY
def test_each_service_is_bounded(name: str) -> None:
    assert {"mem_limit", "cpus", "pids_limit", "logging"} <= set(SERVICES[name])


@EVERY
def test_each_image_has_a_version(name: str) -> None:
    ours = re.fullmatch(r"\$\{\w+:-(\S+)\}", SERVICES[name]["image"])
    if ours:
        assert re.search(r":v?\d+\.\d+", ours[1])
    else:  # of a registry: nothing is taken by a tag alone
        assert SERVICES[name]["image"].startswith("${POSTGRES_IMAGE:?with its digest")


@EVERY
def test_what_is_published_is_published_on_loopback(name: str) -> None:
    for port in SERVICES[name].get("ports", []):
        assert port.startswith("127.0.0.1:"), port


@EVERY
def test_each_lasting_service_says_whether_it_is_well(name: str) -> None:
    service = SERVICES[name]
    assert ("healthcheck" in service) == (service["restart"] != "no")


def test_services_wait_for_what_they_need() -> None:
    waits = {name: {on: how["condition"] for on, how in one.get("depends_on", {}).items()} for name, one in SERVICES.items()}
    assert waits["airflow-migrate"] == waits["mlflow"] == {"postgres": "service_healthy"}
    for name in ("airflow-api-server", "airflow-scheduler", "airflow-dag-processor", "airflow-triggerer"):
        assert waits[name]["airflow-migrate"] == "service_completed_successfully", name
    for waited in waits.values():
        for on, condition in waited.items():
            assert condition != "service_healthy" or "healthcheck" in SERVICES[on]


@EVERY
def test_no_environment_holds_a_secret(name: str) -> None:
    for key, value in SERVICES[name].get("environment", {}).items():
        if re.search(r"PASSWORD|SECRET|FERNET|TOKEN|CREDENTIAL", key):
            assert re.fullmatch(r"(cat )?/(run/secrets|var/lib/runcast)/\S+", value), key
        assert not re.search(r"://[^/@]*:[^/@]*@", str(value)), f"{key} holds a password"


@EVERY
def test_each_secret_that_is_read_is_given(name: str) -> None:
    service = SERVICES[name]
    read = set(re.findall(r"/run/secrets/(\w+)", json.dumps([service.get("environment"), service.get("command")])))
    assert read <= set(service.get("secrets", []))
    assert set(service.get("secrets", [])) <= set(FILE["secrets"])


def test_the_pool_that_tasks_run_in_is_made_before_they_do() -> None:
    assert SERVICES["airflow-migrate"]["command"][-1] == "airflow db migrate && python /opt/runcast/dags/pools.py"
    source = (COMPOSE.parents[1] / "dags" / "pools.py").read_text()
    pool = FILE["x-airflow"]["environment"]["RUNCAST_POOL"]
    assert f'POOL = "{pool}"' in source
    assert f"RUNCAST_POOL={pool}\n" in (COMPOSE.parent / "systemd" / "airflow.env").read_text()


def test_object_storage_only_changes_the_tracking_server() -> None:
    assert set(OVERRIDE["services"]) == {"mlflow"}
    assert set(OVERRIDE["services"]["mlflow"]["secrets"]) == {*SERVICES["mlflow"]["secrets"], *OVERRIDE["secrets"]}


def test_each_variable_has_a_default_or_stands_in_the_example() -> None:
    text = (COMPOSE / "compose.yaml").read_text() + (COMPOSE / "compose.s3.yaml").read_text()
    example = set(re.findall(r"^(?:# )?(\w+)=", (COMPOSE / ".env.example").read_text(), re.M))
    named = set(re.findall(r"\$\{(\w+)(?!\w|:-)", text))
    assert "STATE" in named
    assert named <= example
    assert example <= set(re.findall(r"\$\{(\w+)", text)), "the example names nothing that is not used"


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"


def prepare(state: Path) -> str:
    return subprocess.run(["sh", COMPOSE / "prepare.sh", state], check=True, capture_output=True, text=True).stdout


def test_prepare_makes_every_folder_and_secret_for_its_owner_only(state: Path) -> None:
    prepare(state)
    mounted = set(re.findall(r"\$\{STATE[^}]*\}/([\w/]+)", (COMPOSE / "compose.yaml").read_text()))
    assert {name for name in mounted if not (state / name).exists()} == set()
    for path in [*(state / "secrets").iterdir(), state / "home" / "airflow" / "passwords.json"]:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path
    for name in ("secrets", "home", "postgres", "mlflow"):
        assert stat.S_IMODE((state / name).stat().st_mode) == 0o700, name
    for name in ("home/bundles", "serve"):  # the one is read by the answers' account, the other by the nights'
        assert stat.S_IMODE((state / name).stat().st_mode) == 0o750, name


def test_what_prepare_makes_is_of_the_form_that_its_reader_wants(state: Path) -> None:
    said = prepare(state)
    secrets = {path.name: path.read_text() for path in (state / "secrets").iterdir()}
    Fernet(secrets["fernet_key"])
    for role in ("airflow", "mlflow"):
        assert re.fullmatch(rf"postgres:5432:{role}:{role}:[\w-]{{43}}\n", secrets[f"{role}_pgpass"])
    assert len(set(secrets.values())) == len(secrets)
    ((user, password),) = json.loads((state / "home" / "airflow" / "passwords.json").read_text()).items()
    assert FILE["x-airflow"]["environment"]["AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS"] == f"{user}:admin"
    assert password in said
    assert not any(secret.strip() in said for secret in secrets.values())


def test_preparing_again_changes_nothing(state: Path) -> None:
    prepare(state)
    before = {path: path.read_bytes() for path in state.rglob("*") if path.is_file()}
    assert "password" not in prepare(state)
    assert {path: path.read_bytes() for path in state.rglob("*") if path.is_file()} == before
