"""What a live view does to a benchmark: its time with and without a page that follows it.

Usage: python benches/live_cost.py [--blocks 100] [--client curl|browser|none]

A block is four batches of trials of the same work, by the code that sessions use: two of a study
with a viewer and an open page, two of a study without. Their order is V N N V or N V V N: a drift
of the machine's speed falls out of it, and neighbours of a shared machine meet both. Before its
batch the session gives the viewer its turn, in which it renders and sends what the last batches
changed. A value is the mean elapsed time of a batch's trials, and their mean CPU time, which other
programs on the machine change less; the statistics and the criterion (within 1 %, two one-sided
tests at 5 %) are those of watching_cost.py. Also printed: how often the viewer had a turn, and how
long the session waited for it.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from parts.busy_machine import add_busy_option, refuse_busy
from watching_cost import line

from benchwright.cli.live import VIEWER
from benchwright.run.ledger import Ledger
from benchwright.run.performer import Performer
from benchwright.run.preparation import exec_environment, prepare_command, rehearse
from benchwright.run.test import RunningTest
from benchwright.run.viewer import Viewer
from benchwright.study.journal import Study
from benchwright.suite.command_line import CommandRequest
from benchwright.trial.bench import LocalBench

WORK = {
    # (command, trials of a batch): batches of half a second.
    "5 ms": (("/usr/bin/mawk", "BEGIN { for (n = 0; n < 60000; n++) s += n % 7 }"), 100),
    "200 ms": (("/usr/bin/mawk", "BEGIN { for (n = 0; n < 3000000; n++) s += n % 7 }"), 3),
}
BLOCKS_OF_A_STUDY = 20
CLIENTS = {
    "curl": ("curl", "-sN", "-o", "/dev/null"),
    "browser": (
        *("/usr/bin/chromium-headless-shell", "--no-sandbox", "--disable-gpu"),
        *("--remote-debugging-port=0", "--disable-background-networking"),
    ),
}


class Waits(Viewer):
    """The session's side of the viewer, which notes how long its turns took."""

    def __init__(self, study: Path) -> None:
        super().__init__(study)
        self.waited_s: list[float] = []

    def give_turn(self) -> None:
        """Give the turn, and note the time if there was one."""
        begun = time.perf_counter()
        super().give_turn()
        lasted = time.perf_counter() - begun
        if lasted > 1e-3:
            self.waited_s.append(lasted)


class Side:
    """A session of one test that runs batches, in a study of its own."""

    def __init__(self, place: Path, argv: tuple[str, ...], bench: LocalBench) -> None:
        prepared = prepare_command(CommandRequest(command=argv), str(place), ["bench"])
        (self.plan,) = rehearse(prepared).tests
        self.study = Study.create_or_open(place)
        ledger = Ledger(self.study, self.study.begin_session(prepared.info))
        self.viewer = Waits(self.study.path)
        performer = Performer(
            bench,
            exec_environment(prepared.info, self.study.path),
            self.study.path,
            ledger.session,
            viewer=self.viewer,
        )
        self._test = RunningTest("0.1/test", self.plan.name, self.plan.stopping, ledger, performer)

    def batch(self, count: int) -> dict[str, float]:
        """Run trials after the viewer's turn; return the logs of their mean elapsed and CPU time."""
        self.viewer.give_turn()
        first = len(self._test.trials) + 1
        self._test.run(self.plan, first, count)
        processes = [t.processes[0] for t in self._test.trials[first - 1 :]]
        return {
            "elapsed": math.log(statistics.mean(p.elapsed_ns for p in processes)),
            "CPU": math.log(statistics.mean(p.user_us + p.system_us for p in processes)),
        }

    def close(self) -> None:
        """End the session."""
        self.viewer.close()
        self.study.close()


@contextlib.contextmanager
def page_of(study: Path, client: str) -> Iterator[None]:
    """Show a study while the body runs: its viewer, and a client that reads the page."""
    viewer = subprocess.Popen((*VIEWER, str(study), "0"), stdout=subprocess.PIPE, text=True)
    assert viewer.stdout is not None
    url = viewer.stdout.readline().strip()
    reader = None
    if client != "none":
        target = f"{url}events" if client == "curl" else url
        reader = subprocess.Popen(
            (*CLIENTS[client], target),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        time.sleep(4)
    try:
        yield
    finally:
        if reader is not None:
            # The browser is a script that starts others: all of its session end.
            os.killpg(reader.pid, signal.SIGTERM)
            reader.wait()
        viewer.terminate()
        viewer.wait()


def blocks_of(
    place: Path, argv: tuple[str, ...], trials: int, blocks: int, client: str
) -> tuple[dict[str, list[float]], dict[str, list[float]], list[float]]:
    """Return log(viewed / not) and log(not / not) of each block by quantity, and the waits [s]."""
    rng = random.Random(1)
    ratios: dict[str, list[float]] = {"elapsed": [], "CPU": []}
    floor: dict[str, list[float]] = {"elapsed": [], "CPU": []}
    waits: list[float] = []
    with contextlib.closing(LocalBench()) as bench:
        for done in range(0, blocks, BLOCKS_OF_A_STUDY):
            plain = Side(place / f"plain-{done}", argv, bench)
            viewed = Side(place / f"viewed-{done}", argv, bench)
            with (
                contextlib.closing(plain),
                contextlib.closing(viewed),
                page_of(viewed.study.path, client),
            ):
                plain.batch(trials)
                viewed.batch(trials)
                for _ in range(min(BLOCKS_OF_A_STUDY, blocks - done)):
                    begin = rng.random() < 0.5
                    times: dict[bool, list[dict[str, float]]] = {True: [], False: []}
                    for with_view in (begin, not begin, not begin, begin):
                        side = viewed if with_view else plain
                        times[with_view].append(side.batch(trials))
                    for name in ratios:
                        seen, unseen = ([t[name] for t in times[k]] for k in (True, False))
                        ratios[name].append(statistics.mean(seen) - statistics.mean(unseen))
                        floor[name].append(unseen[0] - unseen[1])
                waits += viewed.viewer.waited_s
    return ratios, floor, waits


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--blocks", type=int, default=100)
    parser.add_argument("--client", choices=("none", *CLIENTS), default="curl")
    parser.add_argument("--work", choices=tuple(WORK), action="append")
    add_busy_option(parser)
    arguments = parser.parse_args()
    refuse_busy(arguments.busy)
    place = Path(tempfile.mkdtemp(prefix="bw-live-", dir="/dev/shm"))
    try:
        print(f"{arguments.blocks} blocks, {os.cpu_count()} CPUs, client: {arguments.client}")
        print("| work | with live view / without | 95 % interval | mean | 1 % |")
        print("|---|---|---|---|---|")
        for name in arguments.work or WORK:
            argv, trials = WORK[name]
            here = place / name.replace(" ", "")
            here.mkdir()
            ratios, floor, waits = blocks_of(here, argv, trials, arguments.blocks, arguments.client)
            for quantity, found in ratios.items():
                print(line(f"{name}, {quantity}", found))
                print(line(f"{name}, {quantity}, floor", floor[quantity]), flush=True)
            if waits:
                median = statistics.median(waits) * 1e3
                print(
                    f"# {name}: {len(waits)} turns in {2 * arguments.blocks} batches, "
                    f"median {median:.0f} ms, longest {max(waits) * 1e3:.0f} ms",
                    file=sys.stderr,
                )
    finally:
        shutil.rmtree(place)


if __name__ == "__main__":
    main()
