"""How load generators are called: words, rounding, placeholders, and what is refused."""

from __future__ import annotations

import json
import shlex

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchwright.core.criterion import Criterion
from benchwright.features.generators import adapter as placeholders
from benchwright.features.generators.adapter import (
    CLOSED_LOOP,
    HIDES_LATENESS,
    Generator,
    GeneratorRequest,
)
from benchwright.features.generators.command import command_generator
from benchwright.features.generators.databases import Memtier, Pgbench, RedisBenchmark
from benchwright.features.generators.findings import LATENESS_UNKNOWN, REFUSALS_UNSEEN
from benchwright.features.generators.fio import Fio
from benchwright.features.generators.http import K6, Oha, Vegeta, Wrk2
from benchwright.features.generators.registry import GENERATORS
from benchwright.features.load.criteria import parse_criteria, parse_criterion

URL = "http://127.0.0.1:{port}/"
SAMPLE = (("port", "8080"), ("clients", "3"))
ASKED = GeneratorRequest(rate=250.5, duration_s=2.5, directory="/d", sample=SAMPLE)
USERS = GeneratorRequest(users=4, duration_s=2.5, directory="/d", sample=SAMPLE)


def words(generator: Generator, of: GeneratorRequest = ASKED, which: int = 0) -> str:
    return shlex.join(generator.invocation(of).commands[which].argv)


def test_pgbench_is_asked_on_a_schedule() -> None:
    generator = Pgbench(host="h", port="{port}", clients="{clients}", jobs=2)
    assert words(generator) == (
        "pgbench -n -T 3 -P 1 -l --log-prefix=/d/pgbench_log -R 250.5 -c 3 -j 2 "
        "-h h -p 8080 postgres"
    )


def test_pgbench_of_users_has_no_schedule() -> None:
    assert "-R" not in words(Pgbench(), USERS).split()
    assert "-c 4" in words(Pgbench(), USERS)


def test_wrk2_takes_whole_numbers() -> None:
    call = Wrk2(url=URL, threads=2).invocation(ASKED)
    assert call.rate == 250.0
    assert words(Wrk2(url=URL, threads=2)) == (
        "wrk2 -t 2 -c 50 -d 3s -R 250 --latency http://127.0.0.1:8080/"
    )


def test_vegeta_attacks_and_then_writes_its_log() -> None:
    call = Vegeta(url=URL).invocation(ASKED)
    assert call.rate == 250.5
    assert call.writes == (("targets", "GET http://127.0.0.1:8080/\n"),)
    assert "-rate=15030/1m" in words(Vegeta(url=URL))
    assert "-duration=2.5s" in words(Vegeta(url=URL))
    second = words(Vegeta(url=URL), which=1)
    assert second == "vegeta encode -to=csv -output=/d/vegeta.csv /d/vegeta.bin"


def test_oha_corrects_its_latency_only_on_a_schedule() -> None:
    assert words(Oha(url=URL)) == (
        "oha --no-tui --output-format json -z 2.5s -c 50 -q 250.5 "
        "--latency-correction http://127.0.0.1:8080/"
    )
    assert "--latency-correction" not in words(Oha(url=URL), USERS)


def test_k6_gets_a_script_with_the_rate_and_the_limits() -> None:
    of = msgspec.structs.replace(ASKED, criteria=parse_criteria(["90% within 40ms"]))
    ((name, text),) = K6(url=URL).invocation(of).writes
    assert name == "load.js"
    options = json.loads(text.split("options = ")[1].split(";\n")[0])
    load = options["scenarios"]["load"]
    assert (load["rate"], load["timeUnit"]) == (15030, "1m")
    assert load["duration"] == "2.5s"
    assert '{"within_40ms_share": 40.0}' in text
    assert 'http.get("http://127.0.0.1:8080/")' in text


def test_k6_gives_a_users_script_the_rate() -> None:
    call = words(K6(script="own.js"))
    assert call.endswith("-e RATE=250.5 -e DURATION=2.5s -e USERS=50 own.js")


def test_fio_splits_the_rate_of_a_mixture() -> None:
    generator = Fio(filename="/d/f", rw="randrw", read_percent=70)
    assert "--rate_iops=175,75 " in words(generator)
    assert "--rwmixread=70" in words(generator)
    assert generator.invocation(ASKED).rate == 250.0
    assert "--rate_iops=250 " in words(Fio(filename="/d/f"))
    assert "--iodepth=4 " in words(Fio(filename="/d/f"), USERS)


def test_memtier_shares_the_rate_among_its_connections() -> None:
    assert "--rate-limiting=16" in words(Memtier(threads=2, clients=8))
    assert Memtier(threads=2, clients=8).invocation(ASKED).rate == 256.0
    few = GeneratorRequest(rate=3.0, duration_s=1.0)
    assert "-c 3 " in words(Memtier(clients=8), few)
    assert Memtier(clients=8).invocation(few).rate == 3.0


@pytest.mark.parametrize("users", [1, 4, 6, 7])
def test_memtier_has_as_many_connections_as_users_are_asked_for(users: int) -> None:
    """-c is of each thread: one user by four threads would be four."""
    line = words(Memtier(threads=4), GeneratorRequest(users=users, duration_s=1.0)).split()
    threads, each = (int(line[line.index(flag) + 1]) for flag in ("-t", "-c"))
    assert threads * each == users


def test_redis_benchmark_runs_until_the_time_is_up_or_so_many_requests() -> None:
    timed = words(RedisBenchmark(port="{port}", keyspace=100), USERS)
    assert timed.startswith("timeout 2.5 redis-benchmark -h 127.0.0.1 -p 8080 -q -c 4 ")
    assert timed.endswith("-r 100 -n 2000000000 -t get")
    counted = words(RedisBenchmark(requests=500), USERS)
    assert counted.startswith("redis-benchmark ")
    assert counted.endswith("--csv -n 500 -t get")


@pytest.mark.parametrize("generator", [Wrk2(url=URL), Vegeta(url=URL)])
def test_a_generator_that_needs_a_rate_says_so(generator: Generator) -> None:
    with pytest.raises(ValueError, match="needs a rate"):
        generator.invocation(USERS)


def test_redis_benchmark_has_no_rate() -> None:
    with pytest.raises(ValueError, match="has no rate"):
        RedisBenchmark().invocation(ASKED)


def test_a_count_that_is_no_number_after_filling_is_refused() -> None:
    with pytest.raises(ValueError, match="clients is '8080x', expected a whole"):
        Pgbench(clients="{port}x").invocation(ASKED)


# -- what figures are worth ------------------------------------------------------------

MARKS: dict[str, tuple[Generator, tuple[str, ...]]] = {
    "pgbench": (Pgbench(), ()),
    "wrk2": (Wrk2(url=URL), ()),
    "vegeta": (Vegeta(url=URL), ()),
    "oha": (Oha(url=URL), ()),
    "k6": (K6(url=URL), (HIDES_LATENESS,)),
    "fio": (Fio(filename="f"), (HIDES_LATENESS,)),
    "redis-benchmark": (RedisBenchmark(), (CLOSED_LOOP, HIDES_LATENESS)),
    "memtier": (Memtier(), (CLOSED_LOOP, HIDES_LATENESS)),
    "command": (command_generator("g {rate}", "/mean"), ()),
}


@pytest.mark.parametrize("name", GENERATORS)
def test_each_generator_is_marked_for_what_it_hides(name: str) -> None:
    generator, marks = MARKS[name]
    assert generator.name == name
    assert generator.traits.marks == marks


@pytest.mark.parametrize("name", GENERATORS)
def test_each_generator_is_marked_for_what_its_figures_at_a_rate_cannot_say(name: str) -> None:
    generator, marks = MARKS[name]
    late = {"wrk2", "oha", "command"}
    unseen = {"memtier", "redis-benchmark", "command"}
    wanted = (LATENESS_UNKNOWN,) * (name in late) + (REFUSALS_UNSEEN,) * (name in unseen)
    assert generator.traits.rate_marks == wanted
    assert (LATENESS_UNKNOWN in wanted) + (HIDES_LATENESS in marks) == (
        not generator.traits.reports_lateness
    ), "what it does not say of its lateness is said once"


@pytest.mark.parametrize(
    ("generator", "limit", "refusal"),
    [
        (Pgbench(), "90% within 40ms", ""),
        (Pgbench(), "metric hits > 1", "it reports no metric"),
        (Oha(url=URL), "p99 < 40ms", ""),
        (Oha(url=URL), "p98 < 40ms", "its percentiles are: p10, p25, p50"),
        (Oha(url=URL), "90% within 40ms", "it reports no share"),
        (K6(url=URL), "90% within 40ms", ""),
        (K6(script="s.js"), "90% within 40ms", "it reports no share"),
        (Memtier(), "errors < 1%", "it reports no ratio"),
        (RedisBenchmark(), "p99 < 1ms", "it reports no percentile"),
        (RedisBenchmark(requests=9), "p90 < 1ms", "its percentiles are: p50, p95, p99"),
        (command_generator("g {rate}", "/m"), "40ms", ""),
        (command_generator("g {rate}", "/m"), "p99 < 1ms", "its values are: response"),
    ],
)
def test_a_criterion_without_a_value_is_refused(
    generator: Generator, limit: str, refusal: str
) -> None:
    criterion: Criterion = parse_criterion(limit)
    told = generator.traits.refusal(criterion)
    assert told.startswith(refusal)
    assert bool(told) == bool(refusal)


# -- placeholders ----------------------------------------------------------------------

LEVELS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)


@given(LEVELS)
def test_a_level_stays_one_word(level: str) -> None:
    of = GeneratorRequest(rate=1.0, duration_s=1.0, sample=(("level", level),))
    assert placeholders.command_of("p {level} {rate}", of).argv == ("p", level, "1")
    shell, flag, text = placeholders.command_of("p {level} {rate} | q", of).argv
    assert (shell, flag) == ("/bin/sh", "-c")
    assert shlex.split(text) == ["p", level, "1", "|", "q"]


def test_braces_around_no_known_name_stay() -> None:
    of = GeneratorRequest(rate=1.0, duration_s=0.5)
    assert placeholders.fill_text("{print} {duration}", of) == "{print} 0.5"


@given(st.floats(1e-3, 1e9))
def test_a_rate_is_written_without_an_exponent(rate: float) -> None:
    text = placeholders.placeholder_values(rate)
    assert set(text) <= set("0123456789.")
    assert float(text) == pytest.approx(rate, abs=1e-6)
