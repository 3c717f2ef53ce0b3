"""Does `bw compare --merge` keep its promises? Simulated jobs, each a whole comparison through the
controller of `bw compare`, which stops as soon as it is decided; then the merge of their evidence.

Jobs differ by a normal or a skewed factor. Seeds are fixed. BW_CALIBRATION=full plays all cells with
1,000 merges each; the small form two cells with 200.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence

import msgspec
import numpy as np
import pytest

from benchwright.core.comparison import ComparisonRule, Gate, GateOutcome, Verdict
from benchwright.decide.compare.conclusion import conclude
from benchwright.decide.compare.decision import NextBlock, decide_comparison
from benchwright.decide.compare.evidence import ComparisonBuilder
from benchwright.features.merge.combine import Question, merge_jobs
from benchwright.features.merge.types import Job
from session_infos import session_info

FULL = os.environ.get("BW_CALIBRATION") == "full"
MERGES = 1_000 if FULL else 200
SEED = 20261130
GATE = Gate("elapsed", "slower", 0.03, "slower by 3%")
RULE = ComparisonRule(2, margin=0.01, maximum=60, warmup=0)


class Rates(msgspec.Struct):
    """How often merges, and single jobs, were right about the population of jobs."""

    covered: int = 0
    """The interval contains the mean over all jobs."""
    predicted: int = 0
    """The prediction interval contains the true ratio of the next job."""
    called_faster: int = 0
    called_slower: int = 0
    gates_failed: int = 0
    single_covered: int = 0
    single_different: int = 0
    bias: float = 0.0


def one_job(rng: np.random.Generator, ratio: float, noise: float, number: int) -> Job:
    """Return a simulated job with this true ratio; `noise`: of the log of a trial's time."""
    builder = ComparisonBuilder(RULE)
    logs = noise * rng.standard_normal((RULE.maximum, 2))
    logs[:, 1] += math.log(ratio)
    for row in np.exp(logs).tolist():
        builder.add([[{"elapsed": value}] for value in row])
        decision = decide_comparison(RULE, builder.history())
        if not isinstance(decision, NextBlock):
            break
    assert not isinstance(decision, NextBlock)
    history = builder.history()
    comparison = conclude(RULE, history, ("old", "new"), decision)
    name = f"job-{number}"
    info = session_info(started_ns=number, boot_id=name)
    return Job(name, name, name, 1, info, None, comparison, (), (), history, ())


def played(
    jobs: int, between: float, effect: float, *, noise: float = 0.03, skewed: bool = False
) -> Rates:
    """Return the rates of merges of so many jobs; `between`: standard deviation of the log of a
    job's true ratio, around `log(effect)`."""
    rng = np.random.default_rng([SEED, jobs, round(1e6 * between), round(1e4 * effect), skewed])
    found = Rates()
    mean = math.log(effect)

    def true_ratio() -> float:
        draw = rng.exponential() - 1 if skewed else rng.standard_normal()
        return math.exp(mean + between * draw)

    for _ in range(MERGES):
        stored = [one_job(rng, true_ratio(), noise, number) for number in range(jobs)]
        merged = merge_jobs(stored, Question(gates=(GATE,)))
        ratio = merged.ratios[0]
        verdict = ratio.verdict
        found.covered += verdict.ratio.low <= effect <= verdict.ratio.high
        found.predicted += ratio.prediction.low <= true_ratio() <= ratio.prediction.high
        found.called_faster += verdict.verdict is Verdict.FASTER
        found.called_slower += verdict.verdict is Verdict.SLOWER
        found.gates_failed += merged.comparison.gates[0].outcome is GateOutcome.FAILED
        found.bias += (math.log(verdict.ratio.value) - mean) / MERGES
        own = stored[0].comparison.verdicts[0]
        found.single_covered += own.ratio.low <= effect <= own.ratio.high
        found.single_different += own.verdict in (Verdict.FASTER, Verdict.SLOWER)
    return found


def share(count: int) -> float:
    return count / MERGES


CELLS: Sequence[tuple[int, float, bool]] = [
    (jobs, between, skewed)
    for jobs in (3, 5, 10)
    for between in (0.0, 0.01, 0.03)
    for skewed in (False, True)
    if between or not skewed
]
TELLING = [(3, 0.0, False), (5, 0.03, False)]
SLACK = 2.6 * math.sqrt(0.05 * 0.95 / MERGES)
"""Of a rate of 5 %: with this, a cell fails by chance in one of a hundred seeds."""


@pytest.mark.parametrize(("jobs", "between", "skewed"), CELLS if FULL else TELLING)
def test_equal_arms(jobs: int, between: float, skewed: bool) -> None:
    found = played(jobs, between, 1.0, skewed=skewed)
    different = share(found.called_faster + found.called_slower)
    print(
        f"{jobs:2} jobs, between {between:.0%}{' skewed' if skewed else ''}: "
        f"covered {share(found.covered):.1%}, predicted {share(found.predicted):.1%}, "
        f"different {different:.1%}, gate failed {share(found.gates_failed):.1%}, "
        f"one job: covered {share(found.single_covered):.1%}, "
        f"different {share(found.single_different):.1%}"
    )
    # A few jobs do not show the tail of a skewed population. Equal programs have none: their arms
    # could be exchanged.
    least = 0.95 if not skewed else 0.88
    assert share(found.covered) >= least - SLACK
    assert share(found.predicted) >= least - SLACK
    assert different <= (1 - least) + SLACK
    if between > 0.01:
        assert share(found.single_different) > 0.3


@pytest.mark.parametrize(
    ("jobs", "between", "effect"),
    [(jobs, between, 1.05) for jobs in (3, 5, 10) for between in (0.0, 0.01, 0.03)]
    if FULL
    else [(5, 0.01, 1.05)],
)
def test_a_difference(jobs: int, between: float, effect: float) -> None:
    found = played(jobs, between, effect)
    print(
        f"{jobs:2} jobs, between {between:.0%}, slower by {effect - 1:.0%}: "
        f"covered {share(found.covered):.1%}, predicted {share(found.predicted):.1%}, "
        f"slower {share(found.called_slower):.1%}, faster {share(found.called_faster):.1%}, "
        f"gate failed {share(found.gates_failed):.1%}, bias {found.bias:+.3%}"
    )
    assert share(found.called_faster) <= SLACK
    assert share(found.covered) >= 0.93 - SLACK
    # A job with a small difference runs longer and has more weight.
    assert -0.002 < found.bias < 0.001
