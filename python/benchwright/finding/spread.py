"""Values that stand apart from the others of their test."""

from __future__ import annotations

from collections.abc import Iterable

from benchwright.finding.codes import doubt
from benchwright.model.finding import Finding
from benchwright.stats.aggregate import Column
from benchwright.stats.zscore import THRESHOLD, z_scores


def high_z_scores(
    subject: str, quantities: Iterable[Column], threshold: float = THRESHOLD
) -> list[Finding]:
    """Return a finding for every value whose |z| exceeds the threshold.

    In the words of the paper's Figure 2, digits included (%.15g as Perl prints).
    """
    result = []
    for column in quantities:
        scores = z_scores(column.values)
        for place in (scores > threshold).nonzero()[0]:
            evidence = (
                f"High z-score of {float(scores[place]):.15g} for {column.name} "
                f"in epoch {int(column.epochs[place])}."
            )
            result.append(doubt("high-z-score", subject, evidence))
    return result
