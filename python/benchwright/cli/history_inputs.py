"""Reads the histories that the arguments of `bw history` name: files, studies, folders."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec

from benchwright.core.errors import OperatingError, argument_error
from benchwright.core.history import Acceptance, Run, RunHistory, SeriesKey
from benchwright.core.text import plural
from benchwright.study.directory import JOURNAL
from benchwright.study.history import (
    HISTORY_FILE,
    HistoryFile,
    history_of,
    is_history_file,
    studies_below,
)
from benchwright.study.journal import Study

Wanted = Callable[[SeriesKey], bool]


def default_paths() -> tuple[Path, ...]:
    """Return the history file of the current directory; without one that has runs, the directory."""
    file = Path(HISTORY_FILE)
    if is_history_file(file):
        with HistoryFile.open_to_read(file) as history:
            # One with acceptances alone belongs to the studies below.
            if history.series():
                return (file,)
    return (Path(),)


def chosen_paths(texts: Sequence[str]) -> tuple[Path, ...]:
    """Return the paths of the arguments, or the default ones."""
    return tuple(map(Path, texts)) or default_paths()


class ReadRuns(msgspec.Struct, frozen=True):
    """What was read of the paths of a command line."""

    runs: tuple[Run, ...]
    acceptances: tuple[Acceptance, ...]
    skipped: tuple[str, ...]
    """What was not read, and why, as sentences."""

    def history(self) -> RunHistory:
        """Return the series; a run that was read more than once counts once."""
        return history_of(self.runs, self.acceptances, self.skipped)


def read_runs(
    paths: Sequence[Path], wanted: Wanted = lambda _key: True, since_ns: int = 0
) -> ReadRuns:
    """Return the runs of all paths together.

    Of history files only the wanted series and the runs since a moment are read, because they can
    be large.

    Raises InputError for a path that has no history, StudyError for a file that cannot be read.
    """
    runs: list[Run] = []
    acceptances: list[Acceptance] = []
    skipped: list[str] = []
    for path in paths:
        if not path.exists():
            raise argument_error("PATH", str(path), f"{path}: there is no such path")
        for file in _history_files(path):
            with HistoryFile.open_to_read(file) as history:
                runs += history.runs(wanted, since_ns)
                acceptances += history.acceptances()
        if path.is_dir() and (is_history_file(path / HISTORY_FILE) or _has_study(path)):
            runs += _runs_of_folder(path, skipped)
        elif not is_history_file(path):
            runs += _runs_of_other_tool(path)
    return ReadRuns(
        runs=tuple(runs),
        acceptances=tuple(dict.fromkeys(acceptances)),
        skipped=tuple(skipped),
    )


def _history_files(path: Path) -> Iterator[Path]:
    inside = path / HISTORY_FILE
    if is_history_file(path):
        yield path
    elif is_history_file(inside):
        yield inside


def _has_study(folder: Path) -> bool:
    return next(studies_below(folder), None) is not None


def _runs_of_other_tool(path: Path) -> list[Run]:
    """Return the runs of a file, or a directory, of another tool. Raises InputError."""
    # Studies need no parser of other tools' files.
    from benchwright.cli.stats_inputs import read_history
    from benchwright.study.foreign import PARSERS, imported_runs

    if path.is_dir() and not any(one.detect(path, b"") for one in PARSERS):
        message = f"no study is below {path.absolute()}"
        hint = "`bw run` stores one in ./bw-study; give the folder that has them"
        raise argument_error("PATH", str(path), message, hint)
    return imported_runs(read_history([str(path)]))


def _runs_of_folder(folder: Path, skipped: list[str]) -> list[Run]:
    """Return the runs of the studies below a folder; add what cannot be read to `skipped`.

    Raises StudyError if the folder is itself a study that cannot be read.
    """
    runs: list[Run] = []
    empty = 0
    for place in studies_below(folder):
        try:
            found = list(runs_of_study(place))
        except OperatingError as error:
            if (folder / JOURNAL).is_file():
                raise
            skipped.append(f"skipped {place}: {str(error).splitlines()[0]}")
            continue
        filled = [run for run in found if run.points]
        empty += len(found) - len(filled)
        runs += filled
    if empty:
        sessions = plural(empty, "session")
        why = "failed, a comparison, or a search without an answer"
        skipped.append(f"{sessions} without a value: {why}")
    return runs


def runs_of_study(place: Path) -> Iterator[Run]:
    """Yield the runs of a study, also those without a point. Raises StudyError."""
    # Files of other tools and history files need no report of a session.
    from benchwright.report.history_points import read_run

    with contextlib.closing(Study.open_to_read(place)) as study:
        for session in study.sessions():
            yield read_run(study, session)
