"""A session with what formats get wrong: odd names, failed and warm-up trials, both directions."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from pathlib import Path

import msgspec

from benchwright.core.observation import MeasurementBlock, Trial, TrialEnding
from benchwright.core.plan import FixedCount, MetricSpec
from benchwright.core.results import Estimate, Finding, Severity
from benchwright.features.exchange.export import (
    ExportLoad,
    ExportMetric,
    ExportTest,
    ExportTrial,
    ExportView,
)
from benchwright.features.load.types import (
    EngineResult,
    IntervalResult,
    StreamResult,
    TimeDistribution,
)
from benchwright.findings.result import TestResult
from benchwright.report.answer import answer_of, finding_groups
from hdr_text import encode

START_NS = 1_795_376_153_832_229_000
ODD = 'sort -k 2 "a\\b" | uniq'
FINDING = Finding(
    "multimodal", Severity.WARNING, ODD, 'elapsed has two modes: <1> & "2"', "report the median"
)


def session(slower: float = 1.0) -> ExportView:
    """Return a session of a test with levels and an odd name, a test that counts operations, and
    one that failed; `slower` multiplies the times of the first."""
    times = [slower * (0.1639 + 0.0004 * (at % 5) + 0.00003 * at) for at in range(12)]
    odd = _test(
        ODD,
        (("level", "9"), ("file size", "4 k/2")),
        [
            _trial(at, {"elapsed": t, "user": 0.15, "system": 0.0, "rss_bytes": 1130496.0})
            for at, t in enumerate(times, 1)
        ],
        (("elapsed", "s", "lower"), ("user", "s", "lower"), ("rss_bytes", "B", "lower")),
        (FINDING,),
    )
    counting = _test(
        "count",
        (),
        [
            _trial(at, {"elapsed": 0.5, "user": 0.4, "system": 0.05, "ops": ops, "delay_ms": 14.2})
            for at, ops in enumerate((110.0, 112.0, 111.0, 0.0), 1)
        ],
        (("ops", "", "higher"), ("delay_ms", "ms", "lower"), ("elapsed", "s", "lower")),
    )
    warm, *rest = counting.trials
    failed = msgspec.structs.replace(rest.pop(), ok=False, status=3, values={})
    counting = msgspec.structs.replace(
        counting, trials=(msgspec.structs.replace(warm, warmup=True), *rest, failed)
    )
    counting = msgspec.structs.replace(counting, failed=1)
    broken = msgspec.structs.replace(
        counting,
        name="broken",
        base="broken",
        metrics=(),
        trials=(failed,),
        state="failed",
        reason="`false` exited with 1\x1b[31m",
    )
    inputs = [_answer_input(test) for test in (odd, counting)]
    groups = finding_groups([(ODD, FINDING)])
    return ExportView(
        study="odd study",
        session=2,
        kind="run",
        status="failed",
        version="0.2.0",
        started_ns=START_NS,
        duration_ns=5_000_000_000,
        tests=(odd, counting, broken),
        groups=groups,
        facts={
            "cpu.architecture": "x86_64",
            "cpu.model": "AMD EPYC",
            "cpu.threads": "2",
            "git.commit": "0123456789abcdef0123456789abcdef01234567",
            "host.name": "vm",
            "kernel.release": "6.1.0",
        },
        answer=answer_of(inputs, status="failed"),
    )


def _trial(epoch: int, values: dict[str, float]) -> ExportTrial:
    return ExportTrial(
        epoch=epoch,
        started_ns=START_NS + epoch * 10**9,
        duration_ns=200_000_000,
        status=0,
        ok=True,
        warmup=False,
        values=values,
    )


def _test(base, keys, trials, metrics, findings=()) -> ExportTest:
    counted = trials if base == ODD else trials[1:3]
    found = []
    for name, unit, better in metrics:
        values = tuple(trial.values[name] for trial in counted)
        value = statistics.fmean(values)
        estimate = Estimate(value, value * 0.99, value * 1.01, 0.95, "student-t", len(values), unit)
        found.append(
            ExportMetric(
                name=name, label=name, unit=unit, better=better, estimate=estimate, values=values
            )
        )
    levels = "".join(f":{key}={level}" for key, level in keys)
    return ExportTest(
        name=f"{base}{levels}",
        base=base,
        keys=keys,
        command=f"{base}\nsecond line",
        metrics=tuple(found),
        trials=tuple(trials),
        state="answered",
        reason="12 trials",
        findings=findings,
    )


def _answer_input(test: ExportTest) -> TestResult:
    main = test.metrics[0]
    return TestResult(
        name=test.name,
        rule=FixedCount(12),
        specs=(MetricSpec(main.name, unit=main.unit, better=main.better),),
        sample=test.keys,
        whole_trials=[
            Trial(
                test=test.name,
                epoch=one.epoch,
                threads=1,
                ending=TrialEnding.OK,
                started_ns=one.started_ns,
                duration_ns=one.duration_ns,
                blocks=(MeasurementBlock(1, one.epoch, test.base, 0, one.values),),
            )
            for one in test.trials
            if one.counts
        ],
        findings=test.findings,
    )


# -- Loads -----------------------------------------------------------------------------

RESULT = Path(__file__).parents[1] / "golden" / "load" / "result.json"
LOAD_NS = ((80_000, 120_000, 1_250_000, 80_100, 95_000), (70_000, 2_000_000, 90_000))
"""Response times of each load, half of them in each of its two intervals [ns]."""


def loads() -> ExportView:
    """Return a session of one test with two trials, each a load with histograms of its two
    intervals."""
    test = _test(
        "web",
        (),
        [_trial(at, {"elapsed": 0.5}) for at in range(1, 4)],
        (("elapsed", "s", "lower"),),
    )
    results = [_load(at, times) for at, times in enumerate(LOAD_NS)]
    return msgspec.structs.replace(
        session(),
        kind="load",
        status="complete",
        tests=(test,),
        groups=(),
        answer=None,
        loads=tuple(
            ExportLoad(test="web", trial=at, result=result) for at, result in enumerate(results, 1)
        ),
    )


def streams(
    *, role_ns: int = 0, finish_ns: int = 0, shared: int = 0, failed: int = 0, warm_up_ns: int = 0
) -> ExportView:
    """Return a session of one load with 20 streams of 11 tokens, of which the first comes after 50
    to 69 ms and each other after 10 ms.

    Before the first is an event with a role alone, `role_ns` earlier; behind the last one with the
    reason of the end, `finish_ns` later; without these times they are in the same read.
    """
    view = loads()
    (test,) = view.tests
    sound = msgspec.json.decode(RESULT.read_bytes(), type=EngineResult)
    firsts = [(50 + at) * 10**6 for at in range(20)]
    gaps = [10 * 10**6] * (10 - shared // len(firsts))
    lasts = [first + sum(gaps) for first in firsts]
    late = 10**6
    found = StreamResult(
        operations=len(firsts) + failed,
        succeeded=len(firsts),
        cut=failed,
        failed_inside=0,
        first_ns=_times([first + late for first in firsts]),
        first_service_ns=_times(firsts),
        first_visible_ns=_times([first + late for first in firsts]),
        first_event_ns=_times([first + late - role_ns for first in firsts]),
        last_ns=_times([last + late for last in lasts]),
        tpot_ns=_times([10 * 10**6] * len(firsts)),
        gap_ns=_times(gaps * len(firsts)),
        largest_gap_ns=_times([max(gaps)] * len(firsts)),
        read_lateness_ns=_times([10**4]),
        events=(13 + bool(role_ns) + bool(finish_ns)) * len(firsts),
        content_events=11 * len(firsts),
        shared_events=shared,
        tokens=11 * len(firsts),
        with_tokens=len(firsts),
        prompt_tokens=7 * len(firsts),
    )
    ends = msgspec.structs.replace(
        sound.all, service_ns=_times([last + finish_ns for last in lasts])
    )
    result = msgspec.structs.replace(
        sound,
        started_ns=START_NS,
        elapsed_ns=2 * 10**9 + warm_up_ns,
        kinds={"all": ends},
        streams=found,
    )
    load = ExportLoad(test=test.name, trial=1, result=result, warm_up_ns=warm_up_ns)
    return msgspec.structs.replace(view, loads=(load,))


def _load(at: int, times_ns: tuple[int, ...]) -> EngineResult:
    """Return a result in which each operation had one of these response times, and half of it as
    service time."""
    sound = msgspec.json.decode(RESULT.read_bytes(), type=EngineResult)
    half = len(times_ns) // 2
    intervals = tuple(
        IntervalResult(
            start_ns=number * 10**9,
            length_ns=10**9,
            intended=len(part),
            issued=len(part),
            completed=len(part),
            errors=0,
            dropped=0,
            in_flight=number,
            waiting=0,
            response_ns_mean=statistics.fmean(part),
            response_ns_p50=sorted(part)[len(part) // 2],
            response_ns_max=max(part),
            response_hdr=encode(part, 2, level=0),
        )
        for number, part in enumerate((times_ns[:half], times_ns[half:]))
    )
    read = msgspec.structs.replace(
        sound.all,
        operations=len(times_ns),
        response_ns=_times(times_ns),
        service_ns=_times([one // 2 for one in times_ns]),
    )
    labels = {
        label: msgspec.structs.replace(
            read,
            operations=len(part) + errors,
            errors={"HTTP 404": errors} if errors else {},
            response_ns=_times(part),
            service_ns=_times([one // 2 for one in part]),
        )
        for label, part, errors in (
            ("GET /a b", times_ns[::2], 0),
            ('say "=1,2"', times_ns[1::2], at + 1),
        )
    }
    return msgspec.structs.replace(
        sound,
        started_ns=START_NS + at * 10**10,
        elapsed_ns=2 * 10**9,
        kinds={"read": read, "all": read},
        labels=labels,
        intervals=intervals,
    )


def _times(values: Sequence[int]) -> TimeDistribution:
    return TimeDistribution(
        count=len(values),
        mean=statistics.fmean(values),
        sd=statistics.stdev(values) if len(values) > 1 else 0.0,
        min=min(values),
        max=max(values),
        p50=_rank(values, 0.5),
        p90=_rank(values, 0.9),
        p95=_rank(values, 0.95),
        p99=_rank(values, 0.99),
        hdr=encode(values, 3, level=0),
    )


def _rank(values: Sequence[int], share: float) -> int:
    return sorted(values)[math.ceil(share * len(values)) - 1]
