"""The sections about comparisons: ratios with the noise floor beside them, and gates."""

from __future__ import annotations

from collections.abc import Iterator

from benchwright.page.document import Tile
from benchwright.page.figures import estimate_number, scale_of, share_number
from benchwright.page.stored import StoredTests


def comparison_tiles(stored: StoredTests) -> Iterator[Tile]:
    """Yield the ratio of each judged metric, and the noise floor if the study has one."""
    for number, comparison in enumerate(stored.comparisons, 1):
        key = f"{stored.id}.c{number}"
        for verdict in comparison.verdicts:
            if not verdict.judged:
                continue
            ratio = estimate_number(
                f"{key}.{verdict.candidate}.{verdict.metric}.tile",
                verdict.ratio,
                scale_of([verdict.ratio.value], ""),
            )
            yield Tile(
                f"{verdict.candidate} / {verdict.baseline}",
                ratio,
                f"{verdict.metric}, {verdict.verdict or 'shown'}",
            )
        if comparison.null is not None:
            for floor in comparison.null.floors[:1]:
                yield Tile(
                    "Noise floor",
                    share_number(f"{key}.null.tile", floor.noise_floor),
                    f"{floor.metric}, command against itself",
                )
