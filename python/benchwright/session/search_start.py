"""From what the user asked to a session of searches that can run, now or later.

What decides a search's course is stored with its session: the request as the user typed
it, the spec's text, the directory, and PATH. A resume reads nothing else.
"""

from __future__ import annotations

import os
import secrets
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

import msgspec

from benchwright import __version__
from benchwright.bench.leftovers import TOKEN
from benchwright.session.start import boot_id
from benchwright.study.contents import SEARCHES
from benchwright.study.journal import SessionInfo
from benchwright.suite.program import SourceFile
from benchwright.trial.request import Surroundings

Request = TypeVar("Request")

REQUEST = "<request>"
"""`program_main` of a session of searches; its first source is the request as JSON."""


def search_info(
    kind: str,
    request: msgspec.Struct,
    spec: SourceFile | None,
    arguments: Sequence[str],
) -> SessionInfo:
    """Return what a session of this kind is begun with: one of `SEARCHES`."""
    assert kind in SEARCHES
    asked = SourceFile(REQUEST, msgspec.json.encode(request).decode())
    sources = (asked,) if spec is None else (asked, spec)
    environment = {"PATH": _path(spec)}
    return SessionInfo(
        started_ns=time.time_ns(),
        version=__version__,
        boot_id=boot_id(),
        directory=os.getcwd(),
        arguments=tuple(arguments),
        defines=(),
        program_main=REQUEST,
        sources=tuple((one.path, one.text) for one in sources),
        options={
            "token": secrets.token_hex(8),
            "environment": msgspec.json.encode(environment).decode(),
        },
        kind=kind,
    )


def stored_request(info: SessionInfo, kind: type[Request]) -> Request:
    """Return the request that a session of searches was begun with."""
    return msgspec.json.decode(info.sources[0][1], type=kind)


def stored_spec(info: SessionInfo) -> SourceFile | None:
    """Return the spec as it was when the session began; None where there was none."""
    return SourceFile(*info.sources[1]) if len(info.sources) > 1 else None


def search_surroundings(info: SessionInfo, study: Path) -> Surroundings:
    """Return what every command of the session gets."""
    stored = msgspec.json.decode(info.options["environment"], type=dict[str, str])
    ours = {**stored, TOKEN: info.options["token"], "BW_STUDY": str(study)}
    return Surroundings(info.directory, tuple(ours.items()))


def _path(spec: SourceFile | None) -> str:
    """Return PATH with the spec's directory first and that of `bw` itself last."""
    beside = None if spec is None else str(Path(spec.path).resolve().parent)
    tools = str(Path(sys.executable).parent)
    places = [beside, os.environ.get("PATH", os.defpath), tools]
    return os.pathsep.join(place for place in places if place)
