"""The words of a load's figures: what a criterion limits, its values with their units.

Here and not in a report, because the end of a search tells them too.
"""

from __future__ import annotations

import math

from benchwright.core.search import Criterion

ABSENT = "-"


def name_of(criterion: Criterion) -> str:
    """Return what a criterion limits, as a person says it: `p99 response`."""
    if criterion.statistic == "mean":
        return "mean response"
    if criterion.statistic == "percentile" and criterion.share is not None:
        return f"p{100 * criterion.share:.10g} response"
    if criterion.statistic == "ratio":
        return "errors"
    if criterion.statistic == "share":
        return criterion.key.removesuffix("_share").replace("_", " ")
    return criterion.key


def value_text(criterion: Criterion, value: float | None) -> str:
    """Return a criterion's value with its unit; `-` where it is not known."""
    if value is None or math.isnan(value):
        return ABSENT
    if criterion.statistic in ("share", "ratio"):
        return percent_text(value)
    if math.isinf(value):
        return "beyond all that was waited for"
    return f"{number_text(value, 4)} {criterion.unit}".rstrip()


def limit_text(criterion: Criterion) -> str:
    """Return which values a criterion allows: `< 40 ms`."""
    limit = "0" if criterion.limit == 0 else value_text(criterion, criterion.limit)
    return f"{'<' if criterion.better == 'lower' else '>'} {limit}"


def number_text(value: float, digits: int = 5) -> str:
    """Return a number with up to five digits, thousands apart and without an exponent
    as long as that can be read."""
    if not math.isfinite(value):
        return str(value)
    rounded = float(f"{value:.{digits}g}")
    if rounded == 0 or 1e-4 <= abs(rounded) < 1e12:
        size = math.floor(math.log10(abs(rounded))) if rounded else digits
        decimals = max(0, digits - 1 - size)
        text = f"{rounded:,.{decimals}f}"
        return text.rstrip("0").rstrip(".") if "." in text else text
    return f"{rounded:g}"


def percent_text(share: float) -> str:
    """Return a share in per cent with three digits: `97.3 %`."""
    return f"{100 * share:.3g} %"
