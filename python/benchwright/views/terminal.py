"""Renders blocks as lines of a terminal.

A number with an interval becomes three columns, whose digits are compared along a row: the value and
the two ends. A unit that all numbers of a column have is in its heading. Decision: figures are
aligned at the right, words at the left, and a table that is wider than the terminal loses whole
columns, the least important first; so a row is never broken, but where its words may be wrapped.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Iterator, Sequence

import msgspec

from benchwright.core.results import Finding, Severity
from benchwright.core.text import more_text, plural
from benchwright.core.text_table import TextColumn, fitting, table_lines
from benchwright.core.untrusted import one_line
from benchwright.findings.codes import LISTED_CODES, WHOLE_CODES
from benchwright.report.answer import RANK, FindingGroup, concerned_text
from benchwright.views.blocks import PAGE_ONLY, Cell, Column, Number, TableBlock, Tone

Paint = Callable[[Severity, str], str]
"""Returns a text in the colour of a severity; the text itself where there are no colours."""

MOST_GROUPS = 10
MOST_LINES = 2
"""Of one group of findings."""
_SHORTEST_EVIDENCE = 12
"""With less room a line has only the code."""
_SHORTEST_LAST = 24
_SEVERITIES: dict[Tone, Severity] = {"bad": Severity.SERIOUS, "doubtful": Severity.WARNING}


def unpainted(_severity: Severity, text: str) -> str:
    """Return the text as it is."""
    return text


def table_text(
    table: TableBlock,
    width: int | None = None,
    paint: Paint = unpainted,
    *,
    wrap: bool = False,
    cut: bool = False,
) -> Iterator[str]:
    """Yield the lines of a table without its title; with `width`, in so many characters.

    A table without rows has no lines. The cells of the last column have the colour of their tone.
    Where even the columns of rank 0 are too wide, `wrap` breaks words into lines, and `cut` cuts
    the last column, which has a third of the width at least.
    """
    if not table.rows:
        return
    columns = [
        one
        for column, cells in zip(table.columns, zip(*table.rows, strict=True), strict=True)
        for one in _text_columns(column, cells)
    ]
    shown = [column for _, column in columns]
    if width is not None and cut:
        most = max(_SHORTEST_LAST, width // 3)
        last = shown[-1]
        short = msgspec.structs.replace(last, cells=tuple(cell[:most] for cell in last.cells))
        shown = [*fitting([*columns[:-1], (0, short)], width)[:-1], last]
    elif width is not None:
        shown = fitting(columns, width)
        shown = _wrapped_to(shown, width) if wrap else shown
    lines = table_lines(shown)
    if cut and width is not None:
        yield from (line if len(line) <= width else f"{line[: width - 3]}..." for line in lines)
    elif paint is unpainted or wrap:
        yield from lines
    else:
        yield next(lines)
        for line, row in zip(lines, table.rows, strict=True):
            yield _painted(line, row[-1], paint)


def table_rows(table: TableBlock) -> list[list[str]]:
    """Return the headings and the cells of a table as texts, with everything that a page shows;
    empty without rows."""
    columns = [
        text_column
        for column, cells in zip(table.columns, zip(*table.rows, strict=True), strict=False)
        for _, text_column in _text_columns(column, cells, intervals=True)
    ]
    if not columns:
        return []
    headings = [column.heading for column in columns]
    return [headings, *map(list, zip(*(column.cells for column in columns), strict=True))]


def _painted(line: str, cell: Cell, paint: Paint) -> str:
    severity = _SEVERITIES.get(cell.tone)
    if severity is None or not cell.text or not line.endswith(cell.text):
        return line
    return line.removesuffix(cell.text) + paint(severity, cell.text)


def _text_columns(
    column: Column, cells: Sequence[Cell], *, intervals: bool = False
) -> Iterator[tuple[int, TextColumn]]:
    """Yield the columns of text with their ranks; `intervals`: also those only for the page."""
    heading = column.short or f"{column.label[:1].lower()}{column.label[1:]}"
    numbers = [cell if isinstance(cell, Number) else None for cell in cells]
    unit = _common_unit([number.text for number in numbers if number])

    def without(text: str) -> str:
        return text.removesuffix(f" {unit}") if unit else text

    texts = tuple(without(cell.text) for cell in cells)
    yield column.rank, TextColumn(f"{heading} {unit}".rstrip(), texts, left=not column.numeric)
    shown = intervals or column.interval_rank != PAGE_ONLY
    if shown and any(number and number.low_text for number in numbers):
        rank = column.interval_rank or column.rank
        for name, ends in (
            ("low", [number.low_text if number else "" for number in numbers]),
            ("high", [number.high_text if number else "" for number in numbers]),
        ):
            yield rank, TextColumn(name, tuple(map(without, ends)))


_WITH_UNIT = re.compile(r"[-+]?[\d,.]+(?:e[-+]?\d+)? ([^\d\s]\S*|1/\S+)")
"""A number and one unit: `3.2 ms`, `120 1/s`; not `3 min 20 s`."""


def _common_unit(texts: Sequence[str]) -> str:
    """Return the unit of all these numbers, of which `-` and `never` have none; empty if it is not
    the same."""
    matches = [_WITH_UNIT.fullmatch(text) for text in texts if any(map(str.isdigit, text))]
    units = {match[1] if match else "" for match in matches}
    return units.pop() if len(units) == 1 else ""


def _wrapped_to(columns: Sequence[TextColumn], width: int) -> list[TextColumn]:
    """Return the columns with lines of words that fit into this width: what is wider than an equal
    share of the room has that share, but no word is broken, such as a path."""
    needed = [max(map(len, (column.heading, *column.cells))) for column in columns]
    words = [at for at, text_column in enumerate(columns) if text_column.left]
    fixed = sum(size for at, size in enumerate(needed) if at not in words)
    room = width - len("  ") * (len(columns) - 1) - fixed
    if sum(needed[at] for at in words) <= room:
        return list(columns)
    longest = {
        at: max(map(len, " ".join((columns[at].heading, *columns[at].cells)).split()))
        for at in words
    }
    equal = room // max(len(words), 1)
    words.sort(key=lambda at: (longest[at] <= equal, needed[at]))
    shown = list(columns)
    for left, at in zip(range(len(words), 0, -1), words, strict=True):
        share = max(min(needed[at], room // left), longest[at])
        shown[at] = msgspec.structs.replace(columns[at], width=share, wrap=True)
        room -= share
    return shown


# -- Findings --------------------------------------------------------------------------


def group_lines(
    groups: Sequence[FindingGroup],
    total: int,
    width: int,
    paint: Paint = unpainted,
    noun: str = "test",
) -> list[str]:
    """Return one line for each code, or two where one does not suffice; at most ten codes.

    `total` is the number of tests, or of whatever the `noun` says.
    """
    lines = []
    uncut = (*WHOLE_CODES, *LISTED_CODES)
    for group in groups[:MOST_GROUPS]:
        whom = f"{concerned_text(group.tests, total, noun)}: " if group.tests else ""
        if len(whom) > width // 2:
            some = f"{len(group.tests)} of {plural(total, noun)}: "
            whom = some if total > 1 else f"{whom[: width // 2 - 5].rstrip()}...: "
        severity, code = str(group.severity), f"[{group.code}]"
        sentence = one_line(group.sentence)
        most = max(len(sentence), _SHORTEST_EVIDENCE)
        for room in range(most, _SHORTEST_EVIDENCE - 1, -1):
            text = f"{whom}{severity}: {shortened(sentence, room)} {code}"
            shown = wrapped(text, width)
            if len(shown) <= MOST_LINES or group.code in uncut:
                break
        first, *rest = shown
        lines += [first.replace(f"{severity}:", f"{paint(group.severity, severity)}:", 1), *rest]
    if len(groups) > MOST_GROUPS:
        more = ", ".join(group.code for group in groups[MOST_GROUPS:])
        lines += wrapped(f"{more_text(len(groups) - MOST_GROUPS)}: {more}", width)
    return lines


def shortened(text: str, room: int) -> str:
    """Return a text of at most `room` characters: a quoted command is cut first, because what is
    said of it stands behind it; then the text, after a clause that nearly fills it, else after a
    word, with `...`; never within brackets."""
    for quoted in _QUOTED.findall(text):
        if (excess := len(text) - room) > 0:
            kept = max(len(quoted) - excess - len("..."), _SHORTEST_QUOTED)
            text = text.replace(f"`{quoted}`", f"`{quoted[:kept].rstrip()}...`", 1)
    if len(text) <= room:
        return text
    ends = (match.start() for match in _CLAUSE_END.finditer(text) if match[1])
    closed = (end for end in ends if end <= room and _is_closed(text[:end]))
    end = max(closed, default=0)
    if end >= 2 * room // 3:
        return text[:end]
    cut = textwrap.shorten(text, room, placeholder=" ...")
    while not _is_closed(cut) and " (" in cut:
        cut = f"{cut.rpartition(' (')[0]} ..."
    return cut


def _is_closed(text: str) -> bool:
    return text.count("(") <= text.count(")")


_SHORTEST_QUOTED = 20
_QUOTED = re.compile(rf"`([^`]{{{_SHORTEST_QUOTED + 4},}})`")
"""A quoted command that can be cut."""
_CLAUSE_END = re.compile(r"`[^`]*`|([,:;] )")
"""A quoted command, or the end of a clause outside one."""


def finding_paragraphs(
    named: Sequence[tuple[str, Finding]], width: int, paint: Paint = unpainted
) -> list[str]:
    """Return each finding with its evidence and its remedy, the worst first; equal ones once, with
    all names.

    `named`: the findings, each with the short name of its test, empty for the session.
    """
    names: dict[tuple[str, str, Severity, str], list[str]] = {}
    for name, finding in sorted(named, key=lambda pair: -RANK[pair[1].severity]):
        key = (finding.code, finding.evidence, finding.severity, finding.remedy)
        names.setdefault(key, []).append(name)
    lines = []
    for (code, evidence, severity, remedy), whom in names.items():
        subject = ", ".join(filter(None, whom))
        head = f"{subject}: " if subject else ""
        first, *rest = wrapped(f"{head}{severity}: {evidence} [{code}]", width)
        lines.append(first.replace(f"{severity}:", f"{paint(severity, severity)}:", 1))
        lines += rest
        if remedy:
            lines += wrapped(f"= {remedy}", width, "    ")
    return lines


def wrapped(text: str, width: int, indent: str = "") -> list[str]:
    """Return a text as lines of at most `width`, unprintable characters escaped."""
    return textwrap.wrap(
        one_line(text),
        width,
        initial_indent=indent,
        subsequent_indent=f"{indent}  ",
        break_long_words=False,
        break_on_hyphens=False,
    )
