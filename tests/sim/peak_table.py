"""Plays every policy on every simulated server and prints how good they were.

`python tests/sim/peak_table.py [--searches 200] [--peer-searches 50] [--servers a,b]
[--held-out] [--policies x,y] [--claims region:10%,rate:10%,rate:5%] [--jobs 2] [--seed 1]
[--budget 600] [--machines calm,gen-5] [--json FILE] [--outcomes FILE]`

Markdown on stdout (first the table of docs/peak-method.md), progress on
stderr, and with --json every row as a machine reads it. Our policy plays every claim, the others
know none and play the first. Each search depends on nothing but its server, policy, claim and seed.
With --outcomes every search is in a file as soon as its chunk has ended; a run that was stopped
goes on with what is missing, so a table can be played in pieces (by server, by policy, by time).
With --machines every policy plays every claim on simulated machines (machine.py), and the table is
that of machine_table.py.
"""

from __future__ import annotations

import argparse
import itertools
import math
import multiprocessing
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import msgspec

from benchwright.features.search.peak.policies.registry import DEFAULT_POLICY, POLICY_NAMES
from benchwright.features.search.types import Claim, parse_claim
from held_out import BY_NAME, HELD_OUT
from machine import BY_MACHINE, CALM
from machine_table import MachineRow, machine_markdown, machine_rows
from outcomes import PEERS, RESTART_S, Outcome, Row, Share, Task, play_task, row_of, whole_lines
from servers import SERVERS

SLOW = ("strawman",)
"""Played only when named: a search is 50,000 s of load."""
FEW = {"fast": 5}
"""Servers on which the other policies play at most so often: 180 s are 9 million
operations."""
CHUNK = 5
"""Searches that a process plays at a time."""
Key = tuple[str, str, str, str]
COLUMNS = (
    "policy",
    "claim",
    "n",
    "trials",
    "seconds",
    "p95 s",
    f"s + {RESTART_S:.0f}/trial",
    "error %",
    "bias %",
    "in region %",
    "±10 % of rate",
    "±5 % of rate",
    "claim held %",
    "stated %",
    "interval held %",
    "not converged %",
    "finding %",
)
HONEST = "binsearch-honest"


class Played(msgspec.Struct, frozen=True):
    """The searches of one task, a line of the file of --outcomes."""

    server: str
    policy: str
    claim: str
    budget_s: float | None
    outcomes: list[Outcome]
    machine: str = CALM.name

    @property
    def key(self) -> Key:
        """What it is grouped by."""
        return self.server, self.policy, self.claim, self.machine


def arguments(argv: list[str]) -> argparse.Namespace:
    """Return what the command line says."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    everything = [name for name in (*POLICY_NAMES, *PEERS) if name not in SLOW]
    add = parser.add_argument
    add("--searches", type=int, default=200, help="by our policy, per server and claim")
    add("--peer-searches", type=int, default=50, help="by every other policy")
    add("--servers", type=_names(BY_NAME), default=[s.name for s in SERVERS])
    add("--held-out", action="store_true", help="and the held-out servers")
    add("--policies", type=_names((*POLICY_NAMES, *PEERS)), default=everything)
    add("--claims", type=_claims, default=_claims("region:10%,rate:10%,rate:5%"))
    add("--jobs", type=int, default=2)
    add("--seed", type=int, default=1)
    add("--budget", type=float, help="of each search by a policy of bw [s]")
    add("--machines", type=_names(BY_MACHINE), help="on which every policy plays")
    add("--json", type=Path, help="where the rows are written for a machine")
    add("--outcomes", type=Path, help="where every search is kept, and read from again")
    return parser.parse_args(argv)


def _names(known: Iterable[str]) -> Callable[[str], list[str]]:
    """Return a reader of known names, by commas."""
    names = tuple(known)

    def read(text: str) -> list[str]:
        wrong = [name for name in text.split(",") if name not in names]
        if wrong:
            raise argparse.ArgumentTypeError(
                f"not known: {', '.join(wrong)}; known are {', '.join(names)}"
            )
        return text.split(",")

    return read


def _claims(text: str) -> list[Claim]:
    """Return claims, by commas."""
    try:
        return [parse_claim(one) for one in text.split(",")]
    except ValueError as wrong:
        raise argparse.ArgumentTypeError(str(wrong)) from None


def tasks_of(asked: argparse.Namespace) -> Iterator[Task]:
    """Return what is to be in the table, a task for each server, policy and claim."""
    held_out = [s.name for s in HELD_OUT] if asked.held_out else []
    servers = list(dict.fromkeys([*asked.servers, *held_out]))
    if asked.machines is not None:
        yield from _on_machines(asked, servers)
        return
    for server, policy in itertools.product(servers, asked.policies):
        ours = policy == DEFAULT_POLICY
        peers = min(asked.peer_searches, FEW.get(server, asked.peer_searches))
        searches = asked.searches if ours else peers
        for claim in asked.claims if ours else asked.claims[:1]:
            if policy == "mlrsearch-share" and _no_mean(server):
                continue
            seeds = tuple(range(asked.seed, asked.seed + searches))
            yield Task(server, policy, claim, seeds, asked.budget)


def _on_machines(asked: argparse.Namespace, servers: Sequence[str]) -> Iterator[Task]:
    """Return a task for each server, policy, claim and machine."""
    policies = [name for name in asked.policies if name not in PEERS]
    seeds = tuple(range(asked.seed, asked.seed + asked.searches))
    for one in itertools.product(servers, policies, asked.claims, asked.machines):
        server, policy, claim, machine = one
        yield Task(server, policy, claim, seeds, asked.budget, machine)


def chunks_of(task: Task, known: set[int]) -> Iterator[Task]:
    """Return the searches of a task that are not known yet, a few at a time."""
    missing = [seed for seed in task.seeds if seed not in known]
    for first in range(0, len(missing), CHUNK):
        seeds = tuple(missing[first : first + CHUNK])
        yield msgspec.structs.replace(task, seeds=seeds)


def _no_mean(server: str) -> bool:
    """Return whether a share of responses says nothing about a server's criterion."""
    return BY_NAME[server].binding.statistic != "mean"


def play_all(tasks: Sequence[Task], jobs: int, path: Path | None) -> dict[Key, dict[int, Outcome]]:
    """Return every search's outcome by seed, by server, policy and claim.

    `path` is a file of the searches that were played before, which the new ones are added to.
    """
    found: dict[Key, dict[int, Outcome]] = {_key(task): {} for task in tasks}
    budgets = {_key(task): task.budget_s for task in tasks}
    for line in whole_lines(path) if path else ():
        played = msgspec.json.decode(line, type=Played)
        if played.key in found and played.budget_s == budgets[played.key]:
            found[played.key].update({one.seed: one for one in played.outcomes})
    chunks = [c for task in tasks for c in chunks_of(task, set(found[_key(task)]))]
    with multiprocessing.Pool(jobs) as pool, (path or Path(os.devnull)).open("ab") as out:
        for number, played in enumerate(pool.imap_unordered(_play, chunks), 1):
            found[played.key].update({one.seed: one for one in played.outcomes})
            out.write(msgspec.json.encode(played) + b"\n")
            out.flush()
            if number % 20 == 0 or number == len(chunks):
                print(f"{number}/{len(chunks)} {played.server}", file=sys.stderr)
    return found


def _play(task: Task) -> Played:
    name, budget_s = task.claim.text, task.budget_s
    outcomes = play_task(task)
    return Played(task.server, task.policy, name, budget_s, outcomes, task.machine)


def _key(task: Task) -> Key:
    return task.server, task.policy, task.claim.text, task.machine


def summary(played: Sequence[tuple[Task, list[Outcome]]]) -> list[str]:
    """Return the rows of docs/peak-method.md and docs/decisions/0007-peak.md: of our searches that
    ended as found, how many made a claim that holds, their load, and the honest binary search's in
    units of it."""
    found = {_key(task)[:3]: outcomes for task, outcomes in played}
    claims = list(dict.fromkeys(c for _, p, c in found if p == DEFAULT_POLICY))
    region = next((c for c in claims if c.startswith("region")), None)
    order = sorted(claims, key=lambda claim: (claim == region, claim))
    head = ["server", *(f"`{c}`" for c in order), *(f"s, `{c}`" for c in order)]
    lines = [_line([*head, "honest binary search / ours"]), _line(["---"] * (len(head) + 1))]
    totals = dict.fromkeys(order, (0, 0))
    ratios = []
    for server in dict.fromkeys(s for s, p, _ in found if p == DEFAULT_POLICY):
        ours = {claim: found[server, DEFAULT_POLICY, claim] for claim in order}
        cells = [server]
        for claim, outcomes in ours.items():
            ended = [one for one in outcomes if one.status == "found"]
            held = sum(one.claim_held for one in ended)
            cells.append(f"{held} of {len(ended)}")
            totals[claim] = (totals[claim][0] + held, totals[claim][1] + len(ended))
        cells += [f"{_mean_load(outcomes):.0f}" for outcomes in ours.values()]
        honest = found.get((server, HONEST, region or ""))
        if honest and region:
            ratios.append(_mean_load(honest) / _mean_load(ours[region]))
        cells.append(f"{ratios[-1]:.1f}" if honest and region else "")
        lines.append(_line(cells))
    sums = [f"{held:,} of {ended:,}" for held, ended in totals.values()]
    mean = f"{_geometric(ratios):.1f}" if ratios else ""
    return [*lines, _line(["all", *sums, *[""] * len(order), mean]), ""]


def _mean_load(outcomes: Sequence[Outcome]) -> float:
    """Return the mean load of searches [s]."""
    return math.fsum(one.load_s for one in outcomes) / len(outcomes)


def markdown(rows: Sequence[Row]) -> str:
    """Return a table for each server, and what ours costs against the others."""
    lines: list[str] = []
    for server, group in itertools.groupby(rows, key=lambda row: row.server):
        lines += [f"### {server}", "", _told(server), ""]
        lines += [_line(COLUMNS), _line(["---"] * len(COLUMNS))]
        lines += [_line(_cells(row)) for row in group] + [""]
    return "\n".join([*lines, *ratio_lines(rows)])


def _told(name: str) -> str:
    """Return a line about a server."""
    server = BY_NAME[name]
    parts = [f"True peak {server.peak_rate:.6g}/s"]
    parts += [] if server.stationary else ["not stationary"]
    parts += [f"to be found: `{server.finding}`"] if server.finding else []
    parts += ["held out"] if server in HELD_OUT else []
    return "; ".join(parts) + "."


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _cells(row: Row) -> list[str]:
    """Return a row's cells in the order of `COLUMNS`."""
    return [
        row.policy,
        row.claim,
        str(row.searches),
        f"{row.trials:.1f}",
        f"{row.load_s:.0f}",
        f"{row.load_s_p95:.0f}",
        f"{row.with_restarts_s:.0f}",
        _percent(row.mean_abs_error, 2),
        _percent(row.bias, 2),
        _share(row.in_region),
        _percent(row.within_10.value),
        _percent(row.within_5.value),
        _share(row.claim_held),
        _percent(row.probability),
        _share(row.interval_held),
        _percent(row.unconverged.value),
        _share(row.finding),
    ]


def _percent(value: float | None, digits: int = 1) -> str:
    return "" if value is None else f"{100 * value:.{digits}f}"


def _share(share: Share | None) -> str:
    """Return a share with its interval [%]."""
    if share is None:
        return ""
    return f"{100 * share.value:.1f} ({100 * share.low:.1f}–{100 * share.high:.1f})"


def ratio_lines(rows: Sequence[Row]) -> list[str]:
    """Return the table of other policies' seconds in units of ours."""
    regions = {(r.server, r.policy): r for r in rows if r.claim.startswith("region")}
    others = list(dict.fromkeys(p for _, p in regions if p != DEFAULT_POLICY))
    servers = [s for s, p in regions if p == DEFAULT_POLICY]
    if not others or not servers:
        return []
    ratios = {
        (s, p): regions[s, p].load_s / regions[s, DEFAULT_POLICY].load_s
        for s, p in itertools.product(servers, others)
        if (s, p) in regions
    }
    lines = [f"### Seconds of load against {DEFAULT_POLICY}'s", ""]
    lines += [_line(["server", *others]), _line(["---"] * (1 + len(others)))]
    for server in servers:
        cells = [ratios.get((server, policy)) for policy in others]
        lines.append(_line([server, *("" if c is None else f"{c:.1f}" for c in cells)]))
    means = [_geometric([r for (_, p), r in ratios.items() if p == o]) for o in others]
    return [*lines, _line(["geometric mean", *(f"{m:.1f}" for m in means)]), ""]


def _geometric(values: Sequence[float]) -> float:
    return math.exp(math.fsum(map(math.log, values)) / len(values))


def main(argv: list[str]) -> None:
    """Play, and print."""
    asked = arguments(argv)
    tasks = list(tasks_of(asked))
    found = play_all(tasks, asked.jobs, asked.outcomes)
    played = [(task, [found[_key(task)][seed] for seed in task.seeds]) for task in tasks]
    rows: Sequence[Row | MachineRow]
    if asked.machines is None:
        calm = [row_of(task, outcomes) for task, outcomes in played]
        rows, text = calm, "\n".join([*summary(played), markdown(calm)])
    else:
        busy = machine_rows(played)
        rows, text = busy, machine_markdown(busy)
    if asked.json:
        asked.json.write_bytes(msgspec.json.format(msgspec.json.encode(rows)))
    print(text)


if __name__ == "__main__":
    main(sys.argv[1:])
