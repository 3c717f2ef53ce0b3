"""Doubts that a command told in APLOG reach the study's findings."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from benchwright.core.observation import MeasurementBlock, Trial, TrialEnding
from benchwright.core.results import Finding, Severity, states
from benchwright.features.load.engine import aplog_text, load_metrics
from benchwright.features.load.types import EngineResult
from benchwright.findings.codes import all_codes, make_finding, template_of
from benchwright.findings.examine import compute_findings, reported_findings
from benchwright.findings.result import TestResult
from benchwright.trial.observe import parse_aplog


def trial(epoch: int, *blocks: dict[str, str], ending: TrialEnding = TrialEnding.OK) -> Trial:
    """Return an epoch in which blocks were told."""
    return Trial(
        test="t",
        epoch=epoch,
        threads=1,
        ending=ending,
        started_ns=0,
        duration_ns=1,
        blocks=(MeasurementBlock(1, epoch, "bw load", 0, {"elapsed": 1.0}),),
        extra_blocks=blocks,
    )


def result() -> EngineResult:
    path = Path(__file__).parents[1] / "golden" / "load" / "result.json"
    return msgspec.json.decode(path.read_bytes(), type=EngineResult)


def late(severity: str = "warning", evidence: str = "by 90 us") -> dict[str, str]:
    """Return a block as `bw load` writes it."""
    return {"": "finding", "code": "generator-late", "severity": severity, "evidence": evidence}


def test_one_code_is_one_finding_with_its_gravest_severity() -> None:
    trials = [trial(1, late()), trial(2), trial(3, late("serious", "by 1 s"))]
    (told,) = reported_findings("t", trials)
    assert told.code == "generator-late"
    assert told.severity is Severity.SERIOUS
    assert told.evidence == "by 90 us (trials 1, 3 (2 of 3))"
    assert told.remedy == all_codes()["generator-late"].remedy
    assert told in compute_findings(TestResult("t", whole_trials=trials))


def test_a_code_that_we_do_not_know_is_a_note() -> None:
    (told,) = reported_findings("t", [trial(1, {**late(), "code": "odd"})])
    assert (told.code, told.severity) == ("odd", Severity.NOTE)
    assert told.evidence == "by 90 us"


def test_a_block_has_the_figures_of_its_evidence() -> None:
    shown = make_finding("operations-unfinished", "t", states(unfinished=3, operations=1_000))
    (section,) = parse_aplog(aplog_text(result(), [shown])).sections
    block = {"": section.name, **section.fields}
    assert block["evidence"] == "3 of 1,000 operations were unfinished at the end of the run"
    (reported,) = reported_findings("t", [trial(1, block), trial(2)])
    assert reported.evidence == f"{shown.evidence} (trial 1 (1 of 2))"
    assert template_of(reported) is not None
    (other,) = reported_findings("t", [trial(1, block | {"evidence": "by 9 us"})])
    assert (other.evidence, template_of(other)) == ("by 9 us", None)
    (odd,) = reported_findings("t", [trial(1, block | {"figures": "{"})])
    assert odd.evidence == shown.evidence


def test_void_trials_and_other_blocks_say_nothing() -> None:
    void = trial(1, late(), ending=TrialEnding.INTERRUPTED)
    assert reported_findings("t", [void, trial(2, {"": "disk", "code": "x"})]) == []


def test_a_loads_own_lines_are_read_back() -> None:
    doubt = Finding("generator-late", Severity.NOTE, "x", "a\nb")
    parsed = parse_aplog(aplog_text(result(), [doubt]))
    (section,) = parsed.sections
    assert section.fields == {"code": "generator-late", "severity": "note", "evidence": "a b"}
    read = {name: float(text) for name, text in parsed.values.items()}
    assert read == load_metrics(result())


@pytest.mark.parametrize(
    "figures",
    [
        '{"form":"","values":[["where","a"]]}',
        '{"form":"no such form","values":[["p99",1]]}',
        '{"form":"","values":[["p99",' + "9" * 400 + "]]}",
        '{"form":"","values":[["p99",NaN]]}',
        "[]",
        "{",
    ],
)
def test_figures_that_make_no_sentence_leave_the_evidence(figures: str) -> None:
    """A command may have written anything."""
    (reported,) = reported_findings("t", [trial(1, late() | {"figures": figures})])
    assert reported.evidence == "by 90 us"
    assert template_of(reported) is None
