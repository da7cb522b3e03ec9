"""The report's pictures, drawn by matplotlib as SVG without a screen: one function per figure, each from a judged replay.

Texts from the log (group names, states) are drawn as they are written, never as formulas. Equal numbers give equal bytes. A predictor
has a colour, a dash and a marker of its own everywhere: none is told by colour alone.
"""

import io
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter, date2num
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator, PercentFormatter
from numpy.typing import NDArray

from runcast.evaluation.bootstrap import WEEK_US, week_of
from runcast.evaluation.document import Judged, models_of
from runcast.evaluation.importance import MEANINGS
from runcast.evaluation.metrics import BY_NAME, Floats, hits_within_25
from runcast.evaluation.risk_coverage import risk_coverage
from runcast.evaluation.slices import is_of_somebody
from runcast.training.kinds import find_predictor

#: Predictors keep their colour in every figure and in the page: models in colour, baselines in greys.
COLOURS: Mapping[str, str] = {
    "request": "#b8bec9",
    "last_two": "#8a93a3",
    "nearest_median": "#4b5565",
    "cart": "#d97706",
    "gbdt": "#2563eb",
    "runcast": "#059669",
    "mlaas": "#b45fcf",
    "helios": "#dc2626",
}
#: And their dash: models are solid or nearly so, baselines dashed, comparisons dotted.
_DASHES: Mapping[str, Any] = {
    "request": (0, (1.2, 2)),
    "last_two": (0, (3, 2)),
    "nearest_median": (0, (6, 2)),
    "cart": (0, (7, 1.5, 1.5, 1.5)),
    "gbdt": (0, (10, 1.5)),
    "runcast": "solid",
    "mlaas": (0, (1, 1)),
    "helios": (0, (4, 1, 1, 1, 1, 1)),
}
_MARKERS: Mapping[str, str] = {
    "request": "v",
    "last_two": "<",
    "nearest_median": "D",
    "cart": "s",
    "gbdt": "^",
    "runcast": "o",
    "mlaas": "P",
    "helios": "X",
}
_INK, _FAINT, _TARGET = "#1f2937", "#d7dce4", "#9f1239"
_WIDE, _TALL = (8.6, 3.9), (8.6, 4.8)
_STYLE: Any = {
    "font.size": 9.5,
    "font.family": "DejaVu Sans",
    "text.parse_math": False,  # a group called $x$ is a name
    "axes.edgecolor": _FAINT,
    "axes.labelcolor": _INK,
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#eceff4",
    "xtick.color": "#4b5565",
    "ytick.color": "#4b5565",
    "text.color": _INK,
    "legend.frameon": False,
    "svg.hashsalt": "runcast",
    "svg.fonttype": "path",
}
#: A week or a group of fewer jobs is not drawn: its median is noise.
_FEWEST = 10


def draw_all(judged: Judged, targets: tuple[float, ...]) -> dict[str, str]:
    """Return every figure as SVG text, by name, in the order of the report."""
    with style():
        drawn = {
            "risk_coverage": draw_risk_coverage(judged, targets),
            "calibration": draw_calibration(judged),
            "slices": draw_slices(judged),
            **({"importance": draw_importance(judged)} if judged.importance else {}),
            "residual_by_week": draw_residual_by_week(judged),
            "p90_by_week": draw_p90_by_week(judged),
        }
        return {name: svg_text(figure) for name, figure in drawn.items()}


@contextmanager
def style() -> Iterator[None]:
    """Draw in the house's style while the block runs."""
    with mpl.rc_context(_STYLE):
        yield


def draw_risk_coverage(judged: Judged, targets: tuple[float, ...]) -> Figure:
    """MdAPE of the surest share of jobs, against that share; the targets of Table 2 as lines."""
    figure, axes = _one(_TALL)
    for name, forecast in judged.done.forecasts.items():
        curve = risk_coverage(judged.actual_s, forecast.point_s, forecast.confidence)
        is_point = len(curve.coverage) < 3  # one confidence for all: there is no order to follow
        style: dict[str, Any] = {"marker": _MARKERS.get(name, "o"), "ms": 6} if is_point else {}
        axes.plot(curve.coverage, curve.mdape, **_line(name), label=name, **style)
    top = min(1.5, max(0.3, *(1.1 * (_all(judged, name, "mdape") or 0.3) for name in _models_and_best(judged))))
    for target in targets:
        axes.axhline(target, color=_TARGET, lw=0.8, ls=(0, (4, 3)))
    for place, target in enumerate(sorted(targets)):
        axes.annotate(
            f"{100 * target:.1f} %",
            (1.0, target),
            xytext=(4, 5 if place else 0),
            textcoords="offset points",
            color=_TARGET,
            va="center",
            fontsize=8,
        )
    axes.set(xlim=(0, 1), ylim=(0, top), xlabel="share of jobs, surest first", ylabel="median error of these jobs (MdAPE)")
    _percent(axes, "xy")
    _legend(axes)
    return figure


def draw_calibration(judged: Judged) -> Figure:
    """Left: how often jobs of rising confidence are right. Right: what ran where the model said so much."""
    figure = Figure(figsize=(8.6, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    for name, forecast in judged.done.forecasts.items():
        groups = tenths(forecast.confidence)
        hits = hits_within_25(judged.actual_s, forecast.point_s)
        shares = [(position, hits[rows].mean()) for position, rows in groups]
        left.plot(*zip(*shares, strict=True), **_line(name), marker=_MARKERS.get(name, "o"), ms=4, label=name)
    left.set(
        title="Is surer more often right?",
        xlim=(0, 1),
        ylim=(0, 1),
        xlabel="jobs by confidence, least sure first",
        ylabel="forecasts within 25 %",
    )
    _percent(left, "xy")
    figure.legend(*left.get_legend_handles_labels(), loc="outside upper center", ncols=8, fontsize=8, columnspacing=1.2)
    name = (models_of(judged.done.forecasts) or list(judged.done.forecasts))[-1]
    forecast = judged.done.forecasts[name]
    alike = [rows for _, rows in tenths(forecast.p50_s, 16)]
    said = np.array([np.median(forecast.p50_s[rows]) for rows in alike])
    low, middle, high = (np.array([np.quantile(judged.actual_s[rows], share) for rows in alike]) for share in (0.1, 0.5, 0.9))
    planned = np.array([np.median(forecast.p90_s[rows]) for rows in alike])
    right.fill_between(said, low, high, color=_colour(name), alpha=0.13, lw=0, label="10–90 % of jobs")
    right.plot(said, middle, color=_colour(name), lw=2, label="median runtime")
    right.plot(said, planned, color=_colour(name), lw=1, ls=(0, (2, 2)), label="p90 given")
    ends = [min(said.min(), low.min()), max(said.max(), planned.max())]
    right.plot(ends, ends, color=_INK, lw=0.7, ls=(0, (4, 3)))
    right.set(
        title=f"{name}: what ran where it said so", xscale="log", yscale="log", xlabel="p50 given at submission", ylabel="runtime"
    )
    for axis in (right.xaxis, right.yaxis):
        _durations(axis, ends)
    right.legend(fontsize=8, loc="upper left")
    return figure


def draw_slices(judged: Judged) -> Figure:
    """Error factor of each predictor on each slice that has jobs."""
    kinds_of_job = [one for one in judged.slices if not is_of_somebody(one.name)]
    shown = [one for one in kinds_of_job if one.rows.sum() >= _FEWEST] or [one for one in kinds_of_job if one.rows.any()]
    figure, axes = _one((8.6, 1.5 + 0.34 * len(shown)))
    for height, one in enumerate(reversed(shown)):
        values = [judged.scores[name][one.name]["error_factor"] for name in judged.done.forecasts]
        known = [value for value in values if value is not None]
        if known:
            axes.plot([min(known), max(known)], [height, height], color=_FAINT, lw=1, zorder=1)
    for name in judged.done.forecasts:
        factors = [judged.scores[name][one.name]["error_factor"] or np.nan for one in reversed(shown)]
        _dots(axes, name, factors, size=52 if name in models_of(judged.done.forecasts) else 30)
    axes.set_yticks(range(len(shown)), [f"{_name(one.name)}  ({int(one.rows.sum()):,})" for one in reversed(shown)])
    axes.set(xscale="log", xlabel="error factor (1 is perfect)", ylim=(-0.6, len(shown) - 0.4))
    _times(axes.xaxis)
    _legend(axes)
    return figure


def draw_importance(judged: Judged) -> Figure:
    """How many times larger each model's error factor is when a family of features is dealt out at random."""
    models = list(judged.importance)
    families = sorted(judged.importance[models[-1]], key=lambda family: judged.importance[models[-1]][family])
    figure, axes = _one((8.6, 1.4 + 0.36 * len(families)))
    for name in models:
        _dots(axes, name, [judged.importance[name].get(family, np.nan) for family in families])
    axes.axvline(1, color=_INK, lw=0.7, ls=(0, (4, 3)))
    axes.set_yticks(range(len(families)), [MEANINGS[family] for family in families])
    axes.set(xscale="log", xlabel="error factor without it, times that with it (1: not missed)", ylim=(-0.6, len(families) - 0.4))
    low, high = axes.get_xlim()
    axes.set_xlim(min(low, 0.95), max(high, 1.2))
    _times(axes.xaxis)
    _legend(axes)
    return figure


def draw_residual_by_week(judged: Judged) -> Figure:
    """Median of predicted over actual for each week of submission; the middle half of the last model as a band."""
    figure, axes = _one(_WIDE)
    weeks, starts = _weeks(judged)
    models = models_of(judged.done.forecasts)
    for name, forecast in judged.done.forecasts.items():
        if name == "request" and len(judged.done.forecasts) > 1:
            continue  # a limit is far above on purpose and would flatten the rest
        ratios = forecast.p50_s / judged.actual_s
        medians = [np.median(ratios[rows]) for rows in weeks]
        axes.plot(starts, medians, **_line(name), marker=_MARKERS.get(name, "o"), ms=4, label=name)
        if models and name == models[-1]:
            low, high = (np.array([np.quantile(ratios[rows], share) for rows in weeks]) for share in (0.25, 0.75))
            axes.fill_between(starts, low, high, color=_colour(name), alpha=0.1, lw=0)
    axes.axhline(1, color=_INK, lw=0.7, ls=(0, (4, 3)))
    axes.set(yscale="log", ylabel="predicted / actual, median", xlabel="week of submission")
    _times(axes.yaxis)
    _legend(axes)
    _dates(axes)
    return figure


def draw_p90_by_week(judged: Judged) -> Figure:
    """Share of jobs that ended within their p90, for each week of submission."""
    figure, axes = _one(_WIDE)
    weeks, starts = _weeks(judged)
    for name, forecast in judged.done.forecasts.items():
        covered = judged.actual_s <= forecast.p90_s
        shares = [covered[rows].mean() for rows in weeks]
        axes.plot(starts, shares, **_line(name), marker=_MARKERS.get(name, "o"), ms=4, label=name)
    axes.axhspan(0.85, 0.95, color="#059669", alpha=0.08, lw=0)
    axes.axhline(0.9, color="#059669", lw=0.9, ls=(0, (4, 3)))
    axes.set(ylim=(min(0.6, axes.get_ylim()[0]), 1.005), ylabel="ended within p90", xlabel="week of submission")
    _percent(axes, "y")
    _legend(axes)
    _dates(axes)
    return figure


def svg_text(figure: Figure) -> str:
    """Return the figure as SVG text without a date."""
    buffer = io.StringIO()
    FigureCanvasSVG(figure).print_svg(buffer, metadata={"Date": None, "Creator": None})  # type: ignore[no-untyped-call]
    return buffer.getvalue()


def _one(size: tuple[float, float]) -> tuple[Figure, Axes]:
    figure = Figure(figsize=size, layout="constrained")
    return figure, figure.subplots()


def _colour(name: str) -> str:
    return COLOURS.get(name, _INK)


def _line(name: str) -> dict[str, Any]:
    """Return how the predictor's line looks: models are thick."""
    width = 2.2 if find_predictor(name).is_model else 1.3
    return {"color": _colour(name), "lw": width, "ls": _DASHES.get(name, "solid"), "dash_capstyle": "butt"}


def _dots(axes: Axes, name: str, values: Sequence[float], size: float = 52) -> None:
    """Draw the predictor's value of each row, from the lowest row up, in its colour and with its marker."""
    marker = _MARKERS.get(name, "o")
    axes.scatter(values, range(len(values)), s=size, color=_colour(name), marker=marker, ec="white", lw=0.5, label=name, zorder=2)


def _legend(axes: Axes) -> None:
    """Name the predictors above the figure, where no line runs."""
    axes.legend(loc="lower center", bbox_to_anchor=(0.45, 1.0), ncols=8, fontsize=8, columnspacing=1.2, handlelength=2.6)


def _times(axis: Axis) -> None:
    """Label a logarithmic axis of factors as 2×, 5× and so on, as closely as fits."""
    low, high = axis.get_view_interval()
    steps = (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8) if high / low < 3 else (1, 1.5, 2, 3, 5, 7) if high / low < 30 else (1, 3)
    axis.set_major_locator(LogLocator(subs=steps, numticks=12))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}×"))
    axis.set_minor_locator(NullLocator())


def _models_and_best(judged: Judged) -> list[str]:
    """Return what the figure must show whole: the models, and the baseline with the smallest median error."""
    baselines = [name for name in judged.done.forecasts if find_predictor(name).is_baseline] or list(judged.done.forecasts)
    best = BY_NAME["mdape"].better.best({name: _all(judged, name, "mdape") for name in baselines})
    return [*models_of(judged.done.forecasts), best or baselines[0]]


def _all(judged: Judged, name: str, metric: str) -> float | None:
    return judged.scores[name]["all"][metric]


def _percent(axes: Axes, which: str) -> None:
    for one in which:
        (axes.xaxis if one == "x" else axes.yaxis).set_major_formatter(PercentFormatter(1, decimals=0, symbol=" %"))


def tenths(values: Floats, count: int = 10) -> list[tuple[float, NDArray[np.intp]]]:
    """Return up to `count` groups of equal size by rising value as (mean position in 0..1, rows); equal values stay together."""
    order = np.argsort(values, kind="stable")
    ends = np.append(np.flatnonzero(np.diff(values[order])) + 1, len(order))
    wanted = np.linspace(len(order) / count, len(order), count)
    cuts = np.unique(ends[np.minimum(np.searchsorted(ends, wanted - 0.5), len(ends) - 1)])
    return [((start + stop) / 2 / len(order), order[start:stop]) for start, stop in zip([0, *cuts[:-1]], cuts, strict=True)]


def _weeks(judged: Judged) -> tuple[list[NDArray[np.intp]], Floats]:
    """Return the test jobs of each week with enough of them (all as one where none has), and the week's middle as a date number."""
    submit_us = judged.matrix.submit_us[judged.done.rows]
    first_us = int(submit_us[0])
    week = week_of(submit_us, first_us)
    rows = {int(one): np.flatnonzero(week == one) for one in np.unique(week)}
    enough = {one: of for one, of in rows.items() if len(of) >= _FEWEST} or {0: np.arange(len(week))}
    middles = [datetime.fromtimestamp((first_us + (one + 0.5) * WEEK_US) / 1e6, UTC) for one in enough]
    return list(enough.values()), np.asarray(date2num(middles), np.float64)  # type: ignore[no-untyped-call]


def _dates(axes: Axes) -> None:
    locator = AutoDateLocator(minticks=2, maxticks=8)  # type: ignore[no-untyped-call]
    axes.xaxis_date()
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]


def _durations(axis: object, ends: list[float]) -> None:
    """Label a logarithmic axis of seconds by the durations people use."""
    marks: dict[float, str] = {
        1: "1 s",
        10: "10 s",
        60: "1 min",
        600: "10 min",
        3600: "1 h",
        21_600: "6 h",
        86_400: "1 d",
        604_800: "7 d",
        2_592_000: "30 d",
    }
    shown = {at: text for at, text in marks.items() if ends[0] / 1.5 <= at <= ends[1] * 1.5} or {ends[0]: f"{ends[0]:.0f} s"}
    axis.set_ticks(list(shown), list(shown.values()))  # type: ignore[attr-defined]
    axis.set_ticks([], minor=True)  # type: ignore[attr-defined]


def _name(text: str, longest: int = 28) -> str:
    """Return a name from the log as a label: one line, no longer than fits, and only letters that the font has."""
    drawn = "".join(one if " " <= one <= "ÿ" and one.isprintable() else "·" for one in text)
    return drawn if len(drawn) <= longest else drawn[: longest - 1] + "…"
