"""Results of other tools as the points of a history, in which one test has one name, whichever file
it is in.

A file shows a test by a short name where that is enough in the file, so the name in a history
depends on all tests that are read together, and on those that a history file has.
"""

from __future__ import annotations

import functools
import hashlib
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from benchwright.core.observation import TrialEnding
from benchwright.core.plan import MetricSpec, Pairs, usual_direction
from benchwright.core.results import Summary
from benchwright.core.text import plural, some_text
from benchwright.core.untrusted import regular_bytes
from benchwright.features.history.types import (
    UNKNOWN_MACHINE,
    Environment,
    HistoryPoint,
    NoValue,
    Run,
    SeriesKey,
    settings_text,
)
from benchwright.findings.result import FileOrigin, TestResult
from benchwright.stats.aggregate import MetricRules, summarise_columns
from benchwright.study.parsers.api import stated_settings


class KnownNames(msgspec.Struct, frozen=True):
    """The tests of history files."""

    tests: frozenset[str] = frozenset()
    """Their names in the keys of series."""
    full_names: Mapping[str, str] = {}
    """The full names of those whose key has a short name."""


class NamedInput(msgspec.Struct, frozen=True):
    """A test with its name in a history."""

    test: str
    """As in the keys of series: short or full, with the labels that distinguish it."""
    base: str
    """Without labels."""
    input: TestResult

    @property
    def labels(self) -> str:
        """What the name has after the base: `:key=value`; empty without labels."""
        return self.test.removeprefix(self.base)


def named_in_history(
    inputs: Sequence[TestResult], runs: Sequence[Hashable], known: KnownNames
) -> list[NamedInput]:
    """Return the inputs with their names in a history. `runs` says of each to which run it belongs.

    A name is the full one where a series has it already, or where a short name has several full
    ones; a stored series keeps its short name. It has the labels, `test:key=value`, that
    distinguish two results of the test in any run, or in a stored series.
    """
    bases = _bases(inputs, known)
    labels: dict[str, set[str]] = defaultdict(set)
    for base, rest in _parts(known.tests):
        labels[base] |= {part.partition("=")[0] for part in rest.split(",")}
    of_run: dict[tuple[Hashable, str], Pairs] = {}
    for one, run, base in zip(inputs, runs, bases, strict=True):
        first = of_run.setdefault((run, base), _labels(one))
        labels[base] |= {key for key, _ in {*first} ^ {*_labels(one)}}
    named = []
    taken: set[tuple[Hashable, str]] = set()
    for one, run, base in zip(inputs, runs, bases, strict=True):
        own = [f"{key}={value}" for key, value in _labels(one) if key in labels[base]]
        test = f"{base}:{','.join(own)}" if own else base
        if (run, test) in taken:  # A result that is twice in its file.
            test = base = one.name
        taken.add((run, test))
        named.append(NamedInput(test, base, one))
    return named


def _labels(one: TestResult) -> Pairs:
    return one.origin.labels if one.origin else ()


def _bases(inputs: Iterable[TestResult], known: KnownNames) -> list[str]:
    """Return the short or the full name of each input."""
    tests = set(known.tests) | {base for base, _ in _parts(known.tests)}
    full_names: dict[str, set[str]] = defaultdict(set)
    for one in inputs:
        tests.add(one.name)
        full_names[one.name].add(one.full_name)

    short = {full: test for test, full in known.full_names.items()}

    def base(one: TestResult) -> str:
        full = one.full_name
        if not full or full in short:
            return short.get(full, one.name)
        is_other = one.name in known.full_names or full in tests
        return full if is_other or len(full_names[one.name] - {""}) > 1 else one.name

    return list(map(base, inputs))


def _parts(tests: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield what a name may be without its labels, and the labels."""
    for test in tests:
        for at, letter in enumerate(test):
            if letter == ":":
                yield test[:at], test[at + 1 :]


_MOST_REASONS = 3
"""Of failures, in the reason why a test has no point."""


_NS = 10**9


class _Group(NamedTuple):
    """What is a run: the tests of one file, commit, note and moment, or second."""

    source: str
    commit: str
    note: str
    moment_ns: int | None


def undated_files(inputs: Iterable[TestResult]) -> list[str]:
    """Return the files that state no time of a run, in the order of the inputs."""
    return list(dict.fromkeys(test.source for test in inputs if _group_of(test).moment_ns is None))


class _RunTime(NamedTuple):
    """When a run of a file was measured [ns since 1970]."""

    moment_ns: int
    """As its commit or its file states it; a part of what identifies the run."""
    start_ns: int
    """Its place in the history."""


def imported_runs(inputs: Sequence[TestResult], known: KnownNames | None = None) -> list[Run]:
    """Return the runs of files of other tools: the tests of one file, commit and note are a run.

    A run without a time has that of its file, but none before that of a file given before it: a
    copy, an archive or a checkout changes the times of files, and hardly their order as arguments.

    The inputs are those of a parser's `history`, with their source; of all files that are read
    together, because the names of tests depend on them. A point is the mean of the values with
    Student's interval, or the estimate that the file states with its own interval or without one.
    """
    belongs = _groups_of(inputs)
    groups: dict[_Group, list[NamedInput]] = {}
    named = named_in_history(inputs, belongs, known or KnownNames())
    for group, named_input in zip(belongs, named, strict=True):
        groups.setdefault(group, []).append(named_input)
    moments = _moments(groups)
    starts = _in_order_given(groups, moments)
    of_file = functools.cache(_content)
    rules_of = functools.cache(MetricRules)
    runs = []
    for group, tests in groups.items():
        when = _RunTime(moments[group], starts[group])
        runs.append(_run(group, tests, when, of_file, rules_of))
    return runs


def _groups_of(inputs: Sequence[TestResult]) -> list[_Group]:
    """Return the run of each input. Different tests that a file has of one second are one run,
    which begins with the first of them; the results of one test at different moments are different
    runs."""
    exact = [_group_of(one) for one in inputs]
    seconds = [
        group._replace(moment_ns=group.moment_ns and _whole_second(group.moment_ns))
        for group in exact
    ]
    moments: dict[_Group, dict[tuple[str, Pairs], set[int]]] = {}
    for one, group, second in zip(inputs, exact, seconds, strict=True):
        if group.moment_ns is not None:
            test = (one.full_name or one.name, one.sample)
            of_test = moments.setdefault(second, {}).setdefault(test, set())
            of_test.add(group.moment_ns)
    first = {
        second: min(set[int]().union(*tests.values()))
        for second, tests in moments.items()
        if all(len(test) == 1 for test in tests.values())
    }
    return [
        group._replace(moment_ns=first.get(second, group.moment_ns))
        for group, second in zip(exact, seconds, strict=True)
    ]


def _group_of(one: TestResult) -> _Group:
    origin = one.origin or FileOrigin(tool="")
    return _Group(one.source, origin.commit, origin.run, _moment_ns(origin))


def _whole_second(moment_ns: int) -> int:
    return round(moment_ns / _NS) * _NS


def _moments(groups: Iterable[_Group]) -> dict[_Group, int]:
    """Return the times of runs [ns since 1970]: of the commit, else that of the file, in the order
    of the file."""
    undated = Counter(group.source for group in groups if group.moment_ns is None)
    of_file = {source: file_ns(Path(source)) for source in undated}
    found = {}
    for group in groups:
        moment_ns = group.moment_ns
        if moment_ns is None:
            undated[group.source] -= 1  # The last has the file's.
            moment_ns = of_file[group.source] - undated[group.source]
        found[group] = moment_ns
    return found


def _in_order_given(groups: Iterable[_Group], moments: Mapping[_Group, int]) -> dict[_Group, int]:
    """Return the places of runs in time [ns since 1970]: of those without a time of their own, none
    before that of a file given before it."""
    found, latest = dict(moments), 0
    for group in groups:
        if group.moment_ns is None:
            latest = max(moments[group], latest + 1)
            found[group] = latest
    return found


def _run(
    group: _Group,
    tests: Sequence[NamedInput],
    when: _RunTime,
    content_of: Callable[[Path], str],
    rules_of: Callable[[tuple[MetricSpec, ...]], MetricRules],
) -> Run:
    # Runs can begin in the same second, and files that were unpacked together can have the same
    # time, so the content identifies a run too. A file to which a tool adds runs still has the
    # earlier ones.
    first = tests[0].input
    if group.moment_ns is None:
        contents = [content_of(Path(group.source))]
    else:
        by_full_name = ((test.input.full_name or test.base) + test.labels for test in tests)
        contents = [
            _values_hash((test.input.name for test in tests), tests),
            _values_hash(by_full_name, tests),
        ]
    moment_ns = when.moment_ns
    moments = [moment_ns]
    if group.moment_ns is not None:
        # Earlier versions stored some moments in whole seconds.
        moments += (_whole_second(moment_ns), moment_ns // _NS * _NS)
    texts = [
        " ".join(filter(None, (str(moment), content, group.note)))
        for moment in moments
        for content in (*contents, "")
    ]
    run, *former = dict.fromkeys(_identity(first, text) for text in texts)
    places = [test.input.origin.order_ns for test in tests if test.input.origin]
    started_ns = max(filter(None, places), default=when.start_ns)
    # What a file does not state is unknown, and no difference.
    environment = None if first.machine is None else Environment.of(first.machine.facts)
    found: list[tuple[SeriesKey, HistoryPoint] | NoValue] = []
    for named_input in tests:
        # A run has one environment; tests of another one have none.
        is_same = environment is not None and named_input.input.machine == first.machine
        of = environment.id if environment and is_same else ""
        found += _points(named_input, rules_of(named_input.input.specs), started_ns, run, of)
    full_names = {
        test.base: test.input.full_name
        for test in tests
        if test.input.full_name not in ("", test.base)
    }
    return Run(
        points=tuple(one for one in found if not isinstance(one, NoValue)),
        environment=environment,
        machine=(first.origin.machine if first.origin else "") or "a machine that was not recorded",
        without=tuple(one for one in found if isinstance(one, NoValue)),
        full_names=tuple(full_names.items()),
        former=tuple(former),
    )


def _moment_ns(origin: FileOrigin) -> int | None:
    """Return the time of an input's run [ns since 1970]: of its commit, so that benchmarks that a
    tool measured one after the other are one run; else of its start; None if both are unknown."""
    if origin.commit_time_ns is not None:
        return origin.commit_time_ns
    return origin.started_ns


def file_ns(path: Path) -> int:
    """Return when a file was written last [ns since 1970]; 0 if it is gone."""
    return path.stat().st_mtime_ns if path.exists() else 0


def _content(path: Path) -> str:
    """Return a hash of a file; empty for a directory."""
    return hashlib.sha256(regular_bytes(path)).hexdigest() if path.is_file() else ""


def _values_hash(names: Iterable[str], tests: Sequence[NamedInput]) -> str:
    """Return a hash of the values of a run under these names, whatever else its file has."""
    values = [
        (name, [block.values for block in named_input.input.blocks], named_input.input.summaries)
        for name, named_input in zip(names, tests, strict=True)
    ]
    return hashlib.sha256(msgspec.json.encode(values, order="sorted")).hexdigest()


def _identity(one: TestResult, when: str) -> str:
    """Return what identifies the run of an input: 16 hexadecimal digits."""
    origin = one.origin or FileOrigin(tool="")
    words = f"{origin.tool}\n{origin.machine}\n{origin.commit}\n{when}"
    return _digest(words)[:16]


def _points(
    named: NamedInput, rules: MetricRules, started_ns: int, run: str, environment: str
) -> list[tuple[SeriesKey, HistoryPoint] | NoValue]:
    """Return the points of a test, and what has no value: the whole test if all of its trials
    failed, else the metrics that the tool declares."""
    test = named.input
    origin = test.origin or FileOrigin(tool="")
    settings = {"version": test.version} if test.version else {}
    settings |= stated_settings(test)
    machine = UNKNOWN_MACHINE
    if origin.machine:
        machine = _digest(f"machine {origin.machine}")[:8]
    better = {spec.name: spec.better for spec in test.specs}
    wanted = set(origin.main or better)
    without = NoValue(
        run=run,
        study=test.source,
        session=0,
        started_ns=started_ns,
        test=named.test,
        failed=False,
        why="the file states none",
    )
    trials = test.trials
    if trials and not any(trial.ending is TrialEnding.OK for trial in trials):
        stated = {block.failure: None for block in test.blocks if block.failure}
        why = f"{plural(len(trials), 'trial')} failed{': ' if stated else ''}"
        why += some_text(list(stated), _MOST_REASONS, "; ")
        return [msgspec.structs.replace(without, failed=True, why=why)]
    points: list[tuple[SeriesKey, HistoryPoint]] = []
    for summary in _summaries(test, rules):
        value = summary.mean if math.isfinite(summary.mean) else summary.median
        if not math.isfinite(value):
            continue
        ends = math.isfinite(summary.low) and math.isfinite(summary.high)
        known = ends and math.isfinite(summary.confidence)
        point = HistoryPoint(
            run=run,
            study=test.source,
            session=0,
            started_ns=started_ns,
            estimate=value,
            low=summary.low if ends else None,
            high=summary.high if ends else None,
            confidence=summary.confidence if known else None,
            trials=summary.count,
            unit=summary.unit,
            better=better.get(summary.name) or usual_direction(summary.name, summary.unit),
            commit=origin.commit or None,
            commit_time_ns=origin.commit_time_ns,
            dirty=origin.dirty,
            asked=not wanted or summary.name in wanted,
            environment=environment,
            command=settings_text(settings),
        )
        points.append((SeriesKey(named.test, summary.name, machine), point))
    if not points:
        return [without]
    lost = sorted(wanted - {key.metric for key, _ in points})
    return [*points, *(msgspec.structs.replace(without, metric=name) for name in lost)]


def _summaries(one: TestResult, rules: MetricRules) -> tuple[Summary, ...]:
    """Return what is known about each quantity: from its values, else as the file states it."""
    found = one.columns
    computed = summarise_columns(found, rules.ordered(found), rules)
    return (*computed, *(stat for stat in one.summaries if stat.name not in found))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
