"""Studies of every kind made in November 2026 are read, exported and resumed as they were then.

Each archive in tests/data/studies-2026-11 holds one study and, under `expected/`, what was printed
of it. JSON must be the same but for the wording of prose (a text with a space in it), and members
may be added; an export must be the same text.
"""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pytest

from benchwright.cli.main import main
from stored_studies import BESIDE_A_RATIO, differences, unpack

STUDIES = Path(__file__).parents[1] / "data" / "studies-2026-11"
MADE_IN = "/tmp/old-studies"
TESTS = {
    "show.json": ["show", "{}", "--json"],
    "stats.json": ["stats", "{}", "--json"],
    "why.json": ["why", "{}", "--json"],
    "plot.json": ["plot", "a", "{}", "--json"],
    "trials.csv": ["stats", "{}", "--format", "csv"],
    "hyperfine.txt": ["export", "{}", "--format", "hyperfine"],
    "benchfmt.txt": ["export", "{}", "--format", "benchfmt"],
    "junit.txt": ["export", "{}", "--format", "junit"],
    "prometheus.txt": ["export", "{}", "--format", "prometheus"],
}
SEARCH = {name: TESTS[name] for name in ("show.json", "stats.json", "why.json")}
READ: dict[str, dict[str, list[str]]] = {
    "run": {
        **TESTS,
        "first.json": ["stats", "run@1", "--json"],
        "ecdf.json": ["plot", "--mode", "ecdf", "a", "run", "--json"],
        "dump.csv": ["stats", "--dump", "run@1"],
        "ls.json": ["ls", "run", "--json"],
    },
    "compare": {
        **TESTS,
        "first.json": ["stats", "compare@1", "--json"],
        "compare.json": [
            "compare",
            "--seed",
            "7",
            "compare@1:sleep",
            "compare@1:sleep-2",
            "--json",
        ],
    },
    "suite": {**TESTS, "env.json": ["env", "suite", "--json"]},
    "suite-ap": TESTS,
    "load": {**TESTS, "first.json": ["stats", "load@1", "--json"]},
    "replay": TESTS,
    "ramp": {**SEARCH, "again.json": ["ramp", "--study", "ramp", "--json"]},
    "peak": {**SEARCH, "again.json": ["peak", "--study", "peak", "--json"]},
    "peak-load": {**SEARCH, "again.json": ["peak", "--study", "peak-load", "--json"]},
    "surface": {
        **SEARCH,
        "again.json": ["surface", "--study", "surface", "--predict", "workers=3", "--json"],
    },
    "surface-pool": {**SEARCH, "pool.json": ["pool", "status", "surface-pool", "--json"]},
    "pool": {**TESTS, "pool.json": ["pool", "status", "pool", "--json"]},
    "interrupted": TESTS,
    "crashed": TESTS,
    "interrupted-peak": SEARCH,
    "history": {"history.json": ["history", "history.db", "--json"]},
}
"""What is printed of each study."""
PASSING = ("elapsed_s", "age_s", "version", "worst")
"""Members that say when or by what they were printed, and which of several findings is the worst:
these studies have findings as sentences, whose figures are not known."""


def words_of(study: str, document: str) -> list[str]:
    """Return the command that prints a document."""
    return [word.replace("{}", study) for word in READ[study][document]]


@pytest.mark.parametrize(
    ("study", "document"), [(study, name) for study in READ for name in READ[study]]
)
def test_a_stored_study_is_printed_as_it_was(
    study: str,
    document: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    unpack(STUDIES / f"{study}.tar.xz", tmp_path)
    monkeypatch.chdir(tmp_path)
    main(words_of(study, document))
    printed = capsys.readouterr().out.replace(str(tmp_path), MADE_IN)
    expected = (tmp_path / "expected" / document).read_text()
    if document.endswith(".json"):
        differ = differences(json.loads(expected), json.loads(printed), passing=PASSING)
        if study == "compare":
            differ = [one for one in differ if not BESIDE_A_RATIO.match(one)]
        assert differ == []
    elif (study, document) == ("crashed", "junit.txt"):
        # Only a skipped case then: a session that was killed has an error now.
        assert "<error" not in expected
        assert 'errors="1"' in printed
    else:
        assert printed == expected


def test_every_document_that_is_kept_is_read() -> None:
    for archive in STUDIES.glob("*.tar.xz"):
        with tarfile.open(archive) as kept:
            names = {name.split("/")[1] for name in kept.getnames() if name.startswith("expected/")}
        study = archive.name.removesuffix(".tar.xz")
        assert names == set(READ[study]), study


@pytest.mark.parametrize("study", ["interrupted", "crashed", "interrupted-peak"])
def test_a_session_that_was_cut_short_is_resumed(
    study: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    unpack(STUDIES / f"{study}.tar.xz", tmp_path)
    # A resume changes to the directory in which the session began: /.
    monkeypatch.chdir(tmp_path)
    assert main(["resume", str(tmp_path / study), "--json", "--quiet"]) in (0, 3)
    capsys.readouterr()
    assert main(["show", str(tmp_path / study), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["session"]["state"] != "interrupted"
