"""Whole lines of a log file in blocks of a few MiB, compressed or not, so that no source holds a file in memory.

What a file is compressed with is told by its first bytes, not by its name. Line ends are made one (`\\r\\n` and a lone `\\r`
count as `\\n`, as Python's text mode reads them), so that line numbers agree with an editor's.
"""

import bz2
import gzip
import lzma
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple, cast

import pyarrow as pa

from runcast.data.errors import EmptyLog, SourceError

BLOCK_BYTES = 4 << 20  # about 40,000 lines: large enough for vector work, small beside everything else a night holds
LINE_BYTES_AT_MOST = 64 << 20  # no log has such lines: a file with one is something else

_DAMAGED = (EOFError, OSError, zlib.error, lzma.LZMAError)


class Block(NamedTuple):
    """`data` is whole lines, each with its `\\n`; `first_line` is the 1-based number of the first."""

    first_line: int
    data: bytes


def open_log(path: Path) -> BinaryIO:
    """Open a plain, .gz, .xz, .bz2 or .zst file for reading.

    Raises EmptyLog where it, or what it is compressed of, has no bytes, and SourceError where it is missing, no file, or UTF-16.
    """
    with _open(path) as file:
        first = read_piece(file, path, 4)
    if not first:
        raise EmptyLog(f"{path}: the file is empty. An export that died leaves such a file: export again, or remove it.")
    if first.startswith((b"\xff\xfe", b"\xfe\xff")) or (len(first) == 4 and {first[0::2], first[1::2]} & {b"\0\0"}):
        raise SourceError(
            f"{path}: the text is UTF-16, as `>` of Windows PowerShell writes it; expected UTF-8. "
            "Convert it: iconv -f UTF-16 -t UTF-8."
        )
    return _open(path)


def _open(path: Path) -> BinaryIO:
    if not path.is_file():
        raise SourceError(f"{path}: no such file. Check source.paths of the cluster file.")
    try:
        with path.open("rb") as file:
            magic = file.read(6)
    except OSError as error:
        raise SourceError(f"{path}: cannot be read ({error.strerror})") from error
    if magic.startswith(b"\x1f\x8b"):
        return cast(BinaryIO, gzip.open(path, "rb"))
    if magic == b"\xfd7zXZ\x00":
        return cast(BinaryIO, lzma.open(path, "rb"))
    if magic.startswith(b"BZh"):
        return cast(BinaryIO, bz2.open(path, "rb"))
    if magic.startswith(b"\x28\xb5\x2f\xfd"):
        return cast(BinaryIO, pa.input_stream(str(path), compression="zstd"))
    return path.open("rb")


def read_blocks(path: Path, block_bytes: int = BLOCK_BYTES) -> Iterator[Block]:
    """Yield the lines of `path` in order; the last line gets its `\\n` where the file has none.

    Raises SourceError where the file is missing, empty, damaged, cut, or has a line beyond any log's.
    """
    with open_log(path) as file:
        line, rest = 1, b""
        while piece := read_piece(file, path, block_bytes):
            if piece.endswith(b"\r"):
                piece += read_piece(file, path, 1)  # so that no `\r\n` is cut in two
            if b"\r" in piece:
                piece = piece.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
            cut = piece.rfind(b"\n") + 1
            if not cut:
                rest += piece
                if len(rest) > LINE_BYTES_AT_MOST:
                    raise SourceError(f"{path}: line {line} has over {LINE_BYTES_AT_MOST >> 20} MiB; this is no job log")
                continue
            block = rest + piece[:cut]
            rest = piece[cut:]
            yield Block(line, block)
            line += block.count(b"\n")
        if rest:
            yield Block(line, rest + b"\n")


def text_of(raw: bytes) -> str:
    """Return raw log bytes as text; a byte that is not UTF-8 is written `\\xfc`, so that two names that differ in it stay two."""
    return raw.decode("utf-8", errors="backslashreplace")


def read_piece(file: BinaryIO, path: Path, size: int) -> bytes:
    """Read up to `size` bytes of an opened log; raises SourceError where what it is compressed with is damaged or cut."""
    try:
        return file.read(size)
    except _DAMAGED as error:
        raise SourceError(f"{path}: the compressed file is damaged or cut short ({error})") from error
