"""What a report points out without doubting it.

Decision: a notice is a line to look at, not a finding. Getstats warns of every |z| > 2,
which on clean normal data some value exceeds in 23 % of samples of 10 and in 82 % of
samples of 30 (reference/runners.md section 1.5); findings are calibrated to be rare
there. Source: papers/auto-pilot.txt section 3.3, "Detecting Anomalies", and Figure 2.
"""

from __future__ import annotations

from collections.abc import Iterable

from benchwright.report.document import Notice
from benchwright.stats.aggregate import Column
from benchwright.stats.zscore import THRESHOLD, z_scores


def high_z_scores(
    subject: str, quantities: Iterable[Column], threshold: float = THRESHOLD
) -> list[Notice]:
    """Return a notice for every value whose |z| exceeds the threshold.

    In the words of the paper's Figure 2, digits included (%.15g as Perl prints).
    """
    result = []
    for column in quantities:
        scores = z_scores(column.values)
        for place in (scores > threshold).nonzero()[0]:
            text = (
                f"High z-score of {float(scores[place]):.15g} for {column.name} "
                f"in epoch {int(column.epochs[place])}."
            )
            result.append(Notice(subject, text))
    return result


def notice_lines(notices: Iterable[Notice]) -> str:
    """Return notices one per line as `SUBJECT: text`, the last ended too."""
    return "".join(f"{one.subject}: {one.text}\n" for one in notices)
