"""docs/plots.md: its commands are ones that we take, its images are there and small."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from benchwright.cli import plot
from benchwright.cli.plot_request import request_of
from benchwright.report.charts.plot_data import PlotMode
from benchwright.report.charts.style import parse_legend_place

REPOSITORY = Path(__file__).parents[2]
TEXT = (REPOSITORY / "docs" / "plots.md").read_text()
LARGEST_BYTES = 150_000


def commands() -> list[list[str]]:
    """Return the arguments of every `bw plot` and `graphit` on the page."""
    found = []
    for block in re.findall(r"```sh\n(.*?)```", TEXT, re.DOTALL):
        for line in block.replace("\\\n", "").splitlines():
            words = shlex.split(line, comments=True)
            if words[:1] == ["graphit"]:
                found.append(words[1:])
            elif words[:2] == ["bw", "plot"]:
                found.append(words[2:])
    return found


def test_every_command_is_one_that_we_take(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(REPOSITORY)
    requests = []
    for words in commands():
        arguments = plot.parser_of("bw plot").parse_args(words)
        arguments.command_argv = None
        requests.append(request_of(arguments))
    assert {request.chart.mode for request in requests} == set(PlotMode)
    drawn = {path for request in requests for path, _ in request.graphfiles}
    assert {f"docs/{name}" for name in shown()} == drawn


def test_the_places_of_a_legend_are_those_that_the_message_lists() -> None:
    with pytest.raises(ValueError, match="there are: ") as caught:
        parse_legend_place("vertical")
    told = str(caught.value).split("there are: ")[1].split(", ")
    item = re.search(r"- `-k PLACE` takes(.*?);(.*?)\. Without", TEXT, re.DOTALL)
    assert item is not None
    assert re.findall(r"`(\w+)`", item[1]) == told
    for word in (*told, *re.findall(r"`(\w+)`", item[2])):
        parse_legend_place(word)
    with pytest.raises(ValueError, match="not a legend position"):
        parse_legend_place(" ")


def shown() -> list[str]:
    """Return the images that the page shows."""
    return re.findall(r"!\[[^]]+\]\((images/[^)]+)\)", TEXT)


def test_every_image_is_there_and_small() -> None:
    names = shown()
    assert len(names) == len(set(names)) >= len(PlotMode)
    for name in names:
        data = (REPOSITORY / "docs" / name).read_bytes()
        assert data.startswith(b"\x89PNG\r\n\x1a\n")
        assert len(data) < LARGEST_BYTES
