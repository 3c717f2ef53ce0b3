"""What a result shows, as data: the blocks from which every output is made, and its numbers, with
one unit and the same decimals for a column and the ends of intervals.

Purpose: one structure for terminal, page, live view and JSON, so that a number cannot differ between
them. A section has blocks: prose, tables, pictures, downloads. Decision: a small set of blocks that
are composed, so that a new kind of result needs no new template. Each number has a key that is
unique in its document; the page repeats it beside the number. Non-goal: colours and layout, which
are the renderers' (`terminal.py`, page/html.py).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from itertools import compress
from typing import Any, Literal, TypeVar

import msgspec

from benchwright.core.quantity import finite
from benchwright.core.results import Estimate, Finding, Severity, Summary
from benchwright.core.text import ABSENT, percent_text
from benchwright.core.text import Scale as Scale
from benchwright.core.text import alike as alike
from benchwright.core.text import scale_of as scale_of
from benchwright.core.untrusted import visible
from benchwright.report.answer import FindingGroup
from benchwright.report.charts.sheet import Sheet

Tone = Literal["good", "doubtful", "bad", "plain"]
"""How a sentence is marked: an answer, an answer with doubts or none, a failure, neither."""


class Words(msgspec.Struct, frozen=True, omit_defaults=True, tag="words"):
    """A cell with text."""

    text: str
    link: str = ""
    """The id of an element of the page."""
    tone: Tone = "plain"
    code: bool = False
    """Whether it is a command, a path or a name from a program."""


class Number(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="number"):
    """A number with its interval, and where its trials are."""

    key: str
    """Unique in the document, such as `p1.t2.elapsed.mean`."""
    value: float | None
    """null for a number that is absent or not finite."""
    text: str
    """The value as it is shown, with its unit."""
    low: float | None = None
    high: float | None = None
    low_text: str = ""
    """The ends of the interval as they are shown; empty without an interval."""
    high_text: str = ""
    confidence: float | None = None
    link: str = ""
    """The id of the table with its trials."""
    tone: Tone = "plain"


Cell = Words | Number


PAGE_ONLY = -1
"""The rank of intervals that are only on the page, because another column has their width."""


class Column(msgspec.Struct, frozen=True, omit_defaults=True):
    """The heading of a column."""

    label: str
    note: str = ""
    """What the column contains, if the label alone is not clear."""
    numeric: bool = False
    short: str = ""
    """The heading where space is short, as on a terminal; empty means the label."""
    rank: int = 0
    """Where a table is too wide, columns with the highest rank are left out first, those of 0
    never."""
    interval_rank: int = 0
    """The rank of the ends of its intervals; 0: that of the column, PAGE_ONLY: not on a terminal."""


class Prose(msgspec.Struct, frozen=True, omit_defaults=True, tag="prose"):
    """A paragraph."""

    text: str
    tone: Tone = "plain"


class Lines(msgspec.Struct, frozen=True, omit_defaults=True, tag="lines"):
    """Lines that a program wrote or a person typed, in a box of their own."""

    title: str
    lines: tuple[str, ...]


class TableBlock(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="table"):
    """A table; with `folded`, the page shows its title until a reader opens it."""

    id: str
    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    note: str = ""
    folded: bool = False


class LongSeries(msgspec.Struct, frozen=True, kw_only=True):
    """Series that are too long for a drawing, which the page shows with zoom and cursor.

    The x of a value is `start` + `step` times its index; a null is a gap.
    """

    start: float
    step: float
    x_label: str
    y_label: str
    labels: tuple[str, ...]
    series: tuple[tuple[float | None, ...], ...]


class Picture(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="picture"):
    """A chart, and one sentence on how to read it."""

    id: str
    title: str
    sheet: Sheet
    reading: str
    """How to read this; empty where an earlier picture of the same kind says it."""
    wide: bool = False
    """Whether it is as wide as a line of text, for many values in the order of time."""
    long: LongSeries | None = None
    brief: bool = False
    """Whether its points have no texts of their own, because the page has many charts."""


class Flame(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="flame"):
    """A profile: the page shows its flame graph, and offers the stacks as a file."""

    id: str
    title: str
    reading: str
    stacks: tuple[tuple[str, int], ...]
    """Collapsed stacks, `frame;frame;frame`, and their samples."""


class Download(msgspec.Struct, frozen=True):
    """A file that the page contains."""

    name: str
    media_type: str
    text: str
    what: str
    """What it contains, in a few words."""


class Downloads(msgspec.Struct, frozen=True, omit_defaults=True, tag="downloads"):
    """Files to store."""

    files: tuple[Download, ...]


class FindingLine(msgspec.Struct, frozen=True, omit_defaults=True):
    """All findings with one code."""

    code: str
    severity: Severity
    tests: tuple[str, ...]
    evidence: str
    """Of the only one, or the range of the figures of all."""
    remedy: str = ""
    each: tuple[str, ...] = ()
    """The evidence of each, with its subject, if there are several."""


class Findings(msgspec.Struct, frozen=True, tag="findings"):
    """Findings, one line for each code."""

    lines: tuple[FindingLine, ...]


class Group(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="group"):
    """Blocks about one test or one sample, under a heading of their own."""

    id: str
    title: str
    blocks: tuple[Block, ...]
    sentence: str = ""
    tone: Tone = "plain"
    folded: bool = False


Block = Prose | Lines | TableBlock | Picture | Flame | Downloads | Findings | Group


class Section(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One part of the page with a heading."""

    id: str
    title: str
    blocks: tuple[Block, ...]
    lead: str = ""
    """The sentence under the heading."""


class Tile(msgspec.Struct, frozen=True):
    """A number that answers the question, shown large."""

    label: str
    number: Number
    note: str = ""


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
