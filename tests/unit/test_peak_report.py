"""What a peak search came to: text, document, progress, picture."""

from __future__ import annotations

import json
import math
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchwright.core.criterion import Criterion, criterion_text, criterion_value_text
from benchwright.core.results import Estimate, Finding, Severity
from benchwright.core.text import number_text, probability_text
from benchwright.features.load.plan import LoadEnding, LoadSeries, LoadTrial, Probe
from benchwright.features.search.output import criterion_figure_text, peak_trial_text, running_text
from benchwright.features.search.peak.report import (
    PeakReport,
    peak_document,
    peak_ending_text,
    peak_fields,
    peak_headline,
    peak_sentence,
)
from benchwright.features.search.peak.view import PeakView, half_width, peak_sheet
from benchwright.features.search.types import (
    Claim,
    ClaimKind,
    ClaimResult,
    CurvePoint,
    PeakStatus,
    RateTally,
    SearchTrial,
    VarianceComponents,
)
from benchwright.report.charts.render import render_sheet
from benchwright.report.charts.sheet import AxisUnit, CurveForm
from benchwright.report.charts.style import ChartStyle
from benchwright.stats.dependence import long_run_sdev

MEAN = Criterion("response_ms_mean", 40.0)
ERRORS = Criterion("error_ratio", 0.001, unit="", statistic="ratio")
P99 = Criterion("response_ms_p99", 0.1, statistic="percentile", share=0.99)
WITHIN = Criterion("within_2s_share", 0.9, unit="", better="higher", statistic="share")


def trial(number: int, rate: float, mean_ms: float, **fields: Any) -> SearchTrial:
    """Return one trial of 60 s."""
    given: dict[str, Any] = {
        "lasted_s": 60.0,
        "cost_s": 62.5,
        "values": {"response_ms_mean": mean_ms, "error_ratio": 0.0},
        "offered": round(rate * 60),
        "completed": round(rate * 60),
    }
    one = LoadTrial(rate=rate, duration_s=60.0, **(given | fields))
    return SearchTrial(number, Probe(rate, 60.0, "climb"), one)


STORED: dict[str, Any] = {"study": "s", "session": 1, "exit_status": 0}
"""Where a search is kept, and how it ended."""

RESULT = ClaimResult(
    status=PeakStatus.FOUND,
    detail="region:10% holds with probability 0.973",
    claim=Claim(),
    policy="monotone",
    peak_rate=236.34,
    interval=Estimate(236.3, 231.24, 241.9, 0.95, "posterior", 4, "1/s"),
    claim_probability=0.973,
    binding="response_ms_mean",
    load_s=240.0,
    cost_s=250.0,
    trials=4,
    components=VarianceComponents(0.24, 0.011),
    curve=tuple(
        CurvePoint(float(rate), 10.0 + at, 12.0 + at, 14.0 + at)
        for at, rate in enumerate(range(100, 260, 10))
    ),
    findings=(
        Finding(
            "generator-behind", Severity.WARNING, "search", "3 of 4 trials", "Give it a processor."
        ),
    ),
)
REPORT = PeakReport(
    status="found",
    detail=RESULT.detail,
    criteria=(MEAN, ERRORS),
    claims=(Claim(),),
    results=(RESULT,),
    trials=(
        trial(1, 100.0, 15.02),
        trial(2, 200.0, 30.5),
        trial(3, 400.0, 1234.5, lasted_s=12.0, cost_s=14.5, ending=LoadEnding.LEFT, offered=4790),
        trial(
            4,
            240.0,
            math.nan,
            lasted_s=0.0,
            ending=LoadEnding.FAILED,
            failure="it is gone",
            values={},
            offered=None,
            completed=None,
        ),
    ),
    policy="monotone",
    seed=5,
    sample=(("workers", "2"),),
)
TEXT = """\
peak rate 236.34/s (231.24 to 241.9/s at 95 %): the highest rate with mean response \
< 40 ms and errors < 0.1 %; region:10% holds with a probability of 97.3 %

claim   region:10%: the true response here is within ±10 % of 40 ms: probability \
97.3 % at 236.34/s
limit   mean response < 40 ms (binding)
limit   errors < 0.1 %
sample  workers=2
trials  every limit held up to 200/s (1 of 1 trial); a limit was exceeded from 240/s (1 of 1 trial) on
spent   2 min 12 s of load, 3 min 22 s in total, in 4 trials; policy monotone, seed 5
noise   ±6.32 % within a trial of 60 s, ±1.1 % between trials (standard deviation of \
the response)
ended   found: region:10% holds with probability 0.973

4 trials:
trial   rate   offered  lasted s  cost s  mean response ms  errors %  purpose  ended
    1  100/s  100.00/s      60.0    62.5              15.0         0  climb
    2  200/s  200.00/s      60.0    62.5              30.5         0  climb
    3  400/s  399.17/s      12.0    14.5           1,234.5         0  climb    ended early
    4  240/s         -       0.0    62.5                 -         -  climb    failed: it is gone

The response at 7 rates, with a 95 % band:
 rate  mean response ms  low  high
100/s                12   10    14
120/s                14   12    16
150/s                17   15    19
180/s                20   18    22
200/s                22   20    24
220/s                24   22    26
250/s                27   25    29
"""


def changed(**fields: Any) -> PeakReport:
    """Return the report with a changed result."""
    result = msgspec.structs.replace(RESULT, **fields)
    status = result.status.value
    return msgspec.structs.replace(REPORT, results=(result,), status=status)


def test_the_answer_comes_first() -> None:
    assert PeakView(REPORT).text() == TEXT


def test_a_page_without_a_curve_has_no_table_of_it() -> None:
    (claims,) = PeakView(changed(curve=()), "p1", verbose=True).tables()
    assert len(claims.rows) == 1


def test_a_page_has_the_whole_curve_and_every_claim() -> None:
    claims, curve = PeakView(REPORT, "p1", verbose=True).tables()
    assert (len(claims.rows), len(curve.rows)) == (1, len(RESULT.curve))


def head(report: PeakReport) -> dict[str, str]:
    """Return the rows of the report's head, the last of each name."""
    rows = PeakView(report).text().split("\n\n")[1].splitlines()
    return {row[:8].strip(): row[8:] for row in rows}


def test_nothing_of_a_server_reaches_a_terminal_as_a_command() -> None:
    failed = trial(9, 100.0, 1.0, ending=LoadEnding.FAILED, failure="\x1b[2J\x9b\nsecond")
    report = msgspec.structs.replace(REPORT, trials=(failed,), detail="\u202e\nx")
    text = PeakView(report).text()
    assert text.replace("\n", "").isprintable()
    assert r"failed: \x1b[2J\x9b second" in text
    assert r": \u202e x" in text


def test_a_bound_is_told_as_one_and_nothing_is_claimed_of_it() -> None:
    below = changed(status=PeakStatus.FAILS_AT_LOWEST, peak_rate=0.5, interval=None, curve=())
    assert peak_sentence(below).startswith("peak rate below 0.5/s: ")
    assert head(below)["claim"].endswith("not claimed")
    above = changed(status=PeakStatus.NEVER_FAILS, peak_rate=1e6, interval=None)
    assert peak_sentence(above).startswith("peak rate 1,000,000/s or more: ")
    assert "low" not in PeakView(above).text(), "a curve beyond all that was seen"


def test_a_policy_without_a_probability_states_none() -> None:
    paper = changed(claim_probability=None, interval=None)
    assert peak_sentence(paper).startswith("peak rate 236.34/s (no interval is known)")
    assert "states no probability" in head(paper)["claim"]


def test_components_that_cannot_be_told_are_not_zero() -> None:
    assert "noise" not in head(changed(components=VarianceComponents(None, None)))
    within = head(changed(components=VarianceComponents(0.24, None)))["noise"]
    assert "between" not in within


def test_an_interrupt_before_the_first_trial_has_a_report() -> None:
    nothing = msgspec.structs.replace(
        REPORT, status="interrupted", results=(None,), trials=(), detail="cut"
    )
    assert peak_sentence(nothing) == "interrupted after 0 trials: no answer"
    document = json.loads(peak_document(nothing, **STORED))
    assert document["peak_rate"] is None
    assert document["interval"] is None
    assert document["trials"] == []
    assert not peak_sheet(nothing).panels[0].curves


def stopped(status: PeakStatus, **fields: Any) -> PeakReport:
    """Return the report of a search that ended without its claim."""
    report = changed(status=status, claim_probability=0.433, **fields)
    return msgspec.structs.replace(report, budget_s=45.0)


@pytest.mark.parametrize(
    ("needed", "why"),
    [
        (0.975, "because it is checked after every trial, it must reach 97.5 % for a conf"),
        (0.955, "but too few trials are near the limit"),
        (None, "because it is checked after every trial, it must reach more than 95 %"),
    ],
)
def test_a_probable_claim_that_is_open_has_the_true_reason(needed: float | None, why: str) -> None:
    report = changed(status=PeakStatus.UNDECIDED, claim_probability=0.963, stop_probability=needed)
    assert "96.3 % sure that" in peak_sentence(report)
    assert why in peak_sentence(report)
    assert peak_headline(report) == "Peak rate 236.34/s, undecided"


def test_a_search_that_stopped_says_why_and_what_is_open() -> None:
    budget = stopped(PeakStatus.BUDGET)
    assert peak_sentence(budget) == (
        "stopped at the 45 s budget: best answer 236.34/s, between 231.24 and 241.9/s; 43.3 % "
        "sure that the true response at this rate is within ±10 % of the limit (95 % required)"
    )
    assert peak_headline(budget) == "Peak rate 236.34/s, stopped at the 45 s budget"
    assert peak_ending_text(budget) == "stopped at the 45 s budget"
    why = "60 trials at 240/s do not decide the claim"
    undecided = msgspec.structs.replace(stopped(PeakStatus.UNDECIDED), detail=f"{why}; more")
    assert peak_sentence(undecided).startswith(f"undecided, {why}: best answer 236.34/s")
    result = msgspec.structs.replace(RESULT, status=PeakStatus.UNDECIDED)
    cut = msgspec.structs.replace(REPORT, status="interrupted", results=(result,))
    assert peak_sentence(cut).startswith(
        "interrupted after 4 trials: best answer 236.34/s, between"
    )
    assert PeakView(cut).text().startswith(peak_sentence(cut) + "\n\n")


@pytest.mark.parametrize(
    ("bound", "text"),
    [
        ("lower", "stopped at the 45 s budget: 200/s or more; a limit was exceeded from 240/s on"),
        ("upper", "stopped at the 45 s budget: below 200/s; no trial held every limit"),
    ],
)
def test_an_answer_from_one_side_of_the_limit_is_a_bound(bound: str, text: str) -> None:
    one_sided = {"bound": bound, "peak_rate": 200.0, "interval": None}
    report = stopped(PeakStatus.BUDGET, **one_sided)
    assert peak_sentence(report) == text
    document = json.loads(peak_document(report, **STORED))
    assert (document["peak_rate"], document["bound"]) == (200.0, bound)
    assert document["interval"] is None
    assert document["claims"][0]["bound"] == bound


@pytest.mark.parametrize(
    ("means", "measured"),
    [
        ((15, 30), "every limit held up to 200/s (1 of 1 trial)"),
        (
            (15, 30, 90),
            "every limit held up to 200/s (1 of 1 trial); a limit was exceeded from 300/s (1 of "
            "1 trial) on",
        ),
        (
            (15, 90, 30, 90),
            "every limit held up to 100/s (1 of 1 trial); a limit was exceeded from 400/s (1 of "
            "1 trial) on; between them 1 trial held and 1 did not",
        ),
        ((50, 90), "a limit was exceeded from 100/s (1 of 1 trial) on"),
    ],
)
def test_the_trials_say_what_held_and_what_failed(means: tuple[float, ...], measured: str) -> None:
    trials = tuple(trial(n, 100.0 * n, mean) for n, mean in enumerate(means, 1))
    report = msgspec.structs.replace(stopped(PeakStatus.BUDGET), trials=trials)
    assert dict(peak_fields(report))["trials"] == measured
    exceeded = max(means) > MEAN.limit
    assert ("(binding)" in PeakView(report).text()) == exceeded


def test_rates_that_were_repeated_are_told_with_how_often_they_held() -> None:
    means = ((100, 15), (200, 30), (200, 60), (200, 30), (300, 60), (300, 60), (300, 30))
    trials = tuple(trial(n, float(r), mean) for n, (r, mean) in enumerate(means, 1))
    report = msgspec.structs.replace(REPORT, trials=trials)
    assert head(report)["trials"] == (
        "every limit held up to 200/s (2 of 3 trials); a limit was exceeded from 300/s (2 of 3 "
        "trials) on"
    )


def test_a_trial_that_only_the_generator_spoilt_is_void() -> None:
    late = trial(3, 300.0, 60.0, target_values={MEAN.key: 20.0}, late_p99_ms=80.0)
    report = msgspec.structs.replace(REPORT, trials=(*REPORT.trials[:2], late))
    told = head(report)["trials"]
    assert told.endswith("1 trial decided nothing: the generator was late")
    assert "exceeded" not in told
    assert "void: the generator was late" in PeakView(report).text()
    *_, entry = json.loads(peak_document(report, **STORED))["trials"]
    assert entry["void"]


def test_the_check_is_a_row_and_a_member() -> None:
    assert "check" not in head(REPORT)
    tallies = (RateTally(224.5, 3, 0), RateTally(248.2, 1, 2))
    report = changed(check=tallies)
    assert head(report)["check"] == (
        "at 0.95 of it held 3 of 3; at 1.05 of it exceeded a limit 2 of 3"
    )
    document = json.loads(peak_document(report, **STORED))
    assert document["check"] == [
        {"rate": 224.5, "held": 3, "failed": 0},
        {"rate": 248.2, "held": 1, "failed": 2},
    ]


def test_a_search_that_failed_has_no_answer() -> None:
    failed = changed(status=PeakStatus.FAILED, peak_rate=None, interval=None)
    assert peak_sentence(failed) == f"no answer: {RESULT.detail}"


def test_a_finding_of_the_workbench_is_not_dropped_for_one_of_the_search() -> None:
    ours = Finding("generator-behind", Severity.SERIOUS, "bench", "all", "Fix it.")
    report = msgspec.structs.replace(REPORT, bench_findings=(ours,))
    assert report.findings == (*RESULT.findings, ours)


def test_several_claims_are_each_told() -> None:
    rate = Claim(ClaimKind.RATE, 0.05)
    slo = Claim(ClaimKind.SLO, 0.1, 0.9)
    report = msgspec.structs.replace(
        REPORT,
        claims=(Claim(), rate, slo),
        results=(
            RESULT,
            msgspec.structs.replace(RESULT, claim=rate, claim_probability=0.9999),
            msgspec.structs.replace(RESULT, claim=slo, peak_rate=231.5),
        ),
    )
    text = PeakView(report).text()
    assert "rate:5%: within ±5 % of the true peak rate: probability > 99.9 %" in text
    assert "with probability 90 % at least" in text
    (row,) = (line.split() for line in text.splitlines() if line.startswith("rate:5%"))
    assert row == ["rate:5%", "found", "236.34/s", "231.24", "241.90/s", ">", "99.9", "%"]
    assert [one.code for one in report.findings] == ["generator-behind"]
    document = json.loads(peak_document(report, **STORED))
    assert document["claim"] == "region:10%"
    assert [one["claim"] for one in document["claims"]] == ["region:10%", "rate:5%", "slo:90%"]
    assert [one["peak_rate"] for one in document["claims"]] == [236.34, 236.34, 231.5]


def test_the_document_has_what_scripts_read() -> None:
    document = json.loads(peak_document(REPORT, **STORED))
    assert document["schema"] == "benchwright/peak/1"
    assert document["peak_rate"] == 236.34
    assert document["interval"] == [231.24, 241.9]
    assert document["interval_confidence"] == 0.95
    assert document["claim_probability"] == 0.973
    assert document["status"] == "found"
    assert document["seconds"] == 62.5 * 3 + 14.5
    assert document["load_s"] == 132.0
    assert document["components"] == {"within_s": 0.24, "between": 0.011}
    first, _, left, failed = document["trials"]
    assert (first["rate"], first["duration"], first["response"]) == (100, 60, 15.02)
    assert (left["ending"], left["lasted_s"]) == ("left", 12)
    assert left["offered_rate"] == pytest.approx(4790 / 12)
    assert failed["response"] is None, "absent is not zero"
    assert failed["offered_rate"] is None
    assert failed["failure"] == "it is gone"
    assert document["findings"][0]["code"] == "generator-behind"


def test_a_value_that_is_infinite_is_null_in_json_and_named_beside() -> None:
    endless = trial(1, 10.0, math.inf)
    absent = trial(2, 20.0, math.nan)
    report = msgspec.structs.replace(REPORT, trials=(endless, absent))
    one, other = json.loads(peak_document(report, **STORED))["trials"]
    assert one["response"] is None
    assert one["values"]["response_ms_mean"] is None
    assert one["infinite"] == ["response_ms_mean"]
    assert other["values"]["response_ms_mean"] is None
    assert other["infinite"] == [], "what nobody knows is not infinite"
    assert "never" in PeakView(report).text()


def test_how_late_the_generator_was_is_a_column_where_any_trial_says_so() -> None:
    assert "late p99" not in PeakView(REPORT).text()
    trials = (trial(1, 10.0, 3.0), trial(2, 20.0, 4.0, late_p99_ms=258.04))
    report = msgspec.structs.replace(REPORT, trials=trials)
    _, heading, unknown, late = PeakView(report).text().split("\n\n")[2].splitlines()
    assert "errors %  late p99 ms" in heading
    assert unknown.split()[-2:] == ["-", "climb"]
    assert late.split()[-2:] == ["258", "climb"]
    one, other = json.loads(peak_document(report, **STORED))["trials"]
    assert (one["late_p99_ms"], other["late_p99_ms"]) == (None, 258.04)


# -- words -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("criterion", "text"),
    [
        (MEAN, "mean response < 40 ms"),
        (P99, "p99 response < 0.1 ms"),
        (ERRORS, "errors < 0.1 %"),
        (WITHIN, "within 2s > 90 %"),
        (Criterion("hits", 0.9, unit="", better="higher", statistic="metric"), "hits > 0.9"),
        (Criterion("error_ratio", 0.0, unit="", statistic="ratio"), "errors < 0"),
    ],
)
def test_a_criterion_reads_as_a_person_writes_it(criterion: Criterion, text: str) -> None:
    assert criterion_text(criterion) == text


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (236.344, "236.34"),
        (50.0, "50"),
        (12345.6, "12,346"),
        (123456789.0, "123,460,000"),
        (0.048828, "0.048828"),
        (0.0, "0"),
        (99999.96, "100,000"),
        (1e-7, "1e-07"),
    ],
)
def test_a_number_has_five_digits_and_can_be_read(number: float, text: str) -> None:
    assert number_text(number, 5) == text


@given(st.floats(min_value=1e-4, max_value=1e11))
def test_a_number_as_text_is_right_to_five_digits(number: float) -> None:
    back = float(number_text(number, 5).replace(",", ""))
    assert back == pytest.approx(number, rel=0.6e-4)


@given(st.floats(min_value=0, max_value=1))
def test_no_probability_is_told_as_certain(probability: float) -> None:
    assert probability_text(probability) not in ("100 %", "0 %")


def test_an_unknown_value_is_no_number() -> None:
    assert criterion_value_text(MEAN, None) == criterion_value_text(MEAN, math.nan) == "-"


# -- progress ----------------------------------------------------------------------------


def test_a_failure_is_told_once_and_named_after() -> None:
    again = msgspec.structs.replace(REPORT.trials[3], number=5)
    other = msgspec.structs.replace(
        again, number=6, trial=msgspec.structs.replace(again.trial, failure="it is not ready")
    )
    report = msgspec.structs.replace(REPORT, trials=(*REPORT.trials, again, other))
    text = PeakView(report).text()
    assert text.count("it is gone") == 1
    assert "failed as trial 4 did" in text
    assert text.count("failed: it is not ready") == 1


def test_a_trial_is_one_line_with_what_is_known() -> None:
    line = peak_trial_text(REPORT.trials[1], MEAN, RESULT, 122.0)
    assert line == (
        "trial 2: 200/s for 60 s (climb): mean response 30.5 ms; "
        "peak 231.24 to 241.9/s at 95 %, claim 97.3 %; 2 min 2 s spent"
    )
    left = peak_trial_text(REPORT.trials[2], MEAN, None, 134.0)
    assert left.endswith(
        "mean response 1,234 ms, stopped after 12 s because the result was clear; 2 min 14 s spent"
    )
    assert "failed: it is gone" in peak_trial_text(REPORT.trials[3], MEAN, None, 134.0)


def test_a_running_trial_says_how_far_it_is() -> None:
    done = REPORT.trials[1]
    so_far = msgspec.structs.replace(done.trial, lasted_s=7.0)
    assert running_text(2, done.probe, so_far, criterion_figure_text(so_far, MEAN)) == (
        "trial 2: 200/s for 60 s (climb); after 7 s: mean response 30.5 ms"
    )


# -- picture -----------------------------------------------------------------------------


def test_the_picture_shows_trials_curve_limit_and_peak() -> None:
    response, errors, course = peak_sheet(REPORT).panels
    assert (response.title, errors.title) == ("Mean response against rate", "Errors against rate")
    assert [curve.label for curve in errors.curves] == ["trials"], "the curve is the response's"
    curve, trials = response.curves
    assert curve.low[0] == 10.0
    assert curve.high[0] == 14.0
    assert trials.form is CurveForm.POINTS
    assert trials.x == (100.0, 200.0)
    (limit,) = response.marks
    assert limit.y == 40.0
    (peak,) = response.spans
    assert (peak.low, peak.at, peak.high) == (231.24, 236.34, 241.9)
    assert [one.label for one in course.curves] == [
        "holds",
        "does not hold",
        "failed, or without a value",
    ]


def test_trials_are_drawn_at_their_numbers_and_there_is_no_trial_0() -> None:
    few = peak_sheet(REPORT).panels[-1]
    assert [t.label for t in few.x.ticks] == [str(o.number) for o in REPORT.trials]
    many = tuple(trial(3 + at, 50.0 + at, 15.0) for at in range(13))
    course = peak_sheet(msgspec.structs.replace(REPORT, trials=many)).panels[-1]
    assert course.x.ticks == ()
    assert course.x.unit is AxisUnit.COUNT
    assert course.curves[0].x == tuple(float(one.number) for one in many)
    assert course.x.low is not None
    assert 2 < course.x.low < 3, "the first of these trials has the number 3"


@pytest.mark.parametrize(
    ("status", "title"),
    [
        (PeakStatus.FAILS_AT_LOWEST, "Peak rate below 236.34/s"),
        (PeakStatus.NEVER_FAILS, "Peak rate 236.34/s or more"),
        (PeakStatus.BUDGET, "Peak rate 236.34/s, budget"),
    ],
)
def test_a_picture_of_a_bound_says_so(status: PeakStatus, title: str) -> None:
    drawn = peak_sheet(changed(status=status, interval=None))
    assert drawn.title.removesuffix(" at workers=2") == title


def test_what_is_not_drawn_is_counted_at_the_foot() -> None:
    note = peak_sheet(REPORT).note
    assert "1 trial beyond the axis of mean response" in note
    assert "1 trial failed or without a value" in note
    assert "not drawn" not in note
    others = (
        Criterion(f"response_ms_p{share}", 900.0, statistic=f"p{share}") for share in (50, 90)
    )
    note = peak_sheet(msgspec.structs.replace(REPORT, criteria=(MEAN, ERRORS, *others))).note
    assert "not drawn: response_ms_p90" in note


def test_the_course_is_judged_by_every_limit_and_an_open_claim_is_no_interval_at_its_level() -> (
    None
):
    """The second limit is exceeded, whichever is drawn first."""
    wrong = trial(5, 150.0, 15.0, values={"response_ms_mean": 15.0, "error_ratio": 0.5})
    late = trial(6, 160.0, 50.0, target_values={"response_ms_mean": 20.0})
    open_ = changed(status=PeakStatus.BUDGET)
    drawn = peak_sheet(msgspec.structs.replace(open_, trials=(*REPORT.trials, wrong, late)))
    course = {curve.label: curve.x for curve in drawn.panels[-1].curves}
    assert 4.0 in course["does not hold"]
    assert course["decides nothing: the generator was late"] == (5.0,)
    assert drawn.title.startswith(
        "Peak rate 236.34/s, budget: between 231.24 and 241.9/s, or beyond"
    )


def test_a_trials_interval_is_as_wide_as_its_own_series_says() -> None:
    generator = np.random.default_rng(20261121)
    bins = 30 + generator.normal(size=60)
    series = LoadSeries(
        at_s=tuple(map(float, range(60))),
        counts=(200,) * 60,
        values={"response_ms_mean": tuple(map(float, bins))},
    )
    done = trial(1, 200.0, float(bins.mean()), series=series).trial
    half = half_width(done, MEAN)
    assert half is not None
    # t with 10 degrees of freedom: 2.228.
    assert half == pytest.approx(2.228 * long_run_sdev(bins) / math.sqrt(60), rel=1e-3)
    assert half_width(done, P99) is None, "no mean of its bins"
    assert half_width(trial(1, 200.0, 30.0).trial, MEAN) is None


@pytest.mark.parametrize("form", ["png", "svg"])
def test_every_kind_of_report_can_be_drawn(form: str) -> None:
    nothing = msgspec.structs.replace(REPORT, results=(None,), trials=())
    for report in (REPORT, nothing, changed(interval=None, peak_rate=None, curve=())):
        style = ChartStyle(width_in=4.0, height_in=3.0, fontsize_pt=9.0, dpi=50)
        assert len(render_sheet(peak_sheet(report), style, form).data) > 1000
