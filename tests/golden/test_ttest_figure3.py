"""The paper's Figure 3, printed again from data with its printed moments."""

from __future__ import annotations

import csv
import io
import json
import math
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from benchwright.report.stats_document import InputSection, StatsReport, compose_report
from benchwright.stats.aggregate import summarise
from benchwright.stats.input_comparison import (
    QuantityComparison,
    Variances,
    compare_inputs,
    compare_quantity,
)
from benchwright.views.stats import render_stats

DATA = json.loads((Path(__file__).parent / "getstats" / "figures.json").read_text())
FIGURE3 = """\
Comparing remount (Sample 1) to chill (Sample 2).
Elapsed: 95%CI for remount - chill = (-0.567, 0.769)
Null Hyp. Alt. Hyp. P-value Result
u1 <= u2  u1 >  u2  0.377  ACCEPT H_0
u1 >= u2  u1 <  u2  0.623  ACCEPT H_0
u1 == u2  u1 != u2  0.754  ACCEPT H_0

System: 95%CI for remount - chill = (0.009, 0.257)
Null Hyp. Alt. Hyp. P-value Result
u1 <= u2  u1 >  u2  0.018  REJECT H_0
u1 >= u2  u1 <  u2  0.982  ACCEPT H_0
u1 == u2  u1 != u2  0.037  REJECT H_0
"""
"""Auto-pilot paper, lines 213-227, without the omitted quantities."""


def document(
    variances: Variances = "auto", confidence: float = 0.95, **more: list[float]
) -> StatsReport:
    """Return Figure 3's inputs compared; `more` are further inputs' elapsed times."""
    inputs = {
        name: {q.lower(): np.array(v) for q, v in quantities.items()}
        for name, quantities in DATA["figure3"].items()
    }
    inputs |= {name: {"elapsed": np.array(values)} for name, values in more.items()}
    entries = [
        InputSection(
            name,
            tuple(
                summarise(q, v, label=q.title(), confidence=confidence)
                for q, v in quantities.items()
            ),
        )
        for name, quantities in inputs.items()
    ]
    rows = {name: (name.title(), "s") for name in ("elapsed", "system")}
    compared = compare_inputs(
        list(inputs.items()), rows, confidence=confidence, variances=variances
    )
    return compose_report(entries, confidence=confidence, comparisons=compared)


def paper_lines(text: str) -> list[str]:
    """Return the lines that the paper has, from the first comparison on."""
    lines = text[text.index("Comparing ") :].splitlines()
    starts = ("Comparing", "Elapsed:", "System:", "Null", "u1")
    return [line for line in lines if line.startswith(starts)]


def test_the_papers_lines_come_out() -> None:
    text = render_stats(document("equal"), "table")
    assert paper_lines(text) == [line for line in FIGURE3.splitlines() if line]
    # The tables come first, and quantities are apart by a blank line, as printed.
    assert text.startswith("chill\nNAME ")
    assert "\n\nComparing remount" in text
    assert "\n\nSystem: " in text


def test_the_f_test_decides() -> None:
    text = render_stats(document(), "table")
    elapsed, system = text[text.index("Comparing") :].split("\n\nSystem:")
    chill, remount = (DATA["figure3"][name]["Elapsed"] for name in ("chill", "remount"))
    f = np.var(remount, ddof=1) / np.var(chill, ddof=1)
    p = 2 * stats.f(9, 9).cdf(f)
    assert f"Welch's t-test: variances differ (F = {f:.4g}, P = {p:.3f})" in elapsed
    assert "Student's t-test, variances pooled: variances do not differ" in system
    welch = stats.ttest_ind(remount, chill, equal_var=False)
    assert f"u1 == u2  u1 != u2  {welch.pvalue:.3f}  ACCEPT H_0" in elapsed
    asked = render_stats(document("welch"), "table")
    assert asked.count("Welch's t-test: as requested; variances") == 2


def test_what_is_not_normal_is_ranked_too() -> None:
    rng = np.random.default_rng(4)
    skewed = rng.lognormal(3.6, 1, 20).tolist()
    found = render_stats(document(skewed=skewed), "table")
    chill = DATA["figure3"]["chill"]["Elapsed"]
    p = stats.brunnermunzel(skewed, chill).pvalue
    assert f"P-value {p:.3f}, P(skewed < chill) = " in found
    assert "Brunner-Munzel, as not normal: " in found
    system = found[found.index("\nSystem: ") : found.index("Comparing skewed")]
    assert "as not normal" not in system


def test_a_ratio_and_adjusted_p_values() -> None:
    found = json.loads(render_stats(document(), "json"))["comparisons"]
    assert [one["name"] for one in found] == ["elapsed", "system"]
    raw = [one["p_two_sided"] for one in found]
    assert [one["p_adjusted"] for one in found] == pytest.approx([raw[0], 2 * raw[1]])
    ratio = found[1]["ratio"]
    assert ratio["low"] < ratio["value"] < ratio["high"]
    means = [stats.gmean(DATA["figure3"][n]["System"]) for n in ("remount", "chill")]
    assert ratio["value"] == pytest.approx(means[0] / means[1])
    text = render_stats(document(), "table")
    assert f"Ratio: {ratio['value']:.4f}, 95%CI ({ratio['low']:.4f}, " in text
    assert "u1 == u2: 0.073 (Benjamini-Hochberg, 2 comparisons)" in text


def test_the_level_is_that_of_the_interval() -> None:
    text = render_stats(document("equal", 0.99), "table")
    assert "System: 99%CI for remount - chill = (" in text
    assert "REJECT" not in text


def test_every_form_has_the_comparison() -> None:
    found = document("equal")
    assert "### remount (u1) compared to chill (u2)" in render_stats(found, "markdown")
    assert "| Elapsed s | -0.567 | 0.769 | pooled | 0.377 |" in render_stats(found, "markdown")
    latex = render_stats(found, "latex")
    assert r"Elapsed s & -0.567 & 0.769 & pooled & 0.377" in latex
    assert r"P u1\textless{}=u2" in latex
    rows = list(csv.DictReader(io.StringIO(render_stats(found, "csv"))))
    assert [row["p_two_sided"] == "" for row in rows] == [True, True, False, False]
    assert float(rows[3]["p_two_sided"]) == pytest.approx(0.0367, abs=5e-5)
    assert rows[3]["baseline"] == "chill"
    plain = compose_report([])
    assert "p_two_sided" not in render_stats(plain, "csv")
    assert json.loads(render_stats(plain, "json"))["comparisons"] == []


def test_too_few_or_no_values_are_not_tested() -> None:
    text = render_stats(document(single=[1.0]), "table")
    single = text[text.index("Comparing single") :]
    assert "Elapsed: 95%CI for single - chill = (-, -)" in single
    assert single.count("-  not tested: two trials of each are needed") == 3
    assert "Welch's t-test\n" in single
    same = compare_inputs([("a", {"x": np.ones(3)}), ("b", {"x": np.ones(3)})], {"x": ("X", "")})
    text = render_stats(compose_report([], comparisons=same), "table")
    assert "Student's t-test, variances pooled: neither sample has any variance" in text
    negative = render_stats(document(negative=[-1.0, 0.0, 1.0]), "table")
    assert "Ratio: none, a value is not above 0" in negative
    apart = compare_inputs([("a", {"x": np.ones(3)}), ("b", {"y": np.ones(3)})], {})
    text = render_stats(compose_report([], comparisons=apart), "table")
    assert text.endswith("They have no quantity in common.\n")


def one(a: list[float], b: list[float]) -> QuantityComparison:
    return compare_quantity("elapsed", a, b)


def test_constant_samples_have_a_decided_answer() -> None:
    same = one([1.0] * 4, [1.0] * 4)
    assert (same.test.p_two_sided, same.variances.p) == (1.0, 1.0)
    other = one([1.5] * 4, [1.0] * 4)
    assert (other.test.p_greater, other.test.p_less) == (0.0, 1.0)
    assert other.rank is None
    assert math.isnan(other.normality_p[0])
