"""What is said about suites full of mistakes, and the plans of the paper's suites.

Run with BW_GOLDEN=write to write the expected texts anew; then read the difference.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from benchwright.core.errors import InputError
from benchwright.suite.compile import load
from benchwright.suite.plan import Planned, PlannedTest, describe

HERE = Path(__file__).parent / "suite"
EXAMPLES = Path(__file__).parents[2] / "examples"
PAPER = Path(__file__).parents[3] / "shared" / "papers" / "auto-pilot.txt"


def read(path: str) -> str:
    """Read a file of this directory."""
    return (HERE / path).read_text(encoding="utf-8")


def agree(name: str, text: str) -> None:
    """Compare with the file of that name."""
    if os.environ.get("BW_GOLDEN") == "write":
        (HERE / name).write_text(text, encoding="utf-8")
    assert text == read(name)


def shown(planned: list[Planned]) -> str:
    """Return a plan as text, one block for each test."""
    lines = []
    for one in planned:
        if not isinstance(one, PlannedTest):
            lines.append(f"{one.keyword} {one.text}")
            continue
        plan = one.plan
        sample = " ".join(f"{k}={v}" for k, v in plan.sample)
        lines.append(f"TEST {plan.name} [{sample}] threads={plan.threads}")
        lines.append(f"  stops: {one.stopping}")
        lines += [f"  env {k}={v}" for k, v in plan.environment]
        lines += [f"  {mode} {text}" for mode, text in one.commands]
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("name", ["mistakes.ap", "mistakes.toml"])
def test_a_suite_full_of_mistakes(name: str) -> None:
    with pytest.raises(InputError) as caught:
        load(name, read)
    agree(f"{name}.txt", f"{caught.value}\n")


@pytest.mark.parametrize("name", ["figure1", "postmark"])
def test_the_plan_of_a_published_suite(name: str) -> None:
    program = load(f"{name}.ap", read)
    planned = describe(program, defines={}, environment={})
    agree(f"{name}.plan.txt", shown(planned))


@pytest.mark.parametrize("method", ["reboot", "reboot+chill"])
def test_the_plan_of_figure_6_restarts_the_machine_where_it_says_so(method: str) -> None:
    text = (EXAMPLES / "grep-caches.ap").read_text()
    program = load("g.ap", {"g.ap": text}.__getitem__, defines={"METHODS": method})
    planned = describe(program, defines={"METHODS": method}, environment={})
    steps = [one.keyword for one in planned if not isinstance(one, PlannedTest)]
    assert steps == ["FASTFAIL", "CHECKPOINT", "SYSTEM"]


def figure_1_of_the_paper() -> str:
    """Return Figure 1 without the numbers at the beginning of its lines."""
    figure = PAPER.read_text().split("Figure 1: A sample")[0].split("```")[-2]
    lines = figure.strip("\n").split("\n")
    return "\n".join(line.lstrip("0123456789") for line in lines) + "\n"


@pytest.mark.skipif(not PAPER.exists(), reason="the paper is not on this machine")
def test_figure_1_is_the_papers_own_text() -> None:
    ours = [line.split() for line in read("figure1.ap").split("\n")]
    papers = [line.split() for line in figure_1_of_the_paper().split("\n")]
    assert ours == papers


@pytest.mark.skipif(not PAPER.exists(), reason="the paper is not on this machine")
def test_figure_1_runs_with_the_papers_own_indentation() -> None:
    texts = {"f.ap": figure_1_of_the_paper(), "common.inc": "", "ok.inc": ""}
    assert len(describe(load("f.ap", texts.__getitem__), defines={}, environment={})) == 18
