"""Optional libraries, which only some commands need.

Purpose: an installation with its dependencies stays below 200 MB; with matplotlib and scipy it
was three times as large. A command that needs a missing library reports it before it starts.
"""

from __future__ import annotations

from importlib.util import find_spec

from benchwright.core.errors import argument_error

EXTRAS = {"matplotlib": "plot", "scipy": "search", "apprise": "notify"}
"""Library -> the extra of the package that installs it."""


def require(library: str, where: str, purpose: str, text: str = "") -> None:
    """Check that a library of an extra is installed. Raises InputError at `where`, with the `text`
    that needs it."""
    if find_spec(library) is None:
        message = f"{purpose} needs {library}, which is not installed"
        hint = f"pip install 'benchwright[{EXTRAS[library]}]'"
        raise argument_error(where, text, message, hint)
