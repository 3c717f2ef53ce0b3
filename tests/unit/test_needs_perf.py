"""Tests that profile are skipped where perf is there and does not work."""

from __future__ import annotations

from pathlib import Path

import pytest

from needs_perf import complaint


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        (None, "perf is not installed"),
        ("exit 0", ""),
        (
            "echo 'no perf for\nthis kernel' >&2; exit 2",
            "perf does not work here: no perf for this kernel",
        ),
        ("exit 255", "perf does not work here: exit status 255"),
    ],
)
def test_the_reason_is_what_perf_says(
    script: str | None, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if script is not None:
        perf = tmp_path / "perf"
        perf.write_text(f"#!/bin/sh\n{script}\n")
        perf.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert complaint() == reason
