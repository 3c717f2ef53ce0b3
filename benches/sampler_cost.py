"""What watching costs: bw-sampler beside sadc and pidstat, over the same minute.

All run at once on the same machine: our sampler at ten samples a second over a tree of
five processes, `sadc -S ALL 1` (what `sar -A 1` runs) and `pidstat -u -r -d -t -T ALL 1`
at their least interval, 1 s. Each one's processor time comes from the kernel (wait4, to
the microsecond), as a share of one core; theirs is also scaled to ten samples a second,
which they cannot take. Aim: at most 0.5 % for ours. Nothing is asserted: the machine is
shared, so the ratio between them is what counts.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from benchwright.trial.programs import find_sampler

INTERVAL_NS = 100_000_000
TREE = "for i in 1 2 3 4; do sleep 1000 & done; wait"
SADC = Path("/usr/lib/sysstat/sadc")
UTILISATION = ("-u", "-r", "-d", "-t")


@dataclass(frozen=True)
class Cost:
    """What one program took."""

    name: str
    samples_per_s: float
    cpu_s: float
    wall_s: float
    rss_bytes: int

    @property
    def share(self) -> float:
        """Return its processor time as a share of one core."""
        return self.cpu_s / self.wall_s

    @property
    def per_sample_us(self) -> float:
        """Return its processor time per sample [us]."""
        return self.share / self.samples_per_s * 1e6


@dataclass(frozen=True)
class Running:
    """A program under way, and how to end it."""

    name: str
    samples_per_s: float
    process: subprocess.Popen[bytes]
    end: Callable[[], None]
    begun: float


def start_sampler(directory: Path, root: int) -> Running:
    """Start our sampler and let it watch the tree of `root`."""
    process = subprocess.Popen(
        [str(find_sampler()), "serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    request = {
        "type": "watch",
        "id": 1,
        "out": str(directory / "series.jsonl.gz"),
        "root_pid": root,
        "interval_ns": INTERVAL_NS,
        "copies": True,
        "watcher_pids": [os.getpid()],
    }
    begun = time.monotonic()
    ask(process, None)
    ask(process, request)

    def end() -> None:
        print("  our own account:", ask(process, {"type": "end", "id": 1}))
        assert process.stdin is not None
        process.stdin.close()

    return Running("bw-sampler", 1e9 / INTERVAL_NS, process, end, begun)


def ask(process: subprocess.Popen[bytes], request: dict[str, object] | None) -> str:
    """Send a request, if there is one, and return the next answer."""
    assert process.stdin is not None
    assert process.stdout is not None
    if request is not None:
        process.stdin.write(json.dumps(request).encode() + b"\n")
        process.stdin.flush()
    return process.stdout.readline().decode().strip()


def start_peer(command: list[str], name: str, directory: Path) -> Running:
    """Start a tool that samples once a second until it is interrupted."""
    with (directory / f"{name}.out").open("wb") as out:
        process = subprocess.Popen(command, stdout=out)
    end = lambda: process.send_signal(signal.SIGINT)  # noqa: E731
    return Running(name, 1.0, process, end, time.monotonic())


def finish(running: Running) -> Cost:
    """End a program and return what the kernel says that it took."""
    peak = rss_peak_bytes(running.process.pid)
    running.end()
    _, _, usage = os.wait4(running.process.pid, 0)
    running.process.returncode = 0
    return Cost(
        running.name,
        running.samples_per_s,
        usage.ru_utime + usage.ru_stime,
        time.monotonic() - running.begun,
        peak,
    )


def rss_peak_bytes(pid: int) -> int:
    """Return the largest resident size of a process; wait4's has ours as its floor."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    (line,) = (line for line in lines if line.startswith("VmHWM"))
    return int(line.split()[1]) * 1024


def measure(seconds: float, directory: Path) -> list[Cost]:
    """Run all of them at once for so long and return their costs, ours first."""
    tree = subprocess.Popen(["sh", "-c", TREE], start_new_session=True)
    time.sleep(0.2)
    pidstat = ["pidstat", *UTILISATION, "-T", "ALL", "1"]
    try:
        running = [
            start_sampler(directory, tree.pid),
            start_peer([str(SADC), "-S", "ALL", "1", str(directory / "sa")], "sadc", directory),
            start_peer(pidstat, "pidstat", directory),
        ]
        time.sleep(seconds)
        return [finish(one) for one in running]
    finally:
        os.killpg(tree.pid, signal.SIGKILL)
        tree.wait()


def show(costs: list[Cost]) -> None:
    """Print a table: ours, theirs, theirs at our rate, and the ratio at equal rates."""
    ours = costs[0]
    print(f"{'':12}{'per s':>6}{'core %':>9}{'at 10/s %':>11}{'us/sample':>11}{'RSS MiB':>9}")
    for cost in costs:
        at_ours = cost.share * ours.samples_per_s / cost.samples_per_s
        print(
            f"{cost.name:12}{cost.samples_per_s:6.0f}{cost.share * 100:9.3f}"
            f"{at_ours * 100:11.3f}{cost.per_sample_us:11.0f}"
            f"{cost.rss_bytes / 2**20:9.1f}   {cost.per_sample_us / ours.per_sample_us:.2f} of ours"
        )


def main() -> int:
    """Print the figures of a run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    arguments = parser.parse_args()
    pids = sum(name.name.isdigit() for name in Path("/proc").iterdir())
    load = Path("/proc/loadavg").read_text().strip()
    print(f"{pids} processes, load {load}")
    with tempfile.TemporaryDirectory(prefix="bw-bench-") as directory:
        show(measure(arguments.seconds, Path(directory)))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
