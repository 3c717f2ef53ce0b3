"""The user's words for load: what they mean, and what is said to those that mean nothing."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from benchwright.features.load import parse as words
from benchwright.features.load import request as r
from benchwright.features.load import workload as w


@pytest.mark.parametrize(
    ("text", "micro"),
    [
        ("10k", 10_000_000_000),
        ("10k/s", 10_000_000_000),
        ("2.5M/s", 2_500_000_000_000),
        ("600/min", 10_000_000),
        ("1/h", 278),
        ("100/min", 1_666_667),
        ("0.5", 500_000),
    ],
)
def test_rates(text: str, micro: int) -> None:
    assert words.rate_micro(text) == micro


def test_small_words() -> None:
    assert words.share_micro("70%") == words.share_micro("0.7") == 700_000
    assert words.share_micro("0%") == 0
    assert words.duration_ns("0") == 0
    assert words.count("10k") == 10_000
    assert words.parse_cpus("0-2,5") == (0, 1, 2, 5)
    assert words.parse_late("catch-up") == r.CatchUp()
    assert words.parse_late("skip:1ms") == r.Skip(10**6)
    assert words.parse_late("burst 10") == r.Burst(10)


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("4k", w.ConstantValue(4096)),
        ("constant 4k", w.ConstantValue(4096)),
        ("uniform 4k..64k", w.UniformValue(4096, 65536)),
        ("uniform 4k 64k", w.UniformValue(4096, 65536)),
        ("exponential 16k", w.Exponential(16384)),
        ("lognormal 16k 2", w.Lognormal(16384, 2_000_000)),
        ("lognormal 16k cv 0.5", w.Lognormal(16384, 500_000)),
        ("lognormal cv 0.5 mean 16k", w.Lognormal(16384, 500_000)),
        ("pareto 4k shape 1.5", w.Pareto(4096, 1_500_000)),
        ("weighted 4k:70% 64k:30%", w.Weighted(((4096, 70), (65536, 30)))),
    ],
)
def test_distributions(text: str, meaning: w.Distribution) -> None:
    assert words.size_distribution(text) == meaning


def test_arrivals_and_locations() -> None:
    assert words.parse_arrival("gamma:2") == w.GammaArrival(2_000_000)
    assert words.parse_arrival("on-off:1s:3s") == w.OnOffArrival(
        w.ConstantValue(10**9), w.ConstantValue(3 * 10**9)
    )
    assert words.parse_location("zipf 1.2 objects 1k") == w.ZipfLocation(1_200_000, 1000)
    assert words.parse_location("hot-cold:10%:90%") == w.HotColdLocation(100_000, 900_000)
    assert words.parse_location("strided:64k") == w.StridedLocation(65536)


@pytest.mark.parametrize(
    ("parse", "text", "part"),
    [
        (words.rate_micro, "fast", "not a rate"),
        (words.rate_micro, "0", "outside"),
        (words.rate_micro, "10K", "not a rate"),
        (words.rate_micro, "2000G", "outside"),
        (words.rate_micro, "0.0000015", "not a whole number of millionths"),
        (words.share_micro, "70", "did you mean 70%"),
        (words.share_micro, "170%", "more than 100 %"),
        (words.duration_ns, "5", "no unit of time"),
        (words.some, "0", "is zero"),
        (words.count, "1.5", "whole number"),
        (words.operation_bytes, "4G", "more than one operation"),
        (words.size_distribution, "uniform 64k..4k", "low is above high"),
        (words.size_distribution, "weighted", "needs values"),
        (words.size_distribution, "weighted 4k", "no weight"),
        (words.size_distribution, "lognormal 4k", "needs cv"),
        (words.size_distribution, "gaussian", "neither a value nor"),
        (words.size_distribution, "exponential 4k 2", "too much"),
        (words.parse_arrival, "poison", "no arrival process"),
        (words.parse_arrival, "constant 4", "takes nothing more"),
        (words.parse_arrival, "gamma cv", "takes cv"),
        (words.parse_location, "zipf", "zipf EXPONENT [objects]"),
        (words.parse_location, "", "no location"),
        (words.parse_late, "never", "no policy"),
        (words.parse_cpus, "3-1", "ends before"),
        (words.parse_cpus, "1,1", "twice"),
        (words.parse_cpus, "all", "list of CPUs"),
    ],
)
def test_what_means_nothing_is_told(parse: Callable[[str], Any], text: str, part: str) -> None:
    with pytest.raises(ValueError, match=re.escape(part)):
        parse(text)
