"""The page of licences: current, complete, and without one that Runcast could not be passed on with."""

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
#: Packages with a choice of licences, or of the lesser kind, that were looked at: DECISIONS.md in deploy/ says why each may stay.
LOOKED_AT = {"psycopg", "psycopg-binary", "text-unidecode"}


@pytest.fixture(scope="module")
def licences() -> ModuleType:
    spec = importlib.util.spec_from_file_location("licences", ROOT / "deploy" / "licences.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_current(licences: ModuleType) -> None:
    assert (ROOT / "docs" / "licences.md").read_text() == licences.page(), "run `make licences`"


def test_each_package_has_a_licence_and_the_strict_ones_were_looked_at(licences: ModuleType) -> None:
    told = licences.kept((ROOT / "docs" / "licences.md").read_text())
    assert len(told) > 200
    assert {name for name, licence in told.items() if licence == licences.UNKNOWN} == set()
    assert {
        name for name, licence in told.items() if re.search(r"GPL|EUPL|SSPL|proprietary|commercial", licence, re.I)
    } == LOOKED_AT


def test_versions_are_those_of_the_locks_and_what_is_not_installed_keeps_its_licence(licences: ModuleType) -> None:
    locks = {"runcast": {"scipy": ["1.17.1", "1.18.1"], "pywin32": ["312"]}, "tests": {"scipy": ["1.17.1"], "pytest": ["9.1"]}}
    page = licences.render(locks, {"scipy": "BSD-3-Clause", "pytest": "MIT"}, {"pywin32": "PSF-2.0", "scipy": "old"})
    assert re.findall(r"^\| (?!package|-).*", page, re.M) == [
        "| pytest | 9.1 | MIT | tests |",
        "| pywin32 | 312 | PSF-2.0 | runcast |",
        "| scipy | 1.17.1, 1.18.1 | BSD-3-Clause | runcast |",
    ]
    assert licences.kept(page)["pywin32"] == "PSF-2.0"
