"""Names that would act, and names that must not be seen: two whole small nights, every page and every byte that they leave.

One log, whose users, groups, accounts, queues, jobs and states are markup, scripts, formulas, links and terminal escapes. One night
reads it as it is: nothing acts. The other reads it with `pseudonymise`: nothing clear is left anywhere below RUNCAST_HOME.
"""

import base64
import io
import sqlite3
import zipfile
from dataclasses import dataclass
from datetime import UTC, datetime
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import numpy as np
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from runcast.cli import app
from runcast.data.lake import Lake

pytestmark = pytest.mark.attack

DAY = "2026-01-16"
START = datetime(2026, 1, 1, tzinfo=UTC).timestamp()
HEADER = "JobID|User|Group|Account|Partition|Submit|Start|End|Elapsed|State|ReqCPUS|Timelimit|WorkDir|JobName"
USERS = ("wystan<script>owned()</script>", "zsuzsa'onmouseover=owned()//", "querida")
GROUP = "xylogroup{{owned}}[x](javascript:owned())"
ACCOUNT = '=HYPERLINK("http://owned.example/xyloaccount")'
QUEUE = 'gpu"><img src=x onerror=owned()>'
NAMES = ("\x1b]0;owned\x07verysecret_1", "@SUM(owned)verysecret_2", "+cmd'/C owned'!A0")
FOLDER = "/home/wystan/`owned`<b>private</b>"
#: Parts of each that stand for all of it: what a search for leaks looks for.
CLEAR = ("wystan", "zsuzsa", "querida", "xylogroup", "xyloaccount", "verysecret", "cmd'/C", "private")


def write_log(path: Path, jobs: int = 1500) -> None:
    """Write two weeks of jobs, the last of them still running, some that cannot be read."""
    draw = np.random.default_rng(3)
    lines = [HEADER]
    for number in range(jobs):
        user, name = int(draw.integers(0, 3)), int(draw.integers(0, 3))
        submit = START + number * 900
        run_s = (600, 3000, 120)[user] * (name + 1)
        start, end = (datetime.fromtimestamp(s, UTC).strftime("%Y-%m-%dT%H:%M:%S") for s in (submit + 5, submit + 5 + run_s))
        state = "<svg onload=owned()>" if number % 97 == 0 else ("COMPLETED", "FAILED")[number % 9 == 0]
        submitted = (
            f"not a time of {USERS[user]}"
            if number % 151 == 0
            else datetime.fromtimestamp(submit, UTC).strftime("%Y-%m-%dT%H:%M:%S")
        )
        fields = (
            number + 1,
            USERS[user],
            GROUP,
            ACCOUNT,
            QUEUE,
            submitted,
            start,
            end,
            "",
            state,
            4,
            "02:00:00",
            FOLDER,
            NAMES[name],
        )
        lines.append("|".join(map(str, fields)))
    path.write_text("\n".join(lines) + "\n")


@dataclass(frozen=True)
class Night:
    """What a whole night left: the home, and all that the commands said."""

    home: Path
    said: str


def run_night(folder: Path, more: str) -> Night:
    write_log(folder / "log.txt")
    (folder / "clusters").mkdir()
    (folder / "clusters" / "hpc.yaml").write_text(
        f"source: {{format: slurm_sacct, paths: ['{folder}/log.txt']}}\ntime_zone: UTC\n{more}"
        "training: {min_jobs: 200, gbdt: {trees: 40}, runcast: {trees: 40}}\nevaluation: {min_test_jobs: 50}\n"
    )
    said = ""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RUNCAST_HOME", str(folder / "home"))
        patch.setenv("RUNCAST_CLUSTERS", str(folder / "clusters"))
        patch.delenv("MLFLOW_TRACKING_URI", raising=False)
        for words in (
            ["nightly", "--cluster", "hpc", "--date", DAY], ["status"], ["rejects", "--cluster", "hpc", "--limit", "0"],
            ["rejects", "replay", "--cluster", "hpc"], ["quality", "--cluster", "hpc", "--date", DAY],
            ["clusters", "check", "hpc"],
        ):  # fmt: skip
            done = CliRunner().invoke(app, words, catch_exceptions=False)
            assert done.exit_code == 0, done.output
            said += done.output
    return Night(folder / "home", said)


@pytest.fixture(scope="module")
def clear(tmp_path_factory: pytest.TempPathFactory) -> Night:
    return run_night(tmp_path_factory.mktemp("clear"), "")


@pytest.fixture(scope="module")
def hidden(tmp_path_factory: pytest.TempPathFactory) -> Night:
    folder = tmp_path_factory.mktemp("hidden")
    key = folder / "names.key"
    key.write_text("a secret of thirty-two characters")
    key.chmod(0o600)
    columns = "[user, group, account, queue, job_name, work_dir]"
    return run_night(folder, f"pseudonymise: {{key_file: '{key}', columns: {columns}}}\n")


class Page(HTMLParser):
    """What a browser would act on: scripts, styles, and attributes by element."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.acting: list[str] = []
        self.tags: set[str] = set()
        self.pictures: list[str] = []
        self._inside = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self._inside = tag
        for name, value in attributes:
            if name == "src" and (value or "").startswith("data:image/svg+xml;base64,"):
                self.pictures.append(base64.b64decode((value or "").partition(",")[2]).decode())
            elif name in ("src", "href", "action", "style", "srcdoc") or name.startswith("on"):
                self.acting.append(f"{name}={unquote(value or '')}")

    def handle_endtag(self, tag: str) -> None:
        self._inside = ""

    def handle_data(self, data: str) -> None:
        if self._inside in ("script", "style"):
            self.acting.append(data)


def pages(home: Path) -> dict[str, str]:
    return {str(path.relative_to(home)): path.read_text() for path in home.rglob("*.html")}


def test_night_leaves_the_pages_it_should(clear: Night) -> None:
    found = pages(clear.home)
    assert f"report/hpc/{DAY}/report.html" in found
    assert any(name.startswith("quality/hpc/docs/") for name in found)


def test_nothing_in_a_page_acts(clear: Night) -> None:
    for name, text in pages(clear.home).items():
        page = Page(text)
        pictures = [Page(picture) for picture in page.pictures]
        for one in (page, *pictures):
            assert not [part for part in one.acting if "owned" in part], name
        assert all("script" not in picture.tags and "img" not in picture.tags for picture in pictures), name
        if name.startswith("report/"):  # Great Expectations' pages have scripts of their own
            assert "script" not in page.tags, name


def test_names_are_shown_as_they_are_where_they_are_shown(clear: Night) -> None:
    """The group has a row of its own: escaped, not left out."""
    text = pages(clear.home)[f"report/hpc/{DAY}/report.html"]
    assert "{{owned}}[x](javascript:owned())" in text


def test_mlflow_shows_text(clear: Night) -> None:
    """Cards are Markdown, which MLflow draws: no tag, no link; runs are found by plain names."""
    with sqlite3.connect(clear.home / "mlflow.db") as database:
        dump = "\n".join(database.iterdump())
    assert "runcast-hpc-" in dump
    for acting in ("<script>", "<img", "<svg", "](javascript:", "\x1b"):
        assert acting not in dump


def test_there_is_no_table_that_a_spreadsheet_would_run(clear: Night) -> None:
    assert not list(clear.home.rglob("*.csv"))
    assert not list(clear.home.rglob("*.xls*"))


def test_terminal_is_told_nothing_it_acts_on(clear: Night) -> None:
    assert "owned" in clear.said  # the refused records are shown
    assert all(c.isprintable() or c == "\n" for c in clear.said)


def contents(path: Path) -> str:
    """All text that a file holds, whatever it is packed in."""
    data = path.read_bytes()
    found = data.decode("utf-8", "replace")
    if path.suffix == ".parquet":
        table = pq.read_table(path)
        found += "\n".join(map(repr, table.to_pylist())) + repr(table.schema.metadata)
    elif zipfile.is_zipfile(io.BytesIO(data)):
        with zipfile.ZipFile(io.BytesIO(data)) as packed:
            found += "\n".join(name + packed.read(name).decode("utf-8", "replace") for name in packed.namelist())
            found += "\n".join(packed.read(name).decode("utf-32", "replace") for name in packed.namelist())
    elif data.startswith(b"SQLite format 3"):
        with sqlite3.connect(path) as database:
            found += "\n".join(database.iterdump())
    elif path.suffix == ".html":
        found += "\n".join(Page(data.decode()).pictures)
    return found


def leaks(home: Path) -> list[str]:
    files = [path for path in home.rglob("*") if path.is_file()]
    assert len(files) > 60
    return [
        f"{path.relative_to(home)}: {word}"
        for path in files
        for text in [contents(path) + path.name]
        for word in CLEAR
        if word in text
    ]


def test_no_clear_name_is_left_anywhere(hidden: Night) -> None:
    assert leaks(hidden.home) == []
    assert not [word for word in CLEAR if word in hidden.said]


def test_the_search_finds_what_is_there(clear: Night) -> None:
    """The same search of the clear night finds names in the lake, the models, the bundle and the report."""
    found = {leak.split("/")[0] for leak in leaks(clear.home)}
    assert {"lake", "models", "bundles", "report"} <= found


def test_both_nights_learned_the_same(clear: Night, hidden: Night) -> None:
    """Equal names stay equal: not one number of the features differs."""
    one, other = (Lake(night.home / "lake").read_features("hpc").to_pandas() for night in (clear, hidden))
    numbers = [name for name in one.columns if one[name].dtype.kind == "f"]
    assert len(numbers) > 100
    assert one[numbers].equals(other[numbers])
    users = {night: set(Lake(night.home / "lake").read_jobs("hpc")["user"].to_pylist()) for night in (clear, hidden)}
    assert users[clear] == set(USERS)
    assert len(users[hidden]) == len(USERS)


def test_refused_records_are_withheld(clear: Night, hidden: Night) -> None:
    shown, withheld = (Lake(night.home / "lake").read_rejects("hpc").to_pylist() for night in (clear, hidden))
    assert [(r["line"], r["reason"]) for r in shown] == [(r["line"], r["reason"]) for r in withheld]
    assert len(shown) == 10  # of 1,500 jobs every 151st
    assert all(r["raw"].startswith("(withheld: ") for r in withheld)
