"""Auto-pilot's suites and the commands of its benchmark scripts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from benchwright.feature import AddParser, Feature

if TYPE_CHECKING:
    from benchwright.cli.parser import CommandParser
    from benchwright.suite.compile import SuiteLanguage


class Autopilot(Feature):
    """What this feature adds."""

    name = "autopilot"

    def suite_languages(self) -> Mapping[str, SuiteLanguage]:
        from benchwright.features.autopilot.language import compile_ap

        return {".ap": compile_ap}

    def program(self, name: str) -> CommandParser:
        from benchwright.features.autopilot import programs

        return programs.getstats() if name == "getstats" else programs.graphit()

    def add_parser(self, command: str) -> AddParser:
        match command:
            case "measure":
                from benchwright.features.autopilot.command import add_parser
            case _:
                from benchwright.features.autopilot.command import add_barrier as add_parser
        return add_parser


FEATURE: Feature = Autopilot()
