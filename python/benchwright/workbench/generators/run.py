"""Runs a generator for one trial, and says what came of it.

Purpose: the effects of the adapters: files, one epoch through the launcher, a look at
what is written meanwhile. Decision: a generator that fails is a trial that failed, with
the end of what it said; it never ends the search. Looking on from a thread, so that the
bench's port stays one blocking call; a second port for running commands lost.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from benchwright.bench.port import Bench
from benchwright.model.errors import Interrupted
from benchwright.model.observation import Ending, ProcessRecord
from benchwright.model.peak import Criterion, LoadEnding, LoadTrial, Probe
from benchwright.model.plan import Command, Pairs
from benchwright.trial.record import EpochRecord, RunRequest, WireCommand
from benchwright.workbench.generators.adapter import (
    Asked,
    Generator,
    Invocation,
    Measured,
    Output,
    UnreadableOutput,
    shortened,
)
from benchwright.workbench.generators.doubts import (
    backlog_uncounted,
    generator_saturated,
    impossible,
    rate_rounded,
    without_zero_mean,
)

MOST_OUTPUT = 8_000_000
"""Of stdout and of stderr, that is read: a summary, not a log [bytes]."""

Leaves = Callable[[LoadTrial], bool]


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Where a generator runs, and for whom."""

    directory: str
    """Working directory: the spec's."""
    scratch: str
    """Absolute, empty: logs and the generator's own files of this trial."""
    environment: Pairs = ()
    prefix: tuple[str, ...] = ()
    """Before every command: `taskset -c 1`."""
    cores: int = 1
    """That it may run on."""
    grace_s: float = 30.0
    """Beyond the load's length, for connecting, draining and reporting [s]."""
    look_s: float = 1.0
    """Between two looks at a running trial [s]."""


def run_generator(
    bench: Bench,
    generator: Generator,
    asked: Asked,
    place: Place,
    leaves: Leaves | None = None,
) -> LoadTrial:
    """Return the trial that a generator's run came to. Raises BenchError, Interrupted.

    `leaves` is asked every `look_s` where the generator can be watched.
    """
    try:
        call = generator.invocation(asked)
    except ValueError as error:
        return _failed(asked, f"{generator.name}: {error}")
    _write(call, place)
    look = _Look(bench, generator, asked, place, call, leaves)
    with look:
        result = bench.run(_request(call, asked, place), abandoned=lambda: False)
    if not result.epochs:
        raise Interrupted
    epoch = result.epochs[0]
    if epoch.ending is Ending.INTERRUPTED and not look.left:
        raise Interrupted
    return _trial(generator, asked, place, call, epoch)


def asked_of(
    probe: Probe,
    place: Place,
    criteria: tuple[Criterion, ...],
    sample: Pairs = (),
    seed: int | None = None,
) -> Asked:
    """Return what a probe asks of a generator."""
    return Asked(
        duration_s=probe.duration_s,
        rate=None if probe.users is not None else probe.rate,
        users=probe.users,
        criteria=criteria,
        directory=place.scratch,
        sample=sample,
        seed=seed,
    )


# -- the run ---------------------------------------------------------------------------


def _write(call: Invocation, place: Place) -> None:
    for name, text in call.writes:
        Path(place.scratch, name).write_text(text)


def _request(call: Invocation, asked: Asked, place: Place) -> RunRequest:
    limit_s = asked.duration_s + place.grace_s
    return RunRequest(
        id=0,
        first_epoch=1,
        epochs=1,
        threads=1,
        commands=tuple(_wire(command, place) for command in call.commands),
        environment=place.environment,
        directory=place.directory,
        logs=place.scratch,
        timeout_ns=round(limit_s * 1e9),
    )


def _wire(command: Command, place: Place) -> WireCommand:
    return WireCommand("EXEC", (*place.prefix, *command.argv))


def _output(call: Invocation, place: Place, record: ProcessRecord | None) -> Output:
    """Return what there is to read: of a finished process, or so far."""
    out, err = (None, None) if record is None else (record.out, record.err)
    return Output(
        _text(Path(place.scratch, "exec-1.out"), out),
        _text(Path(place.scratch, "exec-1.err"), err),
        {
            path.name: _text(path)
            for pattern in call.reads
            for path in sorted(Path(place.scratch).glob(pattern))
        },
    )


def _text(path: Path, part: tuple[int, int] | None = None) -> str:
    """Return a file's text, or the end of a part of it (offset, length) that is at most
    `MOST_OUTPUT`; nothing if it is not there."""
    try:
        with path.open("rb") as file:
            if part is None:
                return file.read().decode(errors="replace")
            begin, length = part
            most = min(length, MOST_OUTPUT)
            file.seek(begin + length - most)
            return file.read(most).decode(errors="replace")
    except FileNotFoundError:
        return ""


def _too_long(generator: Generator, record: ProcessRecord) -> str:
    """Return why what a process printed is not read; empty where it is."""
    for name, part in (("stdout", record.out), ("stderr", record.err)):
        if part is not None and part[1] > MOST_OUTPUT:
            return (
                f"{generator.name} printed {part[1] / 1e6:.0f} MB to {name}, more than the "
                f"{MOST_OUTPUT / 1e6:.0f} MB that are read: let it print its figures only"
            )
    return ""


class _Look:
    """Looks at a running trial from a thread, and ends it when it has told enough."""

    def __init__(
        self,
        bench: Bench,
        generator: Generator,
        asked: Asked,
        place: Place,
        call: Invocation,
        leaves: Leaves | None,
    ) -> None:
        self.left = False
        self._bench, self._generator, self._asked = bench, generator, asked
        self._place, self._call, self._leaves = place, call, leaves
        self._done = threading.Event()
        self._error: BaseException | None = None
        watched = leaves is not None and generator.traits.watched
        self._thread = threading.Thread(target=self._run) if watched else None

    def __enter__(self) -> _Look:
        if self._thread is not None:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        if self._thread is not None:
            self._thread.join()
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        pause_s = self._place.look_s
        try:
            while not self._done.wait(pause_s):
                begin_s = time.monotonic()
                enough = self._enough()
                # A long log takes long to read: no more than a tenth of a core for that.
                took_s = time.monotonic() - begin_s
                pause_s = max(self._place.look_s, 9 * took_s)
                if enough:
                    self.left = True
                    self._bench.interrupt(cleanup=True)
                    return
        except BaseException as error:
            # A policy's mistake must end the search, not only this thread.
            self._error = error
            self._bench.interrupt(cleanup=True)

    def _enough(self) -> bool:
        assert self._leaves is not None, "it is started only with a question"
        output = _output(self._call, self._place, None)
        try:
            measured = self._generator.so_far(output, self._asked)
        except UnreadableOutput:
            # What cannot be read now may be when it is whole; else its end tells why.
            return False
        if measured is None:
            return False
        return self._leaves(_told(self._generator, self._asked, self._call, measured))


# -- the trial -------------------------------------------------------------------------


def _trial(
    generator: Generator,
    asked: Asked,
    place: Place,
    call: Invocation,
    epoch: EpochRecord,
) -> LoadTrial:
    elapsed_s = epoch.duration_ns / 1e9
    record = epoch.processes[0]
    failure = _failure(generator, call, epoch, place) or _too_long(generator, record)
    if failure:
        return _failed(asked, failure, elapsed_s, epoch.started_ns)
    left = epoch.ending is Ending.INTERRUPTED
    output = _output(call, place, record)
    try:
        measured = _measured(generator, asked, output, left)
        failure = impossible(measured)
    except UnreadableOutput as error:
        failure = str(error)
    if failure:
        text = f"{generator.name}: {failure}"
        return _failed(asked, text, elapsed_s, epoch.started_ns)
    trial = without_zero_mean(_told(generator, asked, call, measured))
    bound = generator_saturated(generator, place.cores, record)
    return msgspec.structs.replace(
        trial,
        cost_s=max(elapsed_s, trial.lasted_s),
        ending=LoadEnding.LEFT if left else LoadEnding.WHOLE,
        marks=(
            *trial.marks,
            *bound,
            *(() if left else backlog_uncounted(asked, call, trial)),
        ),
        started_ns=epoch.started_ns,
    )


def _measured(
    generator: Generator, asked: Asked, output: Output, left: bool
) -> Measured:
    if not left:
        return generator.parse(output, asked)
    measured = generator.so_far(output, asked)
    assert measured is not None, "it was left for what it told"
    return measured


def _told(
    generator: Generator, asked: Asked, call: Invocation, measured: Measured
) -> LoadTrial:
    """Return the trial that an output tells of, as if it were whole and cost nothing."""
    lasted_s = asked.duration_s if measured.lasted_s is None else measured.lasted_s
    marks = (*generator.traits.marks, *measured.marks, *rate_rounded(asked, call))
    return LoadTrial(
        rate=_level(asked),
        duration_s=asked.duration_s,
        lasted_s=lasted_s,
        cost_s=lasted_s,
        values=measured.values,
        series=measured.series,
        offered=measured.offered,
        completed=measured.completed,
        errors=measured.errors,
        marks=tuple(dict.fromkeys(marks)),
    )


def _level(asked: Asked) -> float:
    level = asked.users if asked.rate is None else asked.rate
    assert level is not None, "a trial has a rate or users"
    return float(level)


def _failure(
    generator: Generator, call: Invocation, epoch: EpochRecord, place: Place
) -> str:
    """Return why a run is none; empty where it is one."""
    name = generator.name
    if epoch.ending is Ending.TIMEOUT:
        said = shortened(_said(place, epoch.processes[-1]))
        tail = f"; the end of what it said: {said}" if said else ""
        return f"{name} did not end within {place.grace_s:g} s after its load{tail}"
    if epoch.ending is not Ending.FAILED:
        return ""
    bad = [p for p in epoch.processes if p.error or p.status not in call.statuses]
    if not bad:
        return ""
    record = bad[-1]
    if record.error:
        return f"{name} cannot be started: {record.error}"
    said = _said(place, record)
    found = [one.meaning for one in call.diagnoses if one.sign in said]
    told = "; ".join(filter(None, [*found, shortened(said)])) or "no message"
    return f"{name} ended with status {record.status}: {told}"


def _said(place: Place, record: ProcessRecord) -> str:
    """Return what a process wrote to stderr, or else to stdout."""
    err = _text(Path(place.scratch, "exec-1.err"), record.err)
    return err or _text(Path(place.scratch, "exec-1.out"), record.out)


def _failed(
    asked: Asked, failure: str, cost_s: float = 0.0, started_ns: int = 0
) -> LoadTrial:
    return LoadTrial(
        rate=_level(asked),
        duration_s=asked.duration_s,
        lasted_s=0.0,
        cost_s=cost_s,
        ending=LoadEnding.FAILED,
        failure=failure,
        started_ns=started_ns,
    )
