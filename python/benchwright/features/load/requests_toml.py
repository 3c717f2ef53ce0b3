"""`[[request]]` and `[values]` of a workload's TOML: the requests of HTTP targets, the messages of
WebSocket, the commands of Redis and the statements of PostgreSQL, with labels and weights, and the values of their texts.

Decision: files that they name are read here, into the request to the engine: a study has what was
sent, a load resumes without them, and each host of `--hosts` gets them. Rejected: paths that the
engine opens, which another host does not have. Of several targets, which one an operation uses is
said by its filament, as without requests, and a request is one of the target that it names, or of
each target of its kind. Rejected: requests that lead the operations of one filament to several
targets: the schedule of a target would then depend on the draws of the requests, and no filament
would describe it.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from benchwright.features.load import parse as words
from benchwright.features.load import request as r
from benchwright.features.load import workload as w
from benchwright.features.load.tables import (
    file_beside,
    lines_beside,
    read_data,
    read_headers,
    read_location,
    read_parameters,
    read_payloads,
    read_transaction,
    read_typed,
)
from benchwright.inputs.form import Form, needed, nested, of_type, optional, read_form, whole
from benchwright.inputs.mistakes import Where
from benchwright.inputs.toml_table import TomlTable, one_of_words

_NAME = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)
_PLACE = re.compile(r"([A-Za-z0-9_-]+)\}", re.ASCII)
_MOST_DIGITS = 20
_MOST_TEXT = 2**20


HAVE_VALUES = (r.RedisTarget, r.PostgresTarget, r.UdpTarget, r.WebSocketTarget)
"""Targets whose own texts, commands or statements, have places for values."""


class RedisRequest(msgspec.Struct, frozen=True):
    """A command of a Redis server with a label."""

    label: str
    words: tuple[str, ...]


class MessageRequest(msgspec.Struct, frozen=True):
    """A message to a server of WebSocket with a label."""

    label: str
    payload: r.Payload


class SqlRequest(msgspec.Struct, frozen=True):
    """An operation on a database with a label: its statements, in order."""

    label: str
    statements: tuple[r.Statement, ...]


LabelledRequest = r.HttpRequest | r.GrpcRequest | MessageRequest | RedisRequest | SqlRequest
_KIND_OF: dict[type[LabelledRequest], type[r.OneTarget]] = {
    r.HttpRequest: r.HttpTarget,
    r.GrpcRequest: r.HttpTarget,
    MessageRequest: r.WebSocketTarget,
    RedisRequest: r.RedisTarget,
    SqlRequest: r.PostgresTarget,
}
"""The kind of target that each kind of request is for."""
HAVE_REQUESTS = tuple(_KIND_OF.values())
"""Targets whose requests can have labels and weights."""
_KEY_OF = {
    r.HttpTarget: "path",
    r.WebSocketTarget: "message",
    r.RedisTarget: "command",
    r.PostgresTarget: "sql or statements",
}
"""The key that says what a request of each kind of target is."""


class RequestTable(msgspec.Struct, frozen=True):
    """The requests of a workload, and the values of their texts."""

    requests: tuple[LabelledRequest, ...]
    weights: tuple[int, ...]
    """Of the requests, in order."""
    values: dict[str, r.Value]
    where: Where
    """Position of the first request."""
    targets: tuple[str | None, ...] = ()
    """Of the requests, in order, the name of the target; None: each target of its kind."""

    def of(self, target: str, on: r.OneTarget) -> RequestTable:
        """Return the table of one of several targets, which has this name."""
        own = [
            place
            for place, name in enumerate(self.targets)
            if name in (None, target) and fits(self.requests[place], on)
        ]
        return msgspec.structs.replace(
            self,
            requests=tuple(self.requests[place] for place in own),
            weights=tuple(self.weights[place] for place in own),
            targets=tuple(self.targets[place] for place in own),
        )

    def on(self, target: r.OneTarget) -> r.OneTarget:
        """Return a target with what its kind uses of the table: requests and values, values alone,
        or nothing."""
        own = [request for request in self.requests if fits(request, target)]
        labels = tuple(one.label for one in own)
        found: dict[str, Any] = {}
        match target:
            case r.HttpTarget() if own and words.is_grpc(target):
                calls = tuple(one for one in own if isinstance(one, r.GrpcRequest))
                call = target.call if isinstance(target.call, r.GrpcCall) else r.GrpcCall()
                found = {"call": msgspec.structs.replace(call, calls=calls)}
            case r.HttpTarget() if own:
                found = {"paths": (), "requests": tuple(own), "values": self.values}
            case r.WebSocketTarget() if own:
                messages = [one.payload for one in own if isinstance(one, MessageRequest)]
                found = {"payloads": tuple(messages), "labels": labels}
            case r.RedisTarget() if own:
                commands = [one.words for one in own if isinstance(one, RedisRequest)]
                found = {"commands": tuple(commands), "labels": labels}
            case r.PostgresTarget() if own:
                each = [one.statements for one in own if isinstance(one, SqlRequest)]
                found = {"statements": tuple(each), "labels": labels}
        if isinstance(target, HAVE_VALUES):
            found["values"] = self.values
        return msgspec.structs.replace(target, **found)

    @property
    def location(self) -> w.Location | None:
        """Which request an operation has; None: each with the same probability."""
        if len(set(self.weights)) <= 1:
            return None
        return w.WeightedLocation(self.weights)


def fits(request: LabelledRequest, target: r.OneTarget) -> bool:
    """Return whether a request is one of this kind of target."""
    if isinstance(target, r.HttpTarget):
        kind = r.GrpcRequest if words.is_grpc(target) else r.HttpRequest
        return isinstance(request, kind)
    return isinstance(target, _KIND_OF[type(request)])


def why_no_requests(target: r.LoadTarget, requests: Sequence[LabelledRequest] = ()) -> str | None:
    """Return why a target has no use for requests, or for one of these; None if it has, or is the
    null target."""
    if isinstance(target, r.NullTarget):
        return None
    kind = target.__struct_config__.tag
    if not isinstance(target, HAVE_REQUESTS):
        return f"[[request]] is not for a {kind} target"
    if not all(fits(request, target) for request in requests):
        is_grpc = isinstance(target, r.HttpTarget) and words.is_grpc(target)
        key = "grpc" if is_grpc else _KEY_OF[type(target)]
        return f"a request to a {'gRPC' if is_grpc else kind} target has {key}"
    match target:
        case r.HttpTarget(call=r.GrpcCall(grpc=str())):
            return "[[request]] has the methods, and the target has one too"
        case r.HttpTarget():
            own = (target.paths not in ((), ("/",)), target.method != "GET", target.body_bytes)
            if any(own):
                return "[[request]] has the paths, methods and bodies, and the target has some too"
        case r.WebSocketTarget() if target.payloads:
            return "[[request]] has the messages, and the target has some too"
        case r.RedisTarget() if target.commands != r.PING:
            return "[[request]] has the commands, and the target has some too"
        case r.PostgresTarget() if target.statements:
            return "[[request]] has the statements, and the target has some too"
    return None


def read_requests(top: TomlTable, targets: Sequence[r.OneTarget] = ()) -> RequestTable | None:
    """Return the requests of a workload, without any its values; None if it has none, or after
    mistakes were reported. Commands, statements and payloads without labels are in the target
    instead.

    `targets`: those of the workload; empty: they are named later.
    """
    values = _values(top)
    if "request" not in top:
        used = not targets or any(isinstance(target, HAVE_VALUES) for target in targets)
        if "values" in top and used:
            found = {name: one for name, one in values.items() if one is not None}
            return RequestTable((), (), found, top.at("values"))
        if "values" in top:
            message = "[values] has no effect without [[request]]"
            top.refuse(top.at("values"), message, "describe the requests")
        return None
    tables = top.tables("request")
    read: list[_Weighted] = []
    for table in tables:
        one = read_form(table, _REQUEST)
        if _is_one_request(table) and one is not None:
            read.append(one)
        _check_request(table, values)
    if not tables or len(read) < len(tables):
        return None
    return RequestTable(
        requests=tuple(one.request for one in read),
        weights=tuple(one.weight for one in read),
        values={name: one for name, one in values.items() if one is not None},
        where=top.at("request"),
        targets=tuple(one.target for one in read),
    )


def request_positions(top: TomlTable, requests: RequestTable | None) -> dict[str, Where]:
    """Return the positions of the fields of the engine's request that are of targets."""
    places = {}
    shown: list[tuple[Where, str | None, LabelledRequest]] = []
    if requests is not None and requests.requests:
        tables = (table.where for table in top.tables("request"))
        shown = list(zip(tables, requests.targets, requests.requests, strict=True))
    for field, name, target in _target_tables(top):
        for kind, member in _MEMBER_OF.items() if shown else ():
            places[f"{field}.{member}"] = top.at("request")
            own = [
                where
                for where, of, one in shown
                if isinstance(one, kind) and (name is None or of in (None, name))
            ]
            places |= {f"{field}.{member}[{at}]": where for at, where in enumerate(own)}
        for key, member in _LISTS:
            if key in target:
                places[f"{field}.{member}"] = target.at(key)
        for at, one in enumerate(target.values.get("statements", ())):
            places[f"{field}.statements[{at}]"] = target.at("statements", at)
            for inner in range(len(one)) if isinstance(one, list) else ():
                places[f"{field}.statements[{at}][{inner}]"] = target.at("statements", at, inner)
        if "values" in top:
            places[f"{field}.values"] = top.at("values")
    return places


_MEMBER_OF: dict[type[LabelledRequest], str] = {
    r.HttpRequest: "requests",
    r.GrpcRequest: "requests",
    MessageRequest: "payloads",
    RedisRequest: "commands",
    SqlRequest: "statements",
}
"""The member of the engine's target that has the requests of each kind."""
_LISTS = (
    ("commands", "commands"),
    ("commands", "statements"),
    ("statements", "statements"),
    ("payload", "payloads"),
)
"""Keys of a target with lists, and the members of the engine's target that have them; of a database
the commands are the statements."""


def _target_tables(top: TomlTable) -> Iterator[tuple[str, str | None, TomlTable]]:
    """Yield the field of each target in the engine's request, its name among several, its table."""
    target = top.values.get("target")
    if isinstance(target, list):
        for place, table in enumerate(top.tables("target")):
            yield f"target.targets[{place}].target", table.values.get("name"), table
    else:
        yield "target", None, top.inner(target if isinstance(target, dict) else {}, "target")


# -- requests --------------------------------------------------------------------------


class _Weighted(msgspec.Struct, frozen=True):
    request: LabelledRequest
    weight: int
    target: str | None


def _request(
    label: str | None = None, weight: int = 1, target: str | None = None, **said: Any
) -> _Weighted:
    return _Weighted(_labelled(label, **said), weight, target)


def _labelled(
    label: str | None,
    path: str | None = None,
    command: tuple[str, ...] = (),
    grpc: str | None = None,
    data: str = "{}",
    message: r.Payload | None = None,
    sql: str = "",
    parameters: tuple[str, ...] = (),
    statements: tuple[r.Statement, ...] = (),
    body_file: str | None = None,
    **said: Any,
) -> LabelledRequest:
    if command:
        return RedisRequest(label or words.command_label(command), command)
    if grpc is not None:
        return r.GrpcRequest(label=label or grpc, grpc=grpc, data=data)
    if message is not None:
        return MessageRequest(label or words.message_label(message), message)
    if path is None:
        each = statements or (r.Statement(sql, parameters),)
        return SqlRequest(label or words.transaction_label(each), each)
    label = label or f"{said.get('method', 'GET')} {path}"
    return r.HttpRequest(label=label, path=path, body_base64=body_file, **said)


_EXPECT = Form(
    (
        optional("status", read=whole(200, 999)),
        optional("contains", read=of_type(str)),
        optional("min_bytes", words.size_bytes),
    ),
    r.Expect,
)


def _check_request(table: TomlTable, values: dict[str, r.Value | None]) -> None:
    """Report keys that contradict each other, and places without a value."""
    if "body" in table and "body_file" in table:
        message = "body and body_file say the same"
        table.refuse(table.at("body_file"), message, "leave one out")
    path = table.values.get("path")
    if isinstance(path, str) and not path.startswith(("/", "${")):
        table.refuse(table.at("path"), "a path begins with /")
    for key in ("path", "body", "message"):
        if isinstance(table.values.get(key), str):
            _check_places(table, key, values)
    headers = table.values.get("headers")
    if isinstance(headers, dict):
        inner = table.inner(headers, "headers")
        for name, text in headers.items():
            if isinstance(text, str):
                _check_places(inner, name, values)


_WITH = {
    "path": ("method", "headers", "body", "body_file", "expect"),
    "message": (),
    "command": (),
    "grpc": ("data",),
    "sql": ("parameters",),
    "statements": (),
}
"""The keys that say what a request is, and the other keys that each has beside the common ones."""


def _is_one_request(table: TomlTable) -> bool:
    """Return whether a request is of one kind; report one of no kind or of several, and keys of
    another kind."""
    kinds = [key for key in _WITH if key in table]
    if not kinds:
        message = (
            "a request needs path (HTTP), message (WebSocket), command (Redis), grpc (gRPC), or sql or "
            "statements (PostgreSQL)"
        )
        table.refuse(table.where, message, 'such as path = "/"')
        return False
    if len(kinds) > 1:
        message = f"{kinds[0]} and {kinds[1]} are two requests"
        table.refuse(table.at(kinds[1]), message, "write a [[request]] for each")
    for key in (key for keys in _WITH.values() for key in keys):
        if key in table and key not in _WITH[kinds[0]]:
            of = next(kind for kind, keys in _WITH.items() if key in keys)
            table.refuse(table.at(key), f"{key} is for a request with {of}")
    return len(kinds) == 1


def _command(table: TomlTable, key: str) -> tuple[str, ...] | None:
    """Return the words of a command: a text like that of redis-cli, or an array of words."""
    if isinstance(table.values[key], list):
        read = of_type(tuple[str, ...])(table, key)
        if read == ():
            table.refuse(table.at(key), f"{key} is empty")
        return read or None
    found = table.read(key, words.redis_commands)
    if found is not None and len(found) > 1:
        message = f"{key} has several commands"
        table.refuse(table.at(key), message, "write a [[request]] for each")
    return None if found is None else found[0]


def _message(table: TomlTable, key: str) -> r.Payload | None:
    if not table.has(key, str):
        return None
    read = read_payloads(table, key)
    return read[0] if read else None


def _sql(table: TomlTable, key: str) -> str | None:
    sql = table.text(key)
    if sql is not None and not sql.strip():
        table.refuse(table.at(key), "a statement is empty")
    return sql


def _check_places(table: TomlTable, key: str, values: dict[str, r.Value | None]) -> None:
    """Report places of a text that are not closed, or without a value."""
    text = table.values[key]
    for offset, name in places_of(text):
        where = table.inside(text, key)(offset)
        if name is None:
            message = f"{key}: ${{ begins the place of a value, NAME and }} are missing"
            table.refuse(where, message, "write ${NAME}, or $${ for a literal ${")
        elif name not in values:
            hint = "describe it in [values]"
            if values:
                hint = one_of_words(name, values)
            table.refuse(where, f"{key}: there is no value {name!r}", hint)


def places_of(text: str) -> Iterator[tuple[int, str | None]]:
    """Yield the offset and the name of each place for a value; None: it has no name or no end."""
    begin = 0
    while (found := text.find("${", begin)) >= 0:
        # A `$` before it makes it literal, unless that belongs to what was read already.
        literal = found > begin and text[found - 1] == "$"
        begin = found + 2
        if not literal:
            place = _PLACE.match(text, begin)
            yield found, None if place is None else place[1]
            begin = begin if place is None else place.end()


# -- files -----------------------------------------------------------------------------


def _body_of_file(table: TomlTable, key: str) -> str | None:
    contents = file_beside(table, key)
    return None if contents is None else base64.b64encode(contents).decode()


# -- the form ---

_REQUEST = Form(
    (
        optional("label", read=of_type(str)),
        optional("target", read=of_type(str)),
        optional("weight", words.some),
        optional("method", read=of_type(str)),
        optional("path", read=of_type(str)),
        optional("message", read=_message),
        optional("command", read=_command),
        optional("grpc", words.grpc_method),
        optional("data", read=read_data),
        optional("sql", read=_sql),
        optional("parameters", read=read_parameters),
        optional("statements", read=read_transaction),
        optional("headers", read=read_headers),
        optional("body", read=of_type(str)),
        optional("body_file", read=_body_of_file),
        optional("expect", read=nested(_EXPECT)),
    ),
    _request,
)
REQUEST_KEYS = _REQUEST.names
"""The keys of `[[request]]`."""


# -- values ----------------------------------------------------------------------------


def _integer(text: str) -> int:
    """Return a whole number such as `-5` or `10k`."""
    bare = text.strip()
    number = words.count(bare.removeprefix("-"))
    return -number if bare.startswith("-") else number


def _digits(text: str) -> int:
    return words.from_one(text, _MOST_DIGITS)


def _length(text: str) -> int:
    length = words.some_bytes(text)
    if length > _MOST_TEXT:
        raise ValueError(f"{text!r} is longer than 1 MiB")
    return length


def _characters(text: str) -> str:
    if text not in r.CHARACTERS:
        raise ValueError(f"must be one of {', '.join(r.CHARACTERS)}, not {text!r}")
    return text


def _owner(text: str) -> str:
    if text not in r.OWNERS:
        raise ValueError(f"must be one of {', '.join(r.OWNERS)}, not {text!r}")
    return text


def _made_integer(min: int, max: int, **said: Any) -> r.IntegerValue:
    if min > max:
        raise ValueError("min is above max")
    return r.IntegerValue(min=min, max=max, **said)


def _line(
    file: tuple[str, ...] | None = None, lines: tuple[str, ...] | None = None, **said: Any
) -> r.LineValue:
    if (file is None) == (lines is None):
        raise ValueError("give file or lines")
    return r.LineValue(lines=file or lines or (), **said)


_SHORT: words.Forms = {
    "integer": Form(
        (needed("min", _integer), needed("max", _integer), optional("digits", _digits)),
        _made_integer,
    ),
    "counter": Form((optional("start", _integer), optional("digits", _digits)), r.CounterValue),
    "text": Form((needed("length", _length), optional("characters", _characters)), r.TextValue),
}
_LOCATION = optional("location", read=read_location)
_OF = optional("of", _owner)
VALUES: words.Forms = {
    "integer": Form((*_SHORT["integer"].keys, _LOCATION, _OF), _made_integer),
    "counter": _SHORT["counter"],
    "line": Form(
        (
            optional("file", read=lines_beside),
            optional("lines", read=of_type(tuple[str, ...])),
            _LOCATION,
            _OF,
        ),
        _line,
    ),
    "text": Form((*_SHORT["text"].keys, _OF), r.TextValue),
}
"""The forms of a value of `[values]`."""


def _short(text: str) -> r.Value:
    value: r.Value = words.parse_form(text.replace("..", " "), _SHORT, "value")
    return value


def _value(table: TomlTable, name: str) -> r.Value | None:
    if not isinstance(table.values[name], dict):
        return table.read(name, _short)
    inner = table.table(name)
    assert inner is not None, "it is a table"
    value: r.Value | None = read_typed(inner, VALUES, "value")
    return value


def _values(top: TomlTable) -> dict[str, r.Value | None]:
    """Return the values by name; None for one that is wrong."""
    table = top.table("values")
    if table is None:
        return {}
    found = {}
    for name in table.values:
        found[name] = _value(table, name)
        if not _NAME.fullmatch(name):
            hint = "letters, digits, _ and -"
            table.refuse(table.at(name), f"{name!r} cannot name a value", hint)
    return found
