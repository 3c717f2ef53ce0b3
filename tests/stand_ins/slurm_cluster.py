"""A real Slurm for tests: slurmctld, three nodes and munged, of whoever runs the tests, on
loopback.

Purpose: what `--pool slurm` needs, of Debian's packages, without root, systemd or a network.
Decision: a process of its own is the parent of all daemons, and the subreaper of what they leave
behind. It ends at the end of its input, so the cluster ends with the test process however that
ends, also by SIGKILL, with each slurmstepd that had lost its slurmd, and its files. Rejected: a PID
namespace, which an ordinary user may not make everywhere, and in which a test cannot see a job's
processes by their numbers. Source: slurm.conf(5), munged(8), prctl(2).
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

PROGRAMS = {
    "slurmctld": "slurmctld",
    "slurmd": "slurmd",
    "sbatch": "slurm-client",
    "munged": "munge",
}
"""Programs that are needed, with Debian's packages of them."""
PATIENCE_S = 90.0
_DISK = "mount -t tmpfs -o size=6m,mode=1777 bw-disk /tmp && exec sleep infinity"
_SYSTEM_PATH = os.environ.get("PATH", os.defpath) + ":/usr/sbin:/sbin"
_CONFIGURATION = """\
ClusterName=bwtest
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort={ports[0]}
AuthType=auth/munge
AuthInfo=socket={home}/munge.socket
CredType=cred/munge
SlurmUser={user}
SlurmdUser={user}
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/linear
SchedulerParameters=sched_interval=2,bf_interval=2
SlurmdParameters=config_overrides
PreemptType=preempt/partition_prio
PreemptMode=CANCEL
ReturnToService=2
SlurmctldTimeout=30
SlurmdTimeout=6
KillWait=10
StateSaveLocation={home}/state
SlurmctldPidFile={home}/slurmctld.pid
SlurmctldLogFile={home}/slurmctld.log
SlurmdSpoolDir={home}/%n
SlurmdPidFile={home}/%n.pid
SlurmdLogFile={home}/%n.log
NodeName=h1 NodeAddr=127.0.0.1 NodeHostname=localhost Port={ports[1]} CPUs=1 Feature=sut
NodeName=h2 NodeAddr=127.0.0.1 NodeHostname=localhost Port={ports[2]} CPUs=1 Feature=sut
NodeName=h3 NodeAddr=127.0.0.1 NodeHostname=localhost Port={ports[3]} CPUs=1 Feature=loadgen
PartitionName=bench Nodes=ALL Default=YES OverSubscribe=EXCLUSIVE MaxTime=INFINITE GraceTime=1 State=UP
PartitionName=urgent Nodes=ALL OverSubscribe=EXCLUSIVE PriorityTier=10 State=UP
PartitionName=broken Nodes=ALL OverSubscribe=EXCLUSIVE State=DOWN
"""


def missing() -> str:
    """Return what this machine lacks for it; empty if nothing."""
    packages = {p for name, p in PROGRAMS.items() if _program(name) is None}
    return f"not installed: {', '.join(sorted(packages))}" if packages else ""


class SlurmCluster:
    """A cluster that runs, with its files in `home`; make it with `slurm_cluster`."""

    hosts = ("h1", "h2", "h3")
    partition = "bench"

    def __init__(self, home: Path, *, disks: bool = False) -> None:
        """Write the files and start the daemons in an empty directory.

        `disks`: each host has a /tmp of its own, a small disk, which needs root; `home` is not
        below /tmp then.
        """
        self.home = home
        self._disks = [f"disk-{host}" for host in self.hosts] if disks else []
        self.environment = os.environ | {
            "SLURM_CONF": str(home / "slurm.conf"),
            "PATH": _SYSTEM_PATH,
        }
        """Of programs that use this cluster."""
        home.chmod(0o755)
        self.ports = free_ports(1 + len(self.hosts))
        for name in ("state", *self.hosts):
            (home / name).mkdir(mode=0o755)
        key = home / "munge.key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o400)
        (home / "slurm.conf").write_text(
            _CONFIGURATION.format(
                home=home, ports=self.ports, user=pwd.getpwuid(os.geteuid()).pw_name
            )
        )
        self._commands = {
            "munged": [
                *("munged", "--foreground", "--num-threads=1"),
                *(f"--key-file={key}", f"--socket={home}/munge.socket"),
                *(f"--pid-file={home}/munged.pid", f"--log-file={home}/munged.log"),
                f"--seed-file={home}/munged.seed",
            ],
            "slurmctld": ["slurmctld", "-D"],
            **{host: ["slurmd", "-D", "-N", host] for host in self.hosts},
            # The process that keeps a host's disk while its slurmd is restarted.
            **{disk: ["unshare", "--mount", "sh", "-c", _DISK] for disk in self._disks},
        }
        self.pids: dict[str, int] = {}
        """Of the daemons that were started last: munged, slurmctld, and each host's slurmd."""
        self._keeper = subprocess.Popen(
            [sys.executable, __file__, str(home)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=self.environment,
            cwd="/",
            text=True,
            start_new_session=True,
        )

    def begin(self) -> None:
        """Start all daemons, and wait until every host is idle."""
        self.start("munged")
        _wait_until((self.home / "munge.socket").exists, self._report)
        for disk, host in zip(self._disks, self.hosts, strict=False):
            self.start(disk)
            mounts = Path(f"/proc/{self.pids[disk]}/mounts")
            _wait_until(lambda mounts=mounts: "bw-disk /tmp" in mounts.read_text(), self._report)
            enter = ["nsenter", f"--mount=/proc/{self.pids[disk]}/ns/mnt"]
            program = str(_program("slurmd"))
            self._commands[host] = [*enter, program, *self._commands[host][1:]]
        for name in ("slurmctld", *self.hosts):
            self.start(name)
        self.wait_until_idle()

    def fill_disk(self, host: str) -> None:
        """Fill the disk of a host."""
        with contextlib.suppress(OSError), self._filler(host).open("wb", 0) as file:
            while True:
                file.write(bytes(4096))

    def free_disk(self, host: str) -> None:
        """Remove what `fill_disk` has written."""
        self._filler(host).unlink(missing_ok=True)

    def _filler(self, host: str) -> Path:
        return Path(f"/proc/{self.pids[f'disk-{host}']}/root/tmp/filler")

    def start(self, name: str) -> None:
        """Start a daemon that does not run."""
        assert self._keeper.stdin is not None
        assert self._keeper.stdout is not None
        words = list(self._commands[name])
        words[0] = str(_program(words[0]))
        self._keeper.stdin.write("\t".join(words) + "\n")
        self._keeper.stdin.flush()
        self.pids[name] = int(self._keeper.stdout.readline())

    def kill(self, name: str, number: int = signal.SIGKILL) -> None:
        """Send a signal to a daemon, and wait for its end."""
        os.kill(self.pids[name], number)
        place = Path(f"/proc/{self.pids[name]}")
        _wait_until(lambda: not place.exists(), self._report)

    def kill_host(self, host: str) -> None:
        """Kill a slurmd, and all processes of the jobs on its host."""
        self.kill(host)
        wanted = {f"SLURMD_NODENAME={host}", f"SLURM_CONF={self.home}/slurm.conf"}
        its, steps = [], set()
        for place in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                words = (place / "environ").read_text(errors="replace").split("\0")
                if wanted.issubset(words):
                    its.append(int(place.name))
                    state = (place / "stat").read_text().rpartition(")")[2].split()
                    parent = Path("/proc", state[1])
                    if (parent / "comm").read_text() == "slurmstepd\n":
                        steps.add(int(parent.name))
        # The steps first: they would report the ends of the others.
        for pid in (*steps, *its):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def runs(self, name: str) -> bool:
        """Return whether a daemon is there."""
        return Path(f"/proc/{self.pids[name]}").exists()

    def run(self, *argv: str) -> subprocess.CompletedProcess[str]:
        """Run a command that uses this cluster."""
        return subprocess.run(
            argv,
            env=self.environment,
            cwd=self.home,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
        )

    def ask(self, *argv: str) -> str:
        """Return what a command prints, which must not fail."""
        done = self.run(*argv)
        assert done.returncode == 0, f"{argv}: {done.stderr}"
        return done.stdout.strip()

    def jobs(self) -> list[str]:
        """Return `JOB STATE` of all jobs that have not ended."""
        return self.ask("squeue", "--noheader", "--format=%A %T").splitlines()

    def states(self) -> dict[str, str]:
        """Return each host's state."""
        lines = self.ask("sinfo", "--noheader", "--Node", "--format=%N %T")
        return dict(line.split() for line in lines.splitlines())

    def reset(self) -> None:
        """End all jobs, and bring every daemon and host back."""
        for name in self.pids:
            if not self.runs(name):
                self.start(name)
        _wait_until(lambda: self.run("sinfo").returncode == 0, self._report)
        for line in self.jobs():
            job = line.split()[0]
            self.run("scontrol", "resume", job)
            self.run("scancel", job)
        for host, state in self.states().items():
            if state.startswith(("down", "drain", "drng")):
                self.run("scontrol", "update", f"NodeName={host}", "State=RESUME")
        self.wait_until_idle()

    def wait_for_no_jobs(self) -> None:
        """Wait until all jobs have ended."""
        _wait_until(lambda: not self.jobs(), self._report)

    def wait_until_idle(self) -> None:
        """Wait until no job is there, and each host is ready for one."""

        def idle() -> bool:
            done = self.run(
                *("sinfo", "--noheader", "--Node", "--format=%T"), *("--partition", self.partition)
            )
            states = done.stdout.split()
            return states == ["idle"] * len(self.hosts) and not self.jobs()

        _wait_until(idle, self._report)

    def end(self) -> None:
        """End all daemons, and whatever their jobs left; remove the directory."""
        assert self._keeper.stdin is not None
        assert self._keeper.stdout is not None
        self._keeper.stdin.close()
        self._keeper.stdout.close()
        self._keeper.wait(PATIENCE_S)

    def _report(self) -> str:
        logs = sorted(self.home.glob("*.log"))
        ends = (f"== {one.name}\n{one.read_text()[-3000:]}" for one in logs)
        return f"{self.run('sinfo').stdout}{self.run('squeue').stdout}" + "\n".join(ends)


@contextlib.contextmanager
def slurm_cluster(*, disks: bool = False) -> Iterator[SlurmCluster]:
    """Run a cluster until the end of the block; `disks` as for `SlurmCluster`."""
    # Slurm refuses directories that others may write in, and munge's socket a long path.
    place = "/var/tmp" if disks else "/tmp"
    home = Path(tempfile.mkdtemp(prefix="bw-slurm-", dir=place))
    cluster = SlurmCluster(home, disks=disks)
    try:
        cluster.begin()
        yield cluster
    finally:
        cluster.end()


def free_ports(number: int) -> list[int]:
    """Return ports of loopback that nobody listens on."""
    with contextlib.ExitStack() as stack:
        probes = [stack.enter_context(socket.socket()) for _ in range(number)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [int(probe.getsockname()[1]) for probe in probes]


def _program(name: str) -> str | None:
    return shutil.which(name, path=_SYSTEM_PATH)


def _wait_until(condition: Callable[[], bool], report: Callable[[], str]) -> None:
    end_s = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < end_s, report()
        time.sleep(0.05)


# -- The process that keeps the daemons -----------------------------------------------------

_PR_SET_CHILD_SUBREAPER = 36


def keep_daemons(home: Path) -> None:
    """Start a command for each line of the input, print its PID; at its end, end all and remove the
    files."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    for line in sys.stdin:
        _reap(os.WNOHANG)
        print(_spawn(line.rstrip("\n").split("\t")), flush=True)
    _end_all()
    shutil.rmtree(home)


def _spawn(argv: Sequence[str]) -> int:
    with open(os.devnull, "r+b") as nothing:
        return subprocess.Popen(
            argv, stdin=nothing, stdout=nothing, stderr=nothing, start_new_session=True
        ).pid


def _end_all() -> None:
    """Kill all descendants: what loses its parent becomes a child of this process."""
    # A handler that collects a killed child first would leave the wait below to an orphan of it,
    # which nobody has killed.
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    while True:
        children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
        for child in children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(child), signal.SIGKILL)
        if not _reap(0 if children else os.WNOHANG):
            return


def _reap(options: int) -> bool:
    """Collect the children that have ended; return whether others are there."""
    try:
        while os.waitpid(-1, options) != (0, 0):
            options = os.WNOHANG
    except ChildProcessError:
        return False
    return True


if __name__ == "__main__":
    # A child's end must be collected while the input is silent: a zombie keeps its PID.
    signal.signal(signal.SIGCHLD, lambda *_: _reap(os.WNOHANG))
    keep_daemons(Path(sys.argv[1]))
