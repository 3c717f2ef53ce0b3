"""A load as a document: JSON, also as read from the output of a trial, and JUnit XML of its limits
and its end (report/junit.py)."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any
from xml.etree import ElementTree

import msgspec

from benchwright.core.comparison import GateOutcome
from benchwright.core.observation import Trial
from benchwright.core.results import Finding
from benchwright.features.load.engine import LoadAnswer, load_metrics
from benchwright.features.load.parse import exchange_name, target_text
from benchwright.features.load.report import (
    REQUESTS,
    EndingCase,
    LoadReport,
    load_headline,
    load_sentence,
)
from benchwright.features.load.request import LoadRequest, LoadTarget
from benchwright.features.load.types import EngineResult, LimitVerdict
from benchwright.features.load.view import load_text
from benchwright.page.kinds import trial_document
from benchwright.report.documents import FindingEntry, engine_answer, entries, entry
from benchwright.report.junit import add_child, junit_text, suite_of, xml_text
from benchwright.study.contents import tests_of
from benchwright.study.journal import Study
from benchwright.views.terminal import Paint, unpainted


def limit_cases(
    verdicts: Sequence[LimitVerdict], classname: str = "bw.load"
) -> list[ElementTree.Element]:
    """Return a case for each limit of a load."""
    cases = []
    for verdict in verdicts:
        case = ElementTree.Element(
            "testcase", classname=xml_text(classname), name=xml_text(verdict.limit)
        )
        if verdict.outcome is GateOutcome.FAILED:
            add_child(case, "failure", verdict.detail)
        elif verdict.outcome is GateOutcome.UNDECIDED:
            add_child(case, "error", f"undecided: {verdict.detail}")
        else:
            add_child(case, "system-out", text=verdict.detail)
        cases.append(case)
    return cases


def ending_case(name: str, outcome: str, message: str) -> ElementTree.Element:
    """Return a case about how a load ended; it passes without a message."""
    case = ElementTree.Element("testcase", classname="bw.load", name=name)
    if message:
        add_child(case, outcome, message)
    return case


def limits_junit(
    verdicts: Sequence[LimitVerdict],
    subject: str,
    length_ns: int,
    findings: Sequence[Finding],
    endings: Sequence[EndingCase] = (),
) -> str:
    """Return the verdicts on the limits of a load, and how it ended, as JUnit XML: a missed limit
    is a failure, an undecided one an error, because a build without an answer has not passed."""
    cases = limit_cases(verdicts)
    cases += [ending_case(ending.name, ending.outcome, ending.message) for ending in endings]
    return junit_text("bw load", [suite_of(subject, cases, length_ns, findings)])


class LoopEntry(msgspec.Struct, frozen=True):
    """Whether the workload has open and closed loops."""

    open: bool
    closed: bool


class LoadDocument(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="schema", tag="benchwright/load/1"
):
    """The result of a load."""

    request: dict[str, Any]
    """The request that the engine received."""
    loop: LoopEntry
    result: Annotated[dict[str, Any], engine_answer("EngineResult")]
    """The engine's result with every member that it sent."""
    asked_rate_per_s: float | None
    metrics: dict[str, float]
    response_known_to: float
    """Share of operations up to which percentiles of response times are known."""
    findings: tuple[FindingEntry, ...]
    limits: tuple[LimitVerdict, ...] = ()
    """The verdicts on the limits of `--limit`."""
    max_errors_micro: int | None = None
    """The share of `--max-errors` [millionths]; null: not given."""


class TrialLoad(msgspec.Struct, frozen=True):
    """A load that a trial applied (page/kinds.py)."""

    document: LoadDocument
    result: EngineResult

    @property
    def report(self) -> LoadReport:
        """What its report needs besides its result; of a request that no load has written, without
        the target."""
        request, target, exchange = self.document.request, "", REQUESTS
        with contextlib.suppress(msgspec.ValidationError, KeyError, TypeError):
            to = msgspec.convert(request["target"], LoadTarget)
            target = target_text(to)
            filaments = request["workload"]["filaments"]
            exchange = exchange_name(
                to, recorded=any(filament["type"] == "trace" for filament in filaments)
            )
        return LoadReport(
            target=target,
            open_loop=self.document.loop.open,
            asked_per_s=self.document.asked_rate_per_s,
            duration_ns=request.get("duration_ns"),
            warm_up_ns=request.get("warm_up_ns") or 0,
            exchange=exchange,
            limits=self.document.limits,
        )

    @property
    def headline(self) -> str:
        """Its answer in a few words."""
        return load_headline(self.result, self.report)

    @property
    def sentence(self) -> str:
        """Its answer."""
        return load_sentence(self.result, self.report)

    def text(
        self,
        width: int = 100,
        paint: Paint = unpainted,
        *,
        table_width: int | None = None,
        verbose: bool = False,
        findings: Sequence[Finding] = (),
    ) -> str:
        """Return its report with these findings; empty for a request that no load has written."""
        report = msgspec.structs.replace(
            self.report, width=width, table_width=table_width, paint=paint, verbose=verbose
        )
        return load_text(self.result, findings, report) if report.target else ""


def read_trial_load(output: bytes) -> TrialLoad | None:
    """Return the load whose document a trial printed; None for another program's."""
    try:
        document = msgspec.json.decode(output, type=LoadDocument)
        return TrialLoad(document, msgspec.convert(document.result, EngineResult))
    except msgspec.MsgspecError:
        return None


def load_of(study: Path, session: int, test: str, trial: Trial) -> TrialLoad | None:
    """Return the load in a trial's stored output; None for another program's output."""
    found = trial_document(study, session, test, trial)
    return found.document if found and isinstance(found.document, TrialLoad) else None


def stored_load(place: Path, session: int | None = None) -> TrialLoad | None:
    """Return the load of a session, or of the last one; None if it has none.

    Of a session without a trial that counts, that of its last void trial.
    """
    with contextlib.closing(Study.open_to_read(place)) as study:
        number = study.next_session() - 1 if session is None else session
        loads = [
            load_of(study.path, number, test.plan.name, trial)
            for test in tests_of(study, number)
            for trial in test.trials or test.void_trials[-1:]
        ]
    return next((load for load in loads if load is not None), None)


def load_document(
    answer: LoadAnswer,
    request: LoadRequest,
    findings: Sequence[Finding],
    *,
    limits: Sequence[LimitVerdict] = (),
    max_errors_micro: int | None = None,
) -> LoadDocument:
    """Return the document of a load; its result has every member that the engine sent."""
    return LoadDocument(
        request=msgspec.to_builtins(request),
        loop=entry(LoopEntry, request.loop),
        result=answer.document,
        asked_rate_per_s=request.asked_rate_per_s,
        metrics=load_metrics(answer.result),
        response_known_to=answer.result.response_known_to(),
        findings=entries(FindingEntry, findings),
        limits=tuple(limits),
        max_errors_micro=max_errors_micro,
    )
