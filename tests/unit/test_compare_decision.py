"""The controller of comparisons: orders, decisions, verdicts, gates, edge cases."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
import pytest

from benchwright.core.comparison import (
    ComparedMetric,
    ComparisonDesign,
    ComparisonResult,
    ComparisonRule,
    Gate,
    GateOutcome,
    StoredArm,
    Verdict,
)
from benchwright.core.plan import StopDecision
from benchwright.core.results import SlowRuns
from benchwright.decide.compare.conclusion import comparison_progress, conclude, false_positives
from benchwright.decide.compare.decision import NextBlock, block_order, decide_comparison
from benchwright.decide.compare.evidence import ComparisonBuilder, ComparisonHistory
from benchwright.decide.compare.intervals import watched_effect
from benchwright.stats.intervals import t_mixture_interval, t_mixture_p_of_moments, t_quantile
from benchwright.stats.sample import moments
from benchwright.stats.two_sample import ratio_of_means

SEED = 20261121


def rule_of(**more: Any) -> ComparisonRule:
    """Return a rule for two arms without warm-up."""
    return ComparisonRule(**({"arms": 2, "warmup": 0} | more))


def history_of(
    rule: ComparisonRule, baseline: Sequence[float], candidate: Sequence[float]
) -> ComparisonHistory:
    """Return the history of blocks of one trial each of `elapsed`."""
    builder = ComparisonBuilder(rule)
    for one, other in zip(baseline, candidate, strict=True):
        builder.add([[{"elapsed": one}], [{"elapsed": other}]])
    return builder.history()


def answer(rule: ComparisonRule, history: ComparisonHistory) -> ComparisonResult:
    """Return what a history comes to."""
    names = [f"arm{place}" for place in range(rule.arms)]
    return conclude(rule, history, names, StopDecision("test", ""))


def noisy(count: int, factor: float = 1.0, cv: float = 0.02, seed: int = SEED) -> Any:
    """Return times around a mean of `factor`."""
    return factor * np.exp(cv * np.random.default_rng(seed).standard_normal(count))


# -- orders ------------------------------------------------------------------------------


def test_blocks_are_shuffled_by_seed_and_number_alone() -> None:
    rule = rule_of(arms=3, seed=7)
    orders = [block_order(rule, block) for block in range(60)]
    assert orders == [block_order(rule, block) for block in range(60)]
    assert all(sorted(order) == [0, 1, 2] for order in orders)
    assert len(set(orders)) == 6, "every order comes up"
    assert orders != [block_order(rule_of(arms=3, seed=8), b) for b in range(60)]


def test_every_design_begins_its_blocks_at_random() -> None:
    abba = rule_of(arms=2, design=ComparisonDesign.ABBA)
    turns = rule_of(arms=3, design=ComparisonDesign.ROUND_ROBIN)
    assert {block_order(abba, block) for block in range(40)} == {(0, 1, 1, 0), (1, 0, 0, 1)}
    assert {block_order(turns, block) for block in range(40)} == {(0, 1, 2), (1, 2, 0), (2, 0, 1)}


def test_a_sequence_and_a_stored_baseline_have_fixed_orders() -> None:
    sequence = rule_of(design=ComparisonDesign.SEQUENCE, maximum=3, warmup=1)
    assert block_order(sequence, 0) == (0, 0, 0, 0, 1, 1, 1, 1)
    stored = rule_of(stored=StoredArm("old", "study", {}))
    assert block_order(stored, 0) == (1,)


# -- the watched mode --------------------------------------------------------------------


def test_no_look_before_the_minimum_and_one_after_every_block() -> None:
    rule = rule_of()
    slower = history_of(rule, noisy(9), noisy(9, 2.0, seed=1))
    assert isinstance(decide_comparison(rule, slower), NextBlock)
    slower = history_of(rule, noisy(10), noisy(10, 2.0, seed=1))
    stop = decide_comparison(rule, slower)
    assert isinstance(stop, StopDecision)
    assert (stop.reason, stop.answered, stop.looks) == ("answered", True, 1)


def test_a_metric_that_no_arm_has_ends_the_comparison_after_one_block() -> None:
    metrics = (ComparedMetric("elapsed"), ComparedMetric("instructions"))
    rule = rule_of(metrics=metrics)
    stop = decide_comparison(rule, history_of(rule, [1.0], [1.1]))
    assert isinstance(stop, StopDecision)
    assert (stop.reason, stop.answered) == ("missing", False)
    assert "--instructions" in stop.detail
    # One arm has it: the other may yet.
    builder = ComparisonBuilder(rule)
    builder.add([[{"elapsed": 1.0, "instructions": 5.0}], [{"elapsed": 1.0}]])
    assert isinstance(decide_comparison(rule, builder.history()), NextBlock)
    # A metric that is only shown stops nothing.
    shown = rule_of(metrics=(metrics[0], ComparedMetric("user", judged=False)))
    assert isinstance(decide_comparison(shown, history_of(shown, [1.0], [1.1])), NextBlock)


def test_the_interval_and_p_are_those_of_the_confidence_sequence() -> None:
    rule = rule_of()
    one, other = noisy(17), noisy(17, 1.01, seed=1)
    (verdict,) = answer(rule, history_of(rule, one, other)).verdicts
    differences = np.log(other / one)
    expected = t_mixture_interval(differences, 0.95)
    assert math.log(verdict.ratio.value) == pytest.approx(expected.value, rel=1e-9)
    assert math.log(verdict.ratio.low) == pytest.approx(expected.low, rel=1e-9)
    assert math.log(verdict.ratio.high) == pytest.approx(expected.high, rel=1e-9)
    assert verdict.p == pytest.approx(t_mixture_p_of_moments(moments(differences)), rel=1e-9)
    assert verdict.mean_candidate == pytest.approx(math.exp(np.log(other).mean()))


@pytest.mark.parametrize(
    ("factor", "better", "expected"),
    [
        (1.5, "lower", Verdict.SLOWER),
        (1.5, "higher", Verdict.FASTER),
        (0.7, "lower", Verdict.FASTER),
        (0.7, "higher", Verdict.SLOWER),
        (1.0, "lower", Verdict.EQUIVALENT),
    ],
)
def test_verdicts_are_the_candidates(factor: float, better: Any, expected: Verdict) -> None:
    rule = rule_of(margin=0.05, metrics=(ComparedMetric("elapsed", better),))
    history = history_of(rule, noisy(30), noisy(30, factor, seed=1))
    (verdict,) = answer(rule, history).verdicts
    assert verdict.verdict is expected
    assert (verdict.n_baseline, verdict.n_candidate, verdict.blocks) == (30, 30, 30)


def test_equivalence_goes_before_a_difference_within_the_margin() -> None:
    rule = rule_of(margin=0.05)
    history = history_of(rule, noisy(60, cv=0.001), noisy(60, 1.01, 0.001, seed=1))
    (verdict,) = answer(rule, history).verdicts
    assert verdict.ratio.low > 1, "it differs"
    assert verdict.verdict is Verdict.EQUIVALENT, "and it does not matter"


def test_the_most_blocks_and_the_time_end_it_undecided() -> None:
    rule = rule_of(maximum=12)
    history = history_of(rule, noisy(12, cv=0.3), noisy(12, cv=0.3, seed=1))
    stop = decide_comparison(rule, history)
    assert isinstance(stop, StopDecision)
    assert (stop.reason, stop.answered) == ("max-blocks", False)
    assert answer(rule, history).verdicts[0].verdict is Verdict.UNDECIDED
    timed = rule_of(max_time_ns=10_000)
    builder = ComparisonBuilder(timed)
    for _ in range(4):
        builder.add([[{"elapsed": 1.0}], [{"elapsed": 1.1}]], 2_400)
    stop = decide_comparison(timed, builder.history())
    assert isinstance(stop, StopDecision), "a fifth block would end too late"
    assert (stop.reason, stop.answered) == ("max-time", False)


# -- the planned mode --------------------------------------------------------------------


def test_a_plan_looks_once_at_steins_size() -> None:
    from scipy.stats import t

    rule = rule_of(mode="plan", margin=0.01, maximum=10_000)
    one, other = noisy(10_000), noisy(10_000, seed=1)
    differences = np.log(other / one)
    spread = float(np.std(differences[:10], ddof=1))
    level = 0.04
    c = t.ppf(1 - level / 2, 9) + t.ppf(0.8, 9)
    need = math.ceil((c * spread / math.log1p(0.01)) ** 2)
    before = history_of(rule, one[: need - 1], other[: need - 1])
    assert isinstance(decide_comparison(rule, before), NextBlock)
    after = history_of(rule, one[:need], other[:need])
    stop = decide_comparison(rule, after)
    assert isinstance(stop, StopDecision)
    assert (stop.reason, stop.looks) == ("planned", 1)
    (verdict,) = answer(rule, after).verdicts
    half = t.ppf(0.975, 9) * spread / math.sqrt(need)
    mean = float(np.mean(differences[:need]))
    assert math.log(verdict.ratio.high) == pytest.approx(mean + half, rel=1e-9)
    assert verdict.p == pytest.approx(2 * t.sf(abs(mean) * math.sqrt(need) / spread, 9), rel=1e-9)
    assert verdict.smallest_effect == pytest.approx(
        math.exp(c * spread / math.sqrt(need)) - 1, rel=1e-9
    )
    assert verdict.smallest_effect <= 0.01


def test_a_pilot_that_all_blocks_contradict_is_not_relied_on() -> None:
    from scipy.stats import f

    rule = rule_of(mode="plan", minimum=10, maximum=40)
    calm = np.tile([0.01, -0.01], 5)
    for wild, contradicted in ((0.05, True), (0.011, False)):
        differences = np.concatenate([calm, np.tile([wild, -wild], 15)])
        history = history_of(rule, [1.0] * 40, np.exp(differences))
        ratio = answer(rule, history).verdicts[0].ratio
        pilot, every = np.std(calm, ddof=1), np.std(differences, ddof=1)
        assert (every**2 / pilot**2 > f.ppf(0.9, 39, 9)) is np.bool_(contradicted)
        spread = every if contradicted else pilot
        expected = t_quantile(0.95, 9) * spread / math.sqrt(40)
        assert math.log(ratio.high) == pytest.approx(expected, rel=1e-6)


def test_one_look_spends_four_fifths_of_the_level_and_says_so() -> None:
    rule = rule_of(mode="plan", margin=1e-6, maximum=10)
    differences = np.array([1.0, -1.0] * 5)
    p_wanted, found = 0.045, None
    for shift in np.linspace(0.5, 1.2, 2001):
        candidate = np.exp(differences + shift)
        (verdict,) = answer(rule, history_of(rule, [1.0] * 10, candidate)).verdicts
        if abs(verdict.p - p_wanted) < 0.001:
            found = verdict
    assert found is not None
    assert found.ratio.low > 1
    assert found.verdict is Verdict.UNDECIDED
    assert "is above 4 %" in found.reason


def alternating(values: Any) -> Any:
    """Return the values in an order of which no neighbours resemble each other."""
    ordered, half = np.sort(values), len(values) // 2
    return np.column_stack([ordered[:half], ordered[half:][::-1]]).ravel()


def against_stored(baseline: Any, candidate: Any, gates: tuple[Gate, ...] = ()) -> ComparisonResult:
    """Return what a candidate comes to against a stored baseline."""
    stored = StoredArm("old", "study:old", {"elapsed": tuple(baseline.tolist())})
    most = len(candidate)
    rule = rule_of(mode="plan", stored=stored, minimum=10, maximum=most, gates=gates, margin=1e-6)
    builder = ComparisonBuilder(rule)
    for value in candidate:
        builder.add([[], [{"elapsed": float(value)}]])
    return answer(rule, builder.history())


def waves(count: int, seed: int, factor: float = 1.0, first: float = 0.8) -> Any:
    """Return times of which neighbours correlate by `first`, CV 5 %."""
    rng = np.random.default_rng(seed)
    found = [rng.standard_normal()]
    for _ in range(count - 1):
        own = math.sqrt(1 - first**2) * rng.standard_normal()
        found.append(first * found[-1] + own)
    return factor * np.exp(0.05 * np.asarray(found))


def test_dependence_of_either_arm_widens_the_interval_and_the_p_value() -> None:
    plain = alternating(noisy(60, cv=0.05)), alternating(noisy(60, 1.03, 0.05, seed=1))
    (before,) = against_stored(*plain).verdicts
    assert before.widened < 1.05
    for pair in ((waves(60, 2), plain[1]), (plain[0], waves(60, 3, 1.03))):
        (verdict,) = against_stored(*pair).verdicts
        assert verdict.widened > 1.3
        own = ratio_of_means(*pair)
        wide = math.log(verdict.ratio.high / verdict.ratio.low)
        assert wide > 1.3 * math.log(own.high / own.low)
        distance = abs(math.log(verdict.ratio.value)) / wide
        assert (distance > 0.5) is (verdict.p < 0.05), "both come from one error"


def test_a_step_within_both_arms_as_large_as_their_difference_leaves_it_undecided() -> None:
    gate = Gate("elapsed", "slower", 0.05, "slower by 5%")
    step = np.concatenate([noisy(10, cv=0.001), noisy(10, 2.0, cv=0.001)])
    found = against_stored(step, 0.5 * step, (gate,))
    (verdict,) = found.verdicts
    assert verdict.verdict is Verdict.UNDECIDED
    assert verdict.ratio.low < 0.5 < 1 < verdict.ratio.high < math.inf
    assert found.gates[0].outcome is GateOutcome.UNDECIDED
    assert found.exit_status == 3


@pytest.mark.parametrize("count", [1, 2, 9])
def test_a_baseline_of_few_trials_decides_no_gate(count: int) -> None:
    gate = Gate("elapsed", "slower", 0.05, "slower by 5%")
    for factor in (1.0, 3.0):
        found = against_stored(noisy(count), noisy(20, factor), (gate,))
        assert found.gates[0].outcome is GateOutcome.UNDECIDED
    assert against_stored(noisy(10), noisy(20, 3.0), (gate,)).exit_status == 1


def test_a_stored_baseline_is_welch_on_logs_with_a_little_for_dependence() -> None:
    from scipy.stats import ttest_ind

    values = alternating(noisy(300))
    stored = StoredArm("old", "study:old", {"elapsed": tuple(values.tolist())})
    rule = rule_of(mode="plan", stored=stored, minimum=10, maximum=10)
    builder = ComparisonBuilder(rule)
    # Noisier than the baseline: a quieter one would get the deviation of both.
    candidate = alternating(noisy(10, 1.1, cv=0.06, seed=1))
    for value in candidate:
        builder.add([[], [{"elapsed": value}]])
    (verdict,) = answer(rule, builder.history()).verdicts
    test = ttest_ind(np.log(candidate), np.log(values), equal_var=False)
    interval = test.confidence_interval(0.95)
    wide = math.log(verdict.ratio.high / verdict.ratio.low)
    assert 1 < verdict.widened < 1.05
    assert wide / (interval.high - interval.low) == pytest.approx(verdict.widened, rel=0.01)
    ours = ratio_of_means(values, candidate)
    assert verdict.ratio.value == pytest.approx(ours.value, rel=1e-9)
    assert verdict.ratio.method == ours.method
    assert (verdict.n_baseline, verdict.n_candidate, verdict.blocks) == (300, 10, None)


# -- designs -----------------------------------------------------------------------------


def test_abba_averages_the_two_ratios_of_a_block() -> None:
    rule = rule_of(design=ComparisonDesign.ABBA)
    builder = ComparisonBuilder(rule)
    builder.add([[{"elapsed": 1.0}, {"elapsed": 4.0}], [{"elapsed": 2.0}] * 2])
    builder.add([[{"elapsed": 1.0}, {"elapsed": 1.0}], [{"elapsed": 2.0}] * 2])
    (evidence,) = builder.history().evidence.values()
    assert evidence.difference.n == 2
    assert evidence.difference.mean == pytest.approx(math.log(2) / 2)
    assert (evidence.baseline.n, evidence.candidate.n) == (4, 4)


def test_warm_up_blocks_count_for_nothing() -> None:
    rule = rule_of(warmup=2)
    builder = ComparisonBuilder(rule)
    for value in (100.0, 50.0, 1.0, 1.0):
        builder.add([[{"elapsed": 1.0}], [{"elapsed": value}]])
    builder.add([[None], [{"elapsed": 1.0}]])
    history = builder.history()
    assert (history.run, history.blocks, history.failed) == (5, 2, 1)
    assert history.evidence["elapsed", 1].difference.mean == 0


def test_a_sequence_is_one_block_and_is_not_paired() -> None:
    rule = rule_of(design=ComparisonDesign.SEQUENCE, maximum=5, warmup=1)
    builder = ComparisonBuilder(rule)
    one: list[dict[str, float] | None] = [{"elapsed": 9.0}]
    one += [{"elapsed": 1.0 + 0.1 * n} for n in range(5)]
    builder.add([one, [*one[:4], None, None]])
    history = builder.history()
    assert history.evidence["elapsed", 1].baseline.n == 5
    assert history.evidence["elapsed", 1].candidate.n == 3
    stop = decide_comparison(rule, history)
    assert isinstance(stop, StopDecision)
    assert stop.reason == "count"


# -- several questions -------------------------------------------------------------------


def with_metrics(rule: ComparisonRule, count: int, **factors: float) -> Any:
    """Return a history of blocks with several metrics; the last arm has the factors."""
    rng = np.random.default_rng(SEED)
    builder = ComparisonBuilder(rule)
    for _ in range(count):
        noise = np.exp(0.02 * rng.standard_normal((rule.arms, len(rule.metrics))))
        block = [
            [{m.name: float(v) for m, v in zip(rule.metrics, row, strict=True)}] for row in noise
        ]
        for name, factor in factors.items():
            block[-1][0][name] *= factor
        builder.add(block)
    return builder.history()


def test_it_goes_on_until_every_judged_metric_is_answered() -> None:
    metrics = (ComparedMetric("elapsed"), ComparedMetric("ops", "higher"))
    rule = rule_of(metrics=metrics, margin=0.002)
    history = with_metrics(rule, 12, elapsed=1.5)
    assert isinstance(decide_comparison(rule, history), NextBlock), "ops is open"
    shown = (metrics[0], msgspec.structs.replace(metrics[1], judged=False))
    rule = rule_of(metrics=shown, margin=0.002)
    stop = decide_comparison(rule, with_metrics(rule, 12, elapsed=1.5))
    assert isinstance(stop, StopDecision), "ops is only shown"
    verdicts = answer(rule, with_metrics(rule, 12, elapsed=1.5)).verdicts
    assert [v.verdict for v in verdicts] == [Verdict.SLOWER, None]


def test_p_values_are_adjusted_over_metrics_and_candidates() -> None:
    multitest = pytest.importorskip("statsmodels.stats.multitest")
    metrics = (ComparedMetric("elapsed"), ComparedMetric("lag"))
    gate = Gate("elapsed", "slower", 0.5, "slower by 50%")
    for gates, method, name in (((), "fdr_bh", "benjamini-hochberg"), ((gate,), "holm", "holm")):
        rule = rule_of(arms=3, metrics=metrics, gates=gates)
        verdicts = answer(rule, with_metrics(rule, 15, elapsed=1.02)).verdicts
        assert len(verdicts) == 4
        expected = multitest.multipletests([v.p for v in verdicts], method=method)[1]
        assert [v.p_adjusted for v in verdicts] == pytest.approx(list(expected))
        assert {v.adjustment for v in verdicts} == {name}


# -- gates -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("factor", "better", "direction", "expected"),
    [
        (1.2, "lower", "slower", GateOutcome.FAILED),
        (1.0, "lower", "slower", GateOutcome.PASSED),
        (0.8, "lower", "slower", GateOutcome.PASSED),
        (1.05, "lower", "slower", GateOutcome.UNDECIDED),
        (0.8, "lower", "faster", GateOutcome.FAILED),
        (1.0, "lower", "faster", GateOutcome.PASSED),
        (0.8, "higher", "slower", GateOutcome.FAILED),
        (1.2, "higher", "slower", GateOutcome.PASSED),
        (1.2, "higher", "faster", GateOutcome.FAILED),
    ],
)
def test_gates(factor: float, better: Any, direction: Any, expected: GateOutcome) -> None:
    gate = Gate("elapsed", direction, 0.05, f"{direction} by 5%")
    rule = rule_of(gates=(gate,), metrics=(ComparedMetric("elapsed", better),))
    found = answer(rule, history_of(rule, noisy(30), noisy(30, factor, seed=1)))
    assert found.gates[0].outcome is expected
    status = {GateOutcome.FAILED: 1, GateOutcome.PASSED: 0, GateOutcome.UNDECIDED: 3}[expected]
    assert found.exit_status == status


def test_the_search_goes_on_until_the_gate_is_answered_too() -> None:
    gate = Gate("elapsed", "slower", 0.05, "slower by 5%")
    one, other = noisy(12), noisy(12, 1.05, seed=1)
    plain, gated = rule_of(), rule_of(gates=(gate,))
    assert isinstance(decide_comparison(plain, history_of(plain, one, other)), StopDecision)
    history = history_of(gated, one, other)
    assert isinstance(decide_comparison(gated, history), NextBlock)


# -- edge cases --------------------------------------------------------------------------


@pytest.mark.parametrize("count", [0, 1, 2])
@pytest.mark.parametrize("mode", ["watch", "plan"])
def test_few_blocks_give_no_verdict_and_no_error(count: int, mode: str) -> None:
    rule = rule_of(mode=mode)
    history = history_of(rule, noisy(count), noisy(count, 2.0, seed=1))
    assert isinstance(decide_comparison(rule, history), NextBlock)
    (verdict,) = answer(rule, history).verdicts
    assert verdict.verdict is Verdict.UNDECIDED
    assert verdict.reason == f"no interval yet: {count} of at least 10 blocks"
    assert math.isnan(verdict.ratio.high)
    assert math.isnan(verdict.ratio.value) is (count == 0)
    comparison_progress(rule, history, ["a", "b"])


@pytest.mark.parametrize("mode", ["watch", "plan"])
def test_constant_data(mode: str) -> None:
    rule = rule_of(mode=mode, minimum=3, maximum=20)
    few = history_of(rule, [2.0] * 19, [2.0] * 19)
    assert isinstance(decide_comparison(rule, few), NextBlock)
    equal = history_of(rule, [2.0] * 20, [2.0] * 20)
    stop = decide_comparison(rule, equal)
    assert isinstance(stop, StopDecision)
    assert stop.answered
    (verdict,) = answer(rule, equal).verdicts
    assert verdict.verdict is Verdict.EQUIVALENT
    assert verdict.p == 1
    for count, expected in ((3, Verdict.UNDECIDED), (10, Verdict.SLOWER)):
        different = history_of(rule, [2.0] * count, [3.0] * count)
        (verdict,) = answer(rule, different).verdicts
        assert verdict.verdict is expected
        assert f"the same ratio in all of {count} blocks" in verdict.reason
        assert verdict.p == 0
        assert verdict.ratio.low == verdict.ratio.high == pytest.approx(1.5)


@pytest.mark.parametrize("mode", ["watch", "plan"])
def test_a_value_that_is_not_positive_has_no_ratio(mode: str) -> None:
    rule = rule_of(mode=mode, maximum=100)
    history = history_of(rule, noisy(10), [*noisy(9, 2.0, seed=1), 0.0])
    stop = decide_comparison(rule, history)
    assert isinstance(stop, StopDecision), "no further block would help"
    assert (stop.reason, stop.answered) == ("unanswerable", False)
    (verdict,) = answer(rule, history).verdicts
    assert verdict.verdict is Verdict.UNDECIDED
    assert verdict.reason.startswith("1 block with a value that is not positive")


def test_blocks_without_the_metric_do_not_count_for_it() -> None:
    metrics = (ComparedMetric("elapsed"), ComparedMetric("ops"))
    rule = rule_of(metrics=metrics)
    builder = ComparisonBuilder(rule)
    for number in range(10):
        own = {"elapsed": 1.0, "ops": float("nan") if number == 4 else 2.0}
        builder.add([[{"elapsed": 1.0, "ops": 2.0}], [own]])
    builder.add([[{"elapsed": 1.0}], [{"elapsed": 1.0, "ops": 1.0}]])
    evidence = builder.history().evidence
    assert evidence["elapsed", 1].n == 11
    assert evidence["ops", 1].n == 9
    assert evidence["ops", 1].missing == 2


def test_a_metric_that_never_comes_ends_the_wait_for_it() -> None:
    metrics = (ComparedMetric("elapsed"), ComparedMetric("ops"))
    rule = rule_of(metrics=metrics)
    builder = ComparisonBuilder(rule)
    for _ in range(30):
        builder.add([[{"elapsed": 1.0}], [{"elapsed": 1.0}]])
    stop = decide_comparison(rule, builder.history())
    assert isinstance(stop, StopDecision)
    assert (stop.reason, stop.answered) == ("missing", False)
    assert "missing in all of 30" in answer(rule, builder.history()).verdicts[1].reason


def test_nothing_is_ruled_out_before_thirty_blocks() -> None:
    """A slow mode of 15 % in one arm is in none of 10 blocks with 20 %, however much faster the
    other trials are."""
    rule = rule_of(margin=0.05, gates=(Gate("elapsed", "slower", 0.05, "slower by 5%"),))
    for blocks, verdict, outcome in (
        (29, Verdict.UNDECIDED, GateOutcome.UNDECIDED),
        (30, Verdict.EQUIVALENT, GateOutcome.PASSED),
    ):
        history = history_of(rule, noisy(blocks), noisy(blocks, seed=1))
        found = answer(rule, history)
        assert found.verdicts[0].verdict is verdict
        assert found.gates[0].outcome is outcome
    for blocks, outcome in ((29, GateOutcome.UNDECIDED), (30, GateOutcome.PASSED)):
        faster = history_of(rule, noisy(blocks), noisy(blocks, 0.5, seed=1))
        found = answer(rule, faster)
        assert found.verdicts[0].verdict is Verdict.FASTER
        (gate,) = found.gates
        assert gate.outcome is outcome
        too_few = gate.detail.startswith("29 blocks, a gate passes from 30 on; ratio 0.5")
        assert too_few is (outcome is GateOutcome.UNDECIDED)
    assert isinstance(
        decide_comparison(rule, history_of(rule, noisy(10), noisy(10, 0.5, seed=1))), NextBlock
    )
    abba = rule_of(margin=0.05, design=ComparisonDesign.ABBA)
    assert (abba.blocks_for_sameness, rule.blocks_for_sameness) == (15, 30)
    assert rule_of(maximum=12).blocks_for_sameness == 12
    rare = rule_of(maximum=500, rare=SlowRuns(0.01))
    assert rare.blocks_for_sameness == 299


def test_what_is_ruled_out_says_which_slow_runs_may_be_unseen() -> None:
    rule = rule_of(margin=0.05, gates=(Gate("elapsed", "slower", 0.05, "slower by 5%"),))
    found = answer(rule, history_of(rule, noisy(40), noisy(40, seed=1)))
    assert found.verdicts[0].verdict is Verdict.EQUIVALENT
    text = "40 trials of each may miss slow runs rarer than 1 in 13"
    assert found.verdicts[0].reason == text
    assert found.verdicts[0].unseen_share == pytest.approx(0.0722, abs=1e-4)
    (gate,) = found.gates
    assert gate.outcome is GateOutcome.PASSED
    assert text in gate.detail


def test_nothing_is_ruled_out_before_the_rare_runs_would_have_been_seen() -> None:
    rule = rule_of(
        margin=0.05,
        maximum=500,
        rare=SlowRuns(0.02),
        gates=(Gate("elapsed", "slower", 0.05, "slower by 5%"),),
    )
    found = answer(rule, history_of(rule, noisy(148), noisy(148, seed=1)))
    assert found.verdicts[0].verdict is Verdict.UNDECIDED
    assert found.gates[0].outcome is GateOutcome.UNDECIDED
    assert "148 blocks, a gate passes from 149 on" in found.gates[0].detail
    found = answer(rule, history_of(rule, noisy(149), noisy(149, seed=1)))
    assert found.verdicts[0].verdict is Verdict.EQUIVALENT
    assert found.gates[0].outcome is GateOutcome.PASSED


def test_failures_end_it_when_they_outnumber_the_rest() -> None:
    rule = rule_of()
    builder = ComparisonBuilder(rule)
    for _ in range(9):
        builder.add([[{"elapsed": 1.0}], [None]])
    assert isinstance(decide_comparison(rule, builder.history()), NextBlock)
    builder.add([[{"elapsed": 1.0}], [None]])
    stop = decide_comparison(rule, builder.history())
    assert isinstance(stop, StopDecision)
    assert (stop.reason, stop.answered) == ("failed", False)


@pytest.mark.parametrize("size", [1e-300, 1e300])
def test_sizes_at_the_ends_of_what_a_float_holds(size: float) -> None:
    rule = rule_of(margin=0.05)
    history = history_of(rule, noisy(20, size), noisy(20, size * 1.5, seed=1))
    (verdict,) = answer(rule, history).verdicts
    assert verdict.verdict is Verdict.SLOWER
    assert verdict.ratio.value == pytest.approx(1.5, rel=0.05)
    assert verdict.mean_baseline == pytest.approx(size, rel=0.05)


def test_a_ratio_beyond_what_a_float_holds_is_told_all_the_same() -> None:
    rule = rule_of()
    history = history_of(rule, noisy(20, 1e-300), noisy(20, 1e300, seed=1))
    (verdict,) = answer(rule, history).verdicts
    assert verdict.verdict is Verdict.SLOWER
    assert math.isinf(verdict.ratio.value)


# -- the smallest effect, the null -------------------------------------------------------


@pytest.mark.parametrize(("seconds", "answered"), [(5, False), (20, True)])
def test_a_null_comparison_ends_at_its_time_limit(seconds: int, answered: bool) -> None:
    rule = rule_of(exactly=40, max_time_ns=seconds * 10**9)
    builder = ComparisonBuilder(rule)
    while isinstance(stop := decide_comparison(rule, builder.history()), NextBlock):
        builder.add([[{"elapsed": 1.0}], [{"elapsed": 1.0}]], 10**9)
    assert (stop.reason, stop.answered) == ("max-time", answered)
    assert builder.history().blocks == seconds


def test_the_smallest_effect_falls_with_blocks_and_rises_with_power() -> None:
    sizes = [watched_effect(n, 10, 0.95, 0.05, 0.8) for n in (9, 10, 20, 50, 200)]
    assert math.isinf(sizes[0])
    assert sizes == sorted(sizes, reverse=True)
    assert watched_effect(50, 10, 0.95, 0.05, 0.95) > sizes[3]
    assert watched_effect(50, 10, 0.95, 0.01, 0.8) > sizes[3]


def test_relabelling_finds_the_rate_of_a_fair_machine() -> None:
    rule = rule_of(exactly=40, seed=3)
    rng = np.random.default_rng(SEED)
    pairs = np.exp(0.05 * rng.standard_normal((40, 2))).tolist()
    blocks = [[[{"elapsed": one}], [{"elapsed": other}]] for one, other in pairs]
    rate = false_positives(rule, blocks)
    assert 0 < rate < 0.05
    assert rate == false_positives(rule, blocks), "the seed is the rule's"


def test_relabelling_of_a_biased_machine_is_fair_again() -> None:
    """Swapping labels takes away what made the second trial slower."""
    rng = np.random.default_rng(SEED)
    pairs = np.exp(0.01 * rng.standard_normal((40, 2))) * [1.0, 1.5]
    blocks = [[[{"elapsed": one}], [{"elapsed": other}]] for one, other in pairs]
    assert false_positives(rule_of(exactly=40), blocks) < 0.05


# -- what is not there is not shown ------------------------------------------------------


@pytest.mark.parametrize("judged", [True, False])
@pytest.mark.parametrize("design", [ComparisonDesign.BLOCKS, ComparisonDesign.STORED])
def test_a_value_that_is_not_positive_leaves_no_figure(
    judged: bool, design: ComparisonDesign
) -> None:
    """The positive values alone are no sample of all: no ratio, no mean, no P-value."""
    metrics = (ComparedMetric("elapsed"), ComparedMetric("system", judged=judged))
    rule = rule_of(metrics=metrics, design=design)
    builder = ComparisonBuilder(rule)
    times = noisy(20)
    one = [{"elapsed": t, "system": t} for t in times]
    other = [{"elapsed": t, "system": 2 * t if n > 3 else 0.0} for n, t in enumerate(times)]
    if design is ComparisonDesign.STORED:
        builder.add([one, other])
    else:
        for left, right in zip(one, other, strict=True):
            builder.add([[left], [right]])
    found = answer(rule, builder.history()).verdicts[1]
    figures = (
        *(found.mean_baseline, found.mean_candidate, found.p, found.p_adjusted),
        *(found.ratio.value, found.ratio.low, found.ratio.high, found.smallest_effect),
    )
    assert all(map(math.isnan, figures))
    assert (found.n_baseline, found.n_candidate) == (20, 20)
    assert "there is no ratio" in found.reason


@pytest.mark.parametrize(
    ("design", "most"), [(ComparisonDesign.BLOCKS, 9), (ComparisonDesign.STORED, 1)]
)
def test_without_an_interval_there_is_no_p_value(design: ComparisonDesign, most: int) -> None:
    for blocks in (0, most):
        rule = rule_of(design=design, minimum=2 if most == 1 else 10)
        builder = ComparisonBuilder(rule)
        one, other = ([{"elapsed": t} for t in noisy(blocks, seed=s)] for s in (1, 2))
        if design is ComparisonDesign.STORED:
            builder.add([one, other])
        else:
            for left, right in zip(one, other, strict=True):
                builder.add([[left], [right]])
        (found,) = answer(rule, builder.history()).verdicts
        assert found.reason.startswith("no interval yet") or not blocks
        assert math.isnan(found.p)
        assert math.isnan(found.p_adjusted)


def test_positive_values_beside_others_are_no_evidence_for_the_rest() -> None:
    metrics = (ComparedMetric("elapsed"), ComparedMetric("x"))
    rule = rule_of(metrics=metrics)
    builder = ComparisonBuilder(rule)
    for n, time in enumerate(noisy(20)):
        x = 0.0 if n == 0 else 5.0 * time
        builder.add([[{"elapsed": time, "x": time}], [{"elapsed": 1.005, "x": x}]])
    elapsed, _ = answer(rule, builder.history()).verdicts
    assert elapsed.p_adjusted == pytest.approx(min(1.0, 2 * elapsed.p))


@pytest.mark.parametrize(
    ("gate", "shift", "beginning"),
    [
        ("slower", 0.01, "slower by more than 5 % is ruled out: the interval ends at 1."),
        ("slower", -0.04, "slower by more than 5 % is ruled out: the interval ends at 4."),
        ("faster", -0.01, "faster by more than 5 % is ruled out: the interval ends at 1."),
    ],
)
def test_a_gate_that_passed_says_why(gate: Any, shift: float, beginning: str) -> None:
    rule = rule_of(gates=(Gate("elapsed", gate, 0.05, f"{gate} by 5%"),))
    values = noisy(60)
    found = answer(
        rule,
        history_of(
            rule, values, [one * (1 + shift) * (1 + n % 2 / 1e4) for n, one in enumerate(values)]
        ),
    )
    (judged,) = found.gates
    assert judged.outcome is GateOutcome.PASSED
    assert judged.detail.startswith(beginning), judged.detail
    way = "slower" if shift > 0 else "faster"
    assert f" % {way}; 60 trials of each may miss" in judged.detail


def test_a_gate_before_the_first_interval_says_so() -> None:
    rule = rule_of(minimum=5, gates=(Gate("elapsed", "slower", 0.03, "slower by 3%"),))
    found = answer(rule, history_of(rule, noisy(5), noisy(5, 2.0, seed=1)))
    assert found.verdicts[0].reason == "no interval yet: 5 of at least 6 blocks"
    assert math.isnan(found.verdicts[0].ratio.low)
    assert math.isnan(found.verdicts[0].smallest_effect)
    (gate,) = found.gates
    assert (gate.outcome, gate.detail) == (
        GateOutcome.UNDECIDED,
        "no interval yet: 5 of at least 6 blocks",
    )


def test_a_stored_baseline_that_is_noisier_is_planned_for() -> None:
    """The error of both, if they vary alike, is more than Welch's for a quieter candidate."""
    stored = StoredArm("old", "s:old", {"elapsed": tuple(noisy(1000, cv=0.05))})
    rule = rule_of(mode="plan", stored=stored, minimum=20, maximum=400, margin=0.01)
    builder = ComparisonBuilder(rule)
    for value in noisy(400, cv=0.005, seed=1):
        builder.add([[], [{"elapsed": value}]])
        if not isinstance(decide_comparison(rule, builder.history()), NextBlock):
            break
    assert builder.history().blocks > 100
    (verdict,) = answer(rule, builder.history()).verdicts
    assert verdict.ratio.high / verdict.ratio.low < 1.03


def test_a_stored_baseline_is_planned_for_rare_runs() -> None:
    stored = StoredArm("old", "s:old", {"elapsed": tuple(noisy(200, cv=0.001))})
    rule = rule_of(mode="plan", stored=stored, minimum=20, maximum=400, rare=SlowRuns(0.02))
    builder = ComparisonBuilder(rule)
    for value in noisy(400, cv=0.001, seed=1):
        builder.add([[], [{"elapsed": value}]])
        if not isinstance(decide_comparison(rule, builder.history()), NextBlock):
            break
    assert builder.history().blocks == 149
    (verdict,) = answer(rule, builder.history()).verdicts
    assert verdict.verdict is Verdict.EQUIVALENT
