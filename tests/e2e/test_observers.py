"""`--profile` and `--characterize` as a user meets them, with the real launcher.

What is skipped is printed by pytest with its reason.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

import pytest

from benchwright.features.profile.profiler import read_folded
from bw_command import Done, bw
from needs_perf import needs_perf

SPIN = "awk 'BEGIN{for(i=0;i<4000000;i++)x=x+i}'"
COPY = "dd if=/dev/zero of=/dev/null bs=64 count=1000000"


BLIND = re.compile(r"no events of system calls|cannot (?:make|mount) [^:\n]*: [\w ]+")
"""What is said where the kernel shows nobody the calls of others."""


def characterized(directory: Path, *words: str) -> Done:
    """Run bw, which is to count calls, and return what it did; skip where none is to be seen."""
    done = bw(directory, *words)
    if why := BLIND.search(done.stdout):
        pytest.skip(f"calls cannot be counted here: {why[0]}")
    return done


@needs_perf
def test_a_profiled_comparison_ends_with_a_difference(tmp_path: Path) -> None:
    done = bw(
        tmp_path,
        *("compare", "--json", "--profile", "--warmup", "0", "--max-blocks", "2"),
        *("--", SPIN, COPY),
    )
    document = json.loads(done.stdout)
    assert len(document["observed"]) == 2, done.stderr
    study = tmp_path / "bw-study"
    for seen in document["observed"].values():
        for profile in seen["profiles"]:
            text = (study / profile["folded"]).read_text()
            assert read_folded(text, "x").samples == profile["samples"] > 0
            ElementTree.parse(study / profile["svg"])
    assert "profiled" in {finding["code"] for finding in document["findings"]}
    told = document["profile_differences"]
    [picture] = (study / "watched" / "s1").glob("difference-*.svg")
    assert told[-1].endswith(f"difference flame graph watched/s1/{picture.name}")
    assert "(candidate) against" in "".join(ElementTree.parse(picture).getroot().itertext())
    assert len(told) > 1


@pytest.mark.skipif(
    os.geteuid() != 0 or not all(map(shutil.which, ("bpftrace", "bonnie++"))),
    reason="needs root, bpftrace and bonnie++",
)
def test_bonnie_shows_what_per_chr_writes_are(tmp_path: Path) -> None:
    """The case of Systems Performance, 12.3.2, without further digging."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    bonnie = ("bonnie++", "-u", "root", "-d", str(scratch), "-s", "4M", "-r", "2")
    done = characterized(
        tmp_path,
        *("run", "-v", "--characterize", "--max-runs", "1", "-P", "block_size=8k", "--"),
        *(*bonnie, "-n", "0"),
    )
    assert done.returncode == 0, done.stderr
    assert "of 1 B [io-size-not-as-claimed]" in " ".join(done.stdout.split())
    # The calls: buffered, of one byte each.
    assert re.search(r"write, buffered file[^\n]* calls of 1 B \(9\d", done.stdout)
    # When: a phase of their own; and what limits it: one thread.
    [phase] = re.findall(r".* s  write of 1 B \(file\): .*", done.stdout)
    assert "one thread (bonnie++)" in phase
    assert phase.endswith("it is the limit")


SAME_CALLS = {"fstat": "newfstat", "stat": "newstat", "lstat": "newlstat"}
"""strace's names of calls that the kernel's events call otherwise."""


@pytest.mark.skipif(
    os.geteuid() != 0 or not all(map(shutil.which, ("bpftrace", "strace"))),
    reason="needs root, bpftrace and strace",
)
def test_of_true_only_its_own_calls_are_counted(tmp_path: Path) -> None:
    """What the launcher does before the exec, and beside it, is not the program's."""
    words = ("run", "--characterize", "--json", "--max-runs", "1", "--", "/bin/true")
    document = json.loads(characterized(tmp_path, *words).stdout)
    [seen] = document["observed"].values()
    found = seen["characterized"]
    counted = Counter[str]()
    for one in (*found.get("transfers", ()), *found.get("others", ())):
        counted[one["call"]] += one["calls"]
    assert counted
    told = tmp_path / "told"
    subprocess.run(["strace", "-o", told, "/bin/true"], check=True)
    # The exec itself is the launcher's.
    made = Counter(re.findall(r"^(\w+)\(", told.read_text(), re.MULTILINE)[1:])
    expected = {SAME_CALLS.get(name, name): calls for name, calls in made.items()}
    # Calls about memory and time are in no table of ours.
    assert {name: expected.get(name, 0) for name in counted} == dict(counted)
    assert counted["openat"] == expected["openat"] > 0
