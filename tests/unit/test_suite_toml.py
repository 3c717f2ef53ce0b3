"""The .toml language: what it compiles to, and each mistake at its place."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path

import pytest

from benchwright.core.errors import InputError
from benchwright.core.plan import (
    GIVE_UP_NS,
    Command,
    FixedCount,
    MetricSpec,
    TestPlan,
    UntilPrecise,
    UntilPredicate,
    UntilProgram,
)
from benchwright.inputs.mistakes import Where
from benchwright.inputs.toml_table import Locator
from benchwright.suite import program as step
from benchwright.suite.compile import load
from benchwright.suite.plan import PlannedTest, describe

NONE: Mapping[str, str] = {}
precise = partial(UntilPrecise, give_up_ns=GIVE_UP_NS)
GUIDE = Path(__file__).parents[2] / "docs" / "suite-toml.md"


def plans(text: str, defines: Mapping[str, str] = NONE) -> list[TestPlan]:
    """Return the plan of each test at each sample."""
    program = load("s.toml", lambda _: text, defines=defines)
    planned = describe(program, defines=defines, environment={})
    return [one.plan for one in planned if isinstance(one, PlannedTest)]


def test_the_smallest_suite() -> None:
    (plan,) = plans('[[test]]\nexec = "/usr/bin/sort -n x"')
    assert plan.name == "sort"
    assert plan.phases.exec == (Command(("/usr/bin/sort", "-n", "x")),)
    assert (plan.stopping, plan.threads, plan.fail_fast) == (FixedCount(10), 1, True)


def test_warm_up_of_the_suite_and_of_a_test() -> None:
    text = 'warmup = 2\n[[test]]\nexec = "a"\n[[test]]\nexec = "b"\nwarmup = 0\n'
    assert [plan.warmups for plan in plans(text)] == [2, 0]


def test_a_comparison_has_its_own_warm_up() -> None:
    arms = '[[compare.arm]]\nexec = "a"\n[[compare.arm]]\nexec = "b"\n'
    text = f"warmup = 5\n[[compare]]\nwarmup = 3\n{arms}"
    assert [plan.warmups for plan in plans(text)] == [3, 3]


def test_factors_combine_and_threads_are_innermost() -> None:
    text = """
threads = [1, 2]
[factors]
fs = ["ext4", "xfs"]
size = [1, 2.5]
[[test]]
name = "{fs}"
exec = ["run", "{fs}", "{size}", "{threads}", "{other}", "$fs"]
"""
    found = plans(text)
    assert len(found) == 8
    assert found[3].name == "ext4:size=2.5:threads=2"
    assert found[3].sample == (("fs", "ext4"), ("size", "2.5"), ("threads", "2"))
    assert found[3].threads == 2
    words = ("run", "ext4", "2.5", "2", "{other}", "$fs")
    assert found[3].phases.exec == (Command(words),)


def test_conditions_of_the_suite_and_of_a_test() -> None:
    text = """
threads = [1, 4]
skip = '$fs eq "xfs" && $threads > 2'
[factors]
fs = ["ext4", "xfs"]
[[test]]
name = "a"
exec = "a"
[[test]]
name = "b"
exec = "b"
only = ['$fs eq "ext4"', '$threads == 4']
"""
    assert [p.name for p in plans(text)] == [
        "a:fs=ext4:threads=1",
        "a:fs=ext4:threads=4",
        "b:fs=ext4:threads=4",
        "a:fs=xfs:threads=1",
    ]


def test_define_narrows_a_factor_and_sets_a_variable() -> None:
    text = '[factors]\nfs = ["a", "b", "c"]\n[variables]\nx = 1\n[[test]]\nexec = "e {x}"'
    found = plans(text, defines={"fs": "b,d", "x": "7"})
    assert [p.name for p in found] == ["e:fs=b", "e:fs=d"]
    assert found[0].phases.exec[0].text == "e 7"
    with pytest.raises(InputError, match="suite-unused-define"):
        plans(text, defines={"fz": "b"})


def test_variables_environment_and_commands() -> None:
    text = """
[factors]
fs = ["x"]
[variables]
a = "/mnt/{fs}"
b = "{a}/b"
n = 3
yes = true
[environment]
DIR = "{b}"
[[test]]
presetup = "mkfs | cat {a}"
setup = ["mount", "{a}"]
exec = [["one", "{n}"], "two {yes}", ["three"]]
cleanup = "awk '{print}' {a}"
postcleanup = '''
one
two'''
"""
    (plan,) = plans(text)
    assert plan.environment == (("DIR", "/mnt/x/b"),)
    phases = plan.phases
    assert phases.presetup[0].argv == ("/bin/sh", "-c", "mkfs | cat /mnt/x")
    assert phases.setup[0].argv == ("mount", "/mnt/x")
    assert [c.text for c in phases.exec] == ["one 3", "two true", "three"]
    assert phases.cleanup[0].text == "awk '{print}' /mnt/x"
    assert phases.postcleanup[0].argv == ("/bin/sh", "-c", "one\ntwo")


@pytest.mark.parametrize(
    ("until", "rule"),
    [
        ("{count = 3}", FixedCount(3)),
        ("{runs = 3}", FixedCount(3)),
        ('{precision = "5%"}', precise(0.05, ("elapsed", "ops"), 30, long_minimum=10)),
        (
            '{precision = 0.01, metrics = ["ops"], min_runs = 5, max_runs = 50,'
            ' max_time = "10m", confidence = 0.99}',
            precise(0.01, ("ops",), 5, 50, 600 * 10**9, 0.99),
        ),
        (
            '{precision = "2%", mode = "watch", of = "median", metrics = ["elapsed"]}',
            precise(0.02, minimum=20, mode="watch", share=0.5),
        ),
        (
            '{precision = "2%", of = "mean", metrics = ["elapsed"]}',
            precise(0.02, minimum=30, long_minimum=10),
        ),
        ("{predicate = '$count > 3'}", UntilPredicate(10, 1, "$count > 3")),
        (
            "{predicate = '1', min_runs = 4, increment = 2, max_runs = 9}",
            UntilPredicate(4, 2, "1", 9),
        ),
        (
            '{precision = 0.00001, confidence = "99%", give_up = "none", min_runs = 9}',
            precise(0.00001, ("elapsed", "ops"), 9, confidence=0.99, give_up_ns=None),
        ),
        ('{program = "stable.sh"}', UntilProgram(10, 1, Command(("stable.sh",)))),
    ],
)
def test_stopping_rules_of_a_test_and_of_the_suite(until: str, rule: object) -> None:
    metrics = "[test.metrics]\nops = {pointer = '/ops', better = 'higher'}"
    (own,) = plans(f'[[test]]\nexec = "x"\nuntil = {until}\n{metrics}')
    (shared,) = plans(f'until = {until}\n[[test]]\nexec = "x"\n{metrics}')
    assert own.stopping == shared.stopping == rule


def test_metrics() -> None:
    text = r"""
[metrics]
user = {better = "higher"}
[[test]]
exec = "x"
[test.metrics]
ops = {pointer = "/a~1b", unit = "1/s", better = "higher", across_threads = "max"}
lat = {regex = 'lat=(\d+)'}
logged = {}
"""
    (plan,) = plans(text)
    assert plan.metrics == (
        MetricSpec("user", better="higher"),
        MetricSpec("ops", pointer="/a~1b", unit="1/s", better="higher", across_threads="max"),
        MetricSpec("lat", pattern=r"lat=(\d+)"),
        MetricSpec("logged"),
    )


def test_settings_of_a_test_win() -> None:
    text = """
timeout = "1s"
hooks = ["a"]
fail_fast = false
threads = 4
[[test]]
name = "x"
exec = "e"
[[test]]
name = "y"
exec = "e"
timeout = "none"
hooks = []
"""
    x, y = plans(text)
    assert (x.timeout_ns, x.hooks, x.threads, x.fail_fast) == (10**9, ("a",), 4, False)
    assert (y.timeout_ns, y.hooks) == (None, ())


TEST = '[[test]]\nexec = "x"\n'


def test_ok_status_of_the_suite_of_a_test_and_of_arms() -> None:
    text = """
ok_status = 1
[[test]]
name = "x"
exec = "e"
[[test]]
name = "y"
exec = "e"
ok_status = [0, "2..4"]
[[compare]]
ok_status = "0,7"
[[compare.arm]]
name = "a"
exec = "e"
[[compare.arm]]
name = "b"
exec = "e"
"""
    found = [plan.ok_status for plan in plans(text)]
    assert found == [(1,), (0, 2, 3, 4), (0, 7), (0, 7)]
    assert plans(TEST)[0].ok_status == (0,)


@pytest.mark.parametrize(
    ("text", "line", "column", "code"),
    [
        ("a = \n", 1, 5, "suite-toml"),
        ("ok_status = 256\n" + TEST, 1, 13, "suite-status"),
        ('ok_status = [1, "x"]\n' + TEST, 1, 13, "suite-status"),
        ("ok_status = true\n" + TEST, 1, 13, "suite-type"),
        ("a = [1,\n\n", 1, 8, "suite-toml"),
        ("a = 1\na = 2", 2, 6, "suite-toml"),
        ("nmae = 'x'\n" + TEST, 1, 1, "suite-unknown-key"),
        (TEST + "[test.until]\ncuont = 3", 3, 2, "suite-until"),
        (TEST + "[test.until]\ncuont = 3", 4, 1, "suite-unknown-key"),
        ("name = 3\n" + TEST, 1, 8, "suite-type"),
        ("name = 'a/b'\n" + TEST, 1, 10, "suite-test-name"),
        ("threads = 0\n" + TEST, 1, 11, "suite-threads"),
        ("warmup = -1\n" + TEST, 1, 10, "suite-range"),
        ("warmup = 'x'\n" + TEST, 1, 10, "suite-type"),
        ("threads = [1,\n 'x']\n" + TEST, 2, 2, "suite-threads"),
        ("threads = []\n" + TEST, 1, 11, "suite-range"),
        ("timeout = '3'\n" + TEST, 1, 12, "suite-duration"),
        ("fail_fast = 1\n" + TEST, 1, 13, "suite-type"),
        ("hooks = [1]\n" + TEST, 1, 10, "suite-type"),
        ("skip = '$fs > 1'\n" + TEST, 1, 9, "expression-unknown-name"),
        ("only = ['1', '1 +']\n" + TEST, 1, 18, "expression-syntax"),
        ("[factors]\n'a b' = [1]\n" + TEST, 2, 1, "suite-name"),
        ("[factors]\nthreads = [1]\n" + TEST, 2, 11, "suite-name"),
        ("factors.fs = [1, 1]\n" + TEST, 1, 18, "suite-range"),
        ("factors.fs = '1..3:0'\n" + TEST, 1, 14, "suite-range"),
        ("factors.fs = 'ext4'\n" + TEST, 1, 14, "suite-type"),
        (TEST + "until = {runs = 0}", 3, 17, "suite-range"),
        (TEST + "until = {runs = 3, count = 3}", 3, 1, "suite-until"),
        ("[factors]\nfs = 'ext4'\n" + TEST, 2, 6, "suite-type"),
        ("[factors]\nfs = [{}]\n" + TEST, 2, 7, "suite-type"),
        ("[factors]\na = [1]\n[variables]\na = 2\n" + TEST, 4, 5, "suite-name"),
        ("[factors]\na = [1]\n[environment]\na = 2\n" + TEST, 4, 5, "suite-name"),
        ("[environment]\nA = []\n" + TEST, 2, 5, "suite-type"),
        ("", 1, 1, "suite-no-test"),
        ("test = 3", 1, 8, "suite-type"),
        ("[[test]]\nname = 'x'", 1, 3, "suite-no-exec"),
        ("[[test]]\nexec = ''", 2, 8, "suite-no-command"),
        ("[[test]]\nexec = []", 2, 8, "suite-no-command"),
        ("[[test]]\nexec = ['']", 2, 8, "suite-no-command"),
        ("[[test]]\nexec = ['a', 3]", 2, 14, "suite-type"),
        ("[[test]]\nexec = [['a'], 3]", 2, 16, "suite-type"),
        (TEST + "until = {}", 3, 1, "suite-until"),
        (TEST + "until = {count = 1, program = 'x'}", 3, 1, "suite-until"),
        (TEST + "until = {count = 0}", 3, 18, "suite-range"),
        (TEST + "until = {count = 1, max_runs = 3}", 3, 21, "suite-unknown-key"),
        (TEST + "until = {precision = 5}", 3, 22, "suite-type"),
        (TEST + "until = {precision = 5.0}", 3, 22, "suite-range"),
        (TEST + "until = {precision = '0%'}", 3, 22, "suite-range"),
        (TEST + "until = {precision = '1%', of = 'p100'}", 3, 33, "suite-range"),
        (TEST + "until = {precision = '1%', mode = 'peek'}", 3, 35, "suite-range"),
        (TEST + "rest = '5'", 3, 9, "suite-duration"),
        (TEST + "until = {precision = '1%', max_time = '3'}", 3, 39, "suite-range"),
        (TEST + "until = {precision = '1%', confidence = 95.0}", 3, 41, "suite-range"),
        (TEST + "until = {precision = '1%', metrics = ['nope']}", 3, 39, "suite-metric"),
        (TEST + "until = {precision = '1%', min_runs = 9, max_runs = 8}", 3, 53, "suite-range"),
        (TEST + "until = {precision = '1%', min_runs = 1}", 3, 39, "suite-range"),
        (TEST + "until = {precision = '1%', max_runs = '9'}", 3, 39, "suite-type"),
        (TEST + "until = {precision = '1%', rare = '1%:2x', max_runs = 9}", 3, 55, "suite-range"),
        (TEST + "until = {precision = '1%', confidence = 1}", 3, 41, "suite-type"),
        (TEST + "until = {predicate = '$count > $x'}", 3, 32, "expression-unknown-name"),
        (TEST + 'until = {predicate = """\n\n$x"""}', 5, 1, "expression-unknown-name"),
        (TEST + "until = {program = ' '}", 3, 20, "suite-no-command"),
        ('[[test]]\nexec = ["a", "b\\u0000"]', 2, 14, "suite-toml"),
        (TEST + "metrics = {a = {pointer = 'x'}}", 3, 28, "suite-metric"),
        (TEST + "metrics = {a = {regex = 'x('}}", 3, 27, "suite-metric"),
        (TEST + "metrics = {a = {regex = 'x'}}", 3, 26, "suite-metric"),
        (TEST + "metrics = {a = {better = 'up'}}", 3, 26, "suite-range"),
        (TEST + "metrics = {a = {pointer = '/x', regex = '(x)'}}", 3, 41, "suite-metric"),
        (TEST + "metrics = {elapsed = {pointer = '/x'}}", 3, 12, "suite-metric"),
        (TEST + "metrics = {'a b' = {}}", 3, 20, "suite-metric"),
        (TEST + "[[test]]\nname = 'x'\nexec = 'y'", 4, 8, "suite-duplicate-test"),
    ],
)  # fmt: skip
def test_one_mistake(text: str, line: int, column: int, code: str) -> None:
    with pytest.raises(InputError) as caught:
        load("s.toml", lambda _: text)
    found = caught.value.diagnostics
    places = [(d.line, d.column, d.code) for d in found]
    assert (line, column, code) in places
    only = found[places.index((line, column, code))]
    assert only.text == (text.split("\n")[line - 1])
    assert only.file == "s.toml"


@pytest.mark.parametrize("declared", ["ops = '('", "ops = {regex = '('}", "'o s' = {}"])
def test_a_rule_of_a_metric_with_a_wrong_declaration_is_no_mistake_of_its_own(
    declared: str,
) -> None:
    name = declared.split(" = ")[0].strip("'")
    until = f"until = {{precision = '1%', metrics = ['{name}']}}"
    with pytest.raises(InputError) as caught:
        load("s.toml", lambda _: f"{TEST}metrics = {{{declared}}}\n{until}")
    assert [found.line for found in caught.value.diagnostics] == [3]


@pytest.mark.parametrize("text", ["a = " + "[" * 5000, "a = " + "9" * 5000])
def test_what_breaks_tomllib_is_a_diagnostic(text: str) -> None:
    with pytest.raises(InputError, match="suite-toml"):
        load("s.toml", lambda _: text)


def test_the_locator_knows_every_form_of_toml() -> None:
    text = '''# head
a.b . "c" = 1 # no
[ t . 'u' ]
x = ["[", """
]""", \'\'\'
'\'\'\', { y = 1, z = [ 2 ] } ] # list
d = 1979-05-27 07:32:00
[[r]]
k = "a\\"b"
[r.s]
m = true
[[r]]
k = 'c:\\'
'''
    where = Locator(text, "f")

    def key(*path: str | int) -> tuple[int, int]:
        return (where.key(path).line, where.key(path).column)

    def value(*path: str | int) -> tuple[int, int]:
        return (where.value(path).line, where.value(path).column)

    assert (key("a", "b", "c"), value("a", "b", "c")) == ((2, 1), (2, 13))
    assert (key("t", "u"), key("t", "u", "x")) == ((3, 3), (4, 1))
    assert value("t", "u", "x", 0) == (4, 6)
    assert value("t", "u", "x", 1) == (4, 11)
    assert value("t", "u", "x", 2) == (5, 7)
    assert value("t", "u", "x", 3) == (6, 7)
    assert (key("t", "u", "x", 3, "y"), value("t", "u", "x", 3, "z", 0)) == ((6, 9), (6, 22))
    assert value("t", "u", "d") == (7, 5)
    assert (key("r"), key("r", 0), key("r", 1)) == ((8, 3), (8, 3), (12, 3))
    assert value("r", 0, "k") == (9, 5)
    assert value("r", 0, "s", "m") == (11, 5)
    assert value("r", 1, "k") == (13, 5)
    assert where.line(999, 999) == Where("f", 14, 1, "")


def guide_examples() -> list[str]:
    """Return the suites that the guide shows."""
    return [part.split("```")[0] for part in GUIDE.read_text().split("```toml\n")[1:]]


@pytest.mark.parametrize("text", guide_examples())
def test_the_guide_is_true(text: str) -> None:
    assert plans(text)


def test_the_guide_shows_its_own_plan() -> None:
    shown = GUIDE.read_text().split("```text\n")[1].split("```")[0]
    assert [p.name for p in plans(guide_examples()[0])] == shown.split()


def test_a_rest_is_a_command_of_setup() -> None:
    text = (
        "rest = '500ms'\n"
        + TEST
        + "setup = 'prepare'\n[[test]]\nname = 'b'\nexec = 'y'\nrest = '2s'"
    )
    first, second = plans(text)
    assert [c.text for c in first.phases.setup] == ["sleep 0.5", "prepare"]
    assert [c.text for c in second.phases.setup] == ["sleep 2"]


COMPARE = """
metrics.ops = {regex = 'ops (.*)', better = "higher"}
[factors]
n = [1, 2]
[[compare]]
setup = "prepare {n}"
rest = "10ms"
margin = "2%"
max_blocks = 50
fail_if = ["slower by 3%", "ops slower by 5%"]
[[compare.arm]]
name = "old"
exec = "./old {n}"
[[compare.arm]]
name = "new-{n}"
exec = ["./new", "{n}"]
"""


def test_a_comparison_has_arms_at_each_sample() -> None:
    found = plans(COMPARE)
    assert [p.name for p in found] == ["old:n=1", "new-1", "old:n=2", "new-2"]
    assert found[3].phases.exec == (Command(("./new", "2")),)
    assert [c.text for c in found[0].phases.setup] == ["sleep 0.01", "prepare 1"]
    arms = [p.arm for p in found]
    assert [a and a.place for a in arms] == [0, 1, 0, 1]
    assert arms[2] is not None
    assert arms[2].names == ("old:n=2", "new-2")
    assert not any(p.fail_fast for p in found), "a failure voids a block, no more"


def test_the_rule_of_a_comparison_is_read_as_on_the_command_line() -> None:
    program = load("s.toml", lambda _: COMPARE)
    (loop,) = (one for one in program.steps if isinstance(one, step.ForEach))
    (compare,) = (one for one in loop.body if isinstance(one, step.Compare))
    rule = compare.rule
    assert (rule.margin, rule.maximum, rule.minimum, rule.seed) == (0.02, 50, 10, 0)
    assert [gate.metric for gate in rule.gates] == ["elapsed", "ops"]
    judged = [(m.name, m.better) for m in rule.metrics if m.judged]
    assert judged == [("elapsed", "lower"), ("ops", "higher")]


@pytest.mark.parametrize(
    ("line", "place", "told"),
    [
        ('margin = "x"', (2, 10), "not a share"),
        ('design = "zigzag"', (2, 10), "'zigzag' is not a design"),
        ("max_blocks = 1", (2, 14), "at least 2"),
        ('fail_if = "slow"', (2, 11), "not a condition"),
        ('desing = "abba"', (2, 1), "unknown key"),
        ("seed = -1", (2, 8), "whole number of at least 0"),
    ],
)
def test_mistakes_of_a_comparison_stand_at_their_keys(
    line: str, place: tuple[int, int], told: str
) -> None:
    arms = '[[compare.arm]]\nname = "a"\nexec = "a"\n[[compare.arm]]\nexec = "b"\n'
    with pytest.raises(InputError) as caught:
        plans(f"[[compare]]\n{line}\n{arms}")
    (found,) = caught.value.diagnostics
    assert (found.line, found.column) == place
    assert told in found.message


def test_a_comparison_needs_two_arms_and_each_a_command() -> None:
    with pytest.raises(InputError) as caught:
        plans('[[compare]]\n[[compare.arm]]\nname = "a"\n')
    codes = {d.code for d in caught.value.diagnostics}
    assert codes == {"suite-no-arm", "suite-no-exec"}
