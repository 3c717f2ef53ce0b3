"""Values at the ends of a float, halves of characters and deep nesting, through the commands that
read files."""

from __future__ import annotations

import itertools
import json
import math
import re
from pathlib import Path

import pytest

from benchwright.cli.main import main
from benchwright.features.exchange.foreign.json_file import DamagedJson, parse_json
from benchwright.report.charts.sheet import (
    AxisUnit,
    CurveForm,
    LevelLine,
    Panel,
    PanelAxis,
    PanelCurve,
    Sheet,
    tick_labels,
    tick_positions,
)
from benchwright.report.charts.svg import panel_svgs

EXTREME = {
    "large": [1.7e308, 1e308] * 6,
    "large and small": [1e308, 1e-308] * 6,
    "all alike": [1.7e308] * 12,
    "denormal": [5e-324, 1e-323] * 6,
    "one far away": [1e308] + [1.0] * 11,
}
SAYS_SO = "Not drawn: its values are too large"


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def benchmark_file(name: str, values: list[float]) -> str:
    """Write what pyperf writes of one benchmark; return its name."""
    runs = [{"metadata": {}, "values": [value]} for value in values]
    metadata = {"name": name, "unit": "second"}
    document = {"version": "1.0", "benchmarks": [{"metadata": metadata, "runs": runs}]}
    Path(f"{name}.json").write_text(json.dumps(document))
    return f"{name}.json"


@pytest.mark.parametrize("name", EXTREME)
def test_every_command_prints_and_draws_what_it_can(name: str) -> None:
    file = benchmark_file(name, EXTREME[name])
    for words in (
        ("report", file, "-o", "page.html"),
        ("history", file, "--html", "history.html"),
        ("stats", "-v", file),
    ):
        assert main([*words]) in (0, 3), words
    # A chart alone is refused where a page goes on without it.
    assert main(["plot", file, "-o", "chart.svg"]) == (0 if name == "denormal" else 2)
    page = Path("page.html").read_text()
    assert (SAYS_SO in page) == (name != "denormal")
    assert "</html>" in page


def test_a_live_view_goes_on_with_a_section_that_cannot_be_drawn() -> None:
    Path("bench").write_text(
        "#!/bin/sh\n"
        "n=$(cat n 2>/dev/null || echo 0); echo $((n + 1)) >n\n"
        "[ $((n % 2)) = 0 ] && echo v=1.7e308 || echo v=-1.7e308\n"
    )
    Path("bench").chmod(0o755)
    wanted = ("--metric", r"v~v=(\S+)", "--max-runs", "10", "--study", "study")
    assert main(["run", *wanted, "--", "./bench"]) == 0
    # What a live view renders are the sections of the report.
    assert main(["report", "study", "-o", "page.html"]) == 0
    assert SAYS_SO in Path("page.html").read_text()


ODD = (0.0, 5e-324, 1e-310, 1e-300, 1e-10, 1.0, 1.0000000000000002, 1e15, 1e300, 1e308)


def test_ticks_of_extreme_ranges_are_few_finite_and_in_order() -> None:
    ends = sorted({sign * end for end in (*ODD, 1.7e308) for sign in (-1, 1)})
    for (low, high), unit, log, most in itertools.product(
        itertools.combinations(ends, 2), AxisUnit, (False, True), (1, 2, 6, 8)
    ):
        if log and low <= 0:
            continue
        axis = PanelAxis("x", unit, log=log)
        found = tick_positions(low, high, axis, most)
        assert len(tick_labels(found, axis)) == len(found) <= most
        assert all(map(math.isfinite, found))
        assert list(found) == sorted(found)


MAGNITUDES = [
    sign * digits * 10.0**power
    for sign in (1, -1)
    for digits in (1.0, 2.0, 3.0, 5.0, 8056.0, 1 / 3)
    for power in range(-290, 291, 10)
]


@pytest.mark.parametrize("widths", [0, 1, 2, 7, 1000], ids="{} floats wide".format)
def test_ticks_of_an_axis_of_a_few_floats_are_distinct(widths: int) -> None:
    for value, unit, most in itertools.product(MAGNITUDES, AxisUnit, (2, 6)):
        low, high = value - widths * math.ulp(value), value
        found = tick_positions(low, high, PanelAxis("", unit), most)
        assert len(set(found)) == len(found) <= most
        assert list(found) == sorted(found)
        assert len(tick_labels(found, PanelAxis("", unit))) == len(found)


@pytest.mark.parametrize("widths", [0, 1, 5])
def test_a_series_of_one_value_has_an_axis_with_several_numbers(widths: int) -> None:
    for value in MAGNITUDES:
        other = value - widths * math.ulp(value)
        line = PanelCurve("a", (0.0, 1.0, 2.0), (value, other, value))
        panel = Panel("", PanelAxis("x"), PanelAxis("y"), (line,))
        (drawn,) = panel_svgs(Sheet("", (panel,)), prefix="p")
        numbers = re.findall(r'text-anchor="end"[^>]*>([^<]*)<', drawn)
        assert len(set(numbers)) >= 2, (value, drawn)


@pytest.mark.parametrize("value", [20, 5, 3, 2000, 21, 8056, 1e-9, 0])
def test_a_series_of_one_value_is_drawn_by_every_command(value: float) -> None:
    entries = [{"name": "x", "unit": "widgets", "value": value}]
    Path("one.json").write_text(json.dumps(entries))
    assert main(["history", "one.json", "--html", "history.html"]) in (0, 3)
    assert "</html>" in Path("history.html").read_text()
    assert main(["report", "one.json", "-o", "page.html"]) == 0


@pytest.mark.parametrize("value", [1e308, -1e308, math.inf, math.nan])
def test_a_panel_that_cannot_be_drawn_says_so_wherever_the_value_is(value: float) -> None:
    def drawn(panel: Panel) -> str:
        return panel_svgs(Sheet("", (panel,)), prefix="p")[0]

    x, y = PanelAxis("x"), PanelAxis("y")
    line = PanelCurve("a", (0.0, 1.0), (1.0, None))
    assert SAYS_SO not in drawn(Panel("", x, y, (line,)))
    for panel in (
        Panel("", x, y, (PanelCurve("a", (0.0, 1.0), (1.0, value)),)),
        Panel("", x, y, (PanelCurve("a", (0.0, value), (1.0, 2.0)),)),
        Panel("", x, y, (PanelCurve("a", (0.0,), (1.0,), low=(0.0,), high=(value,)),)),
        Panel("", x, y, (PanelCurve("a", (0.0,), (1.0,), CurveForm.BARS, base=(value,)),)),
        Panel("", x, y, (line,), marks=(LevelLine("a", value),)),
        Panel("", x, PanelAxis("y", high=value), (line,)),
    ):  # fmt: skip
        assert SAYS_SO in drawn(panel)


def test_half_a_character_is_replaced_and_a_whole_one_is_not() -> None:
    assert parse_json(r'"\ud800x \uD83D\uDE00 \\ud800 \udc00"') == (
        "\ufffdx \U0001f600 \\ud800 \ufffd"
    )


def test_names_with_half_a_character_can_be_printed_and_stored() -> None:
    times = {"times": [1, 2, 3], "exit_codes": [0, 0, 0], "mean": 2}
    text = json.dumps({"results": [{"command": "\ud800x", **times}]})
    assert r"\ud800" in text
    Path("half.json").write_text(text)
    for words in (
        ("stats", "--json", "half.json"),
        ("report", "half.json", "-o", "page.html"),
        ("history", "half.json", "--html", "history.html"),
        ("history", "add", "half.json", "--file", "h.db"),
        ("plot", "half.json", "-o", "chart.svg"),
    ):
        assert main([*words]) in (0, 3), words


DEEP = '{"results":' + "[" * 100_000 + "]" * 100_000 + "}"


@pytest.mark.parametrize(
    "words",
    [
        "stats deep.json",
        "report deep.json",
        "history deep.json",
        "history add deep.json --file h.db",
        "plot deep.json -o chart.svg",
        "why deep.json",
        "compare deep.json deep.json",
        "export deep.json --format junit",
        "export deep.json --format prometheus",
        "env --diff deep.json deep.json",
    ],
)
def test_deep_nesting_is_bad_input(words: str) -> None:
    Path("deep.json").write_text(DEEP)
    assert main(words.split()) == 2


def test_deep_nesting_in_a_programs_output_is_no_value() -> None:
    Path("bench").write_text(f"#!/bin/sh\ncat {Path('deep.json').absolute()}\n")
    Path("bench").chmod(0o755)
    Path("deep.json").write_text(DEEP)
    wanted = ("--metric", "v:/results/0", "--max-runs", "2", "--study", "study")
    assert main(["run", *wanted, "--", "./bench"]) in (1, 2)


def test_deep_nesting_is_damage() -> None:
    with pytest.raises(DamagedJson):
        parse_json(DEEP)
