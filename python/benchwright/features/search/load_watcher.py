"""Watches the loads of a search: each trial carries the resource use of the machine.

Decision: the workbench starts watching when its server is ready: the server's processes are not
known earlier.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from benchwright.core.errors import BenchError, OperatingError
from benchwright.core.resource_use import RemoteUse
from benchwright.features.load.plan import LoadEnding, LoadTrial
from benchwright.run.viewer import Viewer
from benchwright.run.watching import BatchWatcher, unwatched_use
from benchwright.trial.programs import find_sampler
from benchwright.trial.remote import RemoteBench
from benchwright.watch.observer import ObserverError, Watch
from benchwright.watch.sampler import SamplerObserver, SeriesReducer

LOAD_SERIES = "load"
"""Prefix of the names of the series of a session's loads."""


class RemoteSampler:
    """Samples another host, on which the server of a search runs, during loads.

    Our sampler runs there, over a session of the bench's connection; its series is copied into
    the study after each load. What fails is the reason in the use of that load.
    """

    def __init__(self, host: RemoteBench, directory: Path) -> None:
        """`directory`: that of the session's series, in the study."""
        self._host = host
        self._directory = directory
        self._observer = SamplerObserver(Path("bw-sampler"), command=host.sampler)
        self._file: Path | None = None
        self._why = ""
        host.closing.callback(self._observer.close)

    @contextlib.contextmanager
    def around(self, number: int, server: Sequence[int]) -> Iterator[None]:
        """Sample while the body runs the load of a trial on a server with these processes."""
        self._file, self._why = None, ""
        own = self._host.there_processes
        there = Path(self._host.place, "watched")
        stem = f"{LOAD_SERIES}-{number}-server"
        watch = Watch(there, stem, own.root, own.own, tuple(server))
        try:
            self._observer.begin(watch)
        except ObserverError as error:
            self._why = str(error)
        try:
            yield
        finally:
            self._end()

    def _end(self) -> None:
        try:
            self._observer.end()
            last = self._observer.last
            if last is not None:
                data = self._host.file(str(last.file))
                self._file = self._directory / last.file.name
                self._file.write_bytes(data)
        except (ObserverError, BenchError, OSError) as error:
            self._why = str(error)

    def use(self, window: tuple[int, int, int]) -> RemoteUse:
        """Return the use in a window of the last load, in times of this machine."""
        number, begin_ns, end_ns = window
        ahead_ns = self._observer.ahead_ns
        windows = [(number, begin_ns + ahead_ns, end_ns + ahead_ns)]
        use = None
        if self._file is not None:
            study = self._directory.parent.parent
            try:
                name = str(self._file.relative_to(study))
                (use,) = SeriesReducer(find_sampler()).uses(self._file, name, windows)
            except (OSError, OperatingError) as error:
                self._why = str(error)
        if use is None:
            use = unwatched_use(windows, self._why or "the server was not sampled")
        return RemoteUse(self._host.connection.settings.host, use)


class LoadWatcher:
    """Watches the loads of a session, one after the other."""

    def __init__(self, watching: BatchWatcher, recorded: int, viewer: Viewer | None = None) -> None:
        """`recorded`: number of trials in the journal. `viewer` has its turn between loads."""
        self._viewer = viewer
        self._watching = watching
        self._number = recorded
        self._begun = False
        self._samplers: dict[RemoteBench, RemoteSampler] = {}
        self._sampled: RemoteSampler | None = None
        """That of the host of the current load's server; None: this machine."""

    def next(self) -> None:
        """Note that another trial starts, even if its load never does."""
        if self._viewer is not None:
            self._viewer.give_turn()
        self._number += 1
        self._begun = False

    @contextlib.contextmanager
    def around(self, server: Sequence[int], host: RemoteBench | None) -> Iterator[None]:
        """Watch while the body runs the trial's load on a server with these processes, which
        are on another host unless that is None."""
        here = () if host is not None else server
        self._sampled = self._sampler_of(host)
        with contextlib.ExitStack() as watching:
            watching.enter_context(self._watching.batch(LOAD_SERIES, self._number, servers=here))
            if self._sampled is not None:
                watching.enter_context(self._sampled.around(self._number, server))
            self._begun = True
            yield

    def _sampler_of(self, host: RemoteBench | None) -> RemoteSampler | None:
        directory = self._watching.samples_into
        if host is None or directory is None:
            return None
        if host not in self._samplers:
            self._samplers[host] = RemoteSampler(host, directory)
        return self._samplers[host]

    def with_use(self, trial: LoadTrial) -> LoadTrial:
        """Return the trial with the resource use and the profile of its load, and with what its
        server used as values (`server_cpu_s`, ...)."""
        if not self._begun or not trial.started_ns or not trial.lasted_s:
            return trial
        begin = trial.started_ns - (time.time_ns() - time.monotonic_ns())
        window = (self._number, begin, begin + round(trial.lasted_s * 1e9))
        use = dict(self._watching.uses_in([window])).get(self._number)
        profiles = dict(self._watching.profiles([window]))
        remote = None if self._sampled is None else self._sampled.use(window)
        of_server, values = use if remote is None else remote.use, trial.values
        if of_server is not None and trial.ending is not LoadEnding.FAILED:
            values = values | of_server.server_values
        return msgspec.structs.replace(
            trial, use=use, remote_use=remote, values=values, profile=profiles.get(self._number)
        )
