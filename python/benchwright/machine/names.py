"""The names by which a suite includes settings of this machine."""

from __future__ import annotations

import platform
import re

_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
"""A name that is a part of a file's name, and no path."""


def names_of_machine() -> dict[str, str]:
    """Return `host` and `system` (suite/compile.py); without one that is unknown or no plain name."""
    try:
        system = platform.freedesktop_os_release().get("ID", "")
    except OSError:
        system = ""
    names = {"host": platform.node().partition(".")[0], "system": system}
    return {name: value for name, value in names.items() if _PLAIN.fullmatch(value)}
