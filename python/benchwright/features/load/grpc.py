"""Requests to gRPC servers: the bytes of a method's messages.

Purpose: `--grpc` of a load, and the same keys of `[target]`. Decision: an engine encodes the messages
when a load is planned, from the texts of `.proto` files, and the load has requests of HTTP/2 with
bytes: so a load that measures encodes nothing, hosts need no files, and searches, comparisons and
pages treat calls as requests. The same call is encoded once: a search plans each of its probes.
Rejected: protobuf for Python, which needs a compiled module for each service, or protoc.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, TypeVar

import msgspec

from benchwright.features.load import request as r
from benchwright.features.load.parse import is_grpc
from benchwright.inputs.mistakes import Where, mistake

TargetT = TypeVar("TargetT", bound=r.LoadTarget)


class _CallRequest(msgspec.Struct, frozen=True, tag="grpc-call", tag_field="type"):
    """A request to an engine that encodes messages."""

    files: tuple[r.ProtoFile, ...]
    method: str
    data: str


class _EncodedCall(msgspec.Struct, frozen=True):
    """How a method is called."""

    method: str
    is_stream: bool
    """Whether an answer is a stream of messages."""
    bodies: tuple[str, ...]
    """A request's body for each message, in base64."""


def with_calls(target: TargetT) -> TargetT:
    """Return a target, or several, with the requests of its calls of gRPC. Raises InputError."""
    if isinstance(target, r.SeveralTarget):
        each = (
            msgspec.structs.replace(one, target=with_calls(one.target)) for one in target.targets
        )
        return msgspec.structs.replace(target, targets=tuple(each))
    if not isinstance(target, r.HttpTarget):
        return target
    call = target.call if isinstance(target.call, r.GrpcCall) else r.GrpcCall()
    if not is_grpc(target):
        if call != r.GrpcCall():
            raise _not_grpc(call)
        return target
    return msgspec.structs.replace(target, **_requests(target, call))


def _not_grpc(call: r.GrpcCall) -> Exception:
    said = msgspec.structs.asdict(call)
    default = msgspec.structs.asdict(r.GrpcCall())
    name = next(name for name, value in said.items() if value != default[name])
    option = f"--{name.removesuffix('_ns').replace('_', '-')}"
    hint = "write grpc://HOST:PORT, or grpcs://HOST:PORT for TLS"
    return mistake(Where(option), "bad-argument", f"{option} is for a gRPC server", hint)


def _requests(target: r.HttpTarget, call: r.GrpcCall) -> dict[str, Any]:
    """Return the fields of a target with the requests of a call. Raises InputError."""
    if call.grpc is None:
        message, hint = "a gRPC server needs a method", "add --grpc package.Service/Method"
        raise mistake(Where("--grpc"), "bad-argument", message, hint)
    if not call.proto:
        hint = "add the file that has the service: --proto FILE"
        raise mistake(Where("--grpc"), "bad-argument", "--grpc needs --proto", hint)
    if target.requests or target.body_bytes or target.method != "GET":
        message = "--grpc makes the requests, and the target has some too"
        raise mistake(Where("--grpc"), "bad-argument", message, "leave one of them out")
    made = _encoded(call.grpc, call.proto, call.data)
    path = f"/{made.method}"
    requests = [
        r.HttpRequest(label=made.method, method="POST", path=path, body_base64=body)
        for body in made.bodies
    ]
    events: r.Events | msgspec.UnsetType = msgspec.UNSET
    if made.is_stream:
        read = target.events if isinstance(target.events, r.Events) else r.Events()
        events = msgspec.structs.replace(read, events="grpc")
    elif isinstance(target.events, r.Events):
        message = f"the answers of {made.method} are no streams, and have no events"
        raise mistake(Where("--grpc"), "bad-argument", message, "leave the options of events out")
    found: dict[str, Any] = {
        "paths": (),
        "headers": (*target.headers, *call.metadata),
        "requests": tuple(requests),
        "events": events,
        "call": msgspec.UNSET,
    }
    if call.deadline_ns is not None:
        found |= {"deadline_ns": call.deadline_ns, "timeout_ns": call.deadline_ns}
    if call.accept:
        found["accepted"] = call.accept
    return found


@lru_cache(maxsize=64)
def _encoded(method: str, files: tuple[r.ProtoFile, ...], data: str) -> _EncodedCall:
    # Imported here: few loads have calls.
    from benchwright.features.load.engine import ask_engine

    places = {"method": Where("--grpc"), "files": Where("--proto"), "data": Where("--data")}
    return ask_engine(_CallRequest(files, method, data), _EncodedCall, places).result
