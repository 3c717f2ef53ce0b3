"""`bw peak` over a simulated server as a user runs it, killed and interrupted on its way.

The generator is tests/sim/sim_server.py; its randomness is a function of rate and duration
alone, so that a search that was cut can be compared with one that was not.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchwright.study.journal import Study
from benchwright.trial import bench as leftovers
from bw_command import Done, bw_words

SIM = Path(__file__).parents[1] / "sim"
PATIENCE_S = 300.0
GEN = """
import sys, time, zlib
sys.path[:0] = [{sim!r}]
from sim_server import main
with open("begun", "a") as marks:
    marks.write("x")
rate, duration = sys.argv[1:3]
seed = zlib.crc32((rate + " " + duration).encode())
main([rate, duration, "--seed", str(seed)])
"""
OPTIONS = ("--json", "--quiet", "--study", "study")


def peak(*words: str) -> list[str]:
    """Return the command line of a search of the simulated server."""
    gen = f"{sys.executable} gen.py {{rate}} {{duration}}"
    asked = ("--command", gen, "--response", "/mean_ms", "--series", "/series")
    return bw_words("peak", *asked, "--limit", "40ms", "--seed", "5", *words)


def run(directory: Path, *words: str) -> Done:
    """Run a command line in a directory and return what it did."""
    return subprocess.run(words, cwd=directory, capture_output=True, text=True, timeout=600)


def started(directory: Path, *words: str) -> subprocess.Popen[str]:
    """Start a command line in a group of its own."""
    return subprocess.Popen(
        words,
        cwd=directory,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def begun(directory: Path) -> int:
    """Return how many trials the generator has begun."""
    with contextlib.suppress(FileNotFoundError):
        return (directory / "begun").stat().st_size
    return 0


def waits(what: str) -> Iterator[None]:
    """Yield until it is too late."""
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        yield
        time.sleep(0.01)
    pytest.fail(f"waited {PATIENCE_S:g} s in vain for {what}")


def answer(document: dict[str, Any]) -> dict[str, Any]:
    """Return what must not depend on when the search was cut."""
    trials = [
        {key: one[key] for key in ("rate", "duration", "response", "ending", "purpose")}
        for one in document["trials"]
    ]
    kept = ("status", "peak_rate", "interval", "claim", "claim_probability", "claims")
    return {key: document[key] for key in kept} | {"trials": trials}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Return a directory with the generator in it."""
    (tmp_path / "gen.py").write_text(GEN.format(sim=str(SIM)))
    return tmp_path


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return the document of a search that nothing cut."""
    directory = tmp_path_factory.mktemp("whole")
    (directory / "gen.py").write_text(GEN.format(sim=str(SIM)))
    done = run(directory, *peak(*OPTIONS))
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def token_of(study: Path) -> str:
    """Return the mark of the study's session."""
    with contextlib.closing(Study.open_to_read(study)) as opened:
        return opened.sessions()[-1].info.options["token"]


def test_the_answer_has_what_the_contract_names(undisturbed: dict[str, Any]) -> None:
    assert undisturbed["schema"] == "benchwright/peak/1"
    assert undisturbed["status"] == "found"
    low, high = undisturbed["interval"]
    assert low <= undisturbed["peak_rate"] <= high
    assert undisturbed["interval_confidence"] == 0.95
    assert undisturbed["claim"] == "region:10%"
    assert 0.95 <= undisturbed["claim_probability"] <= 1
    assert undisturbed["seed"] == 5
    # M/M/4 with 15 ms: the mean response is 40 ms at 236.3/s; +-10 % of it are +-1.8 %.
    assert undisturbed["peak_rate"] == pytest.approx(236.3, rel=0.03)
    for trial in undisturbed["trials"]:
        assert trial["rate"] > 0
        assert trial["duration"] > 0
        assert trial["response"] > 0
        assert trial["cost_s"] >= trial["duration"]
    assert undisturbed["seconds"] == pytest.approx(
        sum(trial["cost_s"] for trial in undisturbed["trials"])
    )


def test_killed_at_every_trial_it_ends_with_the_same_answer(
    place: Path, undisturbed: dict[str, Any]
) -> None:
    """Each session ends one trial and is killed in the next; nothing is left running."""
    kills = 0
    words = peak(*OPTIONS)
    for _ in range(len(undisturbed["trials"]) + 1):
        before = begun(place)
        process = started(place, *words)
        for _look in waits("the second trial, or the end"):
            if process.poll() is not None or begun(place) >= before + 2:
                break
        if process.poll() is not None:
            break
        # bw alone, or all of its group at once: nobody of ours can tidy up then.
        if kills % 2:
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
        kills += 1
        process.communicate()
        words = bw_words("resume", "study", "--json", "--quiet")
    out, err = process.communicate()
    assert process.returncode == 0, err
    assert kills == len(undisturbed["trials"]) - 1, "each trial but the last was cut"
    assert answer(json.loads(out)) == answer(undisturbed)
    for _look in waits("the end of what was started"):
        if not leftovers.leftover_processes(token_of(place / "study")):
            break


def test_an_interrupt_says_what_is_known_and_is_resumed(
    place: Path, undisturbed: dict[str, Any]
) -> None:
    process = started(place, *peak(*OPTIONS))
    for _look in waits("the third trial"):
        if begun(place) >= 3:
            break
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130, err
    document = json.loads(out)
    assert document["status"] == "interrupted"
    assert len(document["trials"]) == 2
    assert document["peak_rate"] is not None
    assert not leftovers.leftover_processes(token_of(place / "study"))
    resumed = run(place, *bw_words("resume", "study", "--json", "--quiet"))
    assert resumed.returncode == 0, resumed.stderr
    assert answer(json.loads(resumed.stdout)) == answer(undisturbed)


def test_a_finished_search_is_told_by_stats_and_not_resumed(place: Path) -> None:
    words = ("--max-trials", "2", "--study", "study")
    done = run(place, *peak(*words, "--plot", "first.svg"))
    assert done.returncode == 3
    assert "undecided" in done.stdout
    told = run(place, *bw_words("stats", "study"))
    assert told.returncode == 0, told.stderr
    assert told.stdout == done.stdout
    for asked in ("--select=$elapsed > 1", "--command=x", "--predicate=$mean > 1"):
        refused = run(place, *bw_words("stats", "study", asked))
        assert (refused.returncode, refused.stdout) == (2, "")
        assert "holds-a-search" in refused.stderr
    again = run(place, *bw_words("resume", "study"))
    assert again.returncode == 0
    assert "nothing to resume" in again.stderr
    assert "has ended: undecided" in again.stderr, "the word of the report"
    plotted = run(place, *bw_words("plot", "--graphfile", "x.png", "a", "study"))
    assert plotted.returncode == 2
    assert f"`bw peak --study {place / 'study'} --plot FILE` draws it" in plotted.stderr
    drawn = run(place, *bw_words("peak", "--study", "study", "--plot", "again.svg"))
    assert drawn.returncode == 0, drawn.stderr
    assert drawn.stdout == done.stdout
    assert (place / "again.svg").read_bytes() == (place / "first.svg").read_bytes()
    other = run(place, *bw_words("ramp", "--study", "study"))
    assert other.returncode == 2
    assert "has no search by bw ramp" in other.stderr
    mixed = run(place, *bw_words("peak", "--study", "study", "--seed", "6"))
    assert mixed.returncode == 2, "a new search has to say of what"
    assert "nothing to search" in mixed.stderr


def test_a_mended_generator_goes_on_where_it_failed(
    place: Path, undisturbed: dict[str, Any]
) -> None:
    whole = (place / "gen.py").read_text()
    (place / "gen.py").write_text("raise SystemExit('no licence')")
    failed = run(place, *peak(*OPTIONS))
    assert failed.returncode == 1
    document = json.loads(failed.stdout)
    assert document["status"] == "failed"
    assert "no licence" in document["detail"]
    (place / "gen.py").write_text(whole)
    mended = run(place, *bw_words("resume", "study", "--json", "--quiet"))
    assert mended.returncode == 0, mended.stderr
    assert answer(json.loads(mended.stdout)) == answer(undisturbed)


PRINTED = """
import json, sys
print("warming up")
print(json.dumps({"latency": {"mean/ms": 12.5, "unit": "ms"}, "rows": [[0, 1, 2.0]]}))
"""


@pytest.mark.parametrize(
    ("option", "pointer", "told"),
    [
        ("--response", "/mean", "/latency/mean~1ms (a number)"),
        ("--response", "/latency/unit", "not a number"),
        ("--response", "/rows", "not a number"),
        ("--series", "/latency", "not an array"),
        ("--series", "/rows/0", "not [second, count, mean_ms]"),
        ("--errors", "/failed", "/latency/mean~1ms (a number)"),
        ("--offered", "/rows", "not a number"),
        ("--late", "/late", "/latency/mean~1ms (a number)"),
        ("--target-response", "/latency/unit", "not a number"),
    ],
)
def test_a_pointer_that_leads_nowhere_is_told_with_what_there_is(
    tmp_path: Path, option: str, pointer: str, told: str
) -> None:
    (tmp_path / "gen.py").write_text(PRINTED)
    gen = f"{sys.executable} gen.py {{rate}} {{duration}}"
    pointers = {"--response": "/latency/mean~1ms", option: pointer}
    words = ["--command", gen, "--limit", "40ms", "--quiet"]
    words += [word for pair in pointers.items() for word in pair]
    done = run(tmp_path, *bw_words("peak", *words))
    assert done.returncode == 2
    assert done.stderr.startswith(f"{option}: ")
    assert told in done.stderr
    assert done.stdout == ""


def test_a_program_that_ends_at_once_is_charged_the_load_that_it_stands_for(tmp_path: Path) -> None:
    (tmp_path / "gen.py").write_text(PRINTED)
    gen = f"{sys.executable} gen.py {{rate}} {{duration}}"
    words = ("--command", gen, "--response", "/latency/mean~1ms", "--limit", "40ms")
    bounded = ("--highest", "100", "--run-length", "50s", *OPTIONS)
    done = run(tmp_path, *bw_words("peak", *words, *bounded))
    assert done.returncode == 3, done.stderr
    document = json.loads(done.stdout)
    assert document["status"] == "never-fails"
    assert all(one["cost_s"] == one["duration"] for one in document["trials"])
