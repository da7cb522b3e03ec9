"""What a scheduler host has: the standard library and the packages of the extra `scheduler`, nothing else."""

import importlib.metadata
import json
import os
import re
import subprocess
import sys
import textwrap
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from runcast.host import HOST_COMMANDS

ROOT = Path(__file__).parents[2]

#: Runs before anything else in the process: only these distributions can be imported from where packages are installed.
GUARD = """
import sys
from importlib.machinery import PathFinder
class Guard:
    @staticmethod
    def find_spec(name, path=None, target=None):
        spec = PathFinder.find_spec(name, path, target)
        place = str(getattr(spec, "origin", "") or "")
        if path is None and "site-packages" in place and name not in ALLOWED:
            raise ModuleNotFoundError(f"{name} is not installed on this host", name=name)
        return spec
sys.meta_path.insert(0, Guard)
"""


def _packages_of_the_extra() -> set[str]:
    """Names that may be imported: the extra's packages and what they ask for without extras of their own."""
    listed = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    wanted = re.findall(r'"([A-Za-z0-9_-]+)>=', re.search(r"^scheduler = \[(.*)\]$", listed, re.M).group(1))
    assert wanted
    found: set[str] = set()
    while wanted:
        name = wanted.pop()
        if name in found:
            continue
        found.add(name)
        needs = importlib.metadata.requires(name) or []
        wanted += [
            re.match(r"[A-Za-z0-9_.-]+", need).group(0)
            for need in needs
            if "extra ==" not in need and "python_version" not in need
        ]
    return {name.replace("-", "_").lower() for name in found}


def _run(code: str, allowed: set[str]) -> subprocess.CompletedProcess[str]:
    guard = GUARD.replace("ALLOWED", repr(allowed))
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, "-c", guard + textwrap.dedent(code)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def test_extra_asks_for_few_packages() -> None:
    packages = _packages_of_the_extra()
    assert {"numpy", "lightgbm", "uvicorn", "httptools", "uvloop"} <= packages
    assert packages <= {"numpy", "lightgbm", "scipy", "uvicorn", "httptools", "uvloop", "click", "h11", "narwhals"}


def test_guard_keeps_the_pipelines_packages_out() -> None:
    assert "pandas is not installed on this host" in _run("import pandas", _packages_of_the_extra()).stderr


@pytest.mark.parametrize("command", HOST_COMMANDS)
def test_command_of_a_scheduler_host_needs_no_more(command: str) -> None:
    code = f"""
    import sys
    from runcast.__main__ import main
    sys.argv = ["runcast", {command!r}, "--help"]
    main()
    """
    done = _run(code, _packages_of_the_extra())
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"usage: runcast {command}")


def test_other_commands_say_what_to_install() -> None:
    code = """
    import sys
    from runcast.__main__ import main
    sys.argv = ["runcast", "nightly"]
    sys.exit(main())
    """
    done = _run(code, _packages_of_the_extra())
    assert done.returncode == 10
    assert "only these commands work: serve, slurm-score, slurm-feed, kubernetes-webhook" in done.stderr


def test_other_commands_say_it_as_json_too() -> None:
    code = """
    import sys
    from runcast.__main__ import main
    sys.argv = ["runcast", "nightly", "--cluster", "x", "--json"]
    sys.exit(main())
    """
    answer = json.loads(_run(code, _packages_of_the_extra()).stdout)
    assert (answer["kind"], answer["exit_code"]) == ("NotInstalled", 10)


@pytest.mark.parametrize("words", [["--help"], []], ids=["--help", "no words"])
def test_help_of_a_scheduler_host_lists_its_commands(words: list[str]) -> None:
    code = f"""
    import sys
    from runcast.__main__ import main
    sys.argv = ["runcast", *{words!r}]
    sys.exit(main())
    """
    done = _run(code, _packages_of_the_extra())
    assert done.returncode == 0, done.stderr
    assert all(f"  {command} " in done.stdout for command in HOST_COMMANDS)


@pytest.mark.parametrize("kind", ["cart", "gbdt", "runcast", "nearest_median"])
def test_bundle_is_loaded_and_asked_there(kind: str, make_bundle: Callable[..., Path], tmp_path: Path) -> None:
    bundle = make_bundle(tmp_path, kind, created=datetime.now(UTC))
    code = f"""
    import json
    from pathlib import Path
    import runcast.scheduler.serve
    from runcast.scheduler.predictor import Predictor
    predictor = Predictor.load(Path({str(bundle)!r}))
    predictor.ended({{"job_id": "1", "submit_time": 1775000000, "start_time": 1775000001, "end_time": 1775000061, "state": "COMPLETED"}})
    print(json.dumps(predictor.predict({{"submit_time": 1775000100, "user": "u3"}})))
    """
    done = _run(code, _packages_of_the_extra())
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["source"] == kind


def test_predictor_is_found_where_the_pages_say() -> None:
    done = _run("from runcast.scheduler import Predictor; print(Predictor.__module__)", _packages_of_the_extra())
    assert (done.stdout.strip(), done.stderr) == ("runcast.scheduler.predictor", "")


@pytest.mark.parametrize("module", ["client", "kubernetes.webhook", "slurm.feeder", "slurm.scorer"])
def test_what_only_asks_needs_the_standard_library_only(module: str) -> None:
    done = _run(f"import runcast.scheduler.{module}, sys; print('numpy' in sys.modules)", set())
    assert (done.stdout.strip(), done.stderr) == ("False", "")
