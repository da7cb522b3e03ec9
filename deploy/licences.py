"""Writes docs/licences.md: every package of the locks, its versions and its licence.

    python deploy/licences.py [SITE_PACKAGES …]

Names and versions come from the locks, licences from the metadata of what is installed here (and in the folders that are named, for
what only the images hold). What is not installed here, because it belongs to another system or Python, keeps the licence that the
page says.
"""

import re
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import Distribution, distributions
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "licences.md"
#: Where a package is used, by the locks that name it; the first that fits.
LOCKS = {"runcast": "deploy/image/runcast.txt", "tests": "requirements.txt", "tracking server": "deploy/image/mlflow.txt"}
UNKNOWN = "?"
#: Classifiers that mean one licence, in SPDX's words; the others are told in their own ("BSD License" does not say which).
SPDX = {
    "Apache Software License": "Apache-2.0",
    "ISC License (ISCL)": "ISC",
    "MIT License": "MIT",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "Python Software Foundation License": "PSF-2.0",
    "The Unlicense (Unlicense)": "Unlicense",
}
#: Packages whose metadata is silent, by the licence file that they bring.
BY_FILE = {"huey": "MIT", "skops": "MIT"}
LONGEST = 60  # of what a package writes itself


def read_pins(text: str) -> dict[str, list[str]]:
    """Return package -> versions of a lock; more than one where the version depends on Python."""
    found: dict[str, list[str]] = {}
    for name, version in re.findall(r"^([a-z0-9][^=\s\[]*)(?:\[[^\]]*\])?==([^\s;\\]+)", text, re.M):
        found.setdefault(name, []).append(version)
    return found


def licence_of(distribution: Distribution) -> str:
    """Return the licence in the words of the package: its SPDX expression, else its classifiers, else its first line about it."""
    about = distribution.metadata
    if about.get("License-Expression"):
        return str(about["License-Expression"])
    classifiers = [one.rpartition(" :: ")[2] for one in about.get_all("Classifier") or [] if one.startswith("License :: ")]
    named = sorted({SPDX.get(one, one) for one in classifiers if one != "OSI Approved"})
    if named:
        return ", ".join(named)
    lines = str(about.get("License") or "").strip().splitlines()
    return lines[0].strip()[:LONGEST] if lines and lines[0].strip() else BY_FILE.get(str(about["Name"]).lower(), UNKNOWN)


def installed(folders: Sequence[str]) -> dict[str, str]:
    """Return package -> licence of what is installed here and in `folders`."""
    places: Iterable[Distribution] = [*distributions(), *(distributions(path=list(folders)) if folders else ())]
    return {re.sub(r"[-_.]+", "-", one.metadata["Name"]).lower(): licence_of(one) for one in places}


def kept(page: str) -> dict[str, str]:
    """Return package -> licence as the page says now."""
    return dict(re.findall(r"^\| ([^|]+?) \| [^|]* \| ([^|]+?) \|", page, re.M))


def render(locks: Mapping[str, Mapping[str, Sequence[str]]], licences: Mapping[str, str], before: Mapping[str, str]) -> str:
    """Return the page."""
    versions: dict[str, dict[str, None]] = {}
    place: dict[str, str] = {}
    for where, pins in locks.items():
        for name, pinned in pins.items():
            versions.setdefault(name, {}).update(dict.fromkeys(pinned))
            place.setdefault(name, where)
    told = {name: licences.get(name, before.get(name, UNKNOWN)) for name in sorted(versions)}
    counted = sorted(Counter(told.values()).items(), key=lambda one: (-one[1], one[0]))
    lines = [
        "# Licences",
        "",
        "Every package of the locks (`requirements.txt`, `deploy/image/*.txt`), with its licence as its own metadata tells it. Made by",
        "`make licences`; a test holds it against the locks. A package is used by Runcast itself, only by the tests and tools, or only by",
        "the image of the tracking server.",
        "",
        "Nothing here is changed or copied into Runcast's own code. Whoever passes packages on, as in an image, keeps to their licences.",
        "",
        "| package | versions | licence | used by |",
        "|---|---|---|---|",
        *(f"| {name} | {', '.join(versions[name])} | {told[name].replace('|', '/')} | {place[name]} |" for name in told),
        "",
        f"{len(told)} packages. By licence: "
        + "; ".join(f"{licence} {count}" for licence, count in sorted(counted, key=lambda one: (-one[1], one[0])))
        + ".",
    ]
    return "\n".join(lines) + "\n"


def page(folders: Sequence[str] = ()) -> str:
    """Return the page as it should be."""
    locks = {where: read_pins((ROOT / lock).read_text()) for where, lock in LOCKS.items()}
    return render(locks, installed(folders), kept(PAGE.read_text() if PAGE.exists() else ""))


if __name__ == "__main__":
    PAGE.write_text(page(sys.argv[1:]))
