"""Load generators as they are installed: each program run for a second or two.

A program that is absent is skipped, with its name as the reason.
"""

from __future__ import annotations

import math
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from benchwright.features.generators.adapter import Generator, GeneratorRequest
from benchwright.features.generators.command import command_generator
from benchwright.features.generators.databases import Memtier, Pgbench, RedisBenchmark
from benchwright.features.generators.fio import Fio
from benchwright.features.generators.http import K6, Oha, Vegeta, Wrk2
from benchwright.features.generators.run import GeneratorPlace, LeaveEarly, run_generator
from benchwright.features.load.criteria import parse_criteria
from benchwright.features.load.plan import LoadEnding, LoadTrial
from benchwright.trial.bench import LocalBench
from postgres_server import postgres

CRITERIA = parse_criteria(["40ms", "90% within 40ms", "p99 < 40ms"])
PATIENCE_S = 30
"""For a server to get ready."""


@pytest.fixture(scope="module")
def bench() -> Iterator[LocalBench]:
    with closing(LocalBench()) as one:
        yield one


class Runner:
    """Runs a generator for a trial in a directory of its own."""

    def __init__(self, bench: LocalBench, directory: Path) -> None:
        self._bench, self._directory, self._trials = bench, directory, 0

    def __call__(
        self,
        generator: Generator,
        rate: float | None,
        *,
        duration_s: float = 1.0,
        users: int | None = None,
        leaves: LeaveEarly | None = None,
    ) -> LoadTrial:
        need(*generator.programs)
        self._trials += 1
        scratch = self._directory / f"trial-{self._trials}"
        scratch.mkdir()
        asked = GeneratorRequest(
            rate=rate, users=users, duration_s=duration_s, criteria=CRITERIA, directory=str(scratch)
        )
        place = GeneratorPlace(directory=str(self._directory), scratch=str(scratch), look_s=0.2)
        return run_generator(self._bench, generator, asked, place, leaves)


@pytest.fixture
def run(bench: LocalBench, tmp_path: Path) -> Runner:
    return Runner(bench, tmp_path)


def need(*programs: str) -> None:
    """Skip the test where one of the programs is absent."""
    for program in programs:
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def wait_for(port: int, server: subprocess.Popen[bytes] | None = None) -> None:
    """Wait until a port of the loopback accepts connections."""
    end_s = time.monotonic() + PATIENCE_S
    while True:
        with socket.socket() as one:
            if one.connect_ex(("127.0.0.1", port)) == 0:
                return
        assert server is None or server.poll() is None, "the server ended"
        assert time.monotonic() < end_s, "the server did not get ready"
        time.sleep(0.02)


def ended(server: subprocess.Popen[bytes]) -> None:
    server.terminate()
    server.wait(PATIENCE_S)


# -- command ---------------------------------------------------------------------------


def test_command_runs_any_program(run: Runner) -> None:
    text = 'printf \'{"mean": %s, "rows": [[0, %s, 1.5]]}\' {duration} {rate} && echo done >&2'
    trial = run(command_generator(text, "/mean", "/rows"), 100.0, duration_s=0.5)
    assert trial.ending is LoadEnding.WHOLE, trial.failure
    assert trial.values == {"response_ms_mean": 0.5}
    assert trial.series.counts == (100,)


def test_command_that_is_not_there_is_a_failed_trial(run: Runner) -> None:
    trial = run(command_generator("/nonexistent/generator {rate}", "/mean"), 100.0)
    assert trial.ending is LoadEnding.FAILED
    assert "cannot be started" in trial.failure


# -- pgbench ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def database() -> Iterator[Pgbench]:
    """A private cluster on a free port, with pgbench's tables."""
    with postgres() as server:
        yield Pgbench(host="127.0.0.1", port=server.port, user="bench", clients=4)


def test_pgbench_keeps_a_rate(run: Runner, database: Pgbench) -> None:
    trial = run(database, 100.0, duration_s=2.0)
    assert trial.ending is LoadEnding.WHOLE, trial.failure
    assert trial.completed is not None
    # Poisson arrivals: 200 with a standard deviation of 14; fewer where nobody lets it run.
    assert 20 < trial.completed < 280
    assert sum(trial.series.counts) == trial.completed
    assert trial.values["response_ms_p99"] >= trial.values["response_ms_p50"] > 0
    assert trial.values["error_ratio"] == 0
    assert trial.late_p99_ms is not None
    assert not {"closed-loop-generator", "hides-lateness"} & set(trial.marks)


def test_pgbench_overloaded_is_left_early(run: Runner, database: Pgbench) -> None:
    def overloaded(so_far: LoadTrial) -> bool:
        return so_far.values.get("response_ms_mean", 0.0) > 40

    trial = run(database, 1e6, duration_s=60.0, leaves=overloaded)
    assert trial.ending is LoadEnding.LEFT
    assert trial.values["response_ms_mean"] > 40
    assert trial.lasted_s < 60
    mean_ms = trial.values["response_ms_mean"]
    assert trial.values["lateness_ms_mean"] > 0.5 * mean_ms
    # Its schedule lag is the wait for a client, which the server causes.
    assert trial.late_p99_ms is not None
    assert 0.5 * mean_ms < trial.target_values["response_ms_mean"] <= mean_ms


def test_pgbench_without_a_server_is_a_failed_trial(run: Runner) -> None:
    trial = run(Pgbench(host="127.0.0.1", port=free_port()), 100.0)
    assert trial.ending is LoadEnding.FAILED
    assert "Connection refused" in trial.failure


# -- fio -------------------------------------------------------------------------------


def test_fio_keeps_a_rate_on_a_file(run: Runner, tmp_path: Path) -> None:
    generator = Fio(filename=str(tmp_path / "data"), size="4M", engine="psync")
    trial = run(generator, 200.0)
    assert trial.ending is LoadEnding.WHOLE, trial.failure
    assert trial.completed is not None
    assert 20 < trial.completed < 300
    assert trial.values["response_ms_mean"] > 0
    assert "hides-lateness" in trial.marks


def test_fio_beyond_the_device_offers_less_than_was_asked(run: Runner, tmp_path: Path) -> None:
    generator = Fio(filename=str(tmp_path / "data"), size="4M", engine="psync")
    trial = run(generator, 5e7)
    assert trial.ending is LoadEnding.WHOLE, trial.failure
    assert trial.offered_rate < 0.5 * trial.rate


def test_fio_that_cannot_open_its_file_is_a_failed_trial(run: Runner) -> None:
    trial = run(Fio(filename="/proc/nothing/here", size="4M", engine="psync"), 100.0)
    assert trial.ending is LoadEnding.FAILED
    assert "fio ended with status" in trial.failure


# -- Redis -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    need("redis-server")
    port = free_port()
    words = ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", ""]
    server = subprocess.Popen(
        words, cwd=tmp_path_factory.mktemp("redis"), stdout=subprocess.DEVNULL
    )
    try:
        wait_for(port, server)
        yield port
    finally:
        ended(server)


def test_redis_benchmark_of_users(run: Runner, redis: int) -> None:
    trial = run(RedisBenchmark(port=redis), None, users=4)
    assert trial.ending is LoadEnding.WHOLE, trial.failure
    assert trial.completed is not None
    assert trial.completed > 100
    assert trial.values["response_ms_mean"] > 0
    assert "closed-loop-generator" in trial.marks


def test_redis_benchmark_of_so_many_requests(run: Runner, redis: int) -> None:
    generator = RedisBenchmark(port=redis, requests=2000, test="set")
    trial = run(generator, None, users=2)
    assert trial.completed == 2000, trial.failure
    assert trial.values["response_ms_p99"] >= trial.values["response_ms_p50"]


def test_memtier_shares_a_rate(run: Runner, redis: int) -> None:
    trial = run(Memtier(port=redis, clients=4), 200.0, duration_s=2.0)
    assert trial.ending is LoadEnding.WHOLE, trial.failure
    assert trial.completed is not None
    assert 40 < trial.completed < 600


# -- HTTP ------------------------------------------------------------------------------

NGINX = """\
daemon off; worker_processes 1; pid {home}/pid; error_log {home}/errors;
events {{ worker_connections 256; }}
http {{
  access_log off;
  client_body_temp_path {home}/t; proxy_temp_path {home}/t; fastcgi_temp_path {home}/t;
  uwsgi_temp_path {home}/t; scgi_temp_path {home}/t;
  server {{ listen 127.0.0.1:{port}; location / {{ return 200 "well"; }} }}
}}
"""


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    need("nginx")
    home, port = tmp_path_factory.mktemp("nginx"), free_port()
    (home / "nginx.conf").write_text(NGINX.format(home=home, port=port))
    server = subprocess.Popen(["nginx", "-e", str(home / "errors"), "-c", str(home / "nginx.conf")])
    try:
        wait_for(port, server)
        yield f"http://127.0.0.1:{port}/"
    finally:
        ended(server)


@pytest.mark.parametrize("kind", [K6, Oha, Wrk2, Vegeta])
def test_http_generators_keep_a_rate(
    run: Runner, url: str, kind: type[K6 | Oha | Wrk2 | Vegeta]
) -> None:
    trial = run(kind(url=url), 100.0, duration_s=2.0)
    assert trial.ending is LoadEnding.WHOLE, trial.failure
    assert trial.completed is not None
    assert 20 < trial.completed < 300
    assert trial.values["response_ms_mean"] > 0
    assert trial.values["error_ratio"] == 0


@pytest.mark.parametrize("kind", [K6, Oha, Wrk2, Vegeta])
def test_http_generators_without_a_server_have_only_errors(
    run: Runner, kind: type[K6 | Oha | Wrk2 | Vegeta]
) -> None:
    trial = run(kind(url=f"http://127.0.0.1:{free_port()}/"), 20.0)
    if trial.ending is LoadEnding.FAILED:
        assert trial.failure
        return
    assert not trial.completed
    assert "response_ms_mean" not in trial.values
    assert math.isinf(trial.values["response_ms_p50"])


def test_wrk_without_a_rate_is_told_apart(run: Runner, url: str) -> None:
    need("wrk")
    trial = run(Wrk2(url=url, program="wrk"), 100.0)
    if trial.ending is LoadEnding.WHOLE:
        pytest.skip("this wrk is wrk2")
    assert "this wrk has no -R" in trial.failure
