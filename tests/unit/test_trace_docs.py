"""docs/traces.md: its commands are ones that we take, its words those of the program."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from benchwright.cli.main import parser
from benchwright.features.load.workload import FORMATS
from benchwright.features.replay import trace_run

REPOSITORY = Path(__file__).parents[2]
PAGE = (REPOSITORY / "docs" / "traces.md").read_text()
REQUESTS: dict[str, Any] = {
    "stat": trace_run.stat_requests,
    "compare": trace_run.compare_request,
    "convert": trace_run.convert_request,
    "capture": trace_run.capture_request,
}


def commands() -> list[list[str]]:
    """Return the words of every `bw trace` on the page."""
    blocks = re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
    lines = [shlex.split(line) for block in blocks for line in block.splitlines()]
    return [words[2:] for words in lines if words[:2] == ["bw", "trace"]]


@pytest.mark.parametrize("words", commands(), ids=" ".join)
def test_every_command_is_one_that_we_take(
    words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shutil.which", lambda name: name)
    ours, command = words, None
    if "--" in words:
        ours, command = words[: words.index("--")], words[words.index("--") + 1 :]
    arguments = parser().parse_args(["trace", *ours])
    arguments.command_argv = command
    assert REQUESTS[words[0]](arguments)


def test_every_command_is_on_the_page() -> None:
    assert {words[0] for words in commands()} == set(REQUESTS)
    for kind in REQUESTS:
        assert f"`benchwright/trace-{kind}/1`" in PAGE


def test_every_format_is_on_the_page() -> None:
    table = PAGE[PAGE.index("| `--format` |") : PAGE.index("The format is detected")]
    assert set(re.findall(r"`([\w-]+)`", table)) >= set(FORMATS)


def test_every_image_is_there_and_small() -> None:
    names = re.findall(r"!\[[^]]+\]\((images/[^)]+)\)", PAGE)
    assert len(names) == 3
    for name in names:
        data = (REPOSITORY / "docs" / name).read_bytes()
        assert data.startswith(b"\x89PNG\r\n\x1a\n")
        assert len(data) < 150_000
