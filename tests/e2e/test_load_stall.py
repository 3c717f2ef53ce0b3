"""A target that stands still for a second, in real time: what an open loop shows of it.

Nothing here depends on how fast the machine is. A constant rate r over a stall of S makes
r S arrivals that wait evenly 0 to S, and a slow machine only adds to that: so at
least 80 % of r S responses are over S / 10, and the longest is S but for one gap
between arrivals. (The same in virtual time: crates/bw-load/tests/simulation.rs.)
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from benchwright.load import read_samples

RATE = 1000
STALL_NS = 1_000_000_000
LOOPS = {
    "open": 'type = "open"\narrival = "constant"\nrate = "1k"',
    "closed": 'type = "closed"\nusers = 8\nthink = "1ms"',
}
WORKLOAD = """
[run]
duration = "3s"
depth = {depth}
[target]
to = "null"
stalls = [{{at = "1s", for = "1s"}}]
[[filament]]
{loop}
"""


def load(directory: Path, loop: str, depth: int) -> tuple[dict[str, Any], Any]:
    """Run a load over a stall; return its document and its rows."""
    text = WORKLOAD.format(loop=LOOPS[loop], depth=depth)
    (directory / "stall.toml").write_text(text)
    words = ("load", "stall.toml", "--samples", "rows", "--json")
    done = subprocess.run(
        [sys.executable, "-m", "benchwright.cli.main", *words],
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), read_samples(directory / "rows")


def response_ns(rows: NDArray[np.void]) -> NDArray[np.uint64]:
    """Return the response times `(n,)` [ns], counted from the intended start."""
    response: NDArray[np.uint64] = rows["completed"] - rows["intended"]
    return response


@pytest.mark.parametrize("depth", [2000, 16])
def test_an_open_loop_shows_the_stall_in_full(tmp_path: Path, depth: int) -> None:
    found, rows = load(tmp_path, "open", depth)
    response = response_ns(rows)
    assert len(rows) == 3 * RATE
    assert (response > STALL_NS // 10).sum() >= 0.8 * RATE
    assert response.max() >= STALL_NS - 50_000_000
    told = found["result"]["kinds"]["all"]["response_ns"]
    assert told["count"] == 3 * RATE
    assert told["max"] == response.max()
    # A third of the arrivals wait evenly 0 to 1 s: 10 % of all wait more than 0.7 s.
    assert told["p90"] >= 600_000_000


def test_arrivals_that_found_no_place_are_told(tmp_path: Path) -> None:
    found, _ = load(tmp_path, "open", 16)
    counts = found["result"]["counts"]
    # All but the 16 in flight, and those who came so late that the stall was over.
    assert counts["held"] >= 0.8 * RATE
    assert counts["dropped"] == counts["skipped"] == 0


def test_a_closed_loop_hides_it(tmp_path: Path) -> None:
    found, rows = load(tmp_path, "closed", 8)
    slow = (response_ns(rows) > STALL_NS // 10).sum()
    # Each of the eight users waits once for the end of the stall. A few more
    # are this machine's own, were it to stop for a tenth of a second now and then.
    assert 8 <= slow <= 8 * 4
    response = found["result"]["kinds"]["all"]["response_ns"]
    assert response["max"] >= STALL_NS - 100_000_000
    assert "closed-loop" in {finding["code"] for finding in found["findings"]}
