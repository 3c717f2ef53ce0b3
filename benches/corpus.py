"""Record long series of trials of real programs, for calibration on noise that nobody simulated.

Each program of parts/corpus_programs.py runs thousands of times under `bw run`, with its watching,
under each of five conditions: quiet, with a real-time priority; beside a neighbour that comes and
goes (parts/neighbour.py); under a CPU quota, as in a container; on a host where others use more and
more of the CPUs; spread over the better part of an hour. Except in the first and the last, server,
neighbour and `bw` share a cgroup with a large share of the CPUs, so that whatever else runs on the
machine matters less than the condition. Where there is no cgroup of version 1 they run without it,
which the record says, and there is no series under a quota.

One series at a time, each in a study of its own (OUT/PROGRAM-CONDITION/study) that becomes one file
in tests/corpus/MACHINE (tests/calibration/recorded.py describes it). A series whose file exists is
not recorded again, so the same command goes on where it was stopped. What a machine does not have
is skipped, and reported. Needs root for file systems and cgroups. A series takes half a minute to
three minutes, of fio ten.

The condition `spread` is one session of all programs: their trials alternate, with a pause before
each, so that a program has one about every second. It takes 40 minutes.

Usage: corpus.py [--machine NAME] [--only PROGRAM] [--condition NAME] [--trials N] [--out DIR] [--to
DIR] [--again]
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests" / place) for place in ("calibration", "limiters", "stand_ins")]

from parts import busy_machine  # noqa: E402
from parts.corpus_programs import PROGRAMS, Place, Program, version  # noqa: E402

from limiter_means import Lacking, cgroup, needs, running  # noqa: E402
from recorded import CORPUS, Around, Busy, file_of, from_study, write  # noqa: E402

TOOL = Path(sys.executable).parent / "bw"
SHARES = 262144
"""The most; 256 times those of a session outside."""
FIRST = {"policy": "fifo", "priority": "10"}
"""Before every other process: what else runs has the other CPUs, and caches and memory in common.
"""
QUOTA_US = 60_000
"""Of each 100 ms."""
PRELUDE = 100
"""Trials before the series: they fill caches, and show how long the series takes."""
PATIENCE_S = 4000.0


class Condition(NamedTuple):
    """What happens around the trials of a series."""

    name: str
    setting: dict[str, str]
    """Of the scheduler, or limits of the cgroup by the names of version 1."""
    neighbour: str = ""
    """What parts/neighbour.py does; empty: there is none."""
    rest: str = ""
    """Pause before each trial of all programs, whose trials alternate in one session; empty: no
    pause, each program alone."""


class Recording(NamedTuple):
    """One session to record."""

    title: str
    programs: Sequence[Program]
    condition: Condition
    trials: int
    """Of each program."""


LARGE = {"cpu.shares": str(SHARES)}
CONDITIONS = (
    Condition("quiet", FIRST),
    Condition("neighbour", LARGE, "random"),
    Condition("quota", LARGE | {"cpu.cfs_quota_us": str(QUOTA_US)}),
    Condition("drift", LARGE, "rising"),
    Condition("spread", FIRST, rest="50ms"),
)
SPREAD_TRIALS = 2000


@contextlib.contextmanager
def entered(condition: Condition) -> Iterator[list[str]]:
    """Prepare what is around a series; yield the words before a command that put it there.

    Raises Lacking for a quota on a machine without such cgroups.
    """
    if condition.setting == FIRST:
        needs("chrt")
        first = ["chrt", "--fifo", FIRST["priority"]]
        tried = subprocess.run([*first, "true"], capture_output=True, text=True)
        if tried.returncode:  # without root, or in a cgroup that has no real time
            raise Lacking(tried.stderr.strip())
        yield first
        return
    with contextlib.ExitStack() as stack:
        try:
            prefix = stack.enter_context(cgroup("cpu", condition.setting))
        except Lacking:
            if condition.setting != LARGE:
                raise
            yield []
            return
        yield ["/bin/sh", "-c", f'{prefix}"$@"', "sh"]


def run_trials(
    place: Place, commands: Sequence[Sequence[str]], trials: int, rest: str, study: Path
) -> None:
    """Run trials of each command into a new study. Raises RuntimeError if they fail."""
    words = [str(TOOL), "run", "--quiet", "--runs", str(trials), "--study", str(study)]
    words += ["--rest", rest] if rest else []
    done = subprocess.run(
        [*place.enter, *words, *map(shlex.join, commands)],
        cwd=place.folder,
        env={**os.environ, "BW_CONFIG": "/dev/null"},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    if done.returncode:
        raise RuntimeError(f"exit status {done.returncode}: {done.stderr[-2000:]}")


@contextlib.contextmanager
def beside(
    condition: Condition, place: Place, seconds: float, seed: int, out: Path
) -> Iterator[Path | None]:
    """Run the neighbour of a condition meanwhile; yield the file with when it is on."""
    if not condition.neighbour:
        yield None
        return
    log = out / "neighbour.json"
    log.unlink(missing_ok=True)
    words = [sys.executable, str(ROOT / "benches" / "parts" / "neighbour.py")]
    words += [condition.neighbour, "--log", str(log), "--seconds", f"{seconds:.1f}"]
    with tempfile.TemporaryDirectory(prefix="bw-corpus-", dir="/var/tmp") as disk:
        words += ["--file", f"{disk}/data", "--seed", str(seed)]
        with running(*place.enter, *words):
            yield log


def record(programs: Sequence[Program], condition: Condition, trials: int, out: Path) -> None:
    """Record the series of one program, or of several whose trials alternate, into a new study.

    Raises Lacking if the machine has none of the programs, or not the condition; RuntimeError if a
    trial failed.
    """
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with (
        tempfile.TemporaryDirectory(prefix="bw-corpus-", dir=memory) as folder,
        entered(condition) as enter,
        contextlib.ExitStack() as stack,
    ):
        place = Place(Path(folder), enter)
        place.folder.chmod(0o755)  # a server may run as another user
        commands: dict[Program, list[str]] = {}
        for program in programs:
            try:
                needs(*program.uses)
                own = Place(Path(folder) / program.name, enter)
                own.folder.mkdir()
                commands[program] = stack.enter_context(program.prepare(own))
            except Lacking as error:
                if len(programs) == 1:
                    raise
                print(f"{program.name}-{condition.name}: SKIPPED: {error}", flush=True)
        if not commands:
            raise Lacking("none of the programs")

        def run(trials: int, study: str) -> None:
            run_trials(place, list(commands.values()), trials, condition.rest, out / study)

        begun = time.monotonic()
        prelude = PRELUDE // len(commands)
        run(prelude, "prelude")
        seconds = (time.monotonic() - begun) * trials / prelude
        before = busy_machine.now()
        seed = sum(programs[0].name.encode())
        with beside(condition, place, seconds, seed, out) as log:
            run(trials, "study")
            on = json.loads(log.read_text()) if log else None
        busy = busy_machine.since(before)
    beside_it = [
        {
            "program": program.name,
            "condition": condition.name,
            "setting": condition.setting if enter else {},
            "neighbour": on,
            "versions": {name: version(name) for name in program.uses},
            "busy": busy._asdict(),
        }
        for program in commands
    ]
    (out / "series.json").write_text(json.dumps(beside_it))


def convert(machine: str, out: Path, to: Path) -> list[Path]:
    """Write the files of recorded series, and return them."""
    arounds = []
    for known in json.loads((out / "series.json").read_text()):
        on = known.pop("neighbour") or {"began_ns": 0, "on_s": []}
        known["busy"].pop("began_s", None)
        lasted = known["busy"]["lasted_s"]
        around = Around(
            machine=machine,
            neighbour=tuple((a, b) for a, b in on["on_s"] if a < 2 * lasted),
            neighbour_ns=on["began_ns"],
            busy=Busy(**known.pop("busy")),
            **known,
        )
        arounds.append(around)
    files = []
    for series in from_study(out / "study", arounds):
        around = series.around
        files.append(file_of(to, machine, around.program, around.condition))
        write(files[-1], series)
    return files


def arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
    """Return the options of a command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    names = [program.name for program in PROGRAMS]
    parser.add_argument(
        "--machine", default=f"{os.cpu_count()}-cpus", help="name of this machine's folder"
    )
    parser.add_argument("--only", action="append", choices=names, metavar="PROGRAM")
    parser.add_argument("--condition", action="append", choices=[c.name for c in CONDITIONS])
    parser.add_argument("--trials", type=int, help="of each series")
    parser.add_argument("--out", type=Path, default=ROOT / "target" / "corpus")
    parser.add_argument("--to", type=Path, default=CORPUS)
    parser.add_argument("--again", action="store_true", help="convert stored studies again")
    return parser.parse_args(words)


def recordings(asked: argparse.Namespace) -> Iterator[Recording]:
    """Yield what to record, in this order."""
    for condition in CONDITIONS:
        if asked.condition and condition.name not in asked.condition:
            continue
        programs = [p for p in PROGRAMS if not asked.only or p.name in asked.only]
        if condition.rest:
            yield Recording(condition.name, programs, condition, asked.trials or SPREAD_TRIALS)
            continue
        for program in programs:
            yield Recording(
                f"{program.name}-{condition.name}",
                [program],
                condition,
                asked.trials or program.trials,
            )


def main() -> int:
    """Record what is not there yet; return 1 if a series failed."""
    asked, failed = arguments(), 0
    # File systems, servers and cgroups are removed on the way out.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    for title, programs, condition, trials in recordings(asked):
        out = asked.out / asked.machine / title
        if not asked.again and any(
            file_of(asked.to, asked.machine, program.name, condition.name).exists()
            for program in programs
        ):
            continue
        begun = time.monotonic()
        try:
            if not (out / "series.json").exists():
                record(programs, condition, trials, out)
            files = convert(asked.machine, out, asked.to)
            size = sum(file.stat().st_size for file in files)
            lasted = time.monotonic() - begun
            print(f"{title}: {lasted:.0f} s, {size} bytes", flush=True)
        except Lacking as error:
            print(f"{title}: SKIPPED: {error}", flush=True)
        except (RuntimeError, subprocess.SubprocessError) as error:
            failed += 1
            print(f"{title}: FAILED: {error}", flush=True)
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main())
