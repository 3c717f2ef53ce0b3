"""Whether long runs confirm a peak (benches/parts/long_runs.py)."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benches"))
from parts.long_runs import LongRun, confirmed

sys.path.pop(0)


def long(share: float, holds: bool | None) -> LongRun:
    """Return a long run."""
    return LongRun(share, 100 * share, holds, "")


@pytest.mark.parametrize(
    ("runs", "wanted"),
    [
        ([long(0.95, True), long(1.05, False)], True),
        ([long(0.95, True), long(1.05, False), long(0.95, False)], False),
        ([long(0.95, True), long(1.05, True)], False),
        ([long(0.95, True), long(1.05, None)], None),
        ([long(0.95, True)], None),
        ([], None),
    ],
)
def test_every_long_run_must_be_on_its_side(runs: list[LongRun], wanted: bool | None) -> None:
    assert confirmed(runs) is wanted
