"""Percentiles of response times where operations fail: every output has the value that counting
gives."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchwright.features.load import criteria
from benchwright.features.load.engine import aplog_text, load_metrics
from benchwright.features.load.engine_values import counts_of, load_values
from benchwright.features.load.limits import judged
from benchwright.features.load.report import LoadReport
from benchwright.features.load.response_times import chain_times, host_times, kind_times
from benchwright.features.load.types import EngineResult, HostResult, SequenceResult
from benchwright.features.load.view import load_text
from hdr_text import bucket, encode

GOLDEN = Path(__file__).parents[1] / "golden" / "load" / "result.json"
SHARES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p99_9": 0.999, "p99_99": 0.9999}
UNITS = {"ns": 1.0, "us": 1e3, "ms": 1e6, "s": 1e9}

responses = st.lists(st.integers(1_000, 10_000_000), min_size=1, max_size=300)
failures = st.integers(0, 300)


def counted(values: list[int], missing: int, share: float) -> int | None:
    """Return a percentile by counting the operations, those without a response at infinity."""
    whole = np.sort(np.append(np.array(values, dtype=float), np.full(missing, np.inf)))
    found = whole[max(1, math.ceil(round(share * whole.size, 6))) - 1]
    return None if np.isinf(found) else min(bucket(int(found), 3)[2], max(values))


def times(values: list[int]) -> dict[str, Any]:
    """Return the summary of the times of successes, as the engine writes it."""
    found = {name.replace("_", "."): counted(values, 0, at) for name, at in SHARES.items()}
    ends = {"min": min(values), "max": max(values), "mean": float(np.mean(values))}
    return {"count": len(values), "hdr": encode(values, 3), **ends, **found}


def loaded(values: list[int], errors: int, unfinished: int = 0) -> EngineResult:
    """Return the result of a load of one kind and one label."""
    found = json.loads(GOLDEN.read_bytes())
    ended = len(values) + errors
    kind = {
        **found["kinds"]["all"],
        "operations": ended,
        "errors": {"EIO": errors} if errors else {},
        "response_ns": times(values),
        "service_ns": times(values),
    }
    counts = {
        **dict.fromkeys(found["counts"], 0),
        "intended": ended + unfinished,
        "issued": ended + unfinished,
        "completed": ended,
        "errors": errors,
        "unfinished": unfinished,
    }
    parts = {"kinds": {"read": kind, "all": kind}, "labels": {"one": kind}}
    return msgspec.convert({**found, "counts": counts, **parts}, EngineResult)


def shown(line: str, unit_ns: float, first: int) -> list[float | None]:
    """Return p50 to p99.99 of a line of a table [ns], from a column on; None: unknown."""
    cells = line.replace("> ", ">").split()[first : first + len(SHARES)]
    return [
        None
        if one == "-" or one.startswith(">")
        else float(one.rstrip("~").replace(",", "")) * unit_ns
        for one in cells
    ]


def near(found: list[float | None], expected: list[int | None], unit_ns: float) -> bool:
    """Return whether shown times are the expected ones, as far as a table with few digits tells."""
    return [None if one is None else True for one in expected] == [
        None
        if value is None
        else one is not None and abs(value - one) <= 0.05 * one + 0.006 * unit_ns
        for value, one in zip(found, expected, strict=True)
    ]


@given(responses, failures, failures)
def test_every_output_has_the_percentile_that_counting_gives(
    values: list[int], errors: int, unfinished: int
) -> None:
    result, missing = loaded(values, errors, unfinished), errors + unfinished
    expected = [counted(values, missing, share) for share in SHARES.values()]
    metrics = load_metrics(result)
    assert [metrics.get(f"response_ns_{name}") for name in SHARES] == expected
    of_kind = [metrics.get(f"read_response_ns_{name}") for name in ("p50", "p99")]
    assert of_kind == [expected[0], expected[2]]
    stored = dict(re.findall(r"^(\S+) = (\S+)$", aplog_text(result, ()), re.MULTILINE))
    assert [
        float(stored[f"response_ns_{name}"]) if value is not None else None
        for name, value in zip(SHARES, expected, strict=True)
    ] == expected
    of_label = kind_times(result, result.labels["one"])
    assert [getattr(of_label, name) for name in SHARES] == expected
    assert of_label.mean == result.all.response_ns.mean

    lines = load_text(result, (), LoadReport(target="T", open_loop=True)).splitlines()
    head = next(n for n, line in enumerate(lines) if "time in" in line)
    unit_ns = UNITS[lines[head].split()[3]]
    assert near(shown(lines[head + 1], unit_ns, 4), expected, unit_ns)
    head = next(n for n, line in enumerate(lines) if line.startswith("label"))
    unit_ns = UNITS[lines[head].split()[4]]
    assert near(shown(lines[head + 1], unit_ns, 4), expected, unit_ns)


@given(responses, failures)
@pytest.mark.parametrize("of", ["", " of one"])
def test_limits_and_criteria_have_the_same_percentiles(
    of: str, values: list[int], errors: int
) -> None:
    result = loaded(values, errors)
    for share in SHARES.values():
        expected = counted(values, errors, share)
        limit = criteria.parse_limit(f"p{100 * share:.10g} < 20s{of}")
        (verdict,) = judged([limit], result)
        in_ms = None if expected is None else pytest.approx(expected / 1e6)
        assert verdict.value == in_ms
        key = limit.criterion.key
        groups = filter(None, [limit.criterion.of])
        tally = counts_of(result, lasted_s=1.0, patience_s=1.0, groups=groups)
        value = load_values(tally, [limit.criterion])[key]
        assert value == (math.inf if expected is None else in_ms)


@given(responses, failures, failures)
def test_chains_and_hosts_have_the_same_rule(
    values: list[int], errors: int, unfinished: int
) -> None:
    result = loaded(values, errors, unfinished)
    chain = SequenceResult(
        started=result.counts.intended,
        completed=len(values),
        errors=errors,
        unfinished=unfinished,
        operations=len(values),
        response_ns=result.all.response_ns,
    )
    host = HostResult(host="a", counts=result.counts, all=result.all)
    for name, share in SHARES.items():
        expected = counted(values, errors + unfinished, share)
        assert getattr(chain_times(chain), name) == expected
        assert getattr(host_times(host), name) == expected


def test_the_median_of_all_is_not_that_of_the_successes() -> None:
    values = [1_000 * one for one in range(1, 1_220)]
    median = load_metrics(loaded(values, errors=781))["response_ns_p50"]
    assert median == bucket(1_000_000, 3)[2]
    assert "response_ns_p90" not in load_metrics(loaded(values, errors=781))
