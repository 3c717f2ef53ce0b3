"""The engine for Slurm: one job is one lease of a gang, whose batch script runs the agent on the
job's first host.

The jobs of a session are named `bw-ID-gN`, and their comment is the session's token with the
lease's number, so a restarted controller finds them. The commands of Slurm do everything: sbatch
opens, squeue asks about all leases at once, srun makes a step beside the agent as the channel,
scancel closes. slurmdbd is not needed: a job that Slurm has forgotten has ended.

Decision: `--no-requeue` always, since a job that Slurm runs again would measure twice; after a
crash slurmctld may still start a job again, which is recognised by its state or start time, and
ends the lease. The time limit alone ends a lease, and the agent is given a little less. Rejected:
`--signal`, which may come 60 s early, and a job that ends by it has the state COMPLETED, so its
reason is lost; `squeue --json`, whose members differ between versions; PySlurm, which is built for
one version. Source: sbatch(1), squeue(1), srun(1), scancel(1), Slurm 22.05.
"""

from __future__ import annotations

import contextlib
import math
import re
import shlex
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence

import msgspec

from benchwright.core.errors import BenchError, argument_error
from benchwright.core.hosts import GangClients, SlurmSteps
from benchwright.features.pool.agent import AGENT_COMMAND, SOCKET
from benchwright.features.pool.connect import READY
from benchwright.features.pool.types import (
    Lease,
    LeaseState,
    PoolSettings,
    VoidReason,
    clients_among,
)
from benchwright.trial.remote import slurm_environment, slurm_step

PACKAGES = "slurm-client munge"
"""Debian's packages with Slurm's commands and what they need to authenticate."""
PROGRAMS = ("sbatch", "squeue", "srun", "scancel", "scontrol")
UNAVAILABLE = "slurm-unavailable"
_CONNECT_COMMAND = (*AGENT_COMMAND[:-1], "benchwright.features.pool.connect")
_DIRECTORY = "/tmp/bw-{name}-{job}"
"""Of a lease on its first host. Not below TMPDIR, which may differ in the environment of a later
controller."""
_TIMEOUT_S = 60.0
"""A command of Slurm that takes longer has failed; one that cannot reach slurmctld takes 10 s."""
_FRESH_S, _SLOWEST_S = 0.5, 15.0
"""The states of jobs are asked for at most so often; while jobs wait long, at least so often."""
_PAUSE_S = 5.0
"""Time until slurmctld is asked again when it has not answered."""
_OUTAGE_S = 1800.0
"""A session fails when slurmctld has not answered for this time."""
_CONNECT_S = 0.5
"""A call waits so long for a new channel; the next call waits for the same channel."""
_STUCK_S = 15.0
"""A channel that is not connected after this time is made anew: srun can wait forever for a step
that a crash or a suspension of the job met."""
_END_S = 15.0
"""The agent ends its task so long before Slurm ends the job, at most."""
_SIGNALS = 128
"""A shell adds this to the number of the signal that ended a program."""
_NO_DIRECTORY = 73
"""Exit status of the batch script (EX_CANTCREAT of sysexits.h)."""
_ENDS = {
    "CANCELLED": VoidReason.CANCELLED,
    "REVOKED": VoidReason.CANCELLED,
    "COMPLETED": VoidReason.LEASE_ENDED,
    "FAILED": VoidReason.AGENT_LOST,
    "OUT_OF_MEMORY": VoidReason.AGENT_LOST,
    "BOOT_FAIL": VoidReason.HOST_LOST,
    "NODE_FAIL": VoidReason.HOST_LOST,
    "PREEMPTED": VoidReason.PREEMPTED,
    "TIMEOUT": VoidReason.LEASE_ENDED,
    "DEADLINE": VoidReason.DEADLINE,
}
"""States in which a job has ended, with what that means for its task."""
_WAITS = ("PENDING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT")
_STARTS = ("CONFIGURING",)

Runner = Callable[[Sequence[str], str], subprocess.CompletedProcess[str]]
"""Runs a command with a standard input; raises OSError, subprocess.TimeoutExpired."""


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """A job, as squeue describes it."""

    id: str
    state: str
    reason: str
    hosts: str
    """Slurm's list: `node[1-3],other`; empty: none yet."""
    first: str
    """The host of the batch script."""
    start: str
    """Seconds since 1970, as `end`; empty: unknown."""
    end: str
    name: str
    comment: str


_FIELDS = {
    "id": "%A",
    "state": "%T",
    "reason": "%r",
    "hosts": "%N",
    "first": "%B",
    "start": "%S",
    "end": "%e",
    "name": "%j",
    "comment": "%k",
}
_FORMAT = "|".join(_FIELDS.values())
_SHOWN = re.compile(r"\b(NodeName|NodeAddr|State)=(\S+)")
"""Members of `scontrol show node`."""
_NONE = ("N/A", "n/a", "NONE", "None", "(null)", "Unknown")


def jobs_of(text: str) -> list[Job]:
    """Return the jobs that squeue printed in our format; other lines are not jobs."""
    jobs = []
    for line in text.splitlines():
        values = [one.strip() for one in line.split("|", len(_FIELDS) - 1)]
        if len(values) == len(_FIELDS) and values[0].isdecimal():
            known = ("" if value in _NONE else value for value in values)
            jobs.append(Job(**dict(zip(_FIELDS, known, strict=True))))
    return jobs


def time_ns(text: str) -> int:
    """Return CLOCK_REALTIME [ns] of a time that Slurm wrote as seconds; 0 if it is none."""
    return int(text) * 1_000_000_000 if text.isdecimal() else 0


class SlurmChannel:
    """A step of srun that forwards to the agent's socket."""

    def __init__(self, words: Sequence[str], environment: dict[str, str]) -> None:
        """Start the step; it is a channel when `ready` says so."""
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115
        self._connection, there = socket.socketpair()
        self._early = b""
        self._begun_s = time.monotonic()
        with there:
            self._process = subprocess.Popen(
                words,
                stdin=there.fileno(),
                stdout=there.fileno(),
                stderr=self._errors,
                env=environment,
                start_new_session=True,  # Ctrl-C is for the controller
            )

    @property
    def is_stuck(self) -> bool:
        """Whether a channel that is not ready has had its time."""
        return time.monotonic() - self._begun_s > _STUCK_S

    def ready(self, seconds: float) -> bool:
        """Return whether the agent is connected; wait at most so long. Raises OSError if it never
        will be."""
        end_s = time.monotonic() + seconds
        while READY not in self._early:
            self._connection.settimeout(max(0.001, end_s - time.monotonic()))
            try:
                data = self._connection.recv(1 << 16)
            except TimeoutError:
                return False
            finally:
                self._connection.settimeout(None)
            if not data:
                raise ConnectionError(self._why())
            self._early += data
        _, _, self._early = self._early.partition(READY)
        return True

    def fileno(self) -> int:
        """Return the descriptor of this end."""
        return self._connection.fileno()

    def send(self, data: bytes) -> None:
        """Send all of the data. Raises OSError."""
        self._connection.sendall(data)

    def receive(self) -> bytes:
        """Return what has come; empty at the end. Raises OSError."""
        if self._early:
            data, self._early = self._early, b""
            return data
        return self._connection.recv(1 << 16)

    def settimeout(self, seconds: float) -> None:
        """Limit the time of each later call."""
        self._connection.settimeout(seconds)

    def close(self) -> None:
        """End the step; the agent and its task continue."""
        self._connection.close()
        try:
            self._process.wait(2)
        except subprocess.TimeoutExpired:
            self._process.terminate()
            try:
                self._process.wait(2)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._errors.close()

    def _why(self) -> str:
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else "srun ended"


_Key = tuple[str, str]
"""A job's number and the name of its lease: a slurmctld that crashed can use a number again."""


def _key(lease: Lease) -> _Key:
    return lease.job, lease.name


class SlurmEngine:
    """Gangs as jobs of Slurm."""

    def __init__(self, settings: PoolSettings, token: str, runner: Runner | None = None) -> None:
        """`token` identifies the session; `runner` stands for Slurm's commands in tests."""
        self._settings = settings
        self._token = token
        self._run = runner or run_command
        self._jobs: dict[_Key, Job] = {}
        """Those of the session, in the order of their leases' numbers."""
        self._asked_s = self._changed_s = -math.inf
        """When the states of the jobs were asked for, unless they have changed since, and when they
        last changed."""
        self._failed_s = -math.inf
        """When slurmctld last did not answer."""
        self._answered_s = time.monotonic()
        self._started: dict[_Key, str] = {}
        """When each job was first seen to run, as Slurm writes it."""
        self._addresses: dict[str, str] = {}
        """The address of each host, as Slurm knows it (NodeAddr)."""
        self._hosts: dict[str, tuple[str, ...]] = {}
        """The hosts in each of Slurm's lists."""
        self._pending: dict[_Key, SlurmChannel] = {}
        """Steps that are not connected yet."""
        self._excluded: dict[str, Sequence[str]] = {}
        """For each lease that could not be submitted yet: the hosts that it must not have."""
        self._closed: set[_Key] = set()
        """Jobs that are cancelled again if they are seen: slurmctld did not answer, or crashed and
        runs them again."""

    # -- the engine ---------------------------------------------------------------------

    def check(self) -> None:
        """Raise InputError if Slurm is absent or refuses such jobs, before anything starts.

        Raises BenchError if slurmctld does not answer.
        """
        if absent := [name for name in PROGRAMS if shutil.which(name) is None]:
            message = f"Slurm's {', '.join(absent)} not found"
            hint = f"install them (Debian: apt-get install {PACKAGES}), or use --pool local:gangs=N"
            raise argument_error("--pool", "slurm", message, hint)
        done = self._command(["sbatch", "--test-only", *self._words("g1", 1, ())], _script("true"))
        if done.returncode:
            refusal = _complaint(done.stderr)
            hint = "sinfo lists the partitions and their hosts; sinfo -o '%n %f' the features"
            raise argument_error("--pool", "slurm", f"Slurm: {refusal}", hint)

    def existing(self) -> Sequence[Lease]:
        """Return the leases of this session's jobs that wait or run. Raises BenchError."""
        newest: dict[str, Lease] = {}
        for lease in self._found():
            if lease.gang in newest:
                # A crash of slurmctld can bring back a job that was cancelled.
                self._cancel(newest[lease.gang])
            newest[lease.gang] = lease
        return [self.state(lease) for lease in newest.values()]

    def _found(self) -> list[Lease]:
        """Return a lease for each job of the session that has not ended."""
        self._ask_now()
        there = (job for job in self._jobs.values() if job.state not in _ENDS)
        return [lease for job in there if (lease := self._lease(job)) is not None]

    def _lease(self, job: Job) -> Lease | None:
        """Return the lease of a job; None if it is not one of the session."""
        token, _, number = job.comment.partition(" ")
        if token != self._token or not number.isdecimal():
            return None
        gang = job.name.rpartition("-")[2]
        return Lease(gang=gang, number=int(number), job=job.id)

    def open(self, gang: str, number: int, excluded: Sequence[str]) -> Lease:
        """Submit the job of a lease, now or when slurmctld answers again. Raises BenchError if
        Slurm refuses it."""
        lease = Lease(gang=gang, number=number)
        self._excluded[lease.name] = excluded
        return self._submitted(lease)

    def _submitted(self, lease: Lease) -> Lease:
        """Return the lease with its job; without one if slurmctld does not answer."""
        gang, number = lease.gang, lease.number
        excluded = self._excluded.pop(lease.name)
        words = ["sbatch", "--parsable", *self._words(gang, number, excluded)]
        try:
            # If slurmctld ended before it answered, the job may have been submitted already.
            for one in self._found():
                if one.name == lease.name:
                    return one
            done = self._command(words, self._batch_script(gang))
        except BenchError as error:
            self._failed_s = time.monotonic()
            self._excluded[lease.name] = excluded
            return msgspec.structs.replace(lease, detail=error.message)
        job = done.stdout.strip().partition(";")[0]
        if done.returncode or not job.isdecimal():
            message = f"Slurm refuses a job for gang {gang}: {_complaint(done.stderr)}"
            raise BenchError("slurm-refused", message)
        self._asked_s = -math.inf
        self._changed_s = time.monotonic()
        return msgspec.structs.replace(lease, job=job, detail="")

    def state(self, lease: Lease) -> Lease:
        """Return the lease as Slurm knew it last. Raises BenchError after a long time without an
        answer."""
        change = msgspec.structs.replace
        if not lease.job:
            is_paused = time.monotonic() - self._failed_s < _PAUSE_S
            return lease if is_paused else self._submitted(lease)
        # The controller asks about a lease with hosts when it has lost the agent.
        self._ask(_FRESH_S if lease.hosts else self._patience_s)
        job = self._jobs.get(_key(lease))
        if job is None:
            if self._asked_s < self._changed_s:
                return lease
            at_end = lease.ends_ns and time.time_ns() >= lease.ends_ns
            why = VoidReason.LEASE_ENDED if at_end else VoidReason.CANCELLED
            detail = f"Slurm does not know job {lease.job} any more"
            return change(lease, state=LeaseState.ENDED, ended=why, detail=detail)
        if (why_ended := _ENDS.get(job.state)) is not None:
            detail = f"job {job.id}: {job.state}"
            if job.state == "FAILED":
                detail += f" ({self._failure(job)})"
            elif job.reason:
                detail += f" ({job.reason})"
            is_lost = why_ended is VoidReason.HOST_LOST and self._settings.clients > 0
            return change(
                lease,
                state=LeaseState.ENDED,
                ended=why_ended,
                failed_host=self._lost_host(job) if is_lost else "",
                detail=detail,
            )
        if self._started_again(lease, job):
            self.close(lease)
            detail = f"Slurm started job {job.id} again"
            return change(lease, state=LeaseState.ENDED, ended=VoidReason.CANCELLED, detail=detail)
        if job.state in (*_WAITS, *_STARTS):
            detail = f"job {job.id}: {job.reason}" if job.reason else lease.detail
            return change(lease, state=LeaseState.WAITING, detail=detail)
        return change(
            lease,
            state=LeaseState.RUNNING,
            hosts=self._hosts_of(job),
            ends_ns=self._ends_ns(job),
            detail=job.state.lower() if job.state != "RUNNING" else "",
        )

    def channel(self, lease: Lease) -> SlurmChannel:
        """Return a new channel to the agent. Raises OSError while there is none."""
        channel = self._pending.pop(_key(lease), None)
        if channel is None:
            if not lease.hosts:
                raise ConnectionError(f"job {lease.job} has no hosts yet")
            directory = self._directory(lease.gang, lease.job)
            words = [
                *slurm_step(lease.job, lease.hosts[0]),
                *(*_CONNECT_COMMAND, f"{directory}/{SOCKET}"),
            ]
            channel = SlurmChannel(words, slurm_environment())
        try:
            if channel.ready(_CONNECT_S):
                return channel
            if channel.is_stuck:
                raise TimeoutError(f"no answer from job {lease.job}")
        except OSError:
            channel.close()
            raise
        self._pending[_key(lease)] = channel
        raise TimeoutError(f"no answer yet from job {lease.job}")

    def clients(self, lease: Lease) -> GangClients | None:
        """Return the clients as hosts of the job's steps; None if the gang has none."""
        if len(lease.hosts) == 1:
            return None
        if not self._addresses.keys() >= set(lease.hosts):
            with contextlib.suppress(BenchError):
                nodes = self._nodes(lease.hosts)
                self._addresses |= {one: node["NodeAddr"] for one, node in nodes.items()}
        through = SlurmSteps(lease.job)
        # A name that Slurm does not know the address of may be known to the network.
        return clients_among(lease.hosts, through, lambda one: self._addresses.get(one, one))

    def close(self, lease: Lease) -> None:
        """End the job and everything that runs in it, now or when slurmctld answers again."""
        if (channel := self._pending.pop(_key(lease), None)) is not None:
            channel.close()
        self._excluded.pop(lease.name, None)
        if lease.job:
            self._cancel(lease)

    def _cancel(self, lease: Lease) -> None:
        self._asked_s = -math.inf
        self._closed.add(_key(lease))
        if time.monotonic() - self._failed_s < _PAUSE_S:
            return
        try:
            self._command(["scancel", f"--name=bw-{self._name(lease.gang)}", lease.job])
        except BenchError:
            self._failed_s = time.monotonic()

    # -- jobs ---------------------------------------------------------------------------

    def _name(self, gang: str) -> str:
        return f"{self._token[:8]}-{gang}"

    def _directory(self, gang: str, job: str) -> str:
        return _DIRECTORY.format(name=self._name(gang), job=job)

    def _words(self, gang: str, number: int, excluded: Sequence[str]) -> list[str]:
        """Return the options of a job."""
        settings = self._settings
        words = [
            *("--no-requeue", "--exclusive", "--wait-all-nodes=1", "--mem=0"),
            *(f"--nodes={1 + settings.clients}", f"--job-name=bw-{self._name(gang)}"),
            *(f"--comment={self._token} {number}", "--output=/dev/null", "--chdir=/"),
        ]
        if settings.lease_s is not None:
            words.append(f"--time={self._limit_minutes}")
        named = (
            ("partition", settings.partition),
            ("account", settings.account),
            ("qos", settings.qos),
            ("constraint", settings.constraint),
            ("exclude", ",".join(sorted(excluded))),
        )
        return [*words, *(f"--{name}={value}" for name, value in named if value)]

    @property
    def _limit_minutes(self) -> int:
        """Slurm's limits are whole minutes."""
        assert self._settings.lease_s is not None
        return max(1, math.ceil(self._settings.lease_s / 60))

    @property
    def _agent_s(self) -> float:
        """How long an agent runs [s]; 0: until Slurm ends its job."""
        lease_s = self._settings.lease_s
        if lease_s is None:
            return 0.0
        return min(lease_s, self._limit_minutes * 60 - _END_S)

    def _batch_script(self, gang: str) -> str:
        """Return the script that runs the agent in a private directory, which it removes
        afterwards."""
        directory = self._directory(gang, "$SLURM_JOB_ID")
        agent = shlex.join(AGENT_COMMAND)
        return _script(
            # Signals are for the agent, which ends its task first.
            "trap : TERM INT CONT",
            f'd="{directory}"',
            f'mkdir -m 700 "$d" || {{ [ -O "$d" ] && [ ! -L "$d" ]; }} || exit {_NO_DIRECTORY}',
            'hosts=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | grep -vxF "$SLURMD_NODENAME" | sed "s/^/,/" | tr -d "\\n")',
            f'cd "$d" || exit {_NO_DIRECTORY}',
            f'{agent} "$d" "$SLURMD_NODENAME$hosts" {self._agent_s:g} >>"$d/agent.log" 2>&1 &',
            "agent=$!",
            'while wait "$agent"; status=$?; kill -0 "$agent" 2>/dev/null; do :; done',
            'cd / && rm -rf "$d"',
            'exit "$status"',
        )

    def _failure(self, job: Job) -> str:
        """Return how the batch script failed: by a status, by a signal, or before it began."""
        try:
            shown = self._command(["scontrol", "show", "job", job.id]).stdout
        except BenchError:
            return job.reason
        match = re.search(r"\bExitCode=(\d+):(\d+)", shown)
        status, number = map(int, match.groups() if match else (0, 0))
        if status > _SIGNALS:
            # The shell of the batch script reports so that a signal ended the agent.
            number = status - _SIGNALS
        if number:
            return f"the agent was ended by signal {number}"
        if status == _NO_DIRECTORY:
            return f"{_DIRECTORY.partition('-')[0]}-* cannot be made on {job.first}"
        if status in (126, 127):
            return f"{AGENT_COMMAND[0]} does not run on {job.first}: Benchwright must be at the same path there"
        return f"the agent ended with status {status}" if status else job.reason

    def _ends_ns(self, job: Job) -> int:
        """Return when the lease ends: the agent's end, or Slurm's."""
        begun, ends = time_ns(job.start), time_ns(job.end)
        if begun and self._agent_s:
            of_agent = begun + int(self._agent_s * 1e9)
            return min(ends, of_agent) if ends else of_agent
        return ends

    def _started_again(self, lease: Lease, job: Job) -> bool:
        """Return whether Slurm has put back a job that ran."""
        if job.state in _WAITS:
            return lease.state is LeaseState.RUNNING or _key(lease) in self._started
        return self._started.setdefault(_key(lease), job.start) != job.start

    def _nodes(self, hosts: Sequence[str]) -> dict[str, dict[str, str]]:
        """Return what Slurm shows of each host, by its name. Raises BenchError."""
        done = self._command(["scontrol", "show", "node", "--oneliner", ",".join(hosts)])
        lines = (dict(_SHOWN.findall(line)) for line in done.stdout.splitlines())
        return {line["NodeName"]: line for line in lines if "NodeName" in line}

    def _lost_host(self, job: Job) -> str:
        """Return the host of a job that Slurm takes for lost; empty if it is not known."""
        with contextlib.suppress(BenchError):
            hosts = self._hosts_of(job)
            nodes = self._nodes(hosts)
            states = {host: nodes.get(host, {}).get("State", "") for host in hosts}
            lost = [one for one, state in states.items() if state.startswith("DOWN")]
            silent = [one for one, state in states.items() if state.endswith("*")]
            return next(iter((*lost, *silent)), "")
        return ""

    def _hosts_of(self, job: Job) -> tuple[str, ...]:
        """Return the hosts of a job, that of its agent first."""
        if job.hosts not in self._hosts:
            done = self._command(["scontrol", "show", "hostnames", job.hosts])
            self._hosts[job.hosts] = tuple(done.stdout.split())
        others = (one for one in self._hosts[job.hosts] if one != job.first)
        return (job.first, *others) if job.first else tuple(others)

    # -- commands -----------------------------------------------------------------------

    @property
    def _patience_s(self) -> float:
        """How old the states of jobs may be: a twentieth of the time in which nothing has changed."""
        unchanged_s = time.monotonic() - self._changed_s
        return min(max(unchanged_s / 20, _FRESH_S), _SLOWEST_S)

    def _ask(self, patience_s: float) -> None:
        """Ask for the states of all jobs, unless they are fresh; without an answer they stay as
        they are."""
        now_s = time.monotonic()
        if now_s - self._asked_s < patience_s or now_s - self._failed_s < _PAUSE_S:
            return
        try:
            self._ask_now()
        except BenchError:
            self._failed_s = time.monotonic()
            if self._failed_s - self._answered_s > _OUTAGE_S:
                raise
            return
        for key in self._closed.intersection(self._jobs):
            job = self._jobs[key]
            lease = self._lease(job)
            if lease is not None and job.state not in (*_ENDS, "COMPLETING"):
                self._cancel(lease)

    def _ask_now(self) -> None:
        """Ask for the states of all jobs of the session. Raises BenchError."""
        gangs = (f"g{n}" for n in range(1, self._settings.gangs + 1))
        names = ",".join(f"bw-{self._name(gang)}" for gang in gangs)
        done = self._command(
            [
                *("env", "SLURM_TIME_FORMAT=%s", "squeue", "--noheader"),
                *("--states=all", "--me", f"--name={names}", f"--format={_FORMAT}"),
            ]
        )
        if done.returncode:
            raise _unavailable(done.stderr)
        listed = jobs_of(done.stdout)
        leases = [(lease, job) for job in listed if (lease := self._lease(job))]
        leases.sort(key=lambda one: one[0].number)
        jobs = {_key(lease): job for lease, job in leases}
        self._asked_s = self._answered_s = time.monotonic()
        if jobs != self._jobs:
            self._changed_s = self._asked_s
        self._jobs = jobs

    def _command(self, argv: Sequence[str], text: str = "") -> subprocess.CompletedProcess[str]:
        try:
            done = self._run(argv, text)
        except FileNotFoundError:
            raise _unavailable(f"there is no program {argv[0]}") from None
        except (OSError, subprocess.TimeoutExpired) as error:
            raise _unavailable(str(error)) from None
        if done.returncode and any(one in done.stderr for one in _NO_ANSWER):
            raise _unavailable(done.stderr)
        return done


_NO_ANSWER = (
    "Unable to contact slurm controller",
    "Socket timed out",
    "Zero Bytes were transmitted",
    "Connection refused",
    "Slurm backup controller",
    "Munge encode failed",
    "Protocol authentication error",
)
"""Parts of messages that say nothing about the job."""


def run_command(argv: Sequence[str], text: str) -> subprocess.CompletedProcess[str]:
    """Run a command of Slurm. Raises OSError, subprocess.TimeoutExpired."""
    return subprocess.run(
        argv,
        input=text,
        capture_output=True,
        text=True,
        errors="replace",
        env=slurm_environment(),
        timeout=_TIMEOUT_S,
        start_new_session=True,
    )


def _script(*lines: str) -> str:
    return "\n".join(("#!/bin/sh", *lines, ""))


def _complaint(stderr: str) -> str:
    """Return what a command of Slurm complained about, in one line."""
    lines = [line.partition("error: ")[2] or line for line in stderr.strip().splitlines()]
    return "; ".join(dict.fromkeys(lines)) or "no reason was given"


def _unavailable(stderr: str) -> BenchError:
    hint = "squeue shows whether Slurm answers; `bw resume` continues the session"
    return BenchError(UNAVAILABLE, f"Slurm does not answer: {_complaint(stderr)}", hint)
