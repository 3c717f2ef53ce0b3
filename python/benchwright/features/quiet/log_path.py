"""Where transactions are stored. Imports only `os`, because every `bw` command checks it."""

from __future__ import annotations

import os

LOG = "quiet.log"
LOCK = "quiet.lock"
SERVERS = "servers"


def state_directory() -> str:
    """Return the directory of this user's transaction, which need not exist.

    $BW_STATE, else /var/lib/benchwright/quiet for root, else
    $XDG_STATE_HOME/benchwright/quiet. It is a separate directory, so that the files beside
    it (checkpoints) may be shared with other users.
    """
    if given := os.environ.get("BW_STATE"):
        return given
    if os.geteuid() == 0:
        return "/var/lib/benchwright/quiet"
    home = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    return os.path.join(home, "benchwright", "quiet")


def server_directories() -> list[str]:
    """Return the directories of the transactions that give servers their resources."""
    place = os.path.join(state_directory(), SERVERS)
    try:
        names = os.listdir(place)
    except OSError:
        return []
    return [os.path.join(place, name) for name in names]


def server_directory(name: str) -> str:
    """Return the directory of a server's transaction: each server has its own."""
    return os.path.join(state_directory(), SERVERS, name)


def log_path() -> str:
    """Return the path of the log; there is one while something is changed."""
    return os.path.join(state_directory(), LOG)
