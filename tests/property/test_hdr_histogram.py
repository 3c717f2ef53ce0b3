"""HdrHistograms decoded: the engine's own figures, round trips, and nonsense."""

from __future__ import annotations

import base64
import contextlib
import json
import math
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchwright.features.load.response_times import HistogramError, decode_histogram
from hdr_text import LARGEST, bucket, encode, number

GOLDEN = Path(__file__).parents[1] / "golden" / "trace" / "stat.json"


@given(st.lists(st.integers(0, LARGEST), min_size=1, max_size=60), st.integers(1, 5), st.booleans())
def test_what_was_recorded_is_decoded(values: list[int], digits: int, deflated: bool) -> None:
    found = decode_histogram(encode(values, digits, deflated=deflated))
    expected: dict[tuple[int, int], int] = {}
    for value in sorted(values):
        _, low, high = bucket(value, digits)
        expected[low, high] = expected.get((low, high), 0) + 1
    pairs = zip(found.low.tolist(), found.high.tolist(), strict=True)
    assert dict(zip(pairs, found.count.tolist(), strict=True)) == expected
    assert found.total == len(values)
    assert found.shares()[-1] == 1.0
    ordered = sorted(values)
    for share in (0.0, 0.5, 0.9, 1.0):
        value = ordered[max(1, math.ceil(share * len(values))) - 1]
        assert found.quantile(share) == bucket(value, digits)[2]


@given(st.integers(1, 2**62 - 1))
def test_counts_of_every_length_are_decoded(count: int) -> None:
    payload = number(count)
    head = struct.pack(">iiiiqqd", 0x1C849313, len(payload), 0, 3, 1, LARGEST, 1.0)
    found = decode_histogram(base64.b64encode(head + payload).decode())
    assert (found.total, found.high.tolist()) == (count, [0])


def test_the_engines_percentiles_are_those_of_its_histogram() -> None:
    result = json.loads(GOLDEN.read_text())
    for times in (result["response_ns"], result["gaps"]["gap_ns"]):
        found = decode_histogram(times["hdr"])
        assert found.total == times["count"]
        for word, share in (("p50", 0.5), ("p90", 0.9), ("p99", 0.99)):
            value = found.quantile(share)
            assert value is not None
            # The engine knows the greatest exactly, the bucket only to a thousandth.
            assert min(value, times["max"]) == times[word]


def test_nothing_has_no_quantile() -> None:
    assert decode_histogram(encode([], 3)).quantile(0.5) is None


@given(st.binary(max_size=200))
def test_nonsense_is_refused_and_never_a_crash(data: bytes) -> None:
    for text in (base64.b64encode(data).decode(), data.decode("latin-1")):
        with contextlib.suppress(HistogramError):
            assert decode_histogram(text).total >= 0


@given(st.data())
def test_a_changed_byte_is_refused_or_decoded(data: st.DataObject) -> None:
    whole = bytearray(base64.b64decode(encode([1, 500, 10**9], 3, deflated=False)))
    place = data.draw(st.integers(0, len(whole) - 1))
    whole[place] = data.draw(st.integers(0, 255))
    with contextlib.suppress(HistogramError):
        found = decode_histogram(base64.b64encode(bytes(whole)).decode())
        assert found.low.size == found.high.size == found.count.size


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("HISTFAAAAA==", "7 of 40 bytes"),
        ("!", "base64"),
        (encode([5], 3)[:-8], "compressed bytes"),
        (encode([5, 10**9], 3, deflated=False)[:-4], "not all there"),
        (base64.b64encode(b"\x1c\x84\x93\x08" + bytes(40)).decode(), "cookie"),
    ],
)
def test_what_is_wrong_is_said(text: str, part: str) -> None:
    with pytest.raises(HistogramError, match=part):
        decode_histogram(text)
