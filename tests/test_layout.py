"""The house stays as it was drawn: folders, who may import whom, and what a scheduler host has to load."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ON_THE_SCHEDULER_HOST = sorted(
    f"runcast.scheduler.{p.stem}" for p in (ROOT / "scheduler").glob("*.py") if p.stem not in ("__init__", "export")
)
NOT_THERE = ("airflow", "mlflow", "pandas", "great_expectations", "pyarrow", "sklearn", "pydantic", "yaml")


def _run(*command: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


def test_nothing_in_the_mlflow_folder_shadows_the_library() -> None:
    assert sorted(p.name for p in (ROOT / "mlflow").glob("*.py")) == []


def test_links_lead_to_the_folders_at_the_root() -> None:
    links = {p.name: p.resolve() for p in (ROOT / "src" / "runcast").iterdir() if p.is_symlink()}
    expected = {name: ROOT / name for name in ("data", "features", "training", "evaluation", "scheduler")}
    assert links == expected | {"registry": ROOT / "mlflow" / "registry"}


def test_import_contracts_hold() -> None:
    found = _run(str(Path(sys.executable).parent / "lint-imports"), "--no-cache")
    assert found.returncode == 0, found.stdout + found.stderr


@pytest.mark.parametrize(
    ("library", "allowed"),
    [("mlflow", "mlflow/registry/"), ("great_expectations", "data/quality.py"), ("airflow", "dags/")],
)
def test_library_is_imported_in_one_place_only(library: str, allowed: str) -> None:
    folders = ("data", "features", "training", "evaluation", "mlflow", "scheduler", "dags", "src/runcast")
    files = {p.resolve().relative_to(ROOT) for folder in folders for p in (ROOT / folder).rglob("*.py")}
    importing = {str(p) for p in files if library in _imported(ROOT / p)}
    assert {p for p in importing if not p.startswith(allowed)} == set()


def _imported(path: Path) -> set[str]:
    """The top-level names of all imports in a file, those inside functions included."""
    nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    names = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module and not node.level}
    return {name.partition(".")[0] for name in names}


@pytest.mark.parametrize("module", ON_THE_SCHEDULER_HOST)
def test_scheduler_host_loads_none_of_the_pipeline(module: str) -> None:
    found = _run(sys.executable, "-c", f"import sys, {module}; print(*sorted({{m.partition('.')[0] for m in sys.modules}}))")
    assert found.returncode == 0, found.stderr
    assert set(found.stdout.split()) & set(NOT_THERE) == set()


def test_tests_mirror_the_folders() -> None:
    folders = {p.name for p in (ROOT / "tests").iterdir() if p.is_dir() and not p.name.startswith("__")}
    assert folders <= {
        "attack",
        "data",
        "features",
        "training",
        "evaluation",
        "registry",
        "scheduler",
        "dags",
        "deploy",
        "crash",
        "fuzz",
        "traces",
    }
