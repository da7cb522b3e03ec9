"""The predictors of the literature as they were published, to be measured beside ours; never served.

`mlaas` is that of MLaaS in the Wild (NSDI'22): one regression tree on user, group tag (the user's where there is none), request and
submission time. `helios` is that of Helios's shortest-service-first scheduler (SC'21): a rolling mean over close job names, blended
0.1 to 0.9 with boosted trees on user, virtual cluster, name cluster, request and calendar. Of both the features are public, of
Helios also the rolling part as a script; depth, leaf and trees are not, so they are those of our own CART and GBDT. Names are
compared with their digits folded, as our matrix holds them. Dropping users absent from the test month, as that script does, is a
leak and is left out.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rapidfuzz import fuzz, process

from runcast.data.cluster import Training
from runcast.features.matrix import Matrix
from runcast.training.forecast import Floats, Forecast, Inputs, clip, hard_limit_s
from runcast.training.isolation import fit_isolated
from runcast.training.rows import texts_of
from runcast.training.scoring import Rule

SIMILARITY = 60.0  # of two names, in percent; Helios's script asks for 0.6
MATCHES = 2  # names that a new name may be like
NAMES_KEPT = 100  # the most frequent stay as they are, the others are clustered
ROLLING_SHARE = 0.1

_TIME = ("month", "month_day", "hour_of_day", "weekday")
_REQUEST = ("gpu_count", "cpu_count")
Texts = NDArray[np.object_]


@dataclass(frozen=True)
class Codes:
    """Integers for texts, in order of first use in training; a text never seen is -1, null is NaN."""

    of: dict[str, int]

    @classmethod
    def fit(cls, texts: Texts) -> "Codes":
        return cls({text: at for at, text in enumerate(dict.fromkeys(text for text in texts if text is not None))})

    def code(self, texts: Texts) -> Floats:
        return np.array([np.nan if text is None else self.of.get(text, -1) for text in texts], np.float64)


@dataclass(frozen=True)
class Mlaas:
    """The tree of MLaaS in the Wild."""

    user: Codes
    group: Codes
    tree: Rule
    kind: str = "mlaas"

    def answer(self, matrix: Matrix) -> Forecast:
        return self.tree.forecast(_mlaas_inputs(matrix, self.user, self.group))


def fit_mlaas(matrix: Matrix, training: Training) -> Mlaas:
    """Fit on a matrix of ended jobs ordered by end; raises ConstantPredictor."""
    user, group = Codes.fit(texts_of(matrix, "user")), Codes.fit(texts_of(matrix, "group"))
    tree = fit_isolated("mlaas", _mlaas_inputs(matrix, user, group), matrix.ended.runtime_s, training)
    return Mlaas(user, group, tree)


def _mlaas_inputs(matrix: Matrix, user: Codes, group: Codes) -> Inputs:
    by_user, by_group = user.code(texts_of(matrix, "user")), group.code(texts_of(matrix, "group"))
    tag = np.where(np.isnan(by_group), len(group.of) + by_user, by_group)
    return _inputs(matrix, {"user": by_user, "group_tag": tag}, (*_REQUEST, *_TIME))


@dataclass(frozen=True)
class Helios:
    """Boosted trees and a rolling mean. `history` is what had ended in training, for the mean to begin with."""

    user: Codes
    group: Codes
    name_cluster: Callable[[Texts], Floats]
    boosted: Rule
    history: "Runs"
    kind: str = "helios"

    def answer(self, matrix: Matrix) -> Forecast:
        """Return the blend for jobs in submission order; the mean learns from each as it ends."""
        inputs = _helios_inputs(matrix, self.user, self.group, self.name_cluster)
        boosted = self.boosted.forecast(inputs)
        blend = ROLLING_SHARE * rolling_means(self.history, Runs.of(matrix)) + (1 - ROLLING_SHARE) * boosted.p50_s
        return clip(blend, boosted.p90_s, boosted.confidence, np.full(len(matrix), self.kind), inputs.hard_limit_s)


def fit_helios(matrix: Matrix, training: Training) -> Helios:
    """Fit on a matrix of ended jobs ordered by end; raises ConstantPredictor."""
    user, group = Codes.fit(texts_of(matrix, "user")), Codes.fit(texts_of(matrix, "group"))
    clusters = cluster_names(texts_of(matrix, "name_shape"))
    inputs = _helios_inputs(matrix, user, group, clusters)
    boosted = fit_isolated("helios", inputs, matrix.ended.runtime_s, training)
    return Helios(user, group, clusters, boosted, Runs.of(matrix))


def _helios_inputs(matrix: Matrix, user: Codes, group: Codes, clusters: Callable[[Texts], Floats]) -> Inputs:
    coded = {
        "user": user.code(texts_of(matrix, "user")),
        "vc": group.code(texts_of(matrix, "group")),
        "name_cluster": clusters(texts_of(matrix, "name_shape")),
    }
    return _inputs(matrix, coded, (*_REQUEST, *_TIME))


def cluster_names(names: Texts) -> Callable[[Texts], Floats]:
    """Return what gives each name its cluster: the frequent names are their own, another joins the first it is close to, else founds one.

    Clusters are counted in falling frequency of their founders; a name not seen in training joins the nearest or is -1; null is NaN.
    """
    found: dict[str, int] = defaultdict(int)
    for name in names:
        if name is not None:
            found[name] += 1
    founders: list[str] = []
    cluster: dict[str, int] = {}
    for name in sorted(found, key=lambda name: (-found[name], name)):
        near = (
            None if len(founders) < NAMES_KEPT else process.extractOne(name, founders, scorer=fuzz.ratio, score_cutoff=SIMILARITY)
        )
        cluster[name] = len(founders) if near is None else near[2]
        if near is None:
            founders.append(name)

    def code(texts: Texts) -> Floats:
        known = dict(cluster)
        for text in dict.fromkeys(text for text in texts if text is not None and text not in known):
            near = process.extractOne(text, founders, scorer=fuzz.ratio, score_cutoff=SIMILARITY)
            known[text] = -1 if near is None else near[2]
        return np.array([np.nan if text is None else known[text] for text in texts], np.float64)

    return code


@dataclass(frozen=True)
class Runs:
    """Jobs as the rolling mean sees them; `runtime_s` is NaN of one that has none."""

    user: Sequence[str | None]
    name: Sequence[str | None]
    size: Sequence[float]
    submit_us: NDArray[np.int64]
    end_us: NDArray[np.int64]
    runtime_s: Floats

    @classmethod
    def of(cls, matrix: Matrix) -> "Runs":
        gpus, cpus = (np.nan_to_num(matrix.column(name)) for name in _REQUEST)
        return cls(
            texts_of(matrix, "user").tolist(),
            texts_of(matrix, "name_shape").tolist(),
            np.where(gpus > 0, gpus, cpus).tolist(),
            matrix.submit_us,
            matrix.ended.end_us,
            np.where(matrix.ended.has_runtime, matrix.ended.runtime_s, np.nan),
        )


def rolling_means(history: Runs, asked: Runs) -> Floats:
    """Return for each of `asked`, in submission order, the mean of like runs of `history` and of those of `asked` ended before it.

    Like: the same user's runs of the name, or of the up to two closest of at least 60 % similarity where the name is new, and of
    these the ones of the same size where there are any. Without the user any user's runs of the name; without a name like it, the
    user's runs, else all.
    """
    means = _Means()
    for at in range(len(history.name)):
        means.add(history, at)
    ended = np.flatnonzero(~np.isnan(asked.runtime_s))
    ended = ended[np.argsort(asked.end_us[ended], kind="stable")]
    ready = np.searchsorted(asked.end_us[ended], asked.submit_us, side="left").tolist()
    found, done = np.empty(len(asked.name)), 0
    for at, until in enumerate(ready):
        while done < until:
            means.add(asked, int(ended[done]))
            done += 1
        found[at] = means.of(asked.user[at], asked.name[at], asked.size[at])
    return found


class _Means:
    """Sums and counts of runtimes by user, name and size, and by parts of these."""

    def __init__(self) -> None:
        self._sums: dict[tuple[object, ...], list[float]] = {}
        self._names: dict[str, None] = {}
        self._close: dict[str, list[str]] = {}

    def add(self, runs: Runs, at: int) -> None:
        user, name, runtime_s = runs.user[at], runs.name[at], float(runs.runtime_s[at])
        for key in ((user, name, runs.size[at]), (user, name), ("", name), (user,), ()):
            sums = self._sums.setdefault(key, [0.0, 0.0])
            sums[0] += runtime_s
            sums[1] += 1
        if name is not None and name not in self._names:
            self._names[name] = None

    def of(self, user: str | None, name: str | None, size: float) -> float:
        like = self._like(name)
        keys: list[list[tuple[object, ...]]] = [[(user,)], [()]]
        if like:
            keys = [[(user, one, size) for one in like], [(user, one) for one in like], [("", one) for one in like], *keys]
        for group in keys:
            sums = [self._sums[key] for key in group if key in self._sums]
            if sums:
                return sum(total for total, _ in sums) / sum(count for _, count in sums)
        return 1.0

    def _like(self, name: str | None) -> list[str]:
        if name is None or name in self._names:
            return [] if name is None else [name]
        if name not in self._close:  # looked for once: until a run of the name itself ends
            close: Any = process.extract(name, list(self._names), scorer=fuzz.ratio, limit=MATCHES, score_cutoff=SIMILARITY)
            self._close[name] = [match[0] for match in close]
        return self._close[name]


def _inputs(matrix: Matrix, coded: dict[str, Floats], plain: Sequence[str]) -> Inputs:
    names = (*coded, *plain)
    values = np.column_stack([*coded.values(), *(matrix.column(name) for name in plain)]).astype(np.float32)
    return Inputs(names, values, hard_limit_s(matrix.column("time_limit_s"), matrix.column("is_limit_hard")))
