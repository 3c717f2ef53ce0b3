"""`bw compare` of two stored searches: ratio and verdict, what cannot be compared, text and JSON."""

from __future__ import annotations

import json
import math
import tarfile
from pathlib import Path
from typing import Literal

import pytest

from benchwright.cli.main import main
from benchwright.core.results import Estimate
from benchwright.features.search.compared.ratio import PeakVerdict, compare_peaks, compare_samples
from benchwright.features.search.types import Claim, ClaimKind, ClaimResult, PeakStatus
from benchwright.study.journal import Study

STUDIES = Path(__file__).parent.parent / "data/studies-2026-11"


def found(
    rate: float | None,
    ends: tuple[float, float] | None = None,
    status: PeakStatus = PeakStatus.FOUND,
    bound: Literal["lower", "upper"] | None = None,
) -> ClaimResult:
    interval = None
    if rate is not None and ends is not None:
        interval = Estimate(rate, *ends, 0.95, "simulated", 1, "1/s")
    return ClaimResult(
        status=status,
        detail="",
        claim=Claim(ClaimKind.RATE, 0.05),
        policy="simulated",
        peak_rate=rate,
        interval=interval,
        bound=bound,
    )


def test_the_interval_of_a_ratio_joins_the_ends_on_each_side() -> None:
    one = compare_peaks(found(100, (98, 103)), found(120, (114, 122)), 0.95)
    assert one.ratio is not None
    assert one.verdict is PeakVerdict.BETTER
    low = math.hypot(math.log(120 / 114), math.log(103 / 100))
    high = math.hypot(math.log(122 / 120), math.log(100 / 98))
    assert one.ratio.low == pytest.approx(1.2 * math.exp(-low))
    assert one.ratio.high == pytest.approx(1.2 * math.exp(high))


def test_a_higher_confidence_widens_the_interval() -> None:
    pair = found(100, (98, 102)), found(104, (102, 106))
    usual, strict = (compare_peaks(*pair, level) for level in (0.95, 0.999))
    assert (usual.verdict, strict.verdict) == (PeakVerdict.BETTER, PeakVerdict.NO_DIFFERENCE)


def test_a_claim_without_an_interval_counts_with_its_tolerance() -> None:
    one = compare_peaks(found(100), found(109), 0.95)
    assert one.verdict is PeakVerdict.BETTER
    assert compare_peaks(found(100), found(105), 0.95).verdict is PeakVerdict.NO_DIFFERENCE


def test_a_search_that_did_not_end_decides_nothing() -> None:
    rough = found(300, (290, 310), PeakStatus.BUDGET)
    one = compare_peaks(found(100, (98, 102)), rough, 0.95)
    assert one.verdict is PeakVerdict.UNDECIDED
    assert one.ratio is not None
    assert one.why == "the second search ended budget"
    assert compare_peaks(found(None, status=PeakStatus.FAILED), rough, 0.95).ratio is None


def test_a_bound_decides_only_on_its_side() -> None:
    first = found(100, (98, 102))
    more = found(200, status=PeakStatus.NEVER_FAILS, bound="lower")
    one = compare_peaks(first, more, 0.95)
    assert one.verdict is PeakVerdict.BETTER
    assert one.ratio is not None
    assert one.ratio.high == math.inf
    assert one.ratio.low == pytest.approx(200 / 102)
    assert compare_peaks(more, first, 0.95).verdict is PeakVerdict.WORSE
    less = found(50, status=PeakStatus.BUDGET, bound="lower")
    one = compare_peaks(first, less, 0.95)
    assert (one.verdict, one.why) == (PeakVerdict.UNDECIDED, "a peak is known only by a bound")
    assert compare_peaks(more, more, 0.95).verdict is PeakVerdict.UNDECIDED


def test_many_samples_have_wider_intervals_each() -> None:
    samples = [(("a", str(at)),) for at in range(10)]
    first = {sample: found(100, (98, 102)) for sample in samples}
    second = {sample: found(103, (101, 105)) for sample in samples[:5]}
    assert len(compare_samples(first, second, 0.95)) == 5
    (alone,) = compare_samples(first, {samples[0]: second[samples[0]]}, 0.95)
    assert alone.verdict is PeakVerdict.BETTER
    assert compare_samples(first, second, 0.95)[0].verdict is PeakVerdict.NO_DIFFERENCE


def unpacked(name: str, place: Path) -> str:
    with tarfile.open(STUDIES / f"{name}.tar.xz") as archive:
        archive.extractall(place, filter="data")
    return str(place / name)


def test_stored_searches_are_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    peak = unpacked("peak", tmp_path)
    assert main(["compare", peak, peak, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "benchwright/search-compare/1"
    assert document["ratios"][0]["ratio"] == pytest.approx(1)
    maps = [unpacked(name, tmp_path) for name in ("surface", "surface-pool")]
    assert main(["compare", *maps]) == 0
    assert "of 3 samples that both searched: no difference shown at 3" in capsys.readouterr().out


def test_two_sessions_of_one_study_are_compared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    peak = unpacked("peak", tmp_path)
    assert main(["compare", f"{peak}@1", peak]) == 0
    assert f"first   {peak}@1, session 1: 227.66/s" in capsys.readouterr().out
    assert main(["compare", f"{peak}@7", peak]) == 2
    assert "there is no session 7" in capsys.readouterr().err


def test_searches_of_other_questions_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    peak, surface = (unpacked(name, tmp_path) for name in ("peak", "surface"))
    assert main(["compare", peak, surface]) == 2
    assert "one is a bw peak, the other a bw surface" in capsys.readouterr().err
    assert main(["compare", peak, peak, "--fail-if", "slower by 3%"]) == 2
    assert "--fail-if is not for searches" in capsys.readouterr().err
    assert main(["compare", peak, peak, "--html", str(tmp_path / "page.html")]) == 2
    assert "--html is not for searches" in capsys.readouterr().err
    assert main(["compare", peak, peak, "--confidence", "20"]) == 2
    assert "did you mean 20%" in capsys.readouterr().err
    assert main(["compare", peak, peak, "--", "true"]) == 2
    assert "both stored results and commands are given" in capsys.readouterr().err


def test_a_study_without_a_session_is_no_search(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Study.create_or_open(tmp_path / "empty").close()
    peak = unpacked("peak", tmp_path)
    assert main(["compare", peak, str(tmp_path / "empty")]) == 2
    assert "contains no session yet" in capsys.readouterr().err
