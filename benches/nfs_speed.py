"""How fast the engine reads over NFS: beside libnfs on the same server, and on one that does
nothing.

Random 4 KiB reads of one cached file over one connection, with 8 and 32 outstanding; the engine and
libnfs (parts/libnfs_reads.c, its raw asynchronous calls) in turn. Aims: 1.5 times libnfs's rate,
and 300,000 reads a second from the null server (crates/bw-load/examples/nfs_null_server.rs). The
CPU time of client and server for a read is beside them: it shows which of the two is the limit.
NFS-Ganesha has four threads for requests: with its default of 200 it is slower on few cores. Then
the issue error of the engine at 5,000 reads a second, beside the null target's and a bare spin
loop's (aim: p99 of 10 us). Rates are medians over the rounds, ratios medians of the rounds' ratios.

Everything runs in network and mount namespaces of its own, because rpcbind has fixed ports and
files in /run.

Usage: nfs_speed.py [--rounds N] [--seconds S]
(root; nfs-ganesha, nfs-ganesha-vfs, rpcbind, libnfs-dev, gcc, cargo)
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from parts.busy_machine import add_busy_option, refuse_busy
from parts.cost import Cost
from parts.device import machine
from parts.engine import ask
from parts.stand import in_turn, median_ratio

Document = dict[str, Any]
DEPTHS = (8, 32)
SIZE_BYTES = 4096
FILE_BYTES = 64 << 20
LATE_RATE = 5_000
PORT, MOUNT_PORT = 13_049, 13_050
INSIDE = "BW_NFS_SPEED_INSIDE"
NEEDED = ("ganesha.nfsd", "rpcbind", "unshare", "gcc", "cargo")
REPOSITORY = Path(__file__).resolve().parent.parent
GANESHA = """\
NFS_CORE_PARAM {{ RPC_Ioq_ThrdMax = 4; NFS_Port = {port}; MNT_Port = {mount_port}; Protocols = 3; Enable_NLM = false;
  Enable_RQUOTA = false; Enable_UDP = false; mount_path_pseudo = true;
  Plugins_Dir = /usr/lib/x86_64-linux-gnu/ganesha; }}
EXPORT {{ Export_Id = 77; Path = {export}; Pseudo = /e; Access_Type = RW; Squash = No_Root_Squash;
  SecType = sys; Protocols = 3; Transports = TCP; FSAL {{ Name = VFS; }} }}
"""
STARTED_S = 60


def constant(value: int) -> Document:
    """Return the distribution of one value."""
    return {"type": "constant", "value": value}


def request(target: Document, files: int, file_bytes: int, **how: Any) -> Document:
    """Return a load of random reads of a file set; `how` is the filament's arrivals or users."""
    step = {"kind": "read", "size": constant(SIZE_BYTES), "location": "random"}
    chain = {"name": "read", "weight": 1, "steps": [step]}
    seconds = how.pop("seconds")
    filament = {"type": "files", "piece_bytes": SIZE_BYTES, "chains": [chain], **how}
    file_set = {
        "seed": 1,
        "max_depth": 1,
        "directories": constant(0),
        "files": constant(files),
        "file_size": constant(file_bytes),
    }
    return {
        "type": "load",
        "target": target,
        "workload": {"seed": 1, "file_set": file_set, "filaments": [filament]},
        "duration_ns": round(seconds * 1e9),
    }


def nfs(port: int, mount_port: int, export: str) -> Document:
    """Return the target with one connection."""
    return {
        "kind": "nfs",
        "host": "127.0.0.1",
        "port": port,
        "mount_port": mount_port,
        "export": export,
    }


def engine_reads_per_s(
    target: Document, files: int, file_bytes: int, depth: int, seconds: float
) -> float:
    """Return the engine's rate with `depth` reads outstanding."""
    load = request(target, files, file_bytes, users=depth, seconds=seconds)
    result = ask(load)
    errors = result["kinds"]["read"]["errors"]
    if errors:
        raise OSError(f"reads failed: {errors}")
    return float(result["achieved_rate_per_s"])


def libnfs_reads_per_s(
    program: Path, target: Document, path: str, file_bytes: int, depth: int, seconds: float
) -> float:
    """Return libnfs's rate with `depth` reads outstanding."""
    ports = f"nfsport={target['port']}&mountport={target['mount_port']}"
    url = f"nfs://127.0.0.1{target['export']}?version=3&{ports}"
    words = [path, file_bytes, SIZE_BYTES, depth, seconds]
    done = subprocess.run(
        [program, url, *map(str, words)], check=True, capture_output=True, text=True
    )
    return float(done.stdout)


class Server(NamedTuple):
    """A server that runs."""

    pid: int
    target: Document


def beside_libnfs(
    name: str,
    program: Path,
    server: Server,
    files: tuple[int, int, str],
    arguments: argparse.Namespace,
) -> None:
    """Print both rates on a server that has a set of so many files of this size; libnfs reads the
    one at a path."""
    count, file_bytes, path = files
    print(
        f"\n{name}, thousand 4 KiB reads/s, and CPU time for a read in us, median of {arguments.rounds} rounds"
    )
    print(
        "| outstanding | bw | libnfs | bw/libnfs | CPU bw | CPU libnfs | CPU server: bw | libnfs |"
    )
    print("|---|---|---|---|---|---|---|---|")
    seconds = arguments.seconds
    # The first run makes the file set.
    engine_reads_per_s(server.target, count, file_bytes, 1, seconds / 10)
    for depth in DEPTHS:
        engine = partial(engine_reads_per_s, server.target, count, file_bytes, depth, seconds)
        libnfs = partial(
            libnfs_reads_per_s, program, server.target, path, file_bytes, depth, seconds
        )
        rounds = in_turn(
            arguments.rounds,
            partial(Cost.of, engine, [server.pid], seconds),
            partial(Cost.of, libnfs, [server.pid], seconds),
        )
        ours, theirs = (
            [list(values) for values in zip(*side, strict=True)]
            for side in zip(*rounds, strict=True)
        )
        (rate, cpu, server_cpu), (rate_b, cpu_b, server_cpu_b) = (
            map(statistics.median, side) for side in (ours, theirs)
        )
        print(
            f"| {depth} | {rate / 1e3:.1f} | {rate_b / 1e3:.1f} | {median_ratio(ours[0], theirs[0]):.2f} "
            f"| {cpu:.2f} | {cpu_b:.2f} | {server_cpu:.2f} | {server_cpu_b:.2f} |",
            flush=True,
        )


def lateness(server: Server, arguments: argparse.Namespace) -> None:
    """Print how late operations are issued at 5,000 a second, with the server on the worker's CPU
    or on another one."""
    cpus = sorted(os.sched_getaffinity(0))
    cpu = cpus[-1]
    rate = {"micro_per_s": LATE_RATE * 10**6}
    seconds = 2 * arguments.seconds

    def floor() -> Document:
        length = {"duration_ns": round(seconds * 1e9)}
        found: Document = ask({"type": "floor", **rate, "cpu": cpu, **length})
        return dict(found["overshoot_ns"])

    def issue_error(target: Document, arrival: str, apart: bool = False) -> Document:
        own = set(cpus[:-1]) if apart else set(cpus)
        for thread in Path(f"/proc/{server.pid}/task").iterdir():
            os.sched_setaffinity(int(thread.name), own)
        arrivals = {"arrival": {"type": arrival}, "rate": rate}
        load = request(target, 1, FILE_BYTES, seconds=seconds, **arrivals)
        found: Document = ask({**load, "cpus": [cpu]})["kinds"]["read"]
        return dict(found["issue_error_ns"])

    cases = {"a bare spin loop (floor)": floor}
    for arrival in ("constant", "poisson"):
        null = partial(issue_error, {"kind": "null"}, arrival)
        same = partial(issue_error, server.target, arrival)
        other = partial(issue_error, server.target, arrival, apart=True)
        cases |= {
            f"null, {arrival}": null,
            f"NFS-Ganesha, {arrival}, server on all CPUs": same,
            f"NFS-Ganesha, {arrival}, server on the other CPUs": other,
        }
    rounds = in_turn(arguments.rounds, *cases.values())
    print(f"\nissue error at {LATE_RATE:,} reads/s, us, median of {arguments.rounds} rounds")
    print("| target | p50 | p99 |\n|---|---|---|")
    for name, found in zip(cases, zip(*rounds, strict=True), strict=True):
        figures = (
            statistics.median(one[figure] for one in found) / 1e3 for figure in ("p50", "p99")
        )
        print(f"| {name} | {' | '.join(f'{figure:.2f}' for figure in figures)} |")


@contextlib.contextmanager
def ganesha(folder: Path) -> Iterator[Server]:
    """Start rpcbind and NFS-Ganesha in this namespace, with an empty export below `folder`."""
    export = folder / "export"
    export.mkdir()
    for private in ("/run", "/var/lib/nfs"):
        subprocess.run(["mount", "-t", "tmpfs", "tmpfs", private], check=True)
    Path("/run/ganesha").mkdir()
    configuration, log = folder / "conf", folder / "log"
    configuration.write_text(GANESHA.format(port=PORT, mount_port=MOUNT_PORT, export=export))
    with contextlib.ExitStack() as running:

        def start(*words: str) -> int:
            process = subprocess.Popen(words)
            running.callback(process.wait)
            running.callback(process.terminate)
            return process.pid

        start("rpcbind", "-f", "-w")
        _wait_for(Path("/run/rpcbind.sock").exists)
        pid = start(
            "ganesha.nfsd", "-F", "-f", str(configuration), "-L", str(log), "-p", "/run/g.pid"
        )
        _wait_for(lambda: log.exists() and "SERVER INITIALIZED" in log.read_text())
        yield Server(pid, nfs(PORT, MOUNT_PORT, "/e"))


@contextlib.contextmanager
def null_server() -> Iterator[Server]:
    """Start the server without files."""
    words = ["cargo", "run", "-q", "--release", "-p", "bw-load", "--example", "nfs_null_server"]
    server = subprocess.Popen(
        words, cwd=REPOSITORY, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert server.stdin is not None
    assert server.stdout is not None
    try:
        port = int(server.stdout.readline())
        # cargo became the program that it runs.
        yield Server(server.pid, nfs(port, port, "/x"))
    finally:
        # The server ends with its input.
        server.stdin.close()
        server.wait()


def _wait_for(ready: Any) -> None:
    until = time.monotonic() + STARTED_S
    while not ready():
        if time.monotonic() > until:
            raise OSError(f"the server did not start within {STARTED_S} s")
        time.sleep(0.05)


def main() -> int:
    """Print the tables, or why they cannot be measured here."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=1)
    add_busy_option(parser)
    arguments = parser.parse_args()
    missing = [program for program in NEEDED if shutil.which(program) is None]
    if os.geteuid() != 0 or missing:
        print("not measured:", f"not installed: {', '.join(missing)}" if missing else "needs root")
        return 0
    if INSIDE not in os.environ:
        refuse_busy(arguments.busy)
        inside = ["unshare", "--net", "--mount", sys.executable, *sys.argv]
        return subprocess.run(inside, env={**os.environ, INSIDE: "1"}, check=False).returncode
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    print(machine())
    with tempfile.TemporaryDirectory(prefix="bw-nfs-speed-") as name:
        program = Path(name) / "libnfs_reads"
        source = Path(__file__).parent / "parts" / "libnfs_reads.c"
        subprocess.run(["gcc", "-O2", "-o", program, source, "-lnfs"], check=True)
        with null_server() as server:
            # The files that this server claims to have.
            files = (2, SIZE_BYTES, "/f0")
            beside_libnfs("null server", program, server, files, arguments)
        with ganesha(Path(name)) as server:
            files = (1, FILE_BYTES, "/benchwright-files/f0")
            beside_libnfs("NFS-Ganesha", program, server, files, arguments)
            lateness(server, arguments)
    return 0


if __name__ == "__main__":
    sys.exit(main())
