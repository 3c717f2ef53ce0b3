"""`bw env` as it is called: text, JSON, differences, and what is refused.

To accept a change that is meant: BW_UPDATE_GOLDEN=1, and read the diff.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from benchwright.cli.main import main
from benchwright.core.machine import MachineCapture
from benchwright.findings.environment import difference
from benchwright.report.documents import encode
from benchwright.report.env import difference_text, env_document, machine_text
from benchwright.run.preparation import prepare_suite
from benchwright.run.runner import record_machine
from benchwright.run.session import ProgramExperiment
from benchwright.study.contents import record_capture
from benchwright.study.journal import SessionInfo, Study
from machine_trees import CPU, MachineTree, bare_metal, guest

GOLDEN = Path(__file__).parents[1] / "golden" / "env"
TAKEN_NS = 1_790_000_000 * 10**9


def at_rest(machine: MachineCapture) -> MachineCapture:
    """Return a capture without what tells of the computer that runs the test."""
    ours = ("python.", "benchwright.", "os.libc", "cpu.architecture")
    facts = tuple(f for f in machine.facts if not f.name.startswith(ours))
    return MachineCapture(TAKEN_NS, facts)


def compare(name: str, text: str) -> None:
    """Compare a text with its snapshot, or write it when asked to."""
    path = GOLDEN / name
    if os.environ.get("BW_UPDATE_GOLDEN"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert text == path.read_text()


@pytest.fixture
def metal(tmp_path: Path) -> MachineTree:
    """Return the bare machine."""
    return bare_metal(tmp_path / "metal")


def test_the_printed_form_is_as_recorded(metal: MachineTree) -> None:
    compare("bare-metal.txt", machine_text(at_rest(metal.capture(["no-such", "-x"]))))


def test_the_printed_difference_is_as_recorded(metal: MachineTree, tmp_path: Path) -> None:
    a, b = at_rest(metal.capture()), at_rest(guest(tmp_path / "guest").capture())
    text = difference_text(("old", a), ("new", b), difference(a, b), everything=False)
    compare("difference.txt", text)


def test_no_value_reaches_the_terminal_as_a_command(metal: MachineTree) -> None:
    metal.environment["LC_ODD"] = "\x1b]0;title\x07 $"
    text = machine_text(metal.capture())
    assert "\x1b" not in text
    assert "\\x1b]0;title\\x07 $" in text


def capture_file(path: Path, machine: MachineCapture) -> str:
    """Write what `bw env --json` would, and return its name."""
    path.write_text(encode(env_document("now", machine)))
    return str(path)


@pytest.fixture
def study(tmp_path: Path, metal: MachineTree) -> str:
    """Return a study of two sessions; the first was resumed with another governor."""
    kept = Study.create_or_open(tmp_path / "study")
    for _ in range(3):
        info = SessionInfo(1, "0", "b", "/", (), (), "x", (), {})
        kept.begin_session(info)
    record_capture(kept, 1, metal.capture())
    record_capture(kept, 2, metal.capture())
    for cpu in range(8):
        metal.write({f"{CPU}/cpufreq/policy{cpu}/scaling_governor": "powersave\n"})
    record_capture(kept, 1, metal.capture())
    kept.close()
    return str(tmp_path / "study")


def bw(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    """Run `bw env`; return exit code, standard output and standard error."""
    code = main(["env", *words])
    told = capsys.readouterr()
    return code, told.out, told.err


def changed(text: str) -> dict[str, tuple[Any, Any]]:
    """Return what a JSON difference says matters: name -> both values."""
    document = json.loads(text)
    assert document["schema"] == "benchwright/env-diff/1"
    return {
        change["name"]: (change["a"], change["b"])
        for change in document["changes"]
        if change["weight"] != "expected" and change["known"]
    }


def test_captures_of_a_study_are_compared(capsys: pytest.CaptureFixture[str], study: str) -> None:
    governor = {"cpu.governor": ("performance", "powersave")}
    code, out, _ = bw(capsys, "--diff", f"{study}:1:1", f"{study}:1:2", "--json")
    assert (code, changed(out)) == (0, governor)
    # A study is its last session that has a capture, a session its last capture.
    code, out, _ = bw(capsys, "--diff", study, f"{study}:1", "--json", "--exit-code")
    assert (code, changed(out)) == (1, governor)
    code, out, _ = bw(capsys, "--diff", study, f"{study}:2", "--json", "--exit-code")
    assert (code, changed(out)) == (0, {})
    code, out, _ = bw(capsys, "--diff", f"{study}:1:1", f"{study}:1:2")
    assert "fatal: the results are from different machines\n  cpu.governor" in out
    assert "    A  performance\n    B  powersave\n" in out


def test_one_capture_is_not_several(
    capsys: pytest.CaptureFixture[str], study: str, metal: MachineTree
) -> None:
    code, _, said = bw(capsys, f"{study}:2:2")
    assert code == 2
    assert "session 2 has 1 capture [" in said
    assert "name 1\n" in said
    facts = metal.capture().facts[:1]
    assert ": 1 fact, 0 absent\n" in machine_text(MachineCapture(TAKEN_NS, facts))


def test_a_study_s_capture_is_printed(capsys: pytest.CaptureFixture[str], study: str) -> None:
    for words in ([f"{study}:1"], ["--study", f"{study}:1"]):
        code, out, _ = bw(capsys, *words)
        assert code == 0
        assert "cpu.governor" in out
        assert "powersave" in out


def test_now_as_json_is_a_capture_that_can_be_read_again(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    code, out, _ = bw(capsys, "--json")
    document = json.loads(out)
    assert (code, document["schema"]) == (0, "benchwright/env/1")
    facts = {f["name"]: f for f in document["facts"]}
    assert facts["kernel.release"]["value"] == os.uname().release
    for one in facts.values():
        assert set(one) == {"name", "value", "source", "absent", "weight"}
        assert (one["value"] is None) == (one["absent"] != "")
    (tmp_path / "a.json").write_text(out)
    code, out, _ = bw(capsys, "--diff", str(tmp_path / "a.json"), "now", "--all")
    assert code == 0
    assert "fatal" not in out


def test_expected_differences_are_hidden_unless_asked(
    capsys: pytest.CaptureFixture[str], metal: MachineTree, tmp_path: Path
) -> None:
    a = capture_file(tmp_path / "a", metal.capture())
    metal.write({"proc/loadavg": "7.00 0.20 0.30 1/200 4242\n"})
    b = capture_file(tmp_path / "b", metal.capture())
    _, out, _ = bw(capsys, "--diff", a, b)
    assert "no known difference may change results" in out
    assert "expected: 1 more differs between any two runs (--all)" in out
    _, out, _ = bw(capsys, "--diff", a, b, "--all")
    assert "  load.1min\n    A  0.10\n    B  7.00\n" in out


def test_a_program_is_asked_its_version_only_where_the_user_says_so(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    program = tmp_path / "tool"
    program.write_text(f'#!/bin/sh\necho ran >> {tmp_path}/ran\necho "tool 4.2"\n')
    program.chmod(0o755)
    _, out, _ = bw(capsys, "--json", "--", str(program), "x")
    facts = {f["name"]: f["value"] for f in json.loads(out)["facts"]}
    assert facts["program.tool.path"] == str(program)
    assert "program.tool.version" not in facts
    assert not (tmp_path / "ran").exists()
    _, out, _ = bw(capsys, "--json", "--program-version", "--", str(program))
    facts = {f["name"]: f["value"] for f in json.loads(out)["facts"]}
    assert facts["program.tool.version"] == "tool 4.2"
    assert (tmp_path / "ran").read_text() == "ran\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["no-such"], "there is no such capture"),
        (["--diff", "no-such", "none:1"], "none:1: there is no such capture"),
        (["{study}:7"], "there is no session 7"),
        (["{study}:1:3"], "session 1 has 2 captures"),
        (["{study}:1:0"], "session 1 has 2 captures"),
        (["{study}:3"], "contains no capture"),
        (["{bad}"], "not a capture"),
        (["{other}"], "its schema is 'x', not 'benchwright/env/1'"),
        (["--all"], "--all: it is only for --diff"),
        (["--exit-code"], "--exit-code: it is only for --diff"),
        (["a", "--diff", "now", "now"], "a is a third"),
        (["a", "--study", "b"], "an INPUT is given too"),
        (["--program-version"], "there is no program to run"),
        (["{study}", "--", "ls"], "only be given with a capture of now"),
    ],
)
def test_what_is_refused_is_said_with_what_to_do(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, study: str, words: list[str], said: str
) -> None:
    (tmp_path / "bad").write_bytes(b"\xff not json")
    (tmp_path / "other").write_text('{"schema": "x", "taken_ns": 1, "facts": []}')
    names = {"study": study, "bad": tmp_path / "bad", "other": tmp_path / "other"}
    code, out, err = bw(capsys, *(word.format(**names) for word in words))
    assert (code, out) == (2, "")
    assert said in err
    assert "\n  = " in err


def test_a_session_keeps_what_its_programs_were(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = tmp_path / "fast-tool"
    tool.write_text("#!/bin/sh\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    suite = tmp_path / "suite.ap"
    suite.write_text("TEST t 1\nTHREADS 1\nEXEC fast-tool --token=hunter2\nDONE\n")
    prepared = prepare_suite(str(suite), (), str(tmp_path / "study"), ())
    kept = Study.create_or_open(tmp_path / "study")
    number = kept.begin_session(prepared.info)
    record_machine(kept, number, ProgramExperiment(prepared).programs())
    kept.close()
    _, out, _ = bw(capsys, str(tmp_path / "study"), "--json")
    facts = {f["name"]: f["value"] for f in json.loads(out)["facts"]}
    assert facts["command.1"] == "/bin/sh"
    assert facts["program.fast-tool.path"] == str(tool)
    assert facts["program.fast-tool.size_bytes"] == "10"
