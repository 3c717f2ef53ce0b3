"""Outputs of load generators, read: recorded ones against their own summaries."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import pytest

from benchwright.core.criterion import Criterion
from benchwright.features.generators import databases
from benchwright.features.generators.adapter import (
    ERRORS_IN_RESPONSE,
    GENERATOR_LATE,
    OPERATIONS_SKIPPED,
    Generator,
    GeneratorOutput,
    GeneratorRequest,
    Measurement,
    UnreadableOutput,
)
from benchwright.features.generators.databases import Memtier, Pgbench, RedisBenchmark
from benchwright.features.generators.fio import Fio
from benchwright.features.generators.http import K6, Oha, Vegeta, Wrk2
from benchwright.features.load.criteria import parse_criteria

GOLDEN = Path(__file__).parents[1] / "golden" / "generators"
URL = "http://127.0.0.1:8080/"


def output(name: str) -> GeneratorOutput:
    """Return what a directory holds as a generator's output."""
    files = {path.name: path.read_text() for path in sorted((GOLDEN / name).iterdir())}
    return GeneratorOutput(files.pop("stdout", ""), files.pop("stderr", ""), files)


def asked(
    rate: float | None = 200.0, duration_s: float = 1.0, limits: tuple[str, ...] = ()
) -> GeneratorRequest:
    users = 4 if rate is None else None
    criteria: tuple[Criterion, ...] = parse_criteria(limits)
    return GeneratorRequest(rate=rate, duration_s=duration_s, users=users, criteria=criteria)


def read(name: str, generator: Generator, of: GeneratorRequest) -> Measurement:
    return generator.parse(output(name), of)


def said(name: str, pattern: str) -> float:
    """Return a number of the generator's own summary."""
    match = re.search(pattern, output(name).stdout)
    assert match is not None, pattern
    return float(match[1])


# -- pgbench ---------------------------------------------------------------------------


def test_pgbench_mean_is_its_own_of_both_threads() -> None:
    found = read("pgbench/rate", Pgbench(), asked(duration_s=2.0))
    own = said("pgbench/rate", r"latency average = ([\d.]+)")
    assert found.values["response_ms_mean"] == pytest.approx(own, abs=0.0006)
    assert found.completed == said("pgbench/rate", r"actually processed: (\d+)")
    lag = said("pgbench/rate", r"schedule lag: avg ([\d.]+)")
    assert found.values["lateness_ms_mean"] == pytest.approx(lag, abs=0.0006)
    assert found.offered is None
    assert found.lasted_s == 2.0


def test_pgbench_series_holds_all_transactions() -> None:
    found = read("pgbench/rate", Pgbench(), asked(duration_s=2.0))
    series, means = found.series, found.series.values["response_ms_mean"]
    assert series.at_s == (0.0, 1.0)
    assert series.binned_by == "intended"
    assert sum(series.counts) == found.completed
    whole = sum(n * mean for n, mean in zip(series.counts, means, strict=True))
    assert whole / sum(series.counts) == pytest.approx(found.values["response_ms_mean"])


def test_pgbench_skipped_transactions_are_slower_than_all() -> None:
    limits = ("90% within 2ms", "p80 < 2ms", "p99 < 2ms")
    found = read("pgbench/skipped", Pgbench(), asked(300.0, limits=limits))
    skipped = said("pgbench/skipped", r"skipped: (\d+)")
    processed = said("pgbench/skipped", r"actually processed: (\d+)")
    late = said("pgbench/skipped", r"latency limit: (\d+)/")
    everyone = processed + skipped
    assert found.values["within_2ms_share"] == (processed - late) / everyone
    assert found.values["error_ratio"] == pytest.approx(skipped / everyone)
    assert math.isinf(found.values["response_ms_p99"])
    assert math.isfinite(found.values["response_ms_p80"])
    assert found.marks == (OPERATIONS_SKIPPED,)
    assert (found.offered, found.errors) == (processed, skipped)


def test_pgbench_of_a_sampled_log_counts_by_its_summary(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(databases, "LOGGED", 200)
    of = asked(1000.0, limits=("90% within 1ms",))
    argv = Pgbench().invocation(of).commands[0].argv
    assert "--sampling-rate=0.200000" in argv
    found = read("pgbench/sampled", Pgbench(), of)
    skipped = said("pgbench/sampled", r"skipped: (\d+)")
    processed = said("pgbench/sampled", r"actually processed: (\d+)")
    assert (found.completed, found.errors) == (processed, skipped)
    assert found.offered == processed
    logged = sum(len(text.splitlines()) for text in output("pgbench/sampled").files.values())
    assert sum(found.series.counts) == pytest.approx(5 * logged, abs=5)
    # Of the logged ones: the share that all have, within four standard deviations.
    late = said("pgbench/sampled", r"latency limit: (\d+)/")
    true = (processed - late) / (processed + skipped)
    spread = math.sqrt(true * (1 - true) / logged)
    assert abs(found.values["within_1ms_share"] - true) < 4 * spread


def test_pgbench_so_far_scales_what_is_logged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(databases, "LOGGED", 50)
    found = Pgbench().so_far(output("pgbench/rate"), asked(200.0))
    assert found is not None
    assert sum(found.series.counts) == pytest.approx(found.completed, abs=4)
    assert found.completed == 4 * 387


def test_pgbench_logs_all_where_that_is_little() -> None:
    line = " ".join(Pgbench().invocation(asked(1000.0, 60.0)).commands[0].argv)
    assert "--sampling-rate" not in line


def test_pgbench_without_a_rate_has_no_lateness() -> None:
    found = read("pgbench/closed", Pgbench(), asked(None))
    assert found.completed == 200
    (text,) = output("pgbench/closed").files.values()
    total_us = sum(int(line.split()[2]) for line in text.splitlines())
    assert found.values["response_ms_mean"] == pytest.approx(total_us / 200 / 1e3)
    assert "lateness_ms_mean" not in found.values


def pgbench_log(*rows: tuple[int, int, float, float, float]) -> GeneratorOutput:
    """Return the log of transactions (client, number, due, began, ended), in milliseconds."""
    lines = [
        f"{client} {number} {1e3 * (end - due):.0f} 0 {100 + int(end // 1000)} "
        f"{1e3 * (end % 1000):.0f} {1e3 * (begin - due):.0f}"
        for client, number, due, begin, end in rows
    ]
    return GeneratorOutput("", "", {"pgbench_log.1": "\n".join(lines) + "\n"})


def test_pgbench_waiting_for_a_client_is_not_pgbench_being_late() -> None:
    found = Pgbench().parse(
        pgbench_log(
            (0, 1, 10, 10, 40),
            # Due while its client was busy: 25 ms of waiting, then 5 ms late.
            (0, 2, 15, 45, 50),
            # Its client was free: 30 ms late.
            (1, 1, 20, 50, 60),
            (1, 2, 70, 70, 80),
        ),
        asked(2.0),
    )
    assert found.values["lateness_ms_mean"] == 15.0
    assert found.values["response_ms_mean"] == (30 + 35 + 40 + 10) / 4
    assert found.target_values["response_ms_mean"] == (30 + 30 + 10 + 10) / 4
    assert found.late_p99_ms == pytest.approx(30.0)
    assert found.target_values["response_ms_p99"] == pytest.approx(30.0)


def test_pgbench_lateness_of_a_sampled_log_is_that_of_known_predecessors() -> None:
    """The difference of all is that of the known ones; who came before number 5 is not logged."""
    found = Pgbench().parse(
        pgbench_log((0, 2, 10, 15, 40), (0, 3, 50, 58, 60), (0, 5, 90, 99, 100), (1, 1, 5, 5, 7)),
        asked(2.0),
    )
    assert found.late_p99_ms == pytest.approx(8.0)
    mean = (30 + 10 + 10 + 2) / 4
    assert found.values["response_ms_mean"] == mean
    assert found.target_values["response_ms_mean"] == mean - 8 / 2


def test_pgbench_on_time_has_the_same_values_without_its_lateness() -> None:
    rows = [(n % 3, n // 3 + 1, 9.0 * n, 9.0 * n, 9.0 * n + 4 + n) for n in range(12)]
    found = Pgbench().parse(pgbench_log(*rows), asked(2.0))
    assert found.late_p99_ms == 0
    assert {**found.values, **found.target_values} == found.values


@pytest.mark.parametrize("name", ["pgbench/rate", "pgbench/skipped"])
def test_pgbench_lateness_is_within_its_lag(name: str) -> None:
    found = read(name, Pgbench(), asked(300.0))
    assert found.late_p99_ms is not None
    mean, target = (x["response_ms_mean"] for x in (found.values, found.target_values))
    assert 0 < mean - target < found.values["lateness_ms_mean"]


def test_pgbench_log_is_read_up_to_its_last_whole_line() -> None:
    whole = output("pgbench/rate")
    name = next(iter(whole.files))
    text = whole.files[name]
    lines = text.splitlines(keepends=True)
    cut = GeneratorOutput("", "", {name: "".join(lines[:20]) + lines[20][:9]})
    found = Pgbench().so_far(cut, asked())
    assert found is not None
    assert found.completed == 20
    assert found.lasted_s is not None
    assert 0 < found.lasted_s < 1


def test_pgbench_series_ends_with_the_last_transaction_that_is_known() -> None:
    """Overloaded: after 3 s only what was due in the first second is done."""
    lines = [f"0 {i} {i * 200000} 0 100 {i * 300000} 0" for i in range(1, 4)]
    lines += [f"0 {i} {i * 200000} 0 101 {i * 100000} 0" for i in range(4, 8)]
    log = GeneratorOutput("", "", {"pgbench_log.1": "\n".join(lines) + "\n"})
    found = Pgbench().so_far(log, asked())
    assert found is not None
    assert found.series.at_s == (0.0,)
    assert found.lasted_s is not None
    assert found.lasted_s > 1.1


def test_pgbench_without_a_line_tells_nothing_yet() -> None:
    assert Pgbench().so_far(GeneratorOutput("", ""), asked()) is None
    assert Pgbench().so_far(GeneratorOutput("", "", {"pgbench_log.1": ""}), asked()) is None


def test_pgbench_log_of_another_shape_is_refused() -> None:
    log = GeneratorOutput("", "", {"pgbench_log.1": "0 1 5177 0 1795279532\n"})
    with pytest.raises(UnreadableOutput, match=r"not 7 numbers .* in pgbench_log"):
        Pgbench().parse(log, asked())


# -- fio -------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "rw"), [("fio/read", "read"), ("fio/mixed", "mixed")])
def test_fio_log_has_what_its_summary_has(name: str, rw: str) -> None:
    found = read(name, Fio(filename="f"), asked())
    job = json.loads(output(name).files["fio.json"])["jobs"][0]
    parts = [job["read"], job["write"]] if rw == "mixed" else [job["read"]]
    total = sum(part["total_ios"] for part in parts)
    mean_ns = sum(part["lat_ns"]["mean"] * part["total_ios"] for part in parts) / total
    assert found.offered == found.completed == total
    assert found.values["response_ms_mean"] == pytest.approx(mean_ns / 1e6, rel=1e-6)
    assert found.values["error_ratio"] == 0


def test_what_failed_for_fio_at_an_unknown_moment_is_in_no_second() -> None:
    whole = output("fio/read")
    document = json.loads(whole.files["fio.json"])
    document["jobs"][0]["total_err"] = 500
    files = {**whole.files, "fio.json": json.dumps(document)}
    generator = Fio(filename="f")
    well = generator.parse(whole, asked())
    found = generator.parse(GeneratorOutput(whole.stdout, whole.stderr, files), asked())
    assert found.errors == 500
    assert found.values["error_ratio"] > 0.5
    assert found.series == well.series


# -- redis-benchmark -------------------------------------------------------------------


def test_redis_benchmark_counted_has_its_table() -> None:
    generator = RedisBenchmark(requests=20000)
    found = read("redis-benchmark/counted", generator, asked(None))
    row = output("redis-benchmark/counted").stdout.splitlines()[-1].replace('"', "")
    rps, mean, _, p50, p95, p99 = map(float, row.split(",")[1:7])
    assert found.values == {
        "response_ms_mean": mean,
        "response_ms_p50": p50,
        "response_ms_p95": p95,
        "response_ms_p99": p99,
    }
    assert found.lasted_s == pytest.approx(20000 / rps)


def test_redis_benchmark_timed_has_its_last_overall_figures() -> None:
    found = read("redis-benchmark/timed", RedisBenchmark(), asked(None))
    last = output("redis-benchmark/timed").stdout.split("overall: ")
    assert found.values == {"response_ms_mean": float(last[-1].split(")")[0])}
    assert found.completed == round(float(last[-2].split(")")[0]))


# -- k6 --------------------------------------------------------------------------------


def test_k6_tells_mean_percentiles_and_the_share_within_a_limit() -> None:
    limits = ("90% within 300us", "p99.7 < 2s")
    found = read("k6/well", K6(url=URL), asked(limits=limits))
    metrics = json.loads(output("k6/well").files["k6.json"])["metrics"]
    times = metrics["http_req_duration"]
    assert found.values["response_ms_mean"] == times["avg"]
    assert found.values["response_ms_p99_7"] == times["p(99.7)"]
    assert found.values["within_300us_share"] == pytest.approx(
        metrics["within_300us_share"]["value"]
    )
    assert found.offered == found.completed == times.get("count", found.completed)


def test_k6_dropped_iterations_were_not_offered_and_failed() -> None:
    limits = ("90% within 300us",)
    found = read("k6/dropped", K6(url=URL), asked(20000.0, limits=limits))
    metrics = json.loads(output("k6/dropped").files["k6.json"])["metrics"]
    sent = metrics["http_reqs"]["count"]
    dropped = metrics["dropped_iterations"]["count"]
    assert found.offered == sent
    assert found.values["error_ratio"] == pytest.approx(dropped / (sent + dropped))
    assert found.values["within_300us_share"] < 1 - found.values["error_ratio"]
    assert found.marks == (OPERATIONS_SKIPPED,)


def test_k6_of_a_server_that_is_not_there_has_no_mean() -> None:
    found = read("k6/refused", K6(url=URL), asked())
    assert found.values["error_ratio"] == 1
    assert "response_ms_mean" not in found.values
    assert math.isinf(found.values["response_ms_p50"])
    assert (found.completed, found.errors) == (0, found.offered)


# -- oha -------------------------------------------------------------------------------


def test_oha_tells_its_summary_in_milliseconds() -> None:
    found = read("oha/well", Oha(url=URL), asked())
    own = json.loads(output("oha/well").stdout)
    assert found.values["response_ms_mean"] == pytest.approx(
        own["metrics"]["latency_ms"]["mean"], abs=0.001
    )
    assert found.values["response_ms_p99_9"] == 1e3 * own["latencyPercentiles"]["p99.9"]
    assert found.values["error_ratio"] == 0
    assert found.completed == own["statusCodeDistribution"]["200"]
    assert found.lasted_s == own["summary"]["total"]


@pytest.mark.parametrize("name", ["oha/missing", "oha/refused"])
def test_oha_takes_refusals_and_broken_connections_for_errors(name: str) -> None:
    found = read(name, Oha(url=URL), asked())
    assert found.values["error_ratio"] == 1
    assert "response_ms_mean" not in found.values
    assert math.isinf(found.values["response_ms_p50"])
    assert found.completed == 0
    assert found.errors >= 50


def test_oha_marks_a_mean_that_holds_refusals() -> None:
    document = json.loads(output("oha/well").stdout)
    well = document["statusCodeDistribution"]["200"]
    document["statusCodeDistribution"] = {"200": well - 30, "503": 30}
    found = Oha(url=URL).parse(GeneratorOutput(json.dumps(document), ""), asked())
    assert (found.completed, found.errors) == (well - 30, 30)
    assert found.marks == (ERRORS_IN_RESPONSE,)
    assert read("oha/well", Oha(url=URL), asked()).marks == ()


# -- documented formats ----------------------------------------------------------------


@pytest.mark.parametrize(("refused", "told"), [(100, True), (4000, False)])
def test_wrk2_marks_a_mean_that_holds_refusals(refused: int, told: bool) -> None:
    """Where all were refused there is no mean: nobody was served."""
    text = output("wrk2/well").stdout + f"  Non-2xx or 3xx responses: {refused}\n"
    found = Wrk2(url=URL).parse(GeneratorOutput(text, ""), asked())
    assert (found.completed, found.errors) == (4000 - refused, refused)
    assert found.marks == (ERRORS_IN_RESPONSE,)
    assert ("response_ms_mean" in found.values) is told
    assert read("wrk2/well", Wrk2(url=URL), asked()).marks == ()


def test_wrk2_reads_its_spectrum() -> None:
    limits = ("90% within 2ms", "p97 < 20ms")
    found = read("wrk2/well", Wrk2(url=URL), asked(limits=limits))
    assert found.values == {
        "error_ratio": 0.0,
        "response_ms_mean": 1.430,
        "response_ms_p50": 1.010,
        "response_ms_p90": 1.980,
        "response_ms_p95": 3.001,
        "response_ms_p97": 11.383,
        "response_ms_p99": 11.383,
        "response_ms_p99_9": 42.399,
        "within_2ms_share": 0.9,
    }
    assert (found.completed, found.lasted_s) == (4000, 20.0)


def test_wrk2_counts_refusals_and_broken_sockets_as_errors() -> None:
    limits = ("90% within 2ms",)
    found = read("wrk2/refused", Wrk2(url=URL), asked(limits=limits))
    # 400 answers, of which 100 are refusals, and 100 requests without one.
    assert (found.completed, found.errors) == (300, 200)
    assert found.values["error_ratio"] == 0.4
    assert found.values["within_2ms_share"] == pytest.approx(0.5 * 0.6)
    assert math.isinf(found.values["response_ms_p90"])


def test_vegeta_restores_the_intended_starts() -> None:
    limits = ("90% within 5ms",)
    found = read("vegeta/well", Vegeta(url=URL), asked(10.0, limits=limits))
    # Latencies 1 .. 10 ms; request 5 was sent 30 ms late; 7 and 8 failed.
    good = [1, 2, 3, 4, 5, 6 + 30, 7, 10]
    assert found.values["response_ms_mean"] == pytest.approx(sum(good) / len(good))
    assert found.values["within_5ms_share"] == 0.5
    assert found.values["lateness_ms_mean"] == pytest.approx(3.0)
    assert (found.offered, found.completed, found.errors) == (10, 8, 2)
    assert found.series.counts == (10,)
    assert found.marks == (GENERATOR_LATE,)
    assert found.late_p99_ms == pytest.approx(30)
    without = sum(good) - 30
    assert found.target_values["response_ms_mean"] == pytest.approx(without / 8)


def test_vegeta_waiting_for_a_worker_is_the_servers() -> None:
    """One worker: the second request, due after 100 ms, waits until 400 ms and is 20 ms late."""
    rows = [(0, 400), (420, 10), (430, 10)]
    log = "".join(f"{ms * 10**6 + 7},200,{took * 10**6},0,0,\n" for ms, took in rows)
    text = GeneratorOutput("", "", {"vegeta.csv": log})
    many, one = (Vegeta(url=URL, max_workers=n).parse(text, asked(10.0)) for n in (None, 1))
    assert many.values["response_ms_mean"] == one.values["response_ms_mean"]
    assert one.values["response_ms_mean"] == pytest.approx((400 + 330 + 240) / 3)
    assert many.target_values["response_ms_mean"] == pytest.approx(420 / 3)
    # The third began when its worker was free.
    assert one.target_values["response_ms_mean"] == pytest.approx((400 + 310 + 240) / 3)


def test_memtier_reads_its_totals() -> None:
    found = read("memtier/well", Memtier(), asked(1000.0, duration_s=2.0))
    assert found.values == {
        "response_ms_mean": 0.453,
        "response_ms_p50": 0.415,
        "response_ms_p90": 0.703,
        "response_ms_p95": 0.991,
        "response_ms_p99": 2.031,
        "response_ms_p99_9": 6.943,
    }
    assert found.series.counts == (1010, 990, 0)
    assert found.series.values["response_ms_mean"][:2] == (0.470, 0.436)


# -- what is not there -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("generator", "text", "sought"),
    [
        (Fio(filename="f"), "fio: no such engine", "JSON in fio.json"),
        (K6(url=URL), "", "JSON in k6.json"),
        (Memtier(), "", "JSON in memtier.json"),
        (Vegeta(url=URL), "", "request in vegeta.csv"),
        (Wrk2(url=URL), "unable to connect", "N requests in"),
        (RedisBenchmark(), "", "progress"),
        (RedisBenchmark(requests=5), "", "figures in its table"),
        (Pgbench(), "", "transaction log"),
    ],
)
def test_an_output_without_figures_says_what_was_sought(
    generator: Generator, text: str, sought: str
) -> None:
    rate = None if isinstance(generator, RedisBenchmark) else 100.0
    with pytest.raises(UnreadableOutput, match=sought) as told:
        generator.parse(GeneratorOutput(text, "the end"), asked(rate))
    assert str(told.value).startswith("no ")


def test_a_member_that_is_missing_is_named_with_its_neighbours() -> None:
    files = {"memtier.json": '{"ALL STATS": {"Totals": {"Ops/sec": 5}}}'}
    with pytest.raises(UnreadableOutput, match=r"/ALL STATS/Totals/Count .* Ops/sec"):
        Memtier().parse(GeneratorOutput("", "", files), asked())
