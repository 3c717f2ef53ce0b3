"""The key of a language model's server reaches the server and nothing else; prompts are those of one run."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from bw_command import Done, bw

KEY = "sk-only-the-server-may-see-this"


class Model(ThreadingHTTPServer):
    """A language model that notes what it is asked, by whom, and what else runs meanwhile."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answer)
        self.prompts: list[str] = []
        self.keys: list[str | None] = []
        self.command_lines: list[bytes] = []


class Answer(BaseHTTPRequestHandler):
    """Answers with two tokens."""

    protocol_version = "HTTP/1.1"
    server: Model

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.prompts.append(body["messages"][0]["content"])
        self.server.keys.append(self.headers["authorization"])
        self.server.command_lines += _command_lines()
        said = [
            {"choices": [{"delta": {"role": "assistant", "content": ""}}]},
            *({"choices": [{"delta": {"content": word}}]} for word in ("one", " two")),
            {"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 2}},
        ]
        data = b"".join(b"data: %s\n\n" % text for text in (*map(_json, said), b"[DONE]"))
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        """Print nothing."""


def _json(value: object) -> bytes:
    return json.dumps(value).encode()


def _command_lines() -> Iterator[bytes]:
    """Yield the arguments of every process that can be read."""
    for process in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            yield process.read_bytes()
        except OSError:
            continue


@pytest.fixture
def model() -> Iterator[Model]:
    """A server that runs."""
    with Model() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def load(model: Model, directory: Path, *words: str) -> Done:
    """Run a load of the model with the key in the environment."""
    usual = ("--llm", "chat", "--model", "m", "--prompt-words", "5", "--connections", "2")
    pace = ("--rate", "40", "--duration", "500ms", "--max-errors", "100%")
    url = f"http://127.0.0.1:{model.server_address[1]}"
    secret = os.environ | {"OPENAI_API_KEY": KEY}
    return bw(directory, "load", "--target", url, *usual, *pace, *words, env=secret)


def test_the_key_is_seen_by_the_server_alone(tmp_path: Path, model: Model) -> None:
    done = load(model, tmp_path, "--study", "study")
    page = bw(tmp_path, "report", "study", "-o", "page.html")
    assert page.returncode == 0, page.stderr
    assert set(model.keys) == {f"Bearer {KEY}"}
    stored = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    # The request is there, with the name of the variable in place of its value.
    assert any(b"OPENAI_API_KEY" in contents for contents in stored.values())
    assert not [path for path, contents in stored.items() if KEY.encode() in contents]
    assert KEY not in done.stdout + done.stderr
    assert model.command_lines
    assert not any(KEY.encode() in line for line in model.command_lines)


def test_prompts_of_one_seed_are_others_in_the_next_run(tmp_path: Path, model: Model) -> None:
    runs = []
    for _ in range(2):
        done = load(model, tmp_path, "--json", "--seed", "7")
        assert json.loads(done.stdout)["result"]["streams"]["tokens"] > 0, done.stderr
        runs.append(list(model.prompts))
        model.prompts.clear()
    first, second = runs
    assert len(set(first)) == len(first)
    # A cache of prefixes ends where they differ: at the first word.
    assert not {one.split()[0] for one in first} & {one.split()[0] for one in second}
