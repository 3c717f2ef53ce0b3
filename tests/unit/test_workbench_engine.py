"""Our engine as a generator: its values, and what it is asked."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchwright.core.errors import Interrupted
from benchwright.features.load import engine_values
from benchwright.features.load import request as r
from benchwright.features.load import workload as w
from benchwright.features.load.criteria import parse_criterion
from benchwright.features.load.engine import Conversation
from benchwright.features.load.engine_values import (
    OperationCounts,
    RunningLoad,
    counts_of,
    load_series,
    load_value,
    load_values,
    merged,
)
from benchwright.features.load.plan import LoadTrial, Probe
from benchwright.features.load.response_times import Histogram
from benchwright.features.load.types import (
    ChainDraws,
    EngineResult,
    FileSetMaking,
    FileSetResult,
    IntervalResult,
    TimeDistribution,
)
from benchwright.features.search.engine_generator import (
    EngineGenerator,
    LoadRun,
    limits_s_of,
    request_of,
    with_worker_cpus,
)
from benchwright.features.search.spec_toml import EngineSettings, read_spec
from benchwright.features.search.text import spent_text
from hdr_text import encode

MEAN = parse_criterion("40ms")
P90 = parse_criterion("p90 response < 40ms")
WITHIN = parse_criterion("90% within 40ms")
ERRORS = parse_criterion("errors < 1%")
ALL = (MEAN, P90, WITHIN, ERRORS)


def histogram(*responses_ms: float) -> Histogram:
    """Return a histogram whose buckets hold one nanosecond each."""
    values, counts = np.unique([round(1e6 * one) for one in responses_ms], return_counts=True)
    values, counts = values.astype(np.int64), counts.astype(np.int64)
    return Histogram(values, values, counts)


def tally(*responses_ms: float, **more: float) -> OperationCounts:
    """Return the tally of a load of ten seconds at 100/s."""
    mean = float(np.mean(responses_ms)) if responses_ms else None
    fields = {"failed": 0, "open": 0, "lost": 0, "open_for_s": 0.0} | more
    return OperationCounts(
        rate=100.0,
        lasted_s=10.0,
        intended=1000,
        answered=len(responses_ms),
        mean_ms=mean,
        histogram=histogram(*responses_ms),
        **fields,  # type: ignore[arg-type]
    )


# -- values ------------------------------------------------------------------------------


def test_of_a_load_that_went_well() -> None:
    values = load_values(tally(10, 20, 30, 50), ALL)
    assert values == {
        "response_ms_mean": 27.5,
        "response_ms_p90": 50.0,
        "within_40ms_share": 0.75,
        "error_ratio": 0.0,
    }


def test_what_failed_is_over_every_limit_but_in_no_mean() -> None:
    values = load_values(tally(10, 10, 10, failed=1), ALL)
    assert values["response_ms_mean"] == 10
    assert values["response_ms_p90"] == math.inf
    assert (values["within_40ms_share"], values["error_ratio"]) == (0.75, 0.25)


def test_what_never_ended_is_as_old_as_it_must_be() -> None:
    # Two of 100/s arrived within the last 20 ms, and were waited for two seconds more.
    values = load_values(tally(10, 10, lost=2, open_for_s=2.0), ALL)
    assert values["response_ms_mean"] == pytest.approx((10 + 10 + 2 * 2010) / 4)
    assert values["response_ms_p90"] == math.inf
    assert (values["within_40ms_share"], values["error_ratio"]) == (0.5, 0.5)


def test_what_has_just_arrived_says_nothing_yet() -> None:
    assert load_values(tally(10, 20, open=2), ALL) == load_values(tally(10, 20), ALL)


def test_a_backlog_is_seen_while_the_load_goes_on() -> None:
    # At 100/s the youngest of 104 that are open arrived now, the oldest 1.04 s ago.
    values = load_values(tally(*[10.0] * 100, open=104), ALL)
    assert values["response_ms_mean"] == pytest.approx((1000 + 520 * 104) / 204)
    assert values["within_40ms_share"] == 0.5
    assert values["response_ms_p90"] == math.inf
    assert values["error_ratio"] == 0


def test_nothing_has_no_values() -> None:
    assert load_values(tally(), ALL) == {}
    assert load_value(tally(10), parse_criterion("metric hits > 1")) is None


@given(
    st.lists(st.integers(1, 1000), min_size=1, max_size=50), st.integers(0, 20), st.integers(0, 20)
)
def test_losing_operations_never_makes_a_load_look_better(
    responses: list[int], failed: int, open_: int
) -> None:
    good = tally(*responses)
    bad = tally(*responses, failed=failed, lost=open_, open_for_s=2.0)
    for one in (P90, WITHIN, ERRORS):
        before, after = load_value(good, one), load_value(bad, one)
        assert before is not None
        assert after is not None
        assert after >= before if one.better == "lower" else after <= before


@given(st.lists(st.lists(st.integers(1, 50), max_size=20), max_size=5))
def test_histograms_are_merged_value_by_value(parts: list[list[int]]) -> None:
    whole = merged([histogram(*part) for part in parts if part])
    every = sorted(one for part in parts for one in part)
    assert whole.total == len(every)
    if every:
        expected = histogram(*every)
        assert whole.high.tolist() == expected.high.tolist()
        assert whole.count.tolist() == expected.count.tolist()


def result_of(intended: int, answered: int, **counts: int) -> EngineResult:
    """Return what the engine tells of a load of ten seconds whose responses took 10 ms."""
    none = dict.fromkeys(
        ["errors", "dropped", "skipped", "held", "unfinished", "early", "starved", "waiting"], 0
    )
    times = {"count": answered, "mean": 10e6 if answered else None}
    kind = {
        "operations": answered,
        "bytes": 0,
        "errors": {"EIO": counts["errors"]} if counts.get("errors") else {},
        "issue_error_ns": times,
        "response_ns": times,
        "service_ns": times,
    }
    said = {
        "schema": "load/1",
        "interrupted": False,
        "started_ns": 1,
        "elapsed_ns": 10 * 10**9,
        "target": {"kind": "http"},
        "clock": {"source": "tsc"},
        "pacer": "spin",
        "counts": none | {"intended": intended, "issued": intended, "completed": answered} | counts,
        "intended_rate_per_s": intended / 10,
        "offered_rate_per_s": intended / 10,
        "achieved_rate_per_s": answered / 10,
        "lateness_ns": {"count": 0},
        "kinds": {"all": kind},
        "intervals": [],
        "workers": [],
        "environment": {"memory_locked": True},
    }
    return msgspec.convert(said, EngineResult)


def test_what_waited_at_the_end_was_cut_short_and_is_no_error() -> None:
    # A server that keeps up: two of 100/s wait for a connection when the load ends.
    found = counts_of(result_of(1000, 998, waiting=2), 10.0, patience_s=0.04)
    assert (found.open, found.lost, found.failed) == (2, 0, 0)
    assert load_values(found, (MEAN, ERRORS)) == {"response_ms_mean": 10.0, "error_ratio": 0.0}


def test_a_queue_older_than_every_limit_at_the_end_is_lost() -> None:
    # Of 604 that wait at 100/s four can be younger than 40 ms.
    found = counts_of(result_of(1000, 396, waiting=604), 10.0, patience_s=0.04)
    assert (found.open, found.lost) == (4, 600)
    assert load_value(found, ERRORS) == pytest.approx(600 / 996)


def test_behind_what_never_ended_all_is_lost() -> None:
    result = msgspec.structs.replace(
        result_of(1000, 996, waiting=2, unfinished=2), elapsed_ns=12 * 10**9
    )
    found = counts_of(result, 10.0, patience_s=0.04)
    assert (found.open, found.lost, found.open_for_s) == (0, 4, 2.0)


def say(
    result: EngineResult, monkeypatch: pytest.MonkeyPatch, *, interrupted: bool = False
) -> None:
    """Let the engine answer so, and an interrupt come after its answer."""
    answer = msgspec.to_builtins(result) | {"type": "result"}
    say_lines([answer], monkeypatch, interrupted=interrupted)


def say_lines(
    lines: Sequence[Mapping[str, object]],
    monkeypatch: pytest.MonkeyPatch,
    *,
    interrupted: bool = False,
    noted: Callable[[str], None] = lambda _: None,
) -> None:
    """Let the engine print these lines; note what becomes of it."""

    class Answered(Conversation):
        def __init__(self) -> None:
            self.interrupted = self.is_ending = False

        def lines(self, warn: Callable[[str], None] = lambda _: None) -> Iterator[bytes]:
            del warn
            for line in lines:
                noted(str(line["type"]))
                yield msgspec.json.encode(line)

        def end_input(self) -> None:
            noted("start")

    @contextlib.contextmanager
    def conversation(request: r.LoadRequest, _prefix: object) -> Iterator[Answered]:
        noted("waits" if request.wait_for_start is True else "goes")
        engine = Answered()
        yield engine
        engine.interrupted = interrupted

    module = "benchwright.features.search.engine_generator.conversation"
    monkeypatch.setattr(module, conversation)


def test_an_interrupt_after_the_engines_answer_is_not_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    generator = EngineGenerator(settings("target = 'null'"), (ERRORS,), ())
    load = LoadRun(Probe(1, 10.0), {}, 1, tmp_path, lambda _: False)
    say(result_of(10, 10), monkeypatch)
    assert generator.run(load).offered == 10
    say(result_of(10, 10), monkeypatch, interrupted=True)
    with pytest.raises(Interrupted):
        generator.run(load)


FILES = """target = 'dir:/x'
workload = 'work.toml'
"""
WORK = """[files]
files = 2
size = "1k"
[[filament]]
type = "files"
rate = 1
operations = { read = 1 }
"""
MADE = {"type": "making", "phase": "make", "done": 1, "total": 2, "elapsed_ns": 1}
FULL = {"type": "error", "status": 1, "code": "file-set-space", "message": "full"}


@pytest.mark.parametrize(
    ("says", "noted"),
    [
        (["made", "ready", "result"], "lifted waits making ready limited start result"),
        (["made", "full"], "lifted waits making error limited: full"),
    ],
)
def test_a_load_starts_after_the_limits_of_the_making_hold_again(
    says: list[str], noted: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []
    lines = {
        "made": MADE,
        "ready": {"type": "ready"},
        "full": FULL,
        "result": msgspec.to_builtins(result_of(10, 10)) | {"type": "result"},
    }
    say_lines([lines[one] for one in says], monkeypatch, noted=steps.append)

    @contextlib.contextmanager
    def without_limits() -> Iterator[None]:
        steps.append("lifted")
        yield
        steps.append("limited")

    (tmp_path / "work.toml").write_text(WORK)
    generator = EngineGenerator(settings(FILES, str(tmp_path / "s.toml")), (ERRORS,), ())
    load = LoadRun(Probe(1, 10.0), {}, 1, tmp_path, lambda _: False, without_limits)
    trial = generator.run(load)
    failure = trial.failure.removeprefix("the engine")
    assert " ".join(steps) + failure == noted
    # Without limits there is nothing to wait for.
    steps.clear()
    made = FileSetMaking(10, 10, 10, 0, 0, 0, 0, making_ns=2_500_000_000)
    files = FileSetResult(*(1, 10, 0, 0, 10, 10, 10), (), (), (), (), (), *(0, 0, 0), made)
    result = msgspec.structs.replace(result_of(10, 10), file_set=files)
    line = msgspec.to_builtins(result) | {"type": "result"}
    say_lines([line], monkeypatch, noted=steps.append)
    trial = generator.run(LoadRun(Probe(1, 10.0), {}, 1, tmp_path, lambda _: False))
    assert steps == ["goes", "result"]
    assert trial.making_s == 2.5
    spent = spent_text(10.0, 20.0, 1, trial.making_s)
    assert spent == "10 s of load, 2.5 s of making file sets, 20 s in total, in 1 trial"


# -- intervals ---------------------------------------------------------------------------


def interval(second: int, completed: int, mean_ms: float | None, **more: int) -> IntervalResult:
    """Return an interval without a histogram."""
    fields = {"errors": 0, "dropped": 0, "in_flight": 0, "waiting": 0} | more
    return IntervalResult(
        start_ns=second * 10**9,
        length_ns=10**9,
        intended=100,
        issued=100,
        completed=completed,
        response_ns_mean=None if mean_ms is None else 1e6 * mean_ms,
        **fields,
    )


def test_a_load_so_far_is_the_sum_of_its_intervals() -> None:
    running = RunningLoad((MEAN, ERRORS))
    running.add(interval(0, 100, 10))
    running.add(interval(1, 51, 30, errors=1, waiting=40, in_flight=9))
    so_far = running.counts(1.0)
    assert (so_far.answered, so_far.failed, so_far.open) == (150, 1, 49)
    assert so_far.mean_ms == pytest.approx((10 * 100 + 30 * 50) / 150)
    assert (so_far.lasted_s, so_far.intended, so_far.rate) == (2.0, 200, 100.0)
    assert running.series().counts == (100, 50)


def test_a_load_without_arrivals_so_far_has_the_probes_rate() -> None:
    assert RunningLoad((MEAN,)).counts(70.0).rate == 70.0


def test_each_interval_of_a_running_load_is_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    computed: list[int] = []

    def counted(one: IntervalResult) -> Histogram:
        computed.append(one.start_ns)
        return merged([])

    monkeypatch.setattr(engine_values, "histogram_of", counted)
    running = RunningLoad((MEAN, ERRORS))
    for second in range(5):
        running.add(interval(second, 10, 5.0))
        running.counts(1.0)
        running.series()
    assert computed == [second * 10**9 for second in range(5)]


def test_a_second_in_which_nothing_ended_has_a_count_of_zero() -> None:
    series = load_series([interval(0, 10, 5.0), interval(1, 0, None)], (MEAN, ERRORS))
    assert (series.at_s, series.counts) == ((0.0, 1.0), (10, 0))
    assert series.values["response_ms_mean"] == (5.0, 0.0)
    assert series.binned_by == "completion"


def with_times(
    result: EngineResult, late_p99_ms: float | None = None, **times_ms: list[float]
) -> EngineResult:
    """Return the result with these times, and this lateness of the generator [ms]."""
    found = {
        name: TimeDistribution(
            len(values),
            mean=1e6 * float(np.mean(values)),
            hdr=encode([round(1e6 * one) for one in values], 3),
        )
        for name, values in times_ms.items()
    }
    late_ns = None if late_p99_ms is None else round(1e6 * late_p99_ms)
    return msgspec.structs.replace(
        result,
        lateness_ns=TimeDistribution(1, p99=late_ns),
        kinds={"all": msgspec.structs.replace(result.all, **found)},
    )


def trial_of(
    result: EngineResult, place: Path, monkeypatch: pytest.MonkeyPatch, probe: Probe
) -> LoadTrial:
    """Return the trial that the generator makes of an engine's result."""
    say(result, monkeypatch)
    generator = EngineGenerator(settings("target = 'null'"), ALL, ())
    return generator.run(LoadRun(probe, {}, 1, place, lambda _: False))


LATE = [10.0] * 80 + [90.0] * 20
PROBE = Probe(10, 10.0)


def test_a_trial_has_its_values_without_the_lateness_of_the_generator(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_time = [10.0] * 100
    result = with_times(
        result_of(120, 100, skipped=20),
        81.0,
        response_ns=LATE,
        service_ns=on_time,
        target_response_ns=on_time,
    )
    trial = trial_of(result, tmp_path, monkeypatch, PROBE)
    assert trial.late_p99_ms == 81.0
    measured = [trial.values[one.key] for one in ALL]
    assert measured == [26.0, math.inf, pytest.approx(80 / 120), pytest.approx(1 / 6)]
    alone = [trial.target_values[one.key] for one in ALL]
    assert alone == [10.0, pytest.approx(10, rel=0.001), 1.0, 0.0]
    assert trial.target_values["response_ms_p99"] == pytest.approx(10, rel=0.001)


def test_a_server_that_keeps_operations_waiting_or_fails_them_is_not_excused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = with_times(
        result_of(130, 100, unfinished=10, dropped=10, errors=10),
        0.01,
        response_ns=LATE,
        service_ns=[10.0] * 100,
        target_response_ns=LATE,
    )
    trial = trial_of(result, tmp_path, monkeypatch, PROBE)
    values = {key: trial.values[key] for key in trial.target_values}
    assert trial.target_values == values
    assert trial.target_values["error_ratio"] == pytest.approx(30 / 130)


def test_what_the_generator_does_not_say_is_absent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    older = with_times(result_of(100, 100), response_ns=LATE)
    trial = trial_of(older, tmp_path, monkeypatch, PROBE)
    assert (trial.late_p99_ms, trial.target_values, trial.users) == (None, {}, None)
    closed = trial_of(older, tmp_path, monkeypatch, Probe(3, 10.0, users=3))
    assert closed.users == 3


UNLIMITED = msgspec.structs.replace(MEAN, limit=math.inf)


def test_limits_of_responses_are_those_that_limit_a_time() -> None:
    assert limits_s_of((MEAN, UNLIMITED, ERRORS)) == [0.04]


def test_a_trial_with_another_mix_or_a_restarted_server_is_marked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def marks(drawn: int, verifier_changes: int) -> tuple[str, ...]:
        mix = (ChainDraws(0, "a", 1, drawn), ChainDraws(0, "b", 1, 1000))
        files = FileSetResult(*(1, 10, 0, 0, 10, 10, 10), mix, (), (), (), (), *(0, 0, 0))
        result = result_of(10, 10)
        target = msgspec.structs.replace(result.target, verifier_changes=verifier_changes)
        result = msgspec.structs.replace(result, file_set=files, target=target)
        return trial_of(result, tmp_path, monkeypatch, PROBE).marks

    assert marks(1050, 0) == ()
    assert marks(1300, 0) == ("mix-differs",)
    assert marks(1000, 1) == ("server-restarted",)


def test_without_a_limit_no_operation_that_is_open_is_too_old() -> None:
    limitless = msgspec.structs.replace(P90, limit=math.inf)
    assert load_value(tally(10, 20, open=1000), limitless) == 20


# -- requests ----------------------------------------------------------------------------


def settings(text: str, file: str = "s") -> EngineSettings:
    """Return the settings of a `[load]`."""
    found = read_spec(f"[load]\n{text}\n", file).load.settings
    assert isinstance(found, EngineSettings)
    return found


def test_a_probe_is_an_open_loop_at_its_rate() -> None:
    own = settings("target = 'http://h/x'\nconnections = 8\nworkers = 2")
    request = request_of(own, Probe(12.5, 60.0), ALL, {})
    (filament,) = request.workload.filaments
    assert isinstance(filament, w.Open)
    assert filament.rate == w.ConstantRate(12_500_000)
    assert filament.arrival == w.PoissonArrival()
    assert (request.duration_ns, request.interval_ns) == (60 * 10**9, 10**9)
    assert (request.workers, request.interval_histograms) == (2, True)


def test_users_are_a_closed_loop_with_a_connection_each() -> None:
    own = settings("target = 'http://h/x'\nthink = '5ms'\ndepth = 3\nworkers = 2")
    request = request_of(own, Probe(7, 1.0, users=7), ALL, {})
    (filament,) = request.workload.filaments
    assert isinstance(filament, w.Closed)
    assert (filament.users, filament.think) == (7, w.ConstantValue(5 * 10**6))
    assert isinstance(request.target, r.HttpTarget)
    assert (request.target.connections, request.depth, request.workers) == (7, 7, 2)
    one = request_of(own, Probe(1, 1.0, users=1), ALL, {})
    assert one.workers == 1, "the second worker would have no user"


@pytest.mark.parametrize(
    ("criterion", "drain_s"),
    [("40ms", 1), ("p99 < 1s", 3), ("90% within 2s", 6), ("p99 < 1m", 10), ("errors < 1%", 3)],
)
def test_an_end_is_waited_for_a_few_limits(criterion: str, drain_s: int) -> None:
    own = settings("target = 'null'")
    request = request_of(own, Probe(1, 1), (parse_criterion(criterion),), {})
    assert request.drain_ns == drain_s * 10**9


def test_the_user_says_how_long_an_end_is_waited_for() -> None:
    own = settings("target = 'null'\ndrain = '7s'")
    assert request_of(own, Probe(1, 1), ALL, {}).drain_ns == 7 * 10**9


def test_each_worker_has_a_processor_where_there_are_enough() -> None:
    request = request_of(settings("target = 'null'\nworkers = 2"), Probe(1, 1), ALL, {})
    assert with_worker_cpus(request, (3, 4, 5)).cpus == (3, 4)
    assert with_worker_cpus(request, (3,)).cpus is None
    assert with_worker_cpus(request, ()).cpus is None
