"""Numbers of terminal and page: one unit and the same decimals for a column, and the ends of intervals."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from itertools import compress
from typing import Any, TypeVar

import msgspec

from benchwright.core.quantity import finite
from benchwright.core.results import Estimate, Finding, Summary
from benchwright.core.scale import Scale as Scale
from benchwright.core.scale import alike as alike
from benchwright.core.scale import scale_of as scale_of
from benchwright.core.text import ABSENT, percent_text
from benchwright.core.untrusted import visible
from benchwright.report.answer import FindingGroup
from benchwright.views.blocks import Cell, Column, FindingLine, Number, TableBlock, Tone

_LABELS = {"rss_bytes": "Peak memory"}


def label_of(name: str, label: str) -> str:
    """Return the label of a quantity on the page: words where the table has the metric's name."""
    return _LABELS.get(name, label)


def number_of(
    key: str,
    value: float | None,
    scale: Scale,
    *,
    link: str = "",
    tone: Tone = "plain",
    unit: bool = True,
) -> Number:
    """Return a number without an interval, `never` if it is infinite; `unit` is False where the
    heading has the unit."""
    known = None if value is None else finite(value)
    text = "never" if value == math.inf else scale.text(value, unit=unit)
    return Number(key=key, value=known, text=text, link=link, tone=tone)


def estimate_number(
    key: str,
    estimate: Estimate | None,
    scale: Scale | None = None,
    *,
    link: str = "",
    tone: Tone = "plain",
    unit: bool = True,
) -> Number:
    """Return an estimate with its interval; an absent one is `-`. `unit` as in `number_of`."""
    if estimate is None:
        return Number(key=key, value=None, text=ABSENT, link=link, tone=tone)
    scale = scale or scale_of(
        [estimate.value, estimate.high], estimate.unit, ends=[estimate.low, estimate.high]
    )
    plain = number_of(key, estimate.value, scale, link=link, tone=tone, unit=unit)
    if math.isnan(estimate.low) and math.isnan(estimate.high):
        return plain
    return msgspec.structs.replace(
        plain,
        low=finite(estimate.low),
        high=finite(estimate.high),
        low_text=scale.text(estimate.low, unit=False),
        high_text=scale.text(estimate.high, unit=unit),
        confidence=estimate.confidence,
    )


def mean_of(summary: Summary) -> Estimate:
    """Return the mean of a quantity with its interval."""
    return Estimate(
        summary.mean,
        summary.low,
        summary.high,
        summary.confidence,
        "student-t",
        summary.count,
        summary.unit,
    )


def share_number(
    key: str, share: float | None, scale: Scale | None = None, *, link: str = ""
) -> Number:
    """Return a share, where 1 is all, in per cent; `scale`: of shares that stand together."""
    known = None if share is None else finite(share)
    text = percent_text(share)
    if scale is not None:
        text = scale.text(None if known is None else 100 * known)
    return Number(key=key, value=known, text=text, link=link)


def count_number(key: str, count: int, *, link: str = "") -> Number:
    """Return a count."""
    return Number(key=key, value=float(count), text=f"{count:,}", link=link)


def heading(text: str) -> str:
    """Return a text with a capital letter, unless it is a short name: `n` and `N` may differ."""
    return text if len(text) < 3 else f"{text[:1].upper()}{text[1:]}"


def as_sentence(text: str) -> str:
    """Return a text as a sentence of the page: with a capital letter and a full stop."""
    return f"{text[:1].upper()}{text[1:].removesuffix('.')}."


# -- Tables -----------------------------------------------------------------------------

Item = TypeVar("Item")


def table_of(
    identifier: str,
    title: str,
    items: Iterable[tuple[str, Item]],
    columns: Sequence[tuple[Column, Callable[[str, Item], Cell]]],
    *,
    note: str = "",
    folded: bool = False,
) -> TableBlock:
    """Return a table with a row for each item.

    Each column has a function that makes its cell from the key of the row, which begins the keys
    of the row's numbers, and from the item. A column without any text is left out.
    """
    rows = [[cell(key, one) for _, cell in columns] for key, one in items]
    filled = [not rows or any(row[at].text for row in rows) for at in range(len(columns))]
    return TableBlock(
        id=identifier,
        title=title,
        columns=tuple(compress((column for column, _ in columns), filled)),
        rows=tuple(tuple(compress(row, filled)) for row in rows),
        note=note,
        folded=folded,
    )


def keyed(prefix: str, items: Iterable[Item]) -> list[tuple[str, Item]]:
    """Return items with the keys PREFIX1, PREFIX2, ..."""
    return [(f"{prefix}{at}", one) for at, one in enumerate(items, 1)]


def count_column(
    title: str,
    name: str,
    count: Callable[[Any], int],
    explanation: str = "",
    *,
    link: Callable[[Any], str] = lambda _: "",
    rank: int = 0,
) -> tuple[Column, Callable[[str, Any], Cell]]:
    """Return a column of counts for `table_of`; `name` ends the keys of its numbers."""
    return (
        Column(title, explanation, numeric=True, rank=rank),
        lambda key, one: count_number(f"{key}.{name}", count(one), link=link(one)),
    )


# -- Findings ---------------------------------------------------------------------------


def finding_lines(
    groups: Sequence[FindingGroup], named: Iterable[tuple[str, Finding]]
) -> tuple[FindingLine, ...]:
    """Return a line for each group, with the evidence of each of its findings."""
    by_code: dict[str, list[str]] = {}
    for name, finding in named:
        head = f"{name}: " if name else ""
        by_code.setdefault(finding.code, []).append(f"{head}{finding.evidence}")
    return tuple(
        FindingLine(
            group.code,
            group.severity,
            tuple(map(visible, group.tests)),
            visible(group.sentence if len(group.tests) > 1 else group.evidence),
            visible(group.remedy),
            tuple(map(visible, by_code[group.code]))
            if len(by_code.get(group.code, ())) > 1
            else (),
        )
        for group in groups
    )
