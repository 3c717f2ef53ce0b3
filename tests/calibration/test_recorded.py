"""Do intervals, verdicts and findings keep their promises on series that nobody simulated?

The series of tests/corpus, recorded by benches/corpus.py. Tests and comparisons are contiguous blocks of a series, at random
places with fixed seeds; the truth is the mean or the quantile of the whole series. Real machines change while a test
runs and after it, so an interval can miss; then a finding must say that the machine or the trials were unsteady.
Counted are the misses without such a finding. BW_CALIBRATION=full plays every series with every rule, the peers beside,
and prints the tables of docs/calibration.md.
"""

from __future__ import annotations

import functools
import os
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import msgspec
import numpy as np
import pytest

from benchwright.core.results import Finding
from benchwright.stats.steps import find_steps
from comparing import DIFFERENT, PAIRS, any_difference, both_stored, one_comparison
from comparing import rule_of as comparison_rule
from populations import at_least, at_most
from recorded import (
    CORPUS,
    RecordedSeries,
    findings_of,
    is_clean,
    population,
    read,
    starts_of,
)
from stopping import PEERS, rules, stop_of

FULL = os.environ.get("BW_CALIBRATION") == "full"
SEED = 20_261_127
LENGTH = 500
TESTS = 100 if FULL else 40
COMPARISONS = 200 if FULL else 60
POINTS, OF_POINT = 100, 30
"""Runs of a history, and trials of each."""
RULES = rules(LENGTH)
MODES = ("plan mean", "watch mean", "plan median", "plan p90")
CONDITIONS = ("quiet", "neighbour", "quota", "drift")
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
TOO_SHORT = "work-too-short-for-the-clock"
FILES = sorted(CORPUS.glob("*/*.json.xz"))
SMALL = ("gcc-quiet", "nginx-neighbour", "gzip-quota", "java-drift")


def name_of(file: Path) -> str:
    return file.name.removesuffix(".json.xz")


def played(files: Iterable[Path] = FILES) -> list[Path]:
    """Return the series that this form plays."""
    return [file for file in files if FULL or name_of(file) in SMALL]


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
    unsteady: int = 0
    """Misses with a finding that says that trials or machine were unsteady."""
    too_short: int = 0
    """Other misses with the warning that a trial is too short."""
    silent: int = 0
    """Misses without any of these."""
    codes: Counter[str] = msgspec.field(default_factory=Counter)

    def add(
        self, covers: bool, trials: int, answered: bool, found: tuple[Finding, ...]
    ) -> None:
        codes = {finding.code for finding in found}
        self.tests += 1
        self.covered += covers
        self.trials += trials
        self.answered += answered
        self.clean += is_clean(found)
        self.clean_covered += is_clean(found) and covers
        self.codes.update(codes)
        if not covers:
            if codes & UNSTEADY:
                self.unsteady += 1
            elif TOO_SHORT in codes:
                self.too_short += 1
            else:
                self.silent += 1


ROWS: dict[str, dict[str, Misses]] = {}
"""What was measured, for the table at the end: by series and rule."""


def play(series: RecordedSeries, mode: str, tests: int) -> Misses:
    """Play a rule on blocks of a series, each judged by its findings."""
    one, rule, found = population(series), RULES[mode], Misses()
    truth = one.truth(rule.share)
    for first in starts_of(one, SEED, (tests, LENGTH)):
        stop, trials = stop_of(rule, one.values[first : first + LENGTH])
        interval = stop.reached[0].estimate
        covers = interval is not None and interval.low <= truth <= interval.high
        findings = findings_of(series, int(first), trials)
        found.add(covers, trials, stop.answered, findings)
    return found


# -- The corpus itself ------------------------------------------------------------------


def test_the_corpus_has_many_programs_under_each_condition() -> None:
    kinds = Counter(name_of(file).rsplit("-", 1)[1] for file in FILES)
    print(dict(kinds))
    assert set(kinds) == set(CONDITIONS)
    assert sum(kinds.values()) >= 40
    assert min(kinds.values()) >= 10
    assert sum(file.stat().st_size for file in FILES) < 3 << 20


@pytest.mark.parametrize("file", FILES, ids=name_of)
def test_a_series_is_whole(file: Path) -> None:
    series = series_of(file)
    around = series.around
    assert file.parent.name == around.machine
    assert name_of(file) == f"{around.program}-{around.condition}"
    starts, elapsed = np.array(series.start_ns), np.array(series.elapsed_ns)
    assert len(starts) == len(elapsed) >= 2000
    assert elapsed.min() > 0
    # One after the other, none within another.
    assert (starts[1:] >= starts[:-1] + elapsed[:-1]).all()
    assert {"cpu.model", "kernel.release", "benchwright.version"} <= set(series.facts)
    assert around.setting
    assert bool(around.neighbour) == (around.condition in ("neighbour", "drift"))
    assert around.versions or around.program == "python"
    seen = sum(use.epochs[1] - use.epochs[0] + 1 for use in series.uses)
    assert seen > 0.5 * len(starts)


# -- Stopping rules and findings ----------------------------------------------------------


@pytest.mark.timeout(1800)
@each
def test_an_interval_that_misses_has_a_finding_that_says_why(file: Path) -> None:
    series = series_of(file)
    for mode in MODES if FULL else MODES[:1]:
        found = play(series, mode, TESTS)
        ROWS.setdefault(series.name, {})[mode] = found
        print(
            f"{series.name}, {mode}: covers {found.covered / found.tests:.1%},"
            f" {found.trials / found.tests:.0f} trials; clean {found.clean},"
            f" of these cover {found.clean_covered}; misses: unsteady {found.unsteady},"
            f" too short {found.too_short}, silent {found.silent}"
        )
        assert at_most(found.silent, found.tests, 0.05)
        assert at_least(found.clean_covered, found.clean, 0.93)


def test_without_its_findings_the_same_count_fails() -> None:
    """On a machine with a neighbour most intervals miss; only the findings make them no silent ones."""
    (file,) = (file for file in FILES if name_of(file) == "nginx-neighbour")
    found = play(series_of(file), "plan mean", TESTS)
    misses = found.tests - found.covered
    assert not at_most(misses, found.tests, 0.05)
    assert found.unsteady > 0


# -- Comparisons ------------------------------------------------------------------------


AA: dict[str, list[tuple[int, int]]] = {}
"""False differences and comparisons by kind and condition."""


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("mode", ["watch", "plan"] if FULL else ["watch"])
@each
def test_interleaved_a_program_rarely_differs_from_itself(
    file: Path, mode: str
) -> None:
    """Both arms are the trials of one stretch of the series, in the order that a session runs them."""
    series = series_of(file)
    one = population(series)
    rule = comparison_rule(mode=mode)
    if mode == "plan":
        rule = msgspec.structs.replace(rule, margin=0.05)
    length = 2 * PAIRS
    false = 0
    for number, first in enumerate(starts_of(one, SEED, (COMPARISONS, length))):
        values = [[value] for value in one.values[first : first + length].tolist()]
        own = msgspec.structs.replace(rule, seed=number)
        false += any_difference(one_comparison(own, values, 1.0, ["a", "b"]))
    AA.setdefault(f"{mode} {series.around.condition}", []).append((false, COMPARISONS))
    print(f"{series.name}, {mode}: {false} of {COMPARISONS} differ")
    assert at_most(false, COMPARISONS, 0.05)


@pytest.mark.timeout(1800)
@each
def test_stored_a_difference_of_a_program_from_itself_has_a_finding_that_says_why(
    file: Path,
) -> None:
    """Two disjoint blocks of 100 trials, one before the other, as two sessions on one machine."""
    series = series_of(file)
    one = population(series)
    count = 100
    false = silent = 0
    rng, total = np.random.default_rng(SEED), len(one.values)
    for _ in range(COMPARISONS):
        a = int(rng.integers(0, total - 2 * count + 1))
        b = int(rng.integers(a + count, total - count + 1))
        arms = (one.values[place : place + count] for place in (a, b))
        verdict = both_stored(*arms).verdicts[0].verdict
        if verdict in DIFFERENT:
            false += 1
            codes = {
                finding.code
                for place in (a, b)
                for finding in findings_of(series, place, count)
            }
            silent += not codes & (UNSTEADY | {TOO_SHORT})
    AA.setdefault(f"stored {series.around.condition}", []).append((false, COMPARISONS))
    AA.setdefault(f"stored, silent {series.around.condition}", []).append(
        (silent, COMPARISONS)
    )
    print(
        f"{series.name}, stored: {false} of {COMPARISONS} differ, {silent} without a finding"
    )
    assert at_most(silent, COMPARISONS, 0.05)


# -- Histories ---------------------------------------------------------------------------


@pytest.mark.timeout(900)
@each
def test_a_history_of_runs_at_random_times_rarely_has_a_step(file: Path) -> None:
    """Each run is the mean of 30 trials somewhere in the series."""
    series = series_of(file)
    one = population(series)
    blocks = one.series(SEED, (COMPARISONS * POINTS, OF_POINT))
    histories = np.log(blocks.mean(axis=1)).reshape(COMPARISONS, POINTS)
    hits = sum(bool(find_steps(history).steps) for history in histories)
    AA.setdefault(f"history {series.around.condition}", []).append((hits, COMPARISONS))
    print(f"{series.name}, history: {hits} of {COMPARISONS} have a step")
    assert at_most(hits, COMPARISONS, 0.05)


# -- The tables -------------------------------------------------------------------------


@pytest.mark.skipif(not FULL, reason="in the full form")
@pytest.mark.timeout(900)
def test_the_tables() -> None:
    """Coverage [%] and mean trials of each rule and of the peers; misses by what is said of them."""
    print(
        "\n| series | trials | ms | CV | correlation | "
        + " | ".join((*MODES, *PEERS))
        + " | clean | misses: unsteady | too short | silent |"
    )
    print("|---" + "|---:" * (4 + len(MODES) + len(PEERS) + 4) + "|")
    for file in FILES:
        series = read(file)
        one = population(series)
        rows = ROWS.get(series.name, {})
        blocks = one.series(SEED, (TESTS, LENGTH))
        deviations = one.values - 1
        correlation = (deviations[1:] @ deviations[:-1]) / (deviations @ deviations)
        cells = [
            f"{found.covered / found.tests:.0%} ({found.trials / found.tests:.0f})"
            if (found := rows.get(mode))
            else ""
            for mode in MODES
        ]
        cells += [f"{peer(blocks, 1.0).coverage:.0%}" for peer in PEERS.values()]
        total = max(sum(found.tests for found in rows.values()), 1)
        cells += [
            f"{sum(getattr(found, what) for found in rows.values()) / total:.1%}"
            for what in ("clean", "unsteady", "too_short", "silent")
        ]
        print(
            f"| {series.name} | {len(one.values):,} |"
            f" {np.median(series.elapsed_ns) / 1e6:.3g} | {one.values.std():.0%} |"
            f" {correlation:.2f} | " + " | ".join(cells) + " |"
        )
    print("\n| what | share | comparisons or histories |\n|---|---:|---:|")
    for what, counts in AA.items():
        hits, of = (sum(column) for column in zip(*counts, strict=True))
        print(f"| {what} | {hits / of:.1%} | {of:,} |")
