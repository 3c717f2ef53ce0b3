"""The report of a session of tests: a suite, a command, a comparison, a load in a study."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence

from benchwright.core.observation import Trial, TrialEnding, profiles_of
from benchwright.core.results import Estimate, Summary
from benchwright.core.text import moment_text, percent_text, plural
from benchwright.core.untrusted import visible
from benchwright.findings.explanation import explain_test
from benchwright.findings.result import TestResult
from benchwright.page.charts import MOST_DRAWN, axis_of, course, distribution, over_factor, shown
from benchwright.page.document import ReportPart
from benchwright.page.kinds import StoredDocument, document_sections, stored_documents
from benchwright.page.origin import (
    added_sections,
    data_section,
    environment_section,
    method_section,
)
from benchwright.page.why import why_section
from benchwright.report.answer import (
    CUT_SHORT,
    Results,
    SessionAnswer,
    TestAnswer,
    answer_sentence,
    estimate_text,
    half_width_percent,
    unseen_text,
)
from benchwright.report.stats_document import quantity_line
from benchwright.results.stored import read_results, shown_quantities, shown_summaries
from benchwright.study.journal import StoredSession, Study
from benchwright.views.blocks import (
    Block,
    Cell,
    Column,
    Group,
    Lines,
    Prose,
    Section,
    TableBlock,
    Tile,
    Tone,
    Words,
    count_number,
    estimate_number,
    finding_lines,
    heading,
    label_of,
    mean_of,
    number_of,
    scale_of,
)
from benchwright.views.comparison import (
    Compared,
    comparison_section,
    comparison_tiles,
    comparison_verdict,
    tone_of_gates,
)
from benchwright.views.stats import quantities_table
from benchwright.views.tests import answers_table

_MOST_SENTENCES = 4
_MOST_TILES = 4
"""Metrics with a tile beside that of the answer."""
FOLD_FROM = 9
"""From this number of tests on, the page shows each test's details when a reader opens them."""

TONES: dict[str, Tone] = {
    "complete": "good",
    "undecided": "doubtful",
    "failed": "bad",
    "interrupted": "doubtful",
    "stopped": "doubtful",
    "crashed": "bad",
    "running": "plain",
}


def tests_part(study: Study, session: StoredSession, part: str, only: str | None) -> ReportPart:
    """Return the report of a session of tests."""
    stored = read_results(study, session, part, only)
    answer = stored.answer()
    documents = stored_documents(stored)
    trials = [trial for test in stored.tests for trial in test.all_trials]
    sections = [
        *document_sections(part, documents),
        *([comparison_section(_compared(stored))] if stored.comparisons else []),
        *([results_section(stored, answer)] if len(stored.tests) > 1 else []),
        *added_sections(part, study, session),
        tests_section(stored, answer),
        why_section(
            part,
            [
                explain_test(test, row.name, test.findings or ())
                for test, row in zip(stored.tests, answer.tests, strict=True)
            ],
            [trial.use for trial in trials if trial.use is not None],
            profiles_of(trials),
            study.path,
        ),
        environment_section(stored.id, stored.machines),
        method_section(stored, session, answer),
        data_section(stored, answer.reference_place),
    ]
    return answered_part(stored, answer, sections, documents=documents)


def _compared(stored: Results) -> Compared:
    links = {test.name: test.trials_id for test in stored.tests}
    return Compared(stored.id, stored.comparisons, links)


def answered_part(
    stored: Results,
    answer: SessionAnswer,
    sections: Sequence[Section],
    *,
    headline: str = "",
    documents: Sequence[StoredDocument] = (),
) -> ReportPart:
    """Return the report of tests with its sections; `headline` replaces the first sentence of the
    answer."""
    session = stored.session
    verdict = list(_verdict(stored, answer, documents))
    if headline:
        verdict[:1] = [headline]
    return ReportPart(
        id=stored.id,
        title=visible(stored.path.name),
        study=visible(str(stored.path)),
        session=0 if session is None else session.number,
        kind="file" if session is None else session.info.kind,
        status=stored.status,
        started=moment_text(stored.started_ns),
        verdict=tuple(map(visible, verdict)),
        tone=_verdict_tone(stored),
        output=tuple(_output_of_failures(stored)),
        tiles=tuple(_tiles(stored, answer, documents)),
        findings=finding_lines(answer.groups, stored.named_findings(answer)),
        sections=tuple(sections),
    )


def _verdict_tone(stored: Results) -> Tone:
    """Return the tone of the verdict: bad where the exit status was 1, else of the worst gate, if
    the session is complete."""
    if stored.failed:
        return "bad"
    tone = TONES.get(stored.status, "plain")
    gates = tone_of_gates(stored.comparisons)
    return gates if gates and tone == "good" else tone


# -- The answer in the first screen ----------------------------------------------------


def _verdict(
    stored: Results, answer: SessionAnswer, documents: Sequence[StoredDocument]
) -> Iterator[str]:
    """Yield the answer, one sentence for each question."""
    status, detail = stored.status, stored.detail
    rows = answer.tests
    broken = f"{status.capitalize()}: {detail or 'no end was recorded'}"
    failed = [row for row in rows if row.state == "failed"]
    if (status == "failed" and not failed) or not rows:
        yield broken
    elif status == "failed":
        yield answer_sentence(failed[0])
    yield from comparison_verdict(stored.comparisons)
    if not stored.comparisons:
        if documents and len(documents) == sum(row.trials for row in rows):
            nouns = Counter(document.kind.noun for document in documents)
            counts = ", ".join(plural(count, noun) for noun, count in nouns.items())
            yield documents[0].document.headline if len(documents) == 1 else counts
            yield from (document.document.sentence for document in documents[:_MOST_SENTENCES])
        elif len(rows) == 1 and not failed:
            yield answer_sentence(rows[0])
        elif len(rows) > 1:
            yield from _of_several(rows)
        if (unseen := unseen_text(rows)) and not documents and not failed:
            yield f"{unseen}."
    if rows and status in CUT_SHORT:
        yield broken


def _output_of_failures(stored: Results) -> Iterator[Lines]:
    """Yield the end of what the first failed command of each test wrote, of a few tests."""
    failed = [
        (test, trial)
        for test in stored.tests
        for trial in [next((t for t in test.all_trials if t.error_text is not None), None)]
        if trial is not None
    ]
    for test, trial in failed[:_MOST_SENTENCES]:
        assert trial.error_text is not None
        head = f"{test.name}: trial {trial.epoch} failed; the end of {trial.error_text.file}"
        yield Lines(visible(head), tuple(map(visible, trial.error_text.lines)))


def _of_several(rows: Sequence[TestAnswer]) -> Iterator[str]:
    """Yield between which results the tests lie, or the first of them where they cannot be
    compared, and how many are not answered."""
    ends = _lowest_and_highest(rows)
    if ends is not None:
        (low, estimate), (high, other) = ends
        yield (
            f"{heading(low.label)} of {len(rows)} tests: from {estimate_text(estimate)} for {low.name} to "
            f"{estimate_text(other)} for {high.name}."
        )
    else:
        known = [row for row in rows if row.estimate is not None]
        yield from (f"{answer_sentence(row)}." for row in known[:_MOST_SENTENCES])
        if len(known) > _MOST_SENTENCES:
            yield f"{len(known) - _MOST_SENTENCES} more: see the results."
    states = Counter(str(row.state) for row in rows)
    if states["answered"] < len(rows):
        counts = ", ".join(f"{count} {state}" for state, count in states.items())
        answered = states["answered"]
        some = f"{answered} of {len(rows)} tests are answered"
        yield f"{some if answered else f'None of {len(rows)} tests is answered'}: {counts}."


def _lowest_and_highest(
    rows: Sequence[TestAnswer],
) -> tuple[tuple[TestAnswer, Estimate], tuple[TestAnswer, Estimate]] | None:
    """Return the rows with the lowest and the highest value; None if they cannot be compared."""
    known = [(row, row.estimate) for row in rows if row.estimate is not None]
    if len(known) < 2 or len({row.metric for row, _ in known}) > 1:
        return None
    known.sort(key=lambda pair: pair[1].value)
    return known[0], known[-1]


def _tiles(
    stored: Results, answer: SessionAnswer, documents: Sequence[StoredDocument]
) -> Iterator[Tile]:
    """Yield the numbers of the answer: of one test, of the ends of several, of a comparison."""
    rows = answer.tests
    if stored.comparisons:
        yield from comparison_tiles(_compared(stored))
    elif len(documents) == 1:
        yield from documents[0].kind.tiles(documents[0])
        return
    elif len(rows) == 1:
        yield from _tiles_of_one(stored.tests[0], rows[0])
    elif (ends := _lowest_and_highest(rows)) is not None:
        for what, (row, estimate) in zip(("Lowest", "Highest"), ends, strict=True):
            link = stored.tests[rows.index(row)].trials_id
            key = f"{stored.id}.answer.{what.lower()}"
            number = estimate_number(key, estimate, link=link)
            yield Tile(f"{what} {row.label}", number, visible(row.name))
    trials = sum(row.trials for row in rows)
    failed, void = sum(row.failed for row in rows), sum(row.void for row in rows)
    if trials or failed or void:
        also = [f"{failed} failed"] * bool(failed) + [f"{void} void"] * bool(void)
        count = count_number(f"{stored.id}.answer.trials", trials)
        yield Tile("Trials", count, ", ".join(also))


def _tiles_of_one(test: TestResult, row: TestAnswer) -> Iterator[Tile]:
    link = test.trials_id
    if row.estimate is None:
        return
    number = estimate_number(f"{test.id}.answer", row.estimate, link=link)
    percent = half_width_percent(row.estimate)
    note = "no interval"
    if math.isfinite(percent):
        level = percent_text(row.estimate.confidence)
        note = f"± {percent_text(percent / 100)} at {level}"
    yield Tile(heading(row.label) or row.metric, number, note)
    known = {summary.name: summary for summary in shown_summaries(test)}
    answers = {other.metric: other.estimate for other in row.others}
    for name in list(answers or ("user", "system", "rss_bytes"))[:_MOST_TILES]:
        summary = known.get(name)
        if summary is not None and name != row.metric:
            key = f"{test.id}.answer.{name}"
            estimate = answers.get(name) or mean_of(summary)
            number = estimate_number(key, estimate, link=link)
            yield Tile(visible(label_of(summary.name, summary.label)), number)


# -- All tests in one table ------------------------------------------------------------


def results_section(stored: Results, answer: SessionAnswer) -> Section:
    """Return the table with one row for each test."""
    return Section(
        id=f"{stored.id}-results",
        title="Results",
        lead="One row for each test. A number leads to its trials.",
        blocks=(
            answers_table(answer, stored.id, [test.id for test in stored.tests]),
            *_shared_pictures(stored, answer),
        ),
    )


def _shared_pictures(stored: Results, answer: SessionAnswer) -> Iterator[Block]:
    """Yield the distributions of all tests, if they are about the same metric."""
    pairs = [
        (test, row)
        for test, row in zip(stored.tests, answer.tests, strict=True)
        if row.estimate is not None
    ]
    if len({row.metric for _, row in pairs}) == 1:
        along = over_factor(f"{stored.id}-along", [test for test, _ in pairs], pairs[0][1].metric)
        if along is not None:
            yield along
        axis = axis_of(*pairs[0])
        tests = [shown(test, row) for test, row in pairs]
        yield distribution(f"{stored.id}-distribution", tests, axis)


_STATES: dict[str, Tone] = {"undecided": "doubtful", "interrupted": "doubtful", "failed": "bad"}


# -- Each test: its quantities, its trials, what failed --------------------------------


def tests_section(stored: Results, answer: SessionAnswer) -> Section:
    """Return the details of each test."""
    several = len(stored.tests) > 1
    return Section(
        id=f"{stored.id}-tests",
        title="Tests" if several else "Test",
        lead="Each quantity with its interval, and every trial.",
        blocks=tuple(
            Group(
                id=test.id,
                title=visible(row.name),
                sentence=visible(answer_sentence(row).removeprefix(f"{row.name}: ")),
                tone=_STATES.get(row.state, "plain"),
                blocks=tuple(
                    _test_blocks(test, row, alone=not several, brief=len(stored.tests) >= FOLD_FROM)
                ),
                folded=len(stored.tests) >= FOLD_FROM,
            )
            for test, row in zip(stored.tests, answer.tests, strict=True)
        ),
    )


def _test_blocks(test: TestResult, row: TestAnswer, *, alone: bool, brief: bool) -> list[Block]:
    summaries = shown_summaries(test)
    kept = {row.metric, *(other.metric for other in row.others), "user", "system"}
    blocks: list[Block] = []
    if test.plan is not None:
        commands = tuple(visible(command.text) for command in test.plan.phases.exec)
        blocks.append(Lines("Command", commands))
    if summaries:
        blocks.append(
            _quantities(test, row, [s for s in summaries if s.name in kept] if brief else summaries)
        )
    elif not test.observed:
        blocks.append(Prose("No trial of this test counts, so it has no numbers.", "doubtful"))
    if row.population is not None:
        # Few sessions replicate anything.
        from benchwright.page.replicates import replicate_blocks

        blocks += replicate_blocks(test, row)
    if row.metric and any(trial.drawn for trial in test.all_trials):
        from benchwright.page.drawn import drawn_blocks

        blocks += drawn_blocks(test, row)
    if row.metric and len(test.observed) > 1:
        own, axis = shown(test, row), axis_of(test, row)
        if alone:
            blocks.append(distribution(f"{test.id}-distribution", [own], axis))
        blocks.append(course(f"{test.id}-course", own, axis, brief=brief))
    if test.all_trials:
        blocks.append(trials_table(test, row, brief=brief))
    return blocks


def _quantities(test: TestResult, row: TestAnswer, summaries: Sequence[Summary]) -> TableBlock:
    # The interval of the answer is the same everywhere on the page.
    # One of another statistic than the mean has that in its label.
    answers = {other.metric: other.estimate for other in row.others if other.label == other.metric}
    if row.label == row.metric:
        answers[row.metric] = row.estimate
    lines = [quantity_line(summary) for summary in summaries]
    return quantities_table(lines, test.id, link=test.trials_id, answers=answers)


_MOST_COLUMNS = 8
_ENDINGS: dict[TrialEnding, tuple[str, Tone]] = {
    TrialEnding.OK: ("ok", "plain"),
    TrialEnding.FAILED: ("failed", "bad"),
    TrialEnding.TIMEOUT: ("timeout", "bad"),
    TrialEnding.INTERRUPTED: ("void", "doubtful"),
}


def ending_words(trial: Trial) -> Words:
    """Return how a trial ended."""
    text, tone = _ENDINGS[trial.ending]
    return Words("warm-up") if trial.warmup and text == "ok" else Words(text, tone=tone)


def trials_table(test: TestResult, row: TestAnswer, *, brief: bool) -> TableBlock:
    """Return every trial in the order of its start; `brief`: with the metrics of the answer alone."""
    every = sorted(test.all_trials, key=lambda trial: trial.started_ns)
    trials = every if len(every) <= MOST_DRAWN else _trials_in_table(every)
    values = [test.values_of(trial) for trial in trials]
    answered = [row.metric, *(other.metric for other in row.others)]
    wanted = answered if brief else [*answered, *shown_quantities(test), *_measured(values)]
    names = list(dict.fromkeys(name for name in wanted if name))[:_MOST_COLUMNS]
    if not names:
        names = _measured(values)
    rules = [test.rules.row(name) for name in names]
    scales = [
        scale_of([value.get(name) for value in values], rule.unit)
        for name, rule in zip(names, rules, strict=True)
    ]
    first = trials[0].started_ns
    # A file of another tool does not say when a trial began.
    timed = not brief and any(trial.started_ns for trial in trials)
    began = [(trial.started_ns - first) / 1e9 for trial in trials]
    at_scale = scale_of(began, "s")
    rows = []
    seen: dict[int, int] = {}
    for trial, own, at in zip(trials, values, began, strict=True):
        repeat = seen[trial.epoch] = seen.get(trial.epoch, 0) + 1
        key = f"{test.id}.{trial.epoch}" + ("" if repeat == 1 else f"~{repeat}")
        cells: list[Cell] = [Words(str(trial.epoch)), ending_words(trial)]
        if timed:
            cells.append(number_of(f"{key}.at", at, at_scale, unit=False))
        cells += [
            number_of(f"{key}.{name}", own.get(name), scale, unit=False)
            for name, scale in zip(names, scales, strict=True)
        ]
        rows.append(tuple(cells))
    return TableBlock(
        id=test.trials_id,
        title=plural(len(every), "trial"),
        columns=(
            Column("Trial"),
            Column("Ended"),
            *([Column(at_scale.heading("Start"), "after the first trial", True)] if timed else []),
            *(
                Column(scale.heading(visible(label_of(rule.name, rule.label))), numeric=True)
                for rule, scale in zip(rules, scales, strict=True)
            ),
        ),
        rows=tuple(rows),
        note=""
        if len(trials) == len(every)
        else f"The first {_FIRST_SHOWN} trials, and those that do not count; "
        "bw stats --dump prints all.",
        folded=True,
    )


_FIRST_SHOWN = 100


def _trials_in_table(every: Sequence[Trial]) -> list[Trial]:
    """Return the trials of a long test that its table shows."""
    rest = every[_FIRST_SHOWN:]
    other = [t for t in rest if t.warmup or t.ending is not TrialEnding.OK]
    return [*every[:_FIRST_SHOWN], *other[:_FIRST_SHOWN]]


def _measured(values: list[dict[str, float]]) -> list[str]:
    """Return the quantities of trials of which none counts."""
    return [
        name for name in ("elapsed", "user", "system") if any(name in value for value in values)
    ]
