"""`bw compare --merge STUDY...`: reads the jobs, merges them, and prints the result."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from benchwright.cli.compare_outcome import write_junit
from benchwright.cli.outcome import findings_text, print_blocks
from benchwright.cli.output_file import check_output, check_plot, write_output, write_plot
from benchwright.cli.shared_options import DetailOptions, StudyOptions, added_to
from benchwright.cli.terminal import table_width
from benchwright.core.comparison import ComparisonRule
from benchwright.core.errors import InputError
from benchwright.core.untrusted import visible
from benchwright.features.merge.chart import merge_sheet
from benchwright.features.merge.combine import Question, merge_jobs
from benchwright.features.merge.jobs import read_jobs
from benchwright.features.merge.options import MergeOptions
from benchwright.features.merge.types import Job, MergeResult
from benchwright.features.merge.view import merge_lines, merge_markdown, named_findings
from benchwright.inputs.mistakes import option_mistake
from benchwright.inputs.options import given, request_from
from benchwright.report.answer import finding_groups
from benchwright.report.documents import FileEntry, encode
from benchwright.suite.comparison import ComparisonRequest, rule_from_request

_JUDGING = ("margin", "confidence", "fail_if", "accept", "junit")
"""The options of a comparison that a merge has too."""
_FILES = ("html", "markdown")


def merge(arguments: argparse.Namespace) -> int:
    """Run `bw compare --merge`; return the exit status. Raises InputError."""
    _check(arguments)
    texts = arguments.inputs
    for name in (*_FILES, "junit"):
        if (path := getattr(arguments, name)) is not None:
            check_output(path, f"--{name}", texts)
    check_plot(arguments.plot, texts)
    request = request_from(ComparisonRequest, arguments, commands=())
    rule_from_request(request, 2, ())
    ignored = {name for name in ("margin", "confidence") if getattr(request, name) is not None}
    if request.fail_if:
        ignored.add("gates")
    jobs = read_jobs(texts, ignored)
    result = merge_jobs(jobs, _question(request, jobs))
    files = _write(arguments, result)
    if arguments.json:
        from benchwright.features.merge.document import merge_document

        sys.stdout.write(encode(merge_document(result, files)))
    else:
        _print(result, verbose=arguments.verbose)
    return result.comparison.exit_status


def _check(arguments: argparse.Namespace) -> None:
    """Raise InputError for what does not apply to a merge."""
    wrong = []
    others = (option.declared for option in added_to("compare"))
    kept = {*MergeOptions.__struct_fields__, *_JUDGING, *DetailOptions.__struct_fields__}
    kept |= {*StudyOptions.__struct_fields__} - {"study"}
    from benchwright.cli.compare import StoredOptions
    from benchwright.cli.shared_options import (
        AboutOptions,
        LiveOptions,
        NotifyOptions,
        TrialWatchOptions,
    )

    declared = (ComparisonRequest, StoredOptions, StudyOptions, TrialWatchOptions, AboutOptions)
    for option in given(arguments, *declared, NotifyOptions, LiveOptions, *others):
        if option.name not in kept:
            message = f"{option.flag} is not an option of a merge"
            hint = "each job has measured with its own options"
            wrong.append(option_mistake(option.flag, message, hint))
    if arguments.command_argv:
        message = "a merge runs no command"
        wrong.append(option_mistake("--", message, "bw compare --merge STUDY STUDY ..."))
    if not arguments.inputs:
        hint = "name the study of each job: bw compare --merge job-1 job-2 job-3"
        wrong.append(option_mistake("--merge", "there is no job to merge", hint))
    if wrong:
        raise InputError(wrong)


def _question(request: ComparisonRequest, jobs: tuple[Job, ...]) -> Question:
    """Return what the command line states. Raises InputError for a gate on an unknown metric."""
    plans = jobs[0].plans
    specs = {spec.name: spec for plan in plans for spec in plan.metrics}
    rule: ComparisonRule = rule_from_request(request, 2, list(specs.values()))
    return Question(
        margin=None if request.margin is None else rule.margin,
        confidence=None if request.confidence is None else rule.confidence,
        gates=rule.gates if request.fail_if else None,
        accepted=rule.accepted,
    )


def _write(arguments: argparse.Namespace, result: MergeResult) -> tuple[FileEntry, ...]:
    """Write the requested files; return their entries."""
    files: list[FileEntry] = []
    if arguments.junit is not None:
        findings = [finding for _, finding in named_findings(result)]
        write_junit(arguments.junit, result.comparison, findings)
    if arguments.markdown is not None:
        from benchwright.features.merge.document import status_of

        text = merge_markdown(result, status_of(result))
        files.append(_written(arguments.markdown, "markdown", text))
    if arguments.html is not None:
        from benchwright.features.merge.page import merge_page
        from benchwright.page.html import render_page

        files.append(_written(arguments.html, "html", render_page(merge_page(result))))
    files += write_plot(arguments.plot, lambda: merge_sheet(result))
    if not arguments.json:
        for file in files:
            print(visible(f"bw: wrote {file.path}"), file=sys.stderr)
    return tuple(files)


def _written(path: str, form: str, text: str) -> FileEntry:
    data = text.encode()
    write_output(Path(path), data)
    return FileEntry(path, form, len(data))


def _print(result: MergeResult, *, verbose: bool) -> None:
    named = named_findings(result)
    more = "" if verbose else "evidence and remedies: -v"
    count = len(result.jobs)
    print_blocks(
        [
            "\n".join(merge_lines(result, table_width())),
            findings_text(
                finding_groups(named), named, count, more=more, verbose=verbose, noun="job"
            ),
        ]
    )
