"""A command with options becomes a program; all wrong options are told at once."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec
import pytest

from benchwright.core.errors import InputError
from benchwright.core.plan import (
    GIVE_UP_NS,
    Command,
    FixedCount,
    MetricSpec,
    TestPlan,
    UntilPrecise,
)
from benchwright.core.results import SlowRuns
from benchwright.suite import effects as effect
from benchwright.suite.command_line import CommandRequest, program_from_command
from benchwright.suite.interpret import execute
from benchwright.suite.plan import PlannedStep, PlannedTest, describe
from benchwright.suite.program import Program

precise = partial(UntilPrecise, give_up_ns=GIVE_UP_NS)
RUN = ("/usr/bin/run", "a b", "{fs}", "{threads}", "{other}", "$HOME")


def plans(request: CommandRequest) -> list[TestPlan]:
    """Return the plan of each test that a request means."""
    planned = describe(program_from_command(request), defines={}, environment={})
    return [one.plan for one in planned if isinstance(one, PlannedTest)]


@pytest.mark.parametrize(
    ("text", "expected"), [("1", (1,)), ("1, 0", (0, 1)), ("0,2..4,3", (0, 2, 3, 4))]
)
def test_ok_status_is_a_list_of_statuses(text: str, expected: tuple[int, ...]) -> None:
    (plan,) = plans(CommandRequest(("x",), ok_status=text))
    assert plan.ok_status == expected


@pytest.mark.parametrize("text", ["", "x", "-1", "256", "0,", "1.5", "3..1", "0..999"])
def test_what_is_no_status_is_refused(text: str) -> None:
    with pytest.raises(InputError) as raised:
        program_from_command(CommandRequest(("x",), ok_status=text))
    (one,) = raised.value.diagnostics
    assert (one.code, one.file) == ("bad-argument", "--ok-status")


def test_when_a_precision_gives_up_and_what_it_is_of() -> None:
    def rule(**options: Any) -> UntilPrecise:
        (plan,) = plans(CommandRequest(("x",), precision="5%", **options))
        assert isinstance(plan.stopping, UntilPrecise)
        return plan.stopping

    assert rule().give_up_ns == GIVE_UP_NS
    assert rule(give_up="30s").give_up_ns == 30 * 10**9
    assert rule(give_up="none").give_up_ns is None
    assert rule(metrics=("user",)).metrics == ("user",)
    assert rule(metrics=("elapsed", "user")).metrics == ("elapsed", "user")
    assert rule(metrics=("ops",)).metrics == ("elapsed", "ops")
    with pytest.raises(InputError, match="--give-up"):
        program_from_command(CommandRequest(("x",), give_up="1m"))


def test_a_bare_command() -> None:
    (plan,) = plans(CommandRequest(RUN))
    assert plan.name == "run"
    assert plan.stopping == FixedCount(10)
    words = ("/usr/bin/run", "a b", "{fs}", "1", "{other}", "$HOME")
    assert plan.phases.exec == (Command(words),)
    assert (plan.threads, plan.sample, plan.fail_fast) == (1, (), True)


def test_factors_and_threads_are_a_full_factorial() -> None:
    request = CommandRequest(RUN, factors=("fs=ext4,/x", "n=1"), threads="1,2")
    found = plans(request)
    assert [p.name for p in found] == [
        "run:fs=ext4:n=1:threads=1",
        "run:fs=ext4:n=1:threads=2",
        "run:fs=_x:n=1:threads=1",
        "run:fs=_x:n=1:threads=2",
    ]
    assert found[3].sample == (("fs", "/x"), ("n", "1"), ("threads", "2"))
    assert found[3].threads == 2
    assert found[3].phases.exec[0].argv[2:4] == ("/x", "2")


def test_one_number_of_threads_is_no_factor() -> None:
    (plan,) = plans(CommandRequest(RUN, threads="4"))
    assert (plan.name, plan.threads, plan.sample) == ("run", 4, ())


def test_everything_else() -> None:
    request = CommandRequest(
        ("x",),
        factors=("fs=a",),
        setup="mount {fs} && true",
        cleanup="umount {fs}",
        timeout="30s",
        hooks=("network", "/my/hooks"),
        metrics=("ops:higher=/ops", "elapsed:lower"),
        name="mine-{fs}",
        keep_going=True,
    )
    (plan,) = plans(request)
    assert plan.name == "mine-a"
    assert plan.phases.setup == (Command(("/bin/sh", "-c", "mount a && true")),)
    assert plan.phases.cleanup == (Command(("umount", "a")),)
    assert plan.timeout_ns == 30 * 10**9
    assert plan.hooks == ("network", "/my/hooks")
    assert plan.metrics == (
        MetricSpec("ops", pointer="/ops", better="higher"),
        MetricSpec("elapsed"),
    )
    assert not plan.fail_fast


@pytest.mark.parametrize(
    ("options", "rule"),
    [
        ({}, FixedCount(10)),
        ({"min_runs": "3"}, FixedCount(3)),
        ({"max_runs": "4"}, FixedCount(4)),
        ({"max_runs": "40"}, FixedCount(40)),
        ({"min_runs": "3", "max_runs": "40"}, FixedCount(40)),
        ({"runs": "7"}, FixedCount(7)),
        ({"precision": "5%"}, precise(0.05, ("elapsed",), 30, long_minimum=10)),
        (
            {"precision": "0.01", "min_runs": "5", "max_runs": "9", "max_time": "10m"},
            precise(0.01, ("elapsed",), 5, 9, 600 * 10**9),
        ),
        ({"precision": "1%", "max_runs": "9"}, precise(0.01, ("elapsed",), 9, 9, long_minimum=10)),
        ({"precision": "1%", "min_runs": "2000"}, precise(0.01, ("elapsed",), 2000, 2000)),
        (
            {"precision": "1%", "metrics": ("ops=/x", "user")},
            precise(0.01, ("elapsed", "ops", "user"), 30, long_minimum=10),
        ),
        (
            {"precision": "5%", "rare": "0.2%:3x"},
            precise(0.05, minimum=1497, maximum=1497, rare=SlowRuns(0.002, 3.0)),
        ),
        (
            {"precision": "5%", "rare": "50%", "min_runs": "9"},
            precise(0.05, minimum=9, rare=SlowRuns(0.5)),
        ),
    ],
)
def test_stopping_rules(options: dict[str, str], rule: object) -> None:
    assert plans(CommandRequest(("x",), **options))[0].stopping == rule  # type: ignore[arg-type]


def test_all_mistakes_at_once_under_their_options_names() -> None:
    request = CommandRequest(
        (),
        factors=("fs=", "1=3", "a=b", "a=c", "b=x,x", "threads=2", "plain"),
        threads="1,x",
        min_runs="z",
        max_runs="0",
        precision="500%",
        max_time="9",
        metrics=("ops:highr", "x~((a", "y=~", "z", "z"),
        setup=" ",
        timeout="3",
        name="a/b",
    )
    with pytest.raises(InputError) as caught:
        program_from_command(request)
    places = [(d.file, d.column) for d in caught.value.diagnostics]
    assert places == [
        ("-P", 4),
        *[("-P", 1)] * 5,
        ("--threads", 3),
        ("--metric", 5),
        ("--metric", 4),
        ("--metric", 2),
        ("--metric", 1),
        ("--min-runs", 1),
        ("--max-runs", 1),
        ("--precision", 1),
        ("--max-time", 1),
        ("--setup", 1),
        ("--", 1),
        ("--name", 2),
        ("--timeout", 1),
    ]


@pytest.mark.parametrize(
    ("options", "option"),
    [
        ({"min_runs": "5", "max_runs": "4"}, "--max-runs"),
        ({"max_time": "10m"}, "--max-time"),
        ({"precision": "5%", "min_runs": "1"}, "--min-runs"),
        ({"precision": "5%", "runs": "9"}, "--precision"),
        ({"max_runs": "5", "runs": "9"}, "--max-runs"),
        ({"runs": "0"}, "--runs"),
        ({"warmup": "-1"}, "--warmup"),
        ({"seed": "x"}, "--seed"),
        ({"names": ("a", "b")}, "--name"),
        ({"shell": "'"}, "--shell"),
        ({"threads": "2,2"}, "--threads"),
        ({"factors": tuple(f"f{n}=1" for n in range(40))}, "-P"),
    ],
)
def test_options_that_contradict(options: dict[str, str], option: str) -> None:
    with pytest.raises(InputError) as caught:
        program_from_command(CommandRequest(("x",), **options))  # type: ignore[arg-type]
    assert [d.file for d in caught.value.diagnostics] == [option]


def test_what_a_precision_is_of_and_how_it_is_reached() -> None:
    request = CommandRequest(
        ("x",), precision="2%", mode="watch", of="p90", confidence="99%", rest="1.5s"
    )
    (plan,) = plans(request)
    assert plan.stopping == precise(0.02, minimum=20, confidence=0.99, mode="watch", share=0.9)
    assert plan.phases.setup == (Command(("sleep", "1.5")),)


@pytest.mark.parametrize(
    ("given", "option"),
    [
        ({"precision": "1%", "of": "p0"}, "--of"),
        ({"precision": "1%", "of": "p100"}, "--of"),
        ({"precision": "1%", "of": "mode"}, "--of"),
        ({"precision": "1%", "confidence": "100%"}, "--confidence"),
        ({"precision": "1%", "confidence": "5%"}, "--confidence"),
        ({"rest": "0s"}, "--rest"),
        ({"rest": "5"}, "--rest"),
        ({"of": "median"}, "--of"),
        ({"mode": "watch"}, "--mode"),
        ({"confidence": "95%"}, "--confidence"),
    ],
)
def test_bad_words_about_a_precision(given: dict[str, str], option: str) -> None:
    with pytest.raises(InputError) as caught:
        program_from_command(CommandRequest(("x",), **given))  # type: ignore[arg-type]
    assert [one.file for one in caught.value.diagnostics] == [option]


def test_a_command_line_in_quotes_is_told_from_a_program() -> None:
    with pytest.raises(InputError) as caught:
        program_from_command(CommandRequest(("sleep 0.01",)))
    (one,) = caught.value.diagnostics
    assert "bw run -- sleep 0.01" in one.hint
    assert plans(CommandRequest(("/opt/my tools/run",)))
    assert plans(CommandRequest(("sleep",)))


def test_a_share_without_its_sign_is_guessed_at() -> None:
    with pytest.raises(InputError, match=r"did you mean 5%\?"):
        program_from_command(CommandRequest(("x",), precision="5"))


# -- quoted commands -----------------------------------------------------------------------


def quoted(*commands: str, **more: Any) -> list[TestPlan]:
    """Return the plans of the tests of quoted commands."""
    return plans(CommandRequest(commands=commands, **more))


def test_each_quoted_command_is_a_test() -> None:
    found = quoted("sort -n {f}", "A=1 ./b | head", "sort x", factors=("f=a,b",))
    assert [plan.name for plan in found] == [
        *("sort:f=a", "b:f=a", "sort-2:f=a"),
        *("sort:f=b", "b:f=b", "sort-2:f=b"),
    ]
    argv = [plan.phases.exec[0].argv for plan in found[3:]]
    assert argv == [("sort", "-n", "b"), ("/bin/sh", "-c", "A=1 ./b | head"), ("sort", "x")]


def test_a_name_is_of_the_command_at_its_place() -> None:
    found = quoted("x", "y", "x", names=("first-{threads}", "x"))
    assert [plan.name for plan in found] == ["first-1", "x", "x-2"]
    with pytest.raises(InputError, match="two commands are named 'a'"):
        quoted("x", "y", names=("a", "a"))


@pytest.mark.parametrize(
    ("shell", "argv"),
    [("/bin/sh", ("/bin/sh", "-c", "echo 1")), ("bash -e", ("bash", "-e", "-c", "echo 1"))],
)
def test_a_shell_runs_also_what_needs_none(shell: str, argv: tuple[str, ...]) -> None:
    (plan,) = quoted("echo 1", shell=shell)
    assert plan.phases.exec[0].argv == argv
    (after,) = plans(CommandRequest(("echo 1",), shell=shell))
    assert after.phases.exec[0].argv == argv
    with pytest.raises(InputError, match="one word"):
        plans(CommandRequest(("echo", "1"), shell=shell))


def test_a_quoted_command_line_after_dashes_has_a_hint_that_works() -> None:
    with pytest.raises(InputError, match="one word") as caught:
        plans(CommandRequest(command=("seq 10 | wc -l",)))
    (one,) = caught.value.diagnostics
    assert one.hint == "write it without --: bw run 'seq 10 | wc -l'"


def test_warm_up_trials_are_those_of_a_suite() -> None:
    (plan,) = quoted("x 1", warmup="2", runs="5")
    assert (plan.warmups, plan.stopping) == (2, FixedCount(5))


def test_misspelt_placeholders_of_quoted_commands_are_errors() -> None:
    with pytest.raises(InputError, match=r"did you mean \{level\}\?") as caught:
        quoted("gzip -{lvel} x", "  ", factors=("level=1..9",))
    assert [(one.file, one.column) for one in caught.value.diagnostics] == [
        ("COMMAND", 7),
        ("COMMAND", 1),
    ]


# -- the order -----------------------------------------------------------------------------


def rounds(program: Program, ran: Callable[[int], int] = lambda count: count) -> str:
    """Return the first letters of the tests in the order in which epochs run; `.` at the end of
    each."""
    done: Counter[str] = Counter()
    seen, answer = "", None
    steps = execute(program, defines={}, environment={})
    with contextlib.suppress(StopIteration):
        while True:
            what, answer = steps.send(answer), None
            match what:
                case effect.AskNext(name):
                    answer = 6 - done[name]
                case effect.RunEpochs(plan, first, count):
                    assert first == done[plan.name] + 1
                    seen += plan.name[0]
                    answer = ran(count)
                    done[plan.name] += answer
                case effect.EndTest():
                    seen += "."
    assert set(done.values()) == {6}
    return seen


def test_tests_are_interleaved_in_random_order_with_a_seed() -> None:
    request = CommandRequest(commands=("a 1", "b 1", "c 1"), seed="3")
    seen = rounds(program_from_command(request), lambda count: min(count, 2))
    turns = seen.replace(".", "")
    assert [sorted(turns[at : at + 3]) for at in (0, 3, 6)] == [["a", "b", "c"]] * 3
    assert turns == rounds(program_from_command(request), lambda _: 2).replace(".", "")
    others = {
        rounds(program_from_command(msgspec.structs.replace(request, seed=str(seed))))
        for seed in range(50)
    }
    assert len(others) == 6, "whole tests in each of the six orders"


@pytest.mark.parametrize("more", [{"in_order": True, "seed": "3"}, {"seed": None}])
def test_tests_run_in_the_order_given_on_request(more: dict[str, Any]) -> None:
    request = CommandRequest(commands=("c 1", "a 1", "b 1"), **more)
    assert rounds(program_from_command(request), lambda _: 2) == "ccc.aaa.bbb."


def test_the_plan_lists_interleaved_tests_in_the_order_given() -> None:
    request = CommandRequest(("x", "{n}"), factors=("n=5,1,3",), seed="1")
    planned = describe(program_from_command(request), defines={}, environment={})
    assert planned[0] == PlannedStep("ORDER", "random in each round of trials (seed 1)")
    found = [one.plan for one in planned if isinstance(one, PlannedTest)]
    assert [plan.sample for plan in found] == [(("n", level),) for level in "513"]
    assert [plan.place for plan in found] == [0, 1, 2]
