"""The end of a session as text: one table, a sentence for each test, the findings in short.

Decision: the table has one row per test and no quantity that was not asked for; `bw stats` prints
Getstats' table of every quantity. A sentence for each test follows, because it can be quoted
without its table; of more than twelve tests only those that ended without an answer have one,
because the other sentences would be the table again. A single test has its range in place of a
ratio. Findings of one code are one line of at most the terminal's width; the whole evidence, with
the remedy, is one option away.
"""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Callable, Iterator, Sequence

import msgspec

from benchwright.core.results import Alternative, Estimate, Finding, Severity
from benchwright.core.text import exact_text, list_text, more_text, plural, quantity_text
from benchwright.core.text_table import (
    TextColumn,
    cells_in_unit,
    fitting,
    number_column,
    number_columns,
    table_lines,
    text_column,
    word_column,
)
from benchwright.core.untrusted import one_line, shell_text, visible
from benchwright.findings.codes import BROKEN_CODES, CHANGE_CODES, UNSTEADY_CODES, WHOLE_CODES
from benchwright.report.answer import (
    BEST,
    FIRST,
    RANK,
    FindingGroup,
    ReachedLimit,
    SessionAnswer,
    TestAnswer,
    answer_sentence,
    concerned_text,
    estimate_text,
    half_width_percent,
    unseen_text,
    value_digits,
    visit_text,
)
from benchwright.stats.intervals import SEQUENCE_MEAN_METHOD, SEQUENTIAL_METHOD

Paint = Callable[[Severity, str], str]
"""Returns a text in the colour of a severity; the text itself where there are no colours."""

MOST_SENTENCES = 12
MOST_GROUPS = 10
MOST_LINES = 2
"""Of one group of findings."""
_SHORTEST_EVIDENCE = 12
"""With less room a line has only the code."""


def unpainted(_severity: Severity, text: str) -> str:
    """Return the text as it is."""
    return text


def answer_lines(answer: SessionAnswer, width: int, paint: Paint = unpainted) -> list[str]:
    """Return the table and the sentences, with a blank line between them.

    The arms of comparisons are left out, because a comparison has its own table. Without a single
    value there is no table.
    """
    tests = [test for test in answer.tests if not test.is_arm]
    lines = list(_table(answer, tests, width, paint))
    for constant in answer.constants:
        value = exact_text(constant.value, constant.unit)
        lines.append(visible(f"{constant.metric} is {value} in every trial"))
    sentences = [*_sentences(tests, width), *wrapped(unseen_text(tests), width)]
    sentences += _limit_lines(answer.groups, tests, width)
    if lines and sentences:
        lines.append("")
    return [*lines, *sentences]


class StudyAnswer(msgspec.Struct, frozen=True):
    """The answer of a stored session, printed again."""

    source: str
    """The study and the selection, as the user named them."""
    study: str
    """The path of the study."""
    answer: SessionAnswer
    report: str = ""
    """The report of a session that is one load, in place of the table."""
    comparisons: tuple[str, ...] = ()
    """The report of each comparison of the session."""


def study_answer_lines(
    studies: Sequence[StudyAnswer], width: int, paint: Paint = unpainted
) -> list[str]:
    """Return the answers of stored sessions, and the command that continues an interrupted one;
    each with its study as the heading if there are several."""
    lines: list[str] = []
    for one in studies:
        found = one.report.splitlines() or answer_lines(one.answer, width, paint)
        for text in one.comparisons:
            found += ["", *text.splitlines()] if found else text.splitlines()
        if found and len(studies) > 1:
            found = [visible(one.source), *found]
        if one.answer.status in _UNFINISHED:
            trials = sum(test.trials + test.failed for test in one.answer.tests)
            found.append(
                f"interrupted: {plural(trials, 'trial')}; "
                f"`bw resume {shell_text([one.study])}` continues"
            )
        if lines and found:
            lines.append("")
        lines += found
    return lines


def interval_lines(answers: Sequence[StudyAnswer], width: int) -> list[str]:
    """Return what the intervals of answers do not know, and what distinguishes them from those of the table of all
    quantities, where both are of the mean."""
    tests = [test for one in answers for test in one.answer.tests]
    studies = list(dict.fromkeys(one.study for one in answers))
    lines = wrapped(visit_text(tests, studies), width)
    methods = {
        test.estimate.method
        for test in tests
        if test.estimate is not None and math.isfinite(half_width_percent(test.estimate))
    }
    if methods.isdisjoint((SEQUENTIAL_METHOD, SEQUENCE_MEAN_METHOD)):
        return lines
    return lines + wrapped(
        "The interval above is that of the stopping rule, which looked at the trials several times and allows "
        "for their dependence. LOW and HIGH below are Student's, for independent trials and one look.",
        width,
    )


_UNFINISHED = ("interrupted", "crashed")
"""The status of a session that can be resumed; one that was killed is `crashed`."""


def answer_rows(answer: SessionAnswer) -> list[list[str]]:
    """Return headings and one row per test: its levels, mean, interval, ratio, number of trials.

    For a document: the table of the terminal with each interval in one cell.
    """
    tests = [test for test in answer.tests if not test.is_arm]
    if not any(test.estimate for test in tests):
        return []
    names = list(_name_columns(tests))
    labels = list(dict.fromkeys(test.label for test in tests if test.label))
    head = labels[0] if len(labels) == 1 else "value"
    several = any(test.relative for test in tests)
    notes = [_notes(test) for test in tests]
    headings = [*(column.heading for column in names), head, "interval"]
    headings += [
        *([_ratio_headings(answer)[0]] if several else []),
        "trials",
        *(["notes"] if any(notes) else []),
    ]
    rows = [headings]
    for place, (test, note) in enumerate(zip(tests, notes, strict=True)):
        row = [column.cells[place] for column in names]
        row += [*_estimate_cells(test.label if head == "value" else "", test.estimate)]
        if several:
            is_reference = test is answer.reference
            row.append("1" if is_reference else _ratio_cell(test.relative))
        row += [f"{test.trials:,}", *([note] if any(notes) else [])]
        rows.append(row)
    return rows


def _estimate_cells(label: str, one: Estimate | None) -> tuple[str, str]:
    if one is None:
        return "-", "-"
    digits = value_digits(one)
    value, low, high = (
        quantity_text(figure, one.unit, digits) for figure in (one.value, one.low, one.high)
    )
    bounded = math.isfinite(one.low) and math.isfinite(one.high)
    return f"{label} {value}".lstrip(), f"{low} to {high}" if bounded else "-"


def _ratio_cell(one: Estimate | None) -> str:
    if one is None:
        return "-"
    if not math.isfinite(one.low) or not math.isfinite(one.high):
        return f"{one.value:.2f}"
    return f"{one.value:.2f} ({one.low:.2f} to {one.high:.2f})"


def _sentences(tests: Sequence[TestAnswer], width: int) -> Iterator[str]:
    shown = tests
    if len(tests) > MOST_SENTENCES:
        shown = [test for test in tests if test.state != "answered"]
    for test in shown:
        yield from wrapped(answer_sentence(test), width)
    left = len(tests) - len(shown)
    if shown and left:
        yield f"{plural(left, 'other test')} answered: the table has them"


def _limit_lines(
    groups: Sequence[FindingGroup], tests: Sequence[TestAnswer], width: int
) -> Iterator[str]:
    """Yield what ended tests undecided and how to get their answer, for each limit that was
    reached: first what made the machine unsteady, then the options that must be larger."""
    ended: dict[str, list[TestAnswer]] = {}
    for test in tests:
        if test.limit is not None:
            ended.setdefault(test.limit.text, []).append(test)
    for text, those in ended.items():
        names = [test.name for test in those]
        limits = [test.limit for test in those if test.limit is not None]
        causes = (
            f"{group.sentence} [{group.code}]; "
            for group in groups
            if group.code in UNSTEADY_CODES and not {*names}.isdisjoint(group.tests)
        )
        cause = next(causes, "")
        yield from wrapped(_instead_text(names, limits), width)
        options = list(dict.fromkeys(name for one in limits for name in one.options))
        if not options:
            continue
        needed = max((one.needed or 0 for one in limits), default=0)
        wanted = f"about {plural(needed, 'trial')}" if needed else "more"
        keys = ", ".join(name[2:].replace("-", "_") for name in options)
        yield from wrapped(
            f"{concerned_text(names, len(tests))}: {cause}the limit was {text}, and the answer "
            f"needs {wanted}: measure again {'without this cause, or ' if cause else ''}with a "
            f"larger {' and '.join(options)} ({keys} in a suite)",
            width,
        )


def _instead_text(names: Sequence[str], limits: Sequence[ReachedLimit]) -> str:
    """Return which other questions the same trials answer, or nearly; of several tests, how many."""
    by_option: dict[str, list[Alternative]] = {}
    for limit in limits:
        for one in limit.instead:
            by_option.setdefault(one.option, []).append(one)
    parts = []
    for option, those in by_option.items():
        one = those[0]
        how = f"{option}; in a suite {one.key}"
        if len(limits) > 1:
            of = f"{len(those)} of {plural(len(limits), 'test')}"
            parts.append(f"{one.metric} of {of} ({how})")
            continue
        more = f", about {plural(one.needed, 'trial')}" if one.needed else ""
        parts.append(f"{one.metric} {estimate_text(one.estimate)} ({how}{more})")
    if not parts:
        return ""
    return f"{concerned_text(names, len(limits))}: within reach: {list_text(parts)}"


# -- The table -------------------------------------------------------------------------


def _table(
    answer: SessionAnswer, tests: Sequence[TestAnswer], width: int, paint: Paint
) -> Iterator[str]:
    if not any(test.estimate for test in tests):
        return
    names = list(_name_columns(tests))
    counts = text_column("trials", (f"{test.trials:,}" for test in tests))
    notes = [_notes(test) for test in tests]
    marks = TextColumn(
        "",
        tuple(
            visible(note) if test.severity is None else paint(test.severity, note)
            for test, note in zip(tests, notes, strict=True)
        ),
        left=True,
    )
    widest = max(map(len, notes), default=0)
    room = width - (2 + widest if widest else 0)
    for heading in _ratio_headings(answer):
        figures = _figure_columns(answer, tests, heading)
        ranked = [*((0, one) for one in names), *figures, (0, counts)]
        fixed = fitting(ranked, room)
        if len(fixed) == len(ranked):
            break
    # The marks are the last column, so that colours do not change any width.
    yield from table_lines([*fixed, marks] if widest else fixed)


def _name_columns(tests: Sequence[TestAnswer]) -> Iterator[TextColumn]:
    for heading in dict.fromkeys(name for test in tests for name, _ in test.labels):
        cells = (visible(dict(test.labels).get(heading, "")) for test in tests)
        yield word_column(visible(heading), cells)


def _figure_columns(
    answer: SessionAnswer, tests: Sequence[TestAnswer], ratio_heading: str
) -> Iterator[tuple[int, TextColumn]]:
    """Yield the columns of figures, each with how early it is left out of a table that is too
    wide; 0 for those that are always shown."""
    about = [(test.label, test.estimate) for test in tests]
    yield from ((0, column) for column in _estimate_columns(about))
    if len(tests) == 1:
        (test,) = tests
        if test.trials > 1 and test.estimate is not None:
            yield from ((3, column) for column in _range_columns(test))
    elif any(test.relative for test in tests):
        yield from _ratio_columns(answer, tests, ratio_heading)
    others = dict.fromkeys(one.metric for test in tests for one in test.others)
    for metric in others:
        found = [next((one for one in test.others if one.metric == metric), None) for test in tests]
        shown = [("", None) if one is None else (one.label, one.estimate) for one in found]
        label = next(one.label for one in found if one is not None)
        for column in _estimate_columns([(label, estimate) for _, estimate in shown]):
            yield 1, column


def _estimate_columns(about: Sequence[tuple[str, Estimate | None]]) -> Iterator[TextColumn]:
    """Yield the values, with their unit in the heading, and the half widths in per cent."""
    values = [None if one is None else one.value for _, one in about]
    percents = [None if one is None else half_width_percent(one) for _, one in about]
    known = [value_digits(one) for _, one in about if one is not None]
    digits = 4 if len(known) > 1 else max(known, default=3)
    headings = {(label, one.unit) for label, one in about if one is not None}
    if len(headings) == 1:
        ((label, unit),) = headings
        cells, shown_unit = cells_in_unit(values, unit, digits)
        heading = visible(f"{label} {shown_unit}".rstrip())
        yield TextColumn(heading, tuple(cells))
    else:
        texts = (
            "-" if one is None else f"{label} {quantity_text(one.value, one.unit, digits)}"
            for label, one in about
        )
        yield text_column("value", map(visible, texts))
    if any(math.isfinite(one) for one in percents if one is not None):
        yield number_column("± %", percents, 3 if len(known) > 1 else 2)


def _range_columns(test: TestAnswer) -> Iterator[TextColumn]:
    assert test.estimate is not None
    digits = value_digits(test.estimate)
    values = [test.estimate.value, test.minimum, test.maximum]
    cells, _ = cells_in_unit(values, test.estimate.unit, digits)
    for heading, cell in zip(("min", "max"), cells[1:], strict=True):
        yield text_column(heading, [cell])


def _ratio_headings(answer: SessionAnswer) -> tuple[str, str]:
    """Return the heading of the ratios, which names the reference, and a shorter one."""
    if answer.reference is None:
        return "ratio", "ratio"
    name = visible(answer.reference.name)
    if len(name) > _LONGEST_REFERENCE:
        is_first = answer.reference is answer.tests[0]
        if answer.baseline == BEST or (answer.baseline == FIRST and is_first):
            name = answer.baseline
        else:
            name = f"{name[: _LONGEST_REFERENCE - 3]}..."
    return f"ratio to {name}", f"/ {name}"


_LONGEST_REFERENCE = 14
"""Characters of a name in a heading."""


def _ratio_columns(
    answer: SessionAnswer, tests: Sequence[TestAnswer], heading: str
) -> Iterator[tuple[int, TextColumn]]:
    rows: list[list[float | None]] = []
    for test in tests:
        one = test.relative
        if test is answer.reference:
            rows.append([1.0, None, None])
        else:
            rows.append([None] * 3 if one is None else [one.value, one.low, one.high])
    columns = number_columns((heading, "low", "high"), rows, 3)
    place = next((at for at, one in enumerate(tests) if one is answer.reference), None)
    for rank, column in zip((1, 2, 2), columns, strict=True):
        yield rank, column if rank == 1 or place is None else _blank(column, place)


def _blank(column: TextColumn, place: int) -> TextColumn:
    """Return a column with an empty cell at this place: the reference has no interval."""
    cells = list(column.cells)
    cells[place] = ""
    return text_column(column.heading, cells)


def _notes(test: TestAnswer) -> str:
    """Return what is unusual about a test: `undecided, 2 failed, warning`."""
    parts: list[str] = [] if test.state == "answered" else [test.state]
    if test.failed:
        parts.append(f"{test.failed:,} failed")
    if test.void:
        parts.append(f"{test.void:,} void")
    if test.severity in (Severity.SERIOUS, Severity.WARNING):
        parts.append(str(test.severity))
    return ", ".join(parts)


# -- Findings --------------------------------------------------------------------------


def groups_to_print(answer: SessionAnswer) -> tuple[FindingGroup, ...]:
    """Return the groups of findings without the failures that the sentences of tests report; an arm
    of a comparison has no sentence."""
    failed = {
        test.name
        for test in answer.tests
        if test.estimate is None and test.state == "failed" and not test.is_arm
    }
    in_sentences = (*BROKEN_CODES, "too-few-trials")
    return tuple(
        group
        for group in answer.groups
        if not (group.code in in_sentences and group.tests and failed.issuperset(group.tests))
    )


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
    uncut = (*WHOLE_CODES, *CHANGE_CODES)
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
    ends = (found.start() for found in _CLAUSE_END.finditer(text) if found[1])
    closed = (end for end in ends if end <= room and _is_closed(text[:end]))
    end = max(closed, default=0)
    if end >= 3 * room // 4:
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
    for name, one in sorted(named, key=lambda pair: -RANK[pair[1].severity]):
        key = (one.code, one.evidence, one.severity, one.remedy)
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
