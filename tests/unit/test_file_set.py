"""File sets that grow with the load, and how many operations chains have."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchwright.features.load import workload as w
from benchwright.features.load.file_set import (
    FileSetPlan,
    at_rate,
    mean_pieces,
    multiplied,
    operations_per_s,
    whole_weights,
    with_users,
)

PIECE = 8192


def of_single_sizes(low: int, high: int) -> Fraction:
    pieces = [max(1, -(-size // PIECE)) for size in range(low, high + 1)]
    return Fraction(sum(pieces), len(pieces))


@pytest.mark.parametrize(("low", "high"), [(0, 0), (0, 16383), (1, 8192), (8193, 30_000)])
def test_pieces_of_uniform_sizes_are_exact(low: int, high: int) -> None:
    assert mean_pieces(w.UniformValue(low, high), PIECE) == of_single_sizes(low, high)


def test_pieces_of_a_table_are_exact() -> None:
    # Fstress's reads: 8, 16, 32, 64, 128 KiB by 85, 8, 4, 2, 1.
    kib = {8: 85, 16: 8, 32: 4, 64: 2, 128: 1}
    sizes = w.Weighted(tuple((size * 1024, n) for size, n in kib.items()))
    assert mean_pieces(sizes, PIECE) == Fraction(85 + 2 * 8 + 4 * 4 + 8 * 2 + 16, 100)


@pytest.mark.parametrize(
    ("size", "draw"),
    [
        (w.Exponential(20_000), lambda rng, n: rng.exponential(20_000, n)),
        (w.Gamma(16_384, 1_500_000), lambda rng, n: rng.gamma(1.5, 16_384 / 1.5, n)),
        (w.Gamma(10**6, 1_500_000), lambda rng, n: rng.gamma(1.5, 10**6 / 1.5, n)),
        (
            w.Lognormal(30_000, 1_000_000),
            lambda rng, n: rng.lognormal(np.log(30_000) - np.log(2) / 2, np.sqrt(np.log(2)), n),
        ),
        (w.Pareto(4096, 2_500_000), lambda rng, n: 4096 * (1 + rng.pareto(2.5, n))),
    ],
    ids=lambda value: type(value).__name__,
)
def test_pieces_of_a_law_are_those_of_its_draws(size: w.Distribution, draw) -> None:  # type: ignore[no-untyped-def]
    rng = np.random.default_rng(3)
    pieces = np.maximum(1, np.ceil(draw(rng, 1_000_000) / PIECE))
    error = pieces.std() / 1000
    assert float(mean_pieces(size, PIECE)) == pytest.approx(pieces.mean(), abs=5 * error)


@given(st.lists(st.fractions(Fraction(1, 500), 1000, max_denominator=997), min_size=1, max_size=20))
def test_whole_weights_keep_their_ratios(weights: list[Fraction]) -> None:
    whole = whole_weights(weights)
    assert min(whole) >= 1
    for one, wanted in zip(whole, weights, strict=True):
        exact = wanted / sum(weights) * sum(whole)
        # The sum of rounded numbers may differ from that of the exact ones.
        assert abs(one - exact) <= 1 + exact / 10**6


def plan(**fields: object) -> FileSetPlan:
    tables = w.FileSet(files=w.ConstantValue(2), file_size=w.ConstantValue(8192))
    return FileSetPlan(tables=tables, **fields)  # type: ignore[arg-type]


def files(rate: int | None, *kinds: str) -> w.Files:
    chains = tuple(w.Chain(kind, 1, (w.ChainStep(kind),)) for kind in kinds or ("getattr",))
    if rate is None:
        return w.Files(chains=chains, users=3)
    return w.Files(chains=chains, rate=w.ConstantRate(rate * w.MICRO), arrival=w.PoissonArrival())


def test_a_set_grows_with_the_rate_of_all_filaments() -> None:
    made = plan(per_load=True).made_for([files(100), files(50)])
    assert made.files == w.ConstantValue(300)
    assert made.present_micro == 10**6


def test_a_set_for_another_rate_does_not_follow_that_of_the_run() -> None:
    fixed = plan(per_load=True, for_rate_micro=40 * w.MICRO)
    assert fixed.made_for([files(100)]) == fixed.made_for([files(900)])
    assert fixed.made_for([files(None)]).files == w.ConstantValue(80)


def test_a_closed_loop_has_no_rate_for_a_set() -> None:
    with pytest.raises(ValueError, match="for_rate"):
        plan(per_load=True).made_for([files(None)])


def test_names_that_do_not_exist_at_the_start_are_added_where_files_are_created() -> None:
    made = plan(per_load=True).made_for([files(100, "create", "remove")])
    assert made.files == w.ConstantValue(220)
    assert made.present_micro == round(10**6 / 1.1)
    # Filebench: 80 % of 10,000 names.
    filebench = FileSetPlan(
        tables=w.FileSet(files=w.ConstantValue(8000), file_size=w.ConstantValue(1)),
        spare=Fraction(1, 4),
    ).made_for([files(None)])
    assert (filebench.files, filebench.present_micro) == (w.ConstantValue(10_000), 800_000)


def test_a_number_that_is_multiplied_does_not_become_zero() -> None:
    assert multiplied(w.ConstantValue(2), Fraction(1, 1000)) == w.ConstantValue(1)
    assert multiplied(w.Weighted(((0, 1), (3, 2))), Fraction(1, 1000)) == w.Weighted(
        ((0, 1), (1, 2))
    )


@given(st.floats(0.5, 1e6))
def test_filaments_together_have_the_rate_that_is_asked(rate: float) -> None:
    transfer = w.Files(
        chains=(
            w.Chain("read", 1, (w.ChainStep("read"),)),
            w.Chain("getattr", 3, (w.ChainStep("getattr"),)),
        ),
        rate=w.ConstantRate(70 * w.MICRO),
        arrival=w.PoissonArrival(),
    )
    size = w.ConstantValue(5 * 8192)
    found = operations_per_s(at_rate([transfer, files(30)], rate, size), size)
    assert found == pytest.approx(rate, rel=1e-5)


def test_users_are_shared_as_in_the_filaments() -> None:
    one = w.Files(chains=files(1).chains, users=30)
    two = w.Files(chains=files(1).chains, users=10)
    assert [f.users for f in with_users([one, two], 8)] == [6, 2]  # type: ignore[union-attr]
    (alone,) = with_users([files(100)], 5)
    assert isinstance(alone, w.Files)
    assert (alone.users, alone.rate, alone.arrival) == (5, None, None)
