"""The inputs of a plot: from `NAME GLOB` on the command line to tests.

GLOB is a file, a pattern of files, a study, or `STUDY:TEST`, where TEST may be a pattern too
(`study:ext2:*`). Quoted patterns, as in the Auto-pilot paper, are expanded here. Decision: the name
of an existing file is not a pattern, so that it may contain brackets. The parsers of `bw stats`
read the files.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from benchwright.core.errors import Diagnostic, InputError
from benchwright.core.plan import SUCCESS
from benchwright.core.text import natural_key
from benchwright.findings.result import TestResult
from benchwright.report.charts.source import PlotGroup
from benchwright.results.inputs import check_ok_status, read_inputs
from benchwright.study.selection import split_selector
from benchwright.suite.values import statuses

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
    check_ok_status(ok_status, [one for tests in found.values() for one in tests])
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
