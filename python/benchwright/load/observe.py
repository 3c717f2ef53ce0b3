"""A load's result as an observation: named numbers, a block, a trial.

Decision: the names are those of GLOSSARY.md with units last: `rate_per_s`,
`response_ns_p99`, `read_response_ns_p50`. What the engine has no value for is left out:
absent is not zero; so is a percentile of response times whose rank lies among operations
that failed or never ended, which a gate would otherwise pass by those that did. A percentile that rests on few operations is there, since a metric that
came and went with the number of arrivals would be missed by a suite; the finding
`few-samples-for-percentile` goes with it. Inside a suite's trial (APLOG is set) the
numbers are appended to it as `name = value`, and findings as blocks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from benchwright.model.finding import Finding
from benchwright.model.load import LoadResult, Times
from benchwright.model.observation import Block, Ending, Trial

_ALL = {
    "response_ns": ("mean", "p50", "p90", "p99", "p99_9", "p99_99", "max"),
    "service_ns": ("p50", "p99"),
    "issue_error_ns": ("p50", "p99", "p99_9", "max"),
}
_EACH = {"response_ns": ("p50", "p99")}
_BEYOND = {"p50": 0.5, "p90": 0.1, "p99": 0.01, "p99_9": 0.001, "p99_99": 0.0001}
DECLARED = ("rate_per_s:higher", "response_ns_mean")
"""Metrics that every load has, as `--metric` declares them."""

_COUNTS = ("completed", "errors", "dropped", "skipped", "held", "waiting", "unfinished")
"""Of the counts: what a suite may want to watch; `--json` has them all."""


def metrics(result: LoadResult) -> dict[str, float]:
    """Return every number of a result by name; only those that exist."""
    found = dict(_rates(result))
    found |= {name: getattr(result.counts, name) for name in _COUNTS}
    found["lateness_ns_p99"] = result.lateness_ns.p99
    for kind, one in sorted(result.kinds.items()):
        prefix = "" if kind == "all" else f"{kind}_"
        for time, names in (_ALL if kind == "all" else _EACH).items():
            if time == "response_ns":
                names = tuple(name for name in names if _known(result, kind, name))
            found |= _named(f"{prefix}{time}", getattr(one, time), names)
    return {name: float(v) for name, v in found.items() if v is not None}


def _known(result: LoadResult, kind: str, name: str) -> bool:
    """Tell whether this is known of response times; mean and max are of those there are."""
    return name not in _BEYOND or result.response_known(kind, _BEYOND[name])


def _rates(result: LoadResult) -> Iterator[tuple[str, float | None]]:
    yield "rate_per_s", result.achieved_rate_per_s
    yield "intended_rate_per_s", result.intended_rate_per_s
    yield "offered_rate_per_s", result.offered_rate_per_s


def _named(
    prefix: str, times: Times, names: Iterable[str]
) -> dict[str, float | int | None]:
    return {f"{prefix}_{name}": getattr(times, name) for name in names}


def block(result: LoadResult, command: str, epoch: int = 1) -> Block:
    """Return a result as the row that a command contributes to a trial."""
    return Block(
        thread=1, epoch=epoch, command=command, status=0, values=metrics(result)
    )


def trial(result: LoadResult, test: str, command: str, epoch: int = 1) -> Trial:
    """Return a result as one epoch of a test."""
    return Trial(
        test=test,
        epoch=epoch,
        threads=1,
        ending=Ending.INTERRUPTED if result.interrupted else Ending.OK,
        started_ns=result.started_ns,
        duration_ns=result.elapsed_ns,
        blocks=(block(result, command, epoch),),
    )


def aplog_text(result: LoadResult, findings: Iterable[Finding]) -> str:
    """Return what a load appends to APLOG: findings as blocks, numbers as lines."""
    blocks = "".join(f"\n[finding]\n{_finding(one)}" for one in findings)
    lines = "".join(f"{name} = {value!r}\n" for name, value in metrics(result).items())
    return f"{blocks}\n{lines}"


def _finding(finding: Finding) -> str:
    return (
        f"code = {finding.code}\nseverity = {finding.severity.value}\n"
        f"evidence = {' '.join(finding.evidence.split())}\n"
    )
