"""Calls of gRPC on a server by grpcio: what arrives, statuses, streams, deadlines, TLS; times beside
the server's own stamps."""

from __future__ import annotations

import json
import socket
import statistics
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bw_command import bw
from own_certificate import certificate
from running_grpc import GrpcServer, running_grpc, skip_without_grpc

CALLS = 20
"""Of a load."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GrpcServer]:
    skip_without_grpc()
    with running_grpc(tmp_path_factory.mktemp("grpc") / "server") as server:
        yield server


def load(
    directory: Path, server: GrpcServer, method: str, request: Any, *words: str, calls: int = CALLS
) -> dict[str, Any]:
    """Return the document of a load, whatever its exit status."""
    pace = ("--rate", "50", "--arrival", "constant", "--duration", f"{calls / 50:g}s")
    what = ("--grpc", f"demo.Greeter/{method}", "--proto", str(server.proto))
    data = request if isinstance(request, str) else json.dumps(request)
    words = (*pace, *what, "--data", data, *words)
    done = bw(directory, "load", "--target", server.target, *words, "--json")
    assert done.stdout, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def errors(document: dict[str, Any]) -> dict[str, int]:
    found: dict[str, int] = document["result"]["kinds"]["all"]["errors"]
    return found


def test_a_response_holds_the_time_of_the_server(tmp_path: Path, server: GrpcServer) -> None:
    asked = {"name": "unary", "wait_ms": 20, "kind": "SOME"}
    result = load(tmp_path, server, "Hello", asked)["result"]
    assert result["counts"]["completed"] == CALLS
    assert result["counts"]["errors"] == 0
    assert "streams" not in result
    # `hello unary` behind its tag, length, flag and length.
    assert result["kinds"]["all"]["bytes"] == CALLS * (5 + 2 + len("hello unary"))
    took = [call["first_ns"] - call["began_ns"] for call in server.calls("unary")]
    assert len(took) == CALLS
    times = result["kinds"]["all"]
    assert times["response_ns"]["mean"] >= times["service_ns"]["mean"] > statistics.mean(took)


def test_the_first_message_of_a_stream_holds_the_time_of_the_server(
    tmp_path: Path, server: GrpcServer
) -> None:
    asked = {"name": "stream", "count": 5, "wait_ms": 10}
    words = ("--limit", "p50 first < 60s")
    found = load(tmp_path, server, "Watch", asked, *words)
    streams, times = found["result"]["streams"], found["result"]["kinds"]["all"]
    assert streams["succeeded"] == streams["operations"] == CALLS
    assert streams["content_events"] == 5 * CALLS
    assert streams["gap_ns"]["count"] + streams["shared_events"] == 4 * CALLS
    took = [call["first_ns"] - call["began_ns"] for call in server.calls("stream")]
    first = streams["first_service_ns"]["mean"]
    assert statistics.mean(took) < first < times["service_ns"]["mean"]
    assert [limit["outcome"] for limit in found["limits"]] == ["passed"]


def test_metadata_arrive_beside_what_a_client_of_grpc_sends(
    tmp_path: Path, server: GrpcServer
) -> None:
    words = ("--metadata", "Tenant: a b", "--metadata", "trace-bin:AAH/", "--deadline", "30s")
    load(tmp_path, server, "Hello", {"name": "metadata"}, *words, calls=1)
    call = server.calls("metadata")[0]
    found = dict(call["metadata"])
    assert found["tenant"] == "a b"
    assert found["trace-bin"] == "0001ff"
    assert found["user-agent"] == "benchwright"
    assert "content-length" not in found
    assert 0 < call["remaining_s"] <= 30


@pytest.mark.parametrize("method", ["Hello", "Watch"])
@pytest.mark.parametrize("status", ["NOT_FOUND", "UNAVAILABLE", "UNAUTHENTICATED"])
def test_errors_have_the_name_of_their_status_and_the_text_of_the_server(
    tmp_path: Path, server: GrpcServer, method: str, status: str
) -> None:
    found = load(tmp_path, server, method, {"count": 1, "status": status})
    assert errors(found) == {f"grpc {status}": CALLS}
    said = found["result"]["target"]["grpc_messages"]
    assert said == {f"grpc {status}": f'said "{status}" é'}


def test_accepted_statuses_are_no_errors(tmp_path: Path, server: GrpcServer) -> None:
    words = ("--accept", "NOT_FOUND,ABORTED")
    found = load(tmp_path, server, "Hello", '{"status": "NOT_FOUND"} {"status": "ABORTED"}', *words)
    assert errors(found) == {}
    assert found["result"]["counts"]["completed"] == CALLS


def test_a_method_that_the_server_does_not_have_is_unimplemented(
    tmp_path: Path, server: GrpcServer
) -> None:
    text = server.proto.read_text().replace("rpc Hello", "rpc Bye")
    other = tmp_path / "other.proto"
    other.write_text(text)
    words = ("--grpc", "demo.Greeter/Bye", "--proto", str(other))
    words += ("--import-path", str(server.proto.parent))
    found = load(tmp_path, server, "Hello", {}, *words)
    assert errors(found) == {"grpc UNIMPLEMENTED": CALLS}


@pytest.mark.parametrize("method", ["Hello", "Watch"])
def test_calls_beyond_their_deadline_have_its_status(
    tmp_path: Path, server: GrpcServer, method: str
) -> None:
    asked = {"count": 1, "wait_ms": 500}
    found = load(tmp_path, server, method, asked, "--deadline", "100ms", calls=10)
    assert errors(found) == {"grpc DEADLINE_EXCEEDED": 10}


def test_several_messages_are_drawn_of_a_file(tmp_path: Path, server: GrpcServer) -> None:
    (tmp_path / "data.json").write_text('{"name": "one"}\n{"name": "other"}\n')
    load(tmp_path, server, "Hello", "@data.json", calls=50)
    each = [len(server.calls(name)) for name in ("one", "other")]
    assert sum(each) == 50
    assert min(each) > 0


def test_many_calls_share_a_connection(tmp_path: Path, server: GrpcServer) -> None:
    words = ("--connections", "1", "--outstanding", "100")
    result = load(tmp_path, server, "Hello", {"wait_ms": 100}, *words)["result"]
    assert result["counts"]["errors"] == 0
    assert result["target"]["connections"] == 1


def test_a_workload_has_the_same_keys(tmp_path: Path, server: GrpcServer) -> None:
    keys = f"""
[target]
to = "{server.target}"
grpc = "demo.Greeter/Watch"
proto = "{server.proto}"
data = [{{name = "toml", count = 2}}]
metadata = {{tenant = "a"}}
deadline = "20s"

[[filament]]
type = "open"
rate = 50
count = 5
"""
    (tmp_path / "load.toml").write_text(keys)
    done = bw(tmp_path, "load", "load.toml", "--json")
    result = json.loads(done.stdout)["result"]
    assert result["streams"]["content_events"] == 10
    assert [dict(call["metadata"])["tenant"] for call in server.calls("toml")] == ["a"] * 5


def test_compressed_messages_are_read_by_the_server(tmp_path: Path, server: GrpcServer) -> None:
    name = "compressed" * 1000
    found = load(tmp_path, server, "Hello", {"name": name}, "--compression", "gzip")
    assert errors(found) == {}
    assert len(server.calls(name)) == CALLS


def test_a_stream_of_requests_is_one_call(tmp_path: Path, server: GrpcServer) -> None:
    asked = [{"name": "first"}, {"name": "second"}, {"name": "third"}]
    found = load(tmp_path, server, "Upload", asked)
    assert (errors(found), found["result"]["counts"]["completed"]) == ({}, CALLS)
    assert len(server.calls("first,second,third")) == CALLS


def test_streams_both_ways(tmp_path: Path, server: GrpcServer) -> None:
    asked = [{"name": "chat", "count": 2}, {"name": "chat", "count": 3}]
    streams = load(tmp_path, server, "Chat", asked)["result"]["streams"]
    assert (streams["succeeded"], streams["content_events"]) == (CALLS, 5 * CALLS)
    assert len(server.calls("chat")) == 2 * CALLS


def test_a_server_s_reflection_stands_for_its_proto(tmp_path: Path, server: GrpcServer) -> None:
    words = ("load", "--target", server.target, "--rate", "50", "--duration", "200ms", "--json")
    words += ("--grpc", "demo.Greeter/Hello", "--data", '{"name": "reflected", "kind": "SOME"}')
    result = json.loads(bw(tmp_path, *words).stdout)["result"]
    assert result["counts"]["errors"] == 0
    assert len(server.calls("reflected")) == result["counts"]["completed"] > 0


def requests(server: GrpcServer, *each: tuple[str, str]) -> str:
    """Return the text of a workload with these methods, and the other keys of each."""
    tables = "".join(f'[[request]]\ngrpc = "demo.Greeter/{name}"\n{keys}\n' for name, keys in each)
    return (
        f'[target]\nto = "{server.target}"\nproto = "{server.proto}"\n{tables}'
        '[[filament]]\ntype = "open"\nrate = 200\ncount = 400\n'
    )


def test_methods_of_a_workload_have_labels_and_weights(tmp_path: Path, server: GrpcServer) -> None:
    upload = "label = \"upload\"\nweight = 3\ndata = [{name = 'up'}, {name = 'load'}]"
    hello = "data = {name = 'weighted'}"
    text = requests(server, ("Upload", upload), ("Hello", hello))
    (tmp_path / "load.toml").write_text(text)
    result = json.loads(bw(tmp_path, "load", "load.toml", "--json").stdout)["result"]
    assert result["kinds"]["all"]["errors"] == {}
    each = len(server.calls("up,load")), len(server.calls("weighted"))
    assert sum(each) == 400
    # Five standard deviations, of sqrt(400 / 4 x 3 / 4).
    assert each[0] == pytest.approx(300, abs=45)
    counts = {name: one["response_ns"]["count"] for name, one in result["labels"].items()}
    assert counts == {"upload": each[0], "demo.Greeter/Hello": each[1]}


@pytest.mark.parametrize(
    ("each", "said"),
    [
        ((("Hello", ""), ("Watch", "")), "[[target]]"),
        ((("Hello", "data = [{}, {}]"),), "write a [[request]] for each"),
        ((("Hello", "path = '/'"),), "are two requests"),
        ((("Hello", "label = 'x'\ndata = {nam = 1}"),), "request x: message 1"),
    ],
)
def test_mistakes_of_a_workload_s_methods_are_reported(
    tmp_path: Path, server: GrpcServer, each: tuple[tuple[str, str], ...], said: str
) -> None:
    (tmp_path / "load.toml").write_text(requests(server, *each))
    done = bw(tmp_path, "load", "load.toml")
    assert (done.returncode, said in done.stderr) == (2, True), done.stderr


def test_a_server_without_reflection_is_named(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=lambda: listener.accept()[0].close(), daemon=True).start()
        target = f"grpc://127.0.0.1:{listener.getsockname()[1]}"
        words = ("--rate", "5", "--grpc", "demo.Greeter/Hello")
        done = bw(tmp_path, "load", "--target", target, *words)
    assert (done.returncode, "--proto FILE" in done.stderr) == (1, True), done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--grpc", "demo.Greeter/Helo"), "demo.Greeter/Hello, demo.Greeter/Watch"),
        (("--data", '{"nam": 1}'), "--data: message 1"),
        (("--data", "{"), "--data: the messages are no JSON"),
        (("--target", "http://127.0.0.1:1"), "--grpc: --grpc is for a gRPC server"),
        (("--first-timeout", "1s"), "no streams"),
        (("--metadata", "grpc-status:0"), "a name of gRPC itself"),
        (("--metadata", "a-bin:!"), "not base64"),
    ],
)
def test_mistakes_are_reported_at_their_option(
    tmp_path: Path, server: GrpcServer, words: tuple[str, ...], said: str
) -> None:
    usual = ("--grpc", "demo.Greeter/Hello", "--proto", str(server.proto), "--rate", "5")
    if "--target" not in words:
        usual += ("--target", server.target)
    done = bw(tmp_path, "load", *usual, *words)
    assert done.returncode == 2
    assert said in done.stderr


def test_a_server_with_tls(tmp_path: Path) -> None:
    skip_without_grpc()
    file = certificate(tmp_path, "localhost")
    secret = str(file.with_suffix(".key")), str(file)
    with running_grpc(tmp_path / "server", "localhost", *secret) as server:
        found = load(tmp_path, server, "Watch", {"count": 3}, "--ca", secret[1])
        words = ("--target", server.target, "--ca", secret[1], "--rate", "9", "--duration", "1s")
        asked = bw(tmp_path, "load", *words, "--grpc", "demo.Greeter/Hello", "--json")
    assert json.loads(asked.stdout)["result"]["counts"]["errors"] == 0, asked.stderr
    assert errors(found) == {}
    assert found["result"]["streams"]["content_events"] == 3 * CALLS
    assert found["result"]["target"]["tls"]["version"] == "TLSv1.3"
