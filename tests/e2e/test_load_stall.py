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
ALL = 2 * RATE
"""Arrivals of an open loop."""
LOOPS = {
    "open": 'type = "open"\narrival = "constant"\nrate = "1k"',
    "closed": 'type = "closed"\nusers = 8\nthink = "1ms"',
}
WORKLOAD = """
[run]
duration = "2s"
depth = {depth}
[target]
to = "null"
stalls = [{{at = "500ms", for = "1s"}}]
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


@pytest.fixture(scope="module")
def few_places(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], Any]:
    """The document and the rows of an open loop with room for 16 operations."""
    return load(tmp_path_factory.mktemp("few"), "open", 16)


def test_an_open_loop_shows_the_stall_in_full(tmp_path: Path) -> None:
    shown_in_full(*load(tmp_path, "open", 2000))


def test_so_it_does_without_room_for_all(few_places: tuple[dict[str, Any], Any]) -> None:
    shown_in_full(*few_places)


def shown_in_full(found: dict[str, Any], rows: Any) -> None:
    """Assert that a load's rows and document show the stall."""
    response = response_ns(rows)
    assert len(rows) == ALL
    assert (response > STALL_NS // 10).sum() >= 0.8 * RATE
    assert response.max() >= STALL_NS - 50_000_000
    told = found["result"]["kinds"]["all"]["response_ns"]
    assert told["count"] == ALL
    assert told["max"] == response.max()
    # Half of the arrivals wait evenly 0 to 1 s: 10 % of all wait more than 0.8 s.
    assert told["p90"] >= 700_000_000


def test_arrivals_that_found_no_place_are_told(few_places: tuple[dict[str, Any], Any]) -> None:
    counts = few_places[0]["result"]["counts"]
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
