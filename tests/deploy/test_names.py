"""What deploy/ names exists: Airflow's settings and commands, Runcast's commands and options, and the paths of the guide."""

import json
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.main import get_command

from runcast.cli import app
from runcast.scheduler.serve import parser as serve_parser

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
TEXTS = {
    str(path.relative_to(ROOT)): path.read_text()
    for path in (
        *DEPLOY.rglob("*"),
        DEPLOY / "compose" / ".env.example",
        ROOT / "dags" / "environment.py",
        ROOT / "dags" / "local_ui.py",
    )
    if path.is_file() and path.suffix != ".txt"
}
GUIDE = TEXTS["deploy/README.md"]


@pytest.fixture(scope="module")
def airflow_settings() -> dict[tuple[str, str], dict[str, Any]]:
    """(section, option) -> description, of the installed Airflow; read as a file, since importing airflow makes a home."""
    (folder,) = find_spec("airflow").submodule_search_locations  # type: ignore[union-attr,misc]
    described = yaml.safe_load((Path(folder) / "config_templates" / "config.yml").read_text())
    return {(section, name): about for section, one in described.items() for name, about in one["options"].items()}


def test_each_airflow_setting_exists_and_those_read_by_a_command_may_be(
    airflow_settings: dict[tuple[str, str], dict[str, Any]],
) -> None:
    used = {
        (section.lower(), option.lower())
        for text in TEXTS.values()
        for section, option in re.findall(r"AIRFLOW__([A-Z_]+?)__([A-Z0-9_]+)(?!\w|: false)", text)  # false: the chart's switches
    }
    assert len(used) > 15
    unknown = set()
    for section, option in used:
        plain = option.removesuffix("_cmd")
        if (section, plain) not in airflow_settings:
            unknown.add((section, option))
        elif plain != option:
            assert airflow_settings[section, plain]["sensitive"], f"{section}.{plain} cannot be read by a command"
    assert unknown == set()


def airflow_commands() -> list[list[str]]:
    """Every `airflow …` that a unit, a container, a health check or the guide runs."""
    found = [words.split() for words in re.findall(r"^ExecStart=\S+/airflow (.+)$", "".join(TEXTS.values()), re.M)]
    services = yaml.safe_load(TEXTS["deploy/compose/compose.yaml"])["services"].values()
    for command in [one.get("command", []) for one in services] + [
        one.get("healthcheck", {}).get("test", []) for one in services
    ]:
        words = command[1:] if command[:1] == ["CMD"] else command
        if words[:1] == ["airflow"]:
            found.append(words[1:])
    found += [words.split() for words in re.findall(r"\bairflow ((?:db|jobs|dags|version)\b[\w -]*)", GUIDE)]
    return found


def test_each_airflow_command_and_option_exists(tmp_path: Path) -> None:
    script = (
        "import json, sys\nfrom airflow.cli import cli_parser\nparser = cli_parser.get_parser()\n"
        "for words in json.load(sys.stdin): parser.parse_args(words)\n"
    )
    commands = airflow_commands()
    assert len(commands) > 8
    environment = {"PATH": "/usr/bin:/bin", "AIRFLOW_HOME": str(tmp_path), "AIRFLOW__CORE__LOAD_EXAMPLES": "False"}
    done = subprocess.run(
        [sys.executable, "-c", script], input=json.dumps(commands), env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]


def runcast_commands() -> list[list[str]]:
    """Every `runcast …` that a unit, a container or the guide runs."""
    found = re.findall(r"(?:bin/|exec airflow-scheduler )runcast ([a-z][^\n#|&`]*)", "\n".join(TEXTS.values()))
    listed = re.findall(r"\[runcast, ([^\]]+)\]", TEXTS["deploy/compose/compose.yaml"])
    return [words.split() for words in found] + [[word.strip(' "') for word in words.split(",")] for words in listed]


def test_each_runcast_command_and_option_exists() -> None:
    known: dict[str, Any] = get_command(app).commands  # type: ignore[attr-defined]
    commands = runcast_commands()
    assert {words[0] for words in commands} >= {"serve", "nightly", "status", "clusters"}
    for words in commands:
        assert words[0] in known, words
        options = {word for word in words if word.startswith("--")}
        if words[0] == "serve":
            assert options <= set(serve_parser()._option_string_actions), words
        else:
            command = known[words[0]]
            command = command.commands[words[1]] if hasattr(command, "commands") else command
            assert options <= {name for one in command.params for name in one.opts}, words


def test_what_the_guide_refers_to_is_there() -> None:
    links = {link for link in re.findall(r"\]\(([^)#]+)\)", GUIDE) if "://" not in link}
    links |= set(re.findall(r"`(deploy/[\w./@-]+)`", GUIDE))
    places = {link: (ROOT / link if link.startswith("deploy/") else DEPLOY / link) for link in links}
    assert links
    assert {link for link, place in places.items() if not place.exists()} == set()


@pytest.mark.parametrize(
    "script", sorted(str(path.relative_to(ROOT)) for path in (*DEPLOY.rglob("*.sh"), ROOT / "mlflow/server/start.sh"))
)
def test_each_script_is_a_script_of_the_plain_shell(script: str) -> None:
    assert subprocess.run(["sh", "-n", ROOT / script], check=False).returncode == 0
    assert (ROOT / script).read_text().startswith("#!/bin/sh\n")
    assert (ROOT / script).stat().st_mode & 0o111
