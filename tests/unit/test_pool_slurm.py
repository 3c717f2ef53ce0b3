"""The engine for Slurm against recorded outputs of its commands."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence

import msgspec
import pytest

from benchwright.core.errors import BenchError, InputError
from benchwright.features.pool import slurm
from benchwright.features.pool.slurm import SlurmEngine, jobs_of
from benchwright.features.pool.types import Lease, LeaseState, PoolKind, PoolSettings, VoidReason

TOKEN = "0123456789abcdef"
SETTINGS = PoolSettings(engine=PoolKind.SLURM, gangs=2, partition="bench")
NO_ANSWER = "slurm_load_jobs error: Unable to contact slurm controller (connect failure)"

# Printed by squeue 22.05.8 in the engine's format.
PENDING = "7|PENDING|Resources|||N/A|N/A|bw-01234567-g1|0123456789abcdef 1"
RUNNING = "7|RUNNING|None|h[1-2]|h2|1795448900|1795456100|bw-01234567-g1|0123456789abcdef 1"
CANCEL = ["scancel", "--name=bw-01234567-g1", "7"]
FOREIGN = "8|RUNNING|None|h3|h3|1795448900|1795456100|bw-01234567-g2|ffffffffffffffff 1"


class Recorded:
    """Stands for Slurm's commands."""

    def __init__(self, *lines: str) -> None:
        self.lines = lines
        self.failures: dict[str, str] = {}
        """What a command complains about, by its name."""
        self.shown = ""
        """What `scontrol show job` prints."""
        self.calls: list[list[str]] = []
        self.scripts: list[str] = []

    def __call__(self, argv: Sequence[str], text: str) -> subprocess.CompletedProcess[str]:
        words = list(argv[2:] if argv[0] == "env" else argv)
        self.calls.append(words)
        answer = {
            "squeue": "\n".join(self.lines) + "\n",
            "sbatch": "7;cluster\n",
            "scontrol": "h1\nh2\n" if "hostnames" in words else self.shown,
        }
        if words[0] == "sbatch":
            self.scripts.append(text)
        failure = self.failures.get(words[0])
        return subprocess.CompletedProcess(
            words, 1 if failure else 0, "" if failure else answer.get(words[0], ""), failure or ""
        )

    def called(self, name: str) -> list[list[str]]:
        return [words for words in self.calls if words[0] == name]


@pytest.fixture(autouse=True)
def _states_are_never_fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_FRESH_S", "_SLOWEST_S", "_PAUSE_S"):
        monkeypatch.setattr(slurm, name, -1.0)


def opened(*lines: str, settings: PoolSettings = SETTINGS) -> tuple[SlurmEngine, Recorded, Lease]:
    commands = Recorded()
    engine = SlurmEngine(settings, TOKEN, commands)
    lease = engine.open("g1", 1, ())
    commands.lines = lines
    return engine, commands, lease


def test_a_job_is_one_lease_and_is_never_requeued() -> None:
    settings = msgspec.structs.replace(SETTINGS, account="lab", lease_s=7200.0, constraint="sut")
    commands = Recorded()
    lease = SlurmEngine(settings, TOKEN, commands).open("g1", 1, ["h9", "h3"])
    assert (lease.job, lease.state) == ("7", LeaseState.WAITING)
    ((_, *words),) = commands.called("sbatch")
    assert set(words) == {
        *("--parsable", "--no-requeue", "--exclusive", "--wait-all-nodes=1"),
        *("--nodes=1", "--mem=0", "--output=/dev/null", "--chdir=/", "--time=120"),
        *("--job-name=bw-01234567-g1", f"--comment={TOKEN} 1", "--partition=bench"),
        *("--account=lab", "--constraint=sut", "--exclude=h3,h9"),
    }
    assert " 7185 >>" in commands.scripts[0]
    checked = ["sh", "-n"]
    assert subprocess.run(checked, input=commands.scripts[0], text=True).returncode == 0


def test_a_lease_follows_its_job() -> None:
    engine, commands, lease = opened(PENDING, FOREIGN)
    waiting = engine.state(lease)
    assert (waiting.state, waiting.detail) == (LeaseState.WAITING, "job 7: Resources")
    commands.lines = (RUNNING,)
    running = engine.state(waiting)
    assert running.state is LeaseState.RUNNING
    assert running.hosts == ("h2", "h1")
    assert running.ends_ns == 1795456100 * 10**9


def test_a_lease_ends_when_its_agent_does() -> None:
    settings = msgspec.structs.replace(SETTINGS, lease_s=600.0)
    engine, _, lease = opened(RUNNING, settings=settings)
    assert engine.state(lease).ends_ns == (1795448900 + 585) * 10**9


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        ("NODE_FAIL|NodeDown", VoidReason.HOST_LOST),
        ("PREEMPTED|None", VoidReason.PREEMPTED),
        ("CANCELLED|None", VoidReason.CANCELLED),
        ("TIMEOUT|TimeLimit", VoidReason.LEASE_ENDED),
        ("DEADLINE|DeadLine", VoidReason.DEADLINE),
        ("FAILED|JobLaunchFailure", VoidReason.AGENT_LOST),
        ("COMPLETED|None", VoidReason.LEASE_ENDED),
        ("BOOT_FAIL|None", VoidReason.HOST_LOST),
    ],
)
def test_the_end_of_a_job_has_a_reason(state: str, reason: VoidReason) -> None:
    engine, _, lease = opened(RUNNING.replace("RUNNING|None", state))
    ended = engine.state(lease)
    assert (ended.state, ended.ended) == (LeaseState.ENDED, reason)
    assert state.partition("|")[0] in ended.detail


@pytest.mark.parametrize(
    ("code", "detail"),
    [
        ("0:9", "the agent was ended by signal 9"),
        ("137:0", "the agent was ended by signal 9"),
        ("1:0", "the agent ended with status 1"),
        ("73:0", "/tmp/bw-* cannot be made on h2"),
        ("127:0", f"{sys.executable} does not run on h2"),
        ("0:0", "JobLaunchFailure"),
    ],
)
def test_a_job_that_failed_says_why(code: str, detail: str) -> None:
    failed = RUNNING.replace("RUNNING|None", "FAILED|JobLaunchFailure")
    engine, commands, lease = opened(failed)
    commands.shown = f"   Requeue=0 Restarts=0 BatchFlag=1 Reboot=0 ExitCode={code}\n"
    assert detail in engine.state(lease).detail


def test_a_suspended_job_still_has_its_lease() -> None:
    engine, _, lease = opened(RUNNING.replace("RUNNING", "SUSPENDED"))
    held = engine.state(lease)
    assert (held.state, held.detail) == (LeaseState.RUNNING, "suspended")


@pytest.mark.parametrize("again", [PENDING, RUNNING.replace("1795448900", "1795448950")])
def test_a_job_that_slurm_starts_again_is_no_lease(again: str) -> None:
    engine, commands, lease = opened(RUNNING)
    lease = engine.state(lease)
    commands.lines = (again,)
    ended = engine.state(lease)
    assert (ended.state, ended.ended) == (LeaseState.ENDED, VoidReason.CANCELLED)
    assert commands.called("scancel") == [CANCEL]


def test_a_number_that_slurm_uses_again_is_another_job() -> None:
    """slurmctld, killed before it has saved its state, gives numbers of jobs again after its start."""
    engine, commands, lease = opened(RUNNING)
    running = engine.state(lease)
    engine.close(running)
    commands.lines = (RUNNING.replace(f"{TOKEN} 1", f"{TOKEN} 2").replace("48900", "48999"),)
    assert engine.state(running).state is LeaseState.ENDED
    again = engine.state(engine.open("g1", 2, ()))
    assert (again.name, again.job, again.state) == ("g1.2", "7", LeaseState.RUNNING)
    assert commands.called("scancel") == [CANCEL]


def test_a_cancelled_job_that_comes_back_is_cancelled_again() -> None:
    engine, commands, lease = opened(RUNNING)
    engine.close(engine.state(lease))
    other = engine.open("g2", 1, ())
    engine.state(other)
    assert commands.called("scancel") == [CANCEL, CANCEL]


def test_a_forgotten_job_has_ended() -> None:
    engine, commands, lease = opened(RUNNING)
    lease = engine.state(lease)
    commands.lines = ()
    # 2026-11-23: the lease has ended by now or will; both reasons blame no host.
    ended = engine.state(lease)
    assert ended.state is LeaseState.ENDED
    assert ended.ended is not None
    assert not ended.ended.blames_host


def test_only_jobs_of_the_session_are_adopted() -> None:
    commands = Recorded(FOREIGN, RUNNING, PENDING.replace("7|", "9|").replace("-g1", "-g2"))
    leases = SlurmEngine(SETTINGS, TOKEN, commands).existing()
    assert [(one.name, one.job, one.state) for one in leases] == [
        ("g1.1", "7", LeaseState.RUNNING),
        ("g2.1", "9", LeaseState.WAITING),
    ]
    (words,) = commands.called("squeue")[:1]
    assert "--name=bw-01234567-g1,bw-01234567-g2" in words


def test_without_an_answer_leases_stay_as_they_are() -> None:
    engine, commands, lease = opened(RUNNING)
    running = engine.state(lease)
    commands.failures["squeue"] = NO_ANSWER
    assert engine.state(running) == running
    commands.failures["scancel"] = NO_ANSWER
    engine.close(running)
    commands.failures.clear()
    engine.state(running)
    assert len(commands.called("scancel")) == 2


def test_a_job_that_failed_before_slurmctld_did_has_ended() -> None:
    engine, commands, lease = opened(RUNNING.replace("RUNNING|None", "FAILED|NonZero"))
    commands.failures["scontrol"] = NO_ANSWER
    ended = engine.state(lease)
    assert (ended.ended, ended.detail) == (VoidReason.AGENT_LOST, "job 7: FAILED (NonZero)")


def test_a_job_that_cannot_be_submitted_yet_is_submitted_later_once() -> None:
    commands = Recorded()
    engine = SlurmEngine(SETTINGS, TOKEN, commands)
    commands.failures["sbatch"] = NO_ANSWER
    lease = engine.open("g1", 1, ())
    assert (lease.state, lease.job) == (LeaseState.WAITING, "")
    commands.failures.clear()
    # Slurm had accepted it; only its answer was lost.
    commands.lines = (PENDING,)
    assert engine.state(lease).job == "7"
    assert len(commands.called("sbatch")) == 1


def test_a_session_fails_after_a_long_time_without_an_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    engine, commands, lease = opened(RUNNING)
    monkeypatch.setattr(slurm, "_OUTAGE_S", -1.0)
    commands.failures["squeue"] = NO_ANSWER
    with pytest.raises(BenchError, match="Slurm does not answer"):
        engine.state(lease)


def test_a_refused_job_is_an_error() -> None:
    commands = Recorded()
    commands.failures["sbatch"] = (
        "sbatch: error: invalid partition specified: nope\n"
        "sbatch: error: Batch job submission failed: Invalid partition name specified\n"
    )
    engine = SlurmEngine(SETTINGS, TOKEN, commands)
    with pytest.raises(BenchError, match="invalid partition specified: nope"):
        engine.open("g1", 1, ())


def test_without_slurm_the_packages_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(InputError, match="apt-get install slurm-client munge"):
        SlurmEngine(SETTINGS, TOKEN).check()


def test_other_lines_are_no_jobs() -> None:
    text = "\n".join(("slurm_load_jobs error: x|y", "", "CLUSTER: a", RUNNING + "|b", "7|RUNNING"))
    (job,) = jobs_of(text)
    assert job.comment == "0123456789abcdef 1|b"
