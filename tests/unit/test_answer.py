"""The answer of a session: rows, names, intervals, ratios, groups of findings."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest
from msgspec import UNSET

from benchwright.core.observation import MeasurementBlock, Trial, TrialEnding
from benchwright.core.plan import (
    ComparisonArm,
    FixedCount,
    MetricSpec,
    Pairs,
    Phases,
    StopDecision,
    StoppingRule,
    TestPlan,
    UntilPrecise,
)
from benchwright.core.results import Estimate, Figure, Finding, Severity, SlowRuns, states
from benchwright.decide.history import History
from benchwright.decide.precision import decide_precise, needed_trials
from benchwright.decide.stopping import current_estimate, progress_of
from benchwright.findings.codes import LISTED_CODES, make_finding
from benchwright.findings.result import TestResult
from benchwright.report.answer import (
    Unseen,
    answer_entries,
    answer_of,
    answer_sentence,
    finding_groups,
    half_width_percent,
    ratio_of,
    unseen_of,
    visit_text,
)
from benchwright.study.contents import TestContents, VoidBatch
from benchwright.study.parsers.study import parsed_test
from benchwright.views.tests import answers_table

STEADY = (1.0, 1.1, 0.9, 1.05, 0.95)


def trials_of(values: Sequence[float], name: str = "elapsed", **more: float) -> tuple[Trial, ...]:
    return tuple(
        Trial(
            test="t",
            epoch=epoch,
            threads=1,
            ending=TrialEnding.OK,
            started_ns=0,
            duration_ns=10**9,
            blocks=(MeasurementBlock(1, epoch, "c", 0, {name: value, **more}),),
        )
        for epoch, value in enumerate(values, 1)
    )


def input_of(
    name: str = "t",
    values: Sequence[float] = STEADY,
    *,
    sample: Pairs = (),
    rule: StoppingRule | None = None,
    stop: StopDecision | None = None,
    findings: tuple[Finding, ...] = (),
) -> TestResult:
    return TestResult(
        name=name,
        rule=rule or FixedCount(5),
        sample=sample,
        whole_trials=trials_of(values),
        stop=stop or StopDecision("count", f"{len(values)} trials, as requested"),
        findings=findings,
    )


def names_of(*inputs: TestResult) -> list[str]:
    return [test.name for test in answer_of(inputs).tests]


def test_one_test_has_the_name_of_its_command() -> None:
    assert names_of(input_of("sort")) == ["sort"]
    assert names_of(input_of("gzip", sample=(("n", "1"),))) == ["gzip"]


def test_a_test_that_is_alone_keeps_the_levels_of_its_command_line() -> None:
    sample = (("tool", "gzp"), ("fs", "ext2"))
    assert names_of(input_of("z:tool=gzp", sample=sample)) == ["z tool=gzp"]


def test_only_the_levels_that_vary_are_in_a_name() -> None:
    scan = [input_of(f"gzip:n={n}:k=2", sample=(("n", n), ("k", "2"))) for n in ("1", "9")]
    assert names_of(*scan) == ["n=1", "n=9"]


def test_commands_and_levels_are_both_in_a_name_where_both_vary() -> None:
    both = [
        input_of(f"{command}:n={n}", sample=(("n", n),))
        for command in ("gzip", "zstd")
        for n in ("1", "9")
    ]
    assert names_of(*both) == ["gzip n=1", "gzip n=9", "zstd n=1", "zstd n=9"]


def test_equal_names_stay_as_stored() -> None:
    assert names_of(input_of("a"), input_of("a")) == ["a", "a"]


def test_sentences_of_each_state() -> None:
    limit = StopDecision("max-runs", "5 trials, the maximum; elapsed 1", answered=False)
    answered, undecided = answer_of(
        [input_of("a"), input_of("b", rule=UntilPrecise(0.02), stop=limit)]
    ).tests
    assert answer_sentence(answered) == "a: 1 s ± 9.8 % (95 %, 5 trials)"
    assert answer_sentence(undecided) == (
        "b: undecided: 1 s ± 14 % (95 %, 5 trials; target 2 %: 5 trials, the maximum)"
    )
    cut = TestResult(name="c", rule=FixedCount(9), whole_trials=trials_of(STEADY[:2]))
    (one,) = answer_of([cut], status="interrupted").tests
    assert one.state == "interrupted"
    assert answer_sentence(one).endswith("(95 %), interrupted after 2 trials")
    (none,) = answer_of([TestResult(name="d")], status="interrupted").tests
    assert answer_sentence(none) == "d: no result, interrupted after 0 trials"
    (broken,) = answer_of([TestResult(name="e")], status="failed").tests
    assert (broken.state, broken.estimate) == ("failed", None)
    assert answer_sentence(broken) == "e: failed: a trial failed"


def test_the_sentence_says_within_which_time_the_trials_lie() -> None:
    """Of trials whose times are unknown, as in most results of other tools, it says nothing."""
    start = 1_800_000_000 * 10**9
    timed = tuple(
        msgspec.structs.replace(one, started_ns=start + 2 * place * 10**9)
        for place, one in enumerate(trials_of(STEADY))
    )
    partly = (*timed[:-1], *trials_of(STEADY)[-1:])
    for trials, span_s in ((timed, 9.0), (partly, None), (timed[:1], None)):
        one = msgspec.structs.replace(input_of(), whole_trials=trials)
        (test,) = answer_of([one]).tests
        assert test.span_s == span_s
        assert (" in " in answer_sentence(test)) is (span_s is not None)
    (whole,) = answer_of([msgspec.structs.replace(input_of(), whole_trials=timed)]).tests
    assert answer_sentence(whole).endswith("(95 %, 5 trials in 9 s)")


def test_an_explanation_says_how_long_the_machine_was_looked_at() -> None:
    (test,) = answer_of([input_of()]).tests
    assert visit_text([test], ["s"]) == "", "the times are unknown"
    timed = msgspec.structs.replace(test, span_s=9.0)
    text = visit_text([timed], ["a b"])
    assert "lie within 9 s:" in text
    assert "`bw history 'a b'`" in text
    longer = msgspec.structs.replace(test, span_s=70.0)
    assert "at most 70 s a test" in visit_text([timed, longer, test], ["s"])
    without = msgspec.structs.replace(timed, estimate=None)
    assert visit_text([without], ["s"]) == ""
    arm = msgspec.structs.replace(timed, is_arm=True)
    assert visit_text([arm], ["s"]) == "", "both arms share what changes slowly"


def test_an_undecided_test_names_the_target_that_it_missed() -> None:
    limit = StopDecision("max-time", "9 s of 9 s spent; elapsed 1", answered=False)

    def told(target: float, name: str = "elapsed", **more: float) -> str:
        one = TestResult(
            name="t",
            rule=UntilPrecise(target, ("elapsed", *more)),
            specs=tuple(MetricSpec(metric) for metric in more),
            whole_trials=trials_of(STEADY, name, **more),
            stop=limit,
        )
        (test,) = answer_of([one]).tests
        return answer_sentence(test).partition("; ")[2]

    assert told(0.02) == "target 2 %: 9 s of 9 s spent)"
    assert (
        told(0.2) == "target 20 % holds only after the planned number of trials: 9 s of 9 s spent)"
    )
    # Equal values are no interval, so tps has not reached it either.
    assert told(0.02, tps=5.0) == "target 2 %: 9 s of 9 s spent)"


def test_too_few_trials_project_no_number_that_the_target_needs() -> None:
    """The least number of trials of the rule is no projection."""
    rule = UntilPrecise(0.001, minimum=30, maximum=1000, max_time_ns=5 * 10**9)
    stop = StopDecision("max-time", "5 s of 5 s spent", answered=False)
    values = tuple(0.1 + 0.003 * (n % 3) for n in range(40))
    for count, is_known in ((6, False), (40, True)):
        (test,) = answer_of([input_of("t", values[:count], rule=rule, stop=stop)]).tests
        assert test.limit is not None
        assert (test.limit.needed is not None) == is_known
        assert "--max-time" in test.limit.options


def test_progress_and_answer_have_the_interval_of_the_rule() -> None:
    """Dependent values: the rule's interval is wider than Student's."""
    values = tuple(1 + 0.1 * (n // 5 % 2) for n in range(40))
    rule = UntilPrecise(0.01, minimum=30, maximum=40)
    history = History(trials=40, series={"elapsed": values})
    stop = decide_precise(rule, history)
    assert isinstance(stop, StopDecision)
    shown = progress_of(rule, history).estimate
    (stopped,) = answer_of([input_of("t", values, rule=rule, stop=stop)]).tests
    (cut,) = answer_of(
        [TestResult(name="t", rule=rule, whole_trials=trials_of(values))], status="interrupted"
    ).tests
    assert shown is not None
    assert stopped.estimate == cut.estimate == shown
    assert shown.method == "sequential-t"


def test_the_users_metric_is_the_one_that_is_shown() -> None:
    one = TestResult(
        name="t",
        rule=UntilPrecise(0.02, ("elapsed", "tps")),
        specs=(MetricSpec("tps", unit="1/s", better="higher"),),
        whole_trials=trials_of(STEADY, tps=100.0),
    )
    (test,) = answer_of([one]).tests
    assert (test.metric, [other.metric for other in test.others]) == ("tps", ["elapsed"])
    assert test.estimate is not None
    assert test.estimate.unit == "1/s"


def test_a_time_is_never_negative() -> None:
    (test,) = answer_of([input_of("t", (0.001, 0.2, 0.001, 0.001))]).tests
    assert test.estimate is not None
    assert test.estimate.low == 0
    assert half_width_percent(test.estimate) > 100


def test_values_near_the_largest_number_have_their_interval() -> None:
    (test,) = answer_of([input_of(values=[1e308, 1.1e308, 1.2e308])]).tests
    assert test.estimate is not None
    assert half_width_percent(test.estimate) == pytest.approx(22.6, rel=0.01)


def test_a_constant_metric_is_reported_once() -> None:
    specs = (MetricSpec("tps"), MetricSpec("bytes", unit="B"))
    inputs = [
        TestResult(name=n, specs=specs, whole_trials=trials_of(STEADY, "tps", bytes=7.0))
        for n in "ab"
    ]
    answer = answer_of(inputs)
    assert [(one.metric, one.value) for one in answer.constants] == [("bytes", 7.0)]
    assert all(test.others == () for test in answer.tests)


def test_ratios_refer_to_the_first_or_the_best() -> None:
    inputs = [input_of("a", tuple(2 * v for v in STEADY)), input_of("b")]
    first = answer_of(inputs)
    assert first.reference is first.tests[0]
    assert first.tests[0].relative is None
    assert first.tests[1].relative is not None
    assert first.tests[1].relative.value == pytest.approx(0.5)
    best = answer_of(inputs, baseline="best")
    assert best.reference is best.tests[1]
    assert best.tests[0].relative is not None
    assert best.tests[0].relative.value == pytest.approx(2)


def test_ratios_refer_to_a_named_test() -> None:
    inputs = [input_of("a"), input_of("b", tuple(2 * v for v in STEADY))]
    answer = answer_of(inputs, baseline="b")
    first, second = answer.tests
    assert answer.reference is second
    assert second.relative is None
    assert first.relative is not None
    assert first.relative.value == pytest.approx(0.5)
    entries = answer_entries(answer)
    assert [one.relative_to for one in entries] == ["b", None]


def test_without_a_value_of_the_named_test_there_are_no_ratios() -> None:
    inputs = [input_of("a"), input_of("b"), TestResult(name="c")]
    for name in ("c", "not started yet"):
        answer = answer_of(inputs, baseline=name)
        assert answer.reference is None
        assert all(test.relative is None for test in answer.tests)


def test_the_best_of_a_metric_that_is_better_high_is_the_highest() -> None:
    specs = (MetricSpec("tps", better="higher"),)
    inputs = [
        TestResult(
            name=name, specs=specs, whole_trials=trials_of([factor * v for v in STEADY], "tps")
        )
        for name, factor in (("a", 1), ("b", 3), ("c", 2))
    ]
    best = answer_of(inputs, baseline="best").reference
    assert best is not None
    assert best.test == "b"


def test_arms_have_the_ratio_of_their_comparison_alone() -> None:
    """That of the blocks is another than that of two independent means."""
    both = [input_of("a"), input_of("b", tuple(v / 2 for v in STEADY))]
    titles = [column.label for column in answers_table(answer_of(both), "p", ["a", "b"]).columns]
    assert "Ratio to a" in titles
    arms = [
        msgspec.structs.replace(one, arm=ComparisonArm("c", place, ("a", "b")))
        for place, one in enumerate(both)
    ]
    titles = [column.label for column in answers_table(answer_of(arms), "p", ["a", "b"]).columns]
    assert titles
    assert not any(title.startswith("Ratio") for title in titles)


def test_an_arm_of_a_comparison_is_no_best_test() -> None:
    arm = msgspec.structs.replace(
        input_of("arm", tuple(v / 2 for v in STEADY)), arm=ComparisonArm("c", 0, ("arm", "other"))
    )
    best = answer_of([input_of("a"), input_of("b"), arm], baseline="best").reference
    assert best is not None
    assert best.test == "a"


def test_a_ratio_of_symmetric_intervals_is_fiellers() -> None:
    one = Estimate(2.0, 1.8, 2.2, 0.95, "student-t", 10)
    other = Estimate(1.0, 0.9, 1.1, 0.95, "student-t", 10)
    found = ratio_of(one, other)
    assert found is not None
    # Fieller: the roots of (2 - r)^2 = 0.2^2 + r^2 0.1^2.
    roots = [(4 + s * math.sqrt(16 - 4 * 0.99 * 3.96)) / (2 * 0.99) for s in (-1, 1)]
    assert (found.low, found.high) == pytest.approx(tuple(roots))


def test_a_ratio_without_a_bound_has_none() -> None:
    one = Estimate(2.0, 1.8, 2.2, 0.95, "student-t", 10)
    wide = Estimate(1.0, 0.0, 3.0, 0.95, "student-t", 2)
    found = ratio_of(one, wide)
    assert found is not None
    assert math.isnan(found.high)
    assert ratio_of(one, Estimate(0.0, 0.0, 0.0, 0.95, "student-t", 2)) is None


def test_findings_are_grouped_by_code_and_the_worst_come_first() -> None:
    def finding(code: str, severity: Severity, evidence: str) -> Finding:
        return Finding(code, severity, "subject", evidence, "remedy")

    groups = finding_groups(
        [
            ("a", finding("outliers", Severity.NOTE, "1")),
            ("a", finding("drift", Severity.WARNING, "2")),
            ("b", finding("drift", Severity.SERIOUS, "3")),
            ("b", finding("drift", Severity.WARNING, "4")),
            ("", finding("thermal", Severity.WARNING, "5")),
        ]
    )
    assert [(g.code, g.tests, g.evidence) for g in groups] == [
        ("drift", ("a", "b"), "3"),
        ("thermal", (), "5"),
        ("outliers", ("a",), "1"),
    ]


def outliers(
    trials: str, some: int, total: int, score: float = 9.0, side: str = "above"
) -> Finding:
    unit = "s" if side == "above" else ""
    shown = states(
        metric="elapsed" if side == "above" else "items/s",
        kind="mild",
        trials=trials,
        some=some,
        total=total,
        worst=Figure(9.0, unit),
        score=Figure(score, "scaled MADs"),
        side=side,
        threshold=4.0,
        mean=Figure(2.0, unit),
        without=Figure(1.9, unit),
        median=Figure(1.8, unit),
    )
    return make_finding("outliers", "s", shown)


def test_a_group_has_the_range_of_each_figure_and_counts_the_trials_of_a_list() -> None:
    found = [
        outliers("trials 1, 2, 12", 3, 12, 5.0),
        outliers("trial 7", 1, 10, 7.25),
        outliers("trials 2, 3, ...", 40, 100, 6.0),
    ]
    (group,) = finding_groups(zip("abc", found, strict=True))
    assert group.sentence == (
        "elapsed: mild outliers in 1 to 40 of 10 to 100 trials, up to 9 s, 5.0 to 7.2 scaled MADs above the median"
    )
    assert group.worst == "b"
    assert group.evidence == (
        "elapsed: mild outlier in trial 7 (1 of 10), up to 9 s, 7.2 scaled MADs above the median (threshold 4.0); "
        "mean 2 s with, 1.9 s without, median 1.8 s"
    )


def test_findings_that_say_different_things_are_not_ranged() -> None:
    """The sentence names the one that it is about."""
    small, large = outliers("trial 1", 1, 10, 12.0), outliers("trial 1", 1, 10, 13.2, "below")
    for named in ([("a", small), ("b", large)], [("b", large), ("a", small)]):
        (group,) = finding_groups(named)
        assert group.worst == "b"
        assert group.sentence == (
            "items/s: mild outlier in 1 of 10 trials, up to 9, 13.2 scaled MADs below the median (the worst, b)"
        )


def off(share: float) -> Finding:
    return make_finding("steal", "s", states(share=Figure(share, "%"), stolen=Figure(0.1, "CPUs")))


def test_a_range_is_of_findings_of_different_tests() -> None:
    found = [off(0.05), off(0.08), off(0.06)]
    (group,) = finding_groups(zip("abc", found, strict=True))
    assert group.sentence == "CPU steal: 5 to 8 %"
    (group,) = finding_groups(zip("aab", found, strict=True))
    assert group.sentence == "CPU steal: 8 % (the worst, a)"
    (group,) = finding_groups([("a", one) for one in found])
    assert group.sentence == "CPU steal: 8 % (the worst of 3)"
    (group,) = finding_groups([("a", off(0.05)), ("b", off(0.05))])
    assert group.sentence == "CPU steal: 5 %"


def test_findings_with_only_a_sentence_are_listed() -> None:
    """Those of an earlier version, of a rule, and of another template than today's."""
    old = msgspec.structs.replace(off(0.08), figures=UNSET)
    stated = off(0.05)
    other = msgspec.structs.replace(off(0.06), evidence="6 % of the CPU was stolen")
    (group,) = finding_groups([("a", old), ("b", stated), ("c", other)])
    assert group.sentence == (
        "CPU steal: 8 % (0.1 CPUs) (a); CPU steal: 5 % (b); 6 % of the CPU was stolen (c)"
    )
    (group,) = finding_groups([(name, old) for name in "ab"])
    assert group.sentence == old.evidence
    (group,) = finding_groups([("a", Finding("x", Severity.NOTE, "s", "`a; (b) c` is (so); yes"))])
    assert group.sentence == "`a; (b) c` is (so); yes"


def test_a_finding_is_stored_with_its_figures() -> None:
    stored = msgspec.json.encode(off(0.05))
    assert msgspec.json.decode(stored, type=Finding) == off(0.05)
    without = msgspec.json.decode(stored)
    del without["figures"]
    assert msgspec.convert(without, Finding) == msgspec.structs.replace(off(0.05), figures=UNSET)


@pytest.mark.parametrize("code", LISTED_CODES)
def test_changes_of_different_tests_are_listed(code: str) -> None:
    changes = {"a": "x: 1, then 2", "b": "x: 2, then 1", "c": "x: 1, then 2"}
    (group,) = finding_groups(
        (name, make_finding(code, name, states(changes=text, run="2026", after=3)))
        for name, text in changes.items()
    )
    assert group.sentence == "x: 1, then 2 (a, c); x: 2, then 1 (b)"


def test_a_failed_trial_that_ended_its_session_is_failed_and_not_void() -> None:
    good = trials_of(STEADY[:2])
    last = msgspec.structs.replace(good[-1], epoch=3, ending=TrialEnding.FAILED)
    cut = msgspec.structs.replace(last, epoch=4, ending=TrialEnding.INTERRUPTED)
    contents = TestContents(
        "tests/t",
        TestPlan(name="t", stopping=FixedCount(3), phases=Phases()),
        trials=list(good),
        void=[VoidBatch("", (3,), last), VoidBatch("", (4,), cut)],
    )
    (test,) = answer_of([parsed_test(contents, Path())], status="failed").tests
    assert (test.trials, test.failed, test.void) == (2, 1, 1)


# -- what the trials may have missed ---------------------------------------------------------


def unseen(values: int = 30, rule: StoppingRule | None = None, **more: str) -> Unseen | None:
    """Return what so many values between 0.99 and 1.01 may have missed."""
    steady = [1 + 0.01 * (-1) ** place for place in range(values)]
    estimate = msgspec.structs.replace(
        current_estimate(rule, more.get("metric", "elapsed"), steady, "s"),
        unit=more.get("unit", "s"),
    )
    better = "higher" if more.get("better") == "higher" else "lower"
    return unseen_of(more.get("metric", "elapsed"), estimate, rule, better)


def test_thirty_trials_do_not_show_what_one_in_ten_does() -> None:
    """The share of which 30 trials show none with a probability of 5 %: 0.95 of 1 is 0.905 ** 30."""
    found = unseen()
    assert found is not None
    assert (1 - found.share) ** 30 == pytest.approx(0.05)
    assert found.shift == pytest.approx(found.share)
    assert found.sentence == (
        "slow runs rarer than 1 in 10 may not have been seen: at twice the time they would make the mean 9.5 % higher"
    )


def test_a_rate_would_be_lower_and_other_values_are_not_times() -> None:
    rate = unseen(metric="ops", unit="1/s", better="higher")
    assert rate is not None
    assert rate.sentence.endswith("at half the rate they would make the mean 4.8 % lower")
    size = unseen(metric="rss", unit="B")
    assert size is not None
    assert size.sentence.startswith("high values rarer than 1 in 10")
    assert "at twice the value" in size.sentence


def test_it_is_said_where_it_would_move_the_mean_out_of_its_interval() -> None:
    assert unseen(59, UntilPrecise(0.05)) is not None
    assert unseen(10_000) is not None
    assert unseen(30_000) is None
    slower = unseen(59, UntilPrecise(0.05, rare=SlowRuns(0.05, 3.0)))
    assert slower is not None
    assert "at 3 times the time they would make the mean 9.9 % higher" in slower.sentence


def test_a_median_does_not_depend_on_rare_runs() -> None:
    assert unseen(30, UntilPrecise(0.01, share=0.5)) is None


def test_equal_values_have_no_interval_before_they_are_many() -> None:
    """Of 58 equal values 1 in 20 others may have been missed with more than 5 %."""
    for rule in (FixedCount(58), UntilPrecise(0.05), UntilPrecise(0.05, mode="watch")):
        few = current_estimate(rule, "elapsed", [1.0] * 58)
        assert (few.value, few.n) == (1.0, 58)
        assert math.isnan(few.low)
        assert math.isnan(few.high)
        many = current_estimate(rule, "elapsed", [1.0] * 59)
        assert many.low == many.high == 1.0


def test_the_frequency_of_what_a_few_trials_miss_is_no_certainty() -> None:
    assert [SlowRuns.unseen(n).frequency for n in (1, 3, 5, 30)] == [
        "1 in 2",
        "1 in 2",
        "1 in 2",
        "1 in 10",
    ]


def test_equal_values_need_as_many_as_show_that_they_are() -> None:
    rule = UntilPrecise(0.05, minimum=5, maximum=10)
    stop = decide_precise(rule, History(10, series={"elapsed": (1.0,) * 10}))
    assert isinstance(stop, StopDecision)
    assert not stop.answered
    assert needed_trials(rule, {"elapsed": [1.0] * 10}) == 59
