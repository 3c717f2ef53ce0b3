"""By how much real programs differ between environments, directories, builds, processes and hours: the
table of docs/replicates.md.

Each row is one session of `bw run` over one level: so many replicates, so many trials in each. It is
about CPU time, user and system together: the kernel divides them by its ticks, of which such
programs take five to thirty. Of servers it is about what a client waits for, elapsed time. The
programs are those of this machine (python3, sort, gzip, xz), two that are built here from installed
sources and linked again for each build (zlib's deflate, SQLite: objects in another order, behind a
seeded gap), and redis-server, started again for each process and measured by redis-benchmark. The
level `nothing` draws nothing again: what its rows call replicates are as many trials one after
another, which is what the other levels show without an effect of their own. The
level `time` is one session of all programs together, whose visits are over --spread. `boot` restarts a small
machine in QEMU, whose sort and gzip are busybox's. What is not installed is left out, and named.

Figures need a quiet machine; the load average at the begin and the end of a row stands in it. A row
that has ended is a line of OUT/rows.jsonl and is not run again; one that was cut is resumed. The
report is OUT/table.md.

Usage: level_components.py [--only sort] [--level env] [--replicates 10] [--trials 8]
[--metric cpu] [--spread 8h] [--out DIR] [--report] [--busy]
"""

from __future__ import annotations

import argparse
import csv
import glob
import json
import math
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "qemu"))

from parts import busy_machine
from parts.busy_machine import add_busy_option, refuse_busy

import guest
from benchwright.stats.nested import Component, nested_estimate

BW = Path(sys.executable).with_name("bw")
NUMBERS = 100_000
"""Lines of the file that sort, gzip, xz and deflate read."""
DEFLATE = r"""
#include <stdio.h>
#include <stdlib.h>
#include <zlib.h>
int main(int count, char **words) {
    FILE *file = fopen(words[1], "rb");
    static unsigned char in[1 << 22], out[1 << 23];
    uLong size = fread(in, 1, sizeof in, file);
    uLongf packed = sizeof out;
    if (compress2(out, &packed, in, size, 6) != Z_OK) return 1;
    return count != 2 || packed == 0;
}
"""
SQL = r"""
#include "sqlite3.h"
int main(void) {
    sqlite3 *base;
    if (sqlite3_open(":memory:", &base)) return 1;
    return sqlite3_exec(base,
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 60000)"
        " SELECT count(*), sum(i % 7) FROM n WHERE i * 31 % 11 > 3;"
        "CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT);"
        "INSERT INTO t SELECT i, hex(i * 7919 % 10007) FROM"
        " (WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)"
        "  SELECT i FROM n);"
        "SELECT count(*) FROM (SELECT b FROM t ORDER BY b);", 0, 0, 0);
}
"""
LINK = """#!/bin/sh
# Link the objects of a program in a seeded order, behind a gap of 16 to 4,096 bytes: link.sh SEED
# PROGRAM OBJECTS... LIBRARIES...
set -eu
seed=$1 program=$2
shift 2
{ echo ".text; .space $((seed % 256 * 16 + 16)), 0x90"
  echo '.section .note.GNU-stack, "", @progbits'; } | as -o gap.o -
objects=$(for one; do case $one in *.o) echo "$one" ;; esac; done |
  awk -v seed="$seed" 'BEGIN { srand(seed) } { print rand(), $0 }' | sort | cut -d " " -f 2)
libraries=$(for one; do case $one in *.o) ;; *) echo "$one" ;; esac; done)
# The words are meant to be separate.
cc -o "$program" gap.o $objects $libraries -lm -lpthread -ldl
"""
REDIS = """
name = "redis"
[replicate]
levels = ["process={replicates}"]
[[test]]
name = "redis"
presetup = "redis-server --port 0 --unixsocket {place}/redis.sock --save '' --daemonize yes --pidfile {place}/redis.pid && sleep 0.5"
exec = "redis-benchmark -s {place}/redis.sock -q -t get -n 20000 -c 4"
postcleanup = "redis-cli -s {place}/redis.sock shutdown nosave || true"
warmup = 1
until = {{ runs = {trials} }}
"""


class Program(NamedTuple):
    """A program of the table."""

    name: str
    command: tuple[str, ...]
    """Relative to the directory of programs."""
    needs: tuple[str, ...]
    """Programs that must be installed."""
    link: str = ""
    """The build command of the level `build`; empty: it is not built here."""
    suite: str = ""
    """Of a server, for the level `process`."""


PROGRAMS = (
    Program("python", ("python3", "-S", "-c", "pass"), ("python3",)),
    Program("sort", ("sort", "-n", "numbers"), ("sort",)),
    Program("gzip", ("gzip", "-c", "numbers"), ("gzip",)),
    Program("xz", ("xz", "-1", "-c", "numbers"), ("xz",)),
    Program(
        "deflate",
        ("./deflate", "numbers"),
        ("cc", "as"),
        "./link.sh {seed} deflate deflate.o libz.a",
    ),
    Program("sqlite", ("./sqlite",), ("cc", "as"), "./link.sh {seed} sqlite sql.o sqlite3.o"),
    Program("redis", (), ("redis-server", "redis-benchmark"), suite=REDIS),
)
GUEST = """#!/bin/sh
# What the machine does at each start.
cd /work
export PATH=/usr/local/bin:$PATH
echo >>boots
if [ -d study ]; then
  /etc/rc.local
else
  bw run --replicate boot={replicates} --runs {trials} --warmup 1 --seed 1 --study study --quiet \\
    --name {name} -- {command} >first.log 2>&1 &
fi
until [ "$(wc -l <boots)" -ge {replicates} ] && [ ! -e state/checkpoint ]; do sleep 1; done
while ps w | grep -q '[l]ocal/bin/bw'; do sleep 1; done
sync
poweroff
"""
IN_A_GUEST = {
    "python": "python3.11 -S -c pass",
    "sort": "sort -n numbers",
    "gzip": "gzip -c numbers",
}
"""The commands there of the programs that it has."""
METRICS = {"cpu": ("user", "system"), "user": ("user",), "elapsed": ("elapsed",)}
"""The measured quantities whose sum each is."""
BOOT_S = 600
"""The longest that a boot lasts, with the trials in it."""
NOTHING = "nothing"
LEVELS = (NOTHING, "env", "directory", "build", "process", "boot", "time")


class Row(NamedTuple):
    """One session: a program at a level, or all programs at `time`."""

    programs: tuple[Program, ...]
    level: str

    @property
    def name(self) -> str:
        """Its name in files."""
        return self.level if self.level == "time" else f"{self.programs[0].name}-{self.level}"


def rows_of(programs: Sequence[Program], levels: Sequence[str]) -> Iterator[Row]:
    """Yield the rows of these programs, level by level."""
    for level in levels:
        commands = tuple(one for one in programs if one.command)
        if level == "time":
            if commands:
                yield Row(commands, level)
            continue
        for one in programs:
            fits = {
                "build": bool(one.link),
                "process": bool(one.suite),
                "boot": one.name in IN_A_GUEST,
            }
            if fits.get(level, bool(one.command)):
                yield Row((one,), level)


def prepare(place: Path, only: Sequence[str]) -> list[Program]:
    """Make the directory that the programs run in; return those that this machine has. `only`: the
    names of those that are wanted; empty: all."""
    place.mkdir(parents=True, exist_ok=True)
    draw = random.Random(1)
    lines = "".join(f"{draw.randrange(10**6)}\n" for _ in range(NUMBERS))
    (place / "numbers").write_text(lines)
    (place / "link.sh").write_text(LINK)
    (place / "link.sh").chmod(0o755)
    wanted = [one for one in PROGRAMS if not only or one.name in only]
    missing = {one.name for one in wanted if not all(map(shutil.which, one.needs))}
    names = {one.name for one in wanted}
    for name, build in (("deflate", _deflate), ("sqlite", _sqlite)):
        if name in names - missing and not build(place):
            missing.add(name)
    for name in sorted(missing):
        print(f"left out: {name} is not on this machine", file=sys.stderr)
    return [one for one in wanted if one.name not in missing]


def _deflate(place: Path) -> bool:
    words = ["cc", "-print-file-name=libz.a"]
    library = Path(subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip())
    if not library.is_absolute() or not Path("/usr/include/zlib.h").exists():
        return False
    (place / "deflate.c").write_text(DEFLATE)
    shutil.copy2(library, place / "libz.a")
    subprocess.run(["cc", "-O2", "-c", "deflate.c"], cwd=place, check=True)
    return _linked(place, "deflate", "deflate.o", "libz.a")


def _sqlite(place: Path) -> bool:
    pattern = "~/.cargo/registry/src/*/libsqlite3-sys-*/sqlite3/sqlite3.c"
    source = next(iter(sorted(glob.glob(os.path.expanduser(pattern)))), None)
    if source is None:
        return False
    (place / "sql.c").write_text(SQL)
    include = f"-I{Path(source).parent}"
    if not (place / "sqlite3.o").exists():
        words = ["cc", "-O2", "-DSQLITE_OMIT_LOAD_EXTENSION", include, "-c", source]
        subprocess.run([*words, "-o", "sqlite3.o"], cwd=place, check=True)
    subprocess.run(["cc", "-O2", include, "-c", "sql.c"], cwd=place, check=True)
    return _linked(place, "sqlite", "sql.o", "sqlite3.o")


def _linked(place: Path, program: str, *inputs: str) -> bool:
    words = ["./link.sh", "0", program, *inputs]
    return subprocess.run(words, cwd=place, check=False).returncode == 0


def words_of(row: Row, place: Path, study: Path, arguments: argparse.Namespace) -> list[str]:
    """Return the command of a row's session."""
    words = ["run", "--study", str(study), "--json", "--quiet"]
    (first, *_) = row.programs
    if row.level == "process":
        suite = place / f"{first.name}.toml"
        values = {"replicates": arguments.replicates, "trials": arguments.trials}
        suite.write_text(first.suite.format(place=place, **values))
        return [*words, str(suite)]
    level = f"{row.level}={arguments.replicates}"
    if row.level == "build":
        level += f":{first.link}"
    words += ["--warmup", "1", "--seed", "1"]
    if row.level == NOTHING:
        words += ["--runs", str(arguments.replicates * arguments.trials)]
    else:
        words += ["--replicate", level, "--runs", str(arguments.trials)]
    if row.level != "time":
        return [*words, "--name", first.name, "--", *first.command]
    words += ["--spread", arguments.spread]
    for one in row.programs:
        words += ["--name", one.name]
    return [*words, *(" ".join(one.command) for one in row.programs)]


def measure(
    row: Row, place: Path, out: Path, arguments: argparse.Namespace
) -> list[dict[str, Any]]:
    """Run a row's session, or resume it; return its lines: none of one that was cut, whose figures
    are of fewer replicates."""
    study = out / "studies" / row.name
    begin, load = busy_machine.now(), os.getloadavg()[0]
    around = {**os.environ, "BW_CONFIG": "/dev/null"}
    if row.level == "boot":
        if why := _in_a_guest(row, place, study, arguments):
            print(f"{row.name}: {why}", file=sys.stderr)
            return []
    else:
        words = words_of(row, place, study, arguments)
        if study.exists():
            words = ["resume", str(study), "--json", "--quiet"]
        ran = subprocess.run([BW, *words], cwd=place, env=around, stdout=subprocess.DEVNULL)
        if ran.returncode:
            print(f"{row.name}: exit status {ran.returncode}, no row of it", file=sys.stderr)
            return []
    busy = busy_machine.since(begin)
    state = {"load_begin": load, "load_end": busy.load_average, "steal": busy.steal_share}
    return [
        {"row": row.name, "program": name, "level": row.level, **figures, **state}
        for name, figures in figures_of(study, row.level, arguments)
    ]


def figures_of(
    study: Path, level: str, arguments: argparse.Namespace
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the name of each test of a session, with by how much its replicates and trials differ, as
    shares of the mean."""
    done = subprocess.run(
        [BW, "stats", str(study), "--dump"],
        capture_output=True,
        text=True,
        env={**os.environ, "BW_CONFIG": os.devnull},
    )
    if done.returncode:
        print(f"{study.name}: {done.stderr.strip()}", file=sys.stderr)
        return
    # What a client does itself is not about its server.
    metric = "elapsed" if level == "process" else arguments.metric
    trials: dict[str, list[tuple[float, tuple[int]]]] = {}
    for one in csv.DictReader(done.stdout.splitlines()):
        own = trials.setdefault(one["input"], [])
        replicate = one.get("replicate") or len(own) // arguments.trials + 1
        own.append((sum(float(one[column]) for column in METRICS[metric]), (int(replicate),)))
    for name, found in trials.items():
        values, replicates = zip(*found, strict=True)
        estimate = nested_estimate(values, replicates, names=(level,))
        outer, inner = (_shares(one, estimate.mean.value) for one in estimate.components)
        yield name, {"metric": metric, "outer": outer, "trial": inner}


def _shares(one: Component, mean: float) -> dict[str, Any]:
    """Return a component's standard deviation and its interval, as shares of the mean."""
    ends = {"spread": one.variance, "low": one.low, "high": one.high}
    known = {
        name: math.sqrt(value) / mean if math.isfinite(value) else None
        for name, value in ends.items()
    }
    return {"replicates": one.replicates, **known}


def _in_a_guest(row: Row, place: Path, study: Path, arguments: argparse.Namespace) -> str:
    """Run a session over boots in a machine of its own, and bring its study here; return why there
    is none."""
    script = GUEST.format(
        replicates=arguments.replicates,
        trials=arguments.trials,
        name=row.programs[0].name,
        command=IN_A_GUEST[row.programs[0].name],
    )
    try:
        guest.image()
        with tempfile.TemporaryDirectory() as directory:
            work, disk = Path(directory) / "work", Path(directory) / "work.img"
            work.mkdir()
            shutil.copy2(place / "numbers", work / "numbers")
            guest.work_disk(work, disk, {"session": script}, "256M")
            restarts = arguments.replicates - 1
            guest.boot([disk], timeout_s=BOOT_S, restarts=restarts, fixed_addresses=False)
            shutil.rmtree(study, ignore_errors=True)
            guest.copy_out(disk, "/study", study.parent)
            if study.parent.joinpath("study").exists():
                study.parent.joinpath("study").rename(study)
    except (guest.Unavailable, RuntimeError) as why:
        return str(why)
    return ""


def table(lines: Sequence[dict[str, Any]]) -> str:
    """Return the table of docs/replicates.md."""
    text = "| program | level | replicates | replicates differ by | trials of one by | load average |\n"
    text += "|---|---|---|---|---|---|\n"
    for line in sorted(lines, key=lambda one: LEVELS.index(one["level"])):
        outer, trial = line["outer"], line["trial"]
        load = f"{line['load_begin']:.1f} to {line['load_end']:.1f}"
        text += f"| {line['program']} | {line['level']} | {outer['replicates']} | "
        text += f"{_percent(outer)} | {_percent(trial, ends=False)} | {load} |\n"
    return text


def _percent(level: dict[str, Any], *, ends: bool = True) -> str:
    if level["spread"] is None:
        return "unknown"
    text = f"{100 * level['spread']:.1f} %"
    if not ends or level["low"] is None or level["high"] is None:
        return text
    return f"{text} ({100 * level['low']:.1f} to {100 * level['high']:.1f})"


def _again(
    line: dict[str, Any], out: Path, arguments: argparse.Namespace
) -> Iterator[dict[str, Any]]:
    """Yield a line with the figures that its stored session has now."""
    for name, figures in figures_of(out / "studies" / line["row"], line["level"], arguments):
        if name == line["program"]:
            yield {**line, **figures}


def main() -> int:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--only", action="append", choices=[one.name for one in PROGRAMS])
    parser.add_argument("--level", action="append", choices=LEVELS)
    parser.add_argument("--replicates", type=int, default=10)
    parser.add_argument("--trials", type=int, default=8)
    parser.add_argument("--metric", choices=METRICS, default="cpu")
    parser.add_argument("--spread", default="8h")
    parser.add_argument("--out", type=Path, default=Path("target/level-components"))
    parser.add_argument(
        "--report", action="store_true", help="only write the rows and the table again"
    )
    add_busy_option(parser)
    arguments = parser.parse_args()
    out = arguments.out.absolute()
    out.mkdir(parents=True, exist_ok=True)
    file = out / "rows.jsonl"
    lines = [json.loads(text) for text in file.read_text().splitlines()] if file.exists() else []
    if arguments.report:
        lines = [again for line in lines for again in _again(line, out, arguments)]
        file.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    else:
        refuse_busy(arguments.busy)
        chosen = prepare(out / "programs", arguments.only or ())
        done = {line["row"] for line in lines}
        for row in rows_of(chosen, arguments.level or LEVELS):
            if row.name in done:
                continue
            print(row.name, file=sys.stderr)
            made = measure(row, out / "programs", out, arguments)
            with file.open("a") as target:
                target.writelines(f"{json.dumps(line)}\n" for line in made)
            lines += made
    (out / "table.md").write_text(table(lines))
    print(table(lines), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
