"""`bw run` with readers that go away, full disks, and words that are no text."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

BW = [sys.executable, "-m", "benchwright.cli.main"]


def runs(directory: Path) -> int:
    """Return how many times the measured command ran."""
    return (directory / "ran").read_text().count("x")


def test_a_reader_that_goes_away_does_not_end_the_measuring(tmp_path: Path) -> None:
    """`bw run ... 2>&1 | head -1` of a benchmark that fails: all runs, status 1."""
    reading, writing = os.pipe()
    command = 'echo x >> ran; sleep 0.3; test "$APEPOCH" != 6'
    with subprocess.Popen(
        [*BW, "run", "--keep-going", "--min-runs", "6", "--", "sh", "-c", command],
        cwd=tmp_path,
        stdout=writing,
        stderr=writing,
    ) as process:
        os.close(writing)
        os.read(reading, 1)
        os.close(reading)
        assert process.wait(60) == 1
    assert runs(tmp_path) == 6


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
def test_a_full_disk_under_the_output_is_said_in_a_line(tmp_path: Path) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [*BW, "run", "--quiet", "--min-runs", "2", "--", "true"],
            cwd=tmp_path,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
        )
    assert done.returncode == 1
    first, advice = done.stderr.splitlines()
    assert first.startswith("bw: standard output: No space left")
    assert advice.startswith("  = ")


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
def test_every_answer_that_cannot_be_written_names_the_output(unbuffered: str) -> None:
    for words in (["schema", "run"], ["env"], ["config"]):
        with Path("/dev/full").open("w") as full:
            done = subprocess.run(
                [*BW, *words],
                stdout=full,
                stderr=subprocess.PIPE,
                text=True,
                timeout=60,
                env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
            )
        assert done.returncode == 1
        assert done.stderr.startswith("bw: standard output: No space left"), words


@pytest.mark.parametrize(
    "words", [["run", "--", "true"], ["compare", "--", "true", "false"], ["show"]]
)
def test_a_deleted_working_directory_is_named(tmp_path: Path, words: list[str]) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    done = subprocess.run(
        ["sh", "-c", 'rmdir "$PWD"; exec "$@"', "sh", *BW, *words],
        cwd=gone,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 1
    first, advice = done.stderr.splitlines()
    assert first.startswith("bw: the working directory: ")
    assert advice.startswith("  = ")


def test_a_word_that_is_no_text_is_refused(tmp_path: Path) -> None:
    done = subprocess.run(
        [*BW, "run", "--", b"/bin/\xff"], cwd=tmp_path, capture_output=True, timeout=60
    )
    assert done.returncode == 2
    assert b"is not UTF-8 text" in done.stderr
    assert not (tmp_path / "bw-study").exists()


def test_a_variable_that_is_no_text_is_refused_by_name(tmp_path: Path) -> None:
    done = subprocess.run(
        [*BW, "run", "--", "true"],
        cwd=tmp_path,
        capture_output=True,
        timeout=60,
        env={**os.environb, b"TESTROOT": b"/tmp/\xff"},
    )
    assert done.returncode == 2
    assert b"TESTROOT is not UTF-8 text" in done.stderr


def test_a_directory_that_is_gone_is_said_by_resume(tmp_path: Path) -> None:
    place = tmp_path / "place"
    place.mkdir()
    study = str(tmp_path / "study")
    subprocess.run(
        [*BW, "run", "--quiet", "--study", study, "--", "false"],
        cwd=place,
        capture_output=True,
        timeout=60,
    )
    shutil.rmtree(place)
    done = subprocess.run(
        [*BW, "resume", study], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 2
    assert "directory-missing" in done.stderr


def test_resume_says_why_there_is_nothing_to_resume(tmp_path: Path) -> None:
    for command in ("false", "true"):
        subprocess.run(
            [*BW, "run", "--quiet", "--min-runs", "2", "--", command],
            cwd=tmp_path,
            capture_output=True,
            timeout=60,
        )
    done = subprocess.run([*BW, "resume"], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0
    assert "its last session, 2, has ended: complete" in done.stderr
    assert "cannot be resumed: 1" in done.stderr
