"""The parts of a suite that gangs run side by side, and suites that have none."""

from __future__ import annotations

import pytest

from benchwright.core.errors import InputError
from benchwright.features.pool.toml import parts_of
from benchwright.inputs.mistakes import SourceFile
from benchwright.run.gangs import Task
from benchwright.suite.compile import compile_sources

TOML = """
[factors]
n = [1, 2]
[until]
runs = 3
[[test]]
name = "sleep"
exec = "sleep 0.{n}"
[[compare]]
arm = [{name = "a", exec = "true"}, {name = "b", exec = "false"}]
"""


def parts(text: str, name: str = "suite.toml") -> tuple[Task, ...]:
    program = compile_sources(name, [SourceFile(name, text)])
    return parts_of(program, {}, {})


def test_each_test_and_each_comparison_is_a_part() -> None:
    found = parts(TOML)
    assert [one.name for one in found] == [
        "test sleep:n=1",
        "comparison of a:n=1, b:n=1",
        "test sleep:n=2",
        "comparison of a:n=2, b:n=2",
    ]
    assert len({prefix for one in found for prefix in one.prefixes}) == 2 + 2 * 3
    assert [one.place for one in found] == ["1", "2", "3", "4"]


@pytest.mark.parametrize("step", ["SYSTEM echo a", "CHECKPOINT", "STOP"])
def test_a_step_between_tests_is_refused_at_its_line(step: str) -> None:
    text = f"TEST a 2 1\nEXEC true\nDONE\n{step}\nTEST b 2 1\nEXEC true\nDONE\n"
    with pytest.raises(InputError) as caught:
        parts(text, "suite.ap")
    (mistake,) = caught.value.diagnostics
    assert (mistake.code, mistake.line) == ("pool-dependent", 4)


def test_a_test_that_depends_on_the_trials_of_another_is_refused() -> None:
    text = "VAR n=0\nTEST a 2 1\nVAREX n=%n%+1\nEXEC true\nDONE\nTEST b 2 1\nEXEC echo %n%\nDONE\n"
    with pytest.raises(InputError, match="depends on the number of trials"):
        parts(text, "suite.ap")
