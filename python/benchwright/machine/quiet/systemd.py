"""Units of systemd: which run, and what would start them again.

Source: systemctl(1), `show`; sd_booted(3).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from benchwright.machine.quiet.host import Host, Refused
from benchwright.machine.quiet.setting import Plan, lacking
from benchwright.model.quiet import Change

_KINDS = (".service", ".timer", ".socket", ".path")
_TRIGGERS = _KINDS[1:]
_PROPERTIES = "Id,LoadState,ActiveState,TriggeredBy"
_WORKING = ("activating", "deactivating", "reloading", "maintenance")
Unit = dict[str, str]


def runs(host: Host) -> bool:
    """Tell whether systemd is the machine's init."""
    return (host.root / "run/systemd/system").is_dir()


def plan(host: Host, names: Sequence[str]) -> Plan:
    """Return the units of these names that are active, what triggers them first."""
    named = {
        unit: name
        for name in names
        for unit in ([name] if name.endswith(_KINDS) else [name + k for k in _KINDS])
    }
    active = {u["Id"]: u for u in _shown(host, named) if u["ActiveState"] == "active"}
    working = [u for u in _shown(host, named) if u["ActiveState"] in _WORKING]
    triggers = {t for u in active.values() for t in u.get("TriggeredBy", "").split()}
    for unit in _shown(host, triggers - set(active)):
        if unit["ActiveState"] == "active":
            active[unit["Id"]] = unit
    if active and not host.superuser:
        return lacking(f"{len(active)} units may not be stopped: run as root")
    order = sorted(active, key=lambda name: (not name.endswith(_TRIGGERS), name))
    changes = tuple(
        Change("services", f"unit {u}", "running", "stopped") for u in order
    )
    why = tuple(f"{u['Id']} is at work ({u['ActiveState']}): left" for u in working)
    return Plan(changes, why)


def state(host: Host, unit: str) -> str | None:
    """Return whether a unit runs; None when systemd knows it no more."""
    for shown in _shown(host, [unit]):
        return "running" if shown["ActiveState"] in ("active", *_WORKING) else "stopped"
    return None


def _shown(host: Host, units: Iterable[str]) -> list[Unit]:
    """Return the properties of those units that are loaded."""
    wanted = sorted(units)
    if not wanted:
        return []
    ran = host.run(("systemctl", "show", f"--property={_PROPERTIES}", "--", *wanted))
    if ran.status != 0:
        raise Refused(f"systemctl show: {ran.output or ran.status}")
    blocks = (block.splitlines() for block in ran.output.split("\n\n"))
    found = [dict(line.split("=", 1) for line in b if "=" in line) for b in blocks]
    loaded = (unit for unit in found if unit.get("LoadState") == "loaded")
    return list({unit["Id"]: unit for unit in loaded}.values())
