"""Opening a log: what it is compressed with, and files that hold nothing or another encoding."""

import bz2
import gzip
import lzma
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from runcast.data.cluster import Cluster
from runcast.data.errors import EmptyLog, SourceError
from runcast.data.sources.blocks import read_blocks, text_of
from runcast.data.sources.registry import SOURCES


def zstd(data: bytes) -> bytes:
    return pa.compress(data, codec="zstd", asbytes=True) if data else bytes.fromhex("28b52ffd2000010000")  # RFC 8878: no content


PACKED: dict[str, Callable[[bytes], bytes]] = {
    "plain": bytes, "gz": gzip.compress, "xz": lzma.compress, "bz2": bz2.compress, "zst": zstd,
}  # fmt: skip
CLUSTER = {"name": "c", "time_zone": "Asia/Shanghai", "clock": "week"}


@pytest.mark.parametrize("pack", PACKED.values(), ids=list(PACKED))
def test_lines_come_out_of_any_compression(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    path = tmp_path / "log"
    path.write_bytes(pack(b"a\nb"))
    assert b"".join(block.data for block in read_blocks(path)) == b"a\nb\n"


@pytest.mark.parametrize("pack", PACKED.values(), ids=list(PACKED))
@pytest.mark.parametrize("name", ["slurm_sacct", "slurm_json", "swf", "helios", "philly", "acme"])
def test_a_file_without_content_is_an_empty_log_in_every_format(
    tmp_path: Path, name: str, pack: Callable[[bytes], bytes]
) -> None:
    path = tmp_path / "log"
    path.write_bytes(pack(b""))
    cluster = Cluster.model_validate({**CLUSTER, "source": {"format": name, "paths": [str(path)]}})
    with pytest.raises(EmptyLog, match=r"log: the file is empty\. An export that died"):
        list(SOURCES[name](path, cluster))


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gz"])
def test_utf16_is_named(tmp_path: Path, encoding: str, pack: Callable[[bytes], bytes]) -> None:
    path = tmp_path / "log"
    path.write_bytes(pack("JobID|State\n".encode(encoding)))
    with pytest.raises(SourceError, match=r"the text is UTF-16.*iconv"):
        list(read_blocks(path))


@pytest.mark.parametrize(
    ("raw", "text"), [(b"f\xfcr", "f\\xfcr"), (b"f\xf6r", "f\\xf6r"), ("für".encode(), "für"), (b"\xe2\x82", "\\xe2\\x82")]
)
def test_bytes_that_are_not_utf8_stay_apart(raw: bytes, text: str) -> None:
    assert text_of(raw) == text
