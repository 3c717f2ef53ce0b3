"""What comparing a command with itself tells of the machine.

Purpose: the noise floor of each metric, and the share of false differences. Decision: the
latter by relabelling. Within each block, which trial is called the baseline's is drawn
anew; if the machine is fair every such labelling was as likely as the real one, so the
share of them that the very rule of a comparison, looking after every block, calls
different is the rule's false-positive rate on this machine's own noise: its modes, its
tails, its drift. A theoretical rate lost: it is what should be checked.
Source: R. A. Fisher 1935, The Design of Experiments, on randomisation tests.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from benchwright.control.compare import NextBlock, decide_comparison
from benchwright.control.compare_history import ComparisonBuilder, Values
from benchwright.control.compare_verdict import verdicts_of
from benchwright.model.comparison import Comparison, ComparisonRule, NullFloor, Verdict

RELABELLINGS = 1000
Block = Sequence[Sequence[Values | None]]
"""Of each arm, the values of its trials in one block."""


def false_positives(rule: ComparisonRule, blocks: Sequence[Block]) -> float:
    """Return the share of relabellings of these blocks that are called different.

    Looked at after every block as a comparison is, up to all of them; the seed is the
    rule's own.
    """
    judged = tuple(metric for metric in rule.metrics if metric.judged)
    rule = msgspec.structs.replace(
        rule, metrics=judged, exactly=None, maximum=max(len(blocks), 1), warmup=0
    )
    rng = np.random.default_rng([rule.seed, RELABELLINGS])
    swaps = rng.random((RELABELLINGS, len(blocks))) < 0.5
    found = sum(_is_different(rule, blocks, row.tolist()) for row in swaps)
    return found / RELABELLINGS


def _is_different(
    rule: ComparisonRule, blocks: Sequence[Block], swaps: Sequence[bool]
) -> bool:
    builder = ComparisonBuilder(rule)
    for block, swap in zip(blocks, swaps, strict=True):
        if not isinstance(decide_comparison(rule, builder.history()), NextBlock):
            break
        builder.add(block[::-1] if swap else block)
    verdicts = verdicts_of(rule, builder.history()).values()
    return any(verdict in (Verdict.FASTER, Verdict.SLOWER) for verdict, _ in verdicts)


def floors(comparison: Comparison) -> tuple[NullFloor, ...]:
    """Return the noise floor of each metric of a null comparison, judged or shown."""
    return tuple(
        NullFloor(
            v.metric,
            half_width=_finite(
                v.ratio.high / v.ratio.value - 1 if v.ratio.value else 0
            ),
            noise_floor=_finite(v.smallest_effect),
        )
        for v in comparison.verdicts
    )


def _finite(value: float) -> float | None:
    return value if abs(value) < float("inf") else None
