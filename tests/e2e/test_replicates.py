"""Levels of replication with real programs: a program whose time depends on its environment, one whose
work depends on the seed of its build, kill -9 in the middle, and what is left in the directory."""

from __future__ import annotations

import csv
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

BW = str(Path(sys.executable).parent / "bw")
STARTS = r"""
#include <string.h>
extern char **environ;
int main(void) {
    long size = 0;
    for (char **one = environ; *one; one++) size += strlen(*one);
    volatile long sum = 0;
    for (long i = 0; i < 3000 * size; i++) sum += i;
    return 0;
}
"""
"""Its time is proportional to the size of its environment."""
BUILT = r"""
int main(void) {
    volatile long sum = 0;
    for (long i = 0; i < 3000000L * (1 + SEED % 4); i++) sum += i;
    return 0;
}
"""


def bw(place: Path, *words: str, status: int = 0) -> str:
    """Run bw there and return what it printed."""
    done = subprocess.run(
        [BW, *words], cwd=place, capture_output=True, text=True, timeout=120, env=surroundings()
    )
    assert done.returncode == status, done.stderr
    return done.stdout


def surroundings() -> dict[str, str]:
    return {**os.environ, "BW_CONFIG": "/dev/null"}


def trials(place: Path, session: int = 1) -> list[dict[str, str]]:
    with (place / "bw-study" / "results" / f"s{session}" / "trials.csv").open() as file:
        return list(csv.DictReader(file))


def means(rows: list[dict[str, str]], column: str, quantity: str) -> dict[str, float]:
    found = defaultdict(list)
    for row in rows:
        found[row[column]].append(float(row[quantity]))
    return {name: fmean(values) for name, values in found.items()}


@pytest.fixture
def compiled(tmp_path: Path) -> Path:
    (tmp_path / "starts.c").write_text(STARTS)
    (tmp_path / "built.c").write_text(BUILT)
    compiler = shutil.which("cc") or pytest.skip("no C compiler")
    subprocess.run([compiler, "-O1", "-o", "starts", "starts.c"], cwd=tmp_path, check=True)
    return tmp_path


def files_of(place: Path) -> set[str]:
    return {path.name for path in place.iterdir()}


def answer(text: str) -> dict[str, Any]:
    (found,) = json.loads(text)["answers"]
    return dict(found)


def test_environments_differ_by_what_the_program_reads(compiled: Path) -> None:
    words = ("--replicate", "env=6", "--runs", "5", "--seed", "1", "--metric", "user")
    found = answer(bw(compiled, "run", *words, "--json", "--", "./starts"))
    env, trial = found["population"]["levels"]
    assert (env["level"], env["replicates"], trial["replicates"]) == ("env", 6, 30)
    by_env = means(trials(compiled), "replicate:env", "user")
    assert max(by_env.values()) > 1.3 * min(by_env.values())
    assert found["estimate"]["method"] == "nested-means"
    sentence = "environments differ by"
    assert sentence in bw(compiled, "stats")
    assert sentence in bw(compiled, "export", "--format", "markdown")
    bw(compiled, "report", "-o", "page.html")
    page = (compiled / "page.html").read_text()
    assert "Levels of replication" in page
    assert "Each environment" in page


def test_builds_have_their_seeds_and_leave_the_directory_as_it_was(compiled: Path) -> None:
    before = files_of(compiled)
    build = "build=6:cc -O1 -DSEED={seed} -o built built.c"
    bw(compiled, "run", "--replicate", build, "--runs", "3", "--seed", "3", "--", "./built")
    assert files_of(compiled) - before == {"bw-study"}
    assert not (compiled / "bw-study" / "replicates").exists()
    by_build = means(trials(compiled), "replicate:build", "user")
    assert max(by_build.values()) > 1.5 * min(by_build.values())


def test_a_build_that_fails_ends_the_session_with_its_reason(compiled: Path) -> None:
    text = subprocess.run(
        [BW, "run", "--replicate", "build=3:cc -o built none.c", "--", "./built"],
        cwd=compiled,
        capture_output=True,
        text=True,
        timeout=60,
        env=surroundings(),
    )
    assert text.returncode == 1
    assert (
        "the build command `cc -o built none.c` exited with status 1" in text.stderr + text.stdout
    )
    assert not (compiled / "bw-study" / "replicates").exists()


def test_a_killed_session_continues_the_same_design(compiled: Path) -> None:
    """The paths and the settings of its trials are those of a session that was not killed."""
    words = [BW, "run", "--replicate", "directory=3", "--replicate", "env=2", "--runs", "3"]
    words += ["--seed", "4", "--", "sh", "-c", "pwd; echo ${#BW_PADDING}; sleep 0.15"]
    running = subprocess.Popen(
        words,
        cwd=compiled,
        env=surroundings(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    place = compiled / "bw-study" / "replicates"
    end = time.monotonic() + 60
    while not (place.exists() and list(place.rglob("starts.c"))) and time.monotonic() < end:
        time.sleep(0.02)
    time.sleep(0.8)
    running.send_signal(signal.SIGKILL)
    running.wait()
    bw(compiled, "resume")
    rows = trials(compiled)
    paths = [(row["replicate:directory"], row["replicate:env"]) for row in rows]
    turns = [sorted(paths[at : at + 2]) for at in range(0, 18, 2)]
    assert turns == [[(d, "1"), (d, "2")] for d in "123" for _ in range(3)]
    log = (compiled / "bw-study" / "results" / "s1" / "sh.log").read_text()
    places = [line for line in log.splitlines() if "/replicates/" in line]
    paddings = [line for line in log.splitlines() if line.isdigit()]
    assert len(places) == len(paddings) == 18
    assert len(set(places)) == 3
    assert len({len(line) for line in places}) == 3
    pairs = dict(zip(paths, paddings, strict=True))
    assert [pairs[path] for path in paths] == paddings, "one padding for each replicate"
    assert len(set(paddings)) == 6
    assert not place.exists()


def test_a_comparison_over_environments_counts_them(compiled: Path) -> None:
    words = ("--replicate", "env=5", "--seed", "1", "--json", "--", "./starts", "./starts 1")
    found = json.loads(bw(compiled, "compare", *words, status=3))
    verdict = found["verdicts"][0]
    assert [one["replicates"] for one in verdict["population"]["levels"]] == [5, 10]
    assert verdict["verdict"] in ("undecided", "equivalent")
    assert found["stop"]["detail"].startswith("10 blocks in 5 environments")


def test_visits_are_over_a_span(compiled: Path) -> None:
    words = ("--replicate", "time=4", "--spread", "1500ms", "--runs", "2", "--json", "--", "true")
    found = answer(bw(compiled, "run", *words))
    assert found["population"]["levels"][0]["level"] == "time"
    assert 0.5 < found["span_s"] < 60


def test_programs_start_with_the_same_addresses(compiled: Path) -> None:
    (compiled / "address.c").write_text(
        '#include <stdio.h>\nint main(void){int x;printf("address=%ld\\n",(long)&x);return 0;}\n'
    )
    subprocess.run(["cc", "-o", "address", "address.c"], cwd=compiled, check=True)
    metric = "address~address=([0-9]+)"
    words = ("--runs", "4", "--metric", metric)
    for more, count in (((), 4), (("--replicate", "aslr=off"), 1)):
        study = f"study-{count}"
        bw(compiled, "run", "--study", study, *words, *more, "--", "./address")
        with (compiled / study / "results" / "s1" / "trials.csv").open() as file:
            seen = {row["address"] for row in csv.DictReader(file)}
        assert len(seen) == count
        captured = bw(compiled, "env", study)
        assert ("trials.addresses" in captured) is (count == 1)


SUITE = """
name = "served"
[replicate]
levels = ["process=3"]
[[test]]
name = "t"
presetup = "sh -c 'echo started >> {log}'"
exec = "true"
postcleanup = "sh -c 'echo ended >> {log}'"
until = {{ runs = 2 }}
"""


def test_a_server_is_started_again_for_each_process(compiled: Path) -> None:
    log = compiled / "log"
    (compiled / "s.toml").write_text(SUITE.format(log=log))
    bw(compiled, "run", "s.toml")
    assert log.read_text().split() == ["started", "ended"] * 3
