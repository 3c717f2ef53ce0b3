"""Requests to gRPC servers: the bytes of a method's messages.

Purpose: `--grpc` of a load, and the same keys of `[target]`. Decision: an engine encodes the messages
when a load is planned, from the texts of `.proto` files, and the load has requests of HTTP/2 with
bytes: so a load that measures encodes nothing, hosts need no files, and searches, comparisons and
pages treat calls as requests. The same call is encoded once: a search plans each of its probes.
Rejected: protobuf for Python, which needs a compiled module for each service, or protoc.
"""

from __future__ import annotations

import base64
import re
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
    descriptors: tuple[str, ...]
    """Compiled files in base64, in place of `files`."""
    method: str
    data: str
    gzip: bool


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
    """Return the fields of a target with the requests of a call. Raises BenchError."""
    if call.grpc is None and not call.calls:
        message, hint = "a gRPC server needs a method", "add --grpc package.Service/Method"
        raise mistake(Where("--grpc"), "bad-argument", message, hint)
    if target.requests or target.body_bytes or target.method != "GET":
        message = "--grpc makes the requests, and the target has some too"
        raise mistake(Where("--grpc"), "bad-argument", message, "leave one of them out")
    if call.grpc is not None:
        made = _of_method(target, call, call.grpc, call.data)
        streams, method = made.is_stream, made.method
        requests = [_request(made.method, made, body) for body in made.bodies]
    else:
        streams, requests = _of_calls(target, call)
        method = ", ".join(dict.fromkeys(request.path[1:] for request in requests))
    events: r.Events | msgspec.UnsetType = msgspec.UNSET
    if streams:
        read = target.events if isinstance(target.events, r.Events) else r.Events()
        events = msgspec.structs.replace(read, events="grpc")
    elif isinstance(target.events, r.Events):
        message = f"the answers of {method} are no streams, and have no events"
        raise mistake(Where("--grpc"), "bad-argument", message, "leave the options of events out")
    encoding = (("grpc-encoding", call.compression),) if call.compression else ()
    found: dict[str, Any] = {
        "paths": (),
        "headers": (*target.headers, *encoding, *call.metadata),
        "requests": tuple(requests),
        "events": events,
        "call": msgspec.UNSET,
    }
    if call.deadline_ns is not None:
        found |= {"deadline_ns": call.deadline_ns, "timeout_ns": call.deadline_ns}
    if call.accept:
        found["accepted"] = call.accept
    return found


def _request(label: str, made: _EncodedCall, body: str) -> r.HttpRequest:
    return r.HttpRequest(label=label, method="POST", path=f"/{made.method}", body_base64=body)


def _of_calls(target: r.HttpTarget, call: r.GrpcCall) -> tuple[bool, list[r.HttpRequest]]:
    """Return whether answers are streams, and the request of each call of a workload.

    A request has a weight, so a call has one message, or the stream of one request. Streams and
    answers of one message have different times: they are of different targets. Raises BenchError.
    """
    place = Where("[[request]]")
    streams: dict[bool, str] = {}
    requests = []
    for one in call.calls:
        made = _of_method(target, call, one.grpc, one.data, f"request {one.label}")
        if len(made.bodies) != 1:
            message = f"request {one.label}: data has {len(made.bodies)} messages"
            raise mistake(place, "workload-value", message, "write a [[request]] for each")
        streams[made.is_stream] = made.method
        requests.append(_request(one.label, made, made.bodies[0]))
    if len(streams) > 1:
        message = (
            f"the answers of {streams[True]} are streams, and those of {streams[False]} are not"
        )
        hint = "write a [[target]] for each of the two, and the target of each [[request]]"
        raise mistake(place, "workload-value", message, hint)
    return True in streams, requests


def _of_method(
    target: r.HttpTarget, call: r.GrpcCall, method: str, data: str, place: str = ""
) -> _EncodedCall:
    """Return how a method is called; mistakes are in `place`, or in the options. Raises BenchError."""
    descriptors: tuple[str, ...] = ()
    if not call.proto:
        service = re.split("[/.](?=[^/.]*$)", method.removeprefix("/"))[0]
        server = (target.url, target.unix_socket, target.tls, target.headers)
        descriptors = _reflected(*server, call.metadata, service)
    gzip = call.compression is not None
    return _encoded(method, call.proto, descriptors, data, gzip, place)


@lru_cache(maxsize=64)
def _reflected(
    url: str,
    unix_socket: str | None,
    tls: r.Tls | None,
    headers: tuple[tuple[str, str], ...],
    metadata: tuple[tuple[str, str], ...],
    service: str,
) -> tuple[str, ...]:
    # Imported here: few loads ask a server.
    from benchwright.features.load.reflection import descriptors_of

    target = r.HttpTarget(url=url, unix_socket=unix_socket, tls=tls, headers=headers)
    found = descriptors_of(target, metadata, service)
    return tuple(base64.b64encode(one).decode() for one in found)


@lru_cache(maxsize=64)
def _encoded(
    method: str,
    files: tuple[r.ProtoFile, ...],
    descriptors: tuple[str, ...],
    data: str,
    gzip: bool,
    place: str,
) -> _EncodedCall:
    # Imported here: few loads have calls.
    from benchwright.features.load.engine import ask_engine

    at = Where(place or "--grpc")
    places = {"method": at, "descriptors": at, "data": Where(place or "--data")}
    places["files"] = Where("--proto")
    request = _CallRequest(files, descriptors, method, data, gzip)
    return ask_engine(request, _EncodedCall, places).result
