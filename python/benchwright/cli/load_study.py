"""`bw load --study DIR`: the load as one trial of a session, by the same way as `bw run`.

Decision: the trial's command is `bw load` itself without --study, with --json, so that
the whole result stands in the study's logs and the numbers reach the journal through
APLOG like any script's; nothing knows of loads but this file. Samples are kept beside
the logs. What is printed is what `bw run` prints.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from benchwright.cli.load_options import path_of
from benchwright.cli.watch_options import begun_with
from benchwright.load.observe import DECLARED
from benchwright.load.request import Target
from benchwright.load.target import implied_server
from benchwright.session.servers import refuse_missing, servers_of, with_servers
from benchwright.session.start import prepare_command, rehearse
from benchwright.study.journal import Study
from benchwright.suite.command_line import CommandRequest

OWN = (sys.executable, "-P", "-m", "benchwright.cli.main")
"""The words of `bw` itself; -P: no module of the current directory stands in for ours."""
_OF_THE_SESSION = (
    *("--study", "--samples", "--notify", "--notify-on"),
    *("--target-pid", "--target-port", "--target-unit", "--target-name"),
)
"""Options with a value that the trial does not have."""


def run_in_study(arguments: argparse.Namespace, target: Target, command: str) -> int:
    """Run one trial of the load on a target in a study; return the session's exit code."""
    words = sys.argv[1:]
    request = CommandRequest(
        command=(
            *OWN,
            *trial_words(words),
            *_samples(arguments),
        ),
        name=_name(arguments, command),
        min_runs="1",
        max_runs="1",
        metrics=DECLARED,
    )
    prepared = prepare_command(request, arguments.study, words)
    info = begun_with(prepared.info, arguments)
    refuse_missing(servers_of(info))
    server = implied_server(target)
    if server is not None and not servers_of(info):
        info = with_servers(info, (server,))
    prepared = msgspec.structs.replace(prepared, info=info)
    rehearse(prepared)
    from benchwright.cli.live import run_new

    return run_new(prepared, arguments)


def _name(arguments: argparse.Namespace, command: str) -> str:
    """Return the test's name: the workload's or the trace's, else the command's."""
    path = path_of(arguments)
    return command if path is None else f"{command}-{Path(path).name.split('.')[0]}"


def _samples(arguments: argparse.Namespace) -> tuple[str, ...]:
    """Return where the samples go: under the logs of the session that is to begin."""
    if arguments.samples is None:
        return ()
    with contextlib.closing(Study.create_or_open(Path(arguments.study))) as study:
        place = study.path / "logs" / f"s{study.next_session()}" / "samples"
    place.mkdir(parents=True, exist_ok=True)
    return "--samples", str(place / Path(arguments.samples).name)


def trial_words(words: Sequence[str]) -> list[str]:
    """Return the words of the trial: without what is the session's, one JSON document, no
    progress. Options have one spelling (cli/parser.py), so none is missed or taken for another.
    """
    kept: list[str] = []
    left = list(words)
    while left:
        word = left.pop(0)
        if word.partition("=")[0] not in _OF_THE_SESSION:
            kept.append(word)
        elif "=" not in word:
            del left[:1]
    return [*kept, "--json", "--quiet"]
