"""`bw stats` of a study whose last session is a ramp, a peak search or a surface: its
report, as its own command tells it.

A search has trials at many loads and no test, so Getstats' table has no row for it.
"""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from benchwright.study.contents import SEARCHES
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
        kind = sessions[-1].info.kind if sessions else ""
        if kind not in SEARCHES:
            return False
        runner = import_module(f"benchwright.cli.{kind}_run")
        said = argparse.Namespace(json=form == "json", quiet=True)
        runner.tell_stored(study, sessions[-1], said)
    return True
