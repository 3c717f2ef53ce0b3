"""Machines to be captured: trees of /proc, /sys and /etc, and what answers for them.

Three of them: bare metal with two NUMA nodes, cpufreq and systemd; a KVM guest; a container
in cgroups of version 2. Only what a capture reads is there, in the forms of Linux 6.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from benchwright.core.machine import MachineCapture
from benchwright.machine.capture import CaptureSources, capture
from benchwright.machine.sources import ProgramAnswer, RunningProgram

CPU = "sys/devices/system/cpu"
STAT = "{} ({}) {} {} 1 1 0 -1 {} 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 "
KERNEL_THREAD = 0x00200000


class Answer:
    """A program that has answered."""

    def __init__(self, text: str | None, absent: str = "") -> None:
        self._asked = ProgramAnswer(text, absent)

    def answer(self, deadline_ns: int) -> ProgramAnswer:
        """Return it."""
        return self._asked


class MachineTree:
    """A machine in a directory, from a table of files."""

    def __init__(self, root: Path, files: Mapping[str, str]) -> None:
        self.root = root
        self.answers: dict[str, str] = {}
        self.interfaces: dict[str, dict[str, str]] = {}
        self.environment = {"PATH": "/usr/bin", "API_TOKEN": "hunter2"}
        self.write(files)

    def write(self, files: Mapping[str, str]) -> None:
        """Write files, of paths without the leading slash."""
        for name, text in files.items():
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    def capture(self, *commands: Sequence[str]) -> MachineCapture:
        """Return its capture."""
        sources = CaptureSources(
            root=str(self.root),
            environment=self.environment,
            directory="/data/work",
            begin=self._begin,
            space=_space,
            ask_interface=lambda name: self.interfaces[name],
            clock=lambda: "yes",
        )
        return capture(commands, sources=sources, patience_s=60.0)

    def values(self, *commands: Sequence[str]) -> dict[str, str | None]:
        """Return the values of its capture by name."""
        return {f.name: f.value for f in self.capture(*commands).facts}

    def _begin(self, words: Sequence[str], directory: str) -> RunningProgram:
        if words[0] in self.answers:
            return Answer(self.answers[words[0]])
        return Answer(None, f"{words[0]} is not installed")


def bare_metal(root: Path) -> MachineTree:
    """Return a server: 2 packages of 2 cores with 2 threads, 2 nodes, NVMe, systemd."""
    machine = MachineTree(root, {**_host(), **_processors(), **_disk(), **_network()})
    machine.write(
        {
            **_own("0::/a/b\n"),
            "run/systemd/system/.here": "",
            "sys/class/dmi/id/sys_vendor": "Dell Inc.\n",
            "sys/class/dmi/id/product_name": "PowerEdge R650\n",
            "sys/fs/cgroup/cgroup.controllers": "cpuset cpu io memory pids\n",
            "sys/fs/cgroup/a/cpu.max": "150000 100000\n",
            "sys/fs/cgroup/a/b/cpu.max": "max 100000\n",
            "sys/fs/cgroup/a/b/memory.max": "max\n",
            "sys/fs/cgroup/a/b/io.max": "259:0 rbps=1048576 wbps=max\n",
        }
    )
    machine.answers["systemctl"] = (
        "cron.service loaded active running Regular background\n"
        "ssh.service loaded active running OpenBSD Secure Shell\n"
        "apt-daily.timer loaded active waiting Daily apt\n"
    )
    machine.interfaces["eth0"] = {"offloads": "tso on, gro off", "firmware": "22.5"}
    return machine


def guest(root: Path) -> MachineTree:
    """Return a KVM guest: one processor of no known frequency, a virtio disk, no NUMA."""
    files = {
        **_host(),
        "proc/cpuinfo": (
            "processor\t: 0\nmodel name\t: QEMU Virtual CPU\nflags\t\t: fpu hypervisor\n"
        ),
        f"{CPU}/online": "0\n",
        "sys/class/dmi/id/sys_vendor": "QEMU\n",
        "sys/block/vda/size": "2048\n",
        "sys/block/vda/queue/scheduler": "[none] mq-deadline\n",
        "sys/block/loop0/size": "0\n",
        **_own("0::/\n"),
    }
    return MachineTree(root, files)


def container(root: Path) -> MachineTree:
    """Return a container: a part of the hierarchy is mounted, with limits of its own."""
    files = {
        **_host(),
        "proc/cpuinfo": "processor\t: 0\nmodel name\t: Some CPU\nflags\t\t: fpu\n",
        f"{CPU}/online": "0-3\n",
        "run/.containerenv": "",
        "sys/fs/cgroup/cgroup.controllers": "cpu memory pids\n",
        "sys/fs/cgroup/cpu.max": "50000 100000\n",
        "sys/fs/cgroup/memory.max": "268435456\n",
        "sys/fs/cgroup/pids.max": "64\n",
        **_own("0::/\n"),
    }
    return MachineTree(root, files)


def _host() -> dict[str, str]:
    return {
        "etc/os-release": 'PRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\nVERSION_ID="12"\n',
        "etc/machine-id": "0123456789abcdef0123456789abcdef\n",
        "etc/cron.d/backup": "",
        "proc/cmdline": "root=/dev/nvme0n1p2 quiet luks.key=verysecret mitigations=off\n",
        "proc/loadavg": "0.10 0.20 0.30 1/200 4242\n",
        "proc/uptime": "100.5 200.0\n",
        "proc/meminfo": "MemTotal: 16384000 kB\nMemFree: 1 kB\nMemAvailable: 8192 kB\n",
        "proc/modules": "xfs 1 0 - Live 0x0\next4 1 0 - Live 0x0\n",
        "proc/swaps": "Filename Type Size Used Priority\n/dev/sda2 partition 8388604 0 -2\n",
        "proc/sys/kernel/osrelease": "6.1.0-test\n",
        "proc/sys/kernel/hostname": "bench7\n",
        "proc/sys/vm/swappiness": "60\n",
        "proc/sys/net/ipv4/tcp_rmem": "4096\t131072\t6291456\n",
        "sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never\n",
        "proc/2/stat": STAT.format(2, "kthreadd", "S", 0, KERNEL_THREAD),
        "proc/70/stat": STAT.format(70, "chronyd", "S", 1, 0),
        "proc/71/stat": STAT.format(71, "a (b) c", "R", 1, 0),
        "proc/72/stat": STAT.format(72, "worker", "D", 1, 0),
        "proc/73/stat": STAT.format(73, "worker", "S", 1, 0),
    }


def _processors() -> dict[str, str]:
    node = "sys/devices/system/node"
    files = {
        "proc/cpuinfo": (
            "processor\t: 0\nvendor_id\t: GenuineIntel\nmodel name\t: Xeon Made Up\n"
            "microcode\t: 0xd0003b9\nflags\t\t: sse2 fpu avx2\n\nprocessor\t: 1\n"
        ),
        f"{CPU}/online": "0-7\n",
        f"{CPU}/smt/control": "on\n",
        f"{CPU}/intel_pstate/no_turbo": "0\n",
        f"{CPU}/vulnerabilities/meltdown": "Not affected\n",
        f"{CPU}/vulnerabilities/retbleed": "Vulnerable\n",
        f"{node}/node0/cpulist": "0-1,4-5\n",
        f"{node}/node0/distance": "10 21\n",
        f"{node}/node0/meminfo": "Node 0 MemTotal:  8192000 kB\n",
        f"{node}/node1/cpulist": "2-3,6-7\n",
        f"{node}/node1/distance": "21 10\n",
        f"{node}/node1/meminfo": "Node 1 MemTotal:  8192000 kB\n",
    }
    for cpu in range(8):
        files |= _processor(cpu)
    return files


def _processor(cpu: int) -> dict[str, str]:
    core = cpu % 4
    package = core // 2
    base, policy = f"{CPU}/cpu{cpu}", f"{CPU}/cpufreq/policy{cpu}"
    files = {
        f"{base}/topology/thread_siblings_list": f"{core},{core + 4}\n",
        f"{base}/topology/physical_package_id": f"{package}\n",
        f"{policy}/scaling_governor": "performance\n",
        f"{policy}/scaling_max_freq": "3500000\n",
        f"{policy}/affected_cpus": f"{cpu}\n",
    }
    caches = (
        ("index0", "1", "Data", "48K", f"{core},{core + 4}"),
        ("index3", "3", "Unified", "24576K", ("0-1,4-5", "2-3,6-7")[package]),
    )
    for index, *values in caches:
        for name, value in zip(("level", "type", "size", "shared_cpu_list"), values, strict=True):
            files[f"{base}/cache/{index}/{name}"] = f"{value}\n"
    return files


def _disk() -> dict[str, str]:
    base = "sys/block/nvme0n1"
    return {
        f"{base}/size": "1000\n",
        f"{base}/queue/scheduler": "[none] kyber\n",
        f"{base}/queue/rotational": "0\n",
        f"{base}/device/model": "Made Up SSD 1T\n",
        f"{base}/device/serial": "S3R1AL\n",
        f"{base}/nvme0n1p2/partition": "2\n",
        f"{base}/nvme0n1p2/size": "600\n",
        f"{base}/nvme0n1p2/start": "8\n",
    }


def _network() -> dict[str, str]:
    base = "sys/class/net/eth0"
    return {
        f"{base}/mtu": "9000\n",
        f"{base}/speed": "25000\n",
        f"{base}/queues/rx-0/x": "",
        f"{base}/queues/tx-0/x": "",
        f"{base}/queues/tx-1/x": "",
    }


def _own(membership: str) -> dict[str, str]:
    return {
        "proc/self/cgroup": membership,
        "proc/self/status": "Uid:\t1000\t1000\t1000\t1000\nCpus_allowed_list:\t0-7\n",
        "proc/self/limits": (
            "Limit                     Soft Limit           Hard Limit           Units     \n"
            "Max open files            1024                 1048576              files     \n"
        ),
        "proc/self/mountinfo": (
            "22 1 259:2 / / rw,noatime - ext4 /dev/nvme0n1p2 rw,data=ordered\n"
            "23 22 0:5 / /proc rw - proc proc rw\n"
            "24 22 0:6 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"
            "25 22 0:7 / /data rw - cifs //nas/b\\040x rw,username=me,password=verysecret\n"
            "26 22 0:8 / /data/work rw,nosuid - xfs /dev/sdb1 rw,noquota\n"
        ),
    }


def _space(path: str) -> tuple[int, int]:
    return {"/": (1000, 400), "/data/work": (2048, 1024)}[path]
