"""`bw history` as typed: what it reads, stores, accepts, writes, and its exit codes."""

from __future__ import annotations

import hashlib
import html
import json
import os
import random
import shutil
import subprocess
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import unquote
from xml.etree import ElementTree

import msgspec
import pytest

from benchwright.cli.main import main
from benchwright.features.history.options import parse_since
from benchwright.features.history.store import HistoryFile
from benchwright.features.history.types import Acceptance, HistoryPoint, NoValue, Run, SeriesKey

DAY_NS = 86_400 * 10**9
START_NS = 1_790_000_000 * 10**9
VALUES = (1.00, 1.02, 0.99, 1.01, 0.98, 1.00, 1.03, 0.97, 1.01, 0.99)


def runs(count: int, slower_from: int = 1000, commits: tuple[str, ...] = ()) -> list[Run]:
    """Return runs of two tests, of which `sort` is slower by half from a run on."""
    found = []
    for at in range(count):
        value = VALUES[at % len(VALUES)]
        points = []
        for test, factor in (("gzip", 1.0), ("sort", 1.5 if at >= slower_from else 1.0)):
            points.append(
                (
                    SeriesKey(test, "elapsed", "0123abcd"),
                    HistoryPoint(
                        run=f"run-{at}",
                        study="bw-study",
                        session=at + 1,
                        started_ns=START_NS + at * DAY_NS,
                        estimate=value * factor,
                        low=value * factor * 0.99,
                        high=value * factor * 1.01,
                        confidence=0.95,
                        trials=10,
                        unit="s",
                        commit=commits[at] if at < len(commits) else f"{at:040x}",
                        command=test,
                    ),
                )
            )
        found.append(Run(points=tuple(points), environment=None, machine="AMD, 2 CPUs"))
    return found


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def stored(path: Path, some: list[Run]) -> None:
    with HistoryFile.open_to_write(path) as file:
        file.add(some)


def answer(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, object]:
    capsys.readouterr()
    assert main(["history", *words, "--json"]) == 0
    found: dict[str, object] = json.loads(capsys.readouterr().out)
    return found


def series(document: dict[str, object], test: str) -> dict[str, object]:
    (found,) = [one for one in document["series"] if one["test"] == test]  # type: ignore[attr-defined]
    return found


def test_the_default_is_the_history_file_here(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stored(here / "bw-history.db", runs(20))
    assert main(["history"]) == 0
    text = capsys.readouterr().out
    assert "2 series: 2 have no difference" in text
    for words in (["show"], ["bw-history.db"], ["."]):
        assert main(["history", *words]) == 0
        assert capsys.readouterr().out == text


def test_help_of_history_is_that_of_show_and_lists_the_commands(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit, match="0"):
        main(["history", "--help"])
    text = capsys.readouterr().out
    assert text.startswith("usage: bw history [PATH...] [options]")
    for command in ("show", "add", "accept", "feed", "push", "pull"):
        assert f"  {command} " in text
    assert "--gate" in text


@pytest.mark.parametrize(
    ("words", "place"),
    [
        (["absent"], "PATH"),
        (["text.txt"], "INPUT"),
        (["empty"], "PATH"),
        (["--test", "nothing"], "--test"),
        (["--metric", "nothing"], "--metric"),
        (["--since", "yesterday"], "--since"),
        (["--since", "2199-01-01"], "--since"),
        (["--false-alarms", "2"], "--false-alarms"),
        (["--gate", "fast"], "--gate"),
        (["add", "--gate", "fast"], "--gate"),
        (["--html", "absent/page.html"], "--html"),
        (["accept", "sort/1"], "--reason"),
        (["accept", "sort/1", "--reason", "why"], "SERIES/STEP"),
        (["accept", "nothing/1", "--reason", "why"], "SERIES/STEP"),
        (["feed"], "--atom"),
    ],
)
def test_bad_input_is_refused_at_its_place(
    here: Path, capsys: pytest.CaptureFixture[str], words: list[str], place: str
) -> None:
    stored(here / "bw-history.db", runs(20))
    (here / "text.txt").write_text("no history")
    (here / "empty").mkdir()
    assert main(["history", *words]) == 2
    assert capsys.readouterr().err.startswith((f"{place}:", f"bw: {place}:"))


@pytest.mark.parametrize("gate", [[], ["--gate", "5%"]])
@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("time,commit,p50\n2026-11-01,a,fast\n2026-11-02,b,slow\n", 2),
        ("commit,p50\na1,fast\na2,slow\n", 2),
        ("time,commit,p50\n2026-11-01,a,1.5\n2026-11-02,b,1.6\n", 3),
    ],
)
def test_a_file_without_a_number_is_bad_input_and_one_with_few_is_undecided(
    here: Path, capsys: pytest.CaptureFixture[str], text: str, status: int, gate: list[str]
) -> None:
    (here / "runs.csv").write_text(text)
    assert main(["history", "runs.csv", *gate]) == (status if gate or status == 2 else 0)
    said = capsys.readouterr()
    assert ("is a number" in said.err) == (status == 2)
    assert "gate passed" not in said.out


@pytest.mark.parametrize(
    ("text", "start_ns"),
    [
        ("2026-11-01", 1793491200 * 10**9),
        ("2026-11-01 12:30", (1793491200 + 45000) * 10**9),
        ("2026-11-01T12:30+02:00", (1793491200 + 45000 - 7200) * 10**9),
        ("2d", 98 * DAY_NS),
        ("1w", 93 * DAY_NS),
        ("24h", 99 * DAY_NS),
    ],
)
def test_since_is_a_day_or_an_age(text: str, start_ns: int) -> None:
    assert parse_since(text).start_ns(100 * DAY_NS) == start_ns


@pytest.mark.parametrize(
    ("count", "gate", "status"),
    [
        *((28, "5%", 1), (28, "80%", 0), (20, "5%", 0), (5, "5%", 3)),
        *((28, "150%", 0), (28, "0%", 1), (20, "0%", 0)),
    ],
)
def test_a_gate_sets_the_exit_status(
    here: Path, capsys: pytest.CaptureFixture[str], count: int, gate: str, status: int
) -> None:
    stored(here / "bw-history.db", runs(count, slower_from=22))
    assert main(["history", "--gate", gate]) == status
    outcome = {0: "passed", 1: "failed", 3: "undecided"}[status]
    assert f"gate {outcome}" in capsys.readouterr().out


def lost(at: int, *, test: str = "sort", metric: str = "", failed: bool = True) -> Run:
    """Return a run without a value, at the place of a run of `runs`."""
    one = NoValue(
        run=f"lost-{at}",
        study="bw-study",
        session=at + 1,
        started_ns=START_NS + at * DAY_NS,
        test=test,
        metric=metric,
        failed=failed,
        why="it did",
    )
    return Run(points=(), environment=None, machine="AMD, 2 CPUs", without=(one,))


@pytest.mark.parametrize(
    ("without", "status"),
    [
        (lost(20), 1),
        (lost(20, failed=False), 3),
        (lost(20, metric="elapsed", failed=False), 3),
        (lost(20, test="", failed=False), 3),
        (lost(20, test="", failed=True), 1),
        (lost(20, test="new", failed=True), 1),
        # A value of the same was measured later.
        (lost(18), 0),
        (lost(18, test="", failed=False), 0),
    ],
)
def test_a_gate_passes_no_run_without_a_value(
    here: Path, capsys: pytest.CaptureFixture[str], without: Run, status: int
) -> None:
    stored(here / "bw-history.db", runs(20))
    assert main(["history", "--gate", "5%"]) == 0
    stored(here / "bw-history.db", [without])
    capsys.readouterr()
    outcome = {0: "passed", 1: "failed", 3: "undecided"}[status]
    stored(here / "one.db", [without])
    for words in (["show"], ["add", "one.db"]):
        assert main(["history", *words, "--gate", "5%", "--json"]) == status
        gate = json.loads(capsys.readouterr().out)["gate"]
        assert gate["outcome"] == outcome
        assert len(gate["broken"]) == (status == 1)
        assert len(gate["undecided"]) == (status == 3)
    assert main(["history", "--gate", "5%", "--accept", "no-value"]) == 0
    stored(here / "bw-history.db", runs(22))
    is_known = without.without[0].test != "new"
    assert main(["history", "--gate", "5%"]) == (0 if is_known else status)


@pytest.mark.parametrize("at", [18, 20])
@pytest.mark.parametrize("test", ["sort", ""])
def test_what_has_no_value_is_the_same_for_a_file_and_for_what_is_added(
    here: Path, capsys: pytest.CaptureFixture[str], test: str, at: int
) -> None:
    stored(here / "bw-history.db", runs(20))
    stored(here / "old.db", [lost(at, test=test)])
    added = answer(capsys, "add", "old.db")["without"]
    assert added == answer(capsys)["without"]
    assert len(added) == (at == 20)  # type: ignore[arg-type]


def test_a_benchmark_that_fails_fails_the_gate_of_its_study_and_of_its_history(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = ["run", "--runs", "2", "--name", "t", "--study"]
    for at in range(3):
        assert main([*run, f"n/r{at}", "--", "true"]) == 0
    assert main([*run, "n/z", "--", "false"]) == 1
    for words in (["n"], ["add", "n/z"], ["add", "n"], ["bw-history.db"]):
        assert main(["history", *words, "--gate", "50%"]) == 1
    capsys.readouterr()
    assert main(["history", "n"]) == 0
    assert "t: no value in" in capsys.readouterr().out
    (without,) = answer(capsys, "n")["without"]  # type: ignore[misc]
    assert (without["test"], without["failed"]) == ("t", True)


@pytest.mark.parametrize("tool", ["go", "google-benchmark", "asv"])
def test_a_failure_that_a_file_states_fails_the_gate(
    here: Path, capsys: pytest.CaptureFixture[str], tool: str
) -> None:
    (here / "r").mkdir()
    for at in range(4):
        broken, noise = at == 3, 1 + at % 2 / 100
        if tool == "go":
            result = "--- FAIL: BenchmarkB-2\n" if broken else "BenchmarkB-2 9 7 ns/op\n"
            text = f"commit: {at}\nBenchmarkA-2 9 {noise} ns/op\n{result}"
        elif tool == "asv":
            columns = ["result", "params"]
            results = {"time_a": [[noise], []], "time_b": [[7.0], []]}
            if broken:
                results["time_b"] = [None, []]  # type: ignore[list-item]
            document: dict[str, object] = {
                "commit_hash": f"{at}" * 40,
                "env_name": "e",
                "date": at * 10**12 + 10**12,
                "params": {"machine": "m"},
                "result_columns": columns,
                "results": results,
            }
            text = json.dumps(document)
        else:
            entries = [
                {"name": name, "run_type": "iteration", "real_time": noise}
                | {"iterations": 1, "cpu_time": noise, "time_unit": "ns"}
                for name in "AB"
            ]
            if broken:
                entries[1] = {"name": "B", "run_type": "iteration"} | {
                    "error_occurred": True,
                    "error_message": "no data",
                }
            date = f"2026-01-0{at + 1}T00:00:00+00:00"
            text = json.dumps({"context": {"date": date}, "benchmarks": entries})
        Path("r", f"r{at}.{'txt' if tool == 'go' else 'json'}").write_text(text)
    files = [str(one) for one in sorted(Path("r").iterdir())]
    assert main(["history", *files[:3], "--gate", "50%"]) != 1
    assert main(["history", *files, "--gate", "50%"]) == 1
    capsys.readouterr()
    assert main(["history", "add", *files, "--gate", "50%"]) == 1
    shown = capsys.readouterr().out
    assert "failed" in shown


def test_a_gate_without_a_series_is_undecided(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["compare", "--max-blocks", "6", "--json"]
    main([*words, "--study", "bw-study", "--", "true", "true"])
    for command in (["show", "bw-study"], ["add"], ["show", "bw-history.db"]):
        assert main(["history", *command, "--gate", "5%"]) == 3
    capsys.readouterr()
    # A comparison is no run of a history that has others.
    stored(here / "bw-history.db", runs(20))
    assert main(["history", "--gate", "5%"]) == 0
    assert main(["history", "add", "--gate", "5%"]) == 3


def test_what_cannot_be_read_is_named_and_the_others_are_read(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for at in range(2):
        assert main(["run", "--runs", "2", "--study", f"n/r{at}", "--", "true"]) == 0
    damaged = here / "n" / "r2"
    damaged.mkdir()
    (damaged / "journal.sqlite").write_bytes(b"SQLite format 3\0" + bytes(4096))
    capsys.readouterr()
    every = sorted(str(one) for one in (here / "n").iterdir())
    assert main(["history", "add", *every, "--json"]) == 2
    said = capsys.readouterr()
    assert json.loads(said.out)["new"] == 2
    assert json.loads(said.out)["exit_status"] == 2
    assert str(damaged) in said.err
    assert main(["history", *every, "--json"]) == 2
    assert json.loads(capsys.readouterr().out)["exit_status"] == 2
    # Below a folder it is left out, but no gate passes over it.
    assert main(["history", "n"]) == 0
    assert str(Path("n") / "r2") in capsys.readouterr().out
    assert main(["history", "n", "--gate", "5%"]) == 3
    assert main(["history", "add", str(damaged), "absent"]) == 2


def failed_of_hyperfine(path: Path, name: str, *, status: int) -> None:
    times = [1.0, 1.1, 1.2]
    # hyperfine states the CPU time of a command that failed too.
    one = {"command": name, "mean": 1, "user": 0.5, "system": 0.1, "times": times}
    one["exit_codes"] = [status] * 3
    path.write_text(json.dumps({"results": [one]}))
    os.utime(path, ns=(START_NS, START_NS))


def test_a_run_of_another_tool_without_a_value_is_no_point_and_hides_no_other(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # Of the same time, as files of one archive.
    failed_of_hyperfine(here / "ok.json", "ok", status=0)
    failed_of_hyperfine(here / "failed.json", "bad", status=1)
    failed_of_hyperfine(here / "other.json", "other", status=0)
    files = ["ok.json", "failed.json", "other.json"]
    added = answer(capsys, "add", *files)
    assert (added["new"], added["replaced"], added["points"]) == (2, 0, 6)
    assert [one["test"] for one in added["without"]] == ["bad"]  # type: ignore[attr-defined]
    assert answer(capsys, "add", *files)["known"] == 2
    assert {one["test"] for one in answer(capsys)["series"]} == {"ok", "other"}  # type: ignore[attr-defined]
    assert main(["history", "failed.json", "--gate", "5%"]) == 1
    for name in ("failed.json", "bw-history.db"):
        assert main(["history", name, "--html", "page.html"]) == 0
        assert "bad: no value in" in (here / "page.html").read_text()


def test_what_a_run_says_replaces_what_it_said_before(here: Path) -> None:
    """A session that is resumed has a value, and one that fails then has none."""
    file = here / "bw-history.db"
    (valued,) = runs(1)
    ((_, point), *_) = valued.points
    without = msgspec.structs.replace(lost(0).without[0], run=point.run)
    failing = msgspec.structs.replace(valued, points=(), without=(without,))
    for one, status in ((failing, 1), (valued, 3), (failing, 1), (valued, 3)):
        stored(file, [one])
        assert main(["history", "--gate", "5%"]) == status
        with HistoryFile.open_to_read(file) as found:
            assert len(found.runs()) == (status == 3)
            assert len(found.without()) == (status == 1)


def test_a_step_is_in_every_headline_until_it_is_accepted(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stored(here / "bw-history.db", runs(60, slower_from=22))
    words = ["--html", "page.html"]
    feed = ["history", "feed", "--atom", "changes.xml", "--json-feed", "changes.json"]

    def headlines() -> list[str]:
        shown = answer(capsys, *words)
        assert main(feed) == 0
        assert main(["history"]) == 0
        page = html.unescape((here / "page.html").read_text().replace("\u00a0", " "))
        return [
            str(shown["headline"]),
            capsys.readouterr().out,
            page.partition("%0A")[0],
            (here / "changes.xml").read_text(),
            (here / "changes.json").read_text(),
        ]

    found = headlines()
    (step,) = series(answer(capsys), "sort")["steps"]  # type: ignore[misc]
    assert step["is_open"]
    assert series(answer(capsys), "sort")["newest"]["verdict"] == "no difference"  # type: ignore[index]
    assert all("1 step not accepted: sort slower +50 % at" in one for one in found)
    assert "step not accepted" in (here / "page.html").read_text()
    assert main(["history", "accept", "sort/1", "--reason", "new check"]) == 0
    assert not any("not accepted" in one for one in headlines())


def test_an_accepted_step_is_shown_and_lasts(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = here / "bw-history.db"
    stored(file, runs(28, slower_from=22))
    assert main(["history", "--gate", "5%"]) == 1
    assert main(["history", "accept", "sort/1", "--reason", "new check"]) == 0
    assert main(["history", "--gate", "5%"]) == 3
    # More runs of the new level: the acceptance still belongs to the step.
    stored(file, runs(45, slower_from=22))
    (step,) = series(answer(capsys), "sort")["steps"]  # type: ignore[misc]
    assert step["accepted"]["reason"] == "new check"
    assert main(["history", "--gate", "5%"]) == 0


def test_an_acceptance_about_a_folder_is_stored_in_it(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["run", "--runs", "2", "--study", "results/one", "true"]
    assert main(words) == 0
    (found,) = answer(capsys)["series"]  # type: ignore[misc]
    acceptance = Acceptance(
        key=SeriesKey("true", "elapsed", found["machine"]), run="other", reason="why", accepted_ns=1
    )
    with HistoryFile.open_to_write(here / "bw-history.db") as file:
        file.accept(acceptance)
    # The file has no run, so the studies below are the history, with its acceptances.
    assert len(answer(capsys)["series"]) == 1  # type: ignore[arg-type]
    (here / "bw-history.db").unlink()
    commit = ["accept", "true/c0ffee", "--reason", "why"]
    assert main(["history", *commit]) == 2
    assert not (here / "bw-history.db").exists()


def test_a_level_is_accepted_by_its_commit(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stored(here / "bw-history.db", runs(28, slower_from=22))
    commit = f"{22:040x}"
    words = ["accept", f"sort/{commit}", "--reason", "new check"]
    assert main(["history", *words]) == 0
    assert "accepted slower" in capsys.readouterr().out
    assert main(["history", "--test", "sort", "--gate", "5%"]) == 3


def test_an_acceptance_is_of_the_named_history_file(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stored(here / "h.db", runs(28, slower_from=22))
    words = ["accept", "--file", "h.db", "sort/1", "--reason", "new check"]
    assert main(["history", *words]) == 0
    capsys.readouterr()
    (step,) = series(answer(capsys, "h.db"), "sort")["steps"]  # type: ignore[misc]
    assert step["accepted"]["reason"] == "new check"


def rows_with_a_step(path: Path) -> None:
    """Write a history of Otava with a step."""
    rows = (
        f"2026-0{1 + at // 28}-{1 + at % 28:02} 10:00:00,{VALUES[at % 10] * (1.2 if at >= 30 else 1)}"
        for at in range(60)
    )
    path.write_text("\n".join(["time,latency", *rows]) + "\n")


@pytest.mark.parametrize(
    ("paths", "file"),
    [
        (["t.csv"], "bw-history.db"),
        (["t.csv", "more"], "more/bw-history.db"),
        (["t.csv", "h.db"], "h.db"),
        (["t.csv", "--file", "f.db"], "f.db"),
    ],
)
def test_an_acceptance_about_a_file_of_another_tool_has_a_history_file(
    here: Path, capsys: pytest.CaptureFixture[str], paths: list[str], file: str
) -> None:
    rows_with_a_step(here / "t.csv")
    (here / "more").mkdir()
    stored(here / "more" / "bw-history.db", runs(3))
    stored(here / "h.db", runs(3))
    name = answer(capsys, "t.csv")["series"][0]["name"]  # type: ignore[index]
    words = ["accept", f"{name}/1", *paths, "--reason", "new check"]
    assert main(["history", *words]) == 0
    shown = capsys.readouterr().out
    assert f"in {file}: new check" in shown
    assert ("is read" in shown) == (file in ("bw-history.db", "f.db"))
    found = series(answer(capsys, "t.csv", file), name)
    assert [one["accepted"]["reason"] for one in found["steps"]] == ["new check"]  # type: ignore[attr-defined]


def test_an_acceptance_that_cannot_be_stored_names_the_option(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows_with_a_step(here / "t.csv")
    (here / "bw-history.db").mkdir()
    name = answer(capsys, "t.csv")["series"][0]["name"]  # type: ignore[index]
    assert main(["history", "accept", f"{name}/1", "t.csv", "--reason", "why"]) == 2
    assert "--file FILE" in capsys.readouterr().err


def test_a_history_file_in_a_folder_of_another_tool_hides_none_of_its_results(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(FOREIGN / "asv", here / "asv")
    before = answer(capsys, "asv")["series"]
    with HistoryFile.open_to_write(here / "asv" / "bw-history.db"):
        pass
    assert answer(capsys, "asv")["series"] == before


def test_a_history_file_is_added_to_another_with_its_acceptances(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stored(here / "one.db", runs(28, slower_from=22))
    words = ["accept", "sort/1", "one.db", "--reason", "new check"]
    assert main(["history", *words]) == 0
    for known in (0, 28):
        document = answer(capsys, "add", "one.db", "--file", "other.db")
        assert (document["new"], document["known"]) == (28 - known, known)
    assert answer(capsys, "other.db")["series"] == answer(capsys, "one.db")["series"]


def test_feeds_and_page_are_written(here: Path) -> None:
    stored(here / "bw-history.db", runs(28, slower_from=22))
    feeds = ["--atom", "a.xml", "--json-feed", "b.json", "--url", "https://e.org/a.xml"]
    assert main(["history", "feed", *feeds]) == 0
    root = ElementTree.parse(here / "a.xml").getroot()
    assert len(root.findall("{http://www.w3.org/2005/Atom}entry")) == 1
    assert len(json.loads((here / "b.json").read_text())["items"]) == 1
    assert main(["history", "--html", "page.html"]) == 0
    assert "2 series: 1 is slower" in (here / "page.html").read_text()


def test_a_damaged_study_in_a_folder_is_skipped_and_named(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "runs" / "bad").mkdir(parents=True)
    (here / "runs" / "bad" / "journal.sqlite").write_text("no journal")
    stored(here / "runs" / "bw-history.db", runs(20))
    assert main(["history", "runs"]) == 0
    assert "skipped runs/bad" in capsys.readouterr().out
    assert main(["history", "runs/bad"]) == 2


FOREIGN = Path(__file__).parents[1] / "golden" / "foreign"


@pytest.mark.parametrize(
    ("name", "points"),
    [
        ("data.js", {("throughput", "throughput"): 2, ("time", "elapsed"): 1}),
        ("otava.csv", {("otava.csv", "elapsed"): 3, ("otava.csv", "peak_rss"): 2}),
    ],
)
def test_files_of_other_tools_are_histories(
    capsys: pytest.CaptureFixture[str], name: str, points: dict[tuple[str, str], int]
) -> None:
    found = answer(capsys, str(FOREIGN / name))["series"]
    assert {
        (one["test"], one["metric"]): len(one["points"])
        for one in found  # type: ignore[attr-defined]
    } == points
    assert all(point["commit"] for one in found for point in one["points"])  # type: ignore[attr-defined]


def test_a_step_in_a_file_of_otava_has_its_commits(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    commits = [hashlib.sha1(bytes([at])).hexdigest() for at in range(60)]
    start = datetime(2026, 9, 1, tzinfo=UTC)
    rows = [
        f"{start + timedelta(days=at):%Y-%m-%d %H:%M:%S +0000},{commits[at]},"
        f"{VALUES[at % 10] * (1.2 if at >= 30 else 1)}"
        for at in range(60)
    ]
    (here / "t.csv").write_text("\n".join(["time,commit,latency", *rows]) + "\n")
    (step,) = answer(capsys, "t.csv")["series"][0]["steps"]  # type: ignore[index]
    after, up_to = step["after_commit"], step["up_to_commit"]
    assert commits.index(after) < 30 <= commits.index(up_to)
    assert answer(capsys, "add", "t.csv")["new"] == 60
    assert answer(capsys, "add", "t.csv")["known"] == 60


OTHER_TOOLS = [
    "asv",
    "cargo-criterion.jsonl",
    "custom-smaller.json",
    "data.js",
    "fio.json",
    "go-bench.txt",
    "google-benchmark.json",
    "hyperfine.json",
    "jmh.json",
    "k6-summary.json",
    "otava.csv",
    "pyperf.json",
    "pytest-benchmark.json",
]


@pytest.mark.parametrize("name", OTHER_TOOLS)
def test_results_of_every_tool_are_added_and_judged(
    here: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    capsys.readouterr()
    # One run decides nothing; in the files of asv and Google Benchmark a benchmark failed.
    status = main(["history", "add", str(FOREIGN / name), "--gate", "5%", "--json"])
    added = json.loads(capsys.readouterr().out)
    assert added["new"] > 0
    assert added["points"] > 0
    assert status == (1 if any(one["failed"] for one in added["without"]) else 3)
    assert added["gate"]["outcome"] == {1: "failed", 3: "undecided"}[status]
    assert (status == 1) == (name in ("asv", "google-benchmark.json"))
    shown = answer(capsys, "bw-history.db")["series"]
    assert [one["id"] for one in added["series"]] == [one["id"] for one in shown]  # type: ignore[attr-defined]
    again = answer(capsys, "add", str(FOREIGN / name))
    assert (again["new"], again["known"]) == (0, added["new"])


def test_results_of_hyperfine_are_judged_run_after_run(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    result = json.loads((FOREIGN / "hyperfine.json").read_text())
    statuses = []
    for at in range(28):
        factor = VALUES[at % 10] * (1.5 if at >= 22 else 1.0)
        for one in result["results"]:
            one["times"] = [factor, factor * 1.01, factor * 0.99]
            one["mean"] = factor
        file = here / "result.json"
        file.write_text(json.dumps(result))
        moment = START_NS + at * DAY_NS
        os.utime(file, ns=(moment, moment))
        statuses.append(main(["history", "add", "result.json", "--gate", "5%"]))
    assert statuses[:9] == [3] * 9
    assert statuses[12:21] == [0] * 9
    assert statuses[-1] == 1
    assert "gate failed: worse by more than 5 %" in capsys.readouterr().out


@pytest.mark.parametrize("slower_from", [1000, 22])
def test_an_added_run_is_judged_as_the_history_is(
    here: Path, capsys: pytest.CaptureFixture[str], slower_from: int
) -> None:
    some = runs(28, slower_from=slower_from)
    texts = []
    for count in (20, 26, 27, 28, 28):
        stored(here / "new.db", some[:count])
        capsys.readouterr()
        words = ["add", "new.db", "--file", "bw-history.db", "--gate", "5%"]
        status = main(["history", *words])
        texts.append(capsys.readouterr().out.partition("\n")[2])
        assert main(["history", "bw-history.db", "--gate", "5%", "--json"]) == status
        shown = json.loads(capsys.readouterr().out)
        assert main(["history", *words, "--json"]) == status
        added = json.loads(capsys.readouterr().out)
        assert added["gate"] == shown["gate"]
        assert added["exit_status"] == status
        for one, other in zip(added["series"], shown["series"], strict=True):
            assert one == {name: other[name] for name in one}
        page = main(["history", "--html", "page.html", "bw-history.db"])
        assert page == 0
        assert all(one["sentence"] in read_page(here) for one in added["series"])
    assert texts[-1] == texts[-2]
    # Computed anew, the answer is the same text.
    capsys.readouterr()
    assert main(["history", "add", "new.db", "--file", "x.db", "--gate", "5%"]) == status
    assert capsys.readouterr().out.partition("\n")[2] == texts[-1]
    assert status == (1 if slower_from == 22 else 0)


def read_page(folder: Path) -> str:
    return unquote(html.unescape((folder / "page.html").read_text()))


def test_a_file_near_its_limit_stores_runs_and_no_levels(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    some = runs(40)
    stored(here / "new.db", some)
    words = ["history", "add", "new.db", "--gate", "5%"]
    assert main([*words, "--max-size", "1MB"]) == 0
    whole = capsys.readouterr().out

    size = (here / "bw-history.db").stat().st_size
    assert main([*words, "--max-size", f"{size - 4096}B"]) == 0
    assert (here / "bw-history.db").stat().st_size < size
    text = capsys.readouterr().out
    assert "removed" not in text
    assert text.partition("\n")[2] == whole.partition("\n")[2]


def test_a_directory_of_asv_is_a_history(capsys: pytest.CaptureFixture[str]) -> None:
    found = answer(capsys, str(FOREIGN / "asv"))["series"]
    assert found
    assert all(point["commit"] for one in found for point in one["points"])  # type: ignore[attr-defined]


def test_runs_travel_by_git_notes(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def git(*words: str) -> str:
        who = ["-c", "user.name=n", "-c", "user.email=e"]
        done = subprocess.run(["git", *who, *words], capture_output=True, text=True, check=True)
        return done.stdout

    git("init", "-q", "--bare", "origin.git")
    git("clone", "-q", "origin.git", "one")
    for at in range(12):
        git("-C", "one", "commit", "-q", "--allow-empty", "-m", str(at))
    git("-C", "one", "push", "-q", "origin", "HEAD")
    git("clone", "-q", "origin.git", "other")
    commits = tuple(git("-C", "one", "rev-list", "--reverse", "HEAD").split())
    stored(here / "one.db", runs(14, commits=commits))
    pushed = answer(capsys, "push", "--repository", "one", "--file", "one.db")
    assert (pushed["commits"], pushed["elsewhere"]) == (12, 2)
    pulled = answer(capsys, "pull", "--repository", "other", "--file", "other.db")
    assert pulled["new"] == 12
    there, here_ = (series(answer(capsys, f"{name}.db"), "sort") for name in ("one", "other"))
    assert there["points"][:12] == here_["points"]  # type: ignore[index]
    assert main(["history", "push", "--repository", "one", "--remote", "absent"]) == 2


# -- Runs of one moment ----------------------------------------------------------------


def _google_benchmark(path: Path, nanoseconds: float) -> str:
    one = {
        "name": "BM_a",
        "run_name": "BM_a",
        "run_type": "iteration",
        "repetitions": 1,
        "threads": 1,
        "iterations": 10,
        "real_time": nanoseconds,
        "cpu_time": nanoseconds,
        "time_unit": "ns",
    }
    context = {"date": "2026-01-02T03:04:05+00:00", "library_build_type": "release"}
    path.write_text(json.dumps({"context": context, "benchmarks": [one]}))
    return str(path)


def _go(path: Path, nanoseconds: float) -> str:
    path.write_text(f"pkg: e.org/a\nBenchmarkA 1 {nanoseconds} ns/op\n")
    os.utime(path, (1_700_000_000, 1_700_000_000))
    return str(path)


@pytest.mark.parametrize("write", [_google_benchmark, _go])
def test_runs_of_one_moment_are_distinct_and_in_the_order_given(
    write: Callable[[Path, float], str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    values = [100.0 + 7 * number % 41 for number in range(12)]
    files = [write(tmp_path / f"{at}.out", value) for at, value in enumerate(values)]
    store = str(tmp_path / "stored.db")
    assert main(["history", "add", *files, files[0], "--file", store]) == 0
    for paths in ([*files, files[3]], [store]):
        capsys.readouterr()
        main(["history", *paths, "--metric", "elapsed", "--json"])
        shown = json.loads(capsys.readouterr().out)
        (series,) = shown["series"]
        points = [round(one["estimate"] * 1e9) for one in series["points"]]
        assert points == values
        # Files without a time are stored at different places in time.
        is_told = paths != [store] or write is _google_benchmark
        assert any("order of the arguments" in one for one in shown["skipped"]) is is_told


@pytest.mark.parametrize("given", ["in order", "by a pattern"])
def test_files_without_a_time_are_in_the_order_given_whatever_their_own_times_are(
    given: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A checkout or an archive writes files in any order."""
    values = [100.0 + 7 * number % 41 for number in range(12)]
    files = [_go(tmp_path / f"run-{at}.out", value) for at, value in enumerate(values)]
    paths = sorted(files) if given == "by a pattern" else files
    for step, is_told in ((60, False), (-60, True), (0, True)):
        for at, file in enumerate(files):
            os.utime(file, (1_700_000_000 + step * at,) * 2)
        main(["history", *paths, "--metric", "elapsed", "--json"])
        shown = json.loads(capsys.readouterr().out)
        (series,) = shown["series"]
        assert [round(one["estimate"] * 1e9) for one in series["points"]] == values
        assert any("have another order" in one for one in shown["skipped"]) is is_told


def test_a_newest_file_of_the_same_time_as_another_is_the_newest(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A checkout gives all files one time: a test that failed last has not passed."""
    files = []
    for number, status in enumerate((0, 0, 0, 1)):
        file = tmp_path / f"run-{number}.csv"
        file.write_text(f"name,elapsed,status\nx,1.00{number},{status}\n")
        os.utime(file, (1_700_000_000,) * 2)
        files.append(str(file))
    assert main(["history", *files, "--gate", "5%"]) == 1
    shown = capsys.readouterr().out
    assert "failed" in shown


@pytest.mark.parametrize(
    ("column", "better"),
    [
        *((name, "higher") for name in ("ops/s", "requests_per_second", "throughput")),
        *((name, "higher") for name in ("MB/s", "read IOPS", "qps", "items per sec")),
        *((name, "lower") for name in ("p50 ms", "ns/op", "errors/s", "shops")),
        *((name, "lower") for name in ("throughput_latency_ms", "alloc MB/s")),
    ],
)
def test_the_better_direction_of_a_rate_is_known_by_its_name(
    column: str, better: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [
        f"2026-10-{1 + at:02},{(9 + VALUES[at % 10]) * (1.3 if at > 20 else 1)}" for at in range(30)
    ]
    (here / "t.csv").write_text("\n".join([f"time,{column}", *rows]) + "\n")
    is_worse = {"higher": 0, "lower": 1}
    assert main(["history", "t.csv", "--gate", "5%"]) == is_worse[better]
    for stated, worse in is_worse.items():
        words = ["--metric", f"{column}:{stated}", "--gate", "5%"]
        assert main(["history", "t.csv", *words]) == worse
    capsys.readouterr()


def test_a_fall_that_is_not_to_0_is_not_by_100_percent(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [f"2026-10-{1 + at:02},{1000 + VALUES[at % 10]}" for at in range(20)]
    rows += [f"2026-11-{1 + at:02},{0.1 + at / 1000}" for at in range(9)]
    (here / "t.csv").write_text("\n".join(["time,ops/s", *rows]) + "\n")
    main(["history", "t.csv"])
    shown = capsys.readouterr().out
    assert "-99.99 %" in shown
    assert "-100 %" not in shown


def go_run(at: int, *tests: str) -> str:
    """Return Go's output of a commit."""
    head = f"commit: {at:040x}\ncommit-time: 2026-01-{at + 1:02}T00:00:00Z\n"
    return head + "".join(
        f"Benchmark{test} 1 {1000 * VALUES[at % 10]:.0f} ns/op 0 B/op\n" for test in tests
    )


def otava_run(at: int, *tests: str) -> str:
    """Return a row of Otava's CSV, with the columns of the first."""
    cells = (f"{VALUES[at % 10]:g}" if one in tests else "" for one in ("Kept", "Gone"))
    head = "" if at else "time,commit,Kept,Gone\n"
    return f"{head}2026-01-{at + 1:02}T00:00:00Z,{at:040x},{','.join(cells)}\n"


@pytest.mark.parametrize("write", [go_run, otava_run])
def test_what_is_gone_from_another_tools_files_has_no_value_and_is_not_judged(
    write: Callable[..., str], here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    texts = [write(at, "Kept", *(["Gone"] if at < 20 else [])) for at in range(24)]
    name = "all.txt" if write is go_run else "all.csv"
    Path(name).write_text("".join(texts))
    main(["history", "add", name, "--file", "h.db"])
    for paths in ([name], ["h.db"]):
        found = answer(capsys, *paths)
        (lost,) = found["without"]  # type: ignore[misc]
        assert "Gone" in f"{lost['test']} {lost['metric']}"
        assert lost["why"] == "the last one is of 2026-01-20 (0000000), 4 runs ago"
        assert not lost["failed"]
        gone = [one for one in found["series"] if "Gone" in one["name"]]  # type: ignore[attr-defined]
        assert gone
        for one in gone:
            assert one["newest"]["why"] == "no value since 2026-01-20 (0000000)"
            assert one["newest"]["more"] == 0
        words = ["history", *paths, "--gate", "10%"]
        assert main(words) == 3
        assert "4 runs ago" in " ".join(capsys.readouterr().out.split())
        assert main([*words, "--accept", "no-value"]) == 0
    again = ["history", "add", name, "--file", "h.db", "--gate", "10%"]
    assert main(again) == 3
    assert main([*again, "--accept", "no-value"]) == 0
    # A value decides it.
    (here / name).write_text("".join([*texts, write(24, "Kept", "Gone")]))
    assert main(["history", name, "--gate", "10%"]) == 0
    assert main(again) == 0


FILTERS = [
    ["--test", "Gone"],
    ["--test", "G*", "--test", "Kept"],
    ["--metric", "elapsed"],
    ["--metric", "B/op"],
    ["--test", "Gone", "--metric", "B/op"],
    ["--since", "2026-01-10"],
    ["--since", "2026-01-22"],
    ["--test", "Gone", "--since", "2026-01-10"],
    ["--metric", "elapsed:lower", "--since", "2026-01-10"],
    ["--false-alarms", "1%"],
    ["--ignore", "command"],
]
"""All of which show what is gone since run 20."""


@pytest.mark.parametrize("filters", FILTERS, ids=" ".join)
@pytest.mark.parametrize("gone", ["test", "metric"])
def test_a_filter_hides_nothing_that_is_gone_from_a_file_or_a_history_file(
    gone: str, filters: list[str], here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    texts = [go_run(at, "Gone", "Kept") for at in range(24)]
    for at in range(20, 24):
        lines = texts[at].splitlines(keepends=True)
        if gone == "metric":
            texts[at] = texts[at].replace(" 0 B/op", "")
        else:
            texts[at] = "".join(one for one in lines if "Gone" not in one)
    Path("all.txt").write_text("".join(texts))
    main(["history", "add", "all.txt", "--file", "h.db"])
    # With another path all of a history file is read.
    stored(here / "empty.db", [])
    found = []
    for paths in (["all.txt"], ["h.db"], ["h.db", "empty.db"], ["h.db", "all.txt"]):
        words = ["history", *paths, *filters, "--gate", "30%", "--json"]
        capsys.readouterr()
        status = main(words)
        document = json.loads(capsys.readouterr().out)
        names = [(one["test"], one["metric"]) for one in document["without"]]
        found.append((status, names, [one["newest"] for one in document["series"]]))
    is_gone = gone == "test" or "elapsed" not in " ".join(filters)
    assert found[0][0] == (3 if is_gone else 0)
    assert bool(found[0][1]) == is_gone
    assert all(one == found[0] for one in found)


@pytest.mark.parametrize(
    "filters",
    [["--test", "sort"], ["--metric", "elapsed"], ["--metric", "user"], ["--since", "2026-09-28"]],
)
def test_a_value_that_a_filter_hides_is_a_value(here: Path, filters: list[str]) -> None:
    """One of another metric of a test that failed, and one of any test after a session that did not
    end."""
    user = SeriesKey("sort", "user", "0123abcd")

    def with_user(one: Run) -> Run:
        return msgspec.structs.replace(one, points=(*one.points, (user, one.points[1][1])))

    *first, sort, gzip = runs(24)
    broken = [lost(20), lost(21, test="", failed=False)]
    stored(here / "h.db", [*map(with_user, first[:20]), *broken])
    words = ["history", "h.db", *filters, "--gate", "50%"]
    assert main(words) == 1
    stored(
        here / "h.db",
        [
            msgspec.structs.replace(sort, points=with_user(sort).points[2:]),
            msgspec.structs.replace(gzip, points=gzip.points[:1]),
        ],
    )
    assert main(words) == 0


def staircase(levels: Sequence[float], noise: float = 0.005) -> list[str]:
    """Return the lines of Otava's CSV of 20 runs at each level."""
    rng = random.Random(7)
    start = datetime(2026, 1, 1, tzinfo=UTC)
    rows = [
        f"{start + timedelta(days=at)},sort,{levels[at // 20] * rng.gauss(1, noise):.6g}\n"
        for at in range(20 * len(levels))
    ]
    return ["time,test,elapsed\n", *rows]


@pytest.mark.parametrize(
    ("levels", "accepted", "statuses"),
    [
        # Worse by 16 % in two steps of 8 and 7 %.
        ((1.0, 1.08, 1.16), "", {"7.6%": 1, "10%": 1, "15%": 1, "17%": 0}),
        ((1.0, 1.05, 1.1, 1.15, 1.2), "", {"6%": 1, "18%": 1, "22%": 0}),
        ((1.0, 1.08, 1.16), "sort/1", {"5%": 1, "10%": 0}),
        ((1.0, 1.08, 1.16), "sort/2", {"3%": 0}),
        # Better, then in part worse again: since the best level.
        ((1.0, 0.9, 0.95, 1.0), "", {"5%": 1, "10%": 1, "13%": 0}),
        ((1.0, 0.9, 0.8), "", {"3%": 0}),
        # Made good for, in whole and in part, and then worse again.
        ((1.0, 1.08, 1.16, 1.0), "", {"3%": 0}),
        ((1.0, 1.2, 1.1), "", {"8%": 1, "12%": 0}),
        ((1.0, 1.1, 0.9, 1.03), "", {"10%": 1, "17%": 0}),
    ],
)
def test_a_gate_is_of_the_present_level_since_the_steps_that_nobody_accepted(
    here: Path, levels: tuple[float, ...], accepted: str, statuses: dict[str, int]
) -> None:
    lines = staircase(levels)
    for end in (-5, len(lines)):
        # The last answers come from what is stored of the levels before.
        Path("all.csv").write_text("".join(lines[:end]))
        main(["history", "add", "all.csv", "--file", "steps.db", "--gate", "5%"])
    main(["history", "add", "all.csv", "--file", "h.db"])
    if accepted:
        for file in ("h.db", "steps.db"):
            words = ["history", "accept", accepted, file, "--reason", "meant"]
            assert main(words) == 0
    for limit, status in statuses.items():
        for path in [*([] if accepted else ["all.csv"]), "h.db", "steps.db"]:
            assert main(["history", path, "--gate", limit]) == status, (limit, path)
        again = ["history", "add", "all.csv", "--file", "steps.db"]
        assert main([*again, "--gate", limit]) == status, limit


def test_a_file_of_other_tests_says_nothing_about_those_of_another_file(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("A", "B"):
        runs = range(name == "B", 24, 2)
        Path(f"{name}.txt").write_text("".join(go_run(at, name) for at in runs))
    assert answer(capsys, "A.txt", "B.txt")["without"] == []
    assert main(["history", "add", "A.txt", "B.txt", "--gate", "20%"]) == 0
