"""Peak rates of real servers: do repeated searches agree, and what do they cost?

For each server: N searches with `bw peak` (a fresh study each), with Algorithm 2's
binsearch after a third of them and its honest form after two thirds, so that a slow drift
of the machine meets all; then fixed long runs at 0.95 and 1.05 of the median answer, in
turn. Beside each the time that the hypervisor stole. Wanted: at least 9 of 10 repetitions
whose interval holds the median answer (parts/repeated_searches.py says precisely what is
counted), and long runs whose criteria hold below and fail above.

Nobody else should use the machine meanwhile. It runs unattended: a step that fails is told
and the next begins. Every search's document is kept as it ends (OUT/SERVER/NAME/result.json),
the figures of all after each server (OUT/peak-servers.json). The exit status is 0 if all that
was wanted held, 1 if not.

Usage: peak_servers.py [--only nginx] [--repetitions N] [--cap 30m] [--long 90s]
[--rounds N] [--out DIR] [--quick]
"""

from __future__ import annotations

import argparse
import json
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
SERVERS = {"nginx": "nginx", "postgres": "pgbench", "redis": "redis-server"}
"""Of examples/peak-NAME.toml -> the program that must be there."""
USUAL = ("nginx", "postgres")
PEERS = ("binsearch", "binsearch-honest")
SHARES = (0.95, 1.05)
FOUND = "found"
BUSY = 0.5
"""Load average of the last minute that tells of other users."""
PATIENCE_S = 3600.0
"""Beyond what it was given no step lasts."""
QUICK = {"cap": "60s", "long": "10s", "budget": "60s", "rounds": 1}


class Step(NamedTuple):
    """One run of `bw peak`."""

    server: str
    name: str
    """`search-3`, `binsearch`, `long-1-0.95`."""
    words: tuple[str, ...]
    """Options beside the spec, the study and --json."""


class Outcome(NamedTuple):
    """What it came to."""

    step: Step
    document: Document
    """Empty where there was none."""
    trouble: str
    """The end of what it said, where there is no document."""
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
            # One trial of a policy that leaves none early, at the rate where it begins.
            rate = f"{share * peak:.5g}"
            yield Step(
                server,
                f"long-{number}-{share}",
                (
                    *("--policy", "binsearch", "--start", rate, "--lowest", rate),
                    *("--run-length", asked.long, "--max-trials", "1"),
                    *("--budget", "1h", "--seed", str(asked.seed + 100 + number)),
                ),
            )


def run(step: Step, out: Path) -> Outcome:
    """Run one step and return what it came to; its document and progress are kept."""
    place = out / step.server / step.name
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    spec = EXAMPLES / f"peak-{step.server}.toml"
    command = [sys.executable, "-m", "benchwright.cli.main", "peak", str(spec)]
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
    """Return what agreement looks at."""
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
    """Return what the one trial of a long run says of every criterion."""
    trials = outcome.document.get("trials") or [{}]
    values = trials[0].get("values", {})
    rate = float(trials[0].get("rate") or 0)
    verdicts, told = [], []
    for one in outcome.document.get("criteria", []):
        value = values.get(one["key"])
        if value is None:
            return LongRun(share, rate, None, f"{one['key']}: no value")
        lower = one["better"] == "lower"
        verdicts.append(value <= one["limit"] if lower else value >= one["limit"])
        value_text = f"{value:.4g} {one['unit']}".rstrip()
        told.append(f"{one['key']} {value_text} (limit {one['limit']:g})")
    if not verdicts:
        return LongRun(share, rate, None, outcome.trouble or "no trial")
    return LongRun(share, rate, all(verdicts), "; ".join(told))


class Told(NamedTuple):
    """All that a server came to."""

    server: str
    outcomes: list[Outcome]
    ours: Agreement
    runs: list[LongRun]

    @property
    def held(self) -> bool:
        """Return whether all that was wanted held."""
        return self.ours.kept and confirmed(self.runs) is True


def measure(server: str, asked: argparse.Namespace, out: Path) -> Told:
    """Run everything for a server, telling each step as it ends."""
    outcomes: list[Outcome] = []
    for step in searches(server, asked):
        outcomes.append(run(step, out))
        print(_row(outcomes[-1]), flush=True)
    ours = agreement([as_search(one) for one in outcomes if _is_ours(one)])
    told = Told(server, outcomes, ours, [])
    peak = ours.median_peak or _best_guess(outcomes)
    for step in long_runs(server, peak, asked) if peak else ():
        outcomes.append(run(step, out))
        long = as_long_run(outcomes[-1], float(step.name.split("-")[-1]))
        told.runs.append(long)
        print(_row(outcomes[-1], long), flush=True)
    return told


def _best_guess(outcomes: Sequence[Outcome]) -> float | None:
    """Return the median of what searches without an answer take for the peak."""
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
        ended, peak, interval = verdict, f"{long.rate:.5g}", long.told
    cells = (
        *(outcome.step.server, outcome.step.name),
        time.strftime("%H:%M:%S", time.localtime(busy.began_s)),
        *(ended, peak, interval, f"{search.cost_s:.0f}"),
        str(len(document.get("trials", ()))),
        *(f"{100 * busy.steal_share:.1f} %", f"{100 * busy.idle_share:.0f} %"),
        *(f"{busy.load_average:.1f}", findings),
    )
    return "| " + " | ".join(cells) + " |"


def summary(told: Told) -> Iterator[str]:
    """Yield what held of a server, in sentences."""
    ours = told.ours
    yield f"\n{told.server}:"
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
    sides = {True: "held", False: "MISSED", None: "NOT KNOWN"}[confirmed(told.runs)]
    yield f"- long runs hold below and fail above: {sides}"
    for one in told.outcomes:
        if one.step.name in PEERS:
            ratio, status = cost_ratio(as_search(one), ours), one.document.get("status")
            yield f"- {one.step.name} cost {ratio} times ours ({status})"


def written(everything: Sequence[Told], out: Path) -> None:
    """Write all figures as JSON."""
    document = {
        "machine": {"cpus": os.cpu_count(), "kernel": platform.release()},
        "servers": {
            told.server: {
                "agreement": {**told.ours._asdict(), "kept": told.ours.kept},
                "long_runs": [run._asdict() for run in told.runs],
                "confirmed": confirmed(told.runs),
                "steps": [_kept(one) for one in told.outcomes],
            }
            for told in everything
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
    parser.add_argument("--seed", type=int, default=1000)
    parser.add_argument("--out", type=Path, help="where all is kept")
    parser.add_argument("--quick", action="store_true", help="only whether it works")
    asked = parser.parse_args()
    if asked.quick:
        vars(asked).update(QUICK)
    return asked


def main() -> int:
    """Measure all servers; return 0 if all that was wanted held."""
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
    everything: list[Told] = []
    missing = []
    for server in asked.only or USUAL:
        if shutil.which(SERVERS[server]) is None:
            missing.append(f"{server}: {SERVERS[server]} is not installed")
            continue
        everything.append(measure(server, asked, out))
        written(everything, out)
    for told in everything:
        print("\n".join(summary(told)), flush=True)
    for text in missing:
        print(f"\nnot measured: {text}")
    return 0 if everything and not missing and all(t.held for t in everything) else 1


if __name__ == "__main__":
    sys.exit(main())
