"""Groups of operations: their names in limits and tables, and the verdicts on them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from benchwright.core.comparison import GateOutcome
from benchwright.core.criterion import criterion_text
from benchwright.features.load import criteria, workload
from benchwright.features.load import request as r
from benchwright.features.load.engine_values import counts_of, load_value
from benchwright.features.load.groups import group_names, operations_of
from benchwright.features.load.limits import judged
from benchwright.features.load.report import LoadReport
from benchwright.features.load.types import EngineResult, GroupResult
from benchwright.features.load.view import groups_table
from benchwright.views.terminal import table_text
from load_results import MS, loaded

ACCESS = workload.Access(size=workload.ConstantValue(4096), kinds=(("read", 7), ("write", 3)))
READS = workload.Access(size=workload.ConstantValue(4096), kinds=(("read", 1),))


def filament(name: str | None, access: workload.Access) -> workload.Closed:
    return workload.Closed(users=1, think=workload.ConstantValue(0), access=access, name=name)


TWO = (filament("pages", ACCESS), filament(None, READS))
SEVERAL = r.SeveralTarget(
    (r.NamedTarget("data", (0,), r.NullTarget()), r.NamedTarget("log", (1,), r.NullTarget()))
)


def group(
    response: dict[int, int], *, lost: int = 0, errors: int = 0, **names: str
) -> dict[str, Any]:
    found = msgspec.to_builtins(loaded(response, errors=errors).all)
    nothing = dict.fromkeys(("dropped", "skipped", "unfinished"), 0)
    return {**found, **names, "lost": {**nothing, "waiting": lost}}


def result(*groups: dict[str, Any], waiting: int = 0) -> EngineResult:
    whole = msgspec.to_builtins(loaded({MS: 10_000, 30 * MS: 5_000}, waiting=waiting))
    return msgspec.convert({**whole, "groups": groups}, EngineResult)


def two_targets(lost: int = 0) -> EngineResult:
    pages = {"filament": "pages", "target": "data"}
    return result(
        group({MS: 9_000, 30 * MS: 1_000}, **pages),
        group({MS: 9_000}, operation="read", **pages),
        group({30 * MS: 1_000}, operation="write", **pages),
        group({30 * MS: 4_000}, lost=lost, filament="2", target="log", operation="read"),
        waiting=lost,
    )


@pytest.mark.parametrize(
    ("text", "key", "of"),
    [
        ("read@disk1 p99 < 5ms", "response_ms_p99 of read@disk1", "read@disk1"),
        ("p99 < 5ms of read@disk1", "response_ms_p99 of read@disk1", "read@disk1"),
        ("@disk1 errors < 1%", "error_ratio of @disk1", "@disk1"),
        ("filament pages 90% within 2s", "within_2s_share of filament pages", "filament pages"),
        ("read@filament a  40ms", "response_ms_mean of read@filament a", "read@filament a"),
        ("filament x y p50 < 5ms", "response_ms_p50 of filament x y", "filament x y"),
        ("GET /a@web errors < 1%", "error_ratio of GET /a@web", "GET /a@web"),
        ("p50 < 5ms of filament two words", "response_ms_p50 of filament two words", ""),
        ("p99 < 5ms", "response_ms_p99", ""),
    ],
)
def test_a_criterion_names_its_group_before_or_behind_it(text: str, key: str, of: str) -> None:
    found = criteria.parse_criterion(text)
    assert found.key == key
    assert found.of == (of or key.partition(" of ")[2])
    assert found.value == key.partition(" of ")[0]
    bare = criteria.parse_criterion(text.removeprefix(of).partition(" of ")[0])
    assert criterion_text(found).replace(f" of {found.of}", "") == criterion_text(bare)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("read@disk1 p99 < 5ms of write", "two groups"),
        ("@disk1 p95 first < 500ms", "all operations together"),
        ("@disk1 metric hits > 1", "says what it is of"),
        ("read@disk1 quick", "is not a criterion"),
        ("filament pages p99 << 5ms", "is not a criterion"),
        ("read@disk1 latency < 5ms", "did you mean 'read@disk1 response < 5ms'"),
    ],
)
def test_what_no_group_has_is_refused(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        criteria.parse_criterion(text)


def test_two_limits_of_one_group_are_one_too_many() -> None:
    texts = ("@data p99 < 5ms", "p99 < 9ms of @data")
    with pytest.raises(ValueError, match="response_ms_p99 of @data has two limits"):
        criteria.check_limits([criteria.parse_limit(text) for text in texts])


def test_the_groups_of_a_load_have_names() -> None:
    assert group_names(TWO[:1], r.NullTarget()) == ("read", "write")
    pages = ("filament pages", "read@filament pages", "write@filament pages")
    second = ("filament 2", "read@filament 2")
    assert group_names(TWO, r.NullTarget()) == ("read", "write", *pages, *second)
    data, log = ("@data", "read@data", "write@data"), ("@log", "read@log")
    assert group_names(TWO, SEVERAL) == ("read", "write", *pages, *data, *second, *log)


def test_a_group_is_found_by_each_of_its_names() -> None:
    found = two_targets()

    def count(name: str) -> int | None:
        one = operations_of(found, name)
        return None if one is None else one.operations

    assert count("") == 15_000
    assert [count(f"{name}filament pages") for name in ("", "read@", "write@")] == [
        *(10_000, 9_000, 1_000)
    ]
    assert [count(f"{name}@data") for name in ("", "read", "write")] == [10_000, 9_000, 1_000]
    assert [count(f"{name}@log") for name in ("", "read", "write")] == [4_000, 4_000, None]
    assert count("filament log") is None


def test_a_target_that_filaments_share_has_a_group_of_its_own() -> None:
    found = result(
        group({MS: 1}, filament="a", target="data", operation="read"),
        group({MS: 2}, filament="b", target="data", operation="read"),
        group({MS: 3}, target="data", operation="read"),
    )
    one, other = operations_of(found, "@data"), operations_of(found, "read@filament b")
    assert isinstance(one, GroupResult)
    assert isinstance(other, GroupResult)
    assert (one.operations, other.operations) == (3, 2)


def test_a_limit_of_a_group_is_of_its_operations() -> None:
    found = two_targets()
    limits = ["read@data p99 < 20ms", "write@data p99 < 20ms", "@log p50 < 20ms"]
    verdicts = judged([criteria.parse_limit(limit) for limit in limits], found)
    assert [one.outcome for one in verdicts] == [
        *(GateOutcome.PASSED, GateOutcome.FAILED, GateOutcome.FAILED)
    ]
    assert [one.of for one in verdicts] == ["read@data", "write@data", "@log"]


def test_what_did_not_end_on_one_target_is_not_of_the_other() -> None:
    found = two_targets(lost=4_000)
    limits = ["@data p80 < 20ms", "@log p50 < 50ms", "errors < 1% of read@data"]
    verdicts = judged([criteria.parse_limit(limit) for limit in limits], found)
    outcomes = [one.outcome for one in verdicts]
    assert outcomes == [GateOutcome.PASSED, GateOutcome.UNDECIDED, GateOutcome.PASSED]
    assert judged([criteria.parse_limit("@log errors < 1%")], found)[0].detail == (
        "4,000 of 8,000 failed, never started or did not end (50 %)"
    )


def test_a_search_has_the_value_of_a_group() -> None:
    found = two_targets(lost=100)
    groups = ("read@data", "@log", "@none")
    tally = counts_of(found, lasted_s=1.0, patience_s=0.01, groups=groups)

    def value(text: str) -> float | None:
        return load_value(tally, criteria.parse_criterion(text))

    assert value("read@data p99 < 20ms") == pytest.approx(1, rel=0.001)
    assert value("@log p50 < 20ms") == pytest.approx(30, rel=0.001)
    assert value("@none p50 < 20ms") is None
    # Of those that waited for longer than the limit of patience, all that arrived before.
    assert tally.groups["@log"].open + tally.groups["@log"].lost == 100
    assert tally.groups["read@data"].open + tally.groups["read@data"].lost == 0


def test_the_table_has_each_filament_and_each_target() -> None:
    found = two_targets()
    report = LoadReport(target="T", open_loop=True)
    lines = list(table_text(groups_table(found, report), None))
    assert [line.split("  ")[0] for line in lines] == [
        *("group", "filament pages, @data", "read@data", "write@data", "filament 2, @log")
    ]
    assert lines[4].split()[3] == "4,000"
    assert "not ended" not in lines[0]
    assert groups_table(loaded({MS: 10}), report).rows == ()


def test_the_table_says_where_operations_did_not_end() -> None:
    report = LoadReport(target="T", open_loop=True)
    found = two_targets(lost=400)
    *others, log = found.groups
    log = msgspec.structs.replace(
        log, response_ns=msgspec.structs.replace(log.response_ns, max=30 * MS)
    )
    found = msgspec.structs.replace(found, groups=(*others, log))
    table = groups_table(found, report)
    lines = list(table_text(table, None))
    assert "failed  not ended" in lines[0]
    assert [line.split()[5] for line in (lines[1], lines[4])] == ["0", "400"]
    # Not how many of the whole load.
    assert table.note == "* not known: it is of an operation that failed or did not finish."


def test_of_many_kinds_the_table_has_their_sum() -> None:
    names = ("lookup", "getattr", "read", "create", "remove")
    found = result(
        group({MS: 5}, filament="a"),
        *(group({MS: 1}, filament="a", operation=name) for name in names),
    )
    report = LoadReport(target="T", open_loop=True)
    assert len(groups_table(found, report).rows) == 1
    assert len(groups_table(found, msgspec.structs.replace(report, verbose=True)).rows) == 6


def test_of_many_groups_the_table_has_the_slowest() -> None:
    found = result(*(group({number * MS: 10}, filament=str(number)) for number in range(1, 31)))
    report = LoadReport(target="T", open_loop=True)
    table = groups_table(found, report)
    names = [line.split()[1] for line in list(table_text(table, None))[1:21]]
    assert names == [str(number) for number in range(30, 10, -1)]
    assert "10 faster groups are only in the document" in table.note
    assert len(groups_table(found, msgspec.structs.replace(report, verbose=True)).rows) == 30
