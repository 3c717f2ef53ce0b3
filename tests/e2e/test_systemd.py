"""A machine with systemd, cgroups of version 2 and second threads of cores: QEMU again.

In its first start `bw quiet all` is killed twice: once by `kill -9`, and the next bw puts the
machine back; once by a power cut, and the shipped bw-quiet-restore.service does. In the
second a suite begins that restarts the machine, in the third the shipped bw-resume@.service
goes on with it. All is read out of the disk and looked at here, field by field.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

import guest

WORK = """#!/bin/sh
echo "value = $(wc -l <boots)$APEPOCH" >>"$APLOG"
"""
SESSION = """#!/bin/sh
# What the machine does in each of its starts.
cd /work
export PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin
log=state/quiet/quiet.log
wait_for() { until eval "$1"; do sleep 0.3; done; }  # who boots the machine has a limit
cat /proc/sys/kernel/random/boot_id >>boots
# By its path: busybox's shell would take its own.
/sbin/swapon -p 5 /dev/vdc 2>swapon.log
case $(wc -l <boots) in
1)
  # The kernel was started without, so that Python starts sooner: a restart does not put
  # this back, as it does everything else.
  echo 2 >/proc/sys/kernel/randomize_va_space
  systemctl enable bw-quiet-restore.service \\
    "$(systemd-escape --path --template=bw-resume@.service /var/lib/benchwright/checkpoint)"
  ./snapshot >before
  bw quiet all -- sh -c './snapshot >during; touch quieted; exec sleep 1000' 2>first.log &
  bw=$!
  wait_for '[ -e quieted ]'
  kill -9 $bw
  bw env >/dev/null 2>restored.log
  ./snapshot >after
  bw quiet all -- sh -c 'touch again; exec sleep 1000' 2>second.log &
  wait_for '[ -e again ]'
  sync
  [ ! -e $log ] || touch cut
  sync
  echo b >/proc/sysrq-trigger
  ;;
2)
  unit=bw-quiet-restore.service
  wait_for '[ "$(systemctl show -p ExecMainExitTimestampMonotonic $unit)" != ExecMainExitTimestampMonotonic=0 ]'
  [ ! -e $log ] || touch left
  systemctl show -p ExecMainStatus -p Result $unit >unit
  ./snapshot >rebooted
  exec bw run suite.ap --quiet --study study >run.log 2>&1
  ;;
*)
  wait_for '[ -e finished ]'
  wait_for '! systemctl is-active -q bw-resume@var-lib-benchwright-checkpoint.service'
  sync
  systemctl poweroff
  ;;
esac
"""
SNAPSHOT = """#!/bin/sh
# What bw quiet may change, a field in a line.
for file in /proc/sys/kernel/randomize_va_space /proc/sys/vm/swappiness \\
  /sys/kernel/mm/transparent_hugepage/enabled /sys/kernel/mm/transparent_hugepage/defrag \\
  /sys/devices/system/cpu/smt/control /sys/devices/system/cpu/online \\
  /proc/irq/default_smp_affinity /proc/irq/*/smp_affinity \\
  $(find /sys/fs/cgroup -name cgroup.subtree_control -o -name 'cpuset.cpus*' | sort); do
  echo "$file = $(cat "$file" 2>&1)"
done
for unit in cron.service cups.socket kept.service logrotate.timer \\
  systemd-tmpfiles-clean.timer; do
  echo "$unit = $(systemctl is-active $unit)"
done
echo "nologin = $(ls /run/nologin 2>&1)"
awk 'NR > 1 { print "swap " $1 " = " $3 " " $5 }' /proc/swaps
awk '{ print "mount " $2 " = " $1 " " $3 " " $4 }' /proc/mounts
"""
SLEEPS = """[Service]
ExecStart=/bin/sleep 100000
[Install]
WantedBy=multi-user.target
"""
UNITS = {
    "session.service": "[Unit]\nAfter=bw-quiet-restore.service\n"
    "[Service]\nType=idle\nKillMode=mixed\nExecStart=/work/session\n",
    "cron.service": SLEEPS,
    "kept.service": SLEEPS,
    "cups.socket": "[Socket]\nListenStream=/run/cups.sock\n",
    "cups.service": SLEEPS,
    "logrotate.service": "[Service]\nType=oneshot\nExecStart=/bin/true\n",
    "logrotate.timer": "[Timer]\nOnCalendar=daily\n",
}
WANTED = ("session.service", "cron.service", "kept.service", "cups.socket")
WANTED += ("logrotate.timer",)
MASKED = ("systemd-logind.service", "getty.target")
"""They need D-Bus and terminals, which this machine has not."""


def disks_of(place: Path) -> list[Path]:
    """Make the disk of /work, and one to swap to."""
    work = place / "work"
    work.mkdir()
    guest.bw_files(guest.programs(), work)
    for name in ("state", "log", "units/multi-user.target.wants"):
        (work / name).mkdir(parents=True)
    for unit in (guest.PROJECT / "packaging/systemd").iterdir():
        shutil.copy2(unit, work / "units")
    for name, text in UNITS.items():
        (work / "units" / name).write_text(text)
    for name in WANTED:
        link = work / "units/multi-user.target.wants" / name
        link.symlink_to(f"/work/units/{name}")
    for name in MASKED:
        (work / "units" / name).symlink_to("/dev/null")
    (work / "suite.ap").write_text(guest.suite_of(epochs=2))
    for name, text in {"work.sh": WORK, "session": SESSION, "snapshot": SNAPSHOT}.items():
        (work / name).write_text(text)
        (work / name).chmod(0o755)
    disk, swap = place / "work.img", place / "swap.img"
    guest.make_disk(work, disk, "96M")
    with swap.open("wb") as file:
        file.truncate(64 << 20)
    subprocess.run(["mkswap", "-q", str(swap)], check=True)
    return [disk, swap]


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run the machine through its three starts; return what was on its disk."""
    try:
        guest.image(guest.SYSTEMD)
    except guest.Unavailable as reason:
        pytest.skip(f"no guest machine: {reason}")
    place = tmp_path_factory.mktemp("systemd")
    disks = disks_of(place)
    out = place / "out"
    try:
        console = guest.boot(disks, timeout_s=300, restarts=2, flavour=guest.SYSTEMD)
    except RuntimeError as error:
        console = str(error)
    guest.copy_out(disks[0], "/", out)
    assert (out / "finished").exists(), (console, told(out))
    return out


def told(out: Path) -> dict[str, str]:
    """Return what was written to logs."""
    return {path.name: path.read_text() for path in out.glob("*.log")}


def fields(path: Path) -> dict[str, str]:
    """Return a snapshot by field."""
    lines = path.read_text().splitlines()
    pairs = [line.partition(" = ") for line in lines if " = " in line]
    return {name: value for name, _, value in pairs}


def changed(one: dict[str, str], other: dict[str, str]) -> dict[str, tuple[str, str]]:
    """Return the fields that differ."""
    names = sorted({*one, *other})
    pairs = {name: (one.get(name, "-"), other.get(name, "-")) for name in names}
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}


@pytest.mark.timeout(1200)
def test_systemd_smt_and_cgroups_are_put_in_order(machine: Path) -> None:
    before, during = fields(machine / "before"), fields(machine / "during")
    differ = changed(before, during)
    for unit in ("cron.service", "cups.socket", "logrotate.timer"):
        assert differ[unit] == ("active", "inactive"), told(machine)
    assert differ["systemd-tmpfiles-clean.timer"] == ("active", "inactive")
    assert during["kept.service"] == "active"
    assert differ["/sys/devices/system/cpu/smt/control"] == ("on", "off")
    assert differ["/sys/devices/system/cpu/online"] == ("0-3", "0,2")
    assert differ["/proc/sys/kernel/randomize_va_space"] == ("2", "0")
    assert differ["/proc/sys/vm/swappiness"] == ("60", "1")
    assert differ["nologin"][1] == "/run/nologin"
    assert "swap /dev/vdc" in before, told(machine)
    assert "swap /dev/vdc" not in during
    assert differ["/sys/fs/cgroup/bw-bench/cpuset.cpus"] == ("-", "2")
    assert differ["/sys/fs/cgroup/bw-others/cpuset.cpus"] == ("-", "0")
    # The controller was off, and no group had a file for processors before it was on.
    services = "/sys/fs/cgroup/system.slice/cpuset.cpus"
    assert (services in before, during[services]) == (False, "0"), differ


@pytest.mark.timeout(1200)
def test_a_killed_bw_leaves_systemds_machine_as_it_was(machine: Path) -> None:
    before, after = fields(machine / "before"), fields(machine / "after")
    assert changed(before, after) == {}, told(machine)
    assert "were undone" in (machine / "restored.log").read_text()


@pytest.mark.timeout(1200)
def test_a_power_cut_is_undone_by_the_unit(machine: Path) -> None:
    assert (machine / "cut").exists(), told(machine)
    assert (machine / "unit").read_text().split() == ["Result=success", "ExecMainStatus=0"]
    assert not (machine / "left").exists(), told(machine)
    assert "were undone" not in (machine / "run.log").read_text()
    before, rebooted = fields(machine / "before"), fields(machine / "rebooted")
    differ = changed(before, rebooted)
    # The groups of the units that were enabled meanwhile are new.
    assert [name for name in differ if "/system.slice/" not in name] == [], differ


@pytest.mark.timeout(1200)
def test_the_unit_goes_on_with_a_suite_after_a_restart(machine: Path) -> None:
    starts = (machine / "boots").read_text().split()
    assert len(set(starts)) == len(starts) == 3
    assert guest.rows(machine / "study") == [("1", 21), ("2", 32)], told(machine)
