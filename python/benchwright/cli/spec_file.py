"""Reading a SPEC.toml that the command line names."""

from __future__ import annotations

from benchwright.suite.program import SourceFile


def spec_source(path: str, command: str) -> SourceFile:
    """Return a spec's text, by the path as the user wrote it. Raises InputError.

    `command` is the command that wants it, for the advice.
    """
    from benchwright.model.errors import argument_error
    from benchwright.suite.include import Unreadable, read_regular, read_text

    try:
        text = read_text(path, read_regular)
    except Unreadable as error:
        hint = "a spec is a TOML file (docs/workbench.md)"
        raise argument_error(path, "", error.message, hint) from None
    if text is None:
        hint = f"{command} wants a SPEC.toml (docs/workbench.md)"
        raise argument_error(path, "", f"there is no file {path}", hint)
    return SourceFile(path, text)
