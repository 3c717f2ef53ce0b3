"""Which observers watch a session or its loads, and where they write."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from benchwright.core.errors import BenchError
from benchwright.core.named_server import NamedServer
from benchwright.core.resource_use import ResourceUse
from benchwright.feature import observers as observer_kinds
from benchwright.run.watching import BatchWatcher, OptionalObservers
from benchwright.trial.bench import LocalBench
from benchwright.trial.programs import find_sampler
from benchwright.watch.kind import BatchObserver, ExtraObserver, ObserverKind, Windows
from benchwright.watch.observer import Observer, ObserverError, ObserverSet
from benchwright.watch.reduction import SeriesReducer
from benchwright.watch.sampler import SamplerObserver

# -- Which observers watch a session ---------------------------------------------------
#
# Decision: each is one word in the session's options, so a resumed session has the same
# observers. An unavailable one (no sampler, no perf) is stored as a failure with its reason, and
# the session continues without it.

WATCH_OPTION = "watch"
"""Key of the session's options: the names of its observers, separated by spaces."""
SAMPLE = "sample"
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

    def __init__(self, observer: SamplerObserver, reducer: SeriesReducer, study: Path) -> None:
        self._observer = observer
        self._reducer = reducer
        self._study = study

    def uses(self, windows: Windows) -> list[ResourceUse | None]:
        """Return the resource use of each window. Raises OSError, SeriesError."""
        last = self._observer.last
        if last is None:
            return []
        name = last.file.resolve().relative_to(self._study.resolve())
        return self._reducer.uses(last.file, str(name), windows)


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
    if SAMPLE in wishes:
        wishes.remove(SAMPLE)
        try:
            program = find_sampler()
        except BenchError as error:
            failures.append(ObserverError("not-watched", error.message))
        else:
            observer = SamplerObserver(program)
            sampler = SeriesSampler(observer, SeriesReducer(program), output.study)
            observers.append(observer)
    profilers = list[BatchObserver]()
    extra = list[tuple[ObserverKind, ExtraObserver]]()
    # Most sessions ask for none, and import no feature.
    kinds = {kind.name: kind for kind in observer_kinds()} if wishes else {}
    for word in wishes:
        kind = kinds.get(word)
        if kind is None:
            failures.append(ObserverError(f"{word}-unavailable", "its feature is not installed"))
            continue
        if (profiler := kind.of_batches(of_loads=of_loads)) is not None:
            profilers.append(profiler)
        if (one := kind.of_extra_trial()) is not None:
            extra.append((kind, one))
    observer_set = ObserverSet([*observers, *profilers])
    observer_set.failures += failures
    return BatchWatcher(
        output.directory,
        bench.all_processes if of_loads else bench.processes,
        observer_set,
        sampler,
        OptionalObservers(next(iter(profilers), None), tuple(extra)),
        servers,
    )
