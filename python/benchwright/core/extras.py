"""Optional libraries, which only some commands need.

Purpose: an installation with its dependencies stays below 200 MB; with matplotlib and scipy it was
three times as large. A command that needs a missing library reports it before it starts. The advice
names the wheel that was installed and never the package's bare name, which on a package index may
be somebody else's.
"""

from __future__ import annotations

import json
import shlex
import sys
from importlib.util import find_spec

from benchwright.core.errors import argument_error

EXTRAS = {"matplotlib": "plot", "scipy": "search", "apprise": "notify"}
"""Library -> the extra of the package that installs it."""


def require(library: str, where: str, purpose: str, text: str = "") -> None:
    """Check that a library of an extra is installed. Raises InputError at `where`, with the `text`
    that needs it."""
    if find_spec(library) is None:
        message = f"{purpose} needs {library}, which is not installed"
        raise argument_error(where, text, message, install_command(EXTRAS[library]))


def install_command(extra: str) -> str:
    """Return the command that installs an extra beside this package."""
    source = f"{_source() or 'benchwright-VERSION-...whl'}[{extra}]"
    return f"{shlex.quote(sys.executable)} -m pip install {shlex.quote(source)}"


def _source() -> str:
    """Return the file or the address from which this package was installed (PEP 610); empty if
    unknown."""
    from importlib.metadata import PackageNotFoundError, distribution
    from urllib.parse import unquote, urlsplit

    try:
        text = distribution("benchwright").read_text("direct_url.json")
        address = str(json.loads(text or "{}").get("url", ""))
    except (PackageNotFoundError, OSError, ValueError):
        return ""
    parts = urlsplit(address)
    return unquote(parts.path) if parts.scheme == "file" else address
