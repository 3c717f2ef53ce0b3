"""Results of Python's benchmark tools: pyperf, pytest-benchmark, asv.

Sources: pyperf 2.10, doc/api.rst (JSON format); pytest-benchmark 5, `--benchmark-json`; asv 0.6,
asv/results.py. asv stores a median with the ends of its 99 % interval, and samples only with
`--record-samples`.
"""

from __future__ import annotations

import datetime
import itertools
import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from benchwright.core.observation import MeasurementBlock
from benchwright.core.plan import Pairs
from benchwright.study.foreign.json_file import (
    DamagedJson,
    JsonFormat,
    Node,
    Problems,
    input_error,
    is_object,
    load_json,
    may_be_json,
)
from benchwright.study.foreign.units import (
    ELAPSED,
    BaseUnit,
    base_unit,
    scaled,
    spec_of,
    stated,
)
from benchwright.study.parsers.api import FileOrigin, ParsedInput

_NS = 10**9
_MS = 10**6
_COMMIT = re.compile(r"[0-9a-fA-F]{7,64}\Z")


def moment_ns(text: str) -> int | None:
    """Return a date and time of ISO 8601 as nanoseconds since 1970, in UTC where it has no zone; None
    if it is none."""
    try:
        moment = datetime.datetime.fromisoformat(text.strip())
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=datetime.UTC)
        return round(moment.timestamp()) * _NS
    except (ValueError, OverflowError):
        return None


def epoch_ns(node: Node, unit: float) -> int | None:
    """Return a time since 1970 in a unit of seconds as nanoseconds; None if it is absent or before."""
    value = node.number()
    if value is None or not 0 < value * unit < 1e11:
        return None
    return round(value * unit * 1000) * _MS


def commit_text(node: Node) -> str:
    """Return the hash of a commit; empty for another word (`unversioned`)."""
    text = node.text().strip()
    return text if _COMMIT.match(text) else ""


def blocks_of(
    name: str, values: Sequence[float | None]
) -> tuple[MeasurementBlock, ...]:
    """Return a block for each value of one quantity; those that are absent have none."""
    return tuple(
        MeasurementBlock(0, at, "", 0, {name: value})
        for at, value in enumerate(values, 1)
        if value is not None
    )


# -- pyperf ----------------------------------------------------------------------------


def _is_pyperf(value: Any) -> bool:
    benchmarks = value.get("benchmarks") if isinstance(value, dict) else None
    return (
        isinstance(benchmarks, list)
        and bool(benchmarks)
        and all(is_object(one, "runs") for one in benchmarks)
    )


def _pyperf(document: Node) -> list[ParsedInput]:
    """Return one test for each benchmark; a value of a run is a trial, warm-ups are none."""
    return [
        _pyperf_benchmark(document, one) for one in document["benchmarks"].elements()
    ]


def _pyperf_benchmark(document: Node, benchmark: Node) -> ParsedInput:
    def fact(name: str) -> Node:
        for where in (benchmark["metadata"], document["metadata"]):
            if where.has(name):
                return where[name]
        runs = benchmark["runs"].value
        first = runs[0] if isinstance(runs, list) and runs else None
        return Node(first, benchmark.problems, f"{benchmark.where}.runs[0]")[
            "metadata"
        ][name]

    unit = fact("unit").text("second")
    known = {"second": (ELAPSED, "s"), "byte": ("memory", "B")}
    name, base = known.get(unit, ("value", ""))
    blocks: list[MeasurementBlock] = []
    for run in benchmark["runs"].elements():
        memory = run["metadata"]["command_max_rss"].number()
        for value in run["values"].numbers():
            if value is None:
                continue
            values = {name: value}
            if memory is not None:
                values["rss_bytes"] = memory
            blocks.append(MeasurementBlock(0, len(blocks) + 1, "", 0, values))
    version = fact("perf_version").text()
    return ParsedInput(
        name=fact("name").text(benchmark.problems.path.name),
        blocks=tuple(blocks),
        specs=(spec_of(name, base, "lower"),),
        origin=FileOrigin(
            tool=f"pyperf {version}".rstrip(),
            started_ns=moment_ns(fact("date").text()),
            machine=fact("hostname").text(),
        ),
    )


PYPERF = JsonFormat(
    name="pyperf",
    description="pyperf's JSON",
    matches=_is_pyperf,
    convert=_pyperf,
    marks=(b'"perf_version"', b'"warmups"'),
    hint="write it again: pyperf ... -o FILE",
)


# -- pytest-benchmark ------------------------------------------------------------------


def _is_pytest(value: Any) -> bool:
    return (
        is_object(value, "machine_info", "benchmarks")
        and isinstance(value["benchmarks"], list)
        and all(is_object(one, "name", "stats") for one in value["benchmarks"])
    )


def _pytest(document: Node) -> list[ParsedInput]:
    """Return one test for each benchmark; a round is a trial, if the file has the rounds."""
    found = list(document["benchmarks"].elements())
    names = Counter(one["name"].text() for one in found)
    commit = document["commit_info"]
    version = document["version"].text()
    origin = FileOrigin(
        tool=f"pytest-benchmark {version}".rstrip(),
        commit=commit_text(commit["id"]),
        commit_time_ns=moment_ns(commit["time"].text()),
        started_ns=moment_ns(document["datetime"].text()),
        machine=document["machine_info"]["node"].text(),
    )
    tests = []
    for one in found:
        name, stats = one["name"].text(), one["stats"]
        blocks = blocks_of(ELAPSED, stats["data"].numbers())
        summary = stated(
            ELAPSED,
            "s",
            count=stats["rounds"].count(),
            mean=stats["mean"].number(),
            median=stats["median"].number(),
            extremes=(stats["min"].number(), stats["max"].number()),
            sdev=stats["stddev"].number(),
        )
        tests.append(
            ParsedInput(
                name=one["fullname"].text(name) if names[name] > 1 else name,
                blocks=blocks,
                specs=(spec_of(ELAPSED, "s", "lower"),),
                sample=tuple((k, _level(v)) for k, v in one["params"].members()),
                summaries=() if blocks else (summary,),
                origin=origin,
            )
        )
    return tests


def _level(value: Node) -> str:
    """Return a parameter as text: an object or a list as JSON."""
    if isinstance(value.value, dict | list):
        return msgspec.json.encode(value.value).decode()
    return value.text()


PYTEST_BENCHMARK = JsonFormat(
    name="pytest-benchmark",
    description="pytest-benchmark's JSON",
    matches=_is_pytest,
    convert=_pytest,
    marks=(b'"machine_info"',),
    hint="write it again: pytest --benchmark-json=FILE",
)


# -- asv: a file of one commit, or a directory of them ----------------------------------
#
# Decision: the unit of a benchmark is in `benchmarks.json` beside the results; without that file, a name
# tells its kind (asv's rule: `time_`, `mem_`, `peakmem_`, `track_`). Of a directory, `bw stats` reads the
# newest commit of each machine and environment; a history reads all.

_ASV_HINT = "give asv's directory of results, results/MACHINE, or a file COMMIT-ENVIRONMENT.json in it"
_MOST_FILES = 20_000
_NOT_RESULTS = ("machine.json", "benchmarks.json")
_ASV_COLUMNS = ("result", "params")
_CONFIDENCE = 0.99


def _is_asv(value: Any) -> bool:
    return is_object(value, "commit_hash", "results") and isinstance(
        value["results"], dict
    )


class _AsvParser:
    name = "asv"
    description = "asv's results"

    def detect(self, path: Path, head: bytes) -> bool:
        """Return whether the path is a file of asv's results, or a directory with some."""
        if path.is_dir():
            return next(_asv_files(path), None) is not None
        if not may_be_json(path, head):
            return False
        try:
            return _is_asv(load_json(path))
        except DamagedJson:
            return b'"commit_hash"' in head and b'"env_name"' in head
        except OSError:
            return False

    def read(self, path: Path) -> list[ParsedInput]:
        """Return the tests of the newest commit of each machine and environment. Raises
        InputError."""
        newest: dict[tuple[str, str], tuple[int, list[ParsedInput]]] = {}
        for place, tests in self._of_files(path):
            when = max(
                (one.origin.commit_time_ns or 0 for one in tests if one.origin),
                default=0,
            )
            before = newest.get(place)
            if before is None or when >= before[0]:
                newest[place] = (when, tests)
        return [one for _, tests in newest.values() for one in tests]

    def history(self, path: Path) -> list[ParsedInput]:
        """Return the tests of every commit. Raises InputError."""
        return [one for _, tests in self._of_files(path) for one in tests]

    def _of_files(self, path: Path) -> list[tuple[tuple[str, str], list[ParsedInput]]]:
        """Return the tests of each file, with its machine and environment."""
        files = sorted(_asv_files(path)) if path.is_dir() else [path]
        found = []
        for file in files:
            try:
                document = load_json(file)
            except DamagedJson as error:
                message = f"{file} is a damaged file of asv's results: {error}"
                raise input_error(file, self.name, message, _ASV_HINT) from None
            problems = Problems(file, self.name, _ASV_HINT)
            node = Node(document, problems)
            if _is_asv(document):
                place = (str(file.parent), node["env_name"].text())
                found.append((place, _asv(node, _asv_benchmarks(file))))
            elif not path.is_dir():
                problems.add("", "is no file of asv's results")
            problems.check()
        if not any(tests for _, tests in found):
            message = f"{path} contains no result"
            raise input_error(path, self.name, message, _ASV_HINT)
        return found


def _asv_files(path: Path) -> Iterator[Path]:
    """Yield the files of results in a directory, in one of a machine, or in asv's `results`."""
    seen = 0
    places = [path, path / "results"] if (path / "results").is_dir() else [path]
    for place in places:
        machines = [place] if (place / "machine.json").is_file() else []
        if not machines:
            with os.scandir(place) as found:
                machines = sorted(
                    Path(one.path)
                    for one in itertools.islice(found, _MOST_FILES)
                    if one.is_dir() and Path(one.path, "machine.json").is_file()
                )
        for machine in machines:
            for file in machine.glob("*.json"):
                seen += 1
                if file.name not in _NOT_RESULTS and seen <= _MOST_FILES:
                    yield file


def _asv_benchmarks(file: Path) -> dict[str, Any]:
    """Return asv's description of the benchmarks, which is beside the machines' directories; nothing
    without one."""
    place = file.parent.parent / "benchmarks.json"
    try:
        found = load_json(place) if place.is_file() else {}
    except (DamagedJson, OSError):
        return {}
    return found if isinstance(found, dict) else {}


def _asv(document: Node, benchmarks: dict[str, Any]) -> list[ParsedInput]:
    columns = [one.text() for one in document["result_columns"].elements()]
    origin = FileOrigin(
        tool="asv",
        commit=commit_text(document["commit_hash"]),
        commit_time_ns=epoch_ns(document["date"], 1e-3),
        machine=document["params"]["machine"].text(),
    )
    tests: list[ParsedInput] = []
    for name, result in document["results"].members():
        about = benchmarks.get(name)
        described = Node(
            about if isinstance(about, dict) else {},
            document.problems,
            f"benchmarks.{name}",
        )
        tests += _asv_tests(name, _asv_row(result, columns), described, origin)
    return tests


def _asv_row(result: Node, columns: Sequence[str]) -> dict[str, Node]:
    """Return the columns of a benchmark's result; older versions of asv have an object, or a bare
    value."""
    if isinstance(result.value, dict):
        return dict(result.members())
    if isinstance(result.value, list):
        return dict(zip(columns or _ASV_COLUMNS, result.elements(), strict=False))
    return {"result": result}


def _asv_tests(
    name: str, row: dict[str, Node], about: Node, origin: FileOrigin
) -> Iterator[ParsedInput]:
    """Yield a test for each combination of a benchmark's parameters that has a result."""
    problems = about.problems
    absent = Node(None, problems)
    base = _asv_unit(name, about)
    metric = _ASV_NAMES.get(base.unit, name.rpartition(".")[2])
    levels = [
        [one.text() for one in axis.elements()]
        for axis in row.get("params", absent).elements()
    ]
    factors = [one.text() for one in about["param_names"].elements()]
    factors += [f"param{at + 1}" for at in range(len(factors), len(levels))]
    result = row.get("result", absent)
    results = list(result.elements()) if isinstance(result.value, list) else [result]

    def column(key: str, at: int) -> Node:
        node = row.get(key, absent)
        if not isinstance(node.value, list):
            return absent
        found = list(itertools.islice(node.elements(), at, at + 1))
        return found[0] if found else absent

    for at, (node, combination) in enumerate(
        zip(results, itertools.product(*levels), strict=False)
    ):
        value = scaled(node.number(), base.factor)
        if value is None:
            continue
        plain = (text.strip("'\"") for text in combination)
        sample: Pairs = tuple(zip(factors, plain, strict=False))
        text = ", ".join(combination)
        low, high = (column(f"stats_ci_99_{end}", at).number() for end in "ab")
        samples = [scaled(one, base.factor) for one in column("samples", at).numbers()]
        measured = low is not None or bool(samples)
        stat = stated(
            metric,
            base.unit,
            count=column("stats_repeat", at).count(),
            median=value,
            ends=(scaled(low, base.factor), scaled(high, base.factor)),
            confidence=_CONFIDENCE,
        )
        blocks = blocks_of(metric, samples or ([] if measured else [value]))
        started = epoch_ns(row.get("started_at", absent), 1e-3)
        yield ParsedInput(
            name=f"{name}({text})" if text else name,
            blocks=blocks,
            specs=(spec_of(metric, base.unit, "lower"),),
            sample=sample,
            summaries=() if blocks else (stat,),
            origin=msgspec.structs.replace(origin, started_ns=started),
        )


_ASV_NAMES = {"s": ELAPSED, "B": "memory"}


def _asv_unit(name: str, about: Node) -> BaseUnit:
    """Return the unit of a benchmark: as asv describes it, else by its name."""
    kind = name.rpartition(".")[2].partition("_")[0]
    by_name = {"time": "s", "mem": "B", "peakmem": "B", "timeraw": "s"}
    return base_unit(about["unit"].text(by_name.get(kind, "")))


ASV = _AsvParser()
