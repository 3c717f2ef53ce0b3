"""A generator's run as a trial: failures, marks, and leaving a trial that told enough."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec
import pytest

from benchwright.core.errors import Interrupted
from benchwright.core.observation import ProcessRecord, TrialEnding
from benchwright.features.generators.adapter import (
    Generator,
    GeneratorOutput,
    GeneratorRequest,
    Measurement,
)
from benchwright.features.generators.command import CommandGenerator, command_generator
from benchwright.features.generators.databases import Memtier, Pgbench, RedisBenchmark
from benchwright.features.generators.http import Oha, Wrk2
from benchwright.features.generators.output import parse_source
from benchwright.features.generators.run import GeneratorPlace, generator_request, run_generator
from benchwright.features.load.criteria import parse_criteria
from benchwright.features.load.plan import LoadEnding, LoadTrial, Probe
from benchwright.features.search.peak.policies.trials import why_unusable
from benchwright.features.search.types import PeakGoal
from benchwright.trial.bench import BatchResult
from benchwright.trial.protocol import EpochRecord, RunRequest

SECOND_NS = 10**9
LOG = "".join(f"0 {i} 2000 0 100 {i}00000 500\n" for i in range(1, 10))
"""Of pgbench: one transaction of 2 ms every 100 ms."""


class OneProgram(msgspec.Struct, frozen=True, kw_only=True):
    """What the stand-in's program does."""

    stdout: str = ""
    stderr: str = ""
    files: Mapping[str, str] = {}
    status: int = 0
    error: str = ""
    ending: TrialEnding = TrialEnding.OK
    user_us: int = 0
    waits: bool = False
    """Runs until it is interrupted."""


class StandIn:
    """A bench that runs no program: it leaves what one would have left."""

    def __init__(self, program: OneProgram) -> None:
        self.requests: list[RunRequest] = []
        self.interrupts = 0
        self._program = program
        self._interrupted = threading.Event()

    def run(
        self, request: RunRequest, *, abandoned: Callable[[], bool] = lambda: False
    ) -> BatchResult:
        self.requests.append(request)
        program, logs = self._program, Path(request.logs)
        for name, text in program.files.items():
            (logs / name).write_text(text)
        # What an earlier trial wrote to the same log is not this one's.
        (logs / "exec-1.out").write_text("earlier" + program.stdout)
        (logs / "exec-1.err").write_text(program.stderr)
        ending = program.ending
        if program.waits:
            assert self._interrupted.wait(60), "nobody interrupted it"
            ending = TrialEnding.INTERRUPTED
        record = ProcessRecord(
            mode="EXEC",
            index=0,
            thread=1,
            status=program.status,
            elapsed_ns=2 * SECOND_NS,
            user_us=program.user_us,
            system_us=0,
            rss_bytes=1,
            out=(len("earlier"), len(program.stdout)),
            err=(0, len(program.stderr)),
            error=program.error,
        )
        epoch = EpochRecord(0, 1, ending, 77, 2 * SECOND_NS, 0, 0, (record,))
        return BatchResult((epoch,), "complete")

    def interrupt(self, *, cleanup: bool) -> None:
        self.interrupts += 1
        self._interrupted.set()

    def close(self) -> None:
        pass


@pytest.fixture
def place(tmp_path: Path) -> GeneratorPlace:
    return GeneratorPlace(directory="/", scratch=str(tmp_path), look_s=0.001)


def run(
    program: OneProgram,
    generator: Generator,
    place: GeneratorPlace,
    leaves: Callable[[LoadTrial], bool] | None = None,
    rate: float = 100.0,
) -> LoadTrial:
    asked = GeneratorRequest(
        rate=rate, duration_s=1.0, criteria=parse_criteria(["40ms"]), directory=place.scratch
    )
    return run_generator(StandIn(program), generator, asked, place, leaves)


SIMPLE = command_generator("g {rate}", "/m")


def test_a_run_is_a_trial_with_its_own_part_of_the_log(place: GeneratorPlace) -> None:
    trial = run(OneProgram(stdout='{"m": 3}'), SIMPLE, place)
    assert trial.values == {"response_ms_mean": 3.0}
    assert (trial.rate, trial.duration_s, trial.lasted_s) == (100.0, 1.0, 1.0)
    assert (trial.cost_s, trial.started_ns) == (2.0, 77)
    assert trial.ending is LoadEnding.WHOLE
    # It says neither how late it was nor what failed.
    assert trial.marks == ("lateness-unknown", "refusals-unseen")


def test_the_launcher_gets_one_epoch_with_a_limit_and_the_pinning(place: GeneratorPlace) -> None:
    bench = StandIn(OneProgram(stdout='{"m": 3}'))
    place = msgspec.structs.replace(place, prefix=("taskset", "-c", "1"), grace_s=5.0)
    asked = GeneratorRequest(rate=100.0, duration_s=1.0, directory=place.scratch)
    run_generator(bench, SIMPLE, asked, place)
    (request,) = bench.requests
    assert (request.epochs, request.timeout_ns) == (1, 6 * SECOND_NS)
    assert request.commands[0].argv == ("taskset", "-c", "1", "g", "100")
    assert request.commands[0].mode == "EXEC"


@pytest.mark.parametrize(
    ("program", "generator", "told"),
    [
        (OneProgram(status=3, stderr="no\nluck\n", ending=TrialEnding.FAILED), SIMPLE,
         "command ended with status 3: no | luck"),
        (OneProgram(status=3, stdout="on stdout", ending=TrialEnding.FAILED), SIMPLE,
         "command ended with status 3: on stdout"),
        (OneProgram(status=3, ending=TrialEnding.FAILED), SIMPLE,
         "command ended with status 3: no message"),
        (OneProgram(status=127, error="No such file", ending=TrialEnding.FAILED), SIMPLE,
         "command cannot be started: No such file"),
        (OneProgram(ending=TrialEnding.TIMEOUT, stderr="stuck"), SIMPLE,
         "command did not end within 30 s after its load; its output ends: stuck"),
        (OneProgram(stdout="Mean: 5"), SIMPLE,
         "command: no response_ms_mean (stdout is not JSON) in the generator's output; "
         "it has: Mean: 5"),
        (OneProgram(status=1, stderr="wrk: invalid option -- 'R'", ending=TrialEnding.FAILED),
         Wrk2(url="u"), "this wrk has no -R"),
        (OneProgram(), RedisBenchmark(), "redis-benchmark: it has no rate"),
    ],
)  # fmt: skip
def test_a_generator_that_fails_is_a_failed_trial(
    program: OneProgram, generator: Generator, told: str, place: GeneratorPlace
) -> None:
    trial = run(program, generator, place)
    assert trial.ending is LoadEnding.FAILED
    assert told in trial.failure
    assert trial.values == {}


COUNTED = CommandGenerator(
    command="g {rate}",
    values=(("response_ms_mean", parse_source("/m")), ("error_ratio", parse_source("/e"))),
    counts=(("completed", parse_source("/n")),),
    series=parse_source("/rows"),
)


@pytest.mark.parametrize(
    ("m", "e", "n", "row", "told"),
    [
        (-3, 0, 5, [0, 5, 1], "response_ms_mean is -3 ms: impossible"),
        (3, 1.5, 5, [0, 5, 1], "error_ratio is 1.5, outside 0 to 1: impossible"),
        (3, -0.1, 5, [0, 5, 1], "error_ratio is -0.1, outside 0 to 1"),
        (3, 0, -5, [0, 5, 1], "completed is -5: impossible"),
        (3, 0, 5, [0, 5, -0.5], "a value of its series is -0.5 ms: impossible"),
        (1e308, 0, 5, [0, 5, 1], "response_ms_mean is 1e+308: impossible"),
        (-3, 0, -5, [0, 5, 1], "response_ms_mean is -3 ms, completed is -5: impossible"),
        (3, 0, 5, [0, 0, -0.5], ""),
        (0, 1, 0, [0, 5, 0], ""),
    ],
)
def test_figures_that_no_run_can_have_make_a_failed_trial(
    m: float, e: float, n: int, row: list[float], told: str, place: GeneratorPlace
) -> None:
    text = json.dumps({"m": m, "e": e, "n": n, "rows": [row]})
    trial = run(OneProgram(stdout=text), COUNTED, place)
    assert (trial.ending is LoadEnding.FAILED) is bool(told)
    assert told in trial.failure
    assert trial.failure.startswith("command: ") is bool(told)
    assert (trial.values == {}) is bool(told)


@pytest.mark.parametrize(
    ("late", "target", "told"),
    [
        (1.5, 2.0, ""),
        (0, 3.0, ""),
        (-1, 2.0, "the lateness is -1 ms: impossible"),
        (1.5, -2.0, "response_ms_mean is -2 ms: impossible"),
        (1.5, 3.1, "response_ms_mean is 3.1 ms without the lateness and 3 ms with it"),
    ],
)
def test_a_lateness_is_a_part_of_the_response(
    late: float, target: float, told: str, place: GeneratorPlace
) -> None:
    generator = command_generator("g {rate}", "/m", late="/l", target_response="/t")
    text = json.dumps({"m": 3.0, "l": late, "t": target})
    trial = run(OneProgram(stdout=text), generator, place)
    assert (trial.ending is LoadEnding.FAILED) is bool(told)
    assert told in trial.failure
    if not told:
        assert trial.late_p99_ms == late
        assert trial.target_values == {"response_ms_mean": target}


@pytest.mark.parametrize(
    ("figures", "mark"),
    [
        ({"count": 1000}, ""),
        ({"count": 720}, "operations-missing"),
        ({"count": 1400}, "offered-differs"),
        ({"count": 1000, "sent": 1000}, ""),
        ({"count": 700, "sent": 700}, "offered-differs"),
        ({"count": 700, "sent": 1000}, "counts-contradict"),
        # The series and the share of failures make up what was due.
        ({"count": 400, "failed": 0.6}, ""),
        ({"count": 1000, "failed": 0.6}, ""),
        ({"count": 1000, "sent": 1000, "failed": 0.6}, ""),
    ],
)
def test_counts_are_compared_with_the_rate_and_each_other(
    figures: dict[str, float], mark: str, place: GeneratorPlace
) -> None:
    names = {"sent": "offered", "failed": "errors"}
    pointers = {key: f"/{name}" for name, key in names.items() if name in figures}
    generator = command_generator("g {rate}", "/m", "/rows", **pointers)
    rows = [[0, figures["count"], 3.0]]
    text = json.dumps({"m": 3.0, "rows": rows, **figures})
    trial = run(OneProgram(stdout=text), generator, place, rate=1000.0)
    doubts = {"operations-missing", "offered-differs", "counts-contradict"}
    assert doubts & set(trial.marks) == ({mark} if mark else set())


def test_a_mean_response_of_zero_is_no_measurement(place: GeneratorPlace) -> None:
    trial = run(OneProgram(stdout='{"m": 0}'), SIMPLE, place)
    assert trial.values == {}
    goal = PeakGoal(criteria=parse_criteria(["40ms"]))
    assert why_unusable(goal, trial) == (
        "it reported no value of response_ms_mean: response_ms_mean is 0, so nothing was measured"
    )


def test_an_endless_output_is_refused_and_not_searched(place: GeneratorPlace) -> None:
    trial = run(OneProgram(stdout="y\n" * 4_500_000), SIMPLE, place)
    assert trial.ending is LoadEnding.FAILED
    assert "printed 9 MB to stdout, more than the 8 MB that are read" in trial.failure


def test_many_lines_are_searched_for_json_once(place: GeneratorPlace) -> None:
    """Each line was a search of its own: 0.7 s for a megabyte."""
    text = "y\n" * 1_000_000 + "[no\n" * 100_000 + '{"m": 3}\nbye\r{"m": 4}\rend\n'
    trial = run(OneProgram(stdout=text), SIMPLE, place)
    assert trial.values == {"response_ms_mean": 4.0}


def test_json_with_nan_is_told_as_that(place: GeneratorPlace) -> None:
    failure = run(OneProgram(stdout='{"m": NaN}'), SIMPLE, place).failure
    assert "/m is NaN, not a number" in failure
    oha = run(OneProgram(stdout='{"summary": {"total": NaN}}'), Oha(url="u"), place)
    assert "no JSON without NaN and Infinity in stdout" in oha.failure


def test_a_long_output_is_shortened_to_its_end(place: GeneratorPlace) -> None:
    program = OneProgram(status=1, stderr="x" * 5000 + " why", ending=TrialEnding.FAILED)
    failure = run(program, SIMPLE, place).failure
    assert len(failure) < 300
    assert failure.endswith("why")


def test_a_status_that_a_generator_expects_is_no_failure(place: GeneratorPlace) -> None:
    text = "GET: rps=9.0 (overall: 50.5) avg_msec=0.1 (overall: 0.20)\r"
    program = OneProgram(stdout=text, status=124, ending=TrialEnding.FAILED)
    asked = GeneratorRequest(users=4, duration_s=2.0, directory=place.scratch)
    trial = run_generator(StandIn(program), RedisBenchmark(), asked, place)
    assert trial.ending is LoadEnding.WHOLE
    assert (trial.rate, trial.completed) == (4.0, 101)
    assert trial.marks == ("closed-loop-generator", "hides-lateness")


@pytest.mark.parametrize(
    ("cores", "jobs", "user_us", "bound"),
    [
        (1, 1, 1_900_000, True),
        (1, 1, 1_700_000, False),
        (2, 1, 1_900_000, True),
        (2, 2, 1_900_000, False),
        (2, 2, 3_700_000, True),
    ],
)
def test_a_generator_that_uses_its_cores_up_is_marked(
    cores: int, jobs: int, user_us: int, bound: bool, place: GeneratorPlace
) -> None:
    program = OneProgram(files={"pgbench_log.1": LOG}, user_us=user_us)
    place = msgspec.structs.replace(place, cores=cores)
    marks = run(program, Pgbench(jobs=jobs), place).marks
    assert ("generator-saturated" in marks) is bound


@pytest.mark.parametrize(("rate", "rounded"), [(64.0, False), (100.0, True)])
def test_a_rate_that_was_rounded_is_marked(
    rate: float, rounded: bool, place: GeneratorPlace
) -> None:
    text = '{"ALL STATS": {"Totals": {"Count": 0, "Latency": 0}}}'
    program = OneProgram(files={"memtier.json": text})
    marks = run(program, Memtier(threads=8), place, rate=rate).marks
    assert ("rate-rounded" in marks) is rounded


@pytest.mark.parametrize(
    ("completed", "offered", "rate", "marked"),
    [
        (300, None, 1000.0, True),
        (960, None, 1000.0, False),
        (300, 1000, 1000.0, False),
        (3, None, 8.0, False),
    ],
)
def test_a_backlog_that_nobody_counts_is_marked(
    completed: int, offered: int | None, rate: float, marked: bool, place: GeneratorPlace
) -> None:
    """A tenth of few arrivals is within the noise of their number."""
    done = parse_source("/done")
    counts = (("completed", done), ("offered", parse_source("/sent")))
    generator = CommandGenerator(
        command="g {rate}",
        values=(("response_ms_mean", parse_source("/m")),),
        counts=counts[: 1 if offered is None else 2],
    )
    text = f'{{"m": 3, "done": {completed}, "sent": {offered or 0}}}'
    marks = run(OneProgram(stdout=text), generator, place, rate=rate).marks
    assert ("backlog-not-counted" in marks) is marked


# -- watching --------------------------------------------------------------------------


def test_a_trial_is_left_when_it_has_told_enough(place: GeneratorPlace) -> None:
    seen: list[LoadTrial] = []

    def third_look(so_far: LoadTrial) -> bool:
        seen.append(so_far)
        return len(seen) == 3

    program = OneProgram(files={"pgbench_log.1": LOG}, waits=True)
    trial = run(program, Pgbench(), place, third_look)
    assert trial.ending is LoadEnding.LEFT
    assert len(seen) == 3
    assert trial.values == seen[-1].values
    assert trial.completed == 9
    assert trial.lasted_s == pytest.approx(0.802)
    assert trial.cost_s == 2.0


def test_a_mistake_of_the_policy_ends_the_run(place: GeneratorPlace) -> None:
    def broken(_so_far: LoadTrial) -> bool:
        raise ZeroDivisionError

    program = OneProgram(files={"pgbench_log.1": LOG}, waits=True)
    with pytest.raises(ZeroDivisionError):
        run(program, Pgbench(), place, broken)


def test_a_log_that_cannot_be_read_meanwhile_is_told_at_the_end(place: GeneratorPlace) -> None:
    """`--aggregate-interval` among the user's words gives another kind of log."""
    looks = threading.Semaphore(0)

    class Aggregated(Pgbench, frozen=True, kw_only=True):
        def so_far(self, output: GeneratorOutput, asked: GeneratorRequest) -> Measurement | None:
            looks.release()
            return super().so_far(output, asked)

    class Slow(StandIn):
        def run(
            self, request: RunRequest, *, abandoned: Callable[[], bool] = lambda: False
        ) -> BatchResult:
            result = super().run(request, abandoned=abandoned)
            for _ in range(3):
                assert looks.acquire(timeout=60), "nobody looked at it"
            return result

    bench = Slow(OneProgram(files={"pgbench_log.1": "1345828501 5601 15\n"}))
    asked = GeneratorRequest(rate=9.0, duration_s=1.0, directory=place.scratch)
    trial = run_generator(bench, Aggregated(), asked, place, lambda _: False)
    assert trial.ending is LoadEnding.FAILED
    assert "pgbench: no log" in trial.failure
    assert bench.interrupts == 0


def test_a_generator_that_tells_nothing_before_its_end_is_not_looked_at(
    place: GeneratorPlace,
) -> None:
    def never(_so_far: LoadTrial) -> bool:
        raise AssertionError

    trial = run(OneProgram(stdout='{"m": 3}'), SIMPLE, place, never)
    assert trial.ending is LoadEnding.WHOLE


def test_an_interrupt_that_is_not_ours_goes_up(place: GeneratorPlace) -> None:
    with pytest.raises(Interrupted):
        run(OneProgram(ending=TrialEnding.INTERRUPTED), SIMPLE, place)


def test_a_probe_asks_for_a_rate_or_for_users(place: GeneratorPlace) -> None:
    criteria = parse_criteria(["40ms"])
    rate = generator_request(Probe(50.0, 3.0), place, criteria)
    assert (rate.rate, rate.users, rate.duration_s) == (50.0, None, 3.0)
    users = generator_request(Probe(8.0, 3.0, users=8), place, criteria, seed=7)
    assert (users.rate, users.users, users.seed) == (None, 8, 7)
    assert users.directory == place.scratch
