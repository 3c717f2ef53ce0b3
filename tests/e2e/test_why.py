"""`bw why` over real runs: the whole way from the sampler to the explanation."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from benchwright.cli.main import main
from benchwright.core.hosts import NamedServer
from benchwright.run import running_server
from bw_command import bw, bw_words
from needs_perf import needs_perf

needs_perl = pytest.mark.skipif(shutil.which("perl") is None, reason="perl is not installed")
QUEUE = """\
import json, sys, time
load, seconds = float(sys.argv[1]), float(sys.argv[2])
time.sleep(0.4)
left = 1 - load / 300
print(json.dumps({"mean_ms": 10 / left if left > 0 else 500 + 1000 * seconds}))
"""
RULE = """\
from benchwright.core.results import Finding, Severity
def rule(result):
    slow = [v for v in result.values["elapsed"] if v > 0.1]
    seen = len(result.uses)
    return [Finding("slow", Severity.NOTE, result.test, f"{len(slow)} slow, {seen} seen")]
"""


def why(directory: Path, *words: str) -> list[dict[str, Any]]:
    """Return the results that `bw why --json` explains."""
    done = bw(directory, "why", "--json", *words)
    assert done.returncode == 0, done.stderr
    results: list[dict[str, Any]] = json.loads(done.stdout)["results"]
    return results


@needs_perl
def test_a_run_is_explained(tmp_path: Path) -> None:
    """A busy thread is limited by it, or by those who take its processor here; a
    sleeping one by nothing."""
    # Of processor time, not of turns: a quick machine would be watched too briefly.
    spin = "while ((times)[0] < 0.6) { $i++ for 1..1e5 }"
    assert bw(tmp_path, "run", "--min-runs", "2", "--", "perl", "-e", spin).returncode == 0
    (one,) = why(tmp_path)
    assert one["limited_by"] in {
        *("single-threaded-cpu-bound", "noisy-neighbour", "cpu-saturated", "steal"),
        "throttled-by-cgroup-quota",
    }
    assert one["trials_watched"] == 2
    thread = next(row for row in one["use"] if row["resource"] == "thread")
    assert thread["name"] == "perl"
    assert thread["utilization"][0]["value"] > 0
    (tmp_path / "rule.py").write_text(RULE)
    stats = bw(tmp_path, "stats", "bw-study", "--json", "--rule", "rule.py")
    by_code = {one["code"]: one for one in json.loads(stats.stdout)["findings"]}
    assert one["limited_by"] in by_code
    assert by_code["slow"]["evidence"].startswith("2 slow, ")
    text = bw(tmp_path, "why", "--rule", "rule.py").stdout
    assert "utilization" in text
    assert " seen [slow]" in text


def test_what_sleeps_is_named(tmp_path: Path) -> None:
    bw(tmp_path, "run", "--study", "s", "--min-runs", "2", "--", "sleep", "0.5")
    (one,) = why(tmp_path, "s", "--test", "sleep")
    assert one["limited_by"] == "sleeps"
    (cause,) = (one for one in one["causes"] if one["code"] == "sleeps")
    assert "sleep in clock_nanosleep" in cause["evidence"]


def test_the_window_is_what_the_script_measures(tmp_path: Path) -> None:
    script = f"sleep 0.5; {shlex.join(bw_words('measure', '--', 'sleep', '0.5'))}"
    assert bw(tmp_path, "run", "--runs", "1", "--", "sh", "-c", script).returncode == 0
    (one,) = why(tmp_path)
    assert one["window"]["seconds"] == pytest.approx(one["figure"]["mean"], abs=1e-5)


def test_an_affinity_within_a_trial_is_known(tmp_path: Path) -> None:
    place = min(os.sched_getaffinity(0))
    spin = f"import os, time\nos.sched_setaffinity(0, [{place}])\nwhile time.process_time() < 0.5: pass"
    words = ("run", "--runs", "1", "--", sys.executable, "-c", spin)
    assert bw(tmp_path, *words).returncode == 0
    (one,) = why(tmp_path)
    busiest = one["window"]["tasks"][0]
    assert busiest["cpus"] == ([place] if os.cpu_count() != 1 else [])


def test_a_run_that_was_not_watched_says_so(tmp_path: Path) -> None:
    bw(tmp_path, "run", "--no-watch", "--min-runs", "2", "--", "sleep", "0.1")
    (one,) = why(tmp_path)
    assert one["sentence"].startswith("not watched")
    assert "not-watched" in {finding["code"] for finding in one["findings"]}


def test_each_load_of_a_search_is_a_result(tmp_path: Path) -> None:
    (tmp_path / "queue.py").write_text(QUEUE)
    generator = f"{sys.executable} queue.py {{rate}} {{duration}}"
    words = ("--command", generator, "--response", "/mean_ms", "--limit", "40ms")
    done = bw(tmp_path, "peak", *words, "--max-trials", "3", "--study", "p")
    assert done.returncode in (0, 3), done.stderr
    results = why(tmp_path, "p")
    assert results
    assert all(one["name"].startswith("peak at ") for one in results)
    assert all(one["trials_watched"] == one["trials"] for one in results)
    assert all(one["figure"]["name"] == "response_ms_mean" for one in results)
    assert all(one["limit"]["value"] == 40 for one in results)


def test_bad_input_is_a_clear_error(tmp_path: Path) -> None:
    for words, message in (
        (("why",), "bw-study: there is no such study"),
        (("why", "a", "b"), "one study at a time"),
        (("why", "--limit", "eth0=fast"), "'fast' is not a rate"),
        (("why", "--operation-size", "big"), "'big' is not a size"),
        (("why", "--rule", "none.py"), "none.py: No such file"),
    ):
        done = bw(tmp_path, *words)
        assert done.returncode == 2, words
        assert message in done.stderr
        assert "Traceback" not in done.stderr
    bw(tmp_path, "run", "--no-watch", "--min-runs", "1", "--", "true")
    done = bw(tmp_path, "why", "--test", "other")
    assert done.returncode == 2
    assert "there are: true" in done.stderr


@needs_perl
@needs_perf
def test_a_study_says_how_to_see_its_profiles(tmp_path: Path) -> None:
    spin = "while ($i++ < 8e6) {}"
    words = ("--profile", "--min-runs", "2", "--max-runs", "2", "--study", "s")
    bw(tmp_path, "run", *words, "--", "perl", "-e", spin)
    for place in ("s", "s@1", "s:perl"):
        (one,) = why(tmp_path, place)
        graphs = one["files"]["flame_graphs"]
        assert graphs
        assert all(graph.startswith("s/watched/s1/perl-") for graph in graphs)
        assert all((tmp_path / graph).is_file() for graph in graphs)
    told = bw(tmp_path, "why", "s").stdout
    assert ", to be opened in a browser: s/watched/s1/perl-" in told


def test_a_program_that_runs_is_explained_and_left_alone(tmp_path: Path) -> None:
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as waits:
        (result,) = why(
            tmp_path, "--target-pid", str(waits.pid), "--for", "600ms", "--into", "kept"
        )
        assert waits.poll() is None
        waits.communicate()
    assert result["name"] == f"cat ({waits.pid})"
    assert result["running"]
    assert result["figure"] is None
    assert [process["pid"] for process in result["processes"]] == [waits.pid]
    assert result["window"]["samples"] > 2
    assert [file.name for file in (tmp_path / "kept").iterdir()] == [f"cat-{waits.pid}.jsonl.gz"]
    wrong = bw(tmp_path, "why", "study", "--for", "3s")
    assert wrong.returncode == 2
    assert "--target-pid" in wrong.stderr


def test_a_server_that_ends_meanwhile_has_no_figures_of_its_processes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as ends:

        def wait(_servers: object, _seconds: float) -> bool:
            ends.communicate()
            return True

        monkeypatch.setattr(running_server, "_wait", wait)
        named = NamedServer("pid", str(ends.pid))
        (watched,) = running_server.watch_servers(running_server.ServerWatch((named,), 1.0))
    assert watched.ended_after_s is not None
    assert watched.processes == (), "what it used until its end is unknown, and not zero"


def test_a_server_that_is_watched_again_has_files_of_its_own(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as waits:
        kept = tmp_path / "kept"
        kept.mkdir()
        (kept / f"cat-{waits.pid}.jsonl.gz").symlink_to(victim)
        for number in (2, 3):
            (result,) = why(
                tmp_path, "--target-pid", str(waits.pid), "--for", "600ms", "--into", "kept"
            )
            assert result["window"]["samples"] > 2
            assert (kept / f"cat-{waits.pid}~{number}.jsonl.gz").is_file()
        waits.communicate()
    assert victim.read_text() == "precious"


def test_no_part_of_a_study_can_be_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    bw(tmp_path, "run", "--study", "s", "--runs", "1", "--", "true")
    for words in (("s:true",), ("s@1",), ("s", "--test", "true")):
        assert main(["why", *words, "--follow"]) == 2
        assert "no test or session can be chosen" in capsys.readouterr().err


def test_a_trial_that_has_not_ended_is_explained(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "go")
    words = bw_words("run", "--study", "s", "--runs", "1", "--", "cat", "go")
    with subprocess.Popen(words, cwd=tmp_path, stderr=subprocess.DEVNULL) as session:
        # A writer that says nothing: cat opens the pipe, and waits in its read.
        with (tmp_path / "go").open("w"):
            end = time.monotonic() + 60
            running = None
            while running is None and time.monotonic() < end:
                time.sleep(0.2)
                done = bw(tmp_path, "why", "s", "--json")
                if done.returncode == 0:
                    running = json.loads(done.stdout)["running"]
            follows = subprocess.Popen(
                bw_words("why", "s", "--follow"), cwd=tmp_path, stdout=subprocess.PIPE, text=True
            )
            assert follows.stdout is not None
            line = follows.stdout.readline()
        assert session.wait(60) == 0
        follows.communicate(timeout=60)
    assert running is not None
    assert running["name"] == "cat, trial 1 so far"
    assert running["first"] == "waits-for-pipe"
    assert "cat, trial 1 so far: waited" in line
    assert follows.returncode == 0
    (result,) = why(tmp_path, "s")
    assert result["name"] == "cat"
