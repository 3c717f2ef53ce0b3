"""Results of Python's benchmark tools: pyperf, pytest-benchmark, asv.

Sources: pyperf 1.6 to 2.10, doc/api.rst (JSON format); pytest-benchmark 5, `--benchmark-json`; asv
0.6, asv/results.py. asv stores a median with the ends of its 99 % interval, and samples only with
`--record-samples`.
"""

from __future__ import annotations

import datetime
import itertools
import math
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from benchwright.core.errors import InputError
from benchwright.core.observation import MeasurementBlock
from benchwright.core.plan import Pairs
from benchwright.features.exchange.foreign.json_file import (
    DamagedJson,
    JsonFormat,
    Node,
    Problems,
    is_object,
    load_json,
    may_be_json,
)
from benchwright.features.exchange.foreign.units import (
    CPU,
    CPUS,
    ELAPSED,
    facts_of,
    stated,
    stated_machine,
)
from benchwright.findings.result import FileOrigin, TestResult
from benchwright.study.parsers.units import BaseUnit, base_unit, scaled, spec_of

_MS = 10**6
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MICROSECOND = datetime.timedelta(microseconds=1)
_NANOSECONDS = re.compile(r"[.,][0-9]{6}([0-9]{1,3})")
"""The digits of a second that follow its microseconds."""
_COMMIT = re.compile(r"[0-9a-fA-F]{7,64}\Z")


def moment_ns(text: str) -> int | None:
    """Return a date and time of ISO 8601 as nanoseconds since 1970, with all digits of its second,
    in UTC where it has no zone; None if it is none."""
    try:
        moment = datetime.datetime.fromisoformat(text.strip())
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=datetime.UTC)
        since = moment - _EPOCH
    except (ValueError, OverflowError):
        return None
    # A datetime has microseconds.
    more = _NANOSECONDS.search(text)
    return since // _MICROSECOND * 1000 + (int(more[1].ljust(3, "0")) if more else 0)


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


def blocks_of(name: str, values: Sequence[float | None]) -> tuple[MeasurementBlock, ...]:
    """Return a block for each value of one quantity; those that are absent have none."""
    return tuple(
        MeasurementBlock(0, at, "", 0, {name: value})
        for at, value in enumerate(values, 1)
        if value is not None
    )


# -- pyperf ----------------------------------------------------------------------------


def _is_pyperf(value: Any) -> bool:
    benchmarks = value.get("benchmarks") if isinstance(value, dict) else None
    if not isinstance(benchmarks, list):
        return False
    runs = [benchmark["runs"] for benchmark in benchmarks if is_object(benchmark, "runs")]
    # mitata has `runs` too.
    return len(runs) == len(benchmarks) and any(
        is_object(run, key)
        for run in itertools.chain.from_iterable(r for r in runs if isinstance(r, list))
        for key in _PYPERF_VALUES
    )


def _pyperf(document: Node) -> list[TestResult]:
    """Return one test for each benchmark; a value of a run is a trial, warm-ups are none."""
    version = document["version"]
    if not (version.absent or version.text() in _PYPERF_VERSIONS):
        known = ", ".join(_PYPERF_VERSIONS)
        version.wrong(f"is {version.text()}: the formats that are read are {known}")
        return []
    tests = []
    for benchmark in document["benchmarks"].elements():
        test = _pyperf_benchmark(document, benchmark)
        if test.blocks:
            tests.append(test)
        else:
            benchmark.not_read(f"{test.name} has no value")
    return tests


_PYPERF_VERSIONS = ("5", "6", "1.0")
"""Those that pyperf reads. Format 5 has `samples` and `common_metadata` for `values` and
`metadata`."""


_PYPERF_SETTINGS = ("command", "timeit_setup", "timeit_stmt")
_PYPERF_VALUES = ("values", "samples", "warmups")
"""Of which a run has at least one."""
_PYPERF_FACTS = ("hostname", "platform", "python_implementation", "python_version")


def _pyperf_benchmark(document: Node, benchmark: Node) -> TestResult:
    def fact(name: str) -> Node:
        places = (benchmark["metadata"], document["metadata"])
        for where in (*places, benchmark["common_metadata"]):
            if where.has(name):
                return where[name]
        runs = benchmark["runs"].value
        first = runs[0] if isinstance(runs, list) and runs else None
        return Node(first, benchmark.problems, f"{benchmark.where}.runs[0]")["metadata"][name]

    unit = fact("unit").text("second")
    known = {"second": (ELAPSED, "s"), "byte": ("memory", "B")}
    usual, base = known.get(unit, ("value", fact("bw_unit").text()))
    name = fact("bw_metric").text(usual)
    blocks: list[MeasurementBlock] = []
    for run in benchmark["runs"].elements():
        memory = run["metadata"]["command_max_rss"].number()
        for value in run["values" if run.has("values") else "samples"].numbers():
            if value is None:
                continue
            values = {name: value}
            if memory is not None and name != "rss_bytes":
                values["rss_bytes"] = memory
            blocks.append(MeasurementBlock(0, len(blocks) + 1, "", 0, values))
    version = fact("perf_version").text()
    stated_facts = {name: fact(name).text() for name in _PYPERF_FACTS}
    about = {CPU: fact("cpu_model_name").text(), CPUS: fact("cpu_count").text()}
    return TestResult(
        name=fact("name").text(benchmark.problems.path.name),
        blocks=tuple(blocks),
        specs=(spec_of(name, base, "lower"),),
        settings=tuple((n, fact(n).text()) for n in _PYPERF_SETTINGS if fact(n).value),
        machine=stated_machine(stated_facts | about),
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
    mark=re.compile(rb'"perf_version"|"warmups":\s*\[\s*\['),
    hint="write it again: pyperf ... -o FILE",
)


# -- pytest-benchmark ------------------------------------------------------------------


def _is_pytest(value: Any) -> bool:
    return (
        is_object(value, "machine_info", "benchmarks")
        and isinstance(value["benchmarks"], list)
        and all(is_object(one, "name", "stats") for one in value["benchmarks"])
    )


def _pytest(document: Node) -> list[TestResult]:
    """Return one test for each benchmark; a round is a trial, if the file has the rounds."""
    nodes = list(document["benchmarks"].elements())
    names = Counter(one["name"].text() for one in nodes)
    commit = document["commit_info"]
    version = document["version"].text()
    origin = FileOrigin(
        tool=f"pytest-benchmark {version}".rstrip(),
        commit=commit_text(commit["id"]),
        dirty=commit["dirty"].value is True,
        commit_time_ns=moment_ns(commit["time"].text()),
        started_ns=moment_ns(document["datetime"].text()),
        machine=document["machine_info"]["node"].text(),
    )
    about, cpu = document["machine_info"], document["machine_info"]["cpu"]
    facts = facts_of(about, *_PYTEST_FACTS) | {
        CPU: cpu["brand_raw" if cpu.has("brand_raw") else "brand"].text(),
        CPUS: cpu["count"].text(),
    }
    machine = stated_machine(facts)
    tests = []
    for node in nodes:
        name, stats = node["name"].text(), node["stats"]
        full_name = node["fullname"].text("")
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
            TestResult(
                name=(full_name or name) if names[name] > 1 else name,
                full_name=full_name,
                blocks=blocks,
                specs=(spec_of(ELAPSED, "s", "lower"),),
                sample=tuple((k, _level(v)) for k, v in node["params"].members()),
                settings=tuple(facts_of(node["options"], *_PYTEST_OPTIONS).items()),
                summaries=() if blocks else (summary,),
                machine=machine,
                origin=origin,
            )
        )
    return tests


_PYTEST_FACTS = (
    *("node", "machine", "system", "release"),
    *("python_implementation", "python_version"),
)


_PYTEST_OPTIONS = ("timer", "disable_gc")


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
    mark=re.compile(rb'"machine_info"'),
    hint="write it again: pytest --benchmark-json=FILE",
)


# -- asv: a file of one commit, or a directory of them ----------------------------------
#
# Decision: the unit of a benchmark is in `benchmarks.json` beside the results; without that file, a
# name tells its kind (asv's rule: `time_`, `mem_`, `peakmem_`, `track_`). Of a directory, `bw
# stats` reads the newest commit of each machine and environment; a history reads all.

_ASV_HINT = (
    "give asv's directory of results, results/MACHINE, or a file COMMIT-ENVIRONMENT.json in it"
)
_MOST_FILES = 20_000
_NOT_RESULTS = ("machine.json", "benchmarks.json")
_ASV_FORMER = {"version": "benchmark_version", "started_at": "started_at"}
"""Columns that older versions of asv have as objects, by the names of the benchmarks."""
_ASV_COLUMNS = ("result", "params")
_CONFIDENCE = 0.99


def _is_asv(value: Any) -> bool:
    return (
        is_object(value, "commit_hash", "results", "params")
        and isinstance(value["results"], dict)
        and isinstance(value["params"], dict)
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

    def read(self, path: Path) -> list[TestResult]:
        """Return the tests of the newest commit of each machine and environment. Raises
        InputError."""
        problems = Problems(path, self.name, _ASV_HINT)
        newest = _newest(_asv_commits(path, problems))
        tests = [_with_value(one, problems) for commit in newest for one in commit]
        return problems.results([test for test in tests if test is not None])

    def history(self, path: Path) -> list[TestResult]:
        """Return the tests of every commit. One that failed is among them, and one that was skipped
        if another commit has a value of it. Raises InputError."""
        problems = Problems(path, self.name, _ASV_HINT)
        commits = _asv_commits(path, problems)
        for commit in _newest(commits):
            for test in commit:
                _with_value(test, problems)
        every = [one for _, tests in commits for one in tests]
        valued = {one.name for one in every if _has_value(one)}
        return problems.results([one for one in every if one.blocks or one.name in valued])


def _has_value(one: TestResult) -> bool:
    return bool(one.summaries or any(block.values for block in one.blocks))


def _with_value(one: TestResult, problems: Problems) -> TestResult | None:
    """Return a test that has a value; name one that has none."""
    if _has_value(one):
        return one
    commit = one.origin.commit[:8] if one.origin else ""
    how = "failed" if one.blocks else "was skipped"
    problems.not_read(commit, f"{one.name} {how}")
    return None


def _newest(commits: Iterable[tuple[tuple[str, str], list[TestResult]]]) -> list[list[TestResult]]:
    """Return the tests of the newest commit of each machine and environment."""
    newest: dict[tuple[str, str], tuple[int, list[TestResult]]] = {}
    for place, tests in commits:
        when = max((test.origin.order_ns or 0 for test in tests if test.origin), default=0)
        before = newest.get(place)
        if before is None or when >= before[0]:
            newest[place] = (when, tests)
    return [tests for _, tests in newest.values()]


def _asv_commits(path: Path, problems: Problems) -> list[tuple[tuple[str, str], list[TestResult]]]:
    """Return the tests of each file, with its machine and environment. A file of a directory that
    cannot be read is named."""
    found = []
    for file in sorted(_asv_files(path)) if path.is_dir() else [path]:
        own = Problems(file, ASV.name, _ASV_HINT) if path.is_dir() else problems
        try:
            document = load_json(file)
        except DamagedJson as error:
            own.add("", f"is damaged: {error}")
            document = None
        except (OSError, InputError) as error:
            if not path.is_dir():
                raise
            own.add("", f"cannot be read: {error}")
            document = None
        node = Node(document, own)
        if _is_asv(document):
            place = (str(file.parent), node["env_name"].text())
            tests = _asv(node, _asv_benchmarks(file))
            if not own.mistakes:
                found.append((place, tests))
        elif document is not None:
            own.add("", "is no file of asv's results")
        if own.mistakes and path.is_dir():
            problems.not_read(str(file.relative_to(path)), own.mistakes[0])
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
    """Return asv's description of the benchmarks, which is beside the machines' directories;
    nothing without one."""
    place = file.parent.parent / "benchmarks.json"
    try:
        found = load_json(place) if place.is_file() else {}
    except (DamagedJson, OSError):
        return {}
    return found if isinstance(found, dict) else {}


def _asv(document: Node, benchmarks: dict[str, Any]) -> list[TestResult]:
    columns = [element.text() for element in document["result_columns"].elements()]
    origin = FileOrigin(
        tool="asv",
        commit=commit_text(document["commit_hash"]),
        commit_time_ns=epoch_ns(document["date"], 1e-3),
        machine=document["params"]["machine"].text(),
    )
    about_machine = document["params"]
    facts = facts_of(about_machine, "arch", "os", "ram")
    facts |= {CPU: about_machine["cpu"].text(), CPUS: about_machine["num_cpu"].text()}
    machine = stated_machine(facts)
    tests: list[TestResult] = []
    for name, result in document["results"].members():
        about = benchmarks.get(name)
        described = Node(
            about if isinstance(about, dict) else {}, document.problems, f"benchmarks.{name}"
        )
        row = _asv_row(result, columns)
        for column, by_name in _ASV_FORMER.items():
            row.setdefault(column, document[by_name][name])
        tests += (
            msgspec.structs.replace(asv_test, machine=machine)
            for asv_test in _asv_tests(name, row, described, origin)
        )
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
) -> Iterator[TestResult]:
    """Yield a test for each combination of a benchmark's parameters. One that failed (null) has a
    failed block, one that was skipped (NaN) has none."""
    problems = about.problems
    absent = Node(None, problems)
    base = _asv_unit(name, about)
    metric = name.rpartition(".")[2]
    if not metric.startswith("track_"):
        metric = _ASV_NAMES.get(base.unit, metric)
    levels = [
        [element.text() for element in axis.elements()]
        for axis in row.get("params", absent).elements()
    ]
    factors = [element.text() for element in about["param_names"].elements()]
    factors += [f"param{at + 1}" for at in range(len(factors), len(levels))]
    result = row.get("result", absent)
    results = list(result.elements()) if isinstance(result.value, list) else [result]
    combinations = math.prod(map(len, levels))
    if isinstance(result.value, list) and len(results) != combinations:
        result.wrong(f"has {len(results)} values for {combinations} combinations")
        return
    results *= combinations if result.absent else 1

    def column(key: str, at: int) -> Node:
        node = row.get(key, absent)
        if not isinstance(node.value, list):
            return absent
        values = node.value[at : at + 1]
        return Node(values[0], problems, f"{node.where}[{at}]") if values else absent

    for at, (node, combination) in enumerate(
        zip(results, itertools.product(*levels), strict=False)
    ):
        value = scaled(node.number(), base.factor)
        plain = (text.strip("'\"") for text in combination)
        sample: Pairs = tuple(zip(factors, plain, strict=False))
        text = ", ".join(combination)
        low, high = (column(f"stats_ci_99_{end}", at).number() for end in "ab")
        samples = [scaled(number, base.factor) for number in column("samples", at).numbers()]
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
        if value is None:
            failed = MeasurementBlock(0, 1, "", 1, {}, failure="asv states null")
            blocks = () if node.is_nan else (failed,)
        started = epoch_ns(row.get("started_at", absent), 1e-3)
        yield TestResult(
            name=f"{name}({text})" if text else name,
            blocks=blocks,
            specs=(spec_of(metric, base.unit, "lower"),),
            sample=sample,
            summaries=() if blocks or value is None else (stat,),
            version=_asv_version(row.get("version", absent).text()),
            origin=msgspec.structs.replace(origin, started_ns=started),
        )


def _asv_version(text: str) -> str:
    """Return the version of a benchmark: of a hash the first digits."""
    return text[:_VERSION_DIGITS] if len(text) == _HASH_DIGITS else text


_HASH_DIGITS = 64
_VERSION_DIGITS = 12
_ASV_NAMES = {"s": ELAPSED, "B": "memory"}


def _asv_unit(name: str, about: Node) -> BaseUnit:
    """Return the unit of a benchmark: as asv describes it, else by its name."""
    kind = name.rpartition(".")[2].partition("_")[0]
    by_name = {"time": "s", "mem": "B", "peakmem": "B", "timeraw": "s"}
    return base_unit(about["unit"].text(by_name.get(kind, "")))


ASV = _AsvParser()
