"""`bw load` on WebSocket servers: those of Python's `websockets` and Node's `ws`, and broken ones."""

from __future__ import annotations

import contextlib
import json
import shutil
import socket
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from websockets.sync.client import connect

from bw_command import bw
from own_certificate import OPENSSL, certificate
from started_server import started

STAND_INS = Path(__file__).parents[1] / "stand_ins"
NODE = shutil.which("node")
WS = Path(__file__).parents[2] / "node_modules" / "ws"
BY_ID = ("--payload", '{"id": ${id}}', "--answer", "/id")


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with started(sys.executable, str(STAND_INS / "websocket_server.py")) as url:
        yield url


def document(directory: Path, url: str, *words: str) -> dict[str, Any]:
    """Return the document of a load of 40 operations, whatever its exit status."""
    pace = ("--rate", "100", "--arrival", "constant", "--duration", "400ms", "--connections", "4")
    done = bw(directory, "load", "--target", url, *pace, *words, "--json")
    assert done.stdout, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def load(directory: Path, url: str, *words: str) -> dict[str, Any]:
    result: dict[str, Any] = document(directory, url, *words)["result"]
    return result


def workload(directory: Path, url: str, text: str, *words: str) -> dict[str, Any]:
    """Return the result of a workload of 40 operations with an identifier each."""
    target, _, requests = text.partition("\n\n")
    file = f'[target]\nto = "{url}"\n{target}\n[values]\nid = "counter"\n{requests}\n'
    file += '[[filament]]\ntype = "open"\nrate = 100\narrival = "constant"\n'
    (directory / "load.toml").write_text(file)
    done = bw(directory, "load", "load.toml", "--duration", "400ms", *words, "--json")
    assert done.stdout, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)["result"]
    return result


def errors(result: dict[str, Any]) -> dict[str, int]:
    found: dict[str, int] = result["kinds"]["all"]["errors"]
    return found


@pytest.mark.parametrize(
    ("words", "length"),
    [
        ((), 64),
        (("--block", "200k"), 200 * 1024),
        (("--payload", "text: {ä}"), 5),
        (("--payload", "hex: 00 ff"), 2),
    ],
)
def test_an_echo(tmp_path: Path, server: str, words: tuple[str, ...], length: int) -> None:
    result = load(tmp_path, f"{server}/echo", *words)
    assert (errors(result), result["counts"]["completed"]) == ({}, 40)
    assert result["kinds"]["all"]["bytes"] == 40 * length
    assert result["target"]["handshake_ns"]["count"] == 4


def test_service_times_have_the_delay_by_the_server_s_own_stamps(
    tmp_path: Path, server: str
) -> None:
    result = load(tmp_path, f"{server}/delayed?ms=20")
    assert errors(result) == {}
    with connect(f"{server}/stamps") as stamps:
        delays = [answered - arrived for arrived, answered in json.loads(stamps.recv())]
    service = result["kinds"]["all"]["service_ns"]
    assert len(delays) == service["count"] == 40
    assert min(delays) >= 20_000_000
    # Histograms have 0.1 %.
    assert service["min"] >= 0.999 * min(delays)
    assert service["mean"] >= 0.999 * sum(delays) / 40


def test_answers_out_of_order_belong_to_their_messages(tmp_path: Path, server: str) -> None:
    target = 'outstanding = 40\nconnections = 1\nanswer = "/id"\npayload = \'{"id": ${id}}\''
    result = workload(tmp_path, f"{server}/shuffled", target)
    assert (errors(result), result["counts"]["completed"]) == ({}, 40)
    # Of four that wait together, the last comes at once, and the first after 30 ms.
    assert result["kinds"]["all"]["response_ns"]["max"] > 25_000_000
    assert result["kinds"]["all"]["response_ns"]["min"] < 25_000_000


@pytest.mark.parametrize("answer", ["/id", 'text:{"id"', "hex: 7b 22 69"])
def test_what_a_server_sends_by_itself_is_no_answer(
    tmp_path: Path, server: str, answer: str
) -> None:
    words = ("--payload", '{"id": 1}', "--answer", answer)
    result = load(tmp_path, f"{server}/pushes", *words)
    assert (errors(result), result["target"]["pushes"]) == ({}, 40)
    assert result["kinds"]["all"]["bytes"] == 40 * len('{"id": 1}')


def test_messages_that_only_go_out(tmp_path: Path, server: str) -> None:
    result = load(tmp_path, f"{server}/silent", "--payload", "x", "--answer", "none")
    assert (errors(result), result["counts"]["completed"]) == ({}, 40)


@pytest.mark.parametrize(
    ("code", "name"),
    [
        *(
            (code, f"websocket closed {code}")
            for code in (1000, 1001, 1002, 1009, 1011, 1013, 4321)
        ),
        # The end of TCP without a close frame.
        (1006, "ECONNRESET"),
    ],
)
def test_a_close_in_the_middle_fails_what_waits_and_is_followed_by_another_connection(
    tmp_path: Path, server: str, code: int, name: str
) -> None:
    result = load(tmp_path, f"{server}/closing?code={code}")
    failed = errors(result)[name]
    # Each of four connections ends with its third operation.
    assert errors(result) == {name: failed}
    assert failed == result["target"]["reconnects"]
    assert 10 <= failed <= 13
    assert result["counts"]["completed"] == 40


def test_a_close_behind_an_answer_fails_what_was_sent_before_it_arrived(
    tmp_path: Path, server: str
) -> None:
    result = load(tmp_path, f"{server}/leaving", "--connections", "40")
    assert result["counts"]["completed"] == 40
    # Each has a connection of its own, unless the machine holds up the generator.
    assert set(errors(result)) <= {"websocket closed 1000"}
    assert result["target"]["reconnects"] >= errors(result).get("websocket closed 1000", 0)


@pytest.mark.skipif(OPENSSL is None, reason="openssl is not installed (apt-get install openssl)")
def test_a_server_with_tls(tmp_path: Path) -> None:
    file = certificate(tmp_path, "localhost")
    command = [sys.executable, str(STAND_INS / "websocket_server.py")]
    with started(*command, str(file.with_suffix(".key")), str(file)) as url:
        text = (
            'answer = "/id"\nend_mark = "/done=true"\noutstanding = 4\n'
            f'ca = "{file}"\n\n[[request]]\nlabel = "parts"\n'
            'message = \'{"id": ${id}, "parts": 3}\''
        )
        result = workload(tmp_path, f"{url}/parts", text)
        refused = bw(tmp_path, "load", "--rate", "9", "--duration", "1s", "--target", f"{url}/echo")
    assert (errors(result), result["streams"]["content_events"]) == ({}, 120)
    assert result["target"]["tls"]["version"] == "TLSv1.3"
    assert refused.returncode == 2
    assert "certificate" in refused.stderr


def test_an_answer_of_several_messages_is_a_stream(tmp_path: Path, server: str) -> None:
    text = 'answer = "/id"\nend_mark = "/done=true"\noutstanding = 4\n\n' + (
        '[[request]]\nlabel = "parts"\nmessage = \'{"id": ${id}, "parts": 3}\''
    )
    result = workload(tmp_path, f"{server}/parts", text)
    streams = result["streams"]
    assert (errors(result), streams["succeeded"]) == ({}, 40)
    assert streams["content_events"] == 120
    assert streams["gap_ns"]["count"] + streams["shared_events"] == 80
    assert streams["first_service_ns"]["min"] >= 10_000_000
    assert list(result["labels"]) == ["parts"]


def test_a_refused_upgrade_says_why(tmp_path: Path, server: str) -> None:
    done = bw(tmp_path, "load", "--rate", "10", "--duration", "1s", "--target", f"{server}/secret")
    assert done.returncode == 2
    assert "upgrade refused 403 Forbidden" in done.stderr
    text = 'headers = {Authorization = "Bearer abc"}\nsubprotocols = ["other", "chat"]'
    assert errors(workload(tmp_path, f"{server}/token", text)) == {}


def test_a_silent_server_and_fragments_without_an_end(tmp_path: Path, server: str) -> None:
    result = load(tmp_path, f"{server}/silent", "--timeout", "50ms")
    assert errors(result) == {"ETIMEDOUT": 40}
    text = 'message_limit = "1M"\npayload = "x"'
    assert errors(workload(tmp_path, f"{server}/fragments", text)) == {"EMSGSIZE": 40}


def test_a_unix_socket(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    command = (sys.executable, str(STAND_INS / "websocket_server.py"), str(path))
    with started(*command):
        result = load(tmp_path, "ws://host/echo", "--unix-socket", str(path))
    assert errors(result) == {}


def test_a_mistake_is_reported_before_the_load(tmp_path: Path, server: str) -> None:
    for words, what in [
        (("--payload", "{}", "--answer", "/id"), "no member /id"),
        (("--answer", "first"), "none of next, none"),
        (("--events", "sse", "--payload", "x"), "websocket"),
        (("--events", "websocket", "--payload", "x"), "no end mark"),
    ]:
        done = bw(tmp_path, "load", "--rate", "9", "--duration", "1s", "--target", server, *words)
        assert (done.returncode, what in done.stderr) == (2, True), done.stderr


def test_bytes_that_are_no_frames(tmp_path: Path, server: str) -> None:
    """A server that answers the upgrade of the real one, and then with frames that have a mask."""
    address = server.removeprefix("ws://").split(":")

    def serve(one: socket.socket) -> None:
        real = socket.create_connection((address[0], int(address[1])))
        with contextlib.suppress(OSError), one, real:
            real.sendall(one.recv(65536))
            one.sendall(real.recv(65536))
            while one.recv(65536):
                one.sendall(b"\x81\x81abcd\x00")

    listener = socket.create_server(("127.0.0.1", 0))

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    url = f"ws://127.0.0.1:{listener.getsockname()[1]}/echo"
    result = load(tmp_path, url)
    listener.close()
    assert set(errors(result)) <= {"websocket protocol error", "ECONNRESET"}
    assert errors(result)["websocket protocol error"] > 0


@pytest.mark.skipif(NODE is None or not WS.is_dir(), reason="node and its ws are not installed")
def test_node_s_ws(tmp_path: Path) -> None:
    script = """
        const {WebSocketServer} = require('ws');
        const server = new WebSocketServer({port: 0, host: '127.0.0.1'}, () =>
            console.log('ws://127.0.0.1:' + server.address().port));
        server.on('connection', (one) => one.on('message', (data, binary) => {
            one.ping();
            one.send('news');
            one.send(data.subarray(0, 5), {binary, fin: false});
            one.send(data.subarray(5), {binary, fin: true});
        }));
    """
    (tmp_path / "server.js").write_text(script)
    (tmp_path / "node_modules").symlink_to(WS.parent)
    assert NODE is not None
    with started(NODE, str(tmp_path / "server.js")) as url:
        result = load(tmp_path, url, "--payload", "hello world", "--answer", "text:hello")
    assert (errors(result), result["target"]["pushes"]) == ({}, 40)
    assert result["kinds"]["all"]["bytes"] == 40 * len("hello world")
