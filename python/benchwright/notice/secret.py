"""Secrets, from an environment variable or a private file, when they are needed.

Decision: never from a suite, an argument or a study; a file that others can read is
refused rather than used, as ssh does with a key.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping

from benchwright.core.notice import Secret
from benchwright.notice.failure import Undelivered

MOST_BYTES = 65536


def revealed(secret: Secret, environment: Mapping[str, str]) -> str:
    """Return a secret's text, trimmed. Raises Undelivered, which does not quote it."""
    if secret.kind == "variable":
        text = environment.get(secret.name, "")
        if not text.strip():
            raise Undelivered(f"the environment variable {secret.name} is not set")
        return text.strip()
    return _of_file(secret.name)


def _of_file(path: str) -> str:
    try:
        with open(path, "rb") as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode):
                raise Undelivered(f"{path} is no regular file")
            if stat.S_IMODE(found.st_mode) & 0o077:
                raise Undelivered(f"{path} can be read by others: chmod 600 {path}")
            if found.st_uid not in (os.geteuid(), 0):
                raise Undelivered(f"{path} belongs to another user")
            text = file.read(MOST_BYTES).decode(errors="replace").strip()
    except OSError as error:
        raise Undelivered(f"{path}: {error.strerror}") from None
    if not text:
        raise Undelivered(f"{path} is empty")
    return text
