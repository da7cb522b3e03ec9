"""The elements of an array inside a JSON file, one after the other, without holding the file."""

import codecs
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from runcast.data.errors import Quoted, SourceError
from runcast.data.sources.blocks import open_log, read_piece

_PIECE_BYTES = 1 << 20
_ITEM_CHARACTERS_AT_MOST = 64 << 20  # no job's record is that long: a file with one is damaged or something else
_BLANKS = " \t\r\n"
_OPENINGS = ("{", "[")
_BAD_BYTES = "runcast.json_items"  # name of the error handler of the decoder
_MAY_GO_ON = ("", *"0123456789.eE+-")  # after a number that the piece read so far may have cut


def array_items(path: Path, key: str, beside: dict[str, Any]) -> Iterator[Any]:
    """Yield the elements of the array under `key` of the file's object, of each of several objects in a row, or of a bare array.

    What stands beside the array goes into `beside`. Raises SourceError where the file is missing, cut, no JSON, or has no such
    array.
    """
    with open_log(path) as file:
        text = _Text(file, path)
        found = False
        while not text.is_at_end():
            if text.accepts("["):
                found = True
                yield from _elements(text)
                continue
            text.expect("{")
            if not text.accepts("}"):
                while True:
                    name = text.value()
                    text.expect(":")
                    if name == key and text.accepts("["):
                        found = True
                        yield from _elements(text)
                    else:
                        beside[str(name)] = text.value()
                    if text.accepts("}"):
                        break
                    text.expect(",")
        if not found:
            has = Quoted(", ".join(sorted(beside))) if beside else "nothing"
            raise SourceError(f"{path}: no array {key!r} in this JSON file; it has ", has)


def top_items(path: Path) -> Iterator[Any]:
    """Yield the elements of the array that the file is, or of each of several in a row; raises SourceError as `array_items` does."""
    with open_log(path) as file:
        text = _Text(file, path)
        while not text.is_at_end():
            text.expect("[")
            yield from _elements(text)


def objects_or_items(path: Path, key: str) -> Iterator[Any]:
    """Yield each value of a file: of an array its elements, of an object with an array under `key` that array's.

    Raises SourceError where the file is missing, cut or no JSON.
    """
    with open_log(path) as file:
        text = _Text(file, path)
        while not text.is_at_end():
            if text.accepts("["):
                yield from _elements(text)
                continue
            if not text.accepts("{"):
                yield text.value()
                continue
            fields: dict[str, Any] = {}
            has_items = False
            while not text.accepts("}"):
                name = text.value()
                text.expect(":")
                if name == key and text.accepts("["):
                    has_items = True
                    yield from _elements(text)
                else:
                    fields[str(name)] = text.value()
                if not text.accepts(","):
                    text.expect("}")
                    break
            if not has_items:
                yield fields


def _elements(text: "_Text") -> Iterator[Any]:
    if text.accepts("]"):
        return
    while True:
        yield text.value()
        if text.accepts("]"):
            return
        text.expect(",")


class _Text:
    """The characters of a file, read as they are needed and forgotten when they are used."""

    def __init__(self, file: Any, path: Path) -> None:
        self._file, self._path = file, path
        self._decode = codecs.getincrementaldecoder("utf-8-sig")(errors=_BAD_BYTES).decode
        self._parse = json.JSONDecoder(strict=False).raw_decode
        self._text, self._at, self._used, self._is_whole = "", 0, 0, False

    def is_at_end(self) -> bool:
        return self._next() == ""

    def accepts(self, sign: str) -> bool:
        """Step over `sign` if it comes next."""
        if self._next() != sign:
            return False
        self._at += 1
        return True

    def expect(self, sign: str) -> None:
        if not self.accepts(sign):
            raise self._error(f"expected {sign!r}, found {self._next()!r}")

    def value(self) -> Any:
        """Read one JSON value."""
        self._next()
        while True:
            try:
                value, end = self._parse(self._text, self._at)
            except json.JSONDecodeError as error:
                if self._is_whole or len(self._text) - self._at > _ITEM_CHARACTERS_AT_MOST:
                    raise self._error(error.msg) from None
            except (RecursionError, ValueError) as error:
                raise self._error(str(error)) from None
            else:
                if self._is_whole or self._text[end : end + 1] not in _MAY_GO_ON:
                    self._at = end
                    return value
            self._more(max(_PIECE_BYTES, len(self._text) - self._at))

    def _next(self) -> str:
        """Return the next character that is no blank, "" at the end."""
        while True:
            while self._at < len(self._text) and self._text[self._at] in _BLANKS:
                self._at += 1
            if self._at < len(self._text):
                return self._text[self._at]
            if self._is_whole:
                return ""
            self._more(_PIECE_BYTES)

    def _more(self, size: int) -> None:
        raw = read_piece(self._file, self._path, size)
        self._is_whole = not raw
        self._used += self._at
        self._text = self._text[self._at :] + self._decode(raw, final=self._is_whole)
        self._at = 0

    def _error(self, what: str) -> SourceError:
        at = self._used + self._at
        if not at and self._next() not in _OPENINGS:
            return SourceError(
                f"{self._path}: this is no JSON: expected '{{' or '[' at its beginning, found ", Quoted(self._text[:40])
            )
        return SourceError(f"{self._path}: not valid JSON at character {at + 1}: {what}. Is the file cut short?")


def _escaped_twice(error: UnicodeError) -> tuple[str, int]:
    """Write bytes that are not UTF-8 as `\\\\xfc`, which inside a JSON text is what `text_of` makes of them."""
    if not isinstance(error, UnicodeDecodeError):
        raise error
    return "".join(f"\\\\x{byte:02x}" for byte in error.object[error.start : error.end]), error.end


codecs.register_error(_BAD_BYTES, _escaped_twice)
