"""A capture: the machine's configuration as a table of facts, read in milliseconds.

Purpose: `bw env`, and the start and every resume of each session. Decision: files are read
directly. The few necessary programs are started first and collected last, within
`patience_s`; a late answer is an absent fact with this reason. Nothing here needs root: a fact
that may not be read is absent with that reason. The machine is never changed.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec

from benchwright import __version__
from benchwright.core.machine import Fact, MachineCapture
from benchwright.machine import capture_hardware as ethtool
from benchwright.machine.capture_hardware import (
    AskInterface,
    AskSpace,
    block_facts,
    graphics_facts,
    memory_facts,
    mount_facts,
    network_facts,
    node_facts,
    processor_facts,
    space_of,
)
from benchwright.machine.capture_programs import (
    MOST_PROGRAMS,
    Deadline,
    Packages,
    RunningGit,
    begin_versions,
    find_repository,
    named_programs,
    program_facts,
    repository_facts,
    version_facts,
)
from benchwright.machine.capture_system import (
    LIST_UNITS,
    SYSTEMD,
    cgroup_facts,
    host_facts,
    load_facts,
    process_facts,
    self_facts,
    service_facts,
    synchronised,
    variable_facts,
    virtualisation_facts,
)
from benchwright.machine.sources import (
    FATAL,
    SUSPICIOUS,
    SYSCTLS,
    MachineFiles,
    ProgramAnswer,
    RunningProgram,
    StartProgram,
    absent_fact,
    present_fact,
    reason_of,
    start_program,
)

PATIENCE_S = 0.25
"""Patience for a session [s]: longer than nearly every lookup, and not noticeable."""


class CaptureSources(msgspec.Struct, frozen=True):
    """The sources of a capture; tests pass a simulated machine."""

    root: str = ""
    environment: Mapping[str, str] | None = None
    """None: this process's environment."""
    directory: str | None = None
    """The working directory; None: this process's."""
    begin: StartProgram = start_program
    space: AskSpace = space_of
    ask_interface: AskInterface = ethtool.ask_interface
    clock: Callable[[], str] = synchronised


REAL = CaptureSources()


class _StartedPrograms(msgspec.Struct, frozen=True):
    """The programs that were started, by purpose."""

    repository: str | None
    git: RunningGit | None
    units: RunningProgram | None
    packages: Packages
    versions: dict[str, RunningProgram]


def capture(
    commands: Sequence[Sequence[str]] = (),
    *,
    patience_s: float = PATIENCE_S,
    ask_versions: bool = False,
    sources: CaptureSources = REAL,
) -> MachineCapture:
    """Return the facts of this machine and of the programs in `commands`.

    Slow lookups end after about `patience_s` [s]. With `ask_versions` each program is run
    with `--version`. Never raises if the machine does not report something.
    """
    deadline = Deadline(time.monotonic_ns() + int(patience_s * 1e9))
    tree = MachineFiles(sources.root)
    environment = dict(os.environ if sources.environment is None else sources.environment)
    directory = sources.directory or _directory()
    surroundings = environment | {"PWD": directory}
    begun = _start_programs(tree, commands, surroundings, (sources, ask_versions))
    facts = [
        *_file_facts(tree, sources, directory),
        *variable_facts(environment),
        *program_facts(tree, commands, surroundings),
        *_program_facts(tree, begun, deadline),
    ]
    by_name = {fact.name: fact for fact in facts}
    ordered = tuple(by_name[name] for name in sorted(by_name))
    return MachineCapture(taken_ns=time.time_ns(), facts=ordered)


def _start_programs(
    tree: MachineFiles,
    commands: Sequence[Sequence[str]],
    surroundings: Mapping[str, str],
    how: tuple[CaptureSources, bool],
) -> _StartedPrograms:
    sources, ask_versions = how
    directory = surroundings["PWD"]
    repository = find_repository(tree, directory)
    programs = named_programs(commands, surroundings)[:MOST_PROGRAMS]
    units = sources.begin(LIST_UNITS, "/") if tree.exists(SYSTEMD) else None
    return _StartedPrograms(
        repository,
        RunningGit.begin(directory, sources.begin) if repository else None,
        units,
        Packages.begin(tree, programs, sources.begin),
        begin_versions(programs if ask_versions else (), sources.begin, directory),
    )


def _file_facts(tree: MachineFiles, sources: CaptureSources, directory: str) -> Iterator[Fact]:
    yield from host_facts(tree)
    yield from virtualisation_facts(tree)
    yield from processor_facts(tree)
    yield from node_facts(tree)
    yield from memory_facts(tree)
    yield from tree.facts(SYSCTLS)
    yield from block_facts(tree)
    yield from mount_facts(tree, sources.space, directory)
    yield from network_facts(tree, sources.ask_interface)
    yield from graphics_facts(tree)
    yield from self_facts(tree)
    yield from cgroup_facts(tree)
    yield from load_facts(tree)
    yield from process_facts(tree)
    yield _clock(sources.clock)
    yield from _own()


def _program_facts(
    tree: MachineFiles, begun: _StartedPrograms, deadline: Deadline
) -> Iterator[Fact]:
    # Packages first: this is our own work, while the other programs still run.
    yield from begun.packages.facts(tree, deadline)
    commit, *more = repository_facts(tree, begun.repository)
    yield from (commit, *more)
    if begun.git is not None:
        yield from begun.git.facts(commit.value, deadline)
    yield from service_facts(tree, _answer(begun.units, deadline))
    yield from version_facts(begun.versions, deadline)


def _answer(pending: RunningProgram | None, deadline: Deadline) -> ProgramAnswer | None:
    return None if pending is None else pending.answer(deadline.at_ns)


def _clock(ask: Callable[[], str]) -> Fact:
    name, source = "clock.synchronised", "adjtimex"
    try:
        return present_fact(name, ask(), source, SUSPICIOUS)
    except OSError as error:
        return absent_fact(name, source, reason_of(error), SUSPICIOUS)


def _own() -> Iterator[Fact]:
    """Yield the versions of Benchwright, Python and the C library, and the architecture."""
    import platform

    yield present_fact("benchwright.version", __version__, "benchwright", SUSPICIOUS)
    yield present_fact("python.version", platform.python_version(), "python", SUSPICIOUS)
    python = platform.python_implementation()
    yield present_fact("python.implementation", python, "python", SUSPICIOUS)
    yield present_fact("cpu.architecture", os.uname().machine, "uname", FATAL)
    try:
        libc = os.confstr("CS_GNU_LIBC_VERSION")
    except (OSError, ValueError):
        libc = None
    reason = "" if libc else "not reported by the C library"
    yield Fact("os.libc", libc or None, "confstr", reason, SUSPICIOUS)


def _directory() -> str:
    try:
        return os.getcwd()
    except OSError:
        # The working directory was removed; nothing in it can be captured.
        return "/"
