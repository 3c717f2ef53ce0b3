"""benches/level_components.py: a session that was cut has no row, so the next call resumes it."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benches"))
import level_components as bench

sys.path.pop(0)

BW = """#!/bin/sh
# Has figures of what there is, also of a session that was cut.
case $1 in
stats)
  echo input,user,system,elapsed,replicate
  for trial in 0.036,0.004,1 0.040,0.000,1 0.044,0.004,2 0.044,0.004,2; do
    echo "sort,${trial%,*},0.06,${trial##*,}"
  done ;;
run) mkdir -p "$3"; exit "$STATUS" ;;
resume) exit 0 ;;
esac
"""


def test_a_session_that_was_cut_is_resumed_and_only_then_a_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "bw"
    program.write_text(BW)
    program.chmod(0o755)
    monkeypatch.setattr(bench, "BW", program)
    monkeypatch.setenv("STATUS", "130")
    row = bench.Row(bench.PROGRAMS[1:2], "env")
    asked = argparse.Namespace(replicates=10, trials=8, metric="cpu", spread="8h")
    assert bench.measure(row, tmp_path, tmp_path, asked) == []
    (line,) = bench.measure(row, tmp_path, tmp_path, asked)
    assert (line["row"], line["program"]) == ("sort-env", "sort")
    assert line["outer"]["replicates"] == 2
    assert line["outer"]["spread"] == pytest.approx(0.129, rel=0.01), "40 and 48 ms"
    assert line["trial"]["spread"] == pytest.approx(0.0, abs=1e-9), "4 ms moved between the parts"
