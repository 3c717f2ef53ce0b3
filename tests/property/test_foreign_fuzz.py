"""Hostile files of other tools: finite values, or an InputError with its place, never anything else."""

from __future__ import annotations

import gzip
import json
import math
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from benchwright.cli.stats_inputs import read_history, read_inputs
from benchwright.core.errors import InputError
from benchwright.study.foreign import PARSERS, imported_runs
from benchwright.study.parsers.api import ParsedInput, ResultParser

GOLDEN = Path(__file__).parents[1] / "golden" / "foreign"
DOCUMENTS = {
    path.name: json.loads(path.read_text())
    for path in sorted(GOLDEN.glob("*.json"))
    if path.stat().st_size < 20_000
}
DOCUMENTS["asv.json"] = json.loads((GOLDEN / "asv/vm/fefd73b6-py3.11.json").read_text())
_JMH = json.loads((GOLDEN / "jmh.json").read_text())
DOCUMENTS["jmh.json"] = [_JMH[0], _JMH[-1]]
for fork in _JMH[-1]["primaryMetric"]["rawDataHistogram"]:
    fork[:] = [iteration[:3] for iteration in fork]
TEXTS = [
    (GOLDEN / name).read_bytes()
    for name in (
        *("go-bench.txt", "cargo-criterion.jsonl", "otava.csv", "data.js"),
        *("k6-points.ndjson", "pyperf.json.gz", "fio.json"),
    )
]
PARSER = {parser.name: parser for parser in PARSERS}

odd_numbers = st.sampled_from(
    [0, -1, 1e308, -1e308, 5e-324, math.nan, math.inf, 10**400, 2**63, 0.1]
)
odd = st.one_of(
    st.none(),
    st.booleans(),
    odd_numbers,
    st.sampled_from(["", "NaN", "x", "\x1b[2J", "\udcff", "a" * 5000, "n=1,\n"]),
    st.just([]),
    st.just({}),
    st.just([[[[]]]]),
    st.just({"": {"": None}}),
)


def places_of(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the path of every value in a document."""
    found = [path]
    if isinstance(value, dict):
        for key, inner in value.items():
            found += places_of(inner, (*path, key))
    elif isinstance(value, list):
        for at, inner in enumerate(value[:4]):
            found += places_of(inner, (*path, at))
    return found


PLACES = {name: places_of(document) for name, document in DOCUMENTS.items()}


def changed(document: Any, path: tuple[Any, ...], change: Callable[[Any], Any]) -> Any:
    if not path:
        return change(document)
    copied = document.copy()
    copied[path[0]] = changed(document[path[0]], path[1:], change)
    return copied


@st.composite
def mutants(draw: st.DrawFn) -> Any:
    """Return a good document in which one or two values are replaced, removed or doubled."""
    name = draw(st.sampled_from(sorted(DOCUMENTS)))
    document = DOCUMENTS[name]
    for _ in range(draw(st.integers(1, 2))):
        path = draw(st.sampled_from(PLACES[name]))
        value = draw(odd)
        try:
            if draw(st.booleans()) and path:
                document = changed(
                    document, path[:-1], lambda here, last=path[-1]: without(here, last)
                )
            else:
                document = changed(document, path, lambda _here, new=value: new)
        except (KeyError, IndexError, TypeError, AttributeError):
            continue  # The first change removed this place.
    return document


def without(here: Any, last: Any) -> Any:
    if isinstance(here, dict):
        return {key: value for key, value in here.items() if key != last}
    return [*here[:last], *here[last + 1 :], *here[:1]]


def check(path: Path) -> None:
    """Read a file by whatever parser takes it, and by each parser of its kind."""
    for read in (read_inputs, read_history):
        try:
            found = read([str(path)])
        except InputError as error:
            for one in error.diagnostics:
                assert one.file
                assert one.message
                one.render()
            continue
        sound(found)
        for run in imported_runs(found):
            for _, point in run.points:
                assert math.isfinite(point.estimate)
                assert point.trials >= 0


def sound(found: list[ParsedInput]) -> None:
    assert found
    for one in found:
        assert isinstance(one.name, str)
        for block in one.blocks:
            assert all(math.isfinite(value) for value in block.values.values())
            assert isinstance(block.status, int)
        for summary in one.summaries:
            assert not math.isinf(summary.mean)
            # Both ends of an interval, or none.
            assert math.isnan(summary.low) == math.isnan(summary.high)
        assert all(isinstance(level, str) for pair in one.sample for level in pair)


@settings(
    max_examples=500,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
@given(document=mutants(), packed=st.booleans())
def test_a_changed_document_is_results_or_an_input_error(
    document: Any, packed: bool
) -> None:
    text = json.dumps(document).encode("utf-8", "surrogatepass")
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "input"
        path.write_bytes(gzip.compress(text, 1) if packed else text)
        check(path)


@settings(max_examples=300, derandomize=True)
@given(
    seed=st.sampled_from(TEXTS),
    share=st.floats(0, 1),
    length=st.integers(0, 40),
    new=st.binary(max_size=40),
)
def test_a_damaged_text_is_results_or_an_input_error(
    seed: bytes, share: float, length: int, new: bytes
) -> None:
    at = int(share * len(seed))
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "input"
        path.write_bytes(seed[:at] + new + seed[at + length :])
        check(path)


@pytest.mark.parametrize("parser", PARSERS, ids=lambda parser: parser.name)
@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x00" * 100,
        b"[" * 200_000,
        b'{"a":' * 100_000,
        b"{}",
        b"[]",
        b"null",
        b'{"results": [{"command": 1, "mean": {}}]}',
        b"\x1f\x8b\x08\x00damaged",
        b"9" * 5000,
        b'{"reason": 1}\n{"reason": "benchmark-complete", "mean": 3}',
        b'{"type":"Point","metric":"a","data":3}',
        b"BenchmarkA 1 2 ns/op 3\nBenchmark 1 nan x\nBenchmarkA 1 1e999 ns/op\n",
        b"time,commit,a\n2026-01-01,,1\n2026-99-99,x,y\n",
        b'window.BENCHMARK_DATA = {"entries": {"": [{"benches": [{}]}]}}',
    ],
    ids=lambda data: data[:20].decode("latin-1"),
)
def test_a_parser_refuses_what_it_cannot_read(
    parser: ResultParser, data: bytes, tmp_path: Path
) -> None:
    path = tmp_path / "input"
    path.write_bytes(data)
    parser.detect(path, data[:4096])
    for read in (parser.read, getattr(parser, "history", parser.read)):
        try:
            found = read(path)
        except InputError:
            continue
        sound(found)


@pytest.mark.parametrize("name", ["fio", "jmh", "pyperf", "hyperfine"])
def test_a_cut_file_is_named_with_what_to_do(name: str, tmp_path: Path) -> None:
    path = tmp_path / "results"
    # A complete document is at the end of the file; half of it is damaged.
    whole = (GOLDEN / f"{name}.json").read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError) as refused:
        read_inputs([str(path)])
    (one,) = refused.value.diagnostics
    assert (one.code, one.file) == (f"{name}-syntax", str(path))
    assert "damaged" in one.message
    assert one.hint.startswith("write it again: ")
