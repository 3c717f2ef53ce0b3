"""What watches a session or its loads: which servers and observers, where they write, and what is
recorded with a trial."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Protocol

import msgspec

from benchwright.core.errors import BenchError, Diagnostic, InputError, OperatingError
from benchwright.core.hosts import NamedServer
from benchwright.core.observation import CpuProfile
from benchwright.core.resource_use import ResourceUse
from benchwright.core.results import Finding
from benchwright.feature import observers as observer_kinds
from benchwright.findings.codes import make_finding
from benchwright.study.journal import SessionInfo
from benchwright.study.logs import file_name
from benchwright.trial.bench import BatchResult, BenchProcesses, LocalBench
from benchwright.trial.observe import measured_window
from benchwright.trial.programs import find_sampler
from benchwright.trial.protocol import EpochRecord
from benchwright.watch.named_servers import server_pids
from benchwright.watch.observer import (
    BatchObserver,
    ExtraObserver,
    Observer,
    ObserverError,
    ObserverKind,
    ObserverSet,
    UniqueStems,
    Watch,
    Windows,
)
from benchwright.watch.sampler import SamplerObserver, SeriesReducer

# --------------------------------------------------------------------------------------
# The servers that a session drives and did not start: which were named, and whether they
# run.
#
# Decision: the named servers are stored with the session's options, so that `bw resume` watches
# the same ones. Their processes are looked up before each batch, because a server may have been
# restarted.

SERVERS_OPTION = "servers"
"""Key of the session's options: the servers that --target-pid and similar options name, as JSON."""
SERVER_NOT_FOUND = "server-not-found"
"""Code of the error, and of the finding if the server ends later."""


def with_servers(info: SessionInfo, named: Sequence[NamedServer]) -> SessionInfo:
    """Return a session's input with the servers that its options name."""
    if not named:
        return info
    options = {**info.options, SERVERS_OPTION: msgspec.json.encode(tuple(named)).decode()}
    return msgspec.structs.replace(info, options=options)


def servers_of(info: SessionInfo, written: Sequence[NamedServer] = ()) -> tuple[NamedServer, ...]:
    """Return the servers of a session: those `written` in its suite or spec, then those of
    its options."""
    stored = info.options.get(SERVERS_OPTION, "[]")
    options = msgspec.json.decode(stored, type=tuple[NamedServer, ...])
    return tuple(dict.fromkeys((*written, *options)))


def refuse_missing(named: Sequence[NamedServer]) -> None:
    """Raise InputError for every named server that does not run."""
    _, missing = server_pids(named, (os.getpid(),))
    if missing:
        raise InputError(
            [
                Diagnostic(
                    SERVER_NOT_FOUND,
                    processes.why,
                    processes.remedy,
                    server.option,
                    text=server.value,
                )
                for server, processes in missing
            ]
        )


# --------------------------------------------------------------------------------------
# Watching a session's batches: where the series are stored, and what is recorded with a
# trial.
#
# Purpose: connects a session, which has tests and epochs, to `watch/`, which has processes and
# times. Decision: a trial's resource use is computed right after its batch and recorded with its
# outcome, so that every finding is a function of the journal; the series stay in the study for
# plots. If a trial cannot be watched, its resource use contains the reason; the run continues.

PROFILE_CODE = "profile-unavailable"
NO_SAMPLES = "profile-empty"
_NO_CPU_TIME = "0 samples, the program used no CPU time"
NOT_WATCHED = "not-watched"
SHORTEST_WATCHED_NS = 250_000_000
"""Shorter batches are not watched: they show no limit (findings/thresholds.py), and starting
and ending a watch takes some milliseconds, as much as such a trial itself."""


class SamplerPort(Protocol):
    """The observer that samples the machine."""

    def uses(self, windows: Windows) -> list[ResourceUse | None]:
        """Return the use of each window of the batch that has just ended.

        Empty if the batch was not sampled. Raises OSError and SeriesError for a series that
        cannot be read.
        """


class OptionalObservers(msgspec.Struct, frozen=True):
    """Observers that exist only if an option asks for them."""

    profiler: BatchObserver | None = None
    """Also one of the observers of each batch."""
    extra: tuple[tuple[ObserverKind, ExtraObserver], ...] = ()
    """No observers of batches: each watches an extra trial."""


class BatchWatcher:
    """Watches batches with its observers; without observers it does nothing."""

    def __init__(
        self,
        place: Path,
        processes: BenchProcesses | None,
        observers: ObserverSet,
        sampler: SamplerPort | None,
        aids: OptionalObservers | None = None,
        servers: Sequence[NamedServer] = (),
    ) -> None:
        """`servers`: running servers that every batch drives."""
        self._place = place
        self._stems = UniqueStems(place)
        self._processes = processes
        self.observers = observers
        self._sampler = sampler
        self._aids = aids or OptionalObservers()
        self._servers = tuple(servers)
        self._lengths_ns: dict[str, float] = {}
        """Length of a trial of each test's last batch [ns], where known."""
        self._is_watched = False

    @contextlib.contextmanager
    def batch(
        self, test: str, first: int, count: int = 1, *, servers: Sequence[int] = ()
    ) -> Iterator[None]:
        """Watch while the body runs a batch of `count` epochs of a test, from `first` on.

        `servers` are processes that the batch drives, in addition to the named ones. A batch that
        is too short to show anything is not watched.
        """
        if self._lengths_ns.get(test, SHORTEST_WATCHED_NS) * count < SHORTEST_WATCHED_NS:
            self._is_watched = False
            yield
            return
        with self._watched(self.observers, test, first, servers):
            self._is_watched = True
            yield

    @contextlib.contextmanager
    def _watched(
        self, observers: ObserverSet, test: str, first: int, servers: Sequence[int] = ()
    ) -> Iterator[None]:
        if self._processes is None:
            yield
            return
        with contextlib.suppress(OSError):
            self._place.mkdir(mode=0o700, parents=True, exist_ok=True)
        observers.begin(
            Watch(
                self._place,
                self._stems.free(f"{file_name(test)}-{first}"),
                self._processes.root,
                self._processes.own,
                tuple(dict.fromkeys((*servers, *self._named_pids()))),
            )
        )
        try:
            yield
        finally:
            observers.end()

    def _named_pids(self) -> tuple[int, ...]:
        """Return the current processes of the named servers; a server that is gone is a failure."""
        assert self._processes is not None
        ours = (self._processes.root, *self._processes.own)
        pids, missing = server_pids(self._servers, ours)
        for server, processes in missing:
            text = f"{server.text}: {processes.why} when trials began"
            self.observers.failures.append(ObserverError(SERVER_NOT_FOUND, text))
        return pids

    @property
    def samples_into(self) -> Path | None:
        """The directory of the series, `STUDY/watched/sN`; None if nothing is sampled."""
        return None if self._sampler is None else self._place

    def uses_in(self, windows: Windows) -> tuple[tuple[int, ResourceUse], ...]:
        """Return the resource use in windows of the batch that has just ended; if there is none,
        a use that contains the reason."""
        if not windows:
            return ()
        uses = self._uses(windows)
        if not uses and self.observers.failures:
            uses = [unwatched_use(windows, str(self.observers.failures[0]))]
        return tuple(
            (window[0], use) for window, use in zip(windows, uses, strict=False) if use is not None
        )

    def _uses(self, windows: Windows) -> list[ResourceUse | None]:
        if self._sampler is None:
            return []
        try:
            return self._sampler.uses(windows)
        except (OSError, OperatingError) as error:
            return [unwatched_use(windows, str(error))]

    def with_uses(self, test: str, result: BatchResult) -> BatchResult:
        """Return a batch's result with the resource use and the profiles of its trials."""
        windows = [w for w in map(watched_window, result.epochs) if w is not None]
        if windows:
            length_ns = sum(end - begin for _, begin, end in windows)
            self._lengths_ns[test] = length_ns / len(windows)
        if not self._is_watched:
            return result
        return msgspec.structs.replace(
            result, uses=self.uses_in(windows), profiles=self.profiles(windows)
        )

    def profiles(self, windows: Windows) -> tuple[tuple[int, CpuProfile], ...]:
        """Return the profiles of windows of the batch that has just ended; empty if none was
        requested or none is available."""
        profiler = self._aids.profiler
        if profiler is None or not windows:
            return ()
        try:
            found = tuple(profiler.profiles(windows))
        except OSError as error:
            self.observers.failures.append(ObserverError(PROFILE_CODE, str(error)))
            return ()
        codes = {failure.code for failure in self.observers.failures}
        if not found and PROFILE_CODE not in codes:
            self.observers.failures.append(ObserverError(NO_SAMPLES, _NO_CPU_TIME))
        return found

    @property
    def extra_kinds(self) -> tuple[ObserverKind, ...]:
        """The kinds of observers that watch one more trial of each test."""
        return tuple(kind for kind, _ in self._aids.extra)

    def recorded(
        self, kind: ObserverKind, test: str, epoch: int, run: Callable[[], bool]
    ) -> msgspec.Struct | None:
        """Return what an observer recorded of the epoch that `run` runs; None if that failed, or if
        `run` returns False because the epoch was cut short."""
        observer = dict(self._aids.extra)[kind]
        observers = ObserverSet([observer])
        with self._watched(observers, f"{test}-{kind.stem}", epoch):
            whole = run()
        self.observers.failures += observers.failures
        return observer.recorded if whole else None

    def findings(self) -> tuple[Finding, ...]:
        """Return the findings about observers that could not watch, except the sampler, whose
        failure each trial reports."""
        found = {(failure.code, str(failure)): None for failure in self.observers.failures}
        return tuple(
            make_finding(code, "watching", why) for code, why in found if code != NOT_WATCHED
        )

    def close(self) -> None:
        """End all observers."""
        self.observers.close()
        for _, observer in self._aids.extra:
            observer.close()


def watched_window(record: EpochRecord) -> tuple[int, int, int] | None:
    """Return the window of an epoch's measured part [ns]; None if nothing was executed."""
    window = measured_window(record)
    return None if window is None else (record.epoch, *window)


def unwatched_use(windows: Windows, why: str) -> ResourceUse:
    """Return the use of windows that were not watched, with the reason."""
    begin, end = windows[0][1], windows[-1][2]
    return ResourceUse(
        seconds=(end - begin) / 1e9,
        samples=0,
        epochs=(windows[0][0], windows[-1][0]),
        absent=(("series", why),),
    )


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
        if (extra_observer := kind.of_extra_trial()) is not None:
            extra.append((kind, extra_observer))
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
