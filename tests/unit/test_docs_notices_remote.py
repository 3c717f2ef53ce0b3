"""The suites of docs/notices.md and docs/remote.md compile, and the events are all there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchwright.core.notice import ALL_EVENTS
from benchwright.notice import text as notice_text
from benchwright.suite.compile import load
from benchwright.suite.toml_sections import SENT

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("name", ["notices.md", "remote.md"])
def test_suites_compile(name: str) -> None:
    blocks = re.findall(r"```toml\n(.*?)```", (DOCS / name).read_text(), re.DOTALL)
    assert blocks
    for block in blocks:

        def reader(_path: str, text: str = block) -> str:
            return text

        assert load("s.toml", reader, defines={}, environment={}).steps


def test_every_event_hook_and_variable_is_described() -> None:
    notices = (DOCS / "notices.md").read_text()
    assert [e for e in ALL_EVENTS if f"| `{e}` |" not in notices] == []
    names = re.findall(r"`(?:BW_NOTICE)?(_[A-Z_]+)`", notices)
    given = re.findall(r'"([A-Z_]+)":', Path(notice_text.__file__).read_text())
    assert set(names) == {f"_{name}" for name in given}
    remote = (DOCS / "remote.md").read_text()
    assert [hook for hook in SENT if f"`{hook}`" not in remote] == []
