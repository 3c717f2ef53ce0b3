"""`--draw`: inputs drawn anew for each trial, the same for all arms of a block, kept by a resume."""

from __future__ import annotations

import contextlib
import math
import os
from pathlib import Path

import msgspec
import numpy as np
import pytest

from benchwright.cli.main import main
from benchwright.core.draws import DrawnInput, Draws
from benchwright.core.errors import InputError
from benchwright.core.observation import Trial
from benchwright.core.plan import Command, TestPlan
from benchwright.findings.drawn import drawn_findings
from benchwright.findings.result import TestResult
from benchwright.inputs.draw import parse_draw
from benchwright.stats.input_dependence import number_dependence, text_dependence
from benchwright.study.contents import stored_findings, tests_of
from benchwright.study.journal import Study
from benchwright.suite.comparison import ComparisonRequest, program_from_comparison
from benchwright.suite.compile import load
from benchwright.suite.plan import PlannedTest, describe
from benchwright.suite.program import Program
from watched_uses import trial

FULL = os.environ.get("BW_CALIBRATION") == "full"
SAMPLES = 4_000 if FULL else 400


def plans_of(program: Program) -> list[TestPlan]:
    planned = describe(program, defines={}, environment={})
    return [one.plan for one in planned if isinstance(one, PlannedTest)]


# -- what is drawn ---------------------------------------------------------------------------


def test_a_draw_is_a_function_of_seed_name_and_number() -> None:
    n = DrawnInput("n", low=1, high=1000)
    draws = Draws(7, (n, DrawnInput("q", ("a", "b", "c"))))
    first = [draws.of(number) for number in range(1, 301)]
    assert first == [draws.of(number) for number in range(1, 301)]
    assert first != [Draws(8, draws.inputs).of(number) for number in range(1, 301)]
    numbers = [int(dict(pairs)["n"]) for pairs in first]
    assert 1 <= min(numbers) < 20 < 980 < max(numbers) <= 1000
    assert abs(np.mean(numbers) - 500.5) < 3 * 289 / math.sqrt(300)
    counts = [sum(dict(pairs)["q"] == text for pairs in first) for text in "abc"]
    # Each is binomial: 100 with a deviation of 8.
    assert all(70 < count < 130 for count in counts)


@pytest.mark.parametrize(
    ("text", "size"), [("n=uniform:1..1000", 1000), ("n=uniform:-5..5", 11), ("q=choice:a,b", 2)]
)
def test_what_is_drawn_from(text: str, size: int) -> None:
    assert parse_draw(text).size == size


def test_lines_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "list.txt"
    file.write_text("one\n\ntwo words\nthree\n")
    assert parse_draw(f"f=@{file}").texts == ("one", "two words", "three")


@pytest.mark.parametrize(
    "text",
    [
        *("n", "n=", "n=5", "n=uniform:5", "n=uniform:5..5", "n=uniform:9..1", "9=choice:a,b"),
        *("q=choice:a", "q=choice:a,,b", "q=choice:a,a", "f=@none.txt", "f=@/dev/zero", "f=@/"),
    ],
)
def test_what_is_nothing_to_draw_from_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_draw(text)


@pytest.mark.parametrize(
    "words",
    [
        ("--draw", "n=uniform:1..9", "true"),
        ("--draw", "n=uniform:1..9", "--draw", "n=choice:a,b", "echo {n}"),
        ("--draw", "n=uniform:1..9", "echo {n}", "echo x"),
    ],
)
def test_an_input_belongs_into_every_command(
    words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["run", *words]) == 2


def test_an_input_needs_no_shell_and_stays_one_word() -> None:
    request = ComparisonRequest(
        ("cat {file}", "cat -n {file} | wc"), draw=("file=choice:a b,c",), seed="1"
    )
    program = program_from_comparison(request)
    assert program.draws is not None
    assert program.draws.seed == 1
    plain, shell = (plan.phases.exec[0] for plan in plans_of(program))
    assert plain == Command(("cat", "{file}"))
    assert shell.argv[:2] == ("/bin/sh", "-c")


# -- suites ---------------------------------------------------------------------------------

SUITE = """
[draw]
n = "uniform:1..9000"
f = "@list.txt"
[[test]]
name = "t"
until = { runs = 3 }
setup = "echo {f} >>log-setup"
exec = ["sh", "w.sh", "t", "{n}", "{f}"]
[[test]]
name = "without"
until = { runs = 2 }
exec = "true {m}"
[[compare]]
max_blocks = 4
margin = "1000%"
[[compare.arm]]
name = "a"
exec = "sh w.sh a {n} {f}"
[[compare.arm]]
name = "b"
exec = "sh w.sh b {n} {f}"
"""


def test_inputs_of_a_suite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "at").mkdir()
    (tmp_path / "at" / "s.toml").write_text(SUITE)
    (tmp_path / "at" / "list.txt").write_text("three\nboth of it\n")
    (tmp_path / "w.sh").write_text('echo "$2|$3" >>log-$1\n')
    assert main(["run", "--quiet", "at/s.toml"]) in (0, 3)
    tests = trials_of(tmp_path / "bw-study")
    drawn = {name: [trial.drawn for trial in trials] for name, trials in tests.items()}
    # Of a test that names no input, none is stored: nothing can depend on it.
    assert drawn["without"] == [(), ()]
    # The arms of a block have the same inputs, and an input with a blank is one word.
    assert drawn["a"] == drawn["b"]
    assert len(set(drawn["a"])) > 1
    for name in ("t", "a", "b"):
        given = ["|".join(text for _, text in pairs) for pairs in drawn[name]]
        assert (tmp_path / f"log-{name}").read_text().splitlines() == given
    setup = (tmp_path / "log-setup").read_text().splitlines()
    assert setup == [dict(pairs)["f"] for pairs in drawn["t"]]
    # The text of the file is stored with the suite, for a resume.
    with contextlib.closing(Study.open_to_read(tmp_path / "bw-study")) as study:
        sources = dict(study.sessions()[0].info.sources)
    assert sources["at/list.txt"] == "three\nboth of it\n"


COMPARED = '[[compare]]\n[[compare.arm]]\nexec = "a {n}"\n[[compare.arm]]\nexec = "b"\n'


@pytest.mark.parametrize(
    ("text", "code", "line"),
    [
        ('[draw]\nn = "uniform:9..1"\n[[test]]\nexec = "a {n}"', "suite-range", 2),
        ('[draw]\nn = "@none.txt"\n[[test]]\nexec = "a {n}"', "suite-range", 2),
        ('[draw]\nn = 3\n[[test]]\nexec = "a {n}"', "suite-type", 2),
        ('[draw]\n"a b" = "choice:a,b"\n[[test]]\nexec = "a {n}"', "suite-name", 2),
        ('[draw]\nn = "choice:a,b"\n[factors]\nn = [1]\n[[test]]\nexec = "{n}"', "suite-name", 2),
        ('[draw]\nn = "choice:a,b"\n[[test]]\nexec = "a"', "suite-draw", 2),
        (f'[draw]\nn = "choice:a,b"\n{COMPARED}', "suite-draw", 7),
        ('[draw]\nn = "choice:a,b"\n[[test]]\nexec = "{n}"\npresetup = "a {n}"', "suite-draw", 5),
        (
            '[environment]\nA = "{n}"\n[draw]\nn = "choice:a,b"\n[[test]]\nexec = "{n}"',
            "suite-draw",
            1,
        ),
    ],
)
def test_mistakes_of_a_draw_table(text: str, code: str, line: int) -> None:
    def read(path: str) -> str:
        if path != "s.toml":
            raise FileNotFoundError(path)
        return text

    with pytest.raises(InputError) as raised:
        load("s.toml", read)
    assert [(one.code, one.file, one.line) for one in raised.value.diagnostics] == [
        (code, "s.toml", line)
    ]


def test_a_variable_may_hold_an_input() -> None:
    text = '[variables]\nv = "x{n}"\n[draw]\nn = "choice:a,b"\n[[test]]\nexec = "echo {v}"'
    program = load("s.toml", lambda _: text)
    assert program.draws is not None
    (plan,) = plans_of(program)
    assert plan.phases.exec == (Command(("echo", "x{n}")),)


# -- sessions -------------------------------------------------------------------------------


def trials_of(place: Path) -> dict[str, list[Trial]]:
    with contextlib.closing(Study.open_to_read(place)) as study:
        return {test.plan.name: test.trials for test in tests_of(study, 1)}


def test_arms_of_a_block_have_the_same_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "list.txt").write_text("three\nboth of it\n")
    (tmp_path / "w.sh").write_text('echo "$2|$3" >>log-$1\n')
    words = ("--design", "abba", "--max-blocks", "5", "--seed", "3", "--margin", "1000%")
    names = ("--name", "a", "--name", "b", "--draw", "n=uniform:1..9000", "--draw", "f=@list.txt")
    status = main(
        ["compare", "--quiet", *words, *names, "--", "sh w.sh a {n} {f}", "sh w.sh b {n} {f}"]
    )
    assert status in (0, 3)
    arms = trials_of(tmp_path / "bw-study")
    drawn = [[trial.drawn for trial in arms[name]] for name in ("a", "b")]
    assert drawn[0] == drawn[1]
    # Both trials of a block of A B B A have one input.
    assert drawn[0][::2] == drawn[0][1::2]
    assert len({dict(pairs)["n"] for pairs in drawn[0]}) == len(drawn[0]) // 2
    given = ["|".join(text for _, text in pairs) for pairs in drawn[1]]
    for arm in ("a", "b"):
        assert (tmp_path / f"log-{arm}").read_text().splitlines() == given
    assert {text.partition("|")[2] for text in given} == {"three", "both of it"}


def test_a_resume_draws_what_the_session_would_have_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "list.txt").write_text("a\nb\nc\nd\n")
    words = ("--quiet", "--seed", "5", "--runs", "8", "--draw", "f=@list.txt")
    script = 'test -e gone || test "$(ls started 2>/dev/null | wc -l)" -lt 4; mkdir -p started/$$'
    line = ["run", "--study", "whole", *words, "--", "sh", "-c", "true", "{f}"]
    assert main(line) == 0
    cut = ["run", "--study", "cut", *words, "--", "sh", "-c", f"{script.split(';')[0]}", "{f}"]
    (tmp_path / "started").mkdir()
    for number in range(4):
        (tmp_path / "started" / str(number)).mkdir()
    assert main(cut) == 1
    (tmp_path / "gone").touch()
    # The file may change: what was drawn from is stored.
    (tmp_path / "list.txt").write_text("x\ny\n")
    assert main(["resume", "--quiet", "cut"]) == 0
    whole, again = (
        [trial.drawn for trial in next(iter(trials_of(tmp_path / name).values()))]
        for name in ("whole", "cut")
    )
    assert len(again) == 8
    assert again == whole


def test_what_depends_on_the_input_is_a_finding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "w.sh").write_text("sleep 0.0$1\n")
    words = ("--study", "s", "--quiet", "--runs", "12", "--seed", "4", "--draw", "f=choice:a,b")
    assert main(["run", *words, "--draw", "n=uniform:10..99", "sh w.sh {n} {f}"]) == 0
    with contextlib.closing(Study.open_to_read(tmp_path / "s")) as study:
        found = stored_findings(study, 1)
    assert found is not None
    (about,) = (one for one in found.all if one.code == "depends-on-input")
    assert "depends on n" in about.evidence
    assert "the largest with n = " in about.evidence
    assert main(["report", "s", "-o", "page.html"]) == 0
    page = (tmp_path / "page.html").read_text()
    assert "Along the input n" in page
    assert "Along the input f" in page


def test_the_mean_of_all_inputs_is_not_below_what_is_possible() -> None:
    values = {"a": 0.01, "b": 0.035, "c": 0.02}
    trials = tuple(
        msgspec.structs.replace(
            trial(at, values={"elapsed": values[q] + at * 1e-5}), drawn=(("q", q),)
        )
        for at, q in enumerate("abc" * 8, 1)
    )
    (finding,) = drawn_findings(TestResult("t", whole_trials=trials))
    assert "its 3 values differ by" in finding.evidence
    assert "the mean is 0 ns to" in finding.evidence


def test_how_a_ratio_depends_on_the_input_is_a_finding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "w.sh").write_text("echo value=$1\n")
    words = ("--study", "s", "--quiet", "--max-blocks", "12", "--seed", "4", "--margin", "1000%")
    words += ("--metric", "value~value=([0-9]+)")
    arms = ("sh w.sh 0{n}", "sh w.sh 1{n}")
    main(["compare", *words, "--draw", "n=uniform:10..99", "--", *arms])
    with contextlib.closing(Study.open_to_read(tmp_path / "s")) as study:
        found = stored_findings(study, 1)
    assert found is not None
    (about,) = (one for one in found.all if one.code == "ratio-depends-on-input")
    assert "value of sh-2 / sh depends on n: 0." in about.evidence


# -- the size of the dependence ---------------------------------------------------------------


@pytest.mark.parametrize("slope", [0.0, 0.5])
@pytest.mark.parametrize("trials", [8, 30])
def test_the_factor_is_held_by_its_interval(slope: float, trials: int) -> None:
    rng = np.random.default_rng([20261130, trials, round(slope * 10)])
    held = clear = 0
    for _ in range(SAMPLES):
        x = rng.integers(1, 1001, trials)
        y = np.exp(slope * np.log(x) + 0.1 * rng.standard_normal(trials))
        found = number_dependence(x.tolist(), y.tolist())
        assert found is not None
        wide = max(x) >= 10 * min(x)
        truth = (max(x) / min(x)) ** slope
        held += not wide or found.factor.low <= truth <= found.factor.high
        clear += found.is_clear
    assert held / SAMPLES >= 0.95 - 2.6 * math.sqrt(0.05 * 0.95 / SAMPLES)
    if not slope:
        assert clear / SAMPLES <= 0.05 + 2.6 * math.sqrt(0.05 * 0.95 / SAMPLES)
    elif trials == 30:
        assert clear / SAMPLES > 0.99


@pytest.mark.parametrize(
    ("inputs", "values"),
    [([], []), ([1, 2, 3], [1.0, 2.0, 3.0]), ([5] * 9, [1.0] * 9), ([1, 2, 3, 4], [1, 0, 1, 1])],
)
def test_where_there_is_no_line(inputs: list[float], values: list[float]) -> None:
    assert number_dependence(inputs, values) is None


def test_texts_that_differ_are_a_population() -> None:
    rng = np.random.default_rng(20261130)
    texts = [f"url-{number % 6}" for number in range(60)]
    level = {text: 1 + 0.2 * place for place, text in enumerate(dict.fromkeys(texts))}
    values = [level[text] + 0.01 * rng.standard_normal() for text in texts]
    found = text_dependence(texts, values)
    assert found is not None
    assert found.is_clear
    assert found.inputs == 6
    # About such inputs: six values, however many trials there are.
    alone = np.std(values, ddof=1) / math.sqrt(60)
    assert found.mean.half_width > 5 * alone
    same = text_dependence(texts, (1 + 0.01 * rng.standard_normal(60)).tolist())
    assert same is not None
    assert not same.is_clear
    assert text_dependence(["a", "b", "c"], [1.0, 2.0, 3.0]) is None
