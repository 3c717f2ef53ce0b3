"""The load engine as a process: it takes a request and returns progress and a result, as
types and as values."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar

import msgspec
from msgspec import UNSET

from benchwright.core.errors import BenchError, Diagnostic, InputError, OperatingError
from benchwright.core.processes import is_stopped, stop_signals
from benchwright.core.results import Finding
from benchwright.features.load.parse import path_requests
from benchwright.features.load.prompts import texts_of
from benchwright.features.load.request import (
    NO_POSITIONS,
    CaptureRequest,
    EnvironmentValue,
    InputPositions,
    LineValue,
    LoadRequest,
    LoadTarget,
    PromptsValue,
    RunValue,
    SeveralTarget,
    Value,
    position_of,
)
from benchwright.features.load.response_times import response_times
from benchwright.features.load.streams import STREAM_METRICS, stream_metrics
from benchwright.features.load.types import (
    EngineResult,
    FileSetProgress,
    LoadProgress,
    TimeDistribution,
)
from benchwright.features.load.workload import ALL_KINDS, SequentialLocation
from benchwright.inputs.mistakes import diagnostic
from benchwright.trial.programs import find_engine
from benchwright.watch.observer import end_child

# -- The engine's lines, decoded: progress, then a result or an error ------------------
#
# Decision: types are checked strictly, because a number of the wrong kind would falsify the
# report; the result is also stored unchanged, for `--json`. Source:
# docs/engine-protocol.md.

SCHEMA = "load/1"
ResultT = TypeVar("ResultT")
TargetT = TypeVar("TargetT", bound=LoadTarget)


class EngineAnswer(msgspec.Struct, Generic[ResultT], frozen=True):
    """The result of a request: as a type, and as the engine wrote it."""

    result: ResultT
    document: dict[str, Any]
    """With every member, except the protocol's own."""
    interrupted: bool = False
    """Of a capture: whether it was interrupted; the result of a load says it itself."""


LoadAnswer = EngineAnswer[EngineResult]


class EngineProblem(msgspec.Struct, frozen=True):
    """One of the errors in a request."""

    field: str
    message: str


class EngineFault(msgspec.Struct, frozen=True):
    """An error as the engine reports it."""

    status: int
    code: str
    message: str
    remedy: str = ""
    path: str | None = None
    line: int | None = None
    column: int | None = None
    field: str | None = None
    problems: tuple[EngineProblem, ...] = ()


class LoadReady(msgspec.Struct, frozen=True):
    """The target of a load is open and its file set is made; of a controlled load, every worker is
    connected too. It waits for its start."""


EngineLine = FileSetProgress | LoadReady | LoadProgress | EngineAnswer[Any] | EngineFault


def decode_line(line: bytes, kind: type = EngineResult) -> EngineLine:
    """Return the content of a line; `kind` is the type of the result.

    Raises BenchError `engine-protocol`.
    """
    try:
        document = msgspec.json.decode(line)
        match document.get("type") if isinstance(document, dict) else None:
            case "making":
                return msgspec.convert(document, FileSetProgress)
            case "ready" | "armed":
                return LoadReady()
            case "progress":
                return msgspec.convert(document, LoadProgress)
            case "result":
                return _answer(document, kind)
            case "error":
                return msgspec.convert(document, EngineFault)
    except msgspec.MsgspecError as error:
        raise foreign(line, str(error)) from None
    raise foreign(line, "it has no type that we know")


def _answer(document: dict[str, Any], kind: type) -> EngineAnswer[Any]:
    result: object = msgspec.convert(document, kind)
    own = {"type", "schema"}
    if isinstance(result, EngineResult):
        own.remove("schema")
        if result.schema != SCHEMA:
            raise msgspec.ValidationError(f"its schema is {result.schema}, not {SCHEMA}")
        if "all" not in result.kinds:
            raise msgspec.ValidationError("its kinds have no `all`")
    kept = {name: value for name, value in document.items() if name not in own}
    return EngineAnswer(result, kept)


def foreign(line: bytes, why: str) -> BenchError:
    """Return the error for a line that does not follow the protocol."""
    shown = line[:80].decode(errors="replace").strip()
    return BenchError(
        "engine-protocol",
        f"the engine printed a line outside its protocol: {why}: {shown}",
        "the versions of the engine and of this program differ: run `make setup`",
    )


def error_of(fault: EngineFault, places: InputPositions = NO_POSITIONS) -> OperatingError:
    """Return an engine's error as an OperatingError, with its position if known."""
    diagnostics = _diagnostics_of(fault, places)
    if diagnostics:
        error: OperatingError = InputError(diagnostics)
    elif fault.path is not None:
        place = Diagnostic(
            code=fault.code,
            message=fault.message,
            hint=fault.remedy,
            file=fault.path,
            line=fault.line or 1,
            column=fault.column or 1,
        )
        error = InputError([place])
    else:
        error = BenchError(fault.code, fault.message, fault.remedy)
    error.exit_status = 1 if fault.status == 1 else 2
    return error


def _diagnostics_of(fault: EngineFault, places: InputPositions) -> list[Diagnostic]:
    """Return the errors with their positions in the input; empty unless all have one."""
    problems = fault.problems
    if not problems and fault.field is not None:
        problems = (EngineProblem(fault.field, fault.message),)
    mistakes = []
    for problem in problems:
        where = position_of(places, problem.field, problem.message)
        if where is None:
            return []
        message = problem.message.replace(*_field_names(problem.field))
        mistakes.append(diagnostic(where, fault.code, message, fault.remedy))
    return mistakes


def _field_names(field: str) -> tuple[str, str]:
    """Return the engine's name of a field, and its last word."""
    return field.removeprefix("workload."), field.rpartition(".")[2]


# --------------------------------------------------------------------------------------
# The engine as a process: it takes one request and returns progress and a result.
#
# Decision: each request has its own engine process (docs/decisions/0006-engine.md), and
# Python only waits in a read: no Python code runs during the measurement except for one
# line of progress a second. An interrupt is passed on, and the engine replies with its
# results so far; a second interrupt ends it. Engines on other hosts are conversations too
# (features/load/hosts.py). Source: docs/engine-protocol.md.

INTERRUPTED = 130
DIED = "engine-died"
_SILENCE_S = 5.0
"""After so long without a line, bw looks whether the engine is stopped [s]."""
_STOPPED_S = 30.0
"""An engine that is stopped for so long is ended: what it measured is no load any more [s]."""
_PATIENCE_S = 10
"""How long an engine may take to end after its answer [s]."""

ShowMaking = Callable[[FileSetProgress], None]
"""Shows how far the making of a file set is."""
ShowProgress = Callable[[LoadProgress | FileSetProgress], None]


def unseen(_progress: object) -> None:
    """Show nothing: of progress, or a warning."""


class Conversation:
    """One request to one engine, while the engine works on it."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        """`process`: the engine, or the connection to it; its stdin and stdout are pipes."""
        self.process = process
        self.interrupted = False
        """Whether a signal was passed on to the engine."""
        self.is_ending = False
        """Whether it was asked for an early end."""
        self._begun: list[bytes] = []
        """The parts of a line whose end has not arrived."""

    def fileno(self) -> int:
        """Return the descriptor of the engine's output."""
        assert self.process.stdout is not None, "it is a pipe"
        return self.process.stdout.fileno()

    def read(self) -> list[bytes | None]:
        """Return the lines that have arrived, None for the end of the output; wait for some
        output."""
        data = os.read(self.fileno(), 1 << 16)
        *ends, rest = data.split(b"\n")
        lines: list[bytes | None] = []
        for end in ends:
            lines.append(b"".join((*self._begun, end)))
            self._begun.clear()
        self._begun.append(rest)
        if data:
            return lines
        last = b"".join(self._begun)
        return [last, None] if last else [None]

    def send(self, line: bytes) -> None:
        """Send a line; nothing happens if the engine has ended: its output has ended too. Safe to
        call in a signal handler."""
        pipe = self.process.stdin
        assert pipe is not None, "it is a pipe"
        left = memoryview(line + b"\n")
        with contextlib.suppress(OSError):
            while left and not pipe.closed:
                left = left[os.write(pipe.fileno(), left) :]

    def end_input(self) -> None:
        """End the engine's stdin: a load that waits for its start begins; one that is controlled
        ends without an answer."""
        assert self.process.stdin is not None, "it is a pipe"
        with contextlib.suppress(OSError):
            self.process.stdin.close()

    def end(self) -> None:
        """Request an early end; the engine answers with the results so far. Safe to call in a
        signal handler."""
        self.is_ending = True
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(signal.SIGINT)

    def pass_on(self, number: int) -> None:
        """Pass a signal on; a second one ends the engine."""
        again, self.interrupted = self.interrupted, True
        # poll() would reap it inside a handler; send_signal() checks for itself.
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(signal.SIGKILL if again else number)
            # A stopped one would answer only when it continues.
            self.process.send_signal(signal.SIGCONT)

    def died(self) -> BenchError:
        """Return the error for an engine that ended without an answer."""
        status = self.process.wait(_PATIENCE_S)
        how = f"by signal {-status}" if status < 0 else f"with exit status {status}"
        message = f"the engine ended {how} without a result"
        return self._ended(DIED, message, "its own message, if any, is above")

    def _ended(self, code: str, message: str, remedy: str) -> BenchError:
        error = BenchError(code, message, remedy)
        if self.interrupted:
            error.exit_status = INTERRUPTED
        return error

    def lines(self, warn: Callable[[str], None] = unseen) -> Iterator[bytes]:
        """Yield the engine's output, line by line. Raises BenchError for an engine that ends, or
        stays stopped; `warn` gets a line before."""
        stopped_s = 0.0
        while True:
            lines = read_lines((self,), _SILENCE_S)
            silent = not lines and is_stopped(self.process.pid)
            stopped_s = stopped_s + _SILENCE_S if silent else 0.0
            if stopped_s >= _STOPPED_S:
                raise self._ended(
                    "engine-stopped",
                    f"the engine (process {self.process.pid}) was stopped for {_STOPPED_S:g} s",
                    "run the load again, and let nothing stop it",
                )
            if stopped_s:
                warn(
                    f"bw: the engine (process {self.process.pid}) was stopped; it ends in "
                    f"{_STOPPED_S - stopped_s:g} s unless it continues "
                    f"(kill -CONT {self.process.pid})"
                )
            for _, line in lines:
                if line is None:
                    raise self.died()
                yield line

    def answer(
        self,
        kind: type[ResultT],
        *,
        progress: ShowProgress = unseen,
        ready: Callable[[], None] | None = None,
        warn: Callable[[str], None] = unseen,
    ) -> EngineAnswer[ResultT] | EngineFault:
        """Return the engine's answer, with a result of this type, or the error that it reports.

        `progress` is called meanwhile, until an early end is requested: an incomplete interval would
        look like a complete one. `ready` is called when the engine waits for its start; without it,
        the load starts at once. Raises BenchError as `lines`.
        """
        for line in self.lines(warn):
            match decode_line(line, kind):
                case LoadReady():
                    (ready or self.end_input)()
                case LoadProgress() | FileSetProgress() as so_far:
                    if not (self.interrupted or self.is_ending):
                        progress(so_far)
                case said:
                    return said
        raise AssertionError("lines() raises at the end")


ConversationT = TypeVar("ConversationT", bound=Conversation)


def read_lines(
    engines: Sequence[ConversationT], patience_s: float
) -> list[tuple[ConversationT, bytes | None]]:
    """Return the next lines of engines, each with its engine, None for the end of its output;
    nothing after a time in which no line came to its end."""
    readable = select.poll()
    for engine in engines:
        readable.register(engine, select.POLLIN)
    end_s = time.monotonic() + patience_s
    while found := readable.poll(1000 * max(0.0, end_s - time.monotonic())):
        ready = {descriptor for descriptor, _ in found}
        lines = [
            (engine, line)
            for engine in engines
            if engine.fileno() in ready
            for line in engine.read()
        ]
        if lines:
            return lines
    return []


@contextlib.contextmanager
def conversation(request: msgspec.Struct, prefix: Sequence[str] = ()) -> Iterator[Conversation]:
    """Start an engine, send it the request, pass interrupts on, and end it afterwards.

    `prefix`: the words that, put before the engine's command, start it in another network.
    """
    process = subprocess.Popen(
        [*prefix, find_engine()],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        # A terminal's interrupt reaches the engine only through `bw`, and once.
        start_new_session=True,
    )
    engine = Conversation(process)
    try:
        with stop_signals(engine.pass_on):
            # If the engine ended at once, its exit status shows why: see `died`.
            engine.send(encoded(request))
            if not (isinstance(request, LoadRequest) and request.wait_for_start is True):
                engine.end_input()
            yield engine
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_PATIENCE_S)
    finally:
        end_child(process)


def encoded(request: msgspec.Struct) -> bytes:
    """Return a request as an engine gets it, with the values of environment variables that it names,
    and with those that each run has of its own.

    Decision: they are added here, and nowhere else: what a study stores and a page shows has the
    names alone, and an engine gets its request on stdin, which no other user sees. Raises BenchError
    for a variable without a usable value.
    """
    if isinstance(request, LoadRequest):
        target = _as_sent(request.target, request.workload.seed)
        request = msgspec.structs.replace(request, target=target)
    return msgspec.json.encode(request)


def _as_sent(target: TargetT, seed: int) -> TargetT:
    """Return a target with the values that only the engine sees, and paths as requests with labels."""
    if isinstance(target, SeveralTarget):
        each = (
            msgspec.structs.replace(named_target, target=_as_sent(named_target.target, seed))
            for named_target in target.targets
        )
        return msgspec.structs.replace(target, targets=tuple(each))
    if requests := path_requests(target):
        target = msgspec.structs.replace(target, paths=(), requests=requests)
    values: dict[str, Value] = getattr(target, "values", {})
    found: dict[str, Value] = {}
    for name, one in values.items():
        if isinstance(one, EnvironmentValue):
            found[name] = LineValue(lines=(_secret(one.variable),))
        elif isinstance(one, RunValue):
            found[name] = LineValue(lines=(os.urandom(4).hex(),))
        elif isinstance(one, PromptsValue):
            found[name] = LineValue(lines=texts_of(one, seed), location=SequentialLocation())
    return msgspec.structs.replace(target, values=values | found) if found else target


def _secret(variable: str) -> str:
    value = os.environ.get(variable, "")
    if value and value.isascii() and value.isprintable():
        return value
    why = "has a value that no header can have" if value else "is not set"
    raise BenchError(
        "no-secret",
        f"the environment variable {variable} {why}",
        "set it to one line of printable characters",
    )


# -- Requests with one answer ------------------------------------------------------------


def run_load(
    request: LoadRequest,
    *,
    progress: ShowProgress = unseen,
    places: InputPositions = NO_POSITIONS,
    warn: Callable[[str], None] = unseen,
) -> LoadAnswer:
    """Run a request to its end and return the engine's answer.

    `warn` gets a line if the engine cannot go on.

    `places` has the origin of each field of the request: errors of the engine are
    reported there.

    Raises BenchError or InputError with the engine's exit status if the engine refuses the
    request, and BenchError `engine-died` if it ends without an answer.
    """
    with conversation(request) as engine:
        return _answered(engine.answer(EngineResult, progress=progress, warn=warn), places)


def ask_engine(
    request: msgspec.Struct, kind: type[ResultT], places: InputPositions = NO_POSITIONS
) -> EngineAnswer[ResultT]:
    """Return the engine's answer to a request; `kind` is the result's type.

    Raises InputError (with path, line and column) or BenchError, as the engine reports.
    """
    with conversation(request) as engine:
        return _answered(engine.answer(kind), places)


def capture_trace(
    request: CaptureRequest, kind: type[ResultT], during: Callable[[], None] | None
) -> EngineAnswer[ResultT]:
    """Return the engine's answer to a capture, which lasts until `during` returns.

    Without `during` the recording ends when its time is over, or at an interrupt.
    """
    with conversation(request) as engine:

        def ready() -> None:
            if during is not None:
                during()
                engine.end()

        answer = _answered(engine.answer(kind, ready=ready))
        return msgspec.structs.replace(answer, interrupted=engine.interrupted)


def _answered(
    said: EngineAnswer[ResultT] | EngineFault, places: InputPositions = NO_POSITIONS
) -> EngineAnswer[ResultT]:
    """Return an answer. Raises the error that the engine reports."""
    if isinstance(said, EngineFault):
        raise error_of(said, places)
    return said


# -- A load's result as metrics of a trial: named numbers and findings -----------------
#
# Decision: the names are those of GLOSSARY.md with units last: `rate_per_s`, `response_ns_p99`,
# `read_response_ns_p50`. A value that the engine does not have is left out: absent is not zero.
# Percentiles of response times are of all operations, those that failed or never ended as the
# slowest (features/load/response_times.py), and left out where they lie among these: a gate would
# otherwise judge only those that succeeded. A percentile of few operations is included, because a
# suite could not rely on a metric that came and went with the number of arrivals; the finding
# `few-samples-for-percentile` marks it. Inside a suite's trial (APLOG is set) the numbers are
# appended to APLOG as `name = value`, and findings as blocks.

_ALL = {
    "response_ns": ("mean", "p50", "p90", "p99", "p99_9", "p99_99", "max"),
    "service_ns": ("mean", "p50", "p99"),
    "issue_error_ns": ("p50", "p99", "p99_9", "max"),
}
_EACH = {"response_ns": ("mean", "p50", "p99")}
DECLARED = ("rate_per_s:higher", "response_ns_mean")
"""Metrics that every load has, as `--metric` declares them."""

_RATES = {
    "rate_per_s": "achieved_rate_per_s",
    "intended_rate_per_s": "intended_rate_per_s",
    "offered_rate_per_s": "offered_rate_per_s",
}
_COUNTS = ("completed", "errors", "dropped", "skipped", "held", "waiting", "unfinished")
"""Counts that are metrics; `--json` has all counts."""


def metric_names(kinds: Sequence[str] = ALL_KINDS, *, streams: bool = False) -> list[str]:
    """Return the names of the metrics that a load with these kinds of operations may have, those of
    all its operations first; `streams`: answers are read as events."""
    names = [*_RATES, *_COUNTS, "lateness_ns_p99", "bytes_per_s"]
    names += [f"{time}_{name}" for time, those in _ALL.items() for name in those]
    names += STREAM_METRICS if streams else ()
    each = [f"{time}_{name}" for time, those in _EACH.items() for name in those]
    of_kind = ("rate_per_s", "bytes_per_s", *each)
    return names + [f"{kind}_{name}" for kind in kinds for name in of_kind]


def load_metrics(result: EngineResult) -> dict[str, float]:
    """Return every number of a result by name; omit missing values."""
    found = {name: getattr(result, field) for name, field in _RATES.items()}
    found |= {name: getattr(result.counts, name) for name in _COUNTS}
    found["lateness_ns_p99"] = result.lateness_ns.p99
    for kind, kind_result in sorted(result.kinds.items()):
        prefix = "" if kind == "all" else f"{kind}_"
        rate, byte_rate = result.rates_of(kind_result)
        if kind != "all":
            found[f"{prefix}rate_per_s"] = rate
        found[f"{prefix}bytes_per_s"] = byte_rate
        for field, names in (_ALL if kind == "all" else _EACH).items():
            is_response = field == "response_ns"
            times = response_times(result, kind) if is_response else getattr(kind_result, field)
            found |= _named(f"{prefix}{field}", times, names)
    found |= stream_metrics(result)
    return {name: float(v) for name, v in found.items() if v is not None}


def _named(
    prefix: str, times: TimeDistribution, names: Iterable[str]
) -> dict[str, float | int | None]:
    return {f"{prefix}_{name}": getattr(times, name) for name in names}


def aplog_text(result: EngineResult, findings: Iterable[Finding]) -> str:
    """Return the text that a load appends to APLOG: findings as blocks, numbers as lines."""
    blocks = "".join(f"\n[finding]\n{_finding(finding)}" for finding in findings)
    lines = "".join(f"{name} = {value!r}\n" for name, value in load_metrics(result).items())
    return f"{blocks}\n{lines}"


def _finding(finding: Finding) -> str:
    figures = ""
    if finding.figures is not UNSET:
        figures = f"figures = {msgspec.json.encode(finding.figures).decode()}\n"
    return (
        f"code = {finding.code}\nseverity = {finding.severity.value}\n"
        f"evidence = {' '.join(finding.evidence.split())}\n{figures}"
    )
