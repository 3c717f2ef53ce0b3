"""What a person reads of a load: its report in every case, its progress everywhere."""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import msgspec
import pytest

from benchwright.core.comparison import GateOutcome
from benchwright.core.progress import PlainProgress
from benchwright.features.load.document import limits_junit
from benchwright.features.load.engine import load_metrics, metric_names
from benchwright.features.load.report import (
    LoadProgressLine,
    LoadReport,
    ending_cases,
    facts,
    file_set_progress_text,
    load_headline,
    load_progress_text,
)
from benchwright.features.load.types import (
    EngineResult,
    FileSetProgress,
    FlowCounts,
    LimitVerdict,
    LoadProgress,
    TimeDistribution,
)
from benchwright.features.load.view import load_text
from hdr_text import encode

GOLDEN = Path(__file__).parents[1] / "golden" / "load" / "result.json"


def report_of(result: EngineResult, **options: Any) -> str:
    """Return the report of a result, of an open loop unless the options differ."""
    return load_text(result, (), LoadReport(**{"target": "T", "open_loop": True, **options}))


def changed(**changes: Any) -> EngineResult:
    """Return the golden result with some members changed."""
    found = msgspec.json.decode(GOLDEN.read_bytes())
    return msgspec.convert({**found, **changes}, EngineResult)


def text(**changes: Any) -> str:
    """Return the report of the golden result with some members changed."""
    return report_of(changed(**changes))


def sentence(result: EngineResult, **options: Any) -> str:
    """Return the first line of a report."""
    return report_of(result, **options).partition("\n")[0]


def test_a_kind_alone_is_not_repeated_as_all() -> None:
    found = msgspec.json.decode(GOLDEN.read_bytes())
    kinds = {name: found["kinds"][name] for name in ("read", "all")}
    report = text(kinds=kinds)
    assert "read  response" in report
    assert "all   response" not in report


def test_each_label_has_a_row_with_its_errors() -> None:
    found = msgspec.json.decode(GOLDEN.read_bytes())
    good = {**found["kinds"]["read"], "errors": {}}
    bad = {**good, "errors": {"HTTP 404": 1200, "check-failed": 3}}
    assert "label" not in text()
    lines = text(labels={"get item": good, "put": bad}).splitlines()
    begin = next(n for n, line in enumerate(lines) if line.startswith("label"))
    head, first, second = lines[begin : begin + 3]
    assert head.split()[:3] == ["label", "n", "failed"]
    assert first.startswith("get item")
    assert first.split()[3] == "0"
    assert second.split()[2] == "1,203"
    assert second.endswith("HTTP 404 1,200, check-failed 3")


def test_every_metric_of_a_load_has_a_known_name() -> None:
    found = msgspec.json.decode(GOLDEN.read_bytes())
    kinds = {**found["kinds"], "lookup": found["kinds"]["read"]}
    named = load_metrics(changed(kinds=kinds))
    assert set(named) <= set(metric_names())
    assert "lookup_rate_per_s" in named


def test_a_headline_is_the_rate_and_the_response_or_that_all_failed() -> None:
    report = LoadReport(target="T", open_loop=True)
    headlines = [
        load_headline(changed(**changes), report)
        for changes in ({}, {"interrupted": True}, {"achieved_rate_per_s": None})
    ]
    assert headlines == [
        "3 of 49,990 failed; 9,998/s as intended",
        "3 of 49,990 failed; interrupted",
        "No operation started",
    ]
    assert all(len(one) <= 60 for one in headlines)


def test_nothing_that_was_done_is_dashes_not_zeroes() -> None:
    found = msgspec.json.decode(GOLDEN.read_bytes())
    nothing = msgspec.to_builtins(TimeDistribution(count=0))
    times = dict.fromkeys(("issue_error_ns", "service_ns", "response_ns"), nothing)
    report = text(kinds={"all": {**found["kinds"]["all"], **times, "operations": 0}})
    assert "response     0     -" in report
    assert " 0 ns" not in report
    rates = dict.fromkeys(f"{name}_rate_per_s" for name in ("intended", "offered", "achieved"))
    report = text(elapsed_ns=0, **rates)
    assert "rate        none: no operation started" in report
    assert report.startswith("read and write: no operation started\n")


def test_what_never_ended_leaves_percentiles_unknown() -> None:
    found = msgspec.json.decode(GOLDEN.read_bytes())
    unfinished = {**found["counts"], "unfinished": 300}
    report = text(counts=unfinished)
    rows = [line for line in report.splitlines() if "response  " in line]
    # 300 of 35,000 reads would be 0.86 %, of 14,990 writes 2 %.
    assert rows[0].count("> 1,210*") == 2, "of reads p99.9 and p99.99"
    assert rows[1].count("> 1,210*") == 3, "of writes p99 too"
    assert rows[1].endswith("  1,210"), "the largest that was seen is a fact"
    assert "* not known: 303 of 49,990 operations (0.606 %) failed or did not" in report
    service = [line for line in report.splitlines() if "service" in line]
    assert not any(">" in line for line in service)


@pytest.mark.parametrize(
    ("largest_ns", "cell", "words"),
    [
        (1_547_400, "> 1,540*", "over 1.54 ms"),
        (85_183_999, "> 85,100*", "over 85.1 ms"),
        (999_600_000, "> 999,000*", "over 999 ms"),
        (1_210_000, "> 1,210*", "over 1.21 ms"),
    ],
)
def test_a_lower_bound_is_not_above_the_largest_value(
    largest_ns: int, cell: str, words: str
) -> None:
    found = msgspec.json.decode(GOLDEN.read_bytes())
    times = {**found["kinds"]["all"]["response_ns"], "max": largest_ns}
    every = {**found["kinds"]["all"], "response_ns": times}
    lost = changed(
        counts={**found["counts"], "unfinished": 4_000}, kinds={"read": every, "all": every}
    )
    report = report_of(lost)
    assert f" {cell}" in report
    assert f"p99 unknown, {words}; " in report


def test_what_is_counted_in_the_whole_run_has_the_warm_up_in_its_label() -> None:
    found = msgspec.json.decode(GOLDEN.read_bytes())
    times = found["kinds"]["all"]["response_ns"]
    whole = changed(
        target={**found["target"], "connect_ns": times},
        traces=[{"path": "t", "operations": 2}],
        processes=[{"filament": 0, "events": 1, "replies": 2}],
        samples={"path": "s.bw", "rows": 3},
    )
    for warm_up_ns, number in ((0, 0), (10**9, 4)):
        report = report_of(whole, warm_up_ns=warm_up_ns)
        assert report.count(" (with the warm-up)\n") == number


def progress(at_s: float, **more: Any) -> LoadProgress:
    """Return how far a load is after so many seconds."""
    counts = {"issued": 10, "completed": 8, "in_flight": 2, "waiting": 0}
    return LoadProgress(at_ns=int(at_s * 1e9), **counts, **more)


def test_a_line_of_progress() -> None:
    line = load_progress_text(progress(3, rate_per_s=9.5), 5 * 10**9)
    assert line == "3 s of 5 s; 9.5/s; 2 in flight, 0 waiting"
    line = load_progress_text(progress(3, response_ns_p50=80_000), None)
    assert line == "3 s; 2 in flight, 0 waiting; response p50 80 us"


def test_past_the_end_there_is_no_rate() -> None:
    told = progress(3, rate_per_s=3.0)
    assert load_progress_text(told, 3 * 10**9) == "3 s of 3 s; 3/s; 2 in flight, 0 waiting"
    line = load_progress_text(told, 25 * 10**8)
    assert line == "past its 2.5 s; 2 in flight, 0 waiting"


def test_a_load_is_shown_with_its_share_and_time() -> None:
    stream = io.StringIO()
    display = PlainProgress(stream)
    line = LoadProgressLine(display)
    for at_s in (0.5, 1, 2, 2.5, 4, 4.5):
        line.show(progress(at_s))
    lines = stream.getvalue().splitlines()
    assert [line.split(";")[0] for line in lines] == ["500 ms", "2.5 s", "4.5 s"]


def test_the_making_of_a_file_set_is_shown_before_its_load() -> None:
    def made(phase: str, done: int, at_s: float) -> FileSetProgress:
        return FileSetProgress(phase=phase, done=done, total=4000, elapsed_ns=int(at_s * 1e9))

    stream = io.StringIO()
    line = LoadProgressLine(PlainProgress(stream), 10**10)
    steps: list[LoadProgress | FileSetProgress] = [
        *(made("examine", 2000, 1), made("examine", 3999, 2)),
        *(made("make", 0, 1), made("make", 1000, 2), made("make", 2000, 4)),
        progress(1),
    ]
    for step in steps:
        line.show(step)
    assert stream.getvalue().splitlines() == [
        "examining the file set: 2,000 of 4,000 files and directories; about 1 s left",
        "making the file set: 0 of 4,000 files and directories",
        "making the file set: 2,000 of 4,000 files and directories; about 4 s left",
        "1 s of 10 s; 2 in flight, 0 waiting",
    ]
    whole = "making the file set: 4,000 of 4,000 files and directories"
    assert file_set_progress_text(made("make", 4000, 9)) == whole


# -- facts -----------------------------------------------------------------------------------


def file_set(**changes: Any) -> dict[str, Any]:
    """Return the member of a file set without draws."""
    return {
        "directories": 21,
        "files": 4620,
        "symlinks": 21,
        "empty_directories": 0,
        "bytes": 3 * 2**20,
        "files_at_end": 4200,
        "bytes_at_end": 3 * 2**20,
        "mix": [],
        "file_popularity": [],
        "directory_popularity": [],
        "file_sizes": [],
        "transfer_sizes": [],
        "repeated_draws": 0,
        "searched": 0,
        "unavailable": 0,
        "made": None,
        **changes,
    }


def facts_of(options: dict[str, Any] | None = None, **changes: Any) -> dict[str, str]:
    """Return the last fact of each name."""
    report = LoadReport(**{"target": "T", "open_loop": True, **(options or {})})
    return dict(facts(changed(**changes), report))


def test_how_it_was_measured() -> None:
    found = msgspec.json.decode(GOLDEN.read_bytes())
    connects = {"count": 65, "mean": 52_400.0, "p99": 110_000, "max": 130_000}
    handshake = {"count": 1, "mean": 2e6, "p99": 2_000_000, "max": 2_000_000}
    server = {**found["target"], "kind": "http", "connect_ns": connects, "handshake_ns": handshake}
    rare = {"errors": 1, "dropped": 5, "waiting": 7, "unfinished": 1, "drained": 490}
    trace = {"path": "a.load", "operations": 1000, "reordered": 3, "scaled": True}
    shown = facts_of(
        target=server,
        counts={**found["counts"], **rare},
        traces=[trace],
        processes=[{"filament": 0, "events": 1, "replies": 2}],
        samples={"path": "s.bw", "rows": 1000},
    )
    assert shown == {
        "target": "T, io_uring",
        "rate": "intended 9,998/s, offered 9,998/s, achieved 9,997.8/s in 5 s",
        "read": "7,000/s, 28.7 MB/s",
        "write": "2,998/s, 12.3 MB/s",
        "all": "9,998/s, 41 MB/s",
        "operations": "49,990 intended, 49,990 issued, 49,990 completed, 1 error, 5 dropped, "
        "12 delayed, 490 issued after the end, 7 never started, 1 unfinished",
        "connections": "65 connects: mean 52.4 us, p99 110 us, max 130 us; "
        "1 handshake: mean 2 ms, p99 2 ms, max 2 ms",
        "trace": "a.load: 1,000 operations, 3 reordered, offsets scaled",
        "process": "filament 0: 1 event, 2 replies",
        "samples": "1,000 rows in s.bw",
    }
    verbose = facts_of({"verbose": True}, counts={**found["counts"], "held": 0})
    assert verbose.keys() - facts_of().keys() == {"features", "clock", "pacer", "absent"}
    assert verbose["operations"].endswith(" completed, 3 errors")


def test_of_some_targets_there_is_more() -> None:
    assert facts_of(target={"kind": "nfs"}).keys().isdisjoint({"postponed", "timeouts"})
    nfs = facts_of(target={"kind": "nfs", "jukebox": 1234})
    assert nfs["postponed"] == "1,234 calls (JUKEBOX), sent again"
    udp = facts_of(target={"kind": "udp", "timeouts": 1234, "late_replies": 56})
    assert udp["timeouts"] == "1,234 operations, 56 of them answered after the limit"


def test_traces_are_read_ahead_and_named_safely() -> None:
    read = facts_of(traces=[{"path": "a.load", "operations": 113_872}])["trace"]
    assert read == "a.load: 113,872 operations read, the run intended 49,990"
    one = facts_of(traces=[{"path": "a", "operations": 1}], samples={"path": "s", "rows": 1})
    assert (one["trace"], one["samples"]) == ("a: 1 operation", "1 row in s")
    report = text(traces=[{"path": "\x1b[2J\x9b", "operations": 2}])
    assert report.replace("\n", "").isprintable()
    assert r"\x1b[2J\x9b: 2 operations" in report


def test_a_file_set_is_described() -> None:
    made = {"files": 4200, "bytes": 2 * 2**20, "made": 20, "repaired": 0, "reused": 4180}
    made |= {"removed": 3, "beyond": 0, "making_ns": 3_200_000_000}
    for changes, words in (
        ({}, "4,620 files (3 MiB) in 21 directories"),
        (
            {"made": made, "unavailable": 7},
            "4,200 files (2 MiB) in 21 directories; 20 made, 4,180 re-used, 3 removed, in 3.2 s; "
            "7 operations without a usable object",
        ),
    ):
        assert facts_of(file_set=file_set(**changes))["file set"] == words


@pytest.mark.parametrize(
    ("options", "changes", "words"),
    [
        ({"asked_per_s": 10_000}, {}, "requested 10,000/s, drawn 9,998/s, OFFERED in 5 s"),
        ({"asked_per_s": 9998.0}, {}, "requested 9,998/s, OFFERED in 5 s"),
        ({"asked_per_s": 10_000, "open_loop": False}, {}, "OFFERED in 5 s"),
        (
            {"asked_per_s": 9998.0, "warm_up_ns": 2 * 10**9},
            {"elapsed_ns": 7 * 10**9},
            "requested 9,998/s, OFFERED in 5 s after 2 s of warm-up",
        ),
        # Ended in the middle: the last operation was 20 ms before, or the drain 2 s.
        (
            {},
            {"intended_rate_per_s": 49_990 / 0.7, "elapsed_ns": 680_000_000},
            "intended 71,414/s, OFFERED in 700 ms",
        ),
        (
            {},
            {"intended_rate_per_s": 49_990 / 0.7, "elapsed_ns": 2_700_000_000},
            "intended 71,414/s, OFFERED in 700 ms; the last ended 2 s later",
        ),
    ],
)
def test_rates_are_of_the_measured_part(
    options: dict[str, Any], changes: dict[str, Any], words: str
) -> None:
    offered = "offered 9,998/s, achieved 9,997.8/s"
    assert facts_of(options, **changes)["rate"] == words.replace("OFFERED", offered)


# -- the sentence --------------------------------------------------------------------------


def test_the_answer_is_the_first_line() -> None:
    assert sentence(changed(), asked_per_s=10_000) == (
        "read and write: 3 of 49,990 failed; 10,000/s as requested; response p99 142 us; "
        "issue error p99 1.9 us"
    )
    found = msgspec.json.decode(GOLDEN.read_bytes())
    fine = changed(counts={**found["counts"], "errors": 0})
    assert sentence(fine) == (
        "read and write: 9,998/s as intended; response p99 142 us; 0 of 49,990 failed; "
        "issue error p99 1.9 us"
    )


def test_a_rate_that_was_not_kept_is_a_share_of_the_requested_one() -> None:
    slow = changed(achieved_rate_per_s=5_000.0)
    assert "5,000/s, 50 % of the requested 10,000/s;" in sentence(slow, asked_per_s=10_000)


@pytest.mark.parametrize("late_ns", [0, 744_488_959])
def test_the_answer_and_the_row_of_rates_have_the_same_rate(late_ns: int) -> None:
    # A target with 4 places: of 200 operations in 2 s it had started 100, and 46 of the others
    # later.
    found = msgspec.json.decode(GOLDEN.read_bytes())
    counts = {"intended": 200, "issued": 149, "completed": 146, "errors": 0}
    counts |= {"drained": 49, "drained_completed": 46, "unfinished": 3, "waiting": 51}
    times = {**found["kinds"]["all"]["issue_error_ns"], "p50": late_ns}
    every = {**found["kinds"]["all"], "issue_error_ns": times}
    report = report_of(
        changed(
            counts={**found["counts"], **counts},
            kinds={"read": every, "all": every},
            intended_rate_per_s=100.0,
            offered_rate_per_s=50.0,
            achieved_rate_per_s=50.0,
            elapsed_ns=3_000_004_985,
        ),
        asked_per_s=100,
    )
    assert "; 50/s, 50 % of the requested 100/s; " in report.partition("\n")[0]
    assert "achieved 50/s in 2 s; the last ended 1 s later" in report


def test_failures_come_first_and_have_no_response_time() -> None:
    found = msgspec.json.decode(GOLDEN.read_bytes())
    nothing = msgspec.to_builtins(TimeDistribution(count=0))
    every = {**found["kinds"]["all"], "response_ns": nothing}
    result = changed(
        counts={**found["counts"], "errors": 49_990}, kinds={**found["kinds"], "all": every}
    )
    first = sentence(result, asked_per_s=10_000)
    assert first.startswith("read and write: all 49,990 failed; 10,000/s as requested;")
    assert "response time unknown" in first
    some = changed(counts={**found["counts"], "unfinished": 4_000})
    assert "failed, 4,000 did not end; " in sentence(some)
    assert "response p99 unknown, over 1.21 ms; " in sentence(some)


def test_an_interrupted_load_shows_how_far_it_came() -> None:
    cut = changed(interrupted=True)
    assert sentence(cut, duration_ns=10**10).endswith("; interrupted after 5 s of 10 s")
    assert sentence(cut).endswith("; interrupted after 5 s")


def test_few_operations_have_a_lower_percentile() -> None:
    found = msgspec.json.decode(GOLDEN.read_bytes())
    times = {**found["kinds"]["all"]["response_ns"], "count": 300}
    every = {**found["kinds"]["all"], "response_ns": times}
    assert "response p90 96 us" in sentence(changed(kinds={**found["kinds"], "all": every}))


def test_bytes_per_second_of_each_kind() -> None:
    found = msgspec.json.decode(GOLDEN.read_bytes())
    assert found["kinds"]["read"]["bytes"] == 35_000 * 4096
    assert "\nread        7,000/s, 28.7 MB/s\n" in text()
    metrics = load_metrics(changed())
    assert metrics["read_bytes_per_s"] == pytest.approx(7000 * 4096)
    assert metrics["bytes_per_s"] == pytest.approx(
        metrics["read_bytes_per_s"] + metrics["write_bytes_per_s"]
    )
    assert metrics["read_rate_per_s"] == pytest.approx(7000)
    null = {**found["target"], "kind": "null"}
    assert "MB/s" not in text(target=null)


def flowing(issued: int, completed: int, **counts: int) -> EngineResult:
    """Return the golden result with these counts of its measured part of 5 s."""
    flow = dict.fromkeys(FlowCounts.__struct_fields__, 0)
    flow |= {"issued": issued, "completed": completed, **counts}
    rates = {"offered_rate_per_s": issued / 5, "achieved_rate_per_s": completed / 5}
    return changed(flow=flow, measured_ns=5 * 10**9, **rates)


def test_what_ended_in_time_is_the_rate_of_a_saturated_target() -> None:
    waits = {"waiting_at_end": 24_990, "in_flight_at_end": 1}
    assert "5,000/s, 50 % of the requested 10,000/s; " in sentence(
        flowing(25_001, 25_000, **waits), asked_per_s=10_000
    )
    # It takes every operation at once, and has a queue of its own.
    assert "10,000/s as requested, 5,000/s ended in time; " in sentence(
        flowing(49_990, 25_000, in_flight_at_end=24_990), asked_per_s=10_000
    )
    report = report_of(flowing(25_001, 25_000, **waits), asked_per_s=10_000)
    assert "25,001 started, 25,000 ended, 24,990 waiting at its end, 1 in flight" in report
    # None of those that were due in the measured part started in it.
    counts = msgspec.structs.replace(changed().counts, issued=0, waiting=49_990)
    none = msgspec.structs.replace(flowing(25_000, 25_000, of_warm_up=25_000), counts=counts)
    assert "5,000/s, 50 % of the " in sentence(none, asked_per_s=10_000)


def test_a_closed_loop_of_few_responses_has_no_rate_but_a_range() -> None:
    few = flowing(2_000, 1_000, in_flight_at_end=1_000)
    assert "read and write: 3 of 49,990 failed; 200/s to 400/s in a closed loop; " in sentence(
        few, open_loop=False
    )
    many = flowing(20_000, 19_000, in_flight_at_end=1_000)
    assert "; 3,800/s in a closed loop; " in sentence(many, open_loop=False)


def test_the_rate_says_how_much_of_it_succeeded() -> None:
    found = msgspec.json.decode(GOLDEN.read_bytes())
    kinds = {**found["kinds"], "all": {**found["kinds"]["all"], "in_time": 665, "in_time_bytes": 0}}
    refusing = msgspec.convert(
        {**msgspec.to_builtins(flowing(36_000, 36_000)), "kinds": kinds}, EngineResult
    )
    assert "; 7,200/s in a closed loop, 133/s succeeded; " in sentence(refusing, open_loop=False)
    assert "succeeded" not in sentence(changed(), open_loop=False)


def test_rates_of_a_kind_are_of_what_ended_in_the_measured_part() -> None:
    found = msgspec.json.decode(GOLDEN.read_bytes())
    kind = {**found["kinds"]["read"], "in_time": 500, "in_time_bytes": 4_000}
    result = msgspec.structs.replace(flowing(600, 500), kinds=changed(kinds={"all": kind}).kinds)
    assert result.rates_of(result.all) == (100.0, 800.0)


def test_times_far_apart_are_in_one_unit_with_at_most_three_decimals() -> None:
    found = msgspec.json.decode(GOLDEN.read_bytes())
    nothing = {**found["kinds"]["all"]["issue_error_ns"], "p50": 40}
    much = {**found["kinds"]["all"]["response_ns"], "max": 3 * 10**9}
    every = {**found["kinds"]["all"], "issue_error_ns": nothing, "response_ns": much}
    report = text(kinds={"read": every, "all": every})
    assert "time in us " in report
    assert " 0.04 " in report
    assert " 3,000,000\n" in report
    assert not re.search(r"\d\.\d{4}", report.partition("\n~")[0])


def chain(started: int, operations: int, **changes: Any) -> dict[str, Any]:
    """Return the member of a chain whose response times are 1 to 9 ms."""
    times = {
        "count": started,
        "mean": 4e6,
        "sd": 1e6,
        "min": 10**6,
        "max": 9 * 10**6,
        "p50": 3 * 10**6,
        "p90": 6 * 10**6,
        "p95": 7 * 10**6,
        "p98": 7 * 10**6,
        "p99": 8 * 10**6,
        "p99.9": 9 * 10**6,
        "p99.99": 9 * 10**6,
        "hdr": encode([3 * 10**6] * 120 + [6 * 10**6] * 74 + [9 * 10**6] * 3, 5),
    }
    counts = {"completed": started, "errors": 0, "unfinished": 0, **changes}
    return {"started": started, "operations": operations, "response_ns": times, **counts}


def test_chains_of_several_operations_have_a_table() -> None:
    found = text(
        sequences={
            "getattr": chain(500, 500),
            "read_file": chain(200, 500, completed=197, errors=2, unfinished=1),
        }
    )
    head, row = re.findall(r"(?m)^(?:chain|read_file) .*$", found)
    assert head.split()[:5] == ["chain", "n", "failed", "unfinished", "operations"]
    assert row.split() == [
        *("read_file", "197", "2", "1", "2.5", "4", "3", "6", *(">", "9*") * 3, "9")
    ]
    assert "getattr" not in found


def test_of_many_kinds_the_answer_has_the_number_and_the_table_the_responses() -> None:
    found = msgspec.json.decode(GOLDEN.read_bytes())["kinds"]
    names = ("lookup", "getattr", "read", "write", "readdir")
    result = changed(kinds={**dict.fromkeys(names, found["read"]), "all": found["all"]})
    brief, verbose = report_of(result), report_of(result, verbose=True)
    assert brief.startswith("5 kinds of operations: ")
    # One row for each kind; all three times of `all`.
    assert len(re.findall(r"(?m)^ +issue error", brief)) == 1
    assert len(re.findall(r"(?m)^ +issue error", verbose)) == len(names) + 1


@pytest.mark.parametrize(
    ("asked", "clause"),
    [
        (9_950.0, "9,950/s as requested"),
        (9_300.0, "9,300/s requested, 9,998/s drawn and issued"),
        (9_100.0, "9,100/s requested, 9,998/s drawn and issued"),
        (8_000.0, "9,997.8/s, 125 % of the requested 8,000/s"),
        (20_000.0, "9,997.8/s, 50 % of the requested 20,000/s"),
    ],
)
def test_a_drawn_rate_far_from_the_requested_one_is_not_as_requested(
    asked: float, clause: str
) -> None:
    assert clause in sentence(changed(), asked_per_s=asked)


@pytest.mark.parametrize(
    ("asked", "clause"),
    [
        (9_950.0, "4,999/s, 50 % of the requested 9,950/s"),
        (9_300.0, "4,999/s, 50 % of the 9,998/s drawn, 9,300/s requested"),
        (None, "4,999/s, 50 % of the intended 9,998/s"),
    ],
)
def test_a_share_names_the_rate_that_it_is_of(asked: float | None, clause: str) -> None:
    told = sentence(changed(achieved_rate_per_s=4_999.0), asked_per_s=asked)
    assert clause in told


def test_few_arrivals_may_be_far_from_the_requested_rate_by_chance() -> None:
    found = msgspec.json.decode(GOLDEN.read_bytes())
    few = {**found["counts"], "intended": 16}
    told = sentence(changed(counts=few), asked_per_s=5_000.0)
    assert "5,000/s requested, 9,998/s drawn and issued" in told


def test_operations_that_never_started_are_not_said_to_have_no_end() -> None:
    found = msgspec.json.decode(GOLDEN.read_bytes())
    told = sentence(changed(counts={**found["counts"], "waiting": 7, "unfinished": 1}))
    assert "1 did not end, 7 never started" in told
    counts = {**found["counts"], "waiting": 7}
    assert "did not end" not in sentence(changed(counts=counts))
    assert "490 issued after the end" in text(counts={**counts, "drained": 490})


def test_what_was_issued_after_the_end_is_in_no_rate() -> None:
    found = msgspec.json.decode(GOLDEN.read_bytes())
    counts = {**found["counts"], "drained": 24_995, "drained_completed": 24_995}
    half = changed(counts=counts, achieved_rate_per_s=4_998.9, offered_rate_per_s=4_999.0)
    assert half.measured_ns == changed().measured_ns
    rates = [half.rates_of(half.kinds["read"])[0], changed().rates_of(half.kinds["read"])[0]]
    assert rates[0] == pytest.approx(0.5 * (rates[1] or 0), rel=1e-3)


def test_operations_on_a_server_have_the_name_of_their_request() -> None:
    found = msgspec.json.decode(GOLDEN.read_bytes())
    kinds = {"exchange": found["kinds"]["read"], "all": found["kinds"]["all"]}
    assert sentence(changed(kinds=kinds)).startswith("requests: ")
    report = report_of(changed(kinds=kinds), exchange="GET")
    assert report.startswith("GET: ")
    assert re.search(r"^GET +response ", report, re.MULTILINE)
    assert "exchange" not in report


def test_the_verdicts_on_limits_are_in_the_report_and_in_junit() -> None:
    verdicts = tuple(
        LimitVerdict(limit=text, outcome=outcome, bound=1.0, detail=detail)
        for text, outcome, detail in (
            ("p99 < 20ms", GateOutcome.PASSED, "p99 3 ms"),
            ("errors < 1%", GateOutcome.FAILED, "20 of 100 failed (20 %)"),
            ("mean < 1ms", GateOutcome.UNDECIDED, "mean 1 ms: too close"),
        )
    )
    report = report_of(changed(), limits=verdicts)
    lines = report.splitlines()
    assert lines[0].endswith("1 limit missed; 1 limit undecided; 1 limit held")
    begin = next(n for n, line in enumerate(lines) if line.startswith("limit "))
    words = [line.split() for line in lines[begin + 1 : begin + 4]]
    assert [row[3] for row in words] == ["held", "missed", "undecided"]
    headline = LoadReport(target="", open_loop=True, limits=verdicts)
    assert load_headline(changed(), headline).startswith("1 limit missed; ")
    suite = ElementTree.fromstring(limits_junit(verdicts, "T", 10**9, ()))[0]
    counts = [suite.get(name) for name in ("tests", "failures", "errors")]
    assert counts == ["3", "1", "1"]
    assert [case.get("name") for case in suite.iter("testcase")] == [one.limit for one in verdicts]


@pytest.mark.parametrize(
    ("errors", "changes", "counts"),
    [
        ("", {}, ["1", "0", "0"]),
        ("3 of 4 failed", {}, ["1", "1", "0"]),
        ("", {"interrupted": True}, ["2", "0", "1"]),
        ("", {"hosts": [{"host": "h", "lost": "h is gone"}]}, ["2", "0", "1"]),
    ],
)
def test_how_a_load_ended_is_in_junit(
    errors: str, changes: dict[str, Any], counts: list[str]
) -> None:
    endings = ending_cases(changed(**changes), errors)
    suite = ElementTree.fromstring(limits_junit((), "T", 10**9, (), endings))[0]
    assert [suite.get(name) for name in ("tests", "failures", "errors")] == counts
    names = [case.get("name") for case in suite.iter("testcase")]
    assert names == ["errors", "load"][: int(counts[0])]
