"""Files that other tools write here, in their modes, against another output of the same run."""

from __future__ import annotations

import csv
import json
import shutil
import subprocess
from pathlib import Path

import pytest

from benchwright.core.errors import InputError
from benchwright.findings.result import TestResult
from benchwright.report.stats_document import table_of
from benchwright.results.inputs import read_inputs

pytestmark = pytest.mark.slow


def needs(program: str) -> pytest.MarkDecorator:
    reason = f"{program} is not installed"
    return pytest.mark.skipif(shutil.which(program) is None, reason=reason)


def call(place: Path, *words: str) -> str:
    """Run a program in a directory and return its output."""
    done = subprocess.run(
        words, cwd=place, check=False, capture_output=True, text=True, timeout=120
    )
    return done.stdout


def read_one(path: Path) -> TestResult:
    (one,) = read_inputs([str(path)])
    return one


# -- fio: its terse format has the figures of its JSON ---------------------------------------
#
# Fields of version 3, from fio's HOWTO: 5 before the reads, 41 of a direction, of which the rate is
# the third, the mean of the completion latency the eleventh, then 20 percentiles, then the latency.

FIO = ("fio", "--name=j", "--filename=f", "--size=512k", "--bs=4k")
MODES = {
    "plain": ["--rw=randrw"],
    "json+": ["--rw=randread", "--output-format=json+,terse"],
    "normal": ["--rw=randrw", "--output-format=normal,json,terse"],
    "mixed": ["--rw=randrw", "--unified_rw_reporting=1"],
    "percentiles": ["--rw=randread", "--percentile_list=75:99.5:99.95:99.999"],
    "grouped": ["--rw=randrw", "--numjobs=2", "--group_reporting"],
}


@needs("fio")
@pytest.mark.parametrize("mode", MODES)
def test_fio_reports_the_same_in_its_terse_format(mode: str, tmp_path: Path) -> None:
    formats = [] if "--output-format" in str(MODES[mode]) else ["json,terse"]
    words = [*MODES[mode], *(f"--output-format={one}" for one in formats)]
    call(tmp_path, *FIO, *words, "--output=out")
    text = (tmp_path / "out").read_text()
    (terse,) = (line for line in text.splitlines() if line.startswith("3;fio-"))
    fields = terse.split(";")
    found = dict(read_one(tmp_path / "out").blocks[0].values)
    compared = 0
    kinds = ("mixed",) if "mixed_iops" in found else ("read", "write")
    for at, kind in enumerate(kinds):
        first = 5 + 41 * at
        if fields[first] == "0":
            assert f"{kind}_iops" not in found
            continue
        assert int(fields[first + 2]) == pytest.approx(found[f"{kind}_iops"], abs=1)
        for name, place in (("clat", 10), ("lat", 34)):
            mean = found[f"{kind}_{name}_mean"] * 1e6
            assert float(fields[first + place]) == pytest.approx(mean, rel=1e-4)
        for field in fields[first + 12 : first + 32]:
            share, value = field.split("%=")
            if float(share):
                # The terse format has whole microseconds.
                latency = found[f"{kind}_clat_p{float(share):g}"] * 1e6
                assert int(value) == pytest.approx(latency, abs=1)
                compared += 1
    assert compared >= 4


@needs("fio")
def test_fio_writes_its_run_last_with_a_status_interval(tmp_path: Path) -> None:
    options = ("--rw=randread", "--time_based", "--runtime=2", "--status-interval=1")
    call(tmp_path, *FIO, *options, "--output-format=json", "--output=out")
    text = (tmp_path / "out").read_text()
    assert text.count('"fio version"') > 1
    last = json.loads(text[text.rindex("\n{") :])
    found = read_one(tmp_path / "out").blocks[0].values
    assert found["read_iops"] == last["jobs"][0]["read"]["iops"]
    # A second run in the same file is a test of its own.
    with (tmp_path / "out").open("a") as file:
        file.write(call(tmp_path, *FIO, "--rw=randread", "--output-format=json"))
    assert len(read_inputs([str(tmp_path / "out")])) == 2


@needs("fio")
@pytest.mark.parametrize("form", ["normal", "terse"])
def test_what_fio_writes_without_json_is_refused(form: str, tmp_path: Path) -> None:
    call(tmp_path, *FIO, "--rw=randread", f"--output-format={form}", "--output=out")
    with pytest.raises(InputError) as refused:
        read_inputs([str(tmp_path / "out")])
    assert "--output-format=json" in refused.value.diagnostics[0].hint


# -- hyperfine: its CSV has the means of its JSON ----------------------------------------------


@needs("hyperfine")
def test_hyperfine_reports_the_same_in_csv(tmp_path: Path) -> None:
    commands = ("true", "true", "sleep 0.01")
    exports = ("--export-json", "a.json", "--export-csv", "a.csv")
    call(tmp_path, "hyperfine", "-N", "--runs", "3", *commands, *exports)
    means = []
    for name in ("a.json", "a.csv"):
        found = read_inputs([str(tmp_path / name)])
        assert [one.test for one in found] == ["true", "true#2", "sleep 0.01"]
        rows = [{row.name: row for row in table_of(one)} for one in found]
        means.append([row["elapsed"].mean for row in rows])
    assert means[0] == pytest.approx(means[1])
    with (tmp_path / "a.csv").open() as file:
        said = [float(row["mean"]) for row in csv.DictReader(file)]
    assert means[1] == said
