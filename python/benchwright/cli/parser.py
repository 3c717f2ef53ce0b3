"""The argument parser of all programs, the list of commands, and hints for options of other tools."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from benchwright.core.untrusted import visible_lines

if TYPE_CHECKING:
    from _typeshed import SupportsWrite


# --------------------------------------------------------------------------------------
# The parser of all programs.
#
# Decision: no abbreviations. `bw load --study` starts itself again without some of its options,
# which it finds by name, and an abbreviation could become ambiguous with each new option. For an
# unknown option that is a prefix of known ones, the error message suggests those.


SUMMARIES = {
    "run": "run a suite (.ap, .toml), or measure a command until the answer is stable",
    "compare": "compare commands side by side, or stored results, until the answer is "
    "sound",
    "resume": "resume an interrupted study, also after a crash or a reboot",
    "stats": "print tables and statistics of results: studies, .res files, CSV, GNU time",
    "plot": "draw charts of results (lines, bars, distributions, ratios) as EPS, PDF, "
    "SVG, PNG",
    "load": "apply load at exact times to a file, a device or a server",
    "replay": "replay a recorded I/O trace at its own times",
    "trace": "measure, compare, convert and record I/O traces",
    "ramp": "raise the load until throughput stops growing, and fit a law of scalability",
    "peak": "find the highest rate that a server sustains, with a stated probability",
    "surface": "map the peak rate over a server's factors, from a few samples",
    "why": "explain what limited each result: USE table, findings, evidence",
    "quiet": "prepare the machine for a benchmark, and restore it afterwards",
    "chill": "empty caches: chill, drop-caches, remount or reboot",
    "env": "print what the machine is, or what differs between two captures",
    "schema": "print the JSON Schema of a document, or list the kinds of documents",
    "measure": "inside a script: run a command and add a measurement block to $APLOG",
    "barrier": "inside a script: wait for all threads of the trial, then exit or exec CMD",
}
"""The commands of `bw` and their summaries, in the order of `bw --help`."""


def add_command(
    commands: argparse._SubParsersAction[argparse.ArgumentParser],
    name: str,
    *,
    description: str = "",
    more: str = "",
    epilog: str | None = None,
    usage: str | None = None,
) -> argparse.ArgumentParser:
    """Add a command of `bw`; return its parser.

    Without `description`, the description is the summary as a sentence, followed by `more`.
    """
    sentence = description or " ".join(filter(None, (sentence_of(name), more)))
    raw = argparse.RawDescriptionHelpFormatter
    return commands.add_parser(
        name,
        help=SUMMARIES[name],
        description=sentence,
        epilog=epilog,
        usage=usage,
        formatter_class=raw if epilog else argparse.HelpFormatter,
    )


def sentence_of(name: str) -> str:
    """Return the summary of a command as a sentence."""
    summary = SUMMARIES[name]
    return summary[0].upper() + summary[1:] + "."


class CommandParser(argparse.ArgumentParser):
    """An argument parser without abbreviations and without control characters in its messages."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"allow_abbrev": False, **options})

    def _print_message(
        self, message: str, file: SupportsWrite[str] | None = None
    ) -> None:
        super()._print_message(visible_lines(message), file)

    def of(self, words: Sequence[str]) -> CommandParser:
        """Return the parser of the command that the first words name, else this one."""
        for action in self._actions:
            if isinstance(action, argparse._SubParsersAction) and words:
                below = action.choices.get(words[0])
                return below.of(words[1:]) if isinstance(below, CommandParser) else self
        return self

    def commands(self) -> Iterator[tuple[str, ...]]:
        """Yield the words of this parser (none) and of every command below it."""
        yield ()
        for action in self._actions:
            if isinstance(action, argparse._SubParsersAction):
                for name, below in action.choices.items():
                    yield from ((name, *words) for words in below.commands())

    def begun(self, word: str) -> list[str]:
        """Return the long options that start with the name in `word`."""
        name = word.partition("=")[0]
        if not name.startswith("--") or len(name) == len("--"):
            return []
        return [
            action for action in self._option_string_actions if action.startswith(name)
        ]


# -- Options of other load generators, and the corresponding options of `bw` -----------
#
# Purpose: error messages for users who know fio or wrk2.
# Decision: hints, not aliases, because the meanings differ: fio's `rate` is in bytes per second,
# its `iodepth` without a rate a closed loop. Source: fio(1), wrk2's README.

_NAMES = {
    "--bs": "--block 4k",
    "--blocksize": "--block 4k",
    "--bsrange": "--block 'uniform 4k..64k'",
    "--iodepth": "--depth 32",
    "--rw": "--read 70% and --location sequential",
    "--readwrite": "--read 70% and --location sequential",
    "--rwmixread": "--read 70%",
    "--random_distribution": "--location zipf:1.2",
    "--ioengine": "--engine io_uring",
    "--filename": "--target FILE",
    "--runtime": "--duration 30s",
    "--ramp_time": "--warm-up 1s",
    "--numjobs": "--workers 2",
    "--rate_iops": "--rate 10k",
    "--rate_process": "--arrival poisson",
    "--thinktime": "--think 1ms",
    "--cpus_allowed": "--cpu 1",
    "--randseed": "--seed 1",
    "--read_iolog": "bw replay TRACE",
    "--replay_time_scale": "--speed 4x",
    "-R": "--rate 10k",
    "--rps": "--rate 10k",
    "-c": "--connections 64",
    "-t": "--workers 2",
    "--threads": "--workers 2",
    "-d": "--duration 30s",
    "--vus": "--depth 10 without --rate (a closed loop)",
    "-u": "--depth 10 without --rate (a closed loop)",
}


def hints_of(command: str, unknown: Sequence[str]) -> list[str]:
    """Return a hint for each unknown option of `bw load` or `bw replay` that another tool has."""
    if command not in ("load", "replay"):
        return []
    said = dict.fromkeys(word.partition("=")[0] for word in unknown)
    return [f"{name}: here {_NAMES[name]}" for name in said if name in _NAMES]
