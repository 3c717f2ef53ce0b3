"""`bw run` as a user meets it, with the real launcher."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from bw_command import Done, bw


def script(directory: Path, name: str, text: str) -> Path:
    """Write an executable shell script."""
    path = directory / name
    path.write_text("#!/bin/sh\n" + text)
    path.chmod(0o755)
    return path


def by_name(done: Done) -> dict[str, Any]:
    """Return the tests of a --json run by name."""
    return {test["name"]: test for test in json.loads(done.stdout)["tests"]}


def quantity(test: dict[str, Any], name: str) -> dict[str, Any]:
    """Return one quantity of a test."""
    (found,) = (q for q in test["quantities"] if q["name"] == name)
    return found  # type: ignore[no-any-return]


def test_a_command_is_measured_without_a_file(tmp_path: Path) -> None:
    done = bw(tmp_path, "run", "--json", "-P", "n=1,2", "--min-runs", "3", "--", "echo", "{n}")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["schema"] == "benchwright/run/1"
    assert document["status"] == "complete"
    tests = by_name(done)
    assert list(tests) == ["echo:n=1", "echo:n=2"]
    assert quantity(tests["echo:n=1"], "elapsed")["count"] == 3
    log = (tmp_path / "bw-study/results/s1/echo:n=2.log").read_text()
    assert log.count("2\n") >= 3


def test_precision_stops_with_an_answer(tmp_path: Path) -> None:
    done = bw(tmp_path, "run", "--json", "--precision", "50%", "--", "sleep", "0.01")
    assert done.returncode == 0, done.stderr
    (test,) = by_name(done).values()
    assert test["stop"]["reason"] == "precise"
    assert test["stop"]["looks"] == 1
    assert quantity(test, "elapsed")["count"] >= 20


def test_an_expected_status_is_a_good_trial_live_stored_and_resumed(tmp_path: Path) -> None:
    grep = ("--runs", "3", "grep nothing /etc/hostname")
    done = bw(tmp_path, "run", "--study", "plain", *grep)
    assert done.returncode == 1
    assert "--ok-status 0,1" in done.stdout + done.stderr
    done = bw(tmp_path, "run", "--json", "--ok-status", "0,1", *grep)
    assert done.returncode == 0, done.stderr
    (test,) = by_name(done).values()
    assert quantity(test, "elapsed")["count"] == 3
    found = json.loads(done.stdout)["findings"]
    told = [one for one in found if one["code"] == "status-accepted"]
    assert "status 1 in 3 of 3 runs" in told[0]["evidence"]
    shown = json.loads(bw(tmp_path, "stats", "--json").stdout)
    assert "status-accepted" in [one["code"] for one in shown["findings"]]
    rows = bw(tmp_path, "stats", "--json", "bw-study/results/s1/grep.res")
    assert json.loads(rows.stdout)["inputs"][0]["quantities"] == []
    rows = bw(*(tmp_path, "stats", "--json", "--ok-status", "1"), "bw-study/results/s1/grep.res")
    assert json.loads(rows.stdout)["inputs"][0]["quantities"][0]["count"] == 3

    # A status that is not in the list, 0 included, still ends the run; so does a set-up.
    assert bw(tmp_path, "run", "--ok-status", "1", "true").returncode == 1
    failing = ("--ok-status", "1", "--setup", "exit 1", "sh -c 'exit 1'")
    assert bw(tmp_path, "run", *failing).returncode == 1

    done = bw(
        *(tmp_path, "compare", "--ok-status", "1", "--max-blocks", "4", "--json"),
        *("--min-blocks", "2", "--", "sh -c 'exit 1'", "grep x /dev/null"),
    )
    assert done.returncode in (0, 3), done.stderr
    assert json.loads(done.stdout)["failed_blocks"] == 0


def test_stats_and_plot_without_a_study_use_that_of_run(tmp_path: Path) -> None:
    for words in (("stats",), ("plot", "--json")):
        done = bw(tmp_path, *words)
        assert done.returncode == 2, "there is none yet"
        assert "no study ./bw-study" in done.stderr
    assert bw(tmp_path, "run", "--runs", "3", "true").returncode == 0
    for words in (("stats", "--json"), ("plot", "--json"), ("stats", "-v")):
        here, named = bw(tmp_path, *words), bw(tmp_path, *words, "bw-study")
        assert here.returncode == 0, here.stderr
        assert here.stdout == named.stdout


def test_undecided_is_exit_status_3(tmp_path: Path) -> None:
    noisy = script(tmp_path, "noisy", "sleep 0.0$((APEPOCH % 2 * 4 + 1))\n")
    done = bw(
        tmp_path, "run", "--json", "--precision", "0.1%", "--max-runs", "21", "--", str(noisy)
    )
    assert done.returncode == 3, done.stderr
    (test,) = by_name(done).values()
    assert test["stop"]["answered"] is False
    assert quantity(test, "elapsed")["count"] == 21
    again = bw(tmp_path, "resume")
    command = "bw run --json --precision 0.1% --max-runs 21 -- "
    assert f"a larger --max-runs or --max-time: {command}" in again.stderr


def test_metrics_come_from_json_patterns_and_aplog(tmp_path: Path) -> None:
    program = script(
        tmp_path,
        "program",
        'echo "{\\"ops\\": $((APEPOCH * 10))}"\necho "lag 2.5 ms" >&2\n'
        'echo "depth = 7" >> "$APLOG"\n',
    )
    done = bw(
        tmp_path,
        *("run", "--json", "--min-runs", "4", "--metric", "ops:higher=/ops"),
        *("--metric", r"lag~lag ([\d.]+)", "--", str(program)),
    )
    assert done.returncode == 0, done.stderr
    (test,) = by_name(done).values()
    assert quantity(test, "ops")["mean"] == 25
    assert quantity(test, "lag")["mean"] == 2.5
    assert quantity(test, "depth")["mean"] == 7


def test_a_missing_metric_is_a_finding_and_not_a_zero(tmp_path: Path) -> None:
    program = script(tmp_path, "program", '[ $APEPOCH = 2 ] || echo "ops 5"\n')
    done = bw(
        tmp_path,
        *("run", "--json", "--min-runs", "4", "--metric", r"ops~ops (\d+)"),
        *("--", str(program)),
    )
    (test,) = by_name(done).values()
    assert quantity(test, "ops")["count"] == 3
    assert quantity(test, "ops")["mean"] == 5
    codes = [f["code"] for f in json.loads(done.stdout)["findings"]]
    assert "missing-metric" in codes


def test_threads_start_together_and_are_aggregated(tmp_path: Path) -> None:
    program = script(
        tmp_path,
        "program",
        "bw barrier -- bw measure -- sleep 0.0$APTHREAD\n"
        'echo "rate = $((APTHREAD * 10))" >> "$APLOG"\n',
    )
    done = bw(
        tmp_path,
        *("run", "--json", "--min-runs", "3", "--threads", "3"),
        *("--metric", "rate:higher", "--", str(program)),
        env=with_bw(tmp_path),
    )
    assert done.returncode == 0, done.stderr
    (test,) = by_name(done).values()
    assert quantity(test, "rate")["mean"] == 60
    assert quantity(test, "elapsed")["min"] >= 0.03
    blocks = (tmp_path / "bw-study/results/s1" / f"{test['name']}.res").read_text()
    assert blocks.count("[measurement]") == 9
    assert "command = sleep 0.03" in blocks


def with_bw(directory: Path) -> dict[str, str]:
    """Return an environment whose PATH finds a `bw` of this very interpreter."""
    tools = directory / "tools"
    tools.mkdir(exist_ok=True)
    script(tools, "bw", f'exec {sys.executable} -m benchwright.cli.main "$@"\n')
    return {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}"}


def test_cleanup_runs_also_after_a_failure_and_the_run_fails(tmp_path: Path) -> None:
    done = bw(
        tmp_path,
        *("run", "--setup", "touch here", "--cleanup", "rm here; touch cleaned"),
        *("--", "sh", "-c", "test -e here; exit 3"),
    )
    assert done.returncode == 1
    assert "exited with status 3" in done.stderr
    assert (tmp_path / "cleaned").exists()
    assert not (tmp_path / "here").exists()


def test_a_program_that_is_not_there_is_told_by_name(tmp_path: Path) -> None:
    done = bw(tmp_path, "run", "--", "no-such-program-here")
    assert done.returncode == 2
    assert "no-such-program-here" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_timeout_ends_the_trial_and_everything_in_it(tmp_path: Path) -> None:
    done = bw(
        tmp_path,
        *("run", "--timeout", "100ms", "--keep-going", "--min-runs", "2", "--json"),
        *("--", "sh", "-c", "setsid sleep 77 & sleep 78"),
    )
    assert done.returncode == 1
    assert {f["code"] for f in json.loads(done.stdout)["findings"]} >= {"timeout"}
    assert processes_of(tmp_path) == []


def processes_of(directory: Path) -> list[int]:
    """Return the living processes that a session of this directory started."""
    wanted = f"BW_STUDY={directory / 'bw-study'}".encode()
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                if wanted in (entry / "environ").read_bytes().split(b"\0"):
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


def interrupted(directory: Path, times: int, *words: str) -> tuple[int, str]:
    """Run bw, press Ctrl-C so often once a trial is running; return status, stderr."""
    process = subprocess.Popen(
        [sys.executable, "-m", "benchwright.cli.main", *words],
        cwd=directory,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 30
    while not (directory / "running").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    for _press in range(times):
        process.send_signal(signal.SIGINT)
        time.sleep(0.3)
    error = process.communicate(timeout=60)[1]
    return process.returncode, error


SLOW = 'touch running; [ -e finish ] || sleep 60; echo "value = 1" >> "$APLOG"'


def test_ctrl_c_once_cleans_up_and_the_study_can_be_resumed(tmp_path: Path) -> None:
    words = ("run", "--min-runs", "2", "--cleanup", "echo x >> cleaned", "--metric", "value")
    status, error = interrupted(tmp_path, 1, *words, "--", "sh", "-c", SLOW)
    assert status == 130, error
    assert "`bw resume bw-study` continues from here" in error
    assert (tmp_path / "cleaned").read_text() == "x\n"
    assert processes_of(tmp_path) == []
    (tmp_path / "finish").touch()
    done = bw(tmp_path, "resume", "--json")
    assert done.returncode == 0, done.stderr
    (test,) = by_name(done).values()
    assert quantity(test, "value")["count"] == 2
    assert (tmp_path / "cleaned").read_text() == "x\n" * 3


def test_ctrl_c_twice_ends_the_cleanup_too(tmp_path: Path) -> None:
    words = ("run", "--min-runs", "2", "--cleanup", "sleep 70")
    status, error = interrupted(tmp_path, 2, *words, "--", "sh", "-c", SLOW)
    assert status == 130, error
    assert processes_of(tmp_path) == []


REBOOTING = """
METRIC value
TEST cold 3
  CHECKPOINT %TESTROOT%/point
  IF RESTORE = 0
    SYSTEM echo boot >> boots
    STOP
  FI
  EXEC ./work
DONE
"""


@pytest.mark.parametrize("command", ["resume", "run"])
def test_a_checkpoint_survives_what_a_reboot_does(command: str, tmp_path: Path) -> None:
    script(tmp_path, "work", 'echo "value = $APEPOCH" >> "$APLOG"\n')
    (tmp_path / "suite.ap").write_text(REBOOTING)
    environment = {**os.environ, "TESTROOT": str(tmp_path)}
    done = bw(tmp_path, "run", "suite.ap", env=environment)
    for _boot in range(3):
        assert done.returncode == 0, done.stderr
        # As from a boot script: another directory, another environment.
        bare = {k: v for k, v in os.environ.items() if k in ("PYTHONPATH", "BW_LAUNCHER")}
        done = bw(Path("/"), command, str(tmp_path / "point"), "--json", env=bare)
    assert done.returncode == 0, done.stderr
    (test,) = by_name(done).values()
    assert quantity(test, "value")["mean"] == 2
    assert (tmp_path / "boots").read_text() == "boot\n" * 3


@pytest.mark.parametrize("option", ["--plan", "--study=other", "--threads=2"])
def test_a_checkpoint_goes_on_as_it_was_begun(option: str, tmp_path: Path) -> None:
    (tmp_path / "point").write_text("benchwright checkpoint 1\nstudy = /nowhere\n")
    done = bw(tmp_path, "run", "point", option)
    assert done.returncode == 2
    assert option.split("=")[0] in done.stderr
    assert "is a checkpoint" in done.stderr
    assert not (tmp_path / "other").exists()


def test_peak_rss_of_true_is_small_however_large_the_caller(tmp_path: Path) -> None:
    """The launcher, not Python, is the floor of ru_maxrss (done-when 7)."""
    program = (
        "import sys\n"
        "ballast = bytearray(300 << 20)\n"
        "ballast[:: 4096] = b'x' * len(ballast[:: 4096])\n"
        "from benchwright.cli.main import main\n"
        "sys.exit(main(['run', '--json', '--metric', 'rss_bytes', '--', '/bin/true']))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    (test,) = by_name(done).values()
    rss = quantity(test, "rss_bytes")
    assert rss["count"] == 10
    assert 100_000 < rss["max"] < 2 << 20


def test_a_second_run_into_the_same_study_is_a_new_session(tmp_path: Path) -> None:
    for number in (1, 2):
        assert bw(tmp_path, "run", "--min-runs", "2", "--", "true").returncode == 0
        assert (tmp_path / f"bw-study/results/s{number}/true.res").exists()


def test_a_foreign_directory_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "precious").write_text("x")
    done = bw(tmp_path, "run", "--study", "data", "--", "true")
    assert done.returncode == 2
    assert "not-a-study" in done.stderr
    assert [p.name for p in (tmp_path / "data").iterdir()] == ["precious"]


MISTAKES = """\
VAR A=1
FOREACH FS ext4
  TEST %FS% ten
    EXCE work
  DONE
IF A = 1
"""


def test_mistakes_of_a_suite_are_all_told_before_anything_runs(tmp_path: Path) -> None:
    (tmp_path / "bad.ap").write_text(MISTAKES)
    done = bw(tmp_path, "run", "bad.ap")
    assert done.returncode == 2
    places = re.findall(r"^bad\.ap:(\d+):(\d+): ", done.stderr, re.MULTILINE)
    assert {int(line) for line, _ in places} >= {3, 4}
    assert len(places) >= 3
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "bw-study").exists()


@pytest.mark.parametrize(
    "words",
    [
        ("run",),
        ("run", "nothere.ap"),
        ("run", "--precision", "500%", "--", "true"),
        ("run", "-P", "x", "--", "true"),
        ("run", "--metric", "a~(", "--", "true"),
        ("run", "--threads", "0", "--", "true"),
        ("run", "--timeout", "soon", "--", "true"),
        ("run", "--min-runs", "9", "--max-runs", "3", "--precision", "5%", "--", "true"),
        ("run", "--hook", "nothere", "--", "true"),
        ("run", "--baseline", "n=3", "-P", "n=1,2", "--", "echo", "{n}"),
        ("resume", "nothere"),
        ("stats", "nothere"),
        ("measure",),
        ("nonsense",),
    ],
)
def test_bad_input_is_exit_status_2_without_a_traceback(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    done = bw(tmp_path, *words)
    assert done.returncode == 2, done.stderr
    assert done.stderr.strip()
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "bw-study" / "logs").exists(), "nothing has run"


def test_barrier_hands_a_measured_command_to_the_launcher_at_once(tmp_path: Path) -> None:
    """No Python starts between the release and what is measured."""
    script(tmp_path, "parent", 'tr "\\0" " " < /proc/$PPID/cmdline\n')
    program = script(tmp_path, "program", "bw barrier -- bw measure -- ./parent\n")
    done = bw(tmp_path, "run", "--min-runs", "1", "--", str(program), env=with_bw(tmp_path))
    assert done.returncode == 0, done.stderr
    log = (tmp_path / "bw-study/results/s1/program.log").read_text()
    assert "bw-launcher" in log
    assert "python" not in log


def test_closed_standard_streams_are_no_mistake(tmp_path: Path) -> None:
    command = f"{sys.executable} -m benchwright.cli.main run --min-runs 2 -- true <&- >&- 2>&-"
    done = subprocess.run(["sh", "-c", command], cwd=tmp_path, timeout=60)
    assert done.returncode == 0
    assert (tmp_path / "bw-study/results/s1/true.res").exists()


OF_THE_MACHINE = ("not-watched", "environment-changed-between-trials")
"""Findings that other tests, which run beside this one, or an ordinary user's rights cause."""


def test_what_failed_is_told_as_bw_stats_tells_it(tmp_path: Path) -> None:
    words = ("run", "--study", "s", "--json", "--max-runs", "3", "--")
    done = bw(tmp_path, *words, "sh", "-c", "exit 3")
    assert done.returncode == 1
    told = json.loads(done.stdout)["findings"]
    codes = [one["code"] for one in told]
    # Whether what fails at once was watched is the machine's matter.
    assert [code for code in codes if code not in OF_THE_MACHINE] == ["command-failed"]
    stats = bw(tmp_path, "stats", "--json", "s")
    assert json.loads(stats.stdout)["findings"] == told


def test_the_report_of_a_failed_run_says_what_failed(tmp_path: Path) -> None:
    done = bw(tmp_path, "run", "--json", "--", "sh", "-c", "exit 3")
    assert done.returncode == 1
    (found,) = [
        one for one in json.loads(done.stdout)["findings"] if one["code"] == "command-failed"
    ]
    assert "exited with status 3" in found["evidence"]


# -- quoted commands, warm-up, shells, the order of a scan ----------------------------------


def test_quoted_commands_are_tests_and_warm_up_trials_do_not_count(tmp_path: Path) -> None:
    options = ("--runs", "3", "--warmup", "2", "--json")
    done = bw(tmp_path, "run", *options, "echo a", "echo b | cat", "--name", "first")
    assert done.returncode == 0, done.stderr
    assert "3 trials, after 2 warm-up trials" in done.stderr
    tests = by_name(done)
    assert list(tests) == ["first", "echo"]
    assert {quantity(test, "elapsed")["count"] for test in tests.values()} == {3}
    log = (tmp_path / "bw-study/results/s1/echo.log").read_text()
    assert log.splitlines().count("b") == 5


def test_a_shell_runs_each_command_on_request(tmp_path: Path) -> None:
    options = ("--quiet", "--runs", "1", "--output", "file")
    for words in (("--shell=sh -x", "echo hi"), ("--shell=sh -x", "--", "echo hi")):
        assert bw(tmp_path, "run", *options, *words).returncode == 0
    for session in ("s1", "s2"):
        log = (tmp_path / f"bw-study/results/{session}/echo.log").read_text()
        assert "+ echo hi" in log


ONE = 'echo {n} >> order; [ "$(wc -l < order)" -ne 4 ] || touch running; sleep 0.6'
"""A trial so long that two are a visit, which notes its level and the fourth trial."""


def test_a_scan_is_interleaved_and_resumed_and_listed_as_given(tmp_path: Path) -> None:
    words = ("run", "--runs", "4", "--seed", "1", "-P", "n=3,1,2", ONE, "--name", "t")
    status, error = interrupted(tmp_path, 1, *words)
    assert status == 130, error
    order = (tmp_path / "order").read_text().split()
    assert len(order) == 4
    assert len(set(order)) > 1, "no level has run all of its trials"
    done = bw(tmp_path, "resume", "--json")
    assert done.returncode == 0, done.stderr
    tests = by_name(done)
    assert list(tests) == ["t:n=3", "t:n=1", "t:n=2"]
    assert {quantity(test, "elapsed")["count"] for test in tests.values()} == {4}
    runs = (tmp_path / "order").read_text().split()
    assert sorted(Counter(runs).values()) == [4, 4, 5], "one trial was cut short"
    stats = json.loads(bw(tmp_path, "stats", "--json", "bw-study").stdout)
    assert [one["name"] for one in stats["inputs"]] == list(tests)


def without_overhead(tests: list[Any]) -> list[str]:
    """Return the names of the tests that overheads refer to: they have none."""
    return [one["name"] for one in tests if quantity(one, "elapsed")["overhead_percent"] is None]


@pytest.mark.parametrize(
    ("words", "reference"),
    [
        (("--baseline", "best"), "t:n=0.01"),
        (("--baseline", "n=0.1"), "t:n=0.1"),
        # The first test fails, as the last one that runs.
        (("--seed", "2"), "t:n=0.05"),
    ],
)
def test_overheads_and_ratios_refer_to_one_test(
    tmp_path: Path, words: tuple[str, ...], reference: str
) -> None:
    first = "no" if "--seed" in words else "0.2"
    levels = ("--runs", "3", "-P", f"n={first},0.05,0.01,0.1", "--name", "t")
    bw(tmp_path, "run", "--quiet", *words, *levels, "--", "sleep", "{n}")
    inputs = json.loads(bw(tmp_path, "stats", "--json", "bw-study").stdout)["inputs"]
    assert len(inputs) == 4
    having = [one for one in inputs if one["quantities"]]
    assert without_overhead(having) == [reference]
    told = {one["answer"]["relative_to"] for one in having}
    assert told == {None, reference}
    text = bw(tmp_path, "stats", "--format", "markdown", "bw-study").stdout
    assert f"ratio to {reference.partition(':')[2]}" in text
    tables = dict(part.split("\n", 1) for part in text.split("### ")[1:])
    assert "O/H" not in tables.pop(reference)
    assert all("O/H" in tables[one["name"]] for one in having if one["name"] in tables)


def test_ratios_refer_to_the_baseline_also_later(tmp_path: Path) -> None:
    words = ("--quiet", "--runs", "3", "--baseline", "n=2", "-P", "n=1,2,3")
    done = bw(tmp_path, "run", "--json", *words, "--name", "t", "--", "echo", "{n}")
    assert done.returncode == 0, done.stderr
    answers = json.loads(done.stdout)["answers"]
    assert [one["relative_to"] for one in answers] == ["t:n=2", None, "t:n=2"]
    assert without_overhead(json.loads(done.stdout)["tests"]) == ["t:n=2"]
    assert "ratio to n=2" in bw(tmp_path, "stats", "bw-study").stdout
    inputs = json.loads(bw(tmp_path, "stats", "--json", "bw-study").stdout)["inputs"]
    assert [one["answer"] for one in inputs] == answers
    assert without_overhead(inputs) == ["t:n=2"]
    words = ("stats", "--json", "--select", "$epoch > 1", "bw-study")
    inputs = json.loads(bw(tmp_path, *words).stdout)["inputs"]
    assert [one["answer"] for one in inputs] == [None] * 3
    assert without_overhead(inputs) == ["t:n=2"]
    other = bw(tmp_path, "stats", "bw-study", "--baseline", "t:n=3").stdout
    assert "ratio to n=3" in other
    assert bw(tmp_path, "report", "bw-study", "-o", "r.html").returncode == 0
    page = (tmp_path / "r.html").read_text()
    assert "Ratio to n=2" in page
    overheads = [
        page.split(f'{{"name":"t:n={n}"', 1)[1].split('"overhead_percent":', 1)[1]
        for n in (1, 2, 3)
    ]
    assert [one.startswith("null") for one in overheads] == [False, True, False]


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("t:n=2", None),
        ("n=2", None),
        ("best", None),
        ("sort -n2 x", None),
        ("n=3", "did you mean n="),
        ("sort", "one of first, best, n=1, n=2"),
    ],
)
def test_a_baseline_is_named_in_full_in_short_or_by_its_command(
    tmp_path: Path, name: str, hint: str | None
) -> None:
    words = ("--baseline", name, "-P", "n=1,2", "--name", "t", "sort -n{n} x")
    done = bw(tmp_path, "run", "--check", *words)
    assert done.returncode == (2 if hint else 0), done.stderr
    assert (hint or "no mistakes found") in done.stderr


def test_the_baseline_of_a_suite_is_a_test(tmp_path: Path) -> None:
    suite = tmp_path / "s.toml"
    tests = "".join(
        f'[[test]]\nname = "{one}"\nexec = "echo {one}"\nuntil = {{ count = 2 }}\n' for one in "ab"
    )
    suite.write_text(f'baseline = "b"\n{tests}')
    done = bw(tmp_path, "run", "--quiet", "--json", "s.toml")
    assert [one["relative_to"] for one in json.loads(done.stdout)["answers"]] == ["b", None]
    suite.write_text(f'baseline = "c"\n{tests}')
    done = bw(tmp_path, "run", "--check", "s.toml")
    assert done.returncode == 2
    assert done.stderr.startswith("s.toml:1:12: there is no test 'c'")


def test_a_scan_runs_in_order_on_request(tmp_path: Path) -> None:
    words = ("--quiet", "--runs", "2", "--in-order", "-P", "n=3,1,2")
    assert bw(tmp_path, "run", *words, "echo {n} >> order").returncode == 0
    assert (tmp_path / "order").read_text().split() == ["3", "3", "1", "1", "2", "2"]


def test_stats_of_a_session_that_runs_says_so(tmp_path: Path) -> None:
    """A trial is recorded, and the next one runs: no summary says interrupted."""
    words = [sys.executable, "-m", "benchwright.cli.main", "run", "--runs", "2"]
    gate = tmp_path / "gate"
    command = f"[ $APEPOCH = 1 ] || until [ -e {gate} ]; do sleep 0.05; done; sleep 1.05"
    with subprocess.Popen([*words, command], cwd=tmp_path) as running:
        try:
            while "trials" not in (shown := bw(tmp_path, "stats").stdout):
                assert running.poll() is None
                time.sleep(0.2)
            assert "interrupted" not in shown
            document = json.loads(bw(tmp_path, "stats", "--json").stdout)
            assert [one["answer"]["state"] for one in document["inputs"]] == ["running"]
        finally:
            gate.touch()
    assert running.returncode == 0
    document = json.loads(bw(tmp_path, "stats", "--json").stdout)
    assert [one["answer"]["state"] for one in document["inputs"]] == ["answered"]


@pytest.mark.parametrize(("is_given", "n"), [(True, 0.0), (False, 7.0)])
def test_a_file_as_standard_input_is_not_for_the_commands(
    is_given: bool, n: float, tmp_path: Path
) -> None:
    lines = tmp_path / "lines"
    lines.write_text("a\n" * 7)
    command = ["--", "wc", "-l"] if is_given else ["wc -l < lines"]
    with open(lines if is_given else os.devnull) as given:
        done = bw(
            tmp_path,
            *("run", "--runs", "2", "--metric", r"n~(\d+)", "--json"),
            *command,
            stdin=given,
        )
    assert ("do not read this standard input" in done.stderr) is is_given
    quantities = json.loads(done.stdout)["tests"][0]["quantities"]
    assert [row["mean"] for row in quantities if row["name"] == "n"] == [n]
