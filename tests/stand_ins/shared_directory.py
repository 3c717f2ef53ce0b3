"""A directory that servers can enter which run as another user than the tests."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@contextlib.contextmanager
def shared_directory(name: str) -> Iterator[Path]:
    """Yield an empty directory, which is removed at the end.

    If the tests run as root, every user can enter it: it is in the first of TMPDIR, /tmp and
    /var/tmp whose parents everybody can enter. Otherwise servers run as the same user.
    """
    root = not os.geteuid()
    places = [Path(tempfile.gettempdir()), Path("/tmp"), Path("/var/tmp")]
    for place in places:
        ways = (place.resolve(), *place.resolve().parents)
        if os.access(place, os.W_OK) and (not root or all(map(_is_open, ways))):
            break
    else:
        pytest.skip(f"other users can enter none of {', '.join(map(str, places))}")
    with tempfile.TemporaryDirectory(prefix=f"bw-{name}-", dir=place) as made:
        if root:
            Path(made).chmod(0o755)
        yield Path(made)


def _is_open(directory: Path) -> bool:
    return bool(directory.stat().st_mode & 0o001)
