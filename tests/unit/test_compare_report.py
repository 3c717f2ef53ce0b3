"""A comparison as sentences, as a table, as JUnit XML."""

from __future__ import annotations

import math
from typing import Any, Literal
from xml.etree import ElementTree

import msgspec
import pytest

from benchwright.core.comparison import (
    ComparedMetric,
    ComparisonDesign,
    ComparisonProgress,
    ComparisonResult,
    ComparisonRule,
    Gate,
    GateOutcome,
    GateVerdict,
    MetricVerdict,
    NullFloor,
    NullResult,
    StoredArm,
    Verdict,
)
from benchwright.core.plan import StopDecision
from benchwright.core.results import Estimate, Finding, Severity
from benchwright.findings.codes import make_finding
from benchwright.findings.comparison import (
    ArmTimes,
    comparison_findings,
    hold_doubtful,
    stored_baseline_findings,
    times_of_series,
)
from benchwright.report.charts.forest import forest_sheet
from benchwright.report.comparison import (
    comparison_entry,
    gates_headline,
    null_headline,
    null_sentence,
    sentence,
    verdict_headline,
    verdict_word,
)
from benchwright.report.documents import encode
from benchwright.report.junit import render_junit
from benchwright.report.progress import block_text
from benchwright.views.comparison import render_comparison

NULL = NullResult(
    command="true",
    measured_ns=1_795_255_200 * 10**9,
    boot_id="0123456789",
    blocks=40,
    floors=(NullFloor("elapsed", 0.011, 0.013), NullFloor("system", None, None)),
    false_positives=0.021,
    relabellings=1000,
    biased=False,
)


def verdict_of(**more: Any) -> MetricVerdict:
    """Return a verdict of B against A: 3.2 % slower, unless told."""
    given: dict[str, Any] = {
        "metric": "elapsed",
        "better": "lower",
        "judged": True,
        "baseline": "A",
        "candidate": "B",
        "n_baseline": 24,
        "n_candidate": 24,
        "blocks": 24,
        "mean_baseline": 1.0,
        "mean_candidate": 1.032,
        "ratio": Estimate(1.032, 1.021, 1.043, 0.95, "t-mixture-sequence", 24),
        "p": 0.0004,
        "p_adjusted": 0.0004,
        "adjustment": "none",
        "smallest_effect": 0.015,
        "verdict": Verdict.SLOWER,
    }
    return MetricVerdict(**(given | more))


def comparison_of(*verdicts: MetricVerdict, **more: Any) -> ComparisonResult:
    """Return a comparison of A and B with these verdicts."""
    given: dict[str, Any] = {
        "arms": ("A", "B"),
        "rule": ComparisonRule(2),
        "verdicts": verdicts or (verdict_of(),),
        "gates": (),
        "stop": StopDecision("answered", "24 blocks, every question is answered", looks=15),
        "blocks": 24,
        "failed_blocks": 0,
        "duration_ns": 50 * 10**9,
    }
    return ComparisonResult(**(given | more))


def said(**more: Any) -> str:
    """Return the sentence of a verdict."""
    found = verdict_of(**more)
    return sentence(found, comparison_of(found))


def test_slower_is_said_with_its_evidence() -> None:
    assert said() == (
        "B is 3.2 % slower than A (elapsed: 95 % interval 2.1 to 4.3 %, 24 blocks, P = 0.0004)"
    )


def test_faster_is_by_how_much_of_the_candidate() -> None:
    ratio = Estimate(0.8, 0.64, 1 / 1.1, 0.95, "t-mixture-sequence", 24)
    text = said(ratio=ratio, verdict=Verdict.FASTER, p_adjusted=1e-12)
    assert "B is 25 % faster than A" in text
    assert "interval 10 to 56.2 %" in text
    assert "P < 0.0001" in text


def test_a_headline_has_the_ends_of_long_names() -> None:
    found = verdict_of()
    assert verdict_headline(found, comparison_of(found)) == "B is 3.2 % slower than A"
    old = "./bench --threads 8 --mode write --file /srv/data/old"
    found = verdict_of(candidate=old.replace("old", "new"), baseline=old)
    text = verdict_headline(found, comparison_of(found))
    assert text == "./bench ...data/new is 3.2 % slower than ./bench ...data/old"
    found = verdict_of(candidate=old)
    text = verdict_headline(found, comparison_of(found))
    assert len(text) == 60
    assert text.endswith("/srv/data/old is 3.2 % slower than A")


def test_the_headline_of_gates_is_the_worst_outcome() -> None:
    gate = Gate("elapsed", "slower", 0.03, "slower by 3%")
    outcomes = (GateOutcome.PASSED, GateOutcome.FAILED, GateOutcome.UNDECIDED)
    gates = [GateVerdict(gate, "B", one, "why") for one in outcomes]
    assert gates_headline(gates) == "1 of 3 gates failed"
    assert gates_headline(gates[:1]) == "1 of 1 gate passed"


def test_the_headline_of_noise_is_its_first_metric() -> None:
    assert null_headline(NULL) == "Noise floor 1.3 % of elapsed"
    none = msgspec.structs.replace(NULL, floors=(), biased=True)
    assert null_headline(none) == "No noise floor, BIASED"


def test_from_a_ratio_of_2_on_it_is_times() -> None:
    ratio = Estimate(18.4, 18.2, 18.6, 0.95, "t-mixture-sequence", 24)
    assert said(ratio=ratio) == (
        "B is 18.4 times as slow as A (elapsed: 95 % interval 18.2 to 18.6 times, "
        "24 blocks, P = 0.0004)"
    )
    ratio = Estimate(1 / 9.18, 1 / 9.3, 1 / 9.1, 0.95, "t-mixture-sequence", 24)
    text = said(ratio=ratio, verdict=Verdict.FASTER)
    assert "B is 9.18 times as fast as A" in text
    assert "interval 9.1 to 9.3 times" in text
    ratio = Estimate(2345.6, 2300.0, 2400.0, 0.95, "t-mixture-sequence", 24)
    assert "B is 2,350 times as slow as A" in said(ratio=ratio)


def test_a_narrow_table_has_the_ratio_and_the_verdict() -> None:
    bare = verdict_of(mean_baseline=math.nan, mean_candidate=math.nan)
    comparison = comparison_of(bare, verdict_of(candidate="C"))
    heading = render_comparison(comparison, 60).splitlines()[1]
    assert heading.split() == ["metric", "candidate", "n", "ratio", "low", "high", "verdict"]
    assert len(heading) <= 60
    lines = render_comparison(comparison).splitlines()
    assert lines[1].split()[3:7] == ["baseline", "s", "mean", "s"]
    assert lines[2].split()[3:5] == ["-", "-"]
    assert lines[3].split()[3:5] == ["1.000", "1.032"]


@pytest.mark.parametrize(
    ("unit", "better", "ratio", "word", "claim"),
    [
        ("s", "lower", 1.25, "slower", "B is 25 % slower than A"),
        ("ms", "lower", 0.8, "faster", "B is 25 % faster than A"),
        ("s", "lower", 3.0, "slower", "B is 3 times as slow as A"),
        ("s", "higher", 1.25, "higher", "B against A: x 25 % higher"),
        ("B", "lower", 1.25, "larger", "B against A: x 25 % larger"),
        ("B", "lower", 0.4, "smaller", "B against A: x 60 % smaller"),
        ("MiB", "lower", 3.0, "larger", "B against A: x 3 times as large"),
        ("B/op", "lower", 0.8, "smaller", "B against A: x 20 % smaller"),
        ("B/s", "higher", 0.5, "lower", "B against A: x 50 % lower"),
        ("1/s", "higher", 1.25, "higher", "B against A: x 25 % higher"),
        ("", "lower", 0.8, "lower", "B against A: x 20 % lower"),
        ("", "higher", 2.5, "higher", "B against A: x 2.5 times as high"),
        ("512 B", "lower", 1.1, "higher", "B against A: x 10 % higher"),
    ],
)
def test_the_words_of_a_difference_are_those_of_its_metric(
    unit: str, better: Literal["lower", "higher"], ratio: float, word: str, claim: str
) -> None:
    is_worse = (ratio > 1) is (better == "lower")
    found = verdict_of(
        metric="x",
        better=better,
        ratio=Estimate(ratio, ratio * 0.99, ratio * 1.01, 0.95, "t", 24),
        verdict=Verdict.SLOWER if is_worse else Verdict.FASTER,
    )
    rule = ComparisonRule(2, metrics=(ComparedMetric("x", better, unit=unit),))
    comparison = comparison_of(found, rule=rule)
    assert verdict_word(found, comparison) == word
    assert verdict_headline(found, comparison) == claim
    assert sentence(found, comparison).startswith(f"{claim} (")
    assert word in render_comparison(comparison).splitlines()[2].split()
    (entry,) = comparison_entry(comparison).verdicts
    assert (entry.word, entry.verdict) == (word, found.verdict)
    (curve,) = forest_sheet(comparison).panels[0].curves
    assert curve.label == word


def test_a_smallest_effect_above_1000_percent_is_not_stated() -> None:
    for effect, cell in ((9.9, "990"), (10.1, "-"), (1e16, "-"), (math.nan, "-")):
        found = verdict_of(smallest_effect=effect, verdict=Verdict.UNDECIDED)
        table = render_comparison(comparison_of(found)).splitlines()
        assert table[2].split("  ")[-1].strip() == cell
        assert (
            "an effect of 990 %" in said(smallest_effect=effect, verdict=Verdict.UNDECIDED)
        ) is (cell == "990")


def test_equivalent_and_undecided() -> None:
    ratio = Estimate(1.0, 0.995, 1.005, 0.95, "t-mixture-sequence", 24)
    text = said(ratio=ratio, verdict=Verdict.EQUIVALENT)
    assert text.startswith("B and A are equivalent within 1 % (elapsed: ratio 1,")
    text = said(verdict=Verdict.UNDECIDED)
    assert "an effect of 1.5 % would have been detected with 80 % probability" in text
    text = said(verdict=Verdict.UNDECIDED, reason="there is no ratio")
    assert text == "B against A: undecided (elapsed: there is no ratio)"


@pytest.mark.parametrize("value", [math.nan, math.inf, 0.0])
def test_figures_that_are_not_there_are_no_error(value: float) -> None:
    ratio = Estimate(value, value, value, 0.95, "welch-on-logs", 0)
    for verdict in Verdict:
        found = comparison_of(
            verdict_of(
                ratio=ratio,
                verdict=verdict,
                mean_baseline=value,
                smallest_effect=value,
                p_adjusted=value,
                blocks=None,
            )
        )
        assert render_comparison(found)
        assert "NaN" not in encode(comparison_entry(found))
        ElementTree.fromstring(render_junit([found]))


def test_a_ratio_of_1_keeps_the_digits_of_its_interval() -> None:
    ratio = Estimate(1.0, 0.7708, 1.297, 0.95, "t", 24)
    lines = render_comparison(comparison_of(verdict_of(ratio=ratio))).splitlines()
    assert lines[2].split()[5:8] == ["1.000", "0.771", "1.297"]


def test_a_pure_number_has_no_unit_and_alike_columns_of_several_tests_are_left_out() -> None:
    tests = [verdict_of(metric="x", unit="1", test=name, candidate=f"B:{name}") for name in "pq"]
    lines = render_comparison(comparison_of(*tests)).splitlines()
    assert lines[1].split()[:4] == ["test", "n", "baseline", "mean"]
    assert lines[2].split()[:4] == ["p", "24", "1.000", "1.032"]


def test_the_table_shows_every_arm_of_every_metric() -> None:
    shown = verdict_of(metric="user", judged=False, verdict=None)
    absent = verdict_of(metric="system", judged=False, verdict=None, n_baseline=0, n_candidate=0)
    text = render_comparison(comparison_of(verdict_of(), shown, absent, null=NULL))
    table, _, rest = text.partition("\n\n")
    title, heading, *rows = table.splitlines()
    assert title == "Against A, in 24 blocks (1 warm-up block not counted):"
    assert heading.split()[:4] == ["metric", "candidate", "n", "baseline"]
    assert [row.split()[0] for row in rows] == ["elapsed", "user"]
    assert rows[0].split() == [
        *("elapsed", "B", "24", "1.000", "1.032", "1.032", "1.021", "1.043"),
        *("slower", "0.0004", "1.5"),
    ]
    assert "(shown)" in rows[1]
    assert rest.count("\n") == 2, "a sentence and the noise floor"


def test_a_metric_with_some_values_of_0_is_in_the_table_and_says_why_it_has_no_ratio() -> None:
    nothing = Estimate(math.nan, math.nan, math.nan, 0.95, "welch-on-logs", 23)
    empty = {"mean_baseline": math.nan, "mean_candidate": math.nan, "smallest_effect": math.nan}
    user = verdict_of(metric="user", judged=False, verdict=None, ratio=nothing, **empty)
    never = msgspec.structs.replace(nothing, n=0)
    system = msgspec.structs.replace(user, metric="system", ratio=never)
    rows = render_comparison(comparison_of(verdict_of(), user, system)).splitlines()[2:]
    assert [row.split()[0] for row in rows if row][:2] == ["elapsed", "user"]
    assert "(no ratio: some are 0)" in rows[1]
    assert not any(row.startswith("system") for row in rows)


@pytest.mark.parametrize(
    ("arms", "commands", "legend"),
    [
        (("gzip", "gzip-2"), ("gzip -1 f", "gzip -3 f"), True),
        (("for", "gzip"), ("for i in 1; do x; done", "gzip f"), True),
        (("gzip", "xz"), ("gzip f", "xz f"), False),
        (("gzip-1", "gzip-3"), ("gzip -1 f", "gzip -3 f"), False),
        (("true", "true-2"), ("true", "true"), False),
    ],
)
def test_commands_come_first_where_the_names_do_not_distinguish_the_arms(
    arms: tuple[str, str], commands: tuple[str, str], legend: bool
) -> None:
    found = comparison_of(verdict_of(), arms=arms)
    pairs = list(zip(arms, commands, strict=True))
    text = render_comparison(found, commands=dict(pairs))
    lines = "".join(f"{arm}: {command}\n" for arm, command in pairs)
    assert text.startswith(f"{lines}\nAgainst") == legend
    assert text.startswith("Against") != legend


@pytest.mark.parametrize("nothing", [math.nan, 0.0])
def test_a_shown_metric_without_figures_is_in_json_only(nothing: float) -> None:
    """As `system` of short commands, which is 0 at a resolution of 10 ms."""
    more = {"metric": "system", "verdict": None}
    empty = {"mean_baseline": nothing, "mean_candidate": nothing}
    lone = verdict_of(**more, **empty, judged=False)
    assert "system" not in render_comparison(comparison_of(verdict_of(), lone))
    assert '"system"' in encode(comparison_entry(comparison_of(verdict_of(), lone)))
    asked = verdict_of(**more, **empty, judged=True)
    assert "system" in render_comparison(comparison_of(verdict_of(), asked))
    other = verdict_of(**more, judged=False, candidate="C")
    text = render_comparison(comparison_of(lone, other, arms=("A", "B", "C")))
    assert "system" in text, "one candidate has a figure"


def test_the_noise_floor_says_when_where_and_how_sure() -> None:
    text = null_sentence(NULL)
    assert "40 blocks of `true` against itself" in text
    assert (
        "elapsed 1.3 % (interval ±1.1 %); smaller differences cannot be detected reliably "
        "here; 2.1 % of 1000 relabellings"
    ) in text
    assert "2026-11-21 10:00 UTC, boot 01234567)" in text
    assert "system" not in text
    biased = msgspec.structs.replace(NULL, biased=True, source="other")
    assert "BIASED" in null_sentence(biased)
    assert ", other)" in null_sentence(biased)


def test_the_verdict_of_a_null_comparison_is_its_noise_floor() -> None:
    undecided = verdict_of(verdict=Verdict.UNDECIDED)
    rule = ComparisonRule(2, exactly=40)
    text = render_comparison(comparison_of(undecided, rule=rule, null=NULL))
    assert text.count("undecided") == 1, "in the table only"
    biased = comparison_of(verdict_of(), rule=rule, null=NULL)
    assert "B is 3.2 % slower than A" in render_comparison(biased)


def test_gates_precede_verdicts() -> None:
    undecided = verdict_of(verdict=Verdict.UNDECIDED)
    found = comparison_of(undecided, gates=(gate_of(GateOutcome.PASSED),))
    text = render_comparison(found)
    assert text.index("gate `slower by 3%`") < text.index("B against A: undecided")


# -- JUnit -------------------------------------------------------------------------------


def gate_of(outcome: GateOutcome) -> GateVerdict:
    """Return a gate with this outcome."""
    gate = Gate("elapsed", "slower", 0.03, "slower by 3%")
    return GateVerdict(gate, "B", outcome, "ratio 1.03 <&> \x00")


@pytest.mark.parametrize(
    ("outcome", "tag"),
    [(GateOutcome.FAILED, "failure"), (GateOutcome.UNDECIDED, "error"), (GateOutcome.PASSED, None)],
)
def test_only_gates_fail_in_junit(outcome: GateOutcome, tag: str | None) -> None:
    undecided = verdict_of(metric="ops", verdict=Verdict.UNDECIDED)
    shown = verdict_of(metric="user", judged=False, verdict=None)
    found = comparison_of(verdict_of(), undecided, shown, gates=(gate_of(outcome),))
    root = ElementTree.fromstring(render_junit([found]))
    (suite,) = root.findall("testsuite")
    cases = {case.get("name"): case for case in suite.findall("testcase")}
    assert set(cases) == {"elapsed", "ops", "not slower by 3%"}
    assert suite.get("tests") == "3"
    assert cases["elapsed"].find("failure") is None, "a verdict fails nothing"
    assert cases["ops"].find("skipped") is not None
    gate = cases["not slower by 3%"]
    assert [child.tag for child in gate] == ([tag] if tag else [])
    for name in ("failure", "error"):
        assert suite.get(f"{name}s") == str(int(name == tag))
    assert suite.get("skipped") == "1"


@pytest.mark.parametrize("reason", ["interrupted", "stopped", "failed"])
def test_a_gate_of_a_comparison_cut_short_has_not_passed_in_junit(reason: str) -> None:
    stop = StopDecision(reason, "", answered=False)
    for outcome, tag in ((GateOutcome.PASSED, "error"), (GateOutcome.FAILED, "failure")):
        found = comparison_of(gates=(gate_of(outcome),), stop=stop)
        root = ElementTree.fromstring(render_junit([found]))
        told = root.find(f".//testcase[@name='not slower by 3%']/{tag}")
        assert told is not None
        assert tag == "failure" or told.get("message") == reason


CRASHED, LATE = "command-failed", "timeout"


@pytest.mark.parametrize(
    ("failures", "accepted", "is_red"),
    [
        ((CRASHED,), (), True),
        ((CRASHED,), ("biased-null",), True),
        ((CRASHED,), (CRASHED,), False),
        ((CRASHED,), (LATE,), True),
        ((LATE,), (CRASHED, "result-failed"), True),
        ((CRASHED, LATE), (LATE,), True),
        ((CRASHED, LATE), (LATE, CRASHED), False),
        ((), (CRASHED,), True),
    ],
)
@pytest.mark.parametrize("blocks", [10, 0])
def test_trials_that_failed_are_an_error_in_junit_and_the_exit_status(
    failures: tuple[str, ...], accepted: tuple[str, ...], is_red: bool, blocks: int
) -> None:
    """Of a comparison that answers its question. Without `failures` an earlier version stored it;
    without blocks only a warm-up trial failed."""
    if not failures and not blocks:
        return
    found = comparison_of(failed_blocks=blocks, failures=failures)
    assert comparison_of().exit_status == 0
    rule = msgspec.structs.replace(found.rule, accepted=accepted)
    found = msgspec.structs.replace(found, rule=rule)
    suite = ElementTree.fromstring(render_junit([found])).find("testsuite")
    assert suite is not None
    assert (found.exit_status, suite.get("errors")) == ((1, "1") if is_red else (0, "0"))
    assert (suite.find("testcase[@name='trials']/error") is not None) == is_red
    is_said = "accepted" in (suite.findtext("testcase[@name='trials']/system-out") or "")
    assert is_said != is_red


def test_junit_has_the_findings_and_an_undecided_gate_is_an_error() -> None:
    grave = make_finding("biased-null", "A and B", "it differs from itself")
    apart = make_finding("not-interleaved", "A and B", "at different times")
    mild = make_finding("difference-not-in-user-time", "A and B", "elapsed differs")
    held = hold_doubtful(comparison_of(gates=(gate_of(GateOutcome.PASSED),)), [grave, apart, mild])
    root = ElementTree.fromstring(render_junit([held], [grave, apart, mild]))
    (suite,) = root.findall("testsuite")
    assert suite.get("errors") == "1"
    every = suite.findtext("system-out") or ""
    assert "[biased-null]" in every
    assert "elapsed differs" in every
    gate = suite.find("testcase[@name='not slower by 3%']")
    assert gate is not None
    error = gate.find("error")
    assert error is not None
    blocked = "blocked by biased-null (A and B), not-interleaved (A and B)"
    assert blocked in error.get("message", "")
    own = gate.findtext("system-out") or ""
    assert "[biased-null]" in own
    assert "[not-interleaved]" in own
    assert "elapsed differs" not in own


# -- gates under findings ----------------------------------------------------------------


STORED = ComparisonRule(2, design=ComparisonDesign.STORED)


def grave(metric: str = "", subject: str = "B", code: str = "") -> Finding:
    """Return a serious finding."""
    found = make_finding(code or "dependent-trials", subject, "seen", Severity.SERIOUS)
    return msgspec.structs.replace(found, metric=metric)


@pytest.mark.parametrize(
    ("finding", "rule", "is_held"),
    [
        (grave(), STORED, True),
        (grave("elapsed", "A"), STORED, True),
        (grave("user"), STORED, False),
        (grave(subject="C"), STORED, False),
        (make_finding("dependent-trials", "B", "a warning"), STORED, False),
        (grave(code="environments-differ", subject="A, B"), STORED, True),
        (grave(), ComparisonRule(2), False),
        (grave(code="biased-null", subject="A and B"), ComparisonRule(2), True),
        (make_finding("not-interleaved", "A and B", "a warning"), STORED, True),
        (grave(), msgspec.structs.replace(STORED, accepted=("drift",)), True),
        (grave(), msgspec.structs.replace(STORED, accepted=("dependent-trials",)), False),
    ],
)  # fmt: skip
@pytest.mark.parametrize("outcome", [GateOutcome.PASSED, GateOutcome.FAILED])
def test_a_serious_finding_holds_the_gates_that_it_concerns(
    finding: Finding, rule: ComparisonRule, is_held: bool, outcome: GateOutcome
) -> None:
    plain = comparison_of(rule=rule, arms=("A", "B", "C"), gates=(gate_of(outcome),))
    found = hold_doubtful(plain, [finding])
    (gate,) = found.gates
    if not is_held:
        assert found == plain
        return
    assert gate.outcome is GateOutcome.UNDECIDED
    assert found.exit_status == 3
    assert gate.held_by == (finding.code,)
    assert gate.otherwise is outcome
    assert f"--accept {finding.code}" in gate.detail
    (entry,) = comparison_entry(found).gates
    assert entry.outcome is GateOutcome.UNDECIDED
    assert entry.held_by == (finding.code,)
    assert entry.otherwise is outcome


@pytest.mark.parametrize(
    ("subject", "accepted", "is_held"),
    [
        ("A and B", (), True),
        ("A and C", (), False),
        ("A and B", ("difference-not-in-user-time",), False),
    ],
)
def test_a_difference_that_user_time_does_not_show_is_no_verdict(
    subject: str, accepted: tuple[str, ...], is_held: bool
) -> None:
    finding = make_finding("difference-not-in-user-time", subject, "seen")
    rule = msgspec.structs.replace(STORED, accepted=accepted)
    plain = comparison_of(rule=rule)
    assert plain.verdicts[0].verdict is Verdict.SLOWER
    found = hold_doubtful(plain, [finding])
    if not is_held:
        assert found == plain
        return
    (entry, *_) = comparison_entry(found).verdicts
    assert (entry.verdict, entry.otherwise) == (Verdict.UNDECIDED, Verdict.SLOWER)
    assert entry.held_by == ("difference-not-in-user-time",)
    assert "by its interval alone: slower" in entry.reason
    assert found.exit_status == 3


# -- findings ----------------------------------------------------------------------------


def codes(comparison: ComparisonResult) -> list[str]:
    """Return the codes of a comparison's own findings."""
    return [finding.code for finding in comparison_findings(comparison)]


def test_designs_that_mix_time_with_difference_are_doubted() -> None:
    assert codes(comparison_of()) == []
    for design, expected in (
        (ComparisonDesign.SEQUENCE, ["sequential-arms"]),
        (ComparisonDesign.STORED, ["not-interleaved"]),
        (ComparisonDesign.ABBA, []),
    ):
        rule = ComparisonRule(2, design=design)
        assert codes(comparison_of(rule=rule)) == expected
    rule = ComparisonRule(2, stored=StoredArm("A", "study:A", {}))
    assert codes(comparison_of(rule=rule)) == ["not-interleaved"]


def test_dependence_in_a_stored_baseline_is_a_finding_about_it() -> None:
    values = tuple(1.0 + 0.1 * math.sin(place / 9) for place in range(120))
    stored = StoredArm("old", "study", {"elapsed": values})
    rule = ComparisonRule(2, mode="plan", stored=stored)
    found = stored_baseline_findings(comparison_of(rule=rule))
    (one,) = [finding for finding in found if finding.code == "dependent-trials"]
    assert (one.subject, one.metric, one.severity) == ("old", "elapsed", "serious")
    assert stored_baseline_findings(comparison_of()) == ()


def is_doubted(
    before: ArmTimes, after: ArmTimes, ratio: float = 1.487, rule: ComparisonRule = STORED
) -> bool:
    """Return whether the CPU time of A, which takes 1 s, and of B leaves their difference open."""
    estimate = Estimate(ratio, ratio / 1.1, ratio * 1.1, 0.95, "welch-on-logs", 20)
    whole = verdict_of(ratio=estimate, mean_baseline=1.0, mean_candidate=ratio)
    comparison = comparison_of(whole, rule=rule)
    found = comparison_findings(comparison, {"A": before, "B": after})
    return "difference-not-in-user-time" in {finding.code for finding in found}


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (0.9, 0.915, True),
        (0.9, 1.3, False),
        (0.9, 1.0, True),
        (0.9, 0.5, True),
        (0.4, 0.4, True),
        (0.15, 0.15, True),
        (0.05, 0.05, False),
        (0.0, 0.0, False),
    ],
    ids=[
        "computes",
        "works more",
        "hardly more",
        "works less",
        "little CPU",
        "less",
        "waits itself",
        "coarse",
    ],
)
def test_elapsed_that_differs_without_cpu_time_is_held_where_contention_explains_it(
    before: float, after: float, expected: bool
) -> None:
    assert is_doubted(ArmTimes(before), ArmTimes(after)) is expected
    assert not is_doubted(ArmTimes(before), ArmTimes(after), rule=ComparisonRule(2))


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [(0.1, 0.4, True), (0.1, 0.1, False), (0.5, 0.1, False), (None, 0.1, True)],
    ids=["waited for a CPU", "waited for something else", "waited less", "not watched"],
)
def test_where_waiting_for_a_cpu_was_measured_it_decides(
    before: float | None, after: float, expected: bool
) -> None:
    assert is_doubted(ArmTimes(0.4, before), ArmTimes(0.4, after)) is expected


def test_a_faster_arm_is_held_alike() -> None:
    assert is_doubted(ArmTimes(0.4, 0.5), ArmTimes(0.4, 0.1), ratio=0.6)
    assert not is_doubted(ArmTimes(0.4, 0.1), ArmTimes(0.4, 0.5), ratio=0.6)


def test_the_cpu_time_of_a_trial_is_user_and_system_together() -> None:
    """The kernel divides a short trial's CPU time by samples: either part may be 0."""
    found = times_of_series({"user": (0.03, 0.0, 0.02), "system": (0.0, 0.03, 0.01)})
    assert found is not None
    assert found.cpu == pytest.approx(0.03)
    assert times_of_series({"system": (0.1,)}) is None


def test_a_null_that_differs_is_biased_and_later_comparisons_say_so() -> None:
    rule = ComparisonRule(2, exactly=40)
    assert codes(comparison_of(rule=rule)) == ["biased-null"]
    fair = verdict_of(verdict=Verdict.EQUIVALENT)
    assert codes(comparison_of(fair, rule=rule)) == []
    biased = msgspec.structs.replace(NULL, biased=True)
    assert codes(comparison_of(null=biased)) == ["biased-null"]
    assert codes(comparison_of(null=NULL)) == []


def test_progress_is_a_line() -> None:
    ratio = Estimate(1.032, 1.021, 1.043, 0.95, "t-mixture-sequence", 24)
    so_far = ComparisonProgress(24, 1, False, 200, 12.0, (("elapsed", "B", ratio),))
    assert block_text(so_far) == (
        "block 25 of 200, 1 failed; elapsed ×1.032 (1.021 to 1.043); at most 84 s left; 12 s so far"
    )
    ratios = (("elapsed", "B", ratio), ("elapsed", "C", ratio))
    three = msgspec.structs.replace(so_far, ratios=ratios)
    assert "elapsed of B ×1.032" in block_text(three)
    sequence = msgspec.structs.replace(so_far, ratios=(), trials=(3, 62))
    assert block_text(sequence) == ("trial 3 of 62, 1 failed; about 3 min 56 s left; 12 s so far")
    warm = msgspec.structs.replace(so_far, warming_up=True, ratios=())
    assert block_text(warm) == "warming up; at most 84 s left; 12 s so far"
    limited = msgspec.structs.replace(warm, limit_s=20.0)
    assert block_text(limited) == "warming up; at most 8 s left; 12 s so far"


def test_no_name_of_an_arm_reaches_a_terminal_as_a_command() -> None:
    evil, shown = "\x1b[2J\x9b\u202e", r"\x1b[2J\x9b\u202e"
    stop = StopDecision("failed", f"{evil} \ufffe", answered=False)
    found = comparison_of(verdict_of(candidate=evil), arms=("A", evil), stop=stop, failed_blocks=1)
    for text in (render_comparison(found), render_junit([found])):
        assert text.replace("\n", "").isprintable()
        assert shown in text
    junit = render_junit([found])
    ElementTree.fromstring(junit)
    assert 'message="a trial failed in 1 block"' in junit
    null = msgspec.structs.replace(NULL, blocks=1)
    assert null_sentence(null).startswith("noise floor, in 1 block of ")
