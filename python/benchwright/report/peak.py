"""What a peak search came to, for a person: the answer, its doubts, trials, the curve.

Decision: the answer and what is claimed of it come first, then what it cost and where its
noise comes from; the table of trials and a few points of the curve let a reader see why.
A doubt stands after the figures, with its remedy.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import msgspec

from benchwright.finding.load_words import (
    ABSENT,
    name_of,
    number_text,
    percent_text,
    value_text,
)
from benchwright.finding.words import counted
from benchwright.model.finding import Finding
from benchwright.model.peak import (
    Claim,
    Criterion,
    LoadEnding,
    PeakResult,
    PeakStatus,
)
from benchwright.model.plan import Pairs
from benchwright.model.search import SearchTrial
from benchwright.model.visible import one_line, visible_lines
from benchwright.report.findings import finding_line
from benchwright.report.peak_words import (
    binding_of,
    bound_text,
    claim_text,
    criterion_text,
    interval_text,
    probability_text,
    rate_text,
    sample_text,
    seconds_text,
)

_CURVE_ROWS = 7
_NOISE_S = 60.0
"""Length of the run whose noise is told."""


class PeakReport(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that is told of a search; `results` are absent after an interrupt that
    came before anything was known."""

    status: str
    """A `PeakStatus`, or `interrupted`."""
    detail: str
    criteria: tuple[Criterion, ...]
    claims: tuple[Claim, ...]
    results: tuple[PeakResult | None, ...]
    """One for each claim."""
    trials: tuple[SearchTrial, ...]
    policy: str
    seed: int
    budget_s: float | None = None
    """Of the search; None: none [s]."""
    sample: Pairs = ()
    bench_findings: tuple[Finding, ...] = ()
    """Doubts about the bench, whatever was measured."""

    @property
    def result(self) -> PeakResult | None:
        """The first claim's."""
        return self.results[0]

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Every doubt once; of one code about one thing, the search's own words."""
        found = [f for one in self.results if one is not None for f in one.findings]
        told = {one.code for one in found}
        found += [one for one in self.bench_findings if one.code not in told]
        return tuple(dict.fromkeys(found))


def ending_text(report: PeakReport) -> str:
    """Return how a search ended, in one line: `found`, `stopped at the 45 s budget; best
    answer 11,545/s, claim not reached (43.3 % of 95 %)`."""
    missed = PeakStatus.BUDGET.value, PeakStatus.UNDECIDED.value
    if report.status not in missed:
        return report.status
    text = report.status
    if report.status == PeakStatus.BUDGET and report.budget_s is not None:
        text = f"stopped at the {seconds_text(report.budget_s)} budget"
    short = (
        (claim, one)
        for claim, one in zip(report.claims, report.results, strict=True)
        if one is not None and one.status is not PeakStatus.FOUND
    )
    claim, result = next(short, (None, None))
    if claim is None or result is None or result.peak_rate is None:
        return f"{text}; no answer"
    text += f"; best answer {rate_text(result.peak_rate)}, claim not reached"
    if result.claim_probability is None:
        return text
    reached = probability_text(result.claim_probability)
    return f"{text} ({reached} of {percent_text(claim.confidence)})"


def peak_text(report: PeakReport) -> str:
    """Return the report, ended by a newline."""
    blocks = [list(_head(report)), list(_trials(report))]
    if report.result is not None:
        blocks.append(list(_curve(report.result, report.criteria)))
    blocks.append([finding_line(one) for one in report.findings])
    text = "\n\n".join("\n".join(block) for block in blocks if block)
    return visible_lines(text) + "\n"


def _head(report: PeakReport) -> Iterator[str]:
    result = report.result
    yield _row("peak rate", _peak(result))
    for claim, one in zip(report.claims, report.results, strict=True):
        yield _row("claim", _claim(claim, one, report.criteria))
    for criterion in report.criteria:
        several = len(report.criteria) > 1 and result is not None
        binds = several and result is not None and result.binding == criterion.key
        yield _row("limit", criterion_text(criterion) + (" (this one binds)" * binds))
    if report.sample:
        yield _row("sample", sample_text(report.sample))
    yield _row("spent", _spent(report))
    if result is not None:
        yield from _noise(result)
    yield _row("ended", one_line(f"{report.status}: {report.detail}"))


def _row(name: str, text: str) -> str:
    return f"{name:<11}{text}"


def _peak(result: PeakResult | None) -> str:
    if result is None or result.peak_rate is None:
        return "not known"
    rate = bound_text(result.peak_rate, result.status)
    if result.status in (PeakStatus.FAILS_AT_LOWEST, PeakStatus.NEVER_FAILS):
        return rate
    interval = interval_text(result.interval)
    return f"{rate} ({interval})" if interval else f"about {rate}; no interval is known"


def _claim(
    claim: Claim, result: PeakResult | None, criteria: tuple[Criterion, ...]
) -> str:
    binding = None if result is None else binding_of(result, criteria)
    text = f"{claim.text}: {claim_text(claim, binding)}"
    if result is None or result.status in _NO_CLAIM:
        return f"{text}: not claimed"
    if result.claim_probability is None:
        return f"{text}: the policy states no probability"
    at = "" if result.peak_rate is None else f" at {rate_text(result.peak_rate)}"
    return f"{text}: probability {probability_text(result.claim_probability)}{at}"


_NO_CLAIM = (PeakStatus.FAILED, PeakStatus.FAILS_AT_LOWEST, PeakStatus.NEVER_FAILS)


def _spent(report: PeakReport) -> str:
    number = len(report.trials)
    load_s = sum(one.trial.lasted_s for one in report.trials)
    cost_s = sum(one.trial.cost_s for one in report.trials)
    return (
        f"{seconds_text(load_s)} of load, {seconds_text(cost_s)} in all, in "
        f"{counted(number, 'trial')}; policy {report.policy}, seed {report.seed}"
    )


def _noise(result: PeakResult) -> Iterator[str]:
    """Yield the variance components, for a run of a length that can be imagined."""
    within, between = result.components.within_s, result.components.between
    parts = []
    if within is not None:
        share = percent_text(math.sqrt(max(within, 0.0) / _NOISE_S))
        parts.append(f"±{share} within a run of {seconds_text(_NOISE_S)}")
    if between is not None:
        parts.append(f"±{percent_text(between)} between runs")
    if parts:
        yield _row("noise", f"{', '.join(parts)} (standard deviation of the response)")


# -- trials ------------------------------------------------------------------------------


def _trials(report: PeakReport) -> Iterator[str]:
    if not report.trials:
        return
    heads = ["trial", "rate/s", "offered/s", "lasted", *map(_heading, report.criteria)]
    rows = [heads, *(_cells(one, report.criteria) for one in report.trials)]
    if all(one.trial.offered is None for one in report.trials):
        # The generator does not report it.
        rows = [[*row[:2], *row[3:]] for row in rows]
        heads = rows[0]
    notes = ["", *_remarks(report.trials)]
    widths = [max(len(row[place]) for row in rows) for place in range(len(heads))]
    for row, note in zip(rows, notes, strict=True):
        aligned = (cell.rjust(width) for cell, width in zip(row, widths, strict=True))
        yield f"{'  '.join(aligned)}  {note}".rstrip()


def _heading(criterion: Criterion) -> str:
    return name_of(criterion)


def _cells(one: SearchTrial, criteria: Sequence[Criterion]) -> list[str]:
    trial = one.trial
    offered = ABSENT if trial.offered is None else number_text(trial.offered_rate)
    values = [value_text(each, trial.values.get(each.key)) for each in criteria]
    lasted = seconds_text(trial.lasted_s)
    return [str(one.number), number_text(trial.rate), offered, lasted, *values]


def _remarks(trials: Sequence[SearchTrial]) -> Iterator[str]:
    """Yield each trial's remark; a failure that was told already names its trial."""
    told: dict[str, int] = {}
    for one in trials:
        if one.trial.ending is not LoadEnding.FAILED:
            yield _remark(one)
        elif (first := told.setdefault(one.trial.failure, one.number)) != one.number:
            yield f"failed as trial {first} did"
        else:
            yield f"failed: {one_line(one.trial.failure)}"


def _remark(one: SearchTrial) -> str:
    """Return what the trial was for, and whether it ran to its end."""
    trial = one.trial
    parts = [one.probe.purpose]
    if trial.ending is LoadEnding.LEFT:
        parts.append("left early")
    return ", ".join(part for part in parts if part)


# -- the curve ---------------------------------------------------------------------------


def _curve(result: PeakResult, criteria: tuple[Criterion, ...]) -> Iterator[str]:
    """Yield the response at a few rates, with its band."""
    criterion = binding_of(result, criteria)
    if not result.curve or criterion is None or result.status in _NO_CLAIM:
        return
    last = len(result.curve) - 1
    count = min(_CURVE_ROWS, last + 1)
    places = sorted({round(i * last / max(count - 1, 1)) for i in range(count)})
    rows = [["rate/s", name_of(criterion), "low", "high"]]
    for place in places:
        point = result.curve[place]
        figures = (point.middle, point.low, point.high)
        values = [value_text(criterion, value) for value in figures]
        rows.append([number_text(point.rate), *values])
    widths = [max(len(row[place]) for row in rows) for place in range(4)]
    for row in rows:
        cells = zip(row, widths, strict=True)
        yield "  ".join(cell.rjust(width) for cell, width in cells)
