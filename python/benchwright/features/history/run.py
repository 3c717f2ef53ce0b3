"""Runs the commands of `bw history`."""

from __future__ import annotations

import argparse
import contextlib
import gc
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from benchwright.cli.output_file import check_output, write_output
from benchwright.cli.terminal import painter, report_width, write_answer
from benchwright.core.errors import Diagnostic, InputError, OperatingError, argument_error
from benchwright.core.plan import SUCCESS, named_direction
from benchwright.core.text import plural
from benchwright.core.untrusted import one_line, visible, visible_lines
from benchwright.features.history.answer import (
    HistoryAnswer,
    HistoryQuestion,
    SeriesAnswer,
    StepAnswer,
    history_answer,
)
from benchwright.features.history.document import (
    HistoryAcceptDocument,
    HistoryAddDocument,
    HistoryNotesDocument,
    NoValueEntry,
    gate_entry,
    history_document,
    newest_series_entry,
)
from benchwright.features.history.inputs import (
    chosen_paths,
    file_to_write,
    history_files,
    read_runs,
)
from benchwright.features.history.levels import NewestRuns, newest_runs, stored_starts
from benchwright.features.history.newest import HistoryGate, LevelStart, NewestSeries, hold_gate
from benchwright.features.history.options import (
    AcceptOptions,
    AddOptions,
    FeedOptions,
    HistoryOptions,
    NotesOptions,
    Since,
)
from benchwright.features.history.store import AddedRuns, HistoryFile, is_history_file
from benchwright.features.history.text import (
    gate_lines,
    headline,
    history_lines,
    newest_lines,
    no_value_lines,
    step_words,
)
from benchwright.features.history.types import Acceptance, NoValue, RunHistory, SeriesKey, run_at
from benchwright.inputs.option_reader import OptionReader
from benchwright.inputs.options import request_from
from benchwright.report.documents import entries, entry, report_text
from benchwright.stats.steps import FALSE_ALARMS

if TYPE_CHECKING:
    from benchwright.features.history.notes import GitNotes

# -- bw history show -------------------------------------------------------------------


def show(arguments: argparse.Namespace) -> int:
    """Run `bw history show`; return the exit code. Raises InputError, StudyError."""
    request = request_from(HistoryOptions, arguments)
    reader = OptionReader(request)
    limit = reader.value("gate")
    question = _asked(reader)
    if request.html is not None:
        check_output(request.html, "--html", request.paths)
    answer, problems = _answer(request.paths, question)
    gate = None
    if limit is not None:
        unread = answer.history.unread
        gate = hold_gate(answer, max(limit, 0.0), frozenset(request.accept), unread)
    exit_status = _exit_status(gate, problems)
    if request.html is not None:
        _write_page(request.html, answer)
    write_answer(
        json=request.json,
        document=lambda: history_document(answer, gate, exit_status),
        text=lambda: _text(answer, gate, verbose=request.verbose),
    )
    _print_problems(problems)
    return exit_status


def _exit_status(gate: HistoryGate | None, problems: Sequence[OperatingError]) -> int:
    """Return the exit status: a failed gate counts more than a path that could not be read, and
    that more than an undecided gate."""
    status = 0 if gate is None else gate.exit_status
    return 2 if problems and status != 1 else status


def _print_problems(problems: Sequence[OperatingError]) -> None:
    for problem in problems:
        print(visible_lines(f"bw: {problem}"), file=sys.stderr)


def _asked(reader: OptionReader) -> HistoryQuestion:  # type: ignore[type-arg]
    """Return what is asked about. Raises InputError with all mistakes."""
    request = reader.request
    since: Since = reader.value("since", Since(moment_ns=0))
    share: float = reader.value("false_alarms", FALSE_ALARMS)
    if reader.found:
        raise InputError(reader.found)
    metrics = [named_direction(text) for text in getattr(request, "metrics", ())]
    return HistoryQuestion(
        tests=getattr(request, "tests", ()),
        metrics=tuple(name for name, _ in metrics),
        directions={name: better for name, better in metrics if better},
        since_ns=since.start_ns(time.time_ns()),
        false_alarms=share,
        ignored=request.ignored,
    )


def _answer(
    texts: Sequence[str], asked: HistoryQuestion
) -> tuple[HistoryAnswer, Sequence[OperatingError]]:
    """Return the answer, and why paths could not be read. Raises InputError where nothing fits what
    is asked about."""
    paths = chosen_paths(texts)
    is_part = asked.tests or asked.metrics
    read = read_runs(paths, asked.wants if is_part else None, asked.since_ns)
    history = read.history()
    answer = history_answer(history, asked, _stored_starts(paths, asked))
    if not answer.series:
        _refuse_unknown(history, asked)
    return answer, read.problems


def _stored_starts(paths: Sequence[Path], asked: HistoryQuestion) -> Mapping[SeriesKey, LevelStart]:
    """Return what a history file that is read alone and whole stores of its levels."""
    if len(paths) > 1 or asked.since_ns or not is_history_file(paths[0]):
        return {}
    with HistoryFile.open_to_read(paths[0]) as file:
        return stored_starts(file, asked.ignored)


def _refuse_unknown(history: RunHistory, asked: HistoryQuestion) -> None:
    """Raise InputError for a test or a metric of which there is no series."""
    wrong: list[Diagnostic] = []
    for option, given, known in (
        ("--test", asked.tests, {series.key.test for series in history.series}),
        ("--metric", asked.metrics, {series.key.metric for series in history.series}),
    ):
        if given:
            there = ", ".join(sorted(known)) or "none"
            message = f"no series has {option.removeprefix('--')} {', '.join(given)}"
            hint = f"there are: {there}"
            wrong.append(Diagnostic("bad-argument", message, hint, file=option, text=given[0]))
    if wrong:
        raise InputError(wrong)
    if history.series and asked.since_ns:
        raise argument_error("--since", "", "no run is as recent as that")


def _text(answer: HistoryAnswer, gate: HistoryGate | None, *, verbose: bool) -> str:
    width = report_width()
    lines = history_lines(answer, width, painter(sys.stdout), verbose=verbose)
    return report_text(lines, gate_lines(gate, width) if gate else ())


def _write_page(path: str, answer: HistoryAnswer) -> None:
    from benchwright.features.history.page import history_page
    from benchwright.page.html import render_page

    write_output(Path(path), render_page(history_page(answer)).encode())
    print(visible(f"bw: wrote {path}"), file=sys.stderr)


# -- bw history add --------------------------------------------------------------------


@contextlib.contextmanager
def _without_collection() -> Iterator[None]:
    """Run without Python's search for cycles: it takes a sixth of the time to add 10,000 points,
    and there are none."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@_without_collection()
def add(arguments: argparse.Namespace) -> int:
    """Run `bw history add`; return the exit code. Raises InputError, StudyError."""
    request = request_from(AddOptions, arguments)
    reader = OptionReader(request)
    max_bytes: int | None = reader.value("max_size")
    limit: float | None = reader.value("gate")
    ok_status = reader.value("ok_status", SUCCESS)
    if reader.found:
        raise InputError(reader.found)
    file = file_to_write(request.file)
    paths = tuple(map(Path, request.paths or ("bw-study",)))
    read = read_runs(paths, ok_status=ok_status, into=file)
    newest = gate = None
    with HistoryFile.open_to_write(file) as stored:
        added = stored.add(read.runs)
        stored.add_without(read.without)
        stored.add_costs(read.costs)
        for acceptance in read.acceptances:
            stored.accept(acceptance)
        without = stored.unresolved(read.without)
        dropped = 0 if max_bytes is None else stored.drop_oldest(max_bytes)
    if limit is not None:
        # The run is stored, however long its comparison takes where nothing is known of the levels.
        with HistoryFile.open_to_write(file) as stored:
            newest = newest_runs(stored, ignored=request.ignored, store=True, max_bytes=max_bytes)
        unread = read.all_unread
        if not read.runs and not read.without:
            unread = (*unread, "no run was read that a history has")
        gate = hold_gate(newest, max(limit, 0.0), frozenset(request.accept), unread)
    exit_status = _exit_status(gate, read.problems)
    _write_added(
        file,
        added,
        (*read.unread, *read.skipped),
        dropped,
        without=without,
        exit_status=exit_status,
        newest=newest,
        gate=gate,
        json=request.json,
    )
    _print_problems(read.problems)
    return exit_status


def _write_added(
    file: Path,
    added: AddedRuns,
    skipped: Sequence[str],
    dropped: int = 0,
    *,
    without: Sequence[NoValue] = (),
    exit_status: int = 0,
    newest: NewestRuns | None = None,
    gate: HistoryGate | None = None,
    json: bool,
) -> None:
    def document(series: Sequence[NewestSeries] = ()) -> HistoryAddDocument:
        return entry(
            HistoryAddDocument,
            added,
            file=str(file),
            skipped=tuple(skipped),
            dropped=dropped,
            without=entries(NoValueEntry, without),
            exit_status=exit_status,
            gate=gate_entry(gate),
            series=tuple(map(newest_series_entry, series)),
        )

    def text() -> str:
        lines = [*_added_lines(document()), *no_value_lines(without)]
        if newest is None or gate is None:
            return report_text(lines)
        width = report_width()
        answers = newest_lines(newest.series, width)
        return report_text(lines, answers, gate_lines(gate, width))

    write_answer(json=json, document=lambda: document(newest.series if newest else ()), text=text)


def _added_lines(document: HistoryAddDocument) -> list[str]:
    parts = [
        f"{plural(document.new, 'new run')} ({plural(document.points, 'point')})",
        *([f"{document.replaced} replaced"] if document.replaced else []),
        *([f"{document.known} known"] if document.known else []),
        *([f"{plural(document.dropped, 'oldest run')} removed"] if document.dropped else []),
    ]
    return [f"{document.file}: {', '.join(parts)}", *document.skipped]


# -- bw history accept -----------------------------------------------------------------


def accept(arguments: argparse.Namespace) -> int:
    """Run `bw history accept`; return the exit code. Raises InputError, StudyError."""
    request = request_from(AcceptOptions, arguments)
    question = _asked(OptionReader(request))
    reason = (request.reason or "").strip()
    if not reason:
        raise argument_error("--reason", "", "an acceptance has a reason", "add --reason TEXT")
    paths = chosen_paths(request.paths, request.file)
    name, _, which = request.step.rpartition("/")
    # The series may be one that no session asked for.
    read = read_runs(paths)
    if read.problems:
        raise read.problems[0]
    whole = read.history()
    metrics = tuple({one.key.metric for one in whole.series})
    answers = [
        *history_answer(whole, question).series,
        *history_answer(whole, msgspec.structs.replace(question, metrics=metrics)).series,
    ]
    series = _named_series(request.step, name, answers)
    place, step = _named_step(request.step, which, series)
    point = series.series.points[place]
    acceptance = Acceptance(
        key=series.key,
        run=point.run,
        reason=one_line(reason),
        accepted_ns=time.time_ns(),
        by=_user(),
    )
    file = file_to_write(request.file, paths)
    with HistoryFile.open_to_write(file) as stored:
        stored.accept(acceptance)
    is_read = file in history_files(paths)
    words = step_words(series, step) if step else "the level"
    document = HistoryAcceptDocument(
        file=str(file),
        series=series.name,
        study=point.study,
        session=point.session,
        commit=point.commit,
        reason=acceptance.reason,
    )
    write_answer(
        json=request.json,
        document=lambda: document,
        text=lambda: report_text(
            [
                f"{series.name}: accepted {words} from {run_at(series.series.points, place)} on, "
                f"in {file}: {acceptance.reason}",
                *([] if is_read else [f"it counts where {file} is read: name it with the PATHs"]),
            ]
        ),
    )
    return 0


def _named_series(text: str, name: str, answers: Sequence[SeriesAnswer]) -> SeriesAnswer:
    for is_named in (lambda one: name in (one.id, one.name), lambda one: name == one.key.test):
        found = {answer.id: answer for answer in reversed(answers) if is_named(answer)}
        if len(found) == 1:
            return next(iter(found.values()))
        if found:
            break
    known = ", ".join(sorted({series_answer.name for series_answer in found.values() or answers}))
    what = "several series are" if found else "no series is"
    hint = f"write SERIES/STEP with one of: {known}"
    raise argument_error("SERIES/STEP", text, f"{what} named {name!r}", hint)


def _named_step(text: str, which: str, series: SeriesAnswer) -> tuple[int, StepAnswer | None]:
    """Return the place of the first point of the new level, and the step that begins there."""
    for step in series.steps:
        if which == str(step.number):
            return step.index, step
    points = series.series.points
    if len(which) >= _SHORTEST_COMMIT:
        for place, point in enumerate(points):
            if point.commit is not None and point.commit.startswith(which):
                of_step = (step for step in series.steps if step.first <= place <= step.last)
                return place, next(of_step, None)
    steps = ", ".join(str(step.number) for step in series.steps) or "none"
    message = f"{series.name} has no step {which!r}"
    hint = f"steps: {steps}; or write {series.name}/COMMIT"
    raise argument_error("SERIES/STEP", text, message, hint)


_SHORTEST_COMMIT = 4


def _user() -> str:
    import getpass

    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return ""


# -- bw history feed -------------------------------------------------------------------


def feed(arguments: argparse.Namespace) -> int:
    """Run `bw history feed`; return the exit code. Raises InputError, StudyError."""
    from benchwright.features.history.document import atom_feed, feed_entries, json_feed

    request = request_from(FeedOptions, arguments)
    if request.atom is None and request.json_feed is None:
        message = "no feed is requested"
        raise argument_error("--atom", "", message, "add --atom FILE or --json-feed FILE")
    question = _asked(OptionReader(request))
    outputs = (("--atom", request.atom, atom_feed), ("--json-feed", request.json_feed, json_feed))
    for option, path, _ in outputs:
        if path is not None:
            check_output(path, option, request.paths)
    answer, problems = _answer(request.paths, question)
    changes = feed_entries(answer)
    for _, path, render in outputs:
        if path is not None:
            about = " ".join(f"{one}." for one in headline(answer))
            feed = render(changes, request.url or "", about)
            write_output(Path(path), feed.encode())
    print(f"bw: {plural(len(changes), 'change')}", file=sys.stderr)
    _print_problems(problems)
    return _exit_status(None, problems)


# -- bw history push, pull -------------------------------------------------------------


def push(arguments: argparse.Namespace) -> int:
    """Run `bw history push`; return the exit code. Raises StudyError."""
    request = request_from(NotesOptions, arguments)
    file, notes = _notes(request)
    with HistoryFile.open_to_read(file) as stored:
        runs, acceptances = stored.runs(), stored.acceptances()
    remote = request.remote or "origin"
    written = notes.push(remote, runs, acceptances)
    document = HistoryNotesDocument(
        file=str(file),
        remote=remote,
        ref=notes.ref,
        commits=written.commits,
        without_commit=written.without_commit,
        elsewhere=written.elsewhere,
    )
    lines = [f"{notes.ref}: notes of {plural(written.commits, 'commit')} changed"]
    for count, why in (
        (written.without_commit, "without a commit, or of changed files: not sent"),
        (written.elsewhere, "of commits that this repository does not have: not sent"),
    ):
        if count:
            lines.append(f"{plural(count, 'run')} {why}")
    write_answer(json=request.json, document=lambda: document, text=lambda: report_text(lines))
    return 0


def pull(arguments: argparse.Namespace) -> int:
    """Run `bw history pull`; return the exit code. Raises StudyError."""
    request = request_from(NotesOptions, arguments)
    file, notes = _notes(request)
    remote = request.remote or "origin"
    is_there = notes.fetch(remote)
    read = notes.read()
    with HistoryFile.open_to_write(file) as stored:
        added = stored.add(read.runs)
        for acceptance in read.acceptances:
            stored.accept(acceptance)
    skipped = [f"{remote} has no {notes.ref}"] if not is_there else []
    if read.unreadable:
        lines = plural(read.unreadable, "line")
        skipped.append(f"{lines} of notes are not of this bw: not read")
    _write_added(file, added, skipped, json=request.json)
    return 0


def _notes(request: NotesOptions) -> tuple[Path, GitNotes]:
    # The commands that run after each build need no git.
    from benchwright.features.history.notes import NOTES_REF, GitNotes

    notes = GitNotes(Path(request.repository or "."), request.ref or NOTES_REF)
    return file_to_write(request.file), notes
