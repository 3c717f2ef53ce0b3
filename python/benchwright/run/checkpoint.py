"""The small text file that `CHECKPOINT FILE` leaves for a boot script.

The checkpoint itself is in the journal; the file only says where the study is, so that `bw resume
FILE` and `bw run FILE` work as Auto-pilot's own did. The paper's rule for boot scripts holds
(section 3.5): a file that root follows must belong to root and not be writable by others.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from benchwright.core.errors import StudyError
from benchwright.core.untrusted import open_regular, others_could_write

_HEAD = "benchwright checkpoint 1\n"
_LONGEST = 1 << 16


def write_pointer(path: Path, study: Path) -> None:
    """Write the file, durably, for its owner only; an older pointer is replaced.

    Raises StudyError `checkpoint-file` if a file of another kind is in the way, or if
    it cannot be written.
    """
    try:
        if os.path.lexists(path) and not _begins_as_ours(path):
            raise StudyError(
                "checkpoint-file",
                f"{path} exists and is not a checkpoint, so it is not overwritten",
                "give CHECKPOINT another file name",
            )
        # mkstemp: an unpredictable name, so that no one can place a link there first.
        descriptor, draft = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        with os.fdopen(descriptor, "w") as file:
            file.write(f"{_HEAD}study = {study.absolute()}\n")
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, path)
    except OSError as error:
        raise StudyError(
            "checkpoint-file",
            f"cannot write the checkpoint file {path}: {error.strerror}",
            "create its directory, or give CHECKPOINT another name; then `bw resume`",
        ) from None


def _begins_as_ours(path: Path) -> bool:
    with open_regular(path) as file:
        return file.read(len(_HEAD)) == _HEAD.encode()


def is_checkpoint(place: Path) -> bool:
    """Return whether a path is a file that `write_pointer` wrote; its text says so."""
    try:
        return place.is_file() and _begins_as_ours(place)
    except OSError:
        return False


def study_of(place: Path) -> Path:
    """Return the study at a directory, or the one that a checkpoint file names.

    Raises StudyError `checkpoint-unsafe` or `checkpoint-file`.
    """
    try:
        if not place.is_file():
            return place
        # Checks and reads use one open file, so replacing the name in between has no effect.
        with open(os.open(place, os.O_RDONLY | _no_links()), errors="replace") as file:
            found, text = os.fstat(file.fileno()), file.read(_LONGEST)
    except OSError as error:
        raise StudyError(
            "checkpoint-file",
            f"cannot read the checkpoint file {place}: {error.strerror}",
            "give the study's directory, or the real path of the file",
        ) from None
    if os.geteuid() == 0 and others_could_write(found, 0):
        raise StudyError(
            "checkpoint-unsafe",
            f"{place} belongs to another user or may be written by others: root does not resume from it",
            f"chown root {place}; chmod go-w {place}",
        )
    if not text.startswith(_HEAD + "study = "):
        raise StudyError("checkpoint-file", f"{place} is not a benchwright checkpoint")
    return Path(text.removeprefix(_HEAD + "study = ").rstrip("\n"))


def _no_links() -> int:
    return os.O_NOFOLLOW if os.geteuid() == 0 else 0
