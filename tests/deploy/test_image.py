"""The images: their locks say the same as ours, and the Dockerfile names what is there and lets no root run."""

import os
import re
import shutil
import subprocess
import tomllib
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


@pytest.mark.parametrize("lock", ["requirements.txt", "deploy/image/runcast.txt", "deploy/image/mlflow.txt", "deploy/setup.txt"])
def test_every_pin_has_its_hash_and_no_lock_names_a_host(lock: str) -> None:
    text = (ROOT / lock).read_text()
    entries = re.split(r"\n(?=[a-z0-9])", text)
    assert [entry.splitlines()[0] for entry in entries if "--hash=sha256:" not in entry] == []
    assert "://" not in text


def test_what_builds_our_package_is_one_version_everywhere_and_is_fetched_with_its_hash() -> None:
    (required,) = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]
    version = {required.removeprefix("setuptools==")}
    assert pins(ROOT / "deploy" / "setup.txt")["setuptools"] == version
    assert pins(IMAGE / "runcast.txt")["setuptools"] == version


def test_the_set_up_installs_nothing_without_a_hash_but_our_own_package() -> None:
    script = (ROOT / "setup.sh").read_text().replace("\\\n", " ")
    installs = re.findall(r"^.*\bpip install .*$", script, re.M)
    assert len(installs) >= 5
    for line in installs:
        hashed = "--require-hashes" in line or re.match(r"\s*pip install -r ", line)  # the function of that name
        assert hashed or line.rstrip().endswith("--no-deps --no-build-isolation -e ."), line
    assert re.search(r"^pip\(\) \{.* --require-hashes ", script, re.M)


@pytest.fixture
def copy_of_image(tmp_path: Path) -> Path:
    """deploy/image with a registry stood in for: `docker` answers what the file `answer` says."""
    shutil.copytree(IMAGE, tmp_path / "image")
    docker = tmp_path / "docker"
    docker.write_text('#!/bin/sh\n[ "$1 $2 $3" = "buildx imagetools inspect" ] && cat "${0%/*}/answer"\n')
    docker.chmod(0o755)
    return tmp_path / "image"


def resolve(image: Path, answer: str) -> subprocess.CompletedProcess[str]:
    (image.parent / "answer").write_text(answer)
    environment = {"PATH": f"{image.parent}:{os.environ['PATH']}"}
    return subprocess.run(["sh", image / "digests.sh"], env=environment, capture_output=True, text=True, check=False)


def test_the_digests_of_the_base_images_are_asked_for_and_kept(copy_of_image: Path) -> None:
    digest = f"sha256:{'0a' * 32}"
    assert resolve(copy_of_image, digest).returncode == 0
    lines = (copy_of_image / "digests.env").read_text().splitlines()
    assert [re.sub(r"=\w+:[\w.-]+@", "=NAME:TAG@", line) for line in lines] == [
        f"PYTHON_IMAGE=NAME:TAG@{digest}",
        f"POSTGRES_IMAGE=NAME:TAG@{digest}",
    ]


@pytest.mark.parametrize("answer", ["", "latest", "sha256:short"])
def test_an_answer_that_is_no_digest_writes_nothing(copy_of_image: Path, answer: str) -> None:
    done = resolve(copy_of_image, answer)
    assert (done.returncode, "expected a digest" in done.stderr) == (1, True)
    assert [path.name for path in copy_of_image.iterdir() if "digests." in path.name] == ["digests.sh"]


def test_no_image_has_a_base_of_a_tag_alone(tmp_path: Path) -> None:
    assert re.findall(r"^ARG (\S+)", DOCKERFILE, re.M) == ["PYTHON_IMAGE"]  # without a default
    assert re.findall(r"^FROM (\S+)", DOCKERFILE, re.M) == ["${PYTHON_IMAGE}", "base", "base"]
    done = subprocess.run(["make", "-f", ROOT / "Makefile", "images"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, "no digest of the base image. Run: make digests" in done.stderr) == (2, True)


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
