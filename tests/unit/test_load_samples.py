"""Our own format in Python: what is written is read, what is damaged is told."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchwright.core.errors import InputError
from benchwright.features.load import samples as s
from benchwright.load import Batch, iter_samples, read_samples


def written(directory: Path, *batches: Batch) -> Path:
    """Write batches as a file of ours."""
    path = directory / "rows.bw"
    blocks = [block for batch in batches for block in s.blocks_of(s.rows_of(batch))]
    path.write_bytes(b"".join([s.encode_header("test"), *blocks, s.end_block()]))
    return path


def test_the_bytes_are_those_of_the_page() -> None:
    batch = Batch([1000], kind="write", offset=4096, size=512)
    block = s.block_of(s.rows_of(batch))
    row = (
        bytes.fromhex("e803000000000000" + "ff" * 16 + "0010000000000000" + "00020000")
        + bytes(10)
        + bytes([1, 0])
    )
    assert block[:12] == b"BLK\n" + bytes.fromhex("3000000001000000")
    assert block[12:16] == zlib.crc32(block[4:12] + row).to_bytes(4, "little")
    assert block[16:] == row
    head = s.encode_header("x")
    assert head[:12] == b"bwtrace\n" + bytes.fromhex("01003000")
    assert len(head) % 16 == 0


def test_what_is_written_is_read(tmp_path: Path) -> None:
    path = written(tmp_path, Batch(range(70_000)), Batch([80_000], "discard"))
    assert [len(rows) for rows in iter_samples(path)] == [65_536, 70_000 - 65_536, 1]
    rows = read_samples(path)
    assert rows["intended"].tolist() == [*range(70_000), 80_000]
    assert rows["kind"][-1] == 3
    assert (rows["issued"] == s.NEVER).all()
    with pytest.raises(InputError, match="more than 70,000 rows"):
        read_samples(path, most_rows=70_000)


def test_no_rows_are_no_error(tmp_path: Path) -> None:
    assert read_samples(written(tmp_path)).shape == (0,)


def test_a_file_whose_writer_was_stopped_has_its_whole_blocks(tmp_path: Path) -> None:
    path = written(tmp_path, Batch([1, 2]))
    path.write_bytes(path.read_bytes()[: -s.BLOCK_HEAD.size])
    assert len(read_samples(path)) == 2


@given(st.data())
def test_any_changed_or_missing_byte_is_told(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    path = written(tmp_path_factory.mktemp("rows"), Batch([1, 2]), Batch([3]))
    whole = path.read_bytes()
    first = len(s.encode_header("test"))
    ends = {first, first + 16 + 96, first + 16 + 96 + 16 + 48, len(whole)}
    if data.draw(st.booleans()):
        cut = data.draw(st.integers(0, len(whole) - 1).filter(lambda n: n not in ends))
        path.write_bytes(whole[:cut])
    else:
        # The four bytes of the head that mean nothing are not looked at.
        places = [n for n in range(len(whole)) if not 20 <= n < 24]
        place = data.draw(st.sampled_from(places))
        flip = data.draw(st.integers(1, 255))
        changed = bytearray(whole)
        changed[place] ^= flip
        path.write_bytes(bytes(changed))
    with pytest.raises(InputError) as caught:
        read_samples(path)
    assert caught.value.diagnostics[0].file == str(path)


@given(st.binary(max_size=200))
def test_anything_else_is_told(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    path = tmp_path_factory.mktemp("any") / "any.bw"
    path.write_bytes(s.MAGIC + data)
    with pytest.raises(InputError):
        read_samples(path)


@given(
    st.lists(
        st.tuples(
            st.integers(0, 2**63 - 1),
            st.integers(0, 4),
            st.integers(0, 2**63 - 1),
            st.integers(0, 2**32 - 1),
        )
    )
)
def test_rows_are_kept_exactly(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[int, int, int, int]]
) -> None:
    rows.sort()
    columns = [list(column) for column in zip(*rows, strict=True)] or [[]] * 4
    at, kind, offset, size = (np.array(c, dtype=np.int64) for c in columns)
    batch = Batch(at, kind=kind, offset=offset, size=size)
    read = read_samples(written(tmp_path_factory.mktemp("rows"), batch))
    found = zip(*(read[n].tolist() for n in ("intended", "kind", "offset", "size")), strict=True)
    assert list(found) == rows


# -- version 2 ---------------------------------------------------------------------------


def zigzag(value: int) -> bytes:
    """Return a difference as the page describes it."""
    signed = (value + 2**63) % 2**64 - 2**63
    left, found = (signed << 1) ^ (signed >> 63), bytearray()
    while left >= 0x80:
        found.append(left & 0x7F | 0x80)
        left >>= 7
    return bytes([*found, left])


def compressed(rows: np.ndarray) -> bytes:
    """Return the block of these rows."""
    columns, before = [b""] * 9, dict.fromkeys(s.ROW.names or (), 0)
    for row in rows:
        now = {name: int(row[name]) for name in before}
        predicted = before | {"issued": now["intended"], "completed": now["issued"]}
        predicted["result"] = now["size"]
        for place, name in enumerate((s.ROW.names or ())[:-1]):
            columns[place] += zigzag(now[name] - predicted[name])
        before = now
    columns = [column if any(column) else b"" for column in columns]
    data = struct.pack("<9I", *map(len, columns)) + b"".join(columns)
    counted = struct.pack("<II", len(data), len(rows))
    return s.BLOCK + counted + struct.pack("<I", zlib.crc32(counted + data)) + data


def compressed_file(directory: Path, *blocks: bytes) -> Path:
    """Write blocks as a file of version 2."""
    path, head = directory / "rows.bw", bytearray(s.encode_header("test"))
    head[8:12] = bytes([s.COMPRESSED, 0, 0, 0])
    path.write_bytes(bytes(head) + b"".join(blocks))
    return path


integers = {name: st.integers(0, 2**64 - 1) for name in ("intended", "issued", "completed")}


@given(
    st.lists(
        st.fixed_dictionaries(
            integers
            | {
                "offset": st.integers(0, 2**64 - 1),
                "size": st.integers(0, 2**32 - 1),
                "result": st.integers(-(2**31), 2**31 - 1),
                "stream": st.integers(0, 2**32 - 1),
                "device": st.integers(0, 2**16 - 1),
                "kind": st.integers(0, 20),
            }
        ),
        min_size=1,
        max_size=8,
    )
)
def test_compressed_rows_are_read(
    tmp_path_factory: pytest.TempPathFactory, found: list[dict[str, int]]
) -> None:
    rows = np.zeros(len(found), s.ROW)
    for place, row in enumerate(found):
        for name, value in row.items():
            rows[name][place] = value
    path = compressed_file(
        tmp_path_factory.mktemp("rows"), compressed(rows), compressed(rows[:1]), s.end_block()
    )
    back = read_samples(path)
    assert back.tolist() == [*rows.tolist(), *rows[:1].tolist()]


def test_the_bytes_of_a_compressed_block_are_those_of_the_page() -> None:
    rows = np.zeros(2, s.ROW)
    rows["intended"], rows["issued"] = [1000, 999], [1064, 999]
    rows["completed"] = [1063, s.NEVER]
    rows["offset"], rows["size"], rows["result"], rows["kind"] = 8192, 4096, 4096, 1
    block = compressed(rows)
    # The same as in crates/bw-record/src/segment.rs.
    assert block[:16] == b"BLK\n" + bytes.fromhex("36000000020000007c80dc92")
    assert block[52:] == bytes.fromhex("d00f0180010001cf0f808001008040000200")


@pytest.mark.parametrize(
    "columns",
    [
        b"",
        struct.pack("<9I", 1, *[0] * 8),
        struct.pack("<9I", *[0] * 9) + b"\0",
        struct.pack("<9I", 2, *[0] * 8) + b"\0\0",
        struct.pack("<9I", 2, *[0] * 8) + b"\0\x80",
        struct.pack("<9I", 11, *[0] * 8) + b"\x80" * 10 + b"\0",
    ],
)
def test_columns_that_do_not_fit_their_rows_are_damage(tmp_path: Path, columns: bytes) -> None:
    counted = struct.pack("<II", len(columns), 1)
    block = s.BLOCK + counted + struct.pack("<I", zlib.crc32(counted + columns)) + columns
    with pytest.raises(InputError, match="block at byte"):
        read_samples(compressed_file(tmp_path, block))
