"""What the mean response of a load is about, where its requests are drawn from a list of paths: these
paths, or such paths.

Purpose: many responses of 50 paths show the mean of these 50 exactly, and say little of other paths.
Method: each path is a replicate (stats/nested.py), of which the engine's histogram by label has number,
mean and deviation. Each response's path is drawn at random, so the differences between paths are those
of chance if none matters, however responses resemble their neighbours. Known limits: paths that are
drawn with other probabilities, more than 100, and requests of a trace; percentiles of such paths, of
which a few paths decide.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from benchwright.core.results import Figure, Finding, states
from benchwright.core.text import duration_ns_text
from benchwright.core.untrusted import visible
from benchwright.features.load.mean_interval import ABOVE, BELOW, ends, means_of_intervals
from benchwright.features.load.parse import path_requests
from benchwright.features.load.request import LoadRequest
from benchwright.features.load.types import EngineResult, KindResult
from benchwright.features.load.workload import Closed, Open, PartlyOpen, UniformLocation
from benchwright.findings.codes import make_finding
from benchwright.stats.input_dependence import summary_dependence
from benchwright.stats.nested import ReplicateSummary

_SLOWEST = 3
"""Paths that the finding names."""


def inputs_of(request: LoadRequest) -> tuple[str, ...]:
    """Return the labels of the requests that a load draws at random from its list, each as likely;
    none if it does not."""
    filaments = request.workload.filaments
    if not all(
        isinstance(one, Open | Closed | PartlyOpen)
        and isinstance(one.access.location, UniformLocation)
        for one in filaments
    ):
        return ()
    labels = [one.label for one in path_requests(request.target)]
    return tuple(labels) if len(set(labels)) == len(labels) else ()


def input_findings(
    result: EngineResult, inputs: tuple[str, ...], subject: str
) -> Iterator[Finding]:
    """Yield how the mean response depends on the request, if it clearly does; `inputs`: the labels of
    requests that were drawn at random."""
    known = dict(_answered(result, inputs))
    found = summary_dependence([_summary(one) for one in known.values()])
    mean = result.all.response_ns.mean
    if found is None or not found.is_clear or mean is None:
        return
    over, spread = found.mean, found.spread
    yield make_finding(
        "depends-on-input",
        subject,
        states(
            "load",
            inputs=found.inputs,
            spread=Figure(spread.value / over.value, "%"),
            ends=Figure(spread.low / over.value, "%", spread.high / over.value),
            slowest=_slowest(known),
            mean=duration_ns_text(mean),
            longer=_longer(result, mean),
            mean_low=duration_ns_text(max(over.low, 0.0)),
            mean_high=duration_ns_text(over.high),
        ),
    )


def _answered(result: EngineResult, inputs: tuple[str, ...]) -> Iterator[tuple[str, KindResult]]:
    for name in inputs:
        one = result.labels.get(name)
        if one is not None and one.response_ns.count and one.response_ns.mean is not None:
            yield name, one


def _summary(one: KindResult) -> ReplicateSummary:
    times = one.response_ns
    return ReplicateSummary(times.count, times.mean or 0.0, times.sd or 0.0)


def _slowest(known: Mapping[str, KindResult]) -> str:
    """Return the requests with the largest means, the slowest first."""
    ordered = sorted(known, key=lambda name: known[name].response_ns.mean or 0.0, reverse=True)
    return ", ".join(
        f"{visible(name)} ({duration_ns_text(known[name].response_ns.mean)})"
        for name in ordered[:_SLOWEST]
    )


def _longer(result: EngineResult, mean: float) -> str:
    """Return the interval of the mean of a longer load of the same requests; empty if the load is too
    short to say."""
    parts = means_of_intervals(result.intervals)
    if parts is None or not parts.mean:
        return ""
    below, above = (mean * parts.half_width(one) / parts.mean for one in (BELOW, ABOVE))
    low, high = ends(mean, below, above)
    return f"{duration_ns_text(low)} to {duration_ns_text(high)}"
