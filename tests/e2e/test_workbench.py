"""A workbench on this machine: real servers that serve, fail to start, die, and are stopped.

Loads are short and on the loopback. Nothing here asserts a time: only what was told, what runs,
and what is left running.
"""

from __future__ import annotations

import contextlib
import math
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from benchwright.core.errors import InputError, Interrupted
from benchwright.core.processes import descendants_of, is_alive, read_process
from benchwright.features.load.plan import LoadEnding, LoadTrial, Probe
from benchwright.features.search.server.host import SHARED
from benchwright.features.search.server.life import MonotonicClock, ServerClock
from benchwright.features.search.server.workbench import LocalWorkbench, WorkbenchConfig
from benchwright.features.search.spec_toml import read_spec
from benchwright.features.search.types import decode_stored, encode_stored
from benchwright.trial.bench import LocalBench
from benchwright.trial.protocol import ExecEnvironment

EXAMPLES = Path(__file__).parents[2] / "examples"
NGINX = shutil.which("nginx", path="/usr/sbin:/usr/bin:/sbin:/bin")

SERVER = '''
"""An HTTP server: PORT [DELAY_S]; says where it is, and ends by SIGTERM."""
import http.server, os, sys, time

class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        if self.path == "/die":
            os._exit(9)
        time.sleep(float(sys.argv[2]) if len(sys.argv) > 2 else 0)
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"ok")
    def log_message(self, *_):
        pass

print("serving", flush=True)
http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
'''
SERVED = """
[server]
start = "{python} {here}/server.py {{port}} {delay}"
ready = {{ http = "http://127.0.0.1:{{port}}/" }}
{more}
[load]
target = "http://127.0.0.1:{{port}}/"
connections = 4
[factors]
level = ["a", "b"]
[peak]
criteria = ["mean response < 50ms", "p90 response < 80ms", "90% within 60ms", "errors < 1%"]
"""


def stays(_so_far: LoadTrial) -> bool:
    """Leave no load."""
    return False


class Place:
    """A directory with a spec, and the workbench that was made of it."""

    def __init__(self, directory: Path, bench: LocalBench) -> None:
        self.directory, self.bench = directory, bench
        (directory / "server.py").write_text(SERVER)
        self.logs = directory / "logs"

    def workbench(
        self, text: str, clock: ServerClock | None = None, recorded: int = 0
    ) -> contextlib.closing[LocalWorkbench]:
        """Return the workbench of a spec, with so many trials on record."""
        spec = read_spec(textwrap.dedent(text), str(self.directory / "spec.toml"))
        assert spec.goal is not None
        around = ExecEnvironment(str(self.directory), ())
        setting = WorkbenchConfig(
            spec=spec, criteria=spec.goal.criteria, around=around, logs=self.logs, recorded=recorded
        )
        return contextlib.closing(LocalWorkbench(setting, self.bench, clock))

    def served(
        self, more: str = "", delay: str = "0", recorded: int = 0
    ) -> contextlib.closing[LocalWorkbench]:
        """Return a workbench with a server of ours."""
        text = SERVED.format(python=sys.executable, here=self.directory, more=more, delay=delay)
        return self.workbench(text, recorded=recorded)

    def running(self) -> list[str]:
        """Return the names of what the launcher has left running."""
        return [one.name for one in descendants_of(self.bench.hello.pid)]


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    """A place, and the check that nothing runs at its end."""
    with contextlib.closing(LocalBench()) as bench:
        here = Place(tmp_path, bench)
        yield here
        assert here.running() == []


def run(
    workbench: LocalWorkbench,
    rate: float = 40,
    level: str = "a",
    leaves: Callable[[LoadTrial], bool] = stays,
) -> LoadTrial:
    """Run one trial of a second."""
    return workbench.run(Probe(rate, 1.0), (("level", level),), leaves)


# -- trials ------------------------------------------------------------------------------


def test_a_trial_has_a_value_for_each_criterion(place: Place) -> None:
    with place.served() as workbench:
        trial = run(workbench)
    assert trial.ending is LoadEnding.WHOLE
    assert set(trial.values) == {
        "response_ms_mean",
        "response_ms_p50",
        "response_ms_p90",
        "response_ms_p99",
        "within_60ms_share",
        "error_ratio",
    }
    # What ends after the last arrival is in no second of the load, and no throughput of it.
    assert (trial.offered or 0) >= (trial.completed or 0) == sum(trial.series.counts) > 0
    assert set(trial.series.values) == set(trial.values) - {"response_ms_p50", "response_ms_p99"}
    assert trial.cost_s >= trial.lasted_s == 1.0


def test_each_trial_is_kept_and_has_arrivals_of_its_own(place: Place) -> None:
    # The second is cut by a crash, so it is on no record, and the third repeats it.
    for recorded in (0, 1, 1):
        with place.served(recorded=recorded) as workbench:
            run(workbench)
    requests = [
        msgspec.json.decode((place.logs / f"trial-{n}/request.json").read_bytes())
        for n in (1, 2, 3)
    ]
    first, cut, again = (one["workload"]["seed"] for one in requests)
    assert first != cut == again
    assert (place.logs / "trial-3/result.json").stat().st_size > 0


def test_a_seed_of_a_program_is_that_of_the_trial_not_of_the_attempt(place: Place) -> None:
    """A search that was killed goes on to the answer that it would have had."""
    text = """
    [load]
    generator = "command"
    command = "echo {rate} {seed}"
    values = { response_ms_mean = '\\d+ (\\d+)' }
    [peak]
    criteria = ["mean response < 50ms"]
    """

    def seeds(recorded: int, trials: int) -> list[float]:
        with place.workbench(text, recorded=recorded) as workbench:
            done = [workbench.run(Probe(40, 1.0), (), stays) for _ in range(trials)]
        return [one.values["response_ms_mean"] for one in done]

    undisturbed = seeds(0, 3)
    assert len(set(undisturbed)) == 3
    assert seeds(0, 2) == undisturbed[:2]
    # The third was begun, and a crash cut it.
    assert seeds(2, 1) == undisturbed[2:]


def test_a_server_lives_as_long_as_its_sample(place: Place) -> None:
    with place.served() as workbench:
        pids = []
        for level in ("a", "a", "b"):
            run(workbench, level=level)
            pids.append((place.logs / "server.pid").read_text())
    assert pids[0] == pids[1] != pids[2]


def test_a_server_of_a_trial_is_stopped_after_it(place: Place) -> None:
    with place.served('restart = "trial"') as workbench:
        assert run(workbench).ending is LoadEnding.WHOLE
        assert place.running() == []
        assert run(workbench).ending is LoadEnding.WHOLE


def test_a_load_is_left_when_it_has_told_enough(place: Place) -> None:
    seen: list[LoadTrial] = []

    def leaves(so_far: LoadTrial) -> bool:
        seen.append(so_far)
        return len(seen) == 2

    with place.served() as workbench:
        trial = run(workbench, leaves=leaves)
        assert run(workbench).ending is LoadEnding.WHOLE
    assert trial.ending is LoadEnding.LEFT
    assert seen[0].lasted_s < seen[1].lasted_s <= trial.lasted_s < 1.0
    assert len(seen[1].series.counts) == 2


def test_what_does_not_end_is_over_every_limit(place: Place) -> None:
    # Four connections of 100 ms each: 40 a second end, and 300 arrive.
    with place.served(delay="0.1") as workbench:
        trial = run(workbench, rate=300)
    assert trial.values["response_ms_mean"] > 50
    assert trial.values["response_ms_p90"] == math.inf
    assert decode_stored(encode_stored(trial), LoadTrial) == trial
    assert trial.values["within_60ms_share"] < 0.1
    assert trial.values["error_ratio"] > 0.5
    # Four in flight and those of the last 80 ms are neither.
    assert trial.offered is not None
    assert 0 < (trial.completed or 0) <= 44
    assert (trial.completed or 0) + trial.errors < trial.offered


@pytest.mark.alone
def test_an_overload_leaves_no_backlog_to_the_next_trial(place: Place) -> None:
    with place.served(delay="0.1") as workbench:
        overload = run(workbench, rate=300, leaves=lambda so_far: so_far.lasted_s > 0.5)
        calm = run(workbench, rate=10)
    assert overload.ending is LoadEnding.LEFT
    assert calm.values["response_ms_mean"] < overload.values["response_ms_p99"]
    assert calm.errors == 0


def test_what_the_engine_refuses_is_told_at_its_line(place: Place) -> None:
    text = "[load]\ntarget = 'null'\nfifo = 200\n[peak]\ncriteria = '40ms'\n"
    with (
        place.workbench(text) as workbench,
        pytest.raises(InputError, match=r"spec\.toml:3:8: fifo: priorities are 1"),
    ):
        workbench.run(Probe(10, 1.0), (), stays)


def test_a_header_that_the_engine_refuses_is_told_at_its_line(place: Place) -> None:
    text = """
        [load]
        target = "http://127.0.0.1:{port}/"
        headers = { A = "b\\u0001" }
        [peak]
        criteria = "40ms"
        """
    with (
        place.workbench(text) as workbench,
        pytest.raises(InputError, match=r'spec\.toml:4:11: header "A"'),
    ):
        workbench.run(Probe(10, 1.0), (), stays)


def test_a_server_of_the_users_own_that_is_gone_is_a_failed_trial(place: Place) -> None:
    text = '[load]\ntarget = "http://127.0.0.1:{port}/"\n[peak]\ncriteria = "40ms"\n'
    with place.workbench(text) as workbench:
        trial = workbench.run(Probe(10, 1.0), (), stays)
    assert trial.ending is LoadEnding.FAILED
    assert "no connection" in trial.failure


@pytest.mark.alone
def test_a_load_without_any_response_says_what_became_of_it(place: Place) -> None:
    text = SERVER.replace("send_response(200)", "send_response(418)")
    with place.served() as workbench:
        (place.directory / "server.py").write_text(text)
        trial = run(workbench)
    assert trial.ending is LoadEnding.WHOLE
    assert trial.values["error_ratio"] == 1
    told = f"of {trial.offered} operations none succeeded: {trial.offered} HTTP 418"
    assert trial.failure == told


def test_users_of_a_closed_loop(place: Place) -> None:
    probe = Probe(2, 1.0, users=2)
    with place.served(delay="0.02") as workbench:
        trial = workbench.run(probe, (("level", "a"),), stays)
    assert trial.ending is LoadEnding.WHOLE
    assert 0 < (trial.completed or 0) <= 101


def test_shared_processors_are_marked(place: Place) -> None:
    cpu = min(os.sched_getaffinity(0))
    text = SERVED.format(
        python=sys.executable, here=place.directory, more=f"cpus = '{cpu}'", delay="0"
    ).replace("[load]", f"[load]\ncpus = '{cpu}'")
    with place.workbench(text) as workbench:
        assert [one.code for one in workbench.findings] == [SHARED]
        assert SHARED in run(workbench).marks
        (server,) = descendants_of(place.bench.hello.pid)
        assert os.sched_getaffinity(server.pid) == {cpu}


# -- servers that fail -------------------------------------------------------------------


def spec_of(start: str, more: str = "") -> str:
    """Return a spec whose server is started so; `more` may say how it gets ready."""
    ready = '{ tcp = "127.0.0.1:{port}" }'
    if more.startswith("ready = "):
        ready, more = f"{{ command = {more.removeprefix('ready = ')} }}", ""
    return f"""
        [server]
        start = {start}
        ready = {ready}
        ready_timeout = "300ms"
        {more}
        [load]
        target = "http://127.0.0.1:{{port}}/"
        [peak]
        criteria = "40ms"
        """


@pytest.mark.parametrize(
    ("start", "more", "words"),
    [
        ('"sleep 100"', "", "not ready within 0.3 s (127.0.0.1:"),
        ('"echo no room >&2; exit 3"', "", "ended before it was ready; its log ends: no"),
        (
            '"sleep 100"',
            "ready = 'echo not yet; exit 3'",
            "(ready (echo not yet; exit 3) ended with status 3: not yet)",
        ),
        ('"sleep 100"', "ready = 'no-such-probe {port}'", "(ready (no-such-probe "),
        ('"sleep 100"', "ready = 'sleep 60'", "(ready (sleep 60) did not end within 1 s)"),
        ('"no-such-server -x"', "", "start (no-such-server -x) ended with status 127"),
        ('"sleep 100"', 'configure = "echo full >&2; exit 4"', "status 4: full"),
        ('"true"', "daemon = true", "the server ended before it was ready"),
        ('"sleep 100 & echo odd; exit 1"', "daemon = true", "ended with status 1: odd"),
    ],
)
def test_a_server_that_does_not_start_is_a_failed_trial(
    place: Place, start: str, more: str, words: str
) -> None:
    with place.workbench(spec_of(start, more)) as workbench:
        trial = workbench.run(Probe(10, 1.0), (), stays)
    assert trial.ending is LoadEnding.FAILED
    assert words in trial.failure
    assert (trial.values, trial.lasted_s) == ({}, 0.0)


def test_a_server_that_hangs_on_is_killed_with_what_it_started(place: Place) -> None:
    start = "\"trap '' TERM; sleep 100 & sleep 100; sleep 100\""
    with place.workbench(spec_of(start, 'grace = "100ms"')) as workbench:
        trial = workbench.run(Probe(10, 1.0), (), stays)
        assert "not ready" in trial.failure
    assert place.running() == []


def test_a_server_that_dies_under_load_is_started_again(place: Place) -> None:
    def kill(_so_far: LoadTrial) -> bool:
        pid = int((place.logs / "server.pid").read_text())
        if read_process(pid) is not None:
            os.kill(pid, signal.SIGKILL)
        return False

    with place.served() as workbench:
        trial = run(workbench, leaves=kill)
        again = run(workbench)
    assert trial.ending is LoadEnding.FAILED
    assert trial.failure.startswith("the server has ended; its log ends: serving")
    assert again.ending is LoadEnding.WHOLE


def test_a_server_that_dies_between_trials_is_told(place: Place) -> None:
    with place.served() as workbench:
        run(workbench)
        pid = int((place.logs / "server.pid").read_text())
        os.kill(pid, signal.SIGKILL)
        while (stat := read_process(pid)) is not None and stat.is_alive:
            time.sleep(0.01)
        trial = run(workbench)
        again = run(workbench)
    assert trial.failure.startswith("between two trials the server has ended; its log")
    assert again.ending is LoadEnding.WHOLE


def test_a_server_that_hangs_after_a_load_is_started_anew(place: Place) -> None:
    def hang(_so_far: LoadTrial) -> bool:
        os.kill(int((place.logs / "server.pid").read_text()), signal.SIGSTOP)
        return True

    with place.served('ready_timeout = "2s"\ngrace = "100ms"') as workbench:
        trial = run(workbench, leaves=hang)
        first = (place.logs / "server.pid").read_text()
        assert run(workbench).ending is LoadEnding.WHOLE
        assert (place.logs / "server.pid").read_text() != first
    assert trial.ending is LoadEnding.LEFT
    assert "server-did-not-recover" in trial.marks


def test_another_server_on_the_port_is_not_taken_for_ours(place: Place) -> None:
    text = spec_of('"sleep 0"').replace("sleep 0", "sh -c 'exit 1'")
    with place.served() as other:
        run(other)
        port = other.values["port"]
        with place.workbench(text.replace("{port}", port)) as workbench:
            trial = workbench.run(Probe(10, 1.0), (), stays)
    assert trial.ending is LoadEnding.FAILED
    assert "another program already answers" in trial.failure
    assert f"(127.0.0.1:{port})" in trial.failure


def test_a_server_that_hangs_between_trials_is_told_once(place: Place) -> None:
    with place.served('ready_timeout = "2s"\ngrace = "100ms"') as workbench:
        run(workbench)
        os.kill(int((place.logs / "server.pid").read_text()), signal.SIGSTOP)
        trial = run(workbench)
        again = run(workbench)
    assert trial.failure.startswith("the server was not ready within 2 s")
    assert again.ending is LoadEnding.WHOLE


@pytest.mark.parametrize(
    ("more", "start", "words"),
    [
        (
            'configure = "sleep 100 & sleep 100"\nconfigure_timeout = "200ms"',
            '"sleep 100"',
            "configure (sleep 100 & sleep 100) did not end within 0.2 s",
        ),
        (
            'configure = "sleep 100"\nconfigure_timeout = "1ns"',
            '"sleep 100"',
            "configure (sleep 100) did not end within 1e-09 s",
        ),
        ("daemon = true", '"sleep 100"', "start (sleep 100) did not end within 0.3 s"),
        ("directory = 'nowhere'", '"sleep 100"', "start (sleep 100) cannot run: the directory"),
    ],
)
def test_a_command_that_hangs_is_ended_and_told(
    place: Place, more: str, start: str, words: str
) -> None:
    with place.workbench(spec_of(start, more)) as workbench:
        trial = workbench.run(Probe(10, 1.0), (), stays)
        assert words in trial.failure
        assert place.running() == []


def test_a_stop_command_that_hangs_does_not_hold_the_end_up(place: Place) -> None:
    with place.served('stop = "sleep 1000"\ngrace = "0s"') as workbench:
        assert run(workbench).ending is LoadEnding.WHOLE
    assert place.running() == []


def test_a_daemon_that_parts_late_is_found(place: Place) -> None:
    (place.directory / "daemon.sh").write_text(
        f"#!/bin/sh\n(sleep 0.3; {sys.executable} {place.directory}/server.py $1 & sleep 0.1) &\n"
    )
    (place.directory / "daemon.sh").chmod(0o755)
    text = spec_of('"./daemon.sh {port}"', "daemon = true").replace("300ms", "20s")
    with place.workbench(text) as workbench:
        for _ in range(2):
            trial = workbench.run(Probe(40, 1.0), (), stays)
            assert trial.ending is LoadEnding.WHOLE, trial.failure


def test_a_server_ignores_no_signal_because_of_us(place: Place) -> None:
    start = '"grep SigIgn /proc/self/status >&2; exit 1"'
    with place.workbench(spec_of(start)) as workbench:
        trial = workbench.run(Probe(10, 1.0), (), stays)
    assert "SigIgn:\t0000000000000000" in trial.failure


# -- stopping ----------------------------------------------------------------------------


def test_an_interrupt_ends_the_load_and_the_server(place: Place) -> None:
    with place.served() as workbench:

        def interrupt(_so_far: LoadTrial) -> bool:
            workbench.interrupt()
            return False

        with pytest.raises(Interrupted):
            run(workbench, leaves=interrupt)
        assert place.running() == []


def test_an_interrupt_ends_the_wait_for_a_server(place: Place) -> None:
    class Impatient(MonotonicClock):
        """Interrupts at the third look."""

        looks = 0

        def sleep(self, seconds: float) -> None:
            self.looks += 1
            if self.looks == 3:
                assert place.running() == ["sleep"]
                workbench.interrupt()
            super().sleep(seconds)

    text = spec_of('"sleep 100"').replace("300ms", "1h")
    with place.workbench(text, Impatient()) as workbench:
        with pytest.raises(Interrupted):
            workbench.run(Probe(10, 1.0), (), stays)
        assert place.running() == []


def test_an_interrupt_before_a_start_starts_nothing(place: Place) -> None:
    with place.workbench(spec_of('"sleep 100"')) as workbench:
        workbench.interrupt()
        with pytest.raises(Interrupted):
            workbench.run(Probe(10, 1.0), (), stays)
        assert not (place.logs / "server.pid").exists()


def test_the_users_stop_command_is_asked_first(place: Place) -> None:
    more = "stop = [['sh', '-c', 'echo asked > {state}.stop; kill $(cat \"$0\")', '%s']]"
    more = more.replace("[[", "[").replace("]]", "]") % (place.logs / "server.pid")
    with place.served(more) as workbench:
        run(workbench)
        state = workbench.values["state"]
    asked = Path(f"{state}.stop")
    assert asked.read_text() == "asked\n"
    asked.unlink()
    assert not Path(state).exists()


def test_a_daemon_is_found_and_stopped(place: Place) -> None:
    (place.directory / "daemon.sh").write_text(
        f"#!/bin/sh\n{sys.executable} {place.directory}/server.py $1 &\n"
    )
    (place.directory / "daemon.sh").chmod(0o755)
    text = spec_of('"./daemon.sh {port}"', "daemon = true").replace("300ms", "20s")
    with place.workbench(text) as workbench:
        trial = workbench.run(Probe(40, 1.0), (), stays)
        assert trial.ending is LoadEnding.WHOLE
        assert place.running() != []
    assert place.running() == []


def test_no_probe_outlives_a_killed_search(place: Place) -> None:
    probe = place.directory / "probe.sh"
    note = place.directory / "probe.pid"
    probe.write_text(f"#!/bin/sh\necho $$ > {note}\nexec sleep 1000\n")
    probe.chmod(0o755)
    spec = place.directory / "spec.toml"
    text = spec_of('"sleep 1000"', f"ready = '{probe}'").replace("300ms", "1h")
    spec.write_text(textwrap.dedent(text))
    with subprocess.Popen(
        [sys.executable, "-m", "benchwright.cli.main", "peak", str(spec)],
        cwd=place.directory,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as search:
        while not (note.exists() and note.read_text().strip()):
            time.sleep(0.01)
        stat = read_process(int(note.read_text()))
        search.kill()
        search.wait()
    assert stat is not None
    for _ in range(3000):
        if not is_alive(stat.identity):
            break
        time.sleep(0.01)
    assert not is_alive(stat.identity)


def test_nothing_outlives_a_killed_search(place: Place) -> None:
    script = f"""
        import sys
        sys.path.insert(0, {str(Path(__file__).parent)!r})
        from pathlib import Path
        from test_workbench import LocalBench, Place, run
        place = Place(Path({str(place.directory)!r}), LocalBench())
        with place.served() as workbench:
            run(workbench)
            print((place.logs / "server.pid").read_text(), flush=True)
            sys.stdin.read()
        """
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as search:
        assert search.stdout is not None
        pid = int(search.stdout.readline())
        assert read_process(pid) is not None
        search.kill()
        search.wait()
        for _ in range(3000):
            if read_process(pid) is None:
                break
            time.sleep(0.01)
        assert read_process(pid) is None
    left = Path((place.logs / "state-directory").read_text().strip())
    assert left.exists()
    with place.served():
        assert not left.exists()


# -- what cannot work at any rate --------------------------------------------------------


@pytest.mark.parametrize(
    ("load", "words"),
    [
        (
            "generator = 'command'\ncommand = 'gen {rate} {duration}'\nvalues = { other = '/x' }",
            "command has no value for response_ms_mean: its values are: other",
        ),
        ("target = 'null'\ncpus = '999'", "CPU 999 not available"),
    ],
)
def test_it_is_told_before_the_first_trial(place: Place, load: str, words: str) -> None:
    with pytest.raises(InputError, match=r"spec\.toml:") as caught:
        place.workbench(f"[load]\n{load}\n[peak]\ncriteria = '40ms'\n")
    assert words in str(caught.value)


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two CPUs")
def test_each_sample_has_its_own_settings_and_all_are_checked_first(place: Place) -> None:
    first, second, *_ = sorted(os.sched_getaffinity(0))
    text = f"""
[server]
start = "{sys.executable} {place.directory}/server.py {{port}}"
ready = {{ http = "http://127.0.0.1:{{port}}/" }}
cpus = "{{cpu}}"
[load]
target = "http://127.0.0.1:{{port}}/"
connections = "{{connections}}"
[factors]
cpu = [{first}, {second}]
connections = [1, 3]
[peak]
criteria = "50ms"
"""
    with place.workbench(text) as workbench:
        for cpu, connections in ((first, "1"), (second, "3"), (second, "1")):
            sample = (("cpu", str(cpu)), ("connections", connections))
            trial = workbench.run(Probe(20, 0.5), sample, stays)
            assert trial.ending is LoadEnding.WHOLE, trial.failure
            assert place.running() != []
            for one in descendants_of(place.bench.hello.pid):
                assert os.sched_getaffinity(one.pid) == {cpu}
            asked = sorted(place.logs.glob("trial-*/request.json"))[-1].read_text()
            assert f'"connections":{connections}' in asked
        assert workbench.seats.server == (second,)
    spec = read_spec(
        text.replace(f"[{first}, {second}]", f"[{first}, 999]"), str(place.directory / "spec.toml")
    )
    setting = WorkbenchConfig(
        spec=spec,
        criteria=(),
        around=ExecEnvironment(str(place.directory), ()),
        logs=place.logs,
        samples=((("cpu", "999"),),),
    )
    with pytest.raises(InputError, match=r"CPU 999 not available \(at {cpu} = 999\)"):
        LocalWorkbench(setting, place.bench)


# -- nginx -------------------------------------------------------------------------------


@pytest.mark.skipif(NGINX is None, reason="nginx is not installed (nginx-light)")
def test_the_example_with_nginx(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", os.environ["PATH"] + ":/usr/sbin")
    file = EXAMPLES / "peak-nginx.toml"
    spec = read_spec(file.read_text(), str(file))
    assert spec.goal is not None
    setting = WorkbenchConfig(
        spec=spec,
        criteria=spec.goal.criteria,
        around=ExecEnvironment(str(place.directory), ()),
        logs=place.logs,
    )
    with contextlib.closing(LocalBench()) as bench:
        with contextlib.closing(LocalWorkbench(setting, bench)) as workbench:
            for sample in (
                (("workers", "1"), ("gzip_level", "6")),
                (("workers", "2"), ("gzip_level", "1")),
            ):
                trial = workbench.run(Probe(50, 1.0), sample, stays)
                assert trial.ending is LoadEnding.WHOLE, trial.failure
                assert trial.values["error_ratio"] == 0
                names = [one.name for one in descendants_of(bench.hello.pid)]
                assert names.count("nginx") == 1 + int(sample[0][1])
        assert descendants_of(bench.hello.pid) == []


@pytest.mark.skipif(shutil.which("redis-server") is None, reason="redis-server is not installed")
def test_the_example_with_redis(place: Place) -> None:
    file = EXAMPLES / "peak-redis.toml"
    spec = read_spec(file.read_text(), str(file))
    assert spec.goal is not None
    setting = WorkbenchConfig(
        spec=spec,
        criteria=spec.goal.criteria,
        around=ExecEnvironment(str(place.directory), ()),
        logs=place.logs,
    )
    sample = (("io_threads", "2"), ("persistence", "yes"))
    with contextlib.closing(LocalWorkbench(setting, place.bench)) as workbench:
        trial = workbench.run(Probe(20, 1.0), sample, stays)
        assert (place.directory / "logs" / "server.out").exists()
        assert list(Path(workbench.values["state"]).glob("appendonlydir/*"))
    assert trial.ending is LoadEnding.WHOLE, trial.failure
    assert trial.offered
    assert set(trial.values) == {"response_ms_mean", "response_ms_p99"}


POSTGRES = list(Path("/usr/lib/postgresql").glob("*/bin/postgres"))


@pytest.mark.skipif(not POSTGRES, reason="PostgreSQL is not installed")
def test_the_example_with_postgres(place: Place) -> None:
    file = EXAMPLES / "surface-postgres.toml"
    # A tenth of the rows: what is tested is the server's life.
    spec = read_spec(file.read_text().replace("scale = [10]", "scale = [1]"), str(file))
    assert spec.goal is not None
    setting = WorkbenchConfig(
        spec=spec,
        criteria=spec.goal.criteria,
        around=ExecEnvironment(str(place.directory), ()),
        logs=place.logs,
    )
    with contextlib.closing(LocalWorkbench(setting, place.bench)) as workbench:
        for buffers in ("4MB", "16MB"):
            sample = (("shared_buffers", buffers), ("synchronous_commit", "off"))
            trial = workbench.run(Probe(20, 1.0), sample, stays)
            assert trial.ending is LoadEnding.WHOLE, trial.failure
            assert trial.completed
            conf = Path(workbench.values["state"], "data/postgresql.auto.conf")
            assert f"shared_buffers = '{buffers}'" in conf.read_text()
        assert place.running() != []
