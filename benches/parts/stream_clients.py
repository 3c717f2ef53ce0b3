"""Clients that rate servers of language models, run on the server of benches/stream-server: the
engine, AIPerf and guidellm; and what each says of its streams.

Decision: what a client says of a single stream is compared with the server's record of that
stream. AIPerf's streams are known by the header x-request-id, guidellm's by the id of the answer.
The engine sends in the order of its rows, over the loopback, so its streams are those of the same
rank by the kernel's stamps of their arrivals; it has rows of the first 300. All get their prompts
from a file or make them before they start, and neither of the others needs a network: the
tokenizer is one of bytes, made here.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import numpy as np
from numpy.typing import NDArray

from benchwright.features.load.response_times import decode_histogram
from parts.engine import ask

Document = dict[str, Any]
Times = NDArray[np.int64]
LIMIT_S = 300
"""Of a run of AIPerf or guidellm; they take 10 to 20 s to start."""
MODEL = "planned"
PROMPT = "Say a number of words"
PROMPTS = 10_000
TOKENIZER = """
import sys
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast
names = ["<unk>", *sorted(pre_tokenizers.ByteLevel.alphabet())]
made = Tokenizer(models.BPE({name: place for place, name in enumerate(names)}, [], unk_token="<unk>"))
made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
made.decoder = decoders.ByteLevel()
PreTrainedTokenizerFast(tokenizer_object=made, unk_token="<unk>").save_pretrained(sys.argv[1])
"""


class Asked(NamedTuple):
    """What a client is to do."""

    url: str
    """Of the server, without `/v1`."""
    streams: int
    """Of the whole run."""
    rate_per_s: float | None
    """Of an open loop with even starts; None: all start at once."""
    at_most: int
    """Streams in progress."""


class Said(NamedTuple):
    """What a client says of its streams."""

    first_ns: Times
    """From its own start of a stream to the first token, `(n,)`."""
    gaps_ns: Times | None
    """Between tokens, of all streams; None: it does not say."""
    from_intended_ns: Times | None
    """The same from when the stream was due; None: it does not say."""
    pairs: list[tuple[int, Document]]
    """The first of single streams, with the server's records of them."""
    failed: int
    words: Document
    """What only this client has."""


class ClientError(Exception):
    """A client did not run, with its last words."""


class Client(NamedTuple):
    """A client: how it is run, and how its result is read, beside the server's records or alone."""

    run: Callable[[Asked], Any]
    said: Callable[[Any, list[Document]], Said]
    counts: Callable[[Any], tuple[int, int]]
    """Events with content of the streams that succeeded, and how many failed."""


def engine(asked: Asked) -> Document:
    """Run the engine; return its result."""
    path = urlsplit(asked.url).path
    body = {"model": MODEL, "stream": True, "messages": [{"role": "user", "content": PROMPT}]}
    request = {
        "label": "chat",
        "method": "POST",
        "path": path + "/v1/chat/completions",
        "headers": [["content-type", "application/json"]],
        "body": json.dumps(body),
    }
    access = {
        "kinds": [["exchange", 1]],
        "size": {"type": "constant", "value": 1},
        "location": {"type": "uniform"},
        "align_bytes": 1,
    }
    # All at once: within a microsecond.
    rate_per_s = asked.rate_per_s or asked.streams * 1e6
    filament = {
        "type": "open",
        "arrival": {"type": "constant"},
        "rate": {"micro_per_s": round(rate_per_s * 1e6)},
        "count": asked.streams,
        "access": access,
    }
    target = {
        "kind": "http",
        "url": asked.url.removesuffix(path),
        "requests": [request],
        "connections": asked.at_most,
        "events": {"format": "sse", "meaning": "chat"},
    }
    workload = {"seed": 1, "filaments": [filament]}
    return ask({"type": "load", "target": target, "workload": workload, "depth": asked.at_most})


def engine_said(result: Document, truth: list[Document]) -> Said:
    """Return what the engine's result says."""
    streams = result["streams"]
    rows = sorted(streams["timeline"], key=lambda row: row[1])
    served = sorted(truth, key=lambda record: record["arrived_ns"])
    pairs = [
        (row[2] - row[1], record)
        for row, record in zip(rows, served, strict=False)
        if row[2] is not None
    ]
    words = {
        "read_lateness_p99_ns": streams["read_lateness_ns"]["p99"],
        "shared": streams["shared_events"],
        "events": streams["content_events"],
    }
    return Said(
        _values(streams["first_service_ns"]),
        _values(streams["gap_ns"]),
        _values(streams["first_ns"]),
        pairs,
        streams["operations"] - streams["succeeded"],
        words,
    )


def engine_counts(result: Document) -> tuple[int, int]:
    """Return the events with content, and the streams that failed."""
    streams = result["streams"]
    return streams["content_events"], streams["operations"] - streams["succeeded"]


def _values(histogram: Document) -> Times:
    found = decode_histogram(histogram["hdr"])
    return np.repeat((found.low + found.high) // 2, found.count)


class Peers:
    """AIPerf and guidellm, as scripts/stream_peers.sh has installed them."""

    def __init__(self, place: Path, scratch: Path) -> None:
        self.place, self.scratch = place, scratch
        self.tokenizer, self.prompts = scratch / "tokenizer", scratch / "prompts.jsonl"

    def clients(self) -> dict[str, Client]:
        """Return those that are installed, ready to run."""
        known = {
            "aiperf": Client(self.aiperf, aiperf_said, aiperf_counts),
            "guidellm": Client(self.guidellm, guidellm_said, guidellm_counts),
        }
        found = {name: one for name, one in known.items() if (self.place / name / "made").exists()}
        if found:
            python = self.place / next(iter(found)) / "bin" / "python"
            words = [str(python), "-c", TOKENIZER, str(self.tokenizer)]
            subprocess.run(words, check=True, capture_output=True)
            prompts = (json.dumps({"prompt": f"{PROMPT}: {n}"}) for n in range(PROMPTS))
            self.prompts.write_text("\n".join(prompts))
        return found

    def aiperf(self, asked: Asked) -> list[Document]:
        """Run AIPerf; return its records."""
        words = ["profile", "-m", MODEL, "--url", asked.url, "--endpoint-type", "chat"]
        words += ["--streaming", "--use-server-token-count", "--tokenizer", str(self.tokenizer)]
        words += ["--request-count", str(asked.streams), "--ui", "none"]
        words += ["--synthetic-input-tokens-mean", "20", "--synthetic-input-tokens-stddev", "0"]
        # In the open loop more than are in progress, unless the machine holds them up.
        words += ["--concurrency", str(asked.at_most)]
        if asked.rate_per_s is not None:
            words += ["--request-rate", f"{asked.rate_per_s:g}", "--arrival-pattern", "constant"]
        out = self._run("aiperf", words, "--artifact-dir")
        return [
            json.loads(line) for line in (out / "profile_export.jsonl").read_text().splitlines()
        ]

    def guidellm(self, asked: Asked) -> Document:
        """Run guidellm; return its benchmark."""
        backend = f"kind=openai_http,target={asked.url},model={MODEL}"
        backend += ",request_format=/v1/chat/completions"
        profile = f"kind=constant,rate={asked.rate_per_s},max_concurrency={asked.at_most}"
        if asked.rate_per_s is None:
            profile = f"kind=concurrent,streams={asked.streams}"
        words = ["run", "--backend", backend, "--profile", profile, "--disable-console"]
        words += ["--constraint", f"kind=max_requests,count={asked.streams}"]
        words += ["--tokenizer", f"kind=hf_auto,model={self.tokenizer}"]
        words += ["--data", f"kind=json_file,path={self.prompts}"]
        words += ["--output", "kind=json,path=result.json"]
        out = self._run("guidellm", words)
        benchmark: Document = json.loads((out / "result.json").read_text())["benchmarks"][0]
        return benchmark

    def _run(self, name: str, words: list[str], folder: str | None = None) -> Path:
        out = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=self.scratch))
        program = str(self.place / name / "bin" / name)
        command = [program, *words, *((folder, str(out)) if folder else ())]
        # guidellm asks the hub about a directory unless it may not; AIPerf the other way round.
        offline = {"HF_HUB_OFFLINE": "1"} if name == "guidellm" else {}
        environment = {**os.environ, **offline}
        how: Document = {"capture_output": True, "text": True, "cwd": out, "env": environment}
        try:
            done = subprocess.run(command, check=False, timeout=LIMIT_S, **how)
        except subprocess.TimeoutExpired as error:
            raise ClientError(f"{name} did not end within {LIMIT_S} s") from error
        if done.returncode or not any(out.iterdir()):
            raise ClientError(f"{name}: {(done.stdout + done.stderr)[-600:]}")
        return out


def aiperf_said(records: list[Document], truth: list[Document]) -> Said:
    """Return what AIPerf's records say."""
    served = {record["id"]: record for record in truth}
    good = [one for one in records if "time_to_first_token" in one["metrics"]]
    first = [_ns(one["metrics"]["time_to_first_token"]["value"]) for one in good]
    gaps = [gap for one in good for gap in one["metrics"]["inter_chunk_latency"]["value"]]
    pairs = [
        (value, served[one["metadata"]["x_request_id"]])
        for value, one in zip(first, good, strict=True)
        if one["metadata"]["x_request_id"] in served
    ]
    in_ns = np.array([_ns(gap) for gap in gaps])
    return Said(np.array(first), in_ns, None, pairs, len(records) - len(good), {})


def aiperf_counts(records: list[Document]) -> tuple[int, int]:
    """Return the events with content, and the streams that failed."""
    good = [one["metrics"] for one in records if not one.get("error")]
    gaps = [one.get("inter_chunk_latency", {"value": []})["value"] for one in good]
    firsts = sum("time_to_first_token" in one for one in good)
    return firsts + sum(map(len, gaps)), len(records) - len(good)


def guidellm_counts(benchmark: Document) -> tuple[int, int]:
    """Return the events with content, and the streams that failed."""
    requests = benchmark["requests"]
    content = [one["info"]["timings"]["token_iterations"] or 0 for one in requests["successful"]]
    return sum(content), len(requests["errored"])


def guidellm_said(benchmark: Document, truth: list[Document]) -> Said:
    """Return what guidellm's benchmark says."""
    served = {record["number"]: record for record in truth}
    good = benchmark["requests"]["successful"]
    first = [_ns(one["time_to_first_token_ms"]) for one in good]
    numbers = [int(one["response_id"].rpartition("-")[2]) for one in good]
    pairs = [
        (value, served[number])
        for value, number in zip(first, numbers, strict=True)
        if number in served
    ]
    failed = len(benchmark["requests"]["errored"]) + len(benchmark["requests"]["incomplete"])
    delays = [one["request_dispatch_delay"] for one in good]
    words = {"dispatch_delay_p99_ns": _ns(float(np.percentile(delays, 99)) * 1e3)}
    return Said(np.array(first), None, None, pairs, failed, words)


def _ns(milliseconds: float) -> int:
    return round(milliseconds * 1e6)
