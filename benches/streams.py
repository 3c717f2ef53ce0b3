"""How wrong clients are about the times of streams: the engine beside AIPerf and guidellm, against
the server's own stamps.

benches/stream-server answers each request with 100 tokens, the first after 50 ms, then one every 10
ms, and records when it wrote each. Every client sees 1, 100, 500 and 1,000 streams: started all at
once, and as an open loop with so many in progress; alone, and beside a neighbour that computes on
one CPU half of the time. The error of a stream is the time to the first token that the client
reports minus the server's, from the kernel's stamp of the request's arrival to the write. Those of
the mean, of a percentile and of gaps are differences of what the client reports of all streams and
the truth. The engine has rows of 300 streams; the last two columns are what it says of its own
reads. Then an open loop during which the server is stopped for one second (--part stall), without
and with a limit of streams in progress, which makes those that are due wait in the client. And
(--part shapes) whether each client finds the events of the fourteen shapes of streams that the
tests have, tests/stand_ins/event_server.py.

A run is one line of OUT/runs.jsonl. The same command with the same --out goes on where it was
stopped, and prints the tables of what is there: medians over rounds. Nobody else should use the
machine meanwhile; the load average of each run is in its line.

Usage: streams.py [--rounds N] [--out DIR] [--part matrix|stall|shapes] [--tables]
(peers by scripts/stream_peers.sh; without them the engine alone)
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from parts import busy_machine
from parts.busy_machine import add_busy_option, refuse_busy
from parts.device import machine
from parts.engine import EngineError
from parts.grid import lateness
from parts.stream_clients import (
    Asked,
    Client,
    ClientError,
    Peers,
    Said,
    engine,
    engine_counts,
    engine_said,
)

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "stand_ins"))

from event_server import SHAPES, event_server

Document = dict[str, Any]
Times = NDArray[np.int64]
ROOT = Path(__file__).parents[1]
TOKENS, FIRST_NS, GAP_NS = 100, 50_000_000, 10_000_000
LENGTH_S = (FIRST_NS + (TOKENS - 1) * GAP_NS) / 1e9
STREAMS = (1, 100, 500, 1000)
STARTS = ("at once", "open loop")
PLACES = ("alone", "neighbour")
OPEN_S = 5.0
"""Of the open loops."""
STALLED_RATE_PER_S, STALLED_RUN_S, STALL_S = 50.0, 6.0, 1.0
STALLED_STARTS = ("open loop", "capped")
SLOW_NS = 200_000_000
CAP = 60
"""Streams in progress of the capped one, which has 52 on average."""
SHAPED = 5
"""Streams of each shape."""
TURN_S = 0.5
FEWEST_ON_A_GRID = 100


class Cell(NamedTuple):
    """What one run is."""

    part: str
    streams: int
    start: str
    place: str

    def asked(self, url: str) -> Asked:
        """Return what a client is to do."""
        if self.part == "stall":
            count = round(STALLED_RATE_PER_S * STALLED_RUN_S)
            return Asked(
                url, count, STALLED_RATE_PER_S, count if self.start == "open loop" else CAP
            )
        if self.start == "at once":
            return Asked(url, self.streams, None, self.streams)
        rate_per_s = self.streams / LENGTH_S
        # Twice as many as on average: they are even, unless the machine holds them up.
        return Asked(url, max(round(rate_per_s * OPEN_S), 5), rate_per_s, 2 * self.streams + 2)


def cells(part: str) -> Iterator[Cell]:
    """Yield the cells of a part."""
    if part == "stall":
        for start in STALLED_STARTS:
            yield Cell("stall", round(STALLED_RATE_PER_S * LENGTH_S), start, "alone")
        return
    if part == "shapes":
        for name in SHAPES:
            yield Cell("shapes", SHAPED, name, "alone")
        return
    for place, start, streams in itertools.product(PLACES, STARTS, STREAMS):
        yield Cell("matrix", streams, start, place)


class Server:
    """The server of planned streams, as a process."""

    def __init__(self) -> None:
        program = ROOT / "target" / "release" / "stream-server"
        pace = {"type": "fixed", "first_ns": FIRST_NS, "gap_ns": GAP_NS}
        plan = json.dumps({"tokens": TOKENS, "pace": pace})
        self.process = subprocess.Popen([str(program), plan], stdout=subprocess.PIPE)
        assert self.process.stdout is not None
        self.url = f"http://127.0.0.1:{int(self.process.stdout.readline())}"

    def records(self) -> list[Document]:
        """Return the records of all streams since the last call."""
        with urllib.request.urlopen(f"{self.url}/stamps", timeout=60) as answer:
            return [json.loads(line) for line in answer]

    def stop_for(self, seconds: float) -> None:
        """Stop it for a time, when the first request has come."""
        self.process.send_signal(signal.SIGSTOP)
        time.sleep(seconds)
        self.process.send_signal(signal.SIGCONT)

    def end(self) -> None:
        """End it."""
        self.process.kill()
        self.process.wait()


@contextlib.contextmanager
def neighbour(seed: int) -> Iterator[None]:
    """Run a process that computes half of the time."""
    with tempfile.NamedTemporaryFile() as log:
        program = [sys.executable, str(ROOT / "benches" / "parts" / "neighbour.py"), "one"]
        words = ["--log", log.name, "--seed", str(seed), "--turn", str(TURN_S)]
        process = subprocess.Popen([*program, *words])
        try:
            yield
        finally:
            process.terminate()
            process.wait()


def measured(cell: Cell, client: Client, seed: int) -> Document:
    """Run a client once; return the figures [ns]."""
    server = Server()
    beside = neighbour(seed) if cell.place == "neighbour" else contextlib.nullcontext()
    began = busy_machine.now()
    try:
        with beside:
            stalling = threading.Thread(target=_stall, args=(server, cell), daemon=True)
            stalling.start()
            result = client.run(cell.asked(server.url))
        truth = [record for record in server.records() if record["whole"]]
    finally:
        server.end()
    busy = busy_machine.since(began)
    figures = compared(client.said(result, truth), truth, cell)
    return figures | {"load_average": busy.load_average, "steal": busy.steal_share}


def _stall(server: Server, cell: Cell) -> None:
    while cell.part == "stall":
        time.sleep(0.05)
        with urllib.request.urlopen(f"{server.url}/streams", timeout=60) as answer:
            begun: int = json.load(answer)["streams"]
        if begun:
            time.sleep(STALLED_RUN_S / 3)
            server.stop_for(STALL_S)
            return


def shaped(cell: Cell, client: Client) -> Document:
    """Run a client on streams of a shape; return what it found, and whether that is right."""
    shape, count = SHAPES[cell.start], cell.streams
    found = None
    with event_server() as url, contextlib.suppress(ClientError):
        asked = Asked(f"{url}/shape/{cell.start}", count, None, count)
        found = client.counts(client.run(asked))
    right = found == (count * shape.content, 0)
    if shape.trouble is not None:
        right = found is not None and found[1] == count
    return {"found": found, "right": right}


def compared(said: Said, truth: list[Document], cell: Cell) -> Document:
    """Return what a client says beside the truth [ns]."""
    first = np.array([record["written_ns"][0] - record["arrived_ns"] for record in truth])
    gaps = np.concatenate([np.diff(record["written_ns"]) for record in truth])
    late = np.concatenate([np.subtract(record["written_ns"], record["due_ns"]) for record in truth])
    errors = np.array(
        [value - (record["written_ns"][0] - record["arrived_ns"]) for value, record in said.pairs]
    )
    arrived = np.array([record["arrived_ns"] for record in truth])
    written = [record["written_ns"] for record in truth]
    span_ns = max(map(max, written)) - min(map(min, written))
    figures = {
        "served": len(truth),
        "said": len(said.first_ns),
        "failed": said.failed,
        "events_per_s": len(late) * 1e9 / span_ns,
        "server_late_p99": _at(late, 99),
        "server_blocked": sum(record["blocked"] for record in truth),
        "paired": len(errors),
        "error_p50": _at(errors, 50),
        "error_p99": _at(errors, 99),
        "error_max": _at(errors, 100),
        "first_mean": float(said.first_ns.mean()),
        "true_first_mean": float(first.mean()),
        "slow": _slow(said.first_ns),
        "true_slow": _slow(first),
        "slow_from_intended": _slow(said.from_intended_ns),
        "true_slow_from_intended": _slow(_from_intended(truth, cell)),
        "spread": int(arrived.max() - arrived.min()),
        "start_late_p99": _start_late(arrived, cell),
        **{f"said_{name}": value for name, value in said.words.items()},
    }
    for share in (50, 99, 100):
        figures[f"first_p{share}"] = _at(said.first_ns, share)
        figures[f"true_first_p{share}"] = _at(first, share)
        figures[f"gap_p{share}"] = None if said.gaps_ns is None else _at(said.gaps_ns, share)
        figures[f"true_gap_p{share}"] = _at(gaps, share)
    return figures


def _at(values: Any, share: float) -> float | None:
    return float(np.percentile(values, share)) if len(values) else None


def _start_late(arrived: Times, cell: Cell) -> float | None:
    """Return the 99th percentile of how late requests arrived, behind an even grid or the first."""
    if cell.start == "at once":
        return float(np.percentile(arrived - arrived.min(), 99))
    rate_per_s = STALLED_RATE_PER_S if cell.part == "stall" else cell.streams / LENGTH_S
    if len(arrived) < FEWEST_ON_A_GRID:
        return None
    late: float = lateness(arrived, rate_per_s).p99_us * 1e3
    return late


def _slow(first_ns: Times | None) -> int | None:
    return None if first_ns is None else int((first_ns > SLOW_NS).sum())


def _from_intended(truth: list[Document], cell: Cell) -> Times | None:
    """Return the times to the first token from even starts `(n,)` [ns]; None: at once."""
    if cell.part != "stall":
        return None
    served = sorted(truth, key=lambda record: record["arrived_ns"])
    due = np.arange(len(served)) * 1e9 / STALLED_RATE_PER_S
    first = np.array([record["written_ns"][0] for record in served])
    return np.asarray(first - first[0] + FIRST_NS - due)


def tables(rows: list[Document]) -> None:
    """Print the tables, medians over rounds."""
    if any(row["part"] == "matrix" for row in rows):
        matrix_table(rows)
    if any(row["part"] == "stall" for row in rows):
        stall_table(rows)
    by_client: dict[str, dict[str, bool]] = {}
    for row in rows:
        if row["part"] == "shapes":
            by_client.setdefault(row["client"], {})[row["start"]] = row.get("right", False)
    for client, right in by_client.items():
        wrong = ", ".join(name for name, is_right in right.items() if not is_right)
        print(f"\nshapes that {client} reads right: {sum(right.values())} of {len(right)}")
        print(f"wrong: {wrong or 'none'}")
    loads = [row["load_average"] for row in rows if "load_average" in row]
    if loads:
        print(
            f"\n[ms]; load averages {min(loads):.1f} to {max(loads):.1f}, "
            f"median {statistics.median(loads):.1f}"
        )


def matrix_table(rows: list[Document]) -> None:
    """Print the errors of the matrix."""
    print(
        "\n| place | start | streams | client | rounds | events/s | starts late p99 | mean of first: "
        "error | p99 of first: error | a stream's first: error p50 | p99 | p99 of gaps: error "
        "| reads late p99 | share a read % |"
    )
    print("|---|---|---:|---|" + "---:|" * 10)
    for (place, start, streams, client), group in _groups(rows, "matrix"):
        figures = [
            _median(row["start_late_p99"] for row in group),
            _median(row["first_mean"] - row["true_first_mean"] for row in group),
            _median(_off(row, "first_p99") for row in group),
            *(_median(row[f"error_{name}"] for row in group) for name in ("p50", "p99")),
            _median(_off(row, "gap_p99") for row in group),
            _median(row.get("said_read_lateness_p99_ns") for row in group),
        ]
        events = statistics.median(row["events_per_s"] for row in group)
        share = _median(
            100 * row["said_shared"] / row["said_events"] for row in group if "said_shared" in row
        )
        print(
            f"| {place} | {start} | {streams:,} | {client} | {len(group)} | {events:,.0f} | "
            + " | ".join(map(_ms, figures))
            + f" | {'' if share is None else f'{share:.1f}'} |"
        )


def stall_table(rows: list[Document]) -> None:
    """Print what is known of the streams of a server that stopped."""
    print(
        f"\n{STALLED_RATE_PER_S:g} streams/s, server stopped for {STALL_S:g} s: of "
        f"{STALLED_RATE_PER_S * STALLED_RUN_S:.0f} streams, those with more than "
        f"{SLOW_NS / 1e6:.0f} ms to the first token, as clients report it and by the server's "
        "stamps; the greatest gap [ms]"
    )
    print(
        "| start | client | rounds | from actual start | true | from intended start "
        "| true | gap | true |"
    )
    print("|---|---|---:|---:|---:|---:|---:|---:|---:|")
    for (_, start, _, client), group in _groups(rows, "stall"):
        counts = [
            _median(row[name] for row in group)
            for told in ("slow", "slow_from_intended")
            for name in (told, f"true_{told}")
        ]
        gaps = [_median(row[name] for row in group) for name in ("gap_p100", "true_gap_p100")]
        words = ["" if count is None else f"{count:.0f}" for count in counts]
        words += map(_ms, gaps)
        print(f"| {start} | {client} | {len(group)} | {' | '.join(words)} |")


def _groups(
    rows: list[Document], part: str
) -> Iterator[tuple[tuple[str, str, int, str], list[Document]]]:
    found: dict[tuple[str, str, int, str], list[Document]] = {}
    for row in rows:
        if row["part"] == part and "trouble" not in row:
            key = (row["place"], row["start"], row["streams"], row["client"])
            found.setdefault(key, []).append(row)
    yield from sorted(found.items(), key=lambda one: (one[0][:1], one[0][1], one[0]))


def _off(row: Document, name: str) -> float | None:
    return None if row[name] is None else row[name] - row[f"true_{name}"]


def _median(values: Iterable[float | None]) -> float | None:
    found = [value for value in values if value is not None]
    return statistics.median(found) if found else None


def _ms(value: float | None) -> str:
    if value is None:
        return ""
    size = abs(value)
    return f"{value / 1e6:,.{2 if size < 1e7 else 1 if size < 1e8 else 0}f}"


def main() -> int:
    """Run what is missing, and print the tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=ROOT / "target" / "streams")
    parser.add_argument("--part", choices=["matrix", "stall", "shapes"])
    parser.add_argument("--client", action="append", help="only these")
    parser.add_argument("--tables", action="store_true", help="only print what is there")
    add_busy_option(parser)
    asked = parser.parse_args()
    if not asked.tables:
        refuse_busy(asked.busy)
    asked.out.mkdir(parents=True, exist_ok=True)
    file = asked.out / "runs.jsonl"
    file.touch()
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    print(machine())
    if not asked.tables:
        rows += run_missing(asked, file, rows)
    tables(rows)
    return 0


def run_missing(asked: argparse.Namespace, file: Path, rows: list[Document]) -> list[Document]:
    """Run each cell by each client in turn, unless it has been run; return the new lines."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    build = ["cargo", "build", "-q", "--release", "--locked", "-p", "stream-server"]
    subprocess.run(build, cwd=ROOT, check=True)
    place = subprocess.run(
        [ROOT / "scripts" / "stream_peers.sh"], check=True, stdout=subprocess.PIPE, text=True
    ).stdout.strip()
    done = {(*(row[name] for name in Cell._fields), row["client"], row["round"]) for row in rows}
    new = []
    with tempfile.TemporaryDirectory(prefix="bw-streams-") as scratch:
        clients = {"bw": Client(engine, engine_said, engine_counts)}
        clients |= Peers(Path(place), Path(scratch)).clients()
        if asked.client:
            clients = {name: one for name, one in clients.items() if name in asked.client}
        parts = [asked.part] if asked.part else ["matrix", "stall", "shapes"]
        todo = itertools.product(
            range(asked.rounds), itertools.chain(*map(cells, parts)), clients.items()
        )
        for turn, cell, (name, client) in todo:
            # Shapes have no noise: once is enough.
            if (*cell, name, turn) in done or (cell.part == "shapes" and turn):
                continue
            row: Document = {**cell._asdict(), "client": name, "round": turn}
            try:
                shapes = cell.part == "shapes"
                row |= shaped(cell, client) if shapes else measured(cell, client, turn)
            except (ClientError, EngineError, OSError) as error:
                row["trouble"] = str(error)
            print(row.get("trouble") or _progress(row), flush=True)
            with file.open("a") as out:
                out.write(json.dumps(row) + "\n")
            new.append(row)
    return new


def _progress(row: Document) -> str:
    names = ("place", "start", "streams", "client", "round")
    figure = row["right"] if row["part"] == "shapes" else f"{_ms(row['error_p99'])} ms"
    return " ".join(str(row[name]) for name in names) + f": {figure}"


if __name__ == "__main__":
    sys.exit(main())
