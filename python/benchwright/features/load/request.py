"""Requests to the load engine (a load, or a job with traces), and the position of each of
their fields in the user's input."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from benchwright.core.text import plural
from benchwright.features.load.file_set import operations_per_chain
from benchwright.features.load.prompt_traces import PromptTrace
from benchwright.features.load.types import LoopModel
from benchwright.features.load.workload import (
    ALL_KINDS,
    KINDS,
    OPEN,
    Closed,
    Distribution,
    Files,
    Location,
    Open,
    ReadTrace,
    Tpcb,
    Trace,
    UniformLocation,
    Workload,
    kinds_of,
    operations_until,
)
from benchwright.inputs.mistakes import Where, mistake

# -- A request to the load engine: target, workload, and how it is run -----------------
#
# Source: docs/engine-protocol.md, `load`. The defaults here are those of `bw load`.

TIMEOUT_NS = 30 * 10**9
"""Time limit of one operation on a server."""
UDP_TIMEOUT_NS = 10**9
"""Time limit of one operation on a UDP server: nobody sends a lost datagram again."""
DRAIN_NS = 30 * 10**9
INTERVAL_NS = 10**9
DEPTH = 128


class Stall(msgspec.Struct, frozen=True):
    """An interval in which the null target completes no operation."""

    at_ns: int
    for_ns: int


class NullTarget(msgspec.Struct, frozen=True, tag="null", tag_field="kind"):
    """No target: the measurement shows the engine itself."""

    service_ns: int = 0
    stalls: tuple[Stall, ...] = ()


class FileTarget(msgspec.Struct, frozen=True, tag="file", tag_field="kind"):
    """A file or a block device."""

    path: str
    direct: bool = False
    engine: Literal["auto", "io_uring", "threads"] = "auto"
    threads: int = 16
    size_bytes: int | None = None
    block_bytes: int | None = None
    overwrite: bool = False
    """Whether its contents may be lost."""
    allow_writes_to_mounted: bool = False
    """Even while a file system on it is in use: that file system will be lost."""
    repeat_data: bool = False
    """Whether writes repeat the same blocks, which a target that deduplicates stores once."""


class Tls(msgspec.Struct, frozen=True):
    """How a target uses TLS."""

    ca: str | None = None
    """A PEM file with the certificates of the authorities; None: those of the system."""
    insecure: bool = False
    """Whether any certificate is accepted."""
    server_name: str | None = None
    """The name that the server's certificate must have; None: the target's host."""


class Connected(msgspec.Struct, frozen=True, kw_only=True):
    """How a server is connected to that is reached over TCP or a Unix socket."""

    connections: int = 64
    timeout_ns: int | None = TIMEOUT_NS
    """Time limit of an operation; None: unlimited."""
    outstanding: int = 1
    """Maximum number of operations in progress on a connection: pipelining, streams of HTTP/2."""
    requests_per_connection: int | None = None
    """After how many operations a connection is made again; None: never."""
    unix_socket: str | None = None
    """Path of the server's Unix socket, in place of its host and port."""
    tls: Tls | None = None
    """None: the connections do not use TLS."""


class TcpTarget(Connected, frozen=True, tag="tcp", tag_field="kind"):
    """A server that returns the data that it receives."""

    host: str
    port: int
    receive_bytes: int | None = None


CHARACTERS = ("hex", "digits", "alphanumeric")
OWNERS = ("operation", "session")
"""What has a value of its own: an operation, or all operations of a session of a partly open loop."""


class IntegerValue(msgspec.Struct, frozen=True, omit_defaults=True, tag="integer", kw_only=True):
    """An integer from `min` to `max`."""

    min: int
    max: int
    location: Location = UniformLocation()
    """How it is chosen: as a block of a region."""
    digits: int = 0
    """Its least number of digits."""
    of: str = "operation"
    """One of OWNERS: for what it is drawn."""


class CounterValue(msgspec.Struct, frozen=True, omit_defaults=True, tag="counter", kw_only=True):
    """The number of the operation."""

    start: int = 0
    digits: int = 0
    """Its least number of digits."""


class LineValue(msgspec.Struct, frozen=True, omit_defaults=True, tag="line", kw_only=True):
    """One of several texts."""

    lines: tuple[str, ...]
    location: Location = UniformLocation()
    of: str = "operation"
    """One of OWNERS."""


class TextValue(msgspec.Struct, frozen=True, omit_defaults=True, tag="text", kw_only=True):
    """Random characters."""

    length: int
    characters: str = "hex"
    of: str = "operation"
    """One of OWNERS."""


class EnvironmentValue(msgspec.Struct, frozen=True, tag="environment", kw_only=True):
    """The value of an environment variable: a secret, which only what is sent to an engine has."""

    variable: str


class RunValue(msgspec.Struct, frozen=True, tag="run"):
    """Random characters that are others in each run, which only what is sent to an engine has."""


class PromptsValue(msgspec.Struct, frozen=True, tag="prompts", kw_only=True):
    """The prompts of a trace in its order, which only what is sent to an engine has as texts."""

    prompts: tuple[tuple[tuple[int, int], ...], ...]
    """Of each prompt its parts: a number, which says what their words are, and how many."""
    tokens: tuple[int, ...]
    """The lengths of the prompts in the trace."""
    path: str
    has_blocks: bool
    """Whether prompts share parts."""
    left_out: int = 0
    """Requests of the trace without output."""
    skipped: int = 0
    """Malformed rows."""


Value = (
    IntegerValue | CounterValue | LineValue | TextValue | EnvironmentValue | RunValue | PromptsValue
)


class Expect(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a response must be; anything else is an error of its operation."""

    status: int | None = None
    """None: any below 400."""
    contains: str | None = None
    """A text in the body."""
    min_bytes: int = 0
    """The least length of the body."""


class HttpRequest(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A request with a label. Path, values of headers, and body have places for values."""

    label: str
    method: str = "GET"
    path: str
    headers: tuple[tuple[str, str], ...] = ()
    """They replace those of the target."""
    body: str | None = None
    body_base64: str | None = None
    """Bytes without places for values, instead of `body`."""
    expect: Expect = Expect()


EVENT_FORMATS = ("sse", "lines", "chunks", "websocket")
MEANINGS = ("chat", "completions", "responses")


class Events(msgspec.Struct, frozen=True, kw_only=True):
    """How the answers of a server are read as events. The names of its fields in Python are those of
    the options of a target."""

    events: Literal["sse", "lines", "chunks", "grpc", "websocket"] = msgspec.field(
        name="format", default="sse"
    )
    """What delimits events: Server-Sent Events, the ends of lines, the transfer itself (chunks of
    HTTP/1.1, DATA frames of HTTP/2), or the messages of gRPC or WebSocket."""
    meaning: Literal["plain", "chat", "completions", "responses"] = "plain"
    """Which events have content: all, or those of an answer of a language model that say something."""
    end_mark: str | None = msgspec.field(name="end", default=None)
    """Data of the event that ends a stream; None: that of the meaning, of `plain` the end of the
    answer."""
    first_timeout_ns: int | None = None
    """Time limit of the first event with content; None: only that of the whole operation."""
    gap_timeout_ns: int | None = None
    """Time limit from one event to the next."""


class LanguageModel(msgspec.Struct, frozen=True, kw_only=True):
    """Requests to a language model, which `features/load/llm.py` makes. The names of its fields are
    those of the options of a target."""

    llm: Literal["chat", "completions", "responses"] | None = None
    """The API; None: it was not named, which is a mistake."""
    model: str | None = None
    prompt_words: Distribution | None = None
    output_tokens: Distribution | None = None
    shared_prefix: int | None = None
    """Words that all prompts begin with."""
    ignore_eos: bool = False
    prompt_trace: str | PromptTrace | None = None
    """A file with the lengths of prompts and outputs, or its contents."""
    tokens_per_word: float | None = None
    """None: the server is asked, where it must be known."""
    turns: Distribution | None = None
    """Requests of a conversation; each repeats those before it."""


class ProtoFile(msgspec.Struct, frozen=True):
    """A `.proto` file."""

    name: str
    """As an import has it."""
    text: str


class GrpcRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A call of gRPC with a label."""

    label: str
    grpc: str
    """`package.Service/Method`."""
    data: str = "{}"
    """Its message as JSON, or an array of those of a stream of requests."""


class GrpcCall(msgspec.Struct, frozen=True, kw_only=True):
    """A call of gRPC, whose requests `features/load/grpc.py` makes. The names of its fields are those
    of the options of a target."""

    grpc: str | None = None
    """`package.Service/Method`; None: it was not named, which is a mistake."""
    proto: tuple[ProtoFile, ...] = ()
    """The file with the service, and those that it imports; empty: the server's reflection has them."""
    import_path: str | None = None
    data: str = "{}"
    """Messages as JSON: one, several behind each other, or an array of them, which of a stream of
    requests is one call."""
    calls: tuple[GrpcRequest, ...] = ()
    """Calls of a workload with labels, instead of `grpc` and `data`."""
    compression: Literal["gzip"] | None = None
    """How messages are compressed; None: they are not."""
    metadata: tuple[tuple[str, str], ...] = ()
    deadline_ns: int | None = None
    accept: tuple[int, ...] = ()
    """Statuses that are no errors beside OK."""


class HttpTarget(Connected, frozen=True, tag="http", tag_field="kind"):
    """An HTTP server, with persistent connections; with `grpc` or `grpcs` in its URL a gRPC server."""

    url: str
    method: str = "GET"
    paths: tuple[str, ...] = ("/",)
    headers: tuple[tuple[str, str], ...] = ()
    body_bytes: int = 0
    requests: tuple[HttpRequest, ...] = ()
    """Requests with labels, instead of method, paths and body."""
    values: dict[str, Value] = {}
    """The values of their texts, by name."""
    http: Literal["1.1", "2"] = "1.1"
    """The version of HTTP: with https agreed on by ALPN, with http assumed."""
    deadline_ns: int | msgspec.UnsetType = msgspec.UNSET
    """The deadline of each call of gRPC; unset: none."""
    accepted: tuple[int, ...] | msgspec.UnsetType = msgspec.UNSET
    """Statuses of gRPC that are no errors beside OK; unset: none."""
    events: Events | msgspec.UnsetType = msgspec.UNSET
    """How answers are read as events; unset: an answer is one whole."""
    language_model: LanguageModel | msgspec.UnsetType = msgspec.UNSET
    """What the requests of a language model are; never in a request to the engine, whose `requests`
    are made from it."""
    call: GrpcCall | msgspec.UnsetType = msgspec.UNSET
    """What the requests of a gRPC server are; never in a request to the engine."""


PING = (("PING",),)
"""The commands of a Redis server where none are given."""


class RedisTarget(Connected, frozen=True, tag="redis", tag_field="kind"):
    """A Redis server; the engine itself reads its password, which no request contains."""

    host: str
    port: int = 6379
    commands: tuple[tuple[str, ...], ...] = PING
    """The words of each command; they have places for values."""
    labels: tuple[str, ...] = ()
    """The label of each command; empty: they have none."""
    values: dict[str, Value] = {}
    """The values of the words, by name."""
    database: int | None = None
    """None: that of a new connection, 0."""
    user: str | None = None
    """None: the default user."""
    password_file: str | None = None
    """File with the password; None: the engine's environment variable REDISCLI_AUTH, if it is set.
    """
    resp: int = 2
    """Version of the protocol, 2 or 3."""


class Statement(msgspec.Struct, frozen=True):
    """A statement of SQL with the texts of its parameters, which have places for values."""

    sql: str
    parameters: tuple[str, ...] = ()


class PostgresTarget(Connected, frozen=True, tag="postgres", tag_field="kind"):
    """A PostgreSQL server: an operation executes prepared statements in one transaction.

    It has no password: the engine looks it up where PostgreSQL's own clients do.
    """

    host: str
    user: str
    port: int = 5432
    database: str | None = None
    """None: that with the user's name."""
    statements: tuple[tuple[Statement, ...], ...] = ()
    """What the operations execute, each its statements in order; empty: SELECT 1."""
    labels: tuple[str, ...] = ()
    """The label of each operation; empty: they have none."""
    values: dict[str, Value] = {}
    """The values of the parameters, by name."""
    password_file: str | None = None
    """A file whose first line is the password."""


class Payload(msgspec.Struct, frozen=True, omit_defaults=True):
    """What an operation sends: exactly one of its fields. The first two have places for values."""

    text: str | None = None
    hex: str | None = None
    """Hexadecimal digits of the bytes."""
    base64: str | None = None


class UdpTarget(msgspec.Struct, frozen=True, tag="udp", tag_field="kind"):
    """A UDP server: an operation is one datagram and the one that answers it."""

    host: str
    port: int
    payloads: tuple[Payload, ...] = ()
    """What operations send; empty: as many bytes as they have, which the server returns."""
    values: dict[str, Value] = {}
    """The values of the payloads, by name."""
    receive_bytes: int | None = None
    """Length of each answer; 0: there is none; None: any."""
    match_bytes: int = 0
    """An answer begins with so many bytes of its request; other datagrams are dropped."""
    expect: str | None = None
    """What an answer begins with, as hexadecimal digits; `??` is any byte."""
    connections: int = 64
    """Sockets: the most operations in progress."""
    requests_per_connection: int | None = None
    """After how many operations a socket is replaced by one with another port; None: never."""
    timeout_ns: int | None = UDP_TIMEOUT_NS
    """Time limit of an operation; None: unlimited, if no answer is expected."""


class WebSocketTarget(Connected, frozen=True, tag="websocket", tag_field="kind"):
    """A server of WebSocket: an operation is one message and what answers it."""

    url: str
    headers: tuple[tuple[str, str], ...] = ()
    """Of the upgrade."""
    subprotocols: tuple[str, ...] = ()
    """Those that are offered, the preferred one first."""
    payloads: tuple[Payload, ...] = ()
    """What operations send, a text as a text message, all others as binary ones; empty: as many bytes
    as they have, which must come back."""
    labels: tuple[str, ...] = ()
    """The label of each payload; empty: they have none."""
    values: dict[str, Value] = {}
    """The values of the payloads, by name."""
    answer: str = "next"
    """Which messages answer an operation: `next`, `none`, the pointer of a JSON member that repeats
    that of the operation's message (`/id`), or `hex:` and the digits of what they begin with."""
    expect: str | None = None
    """What an answer begins with, as hexadecimal digits; `??` is any byte."""
    message_bytes: int = 100 * 2**20
    """The most bytes of a message of the server."""
    events: Events | msgspec.UnsetType = msgspec.UNSET
    """How answers of several messages end; unset: an answer is one message."""


StreamTarget = TcpTarget | HttpTarget | WebSocketTarget | RedisTarget | PostgresTarget
"""Servers that are reached over TCP or a Unix socket."""
ServerTarget = StreamTarget | UdpTarget
"""Targets whose operations are exchanges with a server."""


class DirTarget(msgspec.Struct, frozen=True, tag="dir", tag_field="kind"):
    """A directory of a mounted file system, with a file set."""

    path: str
    engine: Literal["auto", "io_uring", "threads"] = "auto"
    threads: int = 16
    open_files: int | None = None
    """Maximum number of open files; None: what the limits of the process permit."""
    synchronous: bool = False
    """Whether each write is durable when it ends (O_DSYNC)."""
    replace: bool = False
    """Whether a file set of other tables is replaced."""
    repeat_data: bool = False
    """Whether writes repeat the same blocks, which a target that deduplicates stores once."""


class NfsTarget(msgspec.Struct, frozen=True, tag="nfs", tag_field="kind"):
    """An export of an NFS server with a file set: NFS version 3 over TCP."""

    host: str
    export: str
    port: int | None = None
    """None: the host's portmapper knows it."""
    mount_port: int | None = None
    """Port of MOUNT; None: the host's portmapper knows it."""
    root_handle: str | None = None
    """Handle of the export's root as hexadecimal digits; None: MOUNT returns it."""
    uid: int | None = None
    """None: that of this process."""
    gid: int | None = None
    connections: int = 1
    outstanding: int = 128
    """Maximum number of calls without a reply, per connection."""
    timeout_ns: int | None = TIMEOUT_NS
    """Time limit of an operation; None: unlimited."""
    jukebox_retry_ns: int = 10**8
    """When a call that the server postpones is sent again."""
    synchronous: bool = False
    """Whether each write is durable when it ends (DATA_SYNC)."""
    replace: bool = False
    """Whether a file set of other tables is replaced."""
    repeat_data: bool = False
    """Whether writes repeat the same blocks, which a target that deduplicates stores once."""


OneTarget = NullTarget | FileTarget | ServerTarget | DirTarget | NfsTarget


class NamedTarget(msgspec.Struct, frozen=True):
    """One of several targets."""

    name: str
    filaments: tuple[int, ...]
    """Indexes of the filaments that use it."""
    target: OneTarget


class SeveralTarget(msgspec.Struct, frozen=True, tag="several", tag_field="kind"):
    """Several targets, each for some of the filaments."""

    targets: tuple[NamedTarget, ...]


LoadTarget = OneTarget | SeveralTarget


def kinds_on(target: LoadTarget) -> set[str]:
    """Return the kinds of operation without a file set that a target executes."""
    match target:
        case SeveralTarget():
            return {
                kind for named_target in target.targets for kind in kinds_on(named_target.target)
            }
        case NullTarget():
            return set(KINDS)
        case FileTarget() | DirTarget() | NfsTarget():
            return {*KINDS} - {"exchange"}
    return {"exchange"}


class CatchUp(msgspec.Struct, frozen=True, tag="catch-up", tag_field="policy"):
    """Late operations are issued at once."""


class Skip(msgspec.Struct, frozen=True, tag="skip", tag_field="policy"):
    """Operations later than `after_ns` are skipped and counted."""

    after_ns: int


class Burst(msgspec.Struct, frozen=True, tag="burst", tag_field="policy"):
    """At most `operations` late operations are issued at once; the rest is skipped and counted."""

    operations: int


Late = CatchUp | Skip | Burst

PACERS = ("spin", "select", "sleep", "ded-clock")
CLOCKS = ("auto", "tsc", "monotonic")
FULL = ("queue", "drop")
LOW_PRIORITIES = ("nice", "idle")


class SchedulePart(msgspec.Struct, frozen=True):
    """The part of a schedule that one of several engines issues."""

    index: int = 0
    of: int = 1


class StreamLimit(msgspec.Struct, frozen=True):
    """A limit that each good stream meets."""

    of: str
    """One of GOOD_LIMITS."""
    limit_ns: int


GOOD_LIMITS = ("first", "first_visible", "gap", "tpot", "response", "last")
"""What the limits of a good stream can be of; `gap` is the largest one of a stream."""


class StreamLimits(msgspec.Struct, frozen=True):
    """What the engine judges of each stream."""

    good: tuple[StreamLimit, ...]
    """A stream is good if it succeeds and meets all of them."""


class LoadRequest(msgspec.Struct, frozen=True, kw_only=True, tag="load", tag_field="type"):
    """All settings of a run of the engine."""

    target: LoadTarget
    workload: Workload
    duration_ns: int | None = None
    """None: until the filaments have no more operations."""
    drain_ns: int = DRAIN_NS
    workers: int = 1
    cpus: tuple[int, ...] | None = None
    depth: int = DEPTH
    full: str = "queue"
    late: Late = CatchUp()
    pacer: str = "spin"
    clock: str = "auto"
    fifo: int | None = None
    low_priority: str | msgspec.UnsetType = msgspec.UNSET
    """One of LOW_PRIORITIES: other threads go before the workers; unset: the process's own
    priority."""
    lock_memory: bool = True
    interval_ns: int = INTERVAL_NS
    interval_histograms: bool | msgspec.UnsetType = msgspec.UNSET
    """Add a histogram of response times to each interval, and the interval to each progress."""
    warm_up_ns: int = 0
    samples: str | None = None
    actions: str | msgspec.UnsetType = msgspec.UNSET
    """The file that what each worker did is written to."""
    wait_for_start: bool | msgspec.UnsetType = msgspec.UNSET
    """Wait with the load, once the file set is made, until stdin ends."""
    part: SchedulePart | msgspec.UnsetType = msgspec.UNSET
    """The part of the schedule that this engine issues; unset: all of it."""
    controlled: bool | msgspec.UnsetType = msgspec.UNSET
    """Start and end the load by lines on stdin, and end with stdin."""
    streams: StreamLimits | msgspec.UnsetType = msgspec.UNSET
    """What a good stream is; unset: no stream is judged."""

    @property
    def loop(self) -> LoopModel:
        """Whether operations wait for others, and the number of users."""
        filaments = self.workload.filaments
        opened = [_is_open(f) for f in filaments]
        users = [f.users for f in filaments if isinstance(f, Closed | Files)]
        slots = None
        if users and len(users) == len(filaments) and None not in users:
            engines = self.part.of if isinstance(self.part, SchedulePart) else 1
            slots = sum(n or 0 for n in users)
            slots = min(slots, self.depth * self.workers * engines)
        return LoopModel(open=any(opened), closed=not all(opened), slots=slots)

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds that its operations may have, on this target."""
        found = {
            kind
            for filament in self.workload.filaments
            for kind in kinds_of(filament) or kinds_on(self.target)
        }
        return tuple(kind for kind in ALL_KINDS if kind in found)

    @property
    def events(self) -> tuple[Events, ...]:
        """How answers are read as events, of each target that reads them so."""
        to = self.target
        each = [target.target for target in to.targets] if isinstance(to, SeveralTarget) else [to]
        found = (one.events for one in each if isinstance(one, HttpTarget | WebSocketTarget))
        return tuple(events for events in found if isinstance(events, Events))

    @property
    def recorded(self) -> bool:
        """Whether operations are those of a trace."""
        return any(isinstance(filament, Trace) for filament in self.workload.filaments)

    @property
    def asked_rate_per_s(self) -> float | None:
        """The mean of the requested arrivals per second in the measured part.

        None if it is unknown before the run: for a closed loop, a trace, or without an end.
        """
        end_ns, total = self.duration_ns, 0.0
        if not end_ns:
            return None
        for filament in self.workload.filaments:
            if not isinstance(filament, Open | Files) or filament.count is not None:
                return None
            if filament.rate is None:
                return None
            until = operations_until(filament.rate, self.warm_up_ns + end_ns)
            arrivals = until - operations_until(filament.rate, self.warm_up_ns)
            if isinstance(filament, Files) and self.workload.file_set is not None:
                size = self.workload.file_set.file_size
                arrivals *= float(operations_per_chain(filament, size))
            total += arrivals
        return total / end_ns * 1e9


def _is_open(filament: object) -> bool:
    if isinstance(filament, Tpcb | Files):
        return filament.rate is not None
    return isinstance(filament, OPEN)


# -- Requests about a load from several hosts: their clocks, one result of theirs -------
#
# Source: docs/engine-protocol.md, `clock-echo`, `clock-probe`, `merge`.


class EchoRequest(msgspec.Struct, frozen=True, tag="clock-echo", tag_field="type"):
    """Answer packets with this token, and lines, with the time until stdin ends."""

    token: int


class ClockProbeRequest(
    msgspec.Struct, frozen=True, kw_only=True, tag="clock-probe", tag_field="type"
):
    """Measure the offset of the clock of an echo."""

    address: str
    port: int
    token: int
    round_trips: int


class MergeRequest(msgspec.Struct, frozen=True, kw_only=True, tag="merge", tag_field="type"):
    """Make one result of those of several engines."""

    results: tuple[dict[str, Any], ...]
    interval_ns: int
    interval_histograms: bool


# -- Requests about traces: statistics, comparison, conversion, capture ----------------
#
# Decision: a request has only what the user set, so that each format's own default applies
# and the engine reports it. Source: docs/engine-protocol.md, `the others`.

WRITTEN = ("bw", "fio-iolog")


class TraceInput(ReadTrace, frozen=True, omit_defaults=True, kw_only=True):
    """A trace, and settings for what its format leaves open; None: the format's default."""

    target_bytes: int | None = None


class _TraceRequest(
    msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True, tag_field="type"
):
    """Base of requests about traces."""


class StatRequest(_TraceRequest, frozen=True, tag="trace-stat"):
    """Compute statistics of a trace."""

    input: TraceInput


class CompareRequest(_TraceRequest, frozen=True, kw_only=True, tag="trace-compare"):
    """Measure the fidelity of a replay."""

    a: TraceInput
    """The trace that was replayed."""
    b: TraceInput
    """The trace of the replay."""
    speed_micro: int | None = None
    """Speed of the replay; None: estimated from the first operations."""
    shift_ns: int | None = None
    window_ns: int | None = None
    """Maximum time between the two operations of a pair."""
    by_device: bool = False


class ConvertedTrace(msgspec.Struct, frozen=True):
    """A trace file to be written."""

    path: str
    format: str


class ConvertRequest(_TraceRequest, frozen=True, tag="trace-convert"):
    """Convert a trace to another format."""

    input: TraceInput
    output: ConvertedTrace


class CaptureRequest(_TraceRequest, frozen=True, kw_only=True, tag="trace-capture"):
    """Record the I/O of a device or a process tree."""

    device: str | None = None
    pid: int | None = None
    for_ns: int | None = None
    """Duration; None: until interrupted."""
    output: str
    buffer_kib: int | None = None


# --------------------------------------------------------------------------------------
# The position of each field of a request in the user's input: a workload's file or an option.
#
# Purpose: the engine names fields of its request (`workload.filaments[0].access.size`); the
# user writes `[[filament]]` or `--block`. Decision: one flat table from fields to positions,
# made while the input is read. An error inside a filament is looked up by the first word of
# the engine's message; if that is not a key, the error is placed at the filament itself.
# Rejected: structured errors in the engine's schedule, because each of their texts already
# begins with its field. Source: docs/engine-protocol.md, `error`.

InputPositions = Mapping[str, Where]
"""Positions in the user's input, by the request's field. A filament has
`workload.filaments[N]` and, for each key that the user wrote, `workload.filaments[N].KEY`."""

NO_POSITIONS: InputPositions = {}

_FILAMENT = re.compile(r"(workload\.filaments\[\d+\])(?:\.(?:access\.)?(\w+))?")
_FIRST = re.compile(r"(?:access: )?([\w-]+)")
_KEYS = {
    "align_bytes": ("align", "size"),
    "zipf": ("location",),
    "hot-cold": ("location",),
    "strided": ("location",),
    "gamma": ("arrival",),
    "on-off": ("arrival",),
    "recorded": ("arrival",),
}
"""The engine's words that differ from the user's, with the keys that they may refer to."""


def filament_field(place: int) -> str:
    """Return the name of a filament's field in the request."""
    return f"workload.filaments[{place}]"


def position_of(places: InputPositions, field: str, message: str) -> Where | None:
    """Return the position of an error in the user's input; None if it is unknown."""
    filament = _FILAMENT.fullmatch(field)
    if filament is None:
        # What has no position of its own has that of what it is in.
        while field and field not in places:
            field = field[: max(field.rfind("."), field.rfind("["), 0)]
        return places.get(field)
    first = _FIRST.match(message)
    words = (filament[2], first[1] if first else None)
    for word in (word for word in words if word):
        for key in _KEYS.get(word, (word,)):
            if f"{filament[1]}.{key}" in places:
                return places[f"{filament[1]}.{key}"]
    return places.get(filament[1])


def check_worker_cpus(request: LoadRequest, places: InputPositions) -> None:
    """Check that each worker has its CPU. Raises InputError."""
    cpus, workers = request.cpus, request.workers
    if cpus is None or len(cpus) == workers:
        return
    where = places.get("cpus", Where("--cpu"))
    dashes = "--" if where.file == "--cpu" else ""
    seats, threads = plural(len(cpus), "CPU"), plural(workers, "thread")
    cpu = f"{dashes}cpu{'' if dashes else 's'}"
    message = f"{cpu} names {seats}, and {dashes}workers asks for {threads}"
    hint = f"name one for each thread, or ask for {plural(len(cpus), 'thread')}"
    raise mistake(where, "bad-argument", message, hint)
