"""The values of options before a command line is typed, and the files that set them: text and JSON."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from benchwright.core.text_table import TextColumn, table_lines, word_column


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
_COMMANDS_WIDTH = 28


def config_text(document: ConfigDocument, *, every: bool, home: str) -> str:
    """Return the files and the options that they set; `every`: also the other options. The
    directory `home` is shown as `~`."""
    return "".join(f"{line}\n" for line in _lines(document, every, f"{home}/"))


def _lines(document: ConfigDocument, every: bool, home: str) -> Iterator[str]:
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
    keys, values, places = zip(*rows, strict=True)
    columns = [word_column("option", keys), word_column("value", values)]
    columns.append(word_column("from", places))
    if not every:
        named = tuple(", ".join(commands) for commands in rows.values())
        columns.append(TextColumn("commands", named, left=True, width=_COMMANDS_WIDTH, wrap=True))
    yield ""
    yield from table_lines(columns)
