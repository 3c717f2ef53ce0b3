"""Do intervals, verdicts and findings keep their promises on series that nobody simulated?

The series of tests/corpus, recorded by benches/corpus.py. Tests and comparisons are contiguous
blocks of a series, at random places with fixed seeds; the truth is the mean or the quantile of the
whole series. Real machines change while a test runs and after it, so an interval can miss; then a
finding must say that the machine or the trials were unsteady, or the line of the answer that the
test was brief. Counted are the misses without either. BW_CALIBRATION=full plays every series with
every rule, the peers beside, and prints the figures of docs/calibration.md.
"""

from __future__ import annotations

import functools
import os
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec
import numpy as np
import pytest

from benchwright.core.plan import UntilPrecise
from benchwright.core.results import Estimate, Finding
from benchwright.report.answer import trial_span_s
from benchwright.stats.steps import find_steps
from comparing import DIFFERENT, PAIRS, any_difference, both_stored, one_comparison
from comparing import rule_of as comparison_rule
from populations import Array, at_least, at_most
from recorded import (
    CORPUS,
    RecordedSeries,
    findings_of,
    is_clean,
    population,
    read,
    starts_of,
    trials_of,
)
from stopping import PEERS, TARGET, ours, rules, stop_of

FULL = os.environ.get("BW_CALIBRATION") == "full"
SEED = 20_261_127
LENGTH = 500
TESTS = 100 if FULL else 40
COMPARISONS = 200 if FULL else 60
SHUFFLED = 400 if FULL else 100
POINTS, OF_POINT = 100, 30
"""Runs of a history, and trials of each."""
RULES = rules(LENGTH)
MODES = ("plan mean", "watch mean", "plan median", "plan p90")
PLAYED = MODES if FULL else MODES[:1]
COMPARED = ("watch", "plan") if FULL else ("watch",)
CONDITIONS = ("quiet", "neighbour", "quota", "drift", "spread")
SPREAD = "spread"
"""The trials of all programs alternate, with rests: a test of 30 trials takes half a minute, not
half a second."""
UNSTEADY = frozenset(
    {
        "warm-up",
        "drift",
        "dependent-trials",
        "multimodal",
        "noisy-neighbour",
        "steal",
        "throttled-by-cgroup-quota",
    }
)
"""Findings which say that other trials may differ from these."""
BRIEF_S = 120.0
"""The line of an answer has the time within which its trials lie: less than this shows little of
what else the machine does (docs/corpus.md) [s]."""
FILES = sorted(CORPUS.glob("*/*.json.xz"))
SMALL = (
    "2-cpus/gcc-quiet",
    "2-cpus/nginx-neighbour",
    "2-cpus/gzip-quota",
    "2-cpus/postmark-ext4-drift",
    "2-cpus/fio-quiet",
    "2-cpus-idle/postgres-quiet",
    "2-cpus-idle/sort-quiet",
    "2-cpus-idle/java-spread",
    "2-cpus-idle/fio-spread",
)


def name_of(file: Path) -> str:
    return f"{file.parent.name}/{file.name.removesuffix('.json.xz')}"


def played(condition: str = "") -> list[Path]:
    """Return the series that this form plays, all or those of a condition."""
    return [
        file
        for file in FILES
        if (FULL or name_of(file) in SMALL)
        and name_of(file).endswith(f"-{condition}" if condition else "")
    ]


def spread_files() -> list[Path]:
    """Return the spread series, in every form."""
    return [file for file in FILES if name_of(file).endswith(f"-{SPREAD}")]


each = pytest.mark.parametrize("file", played(), ids=name_of)


@functools.lru_cache(maxsize=4)
def series_of(file: Path) -> RecordedSeries:
    return read(file)


class Misses(msgspec.Struct):
    """What a rule came to on one series."""

    tests: int = 0
    covered: int = 0
    trials: int = 0
    answered: int = 0
    clean: int = 0
    """Tests whose findings are notes only."""
    clean_covered: int = 0
    clean_near: int = 0
    """Clean tests whose value is within the target of the truth."""
    unsteady: int = 0
    """Misses with a finding that says that trials or machine were unsteady."""
    brief: int = 0
    """Other misses of which the line of the answer says that the test took little time."""
    silent: int = 0
    """Misses without any of these."""
    codes: Counter[str] = msgspec.field(default_factory=Counter)

    def add(
        self,
        estimate: Estimate | None,
        truth: float,
        answered: bool,
        trials: int,
        found: tuple[Finding, ...],
        span_s: float | None,
    ) -> None:
        """Count one test."""
        codes = {finding.code for finding in found}
        covers = estimate is not None and estimate.low <= truth <= estimate.high
        near = estimate is not None and abs(estimate.value - truth) <= TARGET * truth
        self.tests += 1
        self.covered += covers
        self.trials += trials
        self.answered += answered
        self.clean += is_clean(found)
        self.clean_covered += is_clean(found) and covers
        self.clean_near += is_clean(found) and near
        self.codes.update(codes)
        if not covers:
            if codes & UNSTEADY:
                self.unsteady += 1
            elif span_s is not None and span_s < BRIEF_S:
                self.brief += 1
            else:
                self.silent += 1


@functools.cache
def play(file: Path, mode: str) -> Misses:
    """Play a rule on blocks of a series at random places, each judged by its findings."""
    starts = starts_of(population(series_of(file)), SEED, (TESTS, LENGTH))
    return play_at(file, RULES[mode], starts.tolist())


def play_at(file: Path, rule: UntilPrecise, starts: Iterable[int]) -> Misses:
    """Play a rule on the blocks of a series that begin at these trials, each judged by its
    findings."""
    series, found = series_of(file), Misses()
    one = population(series)
    truth = one.truth(rule.share)
    for first in starts:
        stop, count = stop_of(rule, one.values[first : first + LENGTH])
        trials = trials_of(series, first, count)
        findings, span_s = findings_of(series, trials), trial_span_s(trials)
        found.add(stop.reached[0].estimate, truth, stop.answered, count, findings, span_s)
    return found


# -- The corpus itself ------------------------------------------------------------------


def test_the_corpus_has_many_programs_under_each_condition() -> None:
    kinds = Counter(name_of(file).rsplit("-", 1)[1] for file in FILES)
    print(dict(kinds))
    assert set(kinds) == set(CONDITIONS)
    assert sum(kinds.values()) >= 40
    assert min(kinds.values()) >= 10
    assert sum(file.stat().st_size for file in FILES) < 5 << 20


@pytest.mark.parametrize("file", FILES, ids=name_of)
def test_a_series_is_whole(file: Path) -> None:
    series = series_of(file)
    around = series.around
    assert file.parent.name == around.machine
    assert name_of(file).endswith(f"/{around.program}-{around.condition}")
    starts, elapsed = np.array(series.start_ns), np.array(series.elapsed_ns)
    assert len(starts) == len(elapsed) >= 2000
    assert elapsed.min() > 0
    # One after the other, none within another.
    assert (starts[1:] >= starts[:-1] + elapsed[:-1]).all()
    assert {"cpu.model", "kernel.release", "benchwright.version"} <= set(series.facts)
    assert around.setting
    assert bool(around.neighbour) == (around.condition in ("neighbour", "drift"))
    assert around.versions or around.program == "python"
    # Between rests, the sampler sees a part of the trials.
    seen = sum(use.epochs[1] - use.epochs[0] + 1 for use in series.uses)
    assert seen > (0 if around.condition == SPREAD else 0.5 * len(starts))


# -- Stopping rules and findings ----------------------------------------------------------


@pytest.mark.timeout(1800)
@each
def test_an_interval_that_misses_has_a_finding_that_says_why(file: Path) -> None:
    for mode in PLAYED:
        found = play(file, mode)
        print(
            f"{name_of(file)}, {mode}: covers {found.covered / found.tests:.1%},"
            f" {found.trials / found.tests:.0f} trials; clean {found.clean},"
            f" of these cover {found.clean_covered}; misses: unsteady {found.unsteady},"
            f" brief {found.brief}, silent {found.silent}"
        )
        assert at_most(found.silent, found.tests, 0.05)


@pytest.mark.timeout(1800)
def test_what_is_called_clean_is_clean() -> None:
    """Over all series the value of a test without a warning is within the target of the truth.

    Its interval need not hold the truth: nearly all of these tests are brief, and their lines say
    so.
    """
    found = [play(file, mode) for file in played() for mode in PLAYED]
    clean, near = (sum(getattr(one, what) for one in found) for what in ("clean", "clean_near"))
    print(f"clean {clean} of {sum(one.tests for one in found)}, near {near}")
    assert clean > 0
    assert at_least(near, clean, 0.95)


@functools.cache
def covered_in_random_order(file: Path, mode: str) -> int:
    """Return of how many tests of `SHUFFLED` the interval holds, where each trial is one of the
    series at random: a test that is spread over the whole series, so that what changes slowly is in
    every test."""
    one, rule = population(series_of(file)), RULES[mode]
    rng = np.random.default_rng([SEED, *one.name.encode()])
    tests = [rng.permutation(one.values)[:LENGTH] for _ in range(SHUFFLED)]
    coverage = ours(rule)(np.array(tests), one.truth(rule.share)).coverage
    return round(coverage * SHUFFLED)


@pytest.mark.timeout(1800)
def test_intervals_of_tests_that_are_spread_over_a_series_hold() -> None:
    """The median on every series; the mean on those of `spread`. Elsewhere some series have a trial
    in a hundred that takes ten times as long, and a mean of thirty trials cannot know it."""
    pooled = 0
    spread = spread_files()
    for file in spread:
        covered = covered_in_random_order(file, "plan mean")
        print(f"{name_of(file)}, mean: {covered} of {SHUFFLED}")
        assert at_least(covered, SHUFFLED, 0.93)
        pooled += covered
    assert at_least(pooled, len(spread) * SHUFFLED, 0.945)
    for file in played():
        covered = covered_in_random_order(file, "plan median")
        print(f"{name_of(file)}, median: {covered} of {SHUFFLED}")
        assert at_least(covered, SHUFFLED, 0.93)


LONG = 240
"""Trials of a spread series in about four minutes."""


@pytest.mark.timeout(1800)
def test_long_tests_of_a_machine_that_changes_have_a_finding_that_says_so() -> None:
    """The machine of the spread series changes from minute to minute: in tests of half a minute
    nothing tells in one of four, in tests of four minutes something does."""
    rule = msgspec.structs.replace(RULES["plan mean"], target=1e-4, minimum=LONG, maximum=LONG)
    tests = silent = missed = 0
    for file in spread_files():
        last = len(series_of(file).elapsed_ns) - LONG
        found = play_at(file, rule, range(0, last + 1, LONG))
        assert found.trials == LONG * found.tests
        tests, missed = tests + found.tests, missed + found.tests - found.covered
        # That the test was brief does not count as a reason here.
        silent += found.brief + found.silent
    print(f"{tests} tests of {LONG} trials, {missed} miss, {silent} silently")
    assert tests >= 100
    assert missed < tests / 2, "every test has an interval, and most hold"
    assert at_most(silent, tests, 0.05)


def test_without_its_findings_the_same_count_fails() -> None:
    """On a machine with a neighbour most intervals miss; only the findings make them no silent
    ones."""
    (file,) = (f for f in FILES if name_of(f) == "2-cpus/nginx-neighbour")
    found = play(file, "plan mean")
    misses = found.tests - found.covered
    assert not at_most(misses, found.tests, 0.05)
    assert found.unsteady > 0


# -- Comparisons ------------------------------------------------------------------------


@functools.cache
def interleaved_differences(file: Path, mode: str) -> int:
    """Return how many interleaved comparisons of a program with itself differ.

    Both arms are the trials of one stretch of the series, in the order in which a session runs
    them.
    """
    one, length = population(series_of(file)), 2 * PAIRS
    rule = comparison_rule(mode=mode)
    if mode == "plan":
        rule = msgspec.structs.replace(rule, margin=0.05)
    false = 0
    for number, first in enumerate(starts_of(one, SEED, (COMPARISONS, length))):
        values = [[value] for value in one.values[first : first + length].tolist()]
        own = msgspec.structs.replace(rule, seed=number)
        false += any_difference(one_comparison(own, values, 1.0, ["a", "b"]))
    return false


@functools.cache
def stored_differences(file: Path) -> tuple[int, int]:
    """Return how many comparisons of two stored blocks of a series differ, and how many without a
    finding.

    The blocks have 100 trials, and lie one before the other, as two sessions on one machine.
    """
    series = series_of(file)
    one, count, false, silent = population(series), 100, 0, 0
    rng, total = np.random.default_rng(SEED), len(series.elapsed_ns)
    for _ in range(COMPARISONS):
        a = int(rng.integers(0, total - 2 * count + 1))
        b = int(rng.integers(a + count, total - count + 1))
        arms = (one.values[place : place + count] for place in (a, b))
        if both_stored(*arms).verdicts[0].verdict not in DIFFERENT:
            continue
        false += 1
        tests = [trials_of(series, place, count) for place in (a, b)]
        codes = {one.code for trials in tests for one in findings_of(series, trials)}
        spans = [trial_span_s(trials) for trials in tests]
        is_brief = any(span_s is not None and span_s < BRIEF_S for span_s in spans)
        silent += not (codes & UNSTEADY or is_brief)
    return false, silent


@functools.cache
def histories_with_steps(file: Path, of_run: Callable[..., Array] = np.mean) -> int:
    """Return how many histories have a step, of which each run is the mean of 30 trials somewhere
    in the series, or what `of_run` makes of them."""
    blocks = population(series_of(file)).series(SEED, (COMPARISONS * POINTS, OF_POINT))
    histories = np.log(of_run(blocks, axis=1)).reshape(COMPARISONS, POINTS)
    return sum(bool(find_steps(history).steps) for history in histories)


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("mode", COMPARED)
@each
def test_interleaved_a_program_rarely_differs_from_itself(file: Path, mode: str) -> None:
    false = interleaved_differences(file, mode)
    print(f"{name_of(file)}, {mode}: {false} of {COMPARISONS} differ")
    assert at_most(false, COMPARISONS, 0.05)


@pytest.mark.timeout(1800)
@each
def test_stored_a_difference_of_a_program_from_itself_has_a_finding_that_says_why(
    file: Path,
) -> None:
    false, silent = stored_differences(file)
    print(f"{name_of(file)}, stored: {false} of {COMPARISONS} differ, {silent} silent")
    assert at_most(silent, COMPARISONS, 0.05)


# -- Histories ---------------------------------------------------------------------------


@pytest.mark.timeout(900)
@pytest.mark.parametrize("condition", CONDITIONS)
def test_histories_of_runs_at_random_times_rarely_have_a_step(condition: str) -> None:
    """At most 5 % of the histories of each series have a step, also where one trial in a hundred
    takes several times as long as the others."""
    counts = {name_of(file): histories_with_steps(file) for file in played(condition)}
    print(f"of {COMPARISONS} histories each with a step: {counts}")
    assert at_most(sum(counts.values()), len(counts) * COMPARISONS, 0.02)
    for hits in counts.values():
        assert at_most(hits, COMPARISONS, 0.05)


# -- The tables -------------------------------------------------------------------------


def row_of(file: Path) -> str:
    """Return the coverage of each rule with the mean trials, that of the peers, and what is said of
    the tests of all our rules [%]."""
    series = series_of(file)
    one = population(series)
    rows = {mode: play(file, mode) for mode in MODES}
    blocks = one.series(SEED, (TESTS, LENGTH))
    deviations = one.values - 1
    correlation = (deviations[1:] @ deviations[:-1]) / (deviations @ deviations)
    cells = [
        f"{found.covered / found.tests:.0%} ({found.trials / found.tests:.0f})"
        for found in rows.values()
    ]
    cells += [f"{peer(blocks, 1.0).coverage:.0%}" for peer in PEERS.values()]
    total = sum(found.tests for found in rows.values())
    cells += [
        f"{sum(getattr(found, what) for found in rows.values()) / total:.1%}"
        for what in ("clean", "unsteady", "brief", "silent")
    ]
    return (
        f"| {name_of(file)} | {len(one.values):,} |"
        f" {np.median(series.elapsed_ns) / 1e6:.3g} | {one.values.std():.0%} |"
        f" {correlation:.2f} | " + " | ".join(cells) + " |"
    )


@pytest.mark.skipif(not FULL, reason="in the full form")
@pytest.mark.timeout(3600)
def test_the_tables() -> None:
    heads = (*MODES, *PEERS, "clean", "unsteady", "brief", "silent")
    print("\n| series | trials | ms | CV | correlation | " + " | ".join(heads) + " |")
    print("|---" + "|---:" * (4 + len(heads)) + "|")
    for file in FILES:
        print(row_of(file))
    print("\n| condition | series | " + " | ".join(MODES) + " |")
    print("|---|---:" + "|---:" * len(MODES) + "|")
    kinds = sorted({(f.parent.name, name_of(f).rsplit("-", 1)[1]) for f in FILES})
    for machine, condition in kinds:
        files = [file for file in played(condition) if file.parent.name == machine]
        cells = []
        for mode in MODES:
            shares = [covered_in_random_order(f, mode) / SHUFFLED for f in files]
            cells.append(f"{np.mean(shares):.1%} ({min(shares):.1%})")
        print(f"| {machine}, {condition} | {len(files)} | " + " | ".join(cells) + " |")
    print("\n| what | condition | share | of | most of one series |")
    print("|---|---|---:|---:|---:|")
    for machine, condition in kinds:
        files = [file for file in played(condition) if file.parent.name == machine]
        counts = {
            f"A/A {mode}, interleaved": [interleaved_differences(file, mode) for file in files]
            for mode in COMPARED
        }
        counts["A/A stored"] = [stored_differences(file)[0] for file in files]
        counts["A/A stored, without a finding"] = [stored_differences(file)[1] for file in files]
        counts["history with a step"] = [histories_with_steps(file) for file in files]
        for what, hits in counts.items():
            of = len(files) * COMPARISONS
            print(
                f"| {what} | {machine}, {condition} | {sum(hits) / of:.1%} | {of:,} |"
                f" {max(hits) / COMPARISONS:.1%} |"
            )
