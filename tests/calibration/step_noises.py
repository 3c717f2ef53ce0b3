"""Noises of histories: logarithms of the values of runs, as `bw history` has them, with fixed
seeds.

The six `CALIBRATED` are those on which the thresholds of steps were set. The others are a grid:
what runs of benchmarks have beside noise, each at several sizes. All are stationary but those of
`CHANGING`, of which neither the level nor the noise is.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import msgspec
import numpy as np
import numpy.typing as npt

from benchwright.stats.steps import newest_verdicts

Array = npt.NDArray[np.float64]
Shape = tuple[int, int]
SEED = 20_261_123


class Noise(msgspec.Struct, frozen=True):
    """A named way to draw series without a step, shape `(series, values)`."""

    name: str
    draw: Callable[[np.random.Generator, Shape], Array]


def drawn(noise: Noise, series: int, length: int = 100, seed: int = SEED) -> Array:
    """Return series; the name of the noise is part of the seed."""
    rng = np.random.default_rng([seed, *noise.name.encode()])
    return noise.draw(rng, (series, length))


def alarms(series: Array, *, logarithms: bool = True) -> npt.NDArray[np.bool_]:
    """Return of each look at each series whether it is an alarm, shape `(looks, series)`: the
    verdict `differs`."""
    count, looks = series.shape
    starts, befores = [0] * count, [0] * count
    found = np.zeros((looks, count), dtype=np.bool_)
    for end in range(1, looks + 1):
        verdicts = newest_verdicts(
            list(series[:, :end]), level_starts=starts, befores=befores, logarithms=logarithms
        )
        found[end - 1] = [one.state == "differs" for one in verdicts]
        starts = [one.level_start for one in verdicts]
        befores = [one.before for one in verdicts]
    return found


# -- those of the thresholds ------------------------------------------------------------------


def _correlated(rng: np.random.Generator, shape: Shape, rho: float) -> Array:
    values: Array = rng.standard_normal(shape)
    for at in range(1, shape[1]):
        values[:, at] *= math.sqrt(1 - rho * rho)
        values[:, at] += rho * values[:, at - 1]
    return values


def _spikes(rng: np.random.Generator, shape: Shape) -> Array:
    rare = (rng.random(shape) < 0.02) * rng.uniform(0.15, 0.45, shape)
    return np.log1p(0.02 * rng.standard_normal(shape)) + np.log1p(rare)


def _bimodal(rng: np.random.Generator, shape: Shape) -> Array:
    slow: Array = 0.1 * (rng.random(shape) < 0.15)
    return np.log1p(0.02 * rng.standard_normal(shape)) + np.log1p(slow)


def autoregressive(rho: float) -> Noise:
    """Normal times, CV 5 %, with this correlation of neighbours."""
    return Noise(f"AR(1) {rho}", lambda rng, shape: np.log1p(0.05 * _correlated(rng, shape, rho)))


normal = Noise("normal", lambda rng, shape: np.log1p(0.05 * rng.standard_normal(shape)))
"""CV 5 %."""
lognormal = Noise("lognormal", lambda rng, shape: 0.3 * rng.standard_normal(shape))
"""CV 30 %."""
spikes = Noise("spikes", _spikes)
"""CV 2 %; 2 % of the values are 15 to 45 % longer."""
bimodal = Noise("bimodal", _bimodal)
"""CV 2 %; 15 % of the values are 10 % longer."""
CALIBRATED = (normal, lognormal, spikes, bimodal, autoregressive(0.3), autoregressive(0.6))

# -- the grid ---------------------------------------------------------------------------------

SHARES = (0.05, 0.1, 0.15, 0.2, 0.3, 0.5)
DISTANCES = (3, 5, 8, 15, 30)


def modes(share: float, distance: float) -> Noise:
    """Two modes, so many standard deviations of 1 % apart; the upper one has this share."""
    return Noise(
        f"modes {share} x {distance} sd",
        lambda rng, shape: (
            0.01 * rng.standard_normal(shape) + 0.01 * distance * (rng.random(shape) < share)
        ),
    )


def counts(low: int, share: float) -> Noise:
    """A whole number, and this share one more: a percentile in whole milliseconds."""
    return Noise(
        f"{low}, {share:.0%} are {low + 1}",
        lambda rng, shape: np.log(low + (rng.random(shape) < share)),
    )


def ticks(share: float) -> Noise:
    """Three ticks of 15.6 ms, and this share four: no digit shows the clock."""
    return Noise(
        f"3 ticks, {share:.0%} are 4",
        lambda rng, shape: np.log(15.6 * (3 + (rng.random(shape) < share))),
    )


def rounded(mean: float, sdev: float, step: float) -> Noise:
    """Normal values, rounded down to a step."""
    return Noise(
        f"{mean:g} ± {sdev:g} in steps of {step:g}",
        lambda rng, shape: np.log(
            step * np.floor((mean + sdev * rng.standard_normal(shape)) / step)
        ),
    )


def bursts(start: float, length: int, factor: float, *, fixed: bool = True) -> Noise:
    """CV 5 %; a burst begins with this probability at each value, lasts so many, or a geometric
    number with this mean, and multiplies them."""

    def draw(rng: np.random.Generator, shape: Shape) -> Array:
        values = 0.05 * rng.standard_normal(shape)
        before = 10 * length
        is_slow = np.zeros((shape[0], before + shape[1]), dtype=np.bool_)
        for row, at in np.argwhere(rng.random(is_slow.shape) < start):
            many = length if fixed else int(rng.geometric(1 / length))
            is_slow[row, at : at + many] = True
        return values + math.log(factor) * is_slow[:, before:]

    kind = f"{length} long" if fixed else f"{length} long on average"
    return Noise(f"bursts x {factor:g}, {kind}", draw)


def _garch(rng: np.random.Generator, shape: Shape) -> Array:
    values = rng.standard_normal((shape[0], shape[1] + 100))
    variance = np.ones(shape[0])
    for at in range(values.shape[1]):
        values[:, at] *= np.sqrt(variance)
        variance = 0.05 + 0.15 * values[:, at] ** 2 + 0.8 * variance
    return 0.03 * values[:, 100:]


def _ar_t3(rng: np.random.Generator, shape: Shape) -> Array:
    values = rng.standard_t(3, (shape[0], shape[1] + 20))
    for at in range(1, values.shape[1]):
        values[:, at] += 0.5 * values[:, at - 1]
    return 0.03 * values[:, 20:]


def _phases(rng: np.random.Generator, shape: Shape, period: int) -> Array:
    first = rng.integers(period, size=(shape[0], 1))
    return np.asarray((first + np.arange(shape[1])) % period, dtype=np.float64)


def _weekend(rng: np.random.Generator, shape: Shape) -> Array:
    return 0.06 * (_phases(rng, shape, 7) >= 5) + 0.02 * rng.standard_normal(shape)


def wave(period: int) -> Noise:
    """A sinusoid of 4 % with this period, noise 2 %."""
    return Noise(
        f"wave of {period}",
        lambda rng, shape: (
            0.04 * np.sin(2 * math.pi * _phases(rng, shape, period) / period)
            + 0.02 * rng.standard_normal(shape)
        ),
    )


def _machines(rng: np.random.Generator, shape: Shape) -> Array:
    return 0.04 * rng.integers(-1, 2, shape) + 0.01 * rng.standard_normal(shape)


def spread(share: float, factor: float) -> Noise:
    """CV 2 %, and this many times that in the last values, of this share."""

    def draw(rng: np.random.Generator, shape: Shape) -> Array:
        values = 0.02 * rng.standard_normal(shape)
        values[:, round(shape[1] * (1 - share)) :] *= factor
        return values

    return Noise(f"sd x {factor:g} in the last {share:.0%}", draw)


MODES = tuple(modes(share, distance) for share in SHARES for distance in DISTANCES)
QUANTISED = (
    *(counts(30, share) for share in (0.01, 0.03, 0.1, 0.5)),
    counts(1, 0.03),
    counts(1, 0.1),
    rounded(30.5, 0.6, 1),
    rounded(12.6, 0.5, 1),
    rounded(47, 3, 10),
    *(ticks(share) for share in (0.03, 0.1, 0.2, 0.5)),
    rounded(50, 5, 15.6),
)
HEAVY = (
    Noise("Pareto 2.5", lambda rng, shape: np.log1p(rng.pareto(2.5, shape))),
    Noise(
        "0.85 + Pareto 2.5", lambda rng, shape: np.log(0.85 + 0.15 * (1 + rng.pareto(2.5, shape)))
    ),
    Noise("t2", lambda rng, shape: 0.03 * rng.standard_t(2, shape)),
    Noise("AR(1) 0.5, t3", _ar_t3),
    Noise("GARCH(.15, .8)", _garch),
)
PERIODIC = (Noise("weekend + 6 %", _weekend), wave(7), wave(28), Noise("three machines", _machines))
SPREADS = (spread(0.5, 4), spread(0.5, 0.25), spread(0.2, 4))
BURSTS = (bursts(0.01, 5, 2), bursts(0.01, 5, 2, fixed=False))
GRID = (*MODES, *QUANTISED, *HEAVY, *PERIODIC, *SPREADS, *BURSTS)
