"""Results of other tools through the commands: what is shown, compared, drawn and refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchwright.cli.main import main

FILES = Path(__file__).parents[1] / "golden" / "foreign"


def bw(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    """Return the exit status, stdout and stderr of a command."""
    status = main([*words])
    shown = capsys.readouterr()
    return status, shown.out, shown.err


def document(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    status, out, _ = bw(capsys, *words, "--json")
    assert status in (0, 3)
    return json.loads(out)


def test_stats_shows_an_estimate_with_its_own_interval_or_none(
    capsys: pytest.CaptureFixture[str],
) -> None:
    shown = document(capsys, "stats", f"{FILES}/asv:b.time_single")
    ((elapsed,),) = (one["quantities"] for one in shown["inputs"])
    assert elapsed["method"] == "stated"
    assert (elapsed["low"], elapsed["high"]) == (6.67e-07, 1.0013e-05)
    assert (elapsed["confidence"], elapsed["mean"]) == (0.99, None)
    (notice,) = shown["notices"]
    assert (
        notice["text"] == "Stated by asv with its 99 % interval of the median: elapsed."
    )
    assert shown["findings"] == []

    shown = document(capsys, "stats", f"{FILES}/hyperfine.json:seq 10")
    rows = {one["name"]: one for one in shown["inputs"][0]["quantities"]}
    assert rows["elapsed"]["method"] == "student-t"
    assert (rows["user"]["method"], rows["user"]["low"]) == ("stated", None)


def test_compare_takes_tests_of_files(capsys: pytest.CaptureFixture[str]) -> None:
    arms = (f"{FILES}/go-bench.txt:Sum/n={n}-2" for n in (100, 1000))
    shown = document(capsys, "compare", *arms)
    verdicts = {one["metric"]: one["verdict"] for one in shown["verdicts"]}
    assert verdicts == {"elapsed": "slower", "throughput": "undecided"}
    assert shown["arms"] == ["go-bench.txt:Sum/n=100-2", "go-bench.txt:Sum/n=1000-2"]


def test_a_comparison_of_loads_judges_the_main_quantities(
    capsys: pytest.CaptureFixture[str],
) -> None:
    files = (f"{FILES}/fio.json", f"{FILES}/fio-plus.json")
    shown = document(capsys, "compare", *files)
    judged = {one["metric"] for one in shown["verdicts"] if one["judged"]}
    assert judged == {"read_iops", "read_clat_mean", "read_clat_p99"}
    shown = document(capsys, "compare", *files, "--metric", "read_bw")
    assert "read_bw" in {one["metric"] for one in shown["verdicts"] if one["judged"]}


def test_compare_refuses_estimates_without_values(
    capsys: pytest.CaptureFixture[str],
) -> None:
    status, _, err = bw(
        capsys,
        *("compare", f"{FILES}/asv:b.time_single", f"{FILES}/pyperf.json:sum100"),
    )
    assert status == 2
    assert "estimates by asv and no values" in err
    assert "docs/import.md" in err


def test_a_wrong_test_is_named_with_those_there(
    capsys: pytest.CaptureFixture[str],
) -> None:
    status, _, err = bw(capsys, "stats", f"{FILES}/pyperf.json:sum")
    assert status == 2
    assert "there is no test 'sum'" in err
    assert "there are: sum100, sorted" in err


def test_json_of_another_form_is_refused_with_the_formats(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "x.json"
    path.write_text('{"answer": 42}')
    for command in ("stats", "report"):
        status, _, err = bw(capsys, command, str(path))
        assert status == 2
        assert "JSON of a form that no parser recognises" in err
        assert "Google Benchmark, criterion, fio, k6" in err
    path.write_text('{"answer": ')
    status, _, err = bw(capsys, "history", str(path))
    assert status == 2
    assert "line 1, column 12" in err


def test_a_report_of_a_file_has_its_origin_and_estimates(
    capsys: pytest.CaptureFixture[str],
) -> None:
    (part,) = document(capsys, "report", f"{FILES}/asv")["parts"]
    assert (part["kind"], part["session"]) == ("file", 0)
    assert part["verdict"][0] == "Results of 8 tests by asv."
    sections = {one["id"]: one for one in part["sections"]}
    (table,) = sections["p1-estimates"]["blocks"]
    first = table["rows"][0]
    assert first[0]["text"] == "b.time_single"
    assert (first[3]["low"], first[3]["high"]) == (6.67e-07, 1.0013e-05)
    facts = sections["p1-origin"]["blocks"][0]["rows"]
    commit = "aae50d388b319602cc6aef2bcb6ab67441b1f25e"
    assert ["Commit", commit] in [[cell["text"] for cell in row] for row in facts]


def test_a_report_of_trials_says_nothing_of_their_start(
    capsys: pytest.CaptureFixture[str],
) -> None:
    (part,) = document(capsys, "report", f"{FILES}/pyperf.json:sum100")["parts"]
    tables = [
        block
        for section in part["sections"]
        for group in section["blocks"]
        for block in group.get("blocks", ())
        if block["type"] == "table"
    ]
    headings = {column["label"] for table in tables for column in table["columns"]}
    assert "Trial" in headings
    assert not any(heading.startswith("Start") for heading in headings)


def test_a_history_of_another_tool(capsys: pytest.CaptureFixture[str]) -> None:
    shown = document(capsys, "history", f"{FILES}/otava.csv")
    runs = {one["metric"]: len(one["points"]) for one in shown["series"]}
    assert runs == {"elapsed": 3, "peak_rss": 2}


@pytest.mark.parametrize("file", ["asv", "google-benchmark-aggregates.json"])
def test_a_plot_draws_what_a_file_states(
    capsys: pytest.CaptureFixture[str], file: str, tmp_path: Path
) -> None:
    shown = document(capsys, "plot", f"{FILES}/{file}", "--components", "elapsed")
    points = {
        point["test"]: point for series in shown["series"] for point in series["points"]
    }
    name = "b.time_single" if file == "asv" else "Sum/n:100"
    assert points[name]["value"] is not None
    assert (points[name]["low"] is not None) == (file == "asv")
