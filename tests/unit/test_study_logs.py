"""Ranges of logs: of studies of before, of bounded and of packed output."""

from __future__ import annotations

from pathlib import Path

import msgspec

from benchwright.core.observation import ProcessRecord
from benchwright.core.plan import MetricSpec, OutputPolicy
from benchwright.study.logs import (
    END_BYTES,
    OutputStore,
    log_directory,
    omitted_bytes,
    output_text,
    read_output,
    written_bytes,
)
from benchwright.trial.observe import extract_metric

OLD = b"""{"mode": "EXEC", "index": 0, "thread": 1, "status": 0, "elapsed_ns": 1,
"user_us": 1, "system_us": 1, "rss_bytes": 1, "out": [3, 200000], "err": [0, 4]}"""
"""As it was recorded before output was bounded."""


def logs(study: Path) -> Path:
    directory = log_directory(study, 1, "t")
    directory.mkdir(parents=True)
    return directory


def test_a_study_of_before_is_read_as_it_was(tmp_path: Path) -> None:
    directory = logs(tmp_path)
    (directory / "exec-1.out").write_bytes(b"abc" + b"x" * 200_000)
    (directory / "exec-1.err").write_bytes(b"why\n")
    process = msgspec.json.decode(OLD, type=ProcessRecord)
    assert (written_bytes(process, "out"), omitted_bytes(process, "out")) == (200_000, 0)
    assert read_output(tmp_path, 1, "t", process, "out") == b"x" * 200_000
    assert read_output(tmp_path, 1, "t", process, "err") == b"why\n"


def records(directory: Path, *pieces: bytes) -> list[ProcessRecord]:
    """Append the pieces to a log, as the launcher does, and return their records."""
    path = directory / "exec-1.out"
    found = []
    for piece in pieces:
        at = path.stat().st_size if path.exists() else 0
        with path.open("ab") as file:
            file.write(piece)
        found.append(
            ProcessRecord(
                *("EXEC", 0, 1, 0, 1, 1, 1, 1), out=(at, len(piece)), out_bytes=len(piece)
            )
        )
    return found


def test_batches_are_kept_one_after_the_other(tmp_path: Path) -> None:
    """Sizes around the bound, the same twice, in two batches, in both forms."""
    sizes = (0, 1, END_BYTES, 2 * END_BYTES - 1, 2 * END_BYTES, 2 * END_BYTES + 1)
    pieces = [bytes([n]) * size for n, size in enumerate((*sizes, 900_000))]
    for mode in ("bounded", "file"):
        study = tmp_path / mode
        directory, keeper = logs(study), OutputStore()
        output = msgspec.convert({"mode": mode}, OutputPolicy)
        kept: list[ProcessRecord] = []
        for _ in range(2):
            batch = records(directory, *pieces, pieces[-1])
            kept += keeper.store(directory, batch, output)
        for process, piece in zip(kept, [*pieces, pieces[-1]] * 2, strict=True):
            data = read_output(study, 1, "t", process, "out")
            assert written_bytes(process, "out") == len(piece)
            if mode == "file":
                assert data == piece
            else:
                assert data == piece[: 2 * END_BYTES]
                assert omitted_bytes(process, "out") == max(len(piece) - 2 * END_BYTES, 0)
        assert kept[-1].out == kept[-2].out


def test_a_large_output_is_searched_without_being_read(tmp_path: Path) -> None:
    directory = logs(tmp_path)
    head, large = b"head\n", b"a\xff b\n" * 4_000_000 + b"rate 42\n"
    before, process = records(directory, head, large)
    assert output_text(tmp_path, 1, "t", before, "out") == "head\n"
    text = output_text(tmp_path, 1, "t", process, "out")
    assert isinstance(text, memoryview)
    assert len(text) == len(large)
    assert extract_metric(MetricSpec("rate", pattern=r"^rate (\d+)$"), text, "") == 42
    (directory / "exec-1.out").unlink()
    assert output_text(tmp_path, 1, "t", process, "out") == ""
