"""Options of other tools that measure commands, and what has their meaning in `bw run` and
`bw compare`.

Decision: hints, not aliases, because the meanings differ: hyperfine's `--setup` runs once, ours
before each trial. Sources: hyperfine(1), perf-stat(1), time(1).
"""

from __future__ import annotations

from collections.abc import Sequence

from benchwright.feature import owner_of

_OF_TRIALS = {
    "-w": "--warmup 3",
    "-p": "--setup COMMAND (before each trial)",
    "--prepare": "--setup COMMAND (before each trial)",
    "--pre": "--setup COMMAND (before each trial)",
    "--post": "--cleanup COMMAND (after each trial)",
    "-s": "--setup COMMAND (before each trial)",
    "-c": "--cleanup COMMAND (after each trial)",
    "-C": "--cleanup COMMAND (after each trial)",
    "--conclude": "--cleanup COMMAND (after each trial)",
    "-n": "--name NAME",
    "--command-name": "--name NAME",
    "-S": "--shell=bash",
    "-N": "leave it out: a shell runs only what needs one",
    "--show-output": "--output inherit",
    "--export-json": "--json > FILE",
    "--export-csv": "bw stats --format csv",
    "--export-markdown": "bw stats --format markdown",
    "-o": "--json > FILE",
}
_OF_RUN = {
    **_OF_TRIALS,
    "-r": "--runs 10",
    "--repeat": "--runs 10",
    "-m": "--min-runs 10, with --precision",
    "-M": "--max-runs 100, with --precision",
    "-L": "-P NAME=VALUE1,VALUE2",
    "--parameter-list": "-P NAME=VALUE1,VALUE2",
    "--parameter-scan": "-P NAME=1..9",
    "--parameter-step-size": "-P NAME=1..9:2",
    "-i": "--keep-going",
    "--ignore-failure": "--keep-going",
    "--reference": "bw compare: its first command is the baseline",
    "-e": "--profile (perf), or bw why after the run",
    "--event": "--profile (perf), or bw why after the run",
    "-f": "--json, or bw stats --format csv",
}
_BLOCKS = "--max-blocks 10 (a block is one trial of each command)"
_OF_COMPARE = {
    **_OF_TRIALS,
    "-r": _BLOCKS,
    "--runs": _BLOCKS,
    "--max-runs": _BLOCKS,
    "-M": _BLOCKS,
    "--min-runs": "--min-blocks 10 (a block is one trial of each command)",
    "-m": "--min-blocks 10 (a block is one trial of each command)",
    "--precision": "--margin 1%: the comparison ends when it is decided",
    "-P": "bw run -P NAME=VALUE1,VALUE2, or [[compare]] in a suite",
    "-L": "bw run -P NAME=VALUE1,VALUE2, or [[compare]] in a suite",
    "--parameter-list": "bw run -P NAME=VALUE1,VALUE2, or [[compare]] in a suite",
    "--reference": "the first command is the baseline",
    "-i": "leave it out: a failed trial does not end a comparison",
    "--ignore-failure": "leave it out: a failed trial does not end a comparison",
    "--keep-going": "leave it out: a failed trial does not end a comparison",
}


def hints_of(command: str, unknown: Sequence[str]) -> list[str]:
    """Return a hint for each unknown option of a command that another tool has."""
    owner = owner_of(command)
    own = {"run": _OF_RUN, "compare": _OF_COMPARE}.get(command, {})
    foreign = own if owner is None else owner.options_of_other_tools(command)
    said = dict.fromkeys(word.partition("=")[0] for word in unknown)
    return [f"{name}: here {foreign[name]}" for name in said if name in foreign]
