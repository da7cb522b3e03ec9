"""The audit says what was looked up; where nothing could be, it says so and fails nothing; what is known and not accepted fails."""

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

FILE = Path(__file__).resolve().parents[2] / "deploy" / "audit.py"
KNOWN = {"id": "PYSEC-2026-1", "aliases": ["CVE-2026-0001"], "fix_versions": ["2.1"]}
CLEAN = {"name": "numpy", "version": "2.4.1", "vulns": []}
BROKEN = {"name": "jinja2", "version": "2.0", "vulns": [KNOWN]}
SKIPPED = {"name": "rich", "skip_reason": "Dependency not found on PyPI and could not be audited: rich (15.0)"}


@pytest.fixture(scope="module")
def audit() -> ModuleType:
    spec = importlib.util.spec_from_file_location("audit", FILE)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("answer", "accepted", "code", "said"),
    [
        ({"error": "no answer within 30 s"}, {}, 0, "audit: lock: NOT CHECKED for known vulnerabilities: no answer within 30 s"),
        ({"dependencies": [SKIPPED]}, {}, 0, f"audit: lock: NOT CHECKED for known vulnerabilities: {SKIPPED['skip_reason']}"),
        ({"dependencies": []}, {}, 0, "audit: lock: NOT CHECKED for known vulnerabilities: it named no package"),
        ({"dependencies": [CLEAN, SKIPPED]}, {}, 0, "audit: lock: 1 of 2 packages looked up, 0 known vulnerabilities"),
        (
            {"dependencies": [CLEAN, BROKEN]}, {}, 1,
            "audit: lock: 2 of 2 packages looked up, 1 known vulnerabilities\n  jinja2 2.0: PYSEC-2026-1, fixed in 2.1",
        ),
        (
            {"dependencies": [BROKEN]}, {"CVE-2026-0001": "not reachable here"}, 0,
            "audit: lock: 1 of 1 packages looked up, 1 known vulnerabilities\n  jinja2 2.0: PYSEC-2026-1, accepted: not reachable here",
        ),
    ],
    ids=["out of reach", "all skipped", "empty", "some skipped", "known", "accepted by an alias"],
)  # fmt: skip
def test_the_verdict(audit: ModuleType, answer: dict[str, Any], accepted: dict[str, str], code: int, said: str) -> None:
    found, lines = audit.judge(answer, accepted, "lock")
    assert (found, "\n".join(lines)) == (code, said)


def test_every_lock_of_the_repository_is_audited(audit: ModuleType) -> None:
    root = FILE.parents[1]
    locks = {path for path in (*root.glob("*.txt"), *(root / "deploy").rglob("*.txt")) if "--hash=sha256:" in path.read_text()}
    assert set(audit.LOCKS) == locks
    assert len(locks) == 4


def test_an_accepted_advisory_needs_its_reason(audit: ModuleType, tmp_path: Path) -> None:
    file = tmp_path / "accepted"
    file.write_text("# why each may stay\nCVE-2026-0001 not reachable here\n\n")
    assert audit.read_accepted(file) == {"CVE-2026-0001": "not reachable here"}
    file.write_text("CVE-2026-0002\n")
    with pytest.raises(SystemExit, match="accepted without a reason"):
        audit.read_accepted(file)


def test_a_lock_that_pip_audit_cannot_read_is_not_called_checked(audit: ModuleType, tmp_path: Path) -> None:
    lock = tmp_path / "lock.txt"
    lock.write_text("numpy>=2\n")  # no pin, no hash
    answer = audit.ask(lock, 60)
    assert "error" in answer
    assert audit.judge(answer, {}, "lock")[1][0].startswith("audit: lock: NOT CHECKED")
