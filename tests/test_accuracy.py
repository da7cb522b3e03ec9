"""The page of measured errors, from replays written by hand."""

import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from runcast.accuracy import accuracy_page, write_page
from runcast.data.lake import Lake
from runcast.data.schema import JOBS
from runcast.evaluation.studies.kept import Replays


def document(cluster, ends=(None, None), **figures):
    interval = {"low": ends[0], "high": ends[1], "weeks": 5}
    return {
        "cluster": cluster,
        "jobs": 10,
        "predictors": {
            name: {"all": {"mdape": m, "within_25": w, "error_factor": f, "p90_coverage": 0.9}}
            for name, (m, w, f, _) in figures.items()
        },
        "coverage": {name: {"0.089": c} for name, (*_, c) in figures.items()},
        "intervals": {
            "against": {"runcast": dict.fromkeys(("mdape", "within_25", "error_factor"), interval)} if "runcast" in figures else {},
            "best_baseline": dict.fromkeys(("mdape", "within_25", "error_factor"), "request"),
            "draws": 200,
        },
        "data": {
            "jobs": 50, "fingerprint": "0123456789abcdef", "feature_version": "fedcba",
            "test_first_submit": "2024-01-01T00:00:00Z", "test_last_submit": "2024-02-01T00:00:00Z",
        },
        "seeds": {"training": 7, "bootstrap": 7},
        "command": f"runcast replay --cluster {cluster}",
    }  # fmt: skip


def lines_of(page, start):
    return [line for line in page.splitlines() if line.startswith(start)]


def test_the_best_of_each_column_is_bold_and_a_coverage_of_nothing_is_not():
    page = accuracy_page([document("a", request=(0.9, 0.1, 4.0, 0.0), gbdt=(0.5, 0.1, 3.0, 0.0))], {})
    assert lines_of(page, "| a | 10 |") + lines_of(page, "|  |  | gbdt |") == [
        "| a | 10 | request | 0.900 | **0.100** | 4.000 | 0.000 | 0.900 |",
        "|  |  | gbdt | **0.500** | **0.100** | **3.000** | 0.000 | 0.900 |",
    ]


def test_logs_stand_in_the_order_given():
    page = accuracy_page([document(name, request=(0.9, 0.1, 4.0, None)) for name in ("b", "a")], {})
    assert page.index("| b |") < page.index("| a |")


def test_a_missed_aim_is_bold():
    # kth: at most 0.17, at least 0.55, at most 2.90, at least 0.50
    page = accuracy_page([document("kth", runcast=(0.17, 0.54, 2.9, 0.6), request=(1, 0.1, 4, 0))], {})
    assert "| kth | 0.170 / 0.17 | **0.540 / 0.55** | 2.900 / 2.9 | 0.600 / 0.5 |" in page


@pytest.mark.parametrize(
    ("ends", "mdape", "hits"),
    [
        ((-0.5, -0.3), "**-0.400 (-0.500 to -0.300)** request", "*+0.300 (-0.500 to -0.300)* request"),
        ((-0.5, 0.1), "-0.400 (-0.500 to +0.100) request", "+0.300 (-0.500 to +0.100) request"),
        ((None, None), "-0.400 request", "+0.300 request"),
    ],
    ids=["one side", "both sides", "one week"],
)
def test_a_difference_is_bold_for_ours_and_slanted_against(ends, mdape, hits):
    found = document("a", ends, request=(0.9, 0.1, 4.0, 0.0), gbdt=(0.6, 0.3, 2.5, 0.0), runcast=(0.5, 0.4, 2.0, 0.0))
    assert f"| a | 5 | {mdape} | {hits} | " in accuracy_page([found], {})
    assert "| 0.80 |" in accuracy_page([found], {})  # 2.0 over gbdt's 2.5


def test_the_page_says_what_it_was_measured_with():
    page = accuracy_page([document("a", request=(0.9, 0.1, 4.0, 0.0))], {})
    assert (
        "| a | 50 | 2024-01-01 to 2024-02-01 | `0123456789ab` | `fedcba` | 7, bootstrap 7 (200 draws) | `runcast replay --cluster a` |"
    ) in page


def lake_of_limits(root):
    """The jobs a:0 to a:359, of which a third each have a limit of 50 s that kills, one of 50 s that does not, and none."""
    blank = dict.fromkeys(JOBS.names) | {"cluster": "a", "state": "COMPLETED", "label": "event", "attempts": 1, "flags": []}
    times = {"submit_time": 0, "start_time": 0, "end_time": 100_000_000, "runtime_s": 100.0, "source": "a:1"}
    limits = [
        {"time_limit_s": 50.0, "time_limit_kind": "hard"},
        {"time_limit_s": 50.0, "time_limit_kind": "estimate"},
        {"time_limit_kind": "hard"},
    ]
    jobs = [blank | times | limits[at // 120] | {"job_id": str(at), "job_key": f"a:{at}"} for at in range(360)]
    lake = Lake(root)
    lake.write_ended("a", "1970-01-01", pa.Table.from_pylist(jobs, schema=JOBS))
    return lake


def test_page_and_figures_come_from_what_replays_left(tmp_path):
    replays, rng = Replays(tmp_path / "var"), np.random.default_rng(1)
    jobs, names = 1200, ("nearest_median", "gbdt", "runcast")
    found = document("a", **dict.fromkeys(("request", *names), (0.5, 0.4, 2.0, 0.1))) | {"jobs": jobs}
    replays.document("a").parent.mkdir()
    replays.document("a").write_text(json.dumps(found))
    submit = pd.Timestamp("2024-01-01", tz="UTC") + pd.to_timedelta(np.sort(rng.uniform(0, 30, jobs)), unit="D")
    told = pd.concat(
        pd.DataFrame(
            {
                "cluster": "a", "job_key": [f"a:{one}" for one in range(jobs)],
                "submit_time": submit, "predictor": name, "runtime_s": 100.0, "p50_s": 100.0, "p90_s": 200.0,
                "point_s": np.where(rng.random(jobs) < 0.5, 100.0, 300.0), "confidence": rng.random(jobs).round(1),
            }
        )
        for name in names
    )  # fmt: skip
    told.to_parquet(replays.predictions("a"))
    write_page(tmp_path / "accuracy.md", ["a"], replays, lake_of_limits(tmp_path / "lake"))
    page = (tmp_path / "accuracy.md").read_text()
    row = next(line for line in page.splitlines() if line.startswith("| a | 0.5"))
    assert row.split(" | ")[4:7] == ["1.000", "0 of 4", "1.000"]  # p90 covers all: too much in each full week
    assert row.endswith("| 2.00 | 0.100 | 1.000 |")
    for name in ("risk_coverage", "calibration", "p90_by_week"):
        assert f"figures/{name}.svg" in page
        assert (tmp_path / "figures" / f"{name}.svg").read_text().startswith("<?xml")
