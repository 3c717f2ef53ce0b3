"""`getstats` as a user meets it: arguments, inputs, exit codes. A fake parser reads."""

from __future__ import annotations

import json
import re
from pathlib import Path

import msgspec
import pytest

from benchwright.cli.main import main
from benchwright.core.errors import InputError
from benchwright.core.observation import MeasurementBlock
from benchwright.features.autopilot import programs
from benchwright.findings.result import TestResult
from benchwright.report.stats_document import high_z_scores
from benchwright.results import inputs as stats_inputs
from benchwright.stats.aggregate import MetricColumn


class FakeParser:
    """Reads files that start with `bw!`: one elapsed time a line; `!` marks a failure."""

    name = "fake"
    description = "lines"

    def detect(self, path: Path, head: bytes) -> bool:
        return path.is_file() and head.startswith(b"bw!")

    def read(self, path: Path) -> list[TestResult]:
        blocks = []
        for epoch, line in enumerate(path.read_text().splitlines()[1:], 1):
            elapsed = float(line.rstrip("!"))
            values = {"elapsed": elapsed, "user": elapsed / 4, "system": elapsed / 4}
            values["rss_bytes"] = 4096.0
            command = "tar x" if epoch % 2 else "/usr/bin/make -j"
            blocks.append(MeasurementBlock(1, epoch, command, int(line.endswith("!")), values))
        return [TestResult(path.name, tuple(blocks))]


@pytest.fixture(autouse=True)
def _fake_parser(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stats_inputs, "parsers", lambda: [FakeParser()])


@pytest.fixture
def calm(tmp_path: Path) -> str:
    return write(tmp_path / "calm.res", "10 10.1 9.9 10.05 9.95 10")


@pytest.fixture
def slow(tmp_path: Path) -> str:
    return write(tmp_path / "slow.res", "20 20.2 19.8 20.1 19.9 20 20 20 20 30")


def write(path: Path, values: str) -> str:
    path.write_text("\n".join(["bw!", *values.split()]))
    return str(path)


def run(*words: str, after: list[str] | None = None) -> int:
    arguments = programs.getstats().parse_args(words)
    arguments.command_argv = after
    status: int = arguments.handler(arguments)
    return status


def test_warnings_then_a_table_for_each_input(
    calm: str, slow: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(calm, slow) == 0
    lines = capsys.readouterr().out.splitlines()
    at = lines.index("calm.res")
    high = [line for line in lines[:at] if "High z-score of 2.84" in line]
    assert high[0].startswith("slow.res: ")
    assert high[0].endswith(" for elapsed in epoch 10.")
    assert [line.split()[0] for line in lines[at + 2 : at + 7]] == [
        "Elapsed",
        "System",
        "User",
        "Wait",
        "CPU%",
    ]
    assert lines[lines.index("slow.res") + 1].endswith("O/H")


def test_the_baseline_can_be_chosen(
    calm: str, slow: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(calm, slow, "--baseline", "slow", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["baseline"] == "slow.res"
    assert found["inputs"][0]["quantities"][0]["overhead_percent"] == pytest.approx(
        100 * (10 / 21 - 1)
    )
    with pytest.raises(InputError, match="no input has this name"):
        run(calm, "--baseline", "other")


def test_a_predicate_answers_by_the_exit_status(
    calm: str, slow: str, capsys: pytest.CaptureFixture[str]
) -> None:
    precise = '"$delta" < 0.05 * $mean'
    assert run("--predicate", precise, calm) == 0
    assert run("--predicate", precise, slow) == 1
    assert run("--predicate", precise, calm, slow) == 1
    assert run("--predicate", f"{precise} || ($count > 9)", after=[slow]) == 0
    assert capsys.readouterr().out == ""
    assert run("--predicate", precise, slow, "--json") == 1
    found = json.loads(capsys.readouterr().out)
    assert found["schema"] == "benchwright/predicate/1"
    assert found["answers"]["slow.res"] == {"elapsed": False, "system": False, "user": False}
    with pytest.raises(InputError, match="--predicate"):
        run("--predicate", "$nonsense", calm)


def test_failed_epochs_are_reported_and_not_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(write(tmp_path / "x.res", "1 1 500! 1")) == 0
    out = capsys.readouterr().out
    assert "x.res: serious: `tar x` exited with status 1 in trial 3 (1 of 4)" in out
    assert "Elapsed   3      1.000" in out


def test_one_command_can_be_selected(calm: str, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("make", "/usr/bin/make", "/usr/bin/make -j"):
        assert run(calm, "--command", name) == 0
        assert "Elapsed   3 " in capsys.readouterr().out
    with pytest.raises(InputError, match=r"commands there: /usr/bin/make -j, tar x"):
        run(calm, "--command", "ls")


def test_extras_confidence_threshold_and_dump(
    calm: str, slow: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(calm) == 0
    assert "rss_bytes" not in capsys.readouterr().out
    for option in (["--all"], ["--metric", "rss_bytes"]):
        assert run(calm, *option) == 0
        assert "rss_bytes" in capsys.readouterr().out
    assert run(slow, "--threshold", "2.9") == 0
    assert "z-score" not in capsys.readouterr().out
    assert run(calm, "--confidence", "99%", "--json") == 0
    assert json.loads(capsys.readouterr().out)["confidence"] == 0.99
    assert run(calm, "--dump") == 0
    assert capsys.readouterr().out.startswith(
        "input,thread,epoch,command,status,elapsed,user,system,rss_bytes\ncalm.res,1,1,tar x,0,10.0,"
    )


def test_csv_keeps_findings_off_stdout(slow: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(slow, "--format", "csv") == 0
    shown = capsys.readouterr()
    assert shown.out.startswith("input,name,unit,count,")
    assert "z-score" in shown.err


def test_csv_has_findings_by_code_on_stderr_and_more_on_request(
    calm: str, slow: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["stats", "--format", "csv", calm, slow]
    assert main(words) == 0
    brief = capsys.readouterr().err
    assert main([*words, "-v"]) == 0
    full = capsys.readouterr().err
    codes = re.findall(r"\[([a-z-]+)\]", brief)
    assert codes
    assert len(set(codes)) == len(codes)
    assert brief.splitlines()[-1].startswith("evidence and remedies: bw stats -v ")
    assert "z-score" not in brief
    assert re.search(r"High z-score of [0-9.]{4} for elapsed in trial 10\.", full)
    assert set(re.findall(r"\[([a-z-]+)\]", full)) == set(codes)
    assert max(map(len, brief.splitlines()[:-1])) <= 100


def test_every_bad_input_is_told_at_once(tmp_path: Path) -> None:
    unknown = tmp_path / "unknown"
    unknown.write_text("hello")
    with pytest.raises(InputError) as caught:
        run(str(tmp_path / "missing"), str(unknown), str(tmp_path))
    assert {d.file for d in caught.value.diagnostics} == {"INPUT"}
    assert [bool(d.hint) for d in caught.value.diagnostics] == [False, True, True]
    files = [d.text for d in caught.value.diagnostics]
    assert files == [str(tmp_path / "missing"), str(unknown), str(tmp_path)]
    assert "No such file" in caught.value.diagnostics[0].message


@pytest.mark.parametrize(
    ("words", "places"),
    [
        ([], ["INPUT"]),
        (["x", "--threshold", "-1"], ["--threshold"]),
        (["x", "--confidence", "100%"], ["--confidence"]),
        (["--threshold", "z", "--confidence", "2"], ["INPUT", "--threshold", "--confidence"]),
    ],
)
def test_every_bad_argument_is_told_at_once(words: list[str], places: list[str]) -> None:
    with pytest.raises(InputError) as caught:
        run(*words)
    assert [d.file for d in caught.value.diagnostics] == places


def test_the_same_name_twice_is_told_apart(calm: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(calm, calm, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert [one["name"] for one in found["inputs"]] == [calm, f"{calm}#2"]


def test_files_of_one_name_are_named_by_their_paths(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = []
    for place in ("q1", "q2"):
        (tmp_path / place).mkdir()
        paths.append(write(tmp_path / place / "a.res", "1 2 3"))
    assert run(*paths, "--json", "--baseline", paths[1]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [one["name"] for one in found["inputs"]] == paths
    assert found["baseline"] == paths[1]


class _Studies(FakeParser):
    def read(self, path: Path) -> list[TestResult]:
        (one,) = super().read(path)
        names = ("sleep", "work") if path.name == "many" else ("sleep",)
        return [msgspec.structs.replace(one, name=name) for name in names]


def test_tests_of_one_name_are_named_by_their_studies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(stats_inputs, "parsers", lambda: [_Studies()])
    monkeypatch.chdir(tmp_path)
    for name in ("q1", "q2", "many"):
        write(tmp_path / name, "1 2 3")
    for said, meant in (
        ("q2", "q2:sleep"),
        ("q2/", "q2:sleep"),
        ("q2:sleep", "q2:sleep"),
        ("many:work", "work"),
        ("work", "work"),
    ):
        assert run("q1", "q2", "many", "--baseline", said, "--json") == 0
        found = json.loads(capsys.readouterr().out)
        names = [one["name"] for one in found["inputs"]]
        assert names == ["q1:sleep", "q2:sleep", "many:sleep", "work"]
        assert found["baseline"] == meant
    with pytest.raises(InputError, match="many contains 2 tests") as caught:
        run("q1", "many", "--baseline", "many")
    assert caught.value.diagnostics[0].hint == "name one: many:sleep, work"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--json", "--format", "csv"], "--json and --format csv contradict"),
        (["--dump", "--ttest"], "excludes --ttest"),
        (["--dump", "--json"], "excludes --json"),
        (["--dump", "--format", "latex"], "excludes --format"),
        (["--dump", "--predicate", "1"], "excludes --predicate"),
    ],
)
def test_outputs_that_contradict_are_refused(calm: str, words: list[str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        run(calm, calm, *words)
    assert run(calm, "--json", "--format", "json") == 0


def test_nothing_heavy_is_imported_for_help() -> None:
    """Options are declared as records, so msgspec is imported."""
    import subprocess
    import sys

    code = (
        "import sys; from benchwright.features.autopilot import programs; programs.getstats();"
        "print([m for m in ('numpy', 'scipy', 'rich') if m in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


def test_t_tests_follow_the_tables(
    calm: str, slow: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(calm, slow, "--ttest", "--welch") == 0
    out = capsys.readouterr().out
    assert out.index("slow.res\nNAME") < out.index(
        "Comparing slow.res (Sample 1) to calm.res (Sample 2).\nElapsed: 95%CI for "
    )
    assert out.count("Null Hyp. Alt. Hyp. P-value Result") == 5
    assert run(calm, slow, calm, "--ttest", "--baseline", "slow", "--json") == 0
    found = json.loads(capsys.readouterr().out)["comparisons"]
    pairs = dict.fromkeys((one["candidate"], one["baseline"]) for one in found)
    assert list(pairs) == [(calm, "slow.res"), (f"{calm}#2", "slow.res")]


def test_a_t_test_needs_two_inputs(calm: str) -> None:
    with pytest.raises(InputError, match="there is only one input: nothing to compare it with"):
        run(calm, "--ttest")
    with pytest.raises(InputError, match="add --ttest"):
        run(calm, calm, "--equal-variance")


def test_a_change_that_does_not_matter_is_no_drift(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    values = [10 + 0.01 * place + 0.002 * (place % 3) for place in range(30)]
    rising = write(tmp_path / "rising.res", " ".join(map(repr, values)))

    def told(*words: str) -> list[str]:
        assert run(rising, "--json", *words) == 0
        found = json.loads(capsys.readouterr().out)["findings"]
        return [f["evidence"] for f in found if f["code"] == "drift"]

    assert any(evidence.startswith("elapsed") for evidence in told())
    for small in ("elapsed=10%", "Elapsed=0.1"):
        assert not any(evidence.startswith("elapsed") for evidence in told("--drift", small))
    assert any(e.startswith("elapsed") for e in told("--drift", "elapsed=1%"))
    with pytest.raises(InputError) as caught:
        run(rising, "--drift", "elapsed", "--drift", "elapsed=200%")
    assert [d.column for d in caught.value.diagnostics] == [1, 9]


def test_many_notices_are_cut_to_the_largest(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path / "x.res", " ".join(map(str, range(1, 30))))
    assert run(path, "--threshold", "1", "--json") == 0
    everything = json.loads(capsys.readouterr().out)["notices"]
    for form, mark in (("table", "x.res: "), ("markdown", "- x.res: ")):
        assert run(path, "--threshold", "1", "--format", form, "-v") == 0
        lines = [
            line.removeprefix(mark)
            for line in capsys.readouterr().out.splitlines()
            if line.startswith((f"{mark}High", f"{mark}and "))
        ]
        assert len(lines) == 6
        assert lines[-1] == f"and {len(everything) - 5} more"
        largest = sorted((one["text"] for one in everything), key=lambda t: -float(t.split()[3]))
        assert lines[0].split()[3] == largest[0].split()[3]


def test_a_notice_has_the_label_of_the_table() -> None:
    column = MetricColumn("cpu_percent", tuple(range(1, 11)), (1.0,) * 9 + (2.0,))
    (notice,) = high_z_scores("x", [column])
    assert notice.text.endswith(" for CPU% in epoch 10.")


def test_a_name_that_no_input_has(calm: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--drift", "nosuch=2%", "--metric", "nothing")
    with pytest.raises(InputError) as caught:
        run(calm, *words)
    places = [(d.file, d.text) for d in caught.value.diagnostics]
    assert places == [("--metric", "nothing"), ("--drift", "nosuch")]
    assert "there are: elapsed, user, system, rss_bytes" in caught.value.args[0]
    assert run(calm, "--drift", "USER=2%", "--drift", "cpu%=1%") == 0
    assert run(calm, "--metric", "Rss_Bytes") == 0
    assert "rss_bytes" in capsys.readouterr().out


def test_what_is_deselected_is_one_line(
    calm: str, slow: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    third = write(tmp_path / "third.res", "50 51 52")
    paths = (calm, slow, third)
    assert run(*paths, "--select", "$elapsed > 40") == 0
    out = capsys.readouterr().out
    assert "selection: 2 of 3 left out, not selected: calm.res, slow.res." in out
    assert "serious" not in out
    assert run(*paths, "--select", "$elapsed > 40", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert [one["name"] for one in found["inputs"]] == ["third.res"]
