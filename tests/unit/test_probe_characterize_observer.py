"""The observer of I/O, where what another program tells has another form than is known."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from benchwright.features.profile.observer import BlockRecording, BlockRecordingError, Characterizer
from benchwright.watch.observer import ObserverError, Watch

NOT_UNDERSTOOD = (
    {"type": "printf", "data": "tick soon\n"},
    {"type": "absent", "data": [1]},
    {"type": "hist", "data": {"@lat": {"1,8,1": [{"count": 3}]}}},
    {"type": "hist", "data": {"@lat": {"1,8,1": 3}}},
    {"type": "map", "data": {"@n": {"1,8": 3}}},
    {"type": "map", "data": {"@n": {"1,8,1,1": None}}},
    {"type": "map", "data": {"@n": {"39,8,1,1": 3}}},
    {"type": "map", "data": {"@blk": {"7,1,W,512": 3}}},
)


@pytest.mark.parametrize("line", NOT_UNDERSTOOD)
def test_words_of_another_form_are_a_reason_and_end_no_session(
    line: dict[str, object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Counts:
        method, begin_ns, place = "bpftrace", 0, tmp_path / "counts"

        def finish(self) -> float:
            self.place.write_text(json.dumps(line))
            return 1.0

        def absent(self) -> list[tuple[str, str]]:
            return []

        def discard(self) -> None:
            self.place.unlink(missing_ok=True)

    counts = Counts()
    at = "benchwright.features.profile.observer"
    monkeypatch.setattr(f"{at}.start_counting", lambda *_: counts)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    observer = Characterizer(None)
    observer.begin(Watch(tmp_path, "x", os.getpid()))
    with pytest.raises(ObserverError, match="cannot be read") as refused:
        observer.end()
    assert refused.value.code == "characterize-unavailable"
    assert (observer.recorded, counts.place.exists()) == (None, False)


@pytest.mark.parametrize("words", ["no JSON", "7", r"\377"])
def test_an_engines_words_of_another_form_are_a_reason(words: str, tmp_path: Path) -> None:
    engine = tmp_path / "engine"
    engine.write_text(f"#!/bin/sh\nprintf '{words}\\n'\n")
    engine.chmod(0o755)
    with pytest.raises(BlockRecordingError, match="no answer from the engine"):
        BlockRecording(engine, tmp_path / "trace")
