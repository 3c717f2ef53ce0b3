"""Optimal designs by exchange of rows: which samples tell a polynomial most.

Purpose: from all candidates choose n rows of the model matrix by the D criterion (the
coefficients' joint precision) or the I criterion (the mean variance of prediction over all
candidates), with rows that were measured already, and with a cost for each row if wanted.
Decision: Fedorov's exchange, the best pair of rows in each step, with restarts, on
any model matrix. pyDOE lost (numeric polynomials only, and its default method is far
worse), pyoptex too (heavy pins); both are the same at this size. Samples are distinct: a
search already repeats its trials until its answer is precise.
Source: V. V. Fedorov, Theory of Optimal Experiments (1972), chapter 3.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from benchwright.control.surface.coding import Matrix

STARTS = 20
_RIDGE = 1e-8
"""Lets a start that tells nothing of some coefficient be improved."""
_GAIN = 1e-9
"""An exchange that gains less is none: else rounding errors exchange for ever."""

_TRIES = 30
"""Exchanges looked at in one step, the most promising first."""
_LEAST_RATIO = 1e-12
"""Of determinants: an exchange that leaves less makes a design that tells nothing."""


class Criterion(enum.StrEnum):
    """What a design is good at."""

    D = "D"
    I = "I"  # noqa: E741 - the criterion's name in every book


class Exchange(msgspec.Struct, frozen=True):
    """A problem of design: candidates, what counts, what is given."""

    matrix: Matrix
    """All candidates as the model sees them, `(n_candidates, n_terms)`."""
    criterion: Criterion = Criterion.D
    fixed: tuple[int, ...] = ()
    """Rows that are measured already, and stay."""
    costs: tuple[float, ...] | None = None
    """Of measuring each row; None: all alike. Information for its cost is what counts."""


def optimal_rows(problem: Exchange, n: int, seed: int) -> tuple[int, ...]:
    """Return the rows of the best design of n rows: the fixed ones, then the chosen.

    The chosen ones are in the candidates' order. Deterministic for a seed.
    """
    count = len(problem.matrix)
    fixed = problem.fixed[:n]
    free = np.setdiff1d(np.arange(count), fixed)
    rng = np.random.default_rng(seed)
    best: tuple[float, tuple[int, ...]] | None = None
    for _ in range(STARTS if n < count else 1):
        chosen = rng.choice(free, n - len(fixed), replace=False)
        rows = exchanged(problem, (*fixed, *(int(row) for row in chosen)))
        value = score(problem, rows)
        if best is None or value > best[0] + _GAIN:
            best = (value, rows)
    assert best is not None
    return (*fixed, *sorted(best[1][len(fixed) :]))


def exchanged(problem: Exchange, start: Sequence[int]) -> tuple[int, ...]:
    """Return a design that no exchange of one row improves, from a start.

    Never worse than the start; the fixed rows, which come first, stay. An exchange is
    made only if it is better in fact: where a start tells nothing of some coefficient,
    the gains are rounding errors, and promise each other's reverse for ever.
    """
    rows = np.array(start)
    kept = len(problem.fixed)
    while len(rows) > kept:
        better = _better(problem, rows)
        if better is None:
            break
        rows = better
    return tuple(int(row) for row in rows)


def _better(problem: Exchange, rows: NDArray[np.int64]) -> NDArray[np.int64] | None:
    """Return the design after the best exchange; None where none is found."""
    before = score(problem, rows.tolist())
    gains = _gains(problem, rows)
    gains[:, : len(problem.fixed)] = -np.inf
    gains[rows, :] = -np.inf
    for _ in range(_TRIES):
        row, place = np.unravel_index(np.argmax(gains), gains.shape)
        if not gains[row, place] > _GAIN:
            return None
        after = rows.copy()
        after[place] = row
        if score(problem, after.tolist()) > before + _GAIN / 2:
            return after
        gains[row, place] = -np.inf
    return None


def score(problem: Exchange, rows: Sequence[int]) -> float:
    """Return how good a design is, on a scale of logarithms: more is better.

    D: log-determinant of the information per term; I: minus the logarithm of the mean
    variance of prediction; both less the logarithm of the rows' cost, if they have one.
    """
    chosen = list(rows)
    information = _information(problem, chosen)
    cost = 0.0 if problem.costs is None else sum(problem.costs[row] for row in chosen)
    spent = math.log(cost) if cost > 0 else 0.0
    if problem.criterion is Criterion.D:
        _, log_determinant = np.linalg.slogdet(information)
        return float(log_determinant) / len(information) - spent
    variance = np.trace(np.linalg.solve(information, _moments(problem.matrix)))
    return -math.log(variance) - spent


def log_determinant(matrix: Matrix, rows: Sequence[int]) -> float:
    """Return the log-determinant of a design's information, nothing added."""
    chosen = matrix[list(rows)]
    return float(np.linalg.slogdet(chosen.T @ chosen)[1])


def _information(problem: Exchange, rows: Sequence[int]) -> Matrix:
    chosen = problem.matrix[list(rows)]
    ridge = _RIDGE * np.eye(problem.matrix.shape[1])
    return np.asarray(chosen.T @ chosen + ridge)


def _moments(matrix: Matrix) -> Matrix:
    return np.asarray(matrix.T @ matrix / len(matrix))


def _gains(problem: Exchange, rows: NDArray[np.int64]) -> Matrix:
    """Return what each exchange gains in score, shape `(n_candidates, n_rows)`.

    By the update of rank 2: with x in and y out, the determinant is multiplied by
    (1 + v_x)(1 - v_y) + c_xy^2, where v is the variance of prediction and c the
    covariance; the trace follows from the inverse of the 2 x 2 matrix in it.
    """
    matrix = problem.matrix
    inverse = np.asarray(np.linalg.inv(_information(problem, rows.tolist())), float)
    all_by = matrix @ inverse
    variance = np.einsum("ij,ij->i", all_by, matrix)
    between = all_by @ matrix[rows].T
    out = variance[rows][None, :]
    ratio = (1 + variance)[:, None] * (1 - out) + between**2
    ratio = np.maximum(ratio, _LEAST_RATIO)
    if problem.criterion is Criterion.D:
        gains: Matrix = np.log(ratio) / matrix.shape[1]
    else:
        gains = _trace_gains(matrix, inverse, rows, (variance, between, ratio))
    return np.asarray(gains - _cost_gains(problem.costs, rows))


def _trace_gains(
    matrix: Matrix,
    inverse: Matrix,
    rows: NDArray[np.int64],
    parts: tuple[Matrix, Matrix, Matrix],
) -> Matrix:
    variance, between, ratio = parts
    spread = inverse @ _moments(matrix) @ inverse
    before = float(np.trace(inverse @ _moments(matrix)))
    weighted = matrix @ spread
    own = np.einsum("ij,ij->i", weighted, matrix)
    cross = weighted @ matrix[rows].T
    out = variance[rows][None, :]
    less = (1 - out) * own[:, None] + 2 * between * cross
    less = (less - (1 + variance)[:, None] * own[rows][None, :]) / ratio
    after = np.maximum(before - less, np.finfo(float).tiny)
    return np.asarray(math.log(before) - np.log(after))


def _cost_gains(
    costs: tuple[float, ...] | None, rows: NDArray[np.int64]
) -> Matrix | float:
    """Return by what each exchange raises the logarithm of the design's cost."""
    if costs is None:
        return 0.0
    each = np.array(costs)
    total = each[rows].sum()
    after = total - each[rows][None, :] + each[:, None]
    return np.asarray(np.log(after / total))
