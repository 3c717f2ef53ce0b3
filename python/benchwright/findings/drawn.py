"""Findings about inputs that were drawn for each trial: how the value, or a ratio, depends on them, and
which input was the worst.

The interval of the mean is about the population that the inputs were drawn from, because each trial,
or block of a comparison, is one draw; so nothing here doubts it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from benchwright.core.comparison import ComparisonResult
from benchwright.core.plan import Pairs
from benchwright.core.results import Figure, Finding, FindingFigures, Value, states
from benchwright.core.text import quantity_text
from benchwright.findings.codes import make_finding
from benchwright.findings.result import TestResult
from benchwright.stats.input_dependence import number_dependence, text_dependence


def drawn_findings(test: TestResult) -> list[Finding]:
    """Return how the main quantity of a test depends on each input that was drawn."""
    drawn = {trial.epoch: trial.drawn for trial in test.trials if trial.drawn}
    name = next((one for one in ("elapsed", *test.rules.declared) if one in test.columns), None)
    if not drawn or name is None:
        return []
    column = test.columns[name]
    known = [
        (drawn[epoch], value)
        for epoch, value in zip(column.epochs, column.values, strict=True)
        if epoch in drawn
    ]
    row = test.rules.row(name)
    least = -math.inf if row.signed else 0.0
    pairs, values = [one for one, _ in known], [value for _, value in known]
    return [
        make_finding("depends-on-input", test.name, figures)
        for figures in _dependences(name, pairs, values, row.unit, least)
    ]


def drawn_ratio_findings(
    comparison: ComparisonResult, arms: Mapping[str, TestResult]
) -> list[Finding]:
    """Return how the ratio of each candidate to the baseline depends on each input; `arms`: the tests
    that ran, by name."""
    baseline = arms.get(comparison.arms[0])
    found: list[Finding] = []
    if baseline is None or not comparison.rule.paired:
        return found
    for candidate in comparison.arms[1:]:
        test = arms.get(candidate)
        for name in comparison.rule.judged:
            if test is None or name not in test.columns or name not in baseline.columns:
                continue
            before = dict(
                zip(baseline.columns[name].epochs, baseline.columns[name].values, strict=True)
            )
            drawn = {trial.epoch: trial.drawn for trial in test.trials if trial.drawn}
            known = [
                (drawn[epoch], value / before[epoch])
                for epoch, value in zip(
                    test.columns[name].epochs, test.columns[name].values, strict=True
                )
                if epoch in drawn and before.get(epoch, 0) > 0
            ]
            what = f"{name} of {candidate} / {baseline.name}"
            subject = " and ".join(comparison.arms)
            pairs, ratios = [one for one, _ in known], [ratio for _, ratio in known]
            found += [
                make_finding("ratio-depends-on-input", subject, figures)
                for figures in _dependences(what, pairs, ratios)
            ]
    return found


def _dependences(
    what: str, drawn: Sequence[Pairs], values: Sequence[float], unit: str = "", least: float = 0.0
) -> Iterator[FindingFigures]:
    """Yield the figures of each input on which the values clearly depend. `least`: the smallest value
    that is possible."""
    for name in dict.fromkeys(name for pairs in drawn for name, _ in pairs):
        inputs = [dict(pairs)[name] for pairs in drawn]
        numbers = numbers_of(inputs)
        worst = max(range(len(values)), key=lambda at: values[at])
        about: dict[str, Value] = {"what": what, "name": name, "worst": inputs[worst]}
        about["value"] = quantity_text(values[worst], unit)
        if numbers is not None:
            line = number_dependence(numbers, values)
            if line is not None and line.is_clear:
                factor = line.factor
                yield states(
                    "number",
                    **about,
                    factor=factor.value,
                    low=factor.low,
                    high=factor.high,
                    least=line.low,
                    most=line.high,
                )
        elif (groups := text_dependence(inputs, values)) is not None and groups.is_clear:
            mean, spread = groups.mean, groups.spread
            yield states(
                "text",
                **about,
                inputs=groups.inputs,
                spread=Figure(spread.value / mean.value, "%"),
                ends=Figure(spread.low / mean.value, "%", spread.high / mean.value),
                mean_low=quantity_text(max(mean.low, least), unit),
                mean_high=quantity_text(mean.high, unit),
            )


def numbers_of(texts: Sequence[str]) -> list[float] | None:
    """Return inputs as numbers; None if one of them is none."""
    try:
        return [float(text) for text in texts]
    except ValueError:
        return None
