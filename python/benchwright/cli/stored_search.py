"""A stored search printed again: by its own command, by `bw stats`."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

import msgspec

from benchwright.cli.plot_file import check_plot
from benchwright.core.errors import StudyError
from benchwright.study.contents import SEARCH_KINDS
from benchwright.study.directory import JOURNAL
from benchwright.study.journal import Study
from benchwright.suite.options import given

# --------------------------------------------------------------------------------------
# A stored search told again by its own command, without a spec: its report, its
# picture.
#
# Purpose: `bw peak --study DIR --plot FILE` draws a search that has ended, or what is known of
# one that was cut. Nothing is measured, and the study is only read.


def is_stored_search(
    arguments: argparse.Namespace, requests: Sequence[type[msgspec.Struct]]
) -> bool:
    """Return whether a stored search is meant: there is a study, and of the options of
    these requests, which are those of a new search, at most --plot is given."""
    new = [option for option in given(arguments, *requests) if option.name != "plot"]
    return not new and (Path(arguments.study) / JOURNAL).is_file()


def print_stored_search(kind: str, arguments: argparse.Namespace) -> int:
    """Tell the study's last search of a kind, `peak` or `ramp`, and draw it where that is
    asked for; return the exit code.

    Raises StudyError where there is none, InputError for a picture that cannot be drawn.
    """
    check_plot(arguments.plot, [])
    place = Path(arguments.study)
    with contextlib.closing(Study.open_to_read(place)) as study:
        stored = [one for one in study.sessions() if one.info.kind == kind]
        if not stored:
            raise StudyError(
                f"no-{kind}",
                f"{place} has no search by bw {kind}",
                f"start one: bw {kind} SPEC.toml --study DIR",
            )
        runner = import_module(f"benchwright.cli.{kind}")
        runner.tell_stored(study, stored[-1], arguments, arguments.plot)
    return 0


# --------------------------------------------------------------------------------------
# `bw stats` of a study whose last session is a ramp, a peak search or a surface: its
# report, as its own command tells it.
#
# A search has trials at many loads and no test, so Getstats' table has no row for it.

_FORMS = ("table", "json")


def print_search_stats(paths: Sequence[str], form: str) -> bool:
    """Print a search's report if the one path is a study of one; tell whether it was."""
    if len(paths) != 1 or form not in _FORMS:
        return False
    place = Path(paths[0])
    if not (place / JOURNAL).is_file():
        return False
    with contextlib.closing(Study.open_to_read(place)) as study:
        sessions = study.sessions()
        kind = sessions[-1].info.kind if sessions else ""
        if kind not in SEARCH_KINDS:
            return False
        runner = import_module(f"benchwright.cli.{kind}")
        said = argparse.Namespace(json=form == "json", quiet=True)
        runner.tell_stored(study, sessions[-1], said)
    return True
