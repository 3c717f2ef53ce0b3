"""The commands of the documentation site are executed, page by page, as a reader would type them.

A block ```console is executed: its lines after `$ ` are typed, in order, into one shell in an empty
directory. A block with `title="NAME"` is first written to the file NAME. Comments before a block,
which the site does not show, change this:

    <!-- not run: REASON -->     the block is not executed
    <!-- exit 0 or 3 -->         its commands end with one of these statuses, instead of 0
    <!-- run: COMMAND -->        executed, but not shown

Where a page shows output with a finding's code, the command must print this code.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from benchwright.findings.codes import CODES

ROOT = Path(__file__).parents[2]
OTHERWISE_TESTED = {
    "compare.md": "test_compare_docs.py",
    "stats.md": "test_docs_stats.py",
    "workload-toml.md": "test_load_docs.py",
}
"""Pages whose commands a test of their own executes."""
PAGES = sorted(
    page
    for page in (ROOT / "docs").glob("*.md")
    if "```console" in page.read_text() and page.name not in OTHERWISE_TESTED
)
MEASURES = {"mistakes.md"}
"""Pages whose findings need the machine to themselves."""

BLOCK = re.compile(
    r'^```(?P<language>\w+)(?: title="(?P<title>[^"\n]+)")?\n(?P<text>.*?)^```$'
    r"|^<!-- (?P<kind>not run|exit|run):? (?P<value>.*?) -->$",
    re.DOTALL | re.MULTILINE,
)
CODE_IN_TEXT = re.compile(r"\b(?:" + "|".join(map(re.escape, CODES)) + r")\b")


class Step(NamedTuple):
    """A command, the exit statuses that it may have, and the codes that the page shows for it."""

    command: str
    statuses: tuple[int, ...]
    codes: frozenset[str]


def files_and_steps(page: Path) -> Iterator[tuple[str, str] | Step]:
    """Yield the files of a page, as name and text, and its commands, in their order."""
    skipped, statuses = False, (0,)
    for block in BLOCK.finditer(page.read_text()):
        kind, value = block["kind"], block["value"]
        if kind == "not run":
            skipped = True
        elif kind == "exit":
            statuses = tuple(int(one) for one in value.split(" or "))
        elif kind == "run":
            yield Step(value, (0,), frozenset())
        elif block["title"]:
            yield block["title"], block["text"]
        elif block["language"] == "console":
            if not skipped:
                yield from steps_of(block["text"], statuses)
            skipped, statuses = False, (0,)


def steps_of(text: str, statuses: tuple[int, ...]) -> Iterator[Step]:
    """Yield the commands of a block with the codes in the output that it shows."""
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command = re.match(r"(?:.*\\\n)*.*", part)
        assert command is not None
        shown = part[command.end() :]
        yield Step(command[0], statuses, frozenset(CODE_IN_TEXT.findall(shown)))


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=[pytest.mark.alone] * (page.name in MEASURES))
        for page in PAGES
    ],
    ids=lambda page: page.stem,
)
def test_the_commands_of_a_page_work(page: Path, tmp_path: Path) -> None:
    place = tmp_path / "page"
    place.mkdir()
    script, steps = [], []
    for one in files_and_steps(page):
        if isinstance(one, Step):
            script.append(f"{one.command}\nprintf '\\n@@@ %d\\n' $?")
            steps.append(one)
        else:
            name, text = one
            (place / name).write_text(text)
            (place / name).chmod(0o755)
    parts = typed("\n".join(script), place, environment_with_bw(tmp_path))
    assert len(parts) == len(steps), parts[-1][0]
    wrong = [
        f"$ {step.command}\n{output}\n-> {status}; missing: {missing or 'nothing'}"
        for step, (output, status) in zip(steps, parts, strict=True)
        if (missing := step.codes - set(CODE_IN_TEXT.findall(output)))
        or status not in step.statuses
        or "Traceback (most recent call last)" in output
    ]
    assert not wrong, "\n\n".join(wrong)


def typed(
    script: str, place: Path, environment: dict[str, str]
) -> list[tuple[str, int]]:
    """Return output and exit status of each command of a script; end what it leaves running."""
    with (place.parent / "output").open("w+") as output:
        shell = subprocess.Popen(
            ["bash", "-c", script],
            cwd=place,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            shell.wait(timeout=240)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(shell.pid, signal.SIGKILL)
            shell.wait()
        output.seek(0)
        text = output.read()
    *parts, _rest = re.split(r"^@@@ (\d+)\n", text, flags=re.MULTILINE)
    return [
        (said, int(status))
        for said, status in zip(parts[::2], parts[1::2], strict=True)
    ]


def environment_with_bw(directory: Path) -> dict[str, str]:
    """Return an environment with the `bw` of this interpreter and without a user's settings."""
    programs = directory / "bin"
    programs.mkdir()
    tool = programs / "bw"
    tool.write_text(f'#!/bin/sh\nexec {sys.executable} -m benchwright.cli.main "$@"\n')
    tool.chmod(0o755)
    return {
        **os.environ,
        "PATH": f"{programs}:{os.environ['PATH']}:/usr/sbin",
        "XDG_CONFIG_HOME": str(directory / "config"),
        "NO_COLOR": "1",
        "EXAMPLES": str(ROOT / "examples"),
    }


def test_a_block_that_is_not_run_has_a_reason() -> None:
    for page in (ROOT / "docs").glob("*.md"):
        for reason in re.findall(r"<!-- not run:?(.*?)-->", page.read_text()):
            assert len(reason.split()) >= 3, f"{page.name}: {reason!r}"


def test_the_commands_are_found() -> None:
    """A search that no longer finds the commands would pass the other tests."""
    found = {
        page.name: sum(isinstance(one, Step) for one in files_and_steps(page))
        for page in PAGES
    }
    assert sum(found.values()) >= 3, found
