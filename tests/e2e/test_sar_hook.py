"""examples/sar-hook.sh: what sar records stands beside a trial, and its recorder ends with it."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from bw_command import bw

HOOK = Path(__file__).parents[2] / "examples" / "sar-hook.sh"


@pytest.mark.skipif(not shutil.which("sadf"), reason="sysstat is not installed")
def test_the_figures_of_sar_stand_beside_a_trial(tmp_path: Path) -> None:
    done = bw(tmp_path, "run", "--json", "--runs", "1", "--hook", str(HOOK), "--", "sleep", "2.5")
    codes = {one["code"] for one in json.loads(done.stdout)["findings"]}
    assert "processes-left-running" not in codes, done.stderr
    (results,) = (tmp_path / "bw-study").glob("results/*/*.res")
    values = {
        name: float(value)
        for name, value in re.findall(r"^sar_(\w+) = (\S+)$", results.read_text(), re.MULTILINE)
    }
    shares = [value for name, value in values.items() if name.endswith("_percent")]
    assert len(shares) == 6, values
    assert sum(shares) == pytest.approx(100, abs=0.5), "all of the CPUs' time"
    assert values["cswch_per_s"] > 0
