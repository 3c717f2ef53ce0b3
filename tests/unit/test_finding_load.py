"""What is doubted about a load, and what is not: each doubt with its threshold."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from benchwright.core.results import Finding, Severity
from benchwright.core.text import duration_ns_text
from benchwright.features.load.criteria import parse_limit
from benchwright.features.load.findings import doubts_of_trial, load_findings
from benchwright.features.load.limits import judged
from benchwright.features.load.steady import response_change
from benchwright.features.load.types import EngineResult, FlowCounts, LoopModel, TimeDistribution
from benchwright.findings.thresholds import LATE_NS, NOT_OFFERED

SOUND = Path(__file__).parents[1] / "golden" / "load" / "result.json"
OPEN = LoopModel(open=True, closed=False)
CLOSED = LoopModel(open=False, closed=True)


def document() -> dict[str, Any]:
    """Return a result of which nothing is doubted."""
    found: dict[str, Any] = msgspec.json.decode(SOUND.read_bytes())
    found["environment"] = {"memory_locked": True, "fifo": None, "absent": []}
    found["counts"] |= {"errors": 0, "held": 0, "completed": 499_900}
    for name in ("intended", "issued", "completed"):
        found["counts"][name] = 499_900
    for kind in found["kinds"].values():
        kind["response_ns"]["count"] = 499_900
    return found


def doubts(found: dict[str, Any], loop: LoopModel = OPEN) -> dict[str, Finding]:
    """Return the doubts about a result by their codes; no code is given twice."""
    listed = load_findings(msgspec.convert(found, EngineResult), loop, "null")
    by_code = {one.code: one for one in listed}
    assert len(by_code) == len(listed)
    assert all(one.evidence and one.remedy for one in listed)
    return by_code


def test_a_sound_load_has_none() -> None:
    assert doubts(document()) == {}


@pytest.mark.parametrize(
    ("p99_ns", "service_ns", "told"),
    [
        (LATE_NS, 80_000, False),
        (LATE_NS + 1, 80_000, True),
        (500_000, 5_000_000, False),
        (500_001, 5_000_000, True),
    ],
)
def test_late_is_what_an_operation_takes_a_tenth_of(
    p99_ns: int, service_ns: int, told: bool
) -> None:
    found = document()
    found["lateness_ns"]["p99"] = p99_ns
    found["kinds"]["all"]["service_ns"]["p50"] = service_ns
    found["kinds"]["all"]["response_ns"] |= {"p99": 10**8, "p99.9": 10**8}
    assert ("generator-late" in doubts(found)) == told


def test_most_operations_late_is_serious_and_held_ones_are_told_apart() -> None:
    found = document()
    found["lateness_ns"] |= {"p50": 50_000, "p99": 90_000}
    found["counts"]["held"] = 12
    late = doubts(found)["generator-late"]
    assert late.severity is Severity.SERIOUS
    assert "90 us" in late.evidence
    assert "12 that waited for a slot are not included" in late.evidence


@pytest.mark.parametrize(
    ("held_late", "blamed"), [(0, "target-saturated"), (100_000, "generator-late")]
)
def test_who_is_blamed_for_missing_slots(held_late: int, blamed: str) -> None:
    found = document()
    found["counts"] |= {"held": 100_000, "held_late": held_late}
    for kind in found["kinds"].values():
        kind["service_ns"] |= {"p50": 1_500}
        kind["response_ns"] |= {"p50": 5_000_000}
    told = doubts(found)
    both = {"target-saturated", "generator-late"}
    assert both & told.keys() == {blamed}
    assert "100,000 of 499,900" in told[blamed].evidence


def test_a_slow_target_is_blamed_though_the_generator_was_late_now_and_then() -> None:
    found = document()
    found["counts"] |= {"held": 400_000, "held_late": 40_000}
    for kind in found["kinds"].values():
        kind["service_ns"] |= {"p50": 1_500}
        kind["response_ns"] |= {"p50": 5_000_000}
    told = doubts(found)
    assert "target-saturated" in told
    assert "generator-late" not in told


def test_a_backlog_after_pauses_of_the_generator_is_its_own() -> None:
    found = document()
    for place, interval in enumerate(found["intervals"]):
        interval["waiting"] = 400 * place
    found["intervals"][-1]["intended"] = 100
    found["counts"] |= {"held": 1000, "held_late": 0}
    assert "target-saturated" in doubts(found)
    found["counts"]["held_late"] = 1000
    assert "target-saturated" not in doubts(found)


def test_a_full_target_is_not_the_generators_fault() -> None:
    found = document()
    for kind in found["kinds"].values():
        kind["issue_error_ns"] |= {"p50": 10**9, "p99": 2 * 10**9}
    assert "generator-late" not in doubts(found)


def test_a_tail_of_the_generator_is_a_note() -> None:
    found = document()
    found["lateness_ns"]["p99.9"] = 300_000
    late = doubts(found)["generator-late"]
    assert late.severity is Severity.NOTE
    assert "from p99.9 on" in late.evidence
    found["target"]["kind"] = "null"
    assert "generator-late" not in doubts(found), "of null there is no other tail"


def closed(lateness_ns: float, service_ns: float, operations: int) -> dict[str, Any]:
    """Return a closed loop whose operations took so long, and began so late, on average."""
    found = document()
    found["intended_rate_per_s"] = None
    for name in ("intended", "issued", "completed"):
        found["counts"][name] = operations
    late = {"count": operations, "mean": lateness_ns}
    late |= {"p50": round(lateness_ns), "p99": round(3 * lateness_ns)}
    found["lateness_ns"] |= late
    found["kinds"]["all"]["service_ns"] |= {"mean": service_ns, "p50": round(service_ns)}
    return found


def lateness(found: dict[str, Any], loop: LoopModel) -> Severity | None:
    """Return how grave the generator's lateness is; a note of its tail is none of it."""
    late = doubts(found, loop).get("generator-late")
    told = late is not None and late.severity is not Severity.NOTE
    return late.severity if late is not None and told else None


def lasting(found: dict[str, Any], seconds: float) -> dict[str, Any]:
    """Return the same load with rates and an end of so long a run."""
    rate = found["counts"]["issued"] / seconds
    found |= {"offered_rate_per_s": rate, "achieved_rate_per_s": rate}
    return found | {"elapsed_ns": round(1e9 * seconds)}


@pytest.mark.parametrize(
    ("lateness_ns", "service_ns", "slots"),
    [
        (130.0, 40.0, 1),  # null at depth 1
        (1_640.0, 1_900.0, 32),  # null at depth 32
        (15_000.0, 46_000.0, 32),  # io_uring, all from the page cache
        (23_800.0, 387_000.0, 32),  # io_uring, O_DIRECT
        (1_000_000.0, 12_000_000.0, 32),  # a slow disk
    ],
)
def test_a_closed_loop_that_hands_over_its_burst_is_healthy(
    lateness_ns: float, service_ns: float, slots: int
) -> None:
    """Means of loops as they were measured: lateness is the hand-over of those before it."""
    operations = round(slots * 5e9 / (lateness_ns + service_ns))
    found = lasting(closed(lateness_ns, service_ns, operations), 5)
    assert lateness(found, msgspec.structs.replace(CLOSED, slots=slots)) is None
    assert lateness(found, CLOSED) is None, "by service times"


def test_a_closed_loop_of_a_moment_is_no_serious_doubt() -> None:
    """24 operations, the first of which meet cold caches."""
    found = lasting(closed(32_000, 10_000, 24), 0.001)
    late = doubts(found, LoopModel(open=False, closed=True, slots=1))["generator-late"]
    assert late.severity is Severity.WARNING


@pytest.mark.parametrize(
    ("lateness_ns", "severity"),
    [
        (90_000, None),
        (150_000, Severity.WARNING),
        (990_000, Severity.WARNING),
        (1_100_000, Severity.SERIOUS),
        (50_000_000, Severity.SERIOUS),
    ],
)
def test_a_closed_loop_whose_generator_stands_still_is_told(
    lateness_ns: float, severity: Severity | None
) -> None:
    """Operations of 1 ms, which begin so late, at depth 32."""
    slots, service_ns = 32, 1_000_000
    operations = round(slots * 5e9 / (lateness_ns + service_ns))
    found = lasting(closed(lateness_ns, service_ns, operations), 5)
    for loop in (CLOSED, LoopModel(open=False, closed=True, slots=slots)):
        assert lateness(found, loop) is severity
        if severity is not None:
            evidence = doubts(found, loop)["generator-late"].evidence
            assert "its slot was empty for" in evidence


def test_who_thinks_leaves_a_place_empty_by_intention() -> None:
    """Service 1 ms, 9 ms to think: 0.5 ms of lateness is 5 % of the cycle."""
    found = lasting(closed(500_000, 1_000_000, round(5e9 / 10.5e6)), 5)
    thinking = LoopModel(open=False, closed=True, slots=1)
    assert lateness(found, thinking) is None
    assert lateness(found, CLOSED) is Severity.WARNING, "nobody knows of the thinking"


def test_skipped_and_starved_are_lateness() -> None:
    found = document()
    found["counts"] |= {"skipped": 500, "starved": 3}
    found["counts"]["issued"] -= 500
    evidence = doubts(found)["generator-late"].evidence
    assert "500 of 499,900 operations (0.1 %)" in evidence
    assert evidence.endswith("; from p99.9 on, response times are unknown")
    assert "behind 3 times" in evidence


@pytest.mark.parametrize(
    ("offered", "dropped", "told"),
    [(9998.0, 499, False), (9998.0, 500, True), (9899.0, 0, False), (9890.0, 0, True)],
)
def test_load_not_offered(offered: float, dropped: int, told: bool) -> None:
    found = document()
    found["offered_rate_per_s"] = offered
    found["counts"]["dropped"] = dropped
    found["counts"]["issued"] -= dropped
    assert ("load-not-offered" in doubts(found)) == told
    assert "load-not-offered" not in doubts(found, CLOSED), "it has no intended rate"


def test_a_backlog_that_grows_is_saturation() -> None:
    found = document()
    for place, interval in enumerate(found["intervals"]):
        interval["waiting"] = 100 * place
    told = doubts(found)["target-saturated"]
    assert "200 operations waited in the middle of the run, 400" in told.evidence
    for interval in found["intervals"]:
        interval["waiting"] = 400
    assert "target-saturated" not in doubts(found), "it does not grow"


def in_intervals(p50_ms: Sequence[float], **more: Sequence[int]) -> dict[str, Any]:
    """Return a load with these medians in its intervals of 1 s."""
    found = document()
    (first, *_) = found["intervals"]
    found["intervals"] = [
        first
        | {"start_ns": at * 10**9, "length_ns": 10**9, "response_ns_p50": round(1e6 * value)}
        | {name: values[at] for name, values in more.items()}
        for at, value in enumerate(p50_ms)
    ]
    # The last interval ends with the last operation.
    found["intervals"].append(first | {"start_ns": len(p50_ms) * 10**9, "length_ns": 10**7})
    return found


NOISE = [1.03, 0.98, 1.01, 0.97, 1.04, 0.99, 1.02, 0.96, 1.0, 1.05, 0.98, 1.01]


@pytest.mark.parametrize(
    ("levels_ms", "sentence"),
    [
        ([3 * at + 0.6 for at in range(12)], "rose from 3.53 ms to 30 ms during the load"),
        ([5.0] * 6 + [60.0] * 6, "rose from 5 ms to 60.3 ms after 6 s"),
        ([20.0] * 4 + [5.0] * 8, "fell from 19.9 ms to 5.02 ms after 4 s"),
        ([5.0] * 12, ""),
        ([5.0, 5, 5, 30, 30, 5, 5, 5, 5, 5, 5, 5], ""),
        ([5.0] * 3 + [60.0] * 3, ""),
        ([0.08] * 6 + [0.2] * 6, ""),
        ([5.0] * 6 + [5.8] * 6, ""),
    ],
    ids=["drift", "step", "start", "level", "burst", "short", "waits", "little"],
)
def test_a_response_that_does_not_stay_at_its_level(
    levels_ms: Sequence[float], sentence: str
) -> None:
    values = [level * noise for level, noise in zip(levels_ms, NOISE, strict=False)]
    found = in_intervals(values)
    one = doubts(found).get("response-not-steady")
    assert (one.evidence if one else "") == (sentence and f"the median response {sentence}")
    (verdict,) = judged([parse_limit("p99 < 1s")], msgspec.convert(found, EngineResult))
    assert ("; the median response " in verdict.detail) == bool(sentence)


def test_what_a_warm_up_leaves_out_is_no_change() -> None:
    values = [level * noise for level, noise in zip([50.0] * 4 + [5.0] * 8, NOISE, strict=True)]
    values += values[4:]
    result = msgspec.convert(in_intervals(values), EngineResult)
    measured = msgspec.structs.replace(result, measured_ns=16 * 10**9)
    assert response_change(result) is not None
    assert response_change(measured, 4 * 10**9) is None


def test_a_response_that_follows_its_arrivals_is_steady() -> None:
    """As of a trace, or of a profile; a closed loop has no arrivals of its own."""
    values = [level * noise for level, noise in zip([5.0] * 6 + [60.0] * 6, NOISE, strict=True)]
    found = in_intervals(values, intended=[100] * 6 + [900] * 6)
    assert "response-not-steady" not in doubts(found)
    found["intended_rate_per_s"] = None
    assert "response-not-steady" in doubts(found, CLOSED)


def test_waiting_for_a_place_is_saturation() -> None:
    found = document()
    found["counts"]["held"] = 60_000
    assert "target-saturated" not in doubts(found), "they hardly waited"
    found["kinds"]["all"]["response_ns"]["p50"] = 800_000
    assert "10 times the service time" in doubts(found)["target-saturated"].evidence


def with_flow(found: dict[str, Any], issued: int, completed: int, **counts: int) -> dict[str, Any]:
    """Return the same load with these counts of its measured part of 5 s."""
    flow = dict.fromkeys(FlowCounts.__struct_fields__, 0)
    flow |= {"issued": issued, "completed": completed, **counts}
    found |= {"flow": flow, "measured_ns": 5 * 10**9}
    return found | {"offered_rate_per_s": issued / 5, "achieved_rate_per_s": completed / 5}


def test_ends_of_operations_of_the_warm_up_are_saturation() -> None:
    found = with_flow(document(), 50_000, 50_000, of_warm_up=49_000)
    assert (
        "1,000 of the 50,000 operations that ended in the"
        in doubts(found)["target-saturated"].evidence
    )
    found = with_flow(document(), 50_000, 50_000, of_warm_up=4_000)
    assert "target-saturated" not in doubts(found)


@pytest.mark.parametrize(
    ("completed", "edge", "severity"),
    [
        (10_000, 1_000, None),
        (9_000, 1_000, Severity.NOTE),
        (2_000, 1_000, Severity.WARNING),
        (0, 1_000, Severity.WARNING),
        (0, 0, None),
    ],
)
def test_a_measured_part_of_few_responses_has_no_exact_rate(
    completed: int, edge: int, severity: Severity | None
) -> None:
    edges = {"in_flight_at_start": edge, "in_flight_at_end": edge}
    found = with_flow(document(), completed, completed, **edges)
    doubt = doubts(found, CLOSED).get("few-responses")
    assert (doubt and doubt.severity) == severity
    # An open loop has the rate of its schedule, if it could issue it.
    for issued, is_told in ((0.98, severity is not None), (1.0, False)):
        found["offered_rate_per_s"] = issued * found["intended_rate_per_s"]
        assert ("few-responses" in doubts(found)) is is_told


def test_the_rate_of_few_responses_is_in_a_range() -> None:
    found = with_flow(document(), 2_000, 1_000, in_flight_at_end=1_000)
    assert "between 200/s and 400/s" in doubts(found, CLOSED)["few-responses"].evidence


def test_failures_and_what_never_ended() -> None:
    found = document()
    found["counts"] |= {"errors": 3, "unfinished": 2}
    told = doubts(found)
    assert "3 x EIO of write" in told["operations-failed"].evidence
    assert told["operations-failed"].severity is Severity.WARNING
    assert "2 of " in told["operations-unfinished"].evidence
    assert told["operations-unfinished"].severity is Severity.WARNING
    assert "unknown" not in told["operations-unfinished"].evidence
    found["counts"]["unfinished"] = 600
    for code in ("operations-failed", "operations-unfinished"):
        evidence = doubts(found)[code].evidence
        assert evidence.endswith("; from p99.9 on, response times are unknown")
    found["counts"]["unfinished"] = 10_000
    assert doubts(found)["operations-unfinished"].severity is Severity.SERIOUS
    found["counts"]["errors"] = 10_000
    assert doubts(found)["operations-failed"].severity is Severity.SERIOUS


@pytest.mark.parametrize(
    ("in_flight", "loop", "told"),
    [
        (8.0, CLOSED, False),
        (8.04, CLOSED, False),
        (8.05, CLOSED, True),
        (7.95, CLOSED, True),
        (8.05, OPEN, False),
        (0.0, CLOSED, True),
    ],
)
def test_throughput_and_time_must_explain_what_was_in_flight(
    in_flight: float, loop: LoopModel, told: bool
) -> None:
    found = document()
    law = {"rate_per_s": 80_000.0, "time_ns_mean": 100_000.0}
    found["little_law"] = law | {"in_flight_mean": in_flight}
    assert ("little-law" in doubts(found, loop)) is told


def test_the_law_of_an_idle_target_and_of_an_older_engine_is_no_doubt() -> None:
    found = document()
    names = ("in_flight_mean", "rate_per_s", "time_ns_mean")
    for law in (dict.fromkeys(names, 0.0), None):
        found["little_law"] = law
        assert "little-law" not in doubts(found, CLOSED)


def test_the_measurement_itself() -> None:
    found = document()
    found["clock"] = {"source": "monotonic", "drift_ppm": -120.0, "absent": "no TSC"}
    found["counts"]["early"] = 1
    found["environment"] = {"memory_locked": False, "absent": ["mlockall: EPERM"]}
    found["interrupted"] = True
    told = doubts(found)
    assert told["clock-unsound"].severity is Severity.SERIOUS
    assert "-120 ppm" in told["clock-unsound"].evidence
    assert "no TSC" in told["clock-slow"].evidence
    assert "mlockall: EPERM" in told["memory-not-locked"].evidence
    assert "load-interrupted" in told


def test_few_samples_name_the_percentiles() -> None:
    found = document()
    found["kinds"]["all"]["response_ns"]["count"] = 10_000
    evidence = doubts(found)["few-samples-for-percentile"].evidence
    assert evidence == "of 10,000 operations there are 1 beyond p99.99"


MERGED = "requests of 2 hosts in a.log all go to one target: a.org and b.org"


@pytest.mark.parametrize(
    ("hosts", "expected"),
    [("a.org b.org", MERGED), ("a.org - b.org", MERGED), ("a.org -", None), ("b.org", None)],
)
def test_requests_of_several_hosts_to_one_target(hosts: str, expected: str | None) -> None:
    """The engine states the hosts of the chosen part; requests without a host are of none."""
    found = document()
    trace: dict[str, Any] = {"path": "a.log", "operations": 9, "requests": {"distinct": 3}}
    found["traces"] = [trace | {"devices": hosts.split()}]
    result = msgspec.convert(found, EngineResult)
    listed = load_findings(result, OPEN, "null")
    evidence = [one.evidence for one in listed if one.code == "trace-hosts-merged"]
    assert evidence == ([expected] if expected else [])


def test_recorded_requests_that_are_not_replayed_as_they_were() -> None:
    found = document()
    requests: dict[str, Any] = {
        "distinct": 3,
        "unsafe_methods": 5,
        "unreplayable": 2,
        "credentials": 4,
    }
    requests |= {"without_body": 0, "whole_seconds": 1200, "lost_bodies": 6}
    requests["unsendable"] = {"data:": 1, "no request": 1}
    found["traces"] = [
        {"path": "a.log", "operations": 9, "duplicates": "spread", "requests": requests}
    ]
    told = doubts(found)
    skipped = told["trace-requests-skipped"]
    assert skipped.severity is Severity.WARNING
    assert "5 with a method other than GET, HEAD and OPTIONS" in skipped.evidence
    assert "data:" not in skipped.evidence
    assert "6 with a body that is described" in skipped.evidence
    unsendable = told["trace-requests-unsendable"]
    assert unsendable.severity is Severity.NOTE
    assert "1 x data:, 1 x no request" in unsendable.evidence
    assert "--unsafe-methods" not in unsendable.remedy
    assert "4 without their credentials" in told["trace-requests-changed"].evidence
    assert "body" not in told["trace-requests-changed"].evidence
    requests["other_lengths"] = 7
    changed = doubts(found)["trace-requests-changed"].evidence
    assert "7 with a body that does not have the length that the trace states" in changed
    assert "trace-hosts-merged" not in told
    assert "1,200 requests" in told["trace-stamps-coarse"].evidence
    assert "spread evenly" in told["trace-stamps-coarse"].evidence
    found["traces"][0]["requests"] = {"distinct": 3}
    assert doubts(found) == {}


def test_a_trace_of_which_nothing_was_asked_for() -> None:
    found = document()
    found["traces"] = [{"path": "a.load", "operations": 0, "left_out": 1000}]
    told = doubts(found)["trace-empty"]
    assert told.severity is Severity.SERIOUS
    assert "no operation of a.load is in the requested part" in told.evidence
    assert "all 1,000 were left out" in told.evidence
    assert "--from" in told.remedy
    found["traces"] = [{"path": "a.load", "operations": 0}]
    assert doubts(found)["trace-empty"].evidence == "a.load has no operation"
    found["traces"] = [{"path": "a.load", "operations": 1}]
    assert "trace-empty" not in doubts(found)


def test_samples_that_were_lost() -> None:
    found = document()
    found["samples"] = {"path": "s.bw", "rows": 10, "lost": 2}
    assert "2 operations are missing from s.bw" in doubts(found)["samples-lost"].evidence
    found["samples"] = {"path": "s.bw", "rows": 10, "lost": 0, "failed": None}
    assert "samples-lost" not in doubts(found)
    # Even the mark of a good end may be what did not fit.
    found["samples"]["failed"] = "No space left on device"
    evidence = doubts(found)["samples-lost"].evidence
    assert evidence.endswith("s.bw: No space left on device")


def test_a_result_of_nothing_is_no_error() -> None:
    found = document()
    nothing = msgspec.to_builtins(TimeDistribution(count=0))
    found["lateness_ns"] = nothing
    for name in ("issue_error_ns", "service_ns", "response_ns"):
        found["kinds"]["all"][name] = nothing
    found["counts"] = dict.fromkeys(found["counts"], 0)
    found["intervals"] = []
    (told,) = doubts(found).values()
    assert told.evidence == "no operation has a response time"


def test_times_in_words() -> None:
    words = [duration_ns_text(ns) for ns in (0, 999, 1000, 999_600, 1_234_567, 61 * 10**9)]
    assert words == ["0 s", "999 ns", "1 us", "1 ms", "1.23 ms", "61 s"]


def test_a_closed_loop_says_what_it_leaves_out() -> None:
    assert "coordinated omission" in doubts(document(), CLOSED)["closed-loop"].evidence


# -- one figure, one doubt ---------------------------------------------------------------

UDP = {"kind": "udp", "timeouts": 3, "late_replies": 3}
TLS = {"version": "TLSv1.3", "cipher": "x"}
TIMER = "the kernel's clock source is 'hpet', not 'tsc'"
SKIPPED = [{"path": "a.load", "operations": 10, "skipped_lines": 2}]


@pytest.mark.parametrize(
    ("member", "changes", "code", "severity", "part"),
    [
        ("counts", {"stray": 1}, "stray-completions", Severity.SERIOUS, "1 completion of "),
        ("counts", {"undeliverable": 2_000}, "undeliverable-messages", None, "2,000 messages to "),
        (
            "counts",
            {"waiting": 10_001},
            "backlog-limit",
            Severity.SERIOUS,
            "10,001 operations wait",
        ),
        ("clock", {"unsound": TIMER}, "clock-unsound", Severity.WARNING, TIMER),
        ("target", {"unrequested": 1}, "unrequested-answers", None, "1 connection "),
        ("target", UDP | {"unrequested": 2}, "unrequested-answers", None, "2 datagrams arrived"),
        ("target", UDP | {"late_errors": 5}, "undelivered-datagrams", None, "5 errors "),
        ("target", {"unknown_replies": 3}, "unrequested-answers", None, "no call: 3"),
        ("target", {"verifier_changes": 2}, "server-restarted", None, "changed 2 times"),
        (
            "target",
            {"tls": TLS | {"verified": False}},
            "certificate-not-verified",
            Severity.NOTE,
            "",
        ),
        ("", {"traces": SKIPPED}, "trace-lines-skipped", None, "2 lines of a.load"),
    ],
)
def test_a_figure_is_doubted(
    member: str, changes: dict[str, Any], code: str, severity: Severity | None, part: str
) -> None:
    found = document()
    found["stopped"] = "backlog" if code == "backlog-limit" else None
    changed = found[member] if member else found
    changed |= changes
    one = doubts(found)[code]
    assert severity in (None, one.severity)
    assert part in one.evidence


@pytest.mark.parametrize(
    # A late reply is known for what it is.
    "target",
    [UDP, {"verifier_changes": 0}, {"tls": TLS | {"verified": True}}],
)
def test_a_figure_is_not_doubted(target: dict[str, Any]) -> None:
    found = document()
    found["target"] |= target
    assert doubts(found) == {}


# -- a trial of a search -------------------------------------------------------------------

MISSED = round(499_900 * NOT_OFFERED) + 1


@pytest.mark.parametrize(
    ("lateness_ms", "counts", "limits_s", "codes"),
    [
        (3, {}, (0.04,), ()),
        (5, {}, (0.04,), ("generator-late",)),
        (5, {}, (0.1, 0.04), ("generator-late",)),
        # Without limits, the p99 of the responses counts: 20 ms.
        (1.9, {}, (), ()),
        (2.1, {}, (), ("generator-late",)),
        (0, {"skipped": MISSED}, (), ("generator-behind",)),
        (0, {"skipped": MISSED - 2}, (), ()),
        (0, {"starved": MISSED}, (), ("generator-behind",)),
        (0, {"issued": 499_900 - MISSED}, (), ("generator-behind",)),
        # The target had no capacity for them.
        (0, {"issued": 499_900 - MISSED, "held": 1}, (), ()),
        (0, {"issued": 499_900 - MISSED, "dropped": 1}, (), ()),
    ],
)
def test_a_trial_of_a_search_is_doubted(
    lateness_ms: float, counts: dict[str, int], limits_s: tuple[float, ...], codes: tuple[str, ...]
) -> None:
    found = document()
    found["kinds"]["all"]["response_ns"]["p99"] = 20_000_000
    found["lateness_ns"]["p99"] = round(1e6 * lateness_ms)
    found["counts"] |= counts
    result = msgspec.convert(found, EngineResult)
    assert doubts_of_trial(result, OPEN, limits_s) == codes
    if "issued" in counts:
        assert doubts_of_trial(result, CLOSED, limits_s) == ()
