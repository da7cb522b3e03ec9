import json
import re
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from runcast.data.cluster import Cluster
from runcast.evaluation import figures
from runcast.evaluation.captions import CAPTIONS
from runcast.evaluation.document import Judged, judge_replay, make_document, verdicts
from runcast.evaluation.figures import draw_all
from runcast.evaluation.importance import MEANINGS, families
from runcast.evaluation.metrics import BY_NAME
from runcast.evaluation.numbers import format_metric, format_number, percent
from runcast.evaluation.replay import replay, test_rows
from runcast.evaluation.report import in_one_sentence, names_as_code, render_report, to_json, write_atomically
from runcast.features.catalog import NAMES
from runcast.features.table import build
from runcast.training.kinds import PREDICTORS

test_rows.__test__ = False  # a function of the product, not a test

NO_NUMBERS = (None, float("nan"), float("inf"), -float("inf"))
CLUSTER = Cluster.model_validate(
    {
        "name": "made_up",
        "description": "<script>alert(1)</script>",
        "source": {"format": "table", "paths": ["unused"]},
        "time_zone": "UTC",
        "training": {"min_jobs": 300, "gbdt": {"trees": 15, "leaves": 7}},
    }
)
NASTY = (
    "<img src=x onerror=alert(1)>",
    "$\\frac{1}{0}$",
    '=HYPERLINK("http://x")',
    "名前",
    "a" * 300,
    "x\ny",
    "{{ 7 * 7 }}",
    "&amp;",
)


def judged_of(log: pd.DataFrame, kinds: tuple[str, ...] = ("request", "last_two", "nearest_median", "cart", "gbdt")) -> Judged:
    matrix = build(log, "calendar", "UTC")
    done = replay(matrix, test_rows(matrix, 0.2), kinds, CLUSTER.training, "once", UTC)
    return judge_replay(matrix, done, CLUSTER, draws=20)


def page_of(judged: Judged) -> str:
    return render_report(document_of(judged), draw_all(judged, (0.089, 0.108)))


def document_of(judged: Judged) -> dict:
    found = verdicts(judged, CLUSTER, "2024-04-12", "f00", {"cart": "a", "gbdt": "b"}, {})
    return make_document(
        judged, CLUSTER, day="2024-04-12", every="once", fingerprint="f00", feature_version="v", verdicts=found, champions={},
        libraries={"lightgbm": "4"}, command="runcast evaluate",
    )  # fmt: skip


class Page(HTMLParser):
    """Collects tags, attributes and text of a page."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.links: list[str] = []
        self.ids: list[str] = []
        self.alts: list[str] = []
        self.open: list[str] = []
        self.texts: list[str] = []
        self.handlers: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag not in ("meta", "img", "br"):
            self.open.append(tag)
        self.ids += [value or "" for name, value in attrs if name == "id"]
        self.alts += [value or "" for name, value in attrs if name == "alt"]
        self.links += [value or "" for name, value in attrs if name in ("src", "href")]
        self.handlers += [name for name, _ in attrs if name.startswith("on")]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, f"</{tag}> closes something else"

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


@pytest.fixture(scope="module")
def judged(log: pd.DataFrame) -> Judged:
    return judged_of(log)


@pytest.fixture(scope="module")
def html(judged: Judged) -> str:
    return page_of(judged)


def test_page_needs_no_network_and_runs_nothing(html: str) -> None:
    page = Page(html)
    assert "script" not in page.tags
    assert page.handlers == []
    assert len(page.alts) == 6
    assert all(link.startswith(("data:image/svg+xml;base64,", "#")) for link in page.links)
    assert not re.search(r"url\(|@import", html)


def test_page_is_well_formed_and_its_contents_lead_somewhere(html: str) -> None:
    page = Page(html)
    assert page.open == []
    assert len(page.ids) == len(set(page.ids))
    inside = [link.removeprefix("#") for link in page.links if link.startswith("#")]
    assert len(inside) == 10
    assert set(inside) <= set(page.ids)


def test_figures_say_their_numbers_to_those_who_do_not_see_them(judged: Judged, html: str) -> None:
    alts = Page(html).alts
    document = document_of(judged)
    assert f"gbdt {percent(document['predictors']['gbdt']['all']['mdape'])}" in alts[0]
    assert f"Coverage at 8.9 %: nearest_median {percent(document['coverage']['nearest_median']['0.089'])}" in alts[0]
    assert f"history {document['importance']['gbdt']['history']:.2f}×" in alts[3]
    assert all(len(alt) > 60 for alt in alts)


def test_no_predictor_is_told_by_colour_alone() -> None:
    shown = [(figures._DASHES[name], figures._MARKERS[name]) for name in PREDICTORS]
    assert len({str(dash) for dash, _ in shown}) == len({marker for _, marker in shown}) == len(PREDICTORS)


def test_history_counts_and_what_the_model_does_not_read_does_not(judged: Judged) -> None:
    """The made-up runtimes follow user and name alone, which histories know; dates are kept from the GBDT."""
    of_gbdt = judged.importance["gbdt"]
    assert max(of_gbdt, key=lambda family: of_gbdt[family]) == "history"
    assert of_gbdt["history"] > 1.5
    assert "date" not in of_gbdt
    assert of_gbdt["load"] == pytest.approx(1, abs=0.1)


def test_every_feature_has_a_family_with_a_name() -> None:
    found = families(("hour_of_day", "code_user", "last_1_s_by_user", "code_queue", "month"))
    assert {name: columns.tolist() for name, columns in found.items()} == {
        "submission": [0], "names": [1, 3], "history": [2], "date": [4],
    }  # fmt: skip
    assert set(families(NAMES)) <= set(MEANINGS)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("the baseline `request` answers", "the baseline <code>request</code> answers"),
        ("`<b>`", "<code>&lt;b&gt;</code>"),
        ("a ` alone <i>", "a ` alone &lt;i&gt;"),
    ],
)
def test_backticks_set_off_names(text: str, shown: str) -> None:
    assert str(names_as_code(text)) == shown


def test_page_says_what_was_found(judged: Judged, html: str) -> None:
    document, text = document_of(judged), " ".join(" ".join(Page(html).texts).split())
    for kind in ("cart", "gbdt"):
        value = document["predictors"][kind]["all"]["error_factor"]
        assert format_metric(value, BY_NAME["error_factor"]) in text
        assert document["verdicts"][kind]["results"][0]["sentence"] in text
        assert percent(document["coverage"][kind]["0.089"]) in text
    assert "Against Table 2: 8.9 % and 10.8 %" in text
    assert "on what share of the jobs, chosen by the confidence given at submission" in text


def test_page_says_what_each_number_is_for_and_who_is_served_worst(judged: Judged, html: str) -> None:
    document, text = document_of(judged), " ".join(" ".join(Page(html).texts).split())
    for said in ("order a queue", "plan, reserve and backfill", "show to a person", "not for any of them: a sum is ruled by"):
        assert said in text
    for of in ("point_s", "p50_s", "p90_s"):
        assert f"{of[:-2]} {percent(document['totals']['gbdt'][of])}" in text
    assert f"WAPE {percent(document['predictors']['gbdt']['all']['wape'])}" in text
    users = {name for name in document["slices"] if name.startswith("user:")}
    assert len(users) == 5
    model = min(("cart", "gbdt"), key=lambda kind: document["predictors"][kind]["all"]["error_factor"])
    factors = {
        name: document["predictors"][model][name]["error_factor"] for name in document["slices"] if name[:5] in ("user:", "group")
    }
    worst = max((name for name in factors if document["slices"][name]["jobs"] >= 30), key=lambda name: factors[name])
    assert f"is off by most: {worst} , by a factor of {format_metric(factors[worst], BY_NAME['error_factor'])}" in text


@pytest.mark.parametrize("targets", [(), (1e-9,), (0.05, 0.089, 0.108, 1.0)], ids=str)
def test_any_number_of_targets_can_be_reported(log: pd.DataFrame, targets: tuple[float, ...]) -> None:
    cluster = CLUSTER.model_copy(update={"evaluation": CLUSTER.evaluation.model_copy(update={"targets": targets})})
    matrix = build(log, "calendar", "UTC")
    done = replay(matrix, test_rows(matrix, 0.2), ("nearest_median", "cart"), cluster.training, "once", cluster.zone)
    found = judge_replay(matrix, done, cluster, draws=5)
    page = render_report(document_of(found), draw_all(found, targets))
    assert set(found.coverage["cart"]) == {f"{target:g}" for target in targets}
    assert Page(page).open == []


def test_names_from_the_log_are_text_and_never_act(log: pd.DataFrame) -> None:
    nasty = log.assign(group=[NASTY[one % len(NASTY)] for one in range(len(log))])
    found = judged_of(nasty, ("nearest_median", "cart"))
    page = page_of(found)
    parsed = Page(page)
    assert "script" not in parsed.tags
    assert parsed.tags.count("img") == 6
    assert parsed.handlers == []
    text = "".join(parsed.texts)
    shown = [name for name in NASTY if f"group:{name}" in text]
    assert len(shown) == 5  # the largest groups, each as it is written
    assert "49" not in [one.strip() for one in parsed.texts]


def test_description_is_text(html: str) -> None:
    assert "<script>alert(1)</script>" in "".join(Page(html).texts)


def test_figures_are_the_same_bytes_each_time(judged: Judged) -> None:
    one, two = (draw_all(judged, (0.089,)) for _ in range(2))
    assert one == two
    assert all(svg.startswith("<?xml") for svg in one.values())


@pytest.mark.parametrize("kinds", [("request",), ("cart",), ("nearest_median", "gbdt")], ids="+".join)
def test_any_choice_of_predictors_can_be_drawn(log: pd.DataFrame, kinds: tuple[str, ...]) -> None:
    assert page_of(judged_of(log, kinds))


def test_log_of_a_few_equal_jobs_can_be_drawn(make_log: Callable) -> None:
    few = make_log(jobs=40, days=2)
    few = few.assign(runtime_s=np.where(few["runtime_s"].notna(), 60.0, np.nan), group=None)
    assert "could be chance" not in page_of(judged_of(few))  # a week is no evidence: no intervals are given


def test_outcome_in_one_sentence(judged: Judged) -> None:
    document = document_of(judged)
    for name, factor in (("request", 9.0), ("last_two", 4.0), ("nearest_median", 3.0), ("cart", 3.5), ("gbdt", 2.5)):
        document["predictors"][name]["all"] = {**document["predictors"][name]["all"], "error_factor": factor, "mdape": 0.4}
    assert in_one_sentence(document) == (
        "gbdt is off by a factor of 2.50 (geometric mean over all test jobs), less than the best baseline, nearest_median, "
        "with 3.00. Half of its forecasts are within 40.0 % of what the job then took."
    )
    document["predictors"]["gbdt"]["all"]["error_factor"] = 3.0
    document["predictors"]["cart"]["all"]["error_factor"] = 3.5
    assert "no better than the best baseline" in in_one_sentence(document)


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.089, "8.9 %"), (0.0, "0.0 %"), (1.5, "150 %"), (163.4, "16,340 %"), (-0.05, "−5.0 %"), (-0.0001, "0.0 %"), (None, "–")],
)
def test_shares_are_printed_for_people(value: float | None, text: str) -> None:
    assert percent(value) == text


def test_json_is_strict_and_stable(judged: Judged) -> None:
    text = to_json(document_of(judged))
    assert text == to_json(json.loads(text))


def test_what_is_no_finite_number_is_null_in_json_and_a_dash_on_the_page(judged: Judged) -> None:
    odd = {"a": float("nan"), "b": [float("inf"), (1, -float("inf"))], "c": {"d": np.float64("nan")}, "e": 0.5, "f": True}
    assert json.loads(to_json(odd)) == {"a": None, "b": [None, [1, None]], "c": {"d": None}, "e": 0.5, "f": True}
    metric = BY_NAME["error_factor"]
    assert {*map(percent, NO_NUMBERS), *map(format_number, NO_NUMBERS), *(format_metric(one, metric) for one in NO_NUMBERS)} == {
        "–"
    }
    spoilt = {**judged.scores, "gbdt": {rows: dict.fromkeys(one, np.nan) for rows, one in judged.scores["gbdt"].items()}}
    document = document_of(replace(judged, scores=spoilt))
    assert document["predictors"]["gbdt"]["all"]["mdape"] is None
    assert not re.search(r"\bnan\b", render_report(document, dict.fromkeys(CAPTIONS, "")).split("</style>")[1])
    assert "gbdt is off by" not in in_one_sentence(document)


def test_reader_never_sees_half_a_file(tmp_path: Path) -> None:
    path = tmp_path / "new" / "report.json"
    write_atomically(path, "one")
    write_atomically(path, b"two")
    assert path.read_text() == "two"
    assert [one.name for one in path.parent.iterdir()] == ["report.json"]
