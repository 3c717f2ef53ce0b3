"""Are the steps of a series what they are said to be, and the looks at its newest value?

Stationary series of 100 values of six noises: how many have a step. A step at value 60: how often
it is found, and after how many values. The coverage of the intervals. Looks at stationary series:
how many have any alarm. BW_CALIBRATION=full has more series, and the peers beside; BW_TCPD is a
folder with the Turing Change Point Dataset. Fixed seeds.
"""

from __future__ import annotations

import math
import os

import numpy as np
import pytest

from benchwright.features.history.newest import NewestLook, newest_answers
from benchwright.features.history.types import HistoryPoint
from benchwright.stats.steps import LevelVerdict, find_steps, may_step, newest_verdicts
from change_scores import (
    Detector,
    all_series,
    no_change,
    ours,
    ours_on_logarithms,
    own_series,
    peers,
    scores,
)
from populations import at_least, at_most
from step_noises import CALIBRATED, SEED, Array, Noise, alarms, autoregressive, drawn, normal

FULL = os.environ.get("BW_CALIBRATION") == "full"
SERIES = 1000 if FULL else 200
LENGTH, STEP_AT = 100, 60
LEVEL = 0.05
LOOKS = 1000 if FULL else 300
WATCHED = 400 if FULL else 40


by_name = pytest.mark.parametrize("noise", CALIBRATED, ids=lambda noise: noise.name)


def stepped(noise: Noise, sdevs: float, series: int, length: int = LENGTH) -> Array:
    """Return series with a step of so many standard deviations of the noise."""
    values = drawn(noise, series, length)
    values[:, STEP_AT:] += sdevs * drawn(noise, 2000).std()
    return values


def near(changes: list[int]) -> bool:
    return any(abs(at - STEP_AT) <= 2 for at in changes)


# -- steps of a whole series ------------------------------------------------------------------


@pytest.mark.timeout(900)
@by_name
def test_a_stationary_series_rarely_has_a_step(noise: Noise) -> None:
    series = drawn(noise, SERIES)
    for name, detector in (peers() if FULL else {"ours": ours}).items():
        found = detector(list(series if name == "ours" else np.exp(series[:100])))
        hits = sum(bool(one) for one in found)
        points = sum(map(len, found)) / len(found)
        print(f"{noise.name}, {name}: {hits / len(found):.1%}, {points:.2f} a series")
        if name == "ours":
            assert at_most(hits, len(found), LEVEL)


@pytest.mark.parametrize("n", [10, 20, 50, 200, 500])
@pytest.mark.skipif(not FULL, reason="in the full form")
@pytest.mark.timeout(900)
@by_name
def test_other_lengths_keep_the_level(noise: Noise, n: int) -> None:
    series = drawn(noise, 2000 if n < 200 else 400, n)
    hits = sum(bool(one) for one in ours(list(series)))
    print(f"{noise.name}, {n} values: {hits / len(series):.1%}")
    assert at_most(hits, len(series), LEVEL)


@pytest.mark.parametrize(("sdevs", "rate"), [(1.0, 0.0), (1.5, 0.0), (2.0, 0.85), (3.0, 0.97)])
@pytest.mark.timeout(900)
@by_name
def test_a_step_is_found_within_two_values(noise: Noise, sdevs: float, rate: float) -> None:
    if not FULL and (noise is not normal or not rate):
        pytest.skip("in the full form")
    series = stepped(noise, sdevs, SERIES // 2 if FULL else SERIES)
    for name, detector in (peers() if FULL else {"ours": ours}).items():
        found = detector(list(series if name == "ours" else np.exp(series[:60])))
        hits = sum(near(one) for one in found)
        more = sum(len(one) > 1 for one in found)
        print(
            f"{noise.name}, {sdevs} sd, {name}: {hits / len(found):.1%},"
            f" more than one {more / len(found):.1%}"
        )
        if name == "ours" and noise is normal:
            assert at_least(hits, len(found), rate)


@pytest.mark.timeout(900)
@pytest.mark.parametrize(("sdevs", "most"), [(2.0, 5), (3.0, 3)])
@by_name
def test_a_step_is_found_soon(noise: Noise, sdevs: float, most: int) -> None:
    if not FULL and noise is not normal:
        pytest.skip("in the full form")
    series = stepped(noise, sdevs, 200 if FULL else 40)
    beside = FULL and noise is normal
    for name, detector in (peers() if beside else {"ours": ours}).items():
        delays = _delays(detector, series if name == "ours" else np.exp(series[:20]))
        median, slow = np.quantile(delays, [0.5, 0.9])
        print(f"{noise.name}, {sdevs} sd, {name}: delay {median:g}, p90 {slow:g} values")
        if name == "ours" and noise is normal:
            assert median <= most


def _delays(detector: Detector, series: Array) -> Array:
    """Return after how many values of the new level each step is found first; 40 for never."""
    delays = np.full(len(series), 40)
    for end in range(STEP_AT + 1, LENGTH + 1):
        left = np.flatnonzero(delays == 40)
        found = detector([series[at, :end] for at in left])
        for at, changes in zip(left, found, strict=True):
            if near(changes):
                delays[at] = end - STEP_AT
    return np.asarray(delays, dtype=np.float64)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("sdevs", [1.5, 2.0, 3.0])
@by_name
def test_the_intervals_hold_the_step(noise: Noise, sdevs: float) -> None:
    if not FULL and (noise is not normal or sdevs != 2):
        pytest.skip("in the full form")
    change = sdevs * drawn(noise, 2000).std()
    found = [find_steps(one) for one in stepped(noise, sdevs, SERIES // 2)]
    steps = [fit.steps[0] for fit in found if len(fit.steps) == 1]
    places = sum(step.first <= STEP_AT <= step.last for step in steps)
    sizes = sum(step.low <= change <= step.high for step in steps)
    width = np.mean([step.last - step.first + 1 for step in steps])
    print(
        f"{noise.name}, {sdevs} sd: place {places / len(steps):.1%} ({width:.1f} values),"
        f" size {sizes / len(steps):.1%}, of {len(steps)}"
    )
    if noise is normal:
        # Of the steps that were found: those that look too large are found more often.
        assert at_least(places, len(steps), 0.93)
        assert at_least(sizes, len(steps), 0.93)


# -- slopes -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("step", "slope", "sdev", "held", "named"),
    [
        (0.05, 1.0, 0.01, 0.85, 0.9),
        (0.15, -1.0, 0.01, 0.9, 0.95),
        (0.15, -0.5, 0.01, 0.9, 0.95),
        (0.15, 0.25, 0.01, 0.8, 0.85),
        (0.15, 1.0, 0.03, 0.8, 0.9),
        (0.5, 0.5, 0.03, 0.9, 0.95),
        (0.5, 1.0, 0.03, 0.9, 0.95),
    ],
)
def test_a_step_on_a_slope_has_its_own_size(
    step: float, slope: float, sdev: float, held: float, named: float
) -> None:
    """A slope of so many steps over the whole series."""
    size = math.log1p(step)
    base = size * (np.arange(LENGTH) >= STEP_AT) + slope * size * np.linspace(0, 1, LENGTH)
    series = base + drawn(normal, SERIES // 2) * sdev / 0.05
    fits = [find_steps(one, logarithms=True) for one in series]
    steps = [fit.steps[0] for fit in fits if near([one.index for one in fit.steps[:1]])]
    inside = sum(one.low <= size <= one.high for one in steps)
    wrong = np.median([abs(one.change / size - 1) for one in steps])
    slopes = sum(any(one.kind == "drift" for one in fit.patterns) for fit in fits)
    print(
        f"step {step:.0%}, slope {slope:g}, noise {sdev:.0%}: {len(steps)} of {len(fits)} found, wrong by"
        f" {wrong:.1%}, interval {inside / len(steps):.1%}, slope {slopes / len(fits):.1%}"
    )
    assert at_least(len(steps), len(fits), 0.97)
    assert at_least(inside, len(steps), held)
    assert at_least(slopes, len(fits), named)


@pytest.mark.parametrize(("sdevs", "phi"), [(8.0, 0.0), (16.0, 0.6), (32.0, 0.6)])
def test_a_slope_alone_has_no_step(sdevs: float, phi: float) -> None:
    noise = autoregressive(phi) if phi else normal
    slope = sdevs * drawn(noise, 2000).std() * np.linspace(0, 1, LENGTH)
    hits = sum(bool(one) for one in ours(list(slope + drawn(noise, SERIES))))
    print(f"slope of {sdevs:g} sd, {noise.name}: {hits / SERIES:.1%}")
    assert at_most(hits, SERIES, 0.01)


@pytest.mark.skipif(not FULL, reason="in the full form")
@pytest.mark.timeout(900)
@pytest.mark.parametrize("share", [0.5, 1.0, 2.0])
def test_known_standard_errors_keep_the_level(share: float) -> None:
    """A third of the values has an error of its own of so many deviations of the rest."""
    rng = np.random.default_rng(SEED)
    errors = 0.05 * share * (rng.random((SERIES, LENGTH)) < 1 / 3)
    series = drawn(normal, SERIES) + errors * rng.standard_normal(errors.shape)
    hits = sum(
        bool(find_steps(one, standard_errors=e).steps)
        for one, e in zip(series, errors, strict=True)
    )
    print(f"errors of {share} deviations: {hits / SERIES:.1%}")
    assert at_most(hits, SERIES, LEVEL)


# -- looks at the newest value ----------------------------------------------------------------


@pytest.mark.timeout(900)
@by_name
def test_years_of_looks_rarely_raise_an_alarm(noise: Noise) -> None:
    if not FULL and noise.name not in ("spikes", "AR(1) 0.6"):
        pytest.skip("in the full form")
    found = alarms(drawn(noise, WATCHED, LOOKS), logarithms=False)
    hits = int(found.any(axis=0).sum())
    print(f"{noise.name}: {hits / WATCHED:.1%} of series in {LOOKS} looks")
    assert at_most(hits, WATCHED, LEVEL)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("sdevs", [2.0, 3.0])
@by_name
def test_a_look_differs_soon_after_a_step(noise: Noise, sdevs: float) -> None:
    if not FULL and noise is not normal:
        pytest.skip("in the full form")
    series = stepped(noise, sdevs, 400 if FULL else 100)
    delays = np.full(len(series), 40.0)
    for end in range(STEP_AT + 1, LENGTH + 1):
        verdicts = newest_verdicts(list(series[:, :end]), level_starts=[0] * len(series))
        differs = np.array([verdict.state == "differs" for verdict in verdicts])
        delays[differs & (delays == 40)] = end - STEP_AT
    median, slow = np.quantile(delays, [0.5, 0.9])
    print(f"{noise.name}, {sdevs} sd: delay {median:g}, p90 {slow:g} looks")
    if noise is normal:
        assert median <= (9 if sdevs == 2 else 5)


# -- a gate on the steps that nobody accepted -------------------------------------------------


heavy = Noise("heavy", lambda rng, shape: 0.05 * rng.standard_t(4, shape) / math.sqrt(2))
"""Student's t with 4 degrees of freedom, scaled to a deviation of 5 %."""
POINT = HistoryPoint(run="r", study="s", session=1, started_ns=0, estimate=1.0, trials=1, unit="s")


def _open_ratio(values: Array, verdict: LevelVerdict) -> float:
    """Return the present level / the level before the open step of a series alone; 1 without one."""
    if not may_step(values[None])[0]:
        return 1.0
    look = NewestLook(
        newest=POINT,
        values=values,
        errors=np.full_like(values, math.nan),
        verdict=verdict,
        runs=values.size,
        offset=0,
    )
    (answer,) = newest_answers([look], LEVEL)
    return 1.0 if answer.open_step is None else answer.open_step.ratio.value


@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    ("noise", "sdev", "most"),
    [
        (normal, 0.01, 0.0),
        (normal, 0.03, 0.05),
        (heavy, 0.03, 0.08),
        (autoregressive(0.3), 0.03, 0.11),
    ],
)
def test_a_gate_rarely_fails_for_a_step_of_a_stationary_series(
    noise: Noise, sdev: float, most: float
) -> None:
    """A gate of 5 % at each of 100 runs."""
    series = drawn(noise, 300 if FULL else 20) * sdev / 0.05
    left = set(range(len(series)))
    starts, befores = [0] * len(series), [0] * len(series)
    for end in range(1, LENGTH + 1):
        verdicts = newest_verdicts(list(series[:, :end]), level_starts=starts, befores=befores)
        starts = [one.level_start for one in verdicts]
        befores = [one.before for one in verdicts]
        left -= {at for at in left if _open_ratio(series[at, :end], verdicts[at]) > 1.05}
    hits = len(series) - len(left)
    print(f"{noise.name}, {sdev:.0%}: {hits / len(series):.1%} of series")
    assert at_most(hits, len(series), most)


@pytest.mark.timeout(900)
@by_name
def test_the_interval_of_several_steps_holds_their_sum(noise: Noise) -> None:
    """Two steps of 4 and 3 standard deviations, each after 20 values, from the first level to the
    last."""
    if not FULL and noise is not normal:
        pytest.skip("in the full form")
    sdev = drawn(noise, 2000).std()
    levels = np.repeat([0.0, 4 * sdev, 7 * sdev], 20)
    fits = [find_steps(levels + one) for one in drawn(noise, SERIES, 60)]
    found = [fit.change_since(0) for fit in fits if len(fit.steps) == 2]
    held = sum(low <= 7 * sdev <= high for _, low, high in found)
    print(f"{noise.name}: {held / len(found):.1%} of {len(found)}")
    if noise is normal:
        assert at_least(held, len(found), 0.93)


# -- annotated series -------------------------------------------------------------------------


def test_annotated_series_are_divided_as_by_people() -> None:
    f1, cover = scores(own_series(), ours)
    nothing, _ = scores(own_series(), no_change)
    print(f"six series: F1 {f1:.3f}, cover {cover:.3f}; no change: F1 {nothing:.3f}")
    assert f1 >= 0.9
    assert cover >= 0.85


@pytest.mark.skipif("BW_TCPD" not in os.environ, reason="BW_TCPD is not set")
def test_the_turing_change_point_dataset() -> None:
    series = all_series()
    others = {"ours, logarithms": ours_on_logarithms, "no change": no_change}
    found = {name: scores(series, detector) for name, detector in (peers() | others).items()}
    print(f"{len(series)} series")
    for name, (f1, cover) in found.items():
        print(f"{name}: F1 {f1:.3f}, cover {cover:.3f}")
    assert found["ours"][0] >= 0.744
    assert found["ours"][1] >= 0.68


def test_the_scores_are_those_of_the_benchmark() -> None:
    """Examples of TCPDBench's metrics."""
    from change_scores import covering, f1

    assert f1([[10, 20], [11, 20], [10], [0, 5]], [10, 20]) == pytest.approx(1.0)
    assert f1([[], [10], [50]], [10]) == pytest.approx(0.9090909090909091)
    assert covering([[10, 20], [10], [0, 5]], [10, 20], 45) == pytest.approx(0.7962962962962963)
