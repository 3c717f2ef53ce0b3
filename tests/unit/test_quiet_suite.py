"""`quiet` in a TOML suite."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchwright.core.errors import InputError
from benchwright.features.quiet.types import SETTINGS, QuietSettings, RequestedSetting
from benchwright.suite.compile import load

TEST = '\n[[test]]\nexec = "true"\n'


def quiet_of(text: str) -> QuietSettings | None:
    return load("s.toml", lambda _path: text).tables.get("quiet")


def asked(text: str) -> tuple[tuple[RequestedSetting, ...], bool]:
    found = quiet_of(text)
    assert found is not None
    return found.wishes, found.require


def test_an_array_of_words() -> None:
    text = 'quiet = ["isolation=2-5", "services=cron,atd"]' + TEST
    wanted = (
        RequestedSetting("services", ("cron", "atd")),
        RequestedSetting("isolation", ("2-5",)),
    )
    assert asked(text) == (wanted, False)
    assert quiet_of(TEST) is None


def test_a_table_can_require_them() -> None:
    text = TEST + '\n[quiet]\nsettings = ["swap"]\nrequire = true\n'
    assert asked(text) == ((RequestedSetting("swap"),), True)


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [
        ('quiet = ["swap", "trubo"]' + TEST, 1, 18),
        ("quiet = 3" + TEST, 1, 9),
        ('quiet = ["swap", "aslr=7"]' + TEST, 1, 18),
        ('quiet = ["swap",\n  "isolation=5-2"]' + TEST, 2, 3),
        (TEST + '[quiet]\nsettings = "aslr=7"\n', 5, 12),
        (TEST + "[quiet]\nrequire = true\n", 4, 2),
        (TEST + '[quiet]\nsettings = ["swap"]\nneed = 1\n', 6, 1),
    ],
)
def test_a_mistake_is_placed(text: str, line: int, column: int) -> None:
    with pytest.raises(InputError) as caught:
        quiet_of(text)
    (found,) = caught.value.diagnostics
    assert (found.line, found.column) == (line, column)


def test_each_wish_knows_its_place() -> None:
    """Also beside what is no word at all, and of a setting that is named twice."""
    found = quiet_of('quiet = ["aslr", "all",\n "aslr=1"]' + TEST)
    assert found is not None
    places = dict(zip((w.name for w in found.wishes), found.places, strict=True))
    assert (places["aslr"].line, places["aslr"].column) == (2, 2)
    assert (places["swap"].line, places["swap"].column) == (1, 18)
    with pytest.raises(InputError) as caught:
        quiet_of('quiet = [3, "aslr=7"]' + TEST)
    assert [d.column for d in caught.value.diagnostics] == [10, 13]


def test_the_page_has_every_setting_in_order() -> None:
    page = (Path(__file__).parents[2] / "docs" / "quiet.md").read_text()
    assert re.findall(r"^\| `([a-z-]+)` \|", page, re.MULTILINE) == list(SETTINGS)


def test_the_pages_suite_is_read() -> None:
    page = (Path(__file__).parents[2] / "docs" / "quiet.md").read_text()
    (example,) = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    assert quiet_of(example + TEST) is not None
