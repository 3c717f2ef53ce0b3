#!/usr/bin/env python3
"""Does `bw compare` keep its promises on this machine? A command with itself, and one that is
slower by the stated smallest effect.

The command counts in a loop, so the same count is the same work. Each round makes four comparisons
under each noise: a watched one of the command with itself, whose stated smallest effect is E; a
watched one with a command that is slower by exactly E; and both again by a plan with a margin of E.
Called different: at most 5 % of the first; called slower: the stated power of 80 % of the second. A
watched comparison has a margin of nearly 0, so that equivalence hides no difference.

Noises: `none` (what the machine has itself); `neighbours` (two busy CPUs, a user of memory
bandwidth and a writer of a disk, each of which starts and ends at random every few tenths of a
second; a process that this bench starts and ends by its id); `quota` (bw and its trials in a group
that has 60 % of a CPU, as a container; needs root).

One line for each comparison is added to OUT; the same command goes on where it was stopped. Files
of different rounds (--first) can be joined. The table has exact binomial intervals (Clopper and
Pearson). Exit status: 1 if the data exclude that at most 5 % are called different.

Usage: live_agreement.py [--rounds 70] [--first 0] [--only NOISE] [--out FILE] [--draw]
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import itertools
import json
import math
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from parts import busy_machine

from benchwright.features.quiet import isolation
from benchwright.features.quiet.host import Host
from benchwright.stats import special

SEED = 20_261_127
WORK = 300_000
"""Turns of the command's loop: about 8 ms."""
WATCHED_BLOCKS = 30
MOST_PLANNED = 60
NO_MARGIN = 1e-6
LARGEST_MARGIN = 0.9
"""A margin must be below 100 %; a machine whose smallest effect is larger has no planned
comparison."""
LEVEL = 0.05
"""Largest share of comparisons of a command with itself that may be called different."""
POWER = 0.8
DIFFERENT = ("slower", "faster")
NOISES = ("none", "neighbours", "quota")
MODES = ("watch", "plan")
QUOTA = (60_000, 100_000)
"""Time of a CPU in each period [us]."""
TURN_S = (0.05, 0.4)
"""Range of the time until a neighbour starts or ends."""
PATIENCE_S = 300

NEIGHBOURS = (
    ("awk", "BEGIN { while (1) i++ }"),
    ("awk", "BEGIN { while (1) i++ }"),
    ("dd", "if=/dev/zero", "of=/dev/null", "bs=64M"),
    ("dd", "if=/dev/zero", "of={file}", "bs=1M", "count=1024", "oflag=dsync"),
)


class Row(NamedTuple):
    """One comparison, as a line of OUT."""

    noise: str
    round: int
    mode: str
    effect: float
    """By how much the candidate is slower, as a share; 0: it is the baseline."""
    turns: int
    """Of the candidate's loop."""
    verdict: str
    blocks: int
    ratio: float
    low: float
    high: float
    p: float
    smallest_effect: float
    """As stated by this comparison; NaN where there is none."""
    findings: str
    began_s: float
    lasted_s: float
    steal_share: float
    idle_share: float
    load_average: float

    @property
    def place(self) -> tuple[str, int, str, bool]:
        """Which comparison it is."""
        return self.noise, self.round, self.mode, self.effect > 0

    @property
    def excludes_1(self) -> bool:
        """Whether the interval of the ratio excludes 1."""
        return self.low > 1 or self.high < 1


# -- noise -------------------------------------------------------------------------------------


class Neighbours:
    """Processes that start and end at random while something runs."""

    def __init__(self, chance: random.Random, place: Path) -> None:
        self._chance = chance
        self._file = place / "written"
        self._running: dict[int, subprocess.Popen[bytes]] = {}

    def disturb(self, process: subprocess.Popen[str]) -> None:
        """Start and end neighbours until a process has ended. Raises TimeoutExpired after
        `PATIENCE_S`."""
        left_s = float(PATIENCE_S)
        try:
            while True:
                self._toggle()
                turn_s = self._chance.uniform(*TURN_S)
                try:
                    process.wait(turn_s)
                    return
                except subprocess.TimeoutExpired:
                    left_s -= turn_s
                    if left_s < 0:
                        raise
        finally:
            for place in list(self._running):
                self._end(place)
            self._file.unlink(missing_ok=True)

    def _toggle(self) -> None:
        place = self._chance.randrange(len(NEIGHBOURS))
        if place in self._running:
            self._end(place)
            return
        words = [word.format(file=self._file) for word in _escaped(NEIGHBOURS[place])]
        self._running[place] = subprocess.Popen(words, stderr=subprocess.DEVNULL)

    def _end(self, place: int) -> None:
        neighbour = self._running.pop(place)
        neighbour.kill()
        neighbour.wait()


def _escaped(words: Sequence[str]) -> list[str]:
    """Return words in which only `{file}` is a field."""
    return [
        word if "{file}" in word else word.replace("{", "{{").replace("}", "}}") for word in words
    ]


@contextlib.contextmanager
def quota_group() -> Iterator[Path]:
    """Make a group of processes with a CPU quota, and remove it at the end.

    Raises SystemExit where there is no CPU controller or the group may not be made.
    """
    host = Host()
    tree = isolation.hierarchy(host, "cpu")
    if tree is None or not tree.enabled(host):
        sys.exit("quota: this machine has no CPU controller of cgroups; use --only")
    group = tree.root / f"bw-live-agreement-{os.getpid()}"
    try:
        group.mkdir()
    except OSError as error:
        sys.exit(f"quota: {group}: {error.strerror}; run as root, or use --only")
    try:
        if tree.version == 1:
            (group / "cpu.cfs_period_us").write_text(str(QUOTA[1]))
            (group / "cpu.cfs_quota_us").write_text(str(QUOTA[0]))
        else:
            (group / "cpu.max").write_text(f"{QUOTA[0]} {QUOTA[1]}")
        yield group
    finally:
        isolation.remove(host, group)


# -- comparisons -------------------------------------------------------------------------------


def command(turns: int) -> str:
    """Return the command with so many turns of its loop."""
    return f"awk 'BEGIN {{ for (i = 0; i < {turns}; i++) s += i }}'"


def compared(
    words: Sequence[str], chance: random.Random, noise: str
) -> tuple[dict[str, Any], busy_machine.Busy]:
    """Return the document of `bw compare` under a noise, and how busy the machine was. Raises
    SystemExit if it has no result."""
    with contextlib.ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bw-live-")))
        argv = [sys.executable, "-m", "benchwright.cli.main", "compare", "--json"]
        argv += ["--quiet", "--study", str(place / "study"), *words]
        if noise == "quota":
            group = stack.enter_context(quota_group())
            join = f'echo $$ > {group / "cgroup.procs"} && exec "$@"'
            argv = ["sh", "-c", join, "sh", *argv]
        begin = busy_machine.now()
        with (place / "out").open("w+") as out, (place / "err").open("w+") as err:
            process = subprocess.Popen(argv, stdout=out, stderr=err, text=True)
            try:
                if noise == "neighbours":
                    Neighbours(chance, place).disturb(process)
                else:
                    process.wait(PATIENCE_S)
            finally:
                if process.poll() is None:
                    process.terminate()
                    process.wait()
            busy = busy_machine.since(begin)
            out.seek(0)
            err.seek(0)
            if process.returncode not in (0, 3):
                sys.exit(f"bw compare ended with {process.returncode}: {err.read()}")
            return json.loads(out.read()), busy


def start_up_turns() -> float:
    """Return how many turns of the loop take as long as the start and end of the command."""
    words = ["--max-blocks", "30", "--margin", "0.01%"]
    words += ["--", command(WORK), command(1)]
    document, _ = compared(words, random.Random(0), "none")
    share = _elapsed(document)["ratio"]["value"]
    # On a busy machine the short command may have taken longer than the long one.
    return float(WORK * share / (1 - share)) if share < 1 else 0.0


def _elapsed(document: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = next(one for one in document["verdicts"] if one["metric"] == "elapsed")
    return found


def compare(
    noise: str, number: int, mode: str, stated: float, is_slower: bool, start_up: float
) -> Row:
    """Compare the command with itself, or with one slower by `stated`, which is a plan's margin
    too."""
    effect = stated if is_slower else 0.0
    # The start takes as long in both, so only the loop can make up for it.
    turns = round(WORK + effect * (WORK + start_up))
    seed = f"{SEED} {noise} {number} {mode} {is_slower}"
    chance = random.Random(seed)
    margin = stated if mode == "plan" else NO_MARGIN
    most = MOST_PLANNED if mode == "plan" else WATCHED_BLOCKS
    words = ["--mode", mode, "--margin", f"{100 * margin:.6f}%", "--power", str(POWER)]
    words += ["--max-blocks", str(most), "--seed", str(chance.randrange(2**31))]
    document, busy = compared((*words, "--", command(WORK), command(turns)), chance, noise)
    one = _elapsed(document)
    figures = one["ratio"] | {"p": one["p_adjusted"], "smallest_effect": one["smallest_effect"]}
    shown = {name: math.nan if f is None else f for name, f in figures.items()}
    return Row(
        noise=noise,
        round=number,
        mode=mode,
        effect=effect,
        turns=turns,
        verdict=one["verdict"],
        blocks=one["blocks"],
        ratio=shown["value"],
        low=shown["low"],
        high=shown["high"],
        p=shown["p"],
        smallest_effect=shown["smallest_effect"],
        findings=" ".join(sorted({found["code"] for found in document["findings"]})),
        **busy._asdict(),
    )


def missing(
    mode: str, noise: str, number: int, start_up: float, rows: dict[Any, Row]
) -> Iterator[Row]:
    """Yield the comparisons of a mode in a round that are not there."""
    for is_slower in (False, True):
        if (noise, number, mode, is_slower) not in rows:
            own = rows.get((noise, number, "watch", False))
            stated = math.nan if own is None else own.smallest_effect
            if own is not None and not stated > 0:
                sys.exit(f"round {number}, {noise}: no smallest effect was stated")
            if mode == "watch" or stated <= LARGEST_MARGIN:
                yield compare(noise, number, mode, stated, is_slower, start_up)


# -- what is kept, and the table ------------------------------------------------------------------


def kept(file: Path) -> dict[Any, Row]:
    """Return the comparisons of a file, by their places; a line that was cut is left out. Raises
    SystemExit."""
    if not file.exists():
        return {}
    found = {}
    with file.open() as lines:
        reader = csv.reader(lines)
        if tuple(next(reader, Row._fields)) != Row._fields:
            sys.exit(f"{file}: not a file of this bench; name another one with --out")
        for words in reader:
            if len(words) == len(Row._fields):
                row = msgspec.convert(words, Row, strict=False)
                found[row.place] = row
    return found


def written(file: Path, rows: Sequence[Row]) -> None:
    """Write all comparisons, in place of the file."""
    file.parent.mkdir(parents=True, exist_ok=True)
    new = file.with_name(file.name + ".new")
    with new.open("w", newline="") as lines:
        writer = csv.writer(lines, lineterminator="\n")
        writer.writerow(Row._fields)
        writer.writerows(_short(row) for row in rows)
    new.replace(file)


def _short(row: Row) -> list[str]:
    """Return a row's cells, with six significant digits except for the time of day."""
    exact = ("began_s", "turns")
    return [
        f"{value:.6g}"
        if isinstance(value, float) and name not in exact
        else f"{value:.0f}"
        if name == "began_s"
        else str(value)
        for name, value in zip(Row._fields, row, strict=True)
    ]


def exact_interval(hits: int, n: int, confidence: float = 0.95) -> tuple[float, float]:
    """Return Clopper and Pearson's interval of a probability, after `hits` of `n` > 0."""
    tail = (1 - confidence) / 2
    low, high = 0.0, 1.0
    if hits > 0:
        quantile = special.f_quantile(2 * (n - hits + 1), 2 * hits, 1 - tail)
        low = hits / (hits + (n - hits + 1) * quantile)
    if hits < n:
        quantile = special.f_quantile(2 * (hits + 1), 2 * (n - hits), 1 - tail)
        high = (hits + 1) * quantile / (n - hits + (hits + 1) * quantile)
    return low, high


HEADER = (
    "| noise | mode | called different of itself | interval excludes 1 | stated smallest effect, median "
    "| called slower at it | measured / true ratio | seconds |\n" + "|---" * 8 + "|"
)


def table(rows: Sequence[Row]) -> str:
    """Return the shares of each noise and mode, and of all noises together, as Markdown.

    An effect that a comparison with fewer blocks stated is not that of all blocks, so those rounds
    do not count for the power.
    """
    lines = [HEADER]
    stated = {
        (row.noise, row.round): row.smallest_effect
        for row in rows
        if row.mode == "watch" and not row.effect and row.blocks == WATCHED_BLOCKS
    }
    rows = [
        row
        for row in rows
        if not row.effect
        or math.isclose(row.effect, stated.get((row.noise, row.round), 0.0), rel_tol=1e-3)
    ]
    noises = [noise for noise in NOISES if any(row.noise == noise for row in rows)]
    for mode in MODES:
        for noise in (*noises, "all"):
            of = [r for r in rows if r.mode == mode and noise in (r.noise, "all")]
            if of:
                lines.append(_line(noise, mode, of))
    return "\n".join(lines)


def _line(noise: str, mode: str, rows: Sequence[Row]) -> str:
    null = [row for row in rows if not row.effect]
    slower = [row for row in rows if row.effect]
    off = [math.log(r.ratio / (1 + r.effect)) for r in slower if r.ratio > 0]
    cells = [
        noise,
        mode,
        _share([row.verdict in DIFFERENT for row in null]),
        _share([row.excludes_1 for row in null]),
        f"{statistics.median([r.effect for r in slower] or [math.nan]):.1%}",
        _share([row.verdict == "slower" for row in slower]),
        f"{math.exp(statistics.fmean(off)):.3f}" if off else "",
        f"{statistics.fmean(row.lasted_s for row in rows):.1f}",
    ]
    return "| " + " | ".join(cells) + " |"


def _share(hits: Sequence[bool]) -> str:
    if not hits:
        return ""
    low, high = exact_interval(sum(hits), len(hits))
    return f"{sum(hits)} of {len(hits)}, {sum(hits) / len(hits):.1%} ({low:.1%} to {high:.1%})"


def arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
    """Return the options of a command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=70, help="of each noise")
    parser.add_argument("--first", type=int, default=0, help="number of the first round")
    parser.add_argument("--only", action="append", choices=NOISES, help="this noise")
    parser.add_argument(
        "--out", type=Path, default=Path("target/live-agreement.csv"), help="a CSV file"
    )
    parser.add_argument("--draw", action="store_true", help="print the table, run nothing")
    return parser.parse_args(words)


def main(words: Sequence[str] | None = None) -> int:
    """Run the comparisons that are not there, print the table; return the exit status."""
    asked = arguments(words)
    rows = kept(asked.out)
    if not asked.draw:
        # So that neighbours are ended too.
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
        start_up = start_up_turns()
        print(f"start and end take as long as {start_up:.0f} turns of {WORK}")
        written(asked.out, [*rows.values()])
        # All noises in each round, so that other users of the machine meet all alike.
        noises = asked.only or NOISES
        numbers = range(asked.first, asked.first + asked.rounds)
        places = itertools.product(MODES, numbers, noises)
        for mode, number, noise in places:
            for row in missing(mode, noise, number, start_up, rows):
                rows[row.place] = row
                with asked.out.open("a", newline="") as lines:
                    csv.writer(lines, lineterminator="\n").writerow(_short(row))
    print(table([*rows.values()]))
    null = [row.verdict in DIFFERENT for row in rows.values() if not row.effect]
    return int(bool(null) and exact_interval(sum(null), len(null))[0] > LEVEL)


if __name__ == "__main__":
    sys.exit(main())
