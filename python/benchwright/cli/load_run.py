"""A planned load carried out: engine, progress, doubts, report, APLOG."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from typing import TYPE_CHECKING, Any

import msgspec

from benchwright.cli.load_notice import telling_of_load
from benchwright.cli.load_options import option_places
from benchwright.cli.plot_file import check_plot, write_plot
from benchwright.cli.watch_options import named_servers
from benchwright.finding.load import doubts_of_load, part_words
from benchwright.load.engine import INTERRUPTED, run_load
from benchwright.load.feed import fed
from benchwright.load.observe import aplog_text, metrics
from benchwright.load.places import check_seats
from benchwright.load.plan import Plan
from benchwright.load.target import target_text
from benchwright.load.workload import MICRO
from benchwright.model.errors import BenchError, argument_error
from benchwright.report.load import load_text
from benchwright.report.load_json import load_document
from benchwright.report.load_progress import load_listener

if TYPE_CHECKING:
    from benchwright.cli.load_notice import LoadEnd
    from benchwright.load.request import LoadRequest
    from benchwright.load.result import Answer
    from benchwright.model.finding import Finding
    from benchwright.model.load import Counts
    from benchwright.report.plot.sheet import Sheet
    from benchwright.suite.program import Where

APLOG = "APLOG"
MAX_ERRORS_MICRO = MICRO // 100
"""How many operations may fail where --max-errors is not given [millionths]."""


def carry_out(plan: Plan, arguments: argparse.Namespace, command: str) -> int:
    """Run a plan and tell what came of it; return the exit code."""
    if arguments.study is not None:
        from benchwright.cli.load_study import run_in_study

        _refuse_plot(arguments)
        return run_in_study(arguments, plan.request.target, command)
    _refuse_servers(arguments)
    read = getattr(arguments, "workload", None) or getattr(arguments, "trace", None)
    check_plot(arguments.plot, [read] if read else [])
    places = {**plan.places, **option_places(arguments)}
    check_seats(plan.request, places)
    with telling_of_load(arguments, command) as end:
        return _carried_out(plan, arguments, places, end)


def _carried_out(
    plan: Plan,
    arguments: argparse.Namespace,
    places: dict[str, Where],
    end: LoadEnd | None,
) -> int:
    """Run it and tell what came of it, `end` for a notice; return the exit code."""
    listener = load_listener(_end_ns(plan.request), quiet=arguments.quiet)
    with contextlib.closing(listener), fed(plan) as request:
        answer = run_load(request, progress=listener, places=places)
    subject = target_text(request.target)
    findings = doubts_of_load(answer.result, request.loop, subject)
    if end is not None:
        end.summary, end.findings = _report(plan, answer, findings), findings
        end.interrupted = answer.result.interrupted
    _append(answer, findings)
    write_plot(arguments.plot, lambda: _sheet(answer, subject))
    _tell(plan, answer, findings, json=arguments.json)
    if answer.result.interrupted:
        return INTERRUPTED
    _check_limit(plan, answer.result.counts)
    return 0


def _end_ns(request: LoadRequest) -> int | None:
    """Return when the run is to end [ns after its begin]: the warm-up comes first."""
    length_ns = request.duration_ns
    return None if length_ns is None else request.warm_up_ns + length_ns


def _sheet(answer: Answer, subject: str) -> Sheet:
    # numpy takes longer to import than all the rest, and only a picture needs it.
    from benchwright.report.plot.load_results import NamedLoad, load_sheet

    return load_sheet([NamedLoad(subject, answer.result)])


def _refuse_servers(arguments: argparse.Namespace) -> None:
    """Raise InputError for a named server where nothing is watched."""
    for one in named_servers(arguments):
        message = f"{one.option} is for a load that is watched"
        raise argument_error(one.option, one.value, message, "add --study DIR")


def _refuse_plot(arguments: argparse.Namespace) -> None:
    if arguments.plot is not None:
        raise argument_error(
            "--plot",
            arguments.plot,
            "it draws one run, and a study has several",
            "leave out --study; bw plot draws what a study holds",
        )


def _check_limit(plan: Plan, counts: Counts) -> None:
    """Raise BenchError where more operations than --max-errors have no response time.

    Without the option, what the user's own policies or an overload left out does not count:
    the load was carried out, and findings tell what it lacks.
    """
    limit, missing = plan.max_errors_micro, counts.without_response
    how = "failed, were dropped or skipped, or never ended"
    if limit is None:
        limit, missing = MAX_ERRORS_MICRO, counts.errors + counts.unfinished
        how = "failed or never ended"
    if missing * MICRO <= limit * counts.intended:
        return
    raise BenchError(
        "too-many-errors",
        f"{part_words(missing, counts.intended)} {how}: more than --max-errors "
        f"{limit / 10_000:g}%",
        "the findings of the report say which; its figures are of the others",
    )


def _append(answer: Answer, findings: tuple[Finding, ...]) -> None:
    """Inside a trial, add the numbers to what the trial yields."""
    place = os.environ.get(APLOG)
    if place and not answer.result.interrupted:
        with open(place, "a", encoding="utf-8") as log:
            log.write(aplog_text(answer.result, findings))


def _tell(
    plan: Plan, answer: Answer, findings: tuple[Finding, ...], *, json: bool
) -> None:
    """Print the report, all of it: what is told of the load, and errors, come after it.

    Raises BrokenPipeError where nobody reads it.
    """
    told = _document if json else _report
    sys.stdout.write(told(plan, answer, findings))
    sys.stdout.flush()


def _document(plan: Plan, answer: Answer, findings: tuple[Finding, ...]) -> str:
    """Return the report that a program reads."""
    request: dict[str, Any] = msgspec.to_builtins(plan.request)
    return load_document(
        answer.document,
        request,
        metrics(answer.result),
        known_to=answer.result.response_known_to(),
        loop=plan.request.loop,
        asked_rate_per_s=plan.request.asked_rate_per_s,
        findings=findings,
    )


def _report(plan: Plan, answer: Answer, findings: tuple[Finding, ...]) -> str:
    """Return the report that a person reads."""
    return load_text(
        answer.result,
        target_text(plan.request.target),
        findings,
        open_loop=plan.request.loop.open,
        asked_per_s=plan.request.asked_rate_per_s,
        warm_up_ns=plan.request.warm_up_ns,
    )
