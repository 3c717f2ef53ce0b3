"""A seed makes the same operations whatever the number of workers.

The property itself is held by crates/bw-schedule/tests/split.rs; here the whole way,
from the words of the command to the rows on disk.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from benchwright.load import read_samples

MIX = """
[run]
duration = "500ms"
[target]
to = "null"
[[filament]]
type = "open"
arrival = "{arrival}"
rate = "4k"
read = "70%"
size = "uniform 4k..64k"
location = {{type = "zipf", exponent = 1.1}}
[[filament]]
type = "open"
arrival = "on-off 50ms 50ms"
rate = "2k"
location = "sequential"
read = "0%"
"""


def operations(directory: Path, workers: int, seed: int) -> list[tuple[int, ...]]:
    """Return intended start, stream, kind, offset and size of every operation, in order."""
    file = f"rows-{workers}-{seed}"
    words = ("--workers", str(workers), "--seed", str(seed), "--samples", file)
    done = subprocess.run(
        [sys.executable, "-m", "benchwright.cli.main", "load", "w.toml", *words],
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    rows = read_samples(directory / file)
    fields = ("intended", "stream", "kind", "offset", "size")
    return sorted(zip(*(rows[field].tolist() for field in fields), strict=True))


@pytest.mark.parametrize("arrival", ["constant", "poisson", "gamma 2"])
def test_splitting_over_workers_changes_nothing(tmp_path: Path, arrival: str) -> None:
    (tmp_path / "w.toml").write_text(MIX.format(arrival=arrival))
    one = operations(tmp_path, 1, 7)
    assert len(one) > 2000
    assert len({kind for _, _, kind, _, _ in one}) == 2
    assert operations(tmp_path, 2, 7) == one
    assert operations(tmp_path, 3, 7) == one
    assert operations(tmp_path, 2, 8) != one
