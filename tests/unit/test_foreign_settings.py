"""What a file states about a benchmark beside its name: how it was run, and the version of its
code."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchwright.cli.main import main

FILES = Path(__file__).parents[1] / "golden" / "foreign"
SETTINGS = {
    "jmh.json": ('"threads" : 1', '"threads" : 2', "threads: 1, then 2"),
    "pytest-benchmark.json": (
        *('"timer": "perf_counter"', '"timer": "process_time"'),
        "timer: perf_counter, then process_time",
    ),
    "pyperf-command.json": ('"command":"', '"command":"nice ', ", then nice "),
    "fio-mixed.json": ('"bs" : "4k"', '"bs" : "64k"', "bs: 4k, then 64k"),
}
"""What a file of a tool says, what another one says, and the difference."""


def compared(capsys: pytest.CaptureFixture[str], *paths: Path) -> tuple[dict[str, Any], list[str]]:
    """Return the document of a comparison, and the evidence of `settings-differ`."""
    status = main(["compare", *map(str, paths), "--json"])
    shown = capsys.readouterr()
    assert status in (0, 3), shown.err
    found: dict[str, Any] = json.loads(shown.out)
    about = (one for one in found["findings"] if one["code"] == "settings-differ")
    return found, [one["evidence"] for one in about]


def with_other(folder: Path, name: str, here: str, there: str) -> list[Path]:
    """Write a file of a tool, the same one in other bytes, and one with another text."""
    text = (FILES / name).read_text()
    assert here in text
    paths = [folder / f"{which}.json" for which in ("old", "same", "new")]
    for path, content in zip(paths, (text, text + "\n", text.replace(here, there)), strict=True):
        path.write_text(content)
    return paths


@pytest.mark.parametrize("name", SETTINGS)
def test_results_of_two_settings_are_compared_with_a_finding(
    name: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    here, there, difference = SETTINGS[name]
    old, _, new = with_other(tmp_path, name, here, there)
    document = json.loads(new.read_text())
    # Other values, so that the two are not the same trials.
    new.write_text(json.dumps(moved(document)))
    _, (evidence,) = compared(capsys, old, new)
    assert difference in evidence
    new.write_text(json.dumps(moved(json.loads(old.read_text()))))
    assert compared(capsys, old, new)[1] == []


def moved(document: Any) -> Any:
    """Return a document of which each measured number is 1 % larger."""
    if isinstance(document, float) and 0 < document < 1e6:
        return document * 1.01
    if isinstance(document, list):
        return [moved(one) for one in document]
    if isinstance(document, dict):
        return {key: moved(value) for key, value in document.items()}
    return document


def test_a_history_begins_a_segment_where_a_setting_changes(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    old, same, new = with_other(tmp_path, "jmh.json", *SETTINGS["jmh.json"][:2])
    assert main(["history", *map(str, (old, same, new)), "--json"]) == 0
    for series in json.loads(capsys.readouterr().out)["series"]:
        first, second = series["segments"]
        assert (first["changes"], second["first"]) == ([], 2)
        assert second["changes"] == ["threads: 1, then 2"]


def test_a_long_setting_is_cut_before_what_differs(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    here, long = '"command":"', '"command":"' + "env LONG=value " * 20
    old, _, new = with_other(tmp_path, "pyperf-command.json", here, f"{long} nice -n 5 ")
    new.write_text(json.dumps(moved(json.loads(new.read_text()))))
    old.write_text(new.read_text().replace("nice -n 5", "nice -n 9"))
    new.write_text(json.dumps(moved(json.loads(new.read_text()))))
    _, (evidence,) = compared(capsys, old, new)
    before, after = evidence.removeprefix("command: ").split(", then ")
    assert ("-n 9" in before, "-n 5" in after) == (True, True)
    assert max(len(before), len(after)) <= 60


FIO = ("direct", "iodepth", "bs")


def fio_run(path: Path, moment: int, **jobs: tuple[int, int, str]) -> str:
    """Write fio's results of jobs with their options `direct`, `iodepth` and `bs`."""
    document = json.loads((FILES / "fio-mixed.json").read_text())
    (first, *_) = document["jobs"]
    document |= {"timestamp": moment, "timestamp_ms": moment * 1000, "jobs": []}
    for name, options in jobs.items():
        stated = dict(zip(FIO, map(str, options), strict=True))
        own = first | {"jobname": name, "job options": {"rw": "randread"} | stated}
        document["jobs"].append(own)
    path.write_text(json.dumps(document))
    return str(path)


@pytest.mark.parametrize(
    ("one", "other", "sentence"),
    [
        ((1, 4, "8k"), (1, 4, "16k"), "direct: 0, then 1 ["),
        ((1, 8, "8k"), (1, 8, "16k"), "iodepth: 4, then 8; direct: 0, then 1 ["),
        ((0, 8, "8k"), (0, 4, "8k"), ": warning: iodepth: 4, then 8 (a "),
    ],
)
def test_what_changed_in_a_history_is_neither_cut_nor_merged(
    one: tuple[int, int, str],
    other: tuple[int, int, str],
    sentence: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    old = fio_run(tmp_path / "old.json", 1_795_890_000, a=(0, 4, "8k"), b=(0, 4, "16k"))
    new = fio_run(tmp_path / "new.json", 1_795_890_900, a=one, b=other)
    assert main(["history", old, new]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert sentence in shown
    if other[2] == "8k":
        assert "; bs: 16k, then 8k (b " in shown


def asv_commit(folder: Path, day: int, version: str, seconds: float, **also: Any) -> Path:
    """Write asv's results of a commit of January 2026."""
    machine = folder / "vm"
    machine.mkdir(exist_ok=True)
    (machine / "machine.json").write_text("{}")
    samples = [seconds * (1 + at % 5 / 1000) for at in range(10)]
    started = 1767225600000 + day * 86_400_000
    row = [[seconds], [], version, also.pop("started_at", started), [samples]]
    columns = ["result", "params", "version", "started_at", "samples"]
    document = {
        "commit_hash": f"{day:040x}",
        "env_name": "py",
        "date": started,
        "params": {"machine": "vm"},
        "result_columns": columns,
        "results": {"b.time_x": row},
    }
    path = machine / f"{day:08x}-py.json"
    path.write_text(json.dumps(document | also))
    return path


def test_results_of_two_versions_of_a_benchmark_are_not_compared(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    old = asv_commit(tmp_path, 1, "a" * 64, 1.0)
    new = asv_commit(tmp_path, 2, "b" * 64, 1.3)
    assert main(["compare", str(old), str(new)]) == 2
    shown = capsys.readouterr().err
    assert "aaaaaaaaaaaa in" in shown
    assert "bbbbbbbbbbbb in" in shown
    # Beside a benchmark that can be compared it is named, and a gate is undecided.
    for path in (old, new):
        document = json.loads(path.read_text())
        row = document["results"]["b.time_x"]
        other = [*row[:2], "c" * 64, *row[3:]]
        document["results"]["b.time_same"] = other
        path.write_text(json.dumps(document))
    arguments = ["compare", str(old), str(new), "--fail-if", "slower by 50%", "--json"]
    assert main(arguments) == 3
    found = json.loads(capsys.readouterr().out)
    assert list(found["without_values"]) == ["b.time_x"]
    assert {one["test"] for one in found["verdicts"]} == {"b.time_same"}


def test_a_former_file_of_asv_has_its_versions_by_name(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    old, new = (asv_commit(tmp_path, day, "", 1.0 + day / 10) for day in (1, 2))
    for path, version in ((old, "1"), (new, "2")):
        document = json.loads(path.read_text())
        row = document["results"]["b.time_x"]
        del document["result_columns"]
        document["results"] = {"b.time_x": {"result": row[0], "samples": row[-1]}}
        document |= {"benchmark_version": {"b.time_x": version}, "started_at": {"b.time_x": row[3]}}
        path.write_text(json.dumps(document))
    assert main(["compare", str(old), str(new)]) == 2
    assert "version 1 in" in capsys.readouterr().err


def test_a_history_compares_runs_of_one_version_of_a_benchmark(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    for day in range(20):
        changed = day >= 12
        seconds = (1.3 if changed else 1.0) + day % 3 / 1000
        asv_commit(tmp_path, day, ("b" if changed else "a") * 64, seconds)
    main(["history", str(tmp_path), "--json"])
    (series,) = json.loads(capsys.readouterr().out)["series"]
    assert [one["first"] for one in series["segments"]] == [0, 12]
    assert series["steps"] == []
    main(["history", str(tmp_path), "--json", "--ignore", "command"])
    (series,) = json.loads(capsys.readouterr().out)["series"]
    assert len(series["segments"]) == len(series["steps"]) == 1
