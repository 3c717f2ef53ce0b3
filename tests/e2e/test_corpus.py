"""benches/corpus.py records a short series, goes on where it was stopped, and reports what the
machine does not have."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from recorded import findings_of, population, read, trials_of

RECORDER = Path(__file__).parents[2] / "benches" / "corpus.py"
PATIENCE_S = 200.0
TRIALS = 40


def recorder(folder: Path, *words: str, **environment: str) -> str:
    """Run the recorder into a folder, and return what it printed."""
    places = ["--out", str(folder / "out"), "--to", str(folder / "to")]
    done = subprocess.run(
        [sys.executable, str(RECORDER), *places, "--machine", "here", *words],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: a priority, a cgroup")
@pytest.mark.skipif(shutil.which("gzip") is None, reason="gzip is not installed")
@pytest.mark.parametrize("condition", ["quiet", "neighbour"])
def test_a_series_is_recorded_once(tmp_path: Path, condition: str) -> None:
    words = ("--only", "gzip", "--condition", condition, "--trials", str(TRIALS))
    printed = recorder(tmp_path, *words)
    if condition == "quiet" and "Operation not permitted" in printed:
        pytest.skip(f"no real-time priority here: {printed}")
    assert "SKIPPED" not in printed
    (file,) = (tmp_path / "to").glob("*/*")
    assert file.relative_to(tmp_path / "to") == Path(f"here/gzip-{condition}.json.xz")
    series = read(file)
    assert len(series.elapsed_ns) == len(series.start_ns) == TRIALS
    assert series.command == "gzip -c text"
    assert series.facts["kernel.release"] == os.uname().release
    assert bool(series.around.neighbour_ns) == (condition == "neighbour")
    assert population(series).values.mean() == pytest.approx(1)
    codes = {finding.code for finding in findings_of(series, trials_of(series, 0, TRIALS))}
    assert "work-too-short-for-the-clock" in codes or min(series.elapsed_ns) > 20e6
    written = file.stat().st_mtime_ns
    assert recorder(tmp_path, *words) == ""
    # Another conversion of the same study gives the same series.
    recorder(tmp_path, *words, "--again")
    assert file.stat().st_mtime_ns > written
    assert read(file) == series


def test_a_program_that_is_absent_is_reported(tmp_path: Path) -> None:
    printed = recorder(tmp_path, "--only", "sqlite", "--condition", "neighbour", PATH=str(tmp_path))
    assert printed == "sqlite-neighbour: SKIPPED: sqlite3 is not installed\n"
    assert not (tmp_path / "to").exists()
