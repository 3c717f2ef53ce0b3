"""`bw compare`: compares commands or stored results by intervals of their ratios."""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING, Annotated

import msgspec

from benchwright.cli.parser import add_command
from benchwright.cli.shared_options import (
    RESULT,
    WATCHING,
    AboutOptions,
    BegunSession,
    DetailOptions,
    LiveOptions,
    NotifyOptions,
    StudyOptions,
    TrialWatchOptions,
    add_features_options,
    added_to,
    answered_by_feature,
    drawn_seed,
    with_features_options,
    with_session_options,
)
from benchwright.core.errors import Diagnostic, InputError, argument_error
from benchwright.core.untrusted import shell_text
from benchwright.inputs.mistakes import option_mistake
from benchwright.inputs.options import Option, Text, add_options, given, request_from
from benchwright.suite.comparison import ComparisonRequest

if TYPE_CHECKING:
    from benchwright.core.comparison import NullResult


_USAGE = """\
bw compare [options] -- 'COMMAND A' 'COMMAND B' ['COMMAND C'...]
       bw compare [options] STUDY_A STUDY_B"""
_TEXT = """\
Compare commands side by side, or stored results, until the answer is sound. Each
word after -- is one command line; the first is the baseline.

examples:
  bw compare -- 'sort a' 'sort --parallel=4 a'     randomised blocks, until decided
  bw compare --null -- ./old                       the machine's noise floor
  bw compare --baseline main-study --fail-if 'slower by 3%' --junit out.xml -- ./new
  bw compare --commit main --commit HEAD --build make -- './prog input'
  bw compare old-study new-study                   stored results, test by test
  bw compare --merge job-1 job-2 job-3             one verdict from several machines

exit status: 0 decided (with --fail-if: passed); 1 a gate or a command failed;
2 bad input; 3 undecided; 130 interrupted (continue with `bw resume`)"""


_METRICS = "another metric to judge; user, system and rss_bytes are only shown unless named here"
_JUDGING = (
    *("margin", "fail_if", "accept", "metrics", "confidence", "power", "seed"),
    *("names", "junit", "ok_status"),
)
"""Options for comparing stored results; the others need commands to run."""


class StoredOptions(msgspec.Struct, frozen=True):
    """Stored results, to be compared with each other or with commands."""

    inputs: Annotated[
        tuple[str, ...],
        Option(
            "stored results: studies or files, compared test by test; the first is the baseline",
            "STUDY[:TEST]",
            positional=True,
            names="file",
        ),
    ] = ()
    baseline: Annotated[
        Text,
        Option(
            "compare the commands after -- with these stored trials",
            "STUDY[:TEST]",
            names="file",
            no_default="it decides what is compared",
        ),
    ] = None
    interleave_baseline: Annotated[
        bool,
        Option(
            "check out and build (--build) the commit of --baseline, and run its command "
            "side by side with the candidates",
            no_default="it decides what is compared",
            rare=True,
        ),
    ] = False
    null_from: Annotated[
        Text,
        Option(
            "show the noise floor stored in this study",
            "STUDY",
            default="that of --study",
            names="directory",
            rare=True,
        ),
    ] = None


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `bw compare`."""
    parser = add_command(commands, "compare", description=_TEXT, usage=_USAGE)
    add_options(parser, ComparisonRequest, "each trial", helps={"metrics": _METRICS})
    add_options(parser, StoredOptions, "the question")
    add_options(parser, StudyOptions, RESULT)
    add_options(parser, DetailOptions, RESULT)
    add_options(parser, LiveOptions, RESULT)
    add_options(parser, AboutOptions, RESULT)
    add_options(parser, NotifyOptions, RESULT)
    add_options(parser, TrialWatchOptions, WATCHING)
    add_features_options(parser, "compare")
    parser.set_defaults(handler=_handle)


def _handle(arguments: argparse.Namespace) -> int:
    status = answered_by_feature(arguments, "compare")
    return run(arguments) if status is None else status


def run(arguments: argparse.Namespace) -> int:
    """Run a comparison, also for another command; return the exit code."""
    _take_commands(arguments)
    request = _request(arguments)
    if arguments.junit is not None:
        from benchwright.cli.output_file import check_output

        read = [*arguments.inputs, *filter(None, [arguments.baseline])]
        check_output(arguments.junit, "--junit", read)
    if arguments.inputs:
        from benchwright.cli.compare_stored import compare_stored

        _check_stored(arguments)
        return compare_stored(arguments, request)

    from benchwright.run.preparation import prepare_comparison, refuse_replicates, rehearse
    from benchwright.run.watching import refuse_missing, servers_of

    request = _with_commits(arguments, request)
    request = _with_stored(arguments, request)
    if request.draw:
        from benchwright.suite.comparison import draws_of_comparison

        # A resume draws from the same lines, also where their file has changed.
        request = msgspec.structs.replace(request, draws=draws_of_comparison(request))
    prepared = prepare_comparison(request, arguments.study, sys.argv[1:])
    info = with_session_options(prepared.info, arguments)
    begun = BegunSession(info, program=prepared)
    info = with_features_options(begun, arguments, "compare")
    prepared = msgspec.structs.replace(prepared, info=info)
    if request.checkouts:
        from benchwright.run.checkouts import prepare

        prepare(request.checkouts, lambda line: print(line, file=sys.stderr))
    prepared = rehearse(prepared)
    refuse_replicates(prepared)
    if not arguments.setup:
        refuse_missing(servers_of(prepared.info))
    from benchwright.cli.session_output import start
    from benchwright.run.session import ProgramExperiment

    return start(ProgramExperiment(prepared), arguments)


def _take_commands(arguments: argparse.Namespace) -> None:
    """Take quoted commands before `--` as if they stood after it, as in `bw run`.

    Raises InputError for commands among results.
    """
    words = arguments.inputs
    lines = [word for word in words if _is_command(word)]
    if not lines or arguments.command_argv is not None:
        return
    if len(lines) < len(words):
        message = f"{lines[0]!r} is a command, and other words are results"
        hint = f"write commands after --: bw compare -- {shell_text(words)}"
        raise argument_error("INPUT", " ".join(words), message, hint)
    arguments.inputs, arguments.command_argv = [], words


def _is_command(word: str) -> bool:
    """Return whether a word has a blank and no study or file is meant: `study:my test` is of one,
    also if it is missing; `A=b:c true` is not."""
    place, colon, _ = word.partition(":")
    of_study = colon and " " not in place and "=" not in place
    return " " in word.strip() and not (of_study or os.path.exists(place))


def _check_stored(arguments: argparse.Namespace) -> None:
    """Raise InputError for options and words that do not apply to stored results."""
    wrong = []
    running: tuple[type[msgspec.Struct], ...] = (
        ComparisonRequest,
        TrialWatchOptions,
        AboutOptions,
        NotifyOptions,
        LiveOptions,
        *(added_options.declared for added_options in added_to("compare")),
    )
    for option in given(arguments, *running, StoredOptions):
        if option.name not in (*_JUDGING, "null_from"):
            message = f"{option.flag} is for commands that are run"
            hint = "stored results are compared as they are"
            wrong.append(option_mistake(option.flag, message, hint))
    if arguments.command_argv:
        message = "both stored results and commands are given"
        hint = "bw compare X Y, or bw compare --baseline X -- CMD"
        wrong.append(option_mistake("--", message, hint))
    if len(arguments.inputs) < 2:
        message = "only one input is given"
        hint = "give two stored results: bw compare OLD NEW, or OLD:TEST NEW:TEST"
        text = arguments.inputs[0]
        wrong.append(option_mistake("INPUT", message, hint, text))
    if wrong:
        raise InputError(wrong)


def _with_commits(arguments: argparse.Namespace, request: ComparisonRequest) -> ComparisonRequest:
    """Return the request with the commits of --commit.

    The session stores their full names, so that a resume uses the same ones.
    """
    wrong: list[Diagnostic] = []
    is_interleaved = arguments.interleave_baseline
    if is_interleaved and arguments.baseline is None:
        hint = "add --baseline STUDY[:TEST]"
        message = "--interleave-baseline needs a stored baseline"
        wrong.append(option_mistake("--interleave-baseline", message, hint))
    if request.commits and arguments.baseline is not None:
        hint = "name the baseline's commit by the first --commit"
        message = "--commit and --baseline exclude each other"
        wrong.append(option_mistake("--commit", message, hint))
    if request.build is not None and not (request.commits or is_interleaved):
        hint = "add --commit or --interleave-baseline"
        message = "--build builds a commit, and none is checked out"
        wrong.append(option_mistake("--build", message, hint))
    if wrong:
        raise InputError(wrong)
    if not request.commits:
        return request
    from benchwright.run.checkouts import resolved

    checkouts = []
    for revision in request.commits:
        try:
            checkouts.append(resolved(revision, "--commit", request.build))
        except InputError as error:
            wrong += error.diagnostics
    if wrong:
        raise InputError(wrong)
    return msgspec.structs.replace(request, checkouts=tuple(checkouts))


def _with_stored(arguments: argparse.Namespace, request: ComparisonRequest) -> ComparisonRequest:
    """Return the request with the stored baseline and the stored null comparison.

    The session stores both, so that a resume uses the same values.
    """

    if arguments.baseline is not None:
        from benchwright.results.stored_comparison import interleaved_baseline, stored_baseline
        from benchwright.suite.comparison import accepted_statuses, declared_metrics

        if arguments.interleave_baseline:
            return interleaved_baseline(arguments.baseline, request)
        _check_baseline(arguments)
        stored = stored_baseline(
            arguments.baseline, declared_metrics(request), accepted_statuses(request)
        )
        request = msgspec.structs.replace(request, stored=stored)
    if request.is_null:
        return request
    return msgspec.structs.replace(request, null=_known_null(arguments))


def _check_baseline(arguments: argparse.Namespace) -> None:
    """Raise InputError for options that a stored baseline excludes."""

    for option in given(arguments, ComparisonRequest):
        if option.name in ("is_null", "design"):
            message = f"{option.flag} needs the baseline to be run too"
            hint = "leave it out, or give the baseline as the first command"
            raise argument_error(option.flag, "", message, hint)
    if arguments.mode == "watch":
        hint = "leave --mode out: it is `plan` here"
        message = "a stored baseline is compared only once"
        raise argument_error("--mode", "watch", message, hint)


def _known_null(arguments: argparse.Namespace) -> NullResult | None:
    """Return the last null comparison of the study, or of the study of --null-from."""
    import contextlib
    from pathlib import Path

    from benchwright.study.contents import last_null
    from benchwright.study.directory import JOURNAL
    from benchwright.study.journal import Study

    named = arguments.null_from
    place = Path(named or arguments.study)
    null_result = None
    if named or (place / JOURNAL).is_file():
        with contextlib.closing(Study.open_to_read(place)) as study:
            null_result = last_null(study)
    if named and null_result is None:
        hint = f"measure one: bw compare --null --study {named} -- CMD"
        raise argument_error(
            "--null-from", named, "there is no null comparison in this study", hint
        )
    if null_result is None or not named:
        return null_result
    return msgspec.structs.replace(null_result, source=named)


def _request(arguments: argparse.Namespace) -> ComparisonRequest:
    return request_from(
        ComparisonRequest,
        arguments,
        commands=tuple(arguments.command_argv or ()),
        seed=arguments.seed or str(drawn_seed()),
        token=os.urandom(8).hex(),
    )
