"""Issue error of the engine's loop and of the naive replayers: Figures 4, 5 and 7 of the paper.

A smooth trace (Poisson, generated) and a bursty one (windows-mssql, its busiest seconds;
where it is not, a generated on/off trace) are replayed at 1x and 4x, with O_DIRECT to a
loop device in memory (without root: to a file) and to nothing, then evenly spaced
operations at 100 to 100,000 a second. Pacers: spin is the engine's own; select, sleep and
ded-clock are those that Buttress was compared with.
The product's engine has only spin: this program builds one with all of them.
Runs of the pacers are interleaved; each figure is the median of the runs. Nothing is
asserted. Source: Buttress paper, section 6.3.

Usage: python3 benches/issue_error.py [--seconds 10] [--runs 3] [--plots FOLDER] [--first]
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from parts import engine, traces
from parts.busy_machine import add_busy_option, refuse_busy
from parts.device import going_first, loop_device, machine
from parts.engine import PACERS
from parts.errors import GRID_NS, Errors, median_of

from benchwright.report.charts.draw import draw_sheet
from benchwright.report.charts.sheet import AxisUnit, CurveForm, Panel, PanelAxis, PanelCurve, Sheet
from benchwright.report.charts.style import ChartStyle

SPEEDS = (1, 4)
RATES = (100, 300, 1_000, 3_000, 10_000, 30_000, 100_000)
FILE_BYTES = 2 << 30
PAPER = """\
The paper (2004, 8 processors of 440 MHz), 1x: Buttress within 10 us 98 % (omail), within 50 us
95 % (harp); DED-CLOCK within 100 us 60 % (omail), 89 % (harp); SLEEP and SELECT within 1 ms
about 30 %. At 4x Buttress within 50 us: 90 % (omail), 92 % (harp)."""


class Case(NamedTuple):
    """What is replayed where."""

    trace: str
    speed: int
    target: str


class Bench:
    """Runs loads on a file and on nothing."""

    def __init__(self, scratch: Path, path: str, cpu: int) -> None:
        self._scratch = scratch
        self._cpu = cpu
        self.targets: dict[str, engine.Document] = {
            "device": {"kind": "file", "path": path, "direct": True, "overwrite": True}
            | ({} if path.startswith("/dev/") else {"size_bytes": FILE_BYTES}),
            "null": {"kind": "null"},
        }

    def replay(self, trace: Path, target: str, pacer: str) -> Errors:
        """Replay a trace once."""
        samples = self._scratch / "samples.bw"
        where = self.targets[target]
        engine.replay(where, trace, samples, pacer, cpus=[self._cpu])
        return Errors.of(engine.issue_errors_ns(samples))

    def evenly(self, rate: int, seconds: float, target: str, pacer: str) -> Errors:
        """Issue random 4 KiB reads at a constant rate once."""
        samples = self._scratch / "samples.bw"
        access = {
            "kinds": [["read", 1]],
            "size": {"type": "constant", "value": 4096},
            "location": {"type": "uniform"},
            "region": {"offset_bytes": 0, "length_bytes": FILE_BYTES},
            "align_bytes": 4096,
        }
        filament = {"type": "open", "arrival": {"type": "constant"}, "access": access}
        filament |= {"rate": {"micro_per_s": rate * 10**6}}
        how = {"pacer": pacer, "cpus": [self._cpu]}
        how |= {"duration_ns": round(seconds * traces.SECOND_NS)}
        engine.load(self.targets[target], filament, samples, **how)
        return Errors.of(engine.issue_errors_ns(samples))


def replayed(
    bench: Bench, arguments: argparse.Namespace, scratch: Path
) -> dict[tuple[Case, str], Errors]:
    """Replay every trace in every way, the pacers in turn; return the medians."""
    found: dict[tuple[Case, str], list[Errors]] = {}
    for case, path in list(_cases(arguments.seconds, scratch)):
        for run in range(arguments.runs):
            for pacer in _turned(PACERS, run):
                errors = bench.replay(path, case.target, pacer)
                found.setdefault((case, pacer), []).append(errors)
        print(".", end="", file=sys.stderr, flush=True)
    return {key: median_of(runs) for key, runs in found.items()}


def _cases(seconds: float, scratch: Path) -> Iterator[tuple[Case, Path]]:
    bursty = traces.real("windows-mssql", seconds, scratch)
    bursty = bursty or traces.on_off(2000, seconds)
    smooth = traces.poisson(len(bursty.rows) / bursty.seconds, seconds)
    for stretch in (smooth, bursty):
        print(f"trace: {stretch.about()}")
        stretch = traces.fitted(stretch, FILE_BYTES, 4096)
        for speed in SPEEDS:
            name = f"{stretch.name.split(',')[0]}-{speed}x.bw"
            path = scratch / name.replace("/", "-").replace(" ", "-")
            traces.write_bw(traces.faster(stretch, speed), path)
            for target in ("device", "null"):
                yield Case(stretch.name, speed, target), path


def against_rate(bench: Bench, arguments: argparse.Namespace) -> dict[tuple[str, int, str], Errors]:
    """Issue at every rate in every way, the pacers in turn; return the medians."""
    found: dict[tuple[str, int, str], list[Errors]] = {}
    for run in range(arguments.runs):
        for rate in RATES:
            for target in bench.targets:
                for pacer in _turned(PACERS, run):
                    errors = bench.evenly(rate, arguments.rate_seconds, target, pacer)
                    found.setdefault((target, rate, pacer), []).append(errors)
        print(".", end="", file=sys.stderr, flush=True)
    return {key: median_of(runs) for key, runs in found.items()}


def _turned(words: tuple[str, ...], by: int) -> tuple[str, ...]:
    by %= len(words)
    return words[by:] + words[:by]


def short(value: float) -> str:
    """Return a figure with as many decimals as say something."""
    return f"{value:,.{0 if value >= 1000 else 1 if value >= 10 else 2}f}"


def print_replayed(found: dict[tuple[Case, str], Errors]) -> None:
    """Print the shares that the paper states, and percentiles."""
    print(
        "\n| trace | speed | target | pacer | n | 10 us | 50 us | 100 us | 1 ms | p50 | p98 | p99.9 |"
    )
    print("|---|---|---|---|---:|---:|---:|---:|---:|---:|---:|---:|")
    for (case, pacer), errors in found.items():
        shares = " | ".join(f"{errors.within(us * 1000):.1%}" for us in (10, 50, 100, 1000))
        times = " | ".join(short(errors.us(q)) for q in ("p50", "p98", "p99.9"))
        print(
            f"| {case.trace} | {case.speed}x | {case.target} | {pacer} | {errors.count:,} "
            f"| {shares} | {times} |"
        )
    print(f"\nIssued within so much of the intended start; percentiles in us.\n{PAPER}")


def print_rates(found: dict[tuple[str, int, str], Errors]) -> None:
    """Print median, mean and p98 of each pacer against the rate."""
    print("\n| target | rate [1/s] | " + " | ".join(PACERS) + " |")
    print("|---|---:|" + "---:|" * len(PACERS))
    for target, rate in dict.fromkeys(key[:2] for key in found):
        cells = [
            " / ".join(short(found[target, rate, pacer].us(q)) for q in ("p50", "mean", "p98"))
            for pacer in PACERS
        ]
        print(f"| {target} | {rate:,} | " + " | ".join(cells) + " |")
    print("\nIssue error: median / mean / p98 in us.")


def replayed_sheet(found: dict[tuple[Case, str], Errors], target: str) -> Sheet:
    """Return Figures 4 and 5: a CDF for each pacer, a panel for each trace and speed."""
    cases = [case for case in dict.fromkeys(case for case, _ in found) if case.target == target]
    return Sheet("", tuple(_cdf_panel(found, case) for case in cases))


def _cdf_panel(found: dict[tuple[Case, str], Errors], case: Case) -> Panel:
    x = tuple(float(value) for value in GRID_NS)
    curves = tuple(
        PanelCurve(pacer, x, tuple(found[case, pacer].shares), CurveForm.LINE, at, at)
        for at, pacer in enumerate(PACERS)
    )
    return Panel(
        f"{case.trace}, {case.speed}x, to {'a device (O_DIRECT)' if case.target == 'device' else 'null'}",
        PanelAxis("issue error", AxisUnit.TIME, log=True, low=10, high=1e9),
        PanelAxis("share of operations", AxisUnit.SHARE, low=0, high=1.02),
        curves,
    )


def rate_sheet(found: dict[tuple[str, int, str], Errors]) -> Sheet:
    """Return Figure 7: issue error against the rate, for each target and statistic."""
    panels = [
        Panel(
            f"{name}, {target}",
            PanelAxis("operations per second", log=True),
            PanelAxis("issue error", AxisUnit.TIME, log=True),
            tuple(
                PanelCurve(
                    pacer,
                    tuple(float(rate) for rate in RATES),
                    tuple(found[target, rate, pacer].us(q) * 1e3 for rate in RATES),
                    CurveForm.MARKED,
                    at,
                    at,
                )
                for at, pacer in enumerate(PACERS)
            ),
        )
        for target in dict.fromkeys(key[0] for key in found)
        for q, name in (("p50", "median"), ("mean", "mean"), ("p98", "p98"))
    ]
    return Sheet("", tuple(panels), columns=3)


@contextlib.contextmanager
def target(scratch: Path) -> Iterator[str]:
    """Yield a loop device in memory; without root the path of a file to be made."""
    if os.geteuid() != 0:
        yield str(scratch / "target")
        return
    with loop_device(FILE_BYTES) as device:
        yield device


def draw(sheet: Sheet, path: Path, width_in: float) -> None:
    """Write a page of panels as an image."""
    draw_sheet(sheet, ChartStyle(width_in=width_in, height_in=width_in * 0.68)).savefig(path)
    print(f"wrote {path}")


def main() -> int:
    """Measure, print the tables, draw the figures if asked to."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=10, help="of each trace")
    parser.add_argument("--rate-seconds", type=float, default=1, help="at each rate")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--cpu", type=int, default=1, help="where the engine is pinned")
    parser.add_argument("--plots", type=Path, help="folder for the figures")
    parser.add_argument("--first", action="store_true", help="at the highest priority (root)")
    add_busy_option(parser)
    arguments = parser.parse_args()
    engine.build_with_pacers()
    refuse_busy(arguments.busy)
    print(machine())
    with (
        going_first() if arguments.first else contextlib.nullcontext(),
        tempfile.TemporaryDirectory(prefix="bw-issue-error-") as folder,
        target(Path(folder)) as path,
    ):
        print(f"target: {path}")
        bench = Bench(Path(folder), path, arguments.cpu)
        by_trace = replayed(bench, arguments, Path(folder))
        print_replayed(by_trace)
        by_rate = against_rate(bench, arguments)
        print_rates(by_rate)
    if arguments.plots is not None:
        draw(replayed_sheet(by_trace, "device"), arguments.plots / "issue-error-device.png", 4.6)
        draw(replayed_sheet(by_trace, "null"), arguments.plots / "issue-error-null.png", 4.6)
        draw(rate_sheet(by_rate), arguments.plots / "issue-error-rate.png", 3.8)
    return 0


if __name__ == "__main__":
    sys.exit(main())
