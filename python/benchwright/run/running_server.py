"""Watches servers that run already for a while, without starting or ending them.

Purpose: `bw why --target-pid`: the sampler looks at a server as it looks at a trial: the server's
tree is the *own* tree, so that each limit and wait of a trial is found of a server too. Decision:
several servers that are no descendants of each other have a sampler each, because a series has one
own tree; for each of them the others are targets. Rejected: one tree for all, in which the waits of
one server hide those of another.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from benchwright.core.errors import OperatingError
from benchwright.core.hosts import NamedServer
from benchwright.core.processes import is_alive, read_process, stop_signals
from benchwright.core.resource_use import ResourceUse
from benchwright.feature import observers as observer_kinds
from benchwright.run.watching import refuse_missing, unwatched_use
from benchwright.study.logs import file_name
from benchwright.trial.programs import find_sampler
from benchwright.watch.named_servers import server_pids
from benchwright.watch.observer import ObserverError, ObserverKind, ObserverSet, UniqueStems, Watch
from benchwright.watch.process_use import ProcessUse, look_at_tree, process_uses, roots_among
from benchwright.watch.sampler import SamplerObserver, SeriesReducer

_LOOK_S = 0.1
"""How often it is looked whether the servers still run; the sampler's interval."""


class WatchedServer(msgspec.Struct, frozen=True):
    """What one server did while it was watched."""

    pid: int
    name: str
    use: ResourceUse
    """The server's tree is its own tree."""
    processes: tuple[ProcessUse, ...]
    """Those that still ran at the end, the busiest first."""
    ended_after_s: float | None = None
    """When it ended by itself [s since the watch began]; None: it still ran."""
    recorded: tuple[tuple[str, msgspec.Struct], ...] = ()
    """What other observers recorded, by the names of their records."""
    failures: tuple[tuple[str, str], ...] = ()
    """Code and message of each observer that could not watch, but for the sampler."""


class ServerWatch(msgspec.Struct, frozen=True):
    """A request: which servers, how long, and what watches them beside the sampler."""

    named: tuple[NamedServer, ...]
    seconds: float
    kinds: tuple[str, ...] = ()
    """Names of kinds of observers (`characterize`)."""
    directory: Path | None = None
    """Existing directory for the files of the observers; None: they are not stored."""


def watch_servers(asked: ServerWatch) -> tuple[WatchedServer, ...]:
    """Watch servers for a while, until all of them have ended or a stop signal arrives; return what
    they did.

    Raises InputError for a server that does not run, BenchError without a sampler.
    """
    refuse_missing(asked.named)
    pids, _ = server_pids(asked.named, (os.getpid(),))
    roots = roots_among(pids)
    program = find_sampler()
    with contextlib.ExitStack() as stack:
        place = asked.directory or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        files = UniqueStems(place)
        watched = [
            _Server(root, tuple(r for r in roots if r != root), program, files) for root in roots
        ]
        for server in watched:
            stack.callback(server.close)
            server.begin(place)
        is_over = _wait(watched, asked.seconds)
        for server in watched:
            server.end()
        # What slows a server down watches it afterwards, and one server at a time.
        for kind in observer_kinds() if asked.kinds and is_over else ():
            for server in watched:
                if kind.name in asked.kinds and server.is_alive():
                    server.record(kind, place, asked.seconds)
        return tuple(server.result() for server in watched)


class _Server:
    """One server under watch."""

    def __init__(self, root: int, others: Sequence[int], program: Path, files: UniqueStems) -> None:
        process = read_process(root)
        self._identity = None if process is None else process.identity
        self._name = str(root) if process is None else process.name
        self._root = root
        self._others = tuple(others)
        self._files = files
        self._sampler = SamplerObserver(program, copies=False)
        self._reducer = SeriesReducer(program)
        self._observers = ObserverSet([self._sampler])
        self._extra: list[ObserverSet] = []
        self._recorded: list[tuple[str, msgspec.Struct]] = []
        self._failures: list[ObserverError] = []
        self.ended_ns: int | None = None

    def begin(self, place: Path) -> None:
        """Start the sampler."""
        self._observers.begin(self._watch(place))
        self._begin_ns, self._before = time.monotonic_ns(), look_at_tree(self._root)

    def _watch(self, place: Path, stem: str = "") -> Watch:
        name = self._files.free(f"{file_name(f'{self._name}-{self._root}')}{stem}")
        return Watch(place, name, self._root, (os.getpid(),), self._others, root_counts=True)

    def record(self, kind: ObserverKind, place: Path, seconds: float) -> None:
        """Let an observer of extra trials watch it for a while."""
        observer = kind.of_extra_trial()
        if observer is None:
            return
        extra = ObserverSet([observer])
        self._extra.append(extra)
        extra.begin(self._watch(place, f"-{kind.stem}"))
        _wait([self], 0.0 if extra.failures else seconds)
        extra.end()
        self._failures += extra.failures
        if observer.recorded is not None:
            self._recorded.append((kind.record, observer.recorded))

    def is_alive(self) -> bool:
        """Return whether it still runs; note when it no longer does."""
        alive = self._identity is not None and is_alive(self._identity)
        if not alive and self.ended_ns is None:
            self.ended_ns = time.monotonic_ns()
        return alive

    def end(self) -> None:
        """End its observers."""
        # What a process used until its end is in the sums of the tree alone.
        self._after = look_at_tree(self._root) if self.is_alive() else {}
        self._end_ns = self.ended_ns or time.monotonic_ns()
        self._observers.end()

    def close(self) -> None:
        """End what still watches."""
        for observers in (self._observers, *self._extra):
            observers.close()

    def result(self) -> WatchedServer:
        """Return what it did."""
        seconds = max(self._end_ns - self._begin_ns, 1) / 1e9
        ended = None if self.ended_ns is None else (self.ended_ns - self._begin_ns) / 1e9
        return WatchedServer(
            self._root,
            self._name,
            self._use(),
            process_uses(self._before, self._after, seconds),
            ended,
            tuple(self._recorded),
            tuple((failure.code, str(failure)) for failure in self._failures),
        )

    def _use(self) -> ResourceUse:
        windows = [(1, self._begin_ns, self._end_ns)]
        last = self._sampler.last
        if last is None:
            why = next((str(f) for f in self._observers.failures), "the sampler gave no series")
            return unwatched_use(windows, why)
        try:
            uses = self._reducer.uses(last.file, last.file.name, windows)
        except (OSError, OperatingError) as error:
            return unwatched_use(windows, str(error))
        return next((use for use in uses if use is not None), unwatched_use(windows, "no sample"))


def _wait(servers: Sequence[_Server], seconds: float) -> bool:
    """Wait for a time, at most until no server runs any more or a signal asks to stop; return
    whether none did."""
    asked_to_stop: list[int] = []
    end = time.monotonic() + seconds
    with stop_signals(asked_to_stop.append):
        while not asked_to_stop and (left := end - time.monotonic()) > 0:
            alive = [server.is_alive() for server in servers]
            if not any(alive):
                break
            time.sleep(min(left, _LOOK_S))
    return not asked_to_stop
