"""What a report points out without doubting it.

Decision: a notice is a line to look at, not a finding. Getstats warns of every |z| > 2,
which on clean normal data some value exceeds in 23 % of samples of 10 and in 82 % of
samples of 30 (simulated); findings are calibrated to be rare
there. Source: Auto-pilot paper, section 3.3, "Detecting Anomalies", and Figure 2.
"""

from __future__ import annotations

from collections.abc import Iterable

from benchwright.model.visible import one_line
from benchwright.report.document import Notice
from benchwright.stats.aggregate import Column
from benchwright.stats.rows import RowBook
from benchwright.stats.zscore import THRESHOLD, z_scores

TOLD = 5
"""Notices of one input that are printed; JSON has all."""


def high_z_scores(
    subject: str,
    quantities: Iterable[Column],
    threshold: float = THRESHOLD,
    book: RowBook | None = None,
) -> list[Notice]:
    """Return a notice for every value whose |z| exceeds the threshold.

    In the words of the paper's Figure 2, digits included (%.15g as Perl prints). A
    quantity has the table's label where that is more than its name with a capital.
    """
    result, rules = [], book or RowBook()
    for column in quantities:
        label = rules.row(column.name).label
        name = column.name if label.lower() == column.name else label
        scores = z_scores(column.values)
        for place in (scores > threshold).nonzero()[0]:
            score = float(scores[place])
            text = (
                f"High z-score of {score:.15g} for {name} "
                f"in epoch {int(column.epochs[place])}."
            )
            result.append(Notice(subject, text, score))
    return result


def condensed(notices: Iterable[Notice]) -> list[Notice]:
    """Return the largest notices of every subject, in their order, and how many more
    there are."""
    of: dict[str, list[Notice]] = {}
    for one in notices:
        of.setdefault(one.subject, []).append(one)
    result: list[Notice] = []
    for subject, found in of.items():
        places = sorted(range(len(found)), key=lambda place: -found[place].size)
        result += [found[place] for place in sorted(places[:TOLD])]
        if len(found) > TOLD:
            result.append(Notice(subject, f"... and {len(found) - TOLD} more"))
    return result


def notice_lines(notices: Iterable[Notice]) -> str:
    """Return notices one per line as `SUBJECT: text`, the last ended too; condensed."""
    return "".join(
        one_line(f"{one.subject}: {one.text}") + "\n" for one in condensed(notices)
    )
