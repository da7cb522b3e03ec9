"""The encoder: what each text becomes in a table, and that it is frozen. Of one job: test_working_row.py."""

import math

import numpy as np
import pytest

from runcast.features.encoder import Encoder
from runcast.features.errors import EncoderError
from runcast.features.matrix import OPEN_US, Categories, Ended, Matrix


def matrix_of(users: list[str | None]) -> Matrix:
    words = tuple(dict.fromkeys(user for user in users if user is not None))
    codes = np.array([-1 if user is None else words.index(user) for user in users], np.int32)
    n = len(users)
    never, label = np.full(n, OPEN_US), np.full(n, "event", object)
    values = np.arange(n * 2, dtype=np.float32).reshape(n, 2)
    ended = Ended(never, never, np.full(n, np.nan), label, label)
    return Matrix(("gpu_count", "runs_by_user"), values, {"user": Categories(codes, words)}, label, np.arange(n), ended)


FITTED = Encoder.fit(matrix_of(["b", "b", "b", "a", "a", "rare", None]), at_least=2)


@pytest.mark.parametrize(
    ("user", "code"),
    [("b", 1.0), ("a", 2.0), ("rare", 0.0), ("zz", 0.0), ("", 0.0), (None, math.nan)],
    ids=["most frequent", "next", "below the floor", "never seen", "empty", "null"],
)
def test_code_of_a_user(user: str | None, code: float) -> None:
    table = FITTED.transform(matrix_of([user, "b"]))
    assert table.dtype == np.float32
    np.testing.assert_array_equal(table[0], [0.0, 1.0, code])


def test_columns_are_the_features_and_then_the_codes() -> None:
    assert FITTED.columns == ("gpu_count", "runs_by_user", "code_user")


def test_equal_counts_are_ordered_by_text_not_by_appearance() -> None:
    assert Encoder.fit(matrix_of(["z", "m", "z", "m"]), at_least=1).vocabularies["user"] == ("m", "z")


def test_a_feature_missing_from_a_later_matrix_is_null() -> None:
    later = matrix_of(["a"])
    later = Matrix(("runs_by_user",), later.values[:, 1:], later.categories, later.job_key, later.submit_us, later.ended)
    np.testing.assert_array_equal(FITTED.transform(later), [[math.nan, 1.0, 2.0]])


def test_json_round_trip() -> None:
    encoder = Encoder.fit(matrix_of(["päi/1", "päi/1", 'q"x', 'q"x']), at_least=1)
    again = Encoder.from_json(encoder.to_json())
    assert again == encoder
    assert again.to_json() == encoder.to_json()


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("", "not an encoder"),
        ("[1]", "not an encoder"),
        ('{"format": 99}', "format 99"),
        ('{"format": 1, "names": ["nonsense"], "vocabularies": {}}', "nonsense"),
    ],
)
def test_what_is_no_encoder_is_refused(text: str, match: str) -> None:
    with pytest.raises(EncoderError, match=match):
        Encoder.from_json(text)
