"""Stored comparisons of several jobs: real sessions over the fake bench, which end in real journals."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from benchwright.core.machine import Fact, FactWeight, MachineCapture
from benchwright.core.results import Finding
from benchwright.run.ledger import Ledger
from benchwright.run.performer import Performer
from benchwright.run.session import Session
from benchwright.study.contents import (
    NULL_KIND,
    SessionFindings,
    record_capture,
    store_findings,
    tests_of,
)
from benchwright.study.journal import Study
from benchwright.suite.comparison import ComparisonRequest, program_from_comparison
from benchwright.trial.fake import FakeBench
from benchwright.trial.protocol import ExecEnvironment, RunRequest
from session_infos import session_info

REQUEST = ComparisonRequest(
    ("work a", "work b"), names=("old", "new"), seed="7", token="t", margin="3%", max_blocks="12"
)


class Silent:
    """A listener that shows nothing."""

    def __getattr__(self, name: str) -> Any:
        return lambda *_: None


def store_job(
    place: Path,
    ratio: float,
    seed: int,
    *,
    noise: float = 0.01,
    request: ComparisonRequest = REQUEST,
    boot: str = "",
    cpu: str = "One CPU",
    findings: Sequence[Finding] = (),
    status: str = "",
) -> None:
    """Run a comparison whose candidate takes `ratio` times as long, and store its session in a study.

    `noise`: standard deviation of the log of an elapsed time. `status`: as which it ends instead of
    as it does. `findings`: what is found about the session.
    """

    def elapsed(trial: RunRequest, epoch: int, thread: int) -> float:
        arm = dict(trial.environment)["BW_TEST"]
        rng = np.random.default_rng([seed, epoch, sum(arm.encode())])
        factor = ratio if arm.endswith("new") else 1.0
        return factor * float(np.exp(noise * rng.standard_normal()))

    request = msgspec.structs.replace(request, seed=str(seed))
    info = session_info(
        started_ns=seed * 10**9,
        boot_id=boot or f"boot-{seed}",
        kind=NULL_KIND if request.is_null else "compare",
        sources=(("<comparison>", msgspec.json.encode(request).decode()),),
    )
    with contextlib.closing(Study.create_or_open(place)) as study:
        ledger = Ledger(study, study.begin_session(info))
        facts = (Fact("cpu.model", cpu, weight=FactWeight.FATAL), Fact("cpu.threads", "2"))
        record_capture(study, ledger.session, MachineCapture(seed, facts))
        performer = Performer(
            FakeBench(elapsed), ExecEnvironment("/", ()), study.path, ledger.session
        )
        session = Session(program_from_comparison(request), ledger, performer, Silent(), ())
        verdict = session.run({}, {})
        keys = [test.key for test in tests_of(study, ledger.session)]
        found = SessionFindings(tuple(findings), dict.fromkeys(keys, ()))
        store_findings(study, ledger.session, found)
        study.end_session(ledger.session, status or verdict.status, verdict.detail)


def store_jobs(place: Path, ratios: Sequence[float], **more: Any) -> list[str]:
    """Store one study for each of these ratios, `job-1`, `job-2`, ...; return their paths."""
    paths = [place / f"job-{number}" for number in range(1, len(ratios) + 1)]
    for seed, (path, ratio) in enumerate(zip(paths, ratios, strict=True), 1):
        store_job(path, ratio, seed, **more)
    return list(map(str, paths))
