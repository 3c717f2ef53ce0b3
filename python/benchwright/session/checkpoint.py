"""The small text file that `CHECKPOINT FILE` leaves for a boot script.

The checkpoint itself is in the journal; the file only says where the study is, so that
`bw resume FILE` works as Auto-pilot's own did. The paper's rule for boot scripts holds
(section 3.5): a file that root would obey must be root's and not writable by others.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from benchwright.model.errors import StudyError

_HEAD = "benchwright checkpoint 1\n"


def write_pointer(path: Path, study: Path) -> None:
    """Write the file, durably, for its owner only; an older pointer is replaced.

    Raises StudyError `checkpoint-file` if a file of another kind is in the way.
    """
    if path.exists() and not path.read_text(errors="replace").startswith(_HEAD):
        raise StudyError(
            "checkpoint-file",
            f"{path} exists and is no checkpoint: it is not overwritten",
            "give CHECKPOINT another file name",
        )
    draft = path.with_name(path.name + ".new")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(f"{_HEAD}study = {study.absolute()}\n")
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)


def study_of(place: Path) -> Path:
    """Return the study that a directory or a checkpoint file stands for.

    Raises StudyError `checkpoint-unsafe` or `checkpoint-file`.
    """
    if not place.is_file():
        return place
    found = place.lstat()
    if os.geteuid() == 0 and (
        found.st_uid != 0 or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    ):
        raise StudyError(
            "checkpoint-unsafe",
            f"{place} is not root's alone: root does not resume from it",
            f"chown root {place}; chmod go-w {place}",
        )
    text = place.read_text(errors="replace")
    if not text.startswith(_HEAD + "study = "):
        raise StudyError("checkpoint-file", f"{place} is no checkpoint of benchwright")
    return Path(text.removeprefix(_HEAD + "study = ").strip())
