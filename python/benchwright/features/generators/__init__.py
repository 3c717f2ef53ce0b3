"""Load generators that are separate programs."""

from __future__ import annotations

from benchwright.feature import Feature


class Generators(Feature):
    """What this feature adds."""

    name = "generators"
    needs = ("load",)


FEATURE: Feature = Generators()
