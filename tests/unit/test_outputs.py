"""Files named for output: what is refused, and that writing replaces no node."""

from __future__ import annotations

import os
import socket
import stat
import threading
from pathlib import Path

import pytest

from benchwright.cli.output_file import check_output, same_file, write_output
from benchwright.core.errors import InputError


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def refusal(path: str, *inputs: str) -> str:
    with pytest.raises(InputError) as caught:
        check_output(path, "--out", inputs)
    assert caught.value.exit_status == 2
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.file == "--out"
    assert diagnostic.hint
    return diagnostic.message


def test_a_new_and_an_earlier_file_are_fine_and_nothing_is_left() -> None:
    Path("old.csv").write_text("old")
    check_output("new.csv", "--out", ["old.res"])
    check_output("old.csv", "--out", [])
    assert os.listdir() == ["old.csv"]
    assert Path("old.csv").read_text() == "old"


def test_a_file_inside_a_study_is_refused() -> None:
    Path("study/results/s1").mkdir(parents=True)
    Path("study/journal.sqlite").touch()
    os.symlink("study/results", "elsewhere")
    for path in ("study/a.csv", "study/journal.sqlite", "study/results/s1/ext2.res"):
        assert "inside the study" in refusal(path)
    assert "inside the study" in refusal("elsewhere/a.csv")


def test_an_input_is_refused_by_any_of_its_names() -> None:
    Path("a.res").write_text("kept")
    os.symlink("a.res", "soft.res")
    os.link("a.res", "hard.res")
    for name in ("a.res", "./a.res", "soft.res", "hard.res"):
        assert "one of the results" in refusal(name, "b.res", "a.res")


def test_directories_and_places_that_are_not_there_are_refused() -> None:
    Path("there").mkdir()
    assert "is a directory" in refusal("there")
    assert "is a directory" in refusal("new/")
    assert "no directory 'gone'" in refusal("gone/a.csv")
    assert "empty" in refusal("")
    assert "cannot be written" in refusal("x" * 300)


def test_a_place_where_no_file_can_be_made_is_refused() -> None:
    assert "cannot be written" in refusal("/proc/x.png")
    with pytest.raises(InputError, match="cannot be written"):
        write_output(Path("/proc/x.png"), b"x")


def test_a_socket_is_refused() -> None:
    with socket.socket(socket.AF_UNIX) as one:
        one.bind("s")
        assert "is a socket" in refusal("s")


def test_a_fifo_is_written_into_and_stays_one() -> None:
    os.mkfifo("pipe")
    os.symlink("pipe", "link")
    data = b"0123456789" * 100_000
    for name in ("pipe", "link"):
        read: list[bytes] = []
        reader = threading.Thread(target=lambda to=read: to.append(_all("pipe")), daemon=True)
        reader.start()
        check_output(name, "--out", [])
        write_output(Path(name), data)
        reader.join()
        assert read == [data]
    assert stat.S_ISFIFO(os.stat("pipe").st_mode)
    assert sorted(os.listdir()) == ["link", "pipe"]


def _all(path: str) -> bytes:
    return Path(path).read_bytes()


def test_an_earlier_file_is_replaced_through_links() -> None:
    Path("a.csv").write_text("earlier and longer")
    os.symlink("a.csv", "link.csv")
    write_output(Path("link.csv"), b"new")
    assert Path("link.csv").is_symlink()
    assert Path("a.csv").read_bytes() == b"new"
    assert sorted(os.listdir()) == ["a.csv", "link.csv"]


def test_same_file_sees_through_links_and_needs_no_file() -> None:
    assert same_file("a.csv", "./a.csv")
    assert not same_file("a.csv", "b.csv")
    Path("a.csv").touch()
    os.link("a.csv", "b.csv")
    assert same_file("a.csv", "b.csv")
