"""benches/workload_fidelity.py: what is stored is read again, and figure 6 is drawn of it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benches"))
import workload_fidelity as bench

sys.path.pop(0)

PUBLISHED = Path(__file__).parents[2] / "docs" / "images" / "data" / "pacers.csv"


def runs(**fields: object) -> list[bench.Run]:
    """Return the published runs of one trace behind its device."""
    of = [run for run in bench.stored(PUBLISHED) if run[:3] == ("memory", "cloudphysics", 4)]
    return [run._replace(**fields) for run in of]


def test_what_is_stored_is_read_again(tmp_path: Path) -> None:
    off_us = tuple(float(n) for n in range(len(bench.SHARES)))
    made = runs(off_us=off_us)
    assert made
    bench.store(made, tmp_path / "pacers.csv")
    assert bench.stored(tmp_path / "pacers.csv") == made


def test_figure_6_is_the_median_of_the_rounds_at_each_share() -> None:
    made = [run._replace(off_us=(float(run.round),) * len(bench.SHARES)) for run in runs()]
    (panel,) = bench.error_sheet(made).panels
    assert [curve.label for curve in panel.curves] == list(bench.PACERS)
    assert all(set(curve.x) == {2000.0} for curve in panel.curves), "rounds 1, 2, 3 [us]"


def test_a_table_without_distances_says_so() -> None:
    made = runs(off_us=())
    with pytest.raises(SystemExit, match="measure again"):
        bench.error_sheet(made)
