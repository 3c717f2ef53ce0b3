"""The interpreter: epochs in batches, partial answers, effects inside a test."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from benchwright.core.errors import InputError
from benchwright.inputs.mistakes import SourceFile
from benchwright.suite import effects as effect
from benchwright.suite.compile import compile_sources
from benchwright.suite.effects import Effect
from benchwright.suite.interpret import execute

Script = Callable[[Effect], int | None]


def drive(text: str, script: Script, turns: int = 1000) -> list[Effect]:
    """Return the effects of a suite that is answered by a script."""
    program = compile_sources("s.ap", [SourceFile("s.ap", text)])
    steps = execute(program, defines={}, environment={}, turns=turns)
    seen: list[Effect] = []
    answer: int | None = None
    while True:
        try:
            seen.append(steps.send(answer))
        except StopIteration:
            return seen
        answer = script(seen[-1])


def asked(*answers: int, ran: Callable[[int, int], int] = lambda _, n: n) -> Script:
    """Return a script that answers AskNext in turn and runs what `ran` says."""
    pending = list(answers)

    def script(what: Effect) -> int | None:
        match what:
            case effect.AskNext():
                return pending.pop(0)
            case effect.RunEpochs(_, first, count):
                return ran(first, count)
        return 0

    return script


def batches(found: list[Effect]) -> list[tuple[int, int]]:
    """Return (first, count) of each batch of epochs."""
    return [(e.first, e.count) for e in found if isinstance(e, effect.RunEpochs)]


def executed(found: list[Effect]) -> list[str]:
    """Return the EXEC command of each batch."""
    return [e.plan.phases.exec[0].text for e in found if isinstance(e, effect.RunEpochs)]


def test_a_million_equal_epochs_are_one_batch() -> None:
    found = drive("TEST t 5\nEXEC x\nDONE", asked(1_000_000, 0))
    assert batches(found) == [(1, 1_000_000)]


def test_the_order_of_effects() -> None:
    found = drive("TEST t 5\nEXEC x\nDONE", asked(5, 1, 0))
    names = [type(e).__name__ for e in found]
    assert names == (
        ["BeginTest", "AskNext", "RunEpochs", "AskNext", "RunEpochs", "AskNext", "EndTest"]
    )
    assert batches(found) == [(1, 5), (6, 1)]


def test_fewer_epochs_than_asked_for_and_none() -> None:
    some = {1: 2, 3: 0}
    script = asked(5, 3, 3, 0, ran=lambda first, count: some.pop(first, count))
    found = drive("TEST t 5\nEXEC x\nDONE", script)
    assert batches(found) == [(1, 5), (3, 3), (3, 3)]


def test_epochs_that_differ_are_batches_of_equals() -> None:
    text = """
TEST t 6
  IF EPOCH < 3
    EXEC cold
  ELSE
    EXEC warm
  FI
DONE
"""
    found = drive(text, asked(6, 0))
    assert batches(found) == [(1, 2), (3, 4)]
    assert executed(found) == ["cold", "warm"]


def test_variables_follow_the_epochs_that_were_really_run() -> None:
    text = "VAR N=0\nTEST t 4\nVAREX N=%N%+1\nVAREX H=int(%N% / 3)\nEXEC x %H%\nDONE\nECHO %N%"
    script = asked(4, 3, 0, ran=lambda first, count: 1 if first == 1 else count)
    found = drive(text, script)
    assert batches(found) == [(1, 2), (2, 1), (3, 2)]
    assert executed(found) == ["x 0", "x 0", "x 1"]
    assert found[-1] == effect.Say("4")


def test_nothing_run_takes_the_variables_back() -> None:
    text = "VAR N=0\nTEST t 4\nVAREX N=%N%+1\nEXEC x %N%\nDONE\nECHO %N%"
    found = drive(text, asked(4, 0, ran=lambda _first, _count: 0))
    assert found[-1] == effect.Say("0")
    assert isinstance(found[-2], effect.EndTest)


def test_environment_set_in_a_body_changes_the_plan() -> None:
    found = drive("TEST t 4\nENV E=%EPOCH%\nEXEC x\nDONE", asked(3, 0))
    plans = [e.plan.environment for e in found if isinstance(e, effect.RunEpochs)]
    assert plans == [(("E", "1"),), (("E", "2"),), (("E", "3"),)]


def test_effects_in_a_body_happen_before_each_epoch() -> None:
    found = drive("TEST t 2\nECHO e%EPOCH%\nCHECKPOINT\nEXEC x\nDONE", asked(2, 0))
    names = [type(e).__name__ for e in found]
    assert names == [
        *("BeginTest", "AskNext"),
        *("Say", "WriteCheckpoint", "RunEpochs"),
        *("Say", "WriteCheckpoint", "RunEpochs"),
        *("AskNext", "EndTest"),
    ]
    assert batches(found) == [(1, 1), (2, 1)]


def test_stop_inside_a_test_ends_at_once() -> None:
    text = "TEST t 5\nIF EPOCH = 2\nSTOP\nFI\nEXEC x\nDONE\nECHO never"
    found = drive(text, asked(5, 0))
    assert batches(found) == [(1, 1)]
    assert not any(isinstance(e, (effect.Say, effect.EndTest)) for e in found)


def test_samples_nest_and_end_with_their_loops() -> None:
    text = """
FOREACH A 1 2
  FOREACH B x
    TEST %A%%B% 1
      EXEC e
    DONE
  DONE
  TEST %A% 1
    FOREACH C 8 9
      EXEC e %C%
    DONE
  DONE
DONE
TEST none 1
  EXEC e
DONE
"""
    found = drive(text, asked(*[1, 0] * 5))
    plans = [e.plan for e in found if isinstance(e, effect.RunEpochs)]
    assert [p.sample for p in plans] == [
        (("A", "1"), ("B", "x")),
        (("A", "1"),),
        (("A", "2"), ("B", "x")),
        (("A", "2"),),
        (),
    ]
    assert [c.text for c in plans[1].phases.exec] == ["e 8", "e 9"]


@pytest.mark.parametrize(
    ("text", "code", "line"),
    [
        ("IF THREADS = 2\nVAR A=1\nFI\nECHO %A%", "suite-unknown-variable", 4),
        ("ECHO %EPOCH%", "suite-unknown-variable", 1),
        ("VAR A=x\nFOR I=%A% TO 3\nECHO\nDONE", "suite-not-a-number", 2),
        ("VAR A=0\nFOR I=1 TO 3 ADD %A%\nECHO\nDONE", "suite-endless", 2),
        ("VAR A=x\nIF A < 3\nECHO\nFI", "suite-not-a-number", 2),
        ("VAR A=0\nVAREX B=1/%A%", "expression-evaluation", 2),
        ("VAR A=(\nVAREX B=1+%A%", "expression-syntax", 2),
        ("VAR A=x\nTHREADS=%A%", "suite-threads", 2),
        ("VAR A=x\nTIMEOUT %A%", "suite-duration", 2),
        ("VAR A=~(\nMETRIC m%A%", "suite-metric", 2),
        ("VAR A=\nSYSTEM %A%", "suite-no-command", 2),
        ("VAR A=x\nTEST t %A%\nEXEC x\nDONE", "suite-test-arguments", 2),
        (
            "VAR A=1 1 getstats --predicate $x\nTEST t %A%\nEXEC x\nDONE",
            "expression-unknown-name",
            2,
        ),
        ("VAR A=a/b\nTEST %A% 1\nEXEC x\nDONE", "suite-test-name", 2),
        ("FOREACH I 1 2\nTEST t 1\nEXEC x\nDONE\nDONE", "suite-duplicate-test", 2),
        ("TEST t 1\nIF EPOCH = 0\nEXEC x\nFI\nDONE", "suite-no-exec", 1),
        ("VAR A=1\nWHILE A = 1\nVAR B=2\nDONE", "suite-endless", 2),
        ("VAR A=1\nWHILE A = 1\nECHO x\nDONE", "suite-endless", 2),
        ("FOR I=1 TO 40\nFOR J=1 TO 40\nVAR B=2\nDONE\nDONE", "suite-endless", 2),
        ("VAR A=xx\nFOR I=1 TO 50\nVAR A=%A%%A%\nDONE", "suite-too-long", 3),
    ],
)
def test_what_only_running_shows(text: str, code: str, line: int) -> None:
    def script(what: Effect) -> int | None:
        if isinstance(what, effect.AskNext):
            script.calls += 1  # type: ignore[attr-defined]
            return script.calls % 2  # type: ignore[attr-defined,no-any-return]
        return what.count if isinstance(what, effect.RunEpochs) else 0

    script.calls = 0  # type: ignore[attr-defined]
    with pytest.raises(InputError) as caught:
        drive(text, script)
    only = caught.value.diagnostics[0]
    assert (only.code, only.file, only.line) == (code, "s.ap", line)
    assert only.text == text.split("\n")[line - 1]
