"""The studies' pictures, from what was found in each log: equal findings give equal bytes."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter, PercentFormatter

from runcast.evaluation.figures import COLOURS, style, svg_text
from runcast.evaluation.metrics import Floats

Findings = Mapping[str, Mapping[str, Any]]

_INK, _NOTHING = "#1f2937", "#f3f4f6"
_WORTH = LinearSegmentedColormap.from_list("worth", ["#b45309", "#fde8cf", "#ffffff", "#cdeee0", "#047857"])
_ALONE = LinearSegmentedColormap.from_list("alone", ["#ffffff", "#bfd7fb", "#1d4ed8"])
_CADENCE_COLOURS = {"once": "#8a93a3", "weekly": "#2563eb", "nightly": "#059669"}
_WAY_COLOURS = {
    "yardstick, other seeds": "#b8bec9",
    "ended jobs": "#059669",
    "last days held back": "#d97706",
    "ended jobs, weighted": "#2563eb",
}
#: A family that is worth so much or more has the darkest green.
_MOST_WORTH = 0.3


def draw_ablation(found: Findings, families: Sequence[str]) -> str:
    """Two heat tables, logs by families: what leaving a family out costs, and how far it gets with nothing else."""
    logs = list(found)
    cost, alone = np.full((len(logs), len(families)), np.nan), np.full((len(logs), len(families)), np.nan)
    sure = np.zeros(cost.shape, bool)
    for row, log in enumerate(logs):
        one = found[log]
        most, least = (np.log(one[end]["error_factor"]) for end in ("nothing", "everything"))
        for column, family in enumerate(families):
            if family in one["families"]:
                told = one["families"][family]
                cost[row, column] = told["worth"]["times"] - 1
                low, high = told["worth"]["low"], told["worth"]["high"]
                sure[row, column] = low is not None and (low > 1 or high < 1)
                alone[row, column] = (most - np.log(told["alone"]["error_factor"])) / (most - least)
    with style():
        figure = Figure(figsize=(11.2, 1.4 + 0.36 * len(logs)), layout="constrained")
        left, right = figure.subplots(1, 2, sharey=True)
        _heat(left, cost / _MOST_WORTH / 2 + 0.5, [_signed(one) for one in cost.flat], _WORTH, sure)
        _heat(
            right,
            alone,
            ["" if np.isnan(one) else f"{round(100 * one)} %" for one in alone.flat],
            _ALONE,
            np.zeros(cost.shape, bool),
        )
        left.set_title("left out: the error factor grows by")
        right.set_title("alone: share of what all together gain")
        for axes in (left, right):
            axes.set_xticks(range(len(families)), families, rotation=35, ha="right", rotation_mode="anchor")
            axes.set_yticks(range(len(logs)), logs)
        return _compact(figure)


def draw_cadence(found: Findings) -> str:
    """One panel per log: error factor by window, a line for each cadence."""
    with style():
        figure = Figure(figsize=(3.6 * len(found), 3.3), layout="constrained")
        for axes, (log, one) in zip(np.atleast_1d(figure.subplots(1, len(found))), found.items(), strict=True):
            for cadence, colour in _CADENCE_COLOURS.items():
                rows = [row for row in one["rows"] if row["cadence"] == cadence]
                axes.plot([row["error_factor"] for row in rows], color=colour, marker="o", ms=4, lw=1.8, label=cadence)
            windows = [row["window_days"] for row in one["rows"] if row["cadence"] == "once"]
            axes.set_xticks(range(len(windows)), ["all" if days is None else f"{days:.0f} d" for days in windows])
            axes.set(title=log, xlabel="learned from the latest", yscale="log")
            _factors(axes)
            axes.legend(fontsize=8)
        figure.supylabel("error factor", fontsize=9.5)
        return _compact(figure)


def draw_censoring(found: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    """One panel per log and window: by class of runtime, how far each way answers from one that knows how running jobs end."""
    panels = [(log, one) for log, probes in found.items() for one in probes]
    across = max(len(probes) for probes in found.values())
    with style():
        figure = Figure(figsize=(4.6 * across, 2.4 * len(found) + 0.6), layout="constrained")
        every = np.atleast_1d(figure.subplots(len(found), across, sharey=True)).flatten()
        for axes, (log, one) in zip(every, panels, strict=True):
            names = list(one["classes"])
            for turn, (way, colour) in enumerate(_WAY_COLOURS.items()):
                told = [one["ways"][way]["against_yardstick"][name] for name in names]
                at = np.arange(len(names)) + (turn - 1.5) * 0.16
                ends = [(t["log"], t["low"], t["high"]) for t in told]
                for x, (_, low, high) in zip(at, ends, strict=True):
                    if low is not None:
                        axes.plot([x, x], np.expm1([low, high]), color=colour, lw=1.4)
                axes.plot(at, [np.expm1(log_) for log_, _, _ in ends], "o", ms=4, color=colour, label=way)
            axes.axhline(0, color=_INK, lw=0.7)
            window = "everything" if one["window_days"] is None else f"latest {one['window_days']:.0f} days"
            axes.set_title(f"{log}, {window}")
            axes.set_xticks(range(len(names)), [f"{name}\n({one['classes'][name]:,})" for name in names], fontsize=7)
            axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:+.0%}"))
        every[0].legend(fontsize=7, loc="upper left")
        figure.supylabel("answers against the yardstick's", fontsize=9.5)
        return _compact(figure)


def draw_risk_coverages(found: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> str:
    """One small panel per log: MdAPE of the surest share of jobs, a line for each predictor; Table 2's 8.9 % dashed."""
    with style():
        figure, panels = _small(list(found), "share of jobs, surest first", "median error of these jobs")
        for axes, one in zip(panels, found.values(), strict=True):
            for name, told in one.items():
                shares, errors = told["curve"]
                mark = "o" if len(shares) < 3 else None  # one confidence for all: there is no order to follow
                width = 2.0 if name == "runcast" else 1.2
                axes.plot(shares, errors, color=COLOURS.get(name, _INK), lw=width, marker=mark, ms=4, label=name)
            axes.axhline(0.089, color="#9f1239", lw=0.8, ls=(0, (4, 3)))
            top = max(told["curve"][1][-1] for told in one.values())
            axes.set(xlim=(0, 1), ylim=(0, min(1.0, max(0.25, 1.1 * top))))
            _percents(axes, "xy")
        _legend(figure, panels)
        return _compact(figure)


def draw_calibrations(found: Findings) -> str:
    """One small panel per log: of groups of jobs by rising confidence the share that was right; the diagonal is honest."""
    with style():
        figure, panels = _small(list(found), "confidence given", "share within 25 %")
        for axes, one in zip(panels, found.values(), strict=True):
            said, right, _ = zip(*one["calibration"], strict=True)
            axes.plot([0, 1], [0, 1], color=_INK, lw=0.7, ls=(0, (4, 3)))
            axes.plot(said, right, color=COLOURS["runcast"], marker="o", ms=3.5, lw=1.6)
            axes.set(xlim=(0, 1), ylim=(0, 1))
            _percents(axes, "xy")
        return _compact(figure)


def draw_p90_weeks(found: Findings) -> str:
    """One small panel per log: the share of jobs that ended within their p90, week by week; the band is 85-95 %."""
    with style():
        figure, panels = _small(list(found), "weeks after the models were trained", "ended within p90")
        for axes, one in zip(panels, found.values(), strict=True):
            axes.axhspan(0.85, 0.95, color="#059669", alpha=0.1, lw=0)
            axes.axhline(0.9, color="#059669", lw=0.8, ls=(0, (4, 3)))
            if one["weeks"]:
                at = [(begin_us - one["weeks"][0][0]) / 604_800e6 for begin_us, _ in one["weeks"]]
                shares = [share for _, share in one["weeks"]]
                axes.plot(at, shares, color=COLOURS["runcast"], marker="o", ms=2.5, lw=1.2)
                axes.set_ylim(min(0.6, *shares), 1.005)
            axes.xaxis.set_major_locator(MaxNLocator(4, integer=True))
            _percents(axes, "y")
        return _compact(figure)


#: Policies from the top of the figure down, in words.
_POLICIES = {
    "sjf": "SJF",
    "qssf": "QSSF",
    "easy": "EASY, p90",
    "easy_p50": "EASY, p50",
    "easy_sjbf": "EASY, p50, shortest first",
    "easy_p90_sjbf": "EASY, p90, shortest first",
}
_PLANS = {"oracle": "#111827", "limit": "#f59e0b"}


def draw_worth(found: Findings) -> str:
    """For each log mean completion (left) and bounded slowdown (right) of each policy and its plans, over those of today."""
    heights = {policy: height for height, policy in enumerate(reversed(_POLICIES))}
    planned = {row["plans"] for one in found.values() for row in one["policies"]}
    names = [name for name in (*_PLANS, *COLOURS) if name in planned]
    with style():
        figure = Figure(figsize=(9.2, 1.75 * len(found) + 0.9), layout="constrained")
        panels = figure.subplots(len(found), 2, sharey=True, squeeze=False)
        for (left, right), (log, one) in zip(panels, found.items(), strict=True):
            rows = one["policies"]
            today = next((row for row in rows if (row["policy"], row["plans"]) == ("easy", "limit")), rows[0])
            for axes, figure_of in ((left, "mean_completion_s"), (right, "mean_bounded_slowdown")):
                axes.hlines(range(len(heights)), 0, 1, transform=axes.get_yaxis_transform(), color="#eceff4", lw=0.8, zorder=0)
                for name in names:
                    drawn = [row for row in rows if row["plans"] == name and row["policy"] in heights]
                    over = [row[figure_of] / today[figure_of] for row in drawn]
                    at = [heights[row["policy"]] for row in drawn]
                    axes.plot(over, at, "o", ms=5, color=_plan_colour(name), alpha=0.9)
                axes.axvline(1, color=_INK, lw=0.7, ls=(0, (4, 3)))
                axes.xaxis.set_major_locator(MaxNLocator(6))
                axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}×"))
                axes.tick_params(labelsize=7.5)
            left.set_yticks(range(len(_POLICIES)), list(reversed(_POLICIES.values())))
            left.set_title(f"{log}: mean completion", fontsize=9)
            right.set_title("mean bounded slowdown", fontsize=9)
        marks = [Line2D([], [], marker="o", ls="", color=_plan_colour(name), label=name) for name in names]
        figure.legend(handles=marks, loc="outside upper center", ncols=len(marks), fontsize=8)
        figure.supxlabel("over EASY with the users' limits (where there are none: FIFO)", fontsize=9)
        return _compact(figure)


def _plan_colour(name: str) -> str:
    return _PLANS.get(name) or COLOURS[name]


def _small(logs: Sequence[str], x: str, y: str) -> tuple[Figure, list[Axes]]:
    """Return a figure with a small titled panel for each log, and the panels."""
    across = min(5, len(logs))
    down = -(-len(logs) // across)
    figure = Figure(figsize=(2.15 * across + 0.4, 1.85 * down + 0.7), layout="constrained")
    every = np.atleast_1d(figure.subplots(down, across)).flatten()
    for axes in every[len(logs) :]:
        axes.set_visible(False)
    panels = list(every[: len(logs)])
    for axes, log in zip(panels, logs, strict=True):
        axes.set_title(log, fontsize=9)
        axes.tick_params(labelsize=7)
    figure.supxlabel(x, fontsize=9)
    figure.supylabel(y, fontsize=9)
    return figure, panels


def _legend(figure: Figure, panels: Sequence[Axes]) -> None:
    lines, names = panels[0].get_legend_handles_labels()
    figure.legend(lines, names, loc="outside upper center", ncols=len(names), fontsize=8)


def _percents(axes: Axes, which: str) -> None:
    for one in which:
        axis = axes.xaxis if one == "x" else axes.yaxis
        axis.set_major_locator(MaxNLocator(4))
        axis.set_major_formatter(PercentFormatter(1, decimals=0, symbol=" %"))


def _compact(figure: Figure) -> str:
    """Return the figure as SVG with what nobody sees left out: digits past a hundredth of a point, groups' names, indents.

    Scales keep their digits: a letter is drawn some thousand units tall.
    """
    text = re.sub(r'<g id="[^"]*"', "<g", svg_text(figure))
    text = re.sub(r"\n +", "\n", text)
    return re.sub(r"scale\([^)]*\)|\d+\.\d{3,}", lambda found: _hundredths(found[0]), text)


def _hundredths(number: str) -> str:
    return number if number.startswith("scale") else f"{float(number):.2f}".rstrip("0").rstrip(".")


def _heat(axes: Axes, shade: Floats, texts: Sequence[str], colours: LinearSegmentedColormap, bold: Any) -> None:
    """Draw a table of coloured cells with texts; NaN cells are grey and empty."""
    rows, columns = shade.shape
    picture = colours(np.clip(np.nan_to_num(shade), 0, 1))
    picture[np.isnan(shade)] = [int(_NOTHING[at : at + 2], 16) / 255 for at in (1, 3, 5)] + [1.0]
    axes.imshow(picture, aspect="auto", interpolation="nearest")
    for at, text in enumerate(texts):
        row, column = divmod(at, columns)
        red, green, blue = picture[row, column, :3]
        is_dark = 0.299 * red + 0.587 * green + 0.114 * blue < 0.55
        axes.text(
            column, row, text, ha="center", va="center", fontsize=7.5,
            color="white" if is_dark else _INK, fontweight="bold" if bold[row, column] else "normal",
        )  # fmt: skip
    axes.set_xticks(np.arange(columns + 1) - 0.5, minor=True)
    axes.set_yticks(np.arange(rows + 1) - 0.5, minor=True)
    axes.grid(which="major", visible=False)
    axes.grid(which="minor", color="white", lw=1.2)
    axes.tick_params(which="both", length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)


def _signed(share: float) -> str:
    if np.isnan(share):
        return ""
    return "0" if abs(share) < 0.0005 else f"{share:+.1%}".replace("%", " %")


def _factors(axes: Axes) -> None:
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 1.5, 2, 3, 5, 7), numticks=12))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}×"))
    axes.yaxis.set_minor_formatter(NullFormatter())
