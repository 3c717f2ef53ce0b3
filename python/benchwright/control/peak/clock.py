"""How long runs last: lengths follow the limit, since a quick server needs shorter ones."""

from __future__ import annotations

from benchwright.control.peak.qgs_reading import limit_s as time_of
from benchwright.model.peak import PeakGoal

USUAL_LIMIT_S = 0.040
"""Of the response, for which all lengths are stated [s]."""
QUICKEST = 0.25
"""Of those lengths, at least: a real machine's own noise has a second's grain, and batch means
need bins."""


def clock_of(limit_s: float | None) -> float:
    """Return by how much lengths are shorter for a server with a limit; 1 where it is no time.

    A queue at its limit relaxes in a time in proportion to the limit, other things alike.
    """
    return 1.0 if limit_s is None else min(max(limit_s / USUAL_LIMIT_S, QUICKEST), 1.0)


def run_length_s(goal: PeakGoal, usual_s: float) -> float:
    """Return how long a run lasts: as the user says, or as usual by the server's clock [s].

    The clock is that of the goal's first criterion.
    """
    return goal.run_length_s or clock_of(time_of(goal.criteria[0])) * usual_s
