"""`quiet = [...]` of a suite: how the machine is put in order while it runs.

Forms: an array of words (`quiet = ["services", "isolation=2-5"]`), or a table with that array
as `settings` and `require = true`, where what cannot be had ends the run before it
begins. docs/quiet.md has the words.
"""

from __future__ import annotations

from benchwright.model.quiet import Quieting, wishes
from benchwright.suite.toml_table import Table


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
        table.wrong(table.where, "suite-quiet", message, 'add settings = ["services"]')
        return None
    return _read(table, "settings", require=table.flag("require", False))


def _read(table: Table, key: str, *, require: bool) -> Quieting | None:
    words = table.texts(key)
    good = True
    for index, word in enumerate(words):
        try:
            wishes([word])
        except ValueError as error:
            good = False
            table.wrong(table.at(key, index), "suite-quiet", str(error))
    return Quieting(wishes(words), require) if good and words else None
