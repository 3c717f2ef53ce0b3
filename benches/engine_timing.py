"""How late the engine issues, beside a bare spin loop and, on a device, beside fio.

To `null`, against the floor (`bw-engine`'s request of that name: the same clock, seat and
histogram, and nothing but spinning) in turn on the same processor: p99 of issue error at most
1 us above the floor's, p99.9 at most twice the floor's, at 10,000 and 100,000/s.

To a device by O_DIRECT at 10,000/s: p98 under 10 us and p99 under 50 us, as the block
layer's own stamps have it (block_rq_issue, whole microseconds), and fio at the same rate on
the same processor by the same stamps and the same rule (parts/grid.py). What cannot be
known of fio's Poisson arrivals is when they were meant: their rate and the dispersion of their
gaps are shown instead.

Then closed loops of reads, with 1 and 32 in flight: how far the engine's own stamps of starts are
before the device's, of each operation. Stamps that operations share, or that are taken early, would
spread this.

Then several workers, on Poisson arrivals at that rate and on bursts of ten times as many (on for 1
ms, off for 9 ms on average): an operation that is due while a worker submits another is issued by
the next worker. As many workers as there are processors besides the device's; then up to 8 in a
simulation, whose calls take as long as those of one worker took in the bursts.

Last, neighbours: 0, 1, 2 and 4 processes that compute without end on the generator's processor,
ours and fio at the same rate by the device's stamps.

Usage: engine_timing.py [--rounds N] [--seconds S] [--cpu N] [--fifo] [--only PART]
       --fifo: both sides under SCHED_FIFO, on a machine where others work at the same time
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
from collections import ChainMap
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from parts.busy_machine import add_busy_option, refuse_busy
from parts.device import loop_device, machine
from parts.engine import EngineError, ask, capturing, load
from parts.fio_jobs import fio, version
from parts.grid import Lateness, dispersion, lateness
from parts.stand import DEVICE_BYTES, Document, access, file_target, in_turn, load_request, storage

from benchwright.features.load.samples import NEVER, read_samples

FLOOR_RATES = (10_000, 100_000)
DEVICE_RATE = 10_000
WORKERS = (1, 2, 4, 8)
NEIGHBOURS = (0, 1, 2, 4)
SHOWN = ("p50", "p98", "p99", "p99.9")
READ = 0
FIGURES = ("p50", "p90", "p99", "p99.9")


def open_loop(rate: int, arrival: str = "constant") -> Document:
    """Return a filament of random reads at a rate."""
    arrives = {"type": arrival}
    return {"type": "open", "arrival": arrives, "rate": {"micro_per_s": rate * 10**6}}


def overshoot(rate: int, arguments: argparse.Namespace) -> Document:
    """Return by how much a bare loop misses its deadlines."""
    request = {"type": "floor", "micro_per_s": rate * 10**6, "cpu": arguments.cpu}
    length = {"duration_ns": round(arguments.seconds * 1e9)}
    found: Document = ask({**request, **length})["overshoot_ns"]
    return found


def issue_error(rate: int, arguments: argparse.Namespace) -> Document:
    """Return the engine's issue error to null."""
    request = load_request(
        {"kind": "null"},
        open_loop(rate),
        duration_ns=round(arguments.seconds * 1e9),
        cpus=[arguments.cpu],
        depth=4096,
    )
    found: Document = ask(request)["kinds"]["all"]["issue_error_ns"]
    return found


def to_null(arguments: argparse.Namespace) -> None:
    """Print issue error beside the floor."""
    print(f"\nissue error to null [us], medians of {arguments.rounds} rounds")
    print("| rate | | p50 | p90 | p99 | p99.9 |\n|---|---|---|---|---|---|")
    for rate in FLOOR_RATES:
        rounds = in_turn(
            arguments.rounds,
            partial(overshoot, rate, arguments),
            partial(issue_error, rate, arguments),
        )
        for name, side in (("floor", 0), ("bw", 1)):
            values = (_median_us([pair[side] for pair in rounds], f) for f in FIGURES)
            print(f"| {rate:,}/s | {name} | {' | '.join(values)} |")
        quiet = min(rounds, key=lambda pair: pair[0]["p99.9"] + pair[1]["p99.9"])
        for name, side in (("floor, quietest round", 0), ("bw, the same round", 1)):
            values = (_median_us([quiet[side]], f) for f in FIGURES)
            print(f"| {rate:,}/s | {name} | {' | '.join(values)} |")
        _judge(rate, rounds)


def _median_us(documents: list[Document], figure: str) -> str:
    return f"{statistics.median(one[figure] for one in documents) / 1e3:.3f}"


def _judge(rate: int, rounds: list[tuple[Any, ...]]) -> None:
    above = statistics.median(ours["p99"] - bare["p99"] for bare, ours in rounds) / 1e3
    times = statistics.median(ours["p99.9"] / bare["p99.9"] for bare, ours in rounds)
    print(
        f"  {rate:,}/s: p99 is {above:+.3f} us above the floor's (aim: at most 1), "
        f"p99.9 is {times:.2f} times the floor's (aim: at most 2): medians of the rounds"
    )


class Seen(NamedTuple):
    """One run as the observer saw it, and the generator's own word."""

    late: Lateness
    dispersion: float
    rate_per_s: float
    own: str


def witnessed(device: str, scratch: Path, run: Callable[[], str]) -> Seen:
    """Run while the device's stamps are recorded; the reads among them are what counts."""
    trace = scratch / "trace"
    trace.unlink(missing_ok=True)
    with capturing(device, trace) as account:
        own = run()
    if account["lost_events"]:
        raise EngineError(f"{account['lost_events']} stamps were lost")
    rows = read_samples(trace)
    stamps = np.sort(rows["intended"][rows["kind"] == READ].astype(np.int64))
    span_s = float(stamps[-1] - stamps[0]) / 1e9
    rate = (len(stamps) - 1) / span_s
    return Seen(lateness(stamps, DEVICE_RATE), dispersion(stamps), rate, own)


def ours(path: str, arguments: argparse.Namespace, arrival: str = "constant") -> str:
    """Run the engine on a path; return its own lateness, and how many found the device full."""
    request = load_request(
        file_target(path),
        open_loop(DEVICE_RATE, arrival),
        duration_ns=round(arguments.seconds * 1e9),
        cpus=[arguments.cpu],
        depth=128,
    )
    told = ask(request)
    # Those that a full device held back are late at the device, not by the generator.
    error, held = told["lateness_ns"], told["counts"]["held"]
    return f"p98 {error['p98'] / 1e3:.2f}, p99 {error['p99'] / 1e3:.2f}, held {held:,}"


def theirs(path: str, arguments: argparse.Namespace, process: str = "linear") -> str:
    """Run fio on a path; it has no word on its issue error."""
    rate = (f"--rate_iops={DEVICE_RATE}", f"--rate_process={process}", "--iodepth=128")
    fio(path, arguments.cpu, arguments.seconds, *rate)
    return "none"


def to_device(arguments: argparse.Namespace) -> None:
    """Print lateness at the device, ours and fio's."""
    with storage() as targets, tempfile.TemporaryDirectory() as scratch:
        for name, (path, device) in targets.items():
            print(
                f"\n{name}, O_DIRECT, {DEVICE_RATE:,}/s: lateness at the device [us], "
                f"medians of {arguments.rounds} rounds"
            )
            print("| | p50 | p98 | p99 | p99.9 | slope [ppm] | own word |")
            print("|---|---|---|---|---|---|---|")
            at = Path(scratch)
            sides = (partial(run, path, arguments) for run in (ours, theirs))
            seen = (partial(witnessed, device, at, side) for side in sides)
            rounds = in_turn(arguments.rounds, *seen)
            for who, side in (("bw", 0), ("fio, linear", 1)):
                _print_late(who, [pair[side] for pair in rounds])
            _poisson(path, device, at, arguments)


def against_witness(arguments: argparse.Namespace) -> None:
    """Print how far the engine's stamps of starts are before the device's in closed loops."""
    print(
        f"\nclosed loops, loop device: from the engine's stamp of a start to the device's [us], "
        f"beyond the 1st percentile, medians of {arguments.rounds} rounds"
    )
    print("| in flight | operations | p50 | p98 | p99 | p99.9 |\n|---|---|---|---|---|---|")
    with loop_device(DEVICE_BYTES) as device, tempfile.TemporaryDirectory() as scratch:
        for depth in (1, 32):
            runs = []
            for _ in range(arguments.rounds):
                apart = apart_ns(device, Path(scratch), depth, arguments)
                shares = [float(figure[1:]) for figure in SHOWN]
                runs.append([len(apart), *(np.percentile(apart, shares) / 1e3)])
            count, *median = np.median(runs, axis=0).tolist()
            values = " | ".join(f"{value:.0f}" for value in median)
            print(f"| {depth} | {count:,.0f} | {values} |", flush=True)


def apart_ns(
    device: str, scratch: Path, depth: int, arguments: argparse.Namespace
) -> NDArray[np.int64]:
    """Return how much later the device saw each operation of a closed loop `(n,)`, beyond the 1st
    percentile [ns].

    The two clocks have different zeros: what is the same for all is left out.
    """
    trace, samples = scratch / "trace", scratch / "samples"
    trace.unlink(missing_ok=True)
    users = {"type": "closed", "users": depth, "think": {"type": "constant", "value": 0}}
    how = {"duration_ns": round(arguments.seconds * 1e9), "cpus": [arguments.cpu]}
    with capturing(device, trace) as account:
        load(file_target(device), {"access": access(), **users}, samples, **how)
    if account["lost_events"]:
        raise EngineError(f"{account['lost_events']} stamps were lost")
    seen, own = read_samples(trace), read_samples(samples)
    samples.unlink()
    seen, own = seen[seen["kind"] == READ], own[own["issued"] != NEVER]
    # Each place is read at most once at a time: equal ones are in the same order on both sides.
    seen = seen[np.lexsort((seen["intended"], seen["offset"]))]
    own = own[np.lexsort((own["issued"], own["offset"]))]
    if not np.array_equal(seen["offset"], own["offset"]):
        raise EngineError("the device saw other operations than the engine started")
    apart = seen["intended"].astype(np.int64) - own["issued"].astype(np.int64)
    return np.maximum(apart - np.percentile(apart, 1), 0).astype(np.int64)


def exponential(mean: float) -> Document:
    """Return the distribution of the lengths of periods [ns]."""
    return {"type": "exponential", "mean": round(mean)}


def with_workers(arguments: argparse.Namespace) -> None:
    """Print the engine's issue error at a device with several workers, by its own clock."""
    cpus = sorted(os.sched_getaffinity(0))
    counts = [count for count in WORKERS if count < len(cpus)]
    bursts = {"type": "on-off", "on": exponential(1e6), "off": exponential(9e6)}
    in_bursts = {**open_loop(10 * DEVICE_RATE), "arrival": bursts}
    filaments = {
        f"Poisson, {DEVICE_RATE:,}/s": open_loop(DEVICE_RATE, "poisson"),
        "bursts": in_bursts,
    }
    with loop_device(DEVICE_BYTES) as device:
        for name, filament in filaments.items():

            def measured(count: int, filament: Document = filament) -> Document:
                request = load_request(
                    file_target(device),
                    filament,
                    duration_ns=round(arguments.seconds * 1e9),
                    cpus=cpus[-count:],
                    workers=count,
                    depth=1024,
                )
                return {str(count): ask(request)["kinds"]["all"]["issue_error_ns"]}

            def simulated(filament: Document = filament) -> Document:
                arrivals, _ = one_worker(device, filament, cpus[-1], arguments)
                _, calls = one_worker(device, in_bursts, cpus[-1], arguments)
                shares = [float(figure[1:]) for figure in SHOWN]
                rows = {}
                for count in WORKERS:
                    late = np.percentile(waits_ns(arrivals, calls, count), shares)
                    rows[f"{count}, simulated"] = dict(zip(SHOWN, late, strict=True))
                return rows

            print(f"\nseveral workers, loop device, {name}: issue error [us]")
            print("| workers | p50 | p98 | p99 | p99.9 |\n|---|---|---|---|---|")
            sides = [*(partial(measured, count) for count in counts), simulated]
            rounds = in_turn(arguments.rounds, *sides)
            found = [dict(ChainMap(*sides)) for sides in rounds]
            for who in (*map(str, counts), *(f"{n}, simulated" for n in WORKERS)):
                rows = [one[who] for one in found]
                values = (_median_us(rows, figure) for figure in SHOWN)
                print(f"| {who} | {' | '.join(values)} |", flush=True)


def one_worker(
    device: str, filament: Document, cpu: int, arguments: argparse.Namespace
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the intended starts of a run on one worker, and how long its calls took that others
    waited for [ns]."""
    with tempfile.TemporaryDirectory() as scratch:
        samples = Path(scratch) / "samples"
        how = {"duration_ns": round(arguments.seconds * 1e9), "cpus": [cpu]}
        load(file_target(device), {"access": access(), **filament}, samples, **how)
        rows = read_samples(samples)
    rows = rows[rows["issued"] != NEVER]
    rows = rows[np.argsort(rows["issued"], kind="stable")]
    intended, issued = (rows[key].astype(np.int64) for key in ("intended", "issued"))
    # What was due already when the one before was handed over waited for that call alone. Two that
    # share a call share a stamp: the first of them took no time, the second all of it.
    waited = intended[1:] <= issued[:-1]
    return np.sort(intended), np.diff(issued)[waited]


def waits_ns(
    arrivals: NDArray[np.int64], calls: NDArray[np.int64], workers: int
) -> NDArray[np.int64]:
    """Return how late operations are that go to workers in turn, whose calls take times drawn from
    `calls` [ns]."""
    drawn = np.random.default_rng(1).choice(calls, len(arrivals))
    late = np.zeros(len(arrivals), np.int64)
    free = [0] * workers
    for place, (arrival, call) in enumerate(zip(arrivals, drawn, strict=True)):
        begins = max(int(arrival), free[place % workers])
        late[place] = begins - arrival
        free[place % workers] = begins + int(call)
    return late


@contextlib.contextmanager
def computing(count: int, cpu: int) -> Iterator[None]:
    """Run so many processes that compute on a processor."""
    command = [sys.executable, "-c", "while True: pass"]
    with contextlib.ExitStack() as running:
        for _ in range(count):
            process = subprocess.Popen(command)
            running.callback(process.wait)
            running.callback(process.kill)
            os.sched_setaffinity(process.pid, {cpu})
        yield


def with_neighbours(arguments: argparse.Namespace) -> None:
    """Print lateness at a device with others on the generator's processor, ours and fio's."""
    print(
        f"\nneighbours on the generator's processor, loop device, {DEVICE_RATE:,}/s: lateness at "
        f"the device [us], medians of {arguments.rounds} rounds"
    )
    print("| neighbours | | p50 | p98 | p99 | p99.9 | slope [ppm] | own word |")
    print("|---|---|---|---|---|---|---|---|")
    with loop_device(DEVICE_BYTES) as device, tempfile.TemporaryDirectory() as scratch:
        sides = [
            partial(witnessed, device, Path(scratch), partial(run, device, arguments))
            for run in (ours, theirs)
        ]
        for count in NEIGHBOURS:
            with computing(count, arguments.cpu):
                rounds = in_turn(arguments.rounds, *sides)
            for who, side in (("bw", 0), ("fio, linear", 1)):
                _print_late(f"{count} | {who}", [pair[side] for pair in rounds])


PARTS: dict[str, Callable[[argparse.Namespace], None]] = {
    "device": to_device,
    "witness": against_witness,
    "workers": with_workers,
    "neighbours": with_neighbours,
}


def _print_late(who: str, runs: list[Seen]) -> None:
    median = [statistics.median(run.late[place] for run in runs) for place in range(6)]
    own = sorted(runs, key=lambda run: run.late.p98_us)[len(runs) // 2].own
    figures = " | ".join(f"{value:.0f}" for value in median[1:5])
    print(f"| {who} | {figures} | {median[5]:+.1f} | {own} |", flush=True)


def _poisson(path: str, device: str, scratch: Path, arguments: argparse.Namespace) -> None:
    sides = {
        "bw": partial(ours, path, arguments, "poisson"),
        "fio": partial(theirs, path, arguments, "poisson"),
    }
    for who, run in sides.items():
        seen = witnessed(device, scratch, run)
        print(
            f"  Poisson, {who}: {seen.rate_per_s:,.0f}/s at the device, dispersion of "
            f"gaps {seen.dispersion:.2f} (1 is Poisson); own word [us]: {seen.own}"
        )


def main() -> int:
    """Print the tables; what cannot be measured here is told."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--cpu", type=int, default=(os.cpu_count() or 1) - 1)
    parser.add_argument("--fifo", action="store_true")
    parser.add_argument("--only", choices=["null", *PARTS])
    add_busy_option(parser)
    arguments = parser.parse_args()
    # Ended from outside, the devices are taken away too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    refuse_busy(arguments.busy)
    print(machine() + (", all under SCHED_FIFO" if arguments.fifo else ""))
    if arguments.fifo:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    if arguments.only in (None, "null"):
        to_null(arguments)
    if arguments.only == "null":
        return 0
    if shutil.which("fio") is None:
        print("not measured: lateness at a device beside fio: fio is not installed")
        return 0
    print(f"\n{version()}")
    try:
        for name, part in PARTS.items():
            if arguments.only in (None, name):
                part(arguments)
    except (OSError, EngineError, subprocess.CalledProcessError) as error:
        print(f"not measured: lateness at a device: {error}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
