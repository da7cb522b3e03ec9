"""A trained LightGBM model, ready to answer: lightgbm's own shared library called through its C API.

The Python package `lightgbm` is not imported: it would load scikit-learn, pandas and pyarrow wherever they are installed, and takes
30 µs or more for a single row. The library answers one row in a few microseconds through its single-row fast path, and gives the
same number as for a table: the same sum over the same trees.
"""

import ctypes
import importlib.util
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from runcast.training.errors import ModelFileError
from runcast.training.tree_text import check_tree_text

_FLOAT32, _NORMAL, _ALL = 0, 0, -1  # C_API_DTYPE_FLOAT32, C_API_PREDICT_NORMAL, every tree
_PARAMETERS = b"num_threads=1 verbosity=-1"
_LONGEST_NAME = 256


class Booster:
    """A model read from LightGBM's text format. Not safe for two threads at once: single rows share one buffer."""

    def __init__(self, text: str) -> None:
        check_tree_text(text)
        self._library, self._handle = _library(), ctypes.c_void_p()
        trees = ctypes.c_int()
        self._call("LGBM_BoosterLoadModelFromString", text.encode(), ctypes.byref(trees), ctypes.byref(self._handle))
        self.text = text
        self.names = self._feature_names()
        self._row = np.empty(len(self.names), np.float32)
        self._answer, self._answers_n = ctypes.c_double(), ctypes.c_int64()
        self._fast = ctypes.c_void_p()
        self._call(
            "LGBM_BoosterPredictForMatSingleRowFastInit",
            self._handle, _NORMAL, 0, _ALL, _FLOAT32, len(self.names), _PARAMETERS, ctypes.byref(self._fast),
        )  # fmt: skip
        self._one = self._library.LGBM_BoosterPredictForMatSingleRowFast
        self._one_arguments = (
            self._fast,
            self._row.ctypes.data_as(ctypes.c_void_p),
            ctypes.byref(self._answers_n),
            ctypes.byref(self._answer),
        )

    def predict(self, values: NDArray[np.float32]) -> NDArray[np.float64]:
        """Return the model's raw answers for float32 (n, k), one for each row."""
        if values.ndim != 2 or values.shape[1] != len(self.names):
            raise ValueError(f"expected rows of {len(self.names)} features, found the shape {values.shape}")
        if len(values) == 1:
            return np.array([self.predict_one(values[0])])
        table, found = np.ascontiguousarray(values, np.float32), np.empty(len(values), np.float64)
        self._call(
            "LGBM_BoosterPredictForMat",
            self._handle, table.ctypes.data_as(ctypes.c_void_p), _FLOAT32, len(table), table.shape[1], 1,
            _NORMAL, 0, _ALL, _PARAMETERS, ctypes.byref(self._answers_n), found.ctypes.data_as(ctypes.c_void_p),
        )  # fmt: skip
        return found

    def predict_one(self, row: NDArray[np.float32]) -> float:
        """Return the model's raw answer for one row of float32 (k,)."""
        self._row[:] = row
        if self._one(*self._one_arguments):
            raise ModelFileError(f"lightgbm: {self._library.LGBM_GetLastError().decode()}")
        return self._answer.value

    def __del__(self) -> None:
        if getattr(self, "_fast", None):
            self._library.LGBM_FastConfigFree(self._fast)
        if getattr(self, "_handle", None):
            self._library.LGBM_BoosterFree(self._handle)

    def _call(self, name: str, *arguments: Any) -> None:
        if getattr(self._library, name)(*arguments):
            raise ModelFileError(f"lightgbm: {self._library.LGBM_GetLastError().decode()}")

    def _feature_names(self) -> tuple[str, ...]:
        count, longest = ctypes.c_int(), ctypes.c_size_t()
        self._call("LGBM_BoosterGetNumFeature", self._handle, ctypes.byref(count))
        buffers = [ctypes.create_string_buffer(_LONGEST_NAME) for _ in range(count.value)]
        pointers = (ctypes.c_void_p * count.value)(*map(ctypes.addressof, buffers))
        self._call(
            "LGBM_BoosterGetFeatureNames",
            self._handle, count.value, ctypes.byref(count), ctypes.c_size_t(_LONGEST_NAME), ctypes.byref(longest), pointers,
        )  # fmt: skip
        if longest.value > _LONGEST_NAME:
            raise ModelFileError(f"a feature's name is {longest.value} characters long, at most {_LONGEST_NAME} are read")
        return tuple(buffer.value.decode() for buffer in buffers)


def lightgbm_version() -> str:
    """Return the installed version, without importing the package."""
    return version("lightgbm")


@cache
def _library() -> ctypes.CDLL:
    """Return lightgbm's shared library; raises ModelFileError where the package is not installed or holds none."""
    spec = importlib.util.find_spec("lightgbm")
    if spec is None or not spec.submodule_search_locations:
        raise ModelFileError("lightgbm is not installed on this machine: pip install 'runcast[scheduler]'")
    folder = Path(spec.submodule_search_locations[0])
    for name in ("lib_lightgbm.so", "lib_lightgbm.dylib", "lib_lightgbm.dll"):
        if (folder / "lib" / name).exists():
            library = ctypes.CDLL(str(folder / "lib" / name))
            library.LGBM_GetLastError.restype = ctypes.c_char_p
            return library
    raise ModelFileError(f"{folder}: holds no lib_lightgbm; install lightgbm again")
