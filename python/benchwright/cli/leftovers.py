"""What a killed `bw quiet` had changed, put back by the next `bw`, whatever that does.

It costs one stat where nothing is changed; only otherwise is anything imported.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from benchwright.machine.quiet.place import log_path

if TYPE_CHECKING:
    from benchwright.model.quiet import Restored

_SESSION = "BW_SESSION"
_LOOKS_ITSELF = "quiet"


def undo(argv: Sequence[str]) -> Restored | None:
    """Put back what a dead owner had changed, and say so; None when there was nothing.

    Not inside a trial (`bw measure`): there it would be part of what is measured. A trouble
    is told and no more: what the user asked for is something else.
    """
    if _SESSION in os.environ or (argv and argv[0] == _LOOKS_ITSELF):
        return None
    try:
        os.stat(log_path())
    except OSError:
        return None
    return _undone()


def _undone() -> Restored | None:
    from pathlib import Path

    from benchwright.machine.quiet.host import Host
    from benchwright.machine.quiet.place import state_directory
    from benchwright.machine.quiet.quieted import restore_dead
    from benchwright.model.errors import OperatingError
    from benchwright.model.visible import visible_lines
    from benchwright.report.quiet import restored_lines

    try:
        restored = restore_dead(Host(), Path(state_directory()))
    except (OperatingError, OSError) as error:
        said = visible_lines(f"bw: what was changed cannot be put back: {error}")
        print(said, file=sys.stderr)
        return None
    for line in restored_lines(restored, late=True) if restored else ():
        print(f"bw: {line}", file=sys.stderr)
    return restored
