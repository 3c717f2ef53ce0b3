"""How good searches of simulated servers were: one outcome per search, one row per many.

A search that did not converge counts as a failure in every share, and its answer is in no
mean; `in_region` asks the true curve at the answer, never the search.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import msgspec

from benchwright.core.results import Severity
from benchwright.features.search.peak.policies.registry import policy_named
from benchwright.features.search.types import Claim, ClaimKind, ClaimResult, PeakStatus
from held_out import BY_NAME
from machine import BY_MACHINE, CALM
from machine_peaks import PeakRange, peak_range
from servers import DRIFT, SimServer
from stations import Throttled
from world import Search, search_of

PEERS = ("mlrsearch-mean", "mlrsearch-share")
RESTART_S = 30.0
"""Charged per trial in the second column of costs."""
Z95 = 1.959964
ODD_CODES = (DRIFT, "throughput-drops-under-overload", "server-stalls")
"""Findings that say that a server is no queue, or not the same all the time."""


def whole_lines(path: Path) -> list[bytes]:
    """Return the lines of a file that is written line by line; a line that was cut is taken out of
    it, and a file that is missing has none."""
    if not path.exists():
        return []
    lines = path.read_bytes().splitlines(keepends=True)
    whole = [line for line in lines if line.endswith(b"\n")]
    path.write_bytes(b"".join(whole))
    return whole


class Task(msgspec.Struct, frozen=True):
    """Some searches of one server by one policy."""

    server: str
    policy: str
    claim: Claim
    seeds: tuple[int, ...]
    budget_s: float | None = None
    machine: str = CALM.name


class Outcome(msgspec.Struct, frozen=True):
    """What one search came to, judged by the truth."""

    seed: int
    status: str
    trials: int
    load_s: float
    error: float | None
    """Relative to the nearest of the true peaks; None: no answer, or not converged."""
    in_region: bool
    claim_held: bool
    interval_held: bool | None
    """Whether it includes a true peak; None: no interval."""
    probability: float | None
    """That the claim holds, as the search says."""
    codes: tuple[str, ...]
    cpu_s: float
    rate: float | None = None
    """That was printed, in whatever way the search ended; None: none [1/s]."""
    bound: Literal["lower", "upper"] | None = None
    """What `rate` is a bound of."""
    factor: float = 1.0
    """By which it is outside the range of the true peaks, or contradicts them as a bound; 1: not.
    """
    serious: bool = False
    """Whether a finding is serious."""

    @property
    def converged(self) -> bool:
        """Return whether the search ended by its own rule."""
        return self.status == PeakStatus.FOUND


class Share(msgspec.Struct, frozen=True):
    """A share of the searches, with Wilson's 95 % interval."""

    value: float
    low: float
    high: float


class Row(msgspec.Struct, frozen=True):
    """Many searches of one server by one policy."""

    server: str
    policy: str
    claim: str
    searches: int
    trials: float
    load_s: float
    load_s_p95: float
    with_restarts_s: float
    """Seconds of load and `RESTART_S` per trial."""
    mean_abs_error: float | None
    bias: float | None
    in_region: Share
    within_10: Share
    """Answers within 10 % of the true peak."""
    within_5: Share
    claim_held: Share
    interval_held: Share | None
    unconverged: Share
    probability: float | None
    """Mean of what the searches state."""
    finding: Share | None
    """Searches that said what must be said of this server; None: nothing must."""
    wrong_finding: Share | None
    """Searches that said of a queue that it is none; None: it is none."""
    cpu_s: float


def play_task(task: Task) -> list[Outcome]:
    """Return the outcomes of a task's searches."""
    return [_outcome(task, seed) for seed in task.seeds]


def _outcome(task: Task, seed: int) -> Outcome:
    server = BY_NAME[task.server]
    began = time.process_time()
    search = _search(task, server, seed)
    cpu_s = time.process_time() - began
    result = search.result
    assert result is not None
    answer = result.peak_rate if result.status is PeakStatus.FOUND else None
    interval = result.interval
    machine = BY_MACHINE[task.machine]
    peaks = peak_range(server, machine, seed, search.cost_s)
    return Outcome(
        seed=seed,
        status=str(result.status),
        trials=len(search.history),
        load_s=search.load_s,
        error=None if answer is None else peaks.error(answer),
        in_region=answer is not None
        and in_region(server, answer * peaks.scale(server, answer), task.claim),
        claim_held=answer is not None
        and claim_held(server, answer * peaks.scale(server, answer), task.claim),
        interval_held=None
        if interval is None
        else interval.low <= peaks.high and peaks.low <= interval.high,
        probability=result.claim_probability,
        codes=tuple(sorted({finding.code for finding in result.findings})),
        cpu_s=cpu_s,
        rate=result.peak_rate,
        bound=result.bound_kind,
        factor=_factor(peaks, result),
        serious=any(f.severity is Severity.SERIOUS for f in result.findings),
    )


def _factor(peaks: PeakRange, result: ClaimResult) -> float:
    """Return by what factor a result contradicts the true peaks; 1: it does not."""
    rate = result.peak_rate
    if rate is None:
        return 1.0
    if result.bound_kind == "lower":
        return peaks.factor(rate) if rate > peaks.high else 1.0
    if result.bound_kind == "upper":
        return peaks.factor(rate) if rate < peaks.low else 1.0
    return peaks.factor(rate)


def _search(task: Task, server: SimServer, seed: int) -> Search:
    if task.policy in PEERS:
        from mlrsearch_peer import mlrsearch

        by_share = task.policy == "mlrsearch-share"
        return mlrsearch(server, seed, task.claim, by_share=by_share)
    policy, machine = policy_named(task.policy), BY_MACHINE[task.machine]
    return search_of(policy, server, seed, task.claim, task.budget_s, machine)


def in_region(server: SimServer, rate: float, claim: Claim) -> bool:
    """Return whether the true value at a rate is within a claim's tolerance of the limit."""
    tolerance = claim.tolerance if claim.kind is ClaimKind.REGION else 0.10
    limit = server.binding.limit
    return abs(server.response(rate) - limit) <= tolerance * limit


def claim_held(server: SimServer, rate: float, claim: Claim) -> bool:
    """Return whether what was promised of an answer is true."""
    if claim.kind is ClaimKind.REGION:
        return in_region(server, rate, claim)
    if claim.kind is ClaimKind.RATE:
        return abs(rate / server.peak_rate - 1) <= claim.tolerance
    return rate <= server.peak_rate


def row_of(task: Task, outcomes: Sequence[Outcome]) -> Row:
    """Return the row of many searches; at least one."""
    errors = [one.error for one in outcomes if one.error is not None]
    stated = [one.probability for one in outcomes if one.probability is not None]
    interval = [one.interval_held for one in outcomes if one.interval_held is not None]
    loads = sorted(one.load_s for one in outcomes)
    trials = _mean([one.trials for one in outcomes])
    server = BY_NAME[task.server]
    codes = set(server.finding.split("|")) if server.finding else set()
    clean = server.stationary and not codes
    clean = clean and not isinstance(server.station, Throttled)
    odd = [bool(set(ODD_CODES) & {*one.codes}) for one in outcomes]
    return Row(
        server=task.server,
        policy=task.policy,
        claim=task.claim.text,
        searches=len(outcomes),
        trials=trials,
        load_s=_mean(loads),
        load_s_p95=loads[math.ceil(0.95 * len(loads)) - 1],
        with_restarts_s=_mean(loads) + RESTART_S * trials,
        mean_abs_error=_mean([abs(e) for e in errors]) if errors else None,
        bias=_mean(errors) if errors else None,
        in_region=wilson([one.in_region for one in outcomes]),
        within_10=wilson([_near(one, 0.10) for one in outcomes]),
        within_5=wilson([_near(one, 0.05) for one in outcomes]),
        claim_held=wilson([one.claim_held for one in outcomes]),
        interval_held=wilson(interval) if interval else None,
        unconverged=wilson([not one.converged for one in outcomes]),
        probability=_mean(stated) if stated else None,
        finding=wilson([bool(codes & {*one.codes}) for one in outcomes]) if codes else None,
        wrong_finding=wilson(odd) if clean else None,
        cpu_s=_mean([one.cpu_s for one in outcomes]),
    )


def _near(outcome: Outcome, tolerance: float) -> bool:
    return outcome.error is not None and abs(outcome.error) <= tolerance


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def wilson(hits: Sequence[bool]) -> Share:
    """Return the share of true ones with Wilson's 95 % interval."""
    n, share = len(hits), sum(hits) / len(hits)
    centre = (share + Z95**2 / (2 * n)) / (1 + Z95**2 / n)
    half = math.sqrt(share * (1 - share) / n + (Z95 / (2 * n)) ** 2)
    half *= Z95 / (1 + Z95**2 / n)
    return Share(share, max(0.0, centre - half), min(1.0, centre + half))
