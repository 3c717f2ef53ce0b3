"""`bw load` and `bw replay` with an engine that answers what a test wants."""

from __future__ import annotations

import gzip
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import msgspec
import pytest

from benchwright.features.load.document import LoadDocument
from benchwright.report.documents import encode
from engine_stand_in import Engine

GOLDEN = Path(__file__).parents[1] / "golden" / "load"
PROGRESS = {
    "type": "progress",
    "at_ns": 10**9,
    "issued": 10_000,
    "completed": 9_998,
    "in_flight": 2,
    "waiting": 0,
    "rate_per_s": 9998.2,
    "response_ns_p50": 80_000,
    "response_ns_p99": 140_000,
}


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    """Return an engine that answers with the golden result."""
    made = Engine(tmp_path)
    made.answers(result())
    return made


def result(**changes: Any) -> dict[str, Any]:
    """Return the golden result with some members changed."""
    found: dict[str, Any] = json.loads((GOLDEN / "result.json").read_text())
    return {**found, **changes}


def test_the_report_is_as_recorded(engine: Engine) -> None:
    done = engine.bw("load", "--rate", "10k", "--read", "70%", "--target", "/dev/loop77")
    assert done.returncode == 0, done.stderr
    path = GOLDEN / "report.txt"
    if os.environ.get("BW_UPDATE_GOLDEN"):
        path.write_text(done.stdout)
    assert done.stdout == path.read_text()


def test_a_bare_load_is_one_filament(engine: Engine) -> None:
    words = "load --rate 10k --arrival gamma:2 --block 8k --read 70% --location zipf:1.2"
    run = "--duration 2s --depth 64 --late skip:1ms --seed 3 --cpu 1 --warm-up 1s"
    done = engine.bw(*words.split(), *run.split(), "--target", "null")
    assert done.returncode == 0, done.stderr
    request = engine.request
    (filament,) = request["workload"]["filaments"]
    assert filament["arrival"] == {"type": "gamma", "cv_micro": 2_000_000}
    assert filament["rate"] == {"micro_per_s": 10_000_000_000}
    assert filament["access"]["size"] == {"type": "constant", "value": 8192}
    assert filament["access"]["kinds"] == [["read", 7], ["write", 3]]
    assert request["workload"]["seed"] == 3
    assert request["duration_ns"] == 2 * 10**9
    assert request["warm_up_ns"] == 10**9
    assert (request["depth"], request["cpus"]) == (64, [1])
    assert request["late"] == {"policy": "skip", "after_ns": 10**6}


def test_without_a_rate_it_is_a_closed_loop(engine: Engine) -> None:
    done = engine.bw("load", "--depth", "4", "--workers", "2", "--target", "null")
    assert done.returncode == 0, done.stderr
    (filament,) = engine.request["workload"]["filaments"]
    assert (filament["type"], filament["users"]) == ("closed", 8)
    assert "omit the wait of further arrivals [closed-loop]" in done.stdout


def test_a_replay(engine: Engine) -> None:
    words = "replay a.load --speed 4x --scale-space --duplicates spread --window 1s"
    more = "--lenient --from 10s --for 60s --devices sda,sdb --direct --overwrite"
    done = engine.bw(*words.split(), *more.split(), "--target", "/dev/loop77")
    assert done.returncode == 0, done.stderr
    assert engine.request["duration_ns"] is None
    assert engine.request["target"]["overwrite"] is True
    assert engine.request["workload"]["filaments"] == [
        {
            "type": "trace",
            "path": "a.load",
            "speed_micro": 4_000_000,
            "offsets": "scale",
            "duplicates": "spread",
            "window_ns": 10**9,
            "lenient": True,
            "from_ns": 10**10,
            "for_ns": 6 * 10**10,
            "devices": ["sda", "sdb"],
        }
    ]


def test_a_replay_at_other_times(engine: Engine) -> None:
    words = ("replay", "a.load", "--delay", "uniform 0ms..10ms", "--quantize", "10ms")
    done = engine.bw(*words, "--seed", "7", "--target", "null")
    assert done.returncode == 0, done.stderr
    (trace,) = engine.request["workload"]["filaments"]
    assert trace["delay"] == {"type": "uniform", "low": 0, "high": 10_000_000}
    assert trace["quantize_ns"] == 10_000_000
    assert engine.request["workload"]["seed"] == 7


def test_a_replay_of_several_devices(engine: Engine) -> None:
    words = ("--map", "sda=/dev/loop77", "--map", "sdb=null", "--map", "sdc=/dev/loop77")
    done = engine.bw("replay", "a.load", *words, "--direct", "--offsets", "wrap")
    assert done.returncode == 0, done.stderr
    target = engine.request["target"]
    assert target["kind"] == "several"
    disk, null = target["targets"]
    assert (disk["name"], disk["filaments"]) == ("/dev/loop77", [0])
    assert (null["name"], null["filaments"]) == ("null", [1])
    assert disk["target"]["direct"] is True
    assert null["target"]["kind"] == "null"
    traces = engine.request["workload"]["filaments"]
    assert [one["devices"] for one in traces] == [["sda", "sdc"], ["sdb"]]
    assert [one["offsets"] for one in traces] == ["wrap", "wrap"]


def test_the_document_has_everything(engine: Engine) -> None:
    done = engine.bw("load", "--rate", "10k", "--json", "--target", "null")
    document = json.loads(done.stdout)
    assert document["schema"] == "benchwright/load/1"
    assert document["result"]["something_new"] == 1, "also what we do not know"
    assert document["result"]["intervals"] == result()["intervals"]
    assert document["request"]["workload"]["seed"] == 1
    assert document["loop"] == {"open": True, "closed": False}
    metrics = document["metrics"]
    assert metrics["rate_per_s"] == 9997.8
    assert metrics["response_ns_p99"] == 142_000
    assert metrics["read_response_ns_p99"] == 142_000
    assert metrics["issue_error_ns_p99"] == 1900
    assert (metrics["errors"], metrics["dropped"]) == (3, 0)
    codes = {finding["code"] for finding in document["findings"]}
    assert {"operations-failed", "memory-not-locked"} <= codes


def test_the_document_has_the_members_of_its_type(engine: Engine) -> None:
    words = ("load", "--rate", "10k", "--json", "--target", "/dev/loop77")
    text = engine.bw(*words).stdout
    document = msgspec.json.decode(text, type=LoadDocument)
    assert json.loads(encode(document)) == json.loads(text)


def test_progress_is_on_stderr_and_can_be_silenced(engine: Engine) -> None:
    late = {**PROGRESS, "at_ns": 2 * 10**9, "rate_per_s": 1.0}
    engine.answers(PROGRESS, late, {**PROGRESS, "at_ns": 3 * 10**9}, result())
    done = engine.bw("load", "--rate", "10k", "--target", "null")
    assert done.stderr.splitlines() == [
        "1 s of 5 s; 9,998.2/s; 2 in flight, 0 waiting; response p50 80 us, p99 140 us",
        "3 s of 5 s; 9,998.2/s; 2 in flight, 0 waiting; response p50 80 us, p99 140 us",
    ]
    assert engine.bw("load", "--rate", "1", "--quiet", "--target", "null").stderr == ""


def test_an_error_of_the_engine_keeps_its_place(engine: Engine) -> None:
    error = {"type": "error", "code": "trace-line", "message": "no number"}
    place = {"remedy": "fix it", "path": "a.load", "line": 12, "column": 5}
    engine.answers({**error, **place, "status": 2}, status=2)
    done = engine.bw("replay", "a.load", "--target", "null")
    assert done.returncode == 2
    assert done.stderr == "a.load:12:5: no number [trace-line]\n  = fix it\n"
    engine.answers({**error, "status": 1}, status=1)
    done = engine.bw("replay", "a.load", "--target", "null")
    assert done.returncode == 1
    assert "no number [trace-line]" in done.stderr


@pytest.mark.parametrize(
    ("lines", "part"),
    [
        ((), "without a result"),
        (("hello",), "a line outside its protocol"),
        (({"type": "news"},), "no type that we know"),
        (({"type": "result"},), "missing required field"),
        ((result(schema="load/2"),), "its schema is load/2"),
        ((result(kinds={}),), "no `all`"),
        ((result(elapsed_ns="5 s"),), "elapsed_ns"),
    ],
)
def test_an_engine_that_says_nonsense_is_an_error(
    engine: Engine, lines: tuple[Any, ...], part: str
) -> None:
    engine.answers(*lines)
    done = engine.bw("load", "--target", "null")
    assert done.returncode == 1
    assert part in done.stderr
    assert "Traceback" not in done.stderr


def test_an_interrupt_reaches_the_engine_and_its_result_is_told(engine: Engine) -> None:
    engine.answers_when_interrupted(PROGRESS, result(interrupted=True))
    process = subprocess.Popen(
        [sys.executable, "-m", "benchwright.cli.main", "load", "--target", "null"],
        cwd=engine.directory,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=engine.environment,
    )
    while not (engine.directory / "ready").exists():
        assert process.poll() is None
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert err == "", "an interval that was cut is not told as a whole one"
    assert "load-interrupted" in out
    assert "49,990 completed" in out


def test_inside_a_trial_the_numbers_go_to_aplog(engine: Engine) -> None:
    log = engine.directory / "aplog"
    done = engine.bw("load", "--rate", "10k", "--target", "null", APLOG=str(log))
    assert done.returncode == 0, done.stderr
    text = log.read_text()
    assert "\nrate_per_s = 9997.8\n" in text
    assert "\n[finding]\ncode = operations-failed\n" in text


@pytest.mark.parametrize(
    ("words", "unfinished", "status"),
    [
        ("", 40_000, 1),
        ("", 496, 0),
        ("", 497, 1),
        ("--max-errors 1%", 496, 0),
        ("--max-errors 1%", 497, 1),
        ("--max-errors 0%", 0, 1),
        ("--max-errors 100%", 40_000, 0),
    ],
)
def test_more_errors_than_are_allowed_fail_a_load(
    engine: Engine, words: str, unfinished: int, status: int
) -> None:
    # 1 % of 49,990 is 499.9, and three of the golden result's failed.
    counts = {**result()["counts"], "unfinished": unfinished}
    engine.answers(result(counts=counts))
    done = engine.bw(*f"load --rate 1 --target null --quiet {words}".split())
    assert done.returncode == status, done.stderr
    assert done.stdout.startswith("read and write: "), "the report is there in any case"
    assert ("[too-many-errors]" in done.stderr) == (status == 1)
    if words:
        assert "max_errors" not in json.dumps(engine.request), "the engine needs it not"


@pytest.mark.parametrize(
    ("limit", "status"),
    [
        ("metric nosuch > 5", 2),
        ("p99 < 5ms of nosuch", 2),
        ("metric write_response_ns_p99 < 5", 2),
        ("p99 < 5ms of write", 2),
        ("metric read_rate_per_s > 5", 0),
        ("metric rate_per_s > 5", 0),
    ],
)
def test_a_limit_of_what_the_load_cannot_have_is_refused_before_it(
    engine: Engine, limit: str, status: int
) -> None:
    engine.answers(result())
    words = ["load", "--rate", "1", "--target", "null", "--limit", limit]
    done = engine.bw(*words)
    assert done.returncode == status, done.stderr
    assert bool(done.stdout) == (status != 2), "no load was made"


@pytest.mark.parametrize(
    ("words", "limit", "known"),
    [
        ("--target http://127.0.0.1:1/", "open", "exchange"),
        ("--target tcp://127.0.0.1:1", "nope", "exchange"),
        ("--target redis://127.0.0.1:1 --commands GET\\ a;PING", "open", "GET"),
        ("--target null --read 50%", "access", "write"),
        ("files.toml --target null", "flush", "getattr"),
    ],
)
def test_a_limit_is_of_operations_that_the_target_executes(
    engine: Engine, words: str, limit: str, known: str
) -> None:
    engine.answers(result(kinds={"all": result()["kinds"]["all"]}))
    set_of_files = "[files]\nfiles_per_load = 2\ndirectories = 3\nsize = '4k'\n"
    chain = '[[filament]]\ntype = "files"\nrate = 5\n[[filament.chain]]\nname = "c"\n'
    chain += 'steps = ["getattr"]\n'
    (engine.directory / "files.toml").write_text(set_of_files + chain)
    options = [] if "files.toml" in words else ["--rate", "1"]
    told = ["load", *shlex.split(words), *options, "--quiet"]
    wrong = engine.bw(*told, "--limit", f"p99 < 5ms of {limit}")
    assert (wrong.returncode, wrong.stdout) == (2, ""), wrong.stderr
    hint = wrong.stderr.splitlines()[-1]
    assert known in hint
    assert limit not in hint.replace(repr(limit), "")
    right = engine.bw(*told, "--limit", f"p99 < 5ms of {known}")
    assert right.returncode == 3, right.stderr
    assert "no operation" in right.stdout


@pytest.mark.parametrize("more", [(), ("--study", "st")])
@pytest.mark.parametrize(
    ("words", "changes", "status"),
    [
        ("--max-errors 0%", {}, 1),
        ("--limit 'metric rate_per_s > 1' --max-errors 0%", {}, 1),
        ("--limit 'metric rate_per_s > 1'", {}, 0),
        ("", {}, 0),
        ("", None, 1),
    ],
)
def test_each_exit_status_is_in_the_file_of_junit(
    engine: Engine, words: str, changes: dict[str, Any] | None, status: int, more: tuple[str, ...]
) -> None:
    """`changes` of the result; None: there is none."""
    junit = engine.directory / "j.xml"
    junit.write_text("of an earlier build")
    if changes is None:
        engine.answers(status=1)
    else:
        engine.answers(result(**changes))
    told = ["load", "--rate", "1", "--target", "null", "--junit", "j.xml", "--quiet"]
    done = engine.bw(*told, *shlex.split(words), *more)
    assert done.returncode == status, done.stderr
    (suite,) = ElementTree.fromstring(junit.read_bytes())
    red = int(suite.get("failures", "")) + int(suite.get("errors", ""))
    assert (red > 0) == (status != 0)


def test_a_workload_says_how_many_errors_are_too_many(engine: Engine) -> None:
    text = "[run]\nmax_errors = 0\n" + '[[filament]]\ntype = "open"\nrate = "1k"\n'
    (engine.directory / "w.toml").write_text(text)
    done = engine.bw("load", "w.toml", "--target", "null", "--quiet")
    assert done.returncode == 1
    assert "3 of 49,990 operations (0.006 %) failed" in done.stderr
    done = engine.bw("load", "w.toml", *["--target", "null", "--max-errors", "1%"])
    assert done.returncode == 0, "the command line wins"


def test_trials_differ_in_what_is_random_unless_a_seed_is_said(engine: Engine) -> None:
    def seed(*words: str) -> int:
        engine.bw("load", *words, "--target", "null", APEPOCH="7")
        found: int = engine.request["workload"]["seed"]
        return found

    text = '[[filament]]\ntype = "open"\nrate = 1\n'
    (engine.directory / "none.toml").write_text(text)
    (engine.directory / "said.toml").write_text("[run]\nseed = 3\n" + text)
    assert seed("--rate", "1") == seed("none.toml") == 7
    assert seed("said.toml") == 3
    assert seed("said.toml", "--seed", "5") == seed("--rate", "1", "--seed", "5") == 5


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        ("load", ["there is no target"]),
        ("load --rate x --late y --target ftp://z", ["--rate", "--late", "--target"]),
        ("load --target null --direct", ["--direct is not an option of a null target"]),
        ("load --target null --arrival poisson", ["add --rate"]),
        ("load --rate 1 --think 1s --target null", ["closed loop"]),
        ("load --rate 1 --read 50% --target tcp://h:1", ["a file or a device"]),
        ("load bad.toml --block 1k --target null", ["a load without a file"]),
        ("load nothing.toml --target null", ["there is no file nothing.toml"]),
        ("load bad.toml --target null", ["bad.toml:2:8", "bad.toml:5:8"]),
        ("load --target null --samples no/such/dir", ["no directory"]),
        ("load --target null -- ls", ["does not run a command"]),
        ("replay a --target null --speed fast --window 1", ["--speed", "--window"]),
        ("replay a --target null --offsets wrap --scale-space", ["has another value"]),
        ("load --target null --target /x", ["--target: it is given twice", "[[target]]"]),
        ("replay a --target null --map sda=/x", ["--target and --map both name"]),
        ("replay a --devices sda --map sda=/x", ["--devices and --map both name"]),
        ("replay a --map sda=/x --map sda=/y", ["sda has two targets"]),
        ("replay a --map sda", ["no name or no value"]),
        ("replay a --map sda=dir:/x", ["the only one of its load"]),
        ("replay a --map sda=null --direct", ["none of the targets has --direct"]),
        ("replay - --map sda=null", ["can be read only once"]),
        ("replay a --target null --delay soon --quantize 0ms", ["--delay", "--quantize"]),
    ],
)
def test_bad_input_is_told_at_once(engine: Engine, words: str, parts: list[str]) -> None:
    bad = '[[filament]]\ntype = "x"\n[[filament]]\ntype = "open"\nrate = "x"\n'
    (engine.directory / "bad.toml").write_text(bad)
    done = engine.bw(*words.split())
    assert done.returncode == 2, done.stderr
    for part in parts:
        assert part in done.stderr
    assert "Traceback" not in done.stderr
    assert not (engine.directory / "request").exists(), "nothing was run"


def test_a_trial_of_a_study_is_the_same_load_without_the_study() -> None:
    from benchwright.features.load.session import trial_words

    words = [
        "load",
        "w.toml",
        "--study",
        "st",
        "--json",
        "--size=1G",
        "--samples=a",
        "--target",
        "null",
    ]
    expected = ["load", "w.toml", "--json", "--size=1G", "--target", "null", "--json", "--quiet"]
    assert trial_words(words) == expected
    told = ["--notify", "mail:a@b", "--notify-on=done", "--notify=env:A"]
    assert trial_words(["load", *told, "--rate", "1"])[:3] == ["load", "--rate", "1"]
    # The value of --live follows = only; values of others may look like options.
    live = ["load", "--live", "w.toml", "--live=80", "-v", "--think", "-1", "--target-port", "5"]
    assert trial_words(live)[:5] == ["load", "w.toml", "-v", "--think", "-1"]


@pytest.mark.parametrize(
    ("limit", "more", "status", "outcome"),
    [
        ("metric rate_per_s > 1000000000", (), 1, "failure"),
        ("metric rate_per_s > 1000000000", ("--no-fail",), 0, "failure"),
        ("metric rate_per_s > 1000000000", "no-fail = true", 0, "failure"),
        ("metric rate_per_s > 1", (), 0, "system-out"),
        ("metric response_ns_p99_99 < 1", (), 3, "error"),
    ],
)
def test_a_resumed_and_an_exported_load_have_the_limits_of_the_run(
    engine: Engine,
    monkeypatch: pytest.MonkeyPatch,
    limit: str,
    more: tuple[str, ...] | str,
    status: int,
    outcome: str,
) -> None:
    """`more`: options, or a line of a configuration file."""
    place = engine.directory
    # From p99.99 on, response times are unknown.
    answer = result(counts={**result()["counts"], "errors": 30})
    engine.answers(answer)
    words = ("load", "--rate", "1k", "--target", "null", "--limit", limit)
    settings = place / "config.toml"
    monkeypatch.setenv("BW_CONFIG", str(settings))
    settings.write_text("")
    if isinstance(more, str):
        settings.write_text(f"[load]\n{more}\n")
        whole = engine.bw(*words, "--study", "whole", "--quiet")
        assert whole.returncode == status, whole.stderr
    else:
        words = (*words, *more)
    engine.answers_when_interrupted(answer)
    running = subprocess.Popen(
        [
            *(sys.executable, "-m", "benchwright.cli.main", *words),
            *("--study", "st", "--junit", "first.xml", "--quiet"),
        ],
        cwd=place,
        env=engine.environment,
    )
    while not (place / "ready").exists():
        assert running.poll() is None
        time.sleep(0.02)
    running.send_signal(signal.SIGINT)
    assert running.wait(60) == 130
    engine.answers(answer)
    settings.write_text("")
    resumed = engine.bw("resume", "st", "--quiet")
    assert resumed.returncode == status, resumed.stderr
    ended = engine.bw("resume", "st", "--quiet")
    assert (ended.returncode, ended.stdout) == (0, "")
    assert "nothing to resume" in ended.stderr
    told = engine.bw("export", "st", "--format", "junit")
    for text in ((place / "first.xml").read_text(), told.stdout):
        cases = ElementTree.fromstring(text.encode()).iter("testcase")
        (case,) = [one for one in cases if one.get("name") == limit]
        assert [one.tag for one in case] == [outcome]


def test_a_study_keeps_the_document_and_the_samples(engine: Engine) -> None:
    words = ("load", "--rate", "1k", "--target", "null", "--samples", "all.bw")
    done = engine.bw(*words, "--study", "st", "--quiet")
    assert done.returncode == 0, done.stderr
    assert "issue error" in done.stdout
    place = engine.directory / "st/logs/s1/samples/all.bw"
    assert engine.request["samples"] == str(place)
    assert place.parent.is_dir()
    output = engine.directory / "st/logs/s1/load/exec-1.out.gz"
    kept = json.loads(gzip.decompress(output.read_bytes()))
    assert kept["result"]["counts"]["completed"] == 49_990
    told = engine.bw("stats", "st", "--json")
    codes = {finding["code"] for finding in json.loads(told.stdout)["findings"]}
    assert "operations-failed" in codes, "what the load doubted is in the study"


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (("--bs=4k", "--iodepth", "8"), "--bs: here --block 4k\n  = --iodepth: here"),
        (("-R", "500", "-d", "10s"), "-d: here --duration"),
        (("--nonsense",), "unrecognized arguments: --nonsense"),
        (("http://h/",), "http://h/ is a target, not a file"),
        (("null",), "null is a target, not a file"),
        (("http://h/",), "--target http://h/"),
        (("nosuch.toml",), "there is no file nosuch.toml"),
        (("binary",), "for a trace: bw replay"),
    ],
)
def test_the_first_mistakes_of_who_knows_another_tool(
    engine: Engine, words: tuple[str, ...], part: str
) -> None:
    (engine.directory / "binary").write_bytes(b"\x1f\x8b\xff")
    done = engine.bw("load", *words)
    assert done.returncode == 2
    assert part in done.stderr
    assert "suite" not in done.stderr
    assert "Traceback" not in done.stderr
