"""`bw load` with the real engine: counts, files, servers, suites, studies, Python.

Nothing here asserts a time: counts, orders and shapes do not depend on the machine.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import resource
import signal
import socketserver
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from bw_command import Done, bw

ROOT = Path(__file__).parents[2]
QUANTILES = ("min", "p50", "p90", "p95", "p98", "p99", "p99.9", "p99.99", "max")


def document(done: Done) -> dict[str, Any]:
    """Return the document of a load that went well."""
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    for kind in found["result"]["kinds"].values():
        for times in (kind["issue_error_ns"], kind["service_ns"], kind["response_ns"]):
            order = [times[name] for name in QUANTILES]
            assert order == sorted(order, key=lambda ns: ns or 0)
    return found


def codes(found: dict[str, Any]) -> set[str]:
    """Return the codes of a document's findings."""
    return {finding["code"] for finding in found["findings"]}


CONSTANT = ("--rate", "1k", "--arrival", "constant", "--duration", "1s")


def test_every_operation_is_issued_and_told(tmp_path: Path) -> None:
    found = document(bw(tmp_path, "load", *CONSTANT, "--target", "null", "--json"))
    counts = found["result"]["counts"]
    assert counts["intended"] == counts["issued"] == counts["completed"] == 1000
    assert counts["early"] == counts["errors"] == counts["dropped"] == 0
    assert found["result"]["kinds"]["read"]["response_ns"]["count"] == 1000
    assert found["metrics"]["intended_rate_per_s"] == pytest.approx(1000, rel=0.01)
    intervals = found["result"]["intervals"]
    assert sum(one["intended"] for one in intervals) == 1000
    assert sum(one["completed"] for one in intervals) == 1000


def test_the_report_is_for_a_person(tmp_path: Path) -> None:
    done = bw(tmp_path, "load", *CONSTANT, "--read", "50%", "--target", "null")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("read and write: ")
    for part in ("0 of 1,000 failed", "issue error", "mean", "\nwrite", "p99.99"):
        assert part in done.stdout


@pytest.mark.parametrize(("low", "policy"), [("nice", "SCHED_OTHER"), ("idle", "SCHED_IDLE")])
def test_a_low_priority_is_told_as_the_kernel_has_it(tmp_path: Path, low: str, policy: str) -> None:
    words = ("load", *CONSTANT, "--target", "null", "--low-priority", low)
    (worker,) = document(bw(tmp_path, *words, "--json"))["result"]["workers"]
    assert worker["scheduling"]["policy"] == policy
    nice = {"nice": 19, "idle": os.nice(0)}[low]
    assert worker["scheduling"]["nice"] == nice
    told = {"nice": "SCHED_OTHER, nice 19", "idle": "SCHED_IDLE"}[low]
    report = bw(tmp_path, *words, "--verbose").stdout
    assert f"spin; 1 worker; {told}\n" in report


def test_a_seed_makes_the_same_operations(tmp_path: Path) -> None:
    words = ("load", "--rate", "2k", "--read", "70%", "--duration", "500ms", "--json")
    runs = [
        document(bw(tmp_path, *words, "--seed", seed, "--target", "null"))
        for seed in ("3", "3", "4")
    ]
    reads = [run["result"]["kinds"]["read"]["operations"] for run in runs]
    counts = [run["result"]["counts"]["intended"] for run in runs]
    assert (reads[0], counts[0]) == (reads[1], counts[1])
    assert (reads[0], counts[0]) != (reads[2], counts[2])


def test_a_stall_is_in_the_response_times_in_full(tmp_path: Path) -> None:
    (tmp_path / "stall.toml").write_text(
        """
[run]
duration = "1500ms"
depth = 10000
[target]
to = "null"
stalls = [{at = "500ms", for = "500ms"}]
[[filament]]
type = "open"
arrival = "constant"
rate = "1k"
"""
    )
    found = document(bw(tmp_path, "load", "stall.toml", "--json"))
    response = found["result"]["kinds"]["all"]["response_ns"]
    assert response["count"] == 1500
    assert response["max"] >= 499_000_000
    # Of 1,500 arrivals 500 come in the stall: one third waits, evenly 0 to 500 ms.
    assert response["p90"] >= 300_000_000


def test_a_closed_loop_to_a_file(tmp_path: Path) -> None:
    words = ("load", "--depth", "2", "--duration", "300ms", "--size", "8M")
    found = document(bw(tmp_path, *words, "--target", "file.img", "--json"))
    assert (tmp_path / "file.img").stat().st_size == 8 * 2**20
    assert found["result"]["target"]["size_bytes"] == 8 * 2**20
    assert found["result"]["counts"]["completed"] > 0
    assert "closed-loop" in codes(found)
    assert found["loop"] == {"open": False, "closed": True}


@pytest.mark.parametrize(
    "words",
    [
        ("--depth", "4", "--target", "null"),
        ("--depth", "8", "--warm-up", "100ms", "--target", "null"),
        ("--depth", "2", "--workers", "2", "--size", "8M", "--target", "file.img"),
    ],
)
def test_what_was_in_flight_is_throughput_times_time(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    found = document(bw(tmp_path, "load", "--duration", "400ms", *words, "--json"))
    law = found["result"]["little_law"]
    assert law["rate_per_s"] > 0
    product = law["rate_per_s"] * law["time_ns_mean"] / 1e9
    # The same stamps give both, so only rounding differs.
    assert law["in_flight_mean"] == pytest.approx(product, rel=1e-6)
    assert "little-law" not in codes(found)
    counts = found["result"]["counts"]
    assert (counts["stray"], counts["undeliverable"]) == (0, 0)


@pytest.mark.parametrize("warm_up", ["0s", "600ms"])
def test_the_rate_of_a_saturated_target_is_what_ended_in_the_measured_part(
    tmp_path: Path, warm_up: str
) -> None:
    words = ("--rate", "4k", "--depth", "1", "--warm-up", warm_up, "--duration", "300ms")
    words += ("--target", "null", "--service", "1ms", "--interval", "100ms")
    result = document(bw(tmp_path, "load", *words, "--json"))["result"]
    flow, counts = result["flow"], result["counts"]
    assert result["achieved_rate_per_s"] == pytest.approx(flow["completed"] / 0.3)
    # The intervals count the same ends, each at most a few operations late.
    from_ns = 0 if warm_up == "0s" else 600_000_000
    within = [one for one in result["intervals"] if from_ns <= one["start_ns"] < from_ns + 3e8]
    assert sum(one["completed"] for one in within) == pytest.approx(flow["completed"], abs=20)
    assert flow["completed"] > 0
    came = flow["waiting_at_start"] + counts["intended"]
    assert came == flow["issued"] + flow["waiting_at_end"]
    there = flow["in_flight_at_start"] + flow["issued"]
    assert there == flow["completed"] + flow["in_flight_at_end"]


def test_operations_that_never_end_break_littles_law(tmp_path: Path) -> None:
    (tmp_path / "stall.toml").write_text(
        """
[run]
duration = "400ms"
drain = "0s"
max_errors = "100%"
[target]
to = "null"
stalls = [{at = "200ms", for = "60s"}]
[[filament]]
type = "closed"
users = 8
think = "1ms"
"""
    )
    found = document(bw(tmp_path, "load", "stall.toml", "--json"))
    assert found["result"]["counts"]["unfinished"] == 8
    assert {"little-law", "operations-unfinished"} <= codes(found)


def test_writes_over_data_are_refused(tmp_path: Path) -> None:
    (tmp_path / "precious").write_bytes(b"x" * 2**20)
    words = ("load", "--rate", "100", "--read", "0%", "--duration", "100ms")
    done = bw(tmp_path, *words, "--target", "precious")
    assert done.returncode == 2
    assert "--overwrite" in done.stderr
    assert (tmp_path / "precious").read_bytes() == b"x" * 2**20
    again = bw(tmp_path, *words, "--target", "precious", "--overwrite", "--json")
    assert document(again)["result"]["kinds"]["write"]["operations"] > 0


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (("--target", "no/such/file"), "no/such/file"),
        (("--target", "tcp://127.0.0.1:1"), "127.0.0.1"),
        (("--target", "no/such/file", "--size", "1M"), "there is no folder no"),
        (("--target", "null", "--cpu", "4000"), "4000"),
        (("--target", "null", "--fifo", "100"), "--fifo: fifo: priorities are"),
        (
            ("--target", "null", "--fifo", "1", "--low-priority", "idle"),
            "--low-priority: low_priority: not with a real-time priority",
        ),
        (("--target", "null", "--low-priority", "least"), "nice, idle"),
        (
            ("--target", "f", "--size", "1M", "--block", "2M"),
            "--block: size: 2097152 bytes in one operation",
        ),
    ],
)
def test_what_cannot_be_done_is_told(tmp_path: Path, words: tuple[str, ...], part: str) -> None:
    done = bw(tmp_path, "load", "--rate", "10", "--duration", "100ms", *words)
    assert done.returncode in (1, 2), done.stdout
    assert part in done.stderr
    assert "Traceback" not in done.stderr


def test_what_cannot_be_done_is_told_where_the_workload_says_it(tmp_path: Path) -> None:
    (tmp_path / "w.toml").write_text(
        """[[filament]]
type = "open"
rate = "10"
[[filament]]
type = "open"
rate = "10"
region = {offset = "10M", length = "1M"}
[[filament]]
type = "open"
rate = "10"
arrival = "gamma:5000"
"""
    )
    done = bw(tmp_path, "load", "w.toml", "--target", "f", "--size", "1M")
    assert done.returncode == 2
    assert "w.toml:7:10: region: " in done.stderr
    assert "w.toml:11:11: gamma: " in done.stderr


class _Echo(socketserver.BaseRequestHandler):
    """Sends back what it is sent."""

    def handle(self) -> None:
        """Serve one connection."""
        while data := self.request.recv(65536):
            self.request.sendall(data)


@pytest.fixture
def echo() -> Iterator[int]:
    """Yield the port of an echo server on the loopback."""
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), _Echo) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()


def test_a_server_is_loaded_by_exchanges(tmp_path: Path, echo: int) -> None:
    words = ("load", *CONSTANT, "--connections", "4", "--json")
    found = document(bw(tmp_path, *words, "--target", f"tcp://127.0.0.1:{echo}"))
    counts = found["result"]["counts"]
    assert counts["intended"] == 1000
    # On a busy machine the end may find some that still waited for a connection.
    assert counts["issued"] + counts["waiting"] == 1000
    exchanged = found["result"]["kinds"]["exchange"]["operations"]
    assert exchanged == counts["completed"] == counts["issued"] > 0
    assert counts["errors"] == counts["dropped"] == counts["unfinished"] == 0


@pytest.fixture
def unix_echo(tmp_path: Path) -> Iterator[None]:
    """Serve echoes at the Unix socket `echo` of the test's directory."""
    path = str(tmp_path / "echo")
    with socketserver.ThreadingUnixStreamServer(path, _Echo) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.usefixtures("unix_echo")
def test_a_unix_socket_is_loaded_with_several_operations_on_each_connection(tmp_path: Path) -> None:
    words = (
        *("load", *CONSTANT, "--connections", "4", "--outstanding", "3"),
        *("--workers", "2", "--target", "tcp://localhost:1", "--unix-socket", "echo"),
    )
    found = document(bw(tmp_path, *words, "--json"))
    target, counts = found["result"]["target"], found["result"]["counts"]
    assert target["address"] == "unix:echo"
    assert (target["connections"], target["outstanding"]) == (4, 3)
    assert target["connect_ns"]["count"] == 4 + target["reconnects"]
    assert "handshake_ns" not in target
    assert counts["issued"] == counts["completed"] > 0
    assert counts["errors"] == 0
    report = bw(tmp_path, *words).stdout
    assert re.search(r"connections +4 connects: mean .*, p99 .*, max ", report), report


def running(directory: Path, *words: str) -> subprocess.Popen[str]:
    """Return a load of a minute that has told its first progress."""
    load = ("load", "--rate", "1k", "--duration", "60s", "--target", "null")
    process = subprocess.Popen(
        [sys.executable, "-m", "benchwright.cli.main", *load, *words],
        cwd=directory,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    process.stderr.readline()
    return process


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupt_ends_it_with_a_result(tmp_path: Path, number: int) -> None:
    process = running(tmp_path, "--json")
    process.send_signal(number)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    found = json.loads(out)
    assert found["result"]["interrupted"] is True
    assert found["result"]["counts"]["completed"] > 0
    assert "load-interrupted" in codes(found)


def test_no_engine_outlives_a_killed_bw(tmp_path: Path) -> None:
    process = running(tmp_path)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()
    (engine,) = map(int, children.split())
    process.kill()
    process.wait()
    for pipe in (process.stdout, process.stderr):
        assert pipe is not None
        pipe.close()
    until = time.monotonic() + 30
    while _runs(engine):
        assert time.monotonic() < until, "the engine is still there"
        time.sleep(0.05)


def _runs(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return False
    return state != "Z"


def test_a_suite_repeats_a_load(tmp_path: Path) -> None:
    load = [sys.executable, "-m", "benchwright.cli.main", "load"]
    words = ["--rate", "{rate}", "--arrival", "constant", "--duration", "100ms"]
    done = bw(
        tmp_path,
        *("run", "--json", "-P", "rate=100,200", "--min-runs", "3", "--max-runs", "3"),
        *("--metric", "response_ns_p99", "--", *load, *words, "--target", "null"),
    )
    assert done.returncode == 0, done.stderr
    tests = json.loads(done.stdout)["tests"]
    assert len(tests) == 2
    for test, completed in zip(tests, (10, 20), strict=True):
        numbers = {q["name"]: q for q in test["quantities"]}
        assert numbers["completed"]["mean"] == completed
        assert numbers["response_ns_p99"]["count"] == 3


def test_a_trial_fails_with_its_load(tmp_path: Path) -> None:
    load = [sys.executable, "-m", "benchwright.cli.main", "load"]
    # One place in flight, an operation holds it for 50 ms, and the others are dropped.
    drops = "--rate 200 --duration 200ms --depth 1 --full drop --service 50ms"
    words = (*load, *drops.split(), "--target", "null")
    once = ("run", "--min-runs", "1", "--max-runs", "1", "--")
    assert bw(tmp_path, *once, *words).returncode == 0
    failed = bw(tmp_path, *once, *words, "--max-errors", "10%")
    assert failed.returncode == 1
    assert "trial 1: exited with status 1; stored in" in failed.stderr
    # The sentence has the command, and nothing else repeats it.
    assert (failed.stdout + failed.stderr).count("--max-errors 10%`") == 1


def test_a_toml_suite_takes_a_load_as_its_command(tmp_path: Path) -> None:
    load = f"{sys.executable} -m benchwright.cli.main load"
    (tmp_path / "s.toml").write_text(
        f"""
[[test]]
name = "null"
exec = "{load} --rate 500 --duration 100ms --target null"
[test.until]
count = 2
[test.metrics]
rate_per_s = {{better = "higher"}}
"""
    )
    done = bw(tmp_path, "run", "s.toml", "--json")
    assert done.returncode == 0, done.stderr
    (test,) = json.loads(done.stdout)["tests"]
    assert {"rate_per_s", "response_ns_p50"} <= {q["name"] for q in test["quantities"]}


def test_a_study_keeps_a_load(tmp_path: Path) -> None:
    done = bw(tmp_path, "load", *CONSTANT, "--target", "null", "--study", "st")
    assert done.returncode == 0, done.stderr
    # The answer and the table of a load without a study.
    assert "0 of 1,000 failed" in done.stdout.splitlines()[0]
    assert re.search(r"^ +issue error +1,000 ", done.stdout, re.MULTILINE)
    assert re.search(r"^target +null$", done.stdout, re.MULTILINE)
    assert "note: only 1 load was run" in done.stdout
    assert "response_ns_mean" not in done.stdout
    again = bw(tmp_path, "stats", "st").stdout
    report, _rest = done.stdout.split("\n\nload: ", 1)
    assert again.startswith(f"{report}\n\nload\n")
    read = bw(tmp_path, "stats", "st", "--json")
    (test,) = json.loads(read.stdout)["inputs"]
    numbers = {q["name"]: q["mean"] for q in test["quantities"]}
    assert numbers["completed"] == 1000
    with gzip.open(tmp_path / "st/logs/s1/load/exec-1.out.gz") as file:
        kept = json.load(file)
    assert kept["schema"] == "benchwright/load/1"
    assert kept["result"]["counts"]["completed"] == 1000


def test_an_interrupted_load_with_samples_is_resumed(tmp_path: Path) -> None:
    from benchwright.load import read_samples

    words = ("load", "--rate", "100", "--duration", "2s", "--target", "null", "--samples", "all.bw")
    running = subprocess.Popen(
        [sys.executable, "-m", "benchwright.cli.main", *words, "--study", "st", "--quiet"],
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    samples = tmp_path / "st/logs/s1/samples/all.bw"
    while not samples.exists():
        assert running.poll() is None
        time.sleep(0.02)
    running.send_signal(signal.SIGINT)
    assert running.wait(60) == 130
    done = bw(tmp_path, "resume", "st", "--quiet")
    assert done.returncode == 0, done.stderr
    assert f" 0 of {len(read_samples(samples))} failed" in done.stdout


def test_another_programs_document_is_not_printed_as_a_load(tmp_path: Path) -> None:
    text = {
        "schema": "benchwright/load/1",
        "request": {},
        "loop": {"open": True, "closed": False},
        "result": {},
        "asked_rate_per_s": None,
        "metrics": {},
        "response_known_to": 1.0,
        "findings": [],
    }
    (tmp_path / "document").write_text(json.dumps(text))
    done = bw(tmp_path, "run", "--runs", "1", "--study", "st", "--", "cat", "document")
    assert done.returncode == 0, done.stderr
    assert "elapsed" in done.stdout


RAMP = """
import numpy as np
from benchwright.load import Batch, Filament

class Ramp(Filament):
    def __init__(self, batches, stop=None):
        self.number, self.stop = batches, stop

    def batches(self):
        for place in range(self.number):
            if place == self.stop:
                raise RuntimeError("enough")
            at = np.arange(100) * 1_000_000 + place * 100_000_000
            yield Batch(at, kind=["read", "write"] * 50, offset=at % 4096 * 512)
"""


def python_workload(directory: Path, arguments: str) -> None:
    """Write a workload whose filament is the class above."""
    (directory / "ramp.py").write_text(RAMP)
    text = f'[[filament]]\ntype = "python"\nclass = "ramp:Ramp"\n{arguments}\n'
    (directory / "w.toml").write_text(text)


def test_a_filament_in_python(tmp_path: Path) -> None:
    python_workload(tmp_path, "arguments = {batches = 5}")
    found = document(bw(tmp_path, "load", "w.toml", "--target", "null", "--json"))
    kinds = found["result"]["kinds"]
    assert kinds["read"]["operations"] == kinds["write"]["operations"] == 250
    assert found["result"]["traces"][0]["operations"] == 500


def test_a_filament_in_python_that_fails(tmp_path: Path) -> None:
    python_workload(tmp_path, "arguments = {batches = 5, stop = 2}")
    done = bw(tmp_path, "load", "w.toml", "--target", "null")
    assert done.returncode == 2
    assert "w.toml:3:9: ramp:Ramp failed: RuntimeError: enough" in done.stderr
    assert "Traceback" not in done.stderr


def test_samples_are_every_operation(tmp_path: Path) -> None:
    from benchwright.load import read_samples

    words = ("load", *CONSTANT, "--read", "50%", "--samples", "s.bw", "--json")
    found = document(bw(tmp_path, *words, "--target", "null"))
    rows = read_samples(tmp_path / "s.bw")
    assert len(rows) == found["result"]["samples"]["rows"] == 1000
    intended = sorted(rows["intended"].tolist())
    assert intended == [place * 1_000_000 for place in range(1000)]
    assert (rows["completed"] >= rows["issued"]).all()
    assert (rows["issued"] >= rows["intended"]).all()


def test_actions_agree_with_the_result(tmp_path: Path) -> None:
    options = ("--workers", "2", "--service", "50us", "--actions", "a.json", "--json")
    found = document(bw(tmp_path, "load", *CONSTANT, *options, "--target", "null"))
    events = json.loads((tmp_path / "a.json").read_text())["traceEvents"]
    done = [event for event in events if event["ph"] == "X"]
    told = found["result"]["actions"]
    assert (told["rows"], told["lost"], told["failed"]) == (len(done), 0, None)

    def total(name: str, of: Callable[[Any], float], worker: int | None = None) -> float:
        own = (event for event in done if worker is None or event["tid"] == worker)
        return sum(of(event) for event in own if event["name"] == name)

    def count(event: Any) -> int:
        number: int = event["args"]["count"]
        return number

    assert total("issue", count) == found["result"]["counts"]["issued"] == 1000
    # Of both workers: those that a turn takes, and those that spinning sees.
    assert total("take completions", count) == found["result"]["counts"]["completed"] == 1000
    for number, worker in enumerate(found["result"]["workers"]):
        for name in ("spin", "sleep"):
            # Waits that follow each other are one, with the empty turns between them.
            waited_ns = total(name, lambda event: event["dur"] * 1000, number)
            key = "spun_ns" if name == "spin" else "slept_ns"
            assert worker[key] <= waited_ns + 1 <= found["result"]["elapsed_ns"] + 1
            assert (waited_ns > 0) == (worker[key] > 0)
    assert bw(tmp_path, "load", *CONSTANT, *options, "--target", "null").returncode == 2


def test_actions_of_a_trial_are_in_its_study_and_not_from_several_hosts(tmp_path: Path) -> None:
    words = ("load", *CONSTANT, "--target", "null", "--actions", "a.json")
    done = bw(tmp_path, *words, "--study", "st", "--quiet")
    assert done.returncode == 0, done.stderr
    events = json.loads((tmp_path / "st/logs/s1/actions/a.json").read_text())["traceEvents"]
    assert {"issue", "take completions"} <= {event["name"] for event in events}
    done = bw(tmp_path, *words, "--hosts", "a,b")
    assert (done.returncode, "each host has its own" in done.stderr) == (2, True)


def test_a_full_disk_costs_samples_and_not_the_result(tmp_path: Path) -> None:
    from benchwright.load import read_samples

    words = ["--rate", "100k", "--arrival", "constant", "--duration", "300ms", "--json"]
    limit = (100_000, 100_000)
    done = bw(
        tmp_path,
        *("load", *words, "--target", "null", "--samples", "s.bw"),
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, limit),
    )
    found = document(done)
    samples = found["result"]["samples"]
    assert samples["failed"] == "File too large"
    assert samples["rows"] + samples["lost"] == 30_000
    assert len(read_samples(tmp_path / "s.bw")) == samples["rows"] > 0
    assert "samples-lost" in codes(found)


def test_what_was_sampled_can_be_replayed(tmp_path: Path) -> None:
    words = ("load", *CONSTANT, "--read", "50%", "--samples", "s.bw", "--json")
    first = document(bw(tmp_path, *words, "--target", "null"))
    replay = ("replay", "s.bw", "--speed", "4x", "--target", "null", "--json")
    again = document(bw(tmp_path, *replay))
    for kind in ("read", "write"):
        number = first["result"]["kinds"][kind]["operations"]
        assert again["result"]["kinds"][kind]["operations"] == number


def test_a_replay_of_a_recorded_trace(tmp_path: Path) -> None:
    lines = [f"{place / 1000:.6f} ; {place * 8} ; 8 ; R" for place in range(200)]
    (tmp_path / "t.load").write_text("\n".join(lines) + "\n")
    done = bw(tmp_path, "replay", "t.load", "--target", "null", "--json")
    found = document(done)
    assert found["result"]["counts"]["completed"] == 200
    (tmp_path / "t.load").write_text("\n".join([*lines, "what ; is ; this ; ?"]))
    done = bw(tmp_path, "replay", "t.load", "--format", "load", "--target", "null")
    assert done.returncode == 2
    assert "t.load:201:" in done.stderr


@pytest.mark.parametrize("name", ["oltp", "spc1-like", "bursty", "web"])
def test_the_examples_run(tmp_path: Path, name: str) -> None:
    workload = str(ROOT / "examples" / f"{name}.toml")
    words = ("load", workload, "--duration", "500ms", "--warm-up", "0s", "--json")
    target = ("--service", "1us", "--target", "null")
    found = document(bw(tmp_path, *words, *target, env={**os.environ}))
    assert found["result"]["counts"]["completed"] > 0
    assert found["result"]["counts"]["early"] == 0


def test_the_percentiles_are_those_of_the_samples(tmp_path: Path) -> None:
    """The histograms keep three digits: 0.1 % of a value, of the operation at its rank."""
    import numpy as np

    from benchwright.load import read_samples

    words = ("load", "--rate", "5k", "--duration", "500ms", "--service", "300us")
    more = ("--samples", "s.bw", "--json", "--target", "null")
    found = document(bw(tmp_path, *words, *more))
    rows = read_samples(tmp_path / "s.bw")
    all_kinds = found["result"]["kinds"]["all"]
    for name, begin in (("response_ns", "intended"), ("service_ns", "issued")):
        times = np.sort(rows["completed"] - rows[begin]).astype(np.int64)
        told = all_kinds[name]
        assert told["count"] == len(times)
        assert (told["min"], told["max"]) == (times[0], times[-1])
        for percentile in ("p50", "p90", "p99", "p99.9"):
            share = float(percentile[1:]) / 100
            rank = int(np.ceil(share * len(times)))
            assert told[percentile] == pytest.approx(times[rank - 1], rel=0.002)
