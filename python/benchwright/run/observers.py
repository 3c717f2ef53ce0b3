"""Which observers watch a session or the loads of a search, and where they write."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from benchwright.core.errors import BenchError
from benchwright.core.named_server import NamedServer
from benchwright.core.plan import Pairs
from benchwright.core.processes import children_of
from benchwright.core.resource_use import ResourceUse
from benchwright.core.search import LoadTrial, Probe
from benchwright.run.watching import BatchWatcher, OptionalObservers, Windows
from benchwright.trial.bench import BenchProcesses
from benchwright.trial.programs import find_engine, find_sampler
from benchwright.watch.characterize.observer import Characterizer
from benchwright.watch.observer import Observer, ObserverError, ObserverSet, Watch
from benchwright.watch.profile import DrawFlameGraph, Profiler
from benchwright.watch.sampler import SamplerObserver

if TYPE_CHECKING:
    from benchwright.load.workbench import Workbench

# --------------------------------------------------------------------------------------
# The profiler of a search's loads: the server and its generator, without `bw` itself.
#
# Decision: perf follows `bw` and everything below it, since `bw` itself starts a load engine;
# what is `bw`'s own is taken out of the samples afterwards. A policy that thinks while a load
# runs would else stand in the server's flame graph.


class LoadProfiler(Profiler):
    """A profiler whose samples are of what is measured only."""

    def __init__(self, draw: DrawFlameGraph) -> None:
        super().__init__(draw)
        self._own: frozenset[int] = frozenset()

    def begin(self, watch: Watch) -> None:
        """Begin to sample. Raises ObserverError `profile-unavailable`."""
        # Before a load the only children are the launcher and the sampler; a server that
        # runs already is the launcher's.
        children = (one.pid for one in children_of(watch.root_pid))
        self._own = frozenset((*watch.watcher_pids, *children))
        super().begin(watch)

    def end(self) -> None:
        """End it and read the samples. Raises ObserverError `profile-unavailable`."""
        super().end()
        self.samples = [one for one in self.samples if one.pid not in self._own]


# -- Which observers watch a session, from what was wished for when it was begun -------
#
# Decision: the wish is one word each in the session's options, so a resume watches as the
# session began. What cannot be had (no sampler, no perf) is a reason kept with the crew's
# failures, and the session goes on without.

WATCH_OPTION = "watch"
"""In a session's options: what watches it, words parted by a space."""
SAMPLE = "sample"
PROFILE = "profile"
CHARACTERIZE = "characterize"
WATCHED_DIRECTORY = "watched"
"""In a study: what observers wrote, a directory for each session."""


class ObserverOutput(msgspec.Struct, frozen=True):
    """Where observers write, and how a profile is drawn there (report/ is above us)."""

    study: Path
    session: int
    draw: DrawFlameGraph

    @property
    def directory(self) -> Path:
        """Of the session's series, stacks and counts."""
        return self.study / WATCHED_DIRECTORY / f"s{self.session}"


class SeriesSampler:
    """Distils the series of the batch that the sampler has just ended."""

    def __init__(self, observer: SamplerObserver, study: Path) -> None:
        self._observer = observer
        self._study = study

    def uses(self, windows: Windows) -> list[ResourceUse | None]:
        """Return the use of each window. Raises OSError, SeriesError."""
        # numpy takes longer to import than a session to begin.
        from benchwright.watch.use.resource_use import uses_of

        last = self._observer.last
        if last is None:
            return []
        name = last.file.resolve().relative_to(self._study.resolve())
        return list(uses_of(last.file, str(name), windows))


def batch_watcher(
    wish: str,
    processes: BenchProcesses,
    place: ObserverOutput,
    servers: Sequence[NamedServer] = (),
) -> BatchWatcher:
    """Return what watches a session's batches, as it was wished for."""
    profiler = Profiler(place.draw) if PROFILE in wish.split() else None
    return _watcher(wish, processes, place, profiler, servers)


def load_watcher(
    wish: str,
    processes: BenchProcesses,
    place: ObserverOutput,
    servers: Sequence[NamedServer] = (),
) -> BatchWatcher:
    """Return what watches the loads of a search."""
    profiler = LoadProfiler(place.draw) if PROFILE in wish.split() else None
    return _watcher(wish, processes, place, profiler, servers)


def _watcher(
    wish: str,
    processes: BenchProcesses,
    place: ObserverOutput,
    profiler: Profiler | None,
    servers: Sequence[NamedServer],
) -> BatchWatcher:
    observers: list[Observer] = []
    failures: list[ObserverError] = []
    sampler: SeriesSampler | None = None
    if SAMPLE in wish.split():
        try:
            observer = SamplerObserver(find_sampler())
        except BenchError as error:
            failures.append(ObserverError("not-watched", error.message))
        else:
            sampler = SeriesSampler(observer, place.study)
            observers.append(observer)
    if profiler is not None:
        observers.append(profiler)
    crew = ObserverSet(observers)
    crew.failures += failures
    aids = OptionalObservers(
        profiler, _characterizer() if CHARACTERIZE in wish.split() else None
    )
    return BatchWatcher(place.directory, processes, crew, sampler, aids, servers)


def _characterizer() -> Characterizer:
    try:
        return Characterizer(find_engine())
    except BenchError:
        return Characterizer(None)


# --------------------------------------------------------------------------------------
# A workbench whose loads are watched: each trial carries what was seen of the
# machine.
#
# Decision: around the port, so that a search does not know of it. The workbench itself begins
# the watch, when its server is ready: only then is it known which processes are the server's.

LOAD_SERIES = "load"
"""Begins the names of the series of a session's loads."""


class LoadWatcher:
    """Watches the loads of a session, one after the other."""

    def __init__(self, watching: BatchWatcher, recorded: int) -> None:
        """`recorded` trials are on record."""
        self._watching = watching
        self._number = recorded
        self._begun = False

    def next(self) -> None:
        """Note that another trial begins; its load may never do."""
        self._number += 1
        self._begun = False

    @contextlib.contextmanager
    def around(self, server: Sequence[int]) -> Iterator[None]:
        """Watch while the body runs the trial's load on a server of these processes."""
        with self._watching.batch(LOAD_SERIES, self._number, servers=server):
            self._begun = True
            yield

    def described(self, trial: LoadTrial) -> LoadTrial:
        """Return the trial with what was seen of its load."""
        if not self._begun or not trial.started_ns or not trial.lasted_s:
            return trial
        begin = trial.started_ns - (time.time_ns() - time.monotonic_ns())
        window = (self._number, begin, begin + round(trial.lasted_s * 1e9))
        seen = dict(self._watching.seen([window]))
        profiles = dict(self._watching.profiles([window]))
        return msgspec.structs.replace(
            trial, use=seen.get(self._number), profile=profiles.get(self._number)
        )


class WatchedWorkbench:
    """A workbench that was built with a watch of its loads."""

    def __init__(self, workbench: Workbench, loads: LoadWatcher) -> None:
        self._workbench = workbench
        self._loads = loads

    @property
    def watched(self) -> bool:
        """Whether a running trial can be looked at and left early."""
        return self._workbench.watched

    def run(
        self, probe: Probe, sample: Pairs, leaves: Callable[[LoadTrial], bool]
    ) -> LoadTrial:
        """Run one trial at a sample. See load/workbench.py."""
        self._loads.next()
        return self._loads.described(self._workbench.run(probe, sample, leaves))

    def interrupt(self) -> None:
        """End what is running; safe to call in a signal handler."""
        self._workbench.interrupt()

    def close(self) -> None:
        """Stop the server and everything else that was started."""
        self._workbench.close()
