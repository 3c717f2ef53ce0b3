"""The values of options before a command line is typed, and the files that set them: text and JSON."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from benchwright.core.text_table import table_lines, word_column


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
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    tag_field="schema",
    tag="benchwright/config/1",
):
    """The options that configuration files can set, with their values and origins."""

    files: tuple[ConfigFileEntry, ...]
    options: tuple[ConfigValueEntry, ...]


def config_text(document: ConfigDocument, *, every: bool) -> str:
    """Return the files and the options that they set; `every`: also the other options."""
    return "".join(f"{line}\n" for line in _lines(document, every))


def _lines(document: ConfigDocument, every: bool) -> Iterator[str]:
    for file in document.files:
        yield f"{file.path}{'' if file.exists else ' (does not exist)'}"
    if not document.files:
        yield "no configuration file is read"
    rows: dict[tuple[str, str, str], list[str]] = {}
    for one in document.options:
        if one.value is not None:
            row = (one.key, one.value, f"{one.file}:{one.line}")
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
    if not every:
        columns.append(
            word_column("commands", [", ".join(named) for named in rows.values()])
        )
    yield ""
    yield from table_lines([*columns, word_column("from", places)])
