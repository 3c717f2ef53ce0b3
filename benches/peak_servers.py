"""Peak rates of real servers: do repeated searches agree, and what do they cost?

For each server: N searches with `bw peak` (a new study each), with Algorithm 2's
binsearch after a third of them and its honest form after two thirds, so that a slow drift
of the machine affects all; then fixed long runs at 0.95 and 1.05 of the median answer, in
turn. Before and after each search a control: one run at a fixed rate, whose response shows
whether the machine itself changed. Beside each step the time that the hypervisor stole.
The aim: the interval of at least 9 of 10 repetitions holds the median answer
(parts/repeated_searches.py defines it), and the criteria of the long runs hold below and
fail above.

Nobody else should use the machine meanwhile. It runs unattended: a step that fails is
reported and the next one begins. The document of each search is kept as it ends
(OUT/SERVER/NAME/result.json), the figures of all after each server (OUT/peak-servers.json).
The exit status is 0 if every aim was reached, 1 if not.

Usage: peak_servers.py [--only nginx] [--repetitions N] [--cap 30m] [--long 90s]
[--rounds N] [--control RATE] [--out DIR] [--quick]
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from parts import busy_machine
from parts.repeated_searches import (
    Agreement,
    LongRun,
    Search,
    agreement,
    confirmed,
    cost_ratio,
)

Document = dict[str, Any]
EXAMPLES = Path(__file__).resolve().parent.parent / "examples"


class Server(NamedTuple):
    """A server to search."""

    spec: str
    """A file in examples/."""
    program: str
    """It must be installed."""
    levels: tuple[str, ...] = ()
    """Of the spec's factors: `disks=1`."""


def _nfs(workload: str) -> Server:
    spec = f"workbench/nfs-ganesha-{workload}.toml"
    return Server(spec, "ganesha.nfsd", ("disks=1", "threads=8"))


SERVERS = {
    "nginx": Server("peak-nginx.toml", "nginx"),
    "postgres": Server("peak-postgres.toml", "pgbench"),
    "redis": Server("peak-redis.toml", "redis-server"),
    "nfs-specsfs97": _nfs("specsfs97"),
    "nfs-web-server": _nfs("web-server"),
    "nfs-db_tp": _nfs("db_tp"),
    "nfs-mail": _nfs("mail"),
}
CPU_LIMITED = ("nginx", "postgres")
"""Measured unless --only names others."""
PEERS = ("binsearch", "binsearch-honest")
CONTROL_KEY = "response_ms_mean"
SHARES = (0.95, 1.05)
CONTROL_SHARE = 0.9
"""Rate of the controls over the answer of the first search, without --control."""
FOUND = "found"
BUSY = 0.5
"""A load average of the last minute above this shows other users."""
PATIENCE_S = 3600.0
"""A step that takes longer is ended."""
QUICK = {"cap": "60s", "long": "10s", "budget": "60s", "rounds": 1}


class Step(NamedTuple):
    """One run of `bw peak`."""

    server: str
    name: str
    """`search-3`, `binsearch`, `long-1-0.95`."""
    words: tuple[str, ...]
    """Options beside the spec, the study and --json."""


class Outcome(NamedTuple):
    """A step's result."""

    step: Step
    document: Document
    """Empty where there was none."""
    trouble: str
    """The end of its messages, where there is no document."""
    busy: busy_machine.Busy


def searches(server: str, asked: argparse.Namespace) -> Iterator[Step]:
    """Yield the searches of a server in their order, the peers among ours."""
    budget = ("--budget", asked.budget) if asked.budget else ()
    share = asked.repetitions / (len(asked.peers) + 1)
    after = [round((place + 1) * share) for place in range(len(asked.peers))]
    for number in range(1, asked.repetitions + 1):
        seed = ("--seed", str(asked.seed + number))
        yield Step(server, f"search-{number}", (*seed, *budget))
        for peer, place in zip(asked.peers, after, strict=True):
            if place == number:
                words = ("--policy", peer, "--budget", asked.cap, *seed)
                yield Step(server, peer, words)


def long_runs(server: str, peak: float, asked: argparse.Namespace) -> Iterator[Step]:
    """Yield the fixed runs beside a peak, below and above in turn."""
    for number in range(1, asked.rounds + 1):
        for share in SHARES:
            words = fixed_run(share * peak, asked.long, asked.seed + 100 + number)
            yield Step(server, f"long-{number}-{share}", words)


def fixed_run(rate: float, length: str, seed: int) -> tuple[str, ...]:
    """Return the options of one trial at a rate [1/s]: a policy that stops none early, at the
    rate where it begins."""
    at = f"{rate:.5g}"
    return (
        *("--policy", "binsearch", "--start", at, "--lowest", at, "--max-trials", "1"),
        *("--run-length", length, "--budget", "1h", "--seed", str(seed)),
    )


def run(step: Step, out: Path) -> Outcome:
    """Run one step; its document and progress are kept."""
    place = out / step.server / step.name
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    server = SERVERS[step.server]
    spec = str(EXAMPLES / server.spec)
    command = [sys.executable, "-m", "benchwright.cli.main", "peak", spec]
    command += [word for level in server.levels for word in ("-P", level)]
    command += ["--study", str(place / "study"), "--json", *step.words]
    begin = busy_machine.now()
    trouble, document = "", {}
    with open(place / "progress.txt", "w") as progress:
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=progress, text=True
        )
        try:
            text, _ = process.communicate(timeout=PATIENCE_S)
            document = json.loads(text)
        except subprocess.TimeoutExpired:
            trouble = f"ended after {PATIENCE_S:g} s"
        except json.JSONDecodeError:
            trouble = (place / "progress.txt").read_text()[-400:].strip()
        finally:
            _end(process)
    (place / "result.json").write_text(json.dumps(document))
    return Outcome(step, document, trouble, busy_machine.since(begin))


def _end(process: subprocess.Popen[str]) -> None:
    """End a search that still runs: it stops its server itself."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def as_search(outcome: Outcome) -> Search:
    """Return the figures that `agreement` compares."""
    document = outcome.document
    low, high = document.get("interval") or (None, None)
    return Search(
        found=document.get("status") == FOUND,
        peak=document.get("peak_rate"),
        low=low,
        high=high,
        cost_s=document.get("seconds") or outcome.busy.lasted_s,
    )


def as_long_run(outcome: Outcome, share: float) -> LongRun:
    """Return whether the one trial of a fixed run meets every criterion."""
    trials = outcome.document.get("trials") or [{}]
    values = trials[0].get("values", {})
    rate = float(trials[0].get("rate") or 0)
    verdicts, texts = [], []
    for one in outcome.document.get("criteria", []):
        value = values.get(one["key"])
        if value is None:
            return LongRun(share, rate, None, f"{one['key']}: no value")
        lower = one["better"] == "lower"
        verdicts.append(value <= one["limit"] if lower else value >= one["limit"])
        value_text = f"{value:.4g} {one['unit']}".rstrip()
        texts.append(f"{one['key']} {value_text} (limit {one['limit']:g})")
    if not verdicts:
        return LongRun(share, rate, None, outcome.trouble or "no trial")
    return LongRun(share, rate, all(verdicts), "; ".join(texts))


class Measured(NamedTuple):
    """All results of a server."""

    server: str
    outcomes: list[Outcome]
    ours: Agreement
    runs: list[LongRun]
    controls: list[float]
    """Mean responses of the controls, in their order [ms]."""

    @property
    def held(self) -> bool:
        """Return whether every aim was reached."""
        return self.ours.kept and confirmed(self.runs) is True


def measure(server: str, asked: argparse.Namespace, out: Path) -> Measured:
    """Run everything for a server and print each step as it ends."""
    outcomes: list[Outcome] = []
    runs: list[LongRun] = []
    controls: list[float] = []

    def do(step: Step, share: float | None = None) -> None:
        outcomes.append(run(step, out))
        long = None if share is None else as_long_run(outcomes[-1], share)
        print(_row(outcomes[-1], long), flush=True)
        if long is not None and step.name.startswith("long-"):
            runs.append(long)
        elif long is not None:
            trials = outcomes[-1].document.get("trials") or [{}]
            controls.append(trials[0].get("values", {}).get(CONTROL_KEY, math.nan))

    def control() -> None:
        peak = asked.control / CONTROL_SHARE if asked.control else _best_guess(outcomes)
        if peak:
            words = fixed_run(CONTROL_SHARE * peak, asked.control_length, asked.seed)
            name = f"control-{len(controls) + 1}"
            do(Step(server, name, words), CONTROL_SHARE)

    for step in searches(server, asked):
        if not controls:
            control()
        do(step)
        control()
    ours = agreement([as_search(one) for one in outcomes if _is_ours(one)])
    peak = ours.median_peak or _best_guess(outcomes)
    for step in long_runs(server, peak, asked) if peak else ():
        do(step, float(step.name.split("-")[-1]))
    return Measured(server, outcomes, ours, runs, controls)


def _best_guess(outcomes: Sequence[Outcome]) -> float | None:
    """Return the median of the best guesses of searches, with an answer or without."""
    peaks = [one.peak for one in map(as_search, filter(_is_ours, outcomes))]
    known = [peak for peak in peaks if peak is not None]
    return statistics.median(known) if known else None


def _is_ours(outcome: Outcome) -> bool:
    return outcome.step.name.startswith("search-")


HEADER = (
    "| server | run | began | ended as | peak/s | interval | seconds | trials "
    "| stolen | idle | load | findings |\n" + "|---" * 12 + "|"
)


def _row(outcome: Outcome, long: LongRun | None = None) -> str:
    """Return a step as a row of the table."""
    document, busy, search = outcome.document, outcome.busy, as_search(outcome)
    ended = str(document.get("status", "no answer"))
    if outcome.trouble:
        ended += f": {' '.join(outcome.trouble.split())[-200:]}"
    peak = "" if search.peak is None else f"{search.peak:.5g}"
    interval = "" if search.low is None else f"{search.low:.5g} to {search.high:.5g}"
    findings = ", ".join(one["code"] for one in document.get("findings", []))
    if long is not None:
        verdict = {True: "holds", False: "fails", None: "not known"}[long.holds]
        ended, peak, interval = verdict, f"{long.rate:.5g}", long.values
    cells = (
        *(outcome.step.server, outcome.step.name),
        time.strftime("%H:%M:%S", time.localtime(busy.began_s)),
        *(ended, peak, interval, f"{search.cost_s:.0f}"),
        str(len(document.get("trials", ()))),
        *(f"{100 * busy.steal_share:.1f} %", f"{100 * busy.idle_share:.0f} %"),
        *(f"{busy.load_average:.1f}", findings),
    )
    return "| " + " | ".join(cells) + " |"


def summary(measured: Measured) -> Iterator[str]:
    """Yield the results of a server, in sentences."""
    ours = measured.ours
    yield f"\n{measured.server}:"
    yield (
        f"- {ours.agreeing} of {ours.repetitions} repetitions found the median answer within "
        f"their interval ({ours.found} found an answer; one rate lies in "
        f"{ours.most_common} intervals): {'held' if ours.kept else 'MISSED'}"
    )
    if ours.median_peak is not None and ours.widest_error is not None:
        yield (
            f"- median answer {ours.median_peak:.5g}/s, the farthest answer "
            f"{100 * ours.widest_error:.1f} % from it; median cost "
            f"{ours.median_cost_s:.0f} s"
        )
    if ours.pair_share is not None and ours.later_over_earlier is not None:
        yield (
            f"- {100 * ours.pair_share:.0f} % of pairs: one's answer in the other's "
            f"interval; second half over first {ours.later_over_earlier:.3f}"
        )
    sides = {True: "held", False: "MISSED", None: "NOT KNOWN"}[confirmed(measured.runs)]
    yield f"- long runs hold below and fail above: {sides}"
    if measured.controls:
        values = ", ".join(f"{value:.3g}" for value in measured.controls)
        yield f"- mean responses of the controls, in their order: {values} ms"
    for one in measured.outcomes:
        if one.step.name in PEERS:
            ratio, status = cost_ratio(as_search(one), ours), one.document.get("status")
            yield f"- {one.step.name} cost {ratio} times ours ({status})"


def written(everything: Sequence[Measured], out: Path) -> None:
    """Write all figures as JSON."""
    document = {
        "machine": {"cpus": os.cpu_count(), "kernel": platform.release()},
        "servers": {
            one.server: {
                "agreement": {**one.ours._asdict(), "kept": one.ours.kept},
                "long_runs": [run._asdict() for run in one.runs],
                "confirmed": confirmed(one.runs),
                "controls_ms": one.controls,
                "steps": [_kept(outcome) for outcome in one.outcomes],
            }
            for one in everything
        },
    }
    (out / "peak-servers.json").write_text(json.dumps(document, indent=1))


def _kept(outcome: Outcome) -> Document:
    """Return a step without its curve: its own document is beside."""
    keys = ("status", "detail", "claim", "claim_probability", "components", "shape")
    return {
        "name": outcome.step.name,
        "options": outcome.step.words,
        "busy": outcome.busy._asdict(),
        "trouble": outcome.trouble,
        **as_search(outcome)._asdict(),
        **{key: outcome.document.get(key) for key in keys},
    }


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", choices=sorted(SERVERS), action="append")
    parser.add_argument("--repetitions", type=int, default=10)
    parser.add_argument("--peers", nargs="*", choices=PEERS, default=list(PEERS))
    parser.add_argument("--cap", default="30m", help="a peer's budget")
    parser.add_argument(
        "--budget", help="of each of our searches (default: the spec's)"
    )
    parser.add_argument("--long", default="90s", help="length of a long run")
    parser.add_argument("--rounds", type=int, default=2, help="long runs on each side")
    parser.add_argument("--control", type=float, help="rate of the controls [1/s]")
    parser.add_argument("--control-length", default="30s", help="of each control")
    parser.add_argument("--seed", type=int, default=1000)
    parser.add_argument("--out", type=Path, help="where all is kept")
    parser.add_argument("--quick", action="store_true", help="only whether it works")
    asked = parser.parse_args()
    if asked.quick:
        vars(asked).update(QUICK)
    return asked


def main() -> int:
    """Measure all servers; return 0 if every aim was reached."""
    asked = _arguments()
    # Where Debian has nginx, which is not in everybody's PATH.
    os.environ["PATH"] = os.environ.get("PATH", os.defpath) + ":/usr/sbin"
    # Ended from outside, the search that runs is ended too, and stops its server.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    out = asked.out or Path(tempfile.mkdtemp(prefix="bw-peak-servers-"))
    out.mkdir(parents=True, exist_ok=True)
    print(f"{os.cpu_count()} processors, Linux {platform.release()}; kept in {out}")
    load = os.getloadavg()[0]
    busy = "; others use the machine: the peaks are theirs too" if load > BUSY else ""
    print(f"load average at the beginning {load:.1f}{busy}\n")
    print(HEADER, flush=True)
    everything: list[Measured] = []
    missing = []
    for server in asked.only or CPU_LIMITED:
        program = SERVERS[server].program
        if shutil.which(program) is None:
            missing.append(f"{server}: {program} is not installed")
            continue
        everything.append(measure(server, asked, out))
        written(everything, out)
    for one in everything:
        print("\n".join(summary(one)), flush=True)
    for text in missing:
        print(f"\nnot measured: {text}")
    return (
        0 if everything and not missing and all(one.held for one in everything) else 1
    )


if __name__ == "__main__":
    sys.exit(main())
