"""Results of other tools through the commands: what is shown, compared, drawn and refused."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from benchwright.cli.main import main
from benchwright.results.inputs import read_history, read_inputs

FILES = Path(__file__).parents[1] / "golden" / "foreign"


def bw(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    """Return the exit status, stdout and stderr of a command."""
    status = main([*words])
    shown = capsys.readouterr()
    return status, shown.out, shown.err


def document(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    status, out, _ = bw(capsys, *words, "--json")
    assert status in (0, 3)
    return json.loads(out)


def test_stats_shows_an_estimate_with_its_own_interval_or_none(
    capsys: pytest.CaptureFixture[str],
) -> None:
    shown = document(capsys, "stats", f"{FILES}/asv:b.time_single")
    ((elapsed,),) = (one["quantities"] for one in shown["inputs"])
    assert elapsed["method"] == "stated"
    assert (elapsed["low"], elapsed["high"]) == (6.67e-07, 1.0013e-05)
    assert (elapsed["confidence"], elapsed["mean"]) == (0.99, None)
    (notice,) = shown["notices"]
    assert notice["text"] == "Stated by asv with its 99 % interval of the median: elapsed."
    assert [one["code"] for one in shown["findings"]] == ["results-not-read"]

    shown = document(capsys, "stats", f"{FILES}/hyperfine.json:seq 10")
    rows = {one["name"]: one for one in shown["inputs"][0]["quantities"]}
    assert rows["elapsed"]["method"] == "student-t"
    assert (rows["user"]["method"], rows["user"]["low"]) == ("stated", None)


@pytest.fixture
def expected_status(tmp_path: Path) -> str:
    """Return a file of hyperfine -i: a command whose runs end with 1, one with 1 or 2, and one
    of which two runs failed."""
    statuses = {"grep": [1] * 5, "diff": [1, 2, 1, 1, 2], "flaky": [0, 0, 0, 5, None]}
    results = [
        {
            "command": command,
            "mean": 1.0,
            "stddev": 0.01,
            "median": 1.0,
            "times": [0.9, 1.1, 1.0, 1.05, 0.95],
            "exit_codes": codes,
        }
        for command, codes in statuses.items()
    ]
    path = tmp_path / "hf.json"
    path.write_text(json.dumps({"results": results}))
    return str(path)


def test_estimates_alone_are_not_explained_and_are_counted_as_tests(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    results = [{"command": name, "mean": 2.0, "user": 1.5} for name in "abc"]
    path = tmp_path / "hf.json"
    path.write_text(json.dumps({"results": results}))
    status, out, _ = bw(capsys, "why", str(path))
    assert status == 0
    assert "states only estimates" in out
    assert "no trial was completed" not in out
    assert "no figure" not in out
    shown = document(capsys, "stats", str(path))
    assert [one["subject"] for one in shown["notices"]] == ["3 tests"]


def test_a_column_of_texts_tells_tests_apart(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "t.csv"
    rows = "c,1.5\npy,8.5\nc,1.6\npy,8.9\n"
    for column in ("lang", "factor:lang"):
        path.write_text(f"{column},elapsed\n{rows}")
        shown = document(capsys, "stats", str(path))
        assert [one["quantities"][0]["count"] for one in shown["inputs"]] == [2, 2]
        assert not_read(shown) == []
    path.write_text(f"size,elapsed\n{rows.replace('c', '4 k').replace('py', '8 k')}")
    (found,) = not_read(document(capsys, "stats", str(path)))
    assert f"{path}:2: no value of size is a number" in found
    assert "factor:NAME" in found


def test_a_comparison_of_files_counts_arms(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    for file in ("old", "new"):
        results = [
            {"command": name, "mean": 2.0, "user": 1.5, "times": [1.0, 2.0, number]}
            for number, name in enumerate("abc" + file[0])
        ]
        for one in results[:2]:
            one["exit_codes"] = [7, 0, 0]
        (tmp_path / file).write_text(json.dumps({"results": results}))
    _, out, _ = bw(capsys, "compare", str(tmp_path / "old"), str(tmp_path / "new"))
    assert "4 of 6 arms" in out
    assert " inputs" not in out


@pytest.mark.parametrize(
    ("codes", "accepted", "left"),
    [
        ([0, 0, 0], "0", False),
        ([0, 4, 4], "0", True),
        ([4, 4, 4], "0", True),
        ([0, 4, 4], "0,4", False),
        ([0, None, 0], "0,4", True),
    ],
)
def test_a_mean_over_all_runs_is_not_beside_the_values_of_the_good_ones(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    codes: list[int | None],
    accepted: str,
    left: bool,
) -> None:
    result = {"command": "a", "mean": 2.0, "user": 1.5, "system": 0.5}
    result |= {"times": [1.0, 2.0, 3.0], "exit_codes": codes}
    path = tmp_path / "hf.json"
    path.write_text(json.dumps({"results": [result]}))
    shown = document(capsys, "stats", str(path), "--ok-status", accepted)
    names = {one["name"] for one in shown["inputs"][0]["quantities"]}
    assert ({"user", "system"} <= names) != left
    assert bool({"user", "system"} & names) != left
    found = [one["code"] for one in shown["findings"]]
    assert ("estimate-of-failures" in found) == left


def test_a_long_command_does_not_hide_what_is_said_of_it(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    result = {"command": f"sh -c '{'true; ' * 40}'", "mean": 2.0, "user": 1.5}
    result |= {"times": [1.0, 2.0, 3.0], "exit_codes": [0, 7, 7]}
    path = tmp_path / "hf.json"
    path.write_text(json.dumps({"results": [result]}))
    _, out, _ = bw(capsys, "stats", str(path))
    text = " ".join(out.split())
    assert "...` exited with status 7 in 2 of 3 trials [command-failed]" in text
    assert "include 2 failed of 3 runs [estimate-of-failures]" in text


def test_a_file_of_which_all_runs_have_another_status_says_so(
    capsys: pytest.CaptureFixture[str], expected_status: str
) -> None:
    arms = (f"{expected_status}:grep", f"{expected_status}:diff")
    status, out, err = bw(capsys, "compare", *arms)
    assert (status, out) == (2, "")
    assert "5 of 5 runs ended with status 1" in err
    assert "3 of 5 runs ended with status 1, 2 of 5 runs ended with status 2" in err
    assert "--ok-status 1,2" in err
    # As the baseline of commands, too.
    words = ("compare", "--baseline", arms[0], "--", "true")
    status, _, err = bw(capsys, *words)
    assert status == 2
    assert "5 of 5 runs ended with status 1" in err


def test_accepted_statuses_make_runs_of_a_file_good(
    capsys: pytest.CaptureFixture[str], expected_status: str
) -> None:
    arms = (f"{expected_status}:grep", f"{expected_status}:diff")
    shown = document(capsys, "compare", *arms, "--ok-status", "1,2")
    assert shown["arms"] == ["hf.json:grep", "hf.json:diff"]
    told = {one["subject"]: one for one in shown["findings"]}
    codes = [one["code"] for one in shown["findings"]]
    assert codes.count("status-accepted") == 2
    assert told["hf.json:diff"]
    shown = document(capsys, "stats", expected_status, "--ok-status", "0..5")
    counts = {one["name"]: one["quantities"][0]["count"] for one in shown["inputs"]}
    assert counts == {"grep": 5, "diff": 5, "flaky": 4}
    history = str(Path(expected_status).with_name("h.bwh"))
    added = ("history", "add", expected_status, "--file", history, "--json")
    _, out, _ = bw(capsys, *added)
    assert len(json.loads(out)["without"]) == 2
    _, out, _ = bw(capsys, *added, "--ok-status", "0..5")
    assert json.loads(out)["without"] == []


@pytest.mark.parametrize("command", ["stats", "plot", "report", "why"])
def test_every_command_that_draws_or_prints_a_file_accepts_statuses(
    capsys: pytest.CaptureFixture[str], expected_status: str, command: str
) -> None:
    def told(*words: str) -> tuple[int, str]:
        status, out, err = bw(capsys, command, expected_status, "--json", *words)
        return status, f"{out}{err}"

    status, text = told("--ok-status", "0..5")
    assert status == 0
    assert "command-failed" not in text
    assert ("status-accepted" in text) or command == "plot"
    assert told()[1] != text
    status, text = told("--ok-status", "no")
    assert status == 2
    assert "--ok-status" in text


STATED_FAILURES = {
    "google-benchmark": (
        {
            "context": {},
            "benchmarks": [
                {"name": "b", "run_type": "iteration", "real_time": 5, **more}
                for more in ({}, {"error_occurred": True, "error_message": 'bad, "quoted"'})
            ],
        },
        'failed: bad, "quoted" in trial 2 (1 of 2)',
    ),
    "fio": (
        {
            "fio version": "fio-3.33",
            "jobs": [{"jobname": "j", "error": 28, "read": {"total_ios": 5, "iops": 9.5}}],
        },
        "failed: error 28, No space left on device in trial 1 (1 of 1)",
    ),
    "hyperfine": (
        {
            "results": [
                {"command": "c", "mean": 1, "stddev": 0.1, "times": [1, 1], "exit_codes": [0, None]}
            ]
        },
        "`c` failed: a signal ended it in trial 2 (1 of 2)",
    ),
}


@pytest.mark.parametrize("tool", STATED_FAILURES)
def test_a_failure_without_an_exit_status_has_the_words_of_the_tool(
    tool: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """No status is invented, in no report, and none can be accepted."""
    content, told = STATED_FAILURES[tool]
    file = tmp_path / "f.json"
    file.write_text(json.dumps(content))
    for more in ((), ("--ok-status", "0..255"), ("--select", "$epoch > 0")):
        found = document(capsys, "stats", str(file), *more)["findings"]
        (one,) = (one for one in found if one["code"] == "result-failed")
        assert told in one["evidence"]
        assert "ok-status" not in one["remedy"]
        assert "command-failed" not in [one["code"] for one in found]
    if tool == "google-benchmark":
        plot = str(tmp_path / "p.svg")
        shown = "".join(bw(capsys, "plot", str(file), "-o", plot)[1:])
        assert "result-failed" in shown
        assert "command-failed" not in shown
    if told.endswith("(1 of 1)"):
        status, _, err = bw(capsys, "compare", str(file), str(file).replace("f.", "./f."))
        assert status == 2
        assert told.partition(" in trial")[0].removeprefix("it ") in err
        assert "ok-status" not in err
        _, out, _ = bw(capsys, "history", str(file), "--json")
        assert "No space left" in json.loads(out)["without"][0]["why"]


def test_compare_takes_tests_of_files(capsys: pytest.CaptureFixture[str]) -> None:
    arms = (f"{FILES}/go-bench.txt:Sum/n={n}-2" for n in (100, 1000))
    shown = document(capsys, "compare", *arms)
    verdicts = {one["metric"]: one["verdict"] for one in shown["verdicts"]}
    assert verdicts == {"elapsed": "slower", "throughput": "undecided"}
    assert shown["arms"] == ["go-bench.txt:Sum/n=100-2", "go-bench.txt:Sum/n=1000-2"]


def test_a_comparison_of_loads_judges_the_main_quantities(
    capsys: pytest.CaptureFixture[str],
) -> None:
    files = (f"{FILES}/fio.json", f"{FILES}/fio-plus.json")
    shown = document(capsys, "compare", *files)
    judged = {one["metric"] for one in shown["verdicts"] if one["judged"]}
    assert judged == {"read_iops", "read_clat_mean", "read_clat_p99"}
    shown = document(capsys, "compare", *files, "--metric", "read_bw")
    assert "read_bw" in {one["metric"] for one in shown["verdicts"] if one["judged"]}


def test_compare_refuses_estimates_without_values(capsys: pytest.CaptureFixture[str]) -> None:
    status, _, err = bw(
        capsys, *("compare", f"{FILES}/asv:b.time_single", f"{FILES}/pyperf.json:sum100")
    )
    assert status == 2
    assert "estimates by asv and no values" in err
    assert "docs/import.md" in err


def test_a_wrong_test_is_named_with_those_there(capsys: pytest.CaptureFixture[str]) -> None:
    status, _, err = bw(capsys, "stats", f"{FILES}/pyperf.json:sum")
    assert status == 2
    assert "there is no test 'sum'" in err
    assert "there are: sum100, sorted" in err


def test_json_of_another_form_is_refused_with_the_formats(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "x.json"
    path.write_text('{"answer": 42}')
    for command in ("stats", "report"):
        status, _, err = bw(capsys, command, str(path))
        assert status == 2
        assert "JSON of a form that no parser recognises" in err
        assert "Google Benchmark, criterion, BenchmarkDotNet, llama-bench, fio, k6" in err
    path.write_text('{"answer": ')
    status, _, err = bw(capsys, "history", str(path))
    assert status == 2
    assert "line 1, column 12" in err


def test_a_report_of_a_file_has_its_origin_and_estimates(
    capsys: pytest.CaptureFixture[str],
) -> None:
    (part,) = document(capsys, "report", f"{FILES}/asv")["parts"]
    assert (part["kind"], part["session"]) == ("file", 0)
    assert part["verdict"][0] == "Results of 8 tests by asv."
    sections = {one["id"]: one for one in part["sections"]}
    (table,) = sections["p1-estimates"]["blocks"]
    first = table["rows"][0]
    assert first[0]["text"] == "b.time_single"
    assert (first[3]["low"], first[3]["high"]) == (6.67e-07, 1.0013e-05)
    facts = sections["p1-origin"]["blocks"][0]["rows"]
    commit = "aae50d388b319602cc6aef2bcb6ab67441b1f25e"
    assert ["Commit", commit] in [[cell["text"] for cell in row] for row in facts]


def test_a_report_of_trials_says_nothing_of_their_start(capsys: pytest.CaptureFixture[str]) -> None:
    (part,) = document(capsys, "report", f"{FILES}/pyperf.json:sum100")["parts"]
    tables = [
        block
        for section in part["sections"]
        for group in section["blocks"]
        for block in group.get("blocks", ())
        if block["type"] == "table"
    ]
    headings = {column["label"] for table in tables for column in table["columns"]}
    assert "Trial" in headings
    assert not any(heading.startswith("Start") for heading in headings)


def test_a_history_of_another_tool(capsys: pytest.CaptureFixture[str]) -> None:
    shown = document(capsys, "history", f"{FILES}/otava.csv")
    runs = {one["metric"]: len(one["points"]) for one in shown["series"]}
    assert runs == {"elapsed": 3, "peak_rss": 2}


@pytest.mark.parametrize("file", ["asv", "google-benchmark-aggregates.json"])
def test_a_plot_draws_what_a_file_states(
    capsys: pytest.CaptureFixture[str], file: str, tmp_path: Path
) -> None:
    shown = document(capsys, "plot", f"{FILES}/{file}", "--components", "elapsed")
    points = {point["test"]: point for series in shown["series"] for point in series["points"]}
    name = "b.time_single" if file == "asv" else "Sum/n:100"
    assert points[name]["value"] is not None
    assert (points[name]["low"] is not None) == (file == "asv")


# -- What a parser does not understand ---------------------------------------------------


def not_read(shown: dict[str, Any]) -> list[str]:
    """Return the evidence of the findings about what was not read."""
    found = shown["findings"]
    return [one["evidence"] for one in found if one["code"] == "results-not-read"]


@pytest.mark.parametrize("time", ["", "2026-01-0{},"])
@pytest.mark.parametrize(
    ("cells", "what"),
    [
        (("8 ms", "9 ms", "8 ms"), ["2: no value of link is a number"]),
        (
            ("8", "9 ms", "n/a"),
            ["3: link is '9 ms', not a number", "4: link is 'n/a', not a number"],
        ),
        (("8", "", "9"), []),
        (("", "", ""), []),
    ],
)
def test_a_cell_of_csv_without_a_number_is_named_by_every_command(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    time: str,
    cells: tuple[str, ...],
    what: list[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = [f"{time.format(at + 1)}12.{at},{cell}\n" for at, cell in enumerate(cells)]
    head = f"{'date,' if time else ''}parse,link\n"
    Path("good.csv").write_text(head + "".join(rows).replace(" ms", ""))
    Path("some.csv").write_text(head + "".join(rows))
    for command in (["stats"], ["compare", "good.csv"], ["why"]):
        found = not_read(document(capsys, *command, "some.csv"))
        for one in what:
            assert f"some.csv:{one}" in found[-1]
        assert bool(found) == bool(what)
    found = document(capsys, "history", "some.csv")["skipped"]
    assert all(f"some.csv:{one}" in found[0] for one in what)
    assert any("not read" in one for one in found) == bool(what)


def test_a_file_without_a_number_is_no_history(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "a.csv"
    path.write_text("parse,link\n8 ms,9 ms\n")
    status, _, err = bw(capsys, "history", str(path))
    assert status == 2
    assert f"{path}:2: no value of parse, link is a number" in err


def test_a_result_that_is_not_read_is_named_by_every_command(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    line = "BenchmarkSum-2 \t 1000 \t 1{} ns/op\n"
    lines = [line.format(at % 7) for at in range(9)]
    good, other = Path("good.txt"), Path("some.txt")
    good.write_text("".join(lines))
    other.write_text("".join([*lines, "--- FAIL: BenchmarkLog-2\n", lines[0]]))
    where = f"{other}:10: BenchmarkLog-2 failed"
    for command in (
        ["stats", str(other)],
        ["stats", f"{other}:Sum-2"],
        ["compare", str(good), str(other)],
        ["why", str(other)],
    ):
        shown = document(capsys, *command)
        found = shown["findings"]
        (one,) = [one for one in found if one["code"] == "results-not-read"]
        assert one["subject"] == str(other)
        assert one["severity"] == "warning"
        assert where in one["evidence"]
    assert where in document(capsys, "history", str(other))["skipped"][0]
    for command in (["stats"], ["compare", str(good)], ["history"]):
        assert where in bw(capsys, *command, str(other))[1]
    # It concerns no test.
    shown = bw(capsys, "why", str(other))[1]
    assert "\nwarning: not read: " in shown
    page = tmp_path / "page.html"
    assert bw(capsys, "report", str(other), "-o", str(page))[0] == 0
    assert where in page.read_text()
    assert "results-not-read" not in bw(capsys, "stats", str(good))[1]


def test_all_results_that_are_not_read_are_named_without_v(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    failed = [f"Benchmark{name * 12}" for name in "ABCDEFGHI"]
    for name in ("a.txt", "b.txt"):
        lines = [f"BenchmarkSum 1 {at % 5 + 10} ns/op" for at in range(9)]
        lines[-1] += " 3 B/op" * (name == "b.txt")
        text = [*lines, *(f"--- FAIL: {one}" for one in failed)]
        Path(name).write_text("\n".join(text) + "\n")
    for command in ("stats", "compare", "history"):
        out = bw(capsys, command, "a.txt", "b.txt")[1]
        shown = " ".join(out.split())
        for one in failed:
            assert shown.count(f"{one} failed") == 2, (command, one)


def test_quotation_marks_in_a_command_of_redis_benchmark_are_read(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """The tool writes them without escaping; a well-formed row stays as it is."""
    file = tmp_path / "r.csv"
    command = 'EVAL return redis.call("set",KEYS[1],"1,2") 1 k,l'
    rows = (command, 'GET ""a""', "SET")
    text = "".join(f'"{row}","25641.03","0.144"\n' for row in rows)
    file.write_text(f'"test","rps","avg_latency_ms"\n{text}')
    found = document(capsys, "stats", str(file))["inputs"]
    assert [one["name"] for one in found] == [command, 'GET "a"', "SET"]
    for one in found:
        means = {each["name"]: each["mean"] for each in one["quantities"]}
        assert means["throughput"] == pytest.approx(25641.03)
        assert means["avg_latency"] == pytest.approx(0.000144)


def test_a_file_of_another_tool_is_no_source_of_an_export(
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = f"{FILES}/google-benchmark.json"
    status, _, err = bw(capsys, "export", file, "--format", "benchfmt")
    assert status == 2
    assert err.startswith("STUDY: it has results of Google Benchmark")
    assert f"bw stats {file}" in err


def test_a_folder_of_files_of_a_tool_is_named_by_a_pattern(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = Path(".benchmarks/Linux-CPython-3.11-64bit")
    folder.mkdir(parents=True)
    stored = (Path(FILES) / "pytest-benchmark.json").read_text()
    (folder / "0001_x.json").write_text(stored)
    status, _, err = bw(capsys, "history", ".benchmarks")
    assert status == 2
    assert "bw history .benchmarks/*/*.json" in err
    assert bw(capsys, "history", *map(str, Path(".benchmarks").glob("*/*.json")))[0] in (*(0, 3),)
    (folder / "0001_x.json").write_text("{}")
    assert "*.json" not in bw(capsys, "history", ".benchmarks")[2]


def test_a_file_of_which_nothing_is_read_is_refused_with_what_is_in_it(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "some.txt"
    file.write_text('{"Time":"","Action":"output","Output":"--- FAIL: BenchmarkLog-2\\n"}\n')
    status, _, err = bw(capsys, "stats", str(file))
    assert (status, "BenchmarkLog-2 failed" in err) == (2, True)


@pytest.mark.parametrize(
    ("head", "option"),
    [
        ('"Benchmark","Mode","Threads","Samples","Score"', "-rf json"),
        ('"Benchmark";"Mode";"Threads";"Samples";"Score"', "-rf json"),
        ("Benchmark          (size)  Mode  Cnt  Score   Error  Units", "-rf json"),
        ("name,min,max,mean,stddev,rounds,median", "--benchmark-json"),
        ("group,function,value,throughput_num,throughput_type", "target/criterion"),
    ],
)
def test_a_table_of_another_tool_is_refused_with_the_right_option(
    head: str, option: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    for name in ("table.csv", "table"):
        file = tmp_path / name
        file.write_text(f"{head}\n1,2,3\n")
        for command in ("stats", "history"):
            status, out, err = bw(capsys, command, str(file))
            assert (status, out) == (2, "")
            assert (option in err, str(file) in err) == (True, True)


# -- Packed and recoded files ---------------------------------------------------------------

PACKED: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "utf-8 with a mark": lambda data: b"\xef\xbb\xbf" + data,
    "utf-16": lambda data: data.decode().encode("utf-16"),
    "utf-16-be": lambda data: b"\xfe\xff" + data.decode().encode("utf-16-be"),
    "utf-32": lambda data: data.decode().encode("utf-32"),
    "utf-16, then gzip": lambda data: gzip.compress(data.decode().encode("utf-16")),
    "lines of Windows": lambda data: (
        b"\xff\xfe" + data.replace(b"\n", b"\r\n").decode().encode("utf-16-le")
    ),
}
OURS = Path(__file__).parents[1] / "golden" / "parsers"
PLAIN = [
    *(FILES / name for name in ("go-bench.txt", "hyperfine.json", "fio.json")),
    *(FILES / name for name in ("k6-points.ndjson", "cargo-criterion.jsonl")),
    *(FILES / name for name in ("otava.csv", "data.js", "jmh.json")),
    *sorted(one for one in OURS.iterdir() if one.suffix in (".csv", ".res", ".txt")),
]


@pytest.mark.parametrize("how", PACKED)
@pytest.mark.parametrize("plain", PLAIN, ids=lambda path: path.name)
def test_a_packed_or_recoded_file_is_read_as_the_plain_one(
    plain: Path, how: str, tmp_path: Path
) -> None:
    file = tmp_path / f"{plain.name}.gz"
    for read in (read_inputs, read_history):
        file.write_bytes(plain.read_bytes())
        expected = read([str(file)])
        file.write_bytes(PACKED[how](plain.read_bytes()))
        assert read([str(file)]) == expected


def test_damaged_compressed_data_is_named(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    packed = gzip.compress((FILES / "go-bench.txt").read_bytes() * 100)
    for size in (12, len(packed) // 2, len(packed) - 5):
        file = tmp_path / f"cut{size}"
        file.write_bytes(packed[:size])
        status, _, err = bw(capsys, "stats", str(file))
        assert (status, "compressed data is damaged" in err) == (2, True)


@pytest.mark.parametrize("content", [b"", b" \n\n", gzip.compress(b"", mtime=0)])
@pytest.mark.parametrize("command", ["stats", "compare", "history", "report"])
def test_a_file_without_content_is_said_to_be_empty(
    command: str,
    content: bytes,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a.txt", "b.txt"):
        Path(name).write_bytes(content)
    assert main([command, "a.txt", "b.txt"]) == 2
    error = capsys.readouterr().err
    assert "a.txt is empty [unreadable-input]" in error
    assert "tried: " not in error


def test_texts_of_our_own_tables_are_no_mistake(tmp_path: Path) -> None:
    trials = tmp_path / "trials.csv"
    trials.write_text(
        "test,epoch,thread,command,status,ending,elapsed\na,1,1,a,0,warmup,1.5\na,2,1,a,0,,1.6\n"
    )
    table = tmp_path / "table.csv"
    table.write_text("input,name,unit,count,mean,half_width\na,elapsed,s,3,1.5,0.1\n")
    for path in (trials, table):
        (one, *_) = read_inputs([str(path)])
        assert one.session_findings == ()


def test_many_texts_in_a_column_of_numbers_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    cells = ["1.5", *("n/a" for _ in range(5000))]
    path.write_text("elapsed,depth\n" + "".join(f"1.5,{cell}\n" for cell in cells))
    (one,) = read_inputs([str(path)])
    (found,) = one.session_findings
    assert "a.csv:3: depth is 'n/a', not a number" in found.evidence
    assert "4,980 more of depth are no numbers" in found.evidence
