"""Runs a generator for one trial; returns the trial, with marks where its values are doubtful."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from benchwright.core.criterion import Criterion
from benchwright.core.errors import Interrupted
from benchwright.core.observation import ProcessRecord, TrialEnding
from benchwright.core.plan import Command, Pairs
from benchwright.core.text import size_text
from benchwright.features.generators.adapter import (
    BACKLOG_UNCOUNTED,
    GENERATOR_SATURATED,
    RATE_ROUNDED,
    Generator,
    GeneratorOutput,
    GeneratorRequest,
    Invocation,
    Measurement,
    UnreadableOutput,
    shortened,
)
from benchwright.features.generators.findings import count_marks
from benchwright.features.load.plan import LoadEnding, LoadTrial, Probe
from benchwright.trial.bench import Bench
from benchwright.trial.protocol import EpochRecord, RunRequest, WireCommand

# --------------------------------------------------------------------------------------
# Marks of a generator's run (codes of findings), for results that are doubtful; and
# impossible figures, which make the trial fail.
#
# Purpose: the marks that depend on a run's request, CPU time or counts; the marks that follow
# from the generator's kind are its traits (adapter.py). Pure.

MEAN = "response_ms_mean"
THROUGHPUT = "throughput_per_s"
MOST = 1e15
"""Upper limit of a response [ms] and of a throughput [1/s]; infinity (never) is allowed."""
LONGER = 1.001
"""A part of a response this many times the response is more than rounding."""
BOUND_SHARE = 0.9
"""Share of its cores; a generator that uses more may be what makes the server look slow."""
ROUNDED_SHARE = 0.01
"""Relative difference from the requested rate above which a rate is marked."""
BACKLOG_SHARE = 0.1
"""Missing share of the due operations above which a whole run without arrival counts is marked."""
BACKLOG_SDEVS = 4.0
"""The shortfall must also exceed this many standard deviations of a Poisson process."""


def impossible(measured: Measurement) -> str:
    """Return what is wrong with figures that no run can have; empty if all are possible.

    A search would use them: a response of -3 ms is within every limit.
    """
    wrong = [*_wrong_values(measured.values), *_wrong_counts(measured), *_wrong_lateness(measured)]
    for key, column in measured.series.values.items():
        seen = (v for v, n in zip(column, measured.series.counts, strict=True) if n)
        lowest = min(seen, default=0.0)
        if _is_time(key) and lowest < 0:
            wrong.append(f"a value of its series is {lowest:.4g} ms")
    if not wrong:
        return ""
    return f"{', '.join(wrong)}: impossible; check what the generator prints, and where"


def without_zero_mean(trial: LoadTrial) -> LoadTrial:
    """Return a trial without a mean response of exactly 0: a generator prints 0 if it
    measured nothing. A search that used it predicted 1e13 ms."""
    if trial.values.get(MEAN) != 0:
        return trial
    values = {key: value for key, value in trial.values.items() if key != MEAN}
    why = f"{MEAN} is 0, so nothing was measured"
    return msgspec.structs.replace(trial, values=values, failure=why)


def _wrong_values(values: Mapping[str, float]) -> list[str]:
    times = [f"{k} is {v:.4g} ms" for k, v in values.items() if _is_time(k) and v < 0]
    shares = [
        f"{key} is {value:.4g}, outside 0 to 1"
        for key, value in values.items()
        if _is_share(key) and not 0 <= value <= 1
    ]
    huge = [
        f"{key} is {value:.4g}"
        for key, value in values.items()
        if (_is_time(key) or key == THROUGHPUT) and MOST < value < math.inf
    ]
    return [*times, *shares, *huge]


def _wrong_counts(measured: Measurement) -> list[str]:
    counts = {
        "offered": measured.offered,
        "completed": measured.completed,
        "errors": measured.errors,
    }
    return [f"{k} is {n}" for k, n in counts.items() if n is not None and n < 0]


def _wrong_lateness(measured: Measurement) -> list[str]:
    """Return what is wrong with the generator's lateness: it is part of every response."""
    late, whole = measured.late_p99_ms, measured.values
    wrong = _wrong_values(measured.target_values)
    wrong += (
        [f"the lateness is {late:.4g} ms"] if late is not None and not 0 <= late < math.inf else []
    )
    return wrong + [
        f"{key} is {value:.4g} ms without the lateness and {whole[key]:.4g} ms with it"
        for key, value in measured.target_values.items()
        if _is_time(key) and key in whole and value > LONGER * whole[key]
    ]


def _is_time(key: str) -> bool:
    return key.startswith("response_ms_")


def _is_share(key: str) -> bool:
    return key == "error_ratio" or (key.startswith("within_") and key.endswith("_share"))


def rate_rounded(request: GeneratorRequest, call: Invocation) -> tuple[str, ...]:
    """Return the mark of a rate that the generator could not accept exactly."""
    if request.rate is None or call.rate is None:
        return ()
    off = abs(call.rate / request.rate - 1)
    return (RATE_ROUNDED,) if off > ROUNDED_SHARE else ()


def backlog_uncounted(
    request: GeneratorRequest, call: Invocation, trial: LoadTrial
) -> tuple[str, ...]:
    """Return the mark of a run that completed less than was due, if arrivals were not counted."""
    if request.rate is None or trial.offered is not None or trial.completed is None:
        return ()
    due = (call.rate or request.rate) * trial.lasted_s
    missing = due - trial.completed - trial.errors
    real = missing > max(BACKLOG_SHARE * due, BACKLOG_SDEVS * math.sqrt(due))
    return (BACKLOG_UNCOUNTED,) if real else ()


def generator_saturated(
    generator: Generator, available: int, record: ProcessRecord
) -> tuple[str, ...]:
    """Return the mark of a generator that used nearly all of the cores that it could use;
    it may run on `available` cores."""
    threads = generator.traits.threads
    cores = available if threads is None else min(threads, available)
    used_s = (record.user_us + record.system_us) / 1e6
    most_s = BOUND_SHARE * cores * record.elapsed_ns / 1e9
    return (GENERATOR_SATURATED,) if used_s > most_s else ()


# -- Runs a generator for one trial and makes its `LoadTrial` --------------------------
#
# Purpose: the effects of the adapters: files, one epoch through the launcher, reading the
# output during the run. Decision: a generator that fails gives a failed trial with
# the end of its output; it never ends the search. A thread reads the output, so the
# bench's port remains one blocking call. Rejected: a second port for running commands.

MOST_OUTPUT = 8_000_000
"""Maximum size of stdout and of stderr that is read: a summary, not a log [bytes]."""

LeaveEarly = Callable[[LoadTrial], bool]
"""A trial so far -> whether it is conclusive and can end."""


class GeneratorPlace(msgspec.Struct, frozen=True, kw_only=True):
    """Where a generator runs: directories, environment, CPUs, time limits."""

    directory: str
    """Working directory, taken from the spec."""
    scratch: str
    """Absolute path of an empty directory for logs and the generator's own files of this trial."""
    environment: Pairs = ()
    prefix: tuple[str, ...] = ()
    """Words before every command: `taskset -c 1`."""
    cores: int = 1
    """Number of cores that the generator may run on."""
    grace_s: float = 30.0
    """Extra time after the load's length, for connecting, draining and reporting [s]."""
    look_s: float = 1.0
    """Interval at which a running trial is checked [s]."""


def run_generator(
    bench: Bench,
    generator: Generator,
    request: GeneratorRequest,
    place: GeneratorPlace,
    leaves: LeaveEarly | None = None,
) -> LoadTrial:
    """Run a generator and return its trial. Raises BenchError, Interrupted.

    `leaves` is called every `look_s` if the generator reports its progress.
    """
    try:
        call = generator.invocation(request)
    except ValueError as error:
        return _failed(request, f"{generator.name}: {error}")
    _write(call, place)
    look = _EarlyEnd(bench, generator, request, place, call, leaves)
    with look:
        result = bench.run(_request(call, request, place), abandoned=lambda: False)
    if not result.epochs:
        raise Interrupted
    epoch = result.epochs[0]
    if epoch.ending is TrialEnding.INTERRUPTED and not look.left:
        raise Interrupted
    return _trial(generator, request, place, call, epoch)


def generator_request(
    probe: Probe,
    place: GeneratorPlace,
    criteria: tuple[Criterion, ...],
    sample: Pairs = (),
    seed: int | None = None,
) -> GeneratorRequest:
    """Return what a probe requests from a generator."""
    return GeneratorRequest(
        duration_s=probe.duration_s,
        rate=None if probe.users is not None else probe.rate,
        users=probe.users,
        criteria=criteria,
        directory=place.scratch,
        sample=sample,
        seed=seed,
    )


# -- the run ---------------------------------------------------------------------------


def _write(call: Invocation, place: GeneratorPlace) -> None:
    for name, text in call.writes:
        Path(place.scratch, name).write_text(text)


def _request(call: Invocation, request: GeneratorRequest, place: GeneratorPlace) -> RunRequest:
    limit_s = request.duration_s + place.grace_s
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


def _wire(command: Command, place: GeneratorPlace) -> WireCommand:
    return WireCommand("EXEC", (*place.prefix, *command.argv))


def _output(
    call: Invocation, place: GeneratorPlace, record: ProcessRecord | None
) -> GeneratorOutput:
    """Return the output of a finished process, or the output so far if `record` is None."""
    out, err = (None, None) if record is None else (record.out, record.err)
    return GeneratorOutput(
        _text(Path(place.scratch, "exec-1.out"), out),
        _text(Path(place.scratch, "exec-1.err"), err),
        {
            path.name: _text(path)
            for pattern in call.reads
            for path in sorted(Path(place.scratch).glob(pattern))
        },
    )


def _text(path: Path, part: tuple[int, int] | None = None) -> str:
    """Return a file's text, or at most the last `MOST_OUTPUT` bytes of a part of it
    (offset, length); empty if the file does not exist."""
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
    """Return why the output of a process is too long to be read; empty if it is not."""
    for name, part in (("stdout", record.out), ("stderr", record.err)):
        if part is not None and part[1] > MOST_OUTPUT:
            return (
                f"{generator.name} printed {size_text(part[1])} to {name}, more than the "
                f"{size_text(MOST_OUTPUT)} that are read: let it print its figures only"
            )
    return ""


class _EarlyEnd:
    """Checks a running trial from a thread, and ends it when its results are sufficient."""

    def __init__(
        self,
        bench: Bench,
        generator: Generator,
        request: GeneratorRequest,
        place: GeneratorPlace,
        call: Invocation,
        leaves: LeaveEarly | None,
    ) -> None:
        self.left = False
        self._bench, self._generator, self._request_of_trial = bench, generator, request
        self._place, self._call, self._leaves = place, call, leaves
        self._done = threading.Event()
        self._error: BaseException | None = None
        watched = leaves is not None and generator.traits.watched
        self._thread = threading.Thread(target=self._run) if watched else None

    def __enter__(self) -> _EarlyEnd:
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
                # Reading a long log takes long: use at most a tenth of a core for it.
                took_s = time.monotonic() - begin_s
                pause_s = max(self._place.look_s, 9 * took_s)
                if enough:
                    self.left = True
                    self._bench.interrupt(cleanup=True)
                    return
        except BaseException as error:
            # An error of the policy must end the search, not only this thread.
            self._error = error
            self._bench.interrupt(cleanup=True)

    def _enough(self) -> bool:
        assert self._leaves is not None, "it is started only with a question"
        output = _output(self._call, self._place, None)
        try:
            measured = self._generator.so_far(output, self._request_of_trial)
        except UnreadableOutput:
            # It may become readable when it is complete; if not, the end of the run reports why.
            return False
        if measured is None:
            return False
        return self._leaves(
            _reported_values(self._generator, self._request_of_trial, self._call, measured)
        )


# -- the trial -------------------------------------------------------------------------


def _trial(
    generator: Generator,
    request: GeneratorRequest,
    place: GeneratorPlace,
    call: Invocation,
    epoch: EpochRecord,
) -> LoadTrial:
    elapsed_s = epoch.duration_ns / 1e9
    record = epoch.processes[0]
    failure = _failure(generator, call, epoch, place) or _too_long(generator, record)
    if failure:
        return _failed(request, failure, elapsed_s, epoch.started_ns)
    left = epoch.ending is TrialEnding.INTERRUPTED
    output = _output(call, place, record)
    try:
        measured = _measured(generator, request, output, left)
        failure = impossible(measured)
    except UnreadableOutput as error:
        failure = str(error)
    if failure:
        text = f"{generator.name}: {failure}"
        return _failed(request, text, elapsed_s, epoch.started_ns)
    trial = without_zero_mean(_reported_values(generator, request, call, measured))
    bound = generator_saturated(generator, place.cores, record)
    return msgspec.structs.replace(
        trial,
        cost_s=max(elapsed_s, trial.lasted_s),
        ending=LoadEnding.LEFT if left else LoadEnding.WHOLE,
        marks=(*trial.marks, *bound, *(() if left else backlog_uncounted(request, call, trial))),
        started_ns=epoch.started_ns,
    )


def _measured(
    generator: Generator, request: GeneratorRequest, output: GeneratorOutput, left: bool
) -> Measurement:
    if not left:
        return generator.parse(output, request)
    measured = generator.so_far(output, request)
    assert measured is not None, "a run that ended early has values"
    return measured


def _reported_values(
    generator: Generator, request: GeneratorRequest, call: Invocation, measured: Measurement
) -> LoadTrial:
    """Return the trial that an output reports, as if it were complete and had no cost."""
    lasted_s = request.duration_s if measured.lasted_s is None else measured.lasted_s
    traits = generator.traits
    marks = (
        *traits.marks,
        *(() if request.rate is None else traits.rate_marks),
        *measured.marks,
        *rate_rounded(request, call),
    )
    trial = LoadTrial(
        rate=_level(request),
        duration_s=request.duration_s,
        lasted_s=lasted_s,
        cost_s=lasted_s,
        values=measured.values,
        series=measured.series,
        offered=measured.offered,
        completed=measured.completed,
        errors=measured.errors,
        users=request.users if request.rate is None else None,
        late_p99_ms=measured.late_p99_ms,
        target_values=measured.target_values,
    )
    told = None if request.rate is None else call.rate or request.rate
    marks += count_marks(trial, told, by_series=measured.offered_by_series)
    return msgspec.structs.replace(trial, marks=tuple(dict.fromkeys(marks)))


def _level(request: GeneratorRequest) -> float:
    level = request.users if request.rate is None else request.rate
    assert level is not None, "a trial has a rate or users"
    return float(level)


def _failure(
    generator: Generator, call: Invocation, epoch: EpochRecord, place: GeneratorPlace
) -> str:
    """Return why a run failed; empty if it succeeded."""
    name = generator.name
    if epoch.ending is TrialEnding.TIMEOUT:
        text = shortened(_output_excerpt(place, epoch.processes[-1]))
        tail = f"; its output ends: {text}" if text else ""
        return f"{name} did not end within {place.grace_s:g} s after its load{tail}"
    if epoch.ending is not TrialEnding.FAILED:
        return ""
    bad = [p for p in epoch.processes if p.error or p.status not in call.statuses]
    if not bad:
        return ""
    record = bad[-1]
    if record.error:
        return f"{name} cannot be started: {record.error}"
    text = _output_excerpt(place, record)
    found = [diagnosis.meaning for diagnosis in call.diagnoses if diagnosis.sign in text]
    told = "; ".join(filter(None, [*found, shortened(text)])) or "no message"
    return f"{name} ended with status {record.status}: {told}"


def _output_excerpt(place: GeneratorPlace, record: ProcessRecord) -> str:
    """Return what a process wrote to stderr; if nothing, what it wrote to stdout."""
    err = _text(Path(place.scratch, "exec-1.err"), record.err)
    return err or _text(Path(place.scratch, "exec-1.out"), record.out)


def _failed(
    request: GeneratorRequest, failure: str, cost_s: float = 0.0, started_ns: int = 0
) -> LoadTrial:
    return LoadTrial(
        rate=_level(request),
        duration_s=request.duration_s,
        lasted_s=0.0,
        cost_s=cost_s,
        ending=LoadEnding.FAILED,
        failure=failure,
        started_ns=started_ns,
    )
