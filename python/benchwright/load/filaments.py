"""`[[filament]]` of a workload's TOML: each type's keys, and what is made of them.

Decision: one function for each type, in a table; what they share (where, how large, what
kind) is `_access`. A filament with a mistake yields None, and the next one is read.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import msgspec

from benchwright.load import words
from benchwright.load import workload as w
from benchwright.load.reading import WorkloadTable

DEFAULT_BYTES = 4096
NETWORK_BYTES = 64
"""What a TCP echo is sent by default."""

_ACCESS = ("size", "read", "kinds", "location", "region", "align")
_COMMON = ("type", "name")


class PythonFilament(msgspec.Struct, frozen=True):
    """A filament that a class in Python makes ahead of time."""

    place: int
    """Which of the workload's filaments it is."""
    module: str
    """An importable name, or a file's name beside the workload."""
    name: str
    """Of the class."""
    arguments: dict[str, Any]
    directory: str
    where: str
    """`path:line:column`, for messages."""


class Surroundings(msgspec.Struct, frozen=True):
    """What a filament's meaning depends on, beside its own table."""

    network: bool
    directory: str


Read = Callable[[WorkloadTable, Surroundings], Any]


def read_filament(table: WorkloadTable, around: Surroundings) -> Any:
    """Return a filament, or None; its mistakes are reported."""
    read = table.named(_READERS, "type of filament")
    return None if read is None else read(table, around)


def _made(make: Callable[..., Any], values: Mapping[str, Any], *optional: str) -> Any:
    """Return the filament, or None where a value is wrong."""
    if any(v is None for name, v in values.items() if name not in optional):
        return None
    return make(**values)


def _open(table: WorkloadTable, around: Surroundings) -> Any:
    table.only((*_COMMON, "arrival", "rate", "count", *_ACCESS))
    access = _access(table, around)
    arrival, rate = _arrivals(table)
    values: dict[str, Any] = {"arrival": arrival, "rate": rate, "access": access}
    values |= {"name": table.text("name"), "count": table.read("count", words.some)}
    return _made(w.Open, values, "name", "count")


def _arrivals(table: WorkloadTable) -> tuple[Any, Any]:
    """Return the arrival process and its rate; recorded gaps have a rate already."""
    arrival = table.arrival("arrival") if "arrival" in table else w.PoissonArrival()
    if isinstance(arrival, w.RecordedArrival) and "rate" not in table:
        micro = len(arrival.gaps_ns) * 10**9 * w.MICRO // sum(arrival.gaps_ns)
        return arrival, w.ConstantRate(micro)
    return arrival, table.rate("rate") if table.need("rate") else None


def _closed(table: WorkloadTable, around: Surroundings) -> Any:
    table.only((*_COMMON, "users", "think", *_ACCESS))
    access = _access(table, around)
    users = table.read("users", words.some) if table.need("users") else None
    values: dict[str, Any] = {"users": users, "think": _think(table), "access": access}
    return _made(w.Closed, {**values, "name": table.text("name")}, "name")


def _think(table: WorkloadTable, key: str = "think") -> Any:
    if key not in table:
        return w.ConstantValue(0)
    return table.distribution(key, words.duration_ns)


def _partly_open(table: WorkloadTable, around: Surroundings) -> Any:
    keys = ("arrival", "rate", "requests", "think")
    table.only((*_COMMON, *keys, *_ACCESS))
    access = _access(table, around)
    arrival, rate = _arrivals(table)
    requests = (
        table.distribution("requests", words.some) if table.need("requests") else None
    )
    values: dict[str, Any] = {
        "arrival": arrival,
        "rate": rate,
        "requests": requests,
        "access": access,
    }
    values |= {"think": _think(table), "name": table.text("name")}
    return _made(w.PartlyOpen, values, "name")


def _follow(table: WorkloadTable, around: Surroundings) -> Any:
    table.only((*_COMMON, "leader", "every", "delay", *_ACCESS))
    access = _access(table, around)
    leader = table.text("leader") if table.need("leader") else None
    every = table.read("every", words.some) if "every" in table else 1
    values: dict[str, Any] = {
        "leader": leader,
        "every": every,
        "delay": _think(table, "delay"),
    }
    values |= {"access": access, "name": table.text("name")}
    return _made(w.Follow, values, "name")


def _tpcb(table: WorkloadTable, around: Surroundings) -> Any:
    table.only((*_COMMON, "scale", "clients", "rate", "region"))
    _storage_only(table, around)
    scale = table.read("scale", words.some) if table.need("scale") else None
    clients = table.read("clients", words.some) if "clients" in table else 1
    rate = table.rate("rate") if "rate" in table else None
    wrong = "rate" in table and rate is None
    values: dict[str, Any] = {
        "scale": None if wrong else scale,
        "clients": clients,
        "rate": rate,
    }
    values |= {"region": table.region(), "name": table.text("name")}
    return _made(w.Tpcb, values, "name", "rate")


def _spc1(table: WorkloadTable, around: Surroundings) -> Any:
    table.only((*_COMMON, "bsus", "region"))
    _storage_only(table, around)
    bsus = table.read("bsus", words.some) if table.need("bsus") else None
    values: dict[str, Any] = {
        "bsus": bsus,
        "region": table.region(),
        "name": table.text("name"),
    }
    return _made(w.Spc1, values, "name")


def _storage_only(table: WorkloadTable, around: Surroundings) -> None:
    if around.network:
        table.refuse(
            table.at("type"),
            f"{table.values['type']} reads and writes; the target is a server",
            "use open, closed or partly-open, or a file as the target",
        )


def _trace(table: WorkloadTable, around: Surroundings) -> Any:
    table.only((*_COMMON, "path", "lenient", "devices", *TRACE_KEYS))
    paths = table.texts("path") if table.need("path") else []
    values = {into: table.read(key, parse) for key, (into, parse) in TRACE_KEYS.items()}
    given = {into: value for into, value in values.items() if value is not None}
    if "devices" in table:
        given["devices"] = tuple(table.texts("devices"))
    if not paths:
        return None
    found = tuple(str(Path(around.directory, path)) for path in paths)
    return w.Trace(
        name=table.text("name"),
        path=found[0] if len(found) == 1 else found,
        lenient=table.flag("lenient", False),
        **given,
    )


def parse_speed(text: str) -> int:
    """Return a speed such as `4x` or `0.5` in millionths."""
    return words.number_micro(text.strip().removesuffix("x"))


def _choice(what: str, *choices: str) -> words.Parse:
    return lambda text: words.one_of(text, choices, what)


TRACE_KEYS: dict[str, tuple[str, words.Parse]] = {
    "format": ("format", _choice("format", *w.FORMATS)),
    "speed": ("speed_micro", parse_speed),
    "offsets": ("offsets", _choice("policy", "wrap", "scale", "exact")),
    "duplicates": ("duplicates", _choice("policy", "burst", "spread")),
    "window": ("window_ns", words.duration_ns),
    "window_rows": ("window_rows", words.some),
    "from": ("from_ns", words.duration_ns),
    "for": ("for_ns", words.some_ns),
    "source_size": ("source_bytes", words.some_bytes),
    "align": ("align_bytes", words.some_bytes),
    "v2_wait": ("v2_wait", _choice("unit", "us", "ms")),
    "arrivals": ("arrivals", _choice("event", "queue", "issue")),
    "stamp_unit": ("stamp_unit_ns", words.some_ns),
}
"""Keys of a trace that are scalars, and options of `bw replay`: the engine's field, and how
it is read."""


def _python(table: WorkloadTable, around: Surroundings) -> Any:
    table.only((*_COMMON, "class", "arguments"))
    spec = table.text("class") if table.need("class") else None
    arguments = table.table("arguments")
    if spec is None:
        return None
    module, colon, name = spec.rpartition(":")
    if not colon or not module or not name.isidentifier():
        message = f"{spec!r} names no class"
        table.refuse(table.at("class"), message, 'write class = "module:Name"')
        return None
    place = table.at("class")
    return PythonFilament(
        place=int(table.path[-1]),
        module=module,
        name=name,
        arguments=dict(arguments.values) if arguments else {},
        directory=around.directory,
        where=f"{place.file}:{place.line}:{place.column}",
    )


_READERS: dict[str, Read] = {
    "open": _open,
    "closed": _closed,
    "partly-open": _partly_open,
    "follow": _follow,
    "tpcb": _tpcb,
    "spc1": _spc1,
    "trace": _trace,
    "python": _python,
}


# -- access ----------------------------------------------------------------------------


def _access(table: WorkloadTable, around: Surroundings) -> w.Access | None:
    kinds = _kinds(table, around)
    size = _size(table, around)
    location = table.location("location") if "location" in table else None
    align = table.read("align", words.some_bytes)
    if size is None or kinds is None or ("location" in table and location is None):
        return None
    return w.Access(
        kinds=kinds,
        size=size,
        location=location or w.UniformLocation(),
        region=table.region(),
        align_bytes=align or default_align(size, network=around.network),
    )


def _size(table: WorkloadTable, around: Surroundings) -> w.Distribution | None:
    if "size" in table:
        return table.distribution("size", words.operation_bytes)
    return w.ConstantValue(NETWORK_BYTES if around.network else DEFAULT_BYTES)


def default_align(size: w.Distribution, *, network: bool) -> int:
    """Return what offsets are multiples of: 4 KiB, or what the smallest size allows."""
    if network:
        return 1
    match size:
        case w.ConstantValue(value):
            sizes = [value]
        case w.UniformValue(low, high):
            sizes = [low, high]
        case w.Weighted(values):
            sizes = [value for value, _ in values]
        case _:
            sizes = [DEFAULT_BYTES]
    common = math.gcd(*sizes, DEFAULT_BYTES)
    return common if common >= 512 else 1


def _kinds(table: WorkloadTable, around: Surroundings) -> Any:
    if "kinds" in table:
        return _kinds_table(table, around)
    if around.network:
        if "read" in table:
            message = "a server is not read from: its operations are exchanges"
            table.refuse(table.at("read"), message, "leave out read")
            return None
        return (("exchange", 1),)
    if "read" not in table:
        return (("read", 1),)
    share = table.read("read", words.share_micro)
    return None if share is None else reduced(words.parse_kinds(share))


def _kinds_table(table: WorkloadTable, around: Surroundings) -> Any:
    inner = table.table("kinds")
    if inner is None:
        return None
    if "read" in table:
        table.refuse(table.at("read"), "read and kinds say the same", "leave one out")
    known = ("exchange",) if around.network else w.KINDS[:-1]
    inner.only(known)
    weights = {kind: inner.read(kind, _weight) for kind in known if kind in inner}
    if None in weights.values():
        return None
    if not any(weights.values()):
        if len(weights) == len(inner.values):  # else a wrong kind has been told
            table.refuse(table.at("kinds"), "no kind has a weight above 0")
        return None
    return reduced(tuple((k, v) for k, v in weights.items() if v))


def _weight(text: str) -> int:
    """Return a weight: a share, or a number, in millionths."""
    if text.strip().endswith("%"):
        return words.share_micro(text)
    return 0 if text.strip() in ("0", "0.0") else words.number_micro(text)


def reduced(kinds: tuple[tuple[str, int], ...]) -> tuple[tuple[str, int], ...]:
    """Return weights without their common divisor."""
    common = math.gcd(*(weight for _, weight in kinds))
    return tuple((kind, int(Fraction(weight, common))) for kind, weight in kinds)
