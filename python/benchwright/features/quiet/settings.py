"""All settings by name; `quiet = [...]` of a suite, which changes them on the machine while the
suite runs; and the check of requested values before anything is changed.

Forms: an array of words (`quiet = ["services", "isolation=2-5"]`), or a table with that array as
`settings` and with `require = true`, which makes an unavailable setting an error before the run
starts. docs/quiet.md lists the words. Values that this machine does not support are reported when
the suite runs, at the same position.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import msgspec

from benchwright.core.errors import Diagnostic, InputError
from benchwright.core.quantity import cpu_list, parse_cpu_list
from benchwright.features.quiet import cpus
from benchwright.features.quiet.cpus import IrqAffinity, Smt
from benchwright.features.quiet.host import Host, Setting, SettingRefused
from benchwright.features.quiet.isolation import Isolation
from benchwright.features.quiet.kernel_files import (
    KERNEL_FILES,
    Caches,
    Dirty,
    Nologin,
    available,
    choices,
    governors,
    huge_pages,
)
from benchwright.features.quiet.server_resources import Disks, Groups
from benchwright.features.quiet.services import Services
from benchwright.features.quiet.swap import Swap, devices, means
from benchwright.features.quiet.types import (
    CPU_SETTINGS,
    DOCUMENTED_VALUES,
    QuietSettings,
    RequestedSetting,
    quiet_settings,
    setting_errors,
    setting_value_error,
    value_not_allowed,
)
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


# -- All settings by name --------------------------------------------------------------

_ALL: tuple[Setting, ...] = (
    *(Nologin(), Services(), Swap(), Dirty(), Smt(), *KERNEL_FILES),
    *(IrqAffinity(), Isolation(), Caches()),
    # No user requests these two: a spec does (features/search/server/host.py).
    *(Disks(), Groups()),
)
REGISTRY: dict[str, Setting] = {setting.name: setting for setting in _ALL}


# --------------------------------------------------------------------------------------
# The values that this machine accepts, checked before anything is changed or logged.
#
# Decision: the machine's own list if it reports one, else the kernel's documentation
# (features/quiet/types.py). Rejected: relying on the error of the write. It comes after other
# settings are changed, and would be reported as unavailable, not as the user's mistake. A setting
# that the machine does not have (no frequency governors) is unavailable, not an input error.

ValueCheck = Callable[[Host, RequestedSetting], str]


def check_values(
    host: Host, wishes: Sequence[RequestedSetting], places: Sequence[Diagnostic] = ()
) -> None:
    """Raise InputError with every value that the machine does not accept.

    `places` are the positions of the wishes, in the same order; without them, messages quote
    the settings.
    """
    shown = places or [_place(wish) for wish in wishes]
    mistakes = [
        msgspec.structs.replace(place, message=why)
        for wish, place in zip(wishes, shown, strict=True)
        if wish.values and (why := _value_fault(host, wish, wishes))
    ]
    if mistakes:
        raise InputError(sorted(mistakes, key=lambda d: (d.file, d.line, d.column)))


def _place(wish: RequestedSetting) -> Diagnostic:
    word = f"{wish.name}={','.join(wish.values)}"
    return Diagnostic("quiet-value", "", file="quiet", text=word)


def _value_fault(host: Host, wish: RequestedSetting, wishes: Sequence[RequestedSetting]) -> str:
    """Return what is wrong with a wish's values; empty if nothing, or if that is unknown.

    `wishes` are all wishes of the same request.
    """
    if why := setting_value_error(wish.name, wish.values):
        return why
    check = _CHECKS.get(wish.name)
    try:
        if wish.name in CPU_SETTINGS:
            return _processors(host, wish, wishes)
        return check(host, wish) if check else ""
    except SettingRefused:
        return ""  # an unreadable setting is reported as unavailable


def _governor(host: Host, wish: RequestedSetting) -> str:
    files = map(available, governors(host))
    lists = (host.read(path) for path in files)
    listed = [text.split() for text in lists if text is not None]
    return _chosen(wish, _in_all(listed) or DOCUMENTED_VALUES[wish.name])


def _huge_pages(host: Host, wish: RequestedSetting) -> str:
    listed = [choices(host, path) for path in huge_pages(host)]
    return _chosen(wish, _in_all(filter(None, listed)) or DOCUMENTED_VALUES[wish.name])


def _chosen(wish: RequestedSetting, allowed: Sequence[str]) -> str:
    (value,) = wish.values
    return "" if value in allowed else value_not_allowed(wish.name, value, allowed)


def _in_all(lists: Iterable[Sequence[str]]) -> list[str]:
    """Return the words that every list has, in the order of the first."""
    first, *others = [*lists] or [()]
    return [word for word in first if all(word in other for other in others)]


def _processors(host: Host, wish: RequestedSetting, wishes: Sequence[RequestedSetting]) -> str:
    online, told = cpus.online(host), "what is online"
    if any(Smt().plan(host, wish).changes for wish in wishes if wish.name == Smt.name):
        # SMT is applied earlier and takes these CPUs offline.
        online, told = online - cpus.second_threads(host), f"{told} with smt off"
    missing = set(parse_cpu_list(",".join(wish.values))) - online
    if not missing:
        return ""
    allowed = f"{told}, {cpu_list(online)}"
    return value_not_allowed(wish.name, cpu_list(missing), (allowed,))


def _swap(host: Host, wish: RequestedSetting) -> str:
    used = devices(host)
    for value in wish.values:
        known = any(means(host, value, device) for device in used)
        if not known and not _exists(host, value):
            now = ", ".join(device.path for device in used) or "none"
            allowed = f"paths of swap devices and files, now {now}"
            return value_not_allowed(wish.name, value, (allowed,))
    return ""


def _exists(host: Host, value: str) -> bool:
    path = Path(value)
    return path.is_absolute() and (host.root / value.lstrip("/")).exists()


_CHECKS: dict[str, ValueCheck] = {"governor": _governor, "thp": _huge_pages, "swap": _swap}
