"""Finds `%NAME%`, `$NAME$` and `{name}` in texts.

`%NAME%` is a variable of the suite, `$NAME$` the environment's (Auto-pilot's manual,
"Auto-pilot Configurations"). `%%NAME%` stands for the text `%NAME%` itself
(`date +%%Y%m`), `$$NAME$` for `$NAME$`. Any other `%` or `$` is text: `$HOME` and `$1`
are the shell's.
Braces are placeholders only around a name that is known: `awk '{print}'` stays. A name that
is nearly a known one is a mistake; `{{name}}` stands for `{name}` itself where that would
be a placeholder or a mistake.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Collection

from benchwright.suite.fault import Fault
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


_NEAR = 0.75
"""How much alike a misspelt name and a known one are, in difflib's measure."""


def _nearest(name: str, known: Collection[str]) -> str | None:
    """Return the known name that a name is probably meant to be; None for a known one."""
    if name in known:
        return None
    near = difflib.get_close_matches(name, sorted(known), 1, _NEAR)
    return near[0] if near else None


def _is_doubled(text: str, match: re.Match[str]) -> bool:
    return text[match.start() - 1 : match.start()] == "{" == text[match.start()] and (
        text[match.end() : match.end() + 1] == "}"
    )


def misspelt(text: str, known: Collection[str]) -> list[Fault]:
    """Return a fault for each `{name}` that is nearly a known one."""
    found = []
    for match in _BRACES.finditer(text):
        near = _nearest(match[1], known)
        if near is not None and not _is_doubled(text, match):
            message = f"nothing is named {match[1]!r}: did you mean {{{near}}}?"
            hint = f"write {{{{{match[1]}}}}} for the text {match[0]} itself"
            found.append(Fault("suite-unknown-name", message, hint, match.start()))
    return found


def brace_template(text: str, place: Place, known: Collection[str]) -> Template:
    """Return a text with `{name}` as a slot for every known name."""
    parts: list[str | Slot] = []
    end = 0
    for match in _BRACES.finditer(text):
        if _is_doubled(text, match):
            if match[1] in known or _nearest(match[1], known) is not None:
                parts += [text[end : match.start() - 1], match[0]]
                end = match.end() + 1
        elif match[1] in known:
            parts += [text[end : match.start()], Slot(match[1], place(match.start()))]
            end = match.end()
    parts.append(text[end:])
    return Template(tuple(p for p in parts if p != ""), place(0))


def fixed(text: str, where: Where) -> Template:
    """Return a template without slots."""
    return Template((text,) if text else (), where)
