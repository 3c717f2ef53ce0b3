"""Findings about a load that several hosts issued: a host that was lost, lags or differs, and
clocks that are not known well enough.

Decision: hosts are compared by their figures in the intervals of the measured part, with a rank
test within intervals (`rank_sum_p`), because the response times of a run depend on
each other. A difference is reported only if it also matters. The clocks are judged against the mean
gap between the arrivals of all hosts: a host that starts much less than a gap late changes no
arrival process.

Decision: the hosts are instruments that measured the same thing at the same times. Within each block
(an interval of a run) the instruments are ranked, so whatever changes
all of them from block to block has no effect, and no distribution is assumed. The sum of the ranks
of one instrument has an exact distribution if the instruments are exchangeable; with two
instruments it is the sign test. Rejected: a test of the pooled values, which depend on each other
within a run, so that it finds differences in every run.
Source: M. Friedman, The use of ranks to avoid the assumption of normality implicit in the analysis
of variance. JASA 32 (1937).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Sequence

from benchwright.core.results import Figure, Finding, states
from benchwright.core.text import duration_ns_text, list_text, percent_text, rate_text
from benchwright.features.load.types import EngineResult, HostResult, LoopModel
from benchwright.findings import thresholds as t
from benchwright.findings.codes import make_finding

_EXACT = 800
"""Most ranks whose sum has its exact distribution; the sum of more is normal."""


def rank_sum_p(ranks_twice: int, blocks: int, instruments: int) -> float:
    """Return the two-sided p-value of an instrument's sum of ranks, from 0 to 1.

    `ranks_twice`: twice the sum of its ranks (1 to `instruments`) over the blocks; doubled, because
    the ranks of equal values are means. Equal values make it conservative.
    """
    if blocks * instruments > _EXACT:
        away = abs(ranks_twice / 2 - blocks * (instruments + 1) / 2) - 0.5
        sd = math.sqrt(blocks * (instruments**2 - 1) / 12)
        return math.erfc(max(0.0, away) / sd / math.sqrt(2))
    counts = _sums(blocks, instruments)
    whole = sum(counts)
    # Index 0 is the smallest sum, in which every rank is 1.
    low = ranks_twice // 2 - blocks
    high = (ranks_twice + 1) // 2 - blocks
    # A half sum is as far from both neighbours: the larger tail is the conservative one.
    below = sum(counts[: high + 1])
    above = sum(counts[max(0, low) :])
    return min(1.0, 2 * min(below, above) / whole)


@functools.lru_cache(maxsize=64)
def _sums(blocks: int, instruments: int) -> list[int]:
    """Return how many of the equally likely outcomes have each sum of ranks, from the smallest."""
    counts = [1]
    for _ in range(blocks):
        longer = [0] * (len(counts) + instruments - 1)
        for place, count in enumerate(counts):
            for rank in range(instruments):
                longer[place + rank] += count
        counts = longer
    return counts


def ranks_twice_of(values: Sequence[float]) -> list[int]:
    """Return twice the rank of each value, from 2; equal values share the mean of their ranks."""
    return [
        2 * sum(other < value for other in values) + sum(other == value for other in values) + 1
        for value in values
    ]


def odd_one_out(blocks: Sequence[Sequence[float]], level: float) -> tuple[int, float] | None:
    """Return the instrument that differs most from the others, and its p-value; None if none does.

    `blocks` has the values of all instruments in each block, shape `(n_blocks, n_instruments)`.
    `level` is that of the whole question: it is divided by the number of instruments. Of two, the
    one with the larger values counts as the one that differs.
    """
    if not blocks or len(blocks[0]) < 2:
        return None
    number = len(blocks[0])
    sums = [sum(column) for column in zip(*map(ranks_twice_of, blocks), strict=True)]
    middle = len(blocks) * (number + 1)
    most = max(range(number), key=lambda one: (abs(sums[one] - middle), sums[one]))
    p = rank_sum_p(sums[most], len(blocks), number)
    # The two sums of two instruments are one question.
    questions = number if number > 2 else 1
    return (most, p) if p * questions <= level else None


def host_findings(result: EngineResult, loop: LoopModel, subject: str) -> Iterator[Finding]:
    """Yield the findings about the hosts of a load; none for a load of one machine's engine."""
    for host in result.lost_hosts:
        yield make_finding("host-lost", subject, host.lost)
    measured = [host for host in result.hosts if not host.lost]
    if loop.open:
        yield from _clocks(result, measured, subject)
    yield from _different(measured, subject)


# -- the clocks --------------------------------------------------------------------------


def _clocks(result: EngineResult, hosts: list[HostResult], subject: str) -> Iterator[Finding]:
    rate_per_s = result.intended_rate_per_s
    if not rate_per_s or len(hosts) < 2:
        return
    gap_ns = 1e9 / rate_per_s
    limit_ns = t.SKEW_OF_GAP * gap_ns
    limit = Figure(limit_ns / 1e9, "s")
    bounds = [(host.clock.bound_ns, host) for host in hosts if host.clock is not None]
    worst_ns, worst = max(bounds, key=lambda one: one[0], default=(0, hosts[0]))
    if worst.clock is not None and worst_ns > limit_ns:
        ways = {"udp": "packets", "ssh": "the ssh connection"}
        how = ways.get(worst.clock.method, "the connection")
        shown = states(host=worst.host, bound=Figure(worst_ns / 1e9, "s"), how=how, limit=limit)
        yield make_finding("clock-uncertain", subject, shown)
    late = [
        (abs(skew_ns), skew_ns, when, host)
        for host in hosts
        for when, skew_ns in (
            ("at its start", host.start_skew_ns),
            ("at its end", host.end_skew_ns),
        )
        if skew_ns is not None and host.clock is not None
        if abs(skew_ns) - host.clock.bound_ns > limit_ns
    ]
    if late:
        size_ns, skew_ns, when, host_result = max(late, key=lambda found: found[0])
        word = "late" if skew_ns > 0 else "early"
        drift = host_result.clock.drift_ppm if host_result.clock is not None else None
        shown = states(
            host=host_result.host,
            skew=Figure(size_ns / 1e9, "s"),
            way=word,
            when=when,
            drift=drift,
            limit=limit,
        )
        yield make_finding("hosts-skewed", subject, shown)


# -- a host that differs -------------------------------------------------------------------

_FIGURES = (
    ("response p50", "response_ns_p50"),
    ("response p99", "response_ns_p99"),
    ("issue error p99", "issue_error_ns_p99"),
)


def _different(hosts: list[HostResult], subject: str) -> Iterator[Finding]:
    """Yield a finding for each host that differs from the others, with all its figures that do."""
    reasons: dict[str, list[str]] = {}
    for title, field in _FIGURES:
        left = hosts
        # Two hosts have one difference; of more, another one may differ after the first.
        while (found := _one_different(left, title, field)) is not None:
            host, reason = found
            reasons.setdefault(host.host, []).append(reason)
            left = [host_result for host_result in left if host_result is not host]
            if len(left) < 2:
                break
    for name, texts in reasons.items():
        first, *others = texts
        level = Figure(t.HOST_DIFFERS_LEVEL, "%")
        shown = states(host=name, first=first, others="; ".join(others), level=level)
        yield make_finding("host-differs", subject, shown)


def _one_different(
    hosts: list[HostResult], title: str, field: str
) -> tuple[HostResult, str] | None:
    """Return the host that differs most in a figure, and how; None if none does enough."""
    by_start = [{i.start_ns: getattr(i, field) for i in host.intervals} for host in hosts]
    if len(hosts) < 2:
        return None
    common = [
        [series[start] for series in by_start]
        for start in sorted(by_start[0])
        if all(series.get(start) is not None for series in by_start)
    ]
    level = t.HOST_DIFFERS_LEVEL / len(_FIGURES)
    odd = odd_one_out(common, level)
    if odd is None:
        return None
    own = _median([block[odd[0]] for block in common])
    others = _median([value for block in common for i, value in enumerate(block) if i != odd[0]])
    least = t.LATE_NS if field.startswith("issue") else 0.0
    if abs(own - others) <= max(least, t.HOST_DIFFERS * others):
        return None
    reason = (
        f"{title} {duration_ns_text(own)}, the others {duration_ns_text(others)} "
        f"(medians of {len(common)} intervals)"
    )
    return hosts[odd[0]], reason


def _median(values: list[float]) -> float:
    ordered, half = sorted(values), len(values) // 2
    return (ordered[half] + ordered[-half - 1]) / 2


# -- a host that lags ----------------------------------------------------------------------


def late_hosts(result: EngineResult, limit_ns: float) -> str:
    """Return the hosts whose own lateness is above the limit, as a text; empty if none is."""
    late = [
        f"{host.host} (p99 {duration_ns_text(host.lateness_ns.p99)}{_busy(host)})"
        for host in result.hosts
        if host.lateness_ns is not None and (host.lateness_ns.p99 or 0) > limit_ns
    ]
    return _named(late, len(result.hosts))


def short_hosts(result: EngineResult, least: float) -> str:
    """Return the hosts that issued less than this share of their part, as a text; empty if none
    did."""
    short = [
        f"{host.host} ({rate_text(host.offered_rate_per_s)} of "
        f"{rate_text(host.intended_rate_per_s)}{_busy(host)})"
        for host in result.hosts
        if host.intended_rate_per_s and host.offered_rate_per_s is not None
        if host.offered_rate_per_s < least * host.intended_rate_per_s
    ]
    return _named(short, len(result.hosts))


def _busy(host: HostResult) -> str:
    share = host.busy_share
    return "" if share is None else f", its workers busy {percent_text(share)}"


def _named(hosts: list[str], number: int) -> str:
    """Return `degraded by B (p99 3 ms)`; empty without hosts."""
    if not hosts:
        return ""
    if len(hosts) == number > 1:
        return "all hosts: " + list_text(hosts)
    return "degraded by " + list_text(hosts)
