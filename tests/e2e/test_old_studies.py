"""Studies made by version 0.1.0 are read, compared and resumed; tests/data/studies-0.1.

Each archive holds one study and, under `expected/`, the JSON documents that 0.1.0 printed of it.
Numbers, names and structure must be the same. Prose (a text with a space in it) may be worded anew.
"""

from __future__ import annotations

import json
import re
import tarfile
from pathlib import Path
from typing import Any

import pytest

from benchwright.cli.main import main
from stored_studies import BESIDE_A_RATIO, differences, is_same, unpack

STUDIES = Path(__file__).parents[1] / "data" / "studies-0.1"
READ = {
    "run": {
        "stats": ["stats", "run", "--json"],
        "why": ["why", "run", "--json"],
        "plot": ["plot", "a", "run", "--json"],
        "ecdf": ["plot", "--mode", "ecdf", "a", "run", "--json"],
        "compare": ["compare", "--seed", "7", "run:count:n=1", "run:count:n=2", "--json"],
    },
    "compare": {
        "stats": ["stats", "compare", "--json"],
        "why": ["why", "compare", "--json"],
        "plot": ["plot", "a", "compare", "--json"],
        "compare": ["compare", "--seed", "7", "compare:short", "compare:long", "--json"],
    },
    "load": {
        "stats": ["stats", "load", "--json"],
        "why": ["why", "load", "--json"],
        "plot": ["plot", "a", "load", "--json"],
    },
    "ramp": {
        "stats": ["stats", "ramp", "--json"],
        "why": ["why", "ramp", "--json"],
        "again": ["ramp", "--study", "ramp", "--json"],
    },
    "peak": {
        "stats": ["stats", "peak", "--json"],
        "why": ["why", "peak", "--json"],
        "again": ["peak", "--study", "peak", "--json"],
    },
    "surface": {
        "stats": ["stats", "surface", "--json"],
        "why": ["why", "surface", "--json"],
        "again": ["surface", "--study", "surface", "--predict", "workers=3", "--json"],
    },
    "suite": {
        "stats": ["stats", "suite", "--json"],
        "why": ["why", "suite", "--json"],
        "env": ["env", "suite", "--json"],
        "compare": ["compare", "--seed", "7", "suite:short:n=1", "suite:long:n=1", "--json"],
        "ratio": [
            *("plot", "--mode", "ratio", "--baseline", "short:n=1"),
            *("a", "suite", "--json"),
        ],
    },
    "interrupted": {
        "stats": ["stats", "interrupted", "--json"],
        "why": ["why", "interrupted", "--json"],
        "plot": ["plot", "a", "interrupted", "--json"],
    },
    "crashed": {
        "stats": ["stats", "crashed", "--json"],
        "why": ["why", "crashed", "--json"],
        "plot": ["plot", "a", "crashed", "--json"],
    },
    "interrupted-peak": {
        "stats": ["stats", "interrupted-peak", "--json"],
        "why": ["why", "interrupted-peak", "--json"],
    },
}
ADDED = (
    *("groups", "finding_groups", "unit", "left_out", "answer", "answers"),
    *("deadline_s", "missing", "held_by", "otherwise", "gang", "gangs"),
    *("span_s", "word", "findings", "claim_held", "bound", "rough"),
    *("check", "users", "void", "late_p99_ms", "unseen_share", "sharpness", "streams"),
    *("resources", "network"),
    *("running", "processes", "observed"),
    *("within", "limits", "exceeded"),
    *("lost", "of"),
)
"""Members that documents have since."""
ESTIMATES = re.compile(
    r"(/claims/\d+)?/(claim_probability|interval|peak_rate|curve|components|shape)(/|$)"
)
"""Members of a search that has not ended: what it would answer now, by the version that reads it.
"""
ESTIMATED_ELSE = re.compile(
    r"(/policy: |/detail: |(/claims/\d+)?/(bound|interval|claim_probability|curve|check|interval_method|findings|components))"
)
"""What else it says now: the policy is another one."""
RESTATED = re.compile(r"/(smallest_effect|noise_floor)$")
"""Figures that are computed in another way since: up to a sixth larger at ten blocks."""
OF_STORED = re.compile(
    r"^(/verdicts/\d+/(ratio/(low|high)|p|p_adjusted|smallest_effect|widened): |/findings: )"
)
"""What is said of stored results that are compared now: the allowance for dependence is another one
since, and a difference that waiting for a CPU explains is held."""
UNFINISHED = re.compile(
    r"^/(exit_status: 0 became 3|status: 'complete' became 'undecided'|validation: |policy: "
    r"|model/(residual_share|expected_error)|(predictions|asked)/\d+/(value|low|high|measured): )"
)
"""Of a surface: no claim of its searches held, so that nothing is measured since, and its model is
of rough peaks."""
UNKNOWN = re.compile(
    r"^(/verdicts/\d+/p(_adjusted)?: 1\.0 became None|/shape: .* became None"
    r"|/results/\d+/figure/(low|high|half_width_percent): \S+ became None)$"
)
"""Where there is no interval there is no P-value since, no search has the shape of a queue's curve,
and a few equal values have no interval."""
MADE_IN = "/tmp/old-studies"
CPUS = 2
"""Those of the machine that made the studies."""


def is_same_since(where: str, old: Any, new: Any) -> bool:
    """Return whether two values are the same, or differ as is known since."""
    if where == "/xlabel":  # the name of a factor is as its suite writes it since
        old = old.lower()
    same = is_same(where, old, new)
    if isinstance(old, float) and isinstance(new, (int, float)):
        same |= RESTATED.search(where) is not None and old < new < 1.17 * old
        # Version 0.1.0 showed up to some per cent more CPUs than its machine had.
        same |= "/use/0/utilization/" in where and new == CPUS < old < 1.1 * CPUS
    return same


def by_name(document: Any) -> Any:
    """Return a plot whose categories are in order of their names, and any other document as it is.

    Version 0.1.0 sorted the tests by name; a chart has them in the order given since.
    """
    for series in document.get("series", ()):
        series["points"].sort(key=lambda point: point["test"])
    ticks = document.get("ticks", ())
    labels = sorted(tick["label"] for tick in ticks)
    for tick, label in zip(ticks, labels, strict=True):
        tick["label"] = label
    return document


@pytest.mark.parametrize(
    ("study", "document"), [(study, name) for study in READ for name in READ[study]]
)
def test_an_old_study_is_read_as_the_version_that_made_it_did(
    study: str,
    document: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    unpack(STUDIES / f"{study}.tar.xz", tmp_path)
    monkeypatch.chdir(tmp_path)
    main(READ[study][document])
    printed = capsys.readouterr().out
    expected = (tmp_path / "expected" / f"{document}.json").read_text()
    expected = expected.replace(MADE_IN, str(tmp_path))
    document_now = json.loads(printed)
    found = differences(
        by_name(json.loads(expected)), by_name(document_now), same=is_same_since, added=ADDED
    )
    if study == "interrupted-peak":
        found = [one for one in found if not is_estimate(one)]
    if study == "surface":
        found = [one for one in found if not UNFINISHED.match(one)]
    if study == "suite":
        found = [one for one in found if not BESIDE_A_RATIO.match(one)]
    if document_now.get("design") == "stored":
        found = [one for one in found if not OF_STORED.match(one)]
    assert [one for one in found if not UNKNOWN.match(one)] == []


def is_estimate(difference: str) -> bool:
    """Return whether a difference is between numbers that a search which has not ended estimates."""
    if ESTIMATED_ELSE.match(difference):
        return True
    where, _, values = difference.partition(": ")
    old, _, new = values.partition(" became ")
    numbers = [re.fullmatch(r"-?[\d.]+(e[-+]?\d+)?", one) for one in (old, new)]
    return ESTIMATES.match(where) is not None and all(numbers)


def test_every_document_that_is_kept_is_read() -> None:
    for archive in STUDIES.glob("*.tar.xz"):
        study = archive.name.removesuffix(".tar.xz")
        with tarfile.open(archive) as kept:
            names = {Path(one).stem for one in kept.getnames() if one.endswith(".json")}
        assert names == set(READ[study]), study


@pytest.mark.parametrize(
    ("study", "trials", "status"), [("interrupted", 12, 0), ("crashed", 20, 0)]
)
def test_an_old_session_that_was_cut_short_is_resumed(
    study: str,
    trials: int,
    status: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    unpack(STUDIES / f"{study}.tar.xz", tmp_path)
    # A resume changes to the directory in which the session began: /.
    monkeypatch.chdir(tmp_path)
    assert main(["resume", str(tmp_path / study), "--json", "--quiet"]) == status
    (test,) = json.loads(capsys.readouterr().out)["tests"]
    assert test["name"] == "nap"
    assert test["stop"]["reason"] == "count"
    assert {one["count"] for one in test["quantities"]} == {trials}


def test_an_old_search_that_was_cut_short_is_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    unpack(STUDIES / "interrupted-peak.tar.xz", tmp_path)
    monkeypatch.chdir(tmp_path)
    before = json.loads((tmp_path / "expected" / "stats.json").read_text())
    study = str(tmp_path / "interrupted-peak")
    assert main(["resume", study, "--json", "--quiet"]) == 3
    after = json.loads(capsys.readouterr().out)
    recorded = len(before["trials"])
    assert 0 < recorded < 6
    assert len(after["trials"]) == 6
    for now, then in zip(after["trials"], before["trials"], strict=False):
        assert {**now, **then} == now
