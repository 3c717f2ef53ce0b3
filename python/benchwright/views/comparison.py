"""The view of comparisons: ratios with the null run beside them, gates; as blocks and as text."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType

import msgspec

from benchwright.core.comparison import (
    ComparisonResult,
    GateOutcome,
    GateVerdict,
    MetricVerdict,
    NullResult,
    Verdict,
)
from benchwright.core.observation import Trial
from benchwright.core.text import list_text, moment_text, more_text, p_cell, percent_text, plural
from benchwright.core.untrusted import visible
from benchwright.report.charts.forest import forest_sheet
from benchwright.report.comparison import (
    gate_sentence,
    gates_headline,
    null_headline,
    null_sentence,
    sentence,
    unit_of,
    verdict_headline,
    verdict_word,
)
from benchwright.report.documents import report_text
from benchwright.stats.aggregate import MetricRules
from benchwright.views.blocks import (
    Block,
    Column,
    Number,
    Picture,
    Section,
    TableBlock,
    Tile,
    Tone,
    Words,
    alike,
    as_sentence,
    count_number,
    estimate_number,
    keyed,
    label_of,
    number_of,
    scale_of,
    share_number,
    table_of,
)
from benchwright.views.terminal import table_text

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
    outcomes = {gate.outcome for comparison in comparisons for gate in comparison.gates}
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
        yield from replicate_sentences(comparison)


def _null_sentences(null: NullResult) -> Iterator[str]:
    """Yield what the noise floor means; the table of the null run has the other figures."""
    where = f"in {plural(null.blocks, 'block')} of `{null.command}` against itself"
    if any(floor.noise_floor is not None for floor in null.floors):
        yield f"Smaller differences cannot be detected reliably here ({where})"
    else:
        yield f"The noise is unknown, because there are too few blocks ({where})"
    if null.biased:
        yield "The command differs from itself, so comparisons on this machine are biased."


class Compared(msgspec.Struct, frozen=True):
    """The comparisons of a part of a page."""

    id: str
    """The prefix of ids and keys."""
    comparisons: Sequence[ComparisonResult]
    links: Mapping[str, str] = MappingProxyType({})
    """The id of the table with the trials of each arm, by its name."""


def comparison_tiles(compared: Compared) -> Iterator[Tile]:
    """Yield the ratio of each judged metric, and the noise floor if the study has one."""
    for number, comparison in enumerate(compared.comparisons, 1):
        key, null = f"{compared.id}.c{number}", comparison.null
        is_null_run = comparison.rule.exactly is not None and null is not None
        for at, verdict in enumerate(comparison.verdicts, 1):
            if verdict.judged:
                # What a null run judges is the machine, not the command.
                what = "" if is_null_run else f": {verdict_word(verdict, comparison)}"
                yield Tile(
                    visible(f"{verdict.candidate} / {verdict.baseline}"),
                    _ratio(f"{key}.v{at}.tile", verdict, compared.links),
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


def _ratio(key: str, verdict: MetricVerdict, links: Mapping[str, str]) -> Number:
    link = links.get(verdict.candidate, "")
    ratio = verdict.ratio
    scale = scale_of([ratio.value], "", 4, ends=[ratio.low, ratio.high])
    return estimate_number(key, verdict.ratio, scale, link=link)


def comparison_section(compared: Compared) -> Section:
    """Return the ratios of each comparison, with the null run and the gates."""
    return Section(
        id=f"{compared.id}-comparison",
        title="Comparison",
        lead="Ratios of candidate to baseline. Below 1, the candidate has the smaller value.",
        blocks=tuple(
            block
            for number, comparison in enumerate(compared.comparisons, 1)
            for block in _blocks(comparison, f"{compared.id}.c{number}", compared.links)
        ),
    )


def _blocks(comparison: ComparisonResult, key: str, links: Mapping[str, str]) -> Iterator[Block]:
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
    yield verdicts_table(comparison, key, links)
    yield from _levels_tables(comparison, key)
    if comparison.gates:
        yield _gates_table(comparison.gates, key)
    if comparison.null is not None:
        yield _null_table(comparison.null, key)


def _levels_tables(comparison: ComparisonResult, key: str) -> Iterator[Block]:
    """Yield by how much replicates change each judged ratio, with levels of replication."""
    for number, v in enumerate(comparison.verdicts, 1):
        if v.judged and v.population is not None:
            # Few comparisons replicate anything.
            from benchwright.views.replicates import levels_table

            title = f"Levels of replication: {visible(v.candidate)}, {visible(v.metric)}"
            yield levels_table(f"{key}.v{number}", v.population.levels, title)


def _gates_table(gates: Sequence[GateVerdict], key: str) -> TableBlock:
    return table_of(
        f"{key}.gates",
        "Gates",
        keyed(f"{key}.gate", gates),
        (
            (Column("Gate"), lambda _, verdict: Words(visible(verdict.gate.text), code=True)),
            (Column("Candidate"), lambda _, gate_verdict: Words(visible(gate_verdict.candidate))),
            (Column("Result"), lambda _, one: Words(str(one.outcome), tone=_GATES[one.outcome])),
            (Column("Evidence"), lambda _, one: Words(visible(one.detail))),
        ),
    )


def _metric(one: MetricVerdict) -> str:
    return visible(one.metric)


def _candidate(one: MetricVerdict) -> str:
    return visible(one.candidate.removesuffix(f":{one.test}"))


def _shown_word(one: MetricVerdict) -> str:
    return "(no ratio: some are 0)" if one.is_partly_zero else "(shown)"


def verdicts_table(
    comparison: ComparisonResult, key: str, links: Mapping[str, str] = MappingProxyType({})
) -> TableBlock:
    """Return a row for each verdict; `key` begins the keys of its numbers.

    A metric that is only shown has rows if any value of it is not 0, as is the system time of short
    commands; one with some values of 0 has no ratio, and says so. Where several tests are compared, it has none, and a metric or candidate that is the
    same in all rows has no column.
    """
    several = any(verdict.test for verdict in comparison.verdicts)
    filled = {
        verdict.metric
        for verdict in comparison.verdicts
        for n, mean in (
            (verdict.n_baseline, verdict.mean_baseline),
            (verdict.n_candidate, verdict.mean_candidate),
        )
        if n and (mean != 0 if math.isfinite(mean) else verdict.is_partly_zero)
    }
    shown = [
        (row, one)
        for row, one in keyed(f"{key}.v", comparison.verdicts)
        if one.judged or (one.metric in filled and not several)
    ]
    same = {
        name: several and len({of(one) for _, one in shown}) == 1
        for name, of in (("metric", _metric), ("candidate", _candidate))
    }
    is_live = any(verdict.blocks is not None for verdict in comparison.verdicts)
    counted = f", in {plural(comparison.blocks, 'block')}" if is_live else ""

    def mean(key: str, one: MetricVerdict, arm: str, value: float) -> Number:
        means = [one.mean_baseline, one.mean_candidate]
        scale = scale_of(means if alike(means) else [value], unit_of(one, comparison))
        return number_of(key, value, scale, link=links.get(arm, ""))

    def count(key: str, one: MetricVerdict) -> Number:
        number = count_number(f"{key}.n", one.n_candidate, link=links.get(one.candidate, ""))
        if one.n_baseline == one.n_candidate:
            return number
        return msgspec.structs.replace(number, text=f"{one.n_baseline:,}, {number.text}")

    level = percent_text(comparison.rule.confidence)
    return table_of(
        f"{key}.verdicts",
        f"Against {visible(comparison.arms[0])}{counted}",
        shown,
        (
            (Column("Test"), lambda _, metric_verdict: Words(visible(metric_verdict.test))),
            (Column("Metric"), lambda _, one: Words("" if same["metric"] else _metric(one))),
            (
                Column("Candidate"),
                lambda _, one: Words("" if same["candidate"] else _candidate(one)),
            ),
            (Column("Trials", short="n", numeric=True, rank=1), count),
            (
                Column("Baseline mean", "geometric mean", numeric=True, short="baseline", rank=2),
                lambda key, one: mean(f"{key}.baseline", one, one.baseline, one.mean_baseline),
            ),
            (
                Column("Candidate mean", "geometric mean", numeric=True, short="mean", rank=2),
                lambda key, one: mean(f"{key}.candidate", one, one.candidate, one.mean_candidate),
            ),
            (
                Column(f"Ratio, {level} interval", numeric=True, short="ratio"),
                lambda key, one: _ratio(f"{key}.ratio", one, links),
            ),
            (
                Column("Verdict"),
                lambda _, one: Words(
                    verdict_word(one, comparison) if one.verdict else _shown_word(one),
                    tone=_TONES[one.verdict],
                ),
            ),
            (
                Column("P, adjusted", short="P(adj)", rank=3),
                lambda _, one: Words(p_cell(one.p_adjusted) if one.verdict else ""),
            ),
            (
                Column(
                    "Detectable",
                    "the smallest difference that would have been detected",
                    numeric=True,
                    rank=4,
                ),
                lambda key, one: share_number(f"{key}.smallest", one.stated_effect),
            ),
        ),
        note=_warm_up_note(comparison),
    )


def _warm_up_note(comparison: ComparisonResult) -> str:
    parts = []
    if comparison.rule.warmup and comparison.rule.replication is not None:
        some = plural(comparison.rule.warmup, "block")
        parts.append(f"{some} of each replicate that starts cold not counted")
    elif comparison.rule.warmup:
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
            (Column("Metric"), lambda _, floor: Words(visible(_label(floor.metric)))),
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


# -- On a terminal ------------------------------------------------------------------------


def render_comparison(
    comparison: ComparisonResult,
    width: int | None = None,
    commands: Mapping[str, str] = MappingProxyType({}),
) -> str:
    """Return the table, sentences, gates and noise floor, ending with a newline.

    Where the table is wider than `width`, columns are left out. `commands`: the command of each
    arm by its name; they come first where the names do not distinguish the arms.
    """
    if any(v.test for v in comparison.verdicts):
        return _several_tests(comparison, width)
    legend = "".join(_legend(comparison.arms, commands))
    parts = [*filter(None, [legend]), *_table(comparison, width)]
    # The gates are the question if there are any: they decide the exit status.
    parts += [gate_sentence(gate) for gate in comparison.gates]
    is_null = comparison.rule.exactly is not None and comparison.null is not None
    parts += [
        sentence(v, comparison)
        for v in comparison.verdicts
        if v.judged and not (is_null and v.verdict is Verdict.UNDECIDED)
    ]
    parts += replicate_sentences(comparison)
    if comparison.null is not None:
        parts.append(null_sentence(comparison.null))
    return report_text(parts)


def replicate_sentences(comparison: ComparisonResult) -> Iterator[str]:
    """Yield what replicates show about each judged metric, with levels of replication."""
    for v in comparison.verdicts:
        if v.judged and v.population is not None:
            # Few comparisons replicate anything.
            from benchwright.report.replicates import population_sentences

            for text in population_sentences(v.population, "ratio"):
                yield f"{v.candidate} against {v.baseline}, {v.metric}: {text}"


def _table(comparison: ComparisonResult, width: int | None) -> list[str]:
    """Return the table of the verdicts below its title."""
    table = verdicts_table(comparison, "")
    note = f" ({table.note})" if table.note else ""
    return [f"{table.title}{note}:", *table_text(table, width), ""]


def measured_commands(arms: Iterable[tuple[str, Sequence[Trial]]]) -> dict[str, str]:
    """Return what each arm measured, by its name; without arms that measured nothing."""
    found: dict[str, str] = {}
    for name, trials in arms:
        blocks = next((trial.blocks for trial in trials if trial.blocks), ())
        if blocks:
            found[name] = "; ".join(dict.fromkeys(block.command for block in blocks))
    return found


def _legend(arms: Sequence[str], commands: Mapping[str, str]) -> Iterator[str]:
    """Yield a line with the command of each arm, if a number is all that distinguishes two names
    (`gzip`, `gzip-2`), or if a name is a word of the shell. A null comparison needs none."""
    numbered = (arm.rpartition("-") for arm in arms)
    unclear = {stem for stem, _, number in numbered if number.isdecimal()}
    if (
        not (unclear | _SHELL_WORDS).isdisjoint(arms)
        and len({commands.get(arm) for arm in arms}) > 1
    ):
        for arm in arms:
            if arm in commands:
                yield f"{arm}: {visible(commands[arm])}\n"


_SHELL_WORDS = frozenset(["case", "for", "if", "select", "until", "while"])


_MOST_SENTENCES = 12


def _several_tests(comparison: ComparisonResult, width: int | None) -> str:
    """Return a row for each verdict, what the gates decided, and the differences in words."""
    judged = [v for v in comparison.verdicts if v.judged]
    different = [v for v in judged if v.verdict in (Verdict.SLOWER, Verdict.FASTER)]
    different.sort(key=lambda v: v.verdict is not Verdict.SLOWER)
    # Their rows do not show why they are undecided.
    beyond = [
        v
        for v in judged
        if v.verdict is Verdict.UNDECIDED and not v.ratio.low <= 1 <= v.ratio.high
        if math.isfinite(v.ratio.low)
    ]
    sentences = []
    for verdicts, what in ((different, "differ"), (beyond, "are undecided")):
        sentences += [sentence(v, comparison) for v in verdicts[:_MOST_SENTENCES]]
        if (more := len(verdicts) - _MOST_SENTENCES) > 0:
            sentences.append(f"{more_text(more)} {what}")
    return report_text(
        _table(comparison, width)[:-1],
        [_verdict_counts(judged, comparison)],
        _several_gates(comparison.gates),
        sentences,
    )


def _verdict_counts(judged: Sequence[MetricVerdict], comparison: ComparisonResult) -> str:
    """Return `new against old, 12 tests: 1 slower, 10 equivalent, 1 undecided`."""
    ordered = sorted(judged, key=lambda v: _ORDER.index(v.verdict))
    found = Counter(verdict_word(v, comparison) for v in ordered)
    counts = [f"{count} {word}" for word, count in found.items()]
    baseline, *candidates = comparison.arms
    tests = plural(len({v.test for v in judged}), "test")
    return f"{list_text(candidates)} against {baseline}, {tests}: {', '.join(counts)}"


_ORDER = (Verdict.SLOWER, Verdict.FASTER, Verdict.EQUIVALENT, Verdict.UNDECIDED)


def _several_gates(gates: Sequence[GateVerdict]) -> Iterator[str]:
    """Yield the outcome of all gates, then the failed and the undecided ones."""
    if not gates:
        return
    yield gates_headline(gates)
    for outcome in (GateOutcome.FAILED, GateOutcome.UNDECIDED):
        chosen = [gate for gate in gates if gate.outcome is outcome]
        yield from map(gate_sentence, chosen[:_MOST_SENTENCES])
        if len(chosen) > _MOST_SENTENCES:
            yield f"{more_text(len(chosen) - _MOST_SENTENCES)} {outcome}"
