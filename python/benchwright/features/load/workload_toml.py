"""A workload's TOML file: `[run]`, `[target]`, `[[filament]]`, `[[request]]` and `[values]`; all
errors are reported at once."""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from benchwright.features.load import parse as targets
from benchwright.features.load import parse as words
from benchwright.features.load import request as r
from benchwright.features.load import workload as w
from benchwright.features.load.file_set import FileSetPlan
from benchwright.features.load.file_toml import (
    FILES,
    chain_keys,
    check_files_filament,
    files_filament,
)
from benchwright.features.load.options import LoadOptions, TraceOptions
from benchwright.features.load.request import NO_POSITIONS, InputPositions, filament_field
from benchwright.features.load.requests_toml import (
    HAVE_REQUESTS,
    RequestTable,
    fits,
    read_requests,
    request_positions,
    why_no_requests,
)
from benchwright.features.load.tables import (
    REGION,
    TARGET,
    read_arrival,
    read_distribution,
    read_location,
    read_rate,
    read_typed,
    with_table,
)
from benchwright.inputs.form import Form, keys_of, needed, nested, of_type, optional, read_values
from benchwright.inputs.mistakes import Where
from benchwright.inputs.options import Option, Reader
from benchwright.inputs.toml_table import TomlTable, one_of_words, read_toml

if TYPE_CHECKING:
    from benchwright.features.load.criteria import LoadLimit

# --------------------------------------------------------------------------------------
# `[[filament]]` of a workload's TOML: the keys of each type, and the filament made from them.
#
# Decision: each type is a form; keys that several types share (place, size, kind) are
# combined into an `Access`. A filament with an error yields None, and the next one is
# still read.

DEFAULT_BYTES = 4096
NETWORK_BYTES = 64
"""Default size of a TCP echo's message."""


class PythonFilament(msgspec.Struct, frozen=True):
    """A filament whose operations a Python class generates ahead of time."""

    place: int
    """Index among the workload's filaments."""
    module: str
    """An importable name, or the name of a file beside the workload."""
    name: str
    """Name of the class."""
    arguments: dict[str, Any] = {}
    directory: str = ""
    where: str = ""
    """Position `path:line:column`, for messages."""


class WorkloadContext(msgspec.Struct, frozen=True):
    """The context of a filament, in addition to its own table."""

    network: bool
    directory: str
    file_size: w.Distribution | None = None
    """Of the files of the file set; None: there is none."""
    location: w.Location | None = None
    """Of operations without a location: by the weights of the requests; None: uniform."""


def read_filament(table: TomlTable, around: WorkloadContext) -> Any:
    """Return a filament; None if errors were reported."""
    forms = filament_forms(around)
    kind = table.values.get("type")
    if isinstance(kind, str) and kind in forms:
        _check_filament(table, around)
    return read_typed(table, forms, "type of filament", also=("target",))


def filament_forms(around: WorkloadContext) -> dict[str, Form]:
    """Return the form of each type of filament: its keys, and how it is made."""
    network = around.network
    name = optional("name", read=of_type(str))
    arrivals = (optional("arrival", read=read_arrival), optional("rate", read=read_rate))
    delay = read_distribution(words.duration_ns)
    think = optional("think", read=delay)
    access = access_keys(network=network)
    accessing = partial(_accessing, network=network, location=around.location)
    # Its delay can be a table.
    trace = tuple(key for key in keys_of(TraceOptions) if key.key != "delay")
    closed = partial(w.Closed, think=w.ConstantValue(0))
    sessions = partial(w.PartlyOpen, think=w.ConstantValue(0))
    follow = partial(w.Follow, every=1, delay=w.ConstantValue(0))
    requests = needed("requests", read=read_distribution(words.some))
    return {
        "open": Form(
            (name, *arrivals, optional("count", words.some), *access), _arriving(accessing(w.Open))
        ),
        "closed": Form((name, needed("users", words.some), think, *access), accessing(closed)),
        "partly-open": Form(
            (name, *arrivals, requests, think, *access), _arriving(accessing(sessions))
        ),
        "follow": Form(
            (
                name,
                needed("leader", read=of_type(str)),
                optional("every", words.some),
                optional("delay", read=delay),
                *access,
            ),
            accessing(follow),
        ),
        "tpcb": Form(
            (
                name,
                needed("scale", words.some),
                optional("clients", words.some),
                optional("rate", read=read_rate),
                REGION,
            ),
            partial(w.Tpcb, clients=1),
        ),
        "files": Form((name, *chain_keys()), files_filament(around.file_size)),
        "spc1": Form((name, needed("bsus", words.some), REGION), w.Spc1),
        "trace": Form(
            (
                name,
                needed("path", read=_paths_in(around.directory)),
                optional("devices", read=_devices),
                optional("delay", read=delay),
                *trace,
            ),
            w.Trace,
        ),
        "process": Form(
            (name, needed("command", read=_words)), partial(w.Process, directory=around.directory)
        ),
        "python": Form(
            (
                name,
                needed("class", read=_class_in(around.directory), field="made"),
                optional("arguments", read=_arguments),
            ),
            _python,
        ),
    }


def _check_filament(table: TomlTable, around: WorkloadContext) -> None:
    """Report keys that contradict each other or the target."""
    kind, arrival = table.values["type"], table.values.get("arrival")
    if kind in ("tpcb", "spc1") and around.network:
        table.refuse(
            table.at("type"),
            f"{kind} reads and writes; the target is a server",
            "use open, closed or partly-open, or a file as the target",
        )
    if kind == "files":
        check_files_filament(table)
    if around.location is not None and "location" in table:
        message = "the weights of the requests say which one an operation has"
        table.refuse(table.at("location"), message, "leave out location, or the weights")
    # Recorded gaps already determine a rate.
    recorded = isinstance(arrival, dict) and arrival.get("type") == "recorded"
    if kind in ("open", "partly-open") and not recorded:
        table.need("rate")
    if "read" in table and "kinds" in table:
        table.refuse(table.at("read"), "read and kinds say the same", "leave one out")
    elif "read" in table and around.network:
        message = "a server is not read from: its operations are exchanges"
        table.refuse(table.at("read"), message, "leave out read")


def _arriving(make: Callable[..., Any]) -> Callable[..., Any]:
    """Return `make` with a default arrival process, and with the rate of recorded gaps."""

    def made(arrival: w.Arrival | None = None, rate: w.Rate | None = None, **said: Any) -> Any:
        if rate is None and isinstance(arrival, w.RecordedArrival):
            micro = len(arrival.gaps_ns) * 10**9 * w.MICRO // sum(arrival.gaps_ns)
            rate = w.ConstantRate(micro)
        return make(arrival=arrival or w.PoissonArrival(), rate=rate, **said)

    return made


def _accessing(
    make: Callable[..., Any], *, network: bool, location: w.Location | None
) -> Callable[..., Any]:
    """Return `make` with the keys of an access combined into one argument; `location`: the default."""
    names = ("size", "read", "kinds", "location", "region", "align_bytes")

    def made(**said: Any) -> Any:
        access: dict[str, Any] = {"location": location}
        access |= {name: said.pop(name) for name in names if name in said}
        return make(access=access_of(network=network, **access), **said)

    return made


def _devices(table: TomlTable, key: str) -> tuple[str, ...] | None:
    """Return names of devices, or those of a table of devices with their targets."""
    if isinstance(table.values[key], dict):
        return tuple(table.values[key]) or None
    read: tuple[str, ...] | None = of_type(tuple[str, ...])(table, key)
    return read


def _paths_in(directory: str) -> Reader:
    def read(table: TomlTable, key: str) -> str | tuple[str, ...] | None:
        found = tuple(str(Path(directory, path)) for path in table.texts(key))
        if table.values[key] == []:
            table.refuse(table.at(key), f"{key} is empty")
        return found[0] if len(found) == 1 else found or None

    return read


def _class_in(directory: str) -> Reader:
    def read(table: TomlTable, key: str) -> PythonFilament | None:
        spec = table.text(key)
        if spec is None:
            return None
        module, colon, name = spec.rpartition(":")
        if not colon or not module or not name.isidentifier():
            message = f"{spec!r} does not name a class"
            table.refuse(table.at(key), message, 'write class = "module:Name"')
            return None
        place = table.at(key)
        return PythonFilament(
            place=int(table.path[-1]),
            module=module,
            name=name,
            directory=directory,
            where=f"{place.file}:{place.line}:{place.column}",
        )

    return read


def _words(table: TomlTable, key: str) -> tuple[str, ...] | None:
    """Return the words of a command: a text that is split, or an array."""
    value = table.values[key]
    words = table.texts(key)
    if isinstance(value, str):
        try:
            words = shlex.split(value)
        except ValueError as error:
            table.refuse(table.at(key), f"{key}: {error}")
            return None
    return tuple(words) or None


def _arguments(table: TomlTable, key: str) -> dict[str, Any] | None:
    inner = table.table(key)
    return None if inner is None else dict(inner.values)


def _python(
    made: PythonFilament, arguments: Mapping[str, Any] | None = None, **_name: str
) -> PythonFilament:
    return msgspec.structs.replace(made, arguments=arguments or {})


# -- access ----------------------------------------------------------------------------


def access_keys(*, network: bool) -> tuple[Option, ...]:
    """Return the keys of an access, for filaments that generate their operations."""
    return (
        optional(
            "size",
            read=read_distribution(words.operation_bytes),
            help="distribution of sizes",
            default="4k; 64 B to a server",
        ),
        optional(
            "read",
            words.share_micro,
            help="share of reads; the others are writes. Not for a server: its operations "
            "are exchanges",
            default="100%",
        ),
        optional(
            "kinds",
            read=_kinds_of(network),
            help="instead of `read`: `{read = 70, write = 29, flush = 1}`; also `discard`",
        ),
        optional(
            "location",
            read=read_location,
            help="location in the target; for HTTP: which of the paths or requests",
            default="uniform",
        ),
        REGION,
        optional(
            "align",
            words.some_bytes,
            field="align_bytes",
            help="offsets are multiples of this size",
            default="4k, or what the sizes allow",
        ),
    )


def access_of(
    *,
    network: bool,
    size: w.Distribution | None = None,
    read: int | None = None,
    kinds: tuple[tuple[str, int], ...] | None = None,
    location: w.Location | None = None,
    region: w.Region | None = None,
    align_bytes: int | None = None,
) -> w.Access:
    """Return the access of operations; `read` is the share of reads [millionths]."""
    size = size or w.ConstantValue(NETWORK_BYTES if network else DEFAULT_BYTES)
    shares = words.parse_kinds(w.MICRO if read is None else read)
    return w.Access(
        kinds=kinds or ((("exchange", 1),) if network else _reduced(shares)),
        size=size,
        location=location or w.UniformLocation(),
        region=region or w.Region(),
        align_bytes=align_bytes or _default_align(size, network=network),
    )


def _default_align(size: w.Distribution, *, network: bool) -> int:
    """Return the alignment of offsets: the sizes' common divisor up to 4 KiB; 1 if below 512."""
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


def _kinds_of(network: bool) -> Reader:
    """Return the reader of the weights of the kinds of operation."""
    known = ("exchange",) if network else w.KINDS[:-1]

    def read(table: TomlTable, key: str) -> tuple[tuple[str, int], ...] | None:
        inner = table.table(key)
        if inner is None:
            return None
        inner.only(known)
        weights = {kind: inner.read(kind, _weight) for kind in known if kind in inner}
        if None in weights.values():
            return None
        if not any(weights.values()):
            if len(weights) == len(inner.values):  # else a wrong kind is reported
                table.refuse(table.at(key), "no kind has a weight above 0")
            return None
        return _reduced(tuple((k, v) for k, v in weights.items() if v))

    return read


def _weight(text: str) -> int:
    """Return a weight in millionths: a share, or a number."""
    if text.strip().endswith("%"):
        return words.share_micro(text)
    return 0 if text.strip() in ("0", "0.0") else words.number_micro(text)


def _reduced(kinds: tuple[tuple[str, int], ...]) -> tuple[tuple[str, int], ...]:
    """Return weights divided by their greatest common divisor."""
    common = math.gcd(*(weight for _, weight in kinds))
    return tuple((kind, int(Fraction(weight, common))) for kind, weight in kinds)


# --------------------------------------------------------------------------------------
# A workload's TOML file: `[run]`, `[target]` and `[[filament]]`; all errors are reported at
# once.
#
# Purpose: implements docs/workload-toml.md. Decision: the command line takes precedence
# over `[run]` and `[target]`, so that one file serves many targets; filaments are described
# only in the file. Non-goal: factors and repetitions, which a suite has.


class WorkloadFile(msgspec.Struct, frozen=True):
    """The contents of a workload's file."""

    filaments: tuple[w.FilamentPlan, ...]
    """A Python filament is a trace without a path until the path is known."""
    python: tuple[PythonFilament, ...]
    target: r.LoadTarget | None
    run: dict[str, Any]
    """Fields of LoadRequest, `seed` and `max_errors_micro`; only what is set."""
    places: InputPositions = NO_POSITIONS
    files: FileSetPlan | None = None
    requests: RequestTable | None = None
    """Of HTTP, WebSocket, Redis and PostgreSQL targets."""


def read_workload(
    text: str, file: str, target: r.LoadTarget | None, beside: dict[str, str] | None = None
) -> WorkloadFile:
    """Return the contents of a file, for this target or its own. Raises InputError.

    `beside`: contents of files that the text names, which are then not read from the disk; those
    that are read are added.
    """

    def described(top: TomlTable) -> WorkloadFile:
        workload_file = _described(top, file, target)
        if beside is not None:
            beside.update(top.files)
        return workload_file

    return read_toml(text, file, "workload", described, (beside or {}).items())


def _described(top: TomlTable, file: str, target: r.LoadTarget | None) -> WorkloadFile:
    top.only(("run", "target", "files", "filament", "request", "values"))
    several = None
    if isinstance(top.values.get("target"), list):
        several = _several(top, target)
    else:
        target = _target(top, target)
    alone = () if target is None else tuple(targets.each_of(target))
    on = alone if several is None else tuple(several.values())
    requests = read_requests(top, on)
    _check_target(top, target, several, requests)
    top.need("filament")
    described = read_filaments(top, file, target, several, requests)
    if several is not None and not isinstance(target, r.NullTarget):
        target = described.target
    places = {**described.places, **request_positions(top, requests)}
    return msgspec.structs.replace(
        described, target=target, run=_run(top), requests=requests, places=places
    )


def _check_target(
    top: TomlTable,
    target: r.LoadTarget | None,
    several: Mapping[str, r.OneTarget] | None,
    requests: RequestTable | None,
) -> None:
    """Report targets that have no use for requests."""
    if "request" not in top:
        return
    if several is not None:
        _check_requests_of_several(top, several, requests)
        return
    for table in top.tables("request"):
        if "target" in table:
            _refuse_no_targets(table, "target")
    own = () if requests is None else requests.requests
    if target is not None and (why := why_no_requests(target, own)):
        top.refuse(top.at("request"), why, _SERVER_HINT)


_SERVER_HINT = (
    "name http://HOST:PORT/, ws://HOST:PORT/, grpc://HOST:PORT, redis://HOST or "
    "postgres://USER@HOST/DB"
)


def _check_requests_of_several(
    top: TomlTable, several: Mapping[str, r.OneTarget], requests: RequestTable | None
) -> None:
    """Report requests of which no target makes use, and targets with paths of their own."""
    for table in top.tables("request"):
        named = table.values.get("target")
        if not isinstance(named, str):
            continue
        if named not in several:
            _refuse_no_target(table, table.at("target"), named, several)
        elif not isinstance(several[named], HAVE_REQUESTS):
            why = why_no_requests(several[named])
            message = f"{named}: {why or 'the null target needs no requests'}"
            table.refuse(table.at("target"), message, _SERVER_HINT)
    if requests is None:
        return
    for place, one in enumerate(requests.requests):
        named = requests.targets[place]
        if named is None and not any(fits(one, on) for on in several.values()):
            where = top.tables("request")[place].where
            message = "none of the targets is of the kind of this request"
            top.refuse(where, message, _SERVER_HINT)
        on = several.get(named or "")
        if isinstance(on, HAVE_REQUESTS) and not fits(one, on):
            why = why_no_requests(on, (one,))
            top.refuse(top.tables("request")[place].where, f"target {named}: {why}")
    for name, on in several.items():
        if requests.of(name, on).requests and (why := why_no_requests(on)):
            hint = "leave them out, or name another target in each [[request]]"
            top.refuse(top.at("request"), f"target {name}: {why}", hint)


def _refuse_no_targets(table: TomlTable, key: str) -> None:
    """Report a key that names one of several targets where there is one."""
    table.refuse(
        table.at(key),
        f"{key} names a target, and the workload has no [[target]]",
        'describe each target: [[target]] with name = "a", to = "..."',
    )


def _refuse_no_target(
    table: TomlTable, where: Where, name: str, several: Mapping[str, r.OneTarget]
) -> None:
    hint = one_of_words(name, several)
    table.refuse(where, f"there is no target {name!r}", hint)


def read_filaments(
    top: TomlTable,
    file: str,
    target: r.LoadTarget | None,
    several: Mapping[str, r.OneTarget] | None = None,
    requests: RequestTable | None = None,
) -> WorkloadFile:
    """Return the filaments and the file set of a workload or a spec.

    `several`: the targets by name, of which each filament uses one; None: there is one target.
    """
    files: FileSetPlan | None = None
    if "files" in top:
        files = nested(FILES)(top, "files")
    tables = top.tables("filament")
    used = [_targets_of(table, several) for table in tables]
    draws = (type(None), *HAVE_REQUESTS)

    def around(place: int) -> WorkloadContext:
        on, own = target, requests
        if several is not None and used[place]:
            on = several[used[place][0]]
            own = requests and requests.of(used[place][0], on)
        # A spec names the server of a workload with requests later.
        network = "request" in top if on is None else targets.is_network(on)
        return WorkloadContext(
            network=network,
            # Without a target, it is named later.
            location=own.location if own and isinstance(on, draws) else None,
            directory=str(Path(file).parent),
            file_size=None if files is None else files.tables.file_size,
        )

    on_files = [table.values.get("type") == "files" for table in tables]
    # If the file set is wrong, that there is none need not be reported too.
    quiet = files is None and "files" in top
    read = [
        read_filament(table.silent() if quiet and needs else table, around(place))
        for place, (table, needs) in enumerate(zip(tables, on_files, strict=True))
    ]
    _check_names(tables)
    if "files" in top and not any(on_files):
        message = "[files] has no effect without a filament of type files"
        top.refuse(top.at("files"), message)
    places = _positions(top, tables)
    filaments = [None if one is None else _positioned(one) for one in read]
    named = None
    if several is not None and top.is_sound:
        named = _named_targets(several, used, filaments, tables, places)
    return WorkloadFile(
        filaments=tuple(filament for filament in filaments if filament is not None),
        python=tuple(one for one in read if isinstance(one, PythonFilament)),
        target=named or target,
        run={},
        places=places,
        files=files,
    )


def _named_targets(
    several: Mapping[str, r.OneTarget],
    used: list[tuple[str, ...]],
    filaments: list[Any],
    tables: list[TomlTable],
    places: dict[str, Where],
) -> r.SeveralTarget:
    """Return the targets with their filaments.

    A trace whose devices go to several targets becomes one filament for each target: the first in
    its place, the others at the end of `filaments`, with their positions in `places`.
    """
    of_target: dict[str, list[int]] = {name: [] for name in several}
    for place, names in enumerate(used):
        of_target[names[0]].append(place)
        devices = tables[place].values.get("devices")
        if not isinstance(devices, dict):
            continue
        trace = filaments[place]
        for number, name in enumerate(names):
            own = tuple(one for one, of in devices.items() if of == name)
            title = None if trace.name is None else f"{trace.name} on {name}"
            part = msgspec.structs.replace(trace, devices=own, name=title)
            if number == 0:
                filaments[place] = part
                continue
            of_target[name].append(len(filaments))
            places[filament_field(len(filaments))] = tables[place].where
            filaments.append(part)
    return r.SeveralTarget(
        tuple(
            r.NamedTarget(name, tuple(sorted(of_target[name])), several[name]) for name in several
        )
    )


def _targets_of(table: TomlTable, several: Mapping[str, r.OneTarget] | None) -> tuple[str, ...]:
    """Return the names of the targets that a filament uses, the first one first; empty where there
    is one target, or after a mistake was reported."""
    devices = table.values.get("devices")
    by_device = isinstance(devices, dict)
    if several is None:
        if "target" in table or by_device:
            _refuse_no_targets(table, "target" if "target" in table else "devices")
        return ()
    if by_device:
        if "target" in table:
            table.refuse(table.at("target"), "devices names the targets already", "leave one out")
        inner = table.table("devices")
        assert inner is not None, "it is a table"
        names = [inner.text(device) for device in inner.values]
        at = [inner.at(device) for device in inner.values]
    else:
        names, at = [table.text("target")], [table.at("target")]
        if "target" not in table:
            table.need("target", hint=f"one of {', '.join(several)}")
            return ()
    for name, where in zip(names, at, strict=True):
        if name is not None and name not in several:
            _refuse_no_target(table, where, name, several)
    known = tuple(dict.fromkeys(name for name in names if name in several))
    return tuple(one for one in known if one is not None)


def _positions(top: TomlTable, filaments: list[TomlTable]) -> dict[str, Where]:
    """Return the positions of the request's fields."""
    places = {}
    for place, table in enumerate(filaments):
        field = filament_field(place)
        places[field] = table.where
        places |= {f"{field}.{key}": table.at(key) for key in table.values}
    if "files" in top:
        places["workload.file_set"] = top.at("files")
    run = top.table("run") if isinstance(top.values.get("run"), dict) else None
    if run is not None:
        places |= {field: run.at(key) for key, field in RUN.fields.items() if key in run}
    return places


def _positioned(filament: Any) -> w.FilamentPlan:
    if isinstance(filament, PythonFilament):
        return w.Trace(path="")
    return filament  # type: ignore[no-any-return]


def _check_names(tables: list[TomlTable]) -> None:
    """Report duplicate names, and leaders that do not exist."""
    names = [table.values.get("name") for table in tables]
    numbers = [str(place) for place, name in enumerate(names, start=1) if name is None]
    for place, table in enumerate(tables):
        name, leader = names[place], table.values.get("leader")
        if name is not None and name in names[:place]:
            table.refuse(table.at("name"), f"the name {name!r} is used twice")
        if name in numbers:
            message = f"{name!r} is the number of a filament without a name"
            table.refuse(table.at("name"), message, "give that one a name too")
        if isinstance(leader, str) and (leader not in names or leader == name):
            known = ", ".join(str(n) for n in names if n is not None and n != name)
            hint = f"named here: {known}" if known else "give another one a name"
            table.refuse(table.at("leader"), f"there is no other filament {leader!r}", hint)


def _run(top: TomlTable) -> dict[str, Any]:
    table = top.table("run")
    if table is None:
        return {}
    table.only(RUN.names)
    return read_values(table, RUN.keys)


def _limits(table: TomlTable, key: str) -> tuple[LoadLimit, ...]:
    """Return the limits of a text or an array."""
    # Imported here: few loads have limits.
    from benchwright.features.load.criteria import check_limits, parse_limit

    single = isinstance(table.values[key], str)
    limits: list[LoadLimit] = []
    for place, text in enumerate(table.texts(key)):
        where = table.at(key) if single else table.at(key, place)
        try:
            limit = parse_limit(text)
            check_limits([*limits, limit])
            limits.append(limit)
        except ValueError as error:
            table.refuse(where, f"{key}: {error}")
    return tuple(limits)


def _good(table: TomlTable, key: str) -> tuple[r.StreamLimit, ...]:
    """Return the limits of a good stream, from a text or an array."""
    # Imported here: few loads have streams.
    from benchwright.features.load.criteria import parse_good

    single = isinstance(table.values[key], str)
    limits: list[r.StreamLimit] = []
    for place, text in enumerate(table.texts(key)):
        try:
            limits.append(parse_good(text))
        except ValueError as error:
            table.refuse(table.at(key) if single else table.at(key, place), f"{key}: {error}")
    return tuple(limits)


RUN = Form(
    (
        *keys_of(LoadOptions),
        optional("limit", read=_limits, field="limits"),
        optional("good", read=_good),
        optional("lock_memory", read=of_type(bool)),
        optional("interval_histograms", read=of_type(bool)),
    )
)
"""The keys of `[run]`; each sets a field of the request or the plan."""


# -- target ----------------------------------------------------------------------------


def _several(top: TomlTable, target: r.LoadTarget | None) -> dict[str, r.OneTarget] | None:
    """Return the targets of `[[target]]` by name; None if a null target replaces them all."""
    found: dict[str, r.OneTarget] = {}
    for table in top.tables("target"):
        table.only(("name", "to", *TARGET.names))
        table.need("name")
        table.need("to")
        name, one = table.text("name"), table.read("to", targets.parse_target)
        if name is not None and name in found:
            table.refuse(table.at("name"), f"the name {name!r} is used twice")
        if one is None or name is None:
            continue
        if targets.has_files(one):
            message = f"a {targets.kind_of(one)} target is the only one of its load"
            table.refuse(table.at("to"), message, "use [target] for it")
        found[name] = with_table(table, one)
    if target is not None and not isinstance(target, r.NullTarget):
        message = "--target would replace all targets of the workload"
        hint = "leave out --target; --target null tests the engine alone"
        where = top.at("target")
        top.refuse(where, message, hint)
    return found


def _target(top: TomlTable, target: r.LoadTarget | None) -> r.LoadTarget | None:
    """Return the target with the file's options; a target of the command line has precedence."""
    table = top.table("target")
    if table is None:
        return target
    named = table.read("to", targets.parse_target)
    # `--target null` with a file tests the engine alone, with any file.
    alone = isinstance(target, r.NullTarget)
    target = target or named
    table.only(("to", *TARGET.names))
    if target is not None:
        return with_table(table, target, checked=not alone)
    if read_values(table, TARGET.keys) and "to" not in table:
        table.refuse(table.where, "these options need a target")
    return None
