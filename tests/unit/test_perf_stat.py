"""Counters of perf stat: what `-x` and `-j` write; with perf itself where it is installed."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from benchwright.core.errors import InputError
from benchwright.features.exchange.foreign.perf_stat import PERF_STAT
from benchwright.findings.result import TestResult

# Written by perf 6.1.187 (Debian 12).
CSV = """# started on Mon Nov 30 11:54:01 2026

0.70,msec,task-clock,700964,100.00,0.014,CPUs utilized
1,,context-switches,700964,100.00,1.427,K/sec
<not supported>,,cycles,0,100.00,,
101464558,ns,duration_time,101464558,100.00,139.874,G/sec
"""
SPREAD = """# started on Mon Nov 30 11:54:00 2026

0.76,msec,task-clock,3.01%,755434,100.00,0.035,CPUs utilized
76,,page-faults,0.53%,755434,100.00,103.068,K/sec
<not counted>,,cycles,0.00%,0,100.00,,
"""
JSON = """# started on Mon Nov 30 11:54:00 2026

{"counter-value" : "0.681675", "unit" : "msec", "event" : "task-clock", "event-runtime" : 681675, "pcnt-running" : 100.00, "metric-value" : 0.013302, "metric-unit" : "CPUs utilized"}
{"counter-value" : "<not supported>", "unit" : "", "event" : "cycles", "event-runtime" : 0, "pcnt-running" : 100.00, "metric-value" : 0.000000, "metric-unit" : ""}
"""
PARTS = {
    "-I": "     0.020100643,0.71,msec,task-clock,711509,100.00,0.036,CPUs utilized\n",
    "-A": "CPU0,55.63,msec,task-clock,55628354,100.00,1.000,CPUs utilized\n",
    "--per-core": "S0-D0-C0,1,55.63,msec,task-clock,55628354,100.00,1.000,CPUs utilized\n",
    "-I -A": "     0.020100643,CPU0,0.71,msec,task-clock,711509,100.00,0.036,CPUs utilized\n",
    "--per-thread": "bash-21820,<not counted>,msec,task-clock,0,100.00,,\n",
    "-j -I": '{"interval" : 0.020089857, "counter-value" : "0.675416", "unit" : "msec", "event" : "task-clock", "event-runtime" : 675416, "pcnt-running" : 100.00}\n',
    "-j -A": '{"cpu" : "0", "counter-value" : "11.441158", "unit" : "msec", "event" : "task-clock", "event-runtime" : 11441158, "pcnt-running" : 100.00}\n',
}


def read(path: Path, text: str) -> TestResult:
    path.write_text(text)
    assert PERF_STAT.detect(path, path.read_bytes()[:4096])
    (one,) = PERF_STAT.read(path)
    return one


def rows(one: TestResult) -> list[dict[str, float]]:
    return [block.values for block in one.blocks]


def not_read(one: TestResult) -> str:
    return "".join(finding.evidence for finding in one.session_findings)


@pytest.mark.parametrize("separator", [",", ";", "\t", ":"])
def test_a_run_is_a_trial_in_base_units(separator: str, tmp_path: Path) -> None:
    stamp, rest = CSV.split("\n", 1)
    text = f"{stamp}\n{rest.replace(',', separator)}"
    one = read(tmp_path / "perf.csv", text + text)
    expected = {"task-clock": 0.7e-3, "context-switches": 1.0, "elapsed": 0.101464558}
    assert rows(one) == [pytest.approx(expected)] * 2
    assert {spec.name: spec.unit for spec in one.specs}["task-clock"] == "s"
    assert "cycles is not supported in 2 of 2 runs" in not_read(one)


def test_runs_without_a_first_line_begin_where_an_event_is_repeated(tmp_path: Path) -> None:
    text = "".join(line for line in CSV.splitlines(keepends=True) if not line.startswith("#"))
    one = read(tmp_path / "perf.txt", f"{text}42 requests failed\n{text}")
    assert len(rows(one)) == 2
    assert "'42 requests failed' is no counter" in not_read(one)


def test_events_with_commas_and_metrics_without_a_counter(tmp_path: Path) -> None:
    event = "12345,,cpu/event=0x3c,umask=0x0/u,700964,75.00,,\n,,,,,1.23,insn per cycle\n"
    one = read(tmp_path / "perf.csv", event)
    assert rows(one) == [{"cpu/event=0x3c,umask=0x0/u": 12345.0}]
    assert not one.session_findings


def test_a_mean_of_several_runs_is_no_trial(tmp_path: Path) -> None:
    for text in (SPREAD, JSON.replace('"event-runtime"', '"variance" : 3.01, "event-runtime"')):
        one = read(tmp_path / "perf", text)
        assert not one.blocks
        assert one.summaries[0].name == "task-clock"
        assert one.summaries[0].mean == pytest.approx(0.7e-3, rel=0.1)
    # Of several such runs each is one.
    one = read(tmp_path / "perf", SPREAD * 2)
    assert [row["page-faults"] for row in rows(one)] == [76, 76]


def test_json_is_read_as_the_rows_are(tmp_path: Path) -> None:
    one = read(tmp_path / "perf.json", JSON)
    assert rows(one) == [pytest.approx({"task-clock": 0.681675e-3})]
    assert "cycles is not supported in 1 of 1 run" in not_read(one)


@pytest.mark.parametrize("option", PARTS)
def test_counters_of_a_part_are_refused(option: str, tmp_path: Path) -> None:
    with pytest.raises(InputError) as refused:
        read(tmp_path / "perf.csv", f"# started on Mon Nov 30 11:54:00 2026\n\n{PARTS[option]}" * 2)
    (one,) = refused.value.diagnostics
    assert "of a part of a run" in one.message
    assert "perf stat -x, --append" in one.hint


@pytest.mark.skipif(shutil.which("perf") is None, reason="perf is not installed")
@pytest.mark.parametrize("form", ["-x,", "-x;", "-j"])
def test_what_perf_writes_here_is_read(form: str, tmp_path: Path) -> None:
    path = tmp_path / "perf"
    events = "task-clock,page-faults,duration_time"
    command = ["perf", "stat", form, "-e", events, "--append", "-o", str(path), "sleep", "0.01"]
    for _ in range(3):
        if subprocess.run(command, capture_output=True, check=False).returncode:
            pytest.skip("perf counts nothing here")
    (one,) = PERF_STAT.read(path)
    assert [block.epoch for block in one.blocks] == [1, 2, 3]
    # perf's clock may start behind the program, so a time says nothing about the sleep.
    lines = [line for line in path.read_text().splitlines() if "duration_time" in line]
    written = [max(re.findall(r"\d+", line), key=len) for line in lines]
    assert [row["elapsed"] for row in rows(one)] == [
        pytest.approx(int(value) * 1e-9) for value in written
    ]
    assert all(row["task-clock"] > 0 for row in rows(one))
