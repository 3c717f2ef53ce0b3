"""`bw stats` of a study whose last session is a peak search: its report, as `bw peak` tells it.

A search has trials at many loads and no test, so Getstats' table has no row for it.
"""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Sequence
from pathlib import Path

from benchwright.study.journal import Study
from benchwright.study.schema import JOURNAL

_FORMS = ("table", "json")


def tell_search(paths: Sequence[str], form: str) -> bool:
    """Print a search's report if the one path is a study of one; tell whether it was."""
    if len(paths) != 1 or form not in _FORMS:
        return False
    place = Path(paths[0])
    if not (place / JOURNAL).is_file():
        return False
    with contextlib.closing(Study.open_to_read(place)) as study:
        sessions = study.sessions()
        if not sessions or sessions[-1].info.kind != "peak":
            return False
        from benchwright.cli.peak_run import tell_stored

        said = argparse.Namespace(json=form == "json", quiet=True)
        tell_stored(study, sessions[-1], said)
    return True
