"""The options of `bw load` and `bw replay`: target, run, a load without a workload's file.

One declaration for the options and for the keys of `[run]` and `[target]`; the same functions
read a workload's file and the command line.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated

import msgspec

from benchwright.features.load import parse as words
from benchwright.features.load import request as r
from benchwright.features.load import workload as w
from benchwright.inputs.options import Option, Text
from benchwright.inputs.template import choice
from benchwright.suite.common_options import REPLACES, Json, Plot, Quiet

if TYPE_CHECKING:
    from benchwright.features.load.criteria import LoadLimit

_bare = partial(Option, group="without a WORKLOAD")
_target = partial(Option, group="target", key=True)
_grpc = partial(Option, group="calls of gRPC", key=True)
_stream = partial(Option, group="answers as events, language models", key=True)
_run = partial(Option, group="how it is run", key=True)
_TRACE = "the trace"
_trace = partial(Option, group=_TRACE, key=True)
_ENGINES = ("auto", "io_uring", "threads")
_HTTP_VERSIONS = ("1.1", "2")


class BareOptions(msgspec.Struct, frozen=True):
    """A load without a workload's file; `field` is the filament's key."""

    rate: Annotated[
        Text,
        _bare(
            "arrivals per second; without it, a closed loop; with a WORKLOAD, operations per "
            "second of all its filaments that have a rate",
            "10k",
            words.rate_micro,
            "rate",
        ),
    ] = None
    arrival: Annotated[
        Text,
        _bare(
            "arrival process: constant, poisson, uniform, gamma:CV, on-off:1s:3s",
            "PROCESS",
            words.parse_arrival,
            "arrival",
            default="poisson",
            needs="rate",
        ),
    ] = None
    block: Annotated[
        Text,
        _bare(
            "size of an operation, or a distribution of sizes",
            "4k",
            words.size_distribution,
            "size",
        ),
    ] = None
    read: Annotated[
        Text,
        _bare(
            "share of reads; the rest are writes",
            "100%",
            words.share_micro,
            "kinds",
            no_default="it is for files and devices",
        ),
    ] = None
    location: Annotated[
        Text,
        _bare(
            "where operations go: uniform, zipf:1.2, hot-cold:10%:90%, sequential, strided:64k",
            "WHERE",
            words.parse_location,
            "location",
            no_default="it is for files and devices",
            default="uniform",
        ),
    ] = None
    think: Annotated[
        Text,
        _bare(
            "time between operations in a closed loop, or between the --turns of a conversation",
            "0ms",
            words.time_distribution,
            "think",
            yields_to="rate",
        ),
    ] = None


class TargetOptions(msgspec.Struct, frozen=True):
    """The target of the load; the keys of `[target]`."""

    target: Annotated[
        Text,
        Option(
            "null, a path, dir:PATH, http[s]://HOST/PATH, ws[s]://HOST/PATH, grpc[s]://HOST:PORT, "
            "redis[s]://HOST:PORT, "
            "postgres://USER@HOST/DB, tcp://HOST:PORT, tls://HOST:PORT, udp://HOST:PORT or "
            "nfs://HOST/EXPORT",
            "T",
            words.parse_target,
            group="target",
            names="file",
            no_default="a load may write to its target",
            once="several targets are [[target]] of a workload, or --map of bw replay",
        ),
    ] = None
    direct: Annotated[bool, _target("bypass the page cache (O_DIRECT)", field="direct")] = False
    size: Annotated[
        Text, _target("make a regular file this large", "1G", words.some_bytes, "size_bytes")
    ] = None
    overwrite: Annotated[
        bool,
        _target(
            "allow writes over the contents of a file or device",
            field="overwrite",
            no_default="it destroys data",
        ),
    ] = False
    allow_writes_to_mounted: Annotated[
        bool,
        _target(
            "with --overwrite, also write to a mounted file system (destroys it)",
            field="allow_writes_to_mounted",
            no_default="it destroys data",
        ),
    ] = False
    replace: Annotated[
        bool,
        _target(
            "replace a file set that other tables made",
            field="replace",
            no_default="it removes files",
        ),
    ] = False
    synchronous: Annotated[
        bool, _target("each write of a file set is durable when it ends", field="synchronous")
    ] = False
    repeat_data: Annotated[
        bool,
        _target(
            "write the same 4 MiB of blocks again and again, which a target may store once",
            field="repeat_data",
        ),
    ] = False
    engine: Annotated[
        Text,
        _target(
            "how files are accessed",
            "auto|io_uring|threads",
            choice("engine", *_ENGINES),
            "engine",
            default="auto",
        ),
    ] = None
    connections: Annotated[
        Text,
        _target(
            "connections to a server; over UDP the most operations in progress",
            "N",
            words.some,
            "connections",
            default="64; to an NFS server 1",
        ),
    ] = None
    outstanding: Annotated[
        Text,
        _target(
            "most operations in progress on a connection to a server (pipelining, streams)",
            "N",
            words.some,
            "outstanding",
            default="1; to an NFS server 128",
        ),
    ] = None
    http: Annotated[
        Text,
        _target("version of HTTP", "1.1|2", choice("http", *_HTTP_VERSIONS), "http", default="1.1"),
    ] = None
    unix_socket: Annotated[
        Text,
        _target(
            "server's Unix socket, in place of its host and port",
            "PATH",
            words.unix_socket,
            "unix_socket",
            names="file",
        ),
    ] = None
    commands: Annotated[
        Text,
        _target(
            "commands of a Redis server, or statements of a PostgreSQL server, separated by ;",
            "TEXT",
            words.commands_text,
            "commands",
            default="PING, or SELECT 1",
            no_default="they may change the data of the server",
        ),
    ] = None
    payload: Annotated[
        Text,
        _target(
            "what is sent to a server of UDP or WebSocket: text:TEXT, hex:DIGITS or file:PATH",
            "TEXT",
            words.payloads,
            "payloads",
            default="as many bytes as --block, which come back",
            no_default="it may change the data of the server",
        ),
    ] = None
    expect: Annotated[
        Text,
        _target(
            "what an answer of a server of UDP or WebSocket begins with: text:TEXT or hex:DIGITS (?? is "
            "any byte)",
            "TEXT",
            words.answer_prefix,
            "expect",
            default="anything",
        ),
    ] = None
    answer: Annotated[
        Text,
        _target(
            "which messages of a server of WebSocket are answers: the next one, none, those with the "
            "same JSON member as the message (/id), or those that begin with text:TEXT or hex:DIGITS",
            "next|none|/NAME|TEXT",
            words.answers,
            "answer",
            default="next",
        ),
    ] = None
    mount_port: Annotated[
        Text,
        _target(
            "port of an NFS server's MOUNT service",
            "PORT",
            partial(words.from_one, most=65_535),
            "mount_port",
            default="from the portmapper",
        ),
    ] = None
    uid: Annotated[
        Text,
        _target(
            "user of the calls to an NFS server", "N", words.count, "uid", default="that of bw"
        ),
    ] = None
    gid: Annotated[
        Text,
        _target(
            "group of the calls to an NFS server", "N", words.count, "gid", default="that of bw"
        ),
    ] = None
    timeout: Annotated[
        Text,
        _target(
            "time limit of an operation of a server, or none",
            "30s",
            words.timeout_ns,
            "timeout_ns",
            default="30s; of a UDP server 1s",
        ),
    ] = None
    events: Annotated[
        Text,
        _stream(
            "read the answers of an HTTP server as events, which arrive one by one: Server-Sent "
            "Events, lines, or chunks of the transfer; of a server of WebSocket its messages",
            "|".join(r.EVENT_FORMATS),
            choice("events", *r.EVENT_FORMATS),
            "events",
            default="sse, if --llm or one of the next three is given",
        ),
    ] = None
    end_mark: Annotated[
        Text,
        _stream(
            "data of the event that ends a stream; a stream without it fails as cut; of WebSocket the "
            "last message, or a JSON member of it (/NAME=VALUE)",
            "TEXT",
            words.end_mark,
            "end_mark",
            default="none: a stream ends with its answer; with --llm that of the API",
        ),
    ] = None
    first_timeout: Annotated[
        Text,
        _stream(
            "time limit of the first event of a stream, from the start of its operation",
            "5s",
            words.some_ns,
            "first_timeout_ns",
            default="none",
        ),
    ] = None
    gap_timeout: Annotated[
        Text,
        _stream(
            "time limit from one event of a stream to the next",
            "1s",
            words.some_ns,
            "gap_timeout_ns",
            default="none",
        ),
    ] = None
    llm: Annotated[
        Text,
        _stream(
            "requests to a language model: the OpenAI API's chat, completions or responses, whose "
            "answers are read as events",
            "|".join(r.MEANINGS),
            choice("llm", *r.MEANINGS),
            "llm",
        ),
    ] = None
    model: Annotated[
        Text, _stream("name of the model of --llm", "NAME", words.model_name, "model")
    ] = None
    prompt_words: Annotated[
        Text,
        _stream(
            "words of each prompt of --llm, or a distribution; how many tokens they are, the "
            "server reports",
            "512",
            words.length_distribution,
            "prompt_words",
            default="256",
        ),
    ] = None
    output_tokens: Annotated[
        Text,
        _stream(
            "most tokens of each answer of --llm, or a distribution",
            "128",
            words.count_distribution,
            "output_tokens",
            default="128",
        ),
    ] = None
    shared_prefix: Annotated[
        Text,
        _stream(
            "words that all prompts of --llm begin with; without it each begins with others, so "
            "that no server has it in its cache",
            "N",
            words.words_of_prompt,
            "shared_prefix",
            default="none",
        ),
    ] = None
    prompt_trace: Annotated[
        Text,
        _stream(
            "trace with the lengths of the prompts and answers of --llm, in its order: BurstGPT, "
            "Azure, Mooncake or Bailian; bw replay has its times too",
            "FILE",
            str,
            "prompt_trace",
            names="file",
        ),
    ] = None
    turns: Annotated[
        Text,
        _stream(
            "requests of a conversation of --llm, each with those before it and with answers of "
            "synthetic words; --think is the time between them",
            "4",
            words.turns,
            "turns",
            default="no conversations",
        ),
    ] = None
    tokens_per_word: Annotated[
        Text,
        _stream(
            "tokens of a mean word, for --prompt-trace and --turns",
            "1.3",
            words.tokens_per_word,
            "tokens_per_word",
            default="two requests ask the server before the load",
        ),
    ] = None
    ignore_eos: Annotated[
        bool,
        _stream(
            "ask the server of --llm for as many tokens as --output-tokens says, where it can do so",
            field="ignore_eos",
        ),
    ] = False
    grpc: Annotated[
        Text,
        _grpc(
            "method of a gRPC server that is called; answers that are streams are read as events",
            "package.Service/Method",
            words.grpc_method,
            "grpc",
        ),
    ] = None
    proto: Annotated[
        Text,
        _grpc(
            ".proto file with the service",
            "FILE",
            words.proto_path,
            "proto",
            default="the server's reflection",
            names="file",
        ),
    ] = None
    import_path: Annotated[
        Text,
        _grpc(
            "directories with what the .proto file imports, separated by :",
            "DIR",
            str,
            "import_path",
            default="that of the file",
            names="directory",
        ),
    ] = None
    data: Annotated[
        Text,
        _grpc(
            "message of each call as JSON, or @FILE; of several, one behind the other, each call has "
            "one at random; an array is the messages of one call where requests are streams",
            "JSON",
            words.grpc_data,
            "data",
            default="{}, an empty message",
            no_default="it may change the data of the server",
        ),
    ] = None
    compression: Annotated[
        Text,
        _grpc(
            "how the messages of calls are compressed",
            "gzip",
            words.grpc_compression,
            "compression",
            default="not",
        ),
    ] = None
    metadata: Annotated[
        tuple[str, ...],
        _grpc(
            "metadata of each call; of a name that ends with -bin the value is base64; repeatable",
            "NAME:VALUE",
            words.grpc_metadata,
            "metadata",
        ),
    ] = ()
    deadline: Annotated[
        Text,
        _grpc(
            "deadline of each call (grpc-timeout), which is its time limit too",
            "500ms",
            words.some_ns,
            "deadline_ns",
            default="none",
        ),
    ] = None
    accept: Annotated[
        Text,
        _grpc(
            "statuses other than OK with which a call succeeds, separated by commas",
            "STATUS",
            words.grpc_statuses,
            "accept",
            default="none",
        ),
    ] = None
    ca: Annotated[
        Text,
        _target(
            "file with the authorities that may issue a server's certificate (TLS, PEM)",
            "FILE",
            str,
            "ca",
            default="those of the system",
            names="file",
            rare=True,
        ),
    ] = None
    insecure: Annotated[
        bool,
        _target(
            "accept any certificate of a server (TLS)",
            field="insecure",
            no_default="the figures could be those of another server",
            rare=True,
        ),
    ] = False
    server_name: Annotated[
        Text,
        _target(
            "name that a server's certificate must have (TLS)",
            "NAME",
            str,
            "server_name",
            default="the target's host",
            rare=True,
        ),
    ] = None
    service: Annotated[
        Text,
        _target("service time of an operation of `null`", "0ns", words.duration_ns, "service_ns"),
    ] = None


def _speed(text: str) -> int:
    """Return a speed such as `4x` or `0.5` in millionths."""
    return words.number_micro(text.strip().removesuffix("x"))


def comma_separated(text: str) -> tuple[str, ...]:
    return tuple(text.split(","))


class TraceOptions(msgspec.Struct, frozen=True):
    """How a trace is read and mapped to a target; keys of a trace's `[[filament]]`."""

    format: Annotated[
        Text,
        _trace(
            f"format of the trace: {', '.join(w.FORMATS)}",
            "F",
            choice("format", *w.FORMATS),
            "format",
            default="detected from the content",
        ),
    ] = None
    speed: Annotated[
        Text, _trace("replay this many times as fast", "4x", _speed, "speed_micro", default="1x")
    ] = None
    offsets: Annotated[
        Text,
        _trace(
            "how offsets are mapped to the target",
            "wrap|scale|exact",
            choice("policy", "wrap", "scale", "exact"),
            "offsets",
        ),
    ] = None
    scale_space: Annotated[bool, Option("same as --offsets scale", group=_TRACE)] = False
    target_size: Annotated[
        Text,
        Option(
            "size of the target of the replay", "1G", words.some_bytes, "target_bytes", group=_TRACE
        ),
    ] = None
    duplicates: Annotated[
        Text,
        _trace(
            "operations with equal time stamps: at once, or spread until the next stamp",
            "burst|spread",
            choice("policy", "burst", "spread"),
            "duplicates",
        ),
    ] = None
    window: Annotated[
        Text,
        _trace(
            "sort time stamps that are this far out of order", "1s", words.duration_ns, "window_ns"
        ),
    ] = None
    window_rows: Annotated[
        Text, _trace("most operations held to sort them", "N", words.some, "window_rows")
    ] = None
    lenient: Annotated[bool, _trace("skip and count malformed lines", field="lenient")] = False
    start: Annotated[
        Text,
        _trace(
            "skip what comes earlier in the trace",
            "10s",
            words.duration_ns,
            "from_ns",
            flag="--from",
            key="from",
        ),
    ] = None
    length: Annotated[
        Text,
        _trace(
            "read only this much of the trace",
            "60s",
            words.some_ns,
            "for_ns",
            flag="--for",
            key="for",
        ),
    ] = None
    devices: Annotated[
        Text, Option("read only these devices", "A,B", comma_separated, "devices", group=_TRACE)
    ] = None
    source_size: Annotated[
        Text,
        _trace(
            "size of the traced device, for --offsets scale", "1T", words.some_bytes, "source_bytes"
        ),
    ] = None
    align: Annotated[
        Text,
        _trace("make offsets and sizes multiples of this", "4k", words.some_bytes, "align_bytes"),
    ] = None
    v2_wait: Annotated[
        Text,
        _trace(
            "unit of `wait` in fio's iolog version 2",
            "us|ms",
            choice("unit", "us", "ms"),
            "v2_wait",
            default="us",
        ),
    ] = None
    arrivals: Annotated[
        Text,
        _trace(
            "blktrace event that counts as the arrival",
            "queue|issue",
            choice("event", "queue", "issue"),
            "arrivals",
        ),
    ] = None
    stamp_unit: Annotated[
        Text, _trace("unit of MQSim's time stamps", "1ns", words.some_ns, "stamp_unit_ns")
    ] = None
    unsafe_methods: Annotated[
        bool,
        _trace(
            "also replay recorded requests that may change data: POST, PUT, DELETE and others",
            field="unsafe_methods",
            no_default="they change data on the server",
        ),
    ] = False
    credentials: Annotated[
        bool,
        _trace(
            "send recorded credentials: Authorization, Cookie and others",
            field="credentials",
            no_default="it sends secrets",
        ),
    ] = False
    delay: Annotated[
        Text,
        _trace(
            "issue each operation this much later, or by draws: 'exponential 5ms'",
            "TIME",
            words.time_distribution,
            "delay",
        ),
    ] = None
    quantize: Annotated[
        Text,
        _trace(
            "round issue times up to multiples of this, after --delay",
            "10ms",
            words.some_ns,
            "quantize_ns",
        ),
    ] = None


class LoadOptions(msgspec.Struct, frozen=True):
    """How the load is run; the keys of `[run]`."""

    duration: Annotated[
        Text,
        Option("length of the load", "5s", words.some_ns, "duration_ns", default="5s", key=True),
    ] = None
    depth: Annotated[
        Text,
        _run(
            "most operations in flight, per worker; in a closed loop operations always in flight",
            "N",
            words.some,
            "depth",
            default="128; in a closed loop 1",
        ),
    ] = None
    workers: Annotated[
        Text, _run("threads that issue operations", "N", words.some, "workers", default="1")
    ] = None
    cpus: Annotated[
        Text, _run("CPU of each worker: 1,3", "LIST", words.parse_cpus, "cpus", flag="--cpu")
    ] = None
    late: Annotated[
        Text,
        _run(
            "policy for late operations: catch-up, skip:1ms, burst:10",
            "POLICY",
            words.parse_late,
            "late",
            default="catch-up",
        ),
    ] = None
    full: Annotated[
        Text,
        _run(
            "what happens to an arrival while --depth is reached: it waits in a "
            "queue, or is dropped",
            "queue|drop",
            choice("policy", *r.FULL),
            "full",
            default="queue",
        ),
    ] = None
    pacer: Annotated[
        Text,
        _run(
            "how the engine waits for due times: spin; select, sleep and ded-clock "
            "exist only in an engine built for the comparison",
            "NAME",
            choice("pacer", *r.PACERS),
            "pacer",
            default="spin",
        ),
    ] = None
    clock: Annotated[
        Text,
        _run(
            "clock to read",
            "auto|tsc|monotonic",
            choice("clock", *r.CLOCKS),
            "clock",
            default="auto",
        ),
    ] = None
    fifo: Annotated[
        Text,
        _run(
            "real-time priority (SCHED_FIFO)",
            "PRIORITY",
            words.some,
            "fifo",
            no_default="a real-time load can block the machine",
        ),
    ] = None
    low_priority: Annotated[
        Text,
        _run(
            "run the workers behind other programs on their CPUs: with nice 19, or under "
            "SCHED_IDLE; operations are late while others compute",
            "nice|idle",
            choice("low priority", *r.LOW_PRIORITIES),
            "low_priority",
            default="the priority of bw",
        ),
    ] = None
    warm_up: Annotated[
        Text,
        _run(
            "time at the start that is left out of the figures",
            "1s",
            words.duration_ns,
            "warm_up_ns",
            default="0s",
        ),
    ] = None
    drain: Annotated[
        Text,
        _run(
            "longest wait for the last operations",
            "30s",
            words.duration_ns,
            "drain_ns",
            default="30s",
        ),
    ] = None
    interval: Annotated[
        Text,
        _run(
            "length of an interval of the series",
            "1s",
            words.some_ns,
            "interval_ns",
            default="1s, at most 1/20 of the load",
        ),
    ] = None
    seed: Annotated[
        Text, _run("random seed", "N", words.count, "seed", default="1; in a trial its number")
    ] = None
    max_errors: Annotated[
        Text,
        Option(
            "exit with 1 when a larger share of operations failed or did not finish; if "
            "given, dropped and skipped ones count too",
            "1%",
            words.share_micro,
            "max_errors_micro",
            default="1%",
            group="result",
            key=True,
        ),
    ] = None


def _good(text: str) -> r.StreamLimit:
    # Imported here: few loads have streams.
    from benchwright.features.load.criteria import parse_good

    return parse_good(text)


class GoodOptions(msgspec.Struct, frozen=True):
    """What a good stream is: the limits that it meets."""

    good: Annotated[
        tuple[str, ...],
        Option(
            "limit that each good stream meets, such as 'first < 500ms', 'gap < 100ms' or "
            "'tpot < 50ms'; repeatable",
            "LIMIT",
            _good,
            group="answers as events, language models",
            no_default="it is for answers that are read as events",
        ),
    ] = ()


def _limit(text: str) -> LoadLimit:
    # Imported here: few loads have limits.
    from benchwright.features.load.criteria import parse_limit

    return parse_limit(text)


class LimitOptions(msgspec.Struct, frozen=True):
    """The limits of a load, which decide its exit status."""

    limits: Annotated[
        tuple[str, ...],
        Option(
            "limit of the load: 'p99 < 20ms', 'errors < 0.1%', '95% within 2s', 40ms for the mean, "
            "'metric rate_per_s > 900'; 'p99 < 5ms of LABEL', 'read@TARGET p99 < 5ms' or "
            "'filament NAME p99 < 5ms' for some operations; repeatable",
            "LIMIT",
            _limit,
            flag="--limit",
            group="result",
            no_default="it decides the exit status of one load",
        ),
    ] = ()
    no_fail: Annotated[
        bool,
        Option(
            "exit with 0 also if a limit is missed or undecided: the verdicts are in the result",
            group="result",
        ),
    ] = False
    junit: Annotated[
        Text,
        Option(
            "write the verdicts on the limits, and how the load ended, as JUnit XML too",
            "FILE",
            group="result",
            names="file",
            no_default=REPLACES,
        ),
    ] = None


class HostOptions(msgspec.Struct, frozen=True):
    """The hosts that issue a load together."""

    hosts: Annotated[
        Text,
        Option(
            "issue the load from these hosts together, over ssh",
            "HOST,HOST",
            words.parse_hosts,
            "names",
            group="several hosts",
            no_default="it starts programs on other hosts",
        ),
    ] = None
    ssh_config: Annotated[
        Text,
        Option(
            "configuration file of ssh for --hosts",
            "FILE",
            str,
            "ssh_config",
            group="several hosts",
            names="file",
            default="your own",
            no_default="it is for --hosts",
        ),
    ] = None


class OutputOptions(msgspec.Struct, frozen=True):
    """How the result of a load is stored and printed."""

    samples: Annotated[
        Text, Option("write every operation as a row", "FILE", names="file", no_default=REPLACES)
    ] = None
    actions: Annotated[
        Text,
        Option(
            "write what each worker of the engine did, and when, as trace events (for Perfetto)",
            "FILE",
            names="file",
            no_default=REPLACES,
        ),
    ] = None
    plot: Plot = None
    json: Json = False
    quiet: Quiet = False
    verbose: Annotated[
        bool,
        Option(
            "print also clock, pacer and features, and each finding with its remedy", short="-v"
        ),
    ] = False
    study: Annotated[
        Text,
        Option(
            "run it as a trial of this study, which stores the result",
            "DIR",
            names="directory",
            no_default="it makes the load a trial of a session",
        ),
    ] = None
