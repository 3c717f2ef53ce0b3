"""What there is to doubt about a comparison as a whole.

Its arms' own doubts are examine()'s. These are about the design: a difference between
arms that were not measured side by side may be one of time.
"""

from __future__ import annotations

from benchwright.finding.codes import doubt
from benchwright.model.comparison import Comparison, Design, Verdict
from benchwright.model.finding import Finding


def doubts_of(comparison: Comparison) -> tuple[Finding, ...]:
    """Return the findings about a comparison's design and its null comparison."""
    subject = " and ".join(comparison.arms)
    found = []
    rule = comparison.rule
    if rule.stored is not None:
        evidence = (
            f"{rule.stored.name} was measured at another time ({rule.stored.source})"
        )
        found.append(doubt("not-interleaved", subject, evidence))
    elif rule.design is Design.STORED:
        evidence = "the arms were measured at different times"
        found.append(doubt("not-interleaved", subject, evidence))
    elif rule.design is Design.SEQUENCE:
        evidence = "all trials of one arm ran before the next arm's first"
        found.append(doubt("sequential-arms", subject, evidence))
    if rule.exactly is not None:
        found += _biased(comparison)
    elif comparison.null is not None and comparison.null.biased:
        evidence = "comparing a command with itself found a difference on this machine"
        found.append(doubt("biased-null", subject, evidence))
    return tuple(found)


def _biased(comparison: Comparison) -> list[Finding]:
    """Return the doubt about a machine that tells a command from itself."""
    different = [
        v for v in comparison.verdicts if v.verdict in (Verdict.FASTER, Verdict.SLOWER)
    ]
    return [
        doubt(
            "biased-null",
            f"{v.baseline} and {v.candidate}",
            f"the same command is {v.verdict} than itself: {v.metric} ratio "
            f"{v.ratio.value:.4g} ({v.ratio.low:.4g} to {v.ratio.high:.4g})",
        )
        for v in different
    ]
