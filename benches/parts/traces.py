"""The traces that are replayed: stretches of real ones, and generated ones.

Rows are those of docs/trace-format.md. Decision: real traces are read where they lie and
never copied; where they are not, a generated on/off trace takes the bursty one's place,
and the bench says so. The random ones have fixed seeds.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchwright.features.load.samples import (
    NEVER,
    ROW,
    blocks_of,
    encode_header,
    end_block,
    read_samples,
)
from parts.engine import convert

Rows = NDArray[np.void]
FOLDER = Path(__file__).resolve().parents[3] / "shared/traces"
SECOND_NS = 10**9
READ, WRITE = 0, 1
_SEED = 20260101


class Stretch(NamedTuple):
    """Operations under a name, from time zero."""

    name: str
    rows: Rows

    @property
    def seconds(self) -> float:
        """How long it is, to the last arrival."""
        return float(self.rows["intended"][-1]) / SECOND_NS

    def about(self) -> str:
        """Return what it is like, in one line."""
        times = self.rows["intended"]
        reads = float(np.mean(self.rows["kind"] == READ))
        spread = ", ".join(
            f"{dispersion(times, width):.1f} at {width / 1e6:g} ms"
            for width in (10**6, 10**7, 10**8)
        )
        return (
            f"{self.name}: {len(times):,} operations in {self.seconds:.1f} s, "
            f"{reads:.0%} reads; index of dispersion {spread}"
        )


def dispersion(times_ns: NDArray[np.uint64], width_ns: int) -> float:
    """Return variance over mean of the arrivals per bin; 1 for a Poisson process."""
    counts = np.bincount((times_ns // np.uint64(width_ns)).astype(np.int64))
    counts = counts[:-1]  # the last one is not whole
    return float(counts.var() / counts.mean())


def real(name: str, seconds: float, scratch: Path) -> Stretch | None:
    """Return the busiest stretch of a real trace; None where the trace is not."""
    source = next(FOLDER.glob(f"{name}.*"), None)
    if source is None:
        return None
    whole = scratch / f"{name}.bw"
    if not whole.exists():
        convert(source, whole, "bw")
    return Stretch(name, busiest(read_samples(whole), seconds))


def busiest(rows: Rows, seconds: float) -> Rows:
    """Return the stretch of so many seconds with the most arrivals, from time zero."""
    times = rows["intended"]
    ends = np.searchsorted(times, times + np.uint64(seconds * SECOND_NS))
    first = int(np.argmax(ends - np.arange(len(times))))
    found = rows[first : int(ends[first])].copy()
    found["intended"] -= times[first]
    return found


def poisson(rate: float, seconds: float) -> Stretch:
    """Return random 4 KiB reads and writes that arrive without memory."""
    random = np.random.default_rng(_SEED)
    gaps = random.exponential(1 / rate, round(rate * seconds))
    name = f"Poisson, {rate:,.0f}/s"
    return Stretch(name, _operations(np.cumsum(gaps), random))


def on_off(rate: float, seconds: float) -> Stretch:
    """Return a bursty trace: 20 times the mean rate in a twentieth of the time."""
    random = np.random.default_rng(_SEED)
    begins, lengths, now = [], [], 0.0
    while now < seconds:
        begins.append(now)
        lengths.append(random.exponential(0.01))
        now += lengths[-1] + random.exponential(0.19)
    bursts = [
        begin + np.sort(random.random(random.poisson(20 * rate * length))) * length
        for begin, length in zip(begins, lengths, strict=True)
    ]
    return Stretch("generated on/off", _operations(np.concatenate(bursts), random))


def _operations(at_s: NDArray[np.float64], random: np.random.Generator) -> Rows:
    rows = np.zeros(len(at_s), ROW)
    rows["intended"] = np.round((at_s - at_s[0]) * SECOND_NS)
    rows["offset"] = random.integers(0, 2**18, len(at_s)) * 4096
    rows["size"] = 4096
    rows["kind"] = np.where(random.random(len(at_s)) < 0.3, READ, WRITE)
    return rows


def faster(stretch: Stretch, speed: int) -> Stretch:
    """Return the stretch with its times divided by a speed."""
    rows = stretch.rows.copy()
    rows["intended"] //= np.uint64(speed)
    return Stretch(stretch.name, rows)


def fitted(stretch: Stretch, target_bytes: int, align_bytes: int) -> Stretch:
    """Return the stretch with its places wrapped into a target and aligned."""
    rows = stretch.rows.copy()
    align = np.uint64(align_bytes)
    sizes = (rows["size"] + align - np.uint64(1)) // align * align
    rows["size"] = np.maximum(sizes, align)
    room = np.uint64(target_bytes) - rows["size"].astype(np.uint64)
    rows["offset"] = rows["offset"] % room // align * align
    return Stretch(stretch.name, rows)


def write_bw(stretch: Stretch, path: Path) -> Path:
    """Write a stretch in our own format."""
    rows = stretch.rows.copy()
    rows["issued"] = rows["completed"] = NEVER
    with path.open("wb") as file:
        file.write(encode_header(stretch.name))
        file.writelines(blocks_of(rows))
        file.write(end_block())
    return path


def write_load(stretch: Stretch, path: Path) -> Path:
    """Write a stretch as blkreplay reads it; stamps in seconds, places in sectors."""
    with path.open("w") as file:
        file.write(f"Derived by a bench of Benchwright from: {stretch.name}\n\n")
        file.write("start ; sector ; length ; op ; replay_delay ; replay_duration\n")
        for row in stretch.rows:
            at = int(row["intended"])
            file.write(
                f"{at // SECOND_NS}.{at % SECOND_NS:09} ; {int(row['offset']) // 512} ; "
                f"{int(row['size']) // 512} ; {'RW'[row['kind']]} ; 0.0 ; 0.0\n"
            )
    return path
