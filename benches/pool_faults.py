#!/usr/bin/env python3
"""What a pool on Slurm makes of faults: rounds of one surface, each with every fault once, at random moments.

For each round: a surface of 12 simulated samples on three real Slurm nodes of this machine, with leases of 40 s. In random order: kill -9 of an
agent, of the controller, of a slurmd (started again 2 s later), of slurmctld (started again at once), an orderly restart of slurmctld,
scancel, scontrol suspend and resume, an attempt to requeue. Then the table must be that of an undisturbed session, each sample recorded
once, and no job left. A trial that was stopped reports another value, so a recorded hole changes the table.
Usage: python3 benches/pool_faults.py [--rounds 25] [--seed 1]
Needs slurmctld, slurmd, slurm-client and munge; half a minute to a minute for each round.
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

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests" / "stand_ins")]

from pool_sessions import PoolSession, check_counts, table, write_surface  # noqa: E402
from slurm_cluster import SlurmCluster, missing, slurm_cluster  # noqa: E402

POOL = "slurm:partition=bench,gangs=3,lease=40s,retries=20"


class Round:
    """One session and its faults."""

    def __init__(self, slurm: SlurmCluster, place: Path, chance: random.Random) -> None:
        write_surface(place, sleep_s=0.4)
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
            *(self.job_suspended, self.job_requeued),
        ]
        self._chance.shuffle(faults)
        self.session.begin("surface", "s.toml", "--study", "st", "--pool", POOL)
        self.session.wait_for_running(1)
        for fault in faults:
            time.sleep(self._chance.uniform(0, 3))
            assert self.session.process is not None
            if self.session.process.poll() is not None:
                break
            # A job that has just ended is no fault.
            with contextlib.suppress(ProcessLookupError, AssertionError, IndexError):
                began_ns = time.time_ns()
                met = fault()
                self.done[fault.__name__] += 1
                self.log.append((began_ns, f"{fault.__name__} {met}"))

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

    def job_requeued(self) -> str:
        job = self._job()
        assert self._slurm.run("scontrol", "requeue", job).returncode != 0
        return job


def undisturbed(place: Path) -> list[dict[str, object]]:
    """Return the table of the session on this machine."""
    write_surface(place, sleep_s=0.4)
    session = PoolSession(place, os.environ)
    session.begin("surface", "s.toml", "--study", "st", "--pool", "local:gangs=3")
    return table(session.ended())


def main(argv: list[str]) -> int:
    """Run the rounds, and print what happened."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args(argv)
    if why := missing():
        sys.exit(why)
    faults: Counter[str] = Counter()
    voids: Counter[str] = Counter()
    wrong: list[Path] = []
    with tempfile.TemporaryDirectory(prefix="bw-faults-") as first:
        expected = undisturbed(Path(first))
    with slurm_cluster() as slurm:
        for number in range(asked.rounds):
            place = Path(tempfile.mkdtemp(prefix="bw-faults-"))
            chance = random.Random(asked.seed * 1000 + number)
            one, begun_s = Round(slurm, place, chance), time.monotonic()
            try:
                one.run()
                assert table(one.session.ended()) == expected, "another table"
                its = check_counts(one.session)
                slurm.wait_until_idle()
            except Exception as error:
                wrong.append(place)
                print(f"round {number + 1}: WRONG: {error}; {place}", flush=True)
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
