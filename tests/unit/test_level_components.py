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
  echo '{"inputs": [{"answer": {"metric": "user", "test": "sort", "population": {"levels":
    [{"replicates": 2, "spread": 0.1}, {"spread": 0.2}]}}}]}' ;;
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
    asked = argparse.Namespace(replicates=10, trials=8, metric="user", spread="8h")
    assert bench.measure(row, tmp_path, tmp_path, asked) == []
    (line,) = bench.measure(row, tmp_path, tmp_path, asked)
    assert (line["row"], line["program"]) == ("sort-env", "sort")
