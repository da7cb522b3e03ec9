"""The measured sections of docs/studies.md: what stands between two marks is written anew, the prose around it is a person's."""

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from runcast.evaluation.errors import PageWithoutMarks

Findings = Mapping[str, Mapping[str, Any]]


def replace_section(text: str, name: str, body: str) -> str:
    """Return the page with `body` between the marks of `name`; raises PageWithoutMarks where they are not there once."""
    begin, end = f"<!-- measured: {name} -->", f"<!-- end: {name} -->"
    if text.count(begin) != 1 or text.count(end) != 1 or text.index(begin) > text.index(end):
        raise PageWithoutMarks(f"expected one line {begin!r} and after it one line {end!r} to write the figures between")
    before, rest = text.split(begin)
    after = rest.split(end)[1]
    return f"{before}{begin}\n{body.strip()}\n{end}{after}"


def measured_by(command: str, asked: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the command, and of each log the seed, and what the figures are of: features and data, or predictions of a replay."""
    seeds = sorted({str(one["training"]["seed"]) for one in asked.values()})
    told = f"`{command}`; seed {', '.join(seeds)}; "
    replays = {log: one["study"]["predictions"] for log, one in asked.items() if "predictions" in one["study"]}
    if replays:
        return told + "predictions (SHA-256, its first digits): " + _digits(replays) + "."
    versions = sorted({str(one["features"]) for one in asked.values()})
    data = _digits({log: one["data"] for log, one in asked.items()})
    return f"{told}features `{', '.join(versions)}`; data (SHA-256 of the lake's jobs, its first digits): {data}."


def _digits(hashes: Mapping[str, str]) -> str:
    return ", ".join(f"{log} `{one[:12]}`" for log, one in hashes.items())


def ablation_section(found: Findings) -> str:
    lines = [
        "![What each feature family is worth, log by log](figures/ablation.svg)",
        "",
        "| log | family | features | without it: MdAPE | within 25 % | error factor | times worse (95 %) "
        "| alone: MdAPE | within 25 % | error factor |",
        "|---|---|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for log, one in found.items():
        lines.append(f"| **{log}** | everything | | {_three(one['everything'])} | | nothing: {_three(one['nothing'])} |")
        lines += [
            f"| | {family} | {told['features']} | {_three(told['left_out'])} | {_times(told['worth'])} | {_three(told['alone'])} |"
            for family, told in one["families"].items()
        ]
    return "\n".join(lines)


def cadence_section(found: Findings) -> str:
    lines = [
        "![Error factor by window and cadence](figures/cadence.svg)",
        "",
        "| log | learned from | cadence | MdAPE | within 25 % | error factor | times that of all, nightly (95 %) "
        "| jobs | processor s a training | a week |",
        "|---|---|---|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for log, one in found.items():
        weeks = ", ".join(_day(begin_us) for begin_us in one["weeks"])
        first = f"**{log}**, {one['asked']:,} jobs of the weeks from {weeks}"
        for row in one["rows"]:
            window = "all" if row["window_days"] is None else f"{row['window_days']:.0f} days"
            week_s = {"once": "–", "weekly": f"{row['processor_s']:.0f}", "nightly": f"{7 * row['processor_s']:.0f}"}[
                row["cadence"]
            ]
            lines.append(
                f"| {first} | {window} | {row['cadence']} | {_three(row)} | {_times(row['times'])} | {row['learned']:,} "
                f"| {row['processor_s']:.1f} | {week_s} |"
            )
            first = ""
    return "\n".join(lines)


def retraining_section(found: Findings) -> str:
    lines = [
        "| log | trained | MdAPE | within 25 % | error factor | times that of once (95 %) | coverage at 8.9 % | trainings "
        "| processor s a training |",
        "|---|---|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for log, one in found.items():
        first = f"**{log}**, {one['asked']:,} jobs of the weeks from {', '.join(_day(begin_us) for begin_us in one['weeks'])}"
        for row in one["rows"]:
            lines.append(
                f"| {first} | {row['way']} | {_three(row)} | {_times(row['times'])} | {row['coverage']:.3f} | {row['trainings']} "
                f"| {row['processor_s']:.0f} |"
            )
            first = ""
    return "\n".join(lines)


def censoring_section(found: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    lines = ["![Answers against those of a model that knows how running jobs end](figures/censoring.svg)"]
    for log, probes in found.items():
        for one in probes:
            window = "everything" if one["window_days"] is None else f"the latest {one['window_days']:.0f} days"
            names = list(one["classes"])
            lines += [
                "",
                f"**{log}**, cut on {_day(one['cut_us'])}, learned from {window}: {one['known']:,} ended jobs, {one['running']:,} "
                f"running or waiting, among them {one['running_share_of_last_day']:.0%} of those submitted in the last day; held back: "
                f"{one['horizon_days']:.1f} days; asked: {one['asked']:,} jobs of the week after.",
                "",
                "| learned from | jobs | MdAPE | within 25 % | error factor | " + " | ".join(names) + " |",
                "|---|--:|--:|--:|--:|" + "--:|" * len(names),
            ]
            for way, told in one["ways"].items():
                cells = " | ".join(_percent_off(told["against_yardstick"][name]) for name in names)
                lines.append(f"| {way} | {told['jobs']:,} | {_three(told)} | {cells} |")
    return "\n".join(lines)


def outside_section(found: Findings) -> str:
    lines = [
        "| log | jobs learned from | jobs asked | predictor | MdAPE | within 25 % | error factor | processor s |",
        "|---|--:|--:|---|--:|--:|--:|--:|",
    ]
    for log, one in found.items():
        first = f"**{log}** | {one['learned']:,} | {one['asked']:,}"
        for name, told in one["predictors"].items():
            shown = f"{name} {told['version']} ({told['best']})" if "best" in told else name
            lines.append(f"| {first} | {shown} | {_three(told)} | {told['processor_s']:.0f} |")
            first = "| |"
    return "\n".join(lines)


def worth_section(found: Findings) -> str:
    lines = ["![Mean completion and slowdown by policy and plans, over today's](figures/worth.svg)"]
    for log, one in found.items():
        dropped = ", ".join(f"{count:,} {why}" for why, count in one["dropped"].items() if count) or "none"
        lines += [
            "",
            f"**{log}**: {one['jobs']:,} jobs on {one['capacity']:,} {one['unit']}, load {_share(one['offered_load'])}, dropped: {dropped}",
            "",
            "| policy | plans | JCT | wait | bounded slowdown | of the oracle's gain "
            f"| JCT than today's (95 %) | slowdown than today's (95 %) | worst {one['payer'] or 'user'} loses | who lose |",
            "|---|---|--:|--:|--:|--:|--:|--:|--:|--:|",
        ]
        for row in one["policies"]:
            share, worst_s, losing = row["share_of_oracle_gain"], row["worst_loss_s"], row["losing_share"]
            than = row["than_today"]
            cells = (
                row["policy"],
                row["plans"] or "–",
                f"{row['mean_completion_s'] / 60:,.1f}",
                f"{row['mean_wait_s'] / 60:,.1f}",
                f"{row['mean_bounded_slowdown']:,.1f}",
                _share(share),
                _difference(than["completion_s"], 60),
                _difference(than["slowdown"], 1),
                "–" if worst_s is None else f"{worst_s / 60:,.0f} ({row['worst_jobs']:,} jobs)",
                _share(losing),
            )
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _share(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:,.1f} %"


def _difference(one: Mapping[str, float | None], unit: float) -> str:
    mean, low, high = one["mean"], one["low"], one["high"]
    if mean is None or (mean == 0 and low == high):
        return "–"
    if low is None or high is None:
        return f"{mean / unit:+,.1f}"
    shown = f"{mean / unit:+,.1f} ({low / unit:+,.1f} to {high / unit:+,.1f})"
    return f"**{shown}**" if low > 0 or high < 0 else shown


def _three(one: Mapping[str, float]) -> str:
    return f"{one['mdape']:.3f} | {one['within_25']:.3f} | {one['error_factor']:.3f}"


def _times(one: Mapping[str, Any]) -> str:
    if one["low"] is None:
        return f"{one['times']:.3f}"
    shown = f"{one['times']:.3f} ({one['low']:.3f}–{one['high']:.3f})"
    is_sure = one["low"] > 1 or one["high"] < 1
    return f"**{shown}**" if is_sure else shown


def _percent_off(one: Mapping[str, Any]) -> str:
    if one["low"] is None:
        return f"{math.expm1(one['log']):+.0%}"
    shown = f"{math.expm1(one['log']):+.0%} ({math.expm1(one['low']):+.0%} to {math.expm1(one['high']):+.0%})"
    return f"**{shown}**" if one["low"] > 0 or one["high"] < 0 else shown


def _day(time_us: int) -> str:
    return f"{datetime.fromtimestamp(time_us / 1e6, UTC):%Y-%m-%d}"
