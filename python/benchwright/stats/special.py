"""Distribution functions for single numbers: normal, Student's t, F, beta, binomial, chi-square.

Purpose: a table of ten trials needs one quantile of Student's t. Importing scipy.special for it
takes longer than the trials, and `bw run` needs scipy (140 MB) for nothing else.
Decision: the regularized incomplete beta function by its continued fraction (Lentz), and
quantiles by bracketing with secant steps; everything else follows from these. Rejected: a table
of quantiles, because any confidence is allowed. The searches use scipy for functions of arrays.
tests/unit/test_stats_special.py compares all functions with scipy.
Source: Numerical Recipes, 3rd edition, 6.4; DLMF 8.17.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

_TINY = 1e-300
_MAX_STEPS = 100_000


def normal_cdf(x: float) -> float:
    """Return P(Z <= x) of a standard normal Z."""
    return 0.5 * math.erfc(-x / math.sqrt(2.0))


def normal_quantile(p: float) -> float:
    """Return x with P(Z <= x) = p, 0 < p < 1, of a standard normal Z."""
    from statistics import NormalDist

    return NormalDist().inv_cdf(p)


def log_normal_cdf(x: float) -> float:
    """Return log P(Z <= x) of a standard normal Z, also where the probability underflows."""
    if x > 0.0:
        return math.log1p(-normal_cdf(-x))
    if x > -37.0:
        return math.log(normal_cdf(x))
    square = x * x
    series = 1 - 1 / square + 3 / square**2 - 15 / square**3 + 105 / square**4
    return -0.5 * square - math.log(-x * math.sqrt(2 * math.pi)) + math.log(series)


def beta_cdf(a: float, b: float, x: float) -> float:
    """Return the regularized incomplete beta function I_x(a, b), 0 <= x <= 1; a, b > 0."""
    if x <= 0.0:
        return 0.0
    if x >= 1.0:
        return 1.0
    if x > (a + 1.0) / (a + b + 2.0):
        return 1.0 - beta_cdf(b, a, 1.0 - x)
    return _front(a, b, x, 1.0 - x) * _fraction(a, b, x) / a


def _beta_tail(a: float, b: float, x: float, y: float) -> float:
    """Return I_x(a, b), with y = 1 - x given more exactly than it follows from x."""
    if x > (a + 1.0) / (a + b + 2.0):
        return 1.0 - _front(b, a, y, x) * _fraction(b, a, y) / b
    return _front(a, b, x, y) * _fraction(a, b, x) / a


def _front(a: float, b: float, x: float, y: float) -> float:
    """Return x^a y^b / B(a, b)."""
    if x <= 0.0 or y <= 0.0:
        return 0.0
    return math.exp(a * math.log(x) + b * math.log(y) - log_beta(a, b))


def log_beta(a: float, b: float) -> float:
    """Return log B(a, b), without subtracting large logarithms where a or b is large."""
    small, large = min(a, b), max(a, b)
    if large < 1000.0:
        return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)
    # log Gamma(large) - log Gamma(large + small), both by Stirling's series.
    total = large + small
    return (
        math.lgamma(small)
        + (large - 0.5) * -math.log1p(small / large)
        - small * math.log(total)
        + small
        + _stirling(large)
        - _stirling(total)
    )


def _stirling(x: float) -> float:
    """Return the error term of Stirling's formula for log Gamma."""
    return 1 / (12 * x) - 1 / (360 * x**3) + 1 / (1260 * x**5)


def _fraction(a: float, b: float, x: float) -> float:
    """Return the continued fraction of I_x(a, b), by Lentz's method."""
    c = 1.0
    d = 1.0 - (a + b) * x / (a + 1.0)
    d = 1.0 / (d if abs(d) > _TINY else _TINY)
    result = d
    for m in range(1, _MAX_STEPS):
        for numerator in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1.0 + numerator * d
            c = 1.0 + numerator / c
            d = 1.0 / (d if abs(d) > _TINY else _TINY)
            c = c if abs(c) > _TINY else _TINY
            result *= c * d
        if abs(c * d - 1.0) < 1e-15:
            break
    return result


def binomial_cdf(k: int, n: int, p: float) -> float:
    """Return P(K <= k) for K successes in n trials with probability p each."""
    if k < 0:
        return 0.0
    return 1.0 if k >= n else beta_cdf(n - k, k + 1.0, 1.0 - p)


def t_cdf(degrees: float, t: float) -> float:
    """Return P(T <= t) of Student's t; degrees > 0, may be fractional."""
    if math.isnan(degrees) or math.isnan(t):
        return math.nan
    if math.isinf(degrees):
        return normal_cdf(t)
    if math.isinf(t):
        return 0.0 if t < 0 else 1.0
    square = t * t
    x, y = degrees / (degrees + square), square / (degrees + square)
    tail = 0.5 * _beta_tail(degrees / 2, 0.5, x, y)
    return tail if t <= 0 else 1.0 - tail


@lru_cache(maxsize=256)
def t_quantile(degrees: float, p: float) -> float:
    """Return t with P(T <= t) = p of Student's t, 0 < p < 1; nan for degrees <= 0."""
    if not degrees > 0 or math.isnan(p):
        return math.nan
    if math.isinf(degrees):
        return normal_quantile(p)
    if p == 0.5:
        return 0.0
    if p > 0.5:
        return -t_quantile(degrees, 1.0 - p) if p < 1 else math.inf
    if p <= 0:
        return -math.inf
    return -_solve(lambda t: t_cdf(degrees, -t) - p)


def f_cdf(upper: float, lower: float, x: float) -> float:
    """Return P(F <= x) with `upper` and `lower` degrees of freedom."""
    if x <= 0:
        return 0.0
    if math.isinf(x):
        return 1.0
    total = upper * x + lower
    return _beta_tail(upper / 2, lower / 2, upper * x / total, lower / total)


def f_tail(upper: float, lower: float, x: float) -> float:
    """Return P(F > x), accurate even where it is tiny."""
    if x <= 0:
        return 1.0
    if math.isinf(x):
        return 0.0
    total = upper * x + lower
    return _beta_tail(lower / 2, upper / 2, lower / total, upper * x / total)


@lru_cache(maxsize=256)
def f_quantile(upper: float, lower: float, p: float) -> float:
    """Return x with P(F <= x) = p, 0 <= p < 1."""
    if p <= 0:
        return 0.0
    return _solve(lambda x: f_tail(upper, lower, x) - (1.0 - p))


def _solve(falling: Callable[[float], float]) -> float:
    """Return the positive root of a decreasing function, to full precision."""
    low, high = 0.0, 1.0
    while falling(high) > 0:
        low, high = high, 2 * high
    at_low, at_high = falling(low), falling(high)
    for _ in range(200):
        # Secant steps with the Illinois rule stay inside the bracket and converge fast.
        middle = (low * at_high - high * at_low) / (at_high - at_low)
        if not low < middle < high:
            middle = 0.5 * (low + high)
        value = falling(middle)
        if value == 0.0 or high - low <= 4e-16 * high:
            return middle
        if value > 0:
            low, at_low = middle, value
            at_high *= 0.5
        else:
            high, at_high = middle, value
            at_low *= 0.5
    return 0.5 * (low + high)


# -- gamma -------------------------------------------------------------------------------


def gamma_tail(shape: float, x: float) -> float:
    """Return the regularized upper incomplete gamma function Q(shape, x), 0 to 1; shape > 0.

    It is P(X > x) of a gamma distribution with this shape and scale 1. By its series below
    shape + 1, by its continued fraction above (Numerical Recipes, 6.2).
    """
    if x <= 0.0:
        return 1.0
    front = math.exp(shape * math.log(x) - x - math.lgamma(shape))
    if x < shape + 1.0:
        term = total = 1.0 / shape
        for n in range(1, _MAX_STEPS):
            term *= x / (shape + n)
            total += term
            if term < total * 1e-16:
                break
        return max(0.0, 1.0 - front * total)
    b = x + 1.0 - shape
    c, d = 1.0 / _TINY, 1.0 / b
    fraction = d
    for n in range(1, _MAX_STEPS):
        a = -n * (n - shape)
        b += 2.0
        d = 1.0 / (a * d + b or _TINY)
        c = b + a / c or _TINY
        fraction *= c * d
        if abs(c * d - 1.0) < 1e-15:
            break
    return front * fraction


def chi_square_tail(square: float, freedom: int) -> float:
    """Return P(X >= square) of a chi-square distribution with `freedom` >= 1 degrees of freedom."""
    return gamma_tail(freedom / 2.0, square / 2.0)


@lru_cache(maxsize=1024)
def chi_square_quantile(freedom: int, p: float) -> float:
    """Return x with P(X <= x) = p, 0 <= p < 1, of a chi-square distribution."""
    if p <= 0:
        return 0.0
    return _solve(lambda x: chi_square_tail(x, freedom) - (1.0 - p))
