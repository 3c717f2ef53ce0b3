"""The view of tests: one table of their answers, a sentence for each, and what follows.

Decision: the table has one row per test and no quantity that was not asked for; `bw stats` prints
Getstats' table of every quantity. A sentence for each test follows, because it can be quoted
without its table; of more than twelve tests only those that ended without an answer have one,
because the other sentences would be the table again.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from benchwright.core.observation import CpuProfile, TopFunction, Trial
from benchwright.core.results import BROKEN_CODES, Alternative, Estimate, Severity
from benchwright.core.text import Scale, exact_text, list_text, percent_text, plural, scale_of
from benchwright.core.untrusted import shell_text, visible
from benchwright.feature import recorded_by
from benchwright.findings.codes import UNSTEADY_CODES
from benchwright.report.answer import (
    BEST,
    CUT_SHORT,
    FIRST,
    FindingGroup,
    MetricAnswer,
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
from benchwright.views.blocks import (
    PAGE_ONLY,
    Cell,
    Column,
    TableBlock,
    Tone,
    Words,
    alike,
    count_number,
    estimate_number,
    heading,
    number_of,
    share_number,
    table_of,
)
from benchwright.views.terminal import Paint, table_text, unpainted, wrapped

if TYPE_CHECKING:
    from benchwright.results.stats import StudyAnswer

MOST_SENTENCES = 12


def answer_lines(answer: SessionAnswer, width: int, paint: Paint = unpainted) -> list[str]:
    """Return the table and the sentences, with a blank line between them; without a single value
    there is no table."""
    tests = [test for test in answer.tests if not test.is_arm]
    lines: list[str] = []
    if any(test.estimate for test in tests):
        table = answers_table(answer)
        lines += [*table_text(table, width, paint), *wrapped(table.note, width)]
    sentences = [*_sentences(tests, width), *wrapped(unseen_text(tests), width)]
    sentences += _limit_lines(answer.groups, tests, width)
    if lines and sentences:
        lines.append("")
    return [*lines, *sentences]


def study_answer_lines(
    studies: Sequence[StudyAnswer], width: int, paint: Paint = unpainted
) -> list[str]:
    """Return the answers of stored sessions, and the command that continues an interrupted one;
    each with its study as the heading if there are several."""
    lines: list[str] = []
    for study in studies:
        found = study.report.splitlines() or answer_lines(study.answer, width, paint)
        for text in study.comparisons:
            found += ["", *text.splitlines()] if found else text.splitlines()
        if found and len(studies) > 1:
            found = [visible(study.source), *found]
        if study.answer.status in CUT_SHORT:
            trials = sum(test.trials + test.failed for test in study.answer.tests)
            found.append(
                f"interrupted: {plural(trials, 'trial')}; "
                f"`bw resume {shell_text([study.study])}` continues"
            )
        if lines and found:
            lines.append("")
        lines += found
    return lines


def interval_lines(answers: Sequence[StudyAnswer], width: int) -> list[str]:
    """Return what the intervals of answers do not know, and what distinguishes them from those of the table of all
    quantities, where both are of the mean."""
    tests = [test for answer in answers for test in answer.answer.tests]
    studies = list(dict.fromkeys(answer.study for answer in answers))
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
        "for their dependence. Those below are Student's, for independent trials and one look.",
        width,
    )


def _sentences(tests: Sequence[TestAnswer], width: int) -> Iterator[str]:
    shown = tests
    if len(tests) > MOST_SENTENCES:
        shown = [test for test in tests if test.state != "answered"]
    for test in shown:
        yield from wrapped(answer_sentence(test), width)
        if test.population is not None and test.estimate is not None:
            # Few sessions replicate anything.
            from benchwright.report.replicates import population_sentences

            for sentence in population_sentences(test.population, test.estimate.unit):
                yield from wrapped(f"{test.name}: {sentence}", width)
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
            if group.code in UNSTEADY_CODES
            and group.severity is not Severity.NOTE
            and not {*names}.isdisjoint(group.tests)
        )
        cause = next(causes, "")
        yield from wrapped(_instead_text(names, limits), width)
        options = list(dict.fromkeys(name for limit in limits for name in limit.options))
        if not options:
            continue
        needed = max((limit.needed or 0 for limit in limits), default=0)
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
        for alternative in limit.instead:
            by_option.setdefault(alternative.option, []).append(alternative)
    parts = []
    for option, those in by_option.items():
        alternative = those[0]
        how = f"{option}; in a suite {alternative.key}"
        if len(limits) > 1:
            of = f"{len(those)} of {plural(len(limits), 'test')}"
            parts.append(f"{alternative.metric} of {of} ({how})")
            continue
        more = f", about {plural(alternative.needed, 'trial')}" if alternative.needed else ""
        parts.append(f"{alternative.metric} {estimate_text(alternative.estimate)} ({how}{more})")
    if not parts:
        return ""
    return f"{concerned_text(names, len(limits))}: within reach: {list_text(parts)}"


# -- The table -------------------------------------------------------------------------


def answers_table(answer: SessionAnswer, part: str = "", ids: Sequence[str] = ()) -> TableBlock:
    """Return a row for each test: its names, its value, its ratio, what it also measured.

    On a page, `part` begins the id of the table, and `ids` are those of the tests. Without them the
    arms of comparisons, which have a table of their own, have no row. A single test has the range
    of its values.
    """
    rows = answer.tests if ids else tuple(test for test in answer.tests if not test.is_arm)
    names = list(dict.fromkeys(name for row in rows for name, _ in row.labels))
    labels = list(dict.fromkeys(row.label for row in rows if row.estimate is not None))
    columns: list[_Column] = [_name_column(name, alone=len(names) == 1) for name in names]
    if len(labels) > 1:
        columns.append((Column("Quantity"), lambda _, row: Words(visible(row.label))))
    columns += _quantity_columns(rows, " / ".join(labels) or "result", "answer")
    # Arms have the ratio of their blocks, in the table of the comparison.
    if any(row.relative for row in rows if not row.is_arm):
        columns.append(_ratio_column(answer, rows))
    for metric in dict.fromkeys(
        metric_answer.metric
        for row in rows
        for metric_answer in row.others
        if metric_answer.estimate
    ):
        columns += _other_columns(rows, metric)
    columns += [
        (
            Column("Trials", numeric=True),
            lambda key, row: count_number(f"{key}.answer.trials", row.trials, link=_trials(key)),
        ),
        (Column("Notes"), lambda _, row: Words(_notes(row), tone=_tone(row))),
    ]
    return table_of(
        f"{part}-answers",
        "Answers",
        zip(ids or [""] * len(rows), rows, strict=True),
        columns,
        note=visible(_constants_text(answer)),
    )


_Column = tuple[Column, Callable[[str, TestAnswer], Cell]]


def _trials(key: str) -> str:
    """Return the id of the table with the trials of a test."""
    return f"{key}-trials" if key else ""


def _name_column(name: str, *, alone: bool) -> _Column:
    return (
        Column("Test" if name == "test" else visible(name), short=visible(name)),
        lambda key, row: Words(visible(dict(row.labels).get(name, "")), link=key if alone else ""),
    )


def _quantity_columns(
    rows: Sequence[TestAnswer],
    label: str,
    name: str,
    of: Callable[[TestAnswer], Estimate | None] = lambda row: row.estimate,
    rank: int = 0,
) -> Iterator[_Column]:
    """Yield the values of a metric, and their half widths in per cent; of a single test its range."""
    known = [estimate for estimate in map(of, rows) if estimate is not None]
    alone = len(rows) == 1
    digits = 4 if len(known) > 1 else max(map(value_digits, known), default=3)
    ends = [end for estimate in known for end in (estimate.low, estimate.high)]
    if alone:
        ends = [end for end in (rows[0].minimum, rows[0].maximum) if end is not None]
    scale = None
    if len({estimate.unit for estimate in known}) == 1 and alike(one.value for one in known):
        scale = scale_of([estimate.value for estimate in known], known[0].unit, digits, ends=ends)
    level = f", {percent_text(known[0].confidence)} interval" if known else ""
    yield (
        Column(
            f"{visible(heading(label))}{level}",
            numeric=True,
            short=visible(label),
            rank=rank,
            interval_rank=PAGE_ONLY,
        ),
        lambda key, row: estimate_number(f"{key}.{name}", of(row), scale, link=_trials(key)),
    )
    shares = [half_width_percent(estimate) / 100 for estimate in known]
    if any(map(math.isfinite, shares)):
        percents = None
        if alike(shares):
            percents = scale_of([100 * share for share in shares], "%", 2 if alone else 3)
        yield (
            Column("±", "half of the interval, of the value", numeric=True, rank=rank),
            lambda key, row: share_number(
                f"{key}.{name}.half_width", _half_width(of(row)), percents, link=_trials(key)
            ),
        )
    if alone and rank == 0 and scale is not None and rows[0].trials > 1:
        yield _range_column("Min", rows[0].minimum, scale)
        yield _range_column("Max", rows[0].maximum, scale)


def _half_width(estimate: Estimate | None) -> float | None:
    return None if estimate is None else half_width_percent(estimate) / 100


def _range_column(title: str, value: float | None, scale: Scale) -> _Column:
    return (
        Column(title, numeric=True, rank=3),
        lambda key, _: number_of(f"{key}.{title.lower()}", value, scale, unit=False),
    )


def _other_columns(rows: Sequence[TestAnswer], metric: str) -> Iterator[_Column]:
    def other(row: TestAnswer) -> MetricAnswer | None:
        return next((other for other in row.others if other.metric == metric), None)

    def estimate(row: TestAnswer) -> Estimate | None:
        metric_answer = other(row)
        return None if metric_answer is None else metric_answer.estimate

    label = next(one.label for one in map(other, rows) if one is not None)
    yield from _quantity_columns(rows, label, f"answer.{metric}", estimate, rank=1)


def _ratio_column(answer: SessionAnswer, rows: Sequence[TestAnswer]) -> _Column:
    known = [row.relative for row in rows if row.relative is not None]
    figures = [
        figure for estimate in known for figure in (estimate.value, estimate.low, estimate.high)
    ]
    scale = scale_of(figures, "", 3)

    def cell(key: str, row: TestAnswer) -> Cell:
        if row is answer.reference:
            return Words("reference")
        return estimate_number(f"{key}.answer.relative", row.relative, scale, link=_trials(key))

    name = "" if answer.reference is None else answer.reference.name
    return (
        Column(
            visible(f"Ratio to {name}") if name else "Ratio",
            short=f"ratio to {_short_reference(answer)}" if name else "ratio",
            numeric=True,
            rank=1,
            interval_rank=2,
        ),
        cell,
    )


def _short_reference(answer: SessionAnswer) -> str:
    """Return the name of the reference in a heading."""
    assert answer.reference is not None
    name = visible(answer.reference.name)
    if len(name) <= _LONGEST_REFERENCE:
        return name
    is_first = answer.reference is answer.tests[0]
    if answer.baseline == BEST or (answer.baseline == FIRST and is_first):
        return answer.baseline
    return f"{name[: _LONGEST_REFERENCE - 3]}..."


_LONGEST_REFERENCE = 14
"""Characters of a name in a heading."""


def _constants_text(answer: SessionAnswer) -> str:
    """Return the metrics that have one value in all trials."""
    constants = ", ".join(
        f"{constant.metric} {exact_text(constant.value, constant.unit)}"
        for constant in answer.constants
    )
    return f"The same in every trial: {constants}." if constants else ""


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


def _tone(test: TestAnswer) -> Tone:
    if test.state == "failed" or test.severity is Severity.SERIOUS:
        return "bad"
    doubtful = test.state in ("undecided", "interrupted") or test.severity is Severity.WARNING
    return "doubtful" if doubtful else "plain"


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


# -- What observers found of a test, as lines for the end of a run ---------------------

_SHOWN_FUNCTIONS = 3
_MOST_FUNCTIONS = 10


def profile_lines(profile: CpuProfile) -> Iterator[str]:
    """Yield a profile's lines: the busiest functions, missing information, the graph's path."""
    if not profile.samples:
        yield "profile: no samples: it did not run on a CPU long enough"
        return
    tops = ", ".join(_top(function) for function in profile.top[:_SHOWN_FUNCTIONS])
    kernel = (
        "the kernel's share is not visible"
        if profile.user_only
        else f"{percent_text(profile.kernel_share)} in the kernel"
    )
    yield f"profile: {tops}; {kernel} ({plural(profile.samples, 'sample')})"
    if profile.unknown_share > 0.2:
        yield (
            f"profile: {percent_text(profile.unknown_share)} in functions without a name: "
            "install debug symbols, or build with -g -fno-omit-frame-pointer"
        )
    elif profile.alone_share > 0.2:
        yield (
            f"profile: of {percent_text(profile.alone_share)} only the innermost function is "
            "known, not what called it: build with -fno-omit-frame-pointer"
        )
    if profile.svg:
        yield f"profile: flame graph {profile.svg}"


def _top(top_function: TopFunction) -> str:
    kernel = " (kernel)" if top_function.kernel else ""
    return f"{top_function.name}{kernel} {percent_text(top_function.share)}"


def observed_lines(
    name: str, trials: Sequence[Trial], recorded: Mapping[str, Any]
) -> Iterator[str]:
    """Yield a test's lines: its combined profile, then those of what observers recorded of it
    (`recorded_by`); or none.

    Unprintable characters are escaped, because any program can name its functions.
    """
    yield from map(visible, _test_lines(name, trials, recorded))


def _test_lines(name: str, trials: Sequence[Trial], recorded: Mapping[str, Any]) -> Iterator[str]:
    for line in _profile_lines(_profiles(trials)):
        yield f"{name}: {line}"
    for kind, record in recorded_by(recorded):
        lines = kind.lines(record)
        yield f"{name}: {next(lines)}"
        yield from lines


def _profiles(trials: Sequence[Trial]) -> list[CpuProfile]:
    """Return the profiles of trials that count; a profile that a batch shares appears once."""
    profiles = (trial.profile for trial in trials if not trial.warmup)
    return list(dict.fromkeys(profile for profile in profiles if profile is not None))


def _profile_lines(profiles: Sequence[CpuProfile]) -> Iterator[str]:
    if len(profiles) < 2:
        for profile in profiles:
            yield from profile_lines(profile)
        return
    yield from profile_lines(_combined(profiles))
    graphs = [profile.svg for profile in profiles if profile.svg]
    if graphs:
        which = graphs[0] if len(graphs) == 1 else f"{graphs[0]} to {graphs[-1]}"
        yield f"profile: {plural(len(graphs), 'flame graph')} {which}"


def _combined(profiles: Sequence[CpuProfile]) -> CpuProfile:
    """Return several profiles as one, weighted by samples.

    Each profile has only its busiest functions, so a function's share is too low if some
    profile does not list it.
    """
    samples = sum(profile.samples for profile in profiles)
    counts: Counter[tuple[str, bool]] = Counter()
    for profile in profiles:
        counts.update({(top.name, top.kernel): top.samples for top in profile.top})
    return CpuProfile(
        samples,
        profiles[0].hertz,
        _mean_share(profiles, lambda cpu_profile: cpu_profile.kernel_share),
        _mean_share(profiles, lambda one: one.unknown_share),
        top=tuple(
            TopFunction(name, count, count / max(samples, 1), kernel)
            for (name, kernel), count in counts.most_common(_MOST_FUNCTIONS)
        ),
        user_only=any(profile.user_only for profile in profiles),
        alone_share=_mean_share(profiles, lambda one: one.alone_share),
    )


def _mean_share(profiles: Sequence[CpuProfile], of: Callable[[CpuProfile], float]) -> float:
    """Return a share of all samples, from that share in each profile."""
    samples = sum(profile.samples for profile in profiles)
    return sum(profile.samples * of(profile) for profile in profiles) / max(samples, 1)
