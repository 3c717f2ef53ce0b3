"""Reads the inputs of commands, result files and studies, and gives them distinct names; those of a
plot are `NAME GLOB`.

GLOB is a file, a pattern of files, a study, or `STUDY:TEST`, where TEST may be a pattern too
(`study:ext2:*`). Quoted patterns, as in the Auto-pilot paper, are expanded here. Decision: the name
of an existing file is not a pattern, so that it may contain brackets. The parsers of `bw stats`
read the files.
"""

from __future__ import annotations

import glob
import os
from collections import Counter
from collections.abc import Sequence
from errno import ENOENT
from fnmatch import fnmatchcase
from importlib.metadata import entry_points
from os import strerror
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from benchwright.core.errors import Diagnostic, InputError, OperatingError, argument_error
from benchwright.core.observation import TrialEnding
from benchwright.core.plan import SUCCESS
from benchwright.core.results import states
from benchwright.core.text import natural_key, plural, some_text
from benchwright.core.untrusted import shell_text
from benchwright.feature import features
from benchwright.findings.codes import make_finding
from benchwright.findings.result import TestResult
from benchwright.report.charts.source import PlotGroup
from benchwright.study.catalogue import split_selector
from benchwright.study.directory import JOURNAL
from benchwright.study.parsers.api import (
    content_head,
    has_only_estimates,
    numbered,
    without_estimates,
)
from benchwright.suite.values import statuses

if TYPE_CHECKING:
    from benchwright.core.observation import Trial
    from benchwright.study.parsers.api import ResultFormats, ResultParser


# -- Reading inputs with the first parser that recognises them -------------------------
#
# Those of the core, of features (`Feature.result_formats`), and plug-ins of the entry-point group
# `benchwright.parsers`, all with one protocol (`ResultParser`).

GROUP = "benchwright.parsers"
_HEAD_BYTES = 4096
_MOST_NAMED = 30
"""Names of tests that an error lists."""


def result_formats() -> list[ResultFormats]:
    """Return the formats of result files that features add."""
    return [formats for feature in features() if (formats := feature.result_formats()) is not None]


def other_inputs_text() -> str:
    """Return which inputs are read, beside studies and .res files."""
    tools = ", ".join(formats.tools for formats in result_formats())
    csv, gnu_time = "CSV with a header line", "GNU time output"
    return f"{csv}, {gnu_time}, or results of {tools}" if tools else f"{csv}, or {gnu_time}"


def advice_text() -> str:
    """Return the advice for what is no input."""
    return f"it must be a study, a .res file, {other_inputs_text()}"


def is_of_other_tool(path: Path, head: bytes = b"") -> bool:
    """Return whether a file with these first bytes, or a directory, is one that another tool wrote."""
    return any(
        parser.detect(path, head) for formats in result_formats() for parser in formats.parsers
    )


def parsers() -> list[ResultParser]:
    """Return the parsers: the built-in ones, then plug-ins by name.

    A plug-in with the name of a built-in parser replaces it. Raises InputError for a plug-in
    that cannot be loaded.
    """
    from benchwright.study.parsers import text
    from benchwright.study.parsers.study import PARSER

    # Before CSV, whose detection looks at one line.
    ours: tuple[ResultParser, ...] = (
        PARSER,
        text.RES_PARSER,
        *(result_parser for formats in result_formats() for result_parser in formats.parsers),
        text.CSV_PARSER,
        text.GNU_TIME_PARSER,
    )
    found: dict[str, ResultParser] = {parser.name: parser for parser in ours}
    for point in sorted(entry_points(group=GROUP), key=lambda point: point.name):
        try:
            found[point.name] = point.load()
        except Exception as error:
            message = f"parser {point.value} cannot be loaded: {error}"
            raise InputError([Diagnostic("bad-parser", message, file=point.name)]) from error
    return list(found.values())


def read_inputs(
    paths: Sequence[str], advice: str = "", ok_status: Sequence[int] = SUCCESS
) -> list[TestResult]:
    """Return the inputs of all paths, in order.

    `ok_status`: the exit statuses with which a run succeeds, in a file that has statuses. Raises
    InputError, with `advice`, for all paths that cannot be opened or that no parser recognises.
    """
    known = parsers()
    inputs: list[tuple[str, TestResult]] = []
    wrong: list[Diagnostic] = []
    for text in paths:
        try:
            inputs.extend((text, test) for test in _read(text, known, advice or advice_text()))
        except InputError as error:
            wrong.extend(error.diagnostics)
        except OSError as error:
            wrong.append(_not_opened(text, error, advice))
    if wrong:
        raise InputError(wrong)
    return accepting(_distinct(inputs), ok_status)


def accepting(inputs: Sequence[TestResult], ok_status: Sequence[int]) -> list[TestResult]:
    """Return the inputs, in which a run succeeds with these exit statuses; the trials of a study
    stay as its session judged them."""
    accepted = tuple(ok_status)
    return [
        test
        if test.whole_trials is not None
        else _of_successes(msgspec.structs.replace(test, ok_status=accepted))
        for test in inputs
    ]


def _of_successes(one: TestResult) -> TestResult:
    """Return a test without what its file states about all runs if some of them failed, because its
    values are those of the others; a finding says so."""
    if not one.blocks or not one.summaries:
        return one
    failed = sum(trial.ending is TrialEnding.FAILED for trial in one.trials)
    if not failed:
        return one
    names = ", ".join(summary.name for summary in one.summaries)
    shown = states(names=names, failed=failed, runs=len(one.trials))
    finding = make_finding("estimate-of-failures", one.name, shown)
    return msgspec.structs.replace(
        without_estimates(one), session_findings=(*one.session_findings, finding)
    )


def check_ok_status(text: str | None, inputs: Sequence[TestResult]) -> None:
    """Raise InputError for `--ok-status` if no input is judged by it."""
    if text is not None and all(one.whole_trials is not None for one in inputs):
        message = "the session of a study has judged its exit statuses already"
        hint = "run the commands again with --ok-status"
        raise argument_error("--ok-status", text, message, hint)


def read_history(paths: Sequence[str], ok_status: Sequence[int] = SUCCESS) -> list[TestResult]:
    """Return the tests of every commit in files of other tools, in order; each has its origin.

    A study is read like any input: by its last session. Raises InputError for all paths that cannot
    be read.
    """
    known = parsers()
    inputs: list[TestResult] = []
    wrong: list[Diagnostic] = []
    for text in paths:
        try:
            tests = _read(text, known, advice_text(), history=True)
            inputs += [msgspec.structs.replace(test, source=text, test=test.name) for test in tests]
        except InputError as error:
            wrong.extend(error.diagnostics)
        except OSError as error:
            wrong.append(_not_opened(text, error, advice_text()))
    if wrong:
        raise InputError(wrong)
    return accepting(inputs, ok_status)


def _read(
    text: str, result_parsers: Sequence[ResultParser], advice: str, *, history: bool = False
) -> list[TestResult]:
    path = Path(text)
    head = b""
    if path.is_file():
        head = content_head(path, _HEAD_BYTES)
    for formats in result_formats():
        if (refused := formats.refusal(path, head)) is not None:
            raise refused
    for parser in result_parsers:
        if parser.detect(path, head):
            try:
                if history and hasattr(parser, "history"):
                    found: list[TestResult] = parser.history(path)
                    return found
                return numbered(parser.read(path))
            except (OperatingError, OSError):
                raise
            except ValueError as error:
                message = f"{text}: {parser.name}: {error}"
                raise InputError([_not_read(text, message, advice)]) from error
    if not path.exists():
        place, name = _file_and_test(text)
        if place is None:
            raise FileNotFoundError(ENOENT, strerror(ENOENT), text)
        tests = _read(place, result_parsers, advice, history=history)
        return _named(text, name, tests)
    names = ", ".join(parser.name for parser in result_parsers)
    message = f"{text}: no parser recognises this input (tried: {names})"
    if path.is_file():
        is_empty = len(head) < _HEAD_BYTES and not head.strip()
        message = f"{path} is empty" if is_empty else _damage(path, head) or message
    elif not path.is_dir():
        message = f"{path} is not a regular file: results are read from files"
    raise InputError([_not_read(text, message, advice)])


def is_directory_of_results(path: Path) -> bool:
    """Whether a directory is no study, but has results of another tool."""
    if not path.is_dir() or (path / JOURNAL).is_file():
        return False
    return any(parser.detect(path, b"") for parser in parsers())


def file_of(text: str) -> Path | None:
    """Return the file or directory of `FILE` or `FILE:TEST`; None if there is none."""
    place = text if Path(text).exists() else _file_and_test(text)[0]
    return None if place is None else Path(place)


def _file_and_test(text: str) -> tuple[str | None, str]:
    """Return the file and the test of `FILE:TEST`, the longest file first; None without one."""
    for at in reversed([at for at, letter in enumerate(text) if letter == ":"]):
        if at and Path(text[:at]).exists():
            return text[:at], text[at + 1 :]
    return None, ""


def _named(text: str, name: str, tests: Sequence[TestResult]) -> list[TestResult]:
    """Return the tests with a name; the first has the findings about the whole file. Raises
    InputError with the names that there are."""
    chosen = [test for test in tests if test.name == name]
    if not chosen:
        names = list(dict.fromkeys(test.name for test in tests))
        hint = f"there are: {some_text(names, _MOST_NAMED)}"
        message = f"{text}: there is no test {name!r}"
        raise InputError([_not_read(text, message, hint)])
    about = dict.fromkeys(finding for test in tests for finding in test.session_findings)
    first = msgspec.structs.replace(chosen[0], session_findings=tuple(about))
    return [first, *chosen[1:]]


def _damage(path: Path, head: bytes) -> str:
    """Return what is wrong with a file that no parser recognises; empty if that is not known."""
    return next(filter(None, (formats.damage(path, head) for formats in result_formats())), "")


def _not_opened(text: str, error: OSError, advice: str) -> Diagnostic:
    # Of what is not there, no kind is wrong.
    hint = "" if isinstance(error, FileNotFoundError) else advice
    return _not_read(text, f"{text}: {error.strerror or error}", hint)


def _not_read(file: str, message: str, hint: str) -> Diagnostic:
    return Diagnostic("unreadable-input", message, hint, file="INPUT", text=file)


def _distinct(read: Sequence[tuple[str, TestResult]]) -> list[TestResult]:
    """Return the inputs with distinct names for the report.

    Tests with the same name become `STUDY:TEST`; those that are still equal get a number.
    """
    names = Counter(one.name for _, one in read)
    seen: Counter[str] = Counter()
    result = []
    for text, test in read:
        name = test.name if names[test.name] == 1 else _full_name(text, test.name)
        seen[name] += 1
        name = name if seen[name] == 1 else f"{name}#{seen[name]}"
        result.append(msgspec.structs.replace(test, name=name, source=text, test=test.name))
    return result


def _full_name(text: str, name: str) -> str:
    """Return a test's name with its source: `q1:sleep`; for a file, the path."""
    source = text.rstrip("/") or text
    if name in (source, source.rsplit("/", 1)[-1]):
        return source
    return source if source.endswith(f":{name}") else f"{source}:{name}"


def selected(inputs: list[TestResult], command: str | None) -> list[TestResult]:
    """Return the inputs with only the blocks of one command.

    The command is given as its whole text, its first word, or the last path component of that
    word. Raises InputError if no block has this command.
    """
    if command is None:
        return inputs
    chosen = [_with_command(test, command) for test in inputs]
    if not any(test.rows for test in chosen):
        names = sorted({b.command for test in inputs for b in test.rows} - {""})
        hint = "commands there: " + ", ".join(names[:10]) if names else ""
        message = f"no block has the command {command!r}"
        if all(map(has_only_estimates, inputs)):
            message, hint = only_estimates_text("--command", command), ESTIMATES_HINT
        raise argument_error("--command", command, message, hint)
    return chosen


def _with_command(parsed_input: TestResult, command: str) -> TestResult:
    if has_only_estimates(parsed_input):
        return left_out(parsed_input, only_estimates_text("--command", command))
    blocks = tuple(b for b in parsed_input.rows if _is_command(b.command, command))
    before, after = ({b.epoch for b in of} for of in (parsed_input.rows, blocks))
    changed = msgspec.structs.replace(
        parsed_input,
        blocks=blocks,
        whole_trials=None,
        void_trials=(),
        findings=None,
        deselected=len(before) - len(after),
    )
    return with_valid_estimates(changed, parsed_input.trials)


def _is_command(text: str, wanted: str) -> bool:
    first = (text.split() or [""])[0]
    return wanted in (text, first, first.rsplit("/", 1)[-1])


# -- What a file states, after a selection or another transformation -------------------
#
# An estimate is of all trials of a test together: it is valid as long as each is there with its
# values. A test of which a file states only estimates has no rows to compute from.

NOT_SELECTED = "not selected"
ESTIMATES_HINT = "select such a test by its name ($input) or its factors"


def only_estimates_text(option: str, text: str) -> str:
    """Return why an option cannot be applied to a test without trials."""
    asked = shell_text([option, text])
    return f"only estimates are stated, and {asked} needs the values of trials"


def left_out(one: TestResult, why: str) -> TestResult:
    """Return a test of which nothing is left, with the reason."""
    return msgspec.structs.replace(
        without_estimates(one),
        blocks=(),
        whole_trials=(),
        void_trials=(),
        findings=None,
        notes=(why,),
    )


def why_left_out(one: TestResult) -> str:
    """Return why a selection or another transformation left nothing of a test; empty if it did not."""
    if one.trials or one.summaries:
        return ""
    return one.notes[0] if one.notes else NOT_SELECTED if one.deselected else ""


def with_valid_estimates(changed: TestResult, before: Sequence[Trial]) -> TestResult:
    """Return a changed test without what its file states if its trials are not those of before,
    with a note that names it."""
    after = changed.trials
    if not changed.summaries or _has_all_values(before, after):
        return changed
    valid = without_estimates(changed)
    names = ", ".join(summary.name for summary in changed.summaries)
    together = f"stated for all {plural(len(before), 'trial')} together"
    note = f"{names} left out: {together}, and not all are there unchanged."
    # A test without trials is left out as a whole.
    return msgspec.structs.replace(valid, notes=(*valid.notes, note) if after else ())


def _has_all_values(before: Sequence[Trial], after: Sequence[Trial]) -> bool:
    """Return whether each trial is there with all of its values; it may have more."""
    return len(before) == len(after) and all(
        len(old.blocks) == len(new.blocks)
        and all(
            was.values.items() <= now.values.items()
            for was, now in zip(old.blocks, new.blocks, strict=True)
        )
        for old, new in zip(before, after, strict=True)
    )


_PATTERN = frozenset("*?[")
_JOURNAL_HINT = "a file, a pattern of files, a study, FILE:TEST or STUDY:TEST (quote patterns)"


def groups_of(pairs: Sequence[tuple[str, str]], ok_status: str | None = None) -> list[PlotGroup]:
    """Return the tests of all pairs; pairs with the same NAME are one series.

    `ok_status`: what --ok-status has, checked. Raises InputError with all patterns that match
    nothing and all inputs that cannot be read.
    """
    found: dict[str, list[TestResult]] = {}
    wrong: list[Diagnostic] = []
    accepted = SUCCESS if ok_status is None else statuses(ok_status)
    for name, pattern in pairs:
        try:
            found.setdefault(name, []).extend(_tests(pattern, accepted))
        except InputError as error:
            wrong.extend(error.diagnostics)
    if wrong:
        raise InputError(wrong)
    check_ok_status(ok_status, [test for tests in found.values() for test in tests])
    return [PlotGroup(name, tuple(tests)) for name, tests in found.items()]


def input_files(pairs: Sequence[tuple[str, str]]) -> set[str]:
    """Return the files that the patterns match, links resolved: output must not replace them."""
    found: set[str] = set()
    for _, pattern in pairs:
        names = [pattern] if Path(pattern).exists() else glob.glob(pattern)
        found |= {os.path.realpath(name) for name in names}
    return found


def _tests(pattern: str, accepted: Sequence[int]) -> list[TestResult]:
    if Path(pattern).exists() or not _PATTERN & set(pattern):
        return read_inputs([pattern], ok_status=accepted)
    if files := sorted(glob.glob(pattern), key=natural_key):
        return read_inputs(files, ok_status=accepted)
    for cut in reversed([at for at, letter in enumerate(pattern) if letter == ":"]):
        places = _studies(pattern[:cut])
        if places:
            return _chosen(pattern, places, pattern[cut + 1 :])
    message = f"no file matches {pattern!r}"
    raise InputError([Diagnostic("no-match", message, _JOURNAL_HINT, "GLOB")])


def _studies(text: str) -> list[str]:
    """Return the studies that a text matches: a name, a pattern, or `DIR@2` and `DIR@NAME`
    for a session."""
    if Path(text).is_dir():
        return [text]
    if split_selector(Path(text)).session is not None:
        return [text]
    return sorted((p for p in glob.glob(text) if Path(p).is_dir()), key=natural_key)


def _chosen(pattern: str, places: list[str], wanted: str) -> list[TestResult]:
    tests = read_inputs(places)
    chosen = [test for test in tests if fnmatchcase(test.name, wanted)]
    if not chosen:
        hint = "there are: " + ", ".join(test.name for test in tests)
        message = f"no test matches {wanted!r} in {pattern!r}"
        raise InputError([Diagnostic("no-match", message, hint, "GLOB")])
    return chosen
