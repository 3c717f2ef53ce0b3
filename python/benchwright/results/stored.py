"""Reads the results of stored sessions, of which pages, exports, `bw show`, histories and data
frames are functions, and the trials of a comparison as blocks, to compare them again."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import msgspec

from benchwright.core.comparison import ComparisonResult, ComparisonRule
from benchwright.core.errors import argument_error
from benchwright.core.observation import Trial, TrialEnding
from benchwright.core.plan import StopDecision
from benchwright.core.results import Summary
from benchwright.decide.compare.conclusion import conclude
from benchwright.decide.compare.evidence import ComparisonBuilder, ComparisonHistory, MetricValues
from benchwright.decide.history import ReplicateOutcome
from benchwright.findings.examine import codes_of_failures, findings_about
from benchwright.findings.result import TestResult
from benchwright.report.answer import Results
from benchwright.stats.aggregate import MetricRules, aggregate_trial, summarise_columns
from benchwright.study.contents import (
    NULL_KIND,
    machines_of,
    session_findings,
    stored_findings,
    tests_of,
)
from benchwright.study.database import reporting_damage
from benchwright.study.journal import StoredSession, Study
from benchwright.study.keys import is_comparison_result
from benchwright.study.parsers.study import parsed_test
from benchwright.suite.comparison import ComparisonRequest, rule_from_request


def add_paired(builder: ComparisonBuilder, inputs: Sequence[TestResult]) -> None:
    """Add the valid blocks of the arms of one comparison, each in its replicate.

    Incomplete blocks, after an interrupt, are left out.
    """
    by_block = [_by_block(test) for test in inputs]
    each = inputs[0].arm.trials_per_block if inputs[0].arm else 1
    paths = {(trial.epoch - 1) // each: trial.path for trial in inputs[0].trials}
    for number in sorted(set(by_block[0]).intersection(*by_block[1:])):
        if all(len(arm[number]) == each for arm in by_block):
            path = paths[number]
            replicate = ReplicateOutcome(path, None, 0) if path else None
            builder.add([arm[number] for arm in by_block], replicate=replicate)


def _by_block(parsed_input: TestResult) -> dict[int, list[MetricValues | None]]:
    assert parsed_input.arm is not None
    book, found = (MetricRules(parsed_input.specs), dict[int, list[MetricValues | None]]())
    for trial in parsed_input.trials:
        if not trial.warmup:
            number = (trial.epoch - 1) // parsed_input.arm.trials_per_block
            found.setdefault(number, []).append(values_of_trial(trial, book))
    return found


def values_of_trial(trial: Trial, book: MetricRules) -> MetricValues | None:
    """Return the values of a trial; None if it failed."""
    if trial.ending is not TrialEnding.OK:
        return None
    return aggregate_trial(trial.blocks, book).values


def read_results(
    study: Study, session: StoredSession, part: str = "", only: str | None = None
) -> Results:
    """Return the results of a session of tests; with `only`, of the test of this name. `part` is the
    prefix of ids on a page.

    Raises StudyError for a record that cannot be read, InputError for an unknown test.
    """
    stored = stored_findings(study, session.number)
    about_session = (
        session_findings(study, session.number)
        if stored is None
        else (
            *stored.session,
            *(finding for findings in stored.comparisons.values() for finding in findings),
        )
    )
    tests = list(results_of_tests(study, session, part, only))
    if only is not None and not tests:
        names = [test.plan.name for test in tests_of(study, session.number)]
        where, message = f"{study.path}:{only}", f"there is no test {only!r}"
        raise argument_error("STUDY", where, message, f"there are: {', '.join(names)}")
    return Results(
        id=part,
        path=study.path,
        session=session,
        started_ns=session.info.started_ns,
        tests=tuple(tests),
        about_session=about_session,
        comparisons=tuple(session_comparisons(study, session, tests)),
        machines=machines_of(study, session.number),
    )


def results_of_tests(
    study: Study, session: StoredSession, part: str = "", only: str | None = None
) -> Iterator[TestResult]:
    """Yield the tests of a session, each with its findings: stored, else computed again.

    `part` and `only` as in `read_results`. Raises StudyError for a record that cannot be read.
    """
    stored = stored_findings(study, session.number)
    for place, contents in enumerate(tests_of(study, session.number), 1):
        if only is not None and contents.plan.name != only:
            continue
        test = parsed_test(contents, study.path)
        findings = None if stored is None else stored.tests.get(contents.key)
        if findings is None:
            findings = findings_about(test)
        if session.status == "running" and contents.stop is None:
            # More trials may come.
            findings = tuple(finding for finding in findings if finding.code != "too-few-trials")
        yield test.labelled(findings=findings, id=f"{part}.t{place}")


_DERIVED = ("wait", "cpu_percent")


def shown_quantities(test: TestResult) -> tuple[str, ...]:
    """Return the quantities that pages and data frames have: those of the table, without what
    follows from the others, and peak memory; without those that are 0 in every trial."""
    names = test.rules.shown((*test.columns, *test.rules.declared))
    return tuple(
        name
        for name in dict.fromkeys((*names, "rss_bytes"))
        if name in test.rules.declared
        or (name not in _DERIVED and name in test.columns and any(test.columns[name].values))
    )


def shown_summaries(test: TestResult) -> tuple[Summary, ...]:
    """Return the summaries of `shown_quantities`."""
    return summarise_columns(test.columns, shown_quantities(test), test.rules)


def session_comparisons(
    study: Study, session: StoredSession, inputs: Sequence[TestResult]
) -> list[ComparisonResult]:
    """Return the results of a session's comparisons, in order: of those that ended, or of the
    blocks so far. `inputs`: the session's tests."""
    comparison_results = recorded_comparisons(study, session.number)
    if not comparison_results and session.info.kind in _COMPARING:
        unfinished = unfinished_comparison(session, inputs)
        return [] if unfinished is None else [unfinished]
    return comparison_results


def recorded_comparisons(study: Study, session: int) -> list[ComparisonResult]:
    """Return the results of a session's comparisons that ended, in order."""
    with reporting_damage(study.path):
        return [
            _comparison(entry.payload)
            for entry in study.entries(session, ("outcome",))
            if is_comparison_result(entry.key)
        ]


_COMPARING = ("compare", NULL_KIND)


def unfinished_comparison(
    session: StoredSession, inputs: Sequence[TestResult]
) -> ComparisonResult | None:
    """Return what the blocks so far say; None before the first block, and for a stored baseline."""
    arm = inputs[0].arm if inputs else None
    if arm is None or len(arm.names) != len(inputs) or not arm.paired:
        return None
    request = msgspec.json.decode(session.info.sources[0][1], type=ComparisonRequest)
    rule = rule_from_request(request, len(inputs), inputs[0].specs)
    history = history_of_arms(rule, inputs)
    if not history.run:
        return None
    stop = StopDecision(session.status, session.detail, answered=False)
    counted = msgspec.structs.replace(rule, warmup=0)
    comparison_result = conclude(counted, history, arm.names, stop)
    return msgspec.structs.replace(comparison_result, rule=rule, failures=codes_of_failures(inputs))


def history_of_arms(rule: ComparisonRule, inputs: Sequence[TestResult]) -> ComparisonHistory:
    """Return the evidence of the arms of one comparison, as its rule counts it."""
    # The values are without the trials of the warm-up.
    builder = ComparisonBuilder(msgspec.structs.replace(rule, warmup=0))
    if rule.paired:
        add_paired(builder, inputs)
    else:
        builder.add([_counted_values(test) for test in inputs])
    return builder.history()


def _counted_values(test: TestResult) -> list[MetricValues | None]:
    book = MetricRules(test.specs)
    return [values_of_trial(trial, book) for trial in test.trials if not trial.warmup]


_MAY_BE_ABSENT = (
    *("mean_baseline", "mean_candidate", "p", "p_adjusted", "smallest_effect"),
    *("widened", "value", "low", "high"),
)


def _comparison(payload: bytes) -> ComparisonResult:
    """Return a recorded comparison; JSON has null for figures that were NaN."""
    record = msgspec.json.decode(payload)
    for verdict in record["verdicts"]:
        for figures in (verdict, verdict["ratio"]):
            for name in _MAY_BE_ABSENT:
                if name in figures and figures[name] is None:
                    figures[name] = math.nan
    return msgspec.convert(record, ComparisonResult)
