"""How many requests waited in a language model's server, by its own metrics.

Purpose: the finding `server-queue`. A response that grows with the rate may wait in the server's queue
or be computed more slowly; the server knows which. Decision: `GET /metrics` once before the load, each
second during it, and once after it, in a thread of this program: the engine measures undisturbed, and a
server of one load is asked no more often than by a usual monitor of a test. A server that does not
answer at first is not asked again; no failure of it is one of the load. Sources: vLLM
(docs.vllm.ai/en/latest/usage/metrics.html), llama.cpp (tools/server/README.md), TGI
(huggingface.co/docs/text-generation-inference/reference/metrics), SGLang
(docs.sglang.ai/references/production_metrics.html).
"""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Iterator

import msgspec

from benchwright.features.load.parse import each_of
from benchwright.features.load.request import MEANINGS, Events, HttpTarget, LoadTarget
from benchwright.features.load.server_client import connected

_NAMES = (
    "vllm:num_requests_waiting",
    "llamacpp:requests_deferred",
    "tgi_queue_size",
    "sglang:num_queue_reqs",
)
"""Gauges of requests that wait, of one server each."""
_PERIOD_S = 1.0
_PATIENCE_S = 2.0
_MOST_BYTES = 2**22


class ServerQueue(msgspec.Struct, frozen=True):
    """What a server said of its queue [requests]."""

    name: str
    """Of its metric."""
    before: float
    during: tuple[float, ...]
    """Once a second."""
    after: float | None


class QueueWatch:
    """Asks a server while a load runs; `found` is what it said, None if it says nothing."""

    def __init__(self, target: HttpTarget) -> None:
        self._target = target
        self._ended = threading.Event()
        self._during: list[float] = []
        self._thread: threading.Thread | None = None
        self._before: tuple[str, float] | None = None
        self.found: ServerQueue | None = None

    def begin(self) -> None:
        """Ask for the first time, and go on if there is an answer."""
        self._before = _look(self._target)
        if self._before is not None:
            self._thread = threading.Thread(target=self._watch, daemon=True)
            self._thread.start()

    def _watch(self) -> None:
        while not self._ended.wait(_PERIOD_S):
            if (seen := _look(self._target)) is not None:
                self._during.append(seen[1])

    def end(self) -> None:
        """Ask for the last time."""
        self._ended.set()
        if self._thread is None or self._before is None:
            return
        self._thread.join(2 * _PATIENCE_S)
        last, (name, before) = _look(self._target), self._before
        after = None if last is None else last[1]
        self.found = ServerQueue(name, before, tuple(self._during), after)


@contextlib.contextmanager
def watched_queue(target: LoadTarget) -> Iterator[QueueWatch | None]:
    """Watch the queue of the server while the body runs; yield None where it is no language model's,
    or not the only one."""
    models = [
        one
        for one in each_of(target)
        if isinstance(one, HttpTarget)
        and isinstance(one.events, Events)
        and one.events.meaning in MEANINGS
    ]
    if len(models) != 1:
        yield None
        return
    watch = QueueWatch(models[0])
    watch.begin()
    try:
        yield watch
    finally:
        watch.end()


def _look(target: HttpTarget) -> tuple[str, float] | None:
    """Return the gauge of waiting requests and its value; None if the server does not say."""
    import http.client

    try:
        connection = connected(target, _PATIENCE_S)
        try:
            connection.request("GET", "/metrics")
            answer = connection.getresponse()
            text = answer.read(_MOST_BYTES).decode(errors="replace")
        finally:
            connection.close()
    except (OSError, ValueError, http.client.HTTPException):
        return None
    return waiting_of(text) if answer.status == http.client.OK else None


def waiting_of(text: str) -> tuple[str, float] | None:
    """Return the gauge of waiting requests in metrics of Prometheus' format, all its series together;
    None if there is none."""
    for name in _NAMES:
        values = re.findall(rf"^{name}(?:{{[^\n]*}})? ([0-9.eE+-]+)(?: \d+)?$", text, re.MULTILINE)
        with contextlib.suppress(ValueError):
            if values:
                return name, sum(map(float, values))
    return None
