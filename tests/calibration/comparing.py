"""Whole comparisons over prepared values, through the controllers and conclusions of `bw compare`."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from benchwright.core.comparison import (
    ComparisonDesign,
    ComparisonResult,
    ComparisonRule,
    Gate,
    Verdict,
)
from benchwright.core.plan import StopDecision
from benchwright.decide.compare.conclusion import conclude
from benchwright.decide.compare.decision import NextBlock, decide_comparison
from benchwright.decide.compare.evidence import ComparisonBuilder
from benchwright.suite.comparison import PILOT

PAIRS = 100
"""Pairs of trials at most, each of them looked at."""
NO_MARGIN = 1e-9
"""So small that equivalence hides no false difference."""
DIFFERENT = (Verdict.FASTER, Verdict.SLOWER)
NAMES = ("old", "new")
GATE = Gate("elapsed", "slower", 0.02, "slower by 2%")

Array = npt.NDArray[np.float64]


def rule_of(design: ComparisonDesign = ComparisonDesign.BLOCKS, **more: Any) -> ComparisonRule:
    """Return a rule for at most PAIRS pairs of trials, without warm-up."""
    given = {
        "arms": 2,
        "design": design,
        "margin": NO_MARGIN,
        "maximum": PAIRS // (2 if design is ComparisonDesign.ABBA else 1),
        "warmup": 0,
        "minimum": PILOT if more.get("mode") == "plan" else 10,
    }
    return ComparisonRule(**(given | more))


def one_comparison(
    rule: ComparisonRule, values: list[list[float]], effect: float, names: list[str]
) -> ComparisonResult:
    """Run one comparison over prepared values, one row per trial in order of time."""
    builder = ComparisonBuilder(rule)
    last, at = rule.arms - 1, 0
    metrics = [metric.name for metric in rule.metrics]
    while True:
        history = builder.history()
        decision = decide_comparison(rule, history)
        if not isinstance(decision, NextBlock):
            return conclude(rule, history, names, decision)
        block: list[list[dict[str, float]]] = [[] for _ in names]
        for place in decision.order:
            factor = effect if place == last else 1.0
            block[place].append({m: v * factor for m, v in zip(metrics, values[at], strict=True)})
            at += 1
        builder.add(block)


def any_difference(comparison: ComparisonResult) -> bool:
    """Return whether any verdict is a difference."""
    return any(v.verdict in DIFFERENT for v in comparison.verdicts)


def both_stored(baseline: Array, candidate: Array) -> ComparisonResult:
    """Return what `bw compare OLD NEW` comes to."""
    rule = ComparisonRule(
        2,
        design=ComparisonDesign.STORED,
        warmup=0,
        minimum=2,
        once=True,
        gates=(GATE,),
        margin=1e-9,
    )
    builder = ComparisonBuilder(rule)
    arms = [[{"elapsed": v} for v in arm.tolist()] for arm in (baseline, candidate)]
    builder.add(arms)
    return conclude(rule, builder.history(), NAMES, StopDecision("stored", ""))
