"""docs/compare.md: every command on it is run, in order, in one directory."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "compare.md"


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


def test_the_commands_do_what_the_page_shows(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    tool = tmp_path / "bin" / "bw"
    tool.write_text(f'#!/bin/sh\nexec {sys.executable} -m benchwright.cli.main "$@"\n')
    tool.chmod(0o755)
    path = f"{tmp_path / 'bin'}:{os.environ['PATH']}"
    shown = examples()
    assert len(shown) >= 5
    for command, lines in shown:
        done = subprocess.run(
            ["sh", "-c", command],
            cwd=tmp_path,
            env={**os.environ, "PATH": path},
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
