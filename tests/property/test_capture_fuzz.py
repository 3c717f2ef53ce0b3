"""Whatever the kernel's files say, a capture is made, and no absence lacks its reason."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchwright.core.machine import MachineCapture
from benchwright.findings.environment import difference
from benchwright.report.env import machine_text
from machine_trees import MachineTree, bare_metal

PIECES = (
    *(b"0", b"-1", b"99999999999999999999", b"x", b" ", b"\n", b":", b" - ", b"("),
    *(b")", b",", b"0-", b"max", b"/", b"=", b"S", b"\t", b"1-3", b"a b", "²".encode()),
)
TEXTS = st.one_of(
    st.binary(max_size=60), st.lists(st.sampled_from(PIECES), max_size=16).map(b"".join)
)


@pytest.fixture(scope="module")
def machine() -> Iterator[MachineTree]:
    """Return a machine whose files may be overwritten."""
    root = Path(tempfile.mkdtemp())
    yield bare_metal(root)
    shutil.rmtree(root)


@settings(max_examples=60)
@given(st.data())
def test_any_text_in_any_file(machine: MachineTree, data: st.DataObject) -> None:
    files = sorted(p for p in machine.root.rglob("*") if p.is_file())
    chosen = data.draw(st.lists(st.sampled_from(files), min_size=8, max_size=40))
    before = machine.capture()
    kept = {path: path.read_bytes() for path in chosen}
    for path in chosen:
        path.write_bytes(data.draw(TEXTS))
    try:
        captured = machine.capture()
    finally:
        for path, content in kept.items():
            path.write_bytes(content)
    assert all((f.value is None) == bool(f.absent) for f in captured.facts)
    again = msgspec.json.decode(msgspec.json.encode(captured), type=MachineCapture)
    assert again == captured
    assert machine_text(captured)
    assert difference(captured, captured).changes == ()
    assert difference(before, captured).changes or before.facts == captured.facts
