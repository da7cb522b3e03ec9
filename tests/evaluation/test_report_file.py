"""A night's report.json as it is read again: whole, or a named error that says what to do."""

import json
from pathlib import Path
from typing import Any

import pytest

from runcast.evaluation.errors import ReportDamaged, ReportMissing
from runcast.evaluation.report_file import read_document

WHOLE: dict[str, Any] = {"jobs": 9, "data": {}, "drift": [], "predictors": {"cart": {}}, "verdicts": {"cart": {}}, "coverage": {}}
AGAIN = "Evaluate the night again: runcast evaluate --cluster venus --date 2026-06-30"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    folder = tmp_path / "venus" / "2026-06-30"
    folder.mkdir(parents=True)
    return folder / "report.json"


def test_a_whole_report_is_read(path: Path) -> None:
    path.write_text(json.dumps({**WHOLE, "more": 1}))
    assert read_document(path) == {**WHOLE, "more": 1}


def test_a_report_that_is_not_there_says_how_to_make_it(path: Path) -> None:
    with pytest.raises(ReportMissing, match=AGAIN):
        read_document(path)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "Expecting value"),
        (json.dumps(WHOLE).encode()[:-20], "is damaged"),
        (b"\xff\xfe\x00", "is damaged"),
        (b"[" * 100_000, "is damaged"),
        (b"[]", "jobs, data, drift, predictors, verdicts, coverage are not"),
        (b"null", "jobs, data"),
        *((json.dumps({**WHOLE, name: wrong}).encode(), rf"damaged: {name} are not") for name in WHOLE for wrong in ("x", None)),
        (json.dumps({**WHOLE, "verdicts": {"cart": "passed"}}).encode(), "damaged: verdicts are not"),
    ],
)
def test_a_damaged_report_is_a_named_error(path: Path, content: bytes, why: str) -> None:
    path.write_bytes(content)
    with pytest.raises(ReportDamaged, match=rf"report\.json is damaged.*{AGAIN}") as told:
        read_document(path)
    assert why in str(told.value)
