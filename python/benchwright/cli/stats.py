"""`bw stats`: its options, with the steps that transform the table, and its output."""

from __future__ import annotations

import argparse
import contextlib
import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from benchwright.cli.parser import add_command
from benchwright.cli.stats_options import STEPS, StatsOptions
from benchwright.core.untrusted import shell_text
from benchwright.inputs.options import add_options

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchwright.core.results import Finding
    from benchwright.findings.result import TestResult
    from benchwright.report.stats_document import StatsReport, StatsWords
    from benchwright.results.stats import StudyAnswer
    from benchwright.results.stats_request import TransformStep


# `bw stats`: the table of studies and results files.
#
# The options (`StatsOptions`) become a checked request (`StatsRequest` in stats_request.py). With
# `--predicate`, only `--json` prints output; the exit status is 0 if the predicate is true for
# every quantity, else 1.
# Decision: transformations are steps in the order given, so that each can use the results of
# earlier ones (--select can read a derived column). results/transform.py applies them.
# Source: Auto-pilot paper, section 3.3.

_STEPS_NOTE = (
    "Applied in the order given, to rows; a row is one measured command. "
    "E reads $elapsed, $user and other values, $command, $thread, $epoch, and the "
    "sample's levels."
)


def add_parser(commands: Any) -> None:
    """Add `bw stats` to the commands."""
    add_arguments(add_command(commands, "stats"))


def add_arguments(parser: argparse.ArgumentParser, words: StatsWords | None = None) -> None:
    """Add the options of `bw stats` to a program, which prints its reports in these words."""
    add_options(parser, StatsOptions, notes={STEPS: _STEPS_NOTE})
    parser.set_defaults(handler=run, words=words)


def run(arguments: argparse.Namespace) -> int:
    """Run `bw stats`; return the exit code. Raises InputError."""
    from benchwright.cli.stats_request import request_of
    from benchwright.report.stats_document import StatsWords
    from benchwright.results.inputs import advice_text, check_ok_status, read_inputs, selected

    request = request_of(arguments)
    # What asks for values of tests is no question to a session that has none.
    asks_tests = (
        request.steps
        or request.command
        or request.predicate
        or request.baseline
        or request.dump
        or request.ttest
    )
    if not asks_tests and _print_report(request.paths, request.format, verbose=arguments.verbose):
        return 0
    predicate = _parsed_predicate(request.predicate)
    read = read_inputs(request.paths, advice_text(), request.ok_status)
    check_ok_status(arguments.ok_status, read)
    read = selected(read, request.command)
    inputs, warned = _transformed(read, request.steps)
    if request.dump:
        from benchwright.cli.terminal import painter, report_width
        from benchwright.views.stats import render_dump
        from benchwright.views.terminal import finding_paragraphs

        named = [(one.subject, one) for one in warned]
        for line in finding_paragraphs(named, report_width(), painter(sys.stderr)):
            print(line, file=sys.stderr)
        paths = [{trial.epoch: trial.path for trial in i.trials if trial.path} for i in inputs]
        sys.stdout.write(render_dump([(i.name, i.rows, i.sample) for i in inputs], paths))
        return 0
    if predicate is not None:
        return _answer(predicate, inputs, request.confidence, request.format == "json")
    from benchwright.results.stats import document_of
    from benchwright.results.stats_request import with_known_names

    words = arguments.words or StatsWords()
    request = with_known_names(request, inputs)
    document = document_of(inputs, request, warned, words=words)
    if request.format in ("markdown", "latex") and not arguments.verbose:
        document = _without_scores(document)
    readable = request.format == "table" and not words.is_plain
    # A selection has no answer: the session's rule stopped on all trials.
    whole = not request.steps and request.command is None
    if request.format == "json" and whole:
        from benchwright.results.stats import with_answers

        document = with_answers(document, inputs, request.baseline)
    if readable or request.format == "markdown":
        from benchwright.cli.stats import with_reports
        from benchwright.results.stats import answers_of

        answers = answers_of(inputs, document, request.baseline) if whole else []
        if request.format == "markdown":
            from benchwright.views.stats import answer_markdown

            sys.stdout.write(answer_markdown(answers))
        else:
            from benchwright.cli.terminal import painter, report_width
            from benchwright.views.stats import render_readable
            from benchwright.views.tests import interval_lines, study_answer_lines

            width, paint = report_width(), painter(sys.stdout)
            answers = [
                with_reports(answer, inputs, verbose=arguments.verbose) for answer in answers
            ]
            lines = study_answer_lines(answers, width, paint)
            tables = render_readable(
                document,
                width,
                paint,
                verbose=arguments.verbose,
                more=_verbose_command(request.paths),
            )
            notes = interval_lines(answers, width) if tables else []
            parts = ["".join(f"{line}\n" for line in part) for part in (lines, notes)]
            sys.stdout.write("\n".join(filter(None, [*parts, tables])))
            return 0
    if request.format == "csv":
        _write_doubts(document, request.paths, verbose=arguments.verbose, is_plain=words.is_plain)
    elif request.format == "json":
        from benchwright.report.documents import finding_lines

        # A program that takes the quantities would not see what is not among them.
        missed = [finding for finding in document.findings if finding.code == "results-not-read"]
        sys.stderr.write(finding_lines(missed))
    from benchwright.views.stats import render_stats

    sys.stdout.write(render_stats(document, request.format))
    return 0


def _print_report(paths: Sequence[str], form: str, *, verbose: bool) -> bool:
    """Print the report of a session without tests; return whether `paths` is one."""
    if len(paths) != 1 or form not in ("table", "json"):
        return False
    import contextlib
    from pathlib import Path

    from benchwright.feature import session_kind
    from benchwright.study.catalogue import split_selector
    from benchwright.study.directory import JOURNAL
    from benchwright.study.journal import Study

    part = split_selector(Path(paths[0]))
    if part.test or not (part.place / JOURNAL).is_file():
        return False
    with contextlib.closing(Study.open_to_read(part.place)) as study:
        session = part.among(study.sessions())
        kind = None if session is None else session_kind(session.info.kind)
        if session is None or kind is None:
            return False
        from benchwright.run.runner import OutputOptions

        options = OutputOptions(json=form == "json", quiet=True, verbose=verbose)
        kind.print_report(study, session, options)
    return True


def _verbose_command(paths: Sequence[str]) -> str:
    """Return the command that prints each finding with its evidence and remedy."""
    return shell_text(["bw", "stats", "-v", *paths])


def _write_doubts(
    document: StatsReport, paths: Sequence[str], *, verbose: bool, is_plain: bool
) -> None:
    """Write findings and notices to stderr, because stdout has CSV."""
    if is_plain:
        from benchwright.report.documents import finding_lines
        from benchwright.report.stats_document import notice_lines

        sys.stderr.write(finding_lines(document.findings))
        sys.stderr.write(notice_lines(document.notices))
        return
    from benchwright.cli.terminal import painter, report_width
    from benchwright.views.stats import doubts_text

    text = doubts_text(
        document, report_width(), painter(sys.stderr), verbose=verbose, more=_verbose_command(paths)
    )
    sys.stderr.write(text)


def _transformed(
    inputs: list[TestResult], steps: tuple[TransformStep, ...]
) -> tuple[list[TestResult], tuple[Finding, ...]]:
    """Return the inputs after all steps, and the findings of `--warn`."""
    if not steps:
        return inputs, ()
    from benchwright.results.transform import transformed

    found = transformed(inputs, steps)
    return list(found.inputs), found.findings


def _parsed_predicate(text: str | None) -> Any:
    if text is None:
        return None
    from benchwright.stats.aggregate import parse_predicate

    return parse_predicate(text)


def _answer(predicate: Any, inputs: list[TestResult], confidence: float, as_json: bool) -> int:
    """Evaluate the predicate for every quantity; return 0 if it is true for all, else 1."""
    from benchwright.results.inputs import NOT_SELECTED, why_left_out
    from benchwright.results.stats import judged_summaries
    from benchwright.stats.aggregate import predicate_answers

    # A test that a step could not be applied to has no answer, so the predicate does not hold.
    given = {
        i.name: predicate_answers(predicate, judged_summaries(i, confidence))
        for i in inputs
        if why_left_out(i) != NOT_SELECTED
    }
    holds = all(found and all(found.values()) for found in given.values())
    if as_json:
        from benchwright.report.documents import encode
        from benchwright.report.stats_json import PredicateDocument

        sys.stdout.write(encode(PredicateDocument(holds, given)))
    return 0 if holds else 1


def _without_scores(document: StatsReport) -> StatsReport:
    """Return the report without the notices of z-scores."""
    notices = tuple(notice for notice in document.notices if math.isinf(notice.size))
    return msgspec.structs.replace(document, notices=notices)


def with_reports(
    answer: StudyAnswer, inputs: Sequence[TestResult], *, verbose: bool
) -> StudyAnswer:
    """Return the answer with the report of the session's document or comparisons, if it has any."""

    tests = [one for one in inputs if one.source == answer.source]
    compared = any(test.arm is not None for test in tests)
    ran = [(test.test, test.trials) for test in tests]
    if not compared and (len(ran) != 1 or len(ran[0][1]) != 1):
        return answer
    from benchwright.cli.outcome import document_text_of
    from benchwright.cli.terminal import table_width
    from benchwright.results.stored import session_comparisons
    from benchwright.study.catalogue import split_selector
    from benchwright.study.journal import Study
    from benchwright.views.comparison import measured_commands, render_comparison

    part = split_selector(Path(answer.source))
    with contextlib.closing(Study.open_to_read(part.place)) as study:
        session = part.of(study)
        comparison_results = [] if part.test else session_comparisons(study, session, tests)
    return msgspec.structs.replace(
        answer,
        report=document_text_of(part.place, session.number, ran, verbose=verbose),
        comparisons=tuple(
            render_comparison(comparison_result, table_width(), measured_commands(ran))
            for comparison_result in comparison_results
        ),
    )
