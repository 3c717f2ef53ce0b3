"""What the paper's two command lines of section 3.4 draw, as recorded numbers.

To accept a change that is meant: BW_UPDATE_GOLDEN=1, and read the diff. Figures are
compared to nine digits.
"""

from __future__ import annotations

import json
import os
import shlex
from pathlib import Path
from typing import Any

import pytest

from benchwright.cli import main

HERE = Path(__file__).parent / "plot"
LINE = r"""
graphit --mode=line \
--components=Elapsed,User,System \
--graphfile=reiserfs-pm.eps \
-k 'top right' -f 17 \
--xlabel Threads --ylabel "Time (seconds)" \
Reiserfs 'reiserfs:*.res'
"""
BAR = r"""
graphit --mode=bar \
  --ylabel 'Time (seconds)' -f 17 \
  --components=Elapsed,User,System \
  --graphfile=pm.eps Ext2 ext2:1.res \
  Ext3 ext3:1.res Reiserfs reiserfs:1.res
"""
"""As printed in Auto-pilot paper, line breaks included."""
THREADS = (1, 2, 4, 8, 16, 32)


@pytest.fixture(autouse=True)
def _results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write results that look like the paper's Figures 2 and 4."""
    monkeypatch.chdir(tmp_path)
    for threads in THREADS:
        write(f"reiserfs:{threads}.res", 900 - 130 * threads.bit_length(), threads)
    write("ext2:1.res", 610, 1)
    write("ext3:1.res", 730, 1)


def write(name: str, elapsed: float, threads: int) -> None:
    """Write ten epochs; the threads share the CPU times and one is the slowest."""
    blocks = [
        f"[measurement]\nthread = {thread}\nepoch = {epoch}\ncommand = postmark\n"
        f"user = {(40 + epoch % 3) / threads:.6f}\n"
        f"sys = {(90 + epoch * 7 % 5) / threads:.6f}\n"
        f"elapsed = {elapsed + epoch * 3 % 10 - thread:.6f}\nstatus = 0\n"
        for epoch in range(1, 11)
        for thread in range(1, threads + 1)
    ]
    Path(name).write_text("\n".join(blocks))


def rounded(value: Any) -> Any:
    """Return a document with figures of nine digits, and without sizes of files."""
    if isinstance(value, dict):
        return {key: rounded(v) for key, v in value.items() if key != "bytes"}
    if isinstance(value, list):
        return [rounded(member) for member in value]
    return float(f"{value:.9g}") if isinstance(value, float) else value


@pytest.mark.parametrize(("name", "line"), [("line", LINE), ("bar", BAR)])
def test_the_papers_command_lines_draw_what_is_recorded(
    name: str, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    program, *words = shlex.split(line.replace("\\\n", ""))
    assert program == "graphit"
    assert main.graphit([*words, "--json"]) == 0
    shown = capsys.readouterr()
    assert shown.err == ""
    found = rounded(json.loads(shown.out))
    path = HERE / f"{name}.json"
    if os.environ.get("BW_UPDATE_GOLDEN"):
        HERE.mkdir(exist_ok=True)
        path.write_text(json.dumps(found, indent=1) + "\n")
    assert found == json.loads(path.read_text())
    (file,) = found["files"]
    assert Path(file["path"]).read_bytes().startswith(b"%!PS-Adobe-3.0 EPSF-3.0\n")
