"""Stops services and starts them again: systemd units, init scripts, paused processes."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from signal import SIGCONT, SIGSTOP

from benchwright.core.processes import Process
from benchwright.features.quiet.host import Host, SettingPlan, SettingRefused, unavailable
from benchwright.features.quiet.types import RequestedSetting, SettingChange

# -- Units of systemd: which are active, and which would start them again --------------
#
# Source: systemctl(1), `show`; sd_booted(3).

_KINDS = (".service", ".timer", ".socket", ".path")
_TRIGGERS = _KINDS[1:]
_PROPERTIES = "Id,LoadState,ActiveState,TriggeredBy"
_WORKING = ("activating", "deactivating", "reloading", "maintenance")
SystemdUnit = dict[str, str]


def unit_runs(host: Host) -> bool:
    """Return whether systemd is the machine's init."""
    return (host.root / "run/systemd/system").is_dir()


def unit_plan(host: Host, names: Sequence[str]) -> SettingPlan:
    """Return changes for the active units of these names, their triggers first."""
    named = {
        unit: name
        for name in names
        for unit in ([name] if name.endswith(_KINDS) else [name + k for k in _KINDS])
    }
    active = {u["Id"]: u for u in _unit_properties(host, named) if u["ActiveState"] == "active"}
    working = [u for u in _unit_properties(host, named) if u["ActiveState"] in _WORKING]
    triggers = {t for u in active.values() for t in u.get("TriggeredBy", "").split()}
    for unit in _unit_properties(host, triggers - set(active)):
        if unit["ActiveState"] == "active":
            active[unit["Id"]] = unit
    if active and not host.superuser:
        return unavailable(f"{len(active)} units may not be stopped: run as root")
    order = sorted(active, key=lambda name: (not name.endswith(_TRIGGERS), name))
    changes = tuple(SettingChange("services", f"unit {u}", "running", "stopped") for u in order)
    why = tuple(f"{u['Id']} is working ({u['ActiveState']}): left running" for u in working)
    return SettingPlan(changes, why)


def unit_state(host: Host, unit: str) -> str | None:
    """Return whether a unit runs; None if systemd no longer knows it."""
    for unit_property in _unit_properties(host, [unit]):
        return "running" if unit_property["ActiveState"] in ("active", *_WORKING) else "stopped"
    return None


def _unit_properties(host: Host, units: Iterable[str]) -> list[SystemdUnit]:
    """Return the properties of the units that are loaded."""
    wanted = sorted(units)
    if not wanted:
        return []
    ran = host.run(("systemctl", "show", f"--property={_PROPERTIES}", "--", *wanted))
    if ran.status != 0:
        raise SettingRefused(f"systemctl show: {ran.output or ran.status}")
    blocks = (block.splitlines() for block in ran.output.split("\n\n"))
    found = [dict(line.split("=", 1) for line in b if "=" in line) for b in blocks]
    loaded = (unit for unit in found if unit.get("LoadState") == "loaded")
    return list({unit["Id"]: unit for unit in loaded}.values())


# --------------------------------------------------------------------------------------
# Services: units, scripts, or paused processes.
#
# Decision: a unit's timers, sockets and paths are stopped before it, or they would start it
# again. A unit that is `activating` (apt upgrades the system) is left: interrupting it could
# harm the machine. Without systemd, an /etc/init.d script whose `status` reports success is
# stopped. Any other process, identified by process id and start time, is paused by SIGSTOP
# and continued by SIGCONT, so that it loses no state.
# Source: Auto-pilot paper, section 3.5; systemctl(1), service(8).

# Settings share one protocol, so some methods do not use every argument.
# ruff: noqa: ARG002


RUNNING, STOPPED = "running", "stopped"
DEFAULT = (
    *("cron", "crond", "cronie", "anacron", "atd", "fcron", "systemd-cron"),
    *("apt-daily", "apt-daily-upgrade", "unattended-upgrades", "unattended-upgr"),
    *("dnf-makecache", "dnf-automatic", "yum-cron", "pacman-filesdb-refresh"),
    *("packagekit", "packagekitd", "fwupd", "fwupd-refresh", "snapd", "snapd.snap-repair"),
    *("man-db", "updatedb", "plocate-updatedb", "mlocate", "mlocate-updatedb"),
    *("fstrim", "logrotate", "e2scrub_all", "dpkg-db-backup", "systemd-tmpfiles-clean"),
    *("motd-news", "update-notifier-download", "update-notifier-motd", "ua-timer"),
    *("mdcheck_start", "mdcheck_continue", "mdmonitor-oneshot", "raid-check"),
    *("sysstat", "sysstat-collect", "sysstat-summary", "sysstat-rotate", "atop", "pcp"),
    *("sendmail", "exim4", "postfix", "opensmtpd", "nullmailer", "fetchmail"),
    *("cups", "cupsd", "cups-browsed", "lpd", "lprng"),
    *("inetd", "xinetd", "openbsd-inetd", "inetutils-inetd"),
    *("avahi-daemon", "bluetooth", "ModemManager", "smartd", "smartmontools"),
    *("tracker-miner-fs-3", "tracker-extract-3", "baloo_file", "geoclue"),
    *("irqbalance", "thermald", "tuned", "power-profiles-daemon"),
)
"""The services stopped by default: those that start work by themselves, and those that would
change CPU settings while the machine is quiet. ssh is not included."""
_SSH = ("ssh", "sshd")
_WAITS = 200
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:@+\\-]*")
_PROCESS = re.compile(r"\d+ \d+ .*", re.DOTALL)


class Services:
    """Services, timers and daemons."""

    name = "services"

    def plan(self, host: Host, wish: RequestedSetting) -> SettingPlan:
        """Return changes for the requested services that run."""
        names = list(wish.values or DEFAULT)
        left = []
        if any(name in _SSH for name in names) and (who := _logged_in(host)):
            names = [name for name in names if name not in _SSH]
            left.append(f"ssh is left running: a user is logged in through it (process {who})")
        way = unit_plan if unit_runs(host) else _plain
        setting_plan = way(host, names)
        return SettingPlan(setting_plan.changes, (*left, *setting_plan.lacking))

    def now(self, host: Host) -> str:
        """Return which of the default services run."""
        changes = self.plan(host, RequestedSetting(self.name)).changes
        return ", ".join(change.item for change in changes) or "none of the usual services runs"

    def check(self, host: Host, change: SettingChange) -> None:
        """Raise SettingRefused unless the item is the plain name of a service."""
        _parts(change)

    def read(self, host: Host, change: SettingChange) -> str | None:
        """Return whether the service runs; None if it no longer exists."""
        kind, name = _parts(change)
        if kind == "unit":
            return unit_state(host, name)
        if kind == "script":
            return RUNNING if _script_runs(host, name) else STOPPED
        process = _known(host, name)
        if process is None:
            return None
        return STOPPED if process.state in "Tt" else RUNNING

    def write(self, host: Host, change: SettingChange, value: str) -> str:
        """Stop or start the service."""
        kind, name = _parts(change)
        verb = "start" if value == RUNNING else "stop"
        if kind == "process":
            self._signal(host, change, name, value)
            return ""
        argv = ("systemctl", verb, name) if kind == "unit" else ("service", name, verb)
        ran = host.run(argv)
        if ran.status != 0:
            raise SettingRefused(f"{' '.join(argv)}: {ran.output or ran.status}")
        return ""

    def _signal(self, host: Host, change: SettingChange, name: str, value: str) -> None:
        process = _known(host, name)
        if process is None:
            raise SettingRefused(f"{name.rsplit(' ', 1)[-1]} has ended")
        host.signal(process.pid, SIGCONT if value == RUNNING else SIGSTOP)
        for _ in range(_WAITS):
            if self.read(host, change) in (value, None):
                return
            host.rest(0.005)


def _plain(host: Host, names: Sequence[str]) -> SettingPlan:
    """Return the plan for a machine without systemd."""
    changes, scripts = [], set()
    for name in names:
        script = host.root / "etc/init.d" / name
        if os.access(script, os.X_OK) and "/" not in name and _script_runs(host, name):
            scripts.add(name)
            if not host.superuser:
                return unavailable(f"service {name} may not be stopped: run as root")
            changes.append(_change(f"script {name}"))
    mine = host.ancestors(host.own_pid) | host.tree(host.own_pid)
    why = []
    for process in host.processes():
        wanted = process.name in (name[:15] for name in names if name not in scripts)
        if not wanted or process.is_kernel or process.state in "TtZX":
            continue
        if process.pid in mine:
            why.append(f"{process.name} (process {process.pid}) is part of this run")
        elif not host.may_signal(process.pid):
            why.append(f"{process.name} (process {process.pid}) belongs to another user")
        else:
            item = f"process {process.pid} {process.started_ticks} {process.name}"
            changes.append(_change(item))
    return SettingPlan(tuple(changes), tuple(why))


def _change(item: str) -> SettingChange:
    return SettingChange(Services.name, item, RUNNING, STOPPED)


def _parts(change: SettingChange) -> tuple[str, str]:
    """Return an item's kind and name. Raises SettingRefused for an item no plan contains.

    `service` would run a path: an item from a log must be a plain name.
    """
    kind, _, name = change.item.partition(" ")
    form = _PROCESS if kind == "process" else _NAME
    if kind not in ("unit", "script", "process") or not form.fullmatch(name):
        raise SettingRefused(f"{change.item!r} is not the plain name of a service")
    return kind, name


def _script_runs(host: Host, name: str) -> bool:
    return host.run(("service", name, "status")).status == 0


def _known(host: Host, name: str) -> Process | None:
    """Return the process of an item `PID START NAME`; None if it has ended."""
    pid, start, _ = name.split(" ", 2)
    process = host.process(int(pid))
    if process is None or process.started_ticks != int(start) or process.state in "ZX":
        return None
    return process


def _logged_in(host: Host) -> int:
    """Return the id of a process that serves an ssh login; 0 if there is none."""
    found = {process.pid: process for process in host.processes()}
    for process in found.values():
        parent = found.get(process.parent)
        if process.name == "sshd-session" or (
            process.name == "sshd" and parent is not None and parent.name == "sshd"
        ):
            return process.pid
    return 0
