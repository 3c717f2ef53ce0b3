"""Measurement hooks by the names that users give them.

A hook is an executable called `premeasure`, `start`, `end` and `final` around what is
measured (docs/launcher-protocol.md). It is named by a shipped hook's name, by a path,
or by a directory, which stands for every executable in it, in order of name.
Source: Auto-pilot paper, sections 3.2 and 3.6.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

SHIPPED = Path(__file__).parent.parent / "hooks"


def shipped_hooks() -> tuple[str, ...]:
    """Return the names of the hooks that come with Benchwright."""
    return tuple(sorted(p.name for p in SHIPPED.iterdir() if os.access(p, os.X_OK)))


def resolve(names: Iterable[str], directory: Path) -> tuple[str, ...]:
    """Return the absolute paths of hooks; relative ones count from `directory`.

    Raises ValueError for a name that is no hook.
    """
    found: list[str] = []
    for name in names:
        found += [str(path) for path in _paths(name, directory)]
    return tuple(dict.fromkeys(found))


def _paths(name: str, directory: Path) -> list[Path]:
    if "/" not in name and (SHIPPED / name).is_file():
        return [SHIPPED / name]
    path = (directory / name).absolute()
    if path.is_dir():
        inside = sorted(
            p for p in path.iterdir() if p.is_file() and os.access(p, os.X_OK)
        )
        if not inside:
            raise ValueError(f"the directory {name} holds no executable")
        return inside
    if not path.is_file():
        known = ", ".join(shipped_hooks())
        raise ValueError(f"there is no hook {name!r}: give a path, or one of {known}")
    if not os.access(path, os.X_OK):
        raise ValueError(f"the hook {name} is not executable: chmod +x {name}")
    return [path]
