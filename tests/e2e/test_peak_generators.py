"""`bw peak --command` with generators whose figures do not say, or contradict, what happened.

The server answers 300 operations a second in 5 ms, and refuses all others in 1 ms. The generator
is a function of rate and duration, so no time passes.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bw_command import bw_words

GEN = """
import json, random, sys, zlib
form, unit, rate, duration = sys.argv[1], *map(float, sys.argv[2:5])
chance = random.Random(zlib.crc32(repr(sys.argv).encode()))
sent = answered = 0
total_ms, rows = 0.0, []
for second in range(max(1, round(duration))):
    mean = unit * rate
    due = max(0, round(chance.gauss(mean, mean ** 0.5)))
    well = min(due, 300)
    counted = well if form == "out" else due
    spent = sum(chance.expovariate(1 / 5.0) for _ in range(well))
    spent += 0.0 if form == "out" else 1.0 * (due - well)
    rows.append([second, counted, spent / counted if counted else None])
    sent, answered, total_ms = sent + due, answered + well, total_ms + spent
counted = sum(row[1] for row in rows)
print(json.dumps({
    "mean": total_ms / max(counted, 1), "series": rows, "sent": sent,
    "failed": (sent - answered) / max(sent, 1), "late": 0.4, "started": total_ms / max(counted, 1),
}))
"""
EVERYTHING = (
    *("--errors", "/failed", "--offered", "/sent"),
    *("--late", "/late", "--target-response", "/started"),
)


def searched(directory: Path, form: str, *words: str, unit: float = 1.0) -> Any:
    """Return the document of a search."""
    (directory / "gen.py").write_text(GEN)
    gen = f"{sys.executable} gen.py {form} {unit} {{rate}} {{duration:int}}"
    asked = ("--command", gen, "--response", "/mean", "--series", "/series")
    goal = ("--limit", "40ms", "--claim", "rate:5%", "--seed", "5")
    bounds = ("--highest", "100k", "--max-trials", "40", "--json", "--quiet")
    done = subprocess.run(
        bw_words("peak", *asked, *goal, *bounds, "--study", "study", *words),
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode in (0, 3), done.stderr
    return json.loads(done.stdout)


def codes(document: Any) -> set[str]:
    return {one["code"] for one in document["findings"]}


@pytest.mark.parametrize("form", ["mean", "out"])
def test_refusals_that_are_reported_limit_the_answer(tmp_path: Path, form: str) -> None:
    found = searched(tmp_path, form, *EVERYTHING)
    assert found["peak_rate"] < 400
    assert [one["key"] for one in found["criteria"]] == ["response_ms_mean", "error_ratio"]
    assert not codes(found) & {
        *("lateness-unknown", "refusals-unseen", "operations-missing"),
        *("offered-differs", "counts-contradict"),
    }
    assert all(one["errors"] == 0 for one in found["trials"] if one["rate"] < 200)
    assert any(one["errors"] for one in found["trials"])


def test_refusals_that_a_series_leaves_out_are_not_held(tmp_path: Path) -> None:
    found = searched(tmp_path, "out")
    assert found["peak_rate"] < 400
    assert "operations-missing" in codes(found)
    assert "not the server" not in found["detail"], "it cannot be known"
    assert "generator-behind" not in codes(found)
    fast = [one for one in found["trials"] if one["rate"] > 500]
    assert fast
    assert all(one["offered"] == 300 * one["duration"] for one in fast)


def test_refusals_that_nothing_shows_leave_no_bound(tmp_path: Path) -> None:
    """A server that got quicker at a multiple of the first rate may have refused: no rate is known
    to be answered."""
    found = searched(tmp_path, "mean")
    assert found["status"] == "undecided"
    assert found["peak_rate"] is None
    assert {"refusals-unseen", "lateness-unknown"} <= codes(found)


def test_a_generator_that_offers_another_rate_is_found_out(tmp_path: Path) -> None:
    found = searched(tmp_path, "mean", "--max-trials", "8", unit=1.4)
    assert "offered-differs" in codes(found)
    (tmp_path / "exact").mkdir()
    exact = searched(tmp_path / "exact", "mean", "--max-trials", "8")
    assert "offered-differs" not in codes(exact)


QUEUE = """
import json, random, sys, zlib
unit, rate, duration = map(float, sys.argv[1:4])
chance = random.Random(zlib.crc32(repr(sys.argv).encode()))
load, rows, total = unit * rate, [], 0.0
for second in range(max(1, round(duration))):
    due = max(0, round(chance.gauss(load, load ** 0.5)))
    full = load / 300
    ms = 5 / (1 - full) if full < 0.98 else 250 + (second + 0.5) * 1000 * max(full - 1, 0)
    ms *= chance.lognormvariate(0, 0.05)
    rows.append([second, due, ms if due else None])
    total += due * ms
print(json.dumps({"mean": total / max(sum(n for _, n, _ in rows), 1), "series": rows}))
"""


@pytest.mark.parametrize("unit", [0.72, 1.4])
def test_counts_in_another_unit_leave_the_asked_rates_comparable(
    tmp_path: Path, unit: float
) -> None:
    """The mean response 5 ms / (1 - load / 300) is 40 ms at 262.5/s."""
    (tmp_path / "gen.py").write_text(QUEUE)
    gen = f"{sys.executable} gen.py {unit} {{rate}} {{duration:int}}"
    words = ("--command", gen, "--response", "/mean", "--series", "/series")
    goal = ("--limit", "40ms", "--claim", "rate:5%", "--seed", "3", "--json", "--quiet")
    done = subprocess.run(
        bw_words("peak", *words, *goal, "--study", "study"),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["peak_rate"] == pytest.approx(262.5 / unit, rel=0.05)
    evidence = " ".join(one["evidence"] for one in found["findings"])
    assert "a unit" in evidence
