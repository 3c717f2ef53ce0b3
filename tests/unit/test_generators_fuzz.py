"""Whatever a generator prints, its adapter reads it or says what was sought."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from benchwright.features.generators.adapter import (
    Generator,
    GeneratorOutput,
    GeneratorRequest,
    Measurement,
    UnreadableOutput,
)
from benchwright.features.generators.command import command_generator
from benchwright.features.generators.databases import Memtier, Pgbench, RedisBenchmark
from benchwright.features.generators.fio import Fio
from benchwright.features.generators.http import K6, Oha, Vegeta, Wrk2
from benchwright.features.load.criteria import parse_criteria

GOLDEN = Path(__file__).parents[1] / "golden" / "generators"
ASKED = GeneratorRequest(
    rate=200.0, duration_s=1.0, criteria=parse_criteria(["40ms", "90% within 1ms", "p99.7 < 1s"])
)
USERS = GeneratorRequest(users=4, duration_s=1.0, criteria=ASKED.criteria)
CASES: dict[str, tuple[Generator, str, GeneratorRequest]] = {
    "pgbench": (Pgbench(), "pgbench/skipped", ASKED),
    "pgbench-closed": (Pgbench(), "pgbench/closed", USERS),
    "fio": (Fio(filename="f"), "fio/read", ASKED),
    "k6": (K6(url="u"), "k6/dropped", ASKED),
    "oha": (Oha(url="u"), "oha/well", ASKED),
    "wrk2": (Wrk2(url="u"), "wrk2/refused", ASKED),
    "vegeta": (Vegeta(url="u"), "vegeta/well", ASKED),
    "memtier": (Memtier(), "memtier/well", ASKED),
    "redis-timed": (RedisBenchmark(), "redis-benchmark/timed", USERS),
    "redis": (RedisBenchmark(requests=20000), "redis-benchmark/counted", USERS),
    "command": (command_generator("g {rate}", "/latency/mean", "/rows"), "command/well", ASKED),
}
WORDS = st.sampled_from(
    ["", "0", "-1", "nan", "inf", "1e999", "null", '"x"', "{}", "[]", "skipped", ",", "9" * 30]
)


def texts(name: str) -> dict[str, str]:
    return {path.name: path.read_text() for path in sorted((GOLDEN / name).iterdir())}


def check(found: Measurement) -> None:
    """Whatever was read can be kept."""
    assert all(isinstance(value, float) for value in found.values.values())
    assert found.lasted_s is None or found.lasted_s >= 0
    assert isinstance(found.errors, int)


@pytest.mark.parametrize("case", CASES)
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_an_output_with_a_part_replaced(case: str, data: st.DataObject) -> None:
    generator, golden, asked = CASES[case]
    files = texts(golden)
    name = data.draw(st.sampled_from([one for one in files if files[one]]))
    text = files[name]
    begin = data.draw(st.integers(0, len(text)))
    length = data.draw(st.sampled_from([0, 1, 3, 10, len(text)]))
    files[name] = text[:begin] + data.draw(WORDS) + text[begin + length :]
    output = GeneratorOutput(files.pop("stdout", ""), files.pop("stderr", ""), files)
    with contextlib.suppress(UnreadableOutput):
        check(generator.parse(output, asked))
    with contextlib.suppress(UnreadableOutput):
        found = generator.so_far(output, asked)
        if found is not None:
            check(found)


@pytest.mark.parametrize("case", CASES)
@settings(max_examples=15)
@given(text=st.text(max_size=80))
def test_any_text(case: str, text: str) -> None:
    generator, golden, asked = CASES[case]
    files = dict.fromkeys(texts(golden), text)
    output = GeneratorOutput(text, text, files)
    with contextlib.suppress(UnreadableOutput):
        check(generator.parse(output, asked))
