"""The table of policies on simulated machines: one row for each policy, claim and machine.

Searches of several servers are one row. An answer that is off counts in whatever way the search
ended, because a reader takes the printed rate; a bound is off where the true peak is on its other
side. What has a serious finding is not counted as off: the reader was warned.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence

import msgspec

from outcomes import Outcome, Task

OFF = 1.10
"""An answer that is off by more than this factor is wrong."""
HEAD = (
    "policy",
    "claim",
    "machine",
    "n",
    "found %",
    "claim held % of found",
    "undecided %",
    "and serious %",
    "bounds %",
    "off > 10 %, not serious %",
    "interval excludes, not serious %",
    "worst factor, not serious",
    "worst of all",
    "seconds",
)


class MachineRow(msgspec.Struct, frozen=True):
    """Searches of several servers by one policy on one machine."""

    policy: str
    claim: str
    machine: str
    searches: int
    found: float
    claim_held: float | None
    """Of those found."""
    undecided: float
    """Without a claim, and no bound either."""
    undecided_serious: float
    """Those of them that have a serious finding."""
    bounds: float
    off: float
    """Off by more than `OFF` without a serious finding."""
    excludes: float
    """With an interval that excludes every true peak, without a serious finding."""
    worst: float
    """Factor, of those without a serious finding."""
    worst_server: str
    worst_of_all: float
    load_s: float
    """The median."""


def machine_rows(played: Iterable[tuple[Task, Sequence[Outcome]]]) -> list[MachineRow]:
    """Return the rows, in the order of the tasks."""
    groups: dict[tuple[str, str, str], list[tuple[str, Outcome]]] = {}
    for task, outcomes in played:
        key = task.policy, task.claim.text, task.machine
        groups.setdefault(key, []).extend((task.server, one) for one in outcomes)
    return [_row(*key, group) for key, group in groups.items()]


def _row(
    policy: str, claim: str, machine: str, searches: Sequence[tuple[str, Outcome]]
) -> MachineRow:
    outcomes = [one for _, one in searches]
    found = [one for one in outcomes if one.converged]
    bounds = [one for one in outcomes if one.bound is not None]
    open_ends = [one for one in outcomes if not one.converged and one.bound is None]
    unsaid = [(one.factor, server) for server, one in searches if not one.serious]
    worst, worst_server = max(unsaid, default=(1.0, ""))
    n = len(outcomes)
    return MachineRow(
        policy=policy,
        claim=claim,
        machine=machine,
        searches=n,
        found=len(found) / n,
        claim_held=statistics.fmean(o.claim_held for o in found) if found else None,
        undecided=len(open_ends) / n,
        undecided_serious=sum(one.serious for one in open_ends) / n,
        bounds=len(bounds) / n,
        off=sum(factor > OFF for factor, _ in unsaid) / n,
        excludes=sum(o.interval_held is False and not o.serious for o in outcomes) / n,
        worst=worst,
        worst_server=worst_server if worst > OFF else "",
        worst_of_all=max(one.factor for one in outcomes),
        load_s=statistics.median(one.load_s for one in outcomes),
    )


def machine_markdown(rows: Sequence[MachineRow]) -> str:
    """Return the table."""
    return "\n".join([_line(HEAD), _line(["---"] * len(HEAD)), *map(_text, rows)])


def _text(row: MachineRow) -> str:
    worst = f"{row.worst:.3g} {row.worst_server}".rstrip()
    held = "" if row.claim_held is None else f"{100 * row.claim_held:.1f}"
    return _line(
        [
            row.policy,
            row.claim,
            row.machine,
            str(row.searches),
            f"{100 * row.found:.1f}",
            held,
            f"{100 * row.undecided:.1f}",
            f"{100 * row.undecided_serious:.1f}",
            f"{100 * row.bounds:.1f}",
            f"{100 * row.off:.1f}",
            f"{100 * row.excludes:.1f}",
            worst,
            f"{row.worst_of_all:.3g}",
            f"{row.load_s:.0f}",
        ]
    )


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"
