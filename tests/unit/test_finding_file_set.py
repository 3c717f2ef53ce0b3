"""The self-check of file workloads: rare false alarms, and wrong tables are found."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from benchwright.features.load.file_set import (
    CountedTable,
    chance_of,
    counted_tables,
    file_set_findings,
)
from benchwright.features.load.types import (
    ChainDraws,
    FileSetResult,
    FileSizeDraws,
    PopularityDraws,
    TransferDraws,
    TransferSizeDraws,
)

MIX = {"lookup": 27, "read": 18, "write": 9, "getattr": 11, "commit": 5, "create": 1}
POPULARITY = ((420, 1), (47, 1000))
"""Objects and the weight of each."""
SIZES = {1: 33, 2: 21, 4: 13, 8: 10, 16: 8, 32: 5, 64: 4, 128: 3, 256: 2, 1024: 1}
READS = {8: 85, 16: 8, 32: 4, 64: 2, 128: 1}


def shares(weights: list[int]) -> list[float]:
    return [weight / sum(weights) for weight in weights]


def drawn(random: np.random.Generator, draws: int, mix: dict[str, int] = MIX) -> FileSetResult:
    """Return a result whose counts are drawn from the tables; those of the mix from `mix`."""
    chains = random.multinomial(draws, shares(list(mix.values())))
    weights = [objects * weight for objects, weight in POPULARITY]
    files = random.multinomial(draws, shares(weights))
    sizes = random.multinomial(sum(n for n, _ in POPULARITY), shares(list(SIZES.values())))
    # The weight of a class of sizes: its files are as popular as others.
    class_weights = [int(n) * 100 + 1 for n in sizes]
    size_draws = random.multinomial(draws, shares(class_weights))
    reads = random.multinomial(draws // 5, shares(list(READS.values())))
    return FileSetResult(
        directories=21,
        files=467,
        symlinks=0,
        empty_directories=0,
        bytes=10**7,
        files_at_end=467,
        bytes_at_end=10**7,
        mix=tuple(
            ChainDraws(0, name, MIX[name], int(n)) for name, n in zip(mix, chains, strict=True)
        ),
        file_popularity=tuple(
            PopularityDraws(weight * objects, objects, objects, int(n), int(n))
            for (objects, weight), n in zip(POPULARITY, files, strict=True)
        ),
        directory_popularity=(PopularityDraws(21, 21, 21, draws // 10, draws // 10),),
        file_sizes=tuple(
            FileSizeDraws(kib * 1024, share, int(n), weight, int(draws_of))
            for kib, share, n, weight, draws_of in zip(
                SIZES, shares(list(SIZES.values())), sizes, class_weights, size_draws, strict=True
            )
        ),
        transfer_sizes=(
            TransferDraws(
                "read",
                0,
                tuple(
                    TransferSizeDraws(kib * 1024, share, int(n))
                    for kib, share, n in zip(
                        READS, shares(list(READS.values())), reads, strict=True
                    )
                ),
            ),
        ),
        repeated_draws=0,
        searched=0,
        unavailable=0,
    )


def codes(files: FileSetResult) -> list[str]:
    return [finding.code for finding in file_set_findings(files, "t")]


@pytest.mark.parametrize("draws", [50, 500, 100_000])
def test_at_most_one_correct_run_in_a_hundred_has_a_false_alarm(draws: int) -> None:
    random = np.random.default_rng(draws)
    runs = 4000
    alarms = sum(bool(codes(drawn(random, draws))) for _ in range(runs))
    assert alarms <= 0.01 * runs


@pytest.mark.parametrize("change", [{"lookup": 24, "getattr": 14}, {"create": 3}, {"write": 13}])
def test_another_mix_is_found(change: dict[str, int]) -> None:
    random = np.random.default_rng(7)
    for _ in range(50):
        files = drawn(random, 10_000, {**MIX, **change})
        found = [finding.evidence for finding in file_set_findings(files, "t")]
        assert found[0].startswith("mix of chains: ")


def test_a_working_set_that_shrank_is_found() -> None:
    """SPEC's defect of 2001: only the hot files are used."""
    files = drawn(np.random.default_rng(1), 100_000)
    cold, hot = files.file_popularity
    moved = (
        msgspec.structs.replace(cold, drawn=0),
        msgspec.structs.replace(hot, drawn=hot.drawn + cold.drawn),
    )
    (finding,) = file_set_findings(msgspec.structs.replace(files, file_popularity=moved), "t")
    assert finding.code == "mix-differs"
    assert "popularity of files: weight 1 has 0 % of 100,000 draws" in finding.evidence


def test_a_draw_of_weight_zero_is_found() -> None:
    assert chance_of(CountedTable("t", ("a", "b"), (5.0, 0.0), (3, 1))) == 0.0


def test_too_few_draws_are_not_tested() -> None:
    assert chance_of(CountedTable("t", ("a", "b"), (1.0, 1.0), (3, 9))) is None
    assert chance_of(CountedTable("t", ("a",), (1.0,), (1000,))) is None


def test_tables_without_draws_are_left_out() -> None:
    files = drawn(np.random.default_rng(1), 100)
    unused = msgspec.structs.replace(files.directory_popularity[0], drawn=0)
    files = msgspec.structs.replace(files, directory_popularity=(unused,))
    assert "popularity of directories" not in [t.name for t in counted_tables(files)]


def test_objects_in_the_wrong_state_are_reported() -> None:
    files = drawn(np.random.default_rng(1), 10_000)
    assert codes(msgspec.structs.replace(files, unavailable=9)) == []
    (finding,) = file_set_findings(msgspec.structs.replace(files, unavailable=11), "t")
    assert finding.code == "objects-missing"
    assert "11 operations of 10,000 chains" in finding.evidence
