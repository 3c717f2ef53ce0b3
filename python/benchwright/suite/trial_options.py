"""Options of `bw run -- CMD` and `bw compare` that say what surrounds each trial."""

from __future__ import annotations

from typing import Annotated

from benchwright.suite.options import Option, Text

Metrics = Annotated[
    tuple[str, ...],
    Option(
        "number read from the output; elapsed, user, system and rss_bytes are always "
        "measured",
        "NAME[:higher][=/json/pointer | ~regex(group)]",
        flag="--metric",
    ),
]
Setup = Annotated[Text, Option("shell command before each trial", "C")]
Cleanup = Annotated[
    Text, Option("shell command after each trial, even a failed one", "C")
]
Rest = Annotated[Text, Option("pause before each trial", "500ms")]
Timeout = Annotated[
    Text, Option("time after which a trial is stopped and fails", "30s")
]
Output = Annotated[
    Text,
    Option(
        "what to keep of the output: null discards it; bounded keeps the first and last "
        "64 KiB of each stream of a trial; file keeps all, compressed; inherit is "
        "bounded, and shown on stderr; file:4G limits what a trial may write to 4G, "
        "instead of 1G",
        "WHERE",
        default="bounded",
    ),
]
Hooks = Annotated[
    tuple[str, ...],
    Option(
        "measurement hook: free-memory, disk-io, other-cpu, network, remote, or a path",
        "NAME|PATH",
        flag="--hook",
    ),
]
