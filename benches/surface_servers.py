"""Peak rates of a real NFS server over its disks and threads: a map, the truth, the map's error.

For each workload, SPECsfs97 and DB_TP by default:

1. `bw surface` over disks x threads: a search at every sample;
2. the truth: a second `bw surface` with longer searches (a narrower claim), and at every
   sample fixed long runs at 0.95 and 1.05 of its answer; with --truth runs no second surface,
   but long runs at 0.95, 1 and 1.05 of the map's own answers, and further out until one holds and
   one fails: the truth is where the logarithm of their responses meets the limit;
3. the mean absolute error of maps from 6, 8 and 10 of the searches, against the truth,
   beside the workbench paper's (parts/measured_maps.py), and what each search cost.

The paper's policies on servers with the measured peaks: benches/paper_workbench.py.

Nobody else should use the machine meanwhile. With --pool and --at-once several servers run
side by side, each on disks of its own; they must leave the CPUs idle for most of the time
(the column `idle`). The documents are kept as they come
(OUT/SERVER/STEP/result.json), the figures of all in OUT/surfaces.json. The same command with
the same --out goes on where it was stopped, within a surface too. The exit status is 0
if the map is complete and all long runs hold below and fail above, 1 if not.

Usage: surface_servers.py [--only db_tp] [--disks 1,2,3,4] [--threads 2,8,32] [--iops N]
[--budget 8m] [--truth searches] [--truth-budget 20m] [--long 90s] [--pool local:gangs=2]
[--at-once 2] [--out DIR]
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests" / "sim"), str(ROOT / "benches" / "parts")]

import msgspec  # noqa: E402
from measured_maps import PUBLISHED, crossing, map_errors, peaks_of, results_of  # noqa: E402
from paper_designs import SIZES  # noqa: E402
from parts.busy_machine import add_busy_option, refuse_busy  # noqa: E402
from parts.bw_steps import (  # noqa: E402
    HEADER,
    Document,
    Server,
    Step,
    add_search_options,
    as_long_run,
    criteria_words,
    fixed_run,
    is_installed,
    nfs,
    prepare,
    row,
    run,
    search_words,
)
from parts.long_runs import LongRun, confirmed  # noqa: E402

from benchwright.features.search.surface.types import SampleResult  # noqa: E402

WORKLOADS = {"specsfs97": "SPECsfs97", "db_tp": "DB_TP"}
"""Those of the workbench paper's figure 2 that this measures, by their files in examples/."""
SHARES = (0.95, 1.05)
FIRST_SHARES = (0.95, 1.0, 1.05)
"""Of the map's answer, where the truth is made from runs."""
FURTHER = 0.08
MOST_RUNS = 6
"""Of one sample, where its truth is made from runs."""
LIMITED = "response_ms_mean"


class Truth(NamedTuple):
    """What longer runs show at a sample."""

    found: SampleResult
    runs: tuple[LongRun, ...]


class Measured(NamedTuple):
    """The results of a workload."""

    server: Server
    surface: Document
    truths: list[Truth]
    errors: dict[str, list[float]]
    """Mean absolute errors of maps, by the way they are made [%]; empty with few samples."""

    @property
    def confirmed(self) -> bool | None:
        """Return whether all long runs hold below and fail above; None without any."""
        return confirmed([one for truth in self.truths for one in truth.runs])


def server_of(workload: str, asked: argparse.Namespace) -> Server:
    """Return NFS-Ganesha with the levels that are asked for."""
    levels = {"disks": asked.disks, "threads": asked.threads}
    if asked.iops:
        levels["iops"] = (asked.iops,)
    return nfs(workload, **levels)


def measure(workload: str, asked: argparse.Namespace) -> Measured:
    """Run everything for a workload and print each step as it ends."""
    server = server_of(workload, asked)
    mapped = _mapped(server, "surface", asked, asked.seed)
    results = results_of(mapped) if mapped else ()
    truths: list[Truth] = []
    if asked.truth == "searches" and results:
        truths = _truths(server, asked)
    elif asked.truth == "runs":
        truths = _truths_by_runs(server, mapped, asked)
    errors = {}
    judged = [one.found for one in truths] if asked.truth != "none" else results
    if len(results) > max(SIZES) and len(judged) == len(results):
        errors = map_errors(peaks_of(workload, judged, mapped), results)
    return Measured(server, mapped, truths, errors)


def _mapped(server: Server, name: str, asked: argparse.Namespace, seed: int) -> Document:
    """Search every sample by `bw surface`; return its document."""
    words = ("--seed", str(seed), *search_words(asked))
    if asked.samples:
        words += ("--samples", str(asked.samples))
    if asked.pool:
        words += ("--pool", asked.pool)
    outcome = run(Step(server, name, words, "surface"), asked.out)
    print(row(outcome), flush=True)
    return outcome.document


def _truths(server: Server, asked: argparse.Namespace) -> list[Truth]:
    """Search all samples again, longer, and run beside each answer."""
    longer = {"claim": asked.truth_claim, "budget": asked.truth_budget}
    asked_longer = argparse.Namespace(**vars(asked) | longer)
    document = _mapped(server, "truth", asked_longer, asked.seed + 1)
    found = results_of(document) if document else ()
    sides = [(one, share) for one in found for share in SHARES]

    def run_at(side: tuple[SampleResult, float]) -> LongRun:
        return _run_at(server, *side, asked)[0]

    with ThreadPoolExecutor(asked.at_once) as executor:
        runs = list(executor.map(run_at, sides))
    each = len(SHARES)
    return [Truth(one, tuple(runs[each * n : each * (n + 1)])) for n, one in enumerate(found)]


def _run_at(
    server: Server, one: SampleResult, share: float, asked: argparse.Namespace
) -> tuple[LongRun, float]:
    """Run for long at a share of the answer of a sample; return the run and its mean response as a
    multiple of its limit, NaN without one."""
    peak = one.found.peak_rate
    assert peak is not None, "a result without a peak is no truth"
    at = tuple(word for pair in one.sample for word in ("-P", "=".join(pair)))
    name = "-".join(("long", *(level for _, level in one.sample), f"{share:g}"))
    fixed = fixed_run(share * peak, asked.long, asked.seed)
    words = (*at, *fixed, *criteria_words(asked))
    outcome = run(Step(server, name, words), asked.out)
    long = as_long_run(outcome, share)
    print(row(outcome, long), flush=True)
    trials = outcome.document.get("trials") or [{}]
    response = trials[0].get("values", {}).get(LIMITED, math.nan)
    criteria = outcome.document.get("criteria", [])
    limits = [one["limit"] for one in criteria if one["key"] == LIMITED]
    return long, response / limits[0] if limits else math.nan


def _truths_by_runs(server: Server, mapped: Document, asked: argparse.Namespace) -> list[Truth]:
    """Run for long on both sides of each answer of a map; return where the response meets its
    limit. A sample of which no run holds, or none fails, has no truth."""

    def truth_of(one: SampleResult) -> Truth | None:
        runs: dict[float, tuple[LongRun, float]] = {}
        shares = list(FIRST_SHARES)
        while shares and len(runs) < MOST_RUNS:
            share = shares.pop(0)
            runs[share] = _run_at(server, one, share, asked)
            if not shares:
                held = [n for n, (run, _) in runs.items() if run.holds]
                failed = [n for n, (run, _) in runs.items() if run.holds is False]
                if not failed:
                    shares = [max(runs) * (1 + FURTHER)]
                elif not held:
                    shares = [min(runs) * (1 - FURTHER)]
        if shares:
            print(f"no truth at {dict(one.sample)}: all runs are on one side")
            return None
        responses = {share: response for share, (_, response) in runs.items()}
        share = crossing(responses, 1.0)
        longs = tuple(runs[share][0] for share in sorted(runs))
        peak = one.found.peak_rate
        assert peak is not None, "a result without a peak is no truth"
        true = msgspec.structs.replace(one.found, peak_rate=peak * share, interval=None)
        return Truth(msgspec.structs.replace(one, found=true), longs)

    with ThreadPoolExecutor(asked.at_once) as executor:
        truths = executor.map(truth_of, results_of(mapped) if mapped else ())
        return [truth for truth in truths if truth is not None]


def summary(workload: str, measured: Measured) -> Iterator[str]:
    """Yield the results of a workload as tables."""
    document = measured.surface
    yield f"\n{measured.server.name}: {document.get('detail', 'no map')}"
    if document:
        yield (f"{document['load_s'] / 3600:.2f} h of load, {document['trials']} trials")
    true = {one.found.sample: one for one in measured.truths}
    yield "\n| disks | threads | map's search | interval | truth | interval | long runs |"
    yield "|---" * 7 + "|"
    for one in results_of(document) if document else ():
        cells = [level for _, level in one.sample] + _peak_cells(one)
        if (truth := true.get(one.sample)) is not None:
            cells += _peak_cells(truth.found)
            words = {True: "holds", False: "fails", None: "not known"}
            cells.append(", ".join(f"{each.share:g} {words[each.holds]}" for each in truth.runs))
        yield "| " + " | ".join(cells) + " |"
    if measured.errors:
        against = "the truth" if true else "the same searches"
        yield f"\nmean absolute error [%] of maps from {SIZES} samples, against {against}"
        if workload in PUBLISHED:
            yield f"- the paper's: {PUBLISHED[workload]}"
        for way, values in measured.errors.items():
            yield f"- {way}: {', '.join(f'{value:.1f}' for value in values)}"
    sides = {True: "held", False: "MISSED", None: "NOT KNOWN"}[measured.confirmed]
    yield f"- long runs hold below and fail above: {sides}"


def _peak_cells(one: SampleResult) -> list[str]:
    interval = one.found.interval
    reach = "" if interval is None else f"{interval.low:,.0f} to {interval.high:,.0f}"
    ended = "" if one.claim_held else f" ({one.found.status})"
    return [f"{one.found.peak_rate:,.0f}{ended}", reach]


def written(everything: dict[str, Measured], out: Path) -> None:
    """Write all figures as JSON."""
    document = {
        workload: {
            "surface": one.surface,
            "truths": [
                {
                    "sample": dict(truth.found.sample),
                    "peak_rate": truth.found.found.peak_rate,
                    "status": str(truth.found.found.status),
                    "long_runs": [each._asdict() for each in truth.runs],
                }
                for truth in one.truths
            ],
            "errors": one.errors,
            "confirmed": one.confirmed,
        }
        for workload, one in everything.items()
    }
    (out / "surfaces.json").write_text(json.dumps(document, indent=1))


def _levels(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(",")))


def arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
    """Return the options of a command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", choices=(*WORKLOADS, "web-server", "mail"))
    parser.add_argument("--disks", type=_levels, default=(1, 2, 3, 4))
    parser.add_argument("--threads", type=_levels, default=(2, 8, 32))
    parser.add_argument("--iops", type=int, help="of each disk (default: the spec's)")
    parser.add_argument("--samples", type=int, help="searched (default: all)")
    add_search_options(parser, claim="rate:5%", budget="8m")
    parser.add_argument("--truth-claim", default="rate:2%")
    parser.add_argument("--truth-budget", default="20m")
    parser.add_argument("--truth", choices=("searches", "runs", "none"), default="searches")
    parser.add_argument("--pool", help="of both maps, such as local:gangs=2")
    parser.add_argument("--at-once", type=int, default=1, help="long runs side by side")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, help="where all is kept")
    add_busy_option(parser)
    return parser.parse_args(words)


def main() -> int:
    """Map all workloads; return 0 if every map is complete and confirmed."""
    asked = arguments()
    prepare()
    out = asked.out = asked.out or Path(tempfile.mkdtemp(prefix="bw-surfaces-"))
    out.mkdir(parents=True, exist_ok=True)
    if not is_installed(nfs("db_tp")):
        print("not measured: NFS-Ganesha is not installed")
        return 1
    refuse_busy(asked.busy)
    print(f"kept in {out}\n\n{HEADER}", flush=True)
    everything: dict[str, Measured] = {}
    for workload in [asked.only] if asked.only else WORKLOADS:
        everything[workload] = measure(workload, asked)
        written(everything, out)
    for workload, one in everything.items():
        print("\n".join(summary(WORKLOADS.get(workload, workload), one)), flush=True)
    complete = all(one.surface.get("status") == "complete" for one in everything.values())
    held = asked.truth == "none" or all(one.confirmed for one in everything.values())
    return 0 if complete and held else 1


if __name__ == "__main__":
    sys.exit(main())
