"""Auto-pilot's suites and the commands of its benchmark scripts."""

from __future__ import annotations

from benchwright.feature import AddParser, Feature


class Autopilot(Feature):
    """What this feature adds."""

    name = "autopilot"

    def add_parser(self, command: str) -> AddParser:
        match command:
            case "measure":
                from benchwright.features.autopilot.command import add_parser
            case _:
                from benchwright.features.autopilot.command import add_barrier as add_parser
        return add_parser


FEATURE: Feature = Autopilot()
