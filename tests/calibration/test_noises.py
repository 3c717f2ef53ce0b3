"""Do intervals and verdicts hold on noise that no rule was tuned on, or is it said where they do
not?

Every kind of noises.py through `decide` itself. A miss is *silent* if no finding is about it. Where
a kind is beyond what the trials can show, the line of the answer says so: which slow runs may not
have been seen, and how long the visit was. The small form runs in `make test`; BW_CALIBRATION=full
plays every kind with every rule and prints the table.
"""

from __future__ import annotations

import math
import os

import msgspec
import pytest

from benchwright.core.comparison import ComparisonDesign, ComparisonResult, ComparisonRule
from benchwright.core.plan import UntilPrecise
from benchwright.core.results import Severity, SlowRuns
from benchwright.decide.compare.conclusion import conclude
from benchwright.decide.compare.decision import NextBlock, decide_comparison
from benchwright.decide.compare.evidence import ComparisonBuilder
from benchwright.findings.series import series_findings
from benchwright.report.answer import unseen_of
from benchwright.stats.aggregate import MetricRules, TrialValues, metric_columns
from benchwright.stats.intervals import t_half_width
from benchwright.stats.sample import moments
from comparing import DIFFERENT, both_stored, one_comparison, rule_of
from noises import BY_NAME, NOISES, Array, Noise, every, modes
from populations import at_most
from stopping import stop_of

FULL = os.environ.get("BW_CALIBRATION") == "full"
SEED = 20_261_129
REPLICATIONS = 500 if FULL else 150
LENGTH = 1000
SILENT = 0.07
"""Largest share of silent misses,"""
KNOWN = {
    # Ten trials seldom show a warm-up of 10 % to any test.
    ("long mean 5 %", "warm-up of 10 %"): 0.2,
    # Percentiles of bursts of variance: the interval is widened by what 150 values show of them.
    ("p90 5 %", "GARCH"): 0.12,
}
"""... but for these."""
TRIAL_NS = {"long mean 5 %": 60_000_000_000}
RULES = {
    "mean 5 %": UntilPrecise(0.05),
    "mean 2 %": UntilPrecise(0.02),
    "long mean 5 %": UntilPrecise(0.05, long_minimum=10),
    "watched mean 5 %": UntilPrecise(0.05, minimum=20, mode="watch"),
    "median 5 %": UntilPrecise(0.05, share=0.5),
    "p90 5 %": UntilPrecise(0.05, share=0.9),
    "p99 10 %": UntilPrecise(0.1, share=0.99),
}
SMALL = {
    "mean 5 %": tuple(BY_NAME),
    "long mean 5 %": ("Pareto tail 2.5", "clock of 10 ms, 47 ms", "warm-up of 10 %"),
    "watched mean 5 %": ("clock of 1 ms, 12.45 ms", "1 % five times"),
    "p90 5 %": ("GARCH",),
}
CELLS = [
    pytest.param(rule, noise, id=f"{rule}-{noise.name}")
    for rule in RULES
    for noise in NOISES
    if FULL or noise.name in SMALL.get(rule, ())
]
ABOUT_VALUES = ("warm-up", "drift", "dependent-trials", "multimodal", "constant")


class Cell(msgspec.Struct, frozen=True):
    """What a rule came to on one kind of noise; shares of tests."""

    coverage: float
    silent: float
    """Of intervals that miss without a finding,"""
    unsaid: float
    """... and without a line about slow runs that may not have been seen."""
    answered: float
    trials: float


def played(rule: UntilPrecise, noise: Noise, trial_ns: int, count: int) -> Cell:
    """Play a rule on series of one kind."""
    truth = noise.truth(rule.share)
    held = silent = unsaid = answered = trials = 0
    for one in noise.series(SEED, (count, LENGTH)):
        stop, n = stop_of(rule, one, trial_ns)
        found = stop.reached[0].estimate
        trials += n
        answered += stop.answered
        if found is None or found.low <= truth <= found.high:
            held += 1
        elif not is_flagged(one[:n], rule):
            silent += 1
            unsaid += unseen_of("elapsed", found, rule) is None
    return Cell(held / count, silent / count, unsaid / count, answered / count, trials / count)


def is_flagged(values: Array, rule: UntilPrecise) -> bool:
    """Return whether a finding says that these values are not what an interval assumes."""
    observed = [
        TrialValues(epoch, {"elapsed": value}) for epoch, value in enumerate(values.tolist(), 1)
    ]
    book = MetricRules()
    found = series_findings("t", metric_columns(observed, book), book, rule=rule)
    return any(one.code in ABOUT_VALUES or one.severity is not Severity.NOTE for one in found)


@pytest.mark.timeout(1200)
@pytest.mark.parametrize(("name", "noise"), CELLS)
def test_a_miss_is_said(name: str, noise: Noise) -> None:
    found = played(RULES[name], noise, TRIAL_NS.get(name, 0), REPLICATIONS)
    print(
        f"| {noise.name} | {name} | {found.coverage:.1%} | {found.silent:.1%} | {found.unsaid:.1%} | "
        f"{found.answered:.0%} | {found.trials:.0f} |"
    )
    hits = found.unsaid if noise.beyond == "rare" else found.silent
    if noise.beyond != "slow":
        most = KNOWN.get((name, noise.name), SILENT)
        assert at_most(round(hits * REPLICATIONS), REPLICATIONS, most)


# -- visits at other times ---------------------------------------------------------------------

VISITS, HISTORIES = 10, 60
SLOW = [one for one in NOISES if one.beyond == "slow"]
FEW_BURSTS = {"bursts of 20, 20 %": 0.5}
"""Misses of the level where most visits have no burst, and those that have one run longer."""


@pytest.mark.parametrize("noise", SLOW if FULL else [BY_NAME["wave of 400"], BY_NAME["AR(1) 0.98"]])
def test_visits_at_other_times_show_what_one_does_not(noise: Noise) -> None:
    """The level of `bw history` over visits, each at a time of its own, beside the interval of one visit."""
    rule, truth = RULES["mean 5 %"], noise.truth(None)
    alone, means = 0, []
    for one in noise.series(SEED, (VISITS * HISTORIES, LENGTH)):
        stop, n = stop_of(rule, one)
        found = stop.reached[0].estimate
        alone += found is None or found.low <= truth <= found.high
        means.append(math.log(one[:n].mean()))
    missed = 0
    for at in range(0, len(means), VISITS):
        level = moments(means[at : at + VISITS])
        half = t_half_width(level.sdev, level.n, 0.95)
        missed += abs(math.log(truth) - level.mean) > half
    print(
        f"| {noise.name} | one {alone / len(means):.1%} | {VISITS} {1 - missed / HISTORIES:.1%} |"
    )
    assert at_most(missed, HISTORIES, FEW_BURSTS.get(noise.name, SILENT))


# -- comparisons -------------------------------------------------------------------------------

COMPARISONS = 600 if FULL else 120


@pytest.mark.timeout(900)
@pytest.mark.parametrize("kind", ["every second 20 % slower", "every fourth", "GARCH"])
@pytest.mark.parametrize("mode", ["watch", "plan"])
@pytest.mark.parametrize("design", ["blocks", "abba", "round-robin"], ids=lambda design: design)
def test_a_period_of_the_machine_is_no_difference(design: str, mode: str, kind: str) -> None:
    """A command against itself on a machine that is slow at each second or fourth trial."""
    noise = BY_NAME.get(kind) or Noise(kind, every(4, 1.2))
    asked = ComparisonDesign(design)
    rows = noise.series(SEED, (COMPARISONS, 2 * asked.trials_per_block * 100))
    hits = 0
    for number, row in enumerate(rows):
        rule = rule_of(asked, mode=mode, seed=number)
        values = [[value] for value in row.tolist()]
        found = one_comparison(rule, values, 1.0, ["old", "new"])
        hits += found.verdicts[0].verdict in DIFFERENT
    print(f"{design}, {mode}, {kind}: {hits / COMPARISONS:.1%}")
    assert at_most(hits, COMPARISONS, 0.05)


def interleaved(rule: ComparisonRule, old: Array, new: Array) -> ComparisonResult:
    """Run a comparison of two processes, each of which goes on from trial to trial."""
    builder, names = ComparisonBuilder(rule), ("old", "new")
    for one, other in zip(old.tolist(), new.tolist(), strict=True):
        decision = decide_comparison(rule, builder.history())
        if not isinstance(decision, NextBlock):
            return conclude(rule, builder.history(), names, decision)
        builder.add([[{"elapsed": one}], [{"elapsed": other}]])
    raise AssertionError("the maximum ends it")


@pytest.mark.timeout(900)
@pytest.mark.parametrize("share", [0.01, 0.02, 0.05])
def test_equivalence_says_which_slow_runs_it_may_have_missed(share: float) -> None:
    """A candidate of which a share of trials takes five times as long, without and with `--rare`."""
    candidate = Noise(f"{share:.0%} five times", modes(share, 5, cv=0.005))
    base = Noise("base", modes(0.0, 1, cv=0.005))
    counts = {}
    for rare in (None, SlowRuns(share)):
        rule = rule_of(margin=0.01, maximum=400, rare=rare)
        same = 0
        new = candidate.series(SEED, (COMPARISONS, 800))
        old = base.series(SEED, (COMPARISONS, 800))
        for number in range(COMPARISONS):
            own = msgspec.structs.replace(rule, seed=number)
            found = interleaved(own, old[number], new[number])
            verdict = found.verdicts[0]
            if verdict.verdict == "equivalent":
                same += 1
                assert verdict.unseen_share is not None
                assert rare is None or verdict.unseen_share <= share
                assert "may miss slow runs rarer than 1 in" in verdict.reason
        counts[rare is None] = same / COMPARISONS
    print(f"{share:.0%}: equivalent {counts[True]:.1%}, with --rare {counts[False]:.1%}")
    assert at_most(round(counts[False] * COMPARISONS), COMPARISONS, 0.05)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("sizes", [(20, 100), (100, 20), (50, 50), (12, 100)])
@pytest.mark.parametrize("kind", ["3 % five times", "normal 10 %", "Pareto tail 2.5"])
def test_stored_results_of_unequal_size_rarely_differ(sizes: tuple[int, int], kind: str) -> None:
    """Two stored results of one process."""
    count = 4 * COMPARISONS
    values = BY_NAME[kind].series(SEED, (count, sum(sizes)))
    hits = sum(
        both_stored(row[: sizes[0]], row[sizes[0] :]).verdicts[0].verdict in DIFFERENT
        for row in values
    )
    print(f"{kind}, {sizes}: {hits / count:.1%}")
    assert at_most(hits, count, 0.05)
