"""From `NAME GLOB` on the command line to the tests that are drawn.

Purpose: a GLOB may be quoted, as in the paper: we expand it. It is a file, a pattern of
files, a study, or `STUDY:TEST`, where TEST may be a pattern too (`study:ext2:*`).
Decision: a name that exists is never taken for a pattern, so that files with brackets
can be named. Everything is read by the parsers of `bw stats`.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from benchwright.cli.stats_document import trials_of
from benchwright.cli.stats_inputs import read_inputs
from benchwright.model.errors import Diagnostic, InputError
from benchwright.report.plot.places import natural
from benchwright.report.plot.source import Group, Source, source_of
from benchwright.study.parsers.api import ParsedInput

_PATTERN = frozenset("*?[")
_JOURNAL_HINT = "a file, a pattern of files, a study, or STUDY:TEST (quote patterns)"


def groups_of(pairs: Sequence[tuple[str, str]]) -> list[Group]:
    """Return the tests of every pair; a NAME that comes again is one series.

    Raises InputError with every pattern that matches nothing and every input that
    cannot be read.
    """
    found: dict[str, list[ParsedInput]] = {}
    wrong: list[Diagnostic] = []
    for name, pattern in pairs:
        try:
            found.setdefault(name, []).extend(_tests(pattern))
        except InputError as error:
            wrong.extend(error.diagnostics)
    if wrong:
        raise InputError(wrong)
    return [Group(name, tuple(map(_source, tests))) for name, tests in found.items()]


def input_files(pairs: Sequence[tuple[str, str]]) -> set[str]:
    """Return the files that the patterns mean, without links: none may be drawn over."""
    found: set[str] = set()
    for _, pattern in pairs:
        names = [pattern] if Path(pattern).exists() else glob.glob(pattern)
        found |= {os.path.realpath(name) for name in names}
    return found


def _source(one: ParsedInput) -> Source:
    return source_of(
        one.name,
        trials_of(one),
        one.specs,
        sample=one.sample,
        stop=one.stop,
        arm=one.arm,
    )


def _tests(pattern: str) -> list[ParsedInput]:
    if Path(pattern).exists() or not _PATTERN & set(pattern):
        return read_inputs([pattern])
    if files := sorted(glob.glob(pattern), key=natural):
        return read_inputs(files)
    for cut in reversed([at for at, letter in enumerate(pattern) if letter == ":"]):
        places = _studies(pattern[:cut])
        if places:
            return _chosen(pattern, places, pattern[cut + 1 :])
    message = f"no file matches {pattern!r}"
    raise InputError([Diagnostic("no-match", message, _JOURNAL_HINT, "GLOB")])


def _studies(text: str) -> list[str]:
    """Return the studies of a name, a pattern, or a name with a session: `DIR@2`."""
    if Path(text).is_dir():
        return [text]
    directory, at, session = text.rpartition("@")
    if at and session.isdigit() and Path(directory).is_dir():
        return [text]
    return sorted((p for p in glob.glob(text) if Path(p).is_dir()), key=natural)


def _chosen(pattern: str, places: list[str], wanted: str) -> list[ParsedInput]:
    tests = read_inputs(places)
    chosen = [test for test in tests if fnmatchcase(test.name, wanted)]
    if not chosen:
        hint = "there are: " + ", ".join(test.name for test in tests)
        message = f"no test matches {wanted!r} in {pattern!r}"
        raise InputError([Diagnostic("no-match", message, hint, "GLOB")])
    return chosen
