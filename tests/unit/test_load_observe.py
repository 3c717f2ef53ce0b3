"""The numbers of a load by name: none that what never ended well would flatter."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchwright.features.load.engine import aplog_text, load_metrics
from benchwright.features.load.types import EngineResult

GOLDEN = Path(__file__).parents[1] / "golden" / "load" / "result.json"
PERCENTILES = ("p50", "p90", "p99", "p99_9", "p99_99")


def result(**counts: int) -> EngineResult:
    """Return the golden result, without its errors, with these counts."""
    found: dict[str, Any] = msgspec.json.decode(GOLDEN.read_bytes())
    found["counts"] |= {"errors": 0, **counts}
    for kind in found["kinds"].values():
        kind["errors"] = {}
    return msgspec.convert(found, EngineResult)


def told(found: EngineResult, prefix: str = "") -> list[str]:
    """Return which percentiles of response times are among the numbers."""
    names = load_metrics(found)
    return [p for p in PERCENTILES if f"{prefix}response_ns_{p}" in names]


@pytest.mark.parametrize("count", ["unfinished", "waiting", "dropped", "skipped"])
def test_a_percentile_is_told_up_to_the_share_that_ended(count: str) -> None:
    intended = result().counts.intended
    assert told(result(**{count: intended // 100})) == ["p50", "p90", "p99"]
    assert told(result(**{count: intended // 100 + 1})) == ["p50", "p90"]
    assert told(result(**{count: intended // 2 + 1})) == []


def test_a_kind_has_its_own_errors_and_all_that_never_ended() -> None:
    found = result(errors=200)
    kinds = dict(found.kinds)
    kinds["write"] = msgspec.structs.replace(kinds["write"], errors={"EIO": 200})
    found = msgspec.structs.replace(found, kinds=kinds)
    assert told(found, "read_") == ["p50", "p99"]
    assert told(found, "write_") == ["p50"]
    assert told(result(unfinished=200), "write_") == ["p50"]
    assert told(result(unfinished=200), "read_") == ["p50", "p99"]


def test_what_was_seen_is_told_whatever_did_not_end() -> None:
    names = load_metrics(result(unfinished=40_000))
    assert {"response_ns_mean", "response_ns_max", "service_ns_p99"} <= set(names)
    assert "response_ns_p99 " not in aplog_text(result(unfinished=40_000), ())


def test_known_to_is_the_share_that_ended_well() -> None:
    assert result().response_known_to() == 1
    assert result(unfinished=4999).response_known_to() == pytest.approx(0.9)
    assert result(intended=0).response_known_to() == 1


@given(missing=st.integers(0, 60_000), share=st.sampled_from([0.5, 0.1, 0.01, 0.001]))
def test_more_that_never_ended_is_never_more_known(missing: int, share: float) -> None:
    fewer, more = result(unfinished=missing), result(unfinished=missing + 1)
    assert fewer.response_known("all", share) or not more.response_known("all", share)
    assert fewer.response_known_to() > more.response_known_to()
