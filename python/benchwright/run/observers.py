"""Which observers watch a session or the loads of a search, and where they write."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from benchwright.core.errors import BenchError
from benchwright.core.named_server import NamedServer
from benchwright.core.processes import children_of
from benchwright.core.resource_use import ResourceUse
from benchwright.core.search import LoadTrial
from benchwright.run.watching import BatchWatcher, OptionalObservers, Windows
from benchwright.trial.bench import LocalBench
from benchwright.trial.programs import find_engine, find_sampler
from benchwright.watch.observer import Observer, ObserverError, ObserverSet, Watch
from benchwright.watch.profile import DrawFlameGraph, Profiler
from benchwright.watch.sampler import SamplerObserver

if TYPE_CHECKING:
    from benchwright.watch.characterize.observer import Characterizer

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
        children = (child.pid for child in children_of(watch.root_pid))
        self._own = frozenset((*watch.watcher_pids, *children))
        super().begin(watch)

    def end(self) -> None:
        """End it and read the samples. Raises ObserverError `profile-unavailable`."""
        super().end()
        self.samples = [
            sample for sample in self.samples if sample.pid not in self._own
        ]


# -- Which observers watch a session ---------------------------------------------------
#
# Decision: each is one word in the session's options, so a resume watches as the session
# began. What is unavailable (no sampler, no perf) is stored as a failure with its reason, and
# the session goes on without.

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


def session_watcher(
    wish: str,
    bench: LocalBench,
    output: ObserverOutput,
    servers: Sequence[NamedServer] = (),
    *,
    of_loads: bool = False,
) -> BatchWatcher:
    """Return what watches a session's batches, or its loads.

    `wish` is what the session's option asks for. What is unavailable is a failure that is
    reported with the session.
    """
    wishes, observers, failures = wish.split(), list[Observer](), list[ObserverError]()
    sampler: SeriesSampler | None = None
    profiler: Profiler | None = None
    if SAMPLE in wishes:
        try:
            observer = SamplerObserver(find_sampler())
        except BenchError as error:
            failures.append(ObserverError("not-watched", error.message))
        else:
            sampler = SeriesSampler(observer, output.study)
            observers.append(observer)
    if PROFILE in wishes:
        profiler = LoadProfiler(output.draw) if of_loads else Profiler(output.draw)
        observers.append(profiler)
    observer_set = ObserverSet(observers)
    observer_set.failures += failures
    characterizer = _characterizer() if CHARACTERIZE in wishes else None
    return BatchWatcher(
        output.directory,
        bench.all_processes if of_loads else bench.processes,
        observer_set,
        sampler,
        OptionalObservers(profiler, characterizer),
        servers,
    )


def _characterizer() -> Characterizer:
    from benchwright.watch.characterize.observer import Characterizer

    try:
        return Characterizer(find_engine())
    except BenchError:
        return Characterizer(None)


# --------------------------------------------------------------------------------------
# The loads of a search, watched: each trial carries the resource use of the machine.
#
# Decision: the workbench begins the watch, when its server is ready: only then is it known
# which processes are the server's.

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

    def with_use(self, trial: LoadTrial) -> LoadTrial:
        """Return the trial with the resource use and the profile of its load."""
        if not self._begun or not trial.started_ns or not trial.lasted_s:
            return trial
        begin = trial.started_ns - (time.time_ns() - time.monotonic_ns())
        window = (self._number, begin, begin + round(trial.lasted_s * 1e9))
        uses = dict(self._watching.uses_in([window]))
        profiles = dict(self._watching.profiles([window]))
        return msgspec.structs.replace(
            trial, use=uses.get(self._number), profile=profiles.get(self._number)
        )
