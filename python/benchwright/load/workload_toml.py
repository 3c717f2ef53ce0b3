"""A workload's TOML file: `[run]`, `[target]` and `[[filament]]`, with every error reported
at once."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import msgspec

from benchwright.load import parse as targets
from benchwright.load import parse as words
from benchwright.load import request as r
from benchwright.load import workload as w
from benchwright.load.options import FLAGS, RUN, TARGET, TRACE_KEYS
from benchwright.load.request import NO_POSITIONS, InputPositions, filament_field
from benchwright.load.tables import (
    read_arrival,
    read_distribution,
    read_location,
    read_rate,
    read_region,
    type_named,
)
from benchwright.suite.program import Where
from benchwright.suite.toml_table import TomlTable, read_toml

# --------------------------------------------------------------------------------------
# `[[filament]]` of a workload's TOML: each type's keys, and what is made of them.
#
# Decision: one function for each type, in a table; what they share (where, how large, what
# kind) is `_access`. A filament with an error yields None, and the next one is read.

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


class WorkloadContext(msgspec.Struct, frozen=True):
    """What a filament's meaning depends on, beside its own table."""

    network: bool
    directory: str


ReadFilament = Callable[[TomlTable, WorkloadContext], Any]


def read_filament(table: TomlTable, around: WorkloadContext) -> Any:
    """Return a filament, or None; its errors are reported."""
    read = type_named(table, _READERS, "type of filament")
    return None if read is None else read(table, around)


def _made(make: Callable[..., Any], values: Mapping[str, Any], *optional: str) -> Any:
    """Return the filament, or None where a value is wrong."""
    if any(v is None for name, v in values.items() if name not in optional):
        return None
    return make(**values)


def _open(table: TomlTable, around: WorkloadContext) -> Any:
    table.only((*_COMMON, "arrival", "rate", "count", *_ACCESS))
    access = _access(table, around)
    arrival, rate = _arrivals(table)
    values: dict[str, Any] = {"arrival": arrival, "rate": rate, "access": access}
    values |= {"name": table.text("name"), "count": table.read("count", words.some)}
    return _made(w.Open, values, "name", "count")


def _arrivals(table: TomlTable) -> tuple[Any, Any]:
    """Return the arrival process and its rate; recorded gaps have a rate already."""
    arrival = (
        read_arrival(table, "arrival") if "arrival" in table else w.PoissonArrival()
    )
    if isinstance(arrival, w.RecordedArrival) and "rate" not in table:
        micro = len(arrival.gaps_ns) * 10**9 * w.MICRO // sum(arrival.gaps_ns)
        return arrival, w.ConstantRate(micro)
    return arrival, read_rate(table, "rate") if table.need("rate") else None


def _closed(table: TomlTable, around: WorkloadContext) -> Any:
    table.only((*_COMMON, "users", "think", *_ACCESS))
    access = _access(table, around)
    users = table.read("users", words.some) if table.need("users") else None
    values: dict[str, Any] = {"users": users, "think": _think(table), "access": access}
    return _made(w.Closed, {**values, "name": table.text("name")}, "name")


def _think(table: TomlTable, key: str = "think") -> Any:
    if key not in table:
        return w.ConstantValue(0)
    return read_distribution(table, key, words.duration_ns)


def _partly_open(table: TomlTable, around: WorkloadContext) -> Any:
    keys = ("arrival", "rate", "requests", "think")
    table.only((*_COMMON, *keys, *_ACCESS))
    access = _access(table, around)
    arrival, rate = _arrivals(table)
    requests = (
        read_distribution(table, "requests", words.some)
        if table.need("requests")
        else None
    )
    values: dict[str, Any] = {
        "arrival": arrival,
        "rate": rate,
        "requests": requests,
        "access": access,
    }
    values |= {"think": _think(table), "name": table.text("name")}
    return _made(w.PartlyOpen, values, "name")


def _follow(table: TomlTable, around: WorkloadContext) -> Any:
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


def _tpcb(table: TomlTable, around: WorkloadContext) -> Any:
    table.only((*_COMMON, "scale", "clients", "rate", "region"))
    _storage_only(table, around)
    scale = table.read("scale", words.some) if table.need("scale") else None
    clients = table.read("clients", words.some) if "clients" in table else 1
    rate = read_rate(table, "rate") if "rate" in table else None
    wrong = "rate" in table and rate is None
    values: dict[str, Any] = {
        "scale": None if wrong else scale,
        "clients": clients,
        "rate": rate,
    }
    values |= {"region": read_region(table), "name": table.text("name")}
    return _made(w.Tpcb, values, "name", "rate")


def _spc1(table: TomlTable, around: WorkloadContext) -> Any:
    table.only((*_COMMON, "bsus", "region"))
    _storage_only(table, around)
    bsus = table.read("bsus", words.some) if table.need("bsus") else None
    values: dict[str, Any] = {
        "bsus": bsus,
        "region": read_region(table),
        "name": table.text("name"),
    }
    return _made(w.Spc1, values, "name")


def _storage_only(table: TomlTable, around: WorkloadContext) -> None:
    if around.network:
        table.refuse(
            table.at("type"),
            f"{table.values['type']} reads and writes; the target is a server",
            "use open, closed or partly-open, or a file as the target",
        )


def _trace(table: TomlTable, around: WorkloadContext) -> Any:
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


def _python(table: TomlTable, around: WorkloadContext) -> Any:
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


_READERS: dict[str, ReadFilament] = {
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


def _access(table: TomlTable, around: WorkloadContext) -> w.Access | None:
    kinds = _kinds(table, around)
    size = _size(table, around)
    location = read_location(table, "location") if "location" in table else None
    align = table.read("align", words.some_bytes)
    if size is None or kinds is None or ("location" in table and location is None):
        return None
    return w.Access(
        kinds=kinds,
        size=size,
        location=location or w.UniformLocation(),
        region=read_region(table),
        align_bytes=align or default_align(size, network=around.network),
    )


def _size(table: TomlTable, around: WorkloadContext) -> w.Distribution | None:
    if "size" in table:
        return read_distribution(table, "size", words.operation_bytes)
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


def _kinds(table: TomlTable, around: WorkloadContext) -> Any:
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


def _kinds_table(table: TomlTable, around: WorkloadContext) -> Any:
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


# --------------------------------------------------------------------------------------
# A workload's TOML file: `[run]`, `[target]` and `[[filament]]`, all errors at
# once.
#
# Purpose: docs/workload-toml.md describes it. Decision: what the command line says wins
# over `[run]` and `[target]`, so that one file serves many targets; a filament is only said
# in the file. Non-goal: factors and repetitions, which a suite has.


class WorkloadFile(msgspec.Struct, frozen=True):
    """The contents of a workload's file."""

    filaments: tuple[w.FilamentPlan, ...]
    """A filament in Python is a trace without a path, until it has one."""
    python: tuple[PythonFilament, ...]
    target: r.LoadTarget | None
    run: dict[str, Any]
    """Fields of LoadRequest, `seed` and `max_errors_micro`; only what is set."""
    places: InputPositions = NO_POSITIONS


def read_workload(text: str, file: str, target: r.LoadTarget | None) -> WorkloadFile:
    """Return the contents of a file, for this target or its own. Raises InputError."""
    return read_toml(text, file, "workload", lambda top: _described(top, file, target))


def _described(top: TomlTable, file: str, target: r.LoadTarget | None) -> WorkloadFile:
    top.only(("run", "target", "filament"))
    target = _target(top, target)
    around = WorkloadContext(
        network=target is not None and targets.is_network(target),
        directory=str(Path(file).parent),
    )
    tables = top.tables("filament") if top.need("filament") else []
    read = [read_filament(table, around) for table in tables]
    _check_names(tables)
    python = tuple(f for f in read if isinstance(f, PythonFilament))
    return WorkloadFile(
        filaments=tuple(_positioned(f) for f in read if f is not None),
        python=python,
        target=target,
        run=_run(top),
        places=_positions(top, tables),
    )


def _positions(top: TomlTable, filaments: list[TomlTable]) -> dict[str, Where]:
    """Return the places of the fields of the request."""
    places = {}
    for place, table in enumerate(filaments):
        field = filament_field(place)
        places[field] = table.where
        places |= {f"{field}.{key}": table.at(key) for key in table.values}
    run = top.table("run")
    if run is not None:
        places |= {into: run.at(key) for key, (into, _) in RUN.items() if key in run}
    return places


def _positioned(filament: Any) -> w.FilamentPlan:
    if isinstance(filament, PythonFilament):
        return w.Trace(path="")
    return filament  # type: ignore[no-any-return]


def _check_names(tables: list[TomlTable]) -> None:
    """Report a name that is given twice, and a leader that does not exist."""
    names = [table.values.get("name") for table in tables]
    for place, table in enumerate(tables):
        name, leader = names[place], table.values.get("leader")
        if name is not None and name in names[:place]:
            table.refuse(table.at("name"), f"the name {name!r} is there twice")
        if isinstance(leader, str) and (leader not in names or leader == name):
            known = ", ".join(str(n) for n in names if n is not None and n != name)
            hint = f"named here: {known}" if known else "give another one a name"
            table.refuse(table.at("leader"), f"no other filament is {leader!r}", hint)


def _run(top: TomlTable) -> dict[str, Any]:
    table = top.table("run")
    if table is None:
        return {}
    table.only((*RUN, "lock_memory"))
    said = {into: table.read(key, parse) for key, (into, parse) in RUN.items()}
    if "lock_memory" in table:
        said["lock_memory"] = table.flag("lock_memory", True)
    return {name: value for name, value in said.items() if value is not None}


# -- target ----------------------------------------------------------------------------


def _target(top: TomlTable, target: r.LoadTarget | None) -> r.LoadTarget | None:
    """Return the target with the file's options; the command line's one comes first."""
    table = top.table("target")
    if table is None:
        return target
    named = table.read("to", targets.parse_target)
    # `--target null` beside a file asks for the engine alone, with any file.
    alone = isinstance(target, r.NullTarget)
    target = target or named
    said = _scalars(table) | _flags(table) | _lists(table)
    table.only(("to", *TARGET, *FLAGS, "paths", "headers", "stalls"))
    if target is None:
        if "to" not in table and said:
            table.refuse(table.where, "these options need a target")
        return None
    kind = targets.kind_of(target)
    known = targets.options_of(kind)
    for key, into in _keys_into().items():
        if key in table and into not in known and not alone:
            message = f"{key} is not an option of a {kind} target"
            table.refuse(table.at(key), message)
    return targets.with_options(target, {k: v for k, v in said.items() if k in known})


def _keys_into() -> dict[str, str]:
    names = (*FLAGS, "paths", "headers", "stalls")
    return {key: into for key, (into, _) in TARGET.items()} | {n: n for n in names}


def _scalars(table: TomlTable) -> dict[str, Any]:
    said = {into: table.read(key, parse) for key, (into, parse) in TARGET.items()}
    return {name: value for name, value in said.items() if value is not None}


def _flags(table: TomlTable) -> dict[str, Any]:
    return {key: table.flag(key, False) for key in FLAGS if key in table}


def _lists(table: TomlTable) -> dict[str, Any]:
    said: dict[str, Any] = {}
    if "paths" in table:
        said["paths"] = tuple(table.texts("paths"))
        if not all(path.startswith("/") for path in said["paths"]):
            table.refuse(table.at("paths"), "a path begins with /")
    headers = table.table("headers")
    if headers is not None:
        texts = {name: headers.text(name) for name in headers.values}
        said["headers"] = tuple((k, v) for k, v in texts.items() if v is not None)
    if "stalls" in table:
        said["stalls"] = tuple(_stall(one) for one in table.tables("stalls"))
    return said


def _stall(table: TomlTable) -> r.Stall:
    table.only(("at", "for"))
    table.need("at", "for")
    at = table.read("at", words.duration_ns)
    return r.Stall(at or 0, table.read("for", words.some_ns) or 0)
