"""Options that several commands have, each declared once."""

from __future__ import annotations

from typing import Annotated

from benchwright.core.quantity import share_within
from benchwright.inputs.options import Option, Text
from benchwright.inputs.values import choice
from benchwright.suite import values
from benchwright.suite.rules import metric

# -- Output format, and options for reading results ------------------------------------

FOR_SCRIPTS = "it changes the output that scripts read"
REPLACES = "each run would replace the file"
"""Reasons why a configuration file cannot set an option."""
Json = Annotated[bool, Option("print one JSON document on stdout", no_default=FOR_SCRIPTS)]
Quiet = Annotated[bool, Option("print no progress")]
Verbose = Annotated[bool, Option("print each finding with its evidence and remedy", short="-v")]
Plot = Annotated[
    Text,
    Option(
        "draw the result: .svg, .png, .pdf or .eps",
        "FILE",
        group="result",
        names="file",
        no_default=REPLACES,
    ),
]
RuleFiles = Annotated[
    tuple[str, ...],
    Option(
        "rule of your own: a Python file with rule(result)",
        "FILE",
        flag="--rule",
        names="*.py",
        only_user=True,
    ),
]

CONFIDENCE = Option(
    "confidence of the intervals", "P", share_within(0.0, 1.0, "a confidence "), default="95%"
)
Confidence = Annotated[Text, CONFIDENCE]

# -- Commands, set-up, clean-up and limits of each trial of `bw run -- CMD` and `bw compare` -------

Metrics = Annotated[
    tuple[str, ...],
    Option(
        "number read from the output: in the last document of JSON, or in the first match; elapsed, user, "
        "system and rss_bytes are always measured",
        "NAME[:higher][=/json/pointer | ~regex(group)]",
        metric,
        flag="--metric",
    ),
]
INSTRUCTIONS = ("perf", "callgrind")
"""Programs that count the instructions of a command."""
Instructions = Annotated[
    Text,
    Option(
        "count each command's instructions by perf, or by callgrind, which is 50 times slower",
        "=METHOD",
        choice("method", *INSTRUCTIONS),
        bare=INSTRUCTIONS[0],
        rare=True,
    ),
]
SHELL = "/bin/sh"
"""The shell of `--shell` without a value."""
Shell = Annotated[
    Text,
    Option(
        "run each command in a shell, and measure its start too",
        "=SHELL",
        bare=SHELL,
        only_user=True,
    ),
]
Names = Annotated[
    tuple[str, ...],
    Option(
        "name of the first, second ... command (repeatable)",
        "NAME",
        flag="--name",
        no_default="it names the commands of one run",
    ),
]
Setup = Annotated[Text, Option("shell command before each trial", "C", only_user=True)]
Cleanup = Annotated[
    Text, Option("shell command after each trial, even a failed one", "C", only_user=True)
]
Rest = Annotated[
    Text,
    Option(
        "pause before each trial",
        "500ms",
        values.rest_command,
        hint="write --rest 500ms",
        rare=True,
    ),
]
Timeout = Annotated[
    Text,
    Option(
        "time after which a trial is stopped and fails",
        "30s",
        values.timeout_ns,
        hint="write --timeout 30s",
        rare=True,
    ),
]
OkStatus = Annotated[
    Text,
    Option(
        "exit statuses with which a command succeeds",
        "0,1",
        values.statuses,
        default="0",
        hint="write --ok-status 0,1 or --ok-status 0..3",
        rare=True,
    ),
]
Output = Annotated[
    Text,
    Option(
        "output to store: null, bounded (64 KiB of each end), file (all; file:4G sets "
        "a limit), inherit (bounded, and shown)",
        "WHERE",
        values.output,
        default="bounded",
        hint="write --output file:4G",
        rare=True,
    ),
]
Hooks = Annotated[
    tuple[str, ...],
    Option(
        "measurement hook: free-memory, disk-io, other-cpu, network, remote, or a path",
        "NAME|PATH",
        flag="--hook",
        names="file",
        only_user=True,
        rare=True,
    ),
]
