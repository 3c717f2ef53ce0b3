"""`bw why`: what limited each result, or a server that runs, with the USE table and all findings."""

from __future__ import annotations

import argparse
import contextlib
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from benchwright.cli.parser import add_command
from benchwright.cli.shared_options import ServerOptions, named_servers
from benchwright.cli.terminal import report_width, warn, write_answer
from benchwright.core.errors import InputError, argument_error
from benchwright.core.hosts import SERVER_KEYS, NamedServer
from benchwright.core.quantity import parse_duration_ns, parse_size_bytes
from benchwright.core.text import duration_text
from benchwright.findings.limit import StatedCapacity, stated_rate
from benchwright.findings.sanity import Claims
from benchwright.findings.thresholds import SHORTEST_S
from benchwright.inputs.option_reader import OptionReader
from benchwright.inputs.options import Option, Text, add_options, request_from
from benchwright.inputs.template import named
from benchwright.suite.common_options import Json, OkStatus, RuleFiles

if TYPE_CHECKING:
    from benchwright.findings.explanation import Explanation
    from benchwright.results.explained import ExplainedResult, WhyRequest
    from benchwright.run.running_server import ServerWatch


_RATE_HINT = "write NAME=RATE, such as eth0=1Gbit/s, vda=3k/s or sda+sdb=400MB/s"


def _size(text: str) -> float:
    size = parse_size_bytes(text)
    if size <= 0:
        raise ValueError("the size of an operation must be at least one byte")
    return float(size)


def _watching_time(text: str) -> float:
    """Return a time in seconds. Raises ValueError."""
    seconds = parse_duration_ns(text) / 1e9
    if seconds < SHORTEST_S:
        raise ValueError(f"nothing can be said of less than {SHORTEST_S:g} s")
    return seconds


class WhyOptions(ServerOptions, frozen=True):
    """The options of `bw why`."""

    inputs: Annotated[
        tuple[str, ...],
        Option(
            "study or a part of it: DIR, DIR@SESSION or DIR:TEST",
            "STUDY",
            default="./bw-study",
            positional=True,
            names="directory",
            default_key="study",
            yields_to="study",
        ),
    ] = ()
    study: Annotated[
        Text, Option("study directory, in place of STUDY", "DIR", names="directory")
    ] = None
    tests: Annotated[
        tuple[str, ...], Option("explain only this test (repeatable)", "NAME", flag="--test")
    ] = ()
    limits: Annotated[
        tuple[str, ...],
        Option(
            "capacity of a link, a disk, disks together or a bus, in bytes or in requests: eth0=1Gbit/s, vda=3k/s, "
            "sda+sdb=400MB/s (repeatable)",
            "NAME=RATE",
            named(stated_rate),
            flag="--limit",
            hint=_RATE_HINT,
        ),
    ] = ()
    operation_size: Annotated[
        Text,
        Option(
            "size of an operation, for rates of operations",
            "SIZE",
            _size,
            default="a factor such as block_size",
        ),
    ] = None
    whole: Annotated[
        bool,
        Option(
            "print the USE table of every test with all its rows, and why figures are absent",
            flag="--all",
        ),
    ] = False
    rules: RuleFiles = ()
    ok_status: OkStatus = None
    json: Json = False

    follow: Annotated[
        bool, Option("while a session runs, print what limits its trial so far, again and again")
    ] = False
    watch_for: Annotated[
        Text,
        Option(
            "how long a running server is watched",
            "TIME",
            _watching_time,
            flag="--for",
            default="10s",
            hint="write --for 30s",
        ),
    ] = None
    characterize: Annotated[
        bool, Option("then trace the I/O of the server for the same time, which slows it down")
    ] = False
    into: Annotated[
        Text,
        Option(
            "directory for the series of a running server and its traced I/O",
            "DIR",
            names="directory",
            default="they are not stored",
        ),
    ] = None


_WATCHING_S = 10.0
_FOLLOWS_ALL = "--follow explains what runs: no test or session can be chosen"


def _watches_server(asked: WhyOptions) -> bool:
    return any(getattr(asked, f"target_{key}") for key in SERVER_KEYS)


def server_watch(asked: WhyOptions, named: tuple[NamedServer, ...]) -> ServerWatch:
    """Return the request of the options about running servers. Raises InputError."""
    from benchwright.run.running_server import ServerWatch

    reader = OptionReader(asked)
    seconds = reader.value("watch_for", _WATCHING_S)
    if reader.found:
        raise InputError(reader.found)
    into = None if asked.into is None else Path(asked.into)
    kinds = ("characterize",) if asked.characterize else ()
    return ServerWatch(named, seconds, kinds, into)


def why_request(asked: WhyOptions) -> WhyRequest:
    """Return the request of the options. Raises InputError."""
    from benchwright.cli.rule_files import rules_and_mistakes
    from benchwright.results.explained import WhyRequest

    reader = OptionReader(asked)
    paths = [*asked.inputs, *filter(None, [asked.study])]
    if len(paths) > 1:
        message = "bw why explains one study at a time"
        reader.wrong("STUDY", paths[1], message, "run it once for each study")
    size = reader.value("operation_size")
    reader.value("ok_status")
    capacities = [
        StatedCapacity(named[0], *named[1])
        for text in asked.limits
        if (named := reader.named("--limit", text, stated_rate, _RATE_HINT)) is not None
    ]
    if _watches_server(asked):
        for path in paths:
            reader.wrong("STUDY", path, "a study and a running server are explained one at a time")
        for name in asked.tests:
            reader.wrong("--test", name, "a running server has no tests")
        if asked.follow:
            reader.wrong("--follow", "", "it follows a session, and a server has none")
    else:
        for flag, given in (
            ("--for", asked.watch_for),
            ("--characterize", asked.characterize),
            ("--into", asked.into),
        ):
            if given:
                message = "it is about a running server, and none is named"
                reader.wrong(flag, str(given), message, "name one: --target-pid, --target-port")
    if asked.follow:
        if asked.json:
            reader.wrong("--json", "", "--follow prints lines, and no document")
        for name in asked.tests:
            reader.wrong("--test", name, _FOLLOWS_ALL)
    rules, wrong = rules_and_mistakes(asked.rules)
    if wrong := [*reader.found, *wrong]:
        raise InputError(wrong)
    path = paths[0] if paths else "bw-study"
    claims = Claims(tuple(capacities), size)
    return WhyRequest(path, asked.tests, claims, rules, asked.ok_status)


def add_parser(commands: Any) -> None:
    """Add `bw why` to the commands."""
    parser = add_command(commands, "why")
    add_options(parser, WhyOptions)
    parser.set_defaults(handler=run)


def run(arguments: argparse.Namespace) -> int:
    """Run `bw why`; return the exit code. Raises InputError, StudyError.

    The exit code is 0 even if the trials were not watched; then the report says so.
    """
    from benchwright.results.explained import results_of, why_document
    from benchwright.views.why import render_why

    asked = request_from(WhyOptions, arguments)
    request = why_request(asked)
    running: Explanation | None = None
    if _watches_server(asked):
        results, noun = _of_servers(asked, arguments, request), "server"
    else:
        if asked.follow:
            return _follow(request)
        running = _running(request, asked)
        results = results_of(request)
        noun = "test" if results.session is None else "load"
    write_answer(
        json=asked.json,
        document=lambda: why_document(
            results.results, results.study, results.session, results.findings, running
        ),
        text=lambda: render_why(
            results.results,
            report_width(),
            about=results.findings,
            whole=asked.whole,
            noun=noun,
            running=running,
        ),
    )
    return 0


def _running(request: WhyRequest, asked: WhyOptions) -> Explanation | None:
    """Return the explanation of the trial that a session of the study runs now, if one does."""
    from benchwright.results.underway import batch_underway, explain_underway

    batch = batch_underway(Path(request.path))
    if batch is None or (asked.tests and batch.test not in asked.tests):
        return None
    os.nice(19)
    return explain_underway(batch, request.claims.capacities)


_LOOK_S = 0.5
"""How often it is looked for news: the sampler writes once a second."""


def _follow(request: WhyRequest) -> int:
    """Print a line about what runs whenever there is news, until the session ends."""
    from benchwright.results.underway import UnderwayFollower
    from benchwright.study.catalogue import split_selector
    from benchwright.study.directory import writer_of
    from benchwright.views.why import running_line

    study, session, test = split_selector(Path(request.path))
    if session is not None or test is not None:
        raise argument_error("STUDY", request.path, _FOLLOWS_ALL, f"bw why {study} --follow")
    if writer_of(study) is None:
        raise argument_error("--follow", request.path, "no session of this study runs")
    os.nice(19)
    follower, printed = UnderwayFollower(study, request.claims.capacities), None
    with contextlib.suppress(KeyboardInterrupt):
        while writer_of(study) is not None:
            found = follower.look()
            if found is not None and found is not printed:
                print(running_line(found), flush=True)
                printed = found
            time.sleep(_LOOK_S)
    return 0


def _of_servers(
    asked: WhyOptions, arguments: argparse.Namespace, request: WhyRequest
) -> ExplainedResult:
    """Watch the named servers; return their explanations. Raises InputError, BenchError."""
    from benchwright.results.explained import explained_servers
    from benchwright.run.running_server import watch_servers

    watch = server_watch(asked, named_servers(arguments))
    if watch.directory is not None:
        try:
            watch.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise argument_error("--into", asked.into or "", error.strerror or str(error)) from None
    warn(f"bw: watches for {duration_text(watch.seconds)}; Ctrl-C ends it earlier, with a result")
    return explained_servers(watch_servers(watch), request)
