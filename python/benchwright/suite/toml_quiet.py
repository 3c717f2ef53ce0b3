"""`quiet = [...]` of a suite: how the machine is put in order while it runs.

Forms: an array of words (`quiet = ["services", "isolation=2-5"]`), or a table with that array
as `settings` and `require = true`, where what cannot be had ends the run before it
begins. docs/quiet.md has the words. What is wrong for this machine only is found when
the suite runs, and told at the same place.
"""

from __future__ import annotations

from benchwright.model.quiet import Quieting, mistakes, quieting
from benchwright.suite.fault import diagnostic
from benchwright.suite.program import Where
from benchwright.suite.toml_table import Table

_CODE = "suite-quiet"


def quiet_of(top: Table) -> Quieting | None:
    """Return what a suite asks for, None when it says nothing or its mistakes are told."""
    if not top.has("quiet", list, dict):
        return None
    if isinstance(top.values["quiet"], list):
        return _read(top, "quiet", require=False)
    table = top.table("quiet")
    assert table is not None
    table.only(("settings", "require"))
    if "settings" not in table:
        message = "no setting is named"
        table.wrong(table.where, _CODE, message, 'add settings = ["services"]')
        return None
    return _read(table, "settings", require=table.flag("require", False))


def _read(table: Table, key: str, *, require: bool) -> Quieting | None:
    words = table.texts(key)
    places = _places(table, key)
    wrong = mistakes(words)
    for index, message in wrong.items():
        table.wrong(places[index], _CODE, message)
    if wrong or not words:
        return None
    at = [diagnostic(place, _CODE, "") for place in places]
    return quieting(words, at, require=require)


def _places(table: Table, key: str) -> list[Where]:
    """Return where each word of `Table.texts` stands."""
    value = table.values[key]
    if not isinstance(value, list):
        return [table.at(key)]
    return [table.at(key, i) for i, one in enumerate(value) if isinstance(one, str)]
