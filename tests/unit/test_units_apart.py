"""A metric of one name with different units: each test has its own, and they are not compared."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchwright.cli.main import main


def jmh(mode: str, unit: str, values: list[float]) -> dict[str, Any]:
    def metric(scale: float) -> dict[str, Any]:
        data = [[scale * value for value in values]]
        return {
            "score": sum(data[0]) / len(values),
            "scoreError": 1.0,
            "scoreUnit": unit,
            "rawData": data,
        }

    return {
        "jmhVersion": "1.37",
        "benchmark": "a.B.scan",
        "mode": mode,
        "threads": 1,
        "forks": 1,
        "primaryMetric": metric(1),
        "secondaryMetrics": {"rows": metric(10)},
    }


TIMES = [2.0, 2.1, 2.2, 1.9]
AVERAGE = jmh("avgt", "us/op", TIMES)
THROUGHPUT = jmh("thrpt", "ops/us", [1 / value for value in TIMES])


def written(path: Path, content: Any) -> str:
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return str(path)


def test_each_table_has_the_unit_of_its_test(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    both = written(tmp_path / "both.json", [THROUGHPUT, AVERAGE])
    slower = [
        jmh("thrpt", "ops/us", [0.1, 0.11, 0.12, 0.13]),
        jmh("avgt", "us/op", [8.0, 8.1, 8.2, 8.3]),
    ]
    other = written(tmp_path / "other.json", slower)
    assert main(["stats", both]) == 0
    rows = [x for x in capsys.readouterr().out.splitlines() if x.startswith("rows")]
    assert [row.split()[1] for row in rows] == ["1/s", "us"]
    assert rows[1].split()[-1] == "-"  # No overhead over a rate.
    main(["compare", both, other])
    rows = [x for x in capsys.readouterr().out.splitlines() if "  rows  " in x]
    assert ["1/s" in row for row in rows] == [True, False]
    assert [" us " in row for row in rows] == [False, True]


def test_a_rate_and_a_time_are_not_compared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rate = written(tmp_path / "rate.json", [THROUGHPUT])
    time = written(tmp_path / "time.json", [AVERAGE])
    assert main(["compare", rate, time, "--fail-if", "rows slower by 3%"]) == 2
    shown = capsys.readouterr()
    assert "times as" not in shown.out
    assert "1/s" in shown.err


def test_a_gate_on_a_metric_with_another_dimension_is_undecided(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    twice = [AVERAGE, AVERAGE | {"benchmark": "a.B.other"}]
    second = jmh("avgt", "us/op", [3.0, 3.1, 3.2, 3.3])
    second["secondaryMetrics"]["rows"]["scoreUnit"] = "MB"
    before = written(tmp_path / "before.json", twice)
    after = written(tmp_path / "after.json", [second, twice[1]])
    assert main(["compare", before, after, "--fail-if", "rows slower by 30%"]) == 3
    shown = capsys.readouterr().out
    assert "rows is not comparable" in shown


def test_units_of_one_dimension_are_compared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    in_us = jmh("avgt", "us/op", TIMES)
    in_ns = jmh("avgt", "ns/op", [1000 * value + 1 for value in TIMES])
    old = written(tmp_path / "old.json", [in_us])
    new = written(tmp_path / "new.json", [in_ns])
    main(["compare", old, new, "--metric", "rows"])
    assert "not comparable" not in capsys.readouterr().out


def test_the_interval_of_a_time_is_not_below_0(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wide = written(tmp_path / "wide.json", [jmh("avgt", "us/op", [0.1, 0.1, 0.1, 9])])
    assert main(["stats", wide]) == 0
    (row,) = (x for x in capsys.readouterr().out.splitlines() if x.startswith("rows"))
    assert float(row.split()[4]) == 0


@pytest.mark.parametrize(("factor", "units"), [(50, ["us", "us"]), (1e6, ["us", "s"])])
def test_times_that_are_not_alike_have_units_of_their_own(
    factor: float, units: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [f"{value}e-6" for value in (2.0, 2.1, 2.2, 1.9)]
    rows = [f"fast,{row}\nslow,{float(row) * factor:.9g}" for row in rows]
    file = written(tmp_path / "times.csv", "\n".join(["test,elapsed", *rows, ""]))
    main(["stats", file])
    shown = [x.split() for x in capsys.readouterr().out.splitlines() if x.startswith("Elapsed")]
    assert [row[1] for row in shown] == units
    assert all(float(one.replace(",", "")) > 0.01 for row in shown for one in row[3:6])
    main(["compare", f"{file}:fast", f"{file}:slow"])
    heading = next(x for x in capsys.readouterr().out.splitlines() if x.startswith("metric"))
    assert ("baseline us  mean s" in heading) is (units == ["us", "s"])
