"""A capture: all that is known of the machine, one fact a line, in milliseconds.

Purpose: `bw env`, and the start and every resume of each session. Decision: files are read
directly; the few programs that have to be asked are begun first and collected last, within
`patience_s`, and what was not ready then is absent by name. Nothing here needs root: what
is not allowed is absent with that reason. Non-goal: nothing on the machine is changed.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec

from benchwright import __version__
from benchwright.machine import ethtool
from benchwright.machine.asked import Asked, Begin, Pending, begin
from benchwright.machine.capture_activity import (
    LIST_UNITS,
    SYSTEMD,
    load_facts,
    process_facts,
    service_facts,
)
from benchwright.machine.capture_cgroup import cgroup_facts
from benchwright.machine.capture_cpu import node_facts, processor_facts
from benchwright.machine.capture_disk import Space, block_facts, mount_facts, space_of
from benchwright.machine.capture_graphics import graphics_facts
from benchwright.machine.capture_host import host_facts, virtualisation_facts
from benchwright.machine.capture_memory import memory_facts
from benchwright.machine.capture_network import Ask, network_facts
from benchwright.machine.capture_self import self_facts
from benchwright.machine.clock_sync import synchronised
from benchwright.machine.programs import (
    MOST_PROGRAMS,
    Deadline,
    Packages,
    begin_versions,
    named_programs,
    program_facts,
    version_facts,
)
from benchwright.machine.repository import (
    begin_status,
    find_repository,
    repository_facts,
)
from benchwright.machine.tree import Tree, known, missing, reason_of
from benchwright.machine.variables import variable_facts
from benchwright.machine.vocabulary import FATAL, SUSPICIOUS, SYSCTLS
from benchwright.model.machine import Fact, Machine

PATIENCE_S = 0.25
"""For a session: longer than nearly every lookup takes, and no one notices it."""


class Sources(msgspec.Struct, frozen=True):
    """Where a capture looks; tests give a made-up machine."""

    root: str = ""
    environment: Mapping[str, str] | None = None
    """None: our own."""
    directory: str | None = None
    """The working directory; None: our own."""
    begin: Begin = begin
    space: Space = space_of
    ask_interface: Ask = ethtool.ask
    clock: Callable[[], str] = synchronised


REAL = Sources()


class _Begun(msgspec.Struct, frozen=True):
    """The programs that were begun, and what for."""

    repository: str | None
    status: Pending | None
    units: Pending | None
    packages: Packages
    versions: dict[str, Pending]


def capture(
    commands: Sequence[Sequence[str]] = (),
    *,
    patience_s: float = PATIENCE_S,
    ask_versions: bool = False,
    sources: Sources = REAL,
) -> Machine:
    """Return what machine this is now, and what the programs of `commands` are.

    Slow lookups end after about `patience_s` [s]. With `ask_versions` each program is run
    with `--version`. Never raises for what the machine cannot tell.
    """
    deadline = Deadline(time.monotonic_ns() + int(patience_s * 1e9))
    tree = Tree(sources.root)
    environment = dict(
        os.environ if sources.environment is None else sources.environment
    )
    directory = sources.directory or _directory()
    surroundings = environment | {"PWD": directory}
    begun = _begin(tree, commands, surroundings, (sources, ask_versions))
    facts = [
        *_file_facts(tree, sources, directory),
        *variable_facts(environment),
        *program_facts(tree, commands, surroundings),
        *_asked_facts(tree, begun, deadline),
    ]
    by_name = {fact.name: fact for fact in facts}
    ordered = tuple(by_name[name] for name in sorted(by_name))
    return Machine(taken_ns=time.time_ns(), facts=ordered)


def _begin(
    tree: Tree,
    commands: Sequence[Sequence[str]],
    surroundings: Mapping[str, str],
    how: tuple[Sources, bool],
) -> _Begun:
    sources, ask_versions = how
    directory = surroundings["PWD"]
    repository = find_repository(tree, directory)
    programs = named_programs(commands, surroundings)[:MOST_PROGRAMS]
    units = sources.begin(LIST_UNITS, "/") if tree.exists(SYSTEMD) else None
    return _Begun(
        repository,
        begin_status(repository, directory, sources.begin),
        units,
        Packages.begin(tree, programs, sources.begin),
        begin_versions(programs if ask_versions else (), sources.begin, directory),
    )


def _file_facts(tree: Tree, sources: Sources, directory: str) -> Iterator[Fact]:
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


def _asked_facts(tree: Tree, begun: _Begun, deadline: Deadline) -> Iterator[Fact]:
    # Packages first: looking for them is our own work, while the programs do theirs.
    yield from begun.packages.facts(tree, deadline)
    status = _answer(begun.status, deadline)
    yield from repository_facts(tree, begun.repository, status)
    yield from service_facts(tree, _answer(begun.units, deadline))
    yield from version_facts(begun.versions, deadline)


def _answer(pending: Pending | None, deadline: Deadline) -> Asked | None:
    return None if pending is None else pending.answer(deadline.at_ns)


def _clock(ask: Callable[[], str]) -> Fact:
    name, source = "clock.synchronised", "adjtimex"
    try:
        return known(name, ask(), source, SUSPICIOUS)
    except OSError as error:
        return missing(name, source, reason_of(error), SUSPICIOUS)


def _own() -> Iterator[Fact]:
    """Yield our own version and what we run on."""
    import platform

    yield known("benchwright.version", __version__, "benchwright", SUSPICIOUS)
    yield known("python.version", platform.python_version(), "python", SUSPICIOUS)
    python = platform.python_implementation()
    yield known("python.implementation", python, "python", SUSPICIOUS)
    yield known("cpu.architecture", os.uname().machine, "uname", FATAL)
    try:
        libc = os.confstr("CS_GNU_LIBC_VERSION")
    except (OSError, ValueError):
        libc = None
    reason = "" if libc else "the C library does not tell"
    yield Fact("os.libc", libc or None, "confstr", reason, SUSPICIOUS)


def _directory() -> str:
    try:
        return os.getcwd()
    except OSError:
        # The directory was removed under us; nothing in it can be captured.
        return "/"
