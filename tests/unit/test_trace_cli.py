"""`bw trace` with an engine that answers what a test wants: requests, reports, exit codes.

To accept a change that is meant: BW_UPDATE_GOLDEN=1, and read the diff.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from benchwright.cli.schemas import document_types
from benchwright.core.results import Finding
from benchwright.features.replay.report import capture_text, compare_text, convert_text, stat_text
from benchwright.features.replay.types import (
    CaptureResult,
    ConvertResult,
    TraceComparison,
    TraceStatistics,
)
from benchwright.report.documents import encode
from engine_stand_in import Engine

GOLDEN = Path(__file__).parents[1] / "golden"
KINDS = ("stat", "requests", "compare", "convert", "capture")


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    """Return an engine in an empty directory."""
    return Engine(tmp_path)


def answer(kind: str, **changes: Any) -> dict[str, Any]:
    """Return what the engine said once, with some members changed."""
    found: dict[str, Any] = json.loads((GOLDEN / "trace" / f"{kind}.json").read_text())
    return {**found, **changes}


WORDS = {
    "stat": ("stat", "small.csv"),
    "requests": ("stat", "access.log"),
    "compare": ("compare", "small.csv", "seen.csv", "--speed", "1x"),
    "convert": ("convert", "small.csv", "-o", "small.log", "--to", "fio-iolog"),
    "capture": ("capture", "--device", "/dev/loop77", "--for", "1s", "-o", "cap.bw"),
}


def compare(path: Path, text: str) -> None:
    """Compare a text with its snapshot, or write it when asked to."""
    if os.environ.get("BW_UPDATE_GOLDEN"):
        path.write_text(text)
    assert text == path.read_text()


@pytest.mark.parametrize("kind", KINDS)
def test_the_report_is_as_recorded(engine: Engine, kind: str) -> None:
    engine.answers(answer(kind))
    done = engine.bw("trace", *WORDS[kind])
    assert done.returncode == 0, done.stderr
    compare(GOLDEN / "trace" / f"{kind}.txt", done.stdout)


@pytest.mark.parametrize("kind", KINDS)
def test_the_document_has_the_members_of_its_type(engine: Engine, kind: str) -> None:
    engine.answers(answer(kind))
    text = engine.bw("trace", *WORDS[kind], "--json").stdout
    document = msgspec.json.decode(text, type=document_types()[f"trace-{WORDS[kind][0]}"])
    assert json.loads(encode(document)) == json.loads(text)


def test_what_the_engine_adds_is_in_the_document(engine: Engine) -> None:
    engine.answers(answer("capture"))
    document = json.loads(engine.bw("trace", *WORDS["capture"], "--json").stdout)
    assert document["result"]["something_new"] == 1
    codes = {one["code"] for one in document["findings"]}
    assert codes == {"capture-events-lost", "capture-new-devices", "trace-ends-missing"}


def test_every_option_is_in_the_request(engine: Engine) -> None:
    engine.answers(answer("convert"))
    words = "convert a.bin -o b --format spc --lenient --window 2s --duplicates spread"
    more = "--from 1s --for 10s --devices a,b --speed 4x --offsets wrap --target-size 1G"
    rest = "--align 512 --v2-wait ms --arrivals issue --stamp-unit 1us --source-size 2G"
    done = engine.bw("trace", *words.split(), *more.split(), *rest.split())
    assert done.returncode == 0, done.stderr
    assert engine.request == {
        "type": "trace-convert",
        "input": {
            "path": "a.bin",
            "format": "spc",
            "lenient": True,
            "window_ns": 2 * 10**9,
            "duplicates": "spread",
            "from_ns": 10**9,
            "for_ns": 10**10,
            "devices": ["a", "b"],
            "offsets": "wrap",
            "target_bytes": 2**30,
            "source_bytes": 2**31,
            "align_bytes": 512,
            "speed_micro": 4_000_000,
            "v2_wait": "ms",
            "arrivals": "issue",
            "stamp_unit_ns": 1000,
        },
        "output": {"path": "b", "format": "bw"},
    }


def test_a_comparison_is_asked_for(engine: Engine) -> None:
    engine.answers(answer("compare"))
    words = "compare a b --speed 4x --shift=-1ms --window 5s --by-device --format load"
    more = "--format-b bw --devices-b sda --offsets scale --target-size 1M --lenient"
    part = "--from 10s --for 60s"
    done = engine.bw("trace", *words.split(), *more.split(), *part.split())
    assert done.returncode == 0, done.stderr
    assert engine.request == {
        "type": "trace-compare",
        "a": {
            "path": "a",
            "lenient": True,
            "format": "load",
            "offsets": "scale",
            "target_bytes": 2**20,
            "from_ns": 10 * 10**9,
            "for_ns": 60 * 10**9,
        },
        "b": {"path": "b", "lenient": True, "format": "bw", "devices": ["sda"]},
        "speed_micro": 4_000_000,
        "shift_ns": -1_000_000,
        "window_ns": 5 * 10**9,
        "by_device": True,
    }


def test_several_traces_are_several_reports_or_one(engine: Engine) -> None:
    engine.answers(answer("stat"))
    done = engine.bw("trace", "stat", "a", "b", "--json")
    assert len(json.loads(done.stdout)["traces"]) == 2
    done = engine.bw("trace", "stat", "a", "b", "--merge", "--json")
    assert len(json.loads(done.stdout)["traces"]) == 1
    assert engine.request["input"]["path"] == ["a", "b"]


def test_a_picture_is_written_and_told(engine: Engine) -> None:
    engine.answers(answer("stat"))
    done = engine.bw("trace", "stat", "a", "--plot", "a.svg", "--json")
    (file,) = json.loads(done.stdout)["files"]
    data = (engine.directory / "a.svg").read_bytes()
    assert (file["format"], file["bytes"]) == ("svg", len(data))
    engine.answers(answer("compare"))
    assert engine.bw("trace", "compare", "a", "b", "--plot", "c.png").returncode == 0
    assert (engine.directory / "c.png").read_bytes().startswith(b"\x89PNG")


def test_an_error_keeps_its_place(engine: Engine) -> None:
    error = {"type": "error", "status": 2, "code": "trace-line", "message": "no size"}
    place = {"remedy": "fix it", "path": "a.csv", "line": 12, "column": 5}
    engine.answers({**error, **place}, status=2)
    done = engine.bw("trace", "stat", "a.csv")
    assert done.returncode == 2
    assert done.stderr == "a.csv:12:5: no size [trace-line]\n  = fix it\n"


@pytest.mark.parametrize(
    ("line", "part"),
    [
        ("hello", "a line outside its protocol"),
        ({"type": "result"}, "missing required field"),
        ({"type": "news"}, "no type that we know"),
        ("[1]", "a line outside its protocol"),
    ],
)
def test_nonsense_is_an_error(engine: Engine, line: Any, part: str) -> None:
    engine.answers(line)
    done = engine.bw("trace", "stat", "a")
    assert done.returncode == 1
    assert part in done.stderr
    assert "Traceback" not in done.stderr


def test_a_histogram_that_is_none_is_an_error(engine: Engine) -> None:
    result = answer("stat")
    result["response_ns"]["hdr"] = "HISTFAAAAA=="
    engine.answers(result)
    done = engine.bw("trace", "stat", "a", "--plot", "a.png")
    assert done.returncode == 1
    assert "an invalid histogram" in done.stderr
    assert not (engine.directory / "a.png").exists()


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        ("stat a --window x --from y --format z", ["--window", "--from", "--format"]),
        ("stat a --plot a.gif", [".svg"]),
        ("stat a --plot no/such/a.svg", ["no directory"]),
        ("stat a -- ls", ["does not run a command"]),
        ("convert a", ["OUT is missing"]),
        ("convert a -o b --offsets wrap --to csv", ["target's size", "--to"]),
        ("compare a b --offsets scale --shift x", ["target's size", "--shift"]),
        ("capture -o a", ["nothing to record"]),
        ("capture --device /dev/x", ["OUT is missing"]),
        ("capture -o a --", ["no command after --"]),
        ("capture -o a --pid 5 -- ls", ["only one tree"]),
        ("capture -o a -- no-such-program", ["no-such-program"]),
        ("capture -o a --device x --for 0s --buffer 1", ["--for", "--buffer"]),
    ],
)
def test_bad_input_is_told_at_once(engine: Engine, words: str, parts: list[str]) -> None:
    engine.answers(answer("stat"))
    done = engine.bw("trace", *words.split())
    assert done.returncode == 2, done.stderr
    for part in parts:
        assert part in done.stderr
    assert "Traceback" not in done.stderr
    assert not (engine.directory / "request").exists(), "nothing was asked"


def test_a_command_begins_when_events_flow_and_ends_the_recording(engine: Engine) -> None:
    engine.answers_when_interrupted(answer("capture"), first='{"type":"ready"}', status=0)
    program = "test -e ready && echo recorded; exit 3"
    done = engine.bw("trace", "capture", "-o", "a.bw", "--json", "--", "sh", "-c", program)
    assert done.returncode == 1, done.stderr
    assert "recorded" in done.stderr
    document = json.loads(done.stdout)
    assert document["command"]["status"] == 3
    assert document["result"]["operations"] == 6
    assert engine.request["pid"] > 1
    assert engine.request["output"] == "a.bw"
    assert "exit status 3" in done.stderr


@pytest.mark.parametrize(("length", "status"), [((), 0), (("--for", "1h"), 130)])
def test_an_interrupt_ends_a_recording_and_keeps_it(
    engine: Engine, length: tuple[str, ...], status: int
) -> None:
    engine.answers_when_interrupted(answer("capture"), first='{"type":"ready"}', status=0)
    words = ("trace", "capture", "--device", "/dev/x", "-o", "a.bw", *length)
    process = subprocess.Popen(
        [sys.executable, "-m", "benchwright.cli.main", *words],
        cwd=engine.directory,
        stdout=subprocess.PIPE,
        text=True,
        env=engine.environment,
    )
    while not (engine.directory / "ready").exists():
        assert process.poll() is None
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=30)
    assert process.returncode == status
    assert "a.bw: 6 operations" in out


@pytest.mark.parametrize(
    ("kind", "result", "text_of"),
    [
        ("stat", TraceStatistics, stat_text),
        ("requests", TraceStatistics, stat_text),
        ("compare", TraceComparison, compare_text),
        ("convert", ConvertResult, convert_text),
    ],
)
def test_no_path_reaches_a_terminal_as_a_command(
    kind: str, result: type[Any], text_of: Callable[[Any, tuple[Finding, ...]], str]
) -> None:
    said = json.dumps(answer(kind)).replace(WORDS[kind][1], r"\u001b[2J\u009b")
    text = text_of(msgspec.json.decode(said, type=result), ())
    assert text.replace("\n", "").isprintable()
    assert r"\x1b[2J\x9b" in text


def test_one_of_a_thing_is_not_several() -> None:
    ones = dict.fromkeys(("operations", "lost_events", "strangers"), 1)
    result = msgspec.convert(answer("capture", **ones), CaptureResult)
    text = capture_text(result, "\x1b[2J", ())
    assert text.startswith(r"\x1b[2J: 1 operation in ")
    assert "1 event lost, " in text
    assert "1 end of requests" in text
