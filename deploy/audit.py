"""Known vulnerabilities of what the lock pins, by pip-audit; part of `make lint`.

    python deploy/audit.py [LOCK …]      (default: requirements.txt, those of the images and of the set-up)

Nothing is resolved or installed: the lock is read as it is. Where pip-audit's data cannot be reached nothing is checked; that is said, and
is no failure. pip-audit itself calls a package that it could not look up "skipped" and then finds no vulnerabilities, so what was
looked up is counted here. A vulnerability fails, unless its id stands in audit-accepted.txt beside this file with the reason.
"""

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
ACCEPTED = Path(__file__).with_name("audit-accepted.txt")
LOCKS = (ROOT / "requirements.txt", *sorted((ROOT / "deploy" / "image").glob("*.txt")), ROOT / "deploy" / "setup.txt")
ONE_S, ALL_S = 30, 600  # at most, for one package and for all


def main(locks: Sequence[Path]) -> int:
    """Audit each lock and say what came of it; returns 1 where a vulnerability is known that nobody accepted."""
    worst = 0
    for lock in locks:
        code, lines = judge(audit(lock), read_accepted(ACCEPTED), lock.name)
        print("\n".join(lines))
        worst = max(worst, code)
    return worst


def audit(lock: Path) -> Mapping[str, Any]:
    """Return pip-audit's JSON for a lock, or {"error": why there is none}; the first package alone is asked for first."""
    text = lock.read_text()
    first = re.split(r"\n(?=[a-z0-9])", text, maxsplit=1)[0]
    with tempfile.TemporaryDirectory() as folder:
        one = Path(folder) / lock.name
        one.write_text(first + "\n")
        probe = ask(one, ONE_S)
    return ask(lock, ALL_S) if looked_up(probe) else probe


def ask(lock: Path, timeout_s: int) -> Mapping[str, Any]:
    """Run pip-audit on one file."""
    options = ["--disable-pip", "--require-hashes", "--format", "json", "--progress-spinner", "off", "--timeout", "5"]
    command = [sys.executable, "-m", "pip_audit", "--requirement", str(lock), *options]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=False)
    except subprocess.TimeoutExpired:
        return {"error": f"no answer within {timeout_s} s"}
    try:
        answer: Mapping[str, Any] = json.loads(done.stdout)
    except ValueError:
        lines = done.stderr.strip().splitlines() or ["no answer"]
        return {"error": lines[-1][:200]}
    return answer


def looked_up(answer: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the packages that were found in the data."""
    return [one for one in answer.get("dependencies", []) if "skip_reason" not in one]


def judge(answer: Mapping[str, Any], accepted: Mapping[str, str], name: str) -> tuple[int, list[str]]:
    """Return the exit code and what to say."""
    checked, asked = looked_up(answer), answer.get("dependencies", [])
    if not checked:
        why = answer.get("error") or (asked[0]["skip_reason"] if asked else "it named no package")
        return 0, [f"audit: {name}: NOT CHECKED for known vulnerabilities: {why}"]
    found = [(package, known) for package in checked for known in package["vulns"]]
    lines = [f"audit: {name}: {len(checked)} of {len(asked)} packages looked up, {len(found)} known vulnerabilities"]
    bad = 0
    for package, known in found:
        reason = next((accepted[one] for one in (known["id"], *known.get("aliases", [])) if one in accepted), None)
        bad += reason is None
        fixed = ", ".join(known.get("fix_versions", [])) or "nowhere yet"
        about = f"accepted: {reason}" if reason else f"fixed in {fixed}"
        lines.append(f"  {package['name']} {package['version']}: {known['id']}, {about}")
    return int(bad > 0), lines


def read_accepted(path: Path) -> dict[str, str]:
    """Return id -> reason of each line `ID reason`; a line without a reason is refused."""
    found = {}
    for line in path.read_text().splitlines() if path.exists() else []:
        if line.strip() and not line.startswith("#"):
            identifier, _, reason = line.strip().partition(" ")
            if not reason.strip():
                raise SystemExit(f"{path}: {identifier} is accepted without a reason; write `{identifier} why`")
            found[identifier] = reason.strip()
    return found


if __name__ == "__main__":
    sys.exit(main([Path(name) for name in sys.argv[1:]] or LOCKS))
