"""What a resumed search says of a spec that is another by now."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchwright.cli.search_live import changed_spec
from benchwright.suite.program import SourceFile


@pytest.mark.parametrize(
    ("now", "told"),
    [
        (b"a = 1\n", False),
        (b"a = 2\n", True),
        (b"", True),
        (b"\xff", True),
        (None, False),
    ],
)
def test_a_changed_spec_is_told_and_a_missing_one_is_not(
    tmp_path: Path, now: bytes | None, told: bool
) -> None:
    if now is not None:
        (tmp_path / "spec.toml").write_bytes(now)
    said = changed_spec(str(tmp_path), SourceFile("spec.toml", "a = 1\n"))
    assert ("spec.toml has changed since" in said) == told
    assert bool(said) == told


def test_a_search_without_a_spec_has_none_that_could_change(tmp_path: Path) -> None:
    assert changed_spec(str(tmp_path), None) == ""
