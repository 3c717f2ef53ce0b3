"""Names of tests that no one wrote out: the program's name and the sample."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence

from benchwright.suite.program import Slot, Template

_UNFIT = re.compile(r"[^A-Za-z0-9.+-]+", re.ASCII)
_IN_FILES = re.compile(r"[/\s\x00-\x1f\x7f]+")


def command_name(program: str) -> str:
    """Return a short name for a command: its program's, fit for a file."""
    name = _UNFIT.sub("-", posixpath.basename(program)).strip("-.")
    return name[:60] or "command"


def with_sample(name: Template, factors: Sequence[str]) -> Template:
    """Return the name with `:factor=level` for each factor that it does not mention."""
    named = {slot.name for slot in name.slots}
    parts = list(name.parts)
    for factor in factors:
        if factor not in named:
            parts += [f":{factor}=", Slot(factor, name.where)]
    return Template(tuple(parts), name.where)


def file_friendly(name: str) -> str:
    """Return a name with _ for what cannot be in a file's name, and for spaces."""
    return _IN_FILES.sub("_", name)
