"""Peak rates of real servers, alone and beside a neighbour, beside what the servers really sustain.

Each server of parts/real_servers.py runs twice: alone, and beside a process that uses one CPU, on
and off for 10 to 30 s each. There `bw peak` searches it several times. The truth is measured over
the same time: before, between and after the searches each a round of fixed-rate runs (`bw load
--rate`) in random order on a ladder of rates; the ladder begins with rates by what a closed loop
completes, and every later round has its rates where runs turned from held to failed
(parts/rate_ladder.py). With --bw and --policy other versions and policies search the same server in
turn, with the same budget. Only the JSON of `bw` is read, and every fixed-rate run is made by the
first `bw`.

The machine must be quiet otherwise. Every run is a line of OUT/runs.jsonl as it ends, the whole
document of each search is in OUT/documents, and the report is OUT/report.md. The same command goes
on where it was stopped. The exit status is 1 if an answer is off by more than 20 % without a
serious finding, if a server was not measured, or if a run has no result.

Usage: peak_real.py [--only nginx-static] [--place alone] [--bw [NAME=]PATH]... [--policy NAME]...
[--repetitions N] [--budget 60s] [--out DIR] [--report] [--quick]
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import platform
import random
import re
import signal
import statistics
import subprocess
import sys
import time
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from parts import busy_machine, real_servers
from parts.busy_machine import add_busy_option, refuse_busy
from parts.rate_ladder import (
    FAR,
    Answer,
    Judged,
    Outcome,
    Region,
    Run,
    first_rates,
    is_open,
    judged,
    next_rates,
    region,
)
from parts.real_servers import SERVERS, RealServer, Refused, Running

Document = dict[str, Any]
PLACES = ("alone", "neighbour")
NEIGHBOUR = Path(__file__).parent / "parts" / "neighbour.py"
TURN_S = 20.0
"""How long the neighbour is on, and off, in the mean."""
DRAIN_S = 2.0
"""How long a fixed-rate run waits for its last operations: many times each limit."""
PROBE = "2s"
"""Length of the closed loop."""
FOR_P99 = 300
"""Operations of a run by whose p99 it is judged: three of them are slower."""
LONGEST = 3
PATIENCE_S = 3600.0
ROUNDS_BEFORE = 2
"""Rounds of the ladder before the first search; one more follows each search."""
ROUNDS_AFTER = 3
"""Further rounds at the end, at most, as long as the region has no end at a side."""
BOUNDS = {"never-fails": "lower", "fails-at-lowest": "upper"}
"""Of versions whose documents do not say that an answer is a bound."""
QUICK: Document = {
    "only": list(real_servers.QUICK_ONES),
    "repetitions": 1,
    "budget": "20s",
    "run": 2.0,
    "turn": 5.0,
    "before": 1,
    "after": 1,
}


class Player(NamedTuple):
    """A version of `bw`, or a policy of the first one, that searches."""

    name: str
    bw: str
    words: tuple[str, ...] = ()


class Cell(NamedTuple):
    """A server in a place: alone, or beside the neighbour."""

    server: RealServer
    place: str

    @property
    def name(self) -> str:
        """Return its name on record."""
        return f"{self.server.name}/{self.place}"


class Step(NamedTuple):
    """One run of `bw`."""

    cell: Cell
    name: str
    """`probe`, `ladder-3-1`, `search-2-bw`."""
    bw: str
    command: str
    words: tuple[str, ...]
    rate: float | None = None
    """Of a run at a fixed rate [1/s]."""
    player: str = ""

    @property
    def key(self) -> str:
        """Return what must be the same for a run on record to count; the address of the server is
        not."""
        return json.dumps([self.cell.name, self.name, self.bw, self.command, *self.words])


# -- what is on record ---------------------------------------------------------------------------


class Record:
    """The runs of OUT/runs.jsonl, by cell and step: one with other options replaces the one before."""

    def __init__(self, out: Path) -> None:
        self.out = out
        self._file = out / "runs.jsonl"
        self._runs: dict[tuple[str, str], Document] = {}
        whole = self._file.read_text() if self._file.exists() else ""
        # A line that was cut when the measurement was ended has no end.
        whole = whole[: whole.rfind("\n") + 1]
        for line in whole.splitlines():
            one = json.loads(line)
            self._runs[one["cell"], one["step"]] = one
        if self._file.exists():
            self._file.write_text(whole)

    def get(self, step: Step) -> Document | None:
        """Return the run of a step, if it is on record with a document and the same options."""
        run = self._runs.get((step.cell.name, step.name))
        is_same = run is not None and run["key"] == step.key and not run["trouble"]
        return run if is_same else None

    def add(self, run: Document) -> None:
        """Add a run."""
        self._runs[run["cell"], run["step"]] = run
        with self._file.open("a") as lines:
            lines.write(json.dumps(run) + "\n")

    def of(self, cell: str) -> list[Document]:
        """Return the runs of a cell, in the order in which they were made."""
        return [run for run in self._runs.values() if run["cell"] == cell]

    def cells(self) -> list[str]:
        """Return the cells that have runs, in their order."""
        return list(dict.fromkeys(run["cell"] for run in self._runs.values()))


# -- one run -------------------------------------------------------------------------------------


class Stage:
    """The server of a cell and its neighbour: started for the first run that is not on record."""

    def __init__(self, cell: Cell, asked: argparse.Namespace, record: Record) -> None:
        self._cell, self._asked, self._record = cell, asked, record
        self._stack = contextlib.ExitStack()
        self._running: Running | None = None
        self._place = Path()
        self._log: Path | None = None

    def __enter__(self) -> Stage:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def do(self, step: Step) -> Document:
        """Return the run of a step, from the record or made now. Raises Refused if there can be no
        server."""
        known = self._record.get(step)
        if known is not None:
            return known
        running = self._started()
        load = os.getloadavg()[0]
        begin, began_ns = busy_machine.now(), time.monotonic_ns()
        document, status, trouble = self._bw(step, running)
        busy = busy_machine.since(begin)
        run: Document = {
            "key": step.key,
            "cell": self._cell.name,
            "step": step.name,
            "player": step.player,
            "rate": step.rate,
            "exit_status": status,
            "trouble": trouble,
            "cpus": len(os.sched_getaffinity(0)),
            "load_average_before": load,
            "busy": busy._asdict(),
            "neighbour_share": self._neighbour_share(began_ns, time.monotonic_ns()),
            **(_search(document) if step.command == "peak" else _load(document)),
        }
        if step.command == "peak":
            place = self._record.out / "documents" / self._cell.name
            place.mkdir(parents=True, exist_ok=True)
            (place / f"{step.name}.json").write_text(json.dumps(document))
        self._record.add(run)
        print(row(run), flush=True)
        return run

    def _started(self) -> Running:
        if self._running is None:
            self._place = self._stack.enter_context(real_servers.own_place())
            server = self._cell.server.run(self._place)
            self._running = self._stack.enter_context(server)
            if self._cell.place == "neighbour":
                self._log = self._place / "neighbour.json"
                words = ("one", "--log", self._log, "--turn", str(self._asked.turn))
                seed = ("--seed", str(self._asked.seed))
                self._stack.enter_context(
                    real_servers.process(self._place, sys.executable, NEIGHBOUR, *words, *seed)
                )
        return self._running

    def _bw(self, step: Step, running: Running) -> tuple[Document, int, str]:
        """Run `bw`; return its document, its exit status and the end of what it said where there is
        no document."""
        words = [*running.prefix, step.bw, step.command, *running.words, *step.words]
        process = subprocess.Popen(
            [*words, "--json", "--quiet"],
            cwd=self._place,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            out, err = process.communicate(timeout=PATIENCE_S)
            return json.loads(out), process.returncode, ""
        except subprocess.TimeoutExpired:
            return {}, -1, f"did not end within {PATIENCE_S:g} s"
        except json.JSONDecodeError:
            said = " ".join(err.split())[-400:]
            return {}, process.returncode, f"exit status {process.returncode}: {said}"
        finally:
            real_servers.stop(process)

    def _neighbour_share(self, begin_ns: int, end_ns: int) -> float:
        """Return the share of a time during which the neighbour was on."""
        if self._log is None or not self._log.exists():
            return 0.0
        known = json.loads(self._log.read_text())
        begin, end = ((at - known["began_ns"]) / 1e9 for at in (begin_ns, end_ns))
        on = sum(max(0.0, min(b, end) - max(a, begin)) for a, b in known["on_s"])
        return float(on / max(end - begin, 1e-9))


def _load(document: Document) -> Document:
    """Return what is kept of a load."""
    result = document.get("result") or {}
    known = (result.get("kinds") or {}).get("all") or {}
    limits = document.get("limits") or []
    return {
        "outcome": outcome(document),
        "limits": [
            {key: one.get(key) for key in ("limit", "outcome", "value", "bound")} for one in limits
        ],
        "offered_rate": result.get("offered_rate_per_s"),
        "achieved_rate": result.get("achieved_rate_per_s"),
        "counts": result.get("counts"),
        "lateness_ms": _percentiles(result.get("lateness_ns")),
        "response_ms": _percentiles(known.get("response_ns")),
        "service_ms": _percentiles(known.get("service_ns")),
        "findings": _findings(document),
    }


def _percentiles(recorded: Document | None) -> Document:
    names = ("mean", "p50", "p90", "p99")
    values = {name: (recorded or {}).get(name) for name in names}
    return {name: ns / 1e6 for name, ns in values.items() if ns is not None}


def outcome(document: Document) -> Outcome:
    """Return whether a run at a fixed rate held its limits.

    It is late, and no evidence, if a limit of a response time is exceeded only by the lateness of
    the generator: neither the time from the real start of an operation to its end exceeds it, nor
    what is left of the response without the lateness of the operations that did not wait for the
    server, or most of those that did were late before.
    """
    result = document.get("result") or {}
    counts, limits = result.get("counts") or {}, document.get("limits") or []
    if not counts.get("intended") or not limits:
        return Outcome.NONE
    if (document.get("response_known_to") or 0.0) < 0.99:
        return Outcome.FAILED
    exceeded = [
        one
        for one in limits
        if one["value"] is None or one["value"] > one["bound"] or _is_lost(counts)
    ]
    if not exceeded:
        return Outcome.HELD
    late = all(_is_late(one, result) for one in exceeded)
    return Outcome.LATE if late and not _is_lost(counts) else Outcome.FAILED


def _is_lost(counts: Document) -> bool:
    """Return whether more than 1 % of the operations have no response."""
    names = ("errors", "dropped", "skipped", "unfinished", "waiting")
    lost = sum(counts.get(name) or 0 for name in names)
    return bool(lost > 0.01 * counts["intended"])


def _is_late(limit: Document, result: Document) -> bool:
    """Return whether the generator alone exceeded a limit."""
    if limit.get("unit") != "ms" or limit["value"] is None:
        return False
    found = re.search(r"\bp(\d+)", limit["limit"])
    statistic = f"p{found.group(1)}" if found else "mean"
    if " tpot " in limit["limit"]:
        # It begins with the first event, whenever the operation started.
        return False
    if " first " in limit["limit"]:
        served = result["streams"]["first_service_ns"]
    else:
        served = result["kinds"]["all"]["service_ns"]
    service = served.get(statistic)
    late = (result.get("lateness_ns") or {}).get(statistic) or 0.0
    if service is None or service / 1e6 > limit["bound"]:
        return False
    counts = result["counts"]
    came_late = (counts.get("held_late") or 0) > 0.5 * (counts.get("held") or 0)
    return bool(limit["value"] - late / 1e6 <= limit["bound"] or came_late)


def _search(document: Document) -> Document:
    """Return what is kept of a search."""
    keys = ("status", "detail", "peak_rate", "interval", "claim", "claim_probability")
    times = ("bound", "check", "seconds", "load_s", "policy", "seed")
    return {
        **{key: document.get(key) for key in (*keys, *times)},
        "trials": len(document.get("trials") or ()),
        "findings": _findings(document),
    }


def _findings(document: Document) -> list[tuple[str, str]]:
    """Return code and severity of each finding, once."""
    found = ((one["code"], one["severity"]) for one in document.get("findings") or ())
    return list(dict.fromkeys(found))


# -- the runs of a cell --------------------------------------------------------------------------


def measure(cell: Cell, asked: argparse.Namespace, record: Record) -> None:
    """Make all runs of a cell that are not on record. Raises Refused."""
    players = players_of(asked)
    limits = tuple(word for one in cell.server.limits for word in ("--limit", one))
    ladder: list[Run] = []
    with Stage(cell, asked, record) as stage:

        def climb() -> None:
            chance = random.Random(_seed(asked, cell, len(ladder)))
            rates = first if not ladder else next_rates(ladder, chance)
            chance.shuffle(rates)
            for rate in rates:
                step = _fixed(cell, asked, len(ladder) + 1, rate, limits)
                found = Outcome(stage.do(step)["outcome"])
                ladder.append(Run(rate, found))

        first = first_rates(_capacity(stage, cell, asked))
        for _ in range(asked.before):
            climb()
        for number in range(1, asked.repetitions + 1):
            turn = number % len(players)
            for player in (*players[turn:], *players[:turn]):
                stage.do(_searched(cell, asked, number, player, limits))
                climb()
        for _ in range(asked.after):
            if not is_open(ladder):
                break
            climb()


def _capacity(stage: Stage, cell: Cell, asked: argparse.Namespace) -> float:
    """Return what a closed loop completes [1/s], or the rate by which the ladder of a server
    begins."""
    if not cell.server.depth:
        return cell.server.begin_rate
    words = ("--depth", str(cell.server.depth), "--duration", PROBE, "--no-fail")
    probe = stage.do(Step(cell, "probe", asked.bw[0][1], "load", words))
    if not probe.get("achieved_rate"):
        raise Refused(f"bw load: {probe['trouble'] or probe['findings']}")
    return float(probe["achieved_rate"])


def _fixed(
    cell: Cell, asked: argparse.Namespace, number: int, rate: float, limits: tuple[str, ...]
) -> Step:
    """Return a run at a fixed rate; `number` is its place in the ladder."""
    seconds = _length_s(asked.run or cell.server.run_s, rate, limits)
    seed = _seed(asked, cell, number) % 2**31
    words = (
        *("--rate", f"{rate:g}", "--duration", f"{seconds:g}s", "--no-fail"),
        *("--drain", f"{DRAIN_S:g}s", "--seed", str(seed)),
    )
    name = f"ladder-{number}"
    every = (*words, *cell.server.fixed, *limits)
    return Step(cell, name, asked.bw[0][1], "load", every, rate)


def _length_s(usual_s: float, rate: float, limits: tuple[str, ...]) -> float:
    """Return the length of a run at a rate [s]: longer, up to `LONGEST` times, where a percentile
    needs more operations."""
    if not any("p99" in limit for limit in limits):
        return usual_s
    return round(min(max(usual_s, FOR_P99 / rate), LONGEST * usual_s), 1)


def _searched(
    cell: Cell, asked: argparse.Namespace, number: int, player: Player, limits: tuple[str, ...]
) -> Step:
    """Return the search of a player in a repetition."""
    seed = str(asked.seed + number)
    budget = ("--budget", asked.budget or cell.server.budget)
    name = f"search-{number}-{player.name}"
    study = ("--study", f"study-{name}")
    words = (*budget, "--seed", seed, *limits, *study, *player.words)
    return Step(cell, name, player.bw, "peak", words, player=player.name)


def _seed(asked: argparse.Namespace, cell: Cell, number: int) -> int:
    """Return a seed that a place in a cell always has."""
    return zlib.crc32(f"{asked.seed} {cell.name} {number}".encode())


def players_of(asked: argparse.Namespace) -> list[Player]:
    """Return who searches: each `bw`, and each policy of the first one."""
    ours = [Player(name, path) for name, path in asked.bw]
    first = asked.bw[0][1]
    named = [Player(one, first, ("--policy", one)) for one in asked.policy]
    return [*ours, *named]


# -- the report ----------------------------------------------------------------------------------


class Line(NamedTuple):
    """The searches of a player in a cell."""

    cell: str
    player: str
    truth: Region
    searches: list[Judged]
    runs: list[Document]


def lines(record: Record) -> list[Line]:
    """Return every player in every cell."""
    found = []
    for cell in record.cells():
        runs = record.of(cell)
        truth = truth_of(runs)
        searches = [run for run in runs if run["player"]]
        for player in dict.fromkeys(run["player"] for run in searches):
            own = [run for run in searches if run["player"] == player]
            verdicts = [judged(answer_of(run), truth) for run in own]
            found.append(Line(cell, player, truth, verdicts, own))
    return found


def truth_of(runs: Sequence[Document]) -> Region:
    """Return the region that the fixed-rate runs of a cell leave open."""
    ladder = [Run(run["rate"], Outcome(run["outcome"])) for run in runs if run["rate"] is not None]
    return region(ladder)


def answer_of(run: Document) -> Answer:
    """Return what a search says."""
    low, high = run.get("interval") or (None, None)
    return Answer(
        status=run.get("status") or "no answer",
        peak=run.get("peak_rate"),
        low=low,
        high=high,
        serious=any(severity == "serious" for _, severity in run["findings"]),
        bound=run.get("bound") or BOUNDS.get(run.get("status") or ""),
    )


HEADER = (
    "| server | place | searched by | true region/s | fixed runs (late) | searches | found "
    "| inside (found) | undecided (width) | worst found | worst best guess | wrong (warned) | median s |\n"
    + "|---" * 13
    + "|"
)


def report(record: Record) -> str:
    """Return the report as Markdown."""
    every = lines(record)
    runs = [run for cell in record.cells() for run in record.of(cell)]
    players = list(dict.fromkeys(line.player for line in every))
    cells = [HEADER, *map(_line_row, every)]
    totals = [
        _total_row(player, place, [line for line in every if _is_in(line, place)])
        for player in players
        for place in (*PLACES, "both")
    ]
    texts = [_machine(runs), "\n".join([*cells, *filter(None, totals)])]
    texts += [_open_ones(every), _every_search(every)]
    return "\n\n".join(filter(None, texts)) + "\n"


def _machine(runs: Sequence[Document]) -> str:
    if not runs:
        return "no runs"
    load = [run["load_average_before"] for run in runs]
    steal = [run["busy"]["steal_share"] for run in runs]
    hours = sum(run["busy"]["lasted_s"] for run in runs) / 3600
    return (
        f"{runs[0]['cpus']} CPUs, Linux {platform.release()}; {len(runs)} runs, {hours:.1f} h; load average before a "
        f"run {statistics.median(load):.1f} in the median, {max(load):.1f} at most; CPU steal {100 * max(steal):.1f} % at most"
    )


def _is_in(line: Line, place: str) -> bool:
    return place == "both" or line.cell.endswith(f"/{place}")


def _figures(searches: Sequence[Judged], runs: Sequence[Document]) -> tuple[str, ...]:
    """Return the columns from `searches` on."""
    found = [one for one in searches if one.answer.is_found]
    inside = [one for one in searches if one.is_inside]
    far = [one for one in searches if one.off > FAR]
    wrong = [one for one in far if one.is_wrong]
    seconds = [run["seconds"] or run["busy"]["lasted_s"] for run in runs]
    return (
        str(len(searches)),
        str(len(found)),
        f"{len(inside)} ({len([one for one in found if one.is_inside])})",
        _undecided([one for one in searches if not one.answer.is_found]),
        f"{max((one.off for one in found), default=1.0):.2f}" if found else "",
        f"{max((one.best_off for one in searches), default=1.0):.2f}",
        f"{len(wrong)} ({len(far) - len(wrong)})",
        f"{statistics.median(seconds):.0f}",
    )


def _undecided(searches: Sequence[Judged]) -> str:
    """Return the number of searches, and the median ratio of the ends of their intervals."""
    ends = [(one.answer.low, one.answer.high) for one in searches]
    widths = [high / low for low, high in ends if low and high]
    width = f" ({statistics.median(widths):.3g})" if widths else ""
    return f"{len(searches)}{width}"


def _line_row(line: Line) -> str:
    server, place = line.cell.split("/")
    truth = f"{line.truth.runs} ({line.truth.late})"
    cells = (server, place, line.player, region_text(line.truth), truth)
    return "| " + " | ".join((*cells, *_figures(line.searches, line.runs))) + " |"


def _total_row(player: str, place: str, every: Sequence[Line]) -> str:
    own = [line for line in every if line.player == player]
    searches = [one for line in own for one in line.searches]
    if not searches:
        return ""
    runs = [run for line in own for run in line.runs]
    cells = ("**all**", place, player, "", "", *_figures(searches, runs))
    return "| " + " | ".join(cells) + " |"


def region_text(truth: Region) -> str:
    """Return a region in words: `2,310 to 2,547`."""
    low = _rate(truth.low) or "?"
    return f"{low} or more" if truth.high is None else f"{low} to {_rate(truth.high)}"


def _open_ones(every: Sequence[Line]) -> str:
    """Return how often searches ended undecided as what, with which findings."""
    counts: dict[tuple[str, ...], int] = {}
    for line in every:
        for one, run in zip(line.searches, line.runs, strict=True):
            if not one.answer.is_found:
                codes = ", ".join(
                    f"{code} ({severity})" if severity == "serious" else code
                    for code, severity in run["findings"]
                )
                key = (line.player, one.answer.status, codes or "none")
                counts[key] = counts.get(key, 0) + 1
    if not counts:
        return ""
    head = "Searches without an answer:\n\n| searched by | ended as | findings | searches |\n|---|---|---|---|"
    rows = [f"| {' | '.join(key)} | {n} |" for key, n in sorted(counts.items())]
    return "\n".join([head, *rows])


def _every_search(every: Sequence[Line]) -> str:
    """Return each search as a row."""
    head = (
        "Every search:\n\n| server | place | search | ended as | answer/s | interval | true region/s | off "
        "| best guess off | s | load | neighbour | findings |\n" + "|---" * 13 + "|"
    )
    rows = [head]
    for line in every:
        for one, run in zip(line.searches, line.runs, strict=True):
            answer, codes = one.answer, [code for code, _ in run["findings"]]
            mark = " **wrong**" if one.is_wrong else ""
            cells = (
                *line.cell.split("/"),
                run["step"],
                answer.status + (f": {run['trouble']}" if run["trouble"] else ""),
                _rate(answer.peak),
                f"{_rate(answer.low)} to {_rate(answer.high)}",
                region_text(line.truth),
                f"{one.off:.2f}{mark}",
                f"{one.best_off:.2f}",
                f"{run['seconds'] or run['busy']['lasted_s']:.0f}",
                f"{run['load_average_before']:.1f}",
                f"{100 * run['neighbour_share']:.0f} %",
                ", ".join(codes),
            )
            rows.append("| " + " | ".join(cells) + " |")
    return "\n".join(rows)


def _rate(rate: float | None) -> str:
    if rate is None or math.isinf(rate):
        return ""
    return f"{rate:,.0f}" if rate >= 1000 else f"{rate:.4g}"


def row(run: Document) -> str:
    """Return a run as a line of the progress."""
    at = time.strftime("%H:%M:%S", time.localtime(run["busy"]["began_s"]))
    said = f"{_rate(run['rate'])}/s {run.get('outcome')}" if run["rate"] else ""
    if run["player"]:
        low, high = run.get("interval") or (None, None)
        said = f"{run['status']} {_rate(run.get('peak_rate'))}/s ({_rate(low)} to {_rate(high)})"
    elif not said:
        said = f"{_rate(run.get('achieved_rate'))}/s completed"
    values = " ".join(
        f"{one['value']:.3g}" for one in run.get("limits", ()) if one["value"] is not None
    )
    codes = ",".join(code for code, _ in run["findings"])
    return (
        f"{at} {run['cell']} {run['step']}: {said} {values} [{run['busy']['lasted_s']:.1f} s, load "
        f"{run['load_average_before']:.1f}, neighbour {100 * run['neighbour_share']:.0f} %] {codes}"
        + (f" TROUBLE: {run['trouble']}" if run["trouble"] else "")
    )


# -- the command line ----------------------------------------------------------------------------


def arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
    """Return the options of a command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", choices=sorted(SERVERS), action="append")
    parser.add_argument("--place", choices=PLACES, action="append")
    parser.add_argument("--bw", type=_named_bw, action="append", metavar="[NAME=]PATH")
    parser.add_argument(
        "--policy", action="append", default=[], help="searches too, by the first bw"
    )
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--budget", help="of each search (default: the server's)")
    parser.add_argument("--run", type=float, help="length of a fixed-rate run [s]")
    parser.add_argument("--before", type=int, default=ROUNDS_BEFORE, help="rounds")
    parser.add_argument("--after", type=int, default=ROUNDS_AFTER, help="rounds")
    parser.add_argument("--turn", type=float, default=TURN_S, help="of the neighbour [s]")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("target/peak-real"))
    parser.add_argument("--report", action="store_true", help="print it, run nothing")
    parser.add_argument("--quick", action="store_true", help="three servers, briefly")
    add_busy_option(parser)
    asked = parser.parse_args(words)
    if asked.quick:
        for name, value in QUICK.items():
            if getattr(asked, name) == parser.get_default(name):
                setattr(asked, name, value)
    asked.bw = asked.bw or [("bw", str(Path(sys.executable).with_name("bw")))]
    return asked


def _named_bw(text: str) -> tuple[str, str]:
    """Return the name and the path of a `bw`."""
    name, _, path = text.rpartition("=")
    found = os.path.abspath(path)
    if not os.access(found, os.X_OK):
        raise argparse.ArgumentTypeError(f"{path}: no such program")
    return name or Path(found).parents[2].name, found


def cells_of(asked: argparse.Namespace) -> Iterator[Cell]:
    """Yield the cells that are asked for."""
    names = asked.only or [server.name for server in real_servers.MATRIX]
    for name in names:
        for place in asked.place or PLACES:
            yield Cell(SERVERS[name], place)


def measured(asked: argparse.Namespace, record: Record) -> list[str]:
    """Measure every cell; return which were not, and why."""
    refused = []
    for cell in cells_of(asked):
        if cell.server.missing:
            missing = ", ".join(cell.server.missing)
            refused.append(f"{cell.name}: not installed: {missing}")
            continue
        try:
            measure(cell, asked, record)
        except Refused as error:
            refused.append(f"{cell.name}: {error}")
        (record.out / "report.md").write_text(report(record))
    return refused


def main(words: Sequence[str] | None = None) -> int:
    """Measure, and print the report; return the exit status."""
    asked = arguments(words)
    os.environ["PATH"] = os.environ.get("PATH", os.defpath) + ":/usr/sbin:/sbin"
    os.environ["BW_CONFIG"] = os.devnull
    asked.out.mkdir(parents=True, exist_ok=True)
    record = Record(asked.out)
    refused: list[str] = []
    if not asked.report:
        # So that servers and neighbours are ended too.
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
        refuse_busy(asked.busy)
        refused = measured(asked, record)
    print(report(record))
    for text in refused:
        print(f"not measured: {text}")
    broken = [run for cell in record.cells() for run in record.of(cell)]
    broken = [run for run in broken if run["trouble"]]
    for run in broken:
        print(f"without a result: {run['cell']} {run['step']}: {run['trouble']}")
    wrong = [one for line in lines(record) for one in line.searches if one.is_wrong]
    print(f"\n{len(wrong)} off by a factor above {FAR:g} without a serious finding")
    return int(bool(wrong or refused or broken))


if __name__ == "__main__":
    sys.exit(main())
