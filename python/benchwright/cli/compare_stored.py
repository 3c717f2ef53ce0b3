"""`bw compare` of stored results: the comparison of results/stored_comparison.py, printed."""

from __future__ import annotations

import argparse

from msgspec import UNSET

from benchwright.cli.compare_outcome import print_comparison_document, write_junit
from benchwright.cli.outcome import findings_text, print_blocks
from benchwright.cli.terminal import table_width
from benchwright.core.untrusted import one_line
from benchwright.report.answer import finding_groups
from benchwright.results.stored_comparison import compare_results
from benchwright.suite.comparison import ComparisonRequest
from benchwright.views.comparison import render_comparison


def compare_stored(arguments: argparse.Namespace, request: ComparisonRequest) -> int:
    """Compare stored results and print the outcome; return the exit code."""
    compared = compare_results(arguments.inputs, request)
    comparison, findings, verbose = compared.comparison, compared.findings, arguments.verbose
    if arguments.junit:
        write_junit(arguments.junit, comparison, findings)
    named = [
        (finding.subject if finding.subject in compared.arms else "", finding)
        for finding in findings
    ]
    groups = finding_groups(named)
    if arguments.json:
        head = {
            "study": None,
            "session": None,
            "status": "complete" if comparison.exit_status != 3 else "undecided",
            "detail": comparison.stop.detail,
            "exit_status": comparison.exit_status,
            "only_in": compared.found.only_in or UNSET,
            "without_values": compared.found.without_values or UNSET,
        }
        print_comparison_document(comparison, findings, groups, head)
        return comparison.exit_status
    more = "" if verbose else "evidence and remedies: -v"
    count = len(compared.arms)
    print_blocks(
        [
            render_comparison(comparison, table_width()),
            "\n".join(map(one_line, compared.notes)),
            findings_text(groups, named, count, more=more, verbose=verbose, noun="arm"),
        ]
    )
    return comparison.exit_status
