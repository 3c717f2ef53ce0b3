"""`bw load` on answers that are streams of events: real servers, every shape, and broken ones."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bw_command import bw
from event_server import SHAPES, event_server
from ssh_server import free_port
from started_server import started
from tiny_model import write_model

STAND_INS = Path(__file__).parents[1] / "stand_ins"
NGINX = shutil.which("nginx", path="/usr/sbin:/usr/bin:/sbin:/bin")
STREAMS = 10
"""Of a load."""
CONFIGURATION = """
daemon off; master_process off; pid nginx.pid; error_log error.log;
events {{ worker_connections 1024; }}
http {{
    access_log off;
    client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi;
    uwsgi_temp_path uwsgi; scgi_temp_path scgi;
    server {{
        listen 127.0.0.1:{ports[0]};
        listen 127.0.0.1:{ports[1]} http2;
        location /buffered/ {{ proxy_pass {url}/; }}
        location /passed/ {{ proxy_pass {url}/; proxy_buffering off; }}
    }}
}}
"""


@pytest.fixture(scope="module")
def events() -> Iterator[str]:
    """A server of every shape."""
    with event_server() as url:
        yield url


def load(directory: Path, url: str, *words: str, streams: int = STREAMS) -> dict[str, Any]:
    """Return the document of a load of a chat, whatever its exit status."""
    usual = ("--llm", "chat", "--model", "tiny", "--prompt-words", "5", "--output-tokens", "8")
    pace = ("--rate", "50", "--arrival", "constant", "--duration", f"{streams / 50:g}s")
    done = bw(directory, "load", "--target", url, *usual, *pace, "--json", *words)
    assert done.stdout, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("name", SHAPES)
def test_each_shape_is_read_as_what_it_is(tmp_path: Path, events: str, name: str) -> None:
    shape = SHAPES[name]
    result = load(tmp_path, f"{events}/shape/{name}")["result"]
    streams = result["streams"]
    assert streams["operations"] == STREAMS
    if shape.trouble is None:
        assert streams["succeeded"] == STREAMS
        assert streams["content_events"] == STREAMS * shape.content
        assert streams["tokens"] == STREAMS * (shape.tokens or 0)
        assert result["counts"]["errors"] == 0
    else:
        assert streams["succeeded"] == 0
        assert result["kinds"]["all"]["errors"] == {shape.trouble: STREAMS}


def test_pings_and_crlf_of_sse_starlette(tmp_path: Path) -> None:
    with started(sys.executable, str(STAND_INS / "sse_starlette_server.py"), "0.004") as url:
        streams = load(tmp_path, url)["result"]["streams"]
    assert streams["succeeded"] == STREAMS
    assert streams["content_events"] == streams["tokens"] == 3 * STREAMS
    assert streams["gap_ns"]["count"] + streams["shared_events"] == 2 * STREAMS


@pytest.fixture
def proxy(tmp_path: Path, events: str) -> Iterator[tuple[int, int]]:
    """Nginx before the server of shapes; its ports of HTTP/1.1 and 2.

    It asks for HTTP/1.0, as by default: of an answer in chunks it would gather nothing.
    """
    if NGINX is None:
        pytest.skip("nginx is not installed (apt-get install nginx-light)")
    ports = free_port(), free_port()
    text = CONFIGURATION.format(ports=ports, url=events)
    (tmp_path / "conf").write_text(("user root;" if os.geteuid() == 0 else "") + text)
    command = [NGINX, "-e", "error.log", "-c", "conf", "-p", str(tmp_path)]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        while True:
            assert process.poll() is None, (tmp_path / "error.log").read_text()
            with contextlib.suppress(OSError):
                socket.create_connection(("127.0.0.1", ports[1]), 5).close()
                break
            time.sleep(0.01)
        yield ports
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("http", ["1.1", "2"])
def test_what_a_proxy_gathers_is_known_to_share_reads(
    tmp_path: Path, proxy: tuple[int, int], http: str
) -> None:
    base = f"http://127.0.0.1:{proxy[http == '2']}"
    passed, buffered = (
        load(tmp_path, f"{base}/{way}/shape/comments", "--http", http)
        for way in ("passed", "buffered")
    )
    for found in (passed, buffered):
        streams = found["result"]["streams"]
        assert streams["succeeded"] == STREAMS
        assert streams["content_events"] == streams["tokens"] == 3 * STREAMS
        assert streams["gap_ns"]["count"] + streams["shared_events"] == 2 * STREAMS
    # What is gathered comes in one piece; of the rest, only what the engine was late to read.
    assert buffered["result"]["streams"]["shared_events"] == 2 * STREAMS
    assert passed["result"]["streams"]["shared_events"] < 2 * STREAMS
    codes = {finding["code"] for finding in buffered["findings"]}
    assert "events-coalesced" in codes


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """llama.cpp's own server with a model of random weights."""
    pytest.importorskip("xllamacpp", reason="xllamacpp has no wheel for this machine")
    model = write_model(tmp_path_factory.mktemp("model") / "tiny.gguf")
    with started(
        sys.executable, str(STAND_INS / "tiny_model.py"), str(model), "4", stderr=subprocess.DEVNULL
    ) as url:
        yield url


def predicted(url: str) -> int:
    """Return the tokens that llama.cpp has counted itself."""
    with urllib.request.urlopen(f"{url}/metrics", timeout=30) as answer:
        found = re.search(r"^llamacpp:tokens_predicted_total (\d+)$", answer.read().decode(), re.M)
    assert found is not None
    return int(found[1])


@pytest.mark.parametrize("api", ["chat", "completions", "responses"])
def test_tokens_of_llama_cpp_are_those_that_it_counts(tmp_path: Path, llama: str, api: str) -> None:
    before = predicted(llama)
    streams = load(tmp_path, llama, "--llm", api)["result"]["streams"]
    assert streams["operations"] == streams["succeeded"] == streams["with_tokens"] == STREAMS
    # One more request, before the load, asks what the server reports.
    assert 0 < streams["tokens"] <= predicted(llama) - before <= streams["tokens"] + 8
    # Bytes of one character are tokens of their own, and come together.
    assert 0 < streams["content_events"] <= streams["tokens"]
    assert streams["first_ns"]["max"] <= streams["last_ns"]["max"]
    assert streams["prompt_tokens"] > 5 * STREAMS


def test_a_search_says_that_requests_waited_in_the_server(tmp_path: Path, llama: str) -> None:
    model = ("--llm", "chat", "--model", "tiny", "--prompt-words", "100", "--connections", "200")
    words = ("--axis", "rate", "--start", "200", "--highest", "200", "--hold", "3s", "--json")
    done = bw(tmp_path, "ramp", "--target", llama, *model, "--depth", "200", *words)
    found = json.loads(done.stdout)
    assert any("server-queue" in trial["marks"] for trial in found["trials"]), done.stderr
    assert "server-queue" in {finding["code"] for finding in found["findings"]}


def test_a_replay_has_the_lengths_and_shared_prefixes_of_its_trace(
    tmp_path: Path, llama: str
) -> None:
    prompts = [(1300, [1, 2, 3]), (1400, [1, 2, 4]), (700, [1, 5])]
    rows = (
        {
            "timestamp": 4000 * at,
            "input_length": length,
            "output_length": 4 + at,
            "hash_ids": blocks,
        }
        for at, (length, blocks) in enumerate(prompts)
    )
    trace = tmp_path / "mooncake.jsonl"
    trace.write_text("".join(json.dumps(row) + "\n" for row in rows))
    model = ("--llm", "chat", "--model", "tiny", "--ignore-eos")
    words = ("replay", str(trace), "--speed", "2x", "--target", llama, *model, "--json")
    streams = json.loads(bw(tmp_path, *words).stdout)["result"]["streams"]
    assert [row[0] for row in streams["timeline"]] == [0, 2_000_000_000, 4_000_000_000]
    assert streams["tokens"] == 4 + 5 + 6
    # Two blocks of the first are in the second, and one is in the third.
    assert streams["prompt_tokens"] == pytest.approx(1300 + 1400 + 700, rel=0.03)
    assert streams["cached_tokens"] == pytest.approx(3 * 512, rel=0.1)


def test_later_turns_find_the_earlier_ones_in_the_cache(tmp_path: Path, llama: str) -> None:
    # Few at a time: a conversation keeps its place in the cache only if it finds a slot.
    words = ("--turns", "3", "--rate", "3", "--prompt-words", "20", "--duration", "2s")
    found = load(tmp_path, llama, *words, "--workers", "2")
    streams = found["result"]["streams"]
    assert streams["operations"] == streams["succeeded"] > 3
    assert streams["cached_tokens"] > streams["prompt_tokens"] / 4
    assert "prefix-cache-warm" not in {finding["code"] for finding in found["findings"]}


@pytest.mark.parametrize(
    ("name", "words", "trouble"),
    [
        ("silent", ("--first-timeout", "200ms"), "ETIMEDOUT"),
        ("trickle", ("--gap-timeout", "200ms"), "stream stalled"),
        ("endless-line", ("--timeout", "1s"), "ETIMEDOUT"),
        ("too-short", (), "stream cut"),
        ("too-long", (), "stream cut"),
        ("wrong-chunk", (), "EPROTO"),
    ],
)
def test_broken_streams_fail_by_their_names(
    tmp_path: Path, events: str, name: str, words: tuple[str, ...], trouble: str
) -> None:
    found = load(tmp_path, f"{events}/hostile/{name}", *words, streams=2)["result"]
    assert found["streams"]["succeeded"] == 0
    assert found["kinds"]["all"]["errors"] == {trouble: 2}


def test_requests_that_wait_in_the_server_are_said_by_the_server(
    tmp_path: Path, llama: str
) -> None:
    words = ("--rate", "100", "--duration", "1500ms", "--connections", "60", "--prompt-words", "99")
    found = load(tmp_path, llama, *words, "--output-tokens", "80", "--depth", "200")
    (queue,) = [one for one in found["findings"] if one["code"] == "server-queue"]
    assert "llamacpp:requests_deferred" in queue["evidence"]
