"""A bundle copied to where only this account can write, before it is checked: whoever brings bundles cannot change one behind the check.

A signature says what the manifest was, and the manifest what each file was; both say nothing about a file that is read a second later.
"""

import contextlib
import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

from runcast.scheduler.bundle import HOW_TO_MEND, MANIFEST, MOST_BYTES, MOST_BYTES_OF_MANIFEST, read_manifest
from runcast.scheduler.errors import BundleDamaged
from runcast.scheduler.signature import MOST_BYTES_OF_SIGNATURE, SIGNATURE

_AT_ONCE = 1 << 20  # bytes
_MOST_FILES = 1000  # a bundle has some ten


@contextlib.contextmanager
def private_copy(bundle: Path) -> Iterator[Path]:
    """Yield a copy of a bundle, under its name, that goes when the block ends; raises BundleError where it is none, or too large."""
    listed = read_manifest(bundle).files
    total = sum(file.size_bytes for file in listed)
    if len(listed) > _MOST_FILES or total > MOST_BYTES:
        raise BundleDamaged(
            f"{bundle}: {len(listed)} files, {total} bytes; at most {_MOST_FILES} files, {MOST_BYTES} bytes are read. {HOW_TO_MEND}"
        )
    sizes = {MANIFEST: MOST_BYTES_OF_MANIFEST, **{file.path: file.size_bytes for file in listed}}
    if (bundle / SIGNATURE).exists():
        sizes[SIGNATURE] = MOST_BYTES_OF_SIGNATURE
    with tempfile.TemporaryDirectory(prefix="runcast-") as folder:
        copy = Path(folder) / bundle.name
        for path, at_most in sizes.items():
            _copy(bundle / path, copy / path, at_most)
        yield copy


def _copy(path: Path, to: Path, at_most: int) -> None:
    """Copy a file of so many bytes at most, whatever it is by now: a link, a pipe, one that grows."""
    to.parent.mkdir(parents=True, exist_ok=True)
    size = 0
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(file, "rb") as source, to.open("xb") as target:
            if not stat.S_ISREG(os.fstat(file).st_mode):
                raise BundleDamaged(f"{path}: is no file of a bundle. {HOW_TO_MEND}")
            while part := source.read(_AT_ONCE):
                size += len(part)
                if size > at_most:
                    raise BundleDamaged(f"{path}: has more than {at_most} bytes. {HOW_TO_MEND}")
                target.write(part)
    except OSError as error:
        raise BundleDamaged(f"{path}: cannot be copied to be checked ({error.strerror}). {HOW_TO_MEND}") from error
