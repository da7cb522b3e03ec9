"""Times: zones, changes of the clock, epochs and the words for none; right values are UTC, computed by hand or by zoneinfo."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runcast.data.errors import SourceError
from runcast.data.sources.times import epoch_times, localise, microseconds, parse_times


def utc(*texts: str | None) -> list[datetime | None]:
    return [None if text is None else datetime.fromisoformat(text + "+00:00") for text in texts]


@pytest.mark.parametrize(
    "word", ["None", "Unknown", "N/A", "NULL", "", "1970-01-01", "1970-01-01T00:00:00", " unknown ", "nan", "1969-12-31T19:00:00"]
)
@pytest.mark.parametrize("beside", ["2024-03-01T10:00:00", "2024-03-01 10:00:00+00:00"], ids=["naive", "aware"])
def test_words_for_no_time_are_missing(word, beside):
    times = parse_times(pa.array([word, beside, None]), "UTC")
    assert times.utc.to_pylist() == utc(None, "2024-03-01T10:00:00", None)
    assert times.missing.tolist() == [True, False, True]
    assert not times.unreadable.any()


def test_offsets_mean_the_same_instant():
    times = parse_times(
        pa.array(["2024-03-01 08:00:00+08:00", "2024-03-01 00:00:00+00:00", "2024-03-01T00:00:00Z"]), "Asia/Tokyo"
    )
    assert times.utc.to_pylist() == utc(*["2024-03-01T00:00:00"] * 3)


def test_naive_and_aware_texts_may_share_a_column():
    times = parse_times(pa.array(["2024-03-01 08:00:00", "2024-03-01 08:00:00+00:00", "1709280000"]), "Asia/Shanghai")
    assert times.utc.to_pylist() == utc("2024-03-01T00:00:00", "2024-03-01T08:00:00", "2024-03-01T08:00:00")


def test_night_of_the_repeated_hour_is_an_hour_longer():
    start, end = parse_times(pa.array(["2017-11-05 00:30:00", "2017-11-05 03:30:00"]), "America/Los_Angeles").utc.to_pylist()
    assert (end - start).total_seconds() == 14_400


def test_repeated_hour_takes_the_first_and_says_so():
    times = parse_times(pa.array(["2017-11-05 01:30:00", "2017-11-05 02:30:00"]), "America/Los_Angeles")
    assert times.utc.to_pylist() == utc("2017-11-05T08:30:00", "2017-11-05T10:30:00")
    assert times.second.to_pylist() == utc("2017-11-05T09:30:00", "2017-11-05T10:30:00")
    assert times.ambiguous.tolist() == [True, False]


def test_skipped_hour_is_no_time():
    times = parse_times(pa.array(["2017-03-12 02:30:00", "2017-03-12 03:30:00"]), "America/Los_Angeles")
    assert times.utc.to_pylist() == utc(None, "2017-03-12T10:30:00")
    assert times.nonexistent.tolist() == [True, False]
    assert not times.missing.any()
    assert not times.unreadable.any()


@pytest.mark.parametrize(
    "text",
    ["2024-13-01T00:00:00", "2024-02-30 00:00:00", "yesterday", "12:00:00", "2024", "31.12.2024", "123", "2024-01-01T25:00:00"],
)
def test_what_is_no_time_is_unreadable_and_leaves_its_neighbours_alone(text):
    times = parse_times(pa.array([text, "2024-03-01T10:00:00"]), "UTC")
    assert times.unreadable.tolist() == [True, False]
    assert times.utc.to_pylist() == utc(None, "2024-03-01T10:00:00")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2024-03-01", "2024-03-01T00:00:00"),
        ("2024-03-01T10:00", "2024-03-01T10:00:00"),
        ("2024-03-01 10:00:00.25", "2024-03-01T10:00:00.250000"),
        ("2024-03-01 10:00:00,123456789", "2024-03-01T10:00:00.123456"),
        ("2024-03-01 10:00:00 +0100", "2024-03-01T09:00:00"),
        ("2024-03-01 10:00:00-05", "2024-03-01T15:00:00"),
        ("2024-03-01 10:00:00 UTC", "2024-03-01T10:00:00"),
        ("1709287200", "2024-03-01T10:00:00"),
        ("1709287200.5", "2024-03-01T10:00:00.500000"),
    ],
)
def test_spelling_of_times(text, expected):
    assert parse_times(pa.array([text]), "UTC").utc.to_pylist() == utc(expected)


def test_typed_columns():
    instant = datetime(2024, 3, 1, 10, tzinfo=UTC)
    naive = pa.array([datetime(2024, 3, 1, 18), None], pa.timestamp("ns"))  # noqa: DTZ001 - the naive case is the subject
    aware = pa.array([instant, None], pa.timestamp("ms", tz="Asia/Shanghai"))
    for column in (naive, aware, pa.array([1_709_287_200, None]), pa.array([1_709_287_200.0, 0.0]), aware.dictionary_encode()):
        times = parse_times(column, "Asia/Shanghai")
        assert times.utc.to_pylist() == [instant, None]
        assert times.missing.tolist() == [False, True]


def test_microseconds_are_epoch_microseconds():
    values, known = microseconds(parse_times(pa.array(["2024-01-01T00:00:10", "None"]), "UTC").utc)
    assert values.tolist() == [1_704_067_210_000_000, 0]
    assert known.tolist() == [True, False]


def test_own_zero_of_a_trace_is_a_time_when_asked():
    seconds = pa.array([0.0, 494_319.5, None, -5.0, 1e30])
    own = epoch_times(seconds, zero_is_missing=False)
    assert microseconds(own.utc)[0].tolist() == [0, 494_319_500_000, 0, -5_000_000, 0]
    assert own.missing.tolist() == [False, False, True, False, False]
    assert own.unreadable.tolist() == [False] * 4 + [True]
    assert epoch_times(seconds).missing.tolist() == [True, False, True, True, False]


def test_columns_that_cannot_hold_times_are_refused():
    with pytest.raises(SourceError, match="bool"):
        parse_times(pa.array([True]), "UTC")


@given(st.lists(st.one_of(st.none(), st.text(max_size=30), st.datetimes().map(str), st.floats().map(str)), max_size=8))
def test_no_text_raises_and_each_value_has_one_fate(texts):
    times = parse_times(pa.array(texts, pa.string()), "America/New_York")
    known = [value is not None for value in times.utc.to_pylist()]
    for fate in zip(known, times.missing, times.unreadable, times.nonexistent, strict=True):
        assert sum(map(bool, fate)) == 1


@given(st.lists(st.datetimes(datetime(1971, 1, 1), datetime(2037, 1, 1)), min_size=1, max_size=5))  # noqa: DTZ001 - local clocks
@pytest.mark.parametrize("zone", ["America/Los_Angeles", "Europe/Dublin", "Asia/Shanghai", "Australia/Lord_Howe", "UTC"])
def test_local_clock_equals_zoneinfo(zone, clocks):
    times = localise(pa.array(clocks, pa.timestamp("us")), zone)
    for clock, first, second, skipped in zip(
        clocks, times.utc.to_pylist(), times.second.to_pylist(), times.nonexistent, strict=True
    ):
        early, late = (clock.replace(tzinfo=ZoneInfo(zone), fold=fold).astimezone(UTC) for fold in (0, 1))
        assert skipped == (early > late)
        if not skipped:
            assert (first, second) == (early, late)
            assert second - first in (timedelta(0), timedelta(minutes=30), timedelta(hours=1), timedelta(hours=2))
