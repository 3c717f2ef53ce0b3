"""Which observers watch a session, from what was wished for when it was begun.

Decision: the wish is one word each in the session's options, so a resume watches as the
session began. What cannot be had (no sampler, no perf) is a reason kept with the crew's
failures, and the session goes on without.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from benchwright.bench.find import find_engine, find_sampler
from benchwright.bench.port import BenchProcesses
from benchwright.model.errors import BenchError
from benchwright.model.named_server import NamedServer
from benchwright.model.watched import ResourceUse
from benchwright.probe.characterize.observer import Characterizer
from benchwright.probe.crew import Crew
from benchwright.probe.observer import Observer, ObserverError
from benchwright.probe.profile import Draw, Profiler
from benchwright.probe.watcher import SamplerObserver
from benchwright.session.load_profiler import LoadProfiler
from benchwright.session.watching import Aids, Watching, Windows

OPTION = "watch"
"""In a session's options: what watches it, words parted by a space."""
SAMPLE = "sample"
PROFILE = "profile"
CHARACTERIZE = "characterize"
DIRECTORY = "watched"
"""In a study: what observers wrote, a directory for each session."""


class Place(msgspec.Struct, frozen=True):
    """Where observers write, and how a profile is drawn there (report/ is above us)."""

    study: Path
    session: int
    draw: Draw

    @property
    def directory(self) -> Path:
        """Of the session's series, stacks and counts."""
        return self.study / DIRECTORY / f"s{self.session}"


class SeriesSampler:
    """Distils the series of the batch that the sampler has just ended."""

    def __init__(self, observer: SamplerObserver, study: Path) -> None:
        self._observer = observer
        self._study = study

    def uses(self, windows: Windows) -> list[ResourceUse | None]:
        """Return the use of each window. Raises OSError, SeriesError."""
        # numpy takes longer to import than a session to begin.
        from benchwright.probe.use.distilled import uses_of

        last = self._observer.last
        if last is None:
            return []
        name = last.file.resolve().relative_to(self._study.resolve())
        return list(uses_of(last.file, str(name), windows))


def watching_for(
    wish: str,
    processes: BenchProcesses,
    place: Place,
    servers: Sequence[NamedServer] = (),
) -> Watching:
    """Return what watches a session's batches, as it was wished for."""
    profiler = Profiler(place.draw) if PROFILE in wish.split() else None
    return _watching(wish, processes, place, profiler, servers)


def watching_loads(
    wish: str,
    processes: BenchProcesses,
    place: Place,
    servers: Sequence[NamedServer] = (),
) -> Watching:
    """Return what watches the loads of a search."""
    profiler = LoadProfiler(place.draw) if PROFILE in wish.split() else None
    return _watching(wish, processes, place, profiler, servers)


def _watching(
    wish: str,
    processes: BenchProcesses,
    place: Place,
    profiler: Profiler | None,
    servers: Sequence[NamedServer],
) -> Watching:
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
    crew = Crew(observers)
    crew.failures += failures
    aids = Aids(profiler, _characterizer() if CHARACTERIZE in wish.split() else None)
    return Watching(place.directory, processes, crew, sampler, aids, servers)


def _characterizer() -> Characterizer:
    try:
        return Characterizer(find_engine())
    except BenchError:
        return Characterizer(None)
