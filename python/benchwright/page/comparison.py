"""The sections about comparisons: ratios with the null run beside them, and gates."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from benchwright.core.comparison import (
    ComparisonResult,
    GateOutcome,
    GateVerdict,
    MetricVerdict,
    NullResult,
    Verdict,
)
from benchwright.core.text import moment_text, p_cell, percent_text, plural
from benchwright.core.untrusted import visible
from benchwright.page.document import (
    Block,
    Column,
    Number,
    Picture,
    Section,
    TableBlock,
    Tile,
    Tone,
    Words,
)
from benchwright.page.figures import (
    as_sentence,
    count_column,
    estimate_number,
    keyed,
    label_of,
    number_of,
    scale_of,
    share_number,
    table_of,
)
from benchwright.page.stored import StoredTest, StoredTests
from benchwright.report.charts.forest import forest_sheet
from benchwright.report.comparison import (
    gate_sentence,
    gates_headline,
    null_headline,
    sentence,
    verdict_headline,
    verdict_word,
)
from benchwright.stats.metric_rules import MetricRules

_TONES: dict[Verdict | None, Tone] = {
    Verdict.FASTER: "good",
    Verdict.SLOWER: "bad",
    Verdict.EQUIVALENT: "good",
    Verdict.UNDECIDED: "doubtful",
    None: "plain",
}
_GATES: dict[GateOutcome, Tone] = {
    GateOutcome.PASSED: "good",
    GateOutcome.FAILED: "bad",
    GateOutcome.UNDECIDED: "doubtful",
}


def tone_of_gates(comparisons: Sequence[ComparisonResult]) -> Tone | None:
    """Return the tone of the worst gate; None if every gate passed, or there is none."""
    outcomes = {gate.outcome for one in comparisons for gate in one.gates}
    for outcome in (GateOutcome.FAILED, GateOutcome.UNDECIDED):
        if outcome in outcomes:
            return _GATES[outcome]
    return None


def comparison_verdict(comparisons: Sequence[ComparisonResult]) -> Iterator[str]:
    """Yield a sentence for each gate and each judged metric; of a null comparison, its noise.

    The first is short: where it would be long, a headline is before it.
    """
    for comparison in comparisons:
        if comparison.rule.exactly is not None and comparison.null is not None:
            yield null_headline(comparison.null)
            yield from _null_sentences(comparison.null)
            continue
        judged = [v for v in comparison.verdicts if v.judged]
        if comparison.gates:
            yield gates_headline(comparison.gates)
        elif judged:
            headline = verdict_headline(judged[0], comparison)
            if not sentence(judged[0], comparison).startswith(headline):
                yield headline
        yield from (as_sentence(gate_sentence(gate)) for gate in comparison.gates)
        yield from (sentence(v, comparison) for v in judged)


def _null_sentences(null: NullResult) -> Iterator[str]:
    """Yield what the noise floor means; the table of the null run has the other figures."""
    where = f"in {plural(null.blocks, 'block')} of `{null.command}` against itself"
    if any(floor.noise_floor is not None for floor in null.floors):
        yield f"Smaller differences cannot be detected reliably here ({where})"
    else:
        yield f"The noise is unknown, because there are too few blocks ({where})"
    if null.biased:
        yield "The command differs from itself, so comparisons on this machine are biased."


def comparison_tiles(stored: StoredTests) -> Iterator[Tile]:
    """Yield the ratio of each judged metric, and the noise floor if the study has one."""
    links = _trial_links(stored.tests)
    for number, comparison in enumerate(stored.comparisons, 1):
        key, null = f"{stored.id}.c{number}", comparison.null
        is_null_run = comparison.rule.exactly is not None and null is not None
        for at, verdict in enumerate(comparison.verdicts, 1):
            if verdict.judged:
                # What a null run judges is the machine, not the command.
                what = "" if is_null_run else f": {verdict_word(verdict, comparison)}"
                yield Tile(
                    visible(f"{verdict.candidate} / {verdict.baseline}"),
                    _ratio(f"{key}.v{at}.tile", verdict, links),
                    visible(f"{_label(verdict.metric)}{what}"),
                )
        if null is not None and null.floors:
            floor = null.floors[0]
            yield Tile(
                "Noise floor",
                share_number(f"{key}.noise_floor.tile", floor.noise_floor),
                visible(f"{_label(floor.metric)}, a command against itself"),
            )


def _label(metric: str) -> str:
    return label_of(metric, MetricRules().row(metric).label)


def _trial_links(tests: Sequence[StoredTest]) -> dict[str, str]:
    return {test.name: test.trials_id for test in tests}


def _ratio(key: str, verdict: MetricVerdict, links: dict[str, str]) -> Number:
    link = links.get(verdict.candidate, "")
    scale = scale_of([verdict.ratio.value], "", 4)
    return estimate_number(key, verdict.ratio, scale, link=link)


def comparison_section(stored: StoredTests) -> Section:
    """Return the ratios of each comparison, with the null run and the gates."""
    return Section(
        id=f"{stored.id}-comparison",
        title="Comparison",
        lead="Ratios of candidate to baseline. Below 1, the candidate has the smaller value.",
        blocks=tuple(
            block
            for number, comparison in enumerate(stored.comparisons, 1)
            for block in _blocks(stored, comparison, f"{stored.id}.c{number}")
        ),
    )


def _blocks(stored: StoredTests, comparison: ComparisonResult, key: str) -> Iterator[Block]:
    sheet = forest_sheet(comparison, _label)
    noise = (
        "No null run is stored, so the noise of this machine is unknown."
        if comparison.null is None
        else "The gray interval is that of a command against itself: differences of that size "
        "are noise."
    )
    yield Picture(
        id=f"{key}.forest",
        title="Ratios with their intervals",
        sheet=sheet,
        reading="The line at 1 means no difference. An interval that does not contain 1 shows a "
        f"difference. {noise}",
    )
    yield _verdicts_table(stored, comparison, key)
    if comparison.gates:
        yield _gates_table(comparison.gates, key)
    if comparison.null is not None:
        yield _null_table(comparison.null, key)


def _gates_table(gates: Sequence[GateVerdict], key: str) -> TableBlock:
    return table_of(
        f"{key}.gates",
        "Gates",
        keyed(f"{key}.gate", gates),
        (
            (Column("Gate"), lambda _, one: Words(visible(one.gate.text), code=True)),
            (Column("Candidate"), lambda _, one: Words(visible(one.candidate))),
            (
                Column("Result"),
                lambda _, one: Words(str(one.outcome), tone=_GATES[one.outcome]),
            ),
            (Column("Evidence"), lambda _, one: Words(visible(one.detail))),
        ),
    )


def _verdicts_table(stored: StoredTests, comparison: ComparisonResult, key: str) -> TableBlock:
    links = _trial_links(stored.tests)
    units = {metric.name: metric.unit for metric in comparison.rule.metrics}
    shown = [
        (key, one)
        for key, one in keyed(f"{key}.v", comparison.verdicts)
        # A metric that is 0, such as the system time of a short command, has no ratio.
        if one.verdict is not None or math.isfinite(one.ratio.value)
    ]

    def mean(key: str, one: MetricVerdict, arm: str, value: float | None) -> Number:
        unit = one.unit or units.get(one.metric) or _UNITS.get(one.metric, "")
        scale = scale_of([one.mean_baseline, one.mean_candidate], unit)
        return number_of(key, value, scale, link=links.get(arm, ""))

    level = percent_text(comparison.rule.confidence)
    return table_of(
        f"{key}.verdicts",
        f"Against {visible(comparison.arms[0])}, in {plural(comparison.blocks, 'block')}",
        shown,
        (
            (
                Column("Metric"),
                lambda _, one: Words(visible(_label(one.metric))),
            ),
            (Column("Candidate"), lambda _, one: Words(visible(one.candidate))),
            (
                Column("Baseline mean", "geometric mean", numeric=True),
                lambda key, one: mean(f"{key}.baseline", one, one.baseline, one.mean_baseline),
            ),
            (
                Column("Candidate mean", "geometric mean", numeric=True),
                lambda key, one: mean(f"{key}.candidate", one, one.candidate, one.mean_candidate),
            ),
            (
                Column(f"Ratio, {level} interval", numeric=True),
                lambda key, one: _ratio(f"{key}.ratio", one, links),
            ),
            (
                Column("Verdict"),
                lambda _, one: Words(verdict_word(one, comparison), tone=_TONES[one.verdict]),
            ),
            (
                Column("P, adjusted"),
                lambda _, one: Words(p_cell(one.p_adjusted) if one.verdict else ""),
            ),
            (
                Column(
                    "Detectable",
                    "the smallest difference that would have been detected",
                    numeric=True,
                ),
                lambda key, one: share_number(f"{key}.smallest", one.stated_effect),
            ),
            count_column(
                "Trials",
                "n",
                lambda one: one.n_candidate,
                link=lambda one: links.get(one.candidate, ""),
            ),
        ),
        note=_warm_up_note(comparison),
    )


_UNITS = {"elapsed": "s", "user": "s", "system": "s", "rss_bytes": "B"}


def _warm_up_note(comparison: ComparisonResult) -> str:
    parts = []
    if comparison.rule.warmup:
        parts.append(f"{plural(comparison.rule.warmup, 'warm-up block')} not counted")
    if comparison.failed_blocks:
        parts.append(f"{plural(comparison.failed_blocks, 'block')} failed")
    return ", ".join(parts)


def _null_table(null: NullResult, key: str) -> TableBlock:
    boot, source = null.boot_id[:8] or "unknown", f", {null.source}" * bool(null.source)
    return table_of(
        f"{key}.null",
        "The null run: a command against itself",
        [
            (key, floor)
            for key, floor in keyed(f"{key}.null", null.floors)
            if floor.half_width is not None
        ],
        (
            (
                Column("Metric"),
                lambda _, floor: Words(visible(_label(floor.metric))),
            ),
            (
                Column("Interval of the ratio, ±", numeric=True),
                lambda key, floor: share_number(f"{key}.half_width", floor.half_width),
            ),
            (
                Column("Noise floor", numeric=True),
                lambda key, floor: share_number(f"{key}.noise_floor", floor.noise_floor),
            ),
        ),
        note=visible(
            f"Measured {moment_text(null.measured_ns)} UTC, boot {boot}{source}. "
            f"{percent_text(null.false_positives)} of {null.relabellings} random relabellings "
            "of the arms were called different."
        ),
    )
