"""Input that is refused before anything runs, and what looks like it and is not."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from benchwright.cli.main import main
from benchwright.core.errors import Diagnostic, InputError
from benchwright.inputs.mistakes import MAX_BYTES, Unreadable, read_regular
from benchwright.inputs.template import expanded
from benchwright.run.preparation import (
    missing_programs,
    prepare_again,
    prepare_command,
    prepare_comparison,
    prepare_suite,
    rehearse,
)
from benchwright.suite.check import unused_factors
from benchwright.suite.command_line import CommandRequest, program_from_command
from benchwright.suite.comparison import ComparisonRequest
from benchwright.suite.plan import PlannedTest, describe
from benchwright.suite.program import Program
from benchwright.trial.programs import program_of_loop, program_problem


def planned(*command: str, **more: object) -> list[PlannedTest]:
    """Return the tests that a command line would run."""
    program = program_from_command(CommandRequest(command, **more))  # type: ignore[arg-type]
    found = describe(program, defines={}, environment={})
    return [one for one in found if isinstance(one, PlannedTest)]


def suite_of(path: Path, text: str) -> Program:
    """Return the program of a TOML suite."""
    path.write_text(text)
    return prepare_suite(str(path), [], str(path.parent / "study"), []).program


# -- levels ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "levels"),
    [
        ("1..4", "1 2 3 4"),
        ("1..9:2", "1 3 5 7 9"),
        ("1..8:3", "1 4 7"),
        ("1..64*2", "1 2 4 8 16 32 64"),
        ("-2..1", "-2 -1 0 1"),
        ("0..1:0.25", "0 0.25 0.5 0.75 1"),
        ("100..100", "100"),
        ("a..b", "a..b"),
        ("../file", "../file"),
        ("1.5", "1.5"),
    ],
)
def test_a_range_is_its_levels_and_other_texts_are_themselves(text: str, levels: str) -> None:
    assert " ".join(expanded(text)) == levels


@pytest.mark.parametrize("text", ["1..", "9..1", "1..9:0", "1..9*1", "0..9*2", "1..x", "1..99999"])
def test_a_range_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"range|end|levels"):
        expanded(text)
    with pytest.raises(InputError, match=r"-P: .*range|-P: .*end|-P: .*levels"):
        planned("echo", "{n}", factors=(f"n={text}",))


def test_ranges_are_levels_on_the_command_line_and_in_a_suite(tmp_path: Path) -> None:
    tests = planned("echo", "{n}", factors=("n=1..3,8",), threads="1..4*2")
    assert [dict(one.plan.sample)["n"] for one in tests[::3]] == ["1", "2", "3", "8"]
    assert [one.plan.threads for one in tests[:3]] == [1, 2, 4]
    suite = "[factors]\nn = ['1..3', 8]\n[[test]]\nexec = 'echo {n}'\n"
    program = suite_of(tmp_path / "s.toml", suite)
    found = describe(program, defines={}, environment={})
    levels = [dict(one.plan.sample)["n"] for one in found if isinstance(one, PlannedTest)]
    assert levels == ["1", "2", "3", "8"]


# -- placeholders ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("word", "told"),
    [
        ("{lvel}", "did you mean {level}?"),
        ("-{levle}x", "did you mean {level}?"),
        ("{thread}", "did you mean {threads}?"),
    ],
)
def test_a_misspelt_placeholder_is_an_error(tmp_path: Path, word: str, told: str) -> None:
    with pytest.raises(InputError) as error:
        planned("echo", word, factors=("level=1,2",))
    assert told in str(error.value)
    suite = f"[factors]\nlevel = [1, 2]\n[[test]]\nexec = 'echo {word}'\n"
    with pytest.raises(InputError) as error:
        suite_of(tmp_path / "s.toml", suite)
    (found,) = error.value.diagnostics
    assert told in found.message
    assert (found.line, found.column) == (4, 14 + word.index("{"))


@pytest.mark.parametrize(
    ("text", "becomes"),
    [
        ("{level}", "1"),
        ("{print $1}", "{print $1}"),
        ("{}", "{}"),
        ("{a,b}", "{a,b}"),
        ("{other}", "{other}"),
        ("${HOME}", "${HOME}"),
        ("{{level}}", "{level}"),
        ("{{lvel}}", "{lvel}"),
        ("{{other}}", "{{other}}"),
        ("{{{level}}}", "{{level}}"),
    ],
)
def test_braces_that_stay_and_braces_that_do_not(text: str, becomes: str) -> None:
    (test,) = planned("echo", text, factors=("level=1",))
    assert test.plan.phases.exec[0].argv == ("echo", becomes)


@pytest.mark.parametrize(
    ("command", "unused"),
    [(("echo", "{n}"), []), (("echo", "hi"), ["n"]), (("sh", "-c", "echo $BW_FACTOR_n"), [])],
)
def test_a_factor_that_no_command_has_is_named(
    command: tuple[str, ...], unused: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    program = program_from_command(CommandRequest(command, factors=("n=1,2",)))
    assert unused_factors(program.steps) == unused
    assert main(["run", "--check", "-P", "n=1,2", "--", *command]) == 0
    told = capsys.readouterr().err
    assert ("warning: no command has {n}" in told) is bool(unused)


def test_a_check_warns_of_a_program_that_does_not_exist(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    suite = tmp_path / "s.toml"
    # A script beside the suite is found without a path.
    (tmp_path / "prepare").write_text("#!/bin/sh\n")
    (tmp_path / "prepare").chmod(0o755)
    suite.write_text(
        "[[test]]\nname = 't'\nsetup = 'prepare'\nexec = './nosuch {n}'\n[factors]\nn = '1..3'\n"
    )
    assert main(["run", "--check", str(suite)]) == 0
    told = capsys.readouterr().err
    assert told.count("bw: warning: there is no program './nosuch'") == 1
    assert "prepare" not in told


# -- words before -- -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["no-such-program"], "for a command: bw run -- no-such-program"),
        (["here"], "for a command: bw run -- here"),
        (["./plain.sh"], "for a command: bw run -- ./plain.sh"),
        (["bin.toml"], "bin.toml"),
        (["missing.toml"], "there is no file missing.toml"),
        (["echo 1", "here.toml"], "a suite runs alone: bw run here.toml"),
        (["sleep", "1"], "for one command with its arguments: bw run -- sleep 1"),
        (["echo 1", "--", "echo"], "words both before and after --"),
        (["--name", "a", "--name", "b", "echo 1"], "2 names for 1 command"),
        (["--runs", "3", "here.toml"], "--runs is for commands, not for a suite"),
        (["--shell", "--", "echo", "1"], "bw run --shell 'echo 1'"),
        (["--shell", "bash", "echo 1"], "write --shell=bash"),
        (["-P", "n=1..200", "-P", "m=1..200", "echo {n} {m}"], "-P: the factors make"),
        (["--warmup", "x", "echo 1"], "'x' is not a number of warm-up trials"),
        ([], "neither a suite nor a command"),
        ([""], "COMMAND: a command is empty"),
        (["true", " "], "COMMAND: a command is empty"),
        ([" "], "COMMAND: a command is empty"),
    ],
)
def test_a_word_that_is_not_clear_is_explained(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    told: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("here.toml").write_text("[[test]]\nexec = 'true'\n")
    Path("plain.sh").touch()
    for name in ("here", "bin.toml"):
        # Executable, but not in PATH, or a suite by its name.
        Path(name).write_text("#!/bin/sh\n")
        Path(name).chmod(0o755)
    assert main(["run", "--plan", *words]) == 2
    assert told in capsys.readouterr().err


def test_a_command_with_options_is_recognized(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["run", "ls", "-la"])
    told = capsys.readouterr().err
    assert "= for a command with its options: bw run -- ls -la" in told


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["no-such-1 a", "no-such-2 b"], "there is no program 'no-such-2'"),
        (["here", "no-such-2 b"], "bw compare -- here 'no-such-2 b'"),
        (["--", "true", "true", "--margin", "2%"], "stand before --: --margin"),
    ],
)
def test_quoted_commands_are_compared_with_and_without_the_dashes(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    told: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("here").mkdir()
    assert main(["compare", *words]) == 2
    assert told in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "commands"),
    [
        (["echo 1"], ["echo 1"]),
        (["true", "false"], ["true", "false"]),
        (["echo 1", "--runs", "3", "echo 2"], ["echo 1", "echo 2"]),
        (["--shell", "echo 1"], ["echo 1"]),
        (["--shell=sh -e", "echo 1"], ["sh -e -c 'echo 1'"]),
        (["true|cat"], ["true|cat"]),
        (["--", "echo", "1"], ["echo 1"]),
        (["my suite.toml"], ["false"]),
        (["true"], ["true"]),
        (["./bench.sh"], ["./bench.sh"]),
        (["--shell", "true"], ["true"]),
    ],
)
def test_quoted_words_are_commands_unless_they_name_a_suite(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    commands: list[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("my suite.toml").write_text("[[test]]\nexec = 'false'\n")
    Path("bench.sh").write_text("#!/bin/sh\n")
    Path("bench.sh").chmod(0o755)
    assert main(["run", "--plan", "--json", *words]) == 0
    steps = json.loads(capsys.readouterr().out)["steps"]
    tests = [step for step in steps if step["step"] == "TEST"]
    assert [test["commands"][0]["command"] for test in tests] == commands


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["run", "-r", "10"], "--runs 10"),
        (["run", "-w", "3"], "--warmup 3"),
        (["run", "--prepare", "sync"], "--setup COMMAND (before each trial)"),
        (["run", "-L", "n", "1,2"], "-P NAME=VALUE1,VALUE2"),
        (["run", "-n", "a"], "--name NAME"),
        (["run", "--repeat=3"], "--runs 10"),
        (["compare", "--max-runs", "12"], "--max-blocks 10"),
        (["compare", "-L", "n", "1,2"], "bw run -P NAME=VALUE1,VALUE2"),
        (["load", "--runtime", "3"], "--duration 30s"),
    ],
)
def test_options_of_other_tools_have_a_hint(
    capsys: pytest.CaptureFixture[str], words: list[str], hint: str
) -> None:
    with pytest.raises(SystemExit) as ended:
        main([*words, "--", "true", "false"])
    assert ended.value.code == 2
    told = capsys.readouterr().err
    assert f"bw {words[0]}: error: unrecognized arguments" in told
    assert f"= {words[1].partition('=')[0]}: here {hint}" in told


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["run", "--precison", "5%"], "did you mean --precision?"),
        (["compare", "--max-tim=3s"], "write --max-time"),
        (["compare", "--marign", "3%"], "did you mean --margin?"),
        (["stats", "--fromat", "csv"], "did you mean --format?"),
        (["peak", "--studdy", "s"], "did you mean --study?"),
        (["trace", "stat", "x", "--jsno"], "did you mean --json?"),
    ],
)
def test_a_misspelled_option_has_a_hint(
    capsys: pytest.CaptureFixture[str], words: list[str], hint: str
) -> None:
    with pytest.raises(SystemExit) as ended:
        main([*words, "--", "true"])
    assert ended.value.code == 2
    assert f"\n  = {hint}\n" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["stats", "nosuch"], ["compare", "nosuch", "none"]])
def test_an_input_that_cannot_be_read_has_no_position(
    capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    assert main(words) == 2
    assert "INPUT: nosuch: No such file" in capsys.readouterr().err


# -- size and depth ----------------------------------------------------------------------


def test_a_key_of_a_thousand_dots_is_a_placed_mistake(tmp_path: Path) -> None:
    for text in ("a." * 1000 + "b = 1\n", "[" + "a." * 1000 + "b]\n"):
        with pytest.raises(InputError, match="nested more than 100 deep"):
            suite_of(tmp_path / "s.toml", f"name = 's'\n{text}")


def test_a_suite_is_rehearsed_before_it_is_run(tmp_path: Path) -> None:
    path = tmp_path / "s.ap"
    path.write_text("VAR N=x\nFOREACH F a b\nTEST %F% %N%\nEXEC x\nDONE\nDONE")
    with pytest.raises(InputError) as caught:
        rehearse(prepare_suite(str(path), [], str(tmp_path / "study"), []))
    (found,) = caught.value.diagnostics
    assert (found.code, found.line) == ("suite-test-arguments", 3)


def test_more_samples_than_anyone_runs_are_counted_and_refused(tmp_path: Path) -> None:
    factors = "".join(f"f{n} = ['1..100']\n" for n in range(8))
    path = tmp_path / "s.toml"
    path.write_text(f"[factors]\n{factors}[[test]]\nexec = 'true'\n")
    for option in ("--check", "--plan"):
        assert main(["run", option, str(path)]) == 2
    with pytest.raises(InputError, match="make 10,000,000,000,000,000 samples"):
        rehearse(prepare_suite(str(path), [], str(tmp_path / "study"), []))


def test_only_regular_files_of_some_size_are_texts(tmp_path: Path) -> None:
    fifo, large = tmp_path / "fifo", tmp_path / "large"
    os.mkfifo(fifo)
    with large.open("wb") as file:
        file.truncate(MAX_BYTES + 1)
    for path in (fifo, Path("/dev/zero"), large):
        with pytest.raises(Unreadable):
            read_regular(str(path))
        suite = tmp_path / "s.ap"
        suite.write_text(f"INCLUDE {path}\n")
        assert main(["run", "--check", str(suite)]) == 2
        assert main(["why", "--rule", str(path), str(tmp_path)]) == 2


# -- programs ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "command",
    [
        "made-later > out; ./made-later",
        "no-such-program || true",
        "no-such-program | cat",
        "cd / && ls",
        "X=1 no-such-program",
        "$PROGRAM",
        "'quoted name' > x",
        "~/x > y",
        "test -e x > y",
    ],
)
def test_a_shells_text_is_not_refused_for_what_may_work(command: str) -> None:
    tests = planned("/bin/sh", "-c", command)
    assert not list(missing_programs(tests, dict(os.environ), "/", is_suite=False))


def test_a_program_that_a_set_up_or_an_earlier_step_makes_is_not_asked_for() -> None:
    here = dict(os.environ)
    made = planned("no-such-program", setup="cc -o no-such-program x.c")
    assert not list(missing_programs(made, here, "/", is_suite=False))
    paused = planned("no-such-program", rest="1ms")
    assert list(missing_programs(paused, here, "/", is_suite=False))
    after = [*planned("true"), *planned("no-such-program")]
    assert not list(missing_programs(after, here, "/", is_suite=True))
    assert list(missing_programs(after, here, "/", is_suite=False))


def test_why_a_program_cannot_be_started(tmp_path: Path) -> None:
    (tmp_path / "plain").touch()
    assert program_problem("true", "/bin:/usr/bin", "/") == ""
    assert "no program" in program_problem("true", "/nowhere", "/")
    assert "not an executable" in program_problem("./plain", None, str(tmp_path))
    assert "not an executable" in program_problem("/etc", None, "/")


@pytest.mark.parametrize(
    ("text", "program"),
    [
        ("for i in 1 2; do gzip -1 f; done", "gzip"),
        ("while [ $n -lt 3 ]; do n=3; X=1 ./a.sh; done", "./a.sh"),
        ("if ! grep -q x f\nthen sort f; fi", "grep"),
        ("for i in 1 2; do echo $i; done", None),
        ("gzip -1 f; xz f", None),
        ("", None),
    ],
)
def test_the_first_program_of_a_loop(text: str, program: str | None) -> None:
    assert program_of_loop(text) == program


def test_only_a_new_session_names_a_loop_by_its_program() -> None:
    """The names of a stored one are keys of its journal."""
    request = CommandRequest(commands=("gzip f", "for i in 1; do gzip f; done"))
    before = program_from_command(request)
    new = prepare_command(request, "study", [])
    stored = prepare_again(new.info)
    assert names_of(before) == ["gzip", "for"]
    assert names_of(new.program) == names_of(stored.program) == ["gzip", "gzip-2"]
    compared = ComparisonRequest(commands=request.commands, names=("a",), token="t")
    assert names_of(prepare_comparison(compared, "study", []).program) == ["a", "gzip"]


def names_of(program: Program) -> list[str]:
    found = describe(program, defines={}, environment={})
    return [one.plan.name for one in found if isinstance(one, PlannedTest)]


# -- places ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "place"),
    [
        ({"file": "--duration", "text": "x", "column": 1}, "--duration"),
        ({"file": "--fail-if", "text": "slower x", "column": 8}, "--fail-if"),
        ({"file": "bw run", "text": "run", "code": "bad-argument"}, "bw run"),
        ({"file": "t.vscsi"}, "t.vscsi"),
        ({"file": "s.toml", "line": 3, "column": 7, "text": "a"}, "s.toml:3:7"),
        ({"file": "s.toml", "text": "a"}, "s.toml:1:1"),
    ],
)
def test_no_position_is_invented(given: dict[str, object], place: str) -> None:
    found = Diagnostic(**({"code": "c", "message": "m"} | given))  # type: ignore[arg-type]
    assert found.render().startswith(f"{place}: m [")


# -- generators --------------------------------------------------------------------------


def searched(tmp_path: Path, command: str, more: str = "") -> int:
    """Return the exit code of a peak search with a command of a spec as its generator."""
    (tmp_path / "s.toml").write_text(
        f'[load]\ngenerator = "command"\ncommand = "{command}"\n'
        'values = { response_ms_mean = "/mean_ms" }\n'
        f'[peak]\ncriteria = ["mean response < 40ms"]\nclaim = "rate:10%"\n{more}'
    )
    study = str(tmp_path / "st")
    return main(["peak", str(tmp_path / "s.toml"), "--study", study, "--quiet"])


@pytest.mark.parametrize(
    "command", ["nonsuch {rate}", "./nonsuch {rate}", "nonsuch {rate} > x", "/etc/passwd {rate}"]
)
def test_a_generator_that_is_not_there_is_refused_before_a_trial(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    assert searched(tmp_path, command) == 2
    error = capsys.readouterr().err
    assert "generator-missing" in error
    assert f"{command.split()[0]!r}" in error


@pytest.mark.parametrize(
    ("command", "more"),
    [
        ("./nonsuch {rate}", "[server]\nconfigure = ['true']\n"),
        ("{directory}/nonsuch {rate}", ""),
        ("nonsuch {rate}; true", ""),
    ],
)
def test_a_generator_that_may_be_made_or_is_not_certain_is_tried(
    tmp_path: Path, command: str, more: str
) -> None:
    assert searched(tmp_path, command, more) == 1


@pytest.mark.parametrize("words", [("peak", "--response"), ("ramp", "--throughput")])
def test_a_command_of_a_search_that_is_not_there_makes_no_study(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: tuple[str, str],
) -> None:
    monkeypatch.chdir(tmp_path)
    limit = ["--limit", "20ms"] if words[0] == "peak" else []
    for command in ("nonsuch {x}", "nonsuch {x} > file"):
        command = command.replace("x", "rate" if limit else "users", 1)
        assert main([words[0], "--command", command, words[1], "/m", *limit]) == 2
        assert "there is no program 'nonsuch'" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
