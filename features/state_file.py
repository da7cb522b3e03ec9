"""The file of a feature state: numpy arrays in an uncompressed ZIP archive, with equal bytes for equal states.

A bundle may come from elsewhere, so nothing is trusted on reading: members are uncompressed and as long as their own headers say,
before any of them takes memory; then every shape, type and index that the state relies on is checked. Numpy level.
"""

import math
import os
import struct
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from runcast.features.errors import StateError
from runcast.features.levels import LEVELS
from runcast.features.slots import FIXED, READY, TIMES

Arrays = dict[str, NDArray[Any]]

#: Type and width of each array, None for one dimension; n slots have n - FIXED keys.
_OF_SLOTS: dict[str, tuple[type[np.generic], int]] = {
    "ready": (np.float32, len(READY)),
    "times": (np.float64, TIMES),
    "sums": (np.int64, 3),
    "counts": (np.int32, 5),
}
_FLAT: dict[str, type[np.generic]] = {
    "keys": np.uint64, "slots": np.int32, "open_slots": np.int32, "open_sizes": np.int32, "ended": np.uint64, "meta": np.uint8,
}  # fmt: skip
_MAGIC = (1, 0)


def write_arrays(path: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write the arrays to one file, whole or not at all: beside it, flushed, then renamed."""
    beside = path.with_name(path.name + ".tmp")
    with beside.open("wb") as file:
        with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
            for name, array in arrays.items():
                entry = zipfile.ZipInfo(f"{name}.npy")  # dated 1980: the bytes do not tell when they were written
                with archive.open(entry, "w", force_zip64=True) as member:
                    np.lib.format.write_array(member, array, allow_pickle=False, version=_MAGIC)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)


def read_arrays(path: Path) -> Arrays:
    """Return the arrays of a state's file; raises StateError for one that is damaged, or larger in memory than on disk."""
    try:
        with path.open("rb") as file, zipfile.ZipFile(file) as archive:
            if sum(entry.file_size for entry in archive.infolist()) > path.stat().st_size:
                raise ValueError("its members are larger than the file: they are compressed, or overlap")
            arrays = {_name(entry): _read_member(archive, entry) for entry in archive.infolist()}
    except (OSError, ValueError, EOFError, NotImplementedError, RuntimeError, struct.error, zipfile.BadZipFile) as error:
        raise StateError(f"{path}: not a feature state, or damaged: {type(error).__name__}: {error}") from error
    try:
        _check(arrays)
    except ValueError as error:
        raise StateError(f"{path}: not a feature state, or damaged: {error}. Export it again.") from error
    return arrays


def _name(entry: zipfile.ZipInfo) -> str:
    name = entry.filename.removesuffix(".npy")
    if name not in _OF_SLOTS and name not in _FLAT:
        raise ValueError(f"{entry.filename!r} is no part of a state")
    return name


def _read_member(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> NDArray[Any]:
    if entry.compress_type != zipfile.ZIP_STORED:
        raise ValueError(f"{entry.filename} is compressed; members of a state are not")
    with archive.open(entry) as member:
        if np.lib.format.read_magic(member) != _MAGIC:
            raise ValueError(f"{entry.filename}: another version of numpy's format")
        shape, _, dtype = np.lib.format.read_array_header_1_0(member)
        size = math.prod(shape) * dtype.itemsize
        if dtype.hasobject or size != entry.file_size - member.tell():
            raise ValueError(f"{entry.filename}: {shape} of {dtype} is not what its {entry.file_size} bytes hold")
        member.seek(0)
        array: NDArray[Any] = np.lib.format.read_array(member, allow_pickle=False)
        return array


def _check(arrays: Arrays) -> None:
    """Raise ValueError unless every array is there with its type and shape, and every index points to a slot."""
    if missing := sorted((_OF_SLOTS.keys() | _FLAT.keys()) - arrays.keys()):
        raise ValueError(f"no {', '.join(missing)}")
    slots = len(arrays["ready"]) if arrays["ready"].ndim else 0
    for name, (dtype, width) in _OF_SLOTS.items():
        _expect(arrays, name, dtype, (slots, width))
    for name, dtype in _FLAT.items():
        _expect(arrays, name, dtype, (arrays[name].size,))
    keys, places, opened, sizes = (arrays[name] for name in ("keys", "slots", "open_slots", "open_sizes"))
    if slots < FIXED or len(keys) != slots - FIXED or not (keys[1:] > keys[:-1]).all():
        raise ValueError(f"{len(keys)} keys of {slots} slots: expected {slots - FIXED}, rising")
    if not np.array_equal(np.sort(places), np.arange(FIXED, slots)):
        raise ValueError("slots: expected each slot once")
    if len(opened) and not (opened.min() >= 0 and opened.max() < slots):
        raise ValueError("open_slots: a slot that is not there")
    if (len(sizes) and not (sizes.min() >= 0 and sizes.max() <= len(LEVELS))) or sizes.sum(dtype=np.int64) != len(opened):
        raise ValueError(f"open_sizes: expected lengths that sum to {len(opened)}")


def _expect(arrays: Arrays, name: str, dtype: type[np.generic], shape: tuple[int, ...]) -> None:
    found = arrays[name]
    if found.dtype != dtype or found.shape != shape:
        raise ValueError(f"{name}: expected {np.dtype(dtype)} {shape}, found {found.dtype} {found.shape}")
