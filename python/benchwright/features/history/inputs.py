"""Reads the runs that the arguments of `bw history` name, in history files, studies and folders. A
session of a study becomes a run by the estimates that every report shows.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from shlex import quote
from typing import NamedTuple

import msgspec

from benchwright.core.errors import InputError, OperatingError, argument_error
from benchwright.core.machine import revision_of
from benchwright.core.plan import (
    SUCCESS,
    Replicated,
    ReplicateLevel,
    TestPlan,
    name_with_threads,
    usual_direction,
)
from benchwright.core.results import Estimate, Finding, Severity
from benchwright.core.text import natural_key, plural
from benchwright.feature import session_kind
from benchwright.features.history.findings import environment_of, machine_fingerprint, machine_text
from benchwright.features.history.store import (
    HISTORY_FILE,
    HistoryFile,
    history_of,
    is_history_file,
    studies_below,
    values_of,
)
from benchwright.features.history.types import (
    Acceptance,
    HistoryPoint,
    LevelCost,
    NoValue,
    Run,
    RunHistory,
    RunKeys,
    SeriesKey,
    command_over,
    newest_costs,
)
from benchwright.findings.result import TestResult
from benchwright.machine.redact import without_secrets
from benchwright.page.kinds import SessionOutcome
from benchwright.report.answer import answer_of, estimate_of
from benchwright.results.stored import results_of_tests
from benchwright.stats.aggregate import MetricColumn
from benchwright.study.contents import NULL_KIND, first_machine, null_of
from benchwright.study.directory import JOURNAL
from benchwright.study.journal import StoredSession, Study
from benchwright.study.parsers.api import content_head


def run_identity(session: StoredSession) -> str:
    """Return what identifies a session in every copy of its study: 16 hexadecimal digits."""
    info = session.info
    words = (session.number, info.started_ns, info.boot_id, info.arguments)
    return hashlib.sha256(repr(words).encode()).hexdigest()[:16]


def read_run(study: Study, session: StoredSession) -> Run:
    """Return the points of a session, and what has no value: tests that failed, metrics that no
    trial has, searches that found no more than a bound. Arms of a comparison are neither.

    Raises StudyError for a record that cannot be read.
    """
    machine = first_machine(study, session.number)
    environment = environment_of(machine)
    revision = None if machine is None else revision_of(machine)
    common = HistoryPoint(
        run=run_identity(session),
        study=str(study.path),
        session=session.number,
        started_ns=session.info.started_ns,
        estimate=0.0,
        trials=0,
        commit=None if revision is None else revision.commit,
        commit_time_ns=None
        if revision is None or revision.committed_s is None
        else revision.committed_s * 10**9,
        dirty=revision is not None and bool(revision.dirty),
        tags=session.about.tags,
        environment="" if environment is None else environment.id,
    )
    kind = session_kind(session.info.kind)
    if kind is None:
        found = list(_points_of_tests(study, session, common))
    else:
        found = list(_points_of_outcome(kind.outcome(study, session), common))
    fingerprint = machine_fingerprint(machine)
    whole = Run(
        points=tuple(
            (SeriesKey(one.test, one.metric, fingerprint), one.point)
            for one in found
            if isinstance(one, _NamedPoint)
        ),
        environment=environment,
        machine=machine_text(machine),
        without=tuple(one for one in found if isinstance(one, NoValue)),
        costs=tuple(_costs(study, session, fingerprint)),
    )
    shown: Run = without_secrets(whole, session.info.commands)
    return shown


def _costs(study: Study, session: StoredSession, machine: str) -> Iterator[LevelCost]:
    """Yield what levels cost by a null comparison, without its trials."""
    null = null_of(study, session) if session.info.kind == NULL_KIND else None
    for floor in () if null is None else null.floors:
        for one in () if floor.levels is msgspec.UNSET else floor.levels[:-1]:
            if null is not None and one.spread:
                yield LevelCost(
                    machine=machine,
                    metric=floor.metric,
                    level=one.level,
                    spread=one.spread,
                    command=null.command,
                    measured_ns=null.measured_ns,
                )


def _no_value(
    common: HistoryPoint, why: str, *, test: str = "", metric: str = "", failed: bool
) -> NoValue:
    return NoValue(
        run=common.run,
        study=common.study,
        session=common.session,
        started_ns=common.started_ns,
        test=test,
        metric=metric,
        failed=failed,
        why=why,
    )


# -- A session of tests ----------------------------------------------------------------


class _NamedPoint(NamedTuple):
    """A point with the names of its test and its metric."""

    test: str
    metric: str
    point: HistoryPoint


_Found = Iterator[_NamedPoint | NoValue]

_ENDED = ("complete", "undecided")
"""How a session ended that has run all of its tests."""


def _points_of_tests(study: Study, session: StoredSession, common: HistoryPoint) -> _Found:
    """Yield the points of a session; `common` has what all of them share."""
    tests = list(results_of_tests(study, session))
    is_failed = session.status == "failed"
    is_comparison = any(test.arm is not None for test in tests)
    is_whole = session.status in _ENDED or (tests and is_failed)
    if not is_whole and not is_comparison:
        why = session.detail or session.status
        yield _no_value(common, why, failed=is_failed)
    for test in tests:
        if test.arm is None:
            yield from _points_of_test(test, session, common)


def _points_of_test(test: TestResult, session: StoredSession, common: HistoryPoint) -> _Found:
    """Yield a point for each quantity of a test, or what has no value."""
    plan, rules = test.plan, test.rules
    assert plan is not None, "a session has it"
    name = name_with_threads(plan)
    (answer,) = answer_of([test], status=session.status, detail=session.detail).tests
    is_failed = answer.state == "failed"
    if is_failed or answer.estimate is None:
        yield _no_value(common, answer.reason, test=name, failed=is_failed)
        return
    better = {spec.name: spec.better for spec in plan.metrics}
    wanted = {answer.metric, *(other.metric for other in answer.others)}
    asked = set(wanted)
    codes = _serious(test.findings or ())
    levels = [one.kind.value for one in _levels(test)]
    for metric in test.columns:
        estimate = estimate_of(test, metric)
        if rules.row(metric).computed or not math.isfinite(estimate.value):
            continue
        asked.discard(metric)
        yield _NamedPoint(
            name,
            metric,
            msgspec.structs.replace(
                _with_estimate(common, estimate),
                trials=_counted(test.columns[metric]),
                better=better.get(metric) or usual_direction(metric),
                command=command_over(_command(plan), levels),
                codes=codes,
                state=answer.state,
                asked=metric in wanted,
            ),
        )
    for metric in sorted(asked):
        if not rules.row(metric).computed:
            why = "no trial has this metric"
            yield _no_value(common, why, test=name, metric=metric, failed=False)


def _with_estimate(point: HistoryPoint, estimate: Estimate) -> HistoryPoint:
    """Return a point with this value, and with its interval where both ends are known."""
    bounded = math.isfinite(estimate.low) and math.isfinite(estimate.high)
    return msgspec.structs.replace(
        point,
        estimate=estimate.value,
        low=estimate.low if bounded else None,
        high=estimate.high if bounded else None,
        confidence=estimate.confidence if bounded else None,
        trials=estimate.n,
        unit=estimate.unit,
    )


def _levels(test: TestResult) -> tuple[ReplicateLevel, ...]:
    return test.rule.replication.levels if isinstance(test.rule, Replicated) else ()


def _counted(column: MetricColumn) -> int:
    """Return the number of values that an interval is of."""
    return len({path[0] for path in column.paths}) or len(column.values)


def _serious(findings: Iterable[Finding]) -> tuple[str, ...]:
    serious = (finding for finding in findings if finding.severity is Severity.SERIOUS)
    return tuple(sorted({one.code for one in serious}))


def _command(plan: TestPlan) -> str:
    """Return what a trial runs, as a person would type it."""
    phases = plan.phases
    return "; ".join(command.text for command in (*phases.setup, *phases.exec))


# -- A session of another kind ---------------------------------------------------------


def _points_of_outcome(outcome: SessionOutcome, common: HistoryPoint) -> _Found:
    """Yield the point of each sample of a session without tests, or that it has none; `common` has
    what all of them share."""
    if outcome.status == "interrupted":
        yield _no_value(common, outcome.detail or outcome.status, failed=False)
    for answer in outcome.answers:
        test = ":".join(
            (outcome.subject, *(f"{factor}={level}" for factor, level in answer.sample))
        )
        if answer.estimate is None:
            failed = answer.is_failed
            yield _no_value(common, answer.what, test=test, metric=answer.metric, failed=failed)
            continue
        yield _NamedPoint(
            test,
            answer.metric,
            msgspec.structs.replace(
                _with_estimate(common, answer.estimate),
                unit=answer.unit,
                better=answer.better,
                command=answer.what,
                codes=_serious(answer.findings),
                state="answered" if answer.is_answered else "undecided",
            ),
        )


_MOST_LOOKED_AT = 20
"""Files of a folder that are looked at for those of other tools."""
_HEAD_BYTES = 4096
Wanted = Callable[[SeriesKey], bool]


def chosen_paths(texts: Sequence[str], history_file: str | None = None) -> tuple[Path, ...]:
    """Return the paths of the arguments; without any, the history file, or the current directory if
    the file has no runs."""
    if texts:
        return tuple(map(Path, texts))
    file = Path(history_file or HISTORY_FILE)
    if is_history_file(file):
        with HistoryFile.open_to_read(file) as history:
            # One with acceptances alone belongs to the studies below.
            if history.series():
                return (file,)
    return (Path(),)


def file_to_write(history_file: str | None, paths: Sequence[Path] = ()) -> Path:
    """Return the history file that a command writes: the named one; else, of what it stores about
    `paths`, the first that is a history file or has one, or that of the first folder with studies;
    else ./bw-history.db."""
    if history_file:
        return Path(history_file)
    folders = (path for path in paths if path.is_dir() and _has_study(path))
    inside = (folder / HISTORY_FILE for folder in folders)
    return next(itertools.chain(history_files(paths), inside), Path(HISTORY_FILE))


def history_files(paths: Iterable[Path]) -> Iterator[Path]:
    """Yield the history files that are read of paths."""
    for path in paths:
        yield from _history_files(path)


class ReadRuns(msgspec.Struct, frozen=True):
    """What was read of the paths of a command line."""

    runs: tuple[Run, ...]
    acceptances: tuple[Acceptance, ...]
    costs: tuple[LevelCost, ...]
    without: tuple[NoValue, ...]
    """What has no value in the runs, and in the history files."""
    hidden: tuple[RunKeys, ...]
    """What has a value in history files of which only a part was read."""
    unread: tuple[str, ...]
    """Studies below a folder that could not be read, and why, as sentences."""
    skipped: tuple[str, ...]
    """What else was not read, and why, as sentences."""
    problems: tuple[OperatingError, ...]
    """Why a path could not be read, of each that could not."""

    @property
    def all_unread(self) -> tuple[str, ...]:
        """What could not be read, and why, as sentences."""
        return (*self.unread, *map(_unread_path, self.problems))

    def history(self) -> RunHistory:
        """Return the series; a run that was read more than once counts once."""
        return history_of(
            self.runs,
            self.acceptances,
            costs=self.costs,
            without=self.without,
            hidden=self.hidden,
            unread=self.all_unread,
            skipped=self.skipped,
        )


class _Reading:
    """Collects what is read."""

    def __init__(self, ok_status: Sequence[int] = SUCCESS) -> None:
        self.ok_status = ok_status
        self.runs: list[Run] = []
        self.inputs: dict[int, list[TestResult]] = {}
        """Of files of other tools, by the number of runs before them."""
        self.tests: set[str] = set()
        """Of history files."""
        self.full_names: dict[str, str] = {}
        self.acceptances: list[Acceptance] = []
        self.costs: list[LevelCost] = []
        self.without: list[NoValue] = []
        self.hidden: list[RunKeys] = []
        self.unread: list[str] = []
        self.skipped: list[str] = []
        self.sessions_without_points = 0

    def add(self, runs: Iterable[Run]) -> None:
        """Add the runs of a study or a file."""
        for run in runs:
            self.without += run.without
            self.costs += run.costs
            if run.name:
                self.runs.append(run)
            elif not run.costs:
                self.sessions_without_points += 1

    def know(self, file: HistoryFile) -> None:
        """Take over the names of the tests of a history file."""
        self.tests |= {key.test for key in file.series()}
        self.full_names |= file.full_names()

    def add_inputs(self) -> None:
        """Add the runs of the files of other tools, at the places of their arguments."""
        if not self.inputs:
            return
        # Studies need no names of other tools' tests.
        from benchwright.features.history.foreign_runs import (
            KnownNames,
            file_ns,
            imported_runs,
            undated_files,
        )

        known = KnownNames(frozenset(self.tests), self.full_names)
        every = [test for inputs in self.inputs.values() for test in inputs]
        places = {test.source: place for place, tests in self.inputs.items() for test in tests}
        undated = undated_files(every)
        times = [file_ns(Path(file)) for file in undated]
        if times != sorted(set(times)):
            self.skipped.append(
                f"{len(undated)} files state no time, "
                "and the times at which they were written are equal or have another order: their "
                f"runs are in the order of the arguments, {undated[0]} first and {undated[-1]} last"
            )
        of_place: dict[int, list[Run]] = {}
        for run in imported_runs(every, known):
            of_place.setdefault(places[run.study], []).append(run)
        before, self.runs = self.runs, []
        # A run that a history file has, perhaps with other names of its tests, counts once.
        stored = {one.name: one for one in before}

        def is_stored(run: Run) -> bool:
            former = (stored[name] for name in run.former if name in stored)
            return run.name in stored or any(
                values_of(one.points) == values_of(run.points) for one in former
            )

        for place, one in enumerate((*before, None)):
            self.add(run for run in of_place.get(place, ()) if not is_stored(run))
            self.runs += [one] if one else []


def read_runs(
    paths: Sequence[Path],
    wanted: Wanted | None = None,
    since_ns: int = 0,
    ok_status: Sequence[int] = SUCCESS,
    into: Path | None = None,
) -> ReadRuns:
    """Return the runs of all paths together.

    Of a single path's history file only the points of the wanted series since a moment are read,
    because it can be large, and what is needed to know what is gone; with other paths, all points
    are, to know which runs it shares with them. `ok_status`: the exit statuses with which a run in
    another tool's file succeeds. `into`: the history file to which the runs are added, which knows
    names of tests. A path that cannot be read is one of the `problems`, if another one can.

    Raises InputError for paths that have no history, StudyError for a file that cannot be read.
    """
    reading = _Reading(ok_status)
    problems: list[OperatingError] = []
    if into is not None and is_history_file(into):
        with HistoryFile.open_to_read(into) as history:
            reading.know(history)
    if len(paths) > 1:
        wanted, since_ns = None, 0
    for path in _in_natural_order(list(dict.fromkeys(paths))):
        try:
            _read_path(path, reading, wanted, since_ns)
        except OperatingError as error:
            problems.append(error)
    if len(problems) == len(paths):
        mistakes = [problem for problem in problems if isinstance(problem, InputError)]
        if len(mistakes) < len(problems):
            raise next(problem for problem in problems if problem not in mistakes)
        raise InputError([each for mistake in mistakes for each in mistake.diagnostics])
    reading.add_inputs()
    skipped = reading.skipped
    if reading.sessions_without_points:
        sessions = plural(reading.sessions_without_points, "session")
        skipped.append(f"{sessions} of comparisons: not a part of a history")
    if of_one_moment := _runs_of_one_moment(reading.runs):
        skipped.append(
            f"the times of {plural(of_one_moment, 'run')} are equal to that of another, or unknown: these "
            "runs are in the order of the arguments, in a history file in that in which they were added"
        )
    return ReadRuns(
        runs=tuple(reading.runs),
        acceptances=tuple(dict.fromkeys(reading.acceptances)),
        costs=newest_costs(reading.costs),
        without=tuple(reading.without),
        hidden=tuple(reading.hidden),
        unread=tuple(reading.unread),
        skipped=tuple(skipped),
        problems=tuple(problems),
    )


def _in_natural_order(paths: Sequence[Path]) -> Sequence[Path]:
    """Return the paths in the order given; those that are in the order of their characters, as a
    shell's pattern gives them, with `run-2` before `run-10`."""
    if list(paths) != sorted(paths, key=str):
        return paths
    return sorted(paths, key=lambda path: natural_key(str(path)))


def _runs_of_one_moment(runs: Iterable[Run]) -> int:
    """Return how many runs have a point of the same series and moment as another run."""
    at: dict[int, dict[str, Run]] = {}
    for run in runs:
        for _, point in run.points[:1]:
            at.setdefault(point.started_ns, {})[run.name] = run
    found: set[str] = set()
    for together in at.values():
        by_key: dict[SeriesKey, list[str]] = {}
        for run in together.values() if len(together) > 1 else ():
            for key, _ in run.points:
                by_key.setdefault(key, []).append(run.name)
        found.update(*(names for names in by_key.values() if len(names) > 1))
    return len(found)


def _unread_path(problem: OperatingError) -> str:
    return f"not read: {str(problem).splitlines()[0]}"


def _read_path(path: Path, found: _Reading, wanted: Wanted | None, since_ns: int) -> None:
    if not path.exists():
        raise argument_error("PATH", str(path), f"{path}: there is no such path")
    for file in _history_files(path):
        with HistoryFile.open_to_read(file) as history:
            found.know(history)
            if wanted is None and not since_ns:
                found.add(history.runs())
            else:
                runs, hidden = history.part(wanted, since_ns)
                found.add(runs)
                found.hidden += hidden
            found.without += history.without()
            found.acceptances += history.acceptances()
            found.costs += history.costs()
    if path.is_dir() and _has_study(path):
        _read_folder(path, found)
    elif not is_history_file(path) and not _has_history_alone(path):
        of_place = found.inputs.setdefault(len(found.runs), [])
        of_place += _inputs_of_other_tool(path, found)


def _history_files(path: Path) -> Iterator[Path]:
    inside = path / HISTORY_FILE
    if is_history_file(path):
        yield path
    elif is_history_file(inside):
        yield inside


def _has_study(folder: Path) -> bool:
    return next(studies_below(folder), None) is not None


def _has_history_alone(path: Path) -> bool:
    """Return whether a path is a folder with a history file that is no folder of another tool."""
    return is_history_file(path / HISTORY_FILE) and not _is_folder_of_tool(path)


def _is_folder_of_tool(path: Path) -> bool:
    # Studies need no parser of other tools' files.
    from benchwright.results.inputs import is_of_other_tool

    return path.is_dir() and is_of_other_tool(path)


def _inputs_of_other_tool(path: Path, found: _Reading) -> list[TestResult]:
    """Return the tests of a file, or a directory, of another tool; add what was not read to
    `found`.

    Raises InputError.
    """
    # Studies need no parser of other tools' files.
    from benchwright.results.inputs import read_history

    if path.is_dir() and not _is_folder_of_tool(path):
        message = f"no study is below {path.absolute()}"
        hint = "`bw run` stores one in ./bw-study; give the folder that has them"
        if pattern := _files_of_tools(path):
            message += ", and files of other tools are read by name"
            hint = f"name them: bw history {pattern}"
        raise argument_error("PATH", str(path), message, hint)
    inputs = read_history([str(path)], found.ok_status)
    about = [each.evidence for test in inputs for each in test.session_findings]
    if about and all(_has_no_number(one, found.ok_status) for one in inputs):
        hint = "write one number in each row: 12.5, without a unit"
        raise argument_error("PATH", str(path), "; ".join(about), hint)
    found.skipped += about
    return inputs


def _has_no_number(one: TestResult, ok_status: Sequence[int]) -> bool:
    """Return whether a test has no value, and did not fail."""
    has_values = any(each.values or each.failed(ok_status) for each in one.blocks)
    return not has_values and not one.summaries


def _files_of_tools(folder: Path) -> str:
    """Return a pattern of the files in a folder, or in folders in it, that a tool wrote; empty if
    the first files are of none."""
    from benchwright.results.inputs import is_of_other_tool

    for pattern in ("*", "*/*"):
        for file in itertools.islice(sorted(folder.glob(pattern)), _MOST_LOOKED_AT):
            with contextlib.suppress(OSError, OperatingError):
                head = content_head(file, _HEAD_BYTES) if file.is_file() else b""
                if head and is_of_other_tool(file, head):
                    return f"{quote(str(folder))}/{pattern}{file.suffix}"
    return ""


def _read_folder(folder: Path, found: _Reading) -> None:
    """Add the runs of the studies below a folder, and why one of them could not be read.

    Raises StudyError if the folder is itself a study that cannot be read.
    """
    for place in studies_below(folder):
        try:
            found.add(list(runs_of_study(place)))
        except OperatingError as error:
            if (folder / JOURNAL).is_file():
                raise
            found.unread.append(f"skipped {place}: {str(error).splitlines()[0]}")


def runs_of_study(place: Path) -> Iterator[Run]:
    """Yield the runs of a study, also those without a point. Raises StudyError."""
    # Files of other tools and history files need no report of a session.

    with contextlib.closing(Study.open_to_read(place)) as study:
        for session in study.sessions():
            yield read_run(study, session)
