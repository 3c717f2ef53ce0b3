"""The t-tests of `bw stats`: as text like the paper's Figure 3, and as table cells."""

from __future__ import annotations

import math

from benchwright.core.text import heading_with_unit
from benchwright.core.untrusted import visible_lines
from benchwright.report.stats_document import ABSENT, StatsReport, decimals_for, number
from benchwright.stats.input_comparison import PRETEST_LEVEL, InputComparison, QuantityComparison
from benchwright.stats.two_sample import POOLED, RankTest

# Decision: the paper's lines are printed unchanged (the interval of the difference, the
# heading, the three hypotheses). One line each follows for our additions: which t-test was
# used and why, the ratio, the rank test if a sample is not normal, the adjusted P value.
# Source: Auto-pilot paper, section 3.3, "Statistical Tests".

TTEST_HEADING = "Null Hyp. Alt. Hyp. P-value Result"
TTEST_COLUMNS = (
    "NAME",
    "DIFF LOW",
    "DIFF HIGH",
    "TEST",
    "P u1<=u2",
    "P u1>=u2",
    "P u1==u2",
    "ADJUSTED P",
    "RESULT",
    "RATIO",
    "RATIO LOW",
    "RATIO HIGH",
    "RANK P",
)
"""Columns of the table in Markdown and LaTeX; RESULT is that of u1 == u2."""

_TESTS = {"brunner-munzel": "Brunner-Munzel", "mann-whitney": "Mann-Whitney"}


def ttest_text(document: StatsReport) -> str:
    """Return a report's t-tests as text, with a blank line between quantities."""
    total = sum(len(pair.quantities) for pair in document.comparisons)
    parts = []
    for pair in document.comparisons:
        head = f"Comparing {pair.candidate} (Sample 1) to {pair.baseline} (Sample 2).\n"
        if not pair.quantities:
            parts.append(head + "They have no quantity in common.\n")
        for place, comparison in enumerate(pair.quantities):
            lines = "".join(line + "\n" for line in _ttest_lines(pair, comparison, total))
            parts.append(lines if place else head + lines)
    return visible_lines("\n".join(parts))


def _ttest_lines(pair: InputComparison, one: QuantityComparison, total: int) -> list[str]:
    test = one.test
    percent = _percent(test.difference.confidence)
    low, high = _ends(one)
    lines = [
        f"{one.label}: {percent}CI for {pair.candidate} - {pair.baseline} = ({low}, {high})",
        TTEST_HEADING,
    ]
    for null, alternative, p in (
        ("u1 <= u2", "u1 >  u2", test.p_greater),
        ("u1 >= u2", "u1 <  u2", test.p_less),
        ("u1 == u2", "u1 != u2", test.p_two_sided),
    ):
        lines.append(f"{null}  {alternative}  {p_text(p)}  {_result(one, p)}")
    lines += [_method_line(one), _ratio_line(one, percent)]
    if one.rank is not None:
        lines.append(_rank_line(pair, one, one.rank))
    if total > 1:
        lines.append(
            f"Adjusted P-value of u1 == u2: {p_text(one.p_adjusted)} "
            f"(Benjamini-Hochberg, {total} comparisons)"
        )
    return lines


def _percent(confidence: float) -> str:
    return f"{100 * confidence:.10g}%"


def _ends(one: QuantityComparison) -> tuple[str, str]:
    estimate = one.test.difference
    decimals = decimals_for(max(map(abs, one.means)))  # As in the table.
    return number(estimate.low, decimals), number(estimate.high, decimals)


def p_text(p: float) -> str:
    """Return a P value with three decimals, as Getstats prints it; `-` if it is absent."""
    return ABSENT if math.isnan(p) else f"{p:.3f}"


def _result(one: QuantityComparison, p: float) -> str:
    if math.isnan(p):
        return "not tested: two trials of each are needed"
    rejected = p < 1 - one.test.difference.confidence
    return "REJECT H_0" if rejected else "ACCEPT H_0"


def _method_line(one: QuantityComparison) -> str:
    """Return the kind of t-test and the result of the F-test."""
    pooled = one.test.difference.method == POOLED
    name = "Student's t-test, variances pooled" if pooled else "Welch's t-test"
    p, ratio = one.variances.p, f"{one.variances.ratio.value:.4g}"
    if math.isnan(p):
        return name
    if math.isnan(one.variances.ratio.value):
        return f"{name}: neither sample has any variance"
    text = "differ" if p < PRETEST_LEVEL else "do not differ"
    why = "" if one.decided == "auto" else "as requested; "
    return f"{name}: {why}variances {text} (F = {ratio}, P = {p_text(p)})"


def _ratio_line(one: QuantityComparison, percent: str) -> str:
    ratio = one.ratio
    if math.isnan(ratio.value):
        return "Ratio: none, a value is not above 0"
    return (
        f"Ratio: {number(ratio.value, 4)}, {percent}CI "
        f"({number(ratio.low, 4)}, {number(ratio.high, 4)})"
    )


def _rank_line(pair: InputComparison, one: QuantityComparison, rank: RankTest) -> str:
    names = (pair.candidate, pair.baseline)
    odd = [
        f"{name} (P = {p_text(p)})"
        for name, p in zip(names, one.normality_p, strict=True)
        if p < PRETEST_LEVEL
    ]
    test = _TESTS[rank.method.removesuffix("-exact")]
    below = rank.below
    ends = ""
    if not math.isnan(below.low):
        ends = f", {_percent(below.confidence)}CI ({below.low:.3f}, {below.high:.3f})"
    return (
        f"{test}, as not normal: {', '.join(odd)}; P-value {p_text(rank.p)}, "
        f"P({pair.candidate} < {pair.baseline}) = {below.value:.3f}{ends}"
    )


def ttest_cells(one: QuantityComparison) -> list[str]:
    """Return one quantity's cells, in the order of `TTEST_COLUMNS`."""
    test, ratio = one.test, one.ratio
    result = _result(one, test.p_two_sided)
    return [
        heading_with_unit(one.label, test.difference.unit),
        *_ends(one),
        "pooled" if test.difference.method == POOLED else "Welch",
        *map(p_text, (test.p_greater, test.p_less, test.p_two_sided, one.p_adjusted)),
        ABSENT if math.isnan(test.p_two_sided) else result,
        *(number(figure, 4) for figure in (ratio.value, ratio.low, ratio.high)),
        ABSENT if one.rank is None else p_text(one.rank.p),
    ]


TTEST_CSV_COLUMNS = (
    "baseline",
    "difference",
    "difference_low",
    "difference_high",
    "test",
    "p_greater",
    "p_less",
    "p_two_sided",
    "p_adjusted",
    "variances_p",
    "ratio",
    "ratio_low",
    "ratio_high",
    "rank_test",
    "rank_p",
)
"""Columns that `--ttest` adds to the CSV line of an input and quantity."""


def csv_fields(document: StatsReport) -> dict[tuple[str, str], list[str | float | None]]:
    """Return the fields of `TTEST_CSV_COLUMNS`, keyed by input and quantity."""
    return {
        (pair.candidate, comparison.name): _ttest_fields(pair, comparison)
        for pair in document.comparisons
        for comparison in pair.quantities
    }


def _ttest_fields(pair: InputComparison, one: QuantityComparison) -> list[str | float | None]:
    test, ratio = one.test, one.ratio
    return [
        pair.baseline,
        test.difference.value,
        test.difference.low,
        test.difference.high,
        test.difference.method,
        test.p_greater,
        test.p_less,
        test.p_two_sided,
        one.p_adjusted,
        one.variances.p,
        ratio.value,
        ratio.low,
        ratio.high,
        None if one.rank is None else one.rank.method,
        None if one.rank is None else one.rank.p,
    ]
