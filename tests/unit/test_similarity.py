"""How alike two workloads are: none differs from itself, and each known change is named."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from scipy.stats import wasserstein_distance

from benchwright.cli.main import main
from benchwright.features.profile.compare import _answer_text, _names
from benchwright.features.profile.description import arrivals
from benchwright.features.profile.similarity import (
    DIMENSIONS,
    MARGIN,
    Dimension,
    DimensionDistance,
    Similarity,
    _displaced,
    similarity,
)
from benchwright.features.profile.totals import TotalsTick
from benchwright.features.profile.types import (
    Arrivals,
    Characterization,
    OtherCalls,
    SizeCalls,
    Transfer,
)

CALLS = {"read": 0.5, "write": 0.3, "fsync": 0.05, "openat": 0.15}
SIZES = {"read": {4096: 0.7, 16384: 0.3}, "write": {512: 0.9, 1 << 20: 0.1}}
SEQUENTIAL = {"read": 0.2, "write": 0.95}
NAMES = ("production", "benchmark")


def workload(
    seed: int,
    operations: int = 20_000,
    *,
    calls: dict[str, float] = CALLS,
    sizes: dict[str, dict[int, float]] = SIZES,
    sequential: dict[str, float] = SEQUENTIAL,
    burst: float = 1.0,
) -> Characterization:
    """Return what is recorded of independent operations; in a tenth of the time, `burst` times as
    many come as in the rest, in bursts of a second."""
    random = np.random.default_rng(seed)
    drawn = Counter(
        dict(
            zip(calls, map(int, random.multinomial(operations, list(calls.values()))), strict=True)
        )
    )
    transfers = []
    for way in ("read", "write"):
        split = random.multinomial(drawn[way], list(sizes[way].values()))
        transfers.append(
            msgspec.convert(
                {
                    "call": way,
                    "direction": way,
                    "kind": "file",
                    "calls": drawn[way],
                    "bytes": 0,
                    "sizes": [
                        {"bytes": size, "calls": int(count)}
                        for size, count in zip(sizes[way], split, strict=True)
                        if count
                    ],
                    "sequential": random.binomial(drawn[way], sequential[way]) / drawn[way],
                },
                Transfer,
            )
        )
    others = tuple(OtherCalls(call, n) for call, n in drawn.items() if call not in SIZES)
    weights = np.where(np.arange(200) % 50 < 5, burst, 1.0)
    slots = random.poisson(operations * weights / weights.sum())
    return Characterization(
        seconds=40.0,
        method="bpftrace",
        transfers=tuple(transfers),
        others=others,
        arrivals=Arrivals(0.2, tuple(map(int, slots))),
    )


def compared(a: Characterization, b: Characterization, margin: float = MARGIN) -> Similarity:
    return similarity(a, b, NAMES, margin)


def differing(found: Similarity) -> list[Dimension]:
    return [one.dimension for one in found.dimensions if one.differs]


def test_a_workload_is_like_itself() -> None:
    one = workload(1)
    found = compared(one, one, 0.0)
    assert [dimension.distance for dimension in found.dimensions][1:] == pytest.approx([0, 0, 0])
    assert not found.differs


@pytest.mark.parametrize("operations", [2_000, 50_000])
def test_two_recordings_of_one_workload_seldom_differ_even_without_a_margin(
    operations: int,
) -> None:
    wrong = [
        one.dimension
        for seed in range(60)
        for one in compared(
            workload(seed, operations), workload(1000 + seed, operations), 0.0
        ).dimensions
        if one.differs
    ]
    # The level is 5 % for all questions together: 3 of 60 pairs are expected, 8 has P < 1 %.
    assert len(wrong) < 9, Counter(wrong)


def test_two_recordings_of_a_bursty_workload_with_other_rates_do_not_differ() -> None:
    for seed in range(10):
        pair = workload(seed, 5_000, burst=20), workload(100 + seed, 50_000, burst=20)
        assert not compared(*pair).differs


CHANGES: list[tuple[dict[str, Any], Dimension, float, str]] = [
    (
        {"calls": {**CALLS, "fsync": 0.25, "openat": 0.0001, "read": 0.4499}},
        "calls",
        0.2,
        "fsync is 4.9",
    ),
    ({"sizes": {**SIZES, "write": {4096: 0.9, 1 << 20: 0.1}}}, "sizes", 0.9 * 0.375, "the writes"),
    ({"sequential": {**SEQUENTIAL, "write": 0.05}}, "locality", 0.9 * 0.375, "the writes"),
    ({"burst": 30.0}, "arrivals", 0.67, "busiest tenth"),
]


@pytest.mark.parametrize(("change", "dimension", "share", "words"), CHANGES)
def test_each_change_is_found_where_it_is_and_named(
    change: dict[str, Any], dimension: Dimension, share: float, words: str
) -> None:
    found = compared(workload(1), workload(2, **change))
    assert differing(found) == [dimension]
    assert found.dimensions[0].distance == pytest.approx(share, abs=0.03)
    assert words in found.dimensions[0].differences[0]


def test_sizes_between_two_powers_of_two_are_one_of_them() -> None:
    near = {**SIZES, "read": {4097: 0.35, 4500: 0.35, 16000: 0.3}}
    assert not compared(workload(1), workload(2, sizes=near)).differs


def test_a_difference_below_the_margin_is_none() -> None:
    little = {**CALLS, "fsync": 0.08, "openat": 0.12}
    pair = workload(1, 200_000), workload(2, 200_000, calls=little)
    assert not compared(*pair).differs
    assert differing(compared(*pair, 0.01)) == ["calls"]


def test_what_is_not_recorded_is_absent_and_no_difference() -> None:
    one = msgspec.structs.replace(workload(1), arrivals=None, transfers=())
    found = compared(one, workload(1))
    absent = {dimension.dimension for dimension in found.dimensions if dimension.distance is None}
    assert absent == set(DIMENSIONS) - {"calls"}
    assert all(dimension.absent for dimension in found.dimensions if dimension.distance is None)


def test_other_methods_of_counting_are_compared_without_kinds() -> None:
    by_events = msgspec.structs.replace(
        workload(2),
        method="tracefs",
        transfers=tuple(
            msgspec.structs.replace(transfer, kind="unknown") for transfer in workload(2).transfers
        ),
    )
    assert not compared(workload(1), by_events).differs


def test_arrivals_are_interpolated_between_printings() -> None:
    key = ("2", "8", "0", "4096")
    ticks = [TotalsTick(10**9 + at * 10**8, {key: 10 * at}, messages=5 * at) for at in range(1, 11)]
    found = arrivals(ticks, 10**9, 1.0)
    assert found is not None
    assert found.calls == (30,) * 5
    assert found.slot_s == pytest.approx(0.2)
    assert arrivals(ticks[:1], 10**9, 1.0) is None


def test_names_are_what_two_paths_do_not_have_in_common() -> None:
    assert _names(["r/a/x-io.io.json", "r/b/x-io.io.json"]) == ("a", "b")
    assert _names(["a.io.json", "b.io.json"]) == ("a", "b")
    assert _names(["s:a", "s:b"]) == ("s:a", "s:b")
    assert _names(["a", "a"]) == ("a (first)", "a (second)")


def test_sizes_are_of_all_kinds_of_transfers() -> None:
    sent = Transfer("sendto", "write", "socket", 10, 10, sizes=(SizeCalls(1, 10),))
    one = Characterization(seconds=1.0, method="bpftrace", transfers=(sent,))
    longer = msgspec.structs.replace(sent, sizes=(SizeCalls(100, 10),))
    other = msgspec.structs.replace(one, transfers=(longer,))
    assert differing(compared(one, other)) == ["sizes"]


def test_only_what_differs_is_named_the_largest_difference_of_both_directions_first() -> None:
    def moved(read: int, written: int) -> Characterization:
        transfers = (
            Transfer("read", "read", "file", 30, 30, sizes=(SizeCalls(0, 10), SizeCalls(read, 20))),
            Transfer("write", "write", "file", 90, 90, sizes=(SizeCalls(written, 90),)),
        )
        return Characterization(seconds=1.0, method="bpftrace", transfers=transfers)

    found = compared(moved(4096, 512), moved(65536, 8192))
    (sizes,) = [one for one in found.dimensions if one.dimension == "sizes"]
    assert [text.partition(" of the ")[2].partition(" ")[0] for text in sizes.differences] == [
        "writes",
        "writes",
        "reads",
    ]
    assert not any("about 0 B" in text for text in sizes.differences)


@pytest.mark.parametrize(("a", "b"), [(10, 10), (10, 15), (12, 35), (1, 7)])
def test_slots_of_any_two_numbers_are_displaced_by_half_their_wasserstein_distance(
    a: int, b: int
) -> None:
    random = np.random.default_rng(a * b)
    first, second = random.exponential(size=a), random.exponential(size=b)
    expected = wasserstein_distance(first, second) / 2
    assert _displaced(first, second) == pytest.approx(expected)


def test_what_chance_explains_is_not_said_to_be_alike() -> None:
    chance = dict.fromkeys(("sizes", "locality"), 0.01) | {"arrivals": 0.363}
    dimensions = tuple(
        DimensionDistance(dimension=name, distance=distance, noise=0.4)
        for name, distance in chance.items()
    )
    found = Similarity(
        baseline="a",
        candidate="b",
        operations=(9, 9),
        per_s=(9.0, 9.0),
        margin=MARGIN,
        dimensions=dimensions,
    )
    alike, undecided = _answer_text(found, []).split("; ")
    assert alike.endswith("sizes, locality")
    assert "arrivals differ is undecided" in undecided
    nothing = msgspec.structs.replace(found, dimensions=())
    assert _answer_text(nothing, []) == "nothing of a and b can be compared"


def test_the_command_reads_two_recordings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    changed = workload(2, sequential={"read": 0.9, "write": 0.9})
    for name, one in (("a", workload(1)), ("b", changed)):
        Path(f"{name}.io.json").write_bytes(msgspec.json.encode(one))
    words = ["compare", "--io", "a.io.json", "b.io.json"]
    assert main(words) == 0
    out = capsys.readouterr().out
    assert out.startswith("a and b differ most in locality: ")
    assert "locality: sequential are 2" in out
    assert main([*words, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "benchwright/io-comparison/1"
    assert document["differs"]
    assert main([*words, "--margin", "90%"]) == 0
    assert "a and b do not differ by more than 90 %" in capsys.readouterr().out
    Path("b.io.json").write_text("{}")
    assert main(words) == 2
    assert main(words[:3]) == 2
    Path("b.io.json").write_text('{"seconds": 0, "method": "bpftrace"}')
    assert main(words) == 2
