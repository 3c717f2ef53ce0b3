"""Load generators that are separate programs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from benchwright.feature import Feature

if TYPE_CHECKING:
    from benchwright.findings.codes import Code


class Generators(Feature):
    """What this feature adds."""

    name = "generators"
    needs = ("load",)

    def finding_codes(self) -> Mapping[str, Code]:
        from benchwright.features.generators.codes import CODES

        return CODES


FEATURE: Feature = Generators()
