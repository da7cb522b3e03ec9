"""The units, by systemd's own checks: they parse, name what is there, and leave little to a process that goes wrong."""

import configparser
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SYSTEMD = ROOT / "deploy" / "systemd"
SERVICES = sorted(path.name for path in SYSTEMD.glob("*.service"))
EVERY = pytest.mark.parametrize("name", SERVICES)
#: Of 10, by `systemd-analyze security`; 2 and below is "OK" in its words, an ordinary service has 9.6.
EXPOSURE_AT_MOST = 2.0


@pytest.fixture(scope="module")
def systemd_analyze() -> str:
    found = shutil.which("systemd-analyze")
    if found is None:
        pytest.skip("no systemd-analyze here (Debian: apt-get install systemd)")
    return found


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """The units as installed, with the programs of /opt/runcast stood in for."""
    for path in SYSTEMD.iterdir():
        (tmp_path / path.name).write_text(path.read_text().replace("/opt/runcast", str(tmp_path / "opt")))
    for program in re.findall(r"^ExecStart=(\S+)", "".join((tmp_path / name).read_text() for name in SERVICES), re.M):
        Path(program).parent.mkdir(parents=True, exist_ok=True)
        Path(program).symlink_to("/bin/true") if not Path(program).exists() else None
    return tmp_path


@EVERY
def test_systemd_finds_nothing_to_say_against_a_unit(systemd_analyze: str, installed: Path, name: str) -> None:
    done = subprocess.run([systemd_analyze, "verify", installed / name], check=False, capture_output=True, text=True)
    ours = [line for line in done.stderr.splitlines() if "runcast" in line]
    assert ours == []


@EVERY
def test_a_unit_leaves_little_to_a_process_that_goes_wrong(systemd_analyze: str, installed: Path, name: str) -> None:
    command = [systemd_analyze, "security", "--offline=yes", "--no-pager", installed / name]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    exposure = re.search(r"exposure level for \S+: ([\d.]+)", done.stdout)
    assert exposure, done.stdout + done.stderr
    assert float(exposure[1]) <= EXPOSURE_AT_MOST, done.stdout


def parsed(name: str) -> configparser.ConfigParser:
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read(SYSTEMD / name)
    return unit


@EVERY
def test_each_unit_is_hardened_and_bounded(name: str) -> None:
    service = parsed(name)["Service"]
    account = "runcast-serve" if name == "runcast-serve@.service" else "runcast"
    assert (service["User"], service["Group"]) == (account, account)
    assert service["UMask"] == "0027"
    assert service["NoNewPrivileges"] == "yes"
    assert service["ProtectSystem"] == "strict"
    assert service["StateDirectory"].partition("/")[0] == account
    assert service["StateDirectoryMode"] == "0750"
    assert service["CapabilityBoundingSet"] == ""
    assert "MemoryMax" in service


def test_the_answers_read_their_clusters_bundles_and_nothing_else_of_the_nights() -> None:
    service = parsed("runcast-serve@.service")["Service"]
    assert service["TemporaryFileSystem"] == "/var/lib/runcast:ro"
    assert service["BindReadOnlyPaths"] == "/var/lib/runcast/bundles/%i"
    assert not {"ReadWritePaths", "BindPaths", "SupplementaryGroups"} & set(service)
    journal = service["ExecStart"].split("--journal ")[1]
    assert journal == f"/var/lib/{service['StateDirectory']}/events.journal"
    guide = (ROOT / "deploy" / "README.md").read_text()
    assert "install -d -o runcast -g runcast-serve -m 2750 /var/lib/runcast/bundles " in guide


@EVERY
def test_no_unit_holds_a_secret(name: str) -> None:
    text = (SYSTEMD / name).read_text() + (SYSTEMD / "airflow.env").read_text()
    for key, value in re.findall(r"(AIRFLOW__\w*(?:SECRET|FERNET)\w*)=([^\"\n]*)", text):
        assert key.endswith("_CMD"), key
        assert re.fullmatch(r"cat %d/\w+", value), key
    given, read = set(re.findall(r"^LoadCredential=(\w+):", text, re.M)), set(re.findall(r"%d/(\w+)", text))
    assert given == read
    assert not re.search(r"://[^/@]*:[^/@]*@", text)


def test_the_target_wants_every_part_of_the_nights() -> None:
    parts = {name for name in SERVICES if name != "runcast-serve@.service"}
    assert {name for name in parts if parsed(name)["Install"]["WantedBy"] != "runcast.target"} == set()
    assert {name for name in parts if parsed(name)["Unit"]["PartOf"] != "runcast.target"} == set()


def test_what_the_units_name_below_the_source_folder_is_there() -> None:
    text = "".join(path.read_text() for path in SYSTEMD.iterdir())
    named = set(re.findall(r"/opt/runcast/src/(\S+)", text))
    assert "dags" in named
    assert {name for name in named if not (ROOT / name).exists()} == set()
