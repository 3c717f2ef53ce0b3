"""`bw compare` as a user meets it, with the real launcher."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from bw_command import Done, bw

SLOWER = ("sleep 0.01", "sleep 0.1")
"""So far apart that no neighbour hides it."""
_OF_OTHERS = (
    *("dependent-trials", "errors-in-kernel-log"),
    *("environment-changed-between-trials", "environments-differ"),
    *("not-interleaved", "difference-not-in-user-time"),
)
ACCEPT = tuple(word for code in _OF_OTHERS for word in ("--accept", code))
"""For gates on a machine that others use too."""


def verdict_of(done: Done, metric: str = "elapsed") -> dict[str, Any]:
    """Return the verdict of a --json comparison for one metric."""
    assert done.stdout, done.stderr
    document = json.loads(done.stdout)
    found = [v for v in document["verdicts"] if v["metric"] == metric]
    assert len(found) == 1
    return found[0]  # type: ignore[no-any-return]


def codes(done: Done) -> set[str]:
    """Return the codes of a document's findings."""
    return {finding["code"] for finding in json.loads(done.stdout)["findings"]}


def costs(directory: Path) -> tuple[str, str]:
    """Return two commands whose costs (100 to 110, and twice as much) no other load disturbs."""
    for name, factor in (("old.py", 1), ("new.py", 2)):
        (directory / name).write_text(
            "import os; n = int(os.environ['APEPOCH']); "
            f"print('{{\"cost\": %d}}' % ({factor} * (100 + 37 * n % 11)))\n"
        )
    return f"{sys.executable} -S old.py", f"{sys.executable} -S new.py"


def test_what_sleeps_longer_is_slower(tmp_path: Path) -> None:
    done = bw(tmp_path, "compare", "--json", "--", *SLOWER)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["schema"] == "benchwright/compare/1"
    assert document["arms"] == ["sleep", "sleep-2"]
    assert document["status"] == "complete"
    found = verdict_of(done)
    assert found["verdict"] == "slower"
    assert found["ratio"]["low"] > 1.3
    assert found["n"]["baseline"] == found["n"]["candidate"] == found["blocks"]
    assert found["p_adjusted"] <= 0.05
    assert found["smallest_effect"] > 0
    assert verdict_of(done, "rss_bytes")["verdict"] is None


def test_commands_of_one_program_come_first(tmp_path: Path) -> None:
    commands = ("sleep 0.01", "sleep 0.011")
    done = bw(tmp_path, "compare", "--max-blocks", "3", "--", *commands)
    again = bw(tmp_path, "stats")
    for text in (done.stdout, again.stdout):
        assert text.startswith("sleep: sleep 0.01\nsleep-2: sleep 0.011\n\nAgainst sleep, in")


def test_the_same_command_is_equivalent_within_a_wide_margin(tmp_path: Path) -> None:
    """However noisy the machine: nothing is claimed about small differences."""
    done = bw(
        tmp_path,
        *("compare", "--json", "--margin", "90%", "--name", "one", "--name", "two"),
        *("--", "sleep 0.01", "sleep 0.01"),
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["arms"] == ["one", "two"]
    assert verdict_of(done)["verdict"] == "equivalent"


def test_a_person_is_told_in_a_table_and_sentences(tmp_path: Path) -> None:
    done = bw(tmp_path, "compare", "--name", "A", "--name", "B", "--", *SLOWER)
    assert "metric" in done.stdout
    sentence = r"B is .* slow(er than| as) A \(elapsed: 95 % interval [^\n]*\n"
    found = re.search(sentence, done.stdout)
    assert found is not None
    again = bw(tmp_path, "stats", "bw-study").stdout
    assert again.startswith(done.stdout[: found.end()]), "the same, from the study"
    assert "B against A" in done.stderr, "progress"


@pytest.mark.parametrize(
    ("limit", "expected"), [("slower by 3%", 1), ("elapsed slower by 0.99", 3)]
)
def test_a_gate_is_an_exit_status_and_junit(tmp_path: Path, limit: str, expected: int) -> None:
    """sleep 0.4 takes about twice as long as sleep 0.2: 99 % more cannot be decided."""
    commands = SLOWER if expected == 1 else ("sleep 0.2", "sleep 0.4")
    done = bw(
        tmp_path,
        *("compare", "--fail-if", limit, "--junit", "out.xml", "--json"),
        *("--max-blocks", "3" if expected == 3 else "60", "--min-blocks", "3"),
        *("--", *commands),
    )
    assert done.returncode == expected, done.stdout + done.stderr
    suite = ElementTree.parse(tmp_path / "out.xml").getroot().find("testsuite")
    assert suite is not None
    cases = {case.get("name"): case for case in suite.findall("testcase")}
    assert set(cases) == {"elapsed", f"not {limit}"}
    gate = cases[f"not {limit}"]
    wanted = "failure" if expected == 1 else "error"
    assert gate.find(wanted) is not None
    assert suite.get(f"{wanted}s") == "1"


def test_a_gate_that_passes_is_exit_status_0(tmp_path: Path) -> None:
    done = bw(
        tmp_path,
        *("compare", "--fail-if", "slower by 90%", "--margin", "90%", "--quiet"),
        *("--", "sleep 0.02", "sleep 0.02"),
    )
    assert done.returncode == 0, done.stdout
    assert "gate `slower by 90%`, sleep-2: passed" in done.stdout


def test_a_metric_where_more_is_better(tmp_path: Path) -> None:
    done = bw(
        tmp_path,
        *("compare", "--json", "--metric", r"ops:higher~ops (\d+)", "--margin", "90%"),
        *("--", "echo ops 100", "echo ops 200"),
    )
    assert done.returncode == 0, done.stderr
    found = verdict_of(done, "ops")
    assert (found["verdict"], found["better"]) == ("faster", "higher")
    assert found["ratio"]["value"] == pytest.approx(2)
    assert "constant" in found["reason"]
    assert found["adjustment"] == "benjamini-hochberg"


@pytest.mark.parametrize("design", ["abba", "round-robin"])
def test_designs(tmp_path: Path, design: str) -> None:
    done = bw(
        tmp_path, "compare", "--json", "--design", design, "--max-blocks", "12", "--",
        *SLOWER,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert verdict_of(done)["verdict"] == "slower"
    assert "sequential-arms" not in codes(done)


def test_one_arm_after_the_other(tmp_path: Path) -> None:
    done = bw(
        tmp_path, "compare", "--json", "--design", "sequence", "--max-blocks", "12",
        *("--metric", "cost=/cost", "--name", "old", "--name", "new"),
        *("--", *costs(tmp_path)),
    )  # fmt: skip
    assert done.returncode in (0, 3), done.stderr  # elapsed may be undecided
    assert verdict_of(done, "cost")["verdict"] == "slower"
    assert "sequential-arms" in codes(done)


def test_a_plan_says_how_many_and_looks_once(tmp_path: Path) -> None:
    done = bw(
        tmp_path, "compare", "--json", "--mode", "plan", "--margin", "20%", "--",
        *SLOWER,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["stop"]["looks"] == 1
    assert verdict_of(done)["ratio"]["method"] == "stein-two-stage"


def test_a_command_that_is_not_there_ends_it(tmp_path: Path) -> None:
    late = "rm -f late; ./late"
    (tmp_path / "late").write_text("#!/bin/sh\n")
    (tmp_path / "late").chmod(0o755)
    done = bw(tmp_path, "compare", "--json", "--", "true", late)
    assert done.returncode == 1, done.stderr
    document = json.loads(done.stdout)
    assert document["stop"]["reason"] == "failed"
    assert "command-failed" in codes(done)
    assert "./late" in done.stdout


@pytest.mark.parametrize(
    ("commands", "told"),
    [
        (("true", "no-such-program"), "there is no program 'no-such-program'"),
        (("./work.sh", "1"), "quote each command: bw compare -- './work.sh 1'"),
        (("true", "./plain"), "'./plain' is not an executable file"),
        (("true", "no-such-program > out"), "there is no program 'no-such-program'"),
    ],
)
def test_a_program_that_is_not_there_is_refused_before_the_first_trial(
    tmp_path: Path, commands: tuple[str, ...], told: str
) -> None:
    (tmp_path / "work.sh").write_text("#!/bin/sh\n")
    (tmp_path / "work.sh").chmod(0o755)
    (tmp_path / "plain").touch()
    done = bw(tmp_path, "compare", "--", *commands)
    assert done.returncode == 2
    assert told in done.stderr
    assert not (tmp_path / "bw-study").exists()


# -- interrupted -------------------------------------------------------------------------

SLOW = (
    'echo a >> ran; [ "$(wc -l < ran)" != 14 ] || [ -e on ] || sleep 60; sleep 0.01',
    'echo b >> ran; [ "$(wc -l < ran)" != 14 ] || [ -e on ] || sleep 60; sleep 0.02',
)
"""Two arms that say which ran; the 14th trial hangs until there is a file `on`."""
WORDS = ("compare", "--seed", "5", "--json", "--name", "a", "--name", "b", "--")


def started(directory: Path) -> subprocess.Popen[str]:
    """Begin the comparison, and return it when its 14th trial hangs."""
    process = subprocess.Popen(
        [sys.executable, "-m", "benchwright.cli.main", *WORDS, *SLOW],
        cwd=directory,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 60
    ran = directory / "ran"
    while time.monotonic() < deadline:
        if ran.exists() and len(ran.read_text().split()) >= 14:
            return process
        time.sleep(0.02)
    raise AssertionError("the 14th trial did not begin")


def undisturbed(directory: Path) -> list[str]:
    """Return the arms in the order in which the comparison runs them."""
    directory.mkdir()
    (directory / "on").touch()
    assert bw(directory, *WORDS, *SLOW).returncode == 0
    return (directory / "ran").read_text().split()


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_a_comparison_goes_on_with_the_same_blocks(tmp_path: Path, how: signal.Signals) -> None:
    whole = undisturbed(tmp_path / "whole")
    place = tmp_path / "cut"
    place.mkdir()
    process = started(place)
    process.send_signal(how)
    process.communicate(timeout=60)
    assert process.returncode == (130 if how is signal.SIGINT else -signal.SIGKILL)
    before = (place / "ran").read_text().split()
    assert before == whole[:14]
    stats = bw(place, "stats", "bw-study").stdout
    assert stats.startswith("Against "), "the blocks so far"
    assert "`bw resume bw-study` continues" in stats
    (place / "on").touch()
    done = bw(place, "resume", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["schema"] == "benchwright/compare/1"
    found = verdict_of(done)
    assert found["verdict"] == "slower"
    after = (place / "ran").read_text().split()[14:]
    # The trial that was cut runs again; all others once, in the order of the seed.
    shared = min(len(whole), 13 + len(after))
    assert (whole[:13] + after)[:shared] == whole[:shared]
    assert 2 * (found["blocks"] + 1) == 13 + len(after)


# -- stored ------------------------------------------------------------------------------


def test_a_null_comparison_is_shown_beside_later_ones(tmp_path: Path) -> None:
    done = bw(tmp_path, "compare", "--null", "--json", "--", "sleep 0.01")
    assert done.returncode == 0, done.stderr
    null = json.loads(done.stdout)["null"]
    assert null["blocks"] == 40
    assert null["relabellings"] == 1000
    assert null["false_positives"] <= 0.05
    assert null["metrics"][0]["noise_floor"] > 0
    later = bw(tmp_path, "compare", "--json", "--", *SLOWER)
    assert json.loads(later.stdout)["null"] == null
    told = bw(tmp_path, "compare", "--margin", "90%", "--", *SLOWER)
    assert "noise floor, in 40 blocks of `sleep 0.01` against itself" in told.stdout
    other = bw(
        tmp_path, "compare", "--study", "other", "--null-from", "bw-study", "--json",
        "--", *SLOWER,
    )  # fmt: skip
    assert json.loads(other.stdout)["null"] == {**null, "source": "bw-study"}


def test_a_stored_baseline_and_stored_results(tmp_path: Path) -> None:
    commands = dict(zip(("old", "new"), costs(tmp_path), strict=True))
    metric = ("--metric", "cost=/cost")
    run = ("run", "--min-runs", "12", "--max-runs", "12", *metric, "--name", "work")
    for study, command in commands.items():
        done = bw(tmp_path, *run, "--study", study, "--", *command.split())
        assert done.returncode == 0, done.stderr
    gate = ("--fail-if", "cost slower by 3%", *ACCEPT)
    done = bw(
        tmp_path, "compare", "--baseline", "old", *gate, *metric, "--json", "--max-blocks",
        "20", "--name", "now", "--", commands["new"],
    )  # fmt: skip
    assert done.returncode == 1, done.stdout + done.stderr
    found = verdict_of(done, "cost")
    assert (found["verdict"], found["n"]["baseline"]) == ("slower", 12)
    assert found["ratio"]["method"] == "welch-on-logs"
    assert "not-interleaved" in codes(done)
    stored = bw(tmp_path, "compare", "--json", "old:work", "new:work", *gate)
    assert stored.returncode == 1, stored.stderr
    assert verdict_of(stored, "cost")["verdict"] == "slower"
    assert "not-interleaved" in codes(stored)
    gated = bw(tmp_path, "compare", "old", "new", *gate, "--junit", "x")
    assert gated.returncode == 1
    assert ElementTree.parse(tmp_path / "x").getroot().find(".//failure") is not None
    assert "gate `cost slower by 3%`, new:work: failed" in gated.stdout


TRIALS = """\
import pathlib
at = pathlib.Path("trials")
n = len(at.read_text()) if at.exists() else 0
at.write_text("x" * (n + 1))
slow = 20 if pathlib.Path("busy").exists() and n // 8 % 2 else 0
print('{"cost": %d}' % (100 + slow + 37 * n % 11))
"""
"""A program of which trials come in stretches of two costs while a neighbour is busy."""


def test_a_gate_under_a_serious_finding_is_undecided_until_it_is_accepted(tmp_path: Path) -> None:
    """The baseline's neighbouring trials depend on each other; the candidate's do not."""
    (tmp_path / "work.py").write_text(TRIALS)
    (tmp_path / "busy").touch()
    work = f"{sys.executable} -S work.py"
    runs = ("--min-runs", "40", "--max-runs", "40", "--quiet", "--metric", "cost=/cost")
    run = ("run", "--study", "base", *runs, "--name", "work", "--", *work.split())
    assert bw(tmp_path, *run).returncode in (0, 3)
    (tmp_path / "busy").unlink()
    ask = (
        "compare", "--baseline", "base", "--fail-if", "cost slower by 50%", "--name",
        "new", "--metric", "cost=/cost", "--max-blocks", "20", "--quiet", "--junit",
        "gate.xml", "--json",
    )  # fmt: skip
    done = bw(tmp_path, *ask, "--study", "a", "--", work)
    assert done.returncode == 3, done.stdout + done.stderr
    document = json.loads(done.stdout)
    (gate,) = document["gates"]
    assert (gate["outcome"], gate["otherwise"]) == ("undecided", "passed")
    assert "dependent-trials" in gate["held_by"]
    assert (document["status"], document["exit_status"]) == ("undecided", 3)
    assert verdict_of(done, "cost")["widened"] > 1.5
    root = ElementTree.parse(tmp_path / "gate.xml").getroot()
    case = root.find(".//testcase[@name='not cost slower by 50%']")
    assert case is not None
    assert case.find("error") is not None
    assert "base:work: serious: cost: neigh" in (case.findtext("system-out") or "")
    assert "[not-interleaved]" in (root.findtext("testsuite/system-out") or "")
    done = bw(tmp_path, *ask, *ACCEPT, "--study", "b", "--", work)
    assert done.returncode == 0, done.stdout + done.stderr
    document = json.loads(done.stdout)
    assert document["gates"][0]["outcome"] == "passed"
    assert document["accepted"] == list(ACCEPT[1::2])
    stored = ("compare", "base", "a:new", "--fail-if", "cost slower by 50%")
    done = bw(tmp_path, *stored)
    assert done.returncode == 3
    assert "--accept dependent-trials" in done.stdout
    assert bw(tmp_path, *stored, *ACCEPT).returncode == 0


def test_a_code_that_is_accepted_is_a_findings(tmp_path: Path) -> None:
    done = bw(tmp_path, "compare", "--accept", "dependant-trials", "--", "true", "true")
    assert done.returncode == 2
    assert "did you mean dependent-trials?" in done.stderr


def test_results_of_different_environments_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stored baseline, stored results, and the table of both; not where nothing differs."""
    run = ("run", "--min-runs", "3", "--max-runs", "3", "--study")
    sleep = ("--", "sleep", "0.01")
    for study in ("old", "same"):
        assert bw(tmp_path, *run, study, *sleep).returncode == 0
    assert "environments-differ" not in codes(bw(tmp_path, "compare", "--json", "old", "same"))
    monkeypatch.setenv("MALLOC_ARENA_MAX", "1")
    assert bw(tmp_path, *run, "new", *sleep).returncode == 0
    against = ("--baseline", "old", "--max-blocks", "5", "--", "sleep 0.01")
    for words in (
        ("compare", "--json", "old", "new"),
        ("compare", "--json", *against),
        ("stats", "--json", "old", "new"),
    ):
        assert "environments-differ" in codes(bw(tmp_path, *words)), words


def test_files_of_results_are_compared(tmp_path: Path) -> None:
    for name, times in (("a", (1.0, 1.1, 1.05, 1.02)), ("b", (2.0, 2.1, 2.05, 2.02))):
        rows = "".join(f"{n},{t}\n" for n, t in enumerate(times, 1))
        (tmp_path / f"{name}.csv").write_text(f"epoch,elapsed\n{rows}")
    done = bw(tmp_path, "compare", "--json", "a.csv", "b.csv")
    assert done.returncode == 0, done.stderr
    found = verdict_of(done)
    assert found["verdict"] == "slower"
    assert found["ratio"]["value"] == pytest.approx(1.96, abs=0.01)


def test_results_of_something_else_are_compared_by_what_they_have(tmp_path: Path) -> None:
    for name, factor in (("a", 1.0), ("b", 2.0)):
        rows = "".join(f"{n},{factor * (5 + n / 10)}\n" for n in range(1, 6))
        (tmp_path / f"{name}.csv").write_text(f"epoch,joules\n{rows}")
    done = bw(tmp_path, "compare", "--json", "a.csv", "b.csv")
    assert done.returncode == 0, done.stderr
    assert verdict_of(done, "joules")["verdict"] == "slower"
    (tmp_path / "c.csv").write_text("epoch,watts\n1,2\n2,3\n")
    done = bw(tmp_path, "compare", "a.csv", "c.csv")
    assert done.returncode == 2
    assert "no metric in common" in done.stderr


def csv_of(path: Path, *rows: str, head: str = "epoch,elapsed,ops") -> str:
    """Write results as CSV, and return the file's path."""
    path.parent.mkdir(exist_ok=True)
    path.write_text("\n".join((head, *rows)) + "\n")
    return str(path)


def test_arms_of_one_name_are_told_apart_by_their_paths(tmp_path: Path) -> None:
    csv_of(tmp_path / "r2/a.csv", "1,1.0,5", "2,1.1,5", "3,1.2,6")
    csv_of(tmp_path / "r3/a.csv", "1,2.0,5", "2,2.1,5", "3,2.2,7")
    done = bw(tmp_path, "compare", "--json", "r2/a.csv", "r3/a.csv")
    assert json.loads(done.stdout)["arms"] == ["r2/a.csv", "r3/a.csv"]


def test_junit_never_replaces_what_is_compared(tmp_path: Path) -> None:
    one = csv_of(tmp_path / "a.csv", "1,1.0,5", "2,1.1,5", "3,1.2,6")
    two = csv_of(tmp_path / "b.csv", "1,2.0,50", "2,2.1,51", "3,2.2,50")
    before = Path(one).read_bytes()
    done = bw(tmp_path, "compare", one, two, "--junit", "a.csv")
    assert (done.returncode, Path(one).read_bytes()) == (2, before)
    runs = ("--min-runs", "2", "--max-runs", "2", "--quiet")
    bw(tmp_path, "run", "--study", "old", *runs, "--", "true")
    journal = tmp_path / "old/journal.sqlite"
    before = journal.read_bytes()
    for words in (("old", two), ("--baseline", "old", "--", "true")):
        done = bw(tmp_path, "compare", "--junit", str(journal), *words)
        assert done.returncode == 2, done.stderr
        assert "is inside the study" in done.stderr
        assert journal.read_bytes() == before


def test_a_metric_that_stored_results_do_not_have(tmp_path: Path) -> None:
    one = csv_of(tmp_path / "a.csv", "1,1.0,5", "2,1.1,5", "3,1.2,6")
    two = csv_of(tmp_path / "b.csv", "1,2.0,50", "2,2.1,51", "3,2.2,50")
    done = bw(tmp_path, "compare", one, two, "--metric", "nosuch")
    assert done.returncode == 2
    assert "not every input has the metric nosuch" in done.stderr
    assert "all have: elapsed, ops" in done.stderr
    done = bw(tmp_path, "compare", one, two, "--metric", "OPS:higher", "--json")
    assert done.returncode == 0, done.stderr
    assert verdict_of(done, "ops")["verdict"] == "faster"


def test_a_declared_metric_keeps_its_direction_when_it_is_named(tmp_path: Path) -> None:
    for study, ops in (("old", 100), ("new", 200)):
        ran = bw(
            tmp_path, "run", "--study", study, "--quiet", "--min-runs", "3",
            "--max-runs", "3", "--metric", r"ops:higher~ops (\d+)", "--", "echo", "ops", str(ops),
        )  # fmt: skip
        assert ran.returncode == 0, ran.stderr
    done = bw(tmp_path, "compare", "old", "new", "--metric", "ops", "--json")
    assert verdict_of(done, "ops")["better"] == "higher"


def test_stored_results_without_a_completed_trial(tmp_path: Path) -> None:
    bw(tmp_path, "run", "--study", "bad", "--max-runs", "2", "--min-runs", "2", "--", "false")
    good = csv_of(tmp_path / "a.csv", "1,1.0,5", "2,1.1,5", "3,1.2,6")
    done = bw(tmp_path, "compare", good, "bad")
    assert done.returncode == 2
    assert "bad has no successful trial" in done.stderr
    done = bw(tmp_path, "compare", "--study", "new", "--baseline", "bad", "--", "touch ran")
    assert done.returncode == 2
    assert "bad has no successful trial" in done.stderr
    assert not (tmp_path / "ran").exists()


def test_the_same_trials_on_both_sides_are_no_comparison(tmp_path: Path) -> None:
    csv_of(tmp_path / "a.csv", "1,1.0,5", "2,1.1,5", "3,1.2,6")
    done = bw(tmp_path, "compare", "a.csv", "./a.csv")
    assert done.returncode == 2
    assert "a.csv and ./a.csv are the same trials" in done.stderr


def test_arms_of_one_comparison_are_paired_when_read_again(tmp_path: Path) -> None:
    live = bw(tmp_path, "compare", "--json", "--", *SLOWER)
    done = bw(tmp_path, "compare", "--json", "bw-study:sleep", "bw-study:sleep-2")
    assert done.returncode == 0, done.stderr
    assert verdict_of(done)["ratio"] == verdict_of(live)["ratio"]
    assert not codes(done) & {"not-interleaved", "biased-null"}


def test_both_arms_are_tests_of_the_study(tmp_path: Path) -> None:
    done = bw(tmp_path, "compare", "--json", "--", *SLOWER)
    blocks = json.loads(done.stdout)["blocks"]
    stats = json.loads(bw(tmp_path, "stats", "--json", "bw-study").stdout)
    counts = {one["name"]: one["quantities"][0]["count"] for one in stats["inputs"]}
    assert counts == {"sleep": blocks, "sleep-2": blocks}, "warm-up left out"
    results = tmp_path / "bw-study/results/s1"
    assert "[warmup measurement]" in (results / "sleep.res").read_text()
    assert ",warmup," in (results / "trials.csv").read_text()


SUITE = """
[factors]
t = ["0.01"]
[[compare]]
design = "abba"
fail_if = "slower by 3%"
max_blocks = 15
[[compare.arm]]
name = "old"
exec = "sleep {t}"
[[compare.arm]]
name = "new"
exec = ["sleep", "0.02"]
"""


def test_a_gate_on_a_percentile_that_is_not_known_has_no_answer(tmp_path: Path) -> None:
    load = f"{sys.executable} -m benchwright.cli.main load --rate 200 --duration 200ms"
    # One place in flight, an operation holds it for 50 ms: most are dropped.
    drops = "--depth 1 --full drop --service 50ms"
    blocks = ("--min-blocks", "2", "--max-blocks", "2", "--warmup", "0")
    gate = ("--metric", "response_ns_p99", "--fail-if", "response_ns_p99 slower by 3%")
    arms = (f"{load} --target null", f"{load} {drops} --target null")
    done = bw(tmp_path, "compare", *blocks, *gate, "--", *arms)
    assert done.returncode == 3, done.stderr
    assert "the metric is missing in all of 2 blocks" in done.stdout


def test_a_suite_compares_too(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text(SUITE)
    done = bw(tmp_path, "run", "s.toml", "--json")
    assert done.returncode == 1, "the gate fails"
    document = json.loads(done.stdout)
    assert [t["name"] for t in document["tests"]] == ["old:t=0.01", "new:t=0.01"]
    (found,) = document["comparisons"]
    assert found["design"] == "abba"
    assert found["verdicts"][0]["verdict"] == "slower"
    assert found["verdicts"][0]["n"]["baseline"] == 2 * found["blocks"]
    again = bw(tmp_path, "run", "s.toml")
    assert "gate `slower by 3%`, new:t=0.01: failed" in again.stdout
    arms = ("bw-study@1:old:t=0.01", "bw-study@1:new:t=0.01")
    paired = bw(tmp_path, "compare", "--json", *arms)
    assert verdict_of(paired)["blocks"] == found["blocks"]
    mixed = bw(tmp_path, "compare", "--json", arms[0], "bw-study@2:new:t=0.01")
    assert verdict_of(mixed)["blocks"] is None, "arms of two runs are no pairs"


# -- mistakes ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--", "true"), "bw compare needs at least two commands"),
        (("--",), "bw compare needs at least two commands"),
        (("--", "true", " "), "the command of an arm is empty"),
        (
            ("--design", "zigzag", "--", "a", "b"),
            "'zigzag' is not a design: must be one of blocks, abba",
        ),
        (("--mode", "guess", "--", "a", "b"), "'guess' is not a mode: must be one of watch, plan"),
        (("--margin", "x", "--", "a", "b"), "--margin"),
        (("--margin", "200000%", "--", "a", "b"), "--margin"),
        (("--fail-if", "slower than 3%", "--", "a", "b"), "--fail-if"),
        (("--fail-if", "slower by much", "--", "a", "b"), "--fail-if"),
        (("--fail-if", "speed slower by 3%", "--", "a", "b"), "speed is not compared"),
        (("--fail-if", "bad", "--", "a", "b"), "--fail-if"),
        (("--name", "x", "--name", "x", "--", "a", "b"), "two commands are named 'x'"),
        (("--name", "my arm", "--", "a", "b"), "write --name my_arm"),
        (("--max-blocks", "0", "--", "a", "b"), "must be at least 2"),
        (("true", "sh -c true"), "write commands after --"),
        (("true", "false"), "write commands after --"),
        (("--name", "a/b", "--", "a", "b"), "--name"),
        (("--min-blocks", "1", "--", "a", "b"), "must be at least 2"),
        (("--min-blocks", "9", "--max-blocks", "3", "--", "a", "b"), "--max-blocks 3 is less"),
        (("--null", "--", "a", "b"), "--null takes one command"),
        (("--rest", "soon", "--", "a", "b"), "--rest"),
        (("--hook", "nothere", "--", "a", "b"), "nothere"),
        (("--baseline", "nothere", "--", "a"), "nothere"),
        (("--null-from", "nothere", "--", "a", "b"), "nothere"),
        (("nothere", "nothere2"), "nothere2"),
        (("--junit", "nodir/x.xml", "--", "a", "b"), "there is no directory 'nodir'"),
        (("--junit", ".", "--", "a", "b"), "is a directory"),
        (("one",), "only one input is given"),
        (("one", "two", "--", "a"), "both stored results and commands"),
        (("one", "two", "--setup", "x"), "--setup is for commands that are run"),
        ((), "bw compare needs at least two commands"),
    ],
)
def test_mistakes_are_told_and_nothing_runs(
    tmp_path: Path, words: tuple[str, ...], told: str
) -> None:
    done = bw(tmp_path, "compare", *words)
    assert done.returncode == 2, done.stdout + done.stderr
    assert told in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "bw-study").exists()


def test_all_mistakes_are_told_at_once(tmp_path: Path) -> None:
    done = bw(
        tmp_path, "compare", "--margin", "x", "--design", "y", "--threads", "0", "--",
        "a",
    )  # fmt: skip
    assert done.returncode == 2
    for option in ("--margin", "--design", "--threads", "--"):
        assert f"\n{option}: " in f"\n{done.stderr}"


def test_a_study_is_not_compared_with_itself(tmp_path: Path) -> None:
    bw(tmp_path, "compare", "--margin", "90%", "--", *SLOWER)
    done = bw(tmp_path, "compare", "bw-study", "bw-study")
    assert done.returncode == 2
    assert "bw-study and bw-study are the same trials" in done.stderr


def test_quoted_commands_need_no_dashes(tmp_path: Path) -> None:
    options = ("--max-blocks", "2", "--warmup", "0", "--json", "--quiet")
    done = bw(tmp_path, "compare", *options, "true 1", "true 2")
    assert done.returncode in (0, 3), done.stderr
    assert json.loads(done.stdout)["arms"] == ["true", "true-2"]


WORK = f"{sys.executable} -S -c 'sum(range(2000000))'"


@pytest.mark.parametrize("busy_first", [True, False])
def test_a_gate_on_a_stored_baseline_is_undecided_beside_a_neighbour(
    tmp_path: Path, busy_first: bool
) -> None:
    """The same program is the baseline and the candidate; a neighbour runs beside one of them."""

    def measured(*words: str, is_busy: bool) -> Done:
        loops = [sys.executable, "-S", "-c", "while True: pass"]
        count = 2 * (os.cpu_count() or 1) if is_busy else 0
        neighbours = [subprocess.Popen(loops) for _ in range(count)]
        try:
            return bw(tmp_path, *words)
        finally:
            for one in neighbours:
                one.kill()
                one.wait()

    run = ("run", "--study", "base", "--runs", "12", "--name", "work", "--", *shlex.split(WORK))
    assert measured(*run, is_busy=busy_first).returncode == 0
    done = measured(
        "compare", "--baseline", "base", "--fail-if", "slower by 5%", "--max-blocks", "15",
        "--name", "new", "--", WORK, is_busy=not busy_first,
    )  # fmt: skip
    assert done.returncode == 3, done.stdout + done.stderr
    assert "not-interleaved" in done.stdout
    assert not re.search(r"new is .* (faster|slower) than", done.stdout), done.stdout
