"""`bw ramp` as a user runs it: killed on its way and resumed; our engine over real HTTP."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from benchwright.findings.codes import LIMITER_CODES
from benchwright.study.journal import Study
from benchwright.trial import bench as leftovers
from bw_command import bw_words

PATIENCE_S = 120.0
GEN = """
import json, math, sys
with open("begun", "a") as marks:
    marks.write("x")
n, seconds = float(sys.argv[1]), float(sys.argv[2])
x = 100 * n / (1 + 0.05 * (n - 1) + 0.004 * n * (n - 1))
rows = [[at, round(x * (1 + 0.02 * math.sin(12.9 * (n + at)))), n / x * 1e3]
        for at in range(int(seconds))]
print(json.dumps({"tps": x, "mean": n / x * 1e3, "rows": rows}))
"""


def ramp() -> list[str]:
    """Return the command line of a ramp of the generator."""
    gen = f"{sys.executable} gen.py {{users}} {{duration}}"
    told = ("--throughput", "/tps", "--response", "/mean", "--series", "/rows")
    options = ("--seed", "3", "--json", "--quiet")
    return bw_words("ramp", "--command", gen, *told, *options)


def result_of(text: str) -> dict[str, Any]:
    """Return a document without what the clock and other programs of the machine decide."""
    document: dict[str, Any] = json.loads(text)
    for member in ("seconds", "study", "session", "trials"):
        document.pop(member)
    document["findings"] = [
        finding
        for finding in document["findings"]
        if finding["code"] not in LIMITER_CODES and finding["code"] != "errors-in-kernel-log"
    ]
    return document


def run(directory: Path, *words: str) -> str:
    """Run a command line to its good end and return what it printed."""
    done = subprocess.run(words, cwd=directory, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return done.stdout


@contextlib.contextmanager
def begun(directory: Path, trials: int) -> Iterator[subprocess.Popen[str]]:
    """Start a ramp and wait until so many trials have begun."""
    process = subprocess.Popen(
        ramp(),
        cwd=directory,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    marks = directory / "begun"
    try:
        until = time.monotonic() + PATIENCE_S
        while not marks.exists() or marks.stat().st_size < trials:
            assert process.poll() is None, "it ended too early"
            assert time.monotonic() < until, "no trial begins"
            time.sleep(0.01)
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        end_leftovers(directory / "bw-study")


def end_leftovers(place: Path) -> None:
    """End what a killed ramp left behind."""
    if place.exists():
        with contextlib.closing(Study.open_to_read(place)) as study:
            for session in study.sessions():
                leftovers.end_leftovers(session.info.options["token"])


def without_use(value: Any) -> Any:
    """Return a result without how busy the machine was, which differs from run to run."""
    if isinstance(value, list):
        return [without_use(one) for one in value]
    if not isinstance(value, dict):
        return value
    kept = {name: one for name, one in value.items() if name not in ("resources", "network")}
    return {name: without_use(one) for name, one in kept.items()}


@pytest.mark.parametrize("trials", [1, 5])
def test_a_killed_ramp_resumes_to_the_same_answer(tmp_path: Path, trials: int) -> None:
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    for place in (whole, cut):
        place.mkdir()
        (place / "gen.py").write_text(GEN)
    expected = result_of(run(whole, *ramp()))
    with begun(cut, trials) as process:
        os.kill(process.pid, signal.SIGKILL)
        process.wait(PATIENCE_S)
        found = result_of(run(cut, *bw_words("resume", "--json", "--quiet")))
    assert without_use(found) == without_use(expected)


def test_an_interrupted_ramp_tells_what_it_knows_and_resumes(tmp_path: Path) -> None:
    slow = GEN.replace("import json, math, sys", "import json, math, sys, time")
    (tmp_path / "gen.py").write_text(slow + "\ntime.sleep(0.4)\n")
    with begun(tmp_path, 3) as process:
        os.kill(process.pid, signal.SIGINT)
        out, _ = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 130
        partial = json.loads(out)
        assert partial["status"] == "interrupted"
        assert len(partial["points"]) >= 2
        whole = json.loads(run(tmp_path, *bw_words("resume", "--json", "--quiet")))
    assert whole["status"] == "saturated"
    assert len(whole["points"]) > len(partial["points"])
    words = ("ramp", "--study", "bw-study", "--json", "--quiet", "--plot", "again.svg")
    assert json.loads(run(tmp_path, *bw_words(*words)))["points"] == whole["points"]
    assert (tmp_path / "again.svg").stat().st_size > 0


class _Answer(BaseHTTPRequestHandler):
    """Answers after 5 ms, one request at a time: a queue with one server."""

    protocol_version = "HTTP/1.1"
    lock = threading.Lock()

    def do_GET(self) -> None:
        with self.lock:
            time.sleep(0.005)
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"ok")

    def log_message(self, *_: object) -> None:
        pass


def test_our_engine_ramps_the_users_of_a_real_server(tmp_path: Path) -> None:
    """One at a time, 5 ms each: more users wait longer, and are served no faster."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Answer)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        target = f"http://127.0.0.1:{server.server_port}/"
        (tmp_path / "web.toml").write_text(f'[load]\ntarget = "{target}"\n')
        options = ("--hold", "1s", "--highest", "8", "--json", "--quiet")
        document = json.loads(run(tmp_path, *bw_words("ramp", "web.toml", *options)))
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
    points = {point["level"]: point for point in document["points"]}
    assert all(point["error_share"] == 0 for point in points.values())
    assert max(p["throughput"]["value"] for p in points.values()) <= 200
    assert points[max(points)]["response_ms_mean"] > points[1]["response_ms_mean"]
    assert {trial["users"] for trial in document["trials"]} <= {1, 2, 4, 8}
