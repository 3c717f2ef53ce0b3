"""benches/peak_real.py with a stand-in for `bw`: what is kept, what goes on, and what a late
generator counts as."""

from __future__ import annotations

import contextlib
import itertools
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benches"))
import peak_real
from parts import real_servers
from parts.rate_ladder import Outcome
from parts.real_servers import RealServer, Refused, Running

sys.path.pop(0)

PEAK = 730.0
BW = f'''#!{sys.executable} -IS
"""Stands for bw: a server of {PEAK:g}/s, and searches that say what ANSWER has."""
import json, pathlib, sys

words = sys.argv[1:]
value = lambda name: words[words.index(name) + 1] if name in words else None
with open("{{calls}}", "a") as calls:
    print(words[0], value("--rate"), value("--policy"), file=calls)
if words[0] == "peak":
    print(pathlib.Path("{{answer}}").read_text())
    sys.exit(3)
rate = float(value("--rate") or 900)
p99 = 5.0 if rate < {PEAK} else 500.0
statistics = {{{{"mean": p99 * 1e6, "p50": p99 * 1e6, "p90": p99 * 1e6, "p99": p99 * 1e6}}}}
print(json.dumps({{{{
    "result": {{{{"counts": {{{{"intended": 1000}}}}, "offered_rate_per_s": rate, "achieved_rate_per_s": rate,
                "lateness_ns": {{{{"p99": 1000}}}},
                "kinds": {{{{"all": {{{{"response_ns": statistics, "service_ns": statistics}}}}}}}}}}}},
    "limits": [{{{{"limit": "p99 < 20ms", "outcome": "", "value": p99, "bound": 20.0, "unit": "ms"}}}}],
    "response_known_to": 1.0, "findings": []}}}}))
'''
ANSWER: dict[str, Any] = {
    "status": "budget",
    "peak_rate": 60.0,
    "interval": [40.0, 90.0],
    "seconds": 20.0,
    "trials": [{}, {}],
    "findings": [{"code": "generator-late", "severity": "warning"}],
}


class Bench:
    """The bench with the stand-in, in a directory."""

    def __init__(self, place: Path) -> None:
        self.out = place / "out"
        self.calls, self.answer = place / "calls", place / "answer"
        self.bw = place / "bin" / "bw"
        self.bw.parent.mkdir()
        self.bw.write_text(BW.format(calls=self.calls, answer=self.answer))
        self.bw.chmod(0o755)
        self.says()

    def says(self, **members: Any) -> None:
        """Let searches answer this from now on."""
        self.answer.write_text(json.dumps(ANSWER | members))

    def main(self, *words: str) -> int:
        """Run it with two players; one round of the ladder before the searches, unless others are
        said."""
        who = ("--bw", f"ours={self.bw}", "--policy", "binsearch-honest")
        where = ("--only", "made-up", "--place", "alone", "--out", str(self.out))
        return peak_real.main([*who, *where, "--before", "1", "--after", "0", "--busy", *words])

    def made(self) -> int:
        """Return how often `bw` was run."""
        return len(self.calls.read_text().splitlines())


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    @contextlib.contextmanager
    def run(_: Path) -> Iterator[Running]:
        yield Running(("--target", f"tcp://127.0.0.1:{real_servers.free_port()}"))

    server = RealServer("made-up", run, (), ("p99 < 20ms",))
    monkeypatch.setitem(real_servers.SERVERS, "made-up", server)
    monkeypatch.setattr(peak_real.signal, "signal", lambda *_: None)
    # main() sets them for what it starts.
    for name in ("PATH", "BW_CONFIG"):
        monkeypatch.setenv(name, peak_real.os.environ.get(name, ""))
    return Bench(tmp_path)


def test_searches_and_rounds_take_turns_and_wrong_answers_are_counted(
    bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    assert bench.main("--repetitions", "2", "--before", "2") == 1
    calls = [line.split() for line in bench.calls.read_text().splitlines()]
    searches = [number for number, call in enumerate(calls) if call[0] == "peak"]
    assert [calls[number][2] for number in searches] == [
        *("binsearch-honest", "None", "None", "binsearch-honest")
    ], "who begins changes"
    rounds = [b - a - 1 for a, b in itertools.pairwise(searches)]
    assert all(2 <= one <= 4 for one in rounds), "a round between two searches"
    line, _ = peak_real.lines(peak_real.Record(bench.out))
    assert line.truth.low is not None
    assert line.truth.high is not None
    assert 0.9 * PEAK < line.truth.low < PEAK <= line.truth.high < 1.1 * PEAK
    assert [one.is_wrong for one in line.searches] == [True, True]
    assert "4 off by a factor above 1.2" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("members", "status"),
    [
        ({"peak_rate": 735.0, "status": "found", "interval": [720, 750]}, 0),
        ({"interval": [40.0, 900.0]}, 0),
        ({"interval": [40.0, None], "peak_rate": None}, 0),
        ({"status": "found"}, 1),
        ({"bound": "lower"}, 0),
        ({"bound": "upper"}, 1),
        ({"status": "never-fails", "interval": None}, 0),
        ({"findings": [{"code": "generator-late", "severity": "serious"}]}, 0),
    ],
)
def test_the_exit_status_says_whether_a_search_was_wrong(
    bench: Bench, members: dict[str, Any], status: int
) -> None:
    bench.says(**members)
    assert bench.main("--repetitions", "1") == status
    report = (bench.out / "report.md").read_text()
    assert report == peak_real.report(peak_real.Record(bench.out))


def test_it_goes_on_where_it_was_stopped(bench: Bench) -> None:
    bench.main("--repetitions", "1")
    file = bench.out / "runs.jsonl"
    whole, first = file.read_bytes(), bench.made()
    bench.main("--repetitions", "1")
    assert (file.read_bytes(), bench.made()) == (whole, first)
    # It was killed while it wrote the seventh run.
    lines = whole.splitlines(keepends=True)
    file.write_bytes(b"".join(lines[:6]) + lines[6][:50])
    bench.main("--repetitions", "1")
    again = [json.loads(line) for line in file.read_text().splitlines()]
    assert [one["key"] for one in again] == [json.loads(one)["key"] for one in lines]
    assert bench.made() == first + len(lines) - 6
    # Searches with other options are made, and replace those before; the fixed-rate runs are the
    # same.
    bench.main("--repetitions", "1", "--budget", "7s")
    assert bench.made() == first + len(lines) - 6 + 2
    assert all(len(line.searches) == 1 for line in peak_real.lines(peak_real.Record(bench.out)))


def test_a_run_without_a_result_is_named_and_made_again(
    bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    bench.answer.write_text("Traceback")
    assert bench.main("--repetitions", "1") == 1
    assert "without a result: made-up/alone search-1-ours" in capsys.readouterr().out
    bench.says(status="found", peak_rate=735.0)
    assert bench.main("--repetitions", "1") == 0


def test_a_server_that_cannot_run_is_named_and_the_others_are_measured(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    @contextlib.contextmanager
    def run(_: Path) -> Iterator[Running]:
        raise Refused("no disk can be limited here")
        yield

    bench.says(status="found", peak_rate=735.0)
    refused = RealServer("refused", run, (), ())
    monkeypatch.setitem(real_servers.SERVERS, "refused", refused)
    absent = RealServer("absent", run, ("no-such-program",), ())
    monkeypatch.setitem(real_servers.SERVERS, "absent", absent)
    words = ("--only", "refused", "--only", "absent", "--repetitions", "1")
    assert bench.main(*words) == 1
    printed = capsys.readouterr().out
    assert "refused/alone: no disk can be limited here" in printed
    assert "absent/alone: not installed: no-such-program" in printed
    assert "| made-up | alone |" in printed


def test_a_run_by_whose_p99_a_rate_is_judged_has_operations_for_it(bench: Bench) -> None:
    bench.main("--repetitions", "1", "--run", "0.2")
    record = peak_real.Record(bench.out)
    lengths = {
        run["rate"]: float(json.loads(run["key"])[7].removesuffix("s"))
        for run in record.of("made-up/alone")
        if run["rate"]
    }
    for rate, seconds in lengths.items():
        enough = rate * seconds == pytest.approx(300, rel=0.2)
        assert enough or seconds in (0.2, pytest.approx(0.6))
    assert len(set(lengths.values())) > 1


def load(
    value: float | None, service: float, late: float = 0.0, known: float = 1.0, **counts: int
) -> dict[str, Any]:
    """Return the document of a load with p99s [ms] and a limit of 20 ms."""
    return {
        "response_known_to": known,
        "limits": [
            {"limit": "p99 < 20ms", "value": value, "bound": 20.0, "unit": "ms"},
            {"limit": "errors < 1%", "value": 0.0, "bound": 0.01, "unit": ""},
        ],
        "result": {
            "counts": {"intended": 1000, **counts},
            "lateness_ns": {"p99": late * 1e6},
            "kinds": {"all": {"service_ns": {"p99": service * 1e6}}},
        },
    }


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        (load(19.0, 5.0, late=18.0), Outcome.HELD),
        (load(30.0, 25.0), Outcome.FAILED),
        (load(30.0, 5.0, late=20.0), Outcome.LATE),
        # The server was too slow as well.
        (load(60.0, 25.0, late=40.0), Outcome.FAILED),
        # Operations waited for the server, although none of them was late.
        (load(500.0, 5.0, late=1.0, held=900, held_late=10), Outcome.FAILED),
        # They found no place because the generator came late.
        (load(500.0, 5.0, late=1.0, held=900, held_late=800), Outcome.LATE),
        (load(None, 5.0, known=0.9), Outcome.FAILED),
        (load(30.0, 5.0, late=20.0, errors=300), Outcome.FAILED),
        (load(5.0, 5.0, unfinished=300), Outcome.FAILED),
        ({}, Outcome.NONE),
        (load(5.0, 5.0, intended=0), Outcome.NONE),
    ],
)
def test_what_only_the_generator_exceeded_is_no_failure_of_the_server(
    document: dict[str, Any], expected: Outcome
) -> None:
    assert peak_real.outcome(document) is expected


@pytest.mark.parametrize(
    ("limit", "service", "expected"),
    [
        ("p95 first < 20ms", 5.0, Outcome.LATE),
        ("p95 first < 20ms", 25.0, Outcome.FAILED),
        # It begins with the first token.
        ("p95 tpot < 20ms", 5.0, Outcome.FAILED),
    ],
)
def test_a_first_token_is_late_with_its_operation_and_a_time_per_token_is_not(
    limit: str, service: float, expected: Outcome
) -> None:
    document = load(30.0, 5.0)
    document["limits"][0]["limit"] = limit
    document["result"]["lateness_ns"]["p95"] = 20e6
    document["result"]["streams"] = {"first_service_ns": {"p95": service * 1e6}}
    assert peak_real.outcome(document) is expected
