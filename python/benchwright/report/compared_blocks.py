"""The trials of a comparison's stored arms as blocks, for comparing them again."""

from __future__ import annotations

from collections.abc import Sequence

from benchwright.core.observation import Trial, TrialEnding
from benchwright.decide.compare.evidence import MetricValues
from benchwright.findings.result import TestResult
from benchwright.stats.aggregate import aggregate_trial
from benchwright.stats.metric_rules import MetricRules


def paired_blocks(inputs: Sequence[TestResult]) -> list[list[list[MetricValues | None]]]:
    """Return the valid blocks: for each arm, the values of its trials.

    Incomplete blocks, after an interrupt, are left out.
    """
    by_block = [_by_block(one) for one in inputs]
    each = inputs[0].arm.trials_per_block if inputs[0].arm else 1
    shared = set(by_block[0]).intersection(*by_block[1:])
    return [
        [arm[number] for arm in by_block]
        for number in sorted(shared)
        if all(len(arm[number]) == each for arm in by_block)
    ]


def _by_block(parsed_input: TestResult) -> dict[int, list[MetricValues | None]]:
    assert parsed_input.arm is not None
    book, found = (MetricRules(parsed_input.specs), dict[int, list[MetricValues | None]]())
    for trial in parsed_input.trials:
        if not trial.warmup:
            number = (trial.epoch - 1) // parsed_input.arm.trials_per_block
            found.setdefault(number, []).append(values_of_trial(trial, book))
    return found


def values_of_trial(trial: Trial, book: MetricRules) -> MetricValues | None:
    """Return the values of a trial; None if it failed."""
    if trial.ending is not TrialEnding.OK:
        return None
    return aggregate_trial(trial.blocks, book).values
