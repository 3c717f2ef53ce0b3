"""What distilling a large machine's series takes: peak memory and time, for two lengths.

64 processors, 1,000 processes, 64 threads of the trial, ten samples a second. Aim: the memory
is the machine's and does not grow with the time watched. `series_memory.py [MINUTES]`
makes the files in a temporary directory and lets `bw-sampler reduce` read each.
"""

from __future__ import annotations

import gzip
import json
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchwright.trial.programs import find_sampler

CPUS, PROCESSES, THREADS = 64, 1000, 64
INTERVAL_NS = 100_000_000


def columns() -> tuple[list[str], list[str]]:
    """Return the names of a machine's columns, and their kinds."""
    kinds = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
    counters = [f"cpu/{n}/{kind}" for n in range(CPUS) for kind in kinds]
    counters += [f"throttle/{n}" for n in range(CPUS)]
    disk = ("reads", "writes", "read_sectors", "written_sectors", "busy_ms", "queue_ms")
    counters += [f"disk/nvme{n}n1/{kind}" for n in range(4) for kind in disk]
    counters += ["own/user_ns", "own/system_ns", "own/read_chars", "pressure/cpu/some"]
    gauges = [f"frequency/{n}" for n in range(CPUS)]
    gauges += [f"disk/nvme{n}n1/in_flight" for n in range(4)]
    gauges += ["memory/total", "memory/available", "kernel/running"]
    return counters + gauges, ["counter"] * len(counters) + ["gauge"] * len(gauges)


def lines(samples: int) -> Iterator[dict[str, Any]]:
    """Yield a series' lines."""
    draw = random.Random(1)
    names, kinds = columns()
    yield {
        "type": "series",
        "version": 1,
        "interval_ns": INTERVAL_NS,
        "begin_ns": 0,
        "realtime_ns": 1,
        "root_pid": 100,
        "cpus": CPUS,
    }
    yield {"type": "columns", "names": names, "kinds": kinds}
    run = [0] * THREADS
    ticks = [draw.randrange(9999) for _ in range(PROCESSES)]
    for i in range(samples):
        now = i * INTERVAL_NS
        grown = [draw.randrange(9) for _ in range(kinds.count("counter"))]
        gauges = [2_000_000 if i == 0 else 0] * kinds.count("gauge")
        yield {"type": "row", "t": now, "v": grown + gauges}
        run = [one + draw.randrange(90_000_000) for one in run]
        rows = [[100, 100 + n, f"t{n}", "R", run[n], 5 * i] for n in range(THREADS)]
        yield {"type": "own", "t": now, "rows": rows, "more": 0}
        if i % 10 == 0:
            for _ in range(PROCESSES // 10):
                ticks[draw.randrange(PROCESSES)] += draw.randrange(50)
            each = enumerate(ticks)
            table = [[2000 + n, 1, f"p{n}", used, n] for n, used in each]
            yield {"type": "processes", "t": now, "rows": table}


def made(path: Path, minutes: float) -> int:
    """Write a series of so many minutes; return its last moment [ns]."""
    samples = round(minutes * 600) + 1
    with gzip.open(path, "wt", compresslevel=1) as file:
        for line in lines(samples):
            file.write(json.dumps(line, separators=(",", ":")) + "\n")
    return (samples - 1) * INTERVAL_NS


def main() -> int:
    """Print peak memory and time for the minutes asked for, and for a tenth of them."""
    minutes = float(sys.argv[1]) if len(sys.argv) > 1 else 10.0
    with tempfile.TemporaryDirectory() as directory:
        for length in (minutes / 10, minutes):
            path = Path(directory) / f"{length}.jsonl.gz"
            end_ns = made(path, length)
            # A process starts with the peak memory of its parent, and that of `time` is small.
            timed = ["/usr/bin/time", "-f", "%M %U %S", str(find_sampler()), "reduce", str(path)]
            asked = json.dumps({"windows": [(1, 0, end_ns)]}).encode()
            done = subprocess.run(timed, input=asked, capture_output=True, check=True)
            (use,) = json.loads(done.stdout)["uses"]
            peak_kib, user_s, system_s = map(float, done.stderr.split())
            assert use["cpu"]["count"] == CPUS
            assert use["tasks"]
            assert use["others"]
            print(
                f"{length:5.1f} min, {path.stat().st_size / 2**20:5.1f} MiB: "
                f"peak {peak_kib / 1024:5.1f} MiB, {user_s + system_s:5.2f} s"
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
