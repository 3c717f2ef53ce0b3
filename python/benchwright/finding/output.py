"""Whether writing its output was a noticeable part of what a test measured.

Decision: estimated from the bytes written, since nothing tells a write to stdout from
another system call; the cost of a byte is that of benches/output_cost.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from benchwright.finding.codes import doubt
from benchwright.finding.machine_words import share_text
from benchwright.finding.thresholds import (
    OUTPUT_NS_PER_BYTE,
    OUTPUT_OF_ELAPSED,
    OUTPUT_OF_SYSTEM,
)
from benchwright.model.finding import Finding
from benchwright.model.observation import Ending, Trial
from benchwright.model.plan import Mode


def output_findings(name: str, trials: Sequence[Trial]) -> list[Finding]:
    """Return the doubt about a test whose output cost a noticeable part of its time."""
    seen = [one for t in trials if t.ending is Ending.OK and (one := _cost(t))]
    if not seen:
        return []
    written, of_elapsed, of_system = (
        median(column) for column in zip(*seen, strict=True)
    )
    if of_elapsed < OUTPUT_OF_ELAPSED and of_system < OUTPUT_OF_SYSTEM:
        return []
    evidence = (
        f"a trial wrote {written / 1e6:,.3g} MB to stdout and stderr: by the usual cost "
        f"of {OUTPUT_NS_PER_BYTE:g} ms for each MB about {share_text(min(of_elapsed, 1))} "
        f"of its elapsed time, {share_text(min(of_system, 1))} of its system time"
    )
    return [doubt("output-cost", name, evidence)]


def _cost(trial: Trial) -> tuple[float, float, float] | None:
    """Return bytes written, and the estimated shares of elapsed and system time."""
    processes = [p for p in trial.processes if p.mode == Mode.EXEC]
    written = sum((p.out_bytes or 0) + (p.err_bytes or 0) for p in processes)
    elapsed_ns = sum(p.elapsed_ns for p in processes)
    system_ns = sum(p.system_us for p in processes) * 1000
    if not elapsed_ns:
        return None
    cost_ns = written * OUTPUT_NS_PER_BYTE
    return written, cost_ns / elapsed_ns, cost_ns / system_ns if system_ns else 0.0
