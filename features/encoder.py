"""Integer codes for text columns, frozen at training and stored with the model.

Of the numpy level. A text seen often enough in training has a code from 1 on, by falling frequency; every other text, rare or
never seen, has the code 0; null is NaN. The encoder also keeps the names of the features it was fitted with, so that what comes
out has the same columns in the same order for a table and for one job.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from runcast.features.catalog import CATEGORIES, NAMES
from runcast.features.errors import EncoderError
from runcast.features.matrix import Categories, Matrix

UNSEEN = 0
FORMAT = 1


@dataclass(frozen=True)
class Encoder:
    """`names` are the features passed through, `vocabularies` the texts of each category in the order of their codes, from 1."""

    names: tuple[str, ...]
    vocabularies: Mapping[str, tuple[str, ...]]

    @classmethod
    def fit(cls, matrix: Matrix, at_least: int = 20) -> "Encoder":
        """Learn the vocabularies of a training matrix; texts of fewer than `at_least` jobs share the code of the unseen.

        The default is that of a leaf: a code fewer jobs have could not be split off anyway. A category without text is left out.
        """
        found = {name: _frequent(matrix.categories[name], at_least) for name in CATEGORIES if name in matrix.categories}
        has_text = {name for name, category in matrix.categories.items() if (category.codes >= 0).any()}
        return cls(matrix.names, {name: words for name, words in found.items() if name in has_text})

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the encoded columns: the features, then `code_<category>`."""
        return (*self.names, *(f"code_{name}" for name in self.vocabularies))

    def transform(self, matrix: Matrix) -> NDArray[np.float32]:
        """Return float32 (n, m + c): the features, then the codes; a feature the matrix lacks is NaN."""
        values = np.full((len(matrix), len(self.columns)), np.nan, np.float32, order="F")
        place = {name: at for at, name in enumerate(matrix.names)}
        for column, name in enumerate(self.names):
            if name in place:
                values[:, column] = matrix.values[:, place[name]]
        for column, name in enumerate(self.vocabularies, start=len(self.names)):
            category = matrix.categories[name]
            code = np.array([*(self.codes[name].get(word, UNSEEN) for word in category.vocabulary), np.nan], np.float32)
            values[:, column] = code[category.codes]
        return values

    def to_json(self) -> str:
        """Return the encoder as JSON; equal encoders give equal bytes."""
        return json.dumps({"format": FORMAT, "names": self.names, "vocabularies": self.vocabularies}, ensure_ascii=True)

    @classmethod
    def from_json(cls, text: str) -> "Encoder":
        """Return the encoder that `to_json` wrote; raises EncoderError on another format or unknown features."""
        try:
            content = json.loads(text)
            if content["format"] != FORMAT:
                raise EncoderError(f"encoder of format {content['format']!r}, expected {FORMAT}; export it again")
            encoder = cls(
                tuple(str(name) for name in content["names"]),
                {str(name): tuple(str(word) for word in words) for name, words in content["vocabularies"].items()},
            )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise EncoderError(f"not an encoder: {type(error).__name__}: {error}") from error
        unknown = [name for name in encoder.names if name not in NAMES] + [
            name for name in encoder.vocabularies if name not in CATEGORIES
        ]
        if unknown:
            raise EncoderError(f"encoder of unknown features {', '.join(unknown[:5])}; it belongs to another feature version")
        return encoder

    @cached_property
    def codes(self) -> dict[str, dict[str, int]]:
        """Code of each text, by category."""
        return {name: {word: code for code, word in enumerate(words, start=1)} for name, words in self.vocabularies.items()}


def _frequent(category: Categories, at_least: int) -> tuple[str, ...]:
    counts = np.bincount(category.codes[category.codes >= 0], minlength=len(category.vocabulary))
    often = sorted((-int(count), word) for count, word in zip(counts, category.vocabulary, strict=True) if count >= at_least)
    return tuple(word for _, word in often)
