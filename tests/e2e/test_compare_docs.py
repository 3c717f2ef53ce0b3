"""docs/compare.md and examples/compare-*: every command of theirs is run."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

from benchwright.stats.intervals import t_mixture_p_of_moments
from benchwright.stats.sample import Moments

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "compare.md"
EXAMPLES = ROOT / "examples"


def examples() -> list[tuple[str, list[str]]]:
    """Return each command with the lines of output that the page shows for it."""
    found: list[tuple[str, list[str]]] = []
    for block in re.findall(r"```console\n(.*?)```", PAGE.read_text(), re.DOTALL):
        for line in block.splitlines():
            if line.startswith("$ "):
                found.append((line[2:], []))
            else:
                found[-1][1].append(line)
    return found


def without_figures(text: str) -> str:
    """Return a text with its figures, and the widths that follow from them, levelled."""
    text = re.sub(r"boot \w+", "boot x", text)
    text = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d", "time", text)
    return re.sub(r"\s+", " ", re.sub(r"<?\d+(\.\d+)?(e[-+]?\d+)?", "0", text))


def test_no_example_shows_a_p_value_that_cannot_be() -> None:
    """Watched comparisons have a floor: whatever the data, p is no less at n blocks."""
    shown = re.findall(r"(\d+) blocks?, P = ([\de.-]+\d)", PAGE.read_text())
    assert shown
    for blocks, p in shown:
        floor = t_mixture_p_of_moments(Moments(int(blocks), 1.0, 1e-9), 0.0, confidence=0.95)
        assert float(p) >= 0.99 * floor, f"{blocks} blocks, P = {p}"


def test_the_commands_do_what_the_page_shows(tmp_path: Path) -> None:
    environment = with_bw(tmp_path)
    shown = examples()
    assert len(shown) >= 5
    for command, lines in shown:
        done = subprocess.run(
            ["sh", "-c", command],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert "Traceback" not in done.stderr
        told = without_figures(done.stdout)
        for line in lines:
            if line == "...":
                continue
            # Of the noise floor, what comes before the metrics that the machine shows.
            wanted = without_figures(line).split("elapsed 0 % (interval ±")[0].strip()
            if not line.startswith(("elapsed", "           new")):
                assert wanted in told, f"{command}: {line}"


def with_bw(directory: Path) -> dict[str, str]:
    """Return an environment whose PATH finds a `bw` of this very interpreter."""
    (directory / "bin").mkdir()
    tool = directory / "bin" / "bw"
    tool.write_text(f'#!/bin/sh\nexec {sys.executable} -m benchwright.cli.main "$@"\n')
    tool.chmod(0o755)
    return {**os.environ, "PATH": f"{directory / 'bin'}:{os.environ['PATH']}"}


def test_the_example_of_a_gate(tmp_path: Path) -> None:
    environment = with_bw(tmp_path)
    script = str(EXAMPLES / "compare-gate.sh")
    for commands, limit, expected in (
        (("sleep 0.01", "sleep 0.02"), "3%", 1),
        (("sleep 0.01", "sleep 0.01"), "90%", 0),
    ):
        done = subprocess.run(
            [script, *commands],
            cwd=tmp_path,
            env={**environment, "LIMIT": limit},
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == expected, done.stdout + done.stderr
        assert "noise floor" in done.stdout
        assert (tmp_path / "gate.xml").exists()


def test_the_example_of_a_suite(tmp_path: Path) -> None:
    done = subprocess.run(
        ["bw", "run", str(EXAMPLES / "compare-gzip.toml"), "--json", "--quiet"],
        cwd=tmp_path,
        env=with_bw(tmp_path),
        capture_output=True,
        text=True,
        timeout=120,
    )
    document = json.loads(done.stdout)
    assert len(document["comparisons"]) == 2
    for comparison in document["comparisons"]:
        verdicts = {v["metric"]: v for v in comparison["verdicts"] if v["judged"]}
        assert verdicts["bytes"]["verdict"] == "faster", "fewer bytes"
        assert verdicts["bytes"]["ratio"]["high"] < 1
        assert "elapsed" in verdicts
