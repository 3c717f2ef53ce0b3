"""One load from several hosts: our engine on each of them issues its part of one schedule.

Purpose: a load that one machine cannot issue, or that must come from several places. Decision:
the schedule is split as among the workers of one engine (operation n is issued by host n modulo the
number of hosts), so the union of what the hosts issue is what one host would issue, for every
arrival process. The hosts start at the same instant, which each receives in its own
CLOCK_MONOTONIC, and send nothing until they have ended. Rejected: independent streams (exact for
Poisson arrivals only), a message that starts (its delay is unknown), the time of day (the hosts'
synchronisation steps it).

The engines are sessions of the connections of `[remote]`, or of a gang of a pool (`HostWay`). An
engine ends at the end of its stdin, and so with the connection, with `bw`, or with a host's
failure. Source: docs/engine-protocol.md; the clocks: crates/bw-load/src/clock_offset.rs.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from benchwright.core.errors import (
    BenchError,
    HostError,
    InputError,
    OperatingError,
    argument_error,
)
from benchwright.core.hosts import RemoteSettings
from benchwright.core.processes import stop_signals
from benchwright.core.text import list_text
from benchwright.features.load.engine import (
    SCHEMA,
    Conversation,
    EngineAnswer,
    EngineFault,
    LoadAnswer,
    LoadReady,
    ShowMaking,
    ask_engine,
    decode_line,
    encoded,
    error_of,
    read_lines,
    unseen,
)
from benchwright.features.load.host_parts import files_of, part_of, with_files
from benchwright.features.load.request import (
    NO_POSITIONS,
    ClockProbeRequest,
    EchoRequest,
    InputPositions,
    LoadRequest,
    MergeRequest,
)
from benchwright.features.load.types import (
    EngineResult,
    FileResult,
    FileSetProgress,
    HostClock,
    HostResult,
)
from benchwright.inputs.mistakes import Where, diagnostic
from benchwright.trial.remote import RemoteBench, end_session

# -- The clocks ----------------------------------------------------------------------------

_ROUND_TRIPS = 200
_FEWEST_ROUND_TRIPS = 20
"""Of a network, or a machine, that loses packets; the bound holds for any number."""


class ClockOffset(msgspec.Struct, frozen=True):
    """The offset of a host's clock at one time."""

    offset_ns: int
    """Its CLOCK_MONOTONIC minus ours."""
    bound_ns: int
    """Maximum error of the offset."""
    at_ns: int
    """In our CLOCK_MONOTONIC."""
    round_trips: int
    method: str


class _ClockProbe(msgspec.Struct, frozen=True):
    """The engine's answer about a clock."""

    round_trips: int
    lost: int
    offset_ns: int | None = None
    delay_ns: int | None = None
    at_ns: int | None = None


def offset_of(trips: Sequence[tuple[int, int, int, int]]) -> ClockOffset:
    """Return the offset from round trips: departure here, arrival and departure there, arrival
    here [ns]. The one with the smallest delay counts."""
    sent, received, answered, returned = min(
        trips, key=lambda one: one[3] - one[0] - (one[2] - one[1])
    )
    delay = returned - sent - (answered - received)
    return ClockOffset(
        offset_ns=(received - sent + answered - returned) // 2,
        bound_ns=(delay + 1) // 2,
        at_ns=(sent + returned) // 2,
        round_trips=len(trips),
        method="ssh",
    )


def clock_of(
    before: ClockOffset, after: ClockOffset | None, zero_ns: int
) -> tuple[HostClock, Callable[[int], float]]:
    """Return a host's clock at time zero, and its offset at each time: a line between the two
    measurements; without the second one the offset does not change."""
    if after is None or after.at_ns <= before.at_ns:
        clock = HostClock(
            method=before.method,
            round_trips=before.round_trips,
            offset_ns=before.offset_ns,
            bound_ns=before.bound_ns,
        )
        return clock, lambda _at_ns: float(before.offset_ns)
    between_ns = after.at_ns - before.at_ns
    slope = (after.offset_ns - before.offset_ns) / between_ns

    def offset(at_ns: int) -> float:
        return before.offset_ns + slope * (at_ns - before.at_ns)

    clock = HostClock(
        method=max(before.method, after.method, key=lambda method: method != "udp"),
        round_trips=before.round_trips + after.round_trips,
        offset_ns=round(offset(zero_ns)),
        bound_ns=max(before.bound_ns, after.bound_ns),
        drift_ppm=slope * 1e6,
        drift_bound_ppm=1e6 * (before.bound_ns + after.bound_ns) / between_ns,
    )
    return clock, offset


class _Host:
    """A host of a load: its connection, and the echo of its clock."""

    def __init__(self, settings: RemoteSettings, directory: Path) -> None:
        """`directory`: an existing one of ours. Raises BenchError `remote-unavailable`."""
        self.name = settings.host
        logs = directory / "logs"
        logs.mkdir()
        self.bench = RemoteBench(settings, (), directory, logs, with_engine=True)
        self._copies: dict[str, str] = {}
        """Where files of this machine are there, by their paths here."""
        try:
            self._token = secrets.randbits(63)
            self._echo = _EngineThere(self)
            self.bench.closing.callback(end_session, self._echo.process)
            self._lines: list[bytes] = []
            request = EchoRequest(self._token)
            self._port = self._asked(msgspec.json.encode(request), "ready")["port"]
            self._address = _number_of(settings.address)
            self._way = "ssh" if settings.through is None else "line"
            if settings.through is None:
                told = self.bench.connection.ask("echo $SSH_CONNECTION").decode()
                self._address = ([*told.split(), "", "", ""])[2]
        except BaseException:
            self.bench.close()
            raise

    def copied(self, paths: Sequence[str]) -> dict[str, str]:
        """Copy files of this machine that are not there yet; return where each of them is there.

        Raises BenchError, and InputError for a file that cannot be read.
        """
        for path in paths:
            if path not in self._copies:
                place = f"{self.bench.here}/{len(self._copies):06}"
                try:
                    if not os.path.isfile(path):
                        raise OSError(0, "it is not a regular file")
                    self.bench.connection.send_file(path, place)
                except OSError as error:
                    message = f"{path}: {error.strerror}"
                    hint = "each host gets a copy: name a file that can be read twice"
                    raise argument_error(path, "", message, hint) from None
                self._copies[path] = place
        return {path: self._copies[path] for path in paths}

    def as_here(self, line: bytes) -> bytes:
        """Return a line of an engine there with the paths that its files have here."""
        for path, place in self._copies.items():
            line = line.replace(place.encode(), msgspec.json.encode(path)[1:-1])
        return line

    def _asked(self, line: bytes, kind: str) -> dict[str, Any]:
        """Send a line to the echo, and return its answer. Raises BenchError `remote-lost`."""
        self._echo.send(line)
        limit_s = self.bench.connection.settings.timeout_s
        while not self._lines:
            read = read_lines((self._echo,), limit_s)
            if not read:
                raise self.bench.connection.lost(f"no answer within {limit_s} s")
            if read[-1][1] is None:
                raise self.bench.connection.lost()
            self._lines += [line for _, line in read if line is not None]
        answer = self._lines.pop(0)
        document = msgspec.json.decode(answer, type=dict[str, Any])
        if document.get("type") == kind:
            return document
        raise BenchError("clock-echo", f"{self.name}: {document.get('message', answer)}")

    def by_line(self) -> tuple[int, int, int, int]:
        """Return the times of a round trip through the connection."""
        sent = time.monotonic_ns()
        answer = self._asked(b"", "clock")
        returned = time.monotonic_ns()
        return sent, answer["received_ns"], answer["answered_ns"], returned

    def clock_offset(self) -> ClockOffset:
        """Measure the offset of its clock: by packets, or where none pass, through the connection.
        Raises BenchError."""
        if (offset := self._by_packets()) is not None:
            return offset
        end_s = time.monotonic() + self.bench.connection.settings.timeout_s
        trips = [self.by_line()]
        while len(trips) < _ROUND_TRIPS and time.monotonic() < end_s:
            trips.append(self.by_line())
        by_line = offset_of(trips)
        return msgspec.structs.replace(by_line, method=self._way)

    def _by_packets(self) -> ClockOffset | None:
        if not self._address:
            return None
        request = ClockProbeRequest(
            address=self._address, port=self._port, token=self._token, round_trips=_ROUND_TRIPS
        )
        try:
            probe = ask_engine(request, _ClockProbe).result
        except OperatingError:
            # No way to the address, or one with a zone that is no address to the engine.
            return None
        if probe.round_trips < _FEWEST_ROUND_TRIPS:
            return None
        assert probe.offset_ns is not None and probe.delay_ns is not None  # noqa: PT018
        return ClockOffset(
            offset_ns=probe.offset_ns,
            bound_ns=(probe.delay_ns + 1) // 2,
            at_ns=probe.at_ns or 0,
            round_trips=probe.round_trips,
            method="udp",
        )


class _EngineThere(Conversation):
    """An engine on a host, over a session of its connection; it ends with its stdin, and the
    session with the engine."""

    def __init__(self, host: _Host) -> None:
        super().__init__(host.bench.start_engine())
        self.host = host
        self.load_answer: LoadAnswer | None = None
        """The result of its part of a load."""
        self.lost = ""
        """Why it has no result."""

    def read(self) -> list[bytes | None]:
        """Return the lines that have arrived, with the paths that files have here."""
        return [
            line and self.host.as_here(line)
            for line in super().read()
            # What the login shell prints comes before.
            if line is None or line.startswith(b"{")
        ]

    def end(self) -> None:
        """Request an early end; the engine answers with the results so far. Safe to call in a
        signal handler."""
        self.send(b'"stop"')

    def died(self) -> HostError:
        """Return the error for an engine that ended without an answer."""
        connection = self.host.bench.connection
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(_TICK_S)
        if connection.is_cut(self.process.returncode):
            text = connection.last_words
            message = "the connection was lost" + (text and f": {text}")
        else:
            message = "the engine ended without a result"
        return HostError("host-lost", self.host.name, f"{self.host.name}: {message}")


def _number_of(address: str) -> str:
    """Return an address as a number; a name that is not known here as it is."""
    with contextlib.suppress(OSError):
        return str(socket.getaddrinfo(address or "", None)[0][4][0])
    return address


# -- The load ------------------------------------------------------------------------------

_LEAD_NS = 500_000_000
"""How far in the future the load starts, besides ten times what a line takes to a host."""
ARMED_S = 30.0
"""How long an engine may take until it waits for its start [s]: it connects, and generates its
first operations."""
_PATIENCE_S = 60.0
"""How long a result may take after the planned end [s]."""
_TICK_S = 1.0

ShowTime = Callable[[int], None]
"""Shows how long the load has run [ns]."""


class LoadHosts:
    """The hosts of a load, connected; loads run on them one after the other."""

    def __init__(self, each: Sequence[RemoteSettings], where: Where) -> None:
        """Connect to all. Raises InputError, at `where`, with each host that cannot be used;
        HostError for a host of a gang."""
        self.are_of_gang = each[0].through is not None
        self._engines: _Engines | None = None
        self._stack = contextlib.ExitStack()
        directory = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="bw-hosts-")))
        try:
            self._hosts = self._connected(each, directory, where)
        except BaseException:
            self._stack.close()
            raise

    def _connected(
        self, each: Sequence[RemoteSettings], directory: Path, where: Where
    ) -> list[_Host]:
        """Return the hosts; they are closed with the stack."""

        def connect(place: int, one: RemoteSettings) -> _Host | BenchError:
            private = directory / str(place)
            private.mkdir(mode=0o700)
            try:
                host = _Host(one, private)
            except BenchError as error:
                return error
            self._stack.callback(host.bench.close)
            return host

        with ThreadPoolExecutor(len(each)) as pool:
            made = list(pool.map(connect, range(len(each)), each))
        for settings, one in zip(each, made, strict=True):
            if self.are_of_gang and isinstance(one, BenchError):
                raise HostError("host-lost", settings.host, one.message)
        wrong = [
            diagnostic(where, one.code, f"no connection to {one.message}", one.hint)
            for one in made
            if isinstance(one, BenchError)
        ]
        if wrong:
            raise InputError(wrong)
        return [one for one in made if isinstance(one, _Host)]

    @property
    def number(self) -> int:
        """How many hosts there are."""
        return len(self._hosts)

    def stop(self) -> None:
        """End the running load early; safe to call in a signal handler."""
        if self._engines is not None:
            self._engines.interrupted = True
            self._engines.stop()

    def close(self) -> None:
        """End everything on the hosts, and the connections."""
        self._stack.close()

    def run(
        self,
        request: LoadRequest,
        *,
        places: InputPositions = NO_POSITIONS,
        show: ShowTime = unseen,
        making: ShowMaking = unseen,
        armed: Callable[[], None] = lambda: None,
        stopped: Callable[[], bool] = lambda: False,
    ) -> LoadAnswer:
        """Run a load and return one result of all hosts; `hosts` in it has each of them.

        A host that is lost during the load ends it: the result is that of the others. `armed` is
        called when all are ready, with file sets made. `stopped`: whether `stop` was called before.
        Raises BenchError or InputError, with the name of the host, if an engine does not get ready,
        or no host has a result.
        """
        number = len(self._hosts)
        parts = [part_of(request, index, number) for index in range(number)]
        if files := files_of(request):
            parts = [
                with_files(part, there)
                for part, there in zip(parts, self._copied(files), strict=True)
            ]
        if request.samples is not None:
            parts = [
                msgspec.structs.replace(part, samples=f"{host.bench.place}/samples")
                for host, part in zip(self._hosts, parts, strict=True)
            ]
        with _Engines(self._hosts, parts) as engines:
            self._engines = engines

            def pass_on(_number: int) -> None:
                if engines.interrupted:
                    engines.kill()
                else:
                    self.stop()

            try:
                with stop_signals(pass_on):
                    if stopped():
                        self.stop()
                    engines.wait_until_armed(places, making)
                    armed()
                    return self._run(request, engines, show)
            finally:
                self._engines = None

    def _copied(self, files: Sequence[str]) -> list[dict[str, str]]:
        """Return where files of this machine are on each host, after copying them."""

        def copied(host: _Host) -> dict[str, str]:
            try:
                return host.copied(files)
            except BenchError as error:
                if host.bench.connection.is_cut():
                    raise HostError("host-lost", host.name, error.message) from None
                raise

        with ThreadPoolExecutor(len(self._hosts)) as pool:
            return list(pool.map(copied, self._hosts))

    def _run(self, request: LoadRequest, engines: _Engines, show: ShowTime) -> LoadAnswer:
        before = [_answered(host, host.clock_offset) for host in self._hosts]
        lines = [_answered(host, host.by_line) for host in self._hosts]
        lead_ns = _LEAD_NS + 10 * max(returned - sent for sent, *_, returned in lines)
        zero_ns = time.monotonic_ns() + lead_ns
        started_ns = time.time_ns() + lead_ns
        engines.start([zero_ns + clock_offset.offset_ns for clock_offset in before])
        engines.collect(_end_ns(request, zero_ns), zero_ns, show)
        answers = [one.load_answer for one in engines.each if one.load_answer is not None]
        if not answers:
            why = list_text([one.lost for one in engines.each])
            raise HostError("host-lost", self._hosts[0].name, why)
        document = ask_engine(
            MergeRequest(
                results=tuple(answer.document for answer in answers),
                interval_ns=request.interval_ns,
                interval_histograms=request.interval_histograms is True,
            ),
            dict,
        ).document
        hosts = []
        for engine, offset in zip(engines.each, before, strict=True):
            host, answer = engine.host, engine.load_answer
            if answer is None:
                hosts.append(HostResult(host=host.name, lost=engine.lost))
                continue
            after = None
            with contextlib.suppress(BenchError):
                after = host.clock_offset()
            hosts.append(_host_result(host.name, answer, request, offset, after, zero_ns))
        document |= {
            "schema": SCHEMA,
            "interrupted": engines.interrupted,
            "started_ns": started_ns,
            "hosts": msgspec.to_builtins(hosts),
        }
        if request.samples is not None:
            samples = self._collected(Path(request.samples), engines, started_ns)
            document["samples"] = msgspec.to_builtins(samples)
        return EngineAnswer(msgspec.convert(document, EngineResult), document)

    def _collected(self, into: Path, engines: _Engines, started_ns: int) -> FileResult:
        """Copy the samples of the hosts, and write all of them into one file."""
        # Imported here: few loads have samples, and numpy is slow to import.
        from benchwright.features.load.samples import merge_samples

        lost = rows = 0
        why = [one.lost for one in engines.each if one.lost]
        parts: list[tuple[str, Path]] = []
        try:
            with tempfile.TemporaryDirectory(dir=into.parent) as directory:
                for place, engine in enumerate(engines.each):
                    host, answer = engine.host, engine.load_answer
                    if answer is None:
                        continue
                    there = answer.result.samples
                    assert there is not None, "its request has them"
                    lost += there.lost + there.rows
                    if there.failed:
                        why.append(f"{host.name}: {there.failed}")
                    path = Path(directory, str(place))
                    try:
                        with path.open("wb") as file:
                            file.writelines(host.bench.blocks(there.path))
                    except BenchError as error:
                        why.append(error.message)
                        continue
                    parts.append((host.name, path))
                rows = merge_samples(parts, into, started_ns)
        except (OSError, InputError) as error:
            why.append(str(error))
        return FileResult(str(into), rows, lost - rows, "; ".join(why) or None)


Answer = TypeVar("Answer")


def _answered(host: _Host, ask: Callable[[], Answer]) -> Answer:
    """Return what the clock of a host answers. Raises HostError."""
    try:
        return ask()
    except BenchError as error:
        if host.bench.connection.is_cut():
            raise HostError("host-lost", host.name, error.message) from None
        message = f"{host.name}: its clock could not be measured: {error.message}"
        raise HostError("clock-uncertain", host.name, message) from None


def _end_ns(request: LoadRequest, zero_ns: int) -> int | None:
    """Return when the last result must be there, in CLOCK_MONOTONIC; None: nobody knows."""
    if request.duration_ns is None:
        return None
    length_ns = request.warm_up_ns + request.duration_ns + request.drain_ns
    return zero_ns + length_ns + round(_PATIENCE_S * 1e9)


def _host_result(
    name: str,
    answer: LoadAnswer,
    request: LoadRequest,
    before: ClockOffset,
    after: ClockOffset | None,
    zero_ns: int,
) -> HostResult:
    """Return the part of one host; it started at `zero_ns` plus its offset before the load."""
    result = answer.result
    clock, offset = clock_of(before, after, zero_ns)
    end_ns = request.warm_up_ns + (result.measured_ns or result.elapsed_ns)
    return HostResult(
        host=name,
        clock=clock,
        start_skew_ns=round(before.offset_ns - offset(zero_ns)),
        end_skew_ns=round(before.offset_ns - offset(zero_ns + end_ns)),
        counts=result.counts,
        intended_rate_per_s=result.intended_rate_per_s,
        offered_rate_per_s=result.offered_rate_per_s,
        achieved_rate_per_s=result.achieved_rate_per_s,
        lateness_ns=result.lateness_ns,
        all=result.all,
        intervals=tuple(
            msgspec.structs.replace(interval, response_hdr=None)
            for interval in result.measured_intervals(request.warm_up_ns)
        ),
        workers=result.workers,
    )


class _Engines:
    """The engines of one load, one on each host."""

    def __init__(self, hosts: Sequence[_Host], parts: Sequence[LoadRequest]) -> None:
        self._hosts, self._parts = hosts, parts
        self.each: list[_EngineThere] = []
        self.interrupted = False
        """Whether the user ended the load."""

    def __enter__(self) -> _Engines:
        try:
            for host, part in zip(self._hosts, self._parts, strict=True):
                self.each.append(_EngineThere(host))
                self.each[-1].send(encoded(part))
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        for engine in self.each:
            with contextlib.suppress(subprocess.TimeoutExpired):
                engine.process.wait(_TICK_S)
            end_session(engine.process)

    def stop(self) -> None:
        """Request an early end of the load; safe to call in a signal handler."""
        for engine in self.each:
            engine.end()

    def kill(self) -> None:
        """End all engines without a result."""
        for engine in self.each:
            engine.end_input()

    def wait_until_armed(self, places: InputPositions, making: ShowMaking) -> None:
        """Wait until every engine waits for its start. Raises OperatingError."""
        waiting = list(self.each)
        sets: dict[str, FileSetProgress] = {}
        end_s = time.monotonic() + ARMED_S
        while waiting:
            read = read_lines(self.each, end_s - time.monotonic())
            if not read:
                late = [one.host.name for one in waiting]
                message = f"{list_text(late)}: not ready to start after {ARMED_S:g} s"
                raise HostError("not-armed", late[0], message)
            for engine, line in read:
                if line is None:
                    raise engine.died()
                said = decode_line(line)
                if isinstance(said, EngineFault):
                    raise _named(engine.host, error_of(said, places))
                if isinstance(said, FileSetProgress):
                    # A large set on the server takes as long as it takes.
                    end_s = time.monotonic() + ARMED_S
                    sets[engine.host.name] = said
                    making(_together(sets.values()))
                if isinstance(said, LoadReady):
                    waiting.remove(engine)

    def start(self, zeros_ns: Sequence[int]) -> None:
        """Start each engine at its time, in the clock of its host."""
        for engine, zero_ns in zip(self.each, zeros_ns, strict=True):
            engine.send(b'{"start_at_ns":%d}' % zero_ns)

    def collect(self, until_ns: int | None, zero_ns: int, show: ShowTime) -> None:
        """Wait for all results; without that of one host, end the others."""
        waiting = list(self.each)
        while waiting:
            read = read_lines(waiting, _TICK_S)
            if not read:
                now_ns = time.monotonic_ns()
                show(max(0, now_ns - zero_ns))
                if until_ns is not None and now_ns > until_ns:
                    for engine in waiting:
                        late = f"no result {_PATIENCE_S:.0f} s after the end"
                        engine.lost = f"{engine.host.name}: {late}"
                    return
            for engine, line in read:
                if engine not in waiting:
                    # The end of its output, after its answer.
                    continue
                said = None if line is None else decode_line(line)
                if isinstance(said, EngineAnswer):
                    engine.load_answer = said
                elif isinstance(said, EngineFault):
                    engine.lost = f"{engine.host.name}: {said.message}"
                elif said is None:
                    engine.lost = engine.died().message
                else:
                    continue
                waiting.remove(engine)
                if engine.lost:
                    self.stop()


def _together(sets: Collection[FileSetProgress]) -> FileSetProgress:
    """Return how far the file sets of the hosts are together, in the later phase of any."""
    phase = "make" if any(one.phase == "make" for one in sets) else "examine"
    same = [one for one in sets if one.phase == phase]
    return FileSetProgress(
        phase=phase,
        done=sum(one.done for one in same),
        total=sum(one.total for one in same),
        elapsed_ns=max(one.elapsed_ns for one in same),
    )


def _named(host: _Host, error: OperatingError) -> OperatingError:
    """Return an engine's error with the name of its host; mistakes of the request have none."""
    if not isinstance(error, BenchError):
        return error
    named = BenchError(error.code, f"{host.name}: {error.message}", error.hint)
    named.exit_status = error.exit_status
    return named
