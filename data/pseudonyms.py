"""Pseudonyms: names of people and their work replaced by a keyed hash before anything is kept, the same way beside the scheduler.

    pseudonymise:
      key_file: /etc/runcast/mycluster.key      # e.g. of: head -c 32 /dev/urandom | base64

A pseudonym is letters for the text's shape (every run of digits as one) and, where it has digits, a number for the whole text:
`train_017.sh` -> `kbfmpadhcoenlgijkahd-5310294785541023786`. So equal names stay equal, and names that differ only in their
digits stay alike, for the features that fold digits. Lost is likeness by letters (the comparison `helios` groups names by edit
distance) and every clear word. Kept, and visible to whoever reads the lake: how often a name comes, which names are alike, and
that one has digits. Without the key a name cannot be tried; with it, anybody can. One key for the life of a cluster's history.

This module imports the standard library only, so that a scheduler host can use it.
"""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from runcast.data.errors import PseudonymKeyError

NameColumn = Literal["user", "group", "account", "queue", "qos", "job_name", "work_dir", "job_id", "node_list"]
DEFAULT_COLUMNS: tuple[NameColumn, ...] = ("user", "group", "account", "job_name", "work_dir")
#: Columns that may be asked for. `array_id` follows job_id, of which it is a part.
MAPPABLE: tuple[NameColumn, ...] = (*DEFAULT_COLUMNS, "queue", "qos", "job_id", "node_list")
ARRAY_ID = "array_id"

SHORTEST_KEY = 32  # characters
_DIGITS = re.compile(r"\d+")
_LETTERS = bytes.maketrans(b"0123456789abcdef", b"abcdefghijklmnop")
_KEPT = 100_000  # texts whose pseudonyms are kept at hand


@dataclass(frozen=True)
class Pseudonyms:
    """The key, never shown, and the columns whose texts it replaces."""

    key: bytes = field(repr=False)
    columns: tuple[str, ...]

    @property
    def fingerprint(self) -> str:
        """16 hex digits that tell whether two keys are one, and nothing else of them."""
        return hashlib.blake2b(key=self.key, person=b"fingerprint", digest_size=8).hexdigest()

    def to_json(self) -> dict[str, Any]:
        """Return what may be known of them: the columns and the key's fingerprint."""
        return {"columns": list(self.columns), "key_fingerprint": self.fingerprint}

    def of(self, column: str, text: str) -> str:
        """Return the pseudonym of a text of `column`."""
        return _pseudonym(self.key, "job_id" if column == ARRAY_ID else column, text)

    def maps(self, column: str) -> bool:
        return column in self.columns or (column == ARRAY_ID and "job_id" in self.columns)

    def mapped(self, told: Mapping[str, Any], longest: int | None = None) -> dict[str, Any]:
        """Return a job or event as the scheduler tells it, with pseudonyms for its names.

        What is no text, or one of more than `longest` characters, stays for its reader, who refuses it: it is not to fill the memory.
        """
        return {
            name: self.of(name, value)
            if isinstance(value, str) and value and self.maps(name) and (longest is None or len(value) <= longest)
            else value
            for name, value in told.items()
        }


def read_key(path: Path) -> bytes:
    """Return the key made of a file that others can neither read nor write; raises PseudonymKeyError.

    The file's group may read it: the pipeline and the service run under different accounts.
    """
    try:
        mode, secret = path.stat().st_mode, path.read_bytes().strip()
    except OSError as error:
        raise PseudonymKeyError(
            f"{path}: the key of the pseudonyms cannot be read ({error.strerror}). Make one with "
            f"`(umask 077; head -c 32 /dev/urandom | base64 > {path})`, or bring the one that the history was made with."
        ) from error
    if mode & 0o027:
        raise PseudonymKeyError(
            f"{path}: others than its owner and group may read it, or others than its owner write it (mode {mode & 0o777:o}); "
            f"chmod 640 {path} or stricter"
        )
    if len(secret) < SHORTEST_KEY:
        raise PseudonymKeyError(f"{path}: the key has {len(secret)} characters, at least {SHORTEST_KEY} are asked for")
    return hashlib.blake2b(secret, person=b"pseudonym key", digest_size=32).digest()


@lru_cache(_KEPT)
def _pseudonym(key: bytes, column: str, text: str) -> str:
    def digest(size: int, content: str) -> bytes:
        data = content.encode("utf-8", "surrogatepass")
        return hashlib.blake2b(data, key=key, person=column.encode(), digest_size=size).digest()

    shape = _DIGITS.sub("#", text)
    letters = digest(10, "shape:" + shape).hex().encode().translate(_LETTERS).decode()
    return f"{letters}-{int.from_bytes(digest(8, 'text:' + text), 'big')}" if shape != text else letters
