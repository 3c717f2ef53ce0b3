"""What a session runs: its checked program and the environment that a resume uses again."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from benchwright import __version__
from benchwright.core import SESSION_TOKEN
from benchwright.core.errors import Diagnostic, InputError
from benchwright.core.plan import LevelKind, Replicated, ReplicateLevel, TestPlan
from benchwright.core.text import plural
from benchwright.core.untrusted import shell_text
from benchwright.inputs.mistakes import SourceFile, read_regular
from benchwright.study.contents import NULL_KIND
from benchwright.study.journal import SessionInfo
from benchwright.suite.check import names_read, walk
from benchwright.suite.command_line import CommandRequest, program_from_command
from benchwright.suite.common_options import names_with_loops
from benchwright.suite.comparison import ComparisonRequest, program_from_comparison
from benchwright.suite.plan import Planned, PlannedTest, describe
from benchwright.suite.program import Interleave, Program
from benchwright.trial.programs import (
    COUNTER,
    counter_problem,
    program_of,
    program_problem,
    resolve_hooks,
    uncounted,
)
from benchwright.trial.protocol import ExecEnvironment

# -- Whether the programs of a session exist, before its first trial -------------------
#
# Decision: never refuse what may work. A program that an earlier step may make (set-up, an
# earlier test of a suite) is not checked, nor a word in a shell's text that may not be a
# program (trial/programs.py).

_REST_PROGRAM = "sleep"
"""The program of `--rest`, which makes no file."""


def missing_programs(
    planned: Sequence[Planned], environment: Mapping[str, str], directory: str, *, is_suite: bool
) -> Iterator[tuple[PlannedTest, str, str]]:
    """Yield each test with a program that cannot be started, its name, and why.

    In a suite only the first step is checked: earlier steps may make the programs of later ones.
    """
    for item in planned[:1] if is_suite else planned:
        if not isinstance(item, PlannedTest) or _may_make(item.plan):
            continue
        own = {**environment, **dict(item.plan.environment)}
        for command in item.plan.phases.exec:
            name = program_of(uncounted(command).argv)
            why = (
                ""
                if name is None
                else program_problem(name, own.get("PATH"), item.plan.directory or directory)
            )
            if name is not None and why:
                yield item, name, why


def _may_make(plan: TestPlan) -> bool:
    """Return whether a step before a test's command may make its program."""
    rule = plan.stopping
    if isinstance(rule, Replicated) and any(one.command for one in rule.replication.levels):
        return True
    before = (*plan.phases.presetup, *plan.phases.setup)
    return any(command.argv[0] != _REST_PROGRAM for command in before)


# -- What a session runs: its checked program and the environment that a resume uses again ---------
#
# Everything that determines the program's course is stored with the session: the texts of
# the suite and its includes, the -D values, the directory, and the few environment
# variables that the suite reads. No other variable is stored, because environments contain
# secrets.

COMMAND_LINE = "<command line>"
"""`program_main` of a session whose program is a command, not a file."""

COMPARISON = "<comparison>"
"""`program_main` of a session that compares commands."""

APLIB = "APLIB"
"""Auto-pilot's variable: where its scripts and include files are installed, a list of
directories with colons (paper, section 3.6)."""

ADDRESSES_OPTION = "addresses"
"""The option of a session whose programs start without random addresses: `fixed`."""

_DEFINE = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)\Z", re.DOTALL)


class PreparedProgram(msgspec.Struct, frozen=True):
    """A program and the session that runs it."""

    program: Program
    info: SessionInfo
    planned: tuple[Planned, ...] | None = None
    """What the program would do; None: not rehearsed yet."""

    @property
    def defines(self) -> dict[str, str]:
        """The values of -D."""
        return dict(self.info.defines)

    @property
    def environment(self) -> dict[str, str]:
        """The variables that the program and its commands see."""
        return {**os.environ, **stored_environment(self.info)}

    @property
    def tests(self) -> tuple[TestPlan, ...]:
        """The plans of its tests, and of the arms of its comparisons, in order; of a program that
        is not rehearsed, none."""
        return tuple(one.plan for one in self.planned or () if isinstance(one, PlannedTest))


def prepare_suite(
    path: str, defines: Sequence[str], study: str, arguments: Sequence[str]
) -> PreparedProgram:
    """Return a suite file as a checked program. Raises InputError with all its mistakes."""
    from benchwright.machine.names import names_of_machine
    from benchwright.suite.compile import load

    values = parse_defines(defines)
    base = _base_environment(study)
    program = load(
        path,
        _read_suite,
        defines=values,
        environment=base,
        library=base.get(APLIB),
        machine=names_of_machine(),
    )
    directory = str(Path(path).resolve().parent)
    return _prepare(program, path, values, study, arguments, suite_directory=directory)


def prepare_command(
    request: CommandRequest, study: str, arguments: Sequence[str]
) -> PreparedProgram:
    """Return a command to measure as a checked program. Raises InputError."""
    names = names_with_loops(request.commands, request.names)
    request = msgspec.structs.replace(request, names=names)
    program = program_from_command(request)
    source = SourceFile(COMMAND_LINE, msgspec.json.encode(request).decode())
    program = msgspec.structs.replace(program, sources=(source,))
    return _prepare(program, COMMAND_LINE, {}, study, arguments)


def prepare_comparison(
    request: ComparisonRequest, study: str, arguments: Sequence[str]
) -> PreparedProgram:
    """Return a comparison as a checked program. Raises InputError."""
    taken = () if request.stored is None else (request.stored.name,)
    names = names_with_loops(request.commands, request.names, taken)
    request = msgspec.structs.replace(request, names=names)
    program = program_from_comparison(request)
    source = SourceFile(COMPARISON, msgspec.json.encode(request).decode())
    program = msgspec.structs.replace(program, sources=(source,))
    prepared = _prepare(program, COMPARISON, {}, study, arguments)
    kind = NULL_KIND if request.is_null else "compare"
    info = msgspec.structs.replace(prepared.info, kind=kind)
    return msgspec.structs.replace(prepared, info=info)


def comparison_request(info: SessionInfo) -> ComparisonRequest | None:
    """Return the request of a session that compares commands; None for any other session."""
    if info.program_main != COMPARISON:
        return None
    (source,) = info.sources
    return msgspec.json.decode(source[1], type=ComparisonRequest)


def prepare_again(info: SessionInfo) -> PreparedProgram:
    """Return the program of a stored session, from the stored texts alone."""
    sources = tuple(SourceFile(path, text) for path, text in info.sources)
    if info.program_main == COMMAND_LINE:
        request = msgspec.json.decode(sources[0].text, type=CommandRequest)
        program = program_from_command(request)
    elif info.program_main == COMPARISON:
        asked = msgspec.json.decode(sources[0].text, type=ComparisonRequest)
        program = program_from_comparison(asked)
    else:
        from benchwright.suite.compile import compile_sources

        program = compile_sources(
            info.program_main,
            sources,
            defines=dict(info.defines),
            environment={**os.environ, **stored_environment(info)},
        )
    return PreparedProgram(program, info)


def rehearse(prepared: PreparedProgram) -> PreparedProgram:
    """Return the program with what it would do, after a check that its hooks exist, and its
    programs where that can be checked before anything runs.

    Raises InputError for mistakes that a dry run shows.
    """
    prepared = _planned(prepared)
    assert prepared.planned is not None
    tests = [item for item in prepared.planned if isinstance(item, PlannedTest)]
    wrong = _hook_errors(tests, prepared.info.directory)
    wrong |= _program_errors(prepared, prepared.planned)
    wrong |= _counter_errors(tests)
    if wrong:
        raise InputError(list(wrong.values()))
    return prepared


def refuse_replicates(prepared: PreparedProgram) -> None:
    """Refuse replicates that this machine or its pool cannot make: boots where nothing continues the
    session, boots of tests that alternate (each test has its own), more hosts than gangs. Raises
    InputError."""
    for item in prepared.planned or ():
        outermost = _outermost_level(item.plan) if isinstance(item, PlannedTest) else None
        if not isinstance(item, PlannedTest) or outermost is None:
            continue
        code, why, hint = "", "", ""
        if outermost.kind is LevelKind.BOOT:
            code, (why, hint) = "no-restart", _restart_problem(prepared, item.plan)
            why = why and f"no restarts between replicates: {why}"
        elif outermost.kind is LevelKind.HOST:
            code, (why, hint) = "replicate-host", _host_problem(prepared, outermost.count or 0)
        if why:
            message = f"{item.plan.name}: {why}"
            raise InputError([_diagnostic_at(item, code, message, hint)])


def _outermost_level(plan: TestPlan) -> ReplicateLevel | None:
    rule = plan.stopping
    return rule.replication.levels[0] if isinstance(rule, Replicated) else None


def _restart_problem(prepared: PreparedProgram, plan: TestPlan) -> tuple[str, str]:
    from benchwright.machine.restart import restart_problem
    from benchwright.run.gangs import gangs_of

    if gangs_of(prepared.info) is not None:
        hint = "run it without --pool, or give --replicate host=N"
        return "a restart would end the agent of a gang", hint
    why, hint = restart_problem()
    if not why and not boot_id():
        return "the kernel has no boot_id: one boot is not known from another", ""
    alternate = any(isinstance(one, Interleave) for one in walk(prepared.program.steps))
    if not why and alternate and plan.arm is None:
        hint = "give one command, or compare them: bw compare --replicate boot=6"
        return "tests that alternate do not share a boot", hint
    return why, hint


def _host_problem(prepared: PreparedProgram, hosts: int) -> tuple[str, str]:
    from benchwright.run.gangs import gangs_of

    gangs = gangs_of(prepared.info)
    if gangs is None:
        hint = f"add --pool slurm:partition=NAME,gangs={hosts} (docs/pool.md)"
        return "replicates of host need a pool of hosts", hint
    if len(gangs.names) < hosts:
        return f"{plural(hosts, 'host')} of {plural(len(gangs.names), 'gang')}", f"gangs={hosts}"
    return "", ""


def rehearsed_again(prepared: PreparedProgram) -> PreparedProgram:
    """Return the program of a resumed session with what it would do, if a dry run finds no mistake:
    it was checked when the session started, and the environment may have changed."""
    try:
        return _planned(prepared)
    except InputError:
        return prepared


def _planned(prepared: PreparedProgram) -> PreparedProgram:
    planned = describe(prepared.program, defines=prepared.defines, environment=prepared.environment)
    return msgspec.structs.replace(prepared, planned=tuple(planned))


def _hook_errors(tests: Sequence[PlannedTest], directory: str) -> dict[str, Diagnostic]:
    wrong: dict[str, Diagnostic] = {}
    for item in tests:
        for hook in item.plan.hooks:
            try:
                resolve_hooks((hook,), Path(directory))
            except ValueError as error:
                wrong[f"hook {hook}"] = _diagnostic_at(item, "suite-hook", str(error))
    return wrong


def _counter_errors(tests: Sequence[PlannedTest]) -> dict[str, Diagnostic]:
    """Return a Diagnostic if instructions are to be counted and cannot be."""
    for item in tests:
        for command in item.plan.phases.exec:
            if command.argv[0] == str(COUNTER):
                why, hint = counter_problem(command.argv[1])
                if why:
                    place = Diagnostic("no-counter", why, hint, file="--instructions")
                    return {"--instructions": place}
                return {}
    return {}


def _program_errors(prepared: PreparedProgram, planned: Sequence[Planned]) -> dict[str, Diagnostic]:
    """Return a Diagnostic for each program that cannot be started."""
    main, wrong = prepared.info.program_main, dict[str, Diagnostic]()
    missing = missing_programs(
        planned,
        prepared.environment,
        prepared.info.directory,
        is_suite=main not in (COMMAND_LINE, COMPARISON),
    )
    for item, name, why in missing:
        hint = _quoting_hint(prepared)
        wrong[name] = _diagnostic_at(item, "no-such-program", why, hint)
    return wrong


def _quoting_hint(prepared: PreparedProgram) -> str:
    """Return how to write a command with arguments, if no word of the user contains one."""
    main, sources = prepared.info.program_main, prepared.info.sources
    if main == COMPARISON:
        compared = msgspec.json.decode(sources[0][1], type=ComparisonRequest)
        if compared.checkouts and compared.build is None:
            return "it may have to be built in each commit: --build 'COMMAND'"
        options = [line for line in compared.commands if line.startswith("-")]
        if options:
            return f"options of bw stand before --: {options[0]}"
        line = shell_text([" ".join(compared.commands)])
        return f"quote each command: bw compare -- {line}"
    if main == COMMAND_LINE:
        commands = msgspec.json.decode(sources[0][1], type=CommandRequest).commands
        if len(commands) > 1 and not any(" " in line.strip() for line in commands):
            return f"for one command with its arguments: bw run -- {' '.join(commands)}"
    return ""


def _diagnostic_at(item: PlannedTest, code: str, message: str, hint: str = "") -> Diagnostic:
    place = item.where
    return Diagnostic(code, message, hint, place.file, place.line, place.column, place.text)


def exec_environment(info: SessionInfo, study: Path) -> ExecEnvironment:
    """Return the environment of every command of a session."""
    ours = {
        **stored_environment(info),
        SESSION_TOKEN: info.options["token"],
        "BW_STUDY": str(study),
    }
    return ExecEnvironment(info.directory, tuple(ours.items()))


def stored_environment(info: SessionInfo) -> dict[str, str]:
    """Return the variables that a session stores for its commands."""
    return msgspec.json.decode(info.options["environment"], type=dict[str, str])


def parse_defines(words: Sequence[str]) -> dict[str, str]:
    """Return `-D NAME=VALUE` words as a mapping. Raises InputError."""
    values: dict[str, str] = {}
    wrong = []
    for word in words:
        match = _DEFINE.match(word)
        if match:
            values[match[1]] = match[2]
        else:
            wrong.append(
                Diagnostic(
                    "bad-define",
                    f"{word!r} does not set a variable",
                    "write -D NAME=VALUE",
                    file="-D",
                    text=word,
                )
            )
    if wrong:
        raise InputError(wrong)
    return values


def _prepare(
    program: Program,
    main: str,
    defines: dict[str, str],
    study: str,
    arguments: Sequence[str],
    *,
    suite_directory: str | None = None,
) -> PreparedProgram:
    stored = _stored_environment(program, _base_environment(study), suite_directory)
    addresses = {ADDRESSES_OPTION: "fixed"} if program.fixed_addresses else {}
    _check_text({**stored, "the working directory": os.getcwd()})
    info = SessionInfo(
        started_ns=time.time_ns(),
        version=__version__,
        boot_id=boot_id(),
        directory=os.getcwd(),
        arguments=tuple(arguments),
        defines=tuple(defines.items()),
        program_main=main,
        sources=tuple((s.path, s.text) for s in program.sources),
        options={
            "token": os.urandom(8).hex(),
            "environment": msgspec.json.encode(stored).decode(),
            **addresses,
        },
        kind="run",
    )
    return PreparedProgram(program, info)


def _base_environment(study: str) -> dict[str, str]:
    """Return the environment with TESTROOT, which Auto-pilot leaves to the user."""
    default = str(Path(study).absolute() / "testroot")
    return {"TESTROOT": default, **os.environ}


def _stored_environment(
    program: Program, base: Mapping[str, str], suite_directory: str | None
) -> dict[str, str]:
    """Return the variables that a resume must use again.

    PATH gets the suite's directory first, so that `EXEC postmark.sh` finds the script
    beside the suite, then $APLIB and the directory of `bw` itself last.
    """
    stored = {n: base[n] for n in sorted(names_read(program)) if n in base}
    stored["TESTROOT"] = base["TESTROOT"]
    if APLIB in base:
        stored[APLIB] = base[APLIB]
    tools = str(Path(sys.executable).parent)
    places = [suite_directory, base.get("PATH", os.defpath), base.get(APLIB), tools]
    stored["PATH"] = os.pathsep.join(place for place in places if place)
    return stored


def _check_text(named: Mapping[str, str]) -> None:
    """Raise InputError for text that cannot be stored: the journal holds UTF-8."""
    wrong = [
        Diagnostic(
            "not-text",
            f"{name} is not UTF-8 text: {value.encode(errors='backslashreplace')!r}",
            "the study stores it for `bw resume`: give it a value in UTF-8",
            file="environment",
        )
        for name, value in named.items()
        if not value.isascii() and value != value.encode(errors="replace").decode()
    ]
    if wrong:
        raise InputError(wrong)


def boot_id() -> str:
    """Return the kernel's id of this boot; an empty string if it has none."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def _read_suite(path: str) -> str:
    return read_regular(path)
