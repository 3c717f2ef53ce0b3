"""Files that AIPerf and guidellm write here, on a server of streams, against their own summaries.

They are several GB (scripts/stream_peers.sh installs them), so this plays with BW_CALIBRATION=full.
"""

from __future__ import annotations

import json
import math
import os
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benches"))

from parts.stream_clients import MODEL, Asked, Peers

from benchwright.findings.result import TestResult
from benchwright.results.inputs import read_inputs

CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
PLACE = CACHE / "benchwright" / "stream-peers"
FULL = os.environ.get("BW_CALIBRATION") == "full"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not FULL, reason="BW_CALIBRATION=full runs AIPerf and guidellm"),
]
STREAMS, TOKENS = 20, 5


class Answer(BaseHTTPRequestHandler):
    """Answers each request with TOKENS tokens, the first after 20 ms, then one every 5 ms."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._begin("application/json")
        self._chunk(json.dumps({"object": "list", "data": [{"id": MODEL, "object": "model"}]}))
        self._chunk("")

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self._begin("text/event-stream")
        for number in range(TOKENS):
            time.sleep(0.005 if number else 0.02)
            self._event({"choices": [{"index": 0, "delta": {"content": "word "}}]})
        usage = {"prompt_tokens": 9, "completion_tokens": TOKENS, "total_tokens": 9 + TOKENS}
        self._event({"choices": [], "usage": usage})
        self._chunk("data: [DONE]\n\n")
        self._chunk("")

    def _begin(self, content: str) -> None:
        self.send_response(200)
        self.send_header("content-type", content)
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()

    def _event(self, data: dict[str, object]) -> None:
        more = {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": MODEL}
        self._chunk(f"data: {json.dumps(more | data)}\n\n")

    def _chunk(self, text: str) -> None:
        self.wfile.write(f"{len(text):x}\r\n{text}\r\n".encode())
        self.wfile.flush()

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@pytest.fixture(scope="module")
def asked() -> Iterator[Asked]:
    """A load on the server."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield Asked(f"http://127.0.0.1:{server.server_address[1]}", STREAMS, 20.0, 10)
    server.shutdown()
    server.server_close()


def peers(scratch: Path, name: str) -> Peers:
    """Return the clients, of which this one is installed."""
    found = Peers(PLACE, scratch)
    if name not in found.clients():
        pytest.skip(f"{name} is not installed: scripts/stream_peers.sh")
    return found


def mean(one: TestResult, name: str) -> float:
    return math.fsum(block.values[name] for block in one.blocks) / len(one.blocks)


def test_records_of_aiperf_give_its_summary(asked: Asked, tmp_path: Path) -> None:
    peers(tmp_path, "aiperf").aiperf(asked)
    (records,) = read_inputs([str(path) for path in tmp_path.glob("*/profile_export.jsonl")])
    (summary,) = read_inputs([str(path) for path in tmp_path.glob("*/profile_export_aiperf.json")])
    (run,) = summary.blocks
    assert len(records.blocks) == run.values["request_count"] == STREAMS
    for name in ("time_to_first_token", "inter_token_latency", "request_latency"):
        stated = run.values[f"{name}_avg"]
        assert mean(records, name) == pytest.approx(stated, rel=1e-9), name
    assert run.values["time_to_first_token_min"] > 0.02
    assert run.values["output_sequence_length_avg"] == TOKENS


def test_requests_of_guidellm_give_its_figures(asked: Asked, tmp_path: Path) -> None:
    peers(tmp_path, "guidellm").guidellm(asked)
    (one,) = read_inputs([str(path) for path in tmp_path.glob("*/result.json")])
    (file,) = tmp_path.glob("*/result.json")
    said = json.loads(file.read_text())["benchmarks"][0]["metrics"]
    assert one.name == "constant@20.00"
    assert len(one.blocks) == said["request_totals"]["successful"] == STREAMS
    assert not one.session_findings
    first = said["time_to_first_token_ms"]["successful"]["mean"]
    assert mean(one, "time_to_first_token") == pytest.approx(first / 1e3, rel=1e-9)
    stated = {summary.name: summary.mean for summary in one.summaries}
    gap = said["inter_token_latency_ms"]["successful"]["mean"]
    assert stated["inter_token_latency_mean"] == pytest.approx(gap / 1e3, rel=1e-12)
