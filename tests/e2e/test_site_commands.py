"""The commands of the documentation are executed, page by page, as a reader would type them.

A block ```console is executed: its lines after `$ ` are typed, in order, into one shell in an empty
directory. A block with `title="NAME"` is first written to the file NAME. Comments before a block,
which the site does not show, change this:

    <!-- executed -->            each line of a block ```sh is executed too
    <!-- not run: REASON -->     the block is not executed
    <!-- exit 0 or 3 -->         its commands end with one of these statuses, instead of 0
    <!-- run: COMMAND -->        executed, but not shown

On the page of mistakes, a command must print the codes of the findings that the page shows for it.
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

from benchwright.findings.codes import all_codes

ROOT = Path(__file__).parents[2]
OTHERWISE_TESTED = {
    "compare.md": "tests/e2e/test_compare_docs.py",
    "plots.md": "tests/unit/test_plot_docs.py",
    "stats.md": "tests/unit/test_docs_stats.py",
    "traces.md": "tests/unit/test_trace_docs.py",
    "workload-toml.md": "tests/unit/test_load_docs.py",
}
"""Pages with a test of their own."""
ALL_PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
PAGES = [
    page
    for page in ALL_PAGES
    if re.search(r"```console|<!-- executed", page.read_text())
    and page.name not in OTHERWISE_TESTED
]
CAUSES_FINDINGS = {"mistakes.md"}
"""Pages whose commands cause the findings that they show. Findings of other pages depend on what
else runs."""

BLOCK = re.compile(
    r'^```(?P<language>\w+)(?: title="(?P<title>[^"\n]+)")?\n(?P<text>.*?)^```$'
    r"|^<!-- (?P<kind>not run|executed|exit|run)(?:[: ]+(?P<value>[^\n]*?))? -->$",
    re.DOTALL | re.MULTILINE,
)
CODE_IN_TEXT = re.compile(r"\b(?:" + "|".join(map(re.escape, all_codes())) + r")\b")


class Step(NamedTuple):
    """A command, the exit statuses that it may have, and the codes that the page shows for it."""

    command: str
    statuses: tuple[int, ...]
    codes: frozenset[str]


def files_and_steps(page: Path) -> Iterator[tuple[str, str] | Step]:
    """Yield the files of a page, as name and text, and its commands, in their order."""
    pending: dict[str, str] = {}
    for block in BLOCK.finditer(page.read_text()):
        kind, text = block["kind"], block["text"]
        if kind == "run":
            yield Step(block["value"], (0,), frozenset())
        elif kind:
            pending[kind] = block["value"]
        else:
            statuses = tuple(map(int, pending.get("exit", "0").split(" or ")))
            if block["title"]:
                yield block["title"], text
            elif "executed" in pending:
                for line in text.replace("\\\n", "").splitlines():
                    yield Step(line, statuses, frozenset())
            elif block["language"] == "console" and "not run" not in pending:
                yield from steps_of(text, statuses)
            pending = {}


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
        pytest.param(page, marks=[pytest.mark.alone] * (page.name in CAUSES_FINDINGS))
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
        if (
            (missing := step.codes - set(CODE_IN_TEXT.findall(output)))
            and page.name in CAUSES_FINDINGS
        )
        or status not in step.statuses
        or "Traceback (most recent call last)" in output
    ]
    assert not wrong, "\n\n".join(wrong)


def typed(script: str, place: Path, environment: dict[str, str]) -> list[tuple[str, int]]:
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
    return [(said, int(status)) for said, status in zip(parts[::2], parts[1::2], strict=True)]


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
        # With the packages of the tests.
        "PYTHON": sys.executable,
    }


CODE_BLOCK = re.compile(
    r"(?:^<!--[^\n]*-->\n)*^```(\w*)[^\n]*\n(.*?)^```$|^((?: {4}[^\n]*\n)+)",
    re.DOTALL | re.MULTILINE,
)
OURS = re.compile(r"^(?:[$#] |\w+=\S+ )*bw [a-z]", re.MULTILINE)


@pytest.mark.parametrize(
    "page",
    [page for page in ALL_PAGES if page.name not in OTHERWISE_TESTED],
    ids=lambda page: page.stem,
)
def test_each_block_of_commands_is_executed_or_says_why_not(page: Path) -> None:
    unmarked = []
    for block in CODE_BLOCK.finditer(page.read_text()):
        language, fenced, indented = block.groups()
        shown = (fenced or "").strip() or re.sub("^ {4}", "", indented or "", flags=re.M)
        reason = re.search("<!-- not run: (.*) -->", block[0])
        if reason and len(reason[1].split()) >= 3:
            continue
        typed_in = language == "console" or "<!-- executed -->" in block[0]
        if OURS.search(shown) and not typed_in and language not in ("text", "toml", "yaml"):
            unmarked.append(shown)
    assert unmarked == []


def test_the_commands_are_found() -> None:
    """A search that no longer finds the commands would pass the other tests."""
    found = {
        page.stem: sum(isinstance(one, Step) for one in files_and_steps(page)) for page in PAGES
    }
    assert found["mistakes"] >= 25
    assert found["tutorial"] >= 12
    assert sum(found.values()) >= 90
