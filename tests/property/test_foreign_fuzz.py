"""Hostile files of other tools: finite values, or an InputError with its place, never anything
else."""

from __future__ import annotations

import gzip
import json
import math
import re
import tempfile
from collections import Counter
from collections.abc import Callable
from functools import reduce
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from benchwright.core.errors import InputError
from benchwright.features.exchange.foreign import PARSERS
from benchwright.features.history.foreign_runs import imported_runs
from benchwright.findings.result import TestResult
from benchwright.results.inputs import read_history, read_inputs
from benchwright.study.parsers.api import ResultParser

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


def sound(found: list[TestResult]) -> None:
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


@settings(max_examples=500, suppress_health_check=[HealthCheck.too_slow])
@given(document=mutants(), packed=st.booleans())
def test_a_changed_document_is_results_or_an_input_error(document: Any, packed: bool) -> None:
    text = json.dumps(document).encode("utf-8", "surrogatepass")
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "input"
        path.write_bytes(gzip.compress(text, 1) if packed else text)
        check(path)


@settings(max_examples=300)
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


RESULTS: dict[str, tuple[str, ...]] = {
    "hyperfine.json": ("results",),
    "pyperf.json": ("benchmarks",),
    "pytest-benchmark.json": ("benchmarks",),
    "google-benchmark-complexity.json": ("benchmarks",),
    "fio.json": ("jobs",),
    "fio-mixed.json": ("jobs",),
    "jmh.json": (),
    "custom-smaller.json": (),
}
"""Where a document has its results."""


def values_of(path: Path) -> Counter[tuple[str, float]]:
    return Counter(
        pair
        for one in read_inputs([str(path)])
        for block in one.blocks
        for pair in block.values.items()
    )


@pytest.mark.parametrize("name", RESULTS)
def test_each_result_of_a_file_is_read_however_often_it_is_there(name: str, tmp_path: Path) -> None:
    path, document = tmp_path / "results", DOCUMENTS[name]
    path.write_text(json.dumps(document))
    whole = values_of(path)
    entries = document
    for key in RESULTS[name]:
        entries = entries[key]
    for entry in entries:
        doubled = changed(document, RESULTS[name], lambda one, new=entry: [*one, new])
        path.write_text(json.dumps(doubled))
        twice = values_of(path)
        runs = imported_runs(read_history([str(path)]))
        series = [key for run in runs for key, _ in run.points]
        assert len(series) == len(set(series))
        alone = changed(document, RESULTS[name], lambda _, new=entry: [new])
        path.write_text(json.dumps(alone))
        try:
            added = values_of(path)
        except InputError:  # an entry that is no result, such as an aggregate
            continue
        assert twice == whole + added


JMH = [
    {**one, "secondaryMetrics": dict([*one["secondaryMetrics"].items()][:1])}
    for one in DOCUMENTS["jmh.json"]
]
STORE = json.loads((GOLDEN / "data.js").read_text().partition("=")[2])
HEAD, *ROWS = (GOLDEN / "otava.csv").read_text().splitlines()
WRITTEN: dict[str, tuple[Any, Callable[[Any], str]]] = {
    "jmh.json": (JMH, json.dumps),
    "custom-smaller.json": (DOCUMENTS["custom-smaller.json"], json.dumps),
    "data.js": (STORE, lambda it: f"window.BENCHMARK_DATA = {json.dumps(it)}"),
    "otava.csv": ([row.split(",") for row in ROWS], lambda rows: csv_of(HEAD, rows)),
}
"""Documents in which each value is changed, and how they are written."""


def csv_of(head: str, rows: list[list[str | None] | None]) -> str:
    lines = ("null" if row is None else ",".join(c or "" for c in row) for row in rows)
    return "\n".join([head, *lines, ""])


def at_key(here: Any, last: Any, new: Callable[[Any, Any], list[tuple[Any, Any]]]) -> Any:
    """Return a container in which a member is replaced by others."""
    pairs = here.items() if isinstance(here, dict) else enumerate(here)
    found = [
        pair
        for key, value in pairs
        for pair in (new(key, value) if key == last else [(key, value)])
    ]
    return dict(found) if isinstance(here, dict) else [value for _, value in found]


CHANGES: dict[str, Callable[[Any, Any], list[tuple[Any, Any]]]] = {
    "drop": lambda _key, _value: [],
    "rename": lambda key, value: [(f"{key}X", value)],
    "null": lambda key, _value: [(key, None)],
    "double": lambda key, value: [(key, value)] * 2,
    "text": lambda key, _value: [(key, "x")],
}


class Figures(NamedTuple):
    results: int
    """Tests with values; in a history each run has its own."""
    values: int
    is_named: bool
    """Whether a finding names what was not read."""


def figures_of(path: Path) -> Figures:
    tests = read_history([str(path)])
    assert all(one.name for one in tests)
    values = [
        sum(math.isfinite(s.mean + s.median) for s in one.summaries)
        + sum(len(block.values) for block in one.blocks)
        for one in tests
    ]
    codes = [f.code for one in tests for f in one.session_findings]
    return Figures(sum(map(bool, values)), sum(values), "results-not-read" in codes)


def leaves(value: Any) -> int:
    inner = value.values() if isinstance(value, dict) else value
    return sum(map(leaves, inner)) if isinstance(value, dict | list) else 1


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("name", WRITTEN)
def test_what_a_changed_file_has_is_read_or_named_or_the_file_is_refused(
    name: str, change: str, tmp_path: Path
) -> None:
    document, write = WRITTEN[name]
    path, lost = tmp_path / "results", []
    path.write_text(write(document))
    whole = figures_of(path)
    for place in places_of(document)[1:]:
        old = reduce(lambda value, key: value[key], place, document)
        new = changed(
            document, place[:-1], lambda here, last=place[-1]: at_key(here, last, CHANGES[change])
        )
        path.write_text(write(new))
        try:
            read = figures_of(path)
        except InputError:
            continue
        is_part, is_value = isinstance(place[-1], int), not isinstance(old, dict | list)
        # A value, a member, or an element that is no longer there cannot be read.
        may_go = (is_value and change != "text") or not is_part or change == "drop"
        fewer = leaves(old) if may_go and (is_value or is_part) else 0
        if not read.is_named and (
            read.results < whole.results - fewer
            or read.values < whole.values - may_go * leaves(old)
        ):
            lost.append((place, read))
    assert not lost


@pytest.mark.parametrize("name", WRITTEN)
def test_a_cut_file_is_refused_or_has_a_part_of_its_results(name: str, tmp_path: Path) -> None:
    document, write = WRITTEN[name]
    path, text = tmp_path / "results", write(document)
    path.write_text(text)
    whole = figures_of(path)
    refused = 0
    for end in range(0, len(text), 1 + len(text) // 200):
        path.write_text(text[:end])
        try:
            read = figures_of(path)
        except InputError:
            refused += 1
            continue
        assert name == "otava.csv"
        assert read.values <= whole.values
    assert refused > 100


_NS = re.compile(r"\t\s*([-+.0-9eE]+) ns/op")
_GO = (GOLDEN / "go-printing.txt").read_text().splitlines(keepends=True)


@st.composite
def changed_outputs(draw: st.DrawFn) -> str:
    """Return an output of go test with lines dropped, doubled, swapped, joined or cut."""
    lines = [*_GO]
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(lines) - 2))
        how = draw(st.sampled_from(("drop", "double", "swap", "join", "cut")))
        if how == "drop":
            del lines[at]
        elif how == "double":
            lines.insert(at, lines[at])
        elif how == "swap":
            lines[at], lines[at + 1] = lines[at + 1], lines[at]
        elif how == "join":
            lines[at] = lines[at].rstrip("\n")
        else:
            lines[at] = lines[at][: draw(st.integers(0, len(lines[at])))] + "\n"
    return "".join(lines)


@settings(max_examples=300, deadline=None)
@given(text=changed_outputs())
def test_every_time_of_a_changed_output_is_read_or_its_line_is_named(text: str) -> None:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "bench.txt"
        path.write_text(text)
        try:
            tests = read_inputs([str(path)])
        except InputError as error:
            lines = {one.line for one in error.diagnostics}
            assert lines
            assert max(lines) <= text.count("\n") + 1
            return
    read = Counter(
        round(block.values["elapsed"] * 1e9, 6)
        for one in tests
        for block in one.blocks
        if "elapsed" in block.values
    )
    evidence = " ".join(f.evidence for one in tests for f in one.session_findings)
    for number, line in enumerate(text.splitlines(), 1):
        times = [round(float(value), 6) for value in _NS.findall(line)]
        if f"bench.txt:{number}: " not in evidence:
            read.subtract(times)
    lost = [time for time, count in read.items() if count < 0]
    assert not lost
