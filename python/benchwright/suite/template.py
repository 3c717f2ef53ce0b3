"""Finds `%NAME%`, `$NAME$` and `{name}` in texts.

`%NAME%` is a variable of the suite, `$NAME$` the environment's (Auto-pilot's manual,
"Auto-pilot Configurations"). `%%NAME%` stands for the text `%NAME%` itself
(`date +%%Y%m`), `$$NAME$` for `$NAME$`. Any other `%` or `$` is text: `$HOME` and `$1`
are the shell's.
Braces are placeholders only around a name that is known: `awk '{print}'` stays.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection

from benchwright.suite.program import Slot, Template, Where

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_MARKED = re.compile(r"([%$])(\1?)([A-Za-z_][A-Za-z0-9_]*)\1", re.ASCII)
_BRACES = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}", re.ASCII)

Place = Callable[[int], Where]
"""Where an offset of a text stands in its file."""


def marked_template(text: str, place: Place) -> Template:
    """Return a text of `.ap` with its `%NAME%` and `$NAME$` as slots."""
    parts: list[str | Slot] = []
    end = 0
    for match in _MARKED.finditer(text):
        mark, doubled, name = match.groups()
        parts.append(text[end : match.start()])
        if doubled:
            parts.append(f"{mark}{name}{mark}")
        else:
            parts.append(Slot(name, place(match.start()), mark == "$"))
        end = match.end()
    parts.append(text[end:])
    return Template(tuple(p for p in parts if p != ""), place(0))


def brace_template(text: str, place: Place, known: Collection[str]) -> Template:
    """Return a text with `{name}` as a slot for every known name."""
    parts: list[str | Slot] = []
    end = 0
    for match in _BRACES.finditer(text):
        if match[1] in known:
            parts += [text[end : match.start()], Slot(match[1], place(match.start()))]
            end = match.end()
    parts.append(text[end:])
    return Template(tuple(p for p in parts if p != ""), place(0))


def fixed(text: str, where: Where) -> Template:
    """Return a template without slots."""
    return Template((text,) if text else (), where)
