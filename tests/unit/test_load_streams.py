"""Streams of a load: limits and values of their times, requests of language models, findings."""

from __future__ import annotations

import json
import math
import statistics
from pathlib import Path
from typing import Any

import msgspec
import pytest

from benchwright.core.comparison import GateOutcome
from benchwright.core.criterion import criterion_text
from benchwright.core.errors import BenchError, InputError
from benchwright.core.numeric import np
from benchwright.features.load import parse
from benchwright.features.load import request as r
from benchwright.features.load import workload as w
from benchwright.features.load.chart import timeline_panel
from benchwright.features.load.criteria import parse_criterion, parse_good, parse_limit
from benchwright.features.load.engine import encoded, load_metrics
from benchwright.features.load.engine_values import (
    RunningLoad,
    counts_of,
    load_series,
    load_value,
    target_counts,
)
from benchwright.features.load.findings import load_findings
from benchwright.features.load.limits import judged
from benchwright.features.load.llm import KEY_VARIABLE, AskedOfModels, asked_of_models
from benchwright.features.load.plan import (
    CommandLineLoad,
    PreparedLoad,
    Probe,
    plan_of_command,
    plan_of_file,
)
from benchwright.features.load.report import LoadReport
from benchwright.features.load.streams import missing_streams, stream_times
from benchwright.features.load.types import (
    EngineResult,
    IntervalResult,
    LoopModel,
    TimeDistribution,
)
from benchwright.features.load.view import load_text
from benchwright.features.load.workload_toml import read_workload
from benchwright.features.search.engine_generator import request_of
from benchwright.features.search.spec_toml import EngineSettings, why_not_streamed
from benchwright.inputs.mistakes import Where
from benchwright.inputs.template import brace_template
from hdr_text import encode

GOLDEN = Path(__file__).parents[1] / "golden" / "load" / "result.json"
MS = 1_000_000
HELD, MISSED, UNDECIDED = GateOutcome.PASSED, GateOutcome.FAILED, GateOutcome.UNDECIDED


def histogram(counts: dict[int, int]) -> str:
    """Return the histogram of these counts of times [ns]."""
    return encode([ns for ns, count in counts.items() for _ in range(count)], 3)


def times(counts: dict[int, int]) -> dict[str, Any]:
    """Return the distribution of times with these counts [ns]."""
    values = [ns for ns, count in counts.items() for _ in range(count)]
    return {
        "count": len(values),
        "mean": statistics.mean(values),
        "max": max(values),
        "p50": statistics.median_low(values),
        "hdr": encode(values, 3),
    }


def distribution(counts: dict[int, int]) -> TimeDistribution:
    """Return the distribution of times with these counts [ns]."""
    return msgspec.convert(
        times({ns: count for ns, count in counts.items() if count}), TimeDistribution
    )


def streamed(
    first: dict[int, int],
    *,
    failed: int = 0,
    never: int = 0,
    held: int = 0,
    service: dict[int, int] | None = None,
    late: dict[int, int] | None = None,
    others: int = 0,
    **more: Any,
) -> EngineResult:
    """Return the result of a load of streams with these times of the first event [ns], of which
    `failed` ended badly, and `never` did not end; `late`: how late operations started [ns]; `others`:
    operations of another target that ended."""
    found = msgspec.json.decode(GOLDEN.read_bytes())
    n = sum(first.values())
    for name in ("dropped", "skipped", "waiting", "held_late"):
        found["counts"][name] = 0
    found["counts"] |= {
        "intended": n + failed + never,
        "issued": n + failed + never,
        "completed": n + failed + others,
        "errors": failed,
        "unfinished": never,
        "held": held,
    }
    none = {"count": 0, "mean": None}
    found["lateness_ns"] = times(late or {1000: n})
    whole = found["kinds"]["all"]
    whole["target_response_ns"] = whole["response_ns"]
    found["streams"] = {
        "operations": n + failed,
        "succeeded": n,
        "cut": failed,
        "failed_inside": 0,
        "first_ns": times(first),
        "first_service_ns": times(service or first),
        "first_visible_ns": times(first),
        "first_event_ns": times(first),
        "last_ns": times({9 * ns: count for ns, count in first.items()}),
        "tpot_ns": none,
        "gap_ns": times({10 * MS: 10 * n}),
        "largest_gap_ns": times({10 * MS: n}),
        "read_lateness_ns": none,
        "events": 12 * n,
        "content_events": 11 * n,
        "shared_events": 0,
        **more,
    }
    return msgspec.convert(found, EngineResult)


def outcome(text: str, result: EngineResult) -> GateOutcome:
    """Return the verdict on one limit."""
    (verdict,) = judged([parse_limit(text)], result)
    return verdict.outcome


# -- criteria -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "key", "told"),
    [
        ("p95 first < 500ms", "first_ms_p95", "p95 first < 500 ms"),
        ("p99.9 largest gap < 1s", "largest_gap_ms_p99_9", "p99.9 largest gap < 1,000 ms"),
        ("first visible < 1s", "first_visible_ms_mean", "mean first visible < 1,000 ms"),
        ("median tpot < 50ms", "tpot_ms_p50", "p50 tpot < 50 ms"),
        ("95% good", "good_share", "good > 95 %"),
        ("p99 response < 20ms", "response_ms_p99", "p99 response < 20 ms"),
    ],
)
def test_criteria_of_streams(text: str, key: str, told: str) -> None:
    found = parse_criterion(text)
    assert (found.key, criterion_text(found)) == (key, told)


@pytest.mark.parametrize(
    "text", ["p95 ttft < 5ms", "p95 first > 5ms", "0% good", "p95 first < 0ms", "p95 first of a"]
)
def test_what_is_no_criterion_of_streams(text: str) -> None:
    with pytest.raises(ValueError, match=r"is|has|zero|limited|always"):
        parse_criterion(text)
    with pytest.raises(ValueError, match="all operations together"):
        parse_limit("p95 first < 5ms of GET")


def test_limits_of_a_good_stream() -> None:
    assert parse_good("first<5ms") == r.StreamLimit("first", 5 * MS)
    assert parse_good("first visible < 1s") == r.StreamLimit("first_visible", 1000 * MS)
    for wrong in ("ttft < 1s", "gap > 1s", "first < 0s", "service < 1s"):
        with pytest.raises(ValueError, match=r"is|has|zero|limited|always"):
            parse_good(wrong)


# -- verdicts ------------------------------------------------------------------------------


def test_streams_that_failed_or_did_not_end_are_slower_than_all() -> None:
    quick = {50 * MS: 1000}
    assert outcome("p95 first < 100ms", streamed(quick)) is HELD
    each: list[dict[str, Any]] = [{"failed": 100}, {"never": 100}]
    for lost in each:
        assert outcome("p95 first < 100ms", streamed(quick, **lost)) is MISSED
        assert outcome("p95 last < 1s", streamed(quick, **lost)) is MISSED
    # A stream that failed adds one gap without an end to ten thousand.
    assert outcome("p95 gap < 100ms", streamed(quick, failed=100)) is HELD
    assert outcome("p99.9 gap < 100ms", streamed(quick, failed=100)) is MISSED


def test_a_stream_without_content_has_no_first_event_and_fails_the_limit() -> None:
    empty = streamed({50 * MS: 900}, operations=1000, succeeded=1000)
    assert missing_streams(empty, "first") == (100, 1000)
    assert missing_streams(empty, "largest_gap") == (0, 900)
    assert outcome("p95 first < 100ms", empty) is MISSED


def test_too_few_streams_decide_nothing() -> None:
    (verdict,) = judged([parse_limit("p99 first < 100ms")], streamed({50 * MS: 20}))
    assert verdict.outcome is UNDECIDED
    assert "20 streams cannot show 1 %" in verdict.detail


def test_lateness_of_the_generator_is_no_verdict_on_the_server() -> None:
    late: dict[str, Any] = {"first": {200 * MS: 1000}, "service": {50 * MS: 1000}}
    assert outcome("p95 first < 100ms", streamed(**late)) is UNDECIDED
    # Operations that waited for a free place waited for the server.
    assert outcome("p95 first < 100ms", streamed(**late, held=500)) is MISSED


def test_the_share_of_good_streams() -> None:
    quick = {50 * MS: 1000}
    assert outcome("95% good", streamed(quick, good=990)) is HELD
    assert outcome("95% good", streamed(quick, good=900)) is MISSED
    assert outcome("95% good", streamed(quick, good=955)) is UNDECIDED
    assert outcome("95% good", streamed(quick, good=1000, never=200)) is MISSED
    assert outcome("95% good", streamed(quick)) is UNDECIDED


def test_lateness_of_the_generator_is_no_verdict_on_good_streams() -> None:
    late: dict[str, Any] = {"first": {50 * MS: 1000}, "good": 900}
    assert outcome("95% good", streamed(**late)) is MISSED
    late["late"] = {1000: 900, 300 * MS: 100}
    assert outcome("95% good", streamed(**late)) is UNDECIDED
    assert outcome("95% good", streamed(**late, held=500)) is MISSED
    # Streams that failed do not become good by an earlier start.
    assert outcome("95% good", streamed(**late, failed=100)) is MISSED


LATE: dict[str, Any] = {"count": 9, "p99": 5 * MS}
"""How late events with gaps of 10 ms were read."""
TPOT: dict[str, Any] = {"with_tokens": 1000, "tokens": 9000}


def test_a_late_reader_decides_only_what_holds_as_an_upper_bound() -> None:
    tpot = TPOT | {"tpot_ns": times({10 * MS: 1000}), "good": 1000}
    at = {50 * MS: 1000}
    limits = {
        "p95 first < 100ms": (HELD, HELD),
        "p95 first < 10ms": (MISSED, UNDECIDED),
        "mean first < 10ms": (MISSED, UNDECIDED),
        "p95 last < 10ms": (MISSED, UNDECIDED),
        "p95 tpot < 20ms": (HELD, UNDECIDED),
        "p95 tpot < 5ms": (MISSED, UNDECIDED),
        "mean tpot < 20ms": (HELD, UNDECIDED),
        "p95 gap < 20ms": (HELD, UNDECIDED),
        "p95 gap < 5ms": (MISSED, UNDECIDED),
        "95% good": (HELD, UNDECIDED),
    }
    in_time, late = streamed(at, **tpot), streamed(at, **tpot, read_lateness_ns=LATE)
    for text, expected in limits.items():
        assert (outcome(text, in_time), outcome(text, late)) == expected, text
    (verdict,) = judged([parse_limit("p95 gap < 5ms")], late)
    assert "reader-late" in verdict.detail
    assert outcome("95% good", streamed(at, good=500, read_lateness_ns=LATE)) is UNDECIDED


def test_a_read_with_many_events_is_compared_with_the_time_between_two() -> None:
    # The stamp of a read is that of its newest packet: 0.5 ms of gaps of 10 ms that hold ten events.
    late: dict[str, Any] = {"read_lateness_ns": {"count": 9, "p99": MS // 2}}
    assert "reader-late" not in codes(streamed({50 * MS: 1000}, **late))
    assert "reader-late" in codes(streamed({50 * MS: 1000}, **late, shared_events=9900))


def test_first_events_that_were_read_with_others_may_be_earlier() -> None:
    slow = {50 * MS: 900, 300 * MS: 100}
    limit, mean = "p95 first < 100ms", "mean first < 70ms"
    assert outcome(limit, streamed(slow)) is MISSED
    assert outcome(limit, streamed(slow, first_shared=10)) is MISSED
    for text in (limit, mean):
        (verdict,) = judged([parse_limit(text)], streamed(slow, first_shared=80))
        assert verdict.outcome is UNDECIDED
        assert "80 streams was read with later ones" in verdict.detail
    assert outcome("p95 first < 400ms", streamed(slow, first_shared=80)) is HELD
    assert outcome("95% good", streamed(slow, good=900, first_shared=80)) is UNDECIDED
    assert outcome("95% good", streamed(slow, good=900, without_tpot=80)) is UNDECIDED
    assert outcome("95% good", streamed(slow, good=900, without_tpot=10)) is MISSED


def test_streams_of_unknown_tpot_are_fast_or_slow() -> None:
    def told(text: str, counts: dict[int, int], **more: Any) -> GateOutcome:
        return outcome(text, streamed({50 * MS: 1000}, **TPOT, tpot_ns=times(counts), **more))

    for text in ("p95 tpot < 20ms", "mean tpot < 20ms"):
        assert told(text, {10 * MS: 1000}) is HELD
        assert told(text, {10 * MS: 995, 50 * MS: 5}, without_tpot=5) is HELD
        assert told(text, {10 * MS: 400, 50 * MS: 5}, without_tpot=500) is UNDECIDED
        assert told(text, {50 * MS: 900}, without_tpot=100) is MISSED
    assert told("p95 tpot < 20ms", {50 * MS: 50}, without_tpot=950) is UNDECIDED
    assert told("mean tpot < 20ms", {50 * MS: 50}, without_tpot=950) is UNDECIDED
    assert told("p95 tpot < 20ms", {10 * MS: 1000}, first_shared=500) is UNDECIDED


def test_a_mean_that_failed_streams_could_change_is_undecided() -> None:
    at, tpot = {50 * MS: 1000}, {"tpot_ns": times({10 * MS: 1000})} | TPOT
    for text in ("mean first < 100ms", "mean last < 1s", "mean tpot < 20ms", "mean gap < 20ms"):
        assert outcome(text, streamed(at, **tpot)) is HELD
        assert outcome(text, streamed(at, **tpot, failed=1000)) is UNDECIDED, text
    # One of a thousand, as long as the whole load of 5 s, adds 5 ms to the mean of first.
    assert streamed(at).elapsed_ns < 6000 * MS
    assert outcome("mean first < 100ms", streamed(at, failed=1)) is HELD
    assert outcome("mean first < 30ms", streamed(at, failed=1000)) is MISSED
    (verdict,) = judged([parse_limit("mean gap < 20ms")], streamed(at, failed=40))
    assert "40 streams that failed or did not end" in verdict.detail


def test_what_another_target_did_not_end_may_be_no_stream() -> None:
    quick = {50 * MS: 1000}
    one: dict[str, Any] = {"never": 200}
    other = one | {"others": 500}
    limits = ("p95 first < 100ms", "95% good")
    for text in limits:
        assert outcome(text, streamed(quick, **one, good=1000)) is MISSED
        assert outcome(text, streamed(quick, others=500, good=1000)) is HELD
        (verdict,) = judged([parse_limit(text)], streamed(quick, **other, good=1000))
        assert verdict.outcome is UNDECIDED
        assert "unknown whether they are streams" in verdict.detail
    assert missing_streams(streamed(quick, **one), "first") == (200, 1200)
    assert missing_streams(streamed(quick, **other), "first") == (0, 1000)
    slow = streamed({50 * MS: 500, 300 * MS: 500}, **other, good=500)
    for text in limits:
        assert outcome(text, slow) is MISSED


@pytest.mark.parametrize("streams", [20, 50])
@pytest.mark.parametrize("share", [0.5, 0.05])
def test_gaps_of_one_stream_are_alike(streams: int, share: float) -> None:
    """Streams differ: gaps of some are slow, with a share of its own for each, also more of them in
    longer streams. The share of all is exactly the allowed one: at most 5 % of verdicts may be wrong."""
    random = np.random.default_rng(20)
    limit = parse_limit(f"p{100 * (1 - share):g} gap < 20ms")
    for concentration in (0.2, 2.0, 50.0):
        for sigma in (0.0, 1.0):
            wrong = dict.fromkeys(GateOutcome, 0)
            for _ in range(150):
                lengths = np.maximum(1, 30 * random.lognormal(0, sigma, streams)).astype(int)
                own = random.beta(concentration * share, concentration * (1 - share), streams)
                slow = int(random.binomial(lengths, own).sum())
                found = streamed(
                    {50 * MS: streams},
                    timeline=[[0, 0, 1, 2, 2, int(length), 0] for length in lengths],
                )
                gaps = {10 * MS: int(lengths.sum()) - slow, 50 * MS: slow}
                assert found.streams is not None
                changed = msgspec.structs.replace(found.streams, gap_ns=distribution(gaps))
                (verdict,) = judged([limit], msgspec.structs.replace(found, streams=changed))
                wrong[verdict.outcome] += 1
            # Of 150, 5 % are 7.5; 14 or more happen in 1 of 100 such cells.
            assert max(wrong[HELD], wrong[MISSED]) < 14, (concentration, sigma, wrong)


def test_a_load_without_streams_decides_nothing_about_them() -> None:
    plain = msgspec.convert(msgspec.json.decode(GOLDEN.read_bytes()), EngineResult)
    assert plain.streams is None
    assert outcome("p95 first < 100ms", plain) is UNDECIDED
    assert not any(name.startswith(("first", "tpot", "good")) for name in load_metrics(plain))


# -- values of a search ---------------------------------------------------------------------


def test_values_of_a_trial() -> None:
    result = streamed({50 * MS: 900, 300 * MS: 50}, failed=50, good=900)
    tally = counts_of(result, 5.0, 1.0)
    p90 = load_value(tally, parse_criterion("p90 first < 100ms"))
    assert p90 is not None
    assert p90 == pytest.approx(50, rel=0.01)
    assert load_value(tally, parse_criterion("p99 first < 100ms")) == math.inf
    assert load_value(tally, parse_criterion("95% good")) == pytest.approx(0.9)
    # Nobody counted tokens, and no stream has failed alone in that.
    assert load_value(counts_of(streamed({MS: 5}), 5.0, 1.0), parse_criterion("tpot < 1s")) is None


def test_values_of_the_target_are_without_the_generators_lateness() -> None:
    result = streamed({200 * MS: 1000}, service={50 * MS: 1000})
    limit = parse_criterion("p95 first < 100ms")
    of_target = target_counts(counts_of(result, 5.0, 1.0), result)
    assert of_target is not None
    value = load_value(of_target, limit)
    assert value is not None
    assert value < 100


def test_intervals_have_values_of_the_first_event_and_of_good_streams() -> None:
    result = streamed({50 * MS: 10})
    intervals = tuple(
        msgspec.structs.replace(
            one, first_hdr=histogram({(at + 1) * 10 * MS: 100}), good=80, completed=100, errors=0
        )
        for at, one in enumerate(result.intervals)
    )
    first, good = parse_criterion("p95 first < 1s"), parse_criterion("95% good")
    series = load_series(intervals, (first, good, parse_criterion("p95 tpot < 1s")))
    assert series.values[first.key][:2] == pytest.approx((10, 20), rel=0.01)
    assert set(series.values[good.key]) == {0.8}
    assert "tpot_ms_p95" not in series.values
    running = RunningLoad((first, good))
    for one in intervals:
        running.add(one)
    value = load_value(running.counts(1.0), first)
    assert value is not None
    assert value == pytest.approx(10 * len(intervals), rel=0.01)
    assert load_value(running.counts(1.0), good) == pytest.approx(0.8)


def test_what_another_target_lost_is_no_stream() -> None:
    first, good = parse_criterion("p95 first < 100ms"), parse_criterion("95% good")
    more: dict[str, Any] = {"good": 1000, "never": 200, "others": 800}
    older = streamed({50 * MS: 1000}, **more)
    assert load_value(counts_of(older, 5.0, 1.0), first) == math.inf
    assert outcome("p95 first < 100ms", older) is UNDECIDED
    lost = {"dropped": 0, "skipped": 0, "waiting": 0, "unfinished": 0}
    result = streamed({50 * MS: 1000}, **more, lost=lost)
    tally = counts_of(result, 5.0, 1.0)
    assert load_value(tally, first) == pytest.approx(50, rel=0.01)
    assert load_value(tally, good) == 1.0
    assert outcome("p95 first < 100ms", result) is HELD
    own = streamed({50 * MS: 1000}, **more, lost=lost | {"unfinished": 150, "dropped": 50})
    tally = counts_of(own, 5.0, 1.0)
    assert load_value(tally, first) == math.inf
    assert load_value(tally, good) == pytest.approx(1000 / 1200)
    assert outcome("p95 first < 100ms", own) is MISSED


def test_operations_of_another_target_are_no_streams_of_a_running_load() -> None:
    first, good = parse_criterion("p95 first < 100ms"), parse_criterion("95% good")
    running = RunningLoad([first, good])
    hdr = histogram({50 * MS: 90})
    interval = IntervalResult(
        *(0, 10**9, 200, 200, 190, 60, 10, 900, 0), streams=92, good=90, first_hdr=hdr
    )
    assert interval.streams is not None
    running.add(interval)
    tally = running.counts(1.0)
    assert load_value(tally, good) == 90 / 92
    assert load_value(tally, first) == pytest.approx(50, rel=0.01)
    # All are streams: of those in flight the oldest have waited for longer than the limit.
    alone = RunningLoad([first, good])
    alone.add(msgspec.structs.replace(interval, completed=92, dropped=0, errors=2))
    assert load_value(alone.counts(1.0), first) == math.inf


# -- what is shown ----------------------------------------------------------------------------


def test_the_report_of_streams() -> None:
    result = streamed(
        {50 * MS: 1000},
        failed=5,
        good=990,
        tokens=10_000,
        with_tokens=1000,
        prompt_tokens=50_000,
        cached_tokens=500,
        tokens_per_s=2000.0,
    )
    text = load_text(result, (), LoadReport(target="http://h/", open_loop=True))
    for shown in ("first p", "good", "largest gap", "5 streams without their end", "1 % of them"):
        assert shown in text
    assert "tpot" not in text
    assert stream_times(result, "first").p99_99 is None


def test_the_timeline_has_a_line_for_each_part_of_a_stream() -> None:
    rows = [
        [2 * MS, 2 * MS, None, None, 9 * MS, None, -20_001],
        [0, 1, 5 * MS, 8 * MS, 8 * MS, 9, 0],
    ]
    streams = streamed({50 * MS: 2}, timeline=rows).streams
    assert streams is not None
    until, events, failed = timeline_panel(streams).curves
    assert until.x[:2] == (0, 0.005)
    assert events.x[:2] == (0.005, 0.008)
    assert failed.y == (2, 2, None)


ASKED = AskedOfModels(9.0, None, shares=False)


def codes(result: EngineResult, *, asked: AskedOfModels | None = ASKED) -> set[str]:
    """Return the codes of the findings."""
    loop = LoopModel(open=True, closed=False)
    return {one.code for one in load_findings(result, loop, "x", asked=asked)}


@pytest.mark.parametrize(
    ("code", "more"),
    [
        ("events-coalesced", {"shared_events": 3000}),
        ("reader-late", {"read_lateness_ns": {"count": 9, "p99": 3 * MS}, "gap_ns": {"count": 9, "p50": 10 * MS}}),
        ("tokens-unknown", {"with_tokens": 999}),
        ("role-only-first", {"first_event_ns": {"count": 9, "p50": 40 * MS}, "first_ns": {"count": 9, "p50": 50 * MS}}),
        ("prefix-cache-warm", {"cached_tokens": 6000}),
        ("outputs-shorter", {"tokens": 8000}),
        ("stream-cut", {"cut": 3}),
        ("no-events", {"without_events": 1}),
        ("no-events", {"events": 0}),
        ("tpot-unknown", {"without_tpot": 600}),
    ],
)  # fmt: skip
def test_findings_about_streams(code: str, more: dict[str, Any]) -> None:
    sound: dict[str, Any] = {
        "with_tokens": 1000,
        "tokens": 9000,
        "prompt_tokens": 50_000,
        "stopped_by_length": 1000,
    }
    assert code not in codes(streamed({50 * MS: 1000}, **sound))
    assert code in codes(streamed({50 * MS: 1000}, **(sound | more)))


def test_answers_without_events_have_no_first_event() -> None:
    empty = streamed({50 * MS: 80}, first_ns={"count": 0, "mean": None}, events=0)
    (verdict,) = judged([parse_limit("p95 first < 100ms")], empty)
    assert verdict.outcome is MISSED
    assert "80 of 80 streams (100 %) failed, have none" in verdict.detail
    some = streamed({50 * MS: 20}, operations=80, succeeded=80, without_events=60)
    text = load_text(some, (), LoadReport(target="http://h/", open_loop=True))
    note = " ".join(text.lower().split("streams, in")[1].split())
    assert "not known: it is of a stream that has none" in note
    assert "of 20 operations" not in note


def test_streams_that_waited_for_a_place_say_so_by_their_first_event() -> None:
    waited = {"service": {50 * MS: 1000}, "held": 300}
    assert "target-saturated" in codes(streamed({200 * MS: 1000}, **waited))  # type: ignore[arg-type]
    assert "target-saturated" not in codes(streamed({100 * MS: 1000}, **waited))  # type: ignore[arg-type]


def test_events_that_are_no_answers_of_models_need_no_tokens() -> None:
    assert not codes(streamed({50 * MS: 1000}), asked=None) & {"tokens-unknown", "outputs-shorter"}


# -- requests of language models ----------------------------------------------------------------


def planned(url: str = "http://h:1", **options: Any) -> r.HttpTarget:
    """Return the target of the request for a load with these options of a model."""
    target = parse.with_options(parse.parse_target(url), {"llm": "chat", "model": "m"} | options)
    plan: PreparedLoad = plan_of_command(CommandLineLoad(), {}, target)
    assert isinstance(plan.request.target, r.HttpTarget)
    return plan.request.target


def body_of(target: r.HttpTarget) -> dict[str, Any]:
    """Return the body of its request with a text in each place."""
    (request,) = target.requests
    assert request.body is not None
    found: dict[str, Any] = json.loads(request.body.replace("${tokens}", "7"))
    return found


@pytest.mark.parametrize(
    ("api", "path", "member"),
    [
        ("chat", "/v1/chat/completions", "max_tokens"),
        ("completions", "/v1/completions", "max_tokens"),
        ("responses", "/v1/responses", "max_output_tokens"),
    ],
)
def test_requests_of_each_api(api: str, path: str, member: str) -> None:
    target = planned(llm=api, model='a"${b}', output_tokens=w.ConstantValue(33))
    (request,) = target.requests
    assert (request.method, request.path, request.label) == ("POST", path, api)
    body = body_of(target)
    assert (body["model"], body["stream"], body[member]) == ('a"$${b}', True, 33)
    assert ("stream_options" in body) is (api != "responses")
    assert "${run}${unique} ${prompt}" in (request.body or "")
    assert target.events == r.Events(meaning=api)  # type: ignore[arg-type]
    assert b"language_model" not in msgspec.json.encode(target)


def test_a_url_with_a_path_is_used_as_it_is() -> None:
    asked = asked_of_models(plan_of_command(CommandLineLoad(), {}, planned()).request, 9)
    assert asked == AskedOfModels(128, None, shares=False)
    (request,) = planned("http://h:1/openai/chat?v=2").requests
    assert request.path == "/openai/chat?v=2"


def test_lengths_of_prompts_and_outputs() -> None:
    target = planned(
        prompt_words=w.Lognormal(300, 500_000),
        output_tokens=w.UniformValue(10, 20),
        shared_prefix=5,
    )
    prompts, outputs = target.values["prompt"], target.values["tokens"]
    assert isinstance(prompts, r.LineValue)
    assert isinstance(outputs, r.LineValue)
    lengths = [len(line.split()) for line in prompts.lines]
    assert statistics.mean(lengths) == pytest.approx(300, rel=0.05)
    assert statistics.stdev(lengths) == pytest.approx(150, rel=0.2)
    assert {int(line) for line in outputs.lines} == set(range(10, 21))
    system, user = body_of(target)["messages"]
    assert len(system["content"].split()) == 5
    assert user["role"] == "user"
    # The same options make the same requests.
    assert target == planned(
        prompt_words=w.Lognormal(300, 500_000),
        output_tokens=w.UniformValue(10, 20),
        shared_prefix=5,
    )


def test_the_key_is_only_in_what_an_engine_gets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(KEY_VARIABLE, raising=False)
    assert not any(name == "authorization" for name, _ in planned().requests[0].headers)
    monkeypatch.setenv(KEY_VARIABLE, "sk-1234")
    plan = plan_of_command(CommandLineLoad(), {}, planned())
    assert ("authorization", "Bearer ${key}") in planned().requests[0].headers
    assert b"sk-1234" not in msgspec.json.encode(plan.request)
    assert b"sk-1234" in encoded(plan.request)
    # The same load again has other prompts, which no server has in its cache.
    assert encoded(plan.request) != encoded(plan.request)
    for wrong in ("", "two\nlines"):
        monkeypatch.setenv(KEY_VARIABLE, wrong)
        with pytest.raises(BenchError, match=KEY_VARIABLE) as raised:
            encoded(plan.request)
        assert "two" not in str(raised.value)


@pytest.mark.parametrize(
    "options", [{"llm": None}, {"model": None}, {"paths": ("/a", "/b")}, {"method": "POST"}]
)
def test_what_contradicts_requests_of_models(options: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        planned(**options)


def test_requests_of_the_users_own_have_the_meaning_that_the_target_says() -> None:
    text = """
[target]
to = "http://h:1/"
meaning = "responses"
[[request]]
path = "/v1/responses"
method = "POST"
body = '{"max_output_tokens": 40, "input": "a"}'
[[filament]]
type = "open"
rate = 5
"""
    plan = plan_of_file(read_workload(text, "a.toml", None), {}, parse.parse_target("http://h:1/"))
    assert not plan.request.events
    found = read_workload(text, "a.toml", None)
    assert found.target is not None
    request = plan_of_file(found, {}, found.target).request
    assert request.events == (r.Events(meaning="responses"),)
    asked = asked_of_models(request, 9)
    assert asked is not None
    assert asked.output_tokens == 40


# -- searches -----------------------------------------------------------------------------------


def settings(**options: Any) -> EngineSettings:
    """Return the settings of a search with these options of its target."""
    return EngineSettings(
        target=brace_template("http://h:1/", lambda _: Where("spec"), ()), options=options
    )


def test_a_search_waits_for_streams_to_end() -> None:
    first, whole = parse_criterion("p95 first < 100ms"), parse_criterion("p95 < 100ms")
    drains = [
        request_of(settings(events="sse"), Probe(5.0, 2.0), (criterion,), {}).drain_ns
        for criterion in (first, whole, parse_criterion("errors < 1%"))
    ]
    assert drains == [r.DRAIN_NS, 1000 * MS, r.DRAIN_NS]


def test_a_search_refuses_limits_of_what_it_does_not_read() -> None:
    first, good = parse_criterion("p95 first < 100ms"), parse_criterion("95% good")
    assert why_not_streamed(first, settings()) is not None
    assert why_not_streamed(first, settings(llm="chat")) is None
    assert why_not_streamed(good, settings(llm="chat")) is not None
    assert why_not_streamed(parse_criterion("p95 < 1s"), settings()) is None


def test_a_workload_has_streams() -> None:
    text = """
[run]
good = ["first < 500ms", "tpot < 50ms"]
[target]
to = "http://h:1/"
llm = "chat"
model = "m"
prompt_words = "uniform 10..20"
first_timeout = "2s"
gap_timeout = "1s"
[[filament]]
type = "open"
rate = 5
"""
    found = read_workload(text, "a.toml", None)
    assert isinstance(found.target, r.HttpTarget)
    assert found.target.events == r.Events(first_timeout_ns=2000 * MS, gap_timeout_ns=1000 * MS)
    assert found.run["good"] == (r.StreamLimit("first", 500 * MS), r.StreamLimit("tpot", 50 * MS))
    lines = text.replace('llm = "chat"', 'events = "lines"').replace(
        'model = "m"', 'end_mark = "x"'
    )
    read = read_workload(lines.replace('prompt_words = "uniform 10..20"', ""), "a.toml", None)
    assert isinstance(read.target, r.HttpTarget)
    assert isinstance(read.target.events, r.Events)
    assert (read.target.events.events, read.target.events.end_mark) == ("lines", "x")


def test_a_load_without_events_sends_what_it_sent() -> None:
    target = parse.parse_target("http://h:1/")
    assert b"events" not in msgspec.json.encode(target)
    assert "streams" not in msgspec.to_builtins(
        plan_of_command(CommandLineLoad(), {}, target).request
    )
