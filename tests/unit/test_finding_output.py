"""output-cost: writing the output was a noticeable part of the trial."""

from __future__ import annotations

import pytest

from benchwright.core.observation import ProcessRecord, Trial, TrialEnding
from benchwright.findings.examine import output_findings


def trial(
    written: int | None, *, system_us: int, err_bytes: int = 0, ending: TrialEnding = TrialEnding.OK
) -> Trial:
    """Return a trial of 1 s that wrote so much."""
    process = ProcessRecord(
        mode="EXEC",
        index=0,
        thread=1,
        status=0,
        elapsed_ns=1_000_000_000,
        user_us=0,
        system_us=system_us,
        rss_bytes=0,
        out_bytes=written,
        err_bytes=err_bytes,
    )
    return Trial("t", 1, 1, ending, 0, 0, processes=(process,))


@pytest.mark.parametrize(
    ("written", "system_us", "expected"),
    [
        (None, 40_000, False),  # a study of before
        (0, 0, False),
        (65_536, 1_000, False),
        (20_000_000, 40_000, True),  # sort of 20 MB: a third of its system time
        (20_000_000, 900_000, False),
        (40_000_000, 900_000, True),  # 2.6 % of its elapsed time
    ],
)
def test_a_noticeable_part_is_a_doubt(written: int | None, system_us: int, expected: bool) -> None:
    found = output_findings("t", [trial(written, system_us=system_us)] * 3)
    assert [one.code for one in found] == ["output-cost"] * expected
    assert all("--output null" in one.remedy for one in found)


def test_the_evidence_names_the_streams() -> None:
    def evidence(out: int, err: int) -> str:
        (one,) = output_findings("t", [trial(out, system_us=1000, err_bytes=err)] * 3)
        return one.evidence

    assert evidence(20_000_000, 0).startswith("a trial wrote 20 MB to stdout: ")
    assert evidence(0, 30_000_000).startswith("a trial wrote 30 MB to stderr: ")
    assert "wrote 50 MB to stdout and stderr: " in evidence(20_000_000, 30_000_000)


def test_failed_trials_say_nothing() -> None:
    failed = trial(1 << 30, system_us=1, ending=TrialEnding.FAILED)
    assert output_findings("t", [failed]) == []
