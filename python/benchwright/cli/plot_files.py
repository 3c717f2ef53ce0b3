"""Writing a chart's file: whole or not at all.

Decision: a graph file is an output that the user named, so an earlier one is replaced;
but by a rename, so that nobody ever sees half a picture. A link stays a link.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path


def write_file(path: str, data: bytes) -> None:
    """Write the bytes under a name of their own, then rename. Raises OSError."""
    target = Path(os.path.realpath(path))
    draft = target.with_name(f".{target.name}.{os.getpid()}.draft")
    try:
        draft.write_bytes(data)
        draft.replace(target)
    except OSError as error:
        with contextlib.suppress(OSError):
            draft.unlink()
        # It is the user's name that the message has to show, not the draft's.
        raise OSError(error.errno, error.strerror, path) from None
