"""`bw ramp`, `peak` and `surface` watched, profiled and told of as `bw run` is; loads told of.

What is skipped is printed by pytest with its reason.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from benchwright.features.profile.profiler import read_folded
from bw_command import bw
from needs_perf import needs_perf

BW = (sys.executable, "-m", "benchwright.cli.main")
PATIENCE_S = 120
INTERPRETER = "its-python"
"""The generator's, by a name of its own: bw's stacks begin with "python" too."""
GEN = """
import json, sys, time
with open("begun", "a") as marks:
    marks.write("x")
load, seconds = map(float, sys.argv[1:3])
end = time.process_time() + 0.4
while time.process_time() < end:
    pass
left = 1 - load / 300
mean_ms = 10 / left if left > 0 else 500 + 1000 * seconds
print(json.dumps({"mean_ms": mean_ms, "tps": 100 * load / (1 + 0.4 * (load - 1))}))
"""
SPEC = """
[load]
generator = "command"
command = "./its-python gen.py {rate} {duration} {size}"
values = { response_ms_mean = "/mean_ms" }

[factors]
size = [1, 2]

[peak]
criteria = ["mean response < 40ms"]
policy = "binsearch"
max_trials = 2
seed = 1

[notify]
command = ["/bin/sh", "-c", "cat >told-$BW_NOTICE_EVENT"]
"""
ANSWERS = ("peak rate", "undecided, ")
"""Beginnings of a report: with an answer, and of a search that stopped."""
WHOM = ("--notify", "command:sh -c 'cat >told-$BW_NOTICE_EVENT'")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Return a directory with a generator, its interpreter and a spec of it."""
    (tmp_path / "gen.py").write_text(GEN)
    (tmp_path / "s.toml").write_text(SPEC)
    (tmp_path / INTERPRETER).symlink_to(sys.executable)
    return tmp_path


def peak(*words: str) -> tuple[str, ...]:
    """Return the words of a search of the generator."""
    gen = f"./{INTERPRETER} gen.py {{rate}} {{duration}}"
    asked = ("--command", gen, "--response", "/mean_ms", "--limit", "40ms")
    return ("peak", *asked, "--seed", "5", "--policy", "binsearch", *words)


def interrupted(directory: Path, words: tuple[str, ...], trials: int) -> None:
    """Begin a session, and interrupt it in its so many-th trial."""
    marks = directory / "begun"
    with subprocess.Popen([*BW, *words], cwd=directory, stdout=subprocess.DEVNULL) as process:
        try:
            until = time.monotonic() + PATIENCE_S
            while not marks.exists() or marks.stat().st_size < trials:
                assert process.poll() is None, "it ended too early"
                assert time.monotonic() < until, "no trial begins"
                time.sleep(0.01)
            process.send_signal(signal.SIGINT)
            process.wait(PATIENCE_S)
        finally:
            process.kill()
    assert process.returncode == 130


def told(directory: Path) -> dict[str, Any]:
    """Return the one notice that was sent."""
    (path,) = directory.glob("told-*")
    document: dict[str, Any] = json.loads(path.read_text())
    return document


# -- watched and profiled ------------------------------------------------------------------


@needs_perf
def test_a_search_and_its_resume_are_profiled_as_asked(place: Path) -> None:
    words = peak("--max-trials", "4", "--no-watch", "--profile", "--quiet")
    interrupted(place, words, 3)
    done = bw(place, "resume", "--json", "--quiet")
    assert done.returncode in (0, 3), done.stderr
    document = json.loads(done.stdout)
    study = place / "bw-study"
    assert len(document["profiles"]) == len(document["trials"]) == 4
    for one in document["profiles"]:
        text = (study / one["folded"]).read_text()
        stacks = read_folded(text, one["folded"])
        assert stacks.samples == one["samples"] > 0
        assert {stack[0] for stack in stacks.counts} == {INTERPRETER}, "no bw's own"
        ElementTree.parse(study / one["svg"])
    assert list((study / "watched").rglob("*.jsonl.gz")) == [], "it is not watched"
    assert "profiled" in {one["code"] for one in document["findings"]}

    (best,) = (one for one in document["profiles"] if one["next_to_answer"])
    found = document["peak_rate"]
    assert found is not None, document["detail"]
    assert best["load"] == max(one["load"] for one in document["profiles"] if one["load"] <= found)
    shown = bw(place, "stats", "bw-study").stdout
    assert f"\ntrial {best['trial']} at " in shown
    assert f"flame graph {best['svg']}\n" in shown
    assert "all 4 flame graphs are in watched/s1/" in shown
    results = json.loads(bw(place, "why", "--json").stdout)["results"]
    notes = [f["evidence"] for one in results for f in one["findings"]]
    assert [f"trial {best['trial']} is" in one for one in notes].count(True) == 1


@needs_perf
def test_a_ramp_names_the_level_whose_profile_explains_it(place: Path) -> None:
    gen = f"./{INTERPRETER} gen.py {{users}} {{duration}}"
    asked = ("--command", gen, "--throughput", "/tps", "--response", "/mean_ms")
    done = bw(place, "ramp", *asked, "--hold", "1s", "--highest", "4", "--profile")
    assert done.returncode == 0, done.stderr
    assert " users (at the answer):\n  profile: " in done.stdout
    assert any((place / "bw-study" / "watched").rglob("*.jsonl.gz")), "watched too"
    why = bw(place, "why").stdout
    assert "\nramp at 4 users " in why
    assert why.count("to be opened in a browser") == 3


@needs_perf
def test_a_surface_names_a_trial_of_each_sample(place: Path) -> None:
    done = bw(place, "surface", "s.toml", "--profile")
    assert done.returncode in (0, 1, 3), done.stderr
    for size in "12":
        assert f"\nsize={size}: trial " in done.stdout
    assert told(place)["suite"] == "s.toml"


def test_without_perf_a_search_goes_on_and_says_so(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(place))
    done = bw(place, *peak("--max-trials", "2", "--profile", "--json"))
    assert done.returncode in (0, 3), done.stderr
    document = json.loads(done.stdout)
    assert "profiles" not in document
    (one,) = (f for f in document["findings"] if f["code"] == "profile-unavailable")
    assert "perf is not installed" in one["evidence"]


# -- told of ---------------------------------------------------------------------------------


def test_a_spec_tells_of_a_search_and_of_its_resume(place: Path) -> None:
    interrupted(place, ("peak", "s.toml", "--quiet"), 2)
    first = told(place)
    assert (first["event"], first["exit_status"]) == ("interrupted", 130)
    (place / "told-interrupted").unlink()
    done = bw(place, "resume")
    assert done.returncode in (0, 3), done.stderr
    document = told(place)
    assert document["event"] in ("done", "undecided")
    assert (document["suite"], document["subject"][:10]) == ("s.toml", "bw: s.toml")
    assert document["summary"] in done.stdout
    assert document["summary"].startswith(ANSWERS)


def test_json_and_quiet_change_nothing_of_a_notice(place: Path) -> None:
    done = bw(place, *peak("--max-trials", "2", "--json", "--quiet", *WHOM))
    document = json.loads(done.stdout)
    notice = told(place)
    assert notice["suite"] == "<peak>"
    assert notice["summary"].startswith(ANSWERS)
    codes = [one["code"] for one in document["findings"]]
    assert [one["code"] for one in notice["findings"]] == codes


LOAD = ("load", "--rate", "1k", "--duration", "0.2s", "--target", "null", "--json")


def test_the_end_of_a_load_is_told(tmp_path: Path) -> None:
    done = bw(tmp_path, *LOAD, *WHOM)
    assert done.returncode == 0, done.stderr
    document = told(tmp_path)
    assert (document["event"], document["suite"]) == ("done", "<load>")
    assert (document["study"], document["status"]) == ("", "complete")
    assert "null" in document["summary"]
    assert {path.name for path in tmp_path.iterdir()} == {"told-done"}


def test_a_load_that_fails_is_told_with_its_report(tmp_path: Path) -> None:
    full = ("--service", "50ms", "--depth", "1", "--full", "drop", "--max-errors", "1%")
    done = bw(tmp_path, *LOAD, *full, *WHOM, "--notify-on", "failure")
    assert done.returncode == 1
    document = told(tmp_path)
    assert (document["event"], document["exit_status"]) == ("failure", 1)
    assert "more than --max-errors 1%" in document["reason"]
    assert "load-not-offered" in {one["code"] for one in document["findings"]}
    assert "dropped" in document["summary"]


def test_a_load_that_is_interrupted_is_told(tmp_path: Path) -> None:
    words = [*BW, *LOAD, "--duration", "60s", "--interval", "0.1s", *WHOM]
    with subprocess.Popen(
        words, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stderr is not None
        process.stderr.read(1)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130
    document = told(tmp_path)
    assert (document["event"], document["exit_status"]) == ("interrupted", 130)


def test_a_load_of_a_study_is_told_once_by_its_session(tmp_path: Path) -> None:
    done = bw(tmp_path, *LOAD, "--study", "st", *WHOM)
    assert done.returncode == 0, done.stderr
    document = told(tmp_path)
    assert document["study"] == str(tmp_path / "st")
    kept = (tmp_path / "st" / "notices.jsonl").read_text().splitlines()
    assert len(kept) == 1, "the trial itself tells nobody"


def buffered() -> dict[str, str]:
    """Return our environment without what makes Python write each piece at once."""
    return {k: v for k, v in os.environ.items() if k != "PYTHONUNBUFFERED"}


def to_nobody(directory: Path, *words: str) -> None:
    """Run bw with a reader of its report that has gone."""
    with subprocess.Popen(
        [*BW, *words], cwd=directory, stdout=subprocess.PIPE, env=buffered()
    ) as process:
        assert process.stdout is not None
        process.stdout.close()


def test_a_load_whose_report_nobody_reads_is_told_too(tmp_path: Path) -> None:
    to_nobody(tmp_path, *LOAD, *WHOM)
    document = told(tmp_path)
    assert document["event"] == "done"
    assert "null" in document["summary"]


def test_a_search_whose_report_nobody_reads_is_told_too(place: Path) -> None:
    to_nobody(place, *peak("--max-trials", "2", "--quiet", *WHOM))
    assert told(place)["summary"].startswith(ANSWERS)


def test_a_report_is_whole_before_its_notice_is_sent(tmp_path: Path) -> None:
    # The JSON document is longer than a buffer, and would be written at once.
    words = [one for one in LOAD if one != "--json"]
    report = tmp_path / "report"
    with report.open("wb") as out:
        subprocess.run(
            [*BW, *words, "--notify", "command:cp report read"],
            cwd=tmp_path,
            env=buffered(),
            stdout=out,
            timeout=PATIENCE_S,
            check=True,
        )
    assert (tmp_path / "read").read_bytes() == report.read_bytes() != b""
