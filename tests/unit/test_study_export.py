"""A study's exports and its reading back: blocks, voids, logs, selectors."""

from __future__ import annotations

import contextlib
import csv
import json
import os
from pathlib import Path

import msgspec
import pytest

from benchwright.core.errors import InputError
from benchwright.core.observation import MeasurementBlock, ProcessRecord, Trial, TrialEnding
from benchwright.core.plan import Command, FixedCount, Phases, StopDecision, TestPlan
from benchwright.features.load.plan import LoadTrial, Probe
from benchwright.features.search.export import ExportedTrial, loads_text
from benchwright.features.search.types import SearchTrial
from benchwright.study.contents import tests_of as contents_of
from benchwright.study.export import export_session, export_test
from benchwright.study.journal import NewEntry, SessionInfo, Study
from benchwright.study.logs import log_directory, read_output
from benchwright.study.parsers.study import PARSER

HERE = Path(__file__).parents[1] / "golden" / "export"
KEY = "0.1/test"
INFO = SessionInfo(
    started_ns=1_795_248_233_292_185_737,
    version="0.1.0",
    boot_id="b00t",
    directory="/suite",
    arguments=("run", "a suite.ap"),
    defines=(("FS", "ext2"),),
    program_main="a suite.ap",
    sources=(("a suite.ap", "TEST ext2:1 2\n"),),
    options={"token": "0123456789abcdef"},
)
PLAN = TestPlan(
    "ext2:1",
    FixedCount(2),
    Phases(exec=(Command.from_text("echo a > b\necho c"),)),
    threads=2,
    sample=(("FS", "ext2"),),
)


def record(thread: int, out: tuple[int, int], err: tuple[int, int]) -> ProcessRecord:
    return ProcessRecord("EXEC", 0, thread, 0, 1, 1, 1, 1, out=out, err=err)


def trial(epoch: int, ending: TrialEnding = TrialEnding.OK, **more: object) -> Trial:
    blocks = tuple(
        MeasurementBlock(
            thread,
            epoch,
            "echo a > b\necho c",
            int(ending is not TrialEnding.OK),
            {"elapsed": epoch + thread / 8, "user": 0.25, "system": 0.5, "free k": 3.0},
        )
        for thread in (1, 2)
    )
    return Trial("ext2:1", epoch, 2, ending, 0, 1, blocks, **more)  # type: ignore[arg-type]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A study with one test: two trials, a void one, output, a stop."""
    path = tmp_path / "study"
    logs = log_directory(path, 1, "ext2:1")
    with contextlib.closing(Study.create_or_open(path)) as study:
        number = study.begin_session(INFO)
        logs.mkdir(parents=True)
        (logs / "exec-1.out").write_bytes(b"one\ntwo, no newline\xff")
        (logs / "exec-2.err").write_bytes(b"oops\n")
        (logs / "presetup-0.out").write_bytes(b"prepared")
        first = trial(
            1,
            processes=(record(1, (0, 4), (0, 0)), record(2, (0, 0), (0, 5))),
            extra_blocks=({"": "disk", "sda": "17"},),
        )
        second = trial(2, TrialEnding.FAILED, processes=(record(1, (4, 16), (0, 0)),))
        void = {
            "cause": "interrupted by the user",
            "keys": [f"{KEY}/epoch/3", f"{KEY}/epoch/4"],
            "trial": trial(3, TrialEnding.INTERRUPTED),
        }
        study.append(
            number,
            [
                NewEntry("outcome", f"{KEY}/plan", PLAN),
                NewEntry("outcome", f"{KEY}/epoch/2", second),
                NewEntry("outcome", f"{KEY}/epoch/1", first),
                NewEntry("void", f"{KEY}/epoch/3", void),
                NewEntry("outcome", f"{KEY}/stop", StopDecision("count", "2 epochs")),
                NewEntry("outcome", "0.2/test/plan", PLAN_2),
            ],
        )
        study.end_session(number, "complete", "2 tests")
    return path


PLAN_2 = TestPlan("../evil/..", FixedCount(1), Phases())
NAMES = ("ext2:1.res", "ext2:1.log", "trials.csv", "session.json")


def test_exports_are_their_golden_files(place: Path) -> None:
    """To accept a change that is meant: BW_UPDATE_GOLDEN=1, and read the diff."""
    with contextlib.closing(Study.open_to_read(place)) as study:
        directory = export_session(study, 1)
    assert directory == place / "results" / "s1"
    for name in NAMES:
        made = (directory / name).read_bytes()
        if os.environ.get("BW_UPDATE_GOLDEN"):
            HERE.mkdir(exist_ok=True)
            (HERE / name.replace(":", "-")).write_bytes(made)
        assert made == (HERE / name.replace(":", "-")).read_bytes(), name
    made_names = sorted(p.name for p in directory.iterdir())
    assert made_names == sorted(
        [*NAMES, "%2E.%2Fevil%2F...res", "%2E.%2Fevil%2F...log", "_program.log"]
    )


def test_exports_are_made_again_after_being_lost_or_spoilt(place: Path) -> None:
    with contextlib.closing(Study.open_to_read(place)) as study:
        results = export_test(study, 1, KEY)
        text = results.read_bytes()
        results.write_bytes(b"spoilt")
        assert export_test(study, 1, KEY) == results
    assert results.read_bytes() == text
    assert not list(results.parent.glob("*.new"))


def test_the_sessions_secret_mark_is_not_exported(place: Path) -> None:
    with contextlib.closing(Study.open_to_read(place)) as study:
        directory = export_session(study, 1)
    for path in directory.iterdir():
        assert INFO.options["token"].encode() not in path.read_bytes()
    assert json.loads((directory / "session.json").read_text())["status"] == "complete"


def test_the_csv_has_a_row_for_each_counted_block(place: Path) -> None:
    with contextlib.closing(Study.open_to_read(place)) as study:
        path = export_session(study, 1) / "trials.csv"
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(r["epoch"], r["thread"], r["ending"]) for r in rows] == [
        ("1", "1", "ok"),
        ("1", "2", "ok"),
        ("2", "1", "failed"),
        ("2", "2", "failed"),
    ]
    assert rows[0]["command"] == "echo a > b\necho c"


def test_contents_keep_what_is_void_apart(place: Path) -> None:
    with contextlib.closing(Study.open_to_read(place)) as study:
        first, second = contents_of(study, 1)
    assert [t.epoch for t in first.trials] == [1, 2], "in order of epoch"
    (void,) = first.void
    assert (void.cause, void.epochs) == ("interrupted by the user", (3, 4))
    assert void.trial is not None
    assert (second.plan.name, second.trials, second.stop) == ("../evil/..", [], None)


def test_output_that_is_gone_is_empty(place: Path) -> None:
    process = record(1, (0, 4), (0, 9))
    assert read_output(place, 1, "ext2:1", process, "out") == b"one\n"
    assert read_output(place, 1, "ext2:1", process, "err") == b""
    assert read_output(place, 2, "ext2:1", process, "out") == b""


def test_a_study_reads_as_its_last_sessions_tests(place: Path) -> None:
    first, second = PARSER.read(place)
    assert (first.name, first.sample) == ("ext2:1", (("FS", "ext2"),))
    assert [b.epoch for b in first.rows] == [1, 1, 2, 2], "void trials do not count"
    assert [t.ending for t in first.trials] == ["ok", "failed"]
    assert [t.ending for t in first.all_trials] == ["ok", "failed", "interrupted"]
    assert first.stop == StopDecision("count", "2 epochs")
    assert second.rows == ()


@pytest.mark.parametrize("selector", [":ext2:1", "@1:ext2:1"])
def test_one_test_of_a_study(place: Path, selector: str) -> None:
    path = Path(f"{place}{selector}")
    assert PARSER.detect(path, b"")
    (one,) = PARSER.read(path)
    assert one.name == "ext2:1"


@pytest.mark.parametrize(
    ("selector", "message"), [(":ext3", "there is no test 'ext3'"), ("@7", "there is no session 7")]
)
def test_what_a_study_does_not_hold_is_told(place: Path, selector: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        PARSER.read(Path(f"{place}{selector}"))


def test_a_directory_without_a_journal_is_no_study(tmp_path: Path) -> None:
    assert not PARSER.detect(tmp_path, b"")
    assert not PARSER.detect(Path("/nowhere:x@1"), b"")


def test_how_late_the_generator_was_is_in_the_csv_of_loads() -> None:
    trial = LoadTrial(rate=10, duration_s=5, lasted_s=5, cost_s=6)
    late = msgspec.structs.replace(trial, late_p99_ms=258.5, marks=("generator-late",))
    listed = [
        ExportedTrial("0", counted=True, done=SearchTrial(n, Probe(10, 5), one))
        for n, one in enumerate((trial, late), 1)
    ]
    rows = list(csv.DictReader(loads_text(listed).splitlines()))
    assert [row["late_p99_ms"] for row in rows] == ["", "258.5"]
    assert [row["marks"] for row in rows] == ["", "generator-late"]
