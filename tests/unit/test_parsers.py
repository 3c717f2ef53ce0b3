"""Parsers: what each field means, and a place for every mistake."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import EntryPoint
from pathlib import Path
from random import Random

import pytest

from benchwright.core.errors import InputError
from benchwright.core.observation import MeasurementBlock
from benchwright.findings.examine import findings_about
from benchwright.results import inputs as stats_inputs
from benchwright.stats.aggregate import MetricRules, aggregate_trial
from benchwright.study.parsers import text
from benchwright.study.parsers.api import ResultParser

RES, CSV, TIME = text.RES_PARSER, text.CSV_PARSER, text.GNU_TIME_PARSER


def blocks(parser: ResultParser, tmp_path: Path, text: str) -> list[MeasurementBlock]:
    """Return the blocks of a text, which must be one test."""
    path = tmp_path / "input"
    path.write_text(text)
    (one,) = parser.read(path)
    assert one.name == "input"
    return list(one.blocks)


def mistakes(parser: ResultParser, tmp_path: Path, text: str) -> list[tuple[int, int, str]]:
    """Return (line, column, message) of every mistake of a text."""
    path = tmp_path / "input"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(InputError) as refused:
        parser.read(path)
    for found in refused.value.diagnostics:
        assert found.file == str(path)
        assert found.code.endswith("-syntax")
    return [(d.line, d.column, d.message) for d in refused.value.diagnostics]


# -- .res --------------------------------------------------------------------------------


def test_res_sys_is_system_and_absent_is_not_zero(tmp_path: Path) -> None:
    (block,) = blocks(RES, tmp_path, "[measurement]\nsys = 1\n")
    assert block == MeasurementBlock(0, 1, "", 0, {"system": 1.0})


def test_res_blocks_without_epochs_are_numbered(tmp_path: Path) -> None:
    found = blocks(RES, tmp_path, "[measurement]\nelapsed=1\n" * 3)
    assert [b.epoch for b in found] == [1, 2, 3]


def test_res_windows_line_ends_and_raw_bytes_of_snapshots(tmp_path: Path) -> None:
    path = tmp_path / "x.res"
    path.write_bytes(b"[lshw]\r\n\xff\xfe\x00\r\n[measurement]\r\nelapsed = 2\r\n")
    (one,) = RES.read(path)
    assert [b.values for b in one.blocks] == [{"elapsed": 2.0}]


def test_res_mistakes_have_their_places(tmp_path: Path) -> None:
    text = (
        "[measurement]\n"
        "thread = two\n"
        "epoch = -1\n"
        "  elapsed =  1,5\n"
        "Segmentation fault\n"
        "status = 1e3\n"
        "sys = nan\n"
    )
    assert sorted(mistakes(RES, tmp_path, text)) == [
        (2, 10, "thread is 'two', not a whole number"),
        (3, 9, "epoch is -1, below 0"),
        (4, 14, "elapsed is '1,5', not a number"),
        (5, 1, "this is not a field"),
        (6, 10, "status is '1e3', not a whole number"),
        (7, 7, "sys is 'nan', not a number"),
    ]


def test_res_fields_without_a_number_are_named(tmp_path: Path) -> None:
    path = tmp_path / "x.res"
    block = "[measurement]\nelapsed = 1\nnote = warm\nops = {}\n"
    path.write_text(block.format("8") + block.format("9 k"))
    (one,) = RES.read(path)
    (found,) = one.session_findings
    assert found.code == "results-not-read"
    assert f"{path}:3: no value of note is a number; " in found.evidence
    assert f"{path}:8: ops is '9 k', not a number" in found.evidence


@pytest.mark.parametrize("text", ["", "[uname]\nLinux\n", "elapsed = 3\n"])
def test_res_without_a_measurement_is_a_mistake(tmp_path: Path, text: str) -> None:
    ((line, column, message),) = mistakes(RES, tmp_path, text)
    assert (line, column) == (1, 1)
    assert "no [measurement]" in message


# -- CSV ---------------------------------------------------------------------------------


def test_csv_rows_are_epochs_where_nothing_else_is_said(tmp_path: Path) -> None:
    found = blocks(CSV, tmp_path, "elapsed,free memory\n1,2\n\n3,\n")
    assert found == [
        MeasurementBlock(0, 1, "", 0, {"elapsed": 1.0, "free memory": 2.0}),
        MeasurementBlock(0, 2, "", 0, {"elapsed": 3.0}),
    ]


IDENTIFIED = {
    "a command": ("command", ("a", "b"), ["a", "b"]),
    "a name": ("name", ("a", "b"), ["a", "b"]),
    "a benchmark": ("Benchmark", ("a", "b"), ["a", "b"]),
    "a label": ("label", ("a", "b"), ["a", "b"]),
    "an input": ("input", ("a", "b"), ["a", "b"]),
    "a level": ("factor:size", ("1", "2"), ["t.csv:size=1", "t.csv:size=2"]),
    "a label before the test": ("label,test", ("x,a", "x,b"), ["a", "b"]),
    "a test with commands": ("test,command", ("t,a", "t,b"), ["t:a", "t:b"]),
    "iterations": ("iteration,command", ("1,a", "1,b"), ["a", "b"]),
}


@pytest.mark.parametrize("case", IDENTIFIED)
def test_csv_rows_of_different_things_are_not_trials_of_one_test(tmp_path: Path, case: str) -> None:
    columns, (one, other), names = IDENTIFIED[case]
    path = tmp_path / "t.csv"
    path.write_text(f"{columns},elapsed\n{one},1.5\n{other},2.5\n{one},1.7\n")
    tests = CSV.read(path)
    assert [test.name for test in tests] == names
    values = [[block.values["elapsed"] for block in test.blocks] for test in tests]
    assert values == [[1.5, 1.7], [2.5]]


COMPILERS = "fft,gcc,1,8.0\nfft,gcc,1,8.1\nfft,clang,1,7.0\nsort,gcc,1,3.0\n"


@pytest.mark.parametrize(
    ("header", "rows", "names"),
    [
        ("name,compiler,n,elapsed", COMPILERS, ["fft:compiler=gcc", "fft:compiler=clang", "sort"]),
        ("name,compiler,n,elapsed", COMPILERS.replace("clang", ""), ["fft", "sort"]),
        ("name,day,n,elapsed", COMPILERS.replace("clang", "2026-11-30"), ["fft", "sort"]),
        ("name,compiler,n,elapsed", COMPILERS.replace("clang", "gcc"), ["fft", "sort"]),
        ("name,run,n,elapsed", COMPILERS, ["fft", "sort"]),
    ],
    ids=["settings", "remarks", "moments", "the same", "labels of trials"],
)
def test_csv_texts_that_differ_within_a_test_are_levels(
    header: str, rows: str, names: list[str], tmp_path: Path
) -> None:
    path = tmp_path / "t.csv"
    path.write_text(f"{header}\n{rows}")
    tests = CSV.read(path)
    assert [test.name for test in tests] == names
    if len(names) == 3:
        assert [block.epoch for block in tests[0].blocks] == [1, 2]
        assert tests[1].sample == (("compiler", "clang"),)


def csv_text(header: str, *lines: Sequence[object]) -> str:
    return "\n".join([header, *(",".join(map(str, line)) for line in lines), ""])


SETTINGS = {
    "a name of one": (csv_text("threads,elapsed", (1, 8.0), (3, 4.1)), ["threads=1", "threads=3"]),
    "0 too": (csv_text("threads,elapsed", (0, 8.0), (2, 4.1)), ["threads=0", "threads=2"]),
    "round sizes": (csv_text("N,elapsed", (1000, 8.0), (1500, 9.1)), ["N=1000", "N=1500"]),
    "repeated sizes": (csv_text("n,s", (37, 1), (41, 2), (37, 2), (41, 3)), ["n=37", "n=41"]),
    "blocks": (
        csv_text("q,elapsed", *((q, 1 + r / 7) for q in (13, 17, 29) for r in range(3))),
        ["q=13", "q=17", "q=29"],
    ),
    "cycles": (
        csv_text("q,elapsed", *((q, 1 + r / 7) for r in range(3) for q in (13, 17, 29))),
        ["q=13", "q=17", "q=29"],
    ),
    "blocks and their trials": (
        csv_text("i,q,elapsed", *((r, q, 1 + r / 7) for q in (13, 17, 29) for r in range(3))),
        ["q=13", "q=17", "q=29"],
    ),
    "cycles and their trials": (
        csv_text("i,q,elapsed", *((r, q, 1 + r / 7) for r in range(3) for q in (13, 17, 29))),
        ["q=13", "q=17", "q=29"],
    ),
    "two": (
        csv_text("p,q,t", *((p, q, r / 7) for p in (3, 5) for q in (13, 17, 29) for r in range(3))),
        [f"p={p},q={q}" for p in (3, 5) for q in (13, 17, 29)],
    ),
    "few, with results apart": (
        csv_text("q,elapsed", *((q, q + r / 7) for q in (13, 17, 29) for r in range(2))),
        ["q=13", "q=17", "q=29"],
    ),
    "fractions": (
        csv_text("q,elapsed", *((q, 1 + r / 7) for q in (0.1, 0.5, 2) for r in range(3))),
        ["q=0.1", "q=0.5", "q=2"],
    ),
    "a thread alone": (
        csv_text("thread,ops", *((t, 100 * t + r / 3) for r in range(4) for t in (1, 2, 4))),
        ["thread=1", "thread=2", "thread=4"],
    ),
    "versions": (csv_text("jdk,t", (17, 9), (21, 8), (17, 9.1)), ["jdk=17", "jdk=21"]),
    "a progression": (csv_text("q,ops", (12, 9), (24, 8), (48, 9)), ["q=12", "q=24", "q=48"]),
}


MODES = (0, 1, 1, 0, 1, 0, 0, 0, 1, 1, 1, 0, 1, 0, 0, 1)


@pytest.mark.parametrize("case", SETTINGS)
def test_csv_numbers_that_are_settings_are_levels(case: str, tmp_path: Path) -> None:
    text, levels = SETTINGS[case]
    path = tmp_path / "t.csv"
    path.write_text(text)
    tests = CSV.read(path)
    assert [test.name for test in tests] == [f"t.csv:{one}" for one in levels]
    names = {one.split("=")[0] for level in levels for one in level.split(",")}
    assert not any(names & {*block.values} for test in tests for block in test.blocks)
    assert all("i" not in block.values for test in tests for block in test.blocks)
    (found,) = tests[0].session_findings
    assert found.code == "read-as-setting"
    assert all(f"{name} (" in found.evidence for name in names)


@pytest.mark.parametrize(
    ("text", "column"),
    [
        # Results that repeat, out of order; a size that is a result; the number of runs.
        (csv_text("gcs,elapsed", (3, 1.0), (4, 1.6), (3, 1.1), (4, 1.5), (4, 1.7)), "gcs"),
        (csv_text("gcs,elapsed", (3, 1.0), (3, 1.6), (4, 1.1), (4, 1.5)), "gcs"),
        (csv_text("threads", (1,), (2,), (3,)), "threads"),
        (csv_text("ops,p50", *((100 + r % 3, r / 7) for r in range(12))), "ops"),
        (csv_text("size,elapsed", (48211, 1.0), (48113, 1.6), (48299, 1.2)), "size"),
        (csv_text("n,mean,sd", (512, 1.0, 0.1), (128, 1.6, 0.1)), "n"),
        (csv_text("metric:threads,elapsed", (1, 8.0), (2, 4.1)), "threads"),
        (csv_text("threads,elapsed", (4, 8.0), (4, 4.1)), "threads"),
        # One quantity twice, rounded or as a rate, with two modes; retries that make no difference.
        (csv_text("ms,us", *((10 + 10 * n, 1e4 + 1e4 * n + r) for r, n in enumerate(MODES))), "ms"),
        (
            csv_text(
                "ms,ps", *((10 + 10 * n, 10 / (1 + n) + r / 9e3) for r, n in enumerate(MODES))
            ),
            "ms",
        ),
        (csv_text("retries,t", *((n, 9 + r * 5 % 7 / 7) for r, n in enumerate(MODES))), "retries"),
    ],
)
def test_csv_whole_numbers_can_be_results(text: str, column: str, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(text)
    (test,) = CSV.read(path)
    assert all(column in block.values for block in test.blocks)


@pytest.mark.parametrize("header", ["run", "i", "rep", "seed"])
def test_csv_numbers_of_the_rows_are_no_results(header: str, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(
        csv_text(f"name,{header},elapsed", *(("ab"[r // 3], r % 3, r) for r in range(6)))
    )
    tests = CSV.read(path)
    assert [list(block.values) for test in tests for block in test.blocks] == [["elapsed"]] * 6
    assert not any(test.session_findings for test in tests)


UNEQUAL = (4,) * 10 + (64,) * 9


@pytest.mark.parametrize(
    ("text", "column"),
    [
        (csv_text("q,elapsed", (13, 1.0), (13, 1.1), (27, 1.2), (27, 1.3)), "q"),
        (csv_text("size,elapsed", (131, 1.0), (173, 1.1), (189, 1.2)), "size"),
        (csv_text("p,elapsed", (1, 8.0), (2, 4.1), (3, 2.9), (4, 2.2)), "p"),
        # Populations: in no order, in unequal blocks, in near numbers.
        (csv_text("opt,t", *((n, 9 - 4 * n + r / 70) for r, n in enumerate(MODES))), "opt"),
        (csv_text("kb,t", *((n, n + 5 + n * r % 7 / 70) for r, n in enumerate(UNEQUAL))), "kb"),
        (csv_text("a,t", *((17 + 4 * n, n + 1 + r / 70) for r, n in enumerate(MODES))), "a"),
    ],
)
@pytest.mark.parametrize("heading", ["", "factor:", "metric:"])
def test_csv_numbers_that_may_be_settings_need_a_heading(
    text: str, column: str, heading: str, tmp_path: Path
) -> None:
    path = tmp_path / "t.csv"
    path.write_text(heading + text)
    if heading:
        assert (len(CSV.read(path)) > 1) is (heading == "factor:")
        return
    with pytest.raises(InputError) as caught:
        CSV.read(path)
    (wrong,) = caught.value.diagnostics
    assert (wrong.line, wrong.column) == (1, 1)
    assert f"factor:{column}" in wrong.hint
    assert f"metric:{column}" in wrong.hint


def test_csv_counts_that_were_measured_are_rarely_settings(tmp_path: Path) -> None:
    """Small counts that lengthen the time, in 4 to 20 trials; the seeds are fixed."""
    random = Random(20261130)
    path = tmp_path / "t.csv"
    wrong = 0
    for _ in range(400):
        mean = random.choice((1, 3, 20, 1000))
        counts = [
            round(random.gauss(mean, mean**0.5))
            if mean > 9
            else sum(random.random() < mean / 9 for _ in range(9))
            for _ in range(random.randint(4, 20))
        ]
        path.write_text(
            csv_text("gcs,elapsed", *((n, random.gauss(9 + n / mean, 0.3)) for n in counts))
        )
        try:
            wrong += len(CSV.read(path)) > 1
        except InputError:
            wrong += 1
    assert wrong <= 4


@pytest.mark.parametrize(
    ("name", "is_status"),
    [
        *((name, True) for name in ("code", "http_status", "responseCode", "status-code")),
        *((name, False) for name in ("decode_ms", "codec", "transcode", "code_size")),
    ],
)
def test_csv_statuses_of_http_are_known_by_the_whole_name(
    name: str, is_status: bool, tmp_path: Path
) -> None:
    path = tmp_path / "t.csv"
    path.write_text(f"name,{name},elapsed\na,420,1.0\na,433,1.1\na,450,1.2\n")
    (test,) = CSV.read(path)
    assert all((name in block.values) is not is_status for block in test.blocks)
    assert all(bool(block.failure) is is_status for block in test.blocks)


@pytest.mark.parametrize(
    ("name", "cells", "statuses"),
    [
        ("exit_code", "0 137 1", [0, 137, 1]),
        ("exit status", "0 0.0 1", [0, 0, 1]),
        ("ReturnCode", "0 -9 -11", [0, 137, 139]),
        ("status", "0 -9 -15", [0, 137, 143]),
        ("returncode", "0 -1073741819 -1", [0, -1073741819, -1]),
        ("rc", "1 1 1", [1, 1, 1]),
        ("rc", "0.5 1 2", None),
        ("exit_code_ms", "0 1 0", None),
    ],
)
def test_csv_exit_statuses_have_many_names(
    name: str, cells: str, statuses: list[int] | None, tmp_path: Path
) -> None:
    path = tmp_path / "t.csv"
    rows = "".join(f"a,{cell},1.5\n" for cell in cells.split())
    path.write_text(f"name,{name},seconds\n{rows}")
    (test,) = CSV.read(path)
    assert [block.status for block in test.blocks] == (statuses or [0, 0, 0])
    assert all((name in block.values) is (statuses is None) for block in test.blocks)


@pytest.mark.parametrize(
    ("name", "numbers"),
    [
        ("epoch", [1_700_000_000, 1_700_000_000, 1_700_000_001, 1_700_000_001]),
        ("iteration", [1, 2, 1, 2]),  # a loop that ran twice
        ("iteration", [1, 1, 2, 2]),  # two users
        ("epoch", [1, 3, 2, 1]),
    ],
)
def test_csv_counters_of_other_programs_join_no_rows(
    name: str, numbers: list[int], tmp_path: Path
) -> None:
    path = tmp_path / "t.csv"
    rows = zip(numbers, (10.5, 21.25, 30.75, 41), strict=True)
    path.write_text(csv_text(f"{name},latency_us", *rows))
    (test,) = CSV.read(path)
    assert len(test.trials) == 4
    assert [block.values for block in test.blocks] == [
        {"latency_us": value} for value in (10.5, 21.25, 30.75, 41)
    ]


@pytest.mark.parametrize("nothing", ["", "-", "NaN", "None"])
def test_csv_rows_without_an_exit_status_are_named(nothing: str, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(f"name,exit_code,seconds\na,3,1.5\na,{nothing},1.6\na,-9,1.7\n")
    (test,) = CSV.read(path)
    assert [block.status for block in test.blocks] == [3, 0, 137]
    assert all([*block.values] == ["seconds"] for block in test.blocks)
    (found,) = test.session_findings
    assert f"{path}:3: exit_code is empty" in found.evidence


def test_csv_texts_that_are_no_exit_status_are_mistakes(tmp_path: Path) -> None:
    text = "name,exit_code,seconds\na,0,1.5\na,timeout,1.6\n"
    assert mistakes(CSV, tmp_path, text)[0] == (3, 1, "exit_code is 'timeout', not an exit status")


@pytest.mark.parametrize(
    ("header", "rows", "expected"),
    [
        ("test,elapsed,unit", "A,12,ms B,1.2,s", [{"elapsed": 0.012}, {"elapsed": 1.2}]),
        ("test,value,unit", "A,12,us B,1.2,ms", [{"value": 12e-6}, {"value": 1.2e-3}]),
        ("test,elapsed,n,units", "A,12,7,ms", [{"elapsed": 0.012, "n": 7}]),
        # The same, whatever the other rows have.
        ("test,value,unit", "A,12,ms", [{"value": 0.012}]),
        # Each row has its own unit, whatever the other rows have; one that is unknown is kept.
        ("test,value,unit", "A,12,ms B,9,rps", [{"value": 0.012}, {"value": 9}]),
        ("test,value,unit", "A,2,MB/s B,9,ms", [{"value": 2e6}, {"value": 0.009}]),
        # Which of several numbers a unit is of is unknown.
        ("test,p50,p99,unit", "A,1,2,ms B,1,2,s", [{"p50": 1, "p99": 2}] * 2),
    ],
)
def test_csv_times_with_a_column_of_units_are_seconds(
    header: str, rows: str, expected: list[dict[str, float]], tmp_path: Path
) -> None:
    path = tmp_path / "t.csv"
    path.write_text("\n".join([header, *rows.split(), ""]))
    tests = CSV.read(path)
    assert [block.values for test in tests for block in test.blocks] == [
        pytest.approx(values) for values in expected
    ]
    is_read = not any(test.session_findings for test in tests)
    assert is_read == ("p50" not in expected[0])


def test_csv_with_times_and_rates_has_a_unit_and_a_direction_for_each_series(
    tmp_path: Path,
) -> None:
    path = tmp_path / "t.csv"
    rows = ["sort,latency,12,ms", "sort,rate,80,ops/s", "sort,latency,0.013,s", "copy,errors,2,1/s"]
    path.write_text("\n".join(["test,metric,value,unit", *rows, "sort,rate,81,ops/s", ""]))
    tests = CSV.read(path)
    assert {
        test.name: (spec.unit, spec.better, [block.values["value"] for block in test.blocks])
        for test in tests
        for spec in test.specs
    } == {
        "sort:metric=latency": ("s", "lower", [pytest.approx(0.012), 0.013]),
        "sort:metric=rate": ("1/s", "higher", [80, 81]),
        "copy": ("1/s", "lower", [2]),
    }
    assert not any(test.session_findings for test in tests)


def test_csv_of_one_test_with_two_kinds_of_units_is_two_tests(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("test,value,unit\nA,12,ms\nA,80,rps\nA,13000,us\n")
    tests = {test.name: [block.values["value"] for block in test.blocks] for test in CSV.read(path)}
    assert tests == {"A:unit=s": [pytest.approx(0.012), pytest.approx(0.013)], "A:unit=rps": [80]}


@pytest.mark.parametrize(
    ("header", "rows", "failures"),
    [
        ("success", ["true", "false", "TRUE"], ["", "success is false", ""]),
        ("Success", ["1", "0", "1"], ["", "Success is 0", ""]),
        ("passed", ["yes", "no", ""], ["", "passed is no", ""]),
        ("outcome", ["ok", "ok", "failed"], ["", "", "outcome is failed"]),
        ("failed", ["False", "True", "False"], ["", "failed is True", ""]),
        ("Error", ["", "timed out", "none"], ["", "timed out", ""]),
        ("error", ["0", "ECONNRESET", "0"], ["", "ECONNRESET", ""]),
        ("failureMessage", ["", "", "expected 200"], ["", "", "expected 200"]),
        ("success,error", ["true,", "false,timed out", "true,"], ["", "timed out", ""]),
        # The reason of a failure is no level, and what is no status then is none.
        (
            "responseCode,responseMessage,success",
            ["200,OK,true", "Refused,Gone,false", "200,OK,true"],
            ["", "success is false", ""],
        ),
    ],
)
def test_csv_rows_that_say_that_they_failed_did(
    header: str, rows: list[str], failures: list[str], tmp_path: Path
) -> None:
    path = tmp_path / "t.csv"
    lines = [f"A,{1 + at / 10},{row}" for at, row in enumerate(rows)]
    path.write_text("\n".join([f"test,elapsed,{header}", *lines, ""]))
    (test,) = CSV.read(path)
    assert [block.failure for block in test.blocks] == failures
    assert all([*block.values] == ["elapsed"] for block in test.blocks)
    # An empty cell, and texts that are not read, are named.
    assert bool(test.session_findings) == (header == "passed" or "responseMessage" in header)


@pytest.mark.parametrize(
    ("header", "rows"),
    [
        ("success", ["97", "0", "95"]),
        ("result", ["1", "0", "1"]),
        ("error", ["0.5", "nan", "0.25"]),
        ("error", ["0", "1", "0"]),
        ("failed", ["0", "1", "0"]),
    ],
)
def test_csv_numbers_of_successes_and_errors_are_results(
    header: str, rows: list[str], tmp_path: Path
) -> None:
    path = tmp_path / "t.csv"
    path.write_text("\n".join([f"test,elapsed,{header}", *(f"A,1.5,{row}" for row in rows), ""]))
    (test,) = CSV.read(path)
    assert not any(block.failure for block in test.blocks)
    assert [
        str(block.values.get(header, "nan")).removesuffix(".0") for block in test.blocks
    ] == rows


@pytest.mark.parametrize(
    ("header", "is_named"),
    [
        ("n_gen,avg_ns,stddev_ns", True),
        ("n,Mean,StdDev", True),
        ("n,latency_avg,latency_stdev", True),
        ("n,latency_avg,rps_stdev", False),
        ("n,meaning,standard", False),
        ("test,mean_ms,sd_ms", False),
        ("factor:n,mean_ms,sd_ms", False),
    ],
)
def test_csv_estimates_of_different_things_are_named(
    header: str, is_named: bool, tmp_path: Path
) -> None:
    """A row that has a mean and its spread is of many runs, and perhaps of another benchmark."""
    path = tmp_path / "t.csv"
    path.write_text(f"{header}\n512,7.1,0.1\n128,1.2,0.2\n")
    (first, *_) = CSV.read(path)
    evidence = [finding.evidence for finding in first.session_findings]
    assert any("rows as estimates of many runs each" in one for one in evidence) is is_named


def test_csv_commands_of_blocks_are_one_test(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("thread,epoch,command,elapsed\n1,1,a,1.5\n1,1,b,2.5\n1,2,a,1.7\n1,2,b,2.7\n")
    (test,) = CSV.read(path)
    assert test.name == "t.csv"
    assert len(test.trials) == 2


def test_csv_tests_and_factors(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("test,factor:fs,elapsed\na,ext2,1\nb,ext3,2\na,ext2,3\n")
    first, second = CSV.read(path)
    assert (first.name, first.sample, len(first.blocks)) == ("a", (("fs", "ext2"),), 2)
    assert (second.name, second.sample) == ("b", (("fs", "ext3"),))


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        ("elapsed,user\n1\n", (2, 1), "1 cells under 2 columns"),
        ("elapsed,user\n1,fast\n", (2, 3), "user is 'fast', not a number"),
        ("user,thread,epoch\n1,1,one\n", (2, 4), "epoch is 'one', not a whole number from 0"),
        ("user,thread,epoch\n1,1,-1\n", (2, 4), "epoch is '-1', not a whole number from 0"),
        ("a,a\n1,2\n", (1, 3), "the column 'a' appears twice"),
        ("a,\n1,2\n", (1, 3), "column 2 has no name"),
        ("1,2\n3,4\n", (1, 1), "the first line is data"),
        ("a,b\n", (1, 1), "there is no row under the header line"),
        ('a,b\n1,"2\n', (2, 1), "not CSV: unexpected end of data"),
        ("a,b\n\xe9,2\n", (2, 1), "byte 0xe9 is not UTF-8"),
    ],
)
def test_csv_mistakes(tmp_path: Path, text: str, place: tuple[int, int], message: str) -> None:
    assert mistakes(CSV, tmp_path, text)[0] == (*place, message)


def test_a_file_of_mistakes_tells_fifty_and_counts_the_rest(tmp_path: Path) -> None:
    found = mistakes(CSV, tmp_path, "a,b\n1,2\n" + "1\n" * 80)
    assert len(found) == 50
    assert found[-1][2].endswith("(and 30 more mistakes)")


# -- GNU time ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("clock", "seconds"),
    [("0:00.05", 0.05), ("1:02.50", 62.5), ("1:02:03", 3723.0), ("100:00:00", 3.6e5)],
)
def test_time_clock_forms(tmp_path: Path, clock: str, seconds: float) -> None:
    text = f"0.01user 0.02system {clock}elapsed 60%CPU (0avgtext+0avgdata 2200maxresident)k\n"
    (block,) = blocks(TIME, tmp_path, text)
    assert {k: v for k, v in block.values.items() if k != "wait"} == {
        "user": 0.01,
        "system": 0.02,
        "elapsed": seconds,
        "cpu_percent": 60.0,
        "rss_bytes": 2200 * 1024.0,
    }


@pytest.mark.parametrize(
    ("text", "share", "wait"),
    [
        (
            "0.00user 0.00system 0:00.08elapsed 25%CPU (0avgtext+0avgdata 1maxresident)k\n",
            *(25, 0.06),
        ),
        (
            '\tCommand being timed: "a"\n\tUser time (seconds): 0.00\n'
            "\tSystem time (seconds): 0.00\n\tPercent of CPU this job got: 25%\n"
            "\tElapsed (wall clock) time (h:mm:ss or m:ss): 0:00.08\n",
            *(25, 0.06),
        ),
        # Of a long command the CPU times tell Wait more precisely than the whole percents.
        (
            "9.00user 0.99system 0:10.00elapsed 99%CPU (0avgtext+0avgdata 1maxresident)k\n",
            *(99, 0.01),
        ),
        (
            "0.00user 0.00system 0:00.00elapsed ?%CPU (0avgtext+0avgdata 1maxresident)k\n",
            *(None, 0),
        ),
        ("real 0.08\nuser 0.02\nsys 0.00\n", 25, 0.06),
    ],
)
def test_what_time_states_is_not_computed_from_its_coarse_times(
    tmp_path: Path, text: str, share: float | None, wait: float
) -> None:
    path = tmp_path / "time.txt"
    path.write_text(text)
    (one,) = TIME.read(path)
    found = aggregate_trial(one.blocks, MetricRules()).values
    assert found.get("cpu_percent") == pytest.approx(share)
    assert found["wait"] == pytest.approx(wait)
    codes = [
        each.code for each in findings_about(one) if each.code == "work-too-short-for-the-clock"
    ]
    coarse = found["elapsed"] < 0.2
    assert codes == ["work-too-short-for-the-clock"] * coarse


_VERBOSE_RECORD = (
    '{failure}\tCommand being timed: "{command}"\n'
    "\tElapsed (wall clock) time (h:mm:ss or m:ss): 0:0{elapsed:.2f}\n"
)


def _verbose(*records: tuple[str, float, int]) -> str:
    """Return records of `time -v`: command, seconds, exit status."""
    return "".join(
        _VERBOSE_RECORD.format(
            command=command,
            elapsed=elapsed,
            failure=f"Command exited with non-zero status {status}\n" if status else "",
        )
        for command, elapsed, status in records
    )


def test_records_of_time_with_several_commands_are_several_tests(tmp_path: Path) -> None:
    path = tmp_path / "time.txt"
    path.write_text(_verbose(*(("a 1", 0.3, 0), ("a 2", 0.8, 0)) * 3))
    found = {
        one.name: [(b.epoch, b.values["elapsed"]) for b in one.blocks] for one in TIME.read(path)
    }
    assert found == {"a 1": [(1, 0.3), (2, 0.3), (3, 0.3)], "a 2": [(1, 0.8), (2, 0.8), (3, 0.8)]}
    assert not any(map(findings_about, TIME.read(path)))


def test_only_trials_that_count_are_too_short_for_the_clock_of_time(tmp_path: Path) -> None:
    path = tmp_path / "time.txt"
    path.write_text(_verbose(*[("a", 0.3, 0)] * 4, ("a", 0.0, 1)))
    (one,) = TIME.read(path)
    assert [each.code for each in findings_about(one)] == ["command-failed"]
    path.write_text(_verbose(*[("a", 0.3, 0)] * 4, ("a", 0.0, 0)))
    (one,) = TIME.read(path)
    assert "work-too-short-for-the-clock" in {f.code for f in findings_about(one)}


def test_csv_states_wait_and_the_share_of_cpu_time(tmp_path: Path) -> None:
    text = "user,system,elapsed,CPU%,Wait\n0.1,0.1,1,25,0.7\n"
    (block,) = blocks(CSV, tmp_path, text)
    found = aggregate_trial([block], MetricRules()).values
    assert (found["cpu_percent"], found["wait"]) == (25, 0.7)
    assert not {"CPU%", "Wait"} & found.keys()


def test_time_status_belongs_to_the_record_after_it(tmp_path: Path) -> None:
    record = "real 1\nuser 0\nsys 0\n"
    text = (
        f"{record}Command exited with non-zero status 3\n{record}"
        f"Command terminated by signal 9\n{record}{record}"
    )
    assert [b.status for b in blocks(TIME, tmp_path, text)] == [0, 3, 137, 0]


def test_time_record_cut_short_is_a_mistake(tmp_path: Path) -> None:
    whole = '\tCommand being timed: "a"\n\tElapsed (wall clock) time (h:mm:ss or m:ss): 0:01.00\n'
    cut = '\tCommand being timed: "b"\n\tUser time (seconds): 1\n'
    assert mistakes(TIME, tmp_path, whole + cut + whole) == [
        (3, 1, "this record has no elapsed time")
    ]
    assert [b.command for b in blocks(TIME, tmp_path, whole + whole)] == ["a", "a"]


def test_time_mistakes(tmp_path: Path) -> None:
    text = "real 1.2.3\nuser 0.1\nsys 0\n"
    assert mistakes(TIME, tmp_path, text)[0] == (1, 6, "elapsed is '1.2.3', not a number")
    huge = f"real 1\nuser {'9' * 400}\nsys 0\n"
    assert mistakes(TIME, tmp_path, huge)[0][:2] == (2, 6)
    assert "no record" in mistakes(TIME, tmp_path, "hello\n")[0][2]


# -- plug-ins ----------------------------------------------------------------------------


def plug_in(value: str) -> list[EntryPoint]:
    return [EntryPoint("theirs", value, "benchwright.parsers")]


def test_ours_are_found_without_an_installation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stats_inputs, "entry_points", lambda group: [])
    names = [p.name for p in stats_inputs.parsers()]
    assert (names[:2], names[-2:]) == (["study", "res"], ["csv", "gnu_time"])
    assert {"hyperfine", "benchfmt", "otava"} <= set(names)


def test_a_broken_plug_in_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    points = plug_in("a_module_that_is_not_there:PARSER")
    monkeypatch.setattr(stats_inputs, "entry_points", lambda group: points)
    with pytest.raises(InputError, match="a_module_that_is_not_there"):
        stats_inputs.parsers()
