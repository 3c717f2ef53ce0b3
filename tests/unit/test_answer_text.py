"""The end of a session as text: the table, the sentences, the findings in short."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest

from benchwright.core.observation import MeasurementBlock, Trial, TrialEnding
from benchwright.core.plan import (
    ComparisonArm,
    FixedCount,
    MetricSpec,
    StopDecision,
    StoppingRule,
    UntilPrecise,
    UntilPredicate,
)
from benchwright.core.results import Finding, Severity
from benchwright.findings.result import TestResult
from benchwright.report.answer import SessionAnswer, answer_of
from benchwright.results.stats import StudyAnswer
from benchwright.views.terminal import (
    MOST_GROUPS,
    finding_paragraphs,
    group_lines,
    shortened,
    table_rows,
)
from benchwright.views.tests import (
    MOST_SENTENCES,
    answer_lines,
    answers_table,
    groups_to_print,
    interval_lines,
    study_answer_lines,
)

VALUES = (0.0100, 0.0110, 0.0090, 0.0105, 0.0095)


def a_trial(epoch: int, values: dict[str, float]) -> Trial:
    return Trial(
        test="t",
        epoch=epoch,
        threads=1,
        ending=TrialEnding.OK,
        started_ns=0,
        duration_ns=10**7,
        blocks=(MeasurementBlock(1, epoch, "c", 0, values),),
    )


def a_test(
    name: str,
    factor: float = 1.0,
    *,
    metrics: Sequence[str] = (),
    findings: Sequence[Finding] = (),
    stop: StopDecision | None = None,
    rule: StoppingRule | None = None,
) -> TestResult:
    _, _, level = name.partition("=")
    return TestResult(
        name=name,
        rule=rule or FixedCount(5),
        specs=tuple(MetricSpec(metric, unit="1/s") for metric in metrics),
        sample=(("n", level),) if level else (),
        whole_trials=tuple(
            a_trial(epoch, {"elapsed": factor * value} | dict.fromkeys(metrics, value * 1000000.0))
            for epoch, value in enumerate(VALUES, 1)
        ),
        stop=stop or StopDecision("count", "5 trials, as requested"),
        findings=tuple(findings),
    )


def a_finding(
    code: str, severity: Severity = Severity.WARNING, evidence: str = "it is so"
) -> Finding:
    return Finding(code, severity, "subject", evidence, "do something")


def lines_of(answer: SessionAnswer, width: int = 100) -> list[str]:
    return answer_lines(answer, width)


def heading(answer: SessionAnswer, width: int = 100) -> str:
    return lines_of(answer, width)[0]


def test_the_heading_of_ratios_names_the_reference() -> None:
    inputs = [a_test("n=1"), a_test("n=2", 3.0)]
    assert "  ratio to n=1  " in heading(answer_of(inputs))
    assert "  ratio to n=2  " in heading(answer_of(inputs, baseline="n=2"))
    long = [a_test("a-command-with-a-long-name"), a_test("the-other-long-name", 0.5)]
    assert "  ratio to first  " in heading(answer_of(long))
    assert "  ratio to best  " in heading(answer_of(long, baseline="best"))
    named = heading(answer_of(long, baseline="the-other-long-name"))
    assert "  ratio to the-other-l...  " in named
    assert all(len(line) <= 80 for line in lines_of(answer_of(long), 80))


def test_the_first_test_with_a_value_is_not_called_the_first() -> None:
    names = ("a-command-that-failed", "the-first-with-a-value", "another-one")
    failed, *others = map(a_test, names)
    answer = answer_of([TestResult(name=failed.name), *others])
    assert answer.reference is answer.tests[1]
    assert "ratio to first" not in heading(answer)
    assert "ratio to the-first-w...  " in heading(answer)


UNSEEN = (
    "Slow runs rarer than 1 in 2 may not have been seen: at twice the time they would make the mean 45 %",
    "  higher",
)
"""Of five trials."""


def test_one_test_is_a_row_with_its_range_and_a_sentence() -> None:
    assert lines_of(answer_of([a_test("sort")])) == [
        "test  elapsed ms  ± %  min  max  trials",
        "sort          10  9.8    9   11       5",
        "",
        "sort: 10 ms ± 9.8 % (95 %, 5 trials)",
        *UNSEEN,
    ]


def test_a_single_trial_has_no_interval() -> None:
    one = TestResult(name="sort", whole_trials=(a_trial(1, {"elapsed": 0.5}),))
    assert lines_of(answer_of([one], status="interrupted")) == [
        "test  elapsed ms  trials  notes",
        "sort         500       1  interrupted",
        "",
        "sort: 500 ms (no interval), interrupted after 1 trial",
    ]


def test_levels_are_rows_with_ratios_to_the_first() -> None:
    serious = [a_finding("drift", Severity.SERIOUS)]
    inputs = [a_test("gzip:n=1"), a_test("gzip:n=9", 3, findings=serious)]
    assert lines_of(answer_of(inputs)) == [
        "n  elapsed ms   ± %  ratio to n=1   low  high  trials  notes",
        "1       10.00  9.82     reference                   5",
        "9       30.00  9.82          3.00  2.61  3.45       5  serious",
        "",
        "n=1: 10 ms ± 9.8 % (95 %, 5 trials)",
        "n=9: 30 ms ± 9.8 % (95 %, 5 trials)",
        *UNSEEN,
    ]


def test_the_users_metrics_have_their_columns() -> None:
    table, row, *_ = lines_of(answer_of([a_test("pgbench", metrics=("tps", "rows"))]))
    assert table == "test     tps 1/s  ± %    min     max  rows 1/s  ± %  trials"
    assert row.split() == ["pgbench", "10,000", "9.8", "9,000", "11,000", "10,000", "9.8", "5"]


def test_a_narrow_table_leaves_out_the_less_important_columns() -> None:
    inputs = [a_test(f"gzip:n={n}", metrics=("tps", "rows")) for n in (1, 9)]
    answer = answer_of(inputs)
    whole = lines_of(answer, 200)[0]
    headings = "n tps 1/s ± % {} rows 1/s ± % trials"
    assert whole.split() == headings.format("ratio to n=1 low high").split()
    narrower = lines_of(answer, len(whole) - 1)[0]
    assert narrower.split() == headings.format("ratio to n=1").split()
    narrowest = lines_of(answer, 26)[0]
    assert narrowest.split() == ["n", "tps", "1/s", "±", "%", "trials"]


def test_a_document_has_the_table_of_the_page() -> None:
    answer = answer_of([a_test("gzip:n=1"), a_test("gzip:n=9", 2)])
    headings, first, second = table_rows(answers_table(answer))
    interval = ["elapsed ms", "low", "high", "± %"]
    assert headings == ["n", *interval, "ratio to n=1", "low", "high", "trials"]
    assert first == ["1", "10.00", "9.02", "10.98", "9.82", "reference", "", "", "5"]
    assert second[:2] == ["9", "20.00"]


def test_tests_of_several_metrics_name_theirs() -> None:
    answer = answer_of([a_test("sort"), a_test("pgbench", metrics=("tps",))])
    table = lines_of(answer)
    assert table[0].startswith("test     quantity  elapsed / tps   ± %  trials")
    assert "elapsed        10.00 ms  9.82" in table[1]
    assert "10,000 1/s" in table[2]


def test_an_interrupted_session_has_the_command_that_continues_it() -> None:
    answer = answer_of([a_test("t")], status="crashed")
    lines = study_answer_lines([StudyAnswer("a b:t", "a b", answer)], 100)
    assert lines[-1] == "interrupted: 5 trials; `bw resume 'a b'` continues"
    ended = answer_of([a_test("t")])
    twice = [StudyAnswer(name, name, ended) for name in ("x", "y")]
    lines = study_answer_lines(twice, 100)
    assert [line for line in lines if line in ("x", "y")] == ["x", "y"]
    assert not any("bw resume" in line for line in lines)


def test_what_is_unusual_is_at_the_end_of_a_row() -> None:
    limit = StopDecision("max-runs", "5 trials, the maximum", answered=False)
    one = a_test("sort", stop=limit, findings=[a_finding("drift", Severity.SERIOUS)])
    row = lines_of(answer_of([one]))[1]
    assert row.endswith("undecided, serious")


def test_colours_change_no_width() -> None:
    inputs = [
        a_test("gzip:n=1", findings=[a_finding("drift")]),
        a_test("gzip:n=9", findings=[a_finding("drift", Severity.SERIOUS)]),
    ]
    answer = answer_of(inputs)

    def paint(severity: Severity, text: str) -> str:
        return f"<{severity}>{text}</>"

    painted = answer_lines(answer, 100, paint)
    assert any("<serious>serious</>" in line for line in painted)
    stripped = [
        line.replace("</>", "").replace("<serious>", "").replace("<warning>", "")
        for line in painted
    ]
    assert stripped == answer_lines(answer, 100)


def test_without_a_value_there_is_no_table() -> None:
    cause = a_finding("command-failed", Severity.SERIOUS, "`ls /x` exited with 2")
    answer = answer_of([TestResult(name="ls", findings=(cause,))], status="failed")
    assert lines_of(answer) == ["ls: failed: `ls /x` exited with 2"]
    assert groups_to_print(answer) == ()


def test_failures_are_in_a_sentence_or_in_the_findings() -> None:
    """All of a test's failures; an arm of a comparison has no sentence, nor has an interrupted test
    one of its failures."""
    failure = a_finding("command-failed", Severity.SERIOUS, "`ls /x` exited with 2")
    late = a_finding("timeout", Severity.SERIOUS, "`ls /x` took longer than 5 s")
    one = TestResult(name="ls", findings=(failure, late))
    arm = msgspec.structs.replace(one, arm=ComparisonArm("c", 0, ("ls", "other")))
    for test, status in ((one, "failed"), (one, "interrupted"), (arm, "complete")):
        answer = answer_of([test], status=status)
        groups = groups_to_print(answer)
        text = "\n".join((*lines_of(answer), *group_lines(groups, 1, 100)))
        assert failure.evidence in text
        assert late.evidence in text


def test_of_many_tests_only_those_without_an_answer_have_a_sentence() -> None:
    limit = StopDecision("max-runs", "5 trials, the maximum", answered=False)
    count = MOST_SENTENCES + 1
    inputs = [a_test(f"gzip:n={n}") for n in range(count - 1)]
    inputs.append(a_test("gzip:n=99", stop=limit))
    lines = lines_of(answer_of(inputs))
    assert lines[count + 2].startswith("n=99: undecided: ")
    assert lines[count + 3 :] == [f"{count - 1} other tests answered: the table has them", *UNSEEN]


def test_a_constant_is_printed_once() -> None:
    inputs = [a_test(f"gzip:n={n}", metrics=("tps",)) for n in (1, 9)]
    for one in inputs:
        for trial in one.trials:
            trial.blocks[0].values["bytes"] = 1234567.0
    specs = (MetricSpec("tps", unit="1/s"), MetricSpec("bytes", unit="B"))
    constant = [
        TestResult(name=o.name, specs=specs, sample=o.sample, whole_trials=o.trials, stop=o.stop)
        for o in inputs
    ]
    lines = lines_of(answer_of(constant))
    assert "The same in every trial: bytes 1.234567 MB." in lines
    assert "bytes" not in lines[0]


@pytest.mark.parametrize("width", [60, 80, 120])
def test_a_group_of_findings_has_at_most_two_lines(width: int) -> None:
    long = "elapsed 2.63 ms: starting a process takes about 1 ms, 38 % of it" * 2
    found = [a_finding("work-too-short-for-the-clock", evidence=long)]
    inputs = [a_test(f"gzip:n={n}", findings=found) for n in range(9)]
    answer = answer_of(inputs)
    first, second = group_lines(answer.groups, len(inputs), width)
    assert max(len(first), len(second)) <= width
    assert first.startswith("9 of 9 tests: warning: elapsed 2.63 ms: starting")
    assert second.endswith("[work-too-short-for-the-clock]")
    assert (f"{long} [" in f"{first} {second.strip()}") is (width == 120)


def test_a_group_names_its_test_also_where_a_second_line_is_necessary() -> None:
    long = "elapsed 14.1 ms: starting a process takes about 1 ms, 7 % of each trial"
    found = [a_finding("work-too-short", evidence=long)]
    answer = answer_of([a_test("gzip -9", findings=found), a_test("xz")])
    assert group_lines(answer.groups, 2, 80, noun="arm") == [
        "1 of 2 arms (gzip -9): warning: elapsed 14.1 ms: starting a process takes about",
        "  1 ms, 7 % of each trial [work-too-short]",
    ]


def test_at_most_ten_groups_are_shown_and_the_others_named() -> None:
    found = [a_finding(f"code-{n:02}") for n in range(MOST_GROUPS + 2)]
    answer = answer_of([a_test("sort", findings=found)])
    lines = group_lines(answer.groups, 1, 100)
    assert len(lines) == MOST_GROUPS + 1
    assert lines[-1] == "and 2 more: code-10, code-11"


def test_verbose_shows_each_finding_with_its_remedy_and_equal_ones_once() -> None:
    one = a_finding("nominal-confidence", evidence="looked at 11 times")
    named = [("b", a_finding("drift", Severity.NOTE)), ("a", one), ("c", one)]
    assert finding_paragraphs(named, 100) == [
        "a, c: warning: looked at 11 times [nominal-confidence]",
        "    = do something",
        "b: note: it is so [drift]",
        "    = do something",
    ]


def test_a_text_is_cut_after_a_word() -> None:
    assert shortened("one two three", 13) == "one two three"
    assert shortened("one two three", 12) == "one two ..."
    assert shortened("one two, three four", 10) == "one two"
    assert shortened("one, two three four", 14) == "one, two ..."
    assert shortened("`sort a; wc b` failed", 9) == "`sort ..."
    long = f"`{'true; ' * 30}` exited with status 4 in 4 of 6 trials"
    for room in range(70, len(long)):
        cut = shortened(long, room)
        assert len(cut) <= room
        assert cut.startswith("`true; true")
        assert cut.endswith("...` exited with status 4 in 4 of 6 trials")


# -- the way on after a limit --------------------------------------------------------------


def way_on(*tests: TestResult) -> str:
    """Return what follows the sentences of undecided tests."""
    lines = lines_of(answer_of(tests), 400)
    return "\n".join(line for line in lines if "the limit was" in line)


def undecided(reason: str, rule: StoppingRule, *codes: str, n: int = 1) -> TestResult:
    stop = StopDecision(reason, "it ended", answered=False)
    findings = [a_finding(code) for code in codes]
    return a_test(f"n={n}", stop=stop, rule=rule, findings=findings)


def test_an_undecided_test_names_the_limit_and_the_option_that_extends_it() -> None:
    precise = UntilPrecise(0.01, minimum=3, maximum=5)
    assert way_on(undecided("max-runs", precise)) == (
        "n=1: the limit was 5 trials, and the answer needs about 1,000 trials: measure again with "
        "a larger --max-runs (max_runs in a suite)"
    )
    timed = UntilPrecise(0.01, minimum=3, maximum=500, max_time_ns=10**9)
    assert way_on(undecided("max-time", timed)).endswith(
        "the limit was 1 s, and the answer needs about 1,000 trials: measure again with a larger "
        "--max-time and --max-runs (max_time, max_runs in a suite)"
    )
    enough = UntilPrecise(0.1, minimum=3, max_time_ns=10**9)
    assert way_on(undecided("max-time", enough)).endswith(
        "with a larger --max-time (max_time in a suite)"
    )
    predicate = UntilPredicate(3, 1, "$delta < 0.01 * $mean", 5)
    assert "the answer needs more:" in way_on(undecided("max-runs", predicate))


def test_one_line_of_all_undecided_tests_names_what_the_machine_did_first() -> None:
    rule = UntilPrecise(0.01, minimum=3, maximum=5)
    both = [
        undecided("max-runs", rule, "outliers", n=1),
        undecided("max-runs", rule, "noisy-neighbour", n=2),
    ]
    assert way_on(*both).startswith(
        "2 of 2 tests: it is so [noisy-neighbour]; the limit was 5 trials, "
    )
    assert "again without this cause, or with a larger --max-runs" in way_on(*both)


def test_only_a_limit_that_can_be_raised_is_named() -> None:
    rule = UntilPrecise(0.01, minimum=3, maximum=5)
    assert way_on(undecided("missing", rule)) == ""
    assert way_on(a_test("a", rule=rule)) == "", "it is answered"


@pytest.mark.parametrize("room", range(12, 80))
def test_a_text_is_never_cut_within_brackets(room: int) -> None:
    text = (
        "no trial is in the mean's interval (the worst, sort): two modes (near 1 and 2), and more"
    )
    cut = shortened(text, room)
    assert len(cut) <= room
    assert cut.count("(") == cut.count(")")


@pytest.mark.parametrize(
    ("method", "is_told"),
    [("sequential-t", True), ("t-mixture-sequence", True), ("student-t", False)],
)
def test_an_interval_that_is_not_that_of_the_table_says_so(method: str, is_told: bool) -> None:
    (test,) = answer_of([a_test("t")]).tests
    assert test.estimate is not None
    estimate = msgspec.structs.replace(test.estimate, method=method)
    own = msgspec.structs.replace(test, estimate=estimate)
    answer = msgspec.structs.replace(answer_of([a_test("t")]), tests=(own,))
    assert bool(interval_lines([StudyAnswer("x", "x", answer)], 80)) is is_told
