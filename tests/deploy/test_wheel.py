"""The wheel of `make wheel`: really built, installed in a fresh environment without a network; and no page that installs by name."""

import json
import re
import shutil
import subprocess
import sys
import venv
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ("pyproject.toml", "README.md", "src", "data", "features", "training", "evaluation", "scheduler", "mlflow")
PAGES = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(path for path in (ROOT / "deploy").rglob("*") if path.is_file())]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built by the Makefile's own command from a copy of the sources."""
    folder = tmp_path_factory.mktemp("source")
    for name in SOURCES:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, folder / name, **({"symlinks": True} if (ROOT / name).is_dir() else {}))
    recipe = re.search(r'-c "(from setuptools import build_meta.*?)"', (ROOT / "Makefile").read_text())
    (folder / "dist").mkdir()
    assert recipe
    done = subprocess.run([sys.executable, "-c", recipe[1]], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (built,) = (folder / "dist").glob("runcast-*.whl")
    return built


@pytest.fixture(scope="module")
def host(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The command `runcast` of a fresh environment that holds the wheel and nothing else."""
    folder = tmp_path_factory.mktemp("host")
    venv.create(folder, with_pip=True)
    install = [folder / "bin" / "python", "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", wheel]
    done = subprocess.run(install, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder / "bin" / "runcast"


def run(command: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([command, *words], capture_output=True, text=True, check=False, cwd=command.parent, timeout=60)


def test_the_wheel_holds_what_is_not_python_too(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {
        "runcast/data/clusters/demo_slurm.yaml", "runcast/data/clusters/examples/kth.yaml", "runcast/evaluation/templates/report.html",
        "runcast/scheduler/slurm/runcast.lua", "runcast/scheduler/lsf/esub.runcast", "runcast/scheduler/kubernetes/webhook.yaml",
    } <= names  # fmt: skip
    sources = {
        f"runcast/{package}/{path.relative_to(ROOT / folder)}"
        for package, folder in (("data", "data"), ("scheduler", "scheduler"), ("registry", "mlflow/registry"))
        for path in (ROOT / folder).rglob("*.py")
    }
    assert sources - names == set()


def test_a_fresh_host_has_its_commands_and_says_what_it_has_not(host: Path) -> None:
    assert run(host, "--version").stdout == "runcast 0.1.0\n"
    assert run(host, "--help").returncode == 0
    for command in ("slurm-score", "slurm-feed", "kubernetes-webhook"):
        done = run(host, command, "--help")
        assert (done.returncode, done.stdout.startswith(f"usage: runcast {command}")) == (0, True), done.stderr
    done = run(host, "nightly", "--json")
    assert (done.returncode, json.loads(done.stdout)["kind"]) == (10, "NotInstalled")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_no_page_installs_runcast_by_name_from_an_index(page: Path) -> None:
    text = page.read_text(errors="replace").replace("Never `pip install runcast` by name", "")
    by_name = re.findall(r"pip install [^\n]*?(?<![\w/.-])runcast(?:\[[a-z,]+\])?(?:'|\"|\s|$|=)", text)
    assert by_name == []


def test_each_airflow_command_says_whose_home() -> None:
    text = (ROOT / "docs" / "airflow.md").read_text()
    for block in re.findall(r"(?:^    .*\n)+", text, re.M):
        if re.search(r"\bairflow (dags|backfill|db|tasks)\b", block):
            assert "AIRFLOW_HOME" in block, block
