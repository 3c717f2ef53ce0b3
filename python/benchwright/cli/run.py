"""`bw run`: runs a suite file, or measures a command."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
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
    drawn_seed,
    with_features_options,
    with_session_options,
)
from benchwright.core.errors import argument_error
from benchwright.core.plan import Command
from benchwright.feature import SUITE_SUFFIXES
from benchwright.inputs.options import Option, Text, add_options, given, request_from
from benchwright.suite.command_line import CommandRequest

if TYPE_CHECKING:
    from benchwright.core.plan import TestPlan
    from benchwright.run.preparation import PreparedProgram
    from benchwright.suite.plan import Planned
    from benchwright.suite.program import Baseline, Program


_USAGE = """\
bw run [options] 'COMMAND' ['COMMAND'...]
       bw run [options] -- COMMAND ARGUMENT...
       bw run [options] SUITE"""
_TEXT = """\
Run commands, or a suite of tests, until the answer is stable.

examples:
  bw run 'sort big.txt'                        10 trials of a command
  bw run --runs 30 --warmup 2 'sort -u a' 'sort a | uniq'
  bw run --precision 2% -- sort big.txt        until the interval is ±2 %
  bw run -P n=1..64*2 './bench --threads {n}'  a test for each n: 1, 2, 4 ... 64
  bw run suite.toml --study results            a suite in TOML or Auto-pilot's language

exit status: 0 done; 1 a benchmark failed; 2 bad input; 3 stopped without an
answer; 130 interrupted (continue with `bw resume`)"""
_EACH = "each trial"
_RUNS_NOTHING = "with it, bw run runs nothing"
_SUITE = "for a suite"


class BaselineOptions(msgspec.Struct, frozen=True):
    """What the result compares."""

    baseline: Annotated[
        Text,
        Option(
            "test that ratios refer to: first, best, or its name",
            "TEST",
            default="first",
            rare=True,
        ),
    ] = None


class SuiteOptions(msgspec.Struct, frozen=True):
    """The arguments of `bw run`, and its options for a suite."""

    words: Annotated[
        tuple[str, ...],
        Option(
            "quoted command, run by /bin/sh only if it needs a shell; or a program; or a "
            "suite, FILE.ap or FILE.toml; or the file of a CHECKPOINT to resume",
            "COMMAND|SUITE",
            positional=True,
            names="file",
        ),
    ] = ()
    check: Annotated[bool, Option("check for mistakes; run nothing", no_default=_RUNS_NOTHING)] = (
        False
    )
    plan: Annotated[
        bool, Option("print samples and commands; run nothing", no_default=_RUNS_NOTHING)
    ] = False
    defines: Annotated[
        tuple[str, ...],
        Option("set a variable of the suite (repeatable)", "NAME=VALUE", flag="-D", group=_SUITE),
    ] = ()


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `bw run`."""
    parser = add_command(commands, "run", description=_TEXT, usage=_USAGE)
    add_options(parser, CommandRequest, _EACH)
    add_options(parser, SuiteOptions)
    add_options(parser, StudyOptions, RESULT)
    add_options(parser, BaselineOptions, RESULT)
    add_options(parser, DetailOptions, RESULT)
    add_options(parser, LiveOptions, RESULT)
    add_options(parser, AboutOptions, RESULT)
    add_options(parser, NotifyOptions, RESULT)
    add_options(parser, TrialWatchOptions, WATCHING)
    add_features_options(parser, "run")
    parser.set_defaults(handler=run)


def run(arguments: argparse.Namespace) -> int:
    """Run `bw run`; return the exit code."""
    suite = _suite_of(arguments)
    if suite is not None:
        from benchwright.run.ledger import is_checkpoint

        if is_checkpoint(Path(suite)):
            return _resume(arguments, suite)
        if _is_program(suite):
            arguments.words, arguments.command_argv, suite = [], [suite], None

    from benchwright.run.preparation import refuse_replicates, rehearse
    from benchwright.suite.check import unused_factors

    prepared = _prepare(arguments, suite)
    info = with_session_options(prepared.info, arguments)
    begun = BegunSession(info, prepared.program.tables, prepared, suite)
    info = with_features_options(begun, arguments, "run")
    prepared = msgspec.structs.replace(prepared, info=info)
    prepared = _with_baseline(rehearse(prepared), arguments.baseline)
    _check_tables(prepared.program)
    for name in unused_factors(prepared.program.steps):
        print(
            f"bw: warning: no command has {{{name}}}: each level of {name} runs the same "
            f"commands, unless they read BW_FACTOR_{name}",
            file=sys.stderr,
        )
    if arguments.check:
        for why in _missing_programs(prepared):
            hint = "a warning only, because an earlier command may make it"
            print(f"bw: warning: {why}\n  = {hint}", file=sys.stderr)
        print(f"bw: {suite or 'the command'}: no mistakes found", file=sys.stderr)
        return 0
    if arguments.plan:
        return _print_plan(arguments, prepared.planned or (), suite)
    _refuse_missing_servers(prepared)
    refuse_replicates(prepared)
    from benchwright.cli.session_output import start
    from benchwright.run.session import ProgramExperiment

    return start(ProgramExperiment(prepared), arguments)


def _suite_of(arguments: argparse.Namespace) -> str | None:
    """Return the suite, the checkpoint, or a word that may be a program; None for commands.

    A word is a command line if a suite cannot be meant: it has blanks or other characters of a
    shell and names no file, or there are several words. Raises InputError for a suite among
    commands.
    """
    words = arguments.words
    if not words or arguments.command_argv is not None:
        return None
    if not all(map(str.strip, words)):
        hint = "bw run 'COMMAND', or bw run SUITE"
        raise argument_error("COMMAND", " ".join(words), "a command is empty", hint)
    if len(words) == 1:
        (word,) = words
        # A path may have blanks too.
        is_line = len(Command.from_text(word).argv) > 1
        return None if is_line and not _is_suite(word) else word
    for word in words:
        if _is_suite(word):
            message = f"{word} is a suite, and there are other words"
            hint = f"a suite runs alone: bw run {word}"
            raise argument_error("SUITE", " ".join(words), message, hint)
    return None


def _is_suite(word: str) -> bool:
    return word.endswith(SUITE_SUFFIXES) and (" " not in word or Path(word).exists())


def _is_program(word: str) -> bool:
    """Return whether a single word names no suite, but a program in PATH or, with a slash, an
    executable file."""
    from benchwright.trial.programs import program_problem

    path = os.environ.get("PATH")
    return not _is_suite(word) and not program_problem(word, path, os.getcwd())


def _resume(arguments: argparse.Namespace, file: str) -> int:
    """Resume from the file of a checkpoint, as in Auto-pilot; return the exit code."""
    from benchwright.cli.resume import resume

    declared: tuple[type[msgspec.Struct], ...] = (
        *(SuiteOptions, CommandRequest, BaselineOptions, TrialWatchOptions),
        *(added_options.declared for added_options in added_to("run")),
    )
    for option in given(arguments, *declared, AboutOptions, NotifyOptions, StudyOptions):
        if option.name not in ("json", "quiet"):
            raise argument_error(
                option.flag,
                file,
                f"{file} is a checkpoint: it resumes as it was started, without {option.flag}",
                f"leave {option.flag} out, or run the suite itself",
            )
    arguments.study = file
    return resume(arguments)


def _refuse_missing_servers(prepared: PreparedProgram) -> None:
    """Raise InputError for named servers that do not run.

    Not raised if a test has PRESETUP or SETUP commands, which may start the servers.
    """
    from benchwright.run.watching import refuse_missing, servers_of

    if any(plan.phases.presetup or plan.phases.setup for plan in prepared.tests):
        return
    refuse_missing(servers_of(prepared.info, prepared.program.servers))


def _with_baseline(prepared: PreparedProgram, option: str | None) -> PreparedProgram:
    """Return the program with what its ratios refer to, of the option or of the suite, stored in
    its session. Raises InputError for a name that no test has."""
    from benchwright.inputs.mistakes import Where
    from benchwright.study.contents import BASELINE_OPTION
    from benchwright.suite.program import Baseline

    wish = prepared.program.baseline
    if option is not None:
        wish = Baseline(option, Where("--baseline", text=option))
    if wish is None or wish.text == "first":
        return prepared
    text = wish.text if wish.text == "best" else _named_test(wish, prepared.tests)
    options = {**prepared.info.options, BASELINE_OPTION: text}
    info = msgspec.structs.replace(prepared.info, options=options)
    return msgspec.structs.replace(prepared, info=info)


def _named_test(wish: Baseline, planned: Sequence[TestPlan]) -> str:
    """Return the stored name of the test that is named: as stored, in short, or by its command.

    Raises InputError for a name that no test has.
    """
    from benchwright.findings.result import TestResult
    from benchwright.inputs.mistakes import mistake
    from benchwright.inputs.toml_table import one_of_words
    from benchwright.report.answer import short_names

    plans = {plan.name: plan for plan in planned if plan.arm is None}
    tests = [TestResult(name, sample=plan.sample, plan=plan) for name, plan in plans.items()]
    shown = dict(zip(short_names(tests), plans, strict=True))
    if wish.text in plans:
        return wish.text
    if wish.text in shown:
        return shown[wish.text]
    measured = [name for name, plan in plans.items() if plan.phases.exec[0].text == wish.text]
    if len(measured) == 1:
        return measured[0]
    hint = one_of_words(wish.text, ["first", "best", *shown])
    code = "bad-argument" if wish.where.file == "--baseline" else "suite-baseline"
    raise mistake(wish.where, code, f"there is no test {wish.text!r}", hint)


def _missing_programs(prepared: PreparedProgram) -> list[str]:
    """Return why programs of the tests' commands cannot be started now, each once."""
    from benchwright.trial.programs import program_of, program_problem

    found: dict[str, None] = {}
    for plan in prepared.tests:
        around = {**prepared.environment, **dict(plan.environment)}
        phases = plan.phases
        for command in (*phases.presetup, *phases.setup, *phases.exec, *phases.cleanup):
            name = program_of(command.argv)
            if name and (why := program_problem(name, around.get("PATH"), prepared.info.directory)):
                found[why] = None
    return list(found)


def _check_tables(program: Program) -> None:
    """Raise InputError for what tables of features state and this machine does not support."""
    if not program.tables:
        return
    from benchwright.suite.toml_sections import suite_tables

    for key, table in suite_tables().items():
        if key in program.tables:
            table.check(program.tables[key])


def _prepare(arguments: argparse.Namespace, suite: str | None) -> PreparedProgram:
    from benchwright.run import preparation as start

    words, command = sys.argv[1:], tuple(arguments.command_argv or ())
    if suite is not None:
        if _is_suite(suite):
            _refuse_command_options(arguments, suite)
        return start.prepare_suite(suite, arguments.defines, arguments.study, words)
    if bool(command) == bool(arguments.words):
        what = "both before and after --" if command else "neither a suite nor a command"
        message = f"there are words {what}" if command else f"there is {what}"
        hint = "bw run SUITE, bw run 'COMMAND'..., or bw run -- COMMAND ARGUMENT..."
        raise argument_error("bw run", " ".join(words), message, hint)
    request = request_from(
        CommandRequest,
        arguments,
        command=command,
        commands=tuple(arguments.words),
        seed=arguments.seed or str(drawn_seed()),
    )
    if request.draw:
        from benchwright.suite.command_line import draws_of_command

        # A resume draws from the same lines, also where their file has changed.
        request = msgspec.structs.replace(request, draws=draws_of_command(request))
    return start.prepare_command(request, arguments.study, words)


def _refuse_command_options(arguments: argparse.Namespace, suite: str) -> None:
    """Raise InputError for options that apply only to commands, not to a suite."""
    for option in given(arguments, CommandRequest):
        raise argument_error(
            option.flag,
            suite,
            f"{option.flag} is for commands, not for a suite",
            "write it into the suite, or give -D NAME=VALUE",
        )


def _without_fast_fail(planned: Sequence[Planned]) -> list[Planned]:
    """Return a plan without FASTFAIL, which TOML suites and commands do not contain as a step."""
    from benchwright.suite.plan import PlannedStep

    hidden = PlannedStep("FASTFAIL", "")
    return [item for item in planned if item != hidden]


def _print_plan(
    arguments: argparse.Namespace, planned: Sequence[Planned], suite: str | None
) -> int:
    from benchwright.report.run import plan_document, plan_lines

    if arguments.json:
        from benchwright.report.documents import encode

        sys.stdout.write(encode(plan_document(planned)))
    else:
        is_ours = suite is None or suite.endswith(".toml")
        for line in plan_lines(_without_fast_fail(planned) if is_ours else planned):
            print(line)
    return 0
