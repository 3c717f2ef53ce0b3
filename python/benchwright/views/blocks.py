"""What a result shows, as data: the blocks from which every output is made.

Purpose: one structure for terminal, page, live view and JSON, so that a number cannot differ between
them. A section has blocks: prose, tables, pictures, downloads. Decision: a small set of blocks that
are composed, so that a new kind of result needs no new template. Each number has a key that is
unique in its document; the page repeats it beside the number. Non-goal: colours and layout, which
are the renderers' (`terminal.py`, page/html.py).
"""

from __future__ import annotations

from typing import Literal

import msgspec

from benchwright.core.results import Severity
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
