"""An installation of bw as text and as JSON: the versions of its programs, and the values that
options have before a command line is typed, with the files that set them.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from benchwright.core.text_table import field_lines
from benchwright.views.blocks import Column, Words, keyed, table_of
from benchwright.views.terminal import table_text


class ProgramVersion(msgspec.Struct, frozen=True):
    """A native program of bw."""

    path: str
    """Its path, or why it is unavailable."""
    version: str | None
    """null if the program is unavailable or did not print a version."""


class VersionDocument(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="schema", tag="benchwright/version/1"
):
    """The versions of what an installation of bw consists of."""

    version: str
    directory: str
    """The directory of the Python package."""
    programs: tuple[ProgramVersion, ...]
    python: str
    interpreter: str
    libraries: dict[str, str | None]
    """null for an optional library that is not installed."""
    kernel: str
    architecture: str


def version_text(document: VersionDocument) -> str:
    """Return the versions as text, one on each line."""
    lines = field_lines(
        [
            ("bw", f"{document.version}  {document.directory}"),
            *(
                ("program", f"{program.version or 'version unknown'}  {program.path}")
                for program in document.programs
            ),
            ("Python", f"{document.python}  {document.interpreter}"),
            *((name, version or "not installed") for name, version in document.libraries.items()),
            ("kernel", f"{document.kernel} {document.architecture}"),
        ]
    )
    return "".join(f"{line}\n" for line in lines)


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
    for config_value_entry in document.options:
        if config_value_entry.value is not None:
            path = (config_value_entry.file or "").replace(home, "~/")
            row = (
                config_value_entry.key,
                config_value_entry.value,
                f"{path}:{config_value_entry.line}",
            )
        elif every:
            row = (
                config_value_entry.key,
                config_value_entry.default,
                "built-in" if config_value_entry.default else "",
            )
        else:
            continue
        rows.setdefault(row, []).append(config_value_entry.command)
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
