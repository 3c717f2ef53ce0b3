"""`bw history` as typed: what it reads, stores, accepts, writes, and its exit codes."""

from __future__ import annotations

import hashlib
import html
import json
import os
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import unquote
from xml.etree import ElementTree

import pytest

from benchwright.cli.history_options import parse_since
from benchwright.cli.main import main
from benchwright.core.history import Acceptance, HistoryPoint, Run, SeriesKey
from benchwright.study.history import HistoryFile

DAY_NS = 86_400 * 10**9
START_NS = 1_790_000_000 * 10**9
VALUES = (1.00, 1.02, 0.99, 1.01, 0.98, 1.00, 1.03, 0.97, 1.01, 0.99)


def runs(
    count: int, slower_from: int = 1000, commits: tuple[str, ...] = ()
) -> list[Run]:
    """Return runs of two tests, of which `sort` is slower by half from a run on."""
    found = []
    for at in range(count):
        value = VALUES[at % len(VALUES)]
        points = []
        for test, factor in (
            ("gzip", 1.0),
            ("sort", 1.5 if at >= slower_from else 1.0),
        ):
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
    [(28, "5%", 1), (28, "80%", 0), (20, "5%", 0), (5, "5%", 3)],
)
def test_a_gate_sets_the_exit_status(
    here: Path, capsys: pytest.CaptureFixture[str], count: int, gate: str, status: int
) -> None:
    stored(here / "bw-history.db", runs(count, slower_from=22))
    assert main(["history", "--gate", gate]) == status
    outcome = {0: "passed", 1: "failed", 3: "undecided"}[status]
    assert f"gate {outcome}" in capsys.readouterr().out


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
        key=SeriesKey("true", "elapsed", found["machine"]),
        run="other",
        reason="why",
        accepted_ns=1,
    )
    with HistoryFile.open_to_write(here / "bw-history.db") as file:
        file.accept(acceptance)
    # The file has no run, so the studies below are the history, with its acceptances.
    assert len(answer(capsys)["series"]) == 1  # type: ignore[arg-type]
    (here / "bw-history.db").unlink()
    commit = ["accept", "true/c0ffee", "--reason", "why"]
    assert main(["history", *commit]) == 2
    assert not (here / "bw-history.db").exists()


def test_a_level_is_accepted_by_its_commit(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stored(here / "bw-history.db", runs(28, slower_from=22))
    commit = f"{22:040x}"
    words = ["accept", f"sort/{commit}", "--reason", "new check"]
    assert main(["history", *words]) == 0
    assert "accepted slower" in capsys.readouterr().out
    assert main(["history", "--test", "sort", "--gate", "5%"]) == 3


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
    capsys: pytest.CaptureFixture[str],
    name: str,
    points: dict[tuple[str, str], int],
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
    assert main(["history", "add", str(FOREIGN / name), "--gate", "5%", "--json"]) == 3
    added = json.loads(capsys.readouterr().out)
    assert added["new"] > 0
    assert added["points"] > 0
    assert added["gate"]["outcome"] == "undecided"
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
    assert (
        main(["history", "add", "new.db", "--file", "x.db", "--gate", "5%"]) == status
    )
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


def test_runs_travel_by_git_notes(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def git(*words: str) -> str:
        who = ["-c", "user.name=n", "-c", "user.email=e"]
        done = subprocess.run(
            ["git", *who, *words], capture_output=True, text=True, check=True
        )
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
    there, here_ = (
        series(answer(capsys, f"{name}.db"), "sort") for name in ("one", "other")
    )
    assert there["points"][:12] == here_["points"]  # type: ignore[index]
    assert main(["history", "push", "--repository", "one", "--remote", "absent"]) == 2
