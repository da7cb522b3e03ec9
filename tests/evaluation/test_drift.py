"""Drift: hand-made distributions, a naive count beside every distance, laws, and changes that must be found, and found once."""

import json
from collections import Counter
from dataclasses import replace
from math import inf, log2, nan, sqrt

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runcast.data.cluster import Drift
from runcast.evaluation.drift import DAY_US, Errors, Series, bin_category, bin_numbers, findings, judge, watch
from runcast.features.matrix import OPEN_US, Categories, Ended, Matrix

RULE = Drift()
CUT = 400 * DAY_US


def a_matrix(days: int = 250, a_day: int = 40, seed: int = 5) -> Matrix:
    """Jobs of the same mix every day, submitted evenly up to the cut, each over within the hour; users by code."""
    draw = np.random.default_rng(seed)
    count = days * a_day
    submit_us = CUT - 1 - (np.arange(count) * DAY_US // a_day)[::-1]
    runtime_s = np.exp(draw.normal(6, 1, count))
    end_us = np.minimum(submit_us + DAY_US // 24, CUT - 1)
    columns = {
        "cpu_count": draw.choice([1, 2, 4, 8], count),
        "time_limit_s": draw.choice([3600, 7200, 86_400], count),
        "nearest_median_s": runtime_s * np.exp(draw.normal(0, 0.5, count)),
        "hour_of_day": draw.uniform(0, 24, count),
    }
    users = Categories(draw.integers(0, 30, count).astype(np.int32), tuple(f"secret{one}" for one in range(30)))
    ended = Ended(submit_us, end_us, runtime_s, np.full(count, "event", object), np.full(count, "COMPLETED", object))
    values = np.column_stack(list(columns.values())).astype(np.float32)
    return Matrix(tuple(columns), values, {"user": users}, np.arange(count).astype(object), submit_us, ended)


def errors_of(matrix: Matrix) -> dict[str, Errors]:
    done = matrix.ended.end_us < OPEN_US
    predicted_s = matrix.column("nearest_median_s")[done].astype(float)
    return {"nearest_median": Errors(matrix.ended.end_us[done], matrix.ended.runtime_s[done], predicted_s)}


def drifting(matrix: Matrix, cut_us: int = CUT, rule: Drift = RULE) -> dict[str, bool]:
    """What drifted, and whether that is new."""
    found = findings(matrix, cut_us, errors_of(matrix), rule, None)
    return {one.name: one.is_new for one in found if one.is_drift}


def changed(matrix: Matrix, last_days: int, **columns: float) -> Matrix:
    """The same jobs, with some columns set for those of the last days."""
    values = matrix.values.copy()
    for name, value in columns.items():
        values[matrix.submit_us >= CUT - last_days * DAY_US, matrix.names.index(name)] = value
    return replace(matrix, values=values)


def test_the_same_mix_every_day_does_not_drift() -> None:
    assert drifting(a_matrix()) == {}


def test_requests_runtimes_categories_and_errors_are_watched_the_clock_is_not() -> None:
    found = findings(a_matrix(), CUT, errors_of(a_matrix()), RULE, None)
    assert sorted((one.kind, one.name) for one in found) == [
        ("category", "user"),
        ("error", "nearest_median"),
        ("feature", "cpu_count"),
        ("feature", "nearest_median_s"),
        ("feature", "time_limit_s"),
        ("runtime", "runtime_s"),
    ]


@pytest.mark.parametrize(
    ("last_days", "told"),
    [
        (0, {}),
        (2, {}),  # two days in seven of something new: sqrt((2/7 + 5/7 log2(5/6) + log2(7/6)) / 2) = 0.40
        (3, {"time_limit_s": True}),  # sqrt((3/7 + 4/7 log2(8/11) + log2(14/11)) / 2) = 0.51, above 0.45
        (4, {"time_limit_s": False}),
        (7, {"time_limit_s": False}),
        (14, {}),  # the week before was as new as this one
        (300, {}),
    ],
)
def test_a_change_of_all_limits_is_found_within_the_week_told_once_and_then_usual(last_days: int, told: dict[str, bool]) -> None:
    assert drifting(changed(a_matrix(), last_days, time_limit_s=600_000)) == told


def test_runtimes_that_forecasts_do_not_know_of_are_drift_of_both() -> None:
    matrix = a_matrix()
    runtime_s = matrix.ended.runtime_s * np.where(matrix.submit_us >= CUT - 7 * DAY_US, 20, 1)
    matrix = replace(matrix, ended=replace(matrix.ended, runtime_s=runtime_s))
    assert set(drifting(matrix)) == {"runtime_s", "nearest_median"}


def test_a_change_as_large_as_one_before_is_usual_here() -> None:
    matrix = a_matrix()
    day = (CUT - 1 - matrix.submit_us) // DAY_US
    values = matrix.values.copy()
    values[(day // 7) % 2 == 0, matrix.names.index("time_limit_s")] = 600_000  # every other week
    assert drifting(replace(matrix, values=values)) == {}


def test_what_moved_is_told_without_a_name() -> None:
    matrix = changed(a_matrix(), 7, time_limit_s=600_000)
    users = matrix.categories["user"]
    codes = np.where(matrix.submit_us >= CUT - 7 * DAY_US, 3, users.codes).astype(np.int32)
    matrix = replace(matrix, categories={"user": replace(users, codes=codes)})
    found = {one.name: one for one in findings(matrix, CUT, {}, RULE, None)}
    assert found["time_limit_s"].moved == "above 86400: 0 % before, 100 % now"
    assert found["user"].moved == "value no. 1 by frequency: 3 % before, 100 % now"
    assert "secret" not in json.dumps([one.to_json() for one in found.values()])


@pytest.mark.parametrize(
    ("values", "limit", "is_drift"),
    [
        ([0.3, 0.1, 0.1, 0.1, 0.1], 0.4, False),  # below the floor
        ([0.41, 0.1, 0.1, 0.1, 0.1], 0.4, True),
        ([0.5, 0.1, 0.1, 0.45, 0.1], 0.5625, False),  # 1.25 times the largest before
        ([0.57, 0.1, 0.1, 0.45, 0.1], 0.5625, True),
        ([0.9, 0.1, 0.1, 0.1, nan], None, False),  # three stretches do not say what is usual
        ([nan, 0.1, 0.1, 0.1, 0.1], 0.4, False),
    ],
    ids=["small", "large", "usual", "larger than usual", "too young", "too few jobs now"],
)
def test_drift_is_large_and_larger_than_usual(values: list[float], limit: float | None, is_drift: bool) -> None:
    rule = Drift(days=1, periods=4, distance_at_least=0.4, distance_times_usual=1.25)
    found = judge(Series("cpu_count", "feature", np.array(values)), rule)
    assert found.limit == (None if limit is None else pytest.approx(limit))
    assert (found.is_drift, found.is_new) == (is_drift, is_drift)


def test_a_job_that_still_runs_counts_among_submissions_only() -> None:
    matrix = a_matrix()
    late = matrix.submit_us >= CUT - 7 * DAY_US
    ended = replace(
        matrix.ended,
        end_us=np.where(late, OPEN_US, matrix.ended.end_us),
        runtime_s=np.where(late, nan, matrix.ended.runtime_s),
    )
    found = {one.name: one.value for one in findings(replace(matrix, ended=ended), CUT, {}, RULE, None)}
    assert found["runtime_s"] is None  # nothing ended in the latest days
    assert found["cpu_count"] is not None


@given(seed=st.integers(0, 10_000), window=st.sampled_from([None, 9, 40]), jobs=st.integers(1, 400))
def test_each_distance_equals_a_naive_count(seed: int, window: int | None, jobs: int) -> None:
    draw = np.random.default_rng(seed)
    rule = Drift(days=3, periods=4, min_jobs=5)
    day = draw.integers(0, 30, jobs)
    codes = draw.integers(-1, 4, jobs).astype(np.int32)
    never = np.full(jobs, OPEN_US)
    nothing = Ended(never, never, np.full(jobs, nan), np.full(jobs, "", object), np.full(jobs, "", object))
    category = {"queue": Categories(codes, ("a", "b", "c", "d"))}
    matrix = Matrix((), np.empty((jobs, 0), np.float32), category, never.astype(object), CUT - 1 - day * DAY_US, nothing)
    found = {series.name: series.values for series in watch(matrix, CUT, {}, rule, window)}
    naive = [naive_distance(day, codes, night, 3, window, 5) for night in range(15)]
    if not np.isfinite(naive).any():
        assert found == {}
    else:
        np.testing.assert_allclose(found["queue"], naive, atol=1e-7)


def naive_distance(day: np.ndarray, codes: np.ndarray, night: int, days: int, window: int | None, min_jobs: int) -> float:
    edge = night + days
    now = [c for d, c in zip(day, codes, strict=True) if night <= d < edge]
    then = [c for d, c in zip(day, codes, strict=True) if edge <= d < (inf if window is None else edge + window)]
    if min(len(now), len(then)) < min_jobs:
        return nan
    divergence = 0.0
    p, q = Counter(now), Counter(then)
    for code in {*p, *q}:
        a, b = p[code] / len(now), q[code] / len(then)
        divergence += sum(x / 2 * log2(2 * x / (a + b)) for x in (a, b) if x)
    return sqrt(max(divergence, 0.0))


def test_rows_may_come_in_any_order_and_the_clock_may_start_anywhere() -> None:
    matrix = changed(a_matrix(days=60), 4, cpu_count=64)
    order = np.random.default_rng(1).permutation(len(matrix))
    mixed = replace(
        matrix,
        values=matrix.values[order],
        submit_us=matrix.submit_us[order],
        ended=matrix.ended.take(order),
        categories={name: one.take(order) for name, one in matrix.categories.items()},
    )
    moved = replace(matrix, submit_us=matrix.submit_us + DAY_US, ended=replace(matrix.ended, end_us=matrix.ended.end_us + DAY_US))
    expected = findings(matrix, CUT, errors_of(matrix), RULE, None)
    in_any_order = {one.name: one.value for one in findings(mixed, CUT, errors_of(mixed), RULE, None)}
    assert in_any_order == pytest.approx({one.name: one.value for one in expected})  # errors are summed in another order
    assert findings(moved, CUT + DAY_US, errors_of(moved), RULE, None) == expected


@pytest.mark.parametrize(
    ("values", "codes", "labels"),
    [
        ([1, 1, 1], [0, 0, 0], ["up to 1", "above 1", "null"]),
        ([nan, nan], [1, 1], ["any", "null"]),
        ([], [], ["any", "null"]),
        ([1, 1, 1, 1, 1, 2, 2, 2, 2, nan], [0, 0, 0, 0, 0, 1, 1, 1, 1, 3], ["up to 1", "above 1, up to 2", "above 2", "null"]),
    ],
    ids=["one value", "only null", "nothing", "two values and null"],
)
def test_bins_of_numbers(values: list[float], codes: list[int], labels: list[str]) -> None:
    found, names = bin_numbers(np.array(values, float))
    assert (found.tolist(), names) == (codes, labels)


def test_bins_of_a_category_are_ranks() -> None:
    codes, labels = bin_category(np.array([2, 2, 0, -1, 2, 0, 1], np.int32), 3)
    assert [labels[code].split(" by")[0] for code in codes] == [
        "value no. 1", "value no. 1", "value no. 2", "null", "value no. 1", "value no. 2", "value no. 3",
    ]  # fmt: skip


def test_of_many_values_the_rare_ones_count_together() -> None:
    codes, labels = bin_category(np.repeat(np.arange(30), np.arange(30, 0, -1)).astype(np.int32), 30)
    assert labels[-2:] == ["other values", "null"]
    assert (pd.Series(codes).map(dict(enumerate(labels))) == "other values").sum() == sum(range(1, 11))


def test_a_night_without_jobs_watches_nothing() -> None:
    matrix = a_matrix(days=10)
    none = np.flatnonzero(matrix.submit_us < 0)
    empty = replace(matrix, values=matrix.values[none], submit_us=matrix.submit_us[none], ended=matrix.ended.take(none),
                    categories={name: one.take(none) for name, one in matrix.categories.items()})  # fmt: skip
    assert findings(empty, CUT, {}, RULE, None) == []


def test_a_limit_that_no_float_holds_is_none_and_breaks_no_report() -> None:
    rule = Drift(days=1, periods=4, error_at_least=1e308, error_times_usual=1e308)
    found = judge(Series("gbdt", "error", np.array([3.0, 2.0, 2.0, 2.0, 2.0, 2.0])), rule)
    assert (found.value, found.limit, found.is_drift, found.sentence) == (3.0, None, False, "")
    json.dumps(found.to_json(), allow_nan=False)
