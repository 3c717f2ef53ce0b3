"""benches/live_agreement.py with few short comparisons: it runs, goes on where it was stopped, and
leaves nothing running.

The rates that it measures are statements about a machine, so no test makes any.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
from scipy.stats import binomtest

from benchwright.core.processes import all_processes
from benchwright.features.quiet import isolation
from benchwright.features.quiet.host import Host

sys.path.insert(0, str(Path(__file__).parents[2] / "benches"))
import live_agreement as bench

sys.path.pop(0)


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few blocks of a short command."""
    monkeypatch.setattr(bench, "WORK", 20_000)
    monkeypatch.setattr(bench, "WATCHED_BLOCKS", 12)
    monkeypatch.setattr(bench, "MOST_PLANNED", 21)


def children() -> set[str]:
    """Return the commands of this process's children."""
    return {one.name for one in all_processes(Path("/proc")) if one.parent == os.getpid()}


def test_it_goes_on_where_it_was_stopped(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "new" / "live.csv"
    words = ("--rounds", "1", "--only", "neighbours", "--out", str(out))
    bench.main(words)
    assert "| neighbours | watch |" in capsys.readouterr().out
    rows = bench.kept(out)
    null, slower, *_ = rows.values()
    assert null.turns == 20_000 < slower.turns
    assert slower.effect == pytest.approx(null.smallest_effect, rel=1e-4)
    # A machine that is too busy for a margin below 100 % has no planned comparison.
    has_plan = null.smallest_effect <= bench.LARGEST_MARGIN
    modes = ("watch", "plan") if has_plan else ("watch",)
    assert [(row.mode, row.effect > 0) for row in rows.values()] == [
        (mode, is_slower) for mode in modes for is_slower in (False, True)
    ]
    assert null.blocks in range(10, 13)
    assert children().isdisjoint({"awk", "mawk", "gawk", "dd"})

    text = out.read_text()
    out.write_text(text[: text.rindex(",")])
    bench.main(words)
    again = bench.kept(out)
    assert list(again) == list(rows)
    *before, last = rows.values()
    assert [*again.values()][:-1] == before
    assert again[last.place].began_s > last.began_s

    bench.main((*words, "--draw"))
    assert "interval excludes 1" in capsys.readouterr().out
    assert bench.kept(out) == again


def test_a_quota_is_that_of_bw_and_is_removed() -> None:
    tree = isolation.hierarchy(Host(), "cpu")
    if tree is None or not tree.enabled(Host()) or os.geteuid():
        pytest.skip("needs root and a CPU controller of cgroups")
    with bench.quota_group() as group:
        name = "cpu.max" if tree.version == 2 else "cpu.cfs_quota_us"
        assert (group / name).read_text().split()[0] == "60000"
    assert not group.exists()
    document, _ = bench.compared(
        ("--max-blocks", "10", "--", "true", "true"), random.Random(1), "quota"
    )
    assert document["blocks"] == 10


def test_neighbours_end_with_what_they_disturb(tmp_path: Path) -> None:
    with subprocess.Popen(["sleep", "1.5"], text=True) as process:
        bench.Neighbours(random.Random(3), tmp_path).disturb(process)
    assert children().isdisjoint({"awk", "mawk", "gawk", "dd"})
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("hits", "n"), [(0, 70), (3, 70), (35, 70), (70, 70)])
def test_an_exact_interval_is_that_of_clopper_and_pearson(hits: int, n: int) -> None:
    expected = binomtest(hits, n).proportion_ci(method="exact")
    assert bench.exact_interval(hits, n) == pytest.approx((expected.low, expected.high))


def test_a_file_of_something_else_is_left_alone(tmp_path: Path) -> None:
    out = tmp_path / "other.csv"
    out.write_text("a,b\n1,2\n")
    with pytest.raises(SystemExit, match="not a file of this bench"):
        bench.main(["--out", str(out)])
    assert out.read_text() == "a,b\n1,2\n"
