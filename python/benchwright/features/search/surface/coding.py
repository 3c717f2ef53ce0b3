"""Samples as numbers: candidates, coded factors, the polynomial's terms and model matrix.

Numeric factors are transformed and scaled to [-1, 1]. A categorical factor of k levels has
k - 1 effects-coded columns for a polynomial (the last level is -1 in each), so that the
coefficients are differences to the mean over its levels; and k columns for distances,
so that any two levels are equally far from each other.
Source: C. F. J. Wu and M. S. Hamada, Experiments (2009), section 3.2 on coding.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from functools import partial

import msgspec

from benchwright.core.numeric import NDArray, np
from benchwright.features.search.surface.types import Factor, Sample

Matrix = NDArray[np.float64]


class CodedColumn(msgspec.Struct, frozen=True):
    """One coded column: a numeric factor, or one level of a categorical one."""

    factor: int
    """Index among the factors."""
    name: str
    level: int | None = None
    """Index of the level that it separates from the last one; None: a numeric factor."""
    curved: bool = False
    """Whether there are enough levels for a squared term."""


Term = tuple[int, ...]
"""Indexes of the columns that are multiplied; () is the constant."""


def candidates(factors: Sequence[Factor]) -> tuple[Sample, ...]:
    """Return all samples, the last factor's levels changing fastest."""
    names = [factor.name for factor in factors]
    levels = (factor.levels for factor in factors)
    return tuple(tuple(zip(names, chosen, strict=True)) for chosen in itertools.product(*levels))


def columns_of(factors: Sequence[Factor]) -> tuple[CodedColumn, ...]:
    """Return the coded columns; a factor of one level has none."""
    columns = []
    for at, factor in enumerate(factors):
        several = len(factor.levels) > 1
        if factor.numeric and several:
            columns.append(CodedColumn(at, factor.title, curved=len(factor.levels) > 2))
        elif several:
            columns += [
                CodedColumn(at, f"{factor.name}={level}", place)
                for place, level in enumerate(factor.levels[:-1])
            ]
    return tuple(columns)


def coded(factors: Sequence[Factor], samples: Sequence[Sample]) -> Matrix:
    """Return the samples in coded columns, shape `(n_samples, n_columns)`.

    Raises ValueError for a level that a factor cannot have.
    """
    columns = columns_of(factors)
    codes = [
        _each_once(
            partial(_code, factors[column.factor], column),
            [sample[column.factor][1] for sample in samples],
        )
        for column in columns
    ]
    return np.array(codes, dtype=float).reshape(len(columns), len(samples)).T


def _each_once(code: Callable[[str], float], levels: Sequence[str]) -> list[float]:
    """Return the codes of levels; each distinct level is parsed once, because a space has
    thousands of samples and few levels."""
    known = {level: code(level) for level in dict.fromkeys(levels)}
    return [known[level] for level in levels]


def _code(factor: Factor, column: CodedColumn, level: str) -> float:
    if column.level is None:
        return factor.place(level)
    place = level_place(factor, level)
    if place == len(factor.levels) - 1:
        return -1.0
    return float(place == column.level)


def level_place(factor: Factor, level: str) -> int:
    """Return the index of a categorical factor's level; raises ValueError for an unknown level."""
    if level not in factor.levels:
        known = ", ".join(factor.levels)
        raise ValueError(f"{level!r} must be a level of {factor.name}: {known}")
    return factor.levels.index(level)


def points_of(factors: Sequence[Factor], samples: Sequence[Sample]) -> Matrix:
    """Return the samples as points, shape `(n_samples, n_axes)`.

    Numeric factors span [-1, 1]; two levels of a categorical factor lie 2 apart.
    """
    blocks = [np.empty((len(samples), 0))]
    for at, factor in enumerate(factors):
        if len(factor.levels) > 1:
            blocks.append(_axes(factor, [sample[at][1] for sample in samples]))
    return np.hstack(blocks)


def _axes(factor: Factor, levels: Sequence[str]) -> Matrix:
    if factor.numeric:
        return np.array(_each_once(factor.place, levels)).reshape(-1, 1)
    places = [level_place(factor, level) for level in levels]
    return math.sqrt(2) * np.eye(len(factor.levels))[places]


def terms_of(columns: Sequence[CodedColumn], degree: int) -> tuple[Term, ...]:
    """Return the terms of a polynomial: constant, main effects; of degree 2 also the
    interactions of two factors, then squares."""
    main = tuple((at,) for at in range(len(columns)))
    if degree == 1:
        return ((), *main)
    pairs = tuple(
        (a, b)
        for a, b in itertools.combinations(range(len(columns)), 2)
        if columns[a].factor != columns[b].factor
    )
    squares = tuple((at, at) for at, column in enumerate(columns) if column.curved)
    return ((), *main, *pairs, *squares)


def term_name(term: Term, columns: Sequence[CodedColumn]) -> str:
    """Return a term as text: `disks`, `disks * log2(nfsd)`, `disks^2`."""
    if not term:
        return "constant"
    names = [columns[at].name for at in term]
    if len(term) == 2 and term[0] == term[1]:
        return f"{names[0]}^2"
    return " * ".join(names)


def model_matrix(codes: Matrix, terms: Sequence[Term]) -> Matrix:
    """Return the polynomial's columns, shape `(n_samples, n_terms)`."""
    return np.stack([codes[:, list(term)].prod(axis=1) for term in terms], axis=1)


def terms_for(columns: Sequence[CodedColumn], degree: int, most: int) -> tuple[Term, ...]:
    """Return the terms of the largest polynomial with at most `most` terms.

    Candidates in this order: the full degree; without interactions; main effects; the constant.
    """
    full = terms_of(columns, degree)
    additive = tuple(t for t in full if len(set(t)) < 2)
    for terms in (full, additive, terms_of(columns, 1)):
        if len(terms) <= most:
            return terms
    return ((),)
