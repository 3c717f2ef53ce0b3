"""Runs a load, alone or as a trial of a study; prints, draws and sends the result."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from benchwright.cli.defaults import defaults_lines, typed_words
from benchwright.cli.live import live_port
from benchwright.cli.output_file import check_plot, write_plot
from benchwright.cli.parser import CommandParser
from benchwright.cli.session_output import start
from benchwright.cli.shared_options import (
    AboutOptions,
    LiveOptions,
    NotifyOptions,
    ServerOptions,
    named_servers,
    read_notify,
    with_session_options,
)
from benchwright.cli.terminal import painter, report_width, table_width, warn
from benchwright.core.comparison import GateOutcome
from benchwright.core.errors import BenchError, Interrupted, OperatingError, argument_error
from benchwright.core.plan import OWN_MODULE
from benchwright.core.progress import progress_display
from benchwright.features.load.command_line import (
    OUTPUT_FILES,
    check_limited,
    named_files,
    option_places,
    path_of,
)
from benchwright.features.load.document import TrialLoad, load_document, stored_load
from benchwright.features.load.engine import DECLARED, INTERRUPTED, aplog_text, run_load
from benchwright.features.load.feed import fed
from benchwright.features.load.findings import load_findings
from benchwright.features.load.inputs import inputs_of
from benchwright.features.load.llm import asked_of_models
from benchwright.features.load.options import LimitOptions, OutputOptions
from benchwright.features.load.parse import implied_server, target_text
from benchwright.features.load.plan import PreparedLoad, too_many_errors
from benchwright.features.load.redis_probe import check_redis
from benchwright.features.load.report import EndingCase, LoadProgressLine, ending_cases
from benchwright.features.load.request import check_worker_cpus
from benchwright.features.load.server_queue import watched_queue
from benchwright.inputs.mistakes import Where
from benchwright.inputs.options import add_options, given
from benchwright.report.documents import encode
from benchwright.run.preparation import prepare_command, rehearse
from benchwright.run.session import ProgramExperiment
from benchwright.run.watching import refuse_missing, servers_of, with_servers
from benchwright.study.journal import SessionInfo, Study
from benchwright.suite.command_line import CommandRequest

if TYPE_CHECKING:
    from benchwright.core.hosts import HostsSettings
    from benchwright.core.notice import NoticeSettings
    from benchwright.core.results import Finding
    from benchwright.features.load.engine import LoadAnswer
    from benchwright.features.load.request import LoadRequest
    from benchwright.features.load.types import EngineResult, LimitVerdict
    from benchwright.report.charts.sheet import Sheet


# --------------------------------------------------------------------------------------
# `bw load --notify` without a study: a notice at the end of a load, like that of a session.
#
# Decision: such a load is not stored, so its notice names no study, and its delivery is not
# recorded; failed deliveries are reported on stderr. With --study the load is a trial of a
# session, and the session sends the notice.


class LoadEnd(msgspec.Struct):
    """The result of a load for its notice; filled in during the run."""

    summary: str = ""
    """The report as text."""
    findings: tuple[Finding, ...] = ()
    interrupted: bool = False


@contextlib.contextmanager
def notify_after_load(arguments: argparse.Namespace, command: str) -> Iterator[LoadEnd | None]:
    """Send a notice when the load in the body ends; yield None if there are no targets.

    The notice also reports an operating error, which is raised again. Raises InputError for a
    wrong target of --notify.
    """
    notify = read_notify(arguments.notify, arguments.notify_on)
    if not notify:
        yield None
        return
    end = LoadEnd()
    name = path_of(arguments) or f"<{command}>"
    try:
        yield end
    except OperatingError as error:
        _notify(name, notify, end, error)
        raise
    except BrokenPipeError:
        # The reader of stdout has left; the notice contains the report.
        _notify(name, notify, end, None)
        raise
    _notify(name, notify, end, None)


def _notify(
    subject: str, targets: Sequence[NoticeSettings], end: LoadEnd, error: OperatingError | None
) -> None:
    from benchwright.run.findings import NoticeContents, SessionEnd, send_end
    from benchwright.run.session import SessionVerdict

    if error is not None:
        verdict = SessionVerdict("failed", str(error), error.exit_status)
    elif end.interrupted:
        told = "cut short; the results cover what was measured until then"
        verdict = SessionVerdict("interrupted", told, 130)
    else:
        verdict = SessionVerdict("complete", "the load ran to its end", 0)
    contents = NoticeContents(summary=end.summary, findings=end.findings)
    ended = SessionEnd(None, 0, verdict, contents, broken=error is not None)
    send_end(subject, targets, ended, warn)


# --------------------------------------------------------------------------------------
# `bw load --study DIR`: the load as one trial of a session, as with `bw run`.
#
# Decision: the trial's command is `bw load` without --study and with --json
# (docs/decisions/0012-load-without-a-study.md). So the complete result is in the study's logs, and
# the numbers reach the journal through APLOG, like those of any script; other code needs no
# knowledge of loads. Samples are stored beside the logs. The output is that of `bw load` without a
# study, then the findings of the session.

OWN = (sys.executable, *OWN_MODULE)
"""The command line of `bw`."""


def run_in_study(arguments: argparse.Namespace, plan: PreparedLoad, command: str) -> int:
    """Run one trial of the load in a study; return the session's exit code, or that of its limits."""
    words = sys.argv[1:]
    request = CommandRequest(
        command=(
            *OWN,
            *trial_words([*words, *typed_words(arguments)]),
            *(["--no-fail"] if plan.limits and not arguments.no_fail else []),
            *_output_files(arguments),
        ),
        name=_name(arguments, command),
        min_runs="1",
        max_runs="1",
        metrics=DECLARED,
        # The ends of a long document alone could not be read.
        output="file",
    )
    prepared = prepare_command(request, arguments.study, words)
    info = with_session_options(prepared.info, arguments)
    refuse_missing(servers_of(info))
    server = implied_server(plan.request.target)
    if server is not None and not servers_of(info):
        info = with_servers(info, (server,))
    prepared = msgspec.structs.replace(prepared, info=info)
    with _errors_in_junit(arguments, target_text(plan.request.target)):
        status = start(ProgramExperiment(rehearse(prepared)), arguments)
    if not plan.limits and arguments.junit is None:
        return status
    return status_of_stored(Path(arguments.study), None, info, status)


def status_of_stored(place: Path, number: int | None, info: SessionInfo, status: int) -> int:
    """Return the exit code of a load that a session stored, by its limits, and write its --junit
    file.

    `number`: of the session; None for the last one. `info`: its command line, and what
    configuration files set. `status`: how the session ended; it stays if that is a failure.
    """
    from benchwright.study.contents import stored_defaults

    parser = CommandParser(add_help=False)
    add_options(parser, LimitOptions)
    of_files = [
        f"--{stored_default.key}"
        for stored_default in stored_defaults(info)
        if stored_default.key == "no-fail"
    ]
    arguments, _ = parser.parse_known_args([*info.arguments, *of_files])
    load = stored_load(place, number)
    judged = 0 if load is None else _status(load, arguments)
    # An undecided session, as without a mean of responses, does not hide a missed limit.
    ended = judged if not status or (status, judged) == (3, 1) else status
    _write_junit(arguments.junit, place.name, load, status=ended)
    return ended


def _name(arguments: argparse.Namespace, command: str) -> str:
    """Return the test's name: the workload's or the trace's, else the command's."""
    path = path_of(arguments)
    return command if path is None else f"{command}-{Path(path).name.split('.')[0]}"


def _output_files(arguments: argparse.Namespace) -> list[str]:
    """Return the options of the trial that name files: files under the logs of the next session."""
    files = named_files(arguments)
    if not files:
        return []
    with contextlib.closing(Study.create_or_open(Path(arguments.study))) as study:
        logs = study.path / "logs" / f"s{study.next_session()}"
    words: list[str] = []
    for name, path in files.items():
        (logs / name).mkdir(parents=True, exist_ok=True)
        words += [f"--{name}", str(logs / name / Path(path).name)]
    return words


def trial_words(words: Sequence[str]) -> list[str]:
    """Return the words of the trial: without the session's options, with --json and --quiet."""
    session = CommandParser(add_help=False)
    add_options(session, OutputOptions, only=("study", *OUTPUT_FILES))
    add_options(session, LimitOptions, only=("junit",))
    for kind in (AboutOptions, NotifyOptions, ServerOptions, LiveOptions):
        add_options(session, kind)
    _, others = session.parse_known_args(words)
    return [*others, "--json", "--quiet"]


# -- The run of a planned load: engine, progress, findings, report, APLOG --------------

APLOG = "APLOG"


def carry_out(plan: PreparedLoad, arguments: argparse.Namespace, command: str) -> int:
    """Run a plan and print the result; return the exit code."""
    check_limited(plan, arguments)
    if arguments.study is not None:
        _refuse_plot(arguments)
        return run_in_study(arguments, plan, command)
    _refuse_servers(arguments)
    for option in given(arguments, AboutOptions):
        message = f"{option.flag} is for a session, and this load is not stored"
        raise argument_error(option.flag, "", message, "add --study DIR")
    for line in () if arguments.quiet else defaults_lines(arguments):
        warn(line)
    if live_port(arguments) is not None:
        message = "the live view shows the sessions of a study"
        raise argument_error("--live", arguments.live, message, "add --study DIR")
    read = getattr(arguments, "workload", None) or getattr(arguments, "trace", None)
    check_plot(arguments.plot, [read] if read else [])
    places = {**plan.places, **option_places(arguments)}
    check_worker_cpus(plan.request, places)
    with notify_after_load(arguments, command) as end:
        return _carried_out(plan, arguments, places, end)


def _carried_out(
    plan: PreparedLoad, arguments: argparse.Namespace, places: dict[str, Where], end: LoadEnd | None
) -> int:
    """Run a plan, print the result and fill in `end`; return the exit code."""
    display = progress_display(quiet=arguments.quiet)
    line = LoadProgressLine(display, _end_ns(plan.request))
    subject = target_text(plan.request.target)
    with (
        contextlib.closing(display),
        _errors_in_junit(arguments, subject),
        fed(plan) as request,
        watched_queue(request.target) as queue,
    ):
        if plan.hosts is not None:
            answer = _run_on_hosts(plan.hosts, request, line, places)
        else:
            check_redis(request.target)
            answer = run_load(request, progress=line.show, places=places, warn=warn)
    result = answer.result
    streams = result.streams.operations if result.streams is not None else 0
    asked = asked_of_models(plan.request, streams)
    findings = load_findings(
        result,
        request.loop,
        subject,
        request.warm_up_ns,
        asked=asked,
        queue=queue.found if queue else None,
        inputs=inputs_of(plan.request),
    )
    document = load_document(
        answer,
        plan.request,
        findings,
        limits=_verdicts(plan, result),
        max_errors_micro=plan.max_errors_micro,
    )
    load = TrialLoad(document, result)
    if end is not None:
        end.summary = load.text(findings=findings)
        end.findings, end.interrupted = findings, result.interrupted
    _append(result, findings)
    write_plot(arguments.plot, lambda: _sheet(load))
    _write_junit(arguments.junit, subject, load, findings)
    _print_load(load, findings, arguments)
    if result.lost_hosts:
        raise BenchError(
            "host-lost",
            "; ".join(lost_host.lost for lost_host in result.lost_hosts),
            "the results are those of the other hosts, up to that moment",
        )
    if result.interrupted:
        return INTERRUPTED
    if why := _errors(load):
        hint = "the findings say which; the results cover the others"
        raise BenchError("too-many-errors", why, hint)
    return _status(load, arguments)


def _verdicts(plan: PreparedLoad, result: EngineResult) -> tuple[LimitVerdict, ...]:
    if not plan.limits:
        return ()
    # Imported here: few loads have limits.
    from benchwright.features.load.limits import judged

    return judged(plan.limits, result, plan.request.warm_up_ns)


def _status(load: TrialLoad, arguments: argparse.Namespace) -> int:
    """Return the exit code of a load that ran to its end."""
    if not load.document.limits or arguments.no_fail:
        return 0
    from benchwright.features.load.criteria import exit_status

    return exit_status(load.document.limits)


def _errors(load: TrialLoad) -> str:
    """Return why more operations than --max-errors have no response time; empty: not more."""
    return too_many_errors(load.result.counts, load.document.max_errors_micro)


def _write_junit(
    path: str | None,
    subject: str,
    load: TrialLoad | None,
    findings: Sequence[Finding] = (),
    *,
    status: int = 0,
    why: str = "",
) -> None:
    """Write the verdicts on limits and how a load ended to the file of --junit, if it is given.

    `load`: None, if it has no result. `status`: the exit status; one that nothing explains has a
    case of its own. `why`: the error that ended it.
    """
    if path is None:
        return
    from benchwright.cli.output_file import write_output
    from benchwright.features.load.document import limits_junit

    verdicts: tuple[LimitVerdict, ...] = ()
    endings: tuple[EndingCase, ...] = ()
    length_ns = 0
    if load is not None:
        subject, verdicts = load.report.target, load.document.limits
        length_ns = load.result.elapsed_ns
        endings = ending_cases(load.result, _errors(load))
    held = all(verdict.outcome is GateOutcome.PASSED for verdict in verdicts)
    if status and held and not any(ending.message for ending in endings):
        why = f"ended with exit status {status}"
    if why:
        endings = (*endings, EndingCase("load", "error", why))
    text = limits_junit(verdicts, subject, length_ns, findings, endings)
    write_output(Path(path), text.encode())


@contextlib.contextmanager
def _errors_in_junit(arguments: argparse.Namespace, subject: str) -> Iterator[None]:
    """Write an error that leaves a load without a result to the file of --junit: a build must not
    see an older one."""
    try:
        yield
    except (OperatingError, Interrupted) as error:
        _write_junit(arguments.junit, subject, None, why=str(error) or "interrupted")
        raise


def _run_on_hosts(
    settings: HostsSettings, request: LoadRequest, line: LoadProgressLine, places: dict[str, Where]
) -> LoadAnswer:
    """Connect to the hosts, and run a load on them."""
    # Imported here: most loads need no connections.
    from benchwright.features.load.hosts import LoadHosts

    where = Where("--hosts", text=",".join(settings.names))
    with contextlib.closing(LoadHosts(settings.each(), where)) as hosts:
        return hosts.run(
            request,
            places=places,
            show=lambda at_ns: line.show_time(at_ns, len(settings.names)),
            making=line.show,
        )


def _end_ns(request: LoadRequest) -> int | None:
    """Return the planned end [ns after the start], warm-up included; None if there is none."""
    length_ns = request.duration_ns
    return None if length_ns is None else request.warm_up_ns + length_ns


def _sheet(load: TrialLoad) -> Sheet:
    # Imported here: only a picture needs numpy, whose import is slow.
    from benchwright.features.load.chart import NamedLoad, load_sheet

    return load_sheet([NamedLoad(load.report.target, load.result)])


def _refuse_servers(arguments: argparse.Namespace) -> None:
    """Raise InputError for a named server without --study: then nothing is watched."""
    for named_server in named_servers(arguments):
        message = f"{named_server.option} is for a watched load"
        raise argument_error(named_server.option, named_server.value, message, "add --study DIR")


def _refuse_plot(arguments: argparse.Namespace) -> None:
    if arguments.plot is not None:
        raise argument_error(
            "--plot",
            arguments.plot,
            "it draws a single run, and a study contains several",
            "leave out --study; bw plot draws the results of a study",
        )


def _append(result: EngineResult, findings: tuple[Finding, ...]) -> None:
    """Inside a trial, append the numbers to the file that APLOG names."""
    place = os.environ.get(APLOG)
    if place and not result.interrupted:
        with open(place, "a", encoding="utf-8") as log:
            log.write(aplog_text(result, findings))


def _print_load(
    load: TrialLoad, findings: Sequence[Finding], arguments: argparse.Namespace
) -> None:
    """Print the complete report, before any later message or error.

    Raises BrokenPipeError if the reader of stdout has left.
    """
    text = (
        encode(load.document)
        if arguments.json
        else load.text(
            report_width(),
            painter(sys.stdout),
            table_width=table_width(),
            verbose=arguments.verbose,
            findings=findings,
        )
    )
    sys.stdout.write(text)
    sys.stdout.flush()
