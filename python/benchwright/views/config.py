"""The values of options before a command line is typed, and the files that set them: text and JSON."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from benchwright.views.blocks import Column, Words, keyed, table_of
from benchwright.views.terminal import table_text


class ConfigFileEntry(msgspec.Struct, frozen=True):
    """A configuration file, or the place of one."""

    path: str
    kind: str
    """`user`, `project`, or `variable` if BW_CONFIG names it."""
    exists: bool


class ConfigValueEntry(msgspec.Struct, frozen=True):
    """An option that configuration files can set."""

    command: str
    key: str
    value: str | None
    """The value that a file sets; null if none does."""
    default: str
    """The built-in default; empty if the option is not given by default."""
    file: str | None
    line: int | None


class ConfigDocument(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="schema", tag="benchwright/config/1"
):
    """The options that configuration files can set, with their values and origins."""

    files: tuple[ConfigFileEntry, ...]
    options: tuple[ConfigValueEntry, ...]


NO_FILE = "no configuration file is read: BW_CONFIG is /dev/null"


def config_text(document: ConfigDocument, *, every: bool, home: str, width: int) -> str:
    """Return the files and the options that they set, in `width` characters; `every`: also the
    other options, each on one line. The directory `home` is shown as `~`."""
    return "".join(f"{line}\n" for line in _lines(document, every, f"{home}/", width))


def _lines(document: ConfigDocument, every: bool, home: str, width: int) -> Iterator[str]:
    for file in document.files:
        path = file.path.replace(home, "~/")
        yield f"{path}{'' if file.exists else ' (does not exist)'}"
    if not document.files:
        yield NO_FILE
    rows: dict[tuple[str, str, str], list[str]] = {}
    for one in document.options:
        if one.value is not None:
            path = (one.file or "").replace(home, "~/")
            row = (one.key, one.value, f"{path}:{one.line}")
        elif every:
            row = (one.key, one.default, "built-in" if one.default else "")
        else:
            continue
        rows.setdefault(row, []).append(one.command)
    if not rows:
        yield "no option is set"
        return
    table = table_of(
        "options",
        "Options",
        keyed("o", rows.items()),
        (
            (Column("Option"), lambda _, one: Words(one[0][0])),
            (Column("Value"), lambda _, one: Words(one[0][1])),
            (Column("From"), lambda _, one: Words(one[0][2])),
            (Column("Commands"), lambda _, one: Words("" if every else ", ".join(one[1]))),
        ),
    )
    yield ""
    yield from table_text(table, None if every else width, wrap=True)
