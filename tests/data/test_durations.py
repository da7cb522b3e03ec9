"""Durations and limits: the forms of sbatch(1) and sacct(1), right values by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runcast.data.sources.durations import Limit, duration_s, time_limit, time_limit_of_minutes


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("2-01:24:56", 177_896),
        ("01:05.753", 65.753),
        ("45-00:00:00", 3_888_000),
        ("125-00:00:00", 10_800_000),
        ("4:00", 240),
        ("2-12", 216_000),
        ("3-0:00", 259_200),
        ("90", 5_400),
        ("00:00:00", 0),
        ("00:00.001", 0.001),
        ("1:02:03", 3_723),
        ("100:00:00", 360_000),
        (" 00:00:17 ", 17),
    ],
)
def test_duration_in_seconds(text, seconds):
    assert duration_s(text) == pytest.approx(seconds, abs=1e-9)


@pytest.mark.parametrize("text", ["-0:00:16", "", "Unknown", "1:2:3:4", "1-2:3:4:5", "12.5", "1-", "-1", "1:", "٣:٠٠", "9" * 40])
def test_what_is_no_duration(text):
    assert duration_s(text) is None


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        ("4:00", Limit(240.0, "given")),
        ("1-06:00:00", Limit(108_000.0, "given")),
        ("UNLIMITED", Limit(None, "unlimited")),
        ("00:00:00", Limit(None, "unlimited")),
        ("Partition_Limit", Limit(None, "partition")),
        ("", Limit(None, "absent")),
        ("INVALID", Limit(None, "unreadable")),
        ("-1:00", Limit(None, "unreadable")),
    ],
)
def test_time_limit(text, limit):
    assert time_limit(text) == limit


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        ("10320", Limit(619_200.0, "given")),  # Kabre: TimelimitRaw 10320 beside Timelimit 7-04:00:00
        ("0", Limit(None, "unlimited")),
        ("UNLIMITED", Limit(None, "unlimited")),
        ("Partition_Limit", Limit(None, "partition")),
        ("1-00:00:00", Limit(None, "unreadable")),
        ("1.5", Limit(None, "unreadable")),
    ],
)
def test_time_limit_of_minutes(text, limit):
    assert time_limit_of_minutes(text) == limit


@given(st.integers(0, 999_999), st.integers(0, 23), st.integers(0, 59), st.integers(0, 59))
def test_what_slurm_prints_is_read_back(days, hours, minutes, seconds):
    assert duration_s(f"{days}-{hours:02}:{minutes:02}:{seconds:02}") == ((days * 24 + hours) * 60 + minutes) * 60 + seconds


@given(st.text())
def test_any_text_is_a_limit_or_unreadable(text):
    assert time_limit(text).kind in {"given", "unlimited", "absent", "unreadable"}
    assert time_limit_of_minutes(text).kind in {"given", "unlimited", "absent", "unreadable"}
