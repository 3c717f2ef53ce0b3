"""The queue of a language model's server by its own metrics, and when it is a finding."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import msgspec
import pytest

from benchwright.features.load import server_queue
from benchwright.features.load.parse import parse_target, with_options
from benchwright.features.load.request import LoadTarget
from benchwright.features.load.server_queue import ServerQueue, waiting_of, watched_queue
from benchwright.features.load.stream_findings import server_queue as finding_of

VLLM = """\
# HELP vllm:num_requests_waiting Number of requests waiting to be processed.
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{engine="0",model_name="m"} 3.0
vllm:num_requests_waiting{engine="1",model_name="m"} 4.0
vllm:num_requests_waiting_total 99
"""


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (VLLM, ("vllm:num_requests_waiting", 7.0)),
        ("llamacpp:requests_deferred 2\n", ("llamacpp:requests_deferred", 2.0)),
        ("tgi_queue_size 0\n", ("tgi_queue_size", 0.0)),
        ('sglang:num_queue_reqs{a="b"} 1e1 1700000000\n', ("sglang:num_queue_reqs", 10.0)),
        ("tgi_queue_size_max 3\n", None),
        ("tgi_queue_size ...\n", None),
        ("<html>not found</html>", None),
    ],
)
def test_the_gauges_of_servers(text: str, found: tuple[str, float] | None) -> None:
    assert waiting_of(text) == found


class Metrics(ThreadingHTTPServer):
    """A server whose queue is one longer at each look, after `refused` looks without an answer."""

    def __init__(self, *, refused: int = 0) -> None:
        super().__init__(("127.0.0.1", 0), Answer)
        self.refused, self.looks = refused, 0
        self.third = threading.Event()


class Answer(BaseHTTPRequestHandler):
    """Answers with the queue."""

    server: Metrics

    def do_GET(self) -> None:
        server = self.server
        server.looks += 1
        refused = server.looks <= server.refused or self.path != "/metrics"
        self.send_response(404 if refused else 200)
        self.end_headers()
        self.wfile.write(f"tgi_queue_size {server.looks - 1}\n".encode())
        if server.looks == 3:
            server.third.set()

    def log_message(self, *_: object) -> None:
        """Print nothing."""


def model(server: Metrics) -> LoadTarget:
    """Return a target whose answers are those of a language model."""
    target = parse_target(f"http://127.0.0.1:{server.server_address[1]}/v1/chat/completions")
    return with_options(target, {"events": "sse", "meaning": "chat"})


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looks without a pause."""
    monkeypatch.setattr(server_queue, "_PERIOD_S", 0.001)


@pytest.fixture
def server() -> Iterator[Metrics]:
    """A server that runs."""
    with Metrics() as running:
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        yield running
        running.shutdown()
        thread.join()


@pytest.mark.usefixtures("quick")
def test_a_server_is_asked_before_during_and_after_a_load(server: Metrics) -> None:
    with watched_queue(model(server)) as watch:
        assert server.third.wait(30)
    assert watch is not None
    found = watch.found
    assert found is not None
    assert (found.name, found.before) == ("tgi_queue_size", 0)
    assert found.during[:1] == (1,)
    assert found.after == len(found.during) + 1


@pytest.mark.usefixtures("quick")
def test_a_server_without_metrics_is_asked_once(server: Metrics) -> None:
    server.refused = 99
    with watched_queue(model(server)) as watch:
        pass
    assert watch is not None
    assert watch.found is None
    assert server.looks == 1
    with watched_queue(parse_target("null")) as none:
        assert none is None


def test_what_is_a_finding() -> None:
    queue = ServerQueue("tgi_queue_size", 0, (0, 2, 5, 0), 0)
    (found,) = finding_of(queue, "x")
    assert found.code == "server-queue"
    for shown in ("tgi_queue_size", "1.75 on average", "5 at most", "2 of 4 looks", "0 after it"):
        assert shown in found.evidence
    assert not [*finding_of(msgspec.structs.replace(queue, during=(0, 0, 9)), "x")]
    before = msgspec.structs.replace(queue, before=1, during=(), after=None)
    (found,) = finding_of(before, "x")
    assert "1 before the load" in found.evidence
    assert "average" not in found.evidence
