"""`quiet = [...]` of a suite: settings to change on the machine while it runs.

Forms: an array of words (`quiet = ["services", "isolation=2-5"]`), or a table with that array as
`settings` and with `require = true`, which makes an unavailable setting an error before the run
starts. docs/quiet.md lists the words. Values that this machine does not support are reported when
the suite runs, at the same position.
"""

from __future__ import annotations

from benchwright.features.quiet.types import QuietSettings, quiet_settings, setting_errors
from benchwright.inputs.mistakes import Where, diagnostic
from benchwright.inputs.toml_table import TomlTable

_CODE = "suite-quiet"


def read_quiet(top: TomlTable) -> QuietSettings | None:
    """Return the settings that a suite requests; None if there are none or they are wrong."""
    if not top.has("quiet", list, dict):
        return None
    if isinstance(top.values["quiet"], list):
        return _read(top, "quiet", require=False)
    table = top.table("quiet")
    assert table is not None
    table.only(("settings", "require"))
    if "settings" not in table:
        message = "no setting is given"
        table.wrong(table.where, _CODE, message, 'add settings = ["services"]')
        return None
    return _read(table, "settings", require=table.flag("require", False))


def check_quiet(wanted: QuietSettings) -> None:
    """Raise InputError for values in `quiet` of a suite that this machine does not support."""
    from benchwright.features.quiet.host import Host
    from benchwright.features.quiet.settings import check_values

    check_values(Host(), wanted.wishes, wanted.places)


def _read(table: TomlTable, key: str, *, require: bool) -> QuietSettings | None:
    words = table.texts(key)
    places = _places(table, key)
    wrong = setting_errors(words)
    for index, message in wrong.items():
        table.wrong(places[index], _CODE, message)
    if wrong or not words:
        return None
    at = [diagnostic(place, _CODE, "") for place in places]
    return quiet_settings(words, at, require=require)


def _places(table: TomlTable, key: str) -> list[Where]:
    """Return the position of each word of `TomlTable.texts`."""
    value = table.values[key]
    if not isinstance(value, list):
        return [table.at(key)]
    return [table.at(key, i) for i, one in enumerate(value) if isinstance(one, str)]
