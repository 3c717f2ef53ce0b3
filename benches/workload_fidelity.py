"""What a replayer's late issue does to the measured workload: Figures 2, 6, 8, 9, 10 and 11 of
Buttress.

Every pacer replays the busiest seconds of three real traces (a user without them: a generated
Poisson and on/off trace) at two speeds to two loop devices: in memory, and on a disk past the
page cache. Pacers: spin is the engine's own; ded-clock, sleep and select are those of the paper.
The judge is outside of all of them: the block layer's stamps (block_rq_issue, block_rq_complete).
Response: from issue to completion there. Queue: the mean number in flight that an operation
finds when it arrives. The mean over time is no second figure: by Little's law its ratio is that of
the responses whenever two replays last equally long.

- Figure 2: mean response and mean queue of each pacer over those of spin, for
  each trace and system. The paper divides by Buttress. Here: medians of the rounds' ratios.
- Figure 6: the distribution of how far arrivals at the device are off, for each pacer, at 4x,
  where the device falls behind.
- Figure 8: the distribution of the responses behind Figure 2, for each pacer, at 1x.
- Figure 9: the same two ratios of spin with altered times of issue over spin with those of the
  trace: each operation later by a draw from a uniform distribution (--delay), or at the next tick
  (--quantize). At 1x.
- Figure 10: burstiness. The paper draws arrivals per second; here is the index of dispersion of
  the arrivals at the device at 1, 10 and 100 ms, beside the trace's.
- Figure 11: PostMark (parts/postmark.py) recorded on each system, then replayed on the same
  device: responses and queue over PostMark's own. Its replay at 4x has no original.

Also of each replay: operations missing or added (kind, place and size are compared, so that none
means equal counts and bytes), the share in their millisecond, how far off the others arrive.
Rounds are in turn; nothing is asserted. Needs root; PostMark needs postmark.

Usage: workload_fidelity.py [--rounds 3] [--seconds 3] [--disk /var/tmp] [--first] [--out
pacers.csv]
       workload_fidelity.py --tables pacers.csv
       workload_fidelity.py --plot docs/images/pacers-ratios.png pacers.csv
       (or pacers-errors.png, pacers-responses.png, pacers-altered.png, pacers-postmark.png)
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import os
import shutil
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from collections.abc import Mapping as Dict
from functools import partial
from pathlib import Path
from typing import NamedTuple

from parts import engine, postmark, traces
from parts.busy_machine import add_busy_option, refuse_busy
from parts.device import depth_of, going_first, loop_device, machine
from parts.engine import PACERS, Document
from parts.judged import bytes_of, judged
from parts.stand import in_turn
from parts.traces import Stretch

from benchwright.features.load.samples import read_samples
from benchwright.report.charts.draw import draw_sheet
from benchwright.report.charts.sheet import (
    AxisUnit,
    CurveForm,
    LevelLine,
    Panel,
    PanelAxis,
    PanelCurve,
    Sheet,
    named_ticks,
)
from benchwright.report.charts.style import ChartStyle

DEVICE_BYTES = 1 << 30
SECTOR_BYTES = 512
TRACES = ("windows-mssql", "linux-webserver-2", "cloudphysics")
SPEEDS = (1, 4)
POSTMARK, ORIGINAL, SPIN = "PostMark", "original", "spin"
MS_NS = 1_000_000
SHARES = (*range(0, 100, 4), 98, 99, 99.5, 99.9)
"""Where distributions are stored [percent]."""
FOUND = {"response": "response_us", "queue found by an arrival": "queue_at_arrival"}


class Side(NamedTuple):
    """A way to replay."""

    name: str
    pacer: str
    altered: Document


def _delay(most_ms: int) -> Document:
    return {"delay": {"type": "uniform", "low": 0, "high": most_ms * MS_NS}}


BY_PACER = tuple(Side(name, name, {}) for name in PACERS)
ALTERED = (
    Side("delay 0..1 ms", SPIN, _delay(1)),
    Side("delay 0..10 ms", SPIN, _delay(10)),
    Side("delay 0..100 ms", SPIN, _delay(100)),
    Side("ticks of 1 ms", SPIN, {"quantize_ns": MS_NS}),
    Side("ticks of 10 ms", SPIN, {"quantize_ns": 10 * MS_NS}),
    Side("ticks of 100 ms", SPIN, {"quantize_ns": 100 * MS_NS}),
)


class Observed(NamedTuple):
    """What the fields of the same names are in a run."""

    missing_bytes: int
    lost: int
    in_their_ms: float
    off_p50_us: float
    off_p98_us: float
    off_us: tuple[float, ...]


class Run(NamedTuple):
    """One replay as the device saw it, or the original."""

    system: str
    trace: str
    speed: int
    side: str
    round: int
    load_average: float
    operations: int
    missing: int
    """Of the trace, not seen at the device."""
    added: int
    """Seen at the device, not of the trace."""
    missing_bytes: int
    """Bytes of the trace less those at the device."""
    lost: int
    """Events that the observer lost."""
    in_their_ms: float
    off_p50_us: float
    off_p98_us: float
    response_us: float
    queue_at_arrival: float
    dispersion_1ms: float
    dispersion_10ms: float
    dispersion_100ms: float
    trace_1ms: float
    """The trace's own dispersion, at the replay's speed."""
    trace_10ms: float
    trace_100ms: float
    responses_us: tuple[float, ...]
    """At SHARES."""
    off_us: tuple[float, ...]
    """How far arrivals are off, at SHARES; empty in tables of an earlier version."""


Key = tuple[str, str, int]
"""System, trace, speed."""


def run_of(key: Key, side: str, compared: Document, observed: Observed) -> Run:
    """Return a run from `trace-compare`'s view of it as `b`, and what else was observed."""
    seen, trace = compared["b"], compared["a"]
    points = {one["share_micro"]: one["response_ns"] for one in seen["response_cdf"]}
    return Run(
        *key,
        side,
        0,
        round(os.getloadavg()[0], 1),
        seen["operations"],
        compared["unmatched_a"],
        compared["unmatched_b"],
        *observed[:-1],
        response_us=seen["response_ns"]["mean"] / 1e3,
        queue_at_arrival=seen["queue"]["mean_at_arrival"],
        **_dispersions("dispersion", seen),
        **_dispersions("trace", trace),
        responses_us=tuple(points[round(share * 1e4)] / 1e3 for share in SHARES),
        off_us=observed.off_us,
    )


def _dispersions(name: str, side: Document) -> dict[str, float]:
    known = {one["bin_ns"] // MS_NS: one["index"] for one in side["dispersion"]}
    return {f"{name}_{ms}ms": known.get(ms) or 0.0 for ms in (1, 10, 100)}


class Replays:
    """Replays stretches to one device and keeps what the observer saw."""

    def __init__(
        self, system: str, device: str, scratch: Path, arguments: argparse.Namespace
    ) -> None:
        self._system, self._device, self._scratch = system, device, scratch
        self._arguments = arguments
        self.runs: list[Run] = []

    def each(self, stretch: Stretch, speed: int, sides: Iterable[Side]) -> None:
        """Replay a stretch, whose times are those of its speed, by each side in turn."""
        trace = traces.write_bw(stretch, self._scratch / "trace.bw")
        key = (self._system, stretch.name, speed)
        turns = [partial(self._once, key, side, stretch, trace) for side in sides]
        for number, runs in enumerate(in_turn(self._arguments.rounds, *turns), 1):
            self.runs += [run._replace(round=number) for run in runs]
        print(f"{self._system}, {speed}x of {stretch.about()}", flush=True)

    def _once(self, key: Key, side: Side, stretch: Stretch, trace: Path) -> Run:
        samples = self._scratch / "samples.bw"
        target = {"kind": "file", "path": self._device, "direct": True}
        replay = partial(
            engine.replay,
            target | {"overwrite": True},
            trace,
            samples,
            side.pacer,
            side.altered,
            depth=depth_of(self._device),
            cpus=[self._arguments.cpu],
        )
        found = judged(replay, stretch, trace, self._device)
        samples.unlink()
        lost = found.observer["lost_events"] + found.observer["unread_lines"]
        if lost:
            print(f"{key}, {side.name}: the observer lost {lost} events")
        observed = Observed(
            bytes_of(stretch.rows) - found.bytes,
            lost,
            found.in_their_ms,
            found.agreement.error_ns(50) / 1e3,
            found.agreement.error_ns(98) / 1e3,
            tuple(found.agreement.error_ns(share) / 1e3 for share in SHARES),
        )
        return run_of(key, side.name, found.compared, observed)

    def postmark(self) -> None:
        """Record PostMark on the device, then replay what was recorded."""
        recorded = self._scratch / "postmark.bw"
        recorded.unlink(missing_ok=True)
        lost = postmark.record(self._device, self._arguments.transactions, recorded)["lost_events"]
        stretch = Stretch(POSTMARK, read_samples(recorded))
        own = engine.compared(recorded, recorded, 0)
        exact = Observed(0, lost, 1.0, 0.0, 0.0, (0.0,) * len(SHARES))
        key = (self._system, POSTMARK, 1)
        self.runs.append(run_of(key, ORIGINAL, own, exact))
        for speed in SPEEDS:
            self.each(traces.faster(stretch, speed), speed, BY_PACER)


def measure(arguments: argparse.Namespace) -> None:
    """Replay everything; store what there is after each system's traces."""
    found: list[Run] = []
    with tempfile.TemporaryDirectory(prefix="bw-workload-") as folder:
        scratch = Path(folder)
        for system, disk in (("memory", None), ("disk", arguments.disk)):
            with loop_device(DEVICE_BYTES, disk) as device:
                replays = Replays(system, device, scratch, arguments)
                for stretch in stretches(arguments.seconds, scratch):
                    for speed in SPEEDS:
                        sides = BY_PACER + (ALTERED if speed == 1 else ())
                        replays.each(traces.faster(stretch, speed), speed, sides)
                    store(found + replays.runs, arguments.out)
                if shutil.which("postmark") is None:
                    print("not measured: PostMark, which is not installed")
                else:
                    replays.postmark()
                found += replays.runs
                store(found, arguments.out)


def stretches(seconds: float, scratch: Path) -> list[Stretch]:
    """Return the busiest stretch of each trace, fitted to the device."""
    found = [traces.real(name, seconds, scratch) for name in TRACES]
    known = [stretch for stretch in found if stretch is not None]
    if not known:
        print(f"{traces.FOLDER} is not there: generated traces instead")
        known = [traces.poisson(1000, seconds), traces.on_off(1000, seconds)]
    return [traces.fitted(stretch, DEVICE_BYTES, SECTOR_BYTES) for stretch in known]


# -- stored ----------------------------------------------------------------------------


def store(found: list[Run], out: Path) -> None:
    """Write the table: a row for each run, the distributions in columns of their own."""
    with out.open("w", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(
            [*Run._fields[:-2], *(f"{name}{share}_us" for name in ("p", "off") for share in SHARES)]
        )
        for run in found:
            cells = (*run[:-2], *run.responses_us, *run.off_us)
            rows.writerow(f"{cell:.5g}" if isinstance(cell, float) else cell for cell in cells)


def stored(data: Path) -> list[Run]:
    """Return what `measure` stored."""
    kinds: dict[str, Callable[[str], object]] = {
        **dict.fromkeys(("system", "trace", "side"), str),
        **dict.fromkeys(("speed", "round", "operations"), int),
        **dict.fromkeys(("missing", "added", "missing_bytes", "lost"), int),
    }
    with data.open(newline="") as file:
        return [
            Run(
                *(kinds.get(name, float)(row[name]) for name in Run._fields[:-2]),
                tuple(float(row[f"p{share}_us"]) for share in SHARES),
                tuple(float(row[f"off{share}_us"]) for share in SHARES if f"off{share}_us" in row),
            )
            for row in csv.DictReader(file)
        ]


class Ratios(NamedTuple):
    """Of one side to its reference: median, least and largest of the rounds."""

    median: float
    least: float
    largest: float


def ratios(found: list[Run], key: Key, side: str, field: str) -> Ratios:
    """Return a side's ratios to PostMark itself, or to spin in the same round."""
    of = [run for run in found if key == run[:3]]
    original = [run for run in of if run.side == ORIGINAL]
    reference = {run.round: getattr(run, field) for run in of if run.side == SPIN}
    values = [
        getattr(run, field) / (getattr(original[0], field) if original else reference[run.round])
        for run in of
        if run.side == side
    ]
    return Ratios(statistics.median(values), min(values), max(values))


def keys(found: list[Run]) -> list[Key]:
    """Return what was replayed where and how fast, in the order of the runs."""
    return list(dict.fromkeys((run.system, run.trace, run.speed) for run in found))


# -- tables ----------------------------------------------------------------------------


def print_tables(found: list[Run]) -> None:
    """Print the ratios of all figures, and how arrivals were distorted."""
    loads = [run.load_average for run in found]
    print(f"load average {min(loads):.1f} to {max(loads):.1f} while it was measured")
    print(
        "\n| system | trace | speed | side | response | queue | in their ms | off by p50 | p98 "
        "| dispersion at 1, 10, 100 ms | missing, added | missing bytes |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|---|---|")
    for key in keys(found):
        of = [run for run in found if key == run[:3]]
        print(f"| {_row(key, of[-1], 'trace')} | | | | | | {_burstiness(of, 'trace')} | | |")
        for side in dict.fromkeys(run.side for run in of):
            runs = [run for run in of if run.side == side]
            both = (ratios(found, key, side, field) for field in FOUND.values())
            cells = [_ratio_text(one) for one in both]
            cells += [f"{_median(runs, 'in_their_ms'):.1%}"]
            cells += [f"{_median(runs, name):,.0f} us" for name in ("off_p50_us", "off_p98_us")]
            cells += [_burstiness(runs, "dispersion")]
            most = [
                str(max(getattr(run, name) for run in runs))
                for name in ("missing", "added", "missing_bytes")
            ]
            cells += [", ".join(most[:2]), most[2]]
            print(f"| {_row(key, runs[0], side)} | {' | '.join(cells)} |")


def _row(key: Key, run: Run, side: str) -> str:
    count = f" ({run.operations:,} operations)" if side == "trace" else ""
    return f"{key[0]} | {key[1]}{count} | {key[2]}x | {side}"


def _burstiness(runs: list[Run], name: str) -> str:
    return ", ".join(f"{_median(runs, f'{name}_{ms}ms'):.3g}" for ms in (1, 10, 100))


def _ratio_text(one: Ratios) -> str:
    return f"{one.median:.2f} ({one.least:.2f} to {one.largest:.2f})"


def _median(runs: list[Run], name: str) -> float:
    return statistics.median(getattr(run, name) for run in runs)


# -- figures ---------------------------------------------------------------------------


def ratio_sheet(found: list[Run]) -> Sheet:
    """Return Figure 2: a row for each trace and speed, a curve for each pacer."""
    of = [key[1:] for key in keys(found) if key[1] != POSTMARK]
    names = {f"{trace.split(',')[0]} {speed}x": (trace, speed) for trace, speed in of}

    def curves(system: str, field: str) -> Dict[str, list[Ratios]]:
        return {
            side: [ratios(found, (system, *one), side, field) for one in names.values()]
            for side in PACERS[1:]
        }

    return _ratio_sheet(found, list(names), curves)


def altered_sheet(found: list[Run]) -> Sheet:
    """Return Figure 9: a row for each alteration, a curve for each trace."""
    names = [side.name for side in ALTERED]
    of = dict.fromkeys(run.trace for run in found if run.trace != POSTMARK)

    def curves(system: str, field: str) -> Dict[str, list[Ratios]]:
        return {
            trace: [ratios(found, (system, trace, 1), name, field) for name in names]
            for trace in of
        }

    return _ratio_sheet(found, names, curves)


def _ratio_sheet(
    found: list[Run], names: list[str], curves: Callable[[str, str], Dict[str, list[Ratios]]]
) -> Sheet:
    """Return a panel for each system and figure, with these rows."""
    panels = [
        Panel(
            f"{system}: {label}",
            PanelAxis("", ticks=named_ticks(names)),
            PanelAxis("ratio to spin", log=True),
            tuple(_ratio_curves(curves(system, field))),
            marks=(LevelLine("", 1.0),),
            sideways=True,
        )
        for label, field in FOUND.items()
        for system in dict.fromkeys(run.system for run in found)
    ]
    return Sheet("", tuple(panels), columns=2)


def _ratio_curves(of: Dict[str, list[Ratios]]) -> Iterator[PanelCurve]:
    for at, (label, each) in enumerate(of.items()):
        x = tuple(place + (at - (len(of) - 1) / 2) * 0.2 for place in range(len(each)))
        medians, low, high = zip(*each, strict=True)
        form = CurveForm.POINTS
        yield PanelCurve(label, x, medians, form, at + 1, low=low, high=high)


def response_sheet(found: list[Run]) -> Sheet:
    """Return Figure 8: the responses of each pacer, a panel for each trace and system, at 1x."""
    of = [key for key in keys(found) if key[2] == 1 and key[1] != POSTMARK]
    return Sheet("", tuple(_cdf_panel(found, key, PACERS, RESPONSES) for key in of), columns=3)


def error_sheet(found: list[Run]) -> Sheet:
    """Return Figure 6: how far off arrivals are, a panel for each trace and system, at 4x."""
    of = [key for key in keys(found) if key[2] == max(SPEEDS) and key[1] != POSTMARK]
    return Sheet("", tuple(_cdf_panel(found, key, PACERS, ERRORS) for key in of), columns=3)


def postmark_sheet(found: list[Run]) -> Sheet:
    """Return Figure 11: PostMark's responses and those of the replays, a panel for each system."""
    of = [key for key in keys(found) if key[2] == 1 and key[1] == POSTMARK]
    sides = (ORIGINAL, *PACERS)
    return Sheet("", tuple(_cdf_panel(found, key, sides, RESPONSES) for key in of), columns=2)


class Distribution(NamedTuple):
    """What a panel shows of the runs."""

    label: str
    field: str


RESPONSES = Distribution("response at the device", "responses_us")
ERRORS = Distribution("off by, early or late", "off_us")


def _cdf_panel(found: list[Run], key: Key, sides: tuple[str, ...], what: Distribution) -> Panel:
    curves = []
    for at, side in enumerate(sides):
        runs = [run for run in found if key == run[:3] and run.side == side]
        values = (getattr(run, what.field) for run in runs)
        x = tuple(statistics.median(rounds) * 1e3 for rounds in zip(*values, strict=True))
        if not x:
            raise SystemExit(f"{what.field} of {key}, {side}: not in this table; measure again")
        # An operation that is not off at all has no place on the axis.
        shown = [(value, share / 100) for value, share in zip(x, SHARES, strict=True) if value > 0]
        curves.append(PanelCurve(side, *zip(*shown, strict=True), CurveForm.LINE, at, at))
    return Panel(
        f"{key[1]}, {key[0]}",
        PanelAxis(what.label, AxisUnit.TIME, log=True),
        PanelAxis("share of operations", AxisUnit.SHARE, low=0, high=1.02),
        tuple(curves),
    )


FIGURES: dict[str, tuple[Callable[[list[Run]], Sheet], float]] = {
    "pacers-ratios": (ratio_sheet, 5.2),
    "pacers-errors": (error_sheet, 3.8),
    "pacers-responses": (response_sheet, 3.8),
    "pacers-altered": (altered_sheet, 5.2),
    "pacers-postmark": (postmark_sheet, 4.6),
}
"""By the name of the image: the sheet, and the width of a panel [in]."""


def draw(image: Path, data: Path) -> None:
    """Draw the figure that the image is named after."""
    sheet, width_in = FIGURES[image.stem]
    style = ChartStyle(width_in=width_in, height_in=width_in * 0.68)
    draw_sheet(sheet(stored(data)), style).savefig(image)


def main() -> int:
    """Measure, print the tables, or draw what was measured."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3, help="of each trace at 1x")
    parser.add_argument("--transactions", type=int, default=600, help="of each copy of PostMark")
    parser.add_argument("--disk", type=Path, default=Path("/var/tmp"))
    parser.add_argument("--cpu", type=int, default=1, help="where the engine is pinned")
    parser.add_argument("--first", action="store_true", help="at the highest priority (root)")
    parser.add_argument("--out", type=Path, default=Path("pacers.csv"))
    parser.add_argument("--tables", type=Path, metavar="DATA")
    parser.add_argument("--plot", type=Path, nargs=2, metavar=("IMAGE", "DATA"))
    add_busy_option(parser)
    arguments = parser.parse_args()
    if arguments.plot is not None:
        draw(*arguments.plot)
        return 0
    if arguments.tables is not None:
        print_tables(stored(arguments.tables))
        return 0
    if os.geteuid() != 0:
        print("SKIPPED: a loop device and the kernel's events take root")
        return 0
    engine.build_with_pacers()
    refuse_busy(arguments.busy)
    print(machine())
    with going_first() if arguments.first else contextlib.nullcontext():
        measure(arguments)
    print_tables(stored(arguments.out))
    return 0


if __name__ == "__main__":
    sys.exit(main())
