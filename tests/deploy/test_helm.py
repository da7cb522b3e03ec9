"""The Kubernetes example: documents that parse, hardened pods, secrets by reference only, and names that fit together."""

import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import yaml

from runcast.data.cluster import read_cluster

HELM = Path(__file__).resolve().parents[2] / "deploy" / "helm"
VALUES: dict[str, Any] = yaml.safe_load((HELM / "airflow-values.yaml").read_text())
DOCUMENTS: list[dict[str, Any]] = list(yaml.safe_load_all((HELM / "runcast.yaml").read_text()))
BY_NAME = {(one["kind"], one["metadata"]["name"]): one for one in DOCUMENTS}
POD = BY_NAME["Deployment", "mlflow"]["spec"]["template"]["spec"]
CONTAINER = POD["containers"][0]
COPIES = [VALUES["apiServer"]["extraInitContainers"][0], POD["initContainers"][0]]


def test_every_claim_and_config_map_that_pods_mount_is_made() -> None:
    claims = {one["persistentVolumeClaim"]["claimName"] for one in VALUES["volumes"] if "persistentVolumeClaim" in one}
    maps = {one["configMap"]["name"] for one in VALUES["volumes"] if "configMap" in one}
    made = {(kind, name) for kind, name in BY_NAME if kind in ("PersistentVolumeClaim", "ConfigMap")}
    assert {("PersistentVolumeClaim", name) for name in claims} | {("ConfigMap", name) for name in maps} == made
    assert {one["name"] for one in VALUES["volumeMounts"]} == {one["name"] for one in VALUES["volumes"]}


def test_pods_run_without_root_and_without_rights_to_gain() -> None:
    for context in (VALUES["securityContexts"]["pod"], POD["securityContext"]):
        assert context["runAsNonRoot"] is True
        assert context["runAsUser"] == 50000
        assert context["seccompProfile"] == {"type": "RuntimeDefault"}
    for context in (VALUES["securityContexts"]["containers"], CONTAINER["securityContext"]):
        assert context["allowPrivilegeEscalation"] is False
        assert context["capabilities"] == {"drop": ["ALL"]}


@pytest.mark.parametrize("part", ["scheduler", "apiServer", "dagProcessor", "triggerer"])
def test_each_part_of_airflow_is_bounded_and_uses_no_script_of_the_official_image(part: str) -> None:
    assert "memory" in VALUES[part]["resources"]["limits"]
    assert VALUES[part].get("logGroomerSidecar", {"enabled": False}) == {"enabled": False}


def test_each_setting_of_airflows_core_exists_and_its_auth_manager_is_in_the_image() -> None:
    (folder,) = find_spec("airflow").submodule_search_locations  # type: ignore[union-attr,misc]
    described = yaml.safe_load((Path(folder) / "config_templates" / "config.yml").read_text())
    core = VALUES["config"]["core"]
    assert set(core) <= set(described["core"]["options"])
    module = core["auth_manager"].rpartition(".")[0].replace(".", "/").removeprefix("airflow/")
    assert (Path(folder) / f"{module}.py").exists()


def test_the_secrets_that_are_named_are_the_guides() -> None:
    guide = (HELM.parent / "README.md").read_text()
    made = {
        name: set(re.findall(r"--from-file=(\S+)", rest)) for name, rest in re.findall(r"create secret generic (\S+) (.*)", guide)
    }
    named = {
        VALUES["data"]["metadataSecretName"],
        VALUES["fernetKeySecretName"],
        VALUES["apiSecretKeySecretName"],
        VALUES["jwtSecretName"],
    }
    assert named | {"runcast-airflow-page", "runcast-mlflow", "runcast-mlflow-client"} == set(made)
    assert made["runcast-airflow-keys"] == {"fernet-key", "api-secret-key", "jwt-secret"}
    projected = next(one["projected"] for one in VALUES["volumes"] if one["name"] == "secrets")
    files = set().union(*(made[source["secret"]["name"]] for source in projected["sources"]))
    read = {
        one["name"]: one["value"].removeprefix("cat /etc/runcast/secrets/")
        for one in VALUES["env"]
        if one["name"].endswith("_CMD")
    }
    assert set(read.values()) == files
    assert {name.removesuffix("_CMD") for name in read} == {
        "AIRFLOW__CORE__FERNET_KEY", "AIRFLOW__API__SECRET_KEY", "AIRFLOW__API_AUTH__JWT_SECRET",
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN", "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN_ASYNC",
    }  # fmt: skip
    assert {path for one in COPIES for path in one["command"][2:3]} == {
        "/etc/runcast/page/passwords.json", "/etc/runcast/secrets/pgpass",
    }  # fmt: skip
    assert {"passwords.json"} == made["runcast-airflow-page"]
    assert "pgpass" in made["runcast-mlflow"]


def test_no_secret_is_in_an_environment_or_a_log() -> None:
    assert not {"secret", "extraEnvFrom", "extraSecrets"} & set(VALUES)
    assert set(VALUES["enableBuiltInSecretEnvVars"].values()) == {False}
    for variable in [*CONTAINER["env"], *VALUES["env"]]:
        assert "valueFrom" not in variable
        assert not re.search(r"://[^/@]*:[^/@]*@", variable["value"])
    # Airflow draws a password and logs it where the file it is told of lacks the user.
    file = VALUES["config"]["core"]["simple_auth_manager_passwords_file"]
    assert file == VALUES["apiServer"]["extraInitContainers"][0]["command"][-1]


def test_a_secret_that_must_be_private_is_copied_with_mode_0600_into_memory() -> None:
    for copy, volumes in zip(COPIES, (VALUES["apiServer"]["extraVolumes"], POD["volumes"]), strict=True):
        assert copy["command"][:2] == ["install", "--mode=600"]
        assert copy["securityContext"]["readOnlyRootFilesystem"] is True
        target = next(one["name"] for one in copy["volumeMounts"] if copy["command"][-1].startswith(one["mountPath"] + "/"))
        assert next(one for one in volumes if one["name"] == target)["emptyDir"]["medium"] == "Memory"
    uri = next(one["value"] for one in CONTAINER["env"] if one["name"] == "MLFLOW_TRACKING_URI")
    assert uri.endswith(f"passfile={COPIES[1]['command'][-1]}")


def test_the_tracking_server_is_bounded_watched_and_reached_by_its_allowed_name() -> None:
    assert {"startupProbe", "livenessProbe", "readinessProbe"} <= set(CONTAINER)
    assert {"memory", "cpu"} <= set(CONTAINER["resources"]["limits"])
    service, port = BY_NAME["Service", "mlflow"]["metadata"]["name"], BY_NAME["Service", "mlflow"]["spec"]["ports"][0]["port"]
    values = {one["name"]: one.get("value") for one in CONTAINER["env"]}
    uri = next(one["value"] for one in VALUES["env"] if one["name"] == "MLFLOW_TRACKING_URI")
    assert uri == f"http://{service}:{port}"
    assert f"{service}:{port}" in values["RUNCAST_MLFLOW_HOSTS"].split(",")


def test_the_example_cluster_files_are_cluster_files(tmp_path: Path) -> None:
    for name, text in BY_NAME["ConfigMap", "runcast-clusters"]["data"].items():
        (tmp_path / name).write_text(text)
        assert read_cluster(tmp_path / name).schedule
