"""From inputs to the document that `bw stats` prints."""

from __future__ import annotations

from collections.abc import Sequence

from benchwright.cli.stats_inputs import Input
from benchwright.cli.stats_request import Request
from benchwright.finding.examine import examine
from benchwright.model.errors import argument_error
from benchwright.model.estimate import Summary
from benchwright.model.finding import Finding
from benchwright.model.plan import MetricSpec
from benchwright.report.document import Document, Entry, compose
from benchwright.stats.aggregate import columns, observe_trials, trials_of_blocks
from benchwright.stats.rows import RowBook
from benchwright.stats.summaries import summarise_columns, summarise_trials


def document_of(inputs: Sequence[Input], request: Request) -> Document:
    """Return what the inputs come to. Raises InputError for an unknown baseline."""
    baseline = _place(inputs, request.baseline)
    entries = []
    findings: list[Finding] = []
    for one in inputs:
        trials = trials_of_blocks(one.name, one.blocks)
        specs = (*one.specs, *_asked(one, request.metrics))
        summaries = summarise_trials(
            trials, specs, confidence=request.confidence, everything=request.everything
        )
        entries.append(Entry(one.name, summaries, threads=_threads(one)))
        findings.extend(
            examine(
                one.name,
                trials,
                specs,
                threshold=request.threshold,
                everything=request.everything,
            )
        )
    return compose(entries, findings, baseline=baseline, confidence=request.confidence)


def _asked(one: Input, names: Sequence[str]) -> list[MetricSpec]:
    declared = {spec.name for spec in one.specs}
    return [MetricSpec(name) for name in dict.fromkeys(names) if name not in declared]


def _threads(one: Input) -> int | None:
    """Return how many threads an input's rows come from; None where it does not say."""
    return max((block.thread for block in one.blocks), default=0) or None


def _place(inputs: Sequence[Input], baseline: str | None) -> int:
    """Return the place of the baseline: by name, by file name, or the first."""
    if baseline is None:
        return 0
    short = baseline.rstrip("/").rsplit("/", 1)[-1]
    for wanted in (baseline, short, short.removesuffix(".res")):
        for place, one in enumerate(inputs):
            if wanted in (one.name, one.name.removesuffix(".res")):
                return place
    hint = "inputs: " + ", ".join(one.name for one in inputs)
    raise argument_error("--baseline", baseline, "no input has this name", hint)


def judged_summaries(one: Input, confidence: float) -> tuple[Summary, ...]:
    """Return the summaries that a predicate is asked about for one input."""
    book = RowBook(one.specs)
    found = columns(observe_trials(trials_of_blocks(one.name, one.blocks), book), book)
    names = book.judged((*found, *book.declared))
    return summarise_columns(found, names, book, confidence)
