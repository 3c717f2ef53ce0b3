"""Which observers watch a session or its loads, and where they write."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from benchwright.core.errors import BenchError
from benchwright.core.named_server import NamedServer
from benchwright.core.processes import children_of
from benchwright.core.resource_use import ResourceUse
from benchwright.features.profile.profiler import Profiler
from benchwright.run.watching import (
    BatchWatcher,
    OptionalObservers,
    Windows,
)
from benchwright.trial.bench import LocalBench
from benchwright.trial.programs import find_engine, find_sampler
from benchwright.watch.observer import Observer, ObserverError, ObserverSet, Watch
from benchwright.watch.sampler import SamplerObserver

if TYPE_CHECKING:
    from benchwright.features.profile.observer import Characterizer

# --------------------------------------------------------------------------------------
# The profiler of a search's loads: the server and its generator, without `bw` itself.
#
# Decision: perf follows `bw` and everything below it, since `bw` itself starts a load engine;
# the samples of `bw` itself are removed afterwards. Otherwise a policy that computes while a load
# runs would appear in the server's flame graph.


class LoadProfiler(Profiler):
    """A profiler that keeps only the samples of the server and its generator."""

    def __init__(self) -> None:
        super().__init__()
        self._own: frozenset[int] = frozenset()

    def begin(self, watch: Watch) -> None:
        """Start sampling. Raises ObserverError `profile-unavailable`."""
        # Before a load the only children are the launcher and the sampler; a server that
        # already runs is a child of the launcher.
        children = (child.pid for child in children_of(watch.root_pid))
        self._own = frozenset((*watch.watcher_pids, *children))
        super().begin(watch)

    def end(self) -> None:
        """Stop sampling and read the samples. Raises ObserverError `profile-unavailable`."""
        super().end()
        self.samples = [sample for sample in self.samples if sample.pid not in self._own]


# -- Which observers watch a session ---------------------------------------------------
#
# Decision: each is one word in the session's options, so a resumed session has the same
# observers. An unavailable one (no sampler, no perf) is stored as a failure with its reason, and
# the session continues without it.

WATCH_OPTION = "watch"
"""Key of the session's options: the names of its observers, separated by spaces."""
SAMPLE = "sample"
PROFILE = "profile"
CHARACTERIZE = "characterize"
WATCHED_DIRECTORY = "watched"
"""Directory of a study for the observers' files; it has a directory for each session."""


class ObserverOutput(msgspec.Struct, frozen=True):
    """Where observers write."""

    study: Path
    session: int

    @property
    def directory(self) -> Path:
        """The directory of the session's series, stacks and counts."""
        return self.study / WATCHED_DIRECTORY / f"s{self.session}"


class SeriesSampler:
    """Computes resource uses from the series of the sampler's last batch."""

    def __init__(self, observer: SamplerObserver, study: Path) -> None:
        self._observer = observer
        self._study = study

    def uses(self, windows: Windows) -> list[ResourceUse | None]:
        """Return the resource use of each window. Raises OSError, SeriesError."""
        # Importing numpy takes longer than starting a session.
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
    """Return the watcher of a session's batches or loads.

    `wish` is the value of the session's option. The session reports each unavailable observer as
    a failure.
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
        profiler = LoadProfiler() if of_loads else Profiler()
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
    from benchwright.features.profile.observer import Characterizer

    try:
        return Characterizer(find_engine())
    except BenchError:
        return Characterizer(None)
