"""Numbers as people read them: in pages, cards and sentences."""

from collections.abc import Mapping
from typing import Any

from runcast.evaluation.metrics import Metric, finite


def finite_only(document: Any) -> Any:
    """Return a document of mappings, sequences and plain values with None for every number that is not finite."""
    if isinstance(document, Mapping):
        return {name: finite_only(value) for name, value in document.items()}
    if isinstance(document, list | tuple):
        return [finite_only(value) for value in document]
    return finite(document) if isinstance(document, float) else document


def percent(value: float | None, decimals: int | None = None) -> str:
    """Return a share as people read it: one decimal below 100 %, none above; a dash where there is none."""
    if (value := finite(value)) is None:
        return "–"
    digits = decimals if decimals is not None else (1 if abs(value) < 1 else 0)
    return _minus(f"{100 * value:,.{digits}f}") + " %"


def format_number(value: float | None) -> str:
    if (value := finite(value)) is None:
        return "–"
    return _minus(f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}")


def format_metric(value: float | None, metric: Metric) -> str:
    """Return a metric's value in its own style; a dash where there is none."""
    if (value := finite(value)) is None:
        return "–"
    if metric.style == "percent":
        return percent(value)
    return _minus(f"{value:,.2f}") + ("×" if metric.style == "factor" else "")


def _minus(number: str) -> str:
    """Return the number with a minus sign for a hyphen, and none before a zero."""
    return number.removeprefix("-") if not number.strip("-0.,") else number.replace("-", "−")
