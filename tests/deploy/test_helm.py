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
    used = {one["secretName"]: one["secretKey"] for one in VALUES["secret"]}
    assert named | set(used) | {"runcast-mlflow"} == set(made)
    assert all(key in made[name] for name, key in used.items())
    assert made["runcast-airflow-keys"] == {"fernet-key", "api-secret-key", "jwt-secret"}
    for variable in CONTAINER["env"]:
        reference = variable.get("valueFrom", {}).get("secretKeyRef")
        if reference:
            assert reference["key"] in made[reference["name"]]
        else:
            assert not re.search(r"://[^/@]*:[^/@]*@", variable["value"])


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
