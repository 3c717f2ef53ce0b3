"""The checkpoint file: written over nothing of others', read with care."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from benchwright.core.errors import StudyError
from benchwright.run.ledger import study_of, write_pointer


def test_a_checkpoint_file_leads_to_its_study(tmp_path: Path) -> None:
    file = tmp_path / "state"
    write_pointer(file, tmp_path / "study one")
    write_pointer(file, tmp_path / "study two")
    assert study_of(file) == tmp_path / "study two"
    assert file.stat().st_mode & 0o777 == 0o600
    assert [p.name for p in tmp_path.iterdir()] == ["state"]


def test_a_link_prepared_by_others_is_not_written_through(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / "state.new").symlink_to(victim)
    write_pointer(tmp_path / "state", tmp_path / "study")
    assert victim.read_text() == "precious"


@pytest.mark.parametrize("place", ["no/such/directory/state", ".", "other"])
def test_what_cannot_be_written_is_said(tmp_path: Path, place: str) -> None:
    (tmp_path / "other").write_text("mine")
    with pytest.raises(StudyError) as caught:
        write_pointer(tmp_path / place, tmp_path / "study")
    assert caught.value.code == "checkpoint-file"
    assert (tmp_path / "other").read_text() == "mine"


@pytest.mark.skipif(os.geteuid() != 0, reason="root's own rules")
def test_root_follows_no_link_and_no_file_that_others_may_write(tmp_path: Path) -> None:
    file = tmp_path / "state"
    write_pointer(file, tmp_path / "study")
    (tmp_path / "link").symlink_to(file)
    with pytest.raises(StudyError):
        study_of(tmp_path / "link")
    file.chmod(0o620)
    with pytest.raises(StudyError) as caught:
        study_of(file)
    assert caught.value.code == "checkpoint-unsafe"
