"""The Python API, as a user's program calls it: in a process of its own."""

from __future__ import annotations

import gc
import re
import subprocess
import sys
from pathlib import Path

import pytest

import benchwright
from benchwright.core.errors import BenchError, InputError, StudyError

PAGE = Path(__file__).parents[2] / "docs" / "library.md"
BLOCK = re.compile(r'^```python(?: title="(?P<title>\S+)")?\n(?P<text>.*?)^```$', re.M | re.S)


def pytest_run(place: Path, *words: str) -> subprocess.CompletedProcess[str]:
    plugin = ("-p", "benchwright.pytest_plugin", "-p", "no:cacheprovider")
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-rs", *plugin, *words],
        cwd=place,
        capture_output=True,
        text=True,
    )


def test_the_page_runs(tmp_path: Path) -> None:
    blocks = list(BLOCK.finditer(PAGE.read_text()))
    script = "".join(block["text"] for block in blocks if not block["title"])
    assert script.count("assert ") > 8
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    for block in blocks:
        if block["title"]:
            (tmp_path / block["title"]).write_text(block["text"])
    done = pytest_run(tmp_path)
    assert done.returncode == 0, done.stdout


def test_nothing_is_printed_and_a_temporary_study_ends_with_its_result(
    capfd: pytest.CaptureFixture[str],
) -> None:
    result = benchwright.run(["sh", "-c", "echo out; echo err >&2"], runs=3)
    assert capfd.readouterr() == ("", "")
    assert result.place is not None
    path = result.place.path
    study = result.open_study()
    assert study.sessions["kind"] == ["run"]
    assert result._repr_html_().startswith("<iframe sandbox")
    assert result.answers[0].sentence in str(result)
    assert len(str(result)) < 2000
    assert "\x1b" not in str(result)
    del result
    gc.collect()
    assert len(study.trials) == 3
    del study
    gc.collect()
    assert not path.parent.exists()


def test_a_failed_benchmark_is_a_result_and_bad_input_an_error(tmp_path: Path) -> None:
    failed = benchwright.run("false", runs=3)
    assert failed.exit_status == 1
    assert not failed.is_decided
    with pytest.raises(InputError) as wrong:
        benchwright.run("true", runs="many", mode="never")
    assert wrong.value.diagnostics[0].code == "bad-argument"
    with pytest.raises(InputError) as wrong:
        benchwright.run("true", precision="x%")
    assert wrong.value.diagnostics[0].file == "--precision"
    with pytest.raises(StudyError) as unusable:
        benchwright.open_study(tmp_path)
    assert unusable.value.code == "not-a-study"
    with pytest.raises((InputError, BenchError)):
        benchwright.load(target=tmp_path / "absent" / "file", duration="1s")


def test_a_stored_load_is_read_from_its_study(tmp_path: Path) -> None:
    place = tmp_path / "study"
    load = benchwright.load(target="null", rate=1000, duration="1s", study=place)
    assert load.metrics["completed"] == load.engine.counts.completed
    assert len(load.open_study().trials) == 1


def test_a_search_that_ends_early_is_an_undecided_result() -> None:
    peak = benchwright.peak(target="null", limit=["p99 < 5ms"], max_trials=1, run_length="1s")
    assert (peak.exit_status, peak.is_decided) == (3, False)
    assert len(peak.document.trials) == 1
    study = peak.open_study()
    assert study.sessions["kind"] == ["peak"]
    assert len(study.trials) == 0


GATES = """
def test_slower(bw_gate):
    bw_gate("sleep 0.05", baseline="sleep 0.01", fail_if="slower by 3%", max_blocks=12)

def test_undecided(bw_gate):
    bw_gate("sleep 0.01", baseline="sleep 0.01", fail_if="slower by 0.001%", max_blocks=2, min_blocks=2)
"""


def test_gates_fail_and_skip(tmp_path: Path) -> None:
    (tmp_path / "test_gates.py").write_text(GATES)
    done = pytest_run(tmp_path)
    assert "1 failed, 1 skipped" in done.stdout
    assert "slower by 3%: failed" in done.stdout
    done = pytest_run(tmp_path, "--bw-undecided", "fail", "-k", "undecided")
    assert "1 failed" in done.stdout
