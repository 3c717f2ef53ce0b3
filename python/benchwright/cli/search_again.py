"""A stored search told again by its own command, without a spec: its report, its picture.

Purpose: `bw peak --study DIR --plot FILE` draws a search that has ended, or what is known of
one that was cut. Nothing is measured, and the study is only read.
"""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from benchwright.cli.plot_file import check_plot
from benchwright.model.errors import StudyError
from benchwright.study.journal import Study
from benchwright.study.schema import JOURNAL


def is_told_again(arguments: argparse.Namespace, options: Sequence[str]) -> bool:
    """Tell whether a stored search is asked for: there is a study, and none of the
    options of a new search is given."""
    new = any(getattr(arguments, name) for name in options)
    return not new and (Path(arguments.study) / JOURNAL).is_file()


def tell_again(kind: str, arguments: argparse.Namespace) -> int:
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
                f"{place} holds no search by bw {kind}",
                f"begin one: bw {kind} SPEC.toml --study DIR",
            )
        runner = import_module(f"benchwright.cli.{kind}_run")
        runner.tell_stored(study, stored[-1], arguments, arguments.plot)
    return 0
