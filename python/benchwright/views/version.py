"""The versions of what an installation of bw consists of, as text and as JSON."""

from __future__ import annotations

import msgspec

from benchwright.core.text_table import field_lines


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
