"""The .ap language: every directive, by the effects that a program yields."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from benchwright.core.errors import InputError
from benchwright.core.plan import (
    Command,
    FixedCount,
    MetricSpec,
    TestPlan,
    UntilPredicate,
    UntilProgram,
)
from benchwright.suite import effects as effect
from benchwright.suite.check import names_read
from benchwright.suite.compile import compile_sources, load
from benchwright.suite.effects import Effect
from benchwright.suite.interpret import execute
from benchwright.suite.program import Program

NONE: Mapping[str, str] = {}


def compiled(
    text: str,
    files: Mapping[str, str] = NONE,
    defines: Mapping[str, str] = NONE,
    environment: Mapping[str, str] = NONE,
) -> Program:
    texts = {"suite.ap": text, **files}

    def read(path: str) -> str:
        if path not in texts:
            raise FileNotFoundError(path)
        return texts[path]

    return load("suite.ap", read, defines=defines, environment=environment)


def effects(
    text: str,
    *,
    asks: Sequence[int] = (1, 0),
    answer: Callable[[Effect], int | None] = lambda _: None,
    files: Mapping[str, str] = NONE,
    defines: Mapping[str, str] = NONE,
    environment: Mapping[str, str] = NONE,
) -> list[Effect]:
    """Return every effect of a suite. Each test asks for `asks` epochs in turn."""
    program = compiled(text, files, defines, environment)
    steps = execute(program, defines=defines, environment=environment)
    seen: list[Effect] = []
    given: int | None = None
    pending = list(asks)
    while True:
        try:
            what = steps.send(given)
        except StopIteration:
            return seen
        seen.append(what)
        given = answer(what)
        match what:
            case effect.BeginTest():
                pending = list(asks)
            case effect.AskNext():
                given = pending.pop(0)
            case effect.RunEpochs(_, _, count) if given is None:
                given = count


def said(text: str, **more: Mapping[str, str]) -> list[str]:
    """Return what a suite says."""
    return [e.text for e in effects(text, **more) if isinstance(e, effect.Say)]  # type: ignore[arg-type]


def plans(text: str, *, asks: Sequence[int] = (1, 0)) -> list[TestPlan]:
    """Return the plans of the epochs that a suite runs."""
    found = effects(text, asks=asks)
    return [e.plan for e in found if isinstance(e, effect.RunEpochs)]


def stops_by(arguments: str) -> object:
    """Return the stopping rule of TEST with these arguments."""
    return plans(f"TEST t {arguments}\nEXEC x\nDONE")[0].stopping


# -- lines -------------------------------------------------------------------------------


def test_comments_blank_lines_and_line_ends() -> None:
    assert said("#!/usr/bin/perl\n\n  # no\nECHO one\r\n\t ECHO two") == ["one", "two"]


def test_a_continued_line_is_joined_without_its_backslash() -> None:
    assert said("ECHO a\\\nb \\\n  c") == ["ab   c"]


def test_the_values_of_a_loop_respect_quotes() -> None:
    text = (
        "VAR Q=x y\nFOREACH P a \"b c\" 'd  e' %Q%\nECHO [%P%]\nDONE\n"
        "FOREACH P %Q%\nECHO <%P%>\nDONE"
    )
    shown = ["[a]", "[b c]", "[d  e]", "[x]", "[y]", "<x>", "<y>"]
    assert said(text) == shown
    with pytest.raises(InputError, match="suite-quote"):
        compiled('FOREACH P a "b c\nECHO %P%\nDONE')


def test_a_comment_does_not_continue() -> None:
    assert said("# no \\\nECHO yes") == ["yes"]


def test_a_comment_ends_its_line() -> None:
    assert said("VAR X=3 # three\nIF X = 3 # it is\nECHO yes#1\nFI # done") == ["yes#1"]
    assert said("ECHO it's # Auto-pilot") == ["it's"]
    assert said("VAR A=1 # no \\\nECHO a \\\nb # c") == ["a b"]


@pytest.mark.parametrize("kept", ["a 'b # c' d", 'a "b \\" # c" d', "a \\# b", "a#b"])
def test_a_hash_in_quotes_in_a_word_or_after_a_backslash_is_text(kept: str) -> None:
    assert said(f"ECHO {kept}") == [kept]


def test_quotes_go_on_over_a_continuation() -> None:
    assert said("ECHO 'a \\\n# b' # c") == ["'a # b'"]


def test_a_comment_may_follow_an_include() -> None:
    files = {"common.inc": "ECHO included"}
    assert said("INCLUDE common.inc # ours", files=files) == ["included"]


# -- variables ---------------------------------------------------------------------------


def test_var_and_substitution() -> None:
    assert said("VAR A=x y\nVAR B=%A%!\nECHO <%B%> %A%") == ["<x y!> x y"]


def test_substitution_is_one_pass() -> None:
    assert said("VAR A=1\nVAR B=%%A%\nECHO %B%") == ["%A%"]


def test_percent_signs_that_are_no_variables_stay() -> None:
    assert said("VAR A=1\nECHO 5% %%A% %A%%A% 100%% %") == ["5% %A% 11 100%% %"]


def test_dollar_names_are_the_environments() -> None:
    text = "ENV B=1\nVAR HOME=mine\nECHO $B$ $HOME$ %HOME%\nENV HOME=x\nECHO $HOME$"
    assert said(text, environment={"HOME": "/root"}) == ["1 /root mine", "x"]


@pytest.mark.parametrize("text", ["$HOME", "$1", "$", "$$", "${A}$", "$A:$A", "$(a)$", "5$ $A 6$"])
def test_a_dollar_without_its_other_is_the_shells(text: str) -> None:
    assert said(f"ENV A=1\nECHO <{text}>") == [f"<{text}>"]


def test_two_dollars_stand_for_the_text() -> None:
    assert said("ECHO $$A$ $$") == ["$A$ $$"]


def test_define_wins_for_dollar_names_too() -> None:
    assert said("ENV A=1\nECHO $A$", defines={"A": "2"}) == ["2"]
    given = {"defines": {"A": "2"}, "environment": {"A": "3"}}
    assert said("ECHO $A$", **given) == ["2"]


def test_a_dollar_name_that_the_environment_does_not_have_is_a_mistake() -> None:
    with pytest.raises(InputError) as caught:
        said("VAR A=1\nECHO is $A$")
    (wrong,) = caught.value.diagnostics
    assert (wrong.code, wrong.line, wrong.column) == ("suite-unknown-variable", 2, 9)
    assert "%A%" in wrong.hint
    assert "$$A$" in wrong.hint
    with pytest.raises(InputError) as caught:
        said("IF THREADS = 2\nENV A=1\nFI\nECHO $A$")
    assert caught.value.diagnostics[0].line == 4


def test_the_names_in_dollars_are_kept_for_a_resume() -> None:
    assert "HOME" in names_read(compiled("ECHO $HOME$", environment={"HOME": "/"}))


def test_a_variable_wins_over_the_environment() -> None:
    text = "ECHO %HOME%\nVAR HOME=mine\nECHO %HOME%"
    assert said(text, environment={"HOME": "/root"}) == ["/root", "mine"]


def test_define_wins_over_var_env_and_loops_but_not_over_computation() -> None:
    text = """
VAR A=1
ENV B=1
VAREX C=1
FOREACH D 1 2
FOR E=1 TO 2
ECHO %A%%B%%C%%D%%E%
DONE
DONE
"""
    defines = dict.fromkeys("ABCDE", "8 9")
    assert said(text, defines=defines) == ["8 98 9188", "8 98 9189", "8 98 9198", "8 98 9199"]


def test_env_goes_to_commands_in_order_last_wins() -> None:
    text = "ENV A=1\nENV B=2\nENVEX A=%A%+4\nVAR C=3\nSYSTEM run\nTEST t 1\nEXEC x\nDONE"
    found = effects(text)
    assert isinstance(found[0], effect.RunSystem)
    assert found[0].environment == (("A", "5"), ("B", "2"))
    assert isinstance(found[3], effect.RunEpochs)
    assert found[3].plan.environment == (("A", "5"), ("B", "2"))


def test_varex_computes_with_substituted_and_with_perl_variables() -> None:
    text = 'VAR N=3\nVAREX M=%N%**2 + $N\nVAREX S="$M!" . (1 > 2)\nECHO %M% %S%'
    assert said(text) == ["12 12!"]


def test_varex_substitutes_text_as_auto_pilot_did() -> None:
    assert said("VAR N=1+1\nVAREX M=%N%*3\nECHO %M%") == ["4"]


# -- control -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        ("A = 3", True),
        ("A = 3.0", True),
        ("A != 3", False),
        ("A < 10", True),
        ("A !< 10", False),
        ("A >= 3", True),
        ("A !>= 3", False),
        ("A > 3", False),
        ("A !> 3", True),
        ("A <= 2", False),
        ("A !<= 2", True),
        ("S = ext2", True),
        ("S != ext2", False),
        ("S=ext2", True),
        ("%S% = ext2", True),
        ("%S%x = ext2x", True),
        ("S = %S%", True),
        ("E =", True),
        ("S =", False),
    ],
)
def test_conditions(condition: str, holds: bool) -> None:
    text = f"VAR A=3\nVAR S=ext2\nVAR E=\nIF {condition}\nECHO yes\nELSE\nECHO no\nFI"
    assert said(text) == ["yes" if holds else "no"]


def test_else_if_takes_the_first_that_holds() -> None:
    text = """
FOREACH A 1 2 3 4
  IF A = 1
    ECHO one
  ELSE-IF A = 2
    ECHO two
  ELSE-IF A < 4
    ECHO three
  ELSE
    ECHO four
  FI
DONE
"""
    assert said(text) == ["one", "two", "three", "four"]


def test_while() -> None:
    text = "VAR A=1\nWHILE A < 20\nECHO %A%\nVAREX A=%A%*3\nDONE\nECHO end %A%"
    assert said(text) == ["1", "3", "9", "end 27"]


def test_foreach_splits_a_variable() -> None:
    assert said("VAR L=a  b\nFOREACH V %L% c\nECHO %V%\nDONE\nECHO %V%") == list("abcc")


@pytest.mark.parametrize(
    ("head", "values"),
    [
        ("1 TO 32 FACTOR 2", "1 2 4 8 16 32"),
        ("1 TO 4", "1 2 3 4"),
        ("1 TO 6 ADD 2", "1 3 5"),
        ("3 TO 1 ADD -1", "3 2 1"),
        ("2 TO 1", ""),
        ("0.1 TO 0.5 ADD 0.1", "0.1 0.2 0.3 0.4 0.5"),
        ("100 TO 1 FACTOR 0.1", "100 10 1"),
        ("-8 TO -1 FACTOR .5", "-8 -4 -2 -1"),
        ("10 TO 1000 FACTOR 10", "10 100 1000"),
        ("8 TO 1 FACTOR 2", ""),
    ],
)
def test_for(head: str, values: str) -> None:
    assert said(f"FOR I={head}\nECHO %I%\nDONE") == values.split()


def test_stop_ends_everything() -> None:
    assert said("ECHO a\nFOREACH X 1 2\nECHO b\nSTOP\nDONE\nECHO c") == ["a", "b"]


# -- tests -------------------------------------------------------------------------------


def test_a_test_with_everything() -> None:
    text = """
ENV TOP=1
FASTFAIL mail root
FOREACH FS ext2
  FOR N=2 TO 2
    THREADS=%N%
    TEST %FS%:%THREADS% 10
      PRESETUP format %FS%
      SETUP mount %FS%
      EXEC first
      EXEC second "%FS%"
      CLEANUP umount
      POSTCLEANUP rm
      TIMEOUT 1.5s
      OKSTATUS 0,3
      METRIC ops:higher=/ops
      METRIC lat~lat=(\\d+)
      HOOKS disk-io /my/hooks
    DONE
  DONE
DONE
"""
    plan = plans(text)[0]
    assert plan.name == "ext2:2"
    assert plan.stopping == FixedCount(10)
    assert plan.threads == 2
    assert plan.sample == (("FS", "ext2"), ("N", "2"))
    assert plan.phases.presetup == (Command(("format", "ext2")),)
    assert plan.phases.setup == (Command(("mount", "ext2")),)
    assert plan.phases.exec == (Command(("first",)), Command(("/bin/sh", "-c", 'second "ext2"')))
    assert plan.phases.cleanup == (Command(("umount",)),)
    assert plan.phases.postcleanup == (Command(("rm",)),)
    assert plan.timeout_ns == 1_500_000_000
    assert plan.ok_status == (0, 3)
    assert plan.metrics == (
        MetricSpec("ops", pointer="/ops", better="higher"),
        MetricSpec("lat", pattern="lat=(\\d+)"),
    )
    assert plan.hooks == ("disk-io", "/my/hooks")
    assert plan.environment == (("TOP", "1"),)
    assert plan.fail_fast


def test_fast_fail_with_and_without_a_script() -> None:
    assert effects("FASTFAIL") == [effect.SetFastFail(None)]
    assert effects("VAR W=me\nFASTFAIL mail %W%") == [effect.SetFastFail(Command(("mail", "me")))]


@pytest.mark.parametrize("line", ["THREADS=3", "THREADS 3", "THREADS = 3", "VAR THREADS=3"])
def test_threads(line: str) -> None:
    assert plans(f"{line}\nTEST t-%THREADS% 1\nEXEC x\nDONE")[0].threads == 3


@pytest.mark.parametrize(
    ("arguments", "rule"),
    [
        ("5", FixedCount(5)),
        ("5 2", FixedCount(5)),
        ("5 2 --", FixedCount(5)),
        ("10 1 getstats --predicate '$count > 3'", UntilPredicate(10, 1, "$count > 3")),
        ("10 1 getstats --predicate '$count > 3' --", UntilPredicate(10, 1, "$count > 3")),
        ("9 2 /usr/bin/getstats --predicate=1", UntilPredicate(9, 2, "1")),
        ('9 2 getstats --warn 0 --predicate "\\$count"', UntilPredicate(9, 2, "$count")),
        ("9 2 stable.sh -x", UntilProgram(9, 2, Command(("stable.sh", "-x")))),
        ("9 2 stable.sh -x --", UntilProgram(9, 2, Command(("stable.sh", "-x")))),
        ("9 2 getstats --ttest", UntilProgram(9, 2, Command(("getstats", "--ttest")))),
        ("9 2 a | b --", UntilProgram(9, 2, Command(("/bin/sh", "-c", "a | b")))),
    ],
)
def test_when_a_test_stops(arguments: str, rule: object) -> None:
    assert stops_by(arguments) == rule


def test_arguments_may_come_from_a_variable() -> None:
    text = "VAR T=4 2 getstats --predicate '$count > 9' --\nTEST t %T%\nEXEC x\nDONE"
    assert plans(text)[0].stopping == UntilPredicate(4, 2, "$count > 9")


def test_settings_inside_a_test_end_with_it() -> None:
    text = """
TIMEOUT 1s
METRIC a
TEST one 1
  TIMEOUT 2s
  METRIC b
  HOOKS h
  EXEC x
DONE
TEST two 1
  EXEC x
DONE
TIMEOUT none
TEST three 1
  EXEC x
DONE
"""
    one, two, three = plans(text)
    assert (one.timeout_ns, [m.name for m in one.metrics]) == (2 * 10**9, ["a", "b"])
    assert (two.timeout_ns, [m.name for m in two.metrics]) == (10**9, ["a"])
    assert (one.hooks, two.hooks, three.timeout_ns) == (("h",), (), None)


# -- effects -----------------------------------------------------------------------------


def test_warm_up_is_of_the_tests_that_follow_or_of_one_test() -> None:
    text = "\n".join(
        (
            *("TEST a 2", "EXEC x", "DONE"),
            *("VAR N=2", "WARMUP %N%", "TEST b 2", "EXEC x", "DONE"),
            *("TEST c 2", "WARMUP 1", "EXEC x", "DONE", "TEST d 2", "EXEC x", "DONE"),
        )
    )
    assert [(plan.name, plan.warmups) for plan in plans(text)] == [
        ("a", 0),
        ("b", 2),
        ("c", 1),
        ("d", 2),
    ]


@pytest.mark.parametrize("count", ["", "-1", "one", "1.5", "1000001"])
def test_a_warm_up_is_a_whole_number(count: str) -> None:
    with pytest.raises(InputError) as caught:
        compiled(f"WARMUP {count}\nTEST a 1\nEXEC x\nDONE")
    assert caught.value.diagnostics[0].line == 1
    with pytest.raises(InputError) as caught:
        effects(f"VAR N={count}\nWARMUP %N%\nTEST a 1\nEXEC x\nDONE")
    assert caught.value.diagnostics[0].code == "suite-warmup"


def test_checkpoint_sets_restore() -> None:
    text = "ECHO %RESTORE%\nCHECKPOINT f.%RESTORE%\nECHO %RESTORE%\nCHECKPOINT"

    def answer(what: Effect) -> int | None:
        return 1 if isinstance(what, effect.WriteCheckpoint) else None

    found = effects(text, answer=answer)
    assert [e.text for e in found if isinstance(e, effect.Say)] == ["0", "1"]
    files = [e.file for e in found if isinstance(e, effect.WriteCheckpoint)]
    assert files == ["f.0", None]


def test_system_tells_its_exit_status() -> None:
    found = effects(
        "SYSTEM a b\nIF SYSTEM_STATUS != 0\nECHO failed %SYSTEM_STATUS%\nFI",
        answer=lambda what: 7 if isinstance(what, effect.RunSystem) else None,
    )
    assert isinstance(found[0], effect.RunSystem)
    assert found[0].command == Command(("a", "b"))
    assert found[0].where.line == 1
    assert found[1] == effect.Say("failed 7")


# -- files -------------------------------------------------------------------------------


def test_includes_are_textual_and_searched_in_order() -> None:
    files = {
        "a/x.inc": "ECHO a/x\n",
        "b/x.inc": "ECHO b/x\nINCLUDE y.inc\n",
        "b/y.inc": "ECHO b/y\n",
        "x.inc": "ECHO x\n",
    }
    assert said("INCLUDE x.inc\nOPTINCLUDE none.inc", files=files) == ["x"]
    text = "INCLUDEPATH b:a\nIF THREADS = 1\nINCLUDE x.inc\nFI\nINCLUDE x.inc"
    assert said(text, files=files) == ["b/x", "b/y", "b/x", "b/y"]


def test_settings_of_a_host_and_a_system_are_found() -> None:
    texts = {
        "s/s.ap": "INCLUDE common.inc\nECHO %SIZE%\n",
        "s/common.inc": "VAR SIZE=1G\nOPTINCLUDE {system}.inc\nOPTINCLUDE {host}.inc\n",
        "s/debian.inc": "VAR SIZE=2G\n",
        "s/filer.inc": "VAR SIZE=8G\n",
    }

    def read(path: str) -> str:
        if path not in texts:
            raise FileNotFoundError(path)
        return texts[path]

    def size(program: Program) -> list[str]:
        return [
            one.text
            for one in execute(program, defines={}, environment={})
            if isinstance(one, effect.Say)
        ]

    for machine, found in (
        ({}, "1G"),
        ({"system": "debian"}, "2G"),
        ({"system": "debian", "host": "filer"}, "8G"),
        ({"system": "fedora", "host": "other"}, "1G"),
    ):
        program = load("s/s.ap", read, machine=machine)
        assert size(program) == [found]
        # What is stored is the same on any machine.
        assert compile_sources("s/s.ap", program.sources) == program


def test_a_block_may_span_files() -> None:
    files = {"open.inc": "FOREACH X 1 2", "close.inc": "DONE"}
    assert said("INCLUDE open.inc\nECHO %X%\nINCLUDE close.inc", files=files) == ["1", "2"]


def test_the_library_comes_last_and_resumes_without_the_disk() -> None:
    texts = {"s/s.ap": "INCLUDE lib.inc\n", "/lib/lib.inc": "ECHO library\n"}

    def read(path: str) -> str:
        if path not in texts:
            raise FileNotFoundError(path)
        return texts[path]

    program = load("s/s.ap", read, library="/lib/")
    assert [s.path for s in program.sources] == ["s/s.ap", "<library>/lib.inc"]
    assert compile_sources("s/s.ap", program.sources) == program
    with pytest.raises(InputError):
        load("s/s.ap", read)


def test_the_library_may_be_several_directories() -> None:
    texts = {"s.ap": "INCLUDE b.inc\nINCLUDE a.inc\n", "/a/a.inc": "ECHO a\n"}
    texts |= {"/b/a.inc": "ECHO hidden\n", "/b/b.inc": "ECHO b\n"}

    def read(path: str) -> str:
        if path not in texts:
            raise FileNotFoundError(path)
        return texts[path]

    program = load("s.ap", read, library="/a::/b/:/nowhere")
    steps = execute(program, defines={}, environment={})
    assert [e.text for e in steps if isinstance(e, effect.Say)] == ["b", "a"]


def test_a_file_with_a_byte_order_mark() -> None:
    assert said("\ufeffECHO hello") == ["hello"]


def test_the_names_that_a_program_reads() -> None:
    text = """
ENV A=%HOME%
IF USER = me
  VAREX B=$SHELL . "${TERM}x" . %LANG%
FI
"""
    names = ("HOME", "USER", "SHELL", "TERM", "LANG")
    program = compiled(text, environment=dict.fromkeys(names, "1"))
    assert names_read(program) == set(names)


GUIDE = Path(__file__).parents[2] / "docs" / "suite-ap.md"


def test_the_guide_is_true() -> None:
    text, expected = (
        GUIDE.read_text().split(f"```{kind}\n")[1].split("```")[0] for kind in ("sh", "text")
    )
    found = effects(text, environment={"TESTROOT": "/t"})
    shown = [
        e.text if isinstance(e, effect.Say) else f"{e.plan.name}: {e.plan.phases.exec[0].text}"
        for e in found
        if isinstance(e, (effect.Say, effect.RunEpochs))
    ]
    assert shown == expected.strip().split("\n")
