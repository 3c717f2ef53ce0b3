#!/usr/bin/env python3
"""What a pool on Slurm makes of faults: rounds of one surface, each with every fault once, at
random moments.

For each round: a surface of 12 simulated samples on three real Slurm nodes of this machine, with a
deadline of 8 to 18 s, and leases of 6 to 12 s. In random order: kill -9 of an agent, of the
controller, of a slurmd (started again 2 s later), of slurmctld (started again at once), an orderly
restart of slurmctld, scancel, scontrol suspend and resume, an attempt to requeue, a host's disk
that is full for some seconds. At a deadline no job may be left; then the session is resumed, until
all samples are searched. The table must be that of an undisturbed session, each sample recorded
once, no agent lost that was not killed, and no job left. A trial that was stopped reports another
value, so a recorded hole changes the table. Usage: python3 benches/pool_faults.py [--rounds 25]
[--seed 1] Needs slurmctld, slurmd, slurm-client, munge, and root for the disks; half a minute to
two minutes for each round.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests" / "stand_ins")]

from benchwright.features.pool.types import VoidReason  # noqa: E402
from pool_sessions import PoolSession, check_counts, table, write_surface  # noqa: E402
from slurm_cluster import SlurmCluster, missing, slurm_cluster  # noqa: E402

SLEEP_S = 2.2
"""Length of a trial."""
DEADLINE_S, LEASE_S = (8.0, 18.0), (6.0, 12.0)
"""Their ranges."""
_UNDISTURBED_S = 600.0
_MOST_RESUMES = 40


Row = dict[str, Any]


class Round:
    """One session and its faults."""

    def __init__(self, slurm: SlurmCluster, place: Path, chance: random.Random) -> None:
        self._deadline_s = chance.uniform(*DEADLINE_S)
        write_surface(place, sleep_s=SLEEP_S, deadline_s=self._deadline_s)
        self.session = PoolSession(place, slurm.environment)
        self.done: Counter[str] = Counter()
        """Faults that met a running controller."""
        self.log: list[tuple[int, str]] = []
        """When each of them began, CLOCK_REALTIME [ns], and what it met."""
        self._slurm = slurm
        self._chance = chance

    def run(self) -> None:
        """Run the session to its end, with each fault once."""
        faults: list[Callable[[], str]] = [
            *(self.agent_killed, self.controller_killed, self.slurmd_killed),
            *(self.slurmctld_killed, self.slurmctld_restarted, self.job_cancelled),
            *(self.job_suspended, self.job_requeued, self.disk_filled),
        ]
        self._chance.shuffle(faults)
        lease_s = round(self._chance.uniform(*LEASE_S))
        pool = f"slurm:partition=bench,gangs=3,lease={lease_s}s,retries=20"
        self.session.begin("surface", "s.toml", "--study", "st", "--pool", pool)
        assert self.session.process is not None
        while not self.session.attempts() and self.session.process.poll() is None:
            time.sleep(0.1)
        for fault in faults:
            time.sleep(self._chance.uniform(0, 2.5))
            assert self.session.process is not None
            if self.session.process.poll() is not None and self._complete():
                break
            # A job that has just ended is no fault.
            with contextlib.suppress(ProcessLookupError, AssertionError, IndexError):
                began_ns = time.time_ns()
                met = fault()
                self.done[fault.__name__] += 1
                self.log.append((began_ns, f"{fault.__name__} {met}"))

    def _complete(self) -> dict[str, Any] | None:
        """Wait for the end of the session and return its document; resume it after a deadline, and
        return None."""
        document = self.session.ended()
        if document["status"] == "complete":
            return document
        assert document["status"] == "deadline", document["status"]
        self.done["deadline_reached"] += 1
        self.log.append((time.time_ns(), f"deadline of {self._deadline_s:.1f} s"))
        self._slurm.wait_for_no_jobs()
        # Slurm drains a host where a crash made it start a job a second time.
        self._slurm.reset()
        self.session.begin("resume", "st")
        return None

    def end(self) -> dict[str, Any]:
        """Resume the session until it is complete, and return its document."""
        for _ in range(_MOST_RESUMES):
            if (document := self._complete()) is not None:
                leases = self.session.leases().values()
                ended = [one for one in leases if one.ended == VoidReason.LEASE_ENDED]
                self.done["lease_reached"] += len(ended)
                return document
        raise AssertionError(f"no end after {_MOST_RESUMES} deadlines")

    def history(self) -> list[str]:
        """Return the faults and the void attempts, in the order of time."""
        lines = list(self.log)
        for one in self.session.attempts().values():
            if one.void:
                ran_s = (one.ended_ns - one.began_ns) / 1e9
                job = self.session.lease_of(one).job
                what = f"  {one.id} on {one.gang} (job {job}, {','.join(one.hosts)}) after {ran_s:.1f} s"
                lines.append((one.ended_ns, f"{what}: {one.void} ({one.detail})"))
        lines.sort()
        first_ns = lines[0][0] if lines else 0
        return [f"{(at_ns - first_ns) / 1e9:6.1f} s {text}" for at_ns, text in lines]

    def _job(self) -> str:
        return self._chance.choice(self._slurm.jobs()).split()[0]

    def agent_killed(self) -> str:
        attempts = self.session.attempts().values()
        running = [one for one in attempts if not one.ended_ns]
        victim = self._chance.choice(running)
        os.kill(self.session.agent_of(victim), signal.SIGKILL)
        return f"of job {self.session.lease_of(victim).job}"

    def controller_killed(self) -> str:
        self.session.kill()
        time.sleep(self._chance.uniform(0, 2))
        self.session.begin("resume", "st")
        return ""

    def slurmd_killed(self) -> str:
        host = self._chance.choice(self._slurm.hosts)
        self._slurm.kill(host)
        time.sleep(2)
        self._slurm.start(host)
        return f"of {host}"

    def slurmctld_killed(self) -> str:
        self._slurm.kill("slurmctld")
        self._slurm.start("slurmctld")
        return ""

    def slurmctld_restarted(self) -> str:
        self._slurm.kill("slurmctld", signal.SIGTERM)
        self._slurm.start("slurmctld")
        return ""

    def job_cancelled(self) -> str:
        job = self._job()
        self._slurm.ask("scancel", job)
        return job

    def job_suspended(self) -> str:
        job = self._job()
        self._slurm.ask("scontrol", "suspend", job)
        time.sleep(self._chance.uniform(0.2, 2))
        self._slurm.ask("scontrol", "resume", job)
        return job

    def disk_filled(self) -> str:
        host = self._chance.choice(self._slurm.hosts)
        self._slurm.fill_disk(host)
        time.sleep(self._chance.uniform(0.5, 3))
        self._slurm.free_disk(host)
        return f"of {host}"

    def job_requeued(self) -> str:
        job = self._job()
        assert self._slurm.run("scontrol", "requeue", job).returncode != 0
        return job


def undisturbed(place: Path) -> dict[str, Row]:
    """Return the table of the session on this machine."""
    write_surface(place, sleep_s=0, deadline_s=_UNDISTURBED_S)
    session = PoolSession(place, os.environ)
    session.begin("surface", "s.toml", "--study", "st", "--pool", "local:gangs=3")
    return results(session.ended())


def results(document: dict[str, Any]) -> dict[str, Row]:
    """Return the result of each sample: a deadline changes their order, and whether all gangs
    search the anchor."""
    found: dict[str, Row] = {}
    for row in table(document):
        assert found.setdefault(str(row["sample"]), row) == row, "another anchor"
    return found


def main(argv: list[str]) -> int:
    """Run the rounds, and print what happened."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args(argv)
    if why := missing():
        sys.exit(why)
    if os.geteuid():
        sys.exit("the small disks of the hosts need root")
    if hidden := [at for at in (ROOT, Path(sys.prefix)) if at.is_relative_to("/tmp")]:
        sys.exit(f"{hidden[0]} cannot be in /tmp: each host has a /tmp of its own")
    faults: Counter[str] = Counter()
    voids: Counter[str] = Counter()
    wrong: list[Path] = []
    with tempfile.TemporaryDirectory(prefix="bw-faults-") as first:
        expected = undisturbed(Path(first))
    # Each host has a /tmp of its own.
    with slurm_cluster(disks=True) as slurm:
        for number in range(asked.rounds):
            place = Path(tempfile.mkdtemp(prefix="bw-faults-", dir="/var/tmp"))
            chance = random.Random(asked.seed * 1000 + number)
            one, begun_s = Round(slurm, place, chance), time.monotonic()
            try:
                one.run()
                assert results(one.end()) == expected, "another table"
                its = check_counts(one.session)
                lost = its[VoidReason.AGENT_LOST]
                assert lost <= one.done["agent_killed"], "agents lost, not killed"
                slurm.wait_for_no_jobs()
            except Exception as error:
                wrong.append(place)
                print(f"round {number + 1}: WRONG: {error}; {place}")
                print(*one.history(), sep="\n  ", flush=True)
            else:
                voids += its
                words = ", ".join(f"{n} {name}" for name, n in sorted(its.items()))
                took_s = time.monotonic() - begun_s
                print(
                    f"round {number + 1}: {one.done.total()} faults, {took_s:.0f} s;"
                    f" void: {words or 'none'}",
                    *one.history(),
                    sep="\n  ",
                    flush=True,
                )
            faults += one.done
            one.session.kill()
            slurm.reset()
            one.session.end()
            if place not in wrong:
                shutil.rmtree(place)
    for title, counts in (("faults", faults), ("void attempts", voids)):
        print(f"{title}: " + ", ".join(f"{name} {n}" for name, n in counts.items()))
    print(f"{asked.rounds - len(wrong)} of {asked.rounds} rounds as undisturbed")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
