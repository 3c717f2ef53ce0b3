"""`bw plot` as a user meets it: words, mistakes, files. Formats are read back."""

from __future__ import annotations

import argparse
import csv
import json
import os
import re
import struct
import threading
import xml.etree.ElementTree as ET
import zlib
from pathlib import Path

import pytest

from benchwright.cli import plot
from benchwright.core.errors import InputError

ALL = ("eps", "pdf", "svg", "png")


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for fs, factor in (("ext2", 1.0), ("xfs", 1.5)):
        for threads in (1, 2, 16):
            write_res(f"{fs}:{threads}.res", factor * (20 - threads))


def write_res(name: str, elapsed: float, epochs: int = 12) -> None:
    """Write a results file whose times vary by a few per cent, always the same way."""
    blocks = [
        "[measurement]\nthread = 1\n"
        f"epoch = {epoch}\ncommand = postmark\n"
        f"user = {elapsed / 8:.6f}\nsys = {elapsed / 4 + 0.01 * (epoch % 3):.6f}\n"
        f"elapsed = {elapsed + 0.2 * ((epoch * 7) % 5):.6f}\nstatus = 0\n"
        for epoch in range(1, epochs + 1)
    ]
    Path(name).write_text("\n".join(blocks))


def run(*words: str, after: list[str] | None = None) -> int:
    arguments = plot.parser_of("bw plot").parse_args(words)
    arguments.command_argv = after
    status: int = arguments.handler(arguments)
    return status


def document(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, object]:
    assert run("--json", *words) == 0
    found: dict[str, object] = json.loads(capsys.readouterr().out)
    assert found["schema"] == "benchwright/plot/1"
    return found


def mistakes(*words: str) -> list[str]:
    with pytest.raises(InputError) as caught:
        run(*words)
    return [diagnostic.render() for diagnostic in caught.value.diagnostics]


def test_every_mistake_of_the_words_is_told_at_once() -> None:
    found = mistakes(
        *("--graphfile", "x.gif", "--graphfile", "no/x.png", "--graphfile", "."),
        *("--key", "somewhere", "--fontsize", "big", "--size", "huge", "--rotate", "x"),
        *("--ymin", "3", "--ymax", "2", "--dpi", "1.5", "--confidence", "100%"),
        *("--bar-width", "0", "--bar-gap", "-1", "--baseline", "Ext2", "--stack", "A"),
        *("Xfs", "xfs:1.res", "Ext2"),
    )
    options = [line.split(":")[0] for line in found]
    assert sorted(options) == sorted(
        [
            "NAME GLOB",
            "--graphfile",
            "--graphfile",
            "--graphfile",
            "--key",
            "--fontsize",
            "--size",
            "--rotate",
            "--ymin",
            "--dpi",
            "--confidence",
            "--bar-width",
            "--bar-gap",
            "--baseline",
            "--stack",
        ]
    )
    assert "'Ext2' is left over" in found[0]


def test_nothing_to_draw_and_nowhere_to_draw_to() -> None:
    found = mistakes()
    assert "nothing to draw" in found[0]
    assert "no output is given" in found[1]


def test_inputs_that_are_not_there_are_all_told() -> None:
    Path("bad.res").write_text("[measurement]\nelapsed = soon\n")
    found = mistakes("--json", "A", "zfs:*.res", "B", "gone.res", "C", "bad.res")
    assert "no file matches 'zfs:*.res'" in found[0]
    assert "gone.res: No such file" in found[1]
    assert "bad.res:2:11: elapsed is 'soon', not a number" in found[2]


def test_unknown_components_list_those_that_there_are() -> None:
    (found,) = mistakes("--json", "--components", "Elapsd", "A", "ext2:*.res")
    assert "'Elapsd'" in found
    assert "there are: Elapsed, System, User, Wait, CPU%" in found


@pytest.mark.parametrize("empty", ["", " ", ","])
def test_an_option_that_names_nothing_is_refused(empty: str) -> None:
    for mode, option in (
        ("line", "--components"),
        ("line", "--factor"),
        ("bar", "--stack"),
        ("ratio", "--baseline"),
    ):
        (found,) = mistakes("--json", "--mode", mode, option, empty, "A", "ext2:*.res")
        assert f"{option} is empty" in found


def test_words_after_two_dashes_are_series_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--json", after=["-k", "ext2:1.res"]) == 0
    assert json.loads(capsys.readouterr().out)["series"][0]["name"] == "-k"


def test_a_pattern_is_expanded_in_natural_order_and_a_name_is_none(
    capsys: pytest.CaptureFixture[str],
) -> None:
    write_res("a[1].res", 3)
    found = document(capsys, "--components", "elapsed", "E", "ext2:*.res")
    (series,) = found["series"]  # type: ignore[misc]
    assert [point["x"] for point in series["points"]] == [1, 2, 16]
    found = document(capsys, "E", "a[1].res")
    assert found["series"][0]["points"][0]["test"] == "a[1].res"  # type: ignore[index]


def test_a_name_given_twice_is_one_series(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--components=User", "E", "ext2:1.res", "X", "xfs:1.res", "E", "ext2:2.res")
    found = document(capsys, *words)
    names = [series["name"] for series in found["series"]]  # type: ignore[attr-defined]
    assert names == ["E", "X"]


def test_the_data_file_has_the_numbers_of_the_document(capsys: pytest.CaptureFixture[str]) -> None:
    found = document(capsys, "--datafile", "d.csv", "E", "ext2:*.res", "X", "xfs:*.res")
    rows = list(csv.DictReader(Path("d.csv").read_text().splitlines()))
    points = [p for s in found["series"] for p in s["points"]]  # type: ignore[attr-defined]
    assert len(rows) == len(points) == 18
    for row, point in zip(rows, points, strict=True):
        assert float(row["value"]) == point["value"]
        assert float(row["low"]) == point["low"]
        assert (row["test"], int(row["n"])) == (point["test"], point["n"])


def test_a_data_file_of_single_values_has_one_row_each() -> None:
    assert run("--mode", "strip", "--datafile", "d.csv", "E", "ext2:*.res") == 0
    rows = list(csv.DictReader(Path("d.csv").read_text().splitlines()))
    assert [int(row["epoch"]) for row in rows] == list(range(1, 13)) * 3
    assert float(rows[0]["value"]) == 19.4


def draw(*words: str, forms: tuple[str, ...] = ALL) -> dict[str, bytes]:
    files = [f"--graphfile=graph.{form}" for form in forms]
    assert run(*files, *words) == 0
    return {form: Path(f"graph.{form}").read_bytes() for form in forms}


def png_size(data: bytes) -> tuple[int, int]:
    """Return width and height of a PNG, all of whose checksums hold."""
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    at, size = 8, (0, 0)
    while at < len(data):
        (length,) = struct.unpack(">I", data[at : at + 4])
        body = data[at + 4 : at + 8 + length]
        (checksum,) = struct.unpack(">I", data[at + 8 + length : at + 12 + length])
        assert zlib.crc32(body) == checksum
        if body.startswith(b"IHDR"):
            size = struct.unpack(">II", body[4:12])
        at += 12 + length
    return size


def test_every_format_can_be_read_back() -> None:
    words = ("--size", "5x3in", "--dpi", "100", "-k", "outside", "E", "ext2:*.res")
    found = draw("--title", "A title: 100 %", *words)
    assert png_size(found["png"]) == (500, 300)
    root = ET.fromstring(found["svg"])
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert (root.get("width"), root.get("height")) == ("360pt", "216pt")
    assert found["pdf"].startswith(b"%PDF-1.")
    assert found["pdf"].rstrip().endswith(b"%%EOF")
    assert b"/MediaBox [ 0 0 360 216 ]" in found["pdf"]
    assert found["eps"].startswith(b"%!PS-Adobe-3.0 EPSF-3.0\n")
    box = re.search(rb"^%%BoundingBox: (\d+) (\d+) (\d+) (\d+)$", found["eps"], re.MULTILINE)
    assert box is not None
    left, bottom, right, top = map(int, box.groups())
    assert (right - left, top - bottom) == (360, 216)


def test_fonts_are_embedded_as_truetype() -> None:
    found = draw("E", "ext2:*.res", forms=("eps", "pdf"))
    assert b"/FontType 42 def" in found["eps"]
    assert b"/FontFile2" in found["pdf"]
    assert b"/Type3" not in found["pdf"]


@pytest.mark.parametrize(
    "mode", ["line", "bar", "ecdf", "violin", "strip", "epochs", "normal", "ratio"]
)
def test_two_drawings_are_the_same_bytes_and_hold_no_time(mode: str) -> None:
    words = ("--mode", mode, "E", "ext2:*.res", "X", "xfs:*.res")
    first = draw(*words, forms=("svg",))
    assert draw(*words, forms=("svg",)) == first
    assert b"dc:date" not in first["svg"]


def test_a_users_settings_of_matplotlib_change_nothing() -> None:
    first = draw("E", "ext2:*.res", forms=("svg",))
    import matplotlib as mpl

    with mpl.rc_context({"axes.grid": True, "lines.linewidth": 9, "font.size": 30}):
        assert draw("E", "ext2:*.res", forms=("svg",)) == first
        assert mpl.rcParams["lines.linewidth"] == 9


def test_an_earlier_graph_is_replaced_through_links_and_nothing_is_left(tmp_path: Path) -> None:
    Path("real.svg").write_text("old")
    Path("graph.svg").symlink_to("real.svg")
    before = set(os.listdir())
    draw("E", "ext2:*.res", forms=("svg",))
    assert Path("graph.svg").is_symlink()
    assert Path("real.svg").read_text().startswith("<?xml")
    assert set(os.listdir()) == before


def test_a_file_that_cannot_be_written_is_named_and_nothing_is_left() -> None:
    before = set(os.listdir())
    for path in ("x" * 300 + ".svg", "/proc/x.svg", "gone/x.svg"):
        (found,) = mistakes("--graphfile", path, "E", "ext2:*.res")
        assert found.startswith("--graphfile: ")
        assert path.split("/")[0] in found
    assert set(os.listdir()) == before


def test_nothing_is_written_into_a_study() -> None:
    Path("study/results/s1").mkdir(parents=True)
    Path("study/journal.sqlite").touch()
    before = list(Path("study").rglob("*"))
    words = ("--graphfile", "study/results/s1/x.svg", "--datafile", "study/x.csv")
    found = mistakes(*words, "E", "ext2:*.res")
    assert [one.split(":")[0] for one in found] == ["--graphfile", "--datafile"]
    assert all("inside the study" in one for one in found)
    assert list(Path("study").rglob("*")) == before


def test_one_name_for_two_outputs_is_refused() -> None:
    words = ("--graphfile", "x.svg", "--graphfile", "./x.svg", "--datafile", "x.svg")
    found = mistakes(*words, "E", "ext2:*.res")
    assert len(found) == 2
    assert all("is named twice" in one for one in found)


def test_a_datafile_that_is_a_pipe_stays_one() -> None:
    os.mkfifo("pipe")
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append(Path("pipe").read_text()), daemon=True)
    reader.start()
    assert run("--datafile", "pipe", "E", "ext2:1.res") == 0
    reader.join(timeout=60)
    assert read[0].startswith("series,component,")
    assert Path("pipe").is_fifo()


def test_labels_are_text_in_any_script_and_never_formulas(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("odd.csv").write_text("test,epoch,elapsed\na\x01b,1,1\na\x01b,2,2\n")
    name = "cost $5^2 \\alpha $6 <&> %s 日"
    found = draw("--title", "$x_", "--xlabel", "{", name, "odd.csv")
    ET.fromstring(found["svg"])
    assert "Glyph 26085" in capsys.readouterr().err


@pytest.mark.parametrize(
    "key", ["top left", "bottom", "center", "outside", "outside left", "below", "off box"]
)
def test_a_legend_can_be_anywhere(key: str) -> None:
    found = draw("-k", key, "E", "ext2:*.res", "X", "xfs:*.res", forms=("svg",))
    told = b"<!-- E Elapsed -->" in found["svg"]
    assert told == ("off" not in key)


def test_what_is_missing_is_told_and_the_rest_is_drawn(capsys: pytest.CaptureFixture[str]) -> None:
    Path("bare.csv").write_text("epoch,elapsed\n1,2\n2,3\n")
    draw("--mode=bar", "E", "ext2:1.res", "B", "bare.csv", forms=("svg",))
    errors = capsys.readouterr().err
    assert "B bare.csv: serious: User: no counted trial has a value; a gap, not zero" in errors


def test_graphit_is_a_parser_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        plot.parser_of("graphit").parse_args(["--help"])
    shown = capsys.readouterr().out
    assert "usage: graphit" in shown
    assert "bw plot" not in shown
    assert isinstance(plot.parser_of("graphit"), argparse.ArgumentParser)


def test_a_result_is_not_drawn_over() -> None:
    Path("r.csv").write_text("epoch,elapsed\n1,2\n2,3\n")
    Path("link.csv").symlink_to("r.csv")
    os.link("r.csv", "hard.csv")
    for name in ("r.csv", "./r.csv", "link.csv", "hard.csv"):
        (found,) = mistakes("--datafile", name, "A", "r*.csv")
        assert "is one of the results" in found
    assert Path("r.csv").read_text() == "epoch,elapsed\n1,2\n2,3\n"


def test_failed_trials_are_in_no_chart_and_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    Path("f.csv").write_text("epoch,elapsed,status\n1,2,0\n2,99,1\n3,2,0\n")
    assert run("--json", "A", "f.csv") == 0
    shown = capsys.readouterr()
    assert json.loads(shown.out)["series"][0]["points"][0]["value"] == 2
    assert "A f.csv: serious: 1 failed trial, not drawn" in shown.err


def test_labels_that_leave_no_room_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("-f", "60", "--size", "1x1in", "A long name", "ext2:*.res")
    draw(*words, forms=("png",))
    assert "leave no room for the chart" in capsys.readouterr().err
