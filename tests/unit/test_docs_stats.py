"""docs/stats.md says what happens: its Python examples are run, its t-test is printed."""

from __future__ import annotations

import doctest
import json
import subprocess
import sys
from pathlib import Path

import numpy as np

import benchwright.stats
from benchwright.report.stats_document import compose_report
from benchwright.report.ttest import ttest_text
from benchwright.stats.input_comparison import compare_inputs

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "stats.md"


def test_the_examples_run() -> None:
    found = doctest.testfile(str(PAGE), module_relative=False, encoding="utf-8")
    assert found.failed == 0
    assert found.attempted > 25


def test_the_t_test_of_the_page_is_what_is_printed() -> None:
    data = json.loads((ROOT / "tests/golden/getstats/figures.json").read_text())
    inputs = [
        (name, {q.lower(): np.array(values) for q, values in quantities.items()})
        for name, quantities in data["figure3"].items()
    ]
    rows = {name: (name.title(), "s") for name in ("elapsed", "system")}
    text = ttest_text(compose_report([], comparisons=compare_inputs(inputs, rows)))
    elapsed, _system = text.split("\n\n")
    assert f"```\n{elapsed}\n```" in PAGE.read_text()


def test_the_api_is_complete_and_loads_nothing_until_it_is_used() -> None:
    for name in benchwright.stats.__all__:
        assert getattr(benchwright.stats, name).__name__ == name
    assert not hasattr(benchwright.stats, "nonsense")
    code = (
        "import sys, benchwright.stats as s; before = 'numpy' in sys.modules;"
        "s.Table; print(before, 'numpy' in sys.modules, 't_test' in dir(s))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.split() == ["False", "True", "True"]
