"""Coded factors, the polynomial's terms, and designs by exchange against pyDOE's."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydoe.optimal import optimal_design

from benchwright.features.search.surface import tuning
from benchwright.features.search.surface.coding import (
    Matrix,
    candidates,
    coded,
    columns_of,
    model_matrix,
    points_of,
    term_name,
    terms_for,
    terms_of,
)
from benchwright.features.search.surface.design import (
    DesignCriterion,
    Exchange,
    design_score,
    exchanged,
    log_determinant,
    optimal_rows,
)
from benchwright.features.search.surface.types import Factor, Transform, make_factor

DISKS = make_factor("disks", ("1", "2", "3", "4"))
NFSD = make_factor("nfsd", ("1", "2", "4", "8", "16", "32", "64", "100"))
SYNC = make_factor("sync", ("on", "off", "local"))


def matrix_of(factors: tuple[Factor, ...], degree: int = 2) -> Matrix:
    return model_matrix(coded(factors, candidates(factors)), terms_of(columns_of(factors), degree))


# -- factors ---------------------------------------------------------------------------


def test_levels_are_numbers_of_one_kind_or_words() -> None:
    assert make_factor("a", ("16MB", "64MB")).measure == "size"
    assert make_factor("a", ("10ms", "1s")).measure == "duration"
    assert make_factor("a", ("-1", "2.5")).measure == "number"
    assert make_factor("a", ("5%", "50%")).measure == "share"
    assert make_factor("a", ("on", "64MB")).measure == "word"


def test_two_levels_of_one_number_are_words() -> None:
    assert make_factor("a", ("1", "1.0", "2")).measure == "word"


def test_levels_that_span_a_ratio_get_a_logarithm_by_themselves() -> None:
    assert NFSD.transform is Transform.LOG2
    assert DISKS.transform is Transform.LOG2
    assert make_factor("a", ("1", "2", "3")).transform is Transform.NONE
    assert make_factor("a", ("0", "100")).transform is Transform.NONE
    assert make_factor("a", ("1", "100"), Transform.SQRT).transform is Transform.SQRT


@pytest.mark.parametrize(
    ("levels", "transform"), [(("0", "8"), "log2"), (("-1", "8"), "sqrt"), (("on", "off"), "log")]
)
def test_a_transform_that_cannot_be_is_refused(levels: tuple[str, ...], transform: str) -> None:
    with pytest.raises(ValueError, match="a has "):
        make_factor("a", levels, Transform(transform))


def test_a_numeric_factor_spans_minus_one_to_one() -> None:
    assert [NFSD.place(level) for level in ("1", "10", "100")] == pytest.approx([-1, 0, 1])
    assert NFSD.place("1000") == pytest.approx(2)


def test_effects_of_a_categorical_factor_sum_to_zero() -> None:
    codes = coded((SYNC,), candidates((SYNC,)))
    assert codes.tolist() == [[1, 0], [0, 1], [-1, -1]]


def test_two_levels_of_a_categorical_factor_are_equally_far_apart() -> None:
    points = points_of((SYNC,), candidates((SYNC,)))
    apart = [np.linalg.norm(points[a] - points[b]) for a, b in ((0, 1), (0, 2), (1, 2))]
    assert apart == pytest.approx([2, 2, 2])


def test_terms_are_named_as_people_write_them() -> None:
    columns = columns_of((DISKS, SYNC))
    names = [term_name(term, columns) for term in terms_of(columns, 2)]
    assert names == [
        "constant",
        "log2(disks)",
        "sync=on",
        "sync=off",
        "log2(disks) * sync=on",
        "log2(disks) * sync=off",
        "log2(disks)^2",
    ]


def test_a_factor_of_two_levels_has_no_square() -> None:
    two = make_factor("workers", ("1", "2"))
    assert len(terms_of(columns_of((two,)), 2)) == 2


def test_few_samples_get_a_smaller_polynomial() -> None:
    columns = columns_of((DISKS, NFSD))
    assert [len(terms_for(columns, 2, most)) for most in (6, 5, 4, 3, 2)] == [6, 5, 3, 3, 1]


# -- exchange --------------------------------------------------------------------------

NUMERIC = {
    "4x8": (DISKS, NFSD),
    "3x3x3": tuple(make_factor(name, ("1", "2", "3")) for name in "abc"),
    "5x4": (make_factor("a", ("1", "2", "3", "4", "5")), DISKS),
}


@pytest.mark.parametrize("space", NUMERIC)
@pytest.mark.parametrize("n", [6, 8, 10, 12])
def test_d_optimal_designs_are_at_least_as_good_as_pydoes(space: str, n: int) -> None:
    factors = NUMERIC[space]
    codes = coded(factors, candidates(factors))
    matrix = matrix_of(factors)
    if n < matrix.shape[1]:
        pytest.skip("fewer rows than terms")
    theirs, _ = optimal_design(codes, n, 2, criterion="D", method="fedorov")
    rows = [int(np.argmin(((codes - row) ** 2).sum(axis=1))) for row in theirs]
    ours = optimal_rows(Exchange(matrix), n, seed=1)
    assert len(set(ours)) == n
    assert log_determinant(matrix, ours) >= log_determinant(matrix, rows) - 1e-6


def test_a_design_depends_on_nothing_but_its_seed() -> None:
    problem = Exchange(matrix_of((DISKS, NFSD)), DesignCriterion.I)
    assert optimal_rows(problem, 9, seed=3) == optimal_rows(problem, 9, seed=3)


def test_an_i_optimal_design_predicts_better_on_average() -> None:
    matrix = matrix_of((DISKS, NFSD, SYNC))
    n = matrix.shape[1] + 2
    by_d = optimal_rows(Exchange(matrix), n, seed=1)
    by_i = optimal_rows(Exchange(matrix, DesignCriterion.I), n, seed=1)
    judged = Exchange(matrix, DesignCriterion.I)
    assert design_score(judged, by_i) > design_score(judged, by_d)


def test_measured_rows_stay_and_come_first() -> None:
    problem = Exchange(matrix_of((DISKS, NFSD)), fixed=(9, 10, 11))
    rows = optimal_rows(problem, 8, seed=1)
    assert rows[:3] == (9, 10, 11)
    assert len(set(rows)) == 8


def test_dear_rows_are_avoided() -> None:
    matrix = matrix_of((DISKS, NFSD))
    free = optimal_rows(Exchange(matrix), 8, seed=1)
    dear = tuple(50.0 if row == free[0] else 1.0 for row in range(len(matrix)))
    assert free[0] not in optimal_rows(Exchange(matrix, costs=dear), 8, seed=1)


def test_equal_costs_change_nothing() -> None:
    matrix = matrix_of((DISKS, NFSD))
    costs = (7.0,) * len(matrix)
    plain = optimal_rows(Exchange(matrix), 8, seed=1)
    assert optimal_rows(Exchange(matrix, costs=costs), 8, seed=1) == plain


@settings(max_examples=60)
@given(
    st.integers(0, 10**6),
    st.integers(6, 14),
    st.sampled_from(list(DesignCriterion)),
    st.integers(0, 3),
)
def test_an_exchange_is_never_worse_than_its_start(
    seed: int, n: int, criterion: DesignCriterion, kept: int
) -> None:
    rng = np.random.default_rng(seed)
    matrix = matrix_of((DISKS, NFSD))
    start = tuple(int(row) for row in rng.choice(len(matrix), n, replace=False))
    costs = tuple(rng.uniform(1, 5, len(matrix)).tolist())
    problem = Exchange(matrix, criterion, start[:kept], costs)
    rows = exchanged(problem, start)
    assert design_score(problem, rows) >= design_score(problem, start) - 1e-6
    assert rows[:kept] == start[:kept]
    assert len(set(rows)) == n


@settings(max_examples=30)
@given(st.integers(0, 10**6), st.sampled_from(list(DesignCriterion)))
def test_no_single_exchange_improves_the_result(seed: int, criterion: DesignCriterion) -> None:
    """Against the score itself, which knows nothing of the update by rank 2."""
    rng = np.random.default_rng(seed)
    matrix = matrix_of((DISKS, NFSD))
    problem = Exchange(matrix, criterion)
    start = [int(row) for row in rng.choice(len(matrix), 9, replace=False)]
    rows = exchanged(problem, start)
    best = design_score(problem, rows)
    for place in range(9):
        for row in set(range(len(matrix))) - set(rows):
            other = (*rows[:place], row, *rows[place + 1 :])
            assert design_score(problem, other) <= best + 1e-6


@pytest.mark.parametrize("criterion", list(DesignCriterion))
def test_of_many_candidates_a_part_is_enough(criterion: DesignCriterion) -> None:
    levels = tuple(map(str, range(1, 12)))
    matrix = matrix_of(tuple(make_factor(name, levels) for name in "abc"))
    assert len(matrix) == 11**3 > tuning.DESIGN_POOL
    problem = Exchange(matrix, criterion)
    rows = optimal_rows(problem, 14, seed=5)
    assert len(set(rows)) == 14
    # No exchange with any of all candidates improves it ...
    assert set(exchanged(problem, rows)) == set(rows)
    # ... and restarts that see all of them find nothing clearly better.
    rng = np.random.default_rng(20261121)
    whole = max(
        design_score(problem, exchanged(problem, rng.choice(len(matrix), 14, replace=False)))
        for _ in range(10)
    )
    assert design_score(problem, rows) >= whole - 0.01


def test_exchanges_of_a_design_that_tells_nothing_end() -> None:
    """Gains from a singular start are rounding errors; this one once went round for ever."""
    file_systems = make_factor("fs", ("ext4", "xfs", "btrfs", "zfs"))
    every = (file_systems, make_factor("disks", ("1", "2", "3", "4", "5")))
    columns = columns_of(every)
    matrix = model_matrix(coded(every, candidates(every)), terms_for(columns, 2, 6))
    for criterion in DesignCriterion:
        rows = optimal_rows(Exchange(matrix, criterion), 6, seed=16)
        assert np.linalg.matrix_rank(matrix[list(rows)]) == matrix.shape[1]
