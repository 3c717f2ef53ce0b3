"""A machine made of plain files: what the kernel and service managers do, honestly small.

Everything that it knows is on the disk below its root, so that a process that is killed
leaves it as a real one would be left, and another can go on with it.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

from benchwright.features.quiet.host import Host, ProgramResult, SettingRefused

BOOT = "11111111-2222-3333-4444-555555555555"
AREA = "\0" * (os.sysconf("SC_PAGE_SIZE") - 10) + "SWAPSPACE2"
"""What mkswap(8) leaves in a device's first page."""
CPU = "sys/devices/system/cpu"
FILES = {
    "proc/sys/kernel/random/boot_id": BOOT,
    "proc/sys/kernel/randomize_va_space": "2",
    "proc/sys/kernel/nmi_watchdog": "1",
    "proc/sys/vm/swappiness": "60",
    "proc/sys/vm/drop_caches": "0",
    "proc/meminfo": "MemAvailable: 900000 kB\nDirty: 10 kB\nWriteback: 0 kB\nCached: 5 kB",
    "proc/swaps": "Filename Type Size Used Priority\n"
    "/dev/sdb1 partition 1000 10 5\n/swap\\040file file 1000 0 -2\n"
    "/dev/zram0 partition 1000 0 -3",
    "etc/fstab": "/dev/sdb1 none swap sw,discard=once,pri=5 0 0",
    "dev/sdb1": AREA,
    "swap file": AREA,
    "dev/zram0": AREA,
    f"{CPU}/online": "0-3",
    f"{CPU}/possible": "0-3",
    f"{CPU}/smt/control": "on",
    f"{CPU}/cpu0/topology/thread_siblings_list": "0",
    f"{CPU}/intel_pstate/no_turbo": "0",
    "sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never",
    "sys/kernel/mm/transparent_hugepage/defrag": "always defer [madvise] never",
    "proc/irq/1/smp_affinity_list": "0-3",
    "proc/irq/9/smp_affinity_list": "2-3",
    "proc/irq/10/smp_affinity_list": "0",
    "proc/irq/11/smp_affinity_list": "1",
    "units/cron.service": "active",
    "units/apt-daily.timer": "active",
    "units/apt-daily.service": "inactive",
    "units/cups.service": "active by cups.socket",
    "units/cups.socket": "active",
    "units/man-db.service": "activating",
    "etc/init.d/cron": "",
    "sysv/cron": "running",
}
CPUSET = ("cpuset.cpus", "cpuset.mems")
BOUND = 2
"""A kernel thread that cannot be moved, as `migration/0`."""
PROCESSES = {
    1: ("init", "/", 0),
    BOUND: ("kthreadd", "/", 0),
    20: ("crond", "/", 1),
    21: ("atd", "/", 1),
    30: ("bash", "/", 1),
    31: ("bw", "/", 30),
    40: ("web", "/box/web", 1),
}


class MadeUp(Host):
    """The made-up machine; `point` is called after every effect."""

    def __init__(
        self,
        root: Path,
        *,
        version: int = 1,
        point: Callable[[], None] = lambda: None,
        refuse: str = "",
    ) -> None:
        super().__init__(root, run=self._run, kill=self._kill, superuser=True)
        self.own_pid = 31
        self.version = version
        self.point = point
        self.refuse = refuse
        """A part of a path, or of a command, that cannot be written or done."""

    @property
    def groups(self) -> Path:
        """The cpuset hierarchy."""
        return self.sys / ("fs/cgroup/cpuset" if self.version == 1 else "fs/cgroup")

    # -- what the kernel does --------------------------------------------------------

    def write(self, path: Path, text: str) -> None:
        if self.refuse and self.refuse in str(path):
            raise SettingRefused(f"{path}: Input/output error")
        if path.name == "cgroup.procs":
            self._move(int(text), path)
        elif path.name == "cgroup.subtree_control":
            self._control(path, on=text == "+cpuset")
        elif path.name == "cpuset.cpus" and not text and self._has_tasks(path.parent):
            raise SettingRefused(f"{path}: No space left on device")
        elif path.name == "control":
            super().write(path, text)
            if text == "off":
                self._offline()
            (self.root / CPU / "online").write_text("0-1" if text == "off" else "0-3")
        elif "transparent_hugepage" in str(path):
            words = path.read_text().replace("[", "").replace("]", "").split()
            assert text in words
            told = (f"[{word}]" if word == text else word for word in words)
            path.write_text(" ".join(told))
        else:
            super().write(path, text)
        self.point()

    def _control(self, path: Path, *, on: bool) -> None:
        """The controller's files in the groups below come and go with it."""
        groups = [one for one in path.parent.iterdir() if one.is_dir()]
        below = [group / path.name for group in groups]
        if not on and any("cpuset" in one.read_text() for one in below):
            raise SettingRefused(f"{path}: Device or resource busy")
        path.write_text("cpu cpuset" if on else "cpu")
        for group in groups:
            for name in CPUSET:
                if on:
                    (group / name).touch()
                else:
                    (group / name).unlink(missing_ok=True)

    def _has_tasks(self, group: Path) -> bool:
        return any(path.read_text() for path in group.rglob("cgroup.procs"))

    def _files_of(self, group: Path) -> tuple[str, ...]:
        """Return the files that a new group has."""
        if self.version == 1:
            return (*CPUSET, "cgroup.procs")
        above = group.parent / "cgroup.subtree_control"
        there = CPUSET if "cpuset" in above.read_text() else ()
        return (*there, "cgroup.procs", "cgroup.subtree_control", "cgroup.type")

    def _offline(self) -> None:
        first = self.groups.glob("*/**/cpuset.cpus") if self.version == 1 else ()
        for path in (*self.glob("proc/irq/*/*list"), *first):
            text = path.read_text()
            path.write_text({"0-3": "0-1", "2-3": "0", "1-3": "1"}.get(text, text))

    def _move(self, pid: int, target: Path) -> None:
        if pid == BOUND:
            raise SettingRefused(f"{target}: Invalid argument")
        for path in self.groups.rglob("cgroup.procs"):
            words = path.read_text().split()
            if str(pid) in words:
                words.remove(str(pid))
                path.write_text("\n".join(words))
        words = [*target.read_text().split(), str(pid)]
        target.write_text("\n".join(sorted(words, key=int)))
        group = "/" + str(target.parent.relative_to(self.groups)).strip(".")
        (self.proc / str(pid) / "cgroup").write_text(_cgroup_line(self.version, group))

    def create(self, path: Path, text: str) -> None:
        super().create(path, text)
        self.point()

    def remove(self, path: Path) -> None:
        super().remove(path)
        self.point()

    def make_directory(self, path: Path) -> None:
        super().make_directory(path)
        for name in self._files_of(path):
            (path / name).touch()
        self.point()

    def remove_directory(self, path: Path) -> bool:
        if not path.exists():
            return True
        if (path / "cgroup.procs").read_text():
            return False
        shutil.rmtree(path)
        self.point()
        return True

    def _kill(self, pid: int, number: int) -> None:
        state = "T" if number == 19 else "S"
        name, _, parent = PROCESSES[pid]
        (self.proc / str(pid) / "stat").write_text(_stat(pid, name, state, parent))
        self.point()

    def sync(self) -> None:
        self.point()

    # -- what programs do ------------------------------------------------------------

    def _run(self, argv: tuple[str, ...]) -> ProgramResult:
        if self.refuse and self.refuse in " ".join(argv):
            return ProgramResult(1, "Job failed")
        match argv:
            case ("systemctl", "show", _, "--", *units):
                return ProgramResult(0, "\n\n".join(map(self._shown, units)))
            case ("systemctl", verb, unit):
                path = self.root / "units" / unit
                _, by, trigger = path.read_text().partition(" by ")
                state = "active" if verb == "start" else "inactive"
                path.write_text(state + by + trigger)
            case ("service", name, "status"):
                path = self.root / "sysv" / name
                return ProgramResult(0 if path.read_text() == "running" else 3, "")
            case ("service", name, verb):
                state = "running" if verb == "start" else "stopped"
                (self.root / "sysv" / name).write_text(state)
            case ("swapoff", device):
                self._swaps([r for r in self._swaps() if r[0] != _escaped(device)])
            case ("swapon", *options, device):
                self._swap_on(options, _escaped(device))
            case _:
                raise AssertionError(argv)
        self.point()
        return ProgramResult(0, "")

    def _shown(self, unit: str) -> str:
        path = self.root / "units" / unit
        if not path.exists():
            return f"Id={unit}\nLoadState=not-found\nActiveState=inactive\nTriggeredBy="
        state, _, trigger = path.read_text().partition(" by ")
        told = f"LoadState=loaded\nActiveState={state}\nTriggeredBy={trigger}"
        return f"Id={unit}\n{told}"

    def _swaps(self, rows: list[list[str]] | None = None) -> list[list[str]]:
        """Return the lines of /proc/swaps; give them a new content."""
        path = self.proc / "swaps"
        head, *lines = path.read_text().splitlines()
        if rows is not None:
            path.write_text("\n".join([head, *(" ".join(row) for row in rows)]))
        return [line.split() for line in lines]

    def _swap_on(self, options: list[str], device: str) -> None:
        """As the kernel: without a priority it gives the next below the lowest."""
        rows = self._swaps()
        if "-p" in options:
            assert options[0] == "--discard=once", "fstab's option is given again"
            priority = int(options[-1])
        else:
            priority = min([-1, *(int(row[4]) for row in rows)]) - 1
        used = "10" if device == "/dev/sdb1" else "0"
        kind = "file" if "swap" in device else "partition"
        rows.append([device, kind, "1000", used, str(priority)])
        self._swaps(sorted(rows, key=lambda row: -int(row[4])))


def made_up(root: Path, *, version: int = 1, systemd: bool = True) -> MadeUp:
    """Make the files of a machine and return it."""
    host = MadeUp(root, version=version)
    for name, text in FILES.items():
        _file(root / name, text)
    for policy in ("policy0", "policy10"):
        place = root / CPU / "cpufreq" / policy
        _file(place / "scaling_governor", "powersave")
        _file(place / "scaling_available_governors", "performance powersave")
    os.chmod(root / "etc/init.d/cron", 0o755)
    (root / "run").mkdir()
    if systemd:
        (root / "run/systemd/system").mkdir(parents=True)
    _groups(host)
    for pid, (name, group, parent) in PROCESSES.items():
        _file(root / f"proc/{pid}/stat", _stat(pid, name, "S", parent))
        _file(root / f"proc/{pid}/cgroup", _cgroup_line(version, group))
    return host


def snapshot(host: Host) -> dict[str, str]:
    """Return every file's text by its path: the machine, field by field."""
    paths = (path for path in host.root.rglob("*") if path.is_file())
    found = {str(p.relative_to(host.root)): p.read_text().strip() for p in paths}
    found["proc/swaps"] = "\n".join(sorted(found["proc/swaps"].splitlines()))
    del found["proc/sys/vm/drop_caches"]
    return found


def _groups(host: MadeUp) -> None:
    """Make the groups; of version 2 the controller is off below the root, as mostly."""
    told = {"": "0-3", "box": "1-3", "box/web": "2-3"}
    for name, cpus in told.items():
        group = host.groups / name
        mine = [str(p) for p, (_, g, _) in PROCESSES.items() if g.strip("/") == name]
        _file(group / "cgroup.procs", "\n".join(mine))
        if host.version == 1:
            _file(group / "cpuset.cpus", cpus)
            _file(group / "cpuset.mems", "0")
        else:
            _file(group / "cgroup.subtree_control", "" if name else "cpu")
            if name:
                _file(group / "cgroup.type", "domain")
    if host.version == 2:
        _file(host.groups / "cgroup.controllers", "cpu cpuset")
        _file(host.groups / "cpuset.mems.effective", "0")


def _stat(pid: int, name: str, state: str, parent: int) -> str:
    flags = 0x00200000 if name == "kthreadd" else 0
    between = " ".join("0" for _ in range(12))
    return f"{pid} ({name}) {state} {parent} 0 0 0 0 {flags} {between} {pid + 1000}"


def _cgroup_line(version: int, group: str) -> str:
    return f"0::{group}" if version == 2 else f"3:cpuset:{group}"


def _escaped(device: str) -> str:
    return device.replace(" ", "\\040")


def _file(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
