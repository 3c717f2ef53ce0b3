"""How much bursts lengthen responses: Fstress's metronome beside constant and Poisson arrivals.

DB_TP on NFS-Ganesha (examples/workbench/nfs-ganesha-arrivals.toml), once with a disk that is
limited to 1,000 operations a second, so that a tick of the metronome has about one arrival, and
once without that limit, where it has several. Each run is a ramp of rates on a new server;
arrivals are in turn. The load factor is the rate over the throughput of a closed loop with 64
users. The points of the picture are runs that kept up with the rate, the lines their medians.

Usage: arrival_bursts.py [--repetitions 3] [--out arrivals.csv]   measure: about 15 minutes a
       repetition; root, nfs-ganesha, nfs-ganesha-vfs, rpcbind, btrfs-progs
       arrival_bursts.py --plot docs/images/arrivals.png arrivals.csv
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from parts.busy_machine import add_busy_option, refuse_busy

from benchwright.report.charts.draw import draw_sheet
from benchwright.report.charts.sheet import AxisUnit, CurveForm, Panel, PanelAxis, PanelCurve, Sheet
from benchwright.report.charts.style import ChartStyle

BW = Path(sys.executable).with_name("bw")
SPEC = Path(__file__).parents[1] / "examples/workbench/nfs-ganesha-arrivals.toml"
CLOSED = "closed loop"
USERS = 64
HOLD = "20s"


class ServerCase(NamedTuple):
    """A server, the levels of its ramp and the arrivals on it."""

    name: str
    factors: dict[str, str]
    levels: tuple[int, int, int]
    """First, step and last [1/s]."""
    arrivals: tuple[str, ...]


CASES = (
    ServerCase(
        "a disk of 1,000 operations/s",
        {"memory": "128M", "iops": "1000"},
        (350, 250, 1100),
        ("constant", "poisson", "metronome", "metronome 100ms"),
    ),
    ServerCase(
        "no limit of the disk",
        {"memory": "2G", "iops": "1000000"},
        (2000, 1500, 5000),
        ("constant", "poisson", "metronome"),
    ),
)
NAMES = {
    "constant": "constant",
    "poisson": "Poisson",
    "metronome": "metronome 1 ms (Fstress)",
    "metronome 100ms": "metronome 100 ms",
}


class Response(NamedTuple):
    """The responses at one level of one run."""

    server: str
    arrival: str
    repetition: int
    rate_per_s: float
    throughput_per_s: float
    mean_ms: float
    p99_ms: float
    """Infinite if so many operations did not end."""

    @property
    def kept_up(self) -> bool:
        """Whether the server did nearly all that arrived."""
        return self.throughput_per_s > 0.9 * self.rate_per_s


def ramp(case: ServerCase, arrival: str, repetition: int, *levels: str) -> list[Response]:
    """Run one ramp on a new server."""
    factors = {"arrival": arrival, **case.factors}
    chosen = [word for name in factors for word in ("-P", f"{name}={factors[name]}")]
    # All levels are run: neither the end of growth nor errors end the ramp.
    ends = ["--growth", "0.1%", "--flat-levels", "9", "--max-errors", "50%"]
    how = ["--hold", HOLD, "--seed", str(repetition), "--json"]
    with tempfile.TemporaryDirectory(prefix="bw-arrivals-") as folder:
        words = [str(BW), "ramp", str(SPEC), *chosen, *levels, *ends, *how]
        done = subprocess.run(words, cwd=folder, capture_output=True, text=True)
    if done.returncode != 0:
        raise OSError(f"bw ramp ended with {done.returncode}: {done.stderr[-500:]}")
    return [
        Response(
            case.name,
            arrival if "users" not in levels else CLOSED,
            repetition,
            point["level"],
            point["throughput"]["value"],
            point["response_ms_mean"],
            math.inf if point["response_ms_p99"] is None else point["response_ms_p99"],
        )
        for point in json.loads(done.stdout)["points"]
    ]


def measure(repetitions: int, out: Path) -> None:
    """Run everything in turn; store what there is after each run."""
    found: list[Response] = []
    users = ["--axis", "users", "--start", str(USERS), "--highest", str(USERS)]
    for case in CASES:
        found += ramp(case, "constant", 1, *users)
        store(found, out)
    for repetition in range(1, repetitions + 1):
        for case in CASES:
            first, step, last = map(str, case.levels)
            levels = ["--start", first, "--step", step, "--highest", last]
            for place in range(len(case.arrivals)):
                arrival = case.arrivals[(place + repetition) % len(case.arrivals)]
                found += ramp(case, arrival, repetition, *levels)
                store(found, out)
                print(f"{case.name}, {arrival}: repetition {repetition}", flush=True)


def store(found: list[Response], out: Path) -> None:
    """Write the table."""
    with out.open("w", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(Response._fields)
        rows.writerows(found)


def stored(data: Path) -> list[Response]:
    """Return what `measure` stored."""
    with data.open(newline="") as file:
        return [
            Response(
                row["server"],
                row["arrival"],
                int(row["repetition"]),
                *(float(row[name]) for name in Response._fields[3:]),
            )
            for row in csv.DictReader(file)
        ]


def sheet(found: list[Response]) -> Sheet:
    """Return a panel for the mean and one for the 99th percentile of each server."""
    panels = []
    for field, label in (("mean_ms", "mean response"), ("p99_ms", "p99 of the response")):
        for case in CASES:
            of = [one for one in found if one.server == case.name]
            most = statistics.median(one.throughput_per_s for one in of if one.arrival == CLOSED)
            curves = []
            # Every panel has all names, so that one legend is enough.
            for number, arrival in enumerate(NAMES):
                runs = [one for one in of if one.arrival == arrival and one.kept_up]
                rates = sorted({one.rate_per_s for one in runs})
                medians = [
                    statistics.median(getattr(one, field) for one in runs if one.rate_per_s == rate)
                    for rate in rates
                ]
                x = tuple(rate / most for rate in rates)
                y = tuple(value * 1e6 for value in medians)
                curves.append(PanelCurve(NAMES[arrival], x, y, CurveForm.MARKED, number, number))
                x = tuple(one.rate_per_s / most for one in runs)
                y = tuple(getattr(one, field) * 1e6 for one in runs)
                curves.append(PanelCurve("", x, y, CurveForm.VALUES, number))
            panels.append(
                Panel(
                    f"{case.name} ({most:,.0f}/s at most)",
                    PanelAxis("load factor", AxisUnit.SHARE, low=0, high=1),
                    PanelAxis(label, AxisUnit.TIME, log=True),
                    tuple(curves),
                )
            )
    return Sheet("", tuple(panels), whole_page=True)


def main() -> int:
    """Measure, or draw what was measured."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path("arrivals.csv"))
    parser.add_argument("--plot", type=Path, nargs=2, metavar=("IMAGE", "DATA"))
    add_busy_option(parser)
    arguments = parser.parse_args()
    if arguments.plot is None:
        refuse_busy(arguments.busy)
        measure(arguments.repetitions, arguments.out)
        return 0
    image, data = arguments.plot
    style = ChartStyle(width_in=9, height_in=6.4)
    draw_sheet(sheet(stored(data)), style).savefig(image, dpi=100)
    return 0


if __name__ == "__main__":
    sys.exit(main())
