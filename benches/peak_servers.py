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
The same command with the same --out goes on where it was stopped. The exit status is 0 if every aim was reached, 1 if not.

Usage: peak_servers.py [--only nginx] [--repetitions N] [--cap 30m] [--long 90s]
[--rounds N] [--control RATE] [--out DIR] [--quick]
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import statistics
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from parts.bw_steps import (
    HEADER,
    Document,
    Outcome,
    Server,
    Step,
    add_search_options,
    as_long_run,
    as_search,
    criteria_words,
    fixed_run,
    is_installed,
    nfs,
    prepare,
    row,
    run,
    search_words,
)
from parts.repeated_searches import (
    Agreement,
    LongRun,
    agreement,
    confirmed,
    cost_ratio,
)

NFS_WORKLOADS = ("specsfs97", "web-server", "db_tp", "mail")
SERVERS = {
    one.name: one
    for one in (
        Server("nginx", "peak-nginx.toml", "nginx"),
        Server("postgres", "peak-postgres.toml", "pgbench"),
        Server("postgres-disk", "peak-postgres-disk.toml", "pgbench"),
        Server("redis", "peak-redis.toml", "redis-server"),
        *map(nfs, NFS_WORKLOADS),
    )
}
CPU_LIMITED = ("nginx", "postgres")
"""Measured unless --only names others."""
PEERS = ("binsearch", "binsearch-honest")
CONTROL_KEY = "response_ms_mean"
SHARES = (0.95, 1.05)
CONTROL_SHARE = 0.9
"""Rate of the controls over the answer of the first search, without --control."""
BUSY = 0.5
"""A load average of the last minute above this shows other users."""
QUICK = {"cap": "60s", "long": "10s", "budget": "60s", "rounds": 1}


def searches(server: Server, asked: argparse.Namespace) -> Iterator[Step]:
    """Yield the searches of a server in their order, the peers among ours."""
    ours = search_words(asked)
    share = asked.repetitions / (len(asked.peers) + 1)
    after = [round((place + 1) * share) for place in range(len(asked.peers))]
    for number in range(1, asked.repetitions + 1):
        seed = ("--seed", str(asked.seed + number))
        yield Step(server, f"search-{number}", (*seed, *ours))
        for peer, place in zip(asked.peers, after, strict=True):
            if place == number:
                words = (
                    "--policy",
                    peer,
                    "--budget",
                    asked.cap,
                    *criteria_words(asked),
                )

                yield Step(server, peer, (*words, *seed))


def long_runs(server: Server, peak: float, asked: argparse.Namespace) -> Iterator[Step]:
    """Yield the fixed runs beside a peak, below and above in turn."""
    for number in range(1, asked.rounds + 1):
        for share in SHARES:
            words = fixed_run(share * peak, asked.long, asked.seed + 100 + number)
            limits = criteria_words(asked)
            yield Step(server, f"long-{number}-{share}", (*words, *limits))


class Measured(NamedTuple):
    """All results of a server."""

    server: Server
    outcomes: list[Outcome]
    ours: Agreement
    runs: list[LongRun]
    controls: list[float]
    """Mean responses of the controls, in their order [ms]."""

    @property
    def held(self) -> bool:
        """Return whether every aim was reached."""
        return self.ours.kept and confirmed(self.runs) is True


def measure(server: Server, asked: argparse.Namespace, out: Path) -> Measured:
    """Run everything for a server and print each step as it ends."""
    outcomes: list[Outcome] = []
    runs: list[LongRun] = []
    controls: list[float] = []
    fixed = asked.control

    def do(step: Step, share: float | None = None) -> None:
        outcomes.append(run(step, out))
        long = None if share is None else as_long_run(outcomes[-1], share)
        print(row(outcomes[-1], long), flush=True)
        if long is not None and step.name.startswith("long-"):
            runs.append(long)
        elif long is not None:
            trials = outcomes[-1].document.get("trials") or [{}]
            controls.append(trials[0].get("values", {}).get(CONTROL_KEY, math.nan))

    def control() -> None:
        nonlocal fixed
        if not fixed and (peak := _best_guess(outcomes)):
            # The same rate from here on: later answers show what changed.
            fixed = CONTROL_SHARE * peak
        if fixed:
            words = fixed_run(fixed, asked.control_length, asked.seed)
            name = f"control-{len(controls) + 1}"
            do(Step(server, name, (*words, *criteria_words(asked))), CONTROL_SHARE)

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


def summary(measured: Measured) -> Iterator[str]:
    """Yield the results of a server, in sentences."""
    ours = measured.ours
    yield f"\n{measured.server.name}:"
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
            one.server.name: {
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


def arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
    """Return the options of a command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", choices=sorted(SERVERS), action="append")
    parser.add_argument("--repetitions", type=int, default=10)
    parser.add_argument("--peers", nargs="*", choices=PEERS, default=list(PEERS))
    parser.add_argument("--cap", default="30m", help="a peer's budget")
    add_search_options(parser, claim=None, budget=None)
    parser.add_argument("--rounds", type=int, default=2, help="long runs on each side")
    parser.add_argument("--control", type=float, help="rate of the controls [1/s]")
    parser.add_argument("--control-length", default="30s", help="of each control")
    parser.add_argument("--seed", type=int, default=1000)
    parser.add_argument("--out", type=Path, help="where all is kept")
    parser.add_argument("--quick", action="store_true", help="only whether it works")
    asked = parser.parse_args(words)
    if asked.quick:
        vars(asked).update(QUICK)
    return asked


def main() -> int:
    """Measure all servers; return 0 if every aim was reached."""
    asked = arguments()
    prepare()
    out = asked.out or Path(tempfile.mkdtemp(prefix="bw-peak-servers-"))
    out.mkdir(parents=True, exist_ok=True)
    print(f"{os.cpu_count()} processors, Linux {platform.release()}; kept in {out}")
    load = os.getloadavg()[0]
    busy = "; others use the machine: the peaks are theirs too" if load > BUSY else ""
    print(f"load average at the beginning {load:.1f}{busy}\n")
    print(HEADER, flush=True)
    everything: list[Measured] = []
    servers = [SERVERS[name] for name in asked.only or CPU_LIMITED]
    missing = []
    for server in servers:
        if not is_installed(server):
            missing.append(f"{server.name}: {server.program} is not installed")
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
