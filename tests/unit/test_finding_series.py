"""What a series' findings say, and that one cause is told once."""

from __future__ import annotations

import math
import sys
from subprocess import run

import numpy as np
import numpy.typing as npt
import pytest

from benchwright.core.observation import MeasurementBlock, Trial, TrialEnding
from benchwright.core.plan import MetricSpec, UntilPrecise
from benchwright.core.results import Finding, Severity, states
from benchwright.findings.codes import all_codes, make_finding
from benchwright.findings.comparison import beside_a_ratio
from benchwright.findings.examine import compute_findings
from benchwright.findings.result import TestResult
from benchwright.findings.series import ExaminedSeries, dependence_finding, series_findings
from benchwright.stats.aggregate import MetricColumn, MetricRules, TrialValues, metric_columns
from benchwright.stats.dependence import dependence

Array = npt.NDArray[np.float64]
SEED = 4


def noise(n: int = 30, seed: int = SEED) -> Array:
    return np.random.default_rng(seed).normal(size=n)


def found(
    specs: tuple[MetricSpec, ...] = (),
    rule: UntilPrecise | None = None,
    least_changes: dict[str, float] | None = None,
    **series: Array,
) -> tuple[Finding, ...]:
    rows = zip(*series.values(), strict=True)
    observed = [
        TrialValues(epoch, dict(zip(series, map(float, row), strict=True)))
        for epoch, row in enumerate(rows, 1)
    ]
    rules = MetricRules(specs)
    return series_findings(
        "t", metric_columns(observed, rules), rules, rule=rule, least_changes=least_changes
    )


def test_a_clean_series_raises_no_doubt() -> None:
    assert found(elapsed=10 + noise()) == ()


def test_a_warm_up_is_told_with_both_means_and_nothing_else() -> None:
    values = 10 + 0.1 * noise()
    values[:4] += 2
    (finding,) = found(elapsed=values)
    assert finding.code == "warm-up"
    assert finding.severity is Severity.WARNING
    assert finding.evidence == (
        "elapsed: the first 4 of 30 trials differ by +20.6 % from the rest (to trial 4; MSER "
        "truncation; permutation test P = 0.0005); mean 10.25 s with them, 9.978 s without"
    )


def test_an_outlier_is_named_classified_and_kept() -> None:
    values = 10 + 0.1 * noise()
    values[11] = 14
    (finding,) = found(elapsed=values)
    assert (finding.code, finding.severity) == ("outliers", Severity.NOTE)
    assert "extreme outlier in trial 12 (1 of 30), up to 14 s" in (finding.evidence)
    assert f"mean {values.mean():.4g} s with" in finding.evidence
    assert f"{np.delete(values, 11).mean():.4g} s without" in finding.evidence


@pytest.mark.parametrize("slow", [1, 2])
def test_a_few_slow_first_trials_of_ten_may_be_chance(slow: int) -> None:
    values = 10 + 0.1 * noise(10)
    values[:slow] = 30
    (finding,) = found(elapsed=values)
    assert finding.code == "outliers"
    assert finding.evidence.endswith("so it can be a warm-up, or chance")


def test_three_slow_first_trials_of_ten_are_a_warm_up() -> None:
    values = 10 + 0.1 * noise(10)
    values[:3] += 20
    (finding,) = found(elapsed=values)
    assert finding.code == "warm-up"
    assert "permutation test P = 0.0055" in finding.evidence


@pytest.mark.parametrize("later", [0.088, 0.4, 3.0])
@pytest.mark.parametrize("first", [(0.2268,), (0.088, 0.008)])
def test_slow_first_trials_are_no_warm_up_if_a_later_one_is_slow_too(
    first: tuple[float, ...], later: float
) -> None:
    fast = (0.003, 0.0029, 0.0027, 0.0031, later, 0.0029, 0.003, 0.0021, 0.0028)
    found_codes = {one.code for one in found(elapsed=np.array([*first, *fast]))}
    assert found_codes <= {"outliers", "multimodal"}


def test_one_slow_first_trial_of_many_is_a_warm_up() -> None:
    values = 10 + 0.1 * noise(300)
    values[0] = 30
    codes = {one.code: one for one in found(elapsed=values)}
    assert "from the rest (to trial 1; " in codes["warm-up"].evidence


def test_an_early_outlier_is_no_warm_up() -> None:
    values = 10 + 0.1 * noise()
    values[2] = 30
    (finding,) = found(elapsed=values)
    assert finding.code == "outliers"


def test_an_outlier_after_a_warm_up_is_told_beside_it() -> None:
    values = 10 + 0.1 * noise()
    values[:4] += 2
    values[20] = 14
    assert [f.code for f in found(elapsed=values)] == ["warm-up", "outliers"]


def test_a_slow_mode_is_no_outliers_and_no_warm_up() -> None:
    values = 10 + 0.1 * noise()
    values[[0, 1, 8, 17, 24]] += 3
    (finding,) = found(elapsed=values)
    assert finding.code == "multimodal"
    assert "25 trials near 9.982 s" in finding.evidence
    assert "and 5 near 13" in finding.evidence


@pytest.mark.parametrize(
    ("slow", "by", "told"),
    [
        # The mean is 10.5 s, between the modes, but its interval reaches the main one.
        (5, 3.0, "the mean depends on how often the higher one occurs (16.7 %)"),
        (2, 3.0, "the mean depends on how often the higher one occurs (6.67 %)"),
        (25, 3.0, "the mean depends on how often the lower one occurs (16.7 %)"),
        (15, 3.0, "no trial is in the mean's 95 % interval, 10.9"),
        (8, 9.0, "no trial is in the mean's 95 % interval, 10.8"),
    ],
)
def test_two_modes_say_what_the_mean_is(slow: int, by: float, told: str) -> None:
    values = 10 + 0.1 * noise()
    values[[(7 * n + 2) % 30 for n in range(slow)]] += by
    by_code = {one.code: one for one in found(elapsed=values)}
    assert f"standard deviations between them: {told}" in by_code["multimodal"].evidence
    mean = values.mean()
    half = 2.045 * values.std(ddof=1) / 30**0.5
    is_apart = not (abs(values - mean) <= half).any()
    assert ("no trial" in told) == is_apart


def test_a_drift_is_told_with_its_slope_and_interval() -> None:
    values = 10 + 0.1 * noise() + np.linspace(0, 1, 30)
    (finding,) = found(elapsed=values)
    assert finding.code == "drift"
    assert finding.evidence.startswith("elapsed rises: +0.3")
    assert "(95 % interval +0." in finding.evidence
    assert "of the median over trials 1 to 30 (Theil-Sen; Mann-Kendall P < 0.0001)" in (
        finding.evidence
    )


def test_a_fall_is_a_drift_too() -> None:
    (finding,) = found(elapsed=10 + 0.1 * noise() - np.linspace(0, 1, 30))
    assert finding.code == "drift"
    assert finding.evidence.startswith("elapsed falls: -0.3")


@pytest.mark.parametrize(
    ("name", "change", "code"),
    [
        ("free_memory_bytes", -3e7, "memory-leak"),
        ("available_memory_bytes", -3e7, "memory-leak"),
        ("free_memory_bytes", 3e7, "drift"),
        ("rss_bytes", 3e7, "memory-leak"),
        ("rss_bytes", -3e7, "drift"),
        ("system", 3e7, "drift"),
    ],
)
def test_memory_that_is_not_given_back_is_a_leak(name: str, change: float, code: str) -> None:
    memory = 1e9 + 1e6 * noise(seed=9) + np.linspace(0, change, 30)
    (finding,) = found(elapsed=10 + noise(), **{name: memory})
    assert finding.code == code
    assert finding.evidence.startswith(name)


def test_a_warm_up_makes_no_leak() -> None:
    memory = 1e9 + 1e6 * noise(seed=9)
    memory[:5] -= 2e7
    assert found(elapsed=10 + noise(), rss_bytes=memory) == ()


def test_a_drift_below_the_least_change_is_not_told() -> None:
    values = 10 + 0.1 * noise() + np.linspace(0, 1, 30)
    assert found(elapsed=values, least_changes={"elapsed": 0.2}) == ()
    assert len(found(elapsed=values, least_changes={"elapsed": 0.05})) == 1
    tolerant = MetricSpec("ops", drift=0.2)
    assert found((tolerant,), elapsed=10 + noise(seed=9), ops=values) == ()
    told = found((MetricSpec("ops"),), elapsed=10 + noise(seed=9), ops=values)
    assert [f.code for f in told] == ["drift"]


def test_correlated_trials_are_told_with_what_they_are_worth() -> None:
    values, shocks = np.zeros(80), noise(80)
    for place in range(1, 80):
        values[place] = 0.8 * values[place - 1] + shocks[place]
    (finding,) = found(elapsed=50 + values)
    assert (finding.code, finding.severity) == ("dependent-trials", Severity.SERIOUS)
    assert "80 trials carry as much information as" in finding.evidence
    assert "too narrow by a factor of about" in finding.evidence


def test_only_what_the_test_is_about_is_asked_for_more_than_drift() -> None:
    spoilt = 10 + 0.1 * noise()
    spoilt[11] = 14
    plain = 10 + noise(seed=9)
    assert found(elapsed=plain, user=spoilt) == ()
    rule = UntilPrecise(0.05, metrics=("user",))
    (finding,) = found(rule=rule, elapsed=plain, user=spoilt)
    assert finding.evidence.startswith("user: extreme outlier")
    assert found(rule=rule, elapsed=spoilt, user=plain) == ()


def test_fewer_than_10_trials_say_nothing() -> None:
    assert found(elapsed=np.arange(9.0)) == ()
    assert [f.code for f in found(elapsed=np.arange(10.0))] == ["drift"]


def test_a_metric_that_some_trials_lack_keeps_their_epochs() -> None:
    values = 10 + 0.1 * noise()
    values[11] = 14
    observed = [
        TrialValues(epoch, {"elapsed": value} if epoch != 5 else {})
        for epoch, value in enumerate(map(float, values), 1)
    ]
    (finding,) = series_findings("t", metric_columns(observed, MetricRules()), MetricRules())
    assert "in trial 12 (1 of 29)" in finding.evidence


@pytest.mark.parametrize("value", [0.0, 0.1, 1e300])
def test_a_few_constant_values_are_noted_and_many_raise_no_doubt(value: float) -> None:
    (note,) = found(elapsed=np.full(58, value), user=np.zeros(58))
    assert (note.code, note.severity, note.metric) == ("constant", Severity.NOTE, "elapsed")
    assert "in all of 58 trials" in note.evidence
    assert found(elapsed=np.full(59, value), user=np.zeros(59)) == ()


@pytest.mark.parametrize("scale", [1e-300, 1e300])
def test_size_changes_no_finding(scale: float) -> None:
    values = 10 + 0.1 * noise() + np.linspace(0, 1, 30)
    values[:4] += 4
    codes = [f.code for f in found(elapsed=values)]
    assert [f.code for f in found(elapsed=values * scale)] == codes != []


def test_values_that_are_no_numbers_are_left_out() -> None:
    values = 10 + 0.1 * noise()
    values[11], values[3] = 14, math.nan
    trials = [
        Trial(
            "t",
            e,
            1,
            TrialEnding.OK,
            e * 10**10,
            10**10,
            (MeasurementBlock(1, e, "x", 0, {"elapsed": float(v)}),),
        )
        for e, v in enumerate(values, 1)
    ]
    codes = [finding.code for finding in compute_findings(TestResult("t", whole_trials=trials))]
    assert codes == ["missing-metric", "outliers"]


def test_every_remedy_names_what_exists() -> None:
    told = " ".join(all_codes()[code].remedy for code in ("dependent-trials", "multimodal"))
    assert "--rest" in told
    assert "bw compare" in told
    assert "--of median" in told
    for words, option in (("run", "--rest"), ("run", "--of")):
        program = "from benchwright.cli.main import main; main()"
        text = run(
            [sys.executable, "-c", program, words, "--help"],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        assert option in text


def test_scipy_stats_is_not_imported() -> None:
    program = (
        "import sys\n"
        "from benchwright.findings.series import series_findings\n"
        "from benchwright.stats.aggregate import MetricColumn\n"
        "from benchwright.stats.aggregate import MetricRules as RowBook\n"
        "column = MetricColumn('elapsed', (*range(30),), tuple(e + e % 3 for e in range(30)))\n"
        "assert series_findings('t', {'elapsed': column}, RowBook())\n"
        "assert 'scipy.stats' not in sys.modules\n"
    )
    run([sys.executable, "-c", program], check=True)


def test_ticks_that_mostly_are_equal_are_no_drift() -> None:
    """Mann-Kendall sees that the rare tick is early; no slope is to be told."""
    ticks = np.zeros(100)
    ticks[:12:2] = 0.004
    assert found(elapsed=10 + noise(100), system=ticks) == ()


def test_outliers_beside_a_warm_up_are_judged_on_the_rest() -> None:
    values = 10 + 0.1 * noise()
    values[:4] += 2
    values[20] = 14
    outlier = found(elapsed=values)[1]
    rest = values[4:]
    assert "in trial 21 (1 of 26)" in outlier.evidence
    assert f"{np.delete(rest, 16).mean():.4g} s without" in outlier.evidence


def test_an_outlier_hides_no_dependence() -> None:
    values, shocks = np.zeros(80), noise(80)
    for place in range(1, 80):
        values[place] = 0.8 * values[place - 1] + shocks[place]
    values[40] += 100
    told = {f.code: f for f in found(elapsed=50 + values)}
    assert told["outliers"].evidence.startswith("elapsed: extreme outlier in trial 41")
    assert "are correlated by 0.57 (rank correlation; P < 0.0001)" in (
        told["dependent-trials"].evidence
    )
    assert "are worth" not in told["dependent-trials"].evidence


def test_a_warm_up_that_hardly_moves_the_mean_is_not_told() -> None:
    values = 10 + 0.001 * noise()
    values[:3] += 0.1
    assert found(elapsed=values) == ()
    values[:3] += 0.9
    assert [f.code for f in found(elapsed=values)] == ["warm-up"]


def test_a_drift_that_nobody_would_act_on_is_told_only_when_asked_for() -> None:
    values = 10 + 0.001 * noise() + np.linspace(0, 0.03, 30)
    assert found(elapsed=values) == ()
    told = found(elapsed=values, least_changes={"elapsed": 0.001})
    assert [f.code for f in told] == ["drift"]


def test_a_small_leak_is_told() -> None:
    memory = 1e9 + 1e4 * noise(seed=9) + np.linspace(0, 1e6, 30)
    (finding,) = found(elapsed=10 + noise(), rss_bytes=memory)
    assert finding.code == "memory-leak"


def test_an_interval_that_is_hardly_too_narrow_is_not_told_as_such() -> None:
    one = ExaminedSeries("t", MetricColumn("elapsed", tuple(range(80)), (1.0,) * 80), "s", 1.0, 0.0)
    values, shocks = np.zeros(80), noise(80)
    for place in range(1, 80):
        values[place] = 0.8 * values[place - 1] + shocks[place]
    values[40] += 28
    assert 80 / 1.21 < dependence(values).effective < 0.9 * 80
    finding = dependence_finding(one, values.tolist())
    assert finding is not None
    assert "too narrow" not in finding.evidence
    assert finding.evidence.endswith(": trials are not independent")


def test_what_pairs_keep_out_of_a_ratio_is_a_note_about_the_arm() -> None:
    narrow = states(
        "narrow",
        metric="elapsed",
        correlation=0.76,
        p="P < 0.0001",
        trials=196,
        effective=8.0,
        narrow=4.8,
    )
    serious = make_finding("dependent-trials", "a", narrow, Severity.SERIOUS)
    other = make_finding("warm-up", "a", "the first trials differ")
    found, same = beside_a_ratio([serious, other])
    assert same is other
    assert (found.severity, found.subject) == (Severity.NOTE, "a")
    assert "interval" not in found.evidence
    assert "bw compare" not in found.remedy
