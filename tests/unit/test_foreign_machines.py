"""The machines that files of other tools state: differences are found, with both values."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchwright.cli.main import main

FILES = Path(__file__).parents[1] / "golden" / "foreign"
STATED = {
    "go-bench.txt": ("cpu: AMD EPYC", "cpu: Intel Xeon", "cpu.model", "serious"),
    "pytest-benchmark.json": (
        *('"brand_raw": "AMD EPYC"', '"brand_raw": "Intel Xeon"'),
        *("cpu.model", "serious"),
    ),
    "google-benchmark.json": (*('"num_cpus": 2', '"num_cpus": 64', "cpu.threads", "serious"),),
    "jmh.json": ('-1deb12u1"', '-2deb12u1"', "vmVersion", "warning"),
    "pyperf.json": ('"AMD EPYC"', '"Intel Xeon"', "cpu.model", "serious"),
    "asv/vm/fefd73b6-py3.11.json": (*('"AMD EPYC"', '"Intel Xeon"', "cpu.model", "serious"),),
}


def findings(
    capsys: pytest.CaptureFixture[str], command: str, *files: Path
) -> list[dict[str, Any]]:
    status = main([command, *map(str, files), "--json"])
    shown = capsys.readouterr()
    assert status in (0, 3), shown.err
    found: list[dict[str, Any]] = json.loads(shown.out)["findings"]
    return [one for one in found if one["code"] == "environments-differ"]


@pytest.mark.parametrize("name", STATED)
def test_two_files_of_different_machines_are_compared_with_a_finding(
    name: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    here, there, fact, severity = STATED[name]
    text = (FILES / name).read_text()
    assert here in text
    first, same, other, silent = (
        tmp_path / f"{which}.results" for which in ("first", "same", "other", "silent")
    )
    first.write_text(text)
    same.write_text(f"{text}\n")
    other.write_text(text.replace(here, there))
    silent.write_text(text.replace(here, "" if name.endswith("txt") else here))
    found = findings(capsys, "stats", first, other)
    assert found
    for one in found:
        assert one["severity"] == severity
        assert f"{fact}: " in one["evidence"]
        for value in (here, there):
            assert value.rpartition(": ")[2].strip('"') in one["evidence"]
    assert findings(capsys, "stats", first, same) == []
    assert findings(capsys, "stats", first, silent) == []


def test_results_under_two_machines_in_one_file_are_compared_with_a_finding(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def part(cpu: str, more: int = 10) -> str:
        lines = "".join(f"BenchmarkSum 1 {at % 5 + more} ns/op\n" for at in range(9))
        return f"cpu: {cpu}\n{lines}"

    old, new = tmp_path / "old.txt", tmp_path / "new.txt"
    old.write_text(part("A"))
    new.write_text(part("A").replace("Sum", "Other") + part("B", 11))
    (one,) = findings(capsys, "compare", old, new)
    assert "cpu.model: A, then B" in one["evidence"]
    both = tmp_path / "both.txt"
    both.write_text(part("A") + part("B"))
    (one,) = findings(capsys, "stats", both)
    assert "cpu.model: A, then B" in one["evidence"]


def test_a_history_begins_a_segment_where_the_machine_changes(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    lines = [
        f"commit: {at:040x}\ncpu: {'A' if at < 6 else 'B'}\nBenchmarkSum 1 {20 + at % 3} ns/op\n"
        for at in range(12)
    ]
    file = tmp_path / "bench.txt"
    file.write_text("".join(lines))
    assert main(["history", str(file), "--json"]) == 0
    (series,) = json.loads(capsys.readouterr().out)["series"]
    segments = series["segments"]
    assert [one["changes"] for one in segments] == [[], ["cpu.model: A, then B"]]


@pytest.mark.parametrize("name", STATED)
def test_a_report_of_files_has_the_machines_that_they_state(
    name: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    here, there, fact, _ = STATED[name]
    first, same, other = (tmp_path / which for which in ("first", "same", "other"))
    text = (FILES / name).read_text()
    first.write_text(text)
    same.write_text(f"{text}\n")
    other.write_text(text.replace(here, there))
    assert main(["report", *map(str, (first, same, other)), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    _, of_same, of_other = found["shared"][0]["blocks"]
    assert of_same["type"] == "prose"
    assert "no important difference" in of_same["text"]
    assert of_other["type"] == "table"
    assert fact in [row[0]["text"] for row in of_other["rows"]]
    for part in found["parts"]:
        (origin,) = (one for one in part["sections"] if one["id"] == f"{part['id']}-origin")
        assert fact in [row[0]["text"] for row in origin["blocks"][0]["rows"]]
