"""Adjusted P-values: statsmodels' to the last digits, and at their edges."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import numpy as np
import pytest
from statsmodels.stats.multitest import multipletests

from benchwright.stats.input_comparison import benjamini_hochberg, holm


@pytest.fixture
def _little_garbage() -> Iterator[None]:
    """statsmodels collects garbage in each call; all older objects are left out of that."""
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.mark.usefixtures("_little_garbage")
@pytest.mark.parametrize("n", [1, 2, 3, 10, 50])
def test_adjusted_p_values_are_statsmodels(n: int) -> None:
    for seed in range(20):
        p = np.random.default_rng([seed, n]).random(n) ** 3
        p = np.round(p, 2)  # ties
        np.testing.assert_allclose(holm(p), multipletests(p, method="holm")[1])
        np.testing.assert_allclose(benjamini_hochberg(p), multipletests(p, method="fdr_bh")[1])


def test_what_was_not_asked_is_not_counted() -> None:
    np.testing.assert_allclose(holm([0.01, np.nan, 0.04]), [0.02, np.nan, 0.04])
    found = benjamini_hochberg([np.nan, 0.01, 0.04])
    np.testing.assert_allclose(found, [np.nan, 0.02, 0.04])
    assert holm([]).size == benjamini_hochberg([]).size == 0


def test_what_is_no_p_value_is_a_programmers_error() -> None:
    with pytest.raises(AssertionError):
        holm([1.5])
