"""The program in the child process: `bw`, which also writes an operating error to a file.

The first argument is that file; the other arguments are those of `bw`. The parent reads the error's
type, code and text from the file, because it cannot parse the message on stderr reliably.
"""

from __future__ import annotations

import sys
from pathlib import Path

from benchwright.cli.main import main
from benchwright.cli.parser import CommandParser


def _write(error: Exception) -> None:
    """Write an operating error to the file that the parent named."""
    from benchwright.api.calls import encode_error
    from benchwright.core.errors import OperatingError

    if isinstance(error, OperatingError):
        Path(_PLACE).write_bytes(encode_error(error))


if __name__ == "__main__":
    _PLACE = sys.argv.pop(1)
    CommandParser.on_refusal = _write
    sys.exit(main(on_error=_write))
