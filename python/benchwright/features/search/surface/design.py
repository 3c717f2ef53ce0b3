"""The samples of a surface to search, and their order.

Three parts: optimal designs by exchange of rows; Algorithm 1 of the workbench paper, which requests
one sample after another as a function of the results so far; and the samples that the gangs of a
pool search side by side.

With gangs, search N is chosen from the results of the searches 1 to N - lag, in this order, and
from the samples of those in between, which are taken to find what the model predicts. So the choice
does not depend on the order in which results arrive. First every gang searches the anchor. The
other searches are spread over the gangs in blocks, in each of which every gang has one search. Of
the gangs that have none in this block, the one whose samples are farthest away searches the sample;
of equally far ones a random one, by the seed. Decision: the lag is 2 k - 1 for k gangs, so that a
gang can be one search ahead of the slowest. With a lag of k every gang waits for the slowest one:
of 32 searches of four gangs whose lengths vary by 30 %, the gangs worked 79 % of the time instead
of 88 % (docs/pool.md has the cost in accuracy). Decision: the samples of each gang are spread over
the space. At random some are neighbours, and the gang's effect looks like the surface: with all 32
samples on two gangs the error of the effects was 0.48 % instead of 0.34 %. Decision: the gang of a
search is a function of the seed, and not the one that is free first, because gangs may differ:
otherwise the surface depended on the order of arrival. Pure: the caller records what was chosen,
and measures the time of a deadline.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import lru_cache

import msgspec

from benchwright.core.numeric import NDArray, np
from benchwright.features.search.surface import tuning
from benchwright.features.search.surface.coding import (
    Matrix,
    candidates,
    coded,
    columns_of,
    model_matrix,
    points_of,
    terms_for,
)
from benchwright.features.search.surface.gangs import responses_of
from benchwright.features.search.surface.gaussian_process import even_points, fit_process
from benchwright.features.search.surface.spec import (
    GangTimes,
    TimeLeft,
    TimeShare,
    time_beside_s,
    time_share,
)
from benchwright.features.search.surface.types import (
    DesignKind,
    Factor,
    GangNames,
    Sample,
    SampleRequest,
    SampleResult,
    SurfaceGoal,
)

# -- optimal designs: which samples determine a polynomial best ------------------------
#
# A design is n rows of the model matrix of all candidates. They are chosen by the D criterion (the
# joint precision of the coefficients) or the I criterion (the mean variance of prediction over all
# candidates). Rows measured earlier are included; each row may have a cost.
# Decision: Fedorov's exchange, the best pair of rows in each step, with restarts, on any model
# matrix. Rejected: pyDOE (numeric polynomials only, and its default method is far worse) and
# pyoptex (restrictive dependencies); their results are the same at this size. Samples are distinct,
# because a search already repeats its trials until its answer is precise.
# Decision: with thousands of candidates, the restarts use only a part of them, and the best design
# is then exchanged among all, so that no single exchange improves it either. For 30 of 14,641 rows
# this reduced 15 s (D) and 52 s (I) to 1 and 2 s; the mean variance is 0.4 % larger.
# Source: V. V. Fedorov, Theory of Optimal Experiments (1972), chapter 3.

RowIndexes = NDArray[np.int64]
"""Row indexes of the model matrix."""


class DesignCriterion(enum.StrEnum):
    """The criterion that a design optimizes."""

    D = "D"
    I = "I"  # noqa: E741 - the criterion's name in every book


class Exchange(msgspec.Struct, frozen=True):
    """A design problem: candidates, criterion, fixed rows and costs."""

    matrix: Matrix
    """All candidates as the model sees them, `(n_candidates, n_terms)`."""
    criterion: DesignCriterion = DesignCriterion.D
    fixed: tuple[int, ...] = ()
    """Rows that are already measured and stay in the design."""
    costs: tuple[float, ...] | None = None
    """Cost of measuring each row; None: equal costs. The design maximizes information per cost."""
    moments: Matrix | None = None
    """Moment matrix of all candidates for the I criterion; None: not computed yet."""


def optimal_rows(problem: Exchange, n: int, seed: int) -> tuple[int, ...]:
    """Return the rows of the best design of n rows: the fixed rows, then the chosen ones.

    The chosen rows are in the candidates' order. The same seed gives the same design.
    """
    count = len(problem.matrix)
    fixed = problem.fixed[:n]
    problem = msgspec.structs.replace(problem, moments=_moments(problem))
    rng = np.random.default_rng(seed)
    free = np.setdiff1d(np.arange(count), fixed)
    pool = _pool(problem.matrix, free, max(tuning.DESIGN_POOL, n), rng)
    best: tuple[float, tuple[int, ...]] | None = None
    for _ in range(tuning.DESIGN_STARTS if n < count else 1):
        chosen = rng.choice(pool, n - len(fixed), replace=False)
        start = (*fixed, *(int(row) for row in chosen))
        rows = exchanged(problem, start, pool)
        value = design_score(problem, rows)
        if best is None or value > best[0] + tuning.LEAST_GAIN:
            best = (value, rows)
    assert best is not None
    rows = best[1] if len(pool) == len(free) else exchanged(problem, best[1], free)
    return (*fixed, *sorted(rows[len(fixed) :]))


def _pool(matrix: Matrix, free: RowIndexes, most: int, rng: np.random.Generator) -> RowIndexes:
    """Return the rows that the restarts choose from, in order; all of them if there are few."""
    if len(free) <= most:
        return free
    inverse = np.linalg.pinv(matrix.T @ matrix)
    leverage = np.einsum("ij,jk,ik->i", matrix[free], inverse, matrix[free], optimize=True)
    # Rounded, so that equal leverages have the candidates' order on every machine.
    by_leverage = free[np.argsort(-np.round(leverage, 9), kind="stable")]
    first, rest = by_leverage[: most // 2], by_leverage[most // 2 :]
    others = rng.choice(rest, most - len(first), replace=False)
    return np.sort(np.concatenate([first, others]))


def exchanged(
    problem: Exchange, start: Sequence[int], among: RowIndexes | None = None
) -> tuple[int, ...]:
    """Return a design that no exchange of one row improves, from `start`; new rows are from
    `among`, or any.

    Never worse than the start; the fixed rows, which come first, stay. An exchange is made
    only if the score really improves: if a start does not determine every coefficient, the
    computed gains are rounding errors, and exchanges would be reversed forever.
    """
    rows = np.array(start)
    among = np.arange(len(problem.matrix)) if among is None else among
    fixed = len(problem.fixed)
    while len(rows) > fixed:
        better = _better_rows(problem, rows, among)
        if better is None:
            break
        rows = better
    return tuple(int(row) for row in rows)


def _better_rows(problem: Exchange, rows: RowIndexes, among: RowIndexes) -> RowIndexes | None:
    """Return the design after the best exchange; None where none is found."""
    before = design_score(problem, rows.tolist())
    gains = _gains(problem, rows, among)
    gains[:, : len(problem.fixed)] = -np.inf
    gains[np.isin(among, rows), :] = -np.inf
    for _ in range(tuning.EXCHANGE_TRIES):
        row, place = np.unravel_index(np.argmax(gains), gains.shape)
        if not gains[row, place] > tuning.LEAST_GAIN:
            return None
        after = rows.copy()
        after[place] = among[row]
        if design_score(problem, after.tolist()) > before + tuning.LEAST_GAIN / 2:
            return after
        gains[row, place] = -np.inf
    return None


def design_score(problem: Exchange, rows: Sequence[int]) -> float:
    """Return the score of a design, a logarithm; more is better.

    D: log-determinant of the information per term; I: minus the logarithm of the mean
    variance of prediction; both minus the logarithm of the rows' cost, if there are costs.
    """
    chosen = list(rows)
    information = _information(problem, chosen)
    cost = 0.0 if problem.costs is None else sum(problem.costs[row] for row in chosen)
    spent = math.log(cost) if cost > 0 else 0.0
    if problem.criterion is DesignCriterion.D:
        _, log_determinant = np.linalg.slogdet(information)
        return float(log_determinant) / len(information) - spent
    variance = np.trace(np.linalg.solve(information, _moments(problem)))
    return -math.log(variance) - spent


def log_determinant(matrix: Matrix, rows: Sequence[int]) -> float:
    """Return the log-determinant of a design's information, without the ridge."""
    chosen = matrix[list(rows)]
    return float(np.linalg.slogdet(chosen.T @ chosen)[1])


def _information(problem: Exchange, rows: Sequence[int]) -> Matrix:
    chosen = problem.matrix[list(rows)]
    ridge = tuning.INFORMATION_RIDGE * np.eye(problem.matrix.shape[1])
    return np.asarray(chosen.T @ chosen + ridge)


def _moments(problem: Exchange) -> Matrix:
    if problem.moments is not None:
        return problem.moments
    return np.asarray(problem.matrix.T @ problem.matrix / len(problem.matrix))


def _gains(problem: Exchange, rows: RowIndexes, among: RowIndexes) -> Matrix:
    """Return the gain in score of each exchange, shape `(n_among, n_rows)`.

    By the rank-2 update: with x in and y out, the determinant is multiplied by
    (1 + v_x)(1 - v_y) + c_xy^2, where v is the variance of prediction and c the
    covariance; the trace follows from the inverse of the 2 x 2 matrix in it.
    """
    coming, going = problem.matrix[among], problem.matrix[rows]
    inverse = np.asarray(np.linalg.inv(_information(problem, rows.tolist())), float)
    all_by = coming @ inverse
    variance = np.einsum("ij,ij->i", all_by, coming)
    between = all_by @ going.T
    out = np.einsum("ij,jk,ik->i", going, inverse, going)[None, :]
    ratio = (1 + variance)[:, None] * (1 - out) + between**2
    ratio = np.maximum(ratio, tuning.LEAST_DETERMINANT_RATIO)
    if problem.criterion is DesignCriterion.D:
        gains: Matrix = np.log(ratio) / coming.shape[1]
    else:
        spread = inverse @ _moments(problem) @ inverse
        before = float(np.trace(inverse @ _moments(problem)))
        less = _trace_losses(coming, going, spread, (variance, out, between)) / ratio
        after = np.maximum(before - less, np.finfo(float).tiny)
        gains = math.log(before) - np.log(after)
    return np.asarray(gains - _cost_gains(problem.costs, rows, among))


def _trace_losses(
    coming: Matrix, going: Matrix, spread: Matrix, parts: tuple[Matrix, Matrix, Matrix]
) -> Matrix:
    """Return the reduction of the trace by each exchange, times the determinant's ratio."""
    variance, out, between = parts
    weighted = coming @ spread
    own = np.einsum("ij,ij->i", weighted, coming)
    theirs = np.einsum("ij,jk,ik->i", going, spread, going)
    cross = weighted @ going.T
    less = (1 - out) * own[:, None] + 2 * between * cross
    return np.asarray(less - (1 + variance)[:, None] * theirs[None, :])


def _cost_gains(
    costs: tuple[float, ...] | None, rows: RowIndexes, among: RowIndexes
) -> Matrix | float:
    """Return the increase of the logarithm of the design's cost by each exchange."""
    if costs is None:
        return 0.0
    each = np.array(costs)
    total = each[rows].sum()
    after = total - each[rows][None, :] + each[among][:, None]
    return np.asarray(np.log(after / total))


# -- Algorithm 1: mapping response surfaces, as a function of the results so far -------
#
# 1) Inputs: factors and their levels. 2) Outer loop: for each distinct sample ... 3) inner loop:
# find its peak rate (features/search/peak/policies). The design sets the samples. In the order,
# each sample is as near as possible to an earlier one, because the inner search starts at the peak
# of the nearest sample ("better seeding", section 5.4). Decision: only a rate that held is a start.
# The best answer of a search that ended before its claim held may be wrong by any factor, and would
# pass its error on from sample to sample. Decision: a neighbour must have the same categorical
# levels, because another file system may be ten times as fast; without a neighbour, the inner
# search starts at its own start rate. Source: Workbench paper, algorithm 1, sections 5.4 and 5.5.


def within_share(wanted: SampleRequest, share: TimeShare, time: TimeLeft) -> SampleRequest:
    """Return a request whose search has at most this share of the time as its budget."""
    budget_s = min(share.budget_s, wanted.goal.budget_s or math.inf)
    inner = msgspec.structs.replace(wanted.goal, budget_s=budget_s)
    return msgspec.structs.replace(wanted, goal=inner, spent_s=time.spent_s)


def missing_samples(goal: SurfaceGoal, results: Sequence[SampleResult]) -> tuple[Sample, ...]:
    """Return the samples of the design that have no result; an adaptive design names its first
    ones only."""
    return _waiting(goal, {result.sample for result in results})


def _waiting(goal: SurfaceGoal, begun: AbstractSet[Sample]) -> tuple[Sample, ...]:
    left = [sample for sample in initial_samples(goal) if sample not in begun]
    return tuple(left[: goal.samples - len(begun)])


def chosen_sample(
    goal: SurfaceGoal,
    results: Sequence[SampleResult],
    running: Sequence[Sample],
    *,
    left: int | None = None,
) -> SampleRequest:
    """Return the next sample of a design that is not complete.

    `running`: samples whose searches have begun, but whose results are not used yet. `left`: number
    of searches for which there is time; None: all of the design.
    """
    known = [result.sample for result in results]
    begun = [*known, *running]
    count = len(set(begun))
    all_follow = left is None or count + left >= goal.samples
    if goal.design is DesignKind.ADAPTIVE and left is not None:
        goal = msgspec.structs.replace(goal, samples=min(goal.samples, count + left))
    waiting = _waiting(goal, set(begun))
    if waiting and begun and not all_follow and goal.design is not DesignKind.ADAPTIVE:
        farthest = _farthest_from(goal.factors, begun, waiting)
        return sample_wanted(goal, results, farthest, "design")
    if waiting and running and not known:
        farthest = _farthest_from(goal.factors, running, waiting)
        return sample_wanted(goal, results, farthest, "design")
    if waiting:
        nearest = _nearest_to(goal.factors, known, waiting)
        return sample_wanted(goal, results, nearest, "design")
    free = [sample for sample in candidates(goal.factors) if sample not in begun]
    responses = responses_of(goal, results)
    process = fit_process(goal.factors, responses)
    few = bool(running) and len(responses.samples) < tuning.FEWEST_BELIEVED_SAMPLES
    if process is None or few:
        farthest = _farthest_from(goal.factors, begun, free)
        return sample_wanted(goal, results, farthest, "spread")
    _, sd = process.believing(running).response(free)
    # Values that differ only by rounding are a tie; the first one wins.
    best = free[int(np.argmax(np.round(sd / sd.max(), 9)))]
    return sample_wanted(goal, results, best, "least known")


def middle_sample(goal: SurfaceGoal) -> Sample:
    """Return the sample of the first part of the design that is nearest to all others of it: from
    there, searches of the others start with a peak that is not far from their own."""
    first = initial_samples(goal)
    away = _distances(goal.factors, first, first).sum(axis=1)
    return first[int(np.argmin(np.round(away, 9)))]


def sample_wanted(
    goal: SurfaceGoal, results: Sequence[SampleResult], sample: Sample, why: str
) -> SampleRequest:
    """Return a sample with the goal of its inner search, which starts at the rate that held at the
    nearest sample with one."""
    seeds = [result for result in results if (result.rate_that_held or 0) > 0]
    near = nearest_result(goal.factors, seeds, sample)
    if near is None:
        return SampleRequest(sample, goal.peak, why=why)
    assert near.rate_that_held is not None
    start_rate = _start_rate(goal, near.rate_that_held)
    inner = msgspec.structs.replace(goal.peak, start_rate=start_rate, guess_users=None)
    return SampleRequest(sample, inner, near.sample, why)


def _start_rate(goal: SurfaceGoal, rate: float) -> float:
    """Return a neighbour's rate as the start rate, within the goal's bounds [1/s]."""
    low, high = goal.peak.lowest_rate, goal.peak.highest_rate
    within = min(max(rate, low or 0.0), high or math.inf)
    return float(f"{within:.{tuning.RATE_DIGITS}g}")


def nearest_result(
    factors: Sequence[Factor], results: Sequence[SampleResult], sample: Sample
) -> SampleResult | None:
    """Return the nearest result with the same categorical levels; None if there is none.

    The distance is over the transformed numeric factors; of equally near results the first.
    """
    same = [result for result in results if _alike(factors, result.sample, sample)]
    if not same:
        return None
    away = _distances(factors, [result.sample for result in same], [sample])[:, 0]
    return same[int(np.argmin(np.round(away, 9)))]


def distance_to(factors: Sequence[Factor], samples: Sequence[Sample], sample: Sample) -> float:
    """Return the distance of a sample to the nearest of others; inf without others.

    Rounded, so that equal distances are equal on every machine.
    """
    if not samples:
        return math.inf
    return round(float(_distances(factors, samples, [sample]).min()), 9)


def initial_samples(goal: SurfaceGoal) -> tuple[Sample, ...]:
    """Return the samples of the design before anything is measured."""
    if goal.design is DesignKind.FULL:
        return candidates(goal.factors)[: goal.samples]
    if goal.design is DesignKind.ADAPTIVE:
        n = math.ceil(tuning.INITIAL_SHARE * goal.samples)
        size = DesignSize(DesignCriterion.D, n, spread_share=None)
    else:
        best = DesignCriterion.I if goal.design is DesignKind.I_OPTIMAL else DesignCriterion.D
        spread = tuning.SPREAD_SHARE if goal.spread is None else goal.spread
        size = DesignSize(best, goal.samples, spread)
    return _designed(goal.factors, goal.degree, size, goal.seed)


class DesignSize(msgspec.Struct, frozen=True):
    """The number of samples of an optimal design, and how they are chosen."""

    criterion: DesignCriterion
    samples: int
    spread_share: float | None
    """Share of the samples beyond the polynomial's terms that are chosen far from all others; None
    for the first samples of an adaptive design, which are even where they determine no squares."""


@lru_cache(maxsize=32)
def _designed(
    factors: tuple[Factor, ...], degree: int, size: DesignSize, seed: int
) -> tuple[Sample, ...]:
    """Return the optimal samples for the largest polynomial that this number determines.

    Of the samples beyond its terms, a share is instead chosen as far as possible from all others.
    """
    n, spread = size.samples, size.spread_share
    every = candidates(factors)
    columns = columns_of(factors)
    terms = terms_for(columns, degree, n)
    squares = all((at, at) in terms for at, column in enumerate(columns) if column.curved)
    if spread is None and not squares:
        return _even_samples(factors, n, seed)
    matrix = model_matrix(coded(factors, every), terms)
    apart = math.ceil((spread or 0.0) * (n - len(terms)))
    rows = optimal_rows(Exchange(matrix, size.criterion), n - apart, seed)
    return tuple(every[row] for row in _with_farthest(points_of(factors, every), rows, n))


def _even_samples(factors: Sequence[Factor], n: int, seed: int) -> tuple[Sample, ...]:
    """Return samples in which each level of a factor occurs about equally often.

    An optimal design for a plane has only the outermost levels; a process fitted to it cannot
    show a curve between them.
    """
    shift = np.random.default_rng(seed).random(len(factors))
    chosen: dict[Sample, None] = {}
    for point in (even_points(len(factors), tuning.EVEN_POINTS_PER_SAMPLE * n) + shift) % 1:
        levels = (f.levels[int(u * len(f.levels))] for f, u in zip(factors, point, strict=True))
        chosen[tuple((f.name, level) for f, level in zip(factors, levels, strict=True))] = None
        if len(chosen) == n:
            break
    return tuple(chosen)


def _with_farthest(points: Matrix, rows: Sequence[int], n: int) -> tuple[int, ...]:
    """Return rows and further ones up to n, each as far as possible from all earlier ones."""
    chosen = list(rows)
    away = np.full(len(points), np.inf)
    for at in range(n):
        if at == len(chosen):
            chosen.append(int(np.argmax(np.round(away, 9))))
        squares = ((points - points[chosen[at]]) ** 2).sum(axis=1)
        away = np.minimum(away, squares)
    return tuple(chosen)


def _nearest_to(
    factors: Sequence[Factor], tried: Sequence[Sample], waiting: Sequence[Sample]
) -> Sample:
    """Return the waiting sample nearest to any tried one; the first if none was tried."""
    if not tried:
        return waiting[0]
    away = _distances(factors, waiting, tried).min(axis=1)
    return waiting[int(np.argmin(np.round(away, 9)))]


def _farthest_from(
    factors: Sequence[Factor], tried: Sequence[Sample], left: Sequence[Sample]
) -> Sample:
    away = _distances(factors, left, tried).min(axis=1)
    return left[int(np.argmax(np.round(away, 9)))]


def _distances(
    factors: Sequence[Factor], some: Sequence[Sample], others: Sequence[Sample]
) -> Matrix:
    """Return the pairwise distances, shape `(n_some, n_others)`."""
    a, b = points_of(factors, some), points_of(factors, others)
    squares: Matrix = ((a[:, None, :] - b[None, :, :]) ** 2).sum(axis=2)
    return np.asarray(np.sqrt(squares))


def _alike(factors: Sequence[Factor], sample: Sample, other: Sample) -> bool:
    """Return whether two samples have the same categorical levels."""
    return all(factor.numeric or sample[at][1] == other[at][1] for at, factor in enumerate(factors))


ANCHOR = "anchor"
"""`SampleRequest.why` of a search of the anchor."""
_ORDER_STREAM = 16
"""Stream of random numbers of the gangs' order, so that it has none in common with the design."""


def searches_of(goal: SurfaceGoal, gangs: GangNames) -> int:
    """Return the number of searches of a surface, those of the anchor on every gang included."""
    return _to_come(goal, gangs, ())


def results_needed(number: int, gangs: GangNames) -> int:
    """Return how many results, from the first one on, must be known before search `number` is
    chosen."""
    return max(0, number - (2 * len(gangs.names) - 1))


def next_search(
    goal: SurfaceGoal,
    gangs: GangNames,
    wanted: Sequence[SampleRequest],
    ended: Mapping[int, SampleResult],
    time: TimeLeft | None = None,
) -> SampleRequest | None:
    """Return the next search, with the gang that is to make it; None when the design is complete,
    or the time is over.

    `wanted`: all searches so far, in their order. `ended`: results by the numbers of their
    searches, from 1 on; the first `results_needed` of them at least. `time`: of a goal with a
    deadline; where it is not enough for all samples and the anchor on every gang, no anchor is
    searched.
    """
    number = len(wanted) + 1
    needed = results_needed(number, gangs)
    results = [ended[one] for one in range(1, needed + 1)]
    running = [request.sample for request in wanted[needed:]]
    to_come = _to_come(goal, gangs, wanted)
    if to_come <= 0:
        return None
    following = _following(goal, gangs, wanted)
    left: int | None = None
    free_s: tuple[float, ...] = ()
    if time is not None:
        beside_s = time_beside_s(results, time)
        free_s = _free_times(gangs, wanted, ended, time, beside_s)
        times = GangTimes(free_s, following)
        share = time_share(goal, results, time, to_come, times)
        if not wanted and share.searches < to_come:
            gangs = msgspec.structs.replace(gangs, anchor=False)
            following = _following(goal, gangs, wanted)
            to_come = _to_come(goal, gangs, wanted)
            times = GangTimes(free_s, following)
            share = time_share(goal, results, time, to_come, times)
        if not share.searches:
            return None
        left = share.searches
    if _without_anchor(gangs, wanted):
        chosen = sample_wanted(goal, results, middle_sample(goal), ANCHOR)
    else:
        chosen = chosen_sample(goal, results, running, left=left)
        following = _farthest_first(goal, gangs, wanted, following, chosen.sample)
    if time is None:
        return msgspec.structs.replace(chosen, gang=gangs.names[following[0]])
    share = time_share(goal, results, time, to_come, GangTimes(free_s, following))
    chosen = msgspec.structs.replace(chosen, gang=gangs.names[share.gang])
    return within_share(chosen, share, time)


def _without_anchor(gangs: GangNames, wanted: Sequence[SampleRequest]) -> tuple[int, ...]:
    """Return the gangs (indexes) that are still to search the anchor. None are if the first search
    is not one of the anchor, or of a single gang."""
    if not gangs.anchor or len(gangs.names) == 1:
        return ()
    if wanted and wanted[0].why != ANCHOR:
        return ()
    have = {sample_request.gang for sample_request in wanted if sample_request.why == ANCHOR}
    return tuple(n for n, name in enumerate(gangs.names) if name not in have)


def _to_come(goal: SurfaceGoal, gangs: GangNames, wanted: Sequence[SampleRequest]) -> int:
    """Return the number of searches still to come."""
    anchors = len(_without_anchor(gangs, wanted))
    # The anchor is one of the samples.
    again = anchors - 1 if anchors and not wanted else anchors
    return goal.samples - len({request.sample for request in wanted}) + again


def _free_times(
    gangs: GangNames,
    wanted: Sequence[SampleRequest],
    ended: Mapping[int, SampleResult],
    time: TimeLeft,
    beside_s: float,
) -> tuple[float, ...]:
    """Return the time until each gang has made all its searches, if they use their whole budgets
    [s].

    A search begins when it is chosen, or when its gang has ended the one before.
    """
    end_s = dict.fromkeys(gangs.names, 0.0)
    running = dict.fromkeys(gangs.names, False)
    for number, sample_request in enumerate(wanted, start=1):
        if sample_request.gang in end_s:
            takes_s = sample_request.goal.budget_s or 0.0
            if number in ended:
                takes_s = ended[number].found.cost_s
            running[sample_request.gang] = number not in ended
            begins_s = max(end_s[sample_request.gang], sample_request.spent_s)
            end_s[sample_request.gang] = begins_s + takes_s + beside_s
    return tuple(max(end_s[name] - time.spent_s, 0.0) if running[name] else 0.0 for name in end_s)


def _following(
    goal: SurfaceGoal, gangs: GangNames, wanted: Sequence[SampleRequest]
) -> tuple[int, ...]:
    """Return the gangs (indexes) that have no search in the current block, in the order of the
    block: the gangs' order for the anchors, and a random one for each block after them."""
    anchors = _without_anchor(gangs, wanted)
    if anchors:
        return anchors
    count = len(gangs.names)
    others = sum(request.why != ANCHOR for request in wanted)
    block, place = divmod(others, count)
    rng = np.random.default_rng((goal.seed, _ORDER_STREAM, block))
    order = [int(gang) for gang in rng.permutation(count)]
    begun = {sample_request.gang for sample_request in wanted[len(wanted) - place :]}
    free = tuple(gang for gang in order if gangs.names[gang] not in begun)
    return free or tuple(order)


def _farthest_first(
    goal: SurfaceGoal,
    gangs: GangNames,
    wanted: Sequence[SampleRequest],
    following: Sequence[int],
    sample: Sample,
) -> tuple[int, ...]:
    """Return these gangs in the order of the distance of a sample to the nearest one that the gang
    searches, the anchor left out; the largest first."""

    def away(gang: int) -> float:
        name = gangs.names[gang]
        own = [
            sample_request
            for sample_request in wanted
            if sample_request.gang == name and sample_request.why != ANCHOR
        ]
        return distance_to(goal.factors, [sample_request.sample for sample_request in own], sample)

    return tuple(sorted(following, key=away, reverse=True))
