"""Numbers as people read them: in pages, cards and sentences."""

from runcast.evaluation.metrics import Metric


def percent(value: float | None, decimals: int | None = None) -> str:
    """Return a share as people read it: one decimal below 100 %, none above."""
    if value is None:
        return "–"
    digits = decimals if decimals is not None else (1 if abs(value) < 1 else 0)
    return _minus(f"{100 * value:,.{digits}f}") + " %"


def format_number(value: float | None) -> str:
    if value is None:
        return "–"
    return _minus(f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}")


def format_metric(value: float | None, metric: Metric) -> str:
    """Return a metric's value in its own style; a dash where there is none."""
    if value is None:
        return "–"
    if metric.style == "percent":
        return percent(value)
    return _minus(f"{value:,.2f}") + ("×" if metric.style == "factor" else "")


def _minus(number: str) -> str:
    """Return the number with a minus sign for a hyphen, and none before a zero."""
    return number.removeprefix("-") if not number.strip("-0.,") else number.replace("-", "−")
