"""The paper's Figures 2 and 3, recomputed where they give what is needed.

Printed inputs are rounded to 0.0005, so a column derived from them may differ from the
printed one by what that rounding can move it, plus its own rounding: each test states
the bound as a formula of the inputs, not as a constant that happens to pass.
The second half goes the other way: getstats/figures.json holds data with the printed
statistics (make_figures.py says how it was found), and our table prints the same lines.
"""

from __future__ import annotations

import importlib.util
import json
import math
from pathlib import Path

import pytest

from benchwright.report.stats_document import InputSection, compose_report
from benchwright.stats.aggregate import overhead_percent, summarise
from benchwright.stats.intervals import t_half_width
from benchwright.views.stats import render_stats

HERE = Path(__file__).parent / "getstats"
_spec = importlib.util.spec_from_file_location("make_figures", HERE / "make_figures.py")
assert _spec is not None
assert _spec.loader is not None
make_figures = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(make_figures)

R = 0.0005
"""Half of the last printed digit."""
TABLES = {figure: make_figures.tables(text) for figure, text in make_figures.FIGURES.items()}
LINES = [
    pytest.param(line, id=f"{figure}-{name}-{quantity}")
    for figure, inputs in TABLES.items()
    for name, lines in inputs.items()
    for quantity, line in lines.items()
]
PAIRS = [
    pytest.param(first[quantity], second[quantity], id=f"{figure}-{quantity}")
    for figure, inputs in TABLES.items()
    for first, second in [tuple(inputs.values())]
    for quantity in first
]


@pytest.mark.parametrize("line", LINES)
def test_interval_columns_follow_from_count_mean_and_sdev(line: list[float]) -> None:
    count, mean, _median, low, high, _min, _max, share, width = line[:9]
    half = t_half_width(share / 100 * mean, int(count), 0.95)
    # SDEV% +- R moves the half width by R % of mean * t / sqrt(n); the mean by R too.
    per_sdev = t_half_width(1.0, int(count), 0.95)
    room = 2 * R + per_sdev * (R / 100 * mean + share / 100 * R)
    assert mean - half == pytest.approx(low, abs=room)
    assert mean + half == pytest.approx(high, abs=room)
    # HW% is SDEV% times t / sqrt(n), without the mean.
    assert share * per_sdev == pytest.approx(width, abs=R + per_sdev * R)


@pytest.mark.parametrize(("base", "line"), PAIRS)
def test_overheads_follow_from_the_means(base: list[float], line: list[float]) -> None:
    # d(O/H) = 100 * (dm / b + m / b^2 * db), both means rounded to R.
    room = R + 100 * (R / base[1] + line[1] / base[1] ** 2 * R)
    assert overhead_percent(line[1], base[1]) == pytest.approx(line[9], abs=room)


@pytest.mark.parametrize("name", ["ext2:1.res", "ext3:1.res"])
def test_the_mean_wait_is_elapsed_without_the_cpu_times(name: str) -> None:
    lines = TABLES["figure2"][name]
    elapsed, system, user, wait, cpu = (
        lines[q][1] for q in ("Elapsed", "System", "User", "Wait", "CPU%")
    )
    # Means are linear: four roundings. CPU% is a mean of ratios, not the ratio of the
    # means: they differ to second order, by at most CPU% * (cv^2 + cv * cv of the rest).
    assert elapsed - system - user == pytest.approx(wait, abs=4 * R)
    cv = max(lines[q][7] for q in ("Elapsed", "System", "User")) / 100
    room = cpu * 2 * cv * cv + R + 100 * 3 * R / elapsed
    assert 100 * (system + user) / elapsed == pytest.approx(cpu, abs=room)


def test_the_papers_warning_belongs_to_its_smallest_value() -> None:
    _n, mean, _md, _low, _high, smallest, largest, share, _hw = TABLES["figure2"]["ext2:1.res"][
        "Elapsed"
    ]
    sdev = share / 100 * mean
    # |z| = (mean - min) / sdev: both ends rounded by R, sdev by R % of itself.
    room = 2 * R / sdev + 2.22 * R / share
    assert (mean - smallest) / sdev == pytest.approx(2.21853230276562, abs=room)
    assert (largest - mean) / sdev < 2


@pytest.mark.parametrize("figure", list(TABLES))
def test_data_with_the_printed_statistics_print_the_papers_lines(figure: str) -> None:
    data = json.loads((HERE / "figures.json").read_text())[figure]
    entries = [
        InputSection(name, tuple(summarise(q, values) for q, values in quantities.items()))
        for name, quantities in data.items()
    ]
    found = [line.split() for line in render_stats(compose_report(entries), "table").splitlines()]
    head = ["NAME", "COUNT", "MEAN", "MEDIAN", "LOW", "HIGH", "MIN", "MAX", "SDEV%", "HW%"]
    printed: list[list[str]] = []
    for line in make_figures.FIGURES[figure].strip().splitlines():
        words = line.split()
        if len(words) > 1:
            printed.append(words)
            continue
        printed.extend([[]] if printed else [])
        printed.extend([words, head + (["O/H"] if len(printed) > 1 else [])])
    assert found == printed


def test_the_table_looks_like_the_papers() -> None:
    """Figure 2's own spacing for its widest line: one space between full columns."""
    data = json.loads((HERE / "figures.json").read_text())["figure2"]["ext2:1.res"]
    entry = InputSection("ext2:1.res", tuple(summarise(q, values) for q, values in data.items()))
    assert render_stats(compose_report([entry]), "table") == (
        "ext2:1.res\n"
        "NAME      COUNT   MEAN MEDIAN    LOW   HIGH    MIN    MAX  SDEV%    HW%\n"
        "Elapsed   10     6.055  6.063  5.991  6.120  5.855  6.180  1.491  1.067\n"
        "System    10     2.758  2.760  2.709  2.807  2.640  2.880  2.499  1.788\n"
        "User      10     1.675  1.680  1.615  1.735  1.510  1.820  5.044  3.609\n"
        "Wait      10     1.622  1.636  1.567  1.677  1.465  1.718  4.759  3.404\n"
        "CPU%      10    73.221 73.079 72.572 73.871 72.007 74.981  1.240  0.887\n"
    )


def test_recomputation_would_notice_another_quantile() -> None:
    """The bounds are tight enough to tell Student's t from the normal quantile."""
    _n, _mean, *_rest, share, width = TABLES["figure2"]["ext3:1.res"]["Elapsed"][:9]
    normal = share * 1.959963984540054 / math.sqrt(15)
    assert abs(normal - width) > 100 * R
