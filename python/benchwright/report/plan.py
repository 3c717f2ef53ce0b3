"""`bw run --plan`: the samples and commands of a program, without running them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from benchwright.core.text import plural
from benchwright.core.untrusted import visible_lines
from benchwright.suite.plan import Planned, PlannedTest

PLAN_SCHEMA = "benchwright/plan/1"


def plan_lines(planned: Sequence[Planned]) -> Iterator[str]:
    """Yield the plan for a person: a line a step, a paragraph a test.

    What is not printable is escaped.
    """
    yield from map(visible_lines, _lines(planned))


def _lines(planned: Sequence[Planned]) -> Iterator[str]:
    tests = 0
    for item in planned:
        if isinstance(item, PlannedTest):
            tests += 1
            yield from _test_lines(item)
        else:
            yield f"{item.keyword} {item.text}".rstrip()
    yield plural(tests, "test")


def _test_lines(test: PlannedTest) -> Iterator[str]:
    plan = test.plan
    sample = "".join(f" {name}={level}" for name, level in plan.sample)
    threads = plural(plan.threads, "thread")
    yield f"TEST {plan.name}  ({threads}{sample}; {test.stopping})"
    for mode, text in test.commands:
        yield f"  {mode:<11} {text}"


def plan_object(planned: Sequence[Planned]) -> dict[str, Any]:
    """Return the plan as plain objects, schema `benchwright/plan/1`."""
    return {"schema": PLAN_SCHEMA, "steps": [_object(item) for item in planned]}


def _object(item: Planned) -> dict[str, Any]:
    if not isinstance(item, PlannedTest):
        return {"step": item.keyword, "text": item.text}
    return {
        "step": "TEST",
        "name": item.plan.name,
        "threads": item.plan.threads,
        "sample": dict(item.plan.sample),
        "stopping": item.stopping,
        "commands": [{"mode": mode, "command": text} for mode, text in item.commands],
    }
