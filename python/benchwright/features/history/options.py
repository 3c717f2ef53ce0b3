"""The options of `bw history`, and the values of their texts."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Annotated

import msgspec

from benchwright.core.quantity import parse_size_bytes, share_within
from benchwright.inputs.options import Option, Text
from benchwright.suite.common_options import FOR_SCRIPTS, REPLACES, Json, OkStatus, Verbose

_DEFAULT_FILE = "bw-history.db"
_OF_ONE_RUN = "it belongs to one question"


class Since(msgspec.Struct, frozen=True):
    """The first moment of the runs that are shown."""

    moment_ns: int | None = None
    """[ns since 1970]; None: relative to now."""
    ago_ns: int = 0

    def start_ns(self, now_ns: int) -> int:
        """Return the moment [ns since 1970]."""
        return now_ns - self.ago_ns if self.moment_ns is None else self.moment_ns


_DAYS_NS = {"d": 86_400 * 10**9, "w": 7 * 86_400 * 10**9, "h": 3_600 * 10**9}


def parse_since(text: str) -> Since:
    """Return the moment of `2026-11-01`, `2026-11-01 12:30` (UTC), `30d`, `2w` or `12h`."""
    if match := re.fullmatch(r"(\d{1,6})([dwh])", text, re.ASCII):
        return Since(ago_ns=int(match[1]) * _DAYS_NS[match[2]])
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(
            f"{text!r} is no moment: write a day such as 2026-11-01, or an age such as 30d"
        ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return Since(moment_ns=int(moment.timestamp()) * 10**9)


Paths = Annotated[
    tuple[str, ...],
    Option(
        "history file, study, folder with studies below it, or another tool's file",
        "PATH",
        default=f"./{_DEFAULT_FILE}; without it, the studies below .",
        positional=True,
        names="file",
    ),
]
File = Annotated[Text, Option("history file", "FILE", default=f"./{_DEFAULT_FILE}", names="file")]
Tests = Annotated[
    tuple[str, ...],
    Option(
        "only this test, or those that match a pattern such as 'sort*' (repeatable)",
        "NAME",
        flag="--test",
        no_default=_OF_ONE_RUN,
    ),
]
Metrics = Annotated[
    tuple[str, ...],
    Option(
        "this quantity, such as user or rss_bytes (repeatable); NAME:higher if higher is better",
        "NAME[:higher]",
        default="those that the runs requested",
        flag="--metric",
        no_default=_OF_ONE_RUN,
    ),
]
SinceOption = Annotated[
    Text,
    Option(
        "only runs from this day on, or of this age: 2026-11-01, 30d, 2w, 12h",
        "WHEN",
        parse_since,
        no_default=_OF_ONE_RUN,
    ),
]
FalseAlarms = Annotated[
    Text,
    Option(
        "share of unchanged series that may have a step by chance",
        "P",
        share_within(0.0, 0.5, "a share "),
        default="5%",
        hint="write --false-alarms 1%",
    ),
]
Ignored = Annotated[
    tuple[str, ...],
    Option(
        "fact of the environment whose change starts no segment: 'kernel.*', "
        "env.LANG, command (repeatable)",
        "FACT",
        flag="--ignore",
    ),
]


Gate = Annotated[
    Text,
    Option(
        "exit 1 if a newest run is worse by more than this, 3 if that is undecided",
        "PERCENT",
        share_within(-1e-12, 10.0, "a share "),
        hint="write --gate 5%",
        no_default=FOR_SCRIPTS,
    ),
]
AcceptedCodes = Annotated[
    tuple[str, ...],
    Option(
        "decide the gate despite this serious finding, or despite no-value (repeatable)",
        "CODE",
        names="finding",
        no_default=FOR_SCRIPTS,
    ),
]


class SeriesOptions(msgspec.Struct, frozen=True):
    """Which series are asked about, and how."""

    paths: Paths = ()
    tests: Tests = ()
    metrics: Metrics = ()
    since: SinceOption = None
    false_alarms: FalseAlarms = None
    ignored: Ignored = ()


class HistoryOptions(SeriesOptions, frozen=True):
    """The options of `bw history`."""

    gate: Gate = None
    accept: AcceptedCodes = ()
    html: Annotated[
        Text, Option("write the answer as one HTML page", "FILE", names="file", no_default=REPLACES)
    ] = None
    verbose: Verbose = False
    json: Json = False


class AddOptions(msgspec.Struct, frozen=True):
    """The options of `bw history add`."""

    paths: Annotated[
        tuple[str, ...],
        Option(
            "study, folder with studies below it, history file, or another tool's file",
            "PATH",
            default="./bw-study",
            positional=True,
            names="file",
            default_key="study",
        ),
    ] = ()
    file: File = None
    max_size: Annotated[
        Text,
        Option(
            "remove the oldest runs while the history file is larger than this",
            "50MiB",
            parse_size_bytes,
            hint="write --max-size 50MiB",
        ),
    ] = None
    ok_status: OkStatus = None
    gate: Gate = None
    accept: AcceptedCodes = ()
    ignored: Ignored = ()
    json: Json = False


class AcceptOptions(msgspec.Struct, frozen=True):
    """The options of `bw history accept`."""

    step: Annotated[
        str,
        Option(
            "the step, as `bw history` names it: sort/2; or SERIES/COMMIT",
            "SERIES/STEP",
            positional=True,
        ),
    ]
    paths: Paths = ()
    reason: Annotated[
        Text, Option("why the change is intended", "TEXT", no_default=_OF_ONE_RUN)
    ] = None
    file: Annotated[
        Text,
        Option(
            "history file that stores the acceptance; read if no PATH is given and it has runs",
            "FILE",
            default=f"the one that is read, or {_DEFAULT_FILE} in the folder with studies, or here",
            names="file",
        ),
    ] = None
    since: SinceOption = None
    false_alarms: FalseAlarms = None
    ignored: Ignored = ()
    json: Json = False


class FeedOptions(SeriesOptions, frozen=True):
    """The options of `bw history feed`."""

    atom: Annotated[
        Text, Option("file for the Atom feed", "FILE", names="file", no_default=REPLACES)
    ] = None
    json_feed: Annotated[
        Text, Option("file for the JSON feed", "FILE", names="file", no_default=REPLACES)
    ] = None
    url: Annotated[Text, Option("address at which readers find the feed", "URL")] = None


class NotesOptions(msgspec.Struct, frozen=True):
    """The options of `bw history push` and `pull`."""

    file: File = None
    remote: Annotated[Text, Option("git remote", "NAME", default="origin")] = None
    ref: Annotated[Text, Option("ref of the notes", "REF", default="refs/notes/benchwright")] = None
    repository: Annotated[Text, Option("git repository", "DIR", default=".", names="directory")] = (
        None
    )
    json: Json = False


# -- Commits: confirm and bisect ----------------------------------------------------------

COMPARING = (
    *("build", "metrics", "confidence", "power", "min_blocks", "max_blocks", "max_time"),
    *("warmup", "seed", "shell", "threads", "setup", "cleanup", "rest", "timeout"),
    *("ok_status", "output", "hooks", "instructions"),
)
"""The options of each comparison."""


ASKING = ("margin", "fail_if", "accept", "design", "mode", "junit")
"""Further options of one comparison."""


class CommitOptions(msgspec.Struct, frozen=True):
    """The two ends of a range of commits."""

    old: Annotated[
        str, Option("commit, branch or tag before the change", "OLD", positional=True)
    ] = ""
    new: Annotated[
        str, Option("commit, branch or tag after it", "NEW", default="HEAD", positional=True)
    ] = "HEAD"
