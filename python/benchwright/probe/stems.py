"""Names for the files of batches: none that an earlier batch has.

Decision: a batch may have been cut by a crash and run again, so what is in the directory at
the beginning is looked at, once; what is named afterwards is known.
"""

from __future__ import annotations

import os
from pathlib import Path


class Stems:
    """The names that begin files of a directory, up to a dot."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._taken: set[str] | None = None

    def free(self, stem: str) -> str:
        """Return the name, or with `~2`, `~3` and so on the first that no file begins with."""
        taken = self._known()
        name, number = stem, 2
        while name in taken:
            name = f"{stem}~{number}"
            number += 1
        taken.add(name)
        return name

    def _known(self) -> set[str]:
        if self._taken is None:
            try:
                files = os.listdir(self._directory)
            except OSError:
                files = []  # What is written there will say why not.
            self._taken = {
                file[:at]
                for file in files
                for at, sign in enumerate(file)
                if sign == "."
            }
        return self._taken
