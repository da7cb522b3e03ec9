"""The images: their locks say the same as ours, and the Dockerfile names what is there and lets no root run."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
IMAGE = ROOT / "deploy" / "image"
DOCKERFILE = (IMAGE / "Dockerfile").read_text()


def pins(path: Path) -> dict[str, set[str]]:
    """Package -> versions of a lock (more than one where Python's version decides)."""
    found: dict[str, set[str]] = {}
    for name, version in re.findall(r"^([a-z0-9][^=\s\[]*)(?:\[[^\]]*\])?==([^\s;\\]+)", path.read_text(), re.M):
        found.setdefault(name, set()).add(version)
    return found


def test_the_image_holds_the_versions_that_are_tested() -> None:
    ours, image = pins(ROOT / "requirements.txt"), pins(IMAGE / "runcast.txt")
    assert len(image) > 100
    assert {name: versions for name, versions in image.items() if ours.get(name, versions) != versions} == {}


def test_no_tool_of_ours_gets_into_the_image() -> None:
    assert {"pytest", "ruff", "mypy", "hypothesis", "import-linter"} & set(pins(IMAGE / "runcast.txt")) == set()


def test_server_and_clients_are_of_one_mlflow() -> None:
    assert pins(IMAGE / "mlflow.txt")["mlflow"] == pins(ROOT / "requirements.txt")["mlflow"]
    assert pins(IMAGE / "mlflow.txt")["psycopg"] == pins(ROOT / "requirements.txt")["psycopg"]


@pytest.mark.parametrize("lock", ["requirements.txt", "deploy/image/runcast.txt", "deploy/image/mlflow.txt"])
def test_every_pin_has_its_hash_and_no_lock_names_a_host(lock: str) -> None:
    text = (ROOT / lock).read_text()
    entries = re.split(r"\n(?=[a-z0-9])", text)
    assert [entry.splitlines()[0] for entry in entries if "--hash=sha256:" not in entry] == []
    assert "://" not in text


def test_what_the_dockerfile_copies_is_there_and_not_ignored() -> None:
    copied = {word for line in re.findall(r"^COPY (?:--\S+ )?(.+) \S+$", DOCKERFILE, re.M) for word in line.split()}
    assert {name for name in copied if not (ROOT / name).exists()} == set()
    allowed = re.findall(r"^!(\S+)$", (IMAGE / "Dockerfile.dockerignore").read_text(), re.M)
    assert {name for name in copied if not any(name == one or name.startswith(one + "/") for one in allowed)} == set()


def test_the_wheel_inside_the_image_has_every_folder_that_the_import_name_links_to() -> None:
    linked = {path.resolve().relative_to(ROOT).parts[0] for path in (ROOT / "src" / "runcast").iterdir() if path.is_symlink()}
    assert linked <= set(re.findall(r"^COPY (\S+) /tmp/source/", DOCKERFILE, re.M))


def test_each_image_ends_as_an_account_without_rights() -> None:
    stages = re.split(r"^FROM ", DOCKERFILE, flags=re.M)[2:]  # after the arguments and the base
    assert [re.findall(r"^USER (\S+)$", stage, re.M)[-1] for stage in stages] == ["50000:50000", "50000:50000"]


def test_everything_is_installed_from_a_lock_with_hashes() -> None:
    installs = re.findall(r"pip install ([^&\n]+)", DOCKERFILE)
    assert installs
    assert [one for one in installs if "--require-hashes" not in one and "--no-deps --no-build-isolation" not in one] == []
