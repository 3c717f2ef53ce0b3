"""Distribution functions of one number agree with scipy's, tails included."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special as oracle

from benchwright.stats import special

DEGREES = st.floats(0.5, 1e6)
PROBABILITIES = st.one_of(st.floats(1e-12, 1 - 1e-9), st.floats(0.001, 0.999))


@given(DEGREES, st.floats(-200, 200))
def test_students_t(degrees: float, t: float) -> None:
    wanted = float(oracle.stdtr(degrees, t))
    assert special.t_cdf(degrees, t) == pytest.approx(wanted, rel=1e-9, abs=1e-300)


@given(st.floats(1, 1e6), PROBABILITIES)
def test_quantiles_of_students_t(degrees: float, p: float) -> None:
    t = special.t_quantile(degrees, p)
    assert t == pytest.approx(float(oracle.stdtrit(degrees, p)), rel=1e-8, abs=1e-9)


@given(st.floats(1, 2000), st.floats(1, 2000), st.floats(1e-6, 1e4))
def test_f(upper: float, lower: float, x: float) -> None:
    wanted = float(oracle.fdtr(upper, lower, x))
    assert special.f_cdf(upper, lower, x) == pytest.approx(wanted, rel=1e-8, abs=1e-250)
    wanted = float(oracle.fdtrc(upper, lower, x))
    assert special.f_tail(upper, lower, x) == pytest.approx(wanted, rel=1e-8, abs=1e-250)


@given(st.floats(1, 500), st.floats(1, 500), st.floats(0.001, 0.999))
def test_quantiles_of_f(upper: float, lower: float, p: float) -> None:
    wanted = float(oracle.fdtri(upper, lower, p))
    assert special.f_quantile(upper, lower, p) == pytest.approx(wanted, rel=1e-7)


@given(st.floats(-37, 9))
def test_the_normal(x: float) -> None:
    assert special.normal_cdf(x) == pytest.approx(float(oracle.ndtr(x)), rel=1e-12)


@given(st.floats(-1e6, 9))
def test_the_logarithm_of_the_normal(x: float) -> None:
    wanted = float(oracle.log_ndtr(x))
    assert special.log_normal_cdf(x) == pytest.approx(wanted, rel=1e-11, abs=1e-300)


@given(st.integers(1, 2000), st.floats(0.01, 0.99), st.integers(-1, 2000))
def test_the_binomial(n: int, p: float, k: int) -> None:
    wanted = 0.0 if k < 0 else float(oracle.bdtr(min(k, n), n, p))
    assert special.binomial_cdf(k, n, p) == pytest.approx(wanted, rel=1e-8, abs=1e-13)


@given(PROBABILITIES)
def test_quantiles_of_the_normal(p: float) -> None:
    wanted = float(oracle.ndtri(p))
    assert special.normal_quantile(p) == pytest.approx(wanted, rel=1e-10, abs=1e-12)


@given(st.floats(0.1, 5000), st.floats(0.1, 5000), st.floats(0, 1))
def test_the_incomplete_beta_function(a: float, b: float, x: float) -> None:
    wanted = float(oracle.betainc(a, b, x))
    assert special.beta_cdf(a, b, x) == pytest.approx(wanted, rel=1e-8, abs=1e-12)


def test_ends_of_the_ranges() -> None:
    assert special.t_quantile(5, 0.5) == 0
    assert special.t_quantile(math.inf, 0.975) == pytest.approx(1.959963984540054)
    assert math.isnan(special.t_quantile(0, 0.975))
    assert special.t_cdf(3, math.inf) == 1
    assert special.t_cdf(3, -math.inf) == 0
    assert special.f_tail(3, 4, 0) == 1


@given(st.floats(0.05, 5000), st.floats(0, 8000))
def test_the_tail_of_the_gamma(shape: float, x: float) -> None:
    wanted = float(oracle.gammaincc(shape, x))
    assert special.gamma_tail(shape, x) == pytest.approx(wanted, rel=1e-7, abs=1e-13)


@given(st.floats(0, 2000), st.integers(1, 500))
def test_the_tail_of_chi_square(square: float, freedom: int) -> None:
    wanted = float(oracle.chdtrc(freedom, square))
    assert special.chi_square_tail(square, freedom) == pytest.approx(wanted, rel=1e-7, abs=1e-13)
