"""Prediction, once for every face: replay, the registry's pyfunc and the scheduler's Predictor all answer through this module.

A fitted predictor is a `Rule` (a baseline, a tree, or boosters) and a `ModelCard` (where it came from). On disk it is a folder
of neutral files: model.json with the rule's numbers, and LightGBM's own text format beside it. Numpy, and lightgbm's shared library.
"""

import hashlib
import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from runcast.training.booster import Booster, lightgbm_version
from runcast.training.errors import ModelFileError
from runcast.training.forecast import Floats, Forecast, Inputs, clip
from runcast.training.ranked import Ranked

#: Of the folder's layout. A reader refuses another one.
FORMAT = 1
LARGEST_FACTOR = 1e12  # of p90, and seconds of a median: with one above it some job's forecast might not be finite


@dataclass(frozen=True)
class ModelCard:
    """Where a model came from; everything but `encoder` is for people and for checks, nothing of it changes an answer."""

    cluster: str
    feature_version: str
    encoder: Mapping[str, Any]
    parameters: Mapping[str, Any]
    training: Mapping[str, Any]  # jobs, censored_jobs, first_submit, last_end, cut (ISO 8601, UTC), seed
    libraries: Mapping[str, str]


def require_factor(value: Any) -> float:
    """Return a number of a model file by which, or with which, it answers; raises ModelFileError where it is none above 0."""
    if not 0 < float(value) <= LARGEST_FACTOR:
        raise ModelFileError(f"expected a number above 0 and up to {LARGEST_FACTOR:g}, found {value!r}; export the model again")
    return float(value)


class Rule(Protocol):
    """What a fitted predictor is: an answer for `Inputs`, and itself as JSON content and text files."""

    @property
    def kind(self) -> str: ...
    @property
    def columns(self) -> tuple[str, ...]: ...
    def forecast(self, inputs: Inputs) -> Forecast: ...
    def content(self) -> dict[str, Any]: ...
    def files(self) -> dict[str, str]: ...


@dataclass(frozen=True)
class Baseline:
    """One feature taken as the answer, and the training median where the feature is unknown.

    `p90_factor` multiplies the answer (0.9 quantile of actual / answer on training jobs), `hit_share` is the share of training
    jobs answered within 25 %; both as (where the feature is known, where the training median stands in).
    """

    #: nearest_median: below this many finished runs the spread says nothing.
    SURE_RUNS: ClassVar[int] = 3

    kind: str
    columns: tuple[str, ...]
    fallback_s: float
    p90_factor: tuple[float, float]
    hit_share: tuple[float, float]

    def forecast(self, inputs: Inputs) -> Forecast:
        given_s = inputs.column(self.columns[0])
        known = np.isfinite(given_s) & (given_s > 0)
        p50_s = np.where(known, given_s, self.fallback_s)
        p90_s = p50_s * np.where(known, *self.p90_factor)
        source = np.where(known, self.kind, "training_median")
        return clip(p50_s, p90_s, self._confidence(inputs, known), source, inputs.hard_limit_s)

    def _confidence(self, inputs: Inputs, known: NDArray[np.bool_]) -> Floats:
        """Return hit_share, or for nearest_median: at least 3 runs first, then the smaller their spread the surer."""
        if self.kind != "nearest_median":
            return np.where(known, *self.hit_share)
        runs = inputs.column("nearest_n")
        spread_log = inputs.column("nearest_spread_log")
        steady = np.exp(-np.where(np.isfinite(spread_log), np.abs(spread_log), np.inf))
        with_runs = np.where(runs >= self.SURE_RUNS, 0.5 + 0.5 * steady, 0.25 * steady)
        return np.where(known, with_runs, 0.0)

    def content(self) -> dict[str, Any]:
        return {"fallback_s": self.fallback_s, "p90_factor": list(self.p90_factor), "hit_share": list(self.hit_share)}

    def files(self) -> dict[str, str]:
        return {}

    @classmethod
    def read(cls, kind: str, columns: tuple[str, ...], content: Mapping[str, Any], files: Mapping[str, str]) -> Self:
        known, unknown = content["p90_factor"]
        hit, miss = content["hit_share"]
        fallback_s = require_factor(content["fallback_s"])
        return cls(kind, columns, fallback_s, (require_factor(known), require_factor(unknown)), (float(hit), float(miss)))


@dataclass(frozen=True)
class Cart:
    """A regression tree as arrays over its nodes; a leaf has feature -1.

    A job goes left where value <= threshold (both float32), and where the value is unknown and `unknown_left` says so. p50_s,
    p90_s and error_log (mean |ln(runtime / p50)|) are those of the training jobs that fell into the node.
    """

    FIELDS: ClassVar[dict[str, Any]] = {
        "feature": np.int32,
        "threshold": np.float32,
        "left": np.int32,
        "right": np.int32,
        "unknown_left": np.bool_,
        "jobs": np.int32,
        "p50_s": np.float64,
        "p90_s": np.float64,
        "error_log": np.float64,
    }

    kind: str
    columns: tuple[str, ...]
    nodes: Mapping[str, NDArray[Any]]
    p90_factor: float  # split-conformal correction of p90_s

    def leaves(self, values: NDArray[np.float32]) -> NDArray[np.int32]:
        """Return the leaf (node index) each row of `values` falls into."""
        at = np.zeros(len(values), dtype=np.int32)
        moving = np.flatnonzero(self.nodes["feature"][at] >= 0)
        while len(moving):
            node = at[moving]
            value = values[moving, self.nodes["feature"][node]]
            is_left = np.where(np.isnan(value), self.nodes["unknown_left"][node], value <= self.nodes["threshold"][node])
            at[moving] = np.where(is_left, self.nodes["left"][node], self.nodes["right"][node])
            moving = moving[self.nodes["feature"][at[moving]] >= 0]
        return at

    def forecast(self, inputs: Inputs) -> Forecast:
        leaf = self.leaves(inputs.values)
        source = np.full(len(inputs), self.kind)
        return clip(
            self.nodes["p50_s"][leaf],
            self.nodes["p90_s"][leaf] * self.p90_factor,
            np.exp(-self.nodes["error_log"][leaf]),
            source,
            inputs.hard_limit_s,
        )

    def content(self) -> dict[str, Any]:
        return {"p90_factor": self.p90_factor, "nodes": {name: self.nodes[name].tolist() for name in self.FIELDS}}

    def files(self) -> dict[str, str]:
        return {}

    @classmethod
    def read(cls, kind: str, columns: tuple[str, ...], content: Mapping[str, Any], files: Mapping[str, str]) -> Self:
        nodes = {name: np.asarray(content["nodes"][name], dtype) for name, dtype in cls.FIELDS.items()}
        sizes = {len(values) for values in nodes.values()}
        inner = nodes["feature"] >= 0
        children = np.concatenate([nodes["left"][inner], nodes["right"][inner]])
        if len(sizes) != 1 or sizes == {0}:
            raise ModelFileError(f"the tree's arrays have different lengths {sorted(sizes)}; export the model again")
        if (nodes["feature"] >= len(columns)).any() or sorted(children) != list(range(1, len(inner))):
            raise ModelFileError("the tree's nodes do not form one tree over the model's features; export the model again")
        if (
            not all((abs(nodes[name]) <= LARGEST_FACTOR).all() for name in ("p50_s", "p90_s"))
            or not (nodes["error_log"] >= 0).all()
        ):
            raise ModelFileError("the tree's answers are not seconds and errors; export the model again")
        return cls(kind, columns, nodes, require_factor(content["p90_factor"]))


@dataclass(frozen=True)
class Gbdt:
    """Two LightGBM models of ln(runtime): the median and the 0.9 quantile, the latter times a split-conformal correction."""

    kind: str
    columns: tuple[str, ...]
    p50: Booster = field(compare=False)
    p90: Booster = field(compare=False)
    p90_factor: float

    def forecast(self, inputs: Inputs) -> Forecast:
        p50_s = np.exp(self.p50.predict(inputs.values))
        p90_s = np.exp(self.p90.predict(inputs.values)) * self.p90_factor
        confidence = np.minimum(p50_s / p90_s, 1.0)  # 1 / the width between the quantiles; where they cross, none is left
        return clip(p50_s, p90_s, confidence, np.full(len(inputs), self.kind), inputs.hard_limit_s)

    def content(self) -> dict[str, Any]:
        return {"p90_factor": self.p90_factor}

    def files(self) -> dict[str, str]:
        return {"p50.txt": self.p50.text, "p90.txt": self.p90.text}

    @classmethod
    def read(cls, kind: str, columns: tuple[str, ...], content: Mapping[str, Any], files: Mapping[str, str]) -> Self:
        p50, p90 = (Booster(files[name]) for name in ("p50.txt", "p90.txt"))
        for name, booster in (("p50.txt", p50), ("p90.txt", p90)):
            if booster.names != columns:
                raise ModelFileError(f"{name}: its features are not the model's in name and order; export the model again")
        return cls(kind, columns, p50, p90, require_factor(content["p90_factor"]))


#: Which rule reads which kind. A later predictor adds its line here and in kinds.py.
RULES: dict[str, Any] = {
    "request": Baseline,
    "last_two": Baseline,
    "nearest_median": Baseline,
    "cart": Cart,
    "gbdt": Gbdt,
    "runcast": Ranked,
}


@dataclass(frozen=True)
class Scorer:
    """A fitted predictor with its card; `columns` are the features it asks for, in order."""

    rule: Rule
    card: ModelCard

    @property
    def kind(self) -> str:
        return self.rule.kind

    @property
    def columns(self) -> tuple[str, ...]:
        return self.rule.columns

    def forecast(self, inputs: Inputs) -> Forecast:
        """Answer every row of `inputs`; columns are chosen by name, so more of them or another order change nothing."""
        return self.rule.forecast(inputs.select(self.columns))

    def predict(self, values: NDArray[np.float32], hard_limit_s: Floats) -> Forecast:
        """Answer rows whose values are float32 (n, k) in the order of `columns`; see Inputs for hard_limit_s."""
        return self.rule.forecast(Inputs(self.columns, np.ascontiguousarray(values, np.float32), hard_limit_s))


def save_scorer(scorer: Scorer, folder: Path) -> None:
    """Write `scorer` as `folder`, replacing it whole: written beside, then renamed. Same scorer, same bytes."""
    beside, old = folder.with_name(f".{folder.name}.new"), folder.with_name(f".{folder.name}.old")
    for path in (beside, old):
        if path.exists():
            shutil.rmtree(path)
    beside.mkdir(parents=True)
    files = scorer.rule.files()
    for name, text in files.items():
        (beside / name).write_text(text, encoding="utf-8", newline="\n")
    content = {
        "format": FORMAT,
        "kind": scorer.kind,
        "columns": list(scorer.columns),
        **{name: getattr(scorer.card, name) for name in ModelCard.__dataclass_fields__},
        "model": scorer.rule.content(),
        "files": {name: _sha256((beside / name).read_bytes()) for name in sorted(files)},
    }
    content["checksum"] = _sha256(_canonical(content))
    (beside / "model.json").write_text(
        json.dumps(content, indent=1, sort_keys=True, allow_nan=False), encoding="utf-8", newline="\n"
    )
    if folder.exists():
        folder.rename(old)
    beside.rename(folder)
    if old.exists():
        shutil.rmtree(old)


def load_scorer(folder: Path, feature_version: str | None = None) -> Scorer:
    """Read a model folder; `feature_version`, where given, must be the model's.

    Raises ModelFileError where a file is missing or changed, the format or the features are others, or the library is older than
    the one that wrote the model.
    """
    content = _read_json(folder / "model.json")
    if content.get("format") != FORMAT:
        raise ModelFileError(f"{folder}: model format {content.get('format')!r}, this version reads {FORMAT}; train again")
    checksum = content.pop("checksum", None)
    try:
        is_whole = checksum == _sha256(_canonical(content))
    except (ValueError, RecursionError) as error:  # Python reads NaN and 1e999, which are no numbers of JSON
        raise ModelFileError(f"{folder / 'model.json'}: not a model's JSON ({error}); copy or train the model again") from error
    if not is_whole:
        raise ModelFileError(f"{folder / 'model.json'}: the content does not match its checksum; copy or train the model again")
    if feature_version is not None and content.get("feature_version") != feature_version:
        raise ModelFileError(
            f"{folder}: trained on feature version {content.get('feature_version')}, asked for {feature_version}; retrain the model"
        )
    try:
        return _scorer(folder, content)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError) as error:
        raise ModelFileError(
            f"{folder / 'model.json'}: {type(error).__name__}: {error}; copy or train the model again"
        ) from error


def _scorer(folder: Path, content: Mapping[str, Any]) -> Scorer:
    """Return the scorer of a model.json, whose checksum says only that it is whole: its values may be of any type."""
    if content["kind"] not in RULES:
        raise ModelFileError(f"{folder}: unknown kind {content['kind']!r}; this version knows {', '.join(RULES)}")
    _refuse_older_lightgbm(folder, content["libraries"])
    if not isinstance(content["encoder"], dict):
        raise ModelFileError(f"{folder / 'model.json'}: encoder: expected an object, found {content['encoder']!r}")
    columns = tuple(content["columns"])
    if not all(isinstance(name, str) for name in columns):
        raise ModelFileError(f"{folder / 'model.json'}: columns: expected names of features, found {columns!r}")
    for name in content["files"]:
        if Path(name).name != name:
            raise ModelFileError(f"{folder / 'model.json'}: files: {name!r} is not the name of a file beside it")
    files = {name: _read_checked(folder / name, sha256) for name, sha256 in content["files"].items()}
    rule = RULES[content["kind"]].read(content["kind"], columns, content["model"], files)
    return Scorer(rule, ModelCard(**{name: content[name] for name in ModelCard.__dataclass_fields__}))


def _refuse_older_lightgbm(folder: Path, libraries: Mapping[str, str]) -> None:
    """LightGBM reads the text of earlier versions, not of later ones. CART and baselines are plain numbers: any version."""
    wrote = libraries.get("lightgbm")
    if wrote is None:
        return
    major, here = int(wrote.split(".")[0]), int(lightgbm_version().split(".")[0])
    if major > here:
        raise ModelFileError(f"{folder}: written with lightgbm {wrote}, this machine has {lightgbm_version()}; install {major}.x")


def _read_json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ModelFileError(f"{path}: cannot be read ({error.strerror}); is this a model folder?") from error
    except (ValueError, RecursionError) as error:
        raise ModelFileError(f"{path}: not valid JSON ({error}); copy or train the model again") from error
    if not isinstance(content, dict):
        raise ModelFileError(f"{path}: expected an object, found {type(content).__name__}")
    return content


def _read_checked(path: Path, sha256: str) -> str:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ModelFileError(f"{path}: cannot be read ({error.strerror}); copy or train the model again") from error
    if _sha256(content) != sha256:
        raise ModelFileError(f"{path}: the content does not match its checksum; copy or train the model again")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ModelFileError(f"{path}: not UTF-8 ({error}); copy or train the model again") from error


def _canonical(content: Mapping[str, Any]) -> bytes:
    return json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
