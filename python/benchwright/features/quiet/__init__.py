"""Prepares the machine for a benchmark and restores it afterwards; empties caches.

The next `bw`, whatever its command, restores the settings that a killed `bw` had changed.

If nothing is changed, this costs one stat call; modules are imported only if there are changes.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from benchwright.core.untrusted import visible_lines
from benchwright.feature import AddParser, DocumentType, Feature
from benchwright.features.quiet.log_path import LOG, server_directories, state_directory

if TYPE_CHECKING:
    from benchwright.core.results import Finding
    from benchwright.features.quiet.types import RestoreResult
    from benchwright.run.surroundings import Surrounding
    from benchwright.study.journal import SessionInfo
    from benchwright.suite.toml_sections import SuiteTable


_LOOKS_ITSELF = "quiet"


def undo_leftovers(argv: Sequence[str]) -> Sequence[Finding]:
    """Restore the settings that a dead `bw` had changed, and print them; return what a session that
    starts now is to report.

    Errors are printed, but the user's command runs nevertheless.
    """
    is_quiet = bool(argv) and argv[0] == _LOOKS_ITSELF
    if is_quiet and "--status" in argv:
        # It shows what is left.
        return ()
    for directory in server_directories():
        _restored_by_log(directory)
    if is_quiet:
        return ()
    restored = _restored_by_log(state_directory())
    if restored is None:
        return ()
    from benchwright.features.quiet.report import restore_findings

    return restore_findings(restored, late=True)


def _restored_by_log(directory: str) -> RestoreResult | None:
    try:
        os.stat(os.path.join(directory, LOG))
    except OSError:
        return None
    from pathlib import Path

    from benchwright.core.errors import OperatingError
    from benchwright.features.quiet.hold import discard, restore_dead
    from benchwright.features.quiet.host import Host
    from benchwright.features.quiet.report import restored_lines

    try:
        restored = restore_dead(Host(), Path(directory))
        if restored is not None and directory != state_directory():
            discard(Path(directory))
    except (OperatingError, OSError) as error:
        message = visible_lines(f"bw: the changes of a killed bw cannot be undone: {error}")
        print(message, file=sys.stderr)
        return None
    for line in restored_lines(restored, late=True) if restored else ():
        print(f"bw: {line}", file=sys.stderr)
    return restored


class Quiet(Feature):
    """What this feature adds."""

    name = "quiet"

    def add_parser(self, command: str) -> AddParser:
        match command:
            case "quiet":
                from benchwright.features.quiet.command import add_parser
            case _:
                from benchwright.features.quiet.chill_command import add_parser
        return add_parser

    def before_command(self, argv: Sequence[str]) -> Sequence[Finding]:

        return undo_leftovers(argv)

    def suite_tables(self) -> Mapping[str, SuiteTable]:
        from benchwright.features.quiet.settings import check_quiet, read_quiet
        from benchwright.suite.toml_sections import SuiteTable

        return {"quiet": SuiteTable(read_quiet, check_quiet, changes_machine=True)}

    def surroundings(
        self, info: SessionInfo, tables: Mapping[str, Any], note: Callable[[str], None]
    ) -> Sequence[Surrounding]:
        from benchwright.features.quiet.session import QuietSession

        return (QuietSession(tables.get("quiet"), info.options["token"], note),)

    def documents(self) -> Mapping[DocumentType, DocumentType | None]:
        from benchwright.features.quiet.chill_types import ChillDocument
        from benchwright.features.quiet.report import QuietDocument

        return {QuietDocument: None, ChillDocument: None}


FEATURE: Feature = Quiet()
