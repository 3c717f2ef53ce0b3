"""Every figure of the table agrees with scipy.stats to 1e-9 on the golden samples."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from benchwright.report.stats_document import InputSection, compose_report
from benchwright.stats.aggregate import summarise
from benchwright.stats.intervals import t_quantile
from benchwright.stats.sample import z_scores

SAMPLES = json.loads((Path(__file__).parent / "getstats" / "samples.json").read_text())


def close(value: float) -> object:
    return pytest.approx(value, rel=1e-9, abs=0)


def oracle(values: list[float]) -> tuple[np.ndarray, float]:
    """Return the values scaled exactly to near 1, because scipy itself overflows."""
    scale = math.ldexp(1.0, math.frexp(max(map(abs, values)))[1])
    return np.array(values) / scale, scale


@pytest.mark.parametrize("confidence", [0.8, 0.95, 0.99])
@pytest.mark.parametrize("name", list(SAMPLES))
def test_figures(name: str, confidence: float) -> None:
    values = SAMPLES[name]
    found = summarise(name, values, confidence=confidence)
    data, scale = oracle(values)
    n, sem = len(values), stats.sem(data)
    low, high = stats.t.interval(confidence, n - 1, loc=data.mean(), scale=sem)
    described = stats.describe(data)
    # An end of an interval may lie near 0: its error is relative to the mean's size.
    room = 1e-9 * max(abs(low), abs(high), float(np.abs(data).max())) * scale
    assert found.count == described.nobs
    assert found.mean == pytest.approx(described.mean * scale, rel=1e-9, abs=room)
    assert found.sdev == close(math.sqrt(described.variance) * scale)
    assert found.low == pytest.approx(low * scale, rel=1e-9, abs=room)
    assert found.high == pytest.approx(high * scale, rel=1e-9, abs=room)
    # Without the mean, whose digits (high - low) / 2 would cancel.
    half = stats.t.interval(confidence, n - 1, scale=sem)[1]
    assert found.half_width == close(half * scale)
    assert found.median == close(float(np.median(data)) * scale)
    assert (found.minimum, found.maximum) == (min(values), max(values))
    fitted = stats.linregress(np.arange(n), data).slope * scale
    assert found.slope == pytest.approx(fitted, rel=1e-9, abs=1e-3 * room)
    assert found.sum == pytest.approx(math.fsum(values), rel=1e-9)


@pytest.mark.parametrize("name", list(SAMPLES))
def test_z_scores(name: str) -> None:
    data, _ = oracle(SAMPLES[name])
    expected = np.abs(stats.zscore(data, ddof=1))
    assert z_scores(np.array(SAMPLES[name])) == pytest.approx(expected, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("degrees", [1, 2, 3, 9, 19, 99, 10_000])
@pytest.mark.parametrize("confidence", [0.5, 0.9, 0.95, 0.999])
def test_quantiles(degrees: int, confidence: float) -> None:
    assert t_quantile(confidence, degrees) == close(stats.t.ppf(0.5 + confidence / 2, degrees))


def test_percentages_of_the_mean_and_overheads() -> None:
    entries = [
        InputSection(name, (summarise("elapsed", SAMPLES[name]),)) for name in ("ties", "skewed")
    ]
    first, second = (section.lines[0] for section in compose_report(entries).sections)
    ties, skewed = np.array(SAMPLES["ties"]), np.array(SAMPLES["skewed"])
    assert first.sdev_percent == close(100 * stats.variation(ties, ddof=1))
    assert first.overhead_percent is None
    assert second.overhead_percent == close(100 * (skewed.mean() / ties.mean() - 1))
