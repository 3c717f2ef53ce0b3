"""How often the verdict of `bw compare` of two peak searches is wrong, and its interval holds.

Each pair is two searches with seeds of their own: of one server twice, or of a server and the same
one whose work takes longer. `BW_CALIBRATION=full` plays 60 pairs of each and prints the figures of
docs/peak.md.
"""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import replace

import msgspec
import pytest

from benchwright.features.search.compared.ratio import PeakRatio, PeakVerdict, compare_peaks
from benchwright.features.search.peak.policies.registry import policy_named
from benchwright.features.search.types import Claim, ClaimKind
from held_out import BY_NAME
from servers import NOISES, A, B, C, D, SimServer
from stations import Queue
from work import Exponential
from world import search_of

FULL = os.environ.get("BW_CALIBRATION") == "full"
PAIRS = 60 if FULL else 6
FIRST_SEED = 51_000
BUDGET_S = 600.0
RATE = Claim(ClaimKind.RATE, 0.05)
HARD = (B, C, BY_NAME["mh3"], BY_NAME["mg4-heavy"], NOISES[-1])
SAME = (A, D, *(HARD if FULL else ()))


class Compared(msgspec.Struct, frozen=True):
    """The ratios of several pairs, and the true one."""

    ratios: tuple[PeakRatio, ...]
    true: float

    def share(self, *verdicts: PeakVerdict) -> float:
        return sum(one.verdict in verdicts for one in self.ratios) / len(self.ratios)

    @property
    def held(self) -> tuple[int, int]:
        """In how many intervals the true ratio is, and the number of intervals."""
        known = [one.ratio for one in self.ratios if one.ratio is not None]
        return sum(one.low <= self.true <= one.high for one in known), len(known)


def compared(first: SimServer, second: SimServer) -> Compared:
    policy = policy_named("monotone")
    ratios = []
    for pair in range(PAIRS):
        one, other = (
            search_of(policy, server, FIRST_SEED + 2 * pair + place, RATE, BUDGET_S).result
            for place, server in enumerate((first, second))
        )
        assert one is not None
        assert other is not None
        ratios.append(compare_peaks(one, other, 0.95))
    return Compared(tuple(ratios), second.peak_rate / first.peak_rate)


def slower(by: float) -> SimServer:
    """Return the server A whose work takes longer."""
    return replace(A, name=f"A, {by:.0%} slower", station=Queue(4, Exponential(0.015 * (1 + by))))


def row(title: str, one: Compared) -> str:
    held, known = one.held
    counts = Counter(str(each.verdict) for each in one.ratios)
    return f"| {title} | {one.true:.3f} | {dict(counts)} | {held} of {known} |"


@pytest.mark.parametrize("server", SAME, ids=lambda server: server.name)
def test_equal_servers_are_not_said_to_differ(server: SimServer) -> None:
    one = compared(server, server)
    print(row(server.name, one))
    assert one.share(PeakVerdict.BETTER, PeakVerdict.WORSE) <= 0.05
    held, known = one.held
    assert held >= 0.93 * known


@pytest.mark.parametrize("by", [0.05, 0.1, 0.2, 0.5] if FULL else [0.2])
def test_a_slower_server_is_said_to_be_worse(by: float) -> None:
    one = compared(A, slower(by))
    print(row(f"A against A with work {by:.0%} longer", one))
    held, known = one.held
    assert held >= (0.93 if FULL else 0.8) * known
    assert one.share(PeakVerdict.BETTER) == 0
    assert by < 0.2 or one.share(PeakVerdict.WORSE) >= (0.7 if FULL else 0.5)
