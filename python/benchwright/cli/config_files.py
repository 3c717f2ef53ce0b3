"""The configuration files that apply to a command line: which exist, from the weakest to the
strongest.

Every command runs this at its start, so it imports next to nothing, and costs two calls of stat for
each directory up to the root of the repository. What is in the files: `defaults.py`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import NamedTuple

from benchwright.core.untrusted import open_regular

VARIABLE = "BW_CONFIG"
"""The only file to read instead of the others; `/dev/null` for none."""
NO_CONFIG = "--no-config"
WITHOUT = ("help", "version", "completion", "schema", "config", "measure", "barrier")
"""Commands that read no configuration files: they have no options to set, or run in trials."""
PROJECT = "pyproject.toml"
_TABLE = b"tool.benchwright"
"""A pyproject.toml without this name has no table of ours."""


class ConfigFile(NamedTuple):
    """A configuration file, or the place of one that does not exist."""

    path: str
    """As messages name it: relative to the current directory if it is that of a project."""
    kind: str
    """`user`, `project`, or `variable` if BW_CONFIG names it."""
    exists: bool = True


def config_files(
    environment: Mapping[str, str] = os.environ, directory: str | None = None
) -> list[ConfigFile]:
    """Return the configuration files of a directory, the user's before the project's."""
    return [file for file in config_places(environment, directory) if file.exists]


def config_places(
    environment: Mapping[str, str] = os.environ, directory: str | None = None
) -> list[ConfigFile]:
    """Return the configuration files of a directory, also the user's if it does not exist."""
    named = environment.get(VARIABLE)
    if named:
        # A missing file is an error when it is read.
        return [] if named == os.devnull else [ConfigFile(named, "variable")]
    home = environment.get("XDG_CONFIG_HOME", "")
    if not os.path.isabs(home):
        home = os.path.join(environment.get("HOME") or os.path.expanduser("~"), ".config")
    user = os.path.join(home, "benchwright", "config.toml")
    files = [ConfigFile(user, "user", os.path.exists(user))]
    try:
        project = _project_file(os.getcwd() if directory is None else directory)
    except OSError:
        # The current directory was removed.
        project = None
    return [*files, *([ConfigFile(project, "project")] if project else [])]


def _project_file(directory: str) -> str | None:
    """Return the nearest pyproject.toml with our table, up to the root of the repository.

    Outside of a repository only the directory itself counts: a file in a shared parent such as
    /tmp belongs to somebody else.
    """
    found = None
    place = directory
    while True:
        path = os.path.join(place, PROJECT)
        if found is None and _has_table(path):
            found = path
        if os.path.exists(os.path.join(place, ".git")):
            break
        above = os.path.dirname(place)
        if above == place:
            found = found if found == os.path.join(directory, PROJECT) else None
            break
        place = above
    return None if found is None else os.path.relpath(found, directory)


def _has_table(path: str) -> bool:
    try:
        with open_regular(path) as file:
            return _TABLE in file.read()
    except OSError:
        return False
