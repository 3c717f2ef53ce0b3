"""Plays many searches on every simulated server and shows that each of them ends.

`python tests/sim/peak_ends.py [--searches 1000] [--servers a,b] [--policies
monotone,binsearch-honest] [--seed 1] [--out target/peak-ends.jsonl]`

Each search is a line of the file as soon as it has ended; a run that was stopped goes on with
what is missing. Seed by seed, so that a part is a part of every server's. The table on stdout is
of all lines in the file.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from benchwright.features.search.peak.policies.registry import policy_named
from benchwright.features.search.types import PeakStatus
from held_out import BY_NAME
from outcomes import whole_lines
from world import search_of


class Ended(msgspec.Struct, frozen=True):
    """One search that ended."""

    server: str
    policy: str
    seed: int
    status: str
    trials: int
    at_one_rate: int
    """Most trials at one rate."""
    cpu_s: float
    """Of the whole search, the simulation included [s]."""


def arguments(argv: Sequence[str]) -> argparse.Namespace:
    """Return what the command line says."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--searches", type=int, default=1000, help="per server and policy")
    add("--servers", default=",".join(BY_NAME), help="names, by commas")
    add("--policies", default="monotone", help="names, by commas")
    add("--seed", type=int, default=1, help="of the first search")
    add("--out", type=Path, default=Path("target/peak-ends.jsonl"))
    return parser.parse_args(argv)


def played(server: str, policy: str, seed: int) -> Ended:
    """Return how a search ended."""
    began = time.process_time()
    search = search_of(policy_named(policy), BY_NAME[server], seed)
    assert search.result is not None
    rates = Counter(probe.rate for probe in search.probes)
    return Ended(
        server=server,
        policy=policy,
        seed=seed,
        status=search.result.status.value,
        trials=len(search.history),
        at_one_rate=max(rates.values()),
        cpu_s=round(time.process_time() - began, 2),
    )


def stored(path: Path) -> list[Ended]:
    """Return the searches in a file, without a line that was cut, which is taken out."""
    return [msgspec.json.decode(line, type=Ended) for line in whole_lines(path)]


def table(searches: Sequence[Ended]) -> Iterator[str]:
    """Yield the lines of a Markdown table, one row for each server and policy."""
    yield "| server | policy | searches | ended by their claim | most trials | at one rate |"
    yield "|---|---|---|---|---|---|"
    key = lambda one: (one.server, one.policy)  # noqa: E731
    for (server, policy), group in itertools.groupby(sorted(searches, key=key), key):
        here = list(group)
        found = sum(one.status == PeakStatus.FOUND for one in here)
        trials = max(one.trials for one in here)
        at_one_rate = max(one.at_one_rate for one in here)
        yield (f"| {server} | {policy} | {len(here)} | {found} | {trials} | {at_one_rate} |")


def main(argv: Sequence[str]) -> None:
    """Play what is missing, and print the table."""
    asked = arguments(argv)
    asked.out.parent.mkdir(parents=True, exist_ok=True)
    searches = stored(asked.out)
    known = {(one.server, one.policy, one.seed) for one in searches}
    seeds = range(asked.seed, asked.seed + asked.searches)
    names = asked.servers.split(","), asked.policies.split(",")
    with asked.out.open("ab") as out:
        for seed, server, policy in itertools.product(seeds, *names):
            if (server, policy, seed) in known:
                continue
            searches.append(played(server, policy, seed))
            out.write(msgspec.json.encode(searches[-1]) + b"\n")
            out.flush()
    print("\n".join(table(searches)))


if __name__ == "__main__":
    main(sys.argv[1:])
