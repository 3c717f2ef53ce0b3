"""`quiet` in a TOML suite."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchwright.model.errors import InputError
from benchwright.model.quiet import SETTINGS, Quieting, Wish
from benchwright.suite.load import load

TEST = '\n[[test]]\nexec = "true"\n'


def quiet_of(text: str) -> Quieting | None:
    return load("s.toml", lambda _path: text).quiet


def test_an_array_of_words() -> None:
    text = 'quiet = ["isolation=2-5", "services=cron,atd"]' + TEST
    wanted = (Wish("services", ("cron", "atd")), Wish("isolation", ("2-5",)))
    assert quiet_of(text) == Quieting(wanted)
    assert quiet_of(TEST) is None


def test_a_table_can_require_them() -> None:
    text = TEST + '\n[quiet]\nsettings = ["swap"]\nrequire = true\n'
    assert quiet_of(text) == Quieting((Wish("swap"),), require=True)


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [
        ('quiet = ["swap", "trubo"]' + TEST, 1, 18),
        ("quiet = 3" + TEST, 1, 9),
        (TEST + "[quiet]\nrequire = true\n", 4, 2),
        (TEST + '[quiet]\nsettings = ["swap"]\nneed = 1\n', 6, 1),
    ],
)
def test_a_mistake_is_placed(text: str, line: int, column: int) -> None:
    with pytest.raises(InputError) as caught:
        quiet_of(text)
    (found,) = caught.value.diagnostics
    assert (found.line, found.column) == (line, column)


def test_the_page_has_every_setting_in_order() -> None:
    page = (Path(__file__).parents[2] / "docs" / "quiet.md").read_text()
    assert re.findall(r"^\| `([a-z-]+)` \|", page, re.MULTILINE) == list(SETTINGS)


def test_the_pages_suite_is_read() -> None:
    page = (Path(__file__).parents[2] / "docs" / "quiet.md").read_text()
    (example,) = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    assert quiet_of(example + TEST) is not None
