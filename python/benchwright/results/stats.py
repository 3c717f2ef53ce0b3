"""Makes the report of `bw stats` from its inputs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from benchwright.core.errors import argument_error
from benchwright.core.plan import MetricSpec
from benchwright.core.results import Finding, Summary
from benchwright.core.text import percent_text, plural, some_text
from benchwright.findings.comparison import beside_a_ratio
from benchwright.findings.environment import separate_findings
from benchwright.findings.examine import Questions, findings_about
from benchwright.findings.result import TestResult
from benchwright.report.answer import (
    AnswerEntry,
    SessionAnswer,
    answer_entries,
    answer_of,
    reference_of,
)
from benchwright.report.stats_document import (
    PERL_DIGITS,
    InputSection,
    StatsNotice,
    StatsReport,
    StatsWords,
    compose_report,
    high_z_scores,
    section_of,
)
from benchwright.results.inputs import why_left_out
from benchwright.results.stats_request import StatsRequest
from benchwright.stats.aggregate import MetricRules, summarise_columns
from benchwright.study.catalogue import split_selector

if TYPE_CHECKING:
    from benchwright.stats.input_comparison import InputComparison

_MOST_NAMED = 10
"""Names of tests in a notice about several."""


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


def document_of(
    inputs: Sequence[TestResult],
    request: StatsRequest,
    warned: Sequence[Finding],
    words: StatsWords,
) -> StatsReport:
    """Return the report of the inputs; `warned`: the findings of their transformations.

    Raises InputError for an unknown baseline.
    """
    chosen = inputs[_place(inputs, request.baseline)] if request.baseline else None
    every, (inputs, left_out) = inputs, _of_the_selection(inputs, chosen)
    baseline = _place(inputs, request.baseline)
    told = [_reported(one, request, words) for one in inputs]
    return compose_report(
        [one.entry for one in told],
        [
            *warned,
            *_apart(inputs, baseline),
            *_about_sources(every, inputs),
            *(
                finding
                for test, one in zip(inputs, told, strict=True)
                for finding in (
                    beside_a_ratio(one.findings) if _is_paired(test, inputs) else one.findings
                )
            ),
        ],
        notices=[
            *left_out,
            *_shared([notice for one in told for notice in one.stated]),
            *_changed(inputs),
            *(notice for one in told for notice in one.notices),
        ],
        baseline=baseline,
        confidence=request.confidence,
        comparisons=_comparisons(told, request, baseline),
    )


def _is_paired(one: TestResult, inputs: Sequence[TestResult]) -> bool:
    """Return whether the report has the ratios of the comparison, paired by blocks, of which an
    input is an arm: all of its arms are there."""
    arm = one.arm
    if arm is None or not arm.paired:
        return False
    others = {i.test for i in inputs if i.source == one.source and i.arm is not None}
    return others >= set(arm.names)


def _of_the_selection(
    inputs: Sequence[TestResult], baseline: TestResult | None
) -> tuple[Sequence[TestResult], list[StatsNotice]]:
    """Return the inputs of which something is selected, and notices that name the others.

    If no input has any, return all of them. A named baseline is always returned; InputError if it
    was left out because only its estimates are stated.
    """
    reasons: dict[str, list[TestResult]] = {}
    for test in inputs:
        if why := why_left_out(test):
            reasons.setdefault(why, []).append(test)
    if baseline is not None and baseline.notes and (why := why_left_out(baseline)):
        raise argument_error("--baseline", baseline.name, f"left out: {why}")
    gone = [one for found in reasons.values() for one in found if one is not baseline]
    if len(gone) == len(inputs):
        return inputs, []
    tests = [one for one in inputs if all(one is not other for other in gone)]
    return tests, [
        StatsNotice(
            "selection",
            f"{len(names)} of {len(inputs)} left out, {why}: {', '.join(names)}.",
            math.inf,
        )
        for why, found in reasons.items()
        if (names := [one.name for one in found if one is not baseline])
    ]


def _about_sources(inputs: Sequence[TestResult], kept: Sequence[TestResult]) -> list[Finding]:
    """Return the findings about sessions and files as a whole that belong to inputs left out."""
    return [
        finding
        for test in inputs
        if all(test is not other for other in kept)
        for finding in test.session_findings
        if finding.subject != test.name
    ]


def _apart(inputs: Sequence[TestResult], baseline: int) -> tuple[Finding, ...]:
    """Return the findings about differences between the baseline's machine and the others'."""
    results = [(test.name, test.machine) for test in inputs]
    return separate_findings([results.pop(baseline), *results]) if results else ()


class _Reported(msgspec.Struct, frozen=True):
    """The part of the report about one input."""

    entry: InputSection
    findings: tuple[Finding, ...]
    notices: list[StatsNotice]
    sample: dict[str, tuple[float, ...]]
    """The values of every shown quantity, for the t-tests."""
    stated: list[StatsNotice]
    """Whose estimates the rows without values are."""


def _reported(parsed_input: TestResult, request: StatsRequest, words: StatsWords) -> _Reported:
    added = _asked(parsed_input, request.metrics)
    if added:
        # Findings depend on the set of declared metrics, so all are computed again.
        parsed_input = msgspec.structs.replace(
            parsed_input, specs=(*parsed_input.specs, *added), findings=None
        )
    book, found = parsed_input.rules, parsed_input.columns
    shown = book.shown((*found, *book.declared), everything=request.everything)
    # Of a quantity without a value there is a row only if the file states its estimate.
    given = [summary for summary in parsed_input.summaries if summary.name not in found]
    without = {one.name for one in given}
    computed = [name for name in shown if name not in without]
    rows = {
        one.name: one
        for one in (
            *summarise_columns(found, computed, book, request.confidence),
            *(stated_row(one, book) for one in given),
        )
    }
    summaries = tuple(rows[name] for name in book.ordered(rows))
    questions = Questions(least_changes=request.least_changes, rules=request.rules)
    present = [found[name] for name in shown if name in found]
    return _Reported(
        section_of(parsed_input, summaries),
        (*parsed_input.session_findings, *findings_about(parsed_input, questions)),
        [
            *high_z_scores(
                parsed_input.name,
                present,
                request.threshold,
                book,
                digits=PERL_DIGITS if request.format == "json" else words.digits,
                noun=words.noun,
            )
        ],
        {column.name: column.values for column in present},
        _stated(parsed_input, given),
    )


def stated_row(summary: Summary, book: MetricRules) -> Summary:
    """Return the row of a quantity that a file states, with the label of its quantity."""
    return msgspec.structs.replace(summary, label=book.row(summary.name).label)


def _stated(parsed_input: TestResult, summaries: Sequence[Summary]) -> list[StatsNotice]:
    """Return notices that say whose estimates the rows without values are."""
    tool = parsed_input.origin.tool if parsed_input.origin else "the file"
    by_interval: dict[str, list[str]] = {}
    for summary in summaries:
        interval = "without an interval"
        if math.isfinite(summary.low):
            level = ""
            if math.isfinite(summary.confidence):
                level = f"{percent_text(summary.confidence)} "
            of = "" if math.isfinite(summary.mean) else " of the median"
            interval = f"with its {level}interval{of}"
        by_interval.setdefault(interval, []).append(summary.name)
    return [
        StatsNotice(
            parsed_input.name, f"Stated by {tool} {interval}: {', '.join(names)}.", math.inf
        )
        for interval, names in by_interval.items()
    ]


def _shared(notices: Sequence[StatsNotice]) -> list[StatsNotice]:
    """Return the notices; those with one text about several inputs as one."""
    subjects: dict[str, list[str]] = {}
    for notice in notices:
        subjects.setdefault(notice.text, []).append(notice.subject)
    return [
        StatsNotice(names[0], text, math.inf)
        if len(names) == 1
        else StatsNotice(plural(len(names), "test"), text, math.inf)
        for text, names in subjects.items()
    ]


def _changed(inputs: Sequence[TestResult]) -> list[StatsNotice]:
    """Return what transformations left out of what files state, those of one text with their tests."""
    tests: dict[str, list[str]] = {}
    for test in inputs:
        for note in test.notes:
            tests.setdefault(note, []).append(test.name)
    return [
        StatsNotice(some_text(names, _MOST_NAMED), note, math.inf) for note, names in tests.items()
    ]


def _comparisons(
    told: Sequence[_Reported], request: StatsRequest, baseline: int
) -> tuple[InputComparison, ...]:
    """Return the t-tests, if --ttest is given. Raises InputError for a single input."""
    if not request.ttest:
        return ()
    from benchwright.stats.input_comparison import compare_inputs

    if len(told) < 2:
        only = told[0].entry.name if told else ""
        raise argument_error("--ttest", only, "there is only one input: nothing to compare it with")
    rows = {s.name: (s.label, s.unit) for one in told for s in one.entry.summaries}
    rows |= {s.name: (s.label, s.unit) for s in told[baseline].entry.summaries}
    # Values in another unit than the baseline's are not comparable.
    alike = [
        {
            s.name: one.sample[s.name]
            for s in one.entry.summaries
            if s.name in one.sample and s.unit == rows[s.name][1]
        }
        for one in told
    ]
    return compare_inputs(
        [(one.entry.name, of) for one, of in zip(told, alike, strict=True)],
        rows,
        baseline=baseline,
        confidence=request.confidence,
        variances=request.variances,
    )


def _asked(parsed_input: TestResult, names: Sequence[str]) -> list[MetricSpec]:
    declared = {spec.name for spec in parsed_input.specs}
    return [MetricSpec(name) for name in dict.fromkeys(names) if name not in declared]


def _place(inputs: Sequence[TestResult], baseline: str | None) -> int:
    """Return the index of the baseline; without a name, that of the first input's session, else the
    first input.

    The text is an input's name, its file name, or a study or file with a single test. Raises
    InputError.
    """
    if baseline is None:
        return _place_of_session(inputs)
    whole = baseline.rstrip("/")
    short = whole.rsplit("/", 1)[-1]
    for wanted in (baseline, whole, short, short.removesuffix(".res")):
        for place, test in enumerate(inputs):
            if wanted in (test.name, test.name.removesuffix(".res")):
                return place
    among = [
        place
        for place, one in enumerate(inputs)
        if one.source.rstrip("/") == whole or f"{one.source}:{one.test}" == baseline
    ]
    if len(among) == 1:
        return among[0]
    hint = "inputs: " + ", ".join(one.name for one in inputs)
    what = "no input has this name"
    if among:
        what = f"{baseline} contains {len(among)} tests; the baseline must be a single test"
        hint = "name one: " + ", ".join(inputs[place].name for place in among)
    raise argument_error("--baseline", baseline, what, hint)


def _place_of_session(inputs: Sequence[TestResult]) -> int:
    """Return the index of the baseline that the session of the first input has; 0 without one."""
    if not inputs or not inputs[0].status:
        return 0
    first = inputs[0]
    places = [at for at, test in enumerate(inputs) if test.source == first.source]
    tests = [_answered(inputs[at]) for at in places]
    reference = reference_of(tests, first.baseline)
    return 0 if reference is None else places[reference]


def answers_of(
    inputs: Sequence[TestResult], document: StatsReport, baseline: str | None
) -> list[StudyAnswer]:
    """Return the answer of each study among the inputs, as its session printed it, but with
    ratios to the `baseline` if it is named and one of the study's tests."""
    named = None if baseline is None else inputs[document.baseline]
    by_source: dict[str, list[TestResult]] = {}
    for one in inputs:
        if one.status:
            by_source.setdefault(one.source, []).append(one)
    return [
        StudyAnswer(
            source,
            str(split_selector(Path(source)).place),
            answer_of(
                [_answered(test, document.findings) for test in tests],
                status=tests[0].status,
                baseline=named.test
                if named is not None and named.source == source
                else tests[0].baseline,
            ),
        )
        for source, tests in by_source.items()
    ]


def with_answers(
    document: StatsReport, inputs: Sequence[TestResult], baseline: str | None
) -> StatsReport:
    """Return the report with the answers of the inputs that are tests of studies."""
    answers: dict[str, AnswerEntry] = {}
    for study in answers_of(inputs, document, baseline):
        names = (i.name for i in inputs if i.status and i.source == study.source)
        answers.update(zip(names, answer_entries(study.answer), strict=True))
    return msgspec.structs.replace(document, answers=answers)


def _answered(one: TestResult, findings: Sequence[Finding] = ()) -> TestResult:
    """Return a test as its session named it, with its findings among these."""
    own = tuple(finding for finding in findings if finding.subject == one.name)
    return one.labelled(name=one.test, findings=own)


def judged_summaries(one: TestResult, confidence: float) -> tuple[Summary, ...]:
    """Return the summaries of one input for which a predicate is evaluated."""
    book, found = one.rules, one.columns
    names = book.judged((*found, *book.declared))
    return summarise_columns(found, names, book, confidence)
