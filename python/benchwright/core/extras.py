"""Libraries that only some commands need, asked for by name where they are missing.

Purpose: the wheel and what it needs stay below 200 MB; matplotlib and scipy are two thirds of
what they were. A command that needs one says so before it does anything.
"""

from __future__ import annotations

from importlib.util import find_spec

from benchwright.core.errors import argument_error

EXTRAS = {"matplotlib": "plot", "scipy": "search", "apprise": "notify"}
"""Library -> the extra of the package that installs it."""


def require(library: str, where: str, purpose: str, text: str = "") -> None:
    """Check that a library of an extra is installed. Raises InputError at `where`,
    with the `text` that asked for it."""
    if find_spec(library) is None:
        message = f"{purpose} needs {library}, which is not installed"
        hint = f"pip install 'benchwright[{EXTRAS[library]}]'"
        raise argument_error(where, text, message, hint)
