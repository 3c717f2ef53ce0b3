"""How often does `bw compare` find a difference between two equal settings of a language model's server,
and between unequal ones?

The values are those of llm-trials.csv: trials of one setting in a row, by examples/llm-trial.sh with
llama.cpp and its 300 kB model (tests/stand_ins/tiny_model.py), each with a new server, a warm-up and a
load of 1 s, on a machine that others used too. A comparison is a contiguous part of them at a random
place, whose order of arms is that of the rule; parts overlap, so the comparisons are not independent.
"""

from __future__ import annotations

import csv
import os
from pathlib import Path

import msgspec
import numpy as np

from benchwright.core.comparison import ComparedMetric, ComparisonDesign
from comparing import any_difference, one_comparison, rule_of
from populations import at_least, at_most

TRIALS = Path(__file__).parent / "llm-trials.csv"
COMPARISONS = 400 if os.environ.get("BW_CALIBRATION") == "full" else 40
BLOCKS = 15
SEED = 20_261_130
DESIGNS = (ComparisonDesign.BLOCKS, ComparisonDesign.ABBA)


def found(effect: float, design: ComparisonDesign, comparisons: int) -> int:
    """Return how many comparisons find a difference if one arm's times are multiplied."""
    with TRIALS.open(newline="") as file:
        rows = [row for row in csv.reader(file) if row]
    names, values = rows[0], [[float(cell) for cell in row] for row in rows[1:]]
    metrics = tuple(ComparedMetric(name) for name in names)
    rng = np.random.default_rng(SEED)
    rule = rule_of(design, metrics=metrics, maximum=BLOCKS)
    trials = BLOCKS * rule.arms * rule.design.trials_per_block
    differences = 0
    for seed in range(comparisons):
        begin = int(rng.integers(0, len(values) - trials + 1))
        own = msgspec.structs.replace(rule, seed=seed)
        part = values[begin : begin + trials]
        differences += any_difference(one_comparison(own, part, effect, ["one", "other"]))
    return differences


def test_equal_settings_of_a_language_models_server_hardly_ever_differ() -> None:
    alarms = sum(found(1.0, design, COMPARISONS // 2) for design in DESIGNS)
    print(f"{alarms} of {COMPARISONS} comparisons of one setting with itself found a difference")
    assert at_most(alarms, COMPARISONS, 0.05)


def test_times_twice_as_long_are_found() -> None:
    blocks, abba = (found(2.0, design, COMPARISONS) for design in DESIGNS)
    print(f"twice as long: {blocks} by blocks, {abba} by abba of {COMPARISONS}")
    assert at_least(blocks, COMPARISONS, 0.6)
    assert at_least(abba, COMPARISONS, 0.9)
