"""The argument parser of all programs and the list of commands."""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from benchwright.core.untrusted import visible_lines
from benchwright.feature import SUITE_SUFFIXES, feature_of, owner_of
from benchwright.inputs.options import DECLARED

if TYPE_CHECKING:
    from _typeshed import SupportsWrite


# --------------------------------------------------------------------------------------
# The parser of all programs.
#
# Decision: no abbreviations. `bw load --study` starts itself again without some of its options,
# which it finds by name, and an abbreviation could become ambiguous with each new option. For an
# unknown option that is a prefix of known ones, the error message suggests those.


COMMANDS = {
    "Measure a command": {
        "run": "measure a command until the answer is stable, or run a suite",
        "compare": "decide which command, or which stored result, is faster",
        "resume": "resume an interrupted study, also after a crash or a reboot",
    },
    "Apply load to a server, a file or a device": {
        "load": "apply load at exact times, and measure the response times",
        "replay": "replay a recorded I/O trace at its own times",
        "trace": "measure, compare, convert and record I/O traces",
        "ramp": "raise the load until throughput stops growing; fit a law to it",
        "peak": "find the highest rate that a server sustains within limits",
        "surface": "map the peak rate over a server's factors, from a few samples",
        "pool": "show the gangs that run parts of a session side by side",
    },
    "Read results": {
        "ls": "list the sessions of studies, and of the studies in a folder",
        "show": "print one session: command, answers, commit, machine, files",
        "tag": "add tags, a note or a name to a session",
        "stats": "print tables and statistics of studies and other tools' results",
        "plot": "draw charts of results as EPS, PDF, SVG or PNG",
        "report": "write studies as one HTML page: the answer, and why to trust it",
        "export": "write results in the formats of other tools and of CI",
        "live": "show a study in a browser, while its session runs",
        "why": "explain what limited each result: CPU, disk, network, others",
        "history": "show how results changed, run after run, and which change is real",
    },
    "Prepare the machine": {
        "quiet": "prepare the machine for a benchmark, and restore it afterwards",
        "chill": "empty the caches of files, or of the whole machine",
        "env": "print what the machine is, or what differs between two captures",
    },
    "In a benchmark script": {
        "measure": "run a command and add a measurement block to $APLOG",
        "barrier": "wait for all threads of the trial, then exit or execute CMD",
    },
    "About bw": {
        "help": "print the help of a command",
        "version": "print the version of bw; with -v those of all its parts",
        "config": "print the defaults that configuration files set, and can set",
        "completion": "print the script that completes command lines in a shell",
        "schema": "print the JSON Schema of a document, or list the documents",
    },
}
"""The commands of `bw` and their summaries, in the order of `bw --help`, by what they are for."""
SUMMARIES = {name: summary for named in COMMANDS.values() for name, summary in named.items()}


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
        formatter_class=raw if epilog or "\n" in sentence else argparse.HelpFormatter,
    )


def sentence_of(name: str) -> str:
    """Return the summary of a command as a sentence."""
    summary = SUMMARIES[name]
    return summary[0].upper() + summary[1:] + "."


def summary_of(name: str) -> str:
    """Return the summary of a command, or that it is not installed."""
    return SUMMARIES[name] if is_installed(name) else f"not installed (feature {feature_of(name)})"


def is_installed(name: str) -> bool:
    """Return whether a command of `SUMMARIES` is installed, with the feature that it belongs to."""
    return not feature_of(name) or owner_of(name) is not None


def not_installed(name: str) -> str:
    """Return the error message for a command or a program whose feature is not installed."""
    return (
        f"bw: {name} is not installed: it belongs to the feature {feature_of(name)!r}\n"
        "  = install Benchwright with all features; `bw --help` lists the commands that are installed"
    )


def unknown_command(word: str) -> str:
    """Return the error message for a word in place of a command, with what may be meant."""
    import os
    import shutil

    from benchwright.core.errors import suggestion

    if meant := suggestion(word, SUMMARIES):
        hint = meant
    elif word.endswith(SUITE_SUFFIXES):
        hint = f"to run a suite: bw run {word}"
    elif shutil.which(word) or os.path.isfile(word):
        hint = f"to measure a command: bw run -- {word} ..."
    else:
        hint = "`bw --help` lists the commands"
    return f"bw: there is no command {word!r}\n  = {hint}"


class CommandParser(argparse.ArgumentParser):
    """An argument parser without abbreviations and without control characters in its messages."""

    default_command = ""
    """The command below this one that the words belong to if they name none of them."""

    on_refusal: ClassVar[Callable[[Exception], None] | None] = None
    """Called with the error of arguments that are refused, before it is printed."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"allow_abbrev": False, **options})

    def error(self, message: str) -> NoReturn:
        """Print a message and exit with status 2."""
        if (refuse := CommandParser.on_refusal) is not None:
            from benchwright.core.errors import Diagnostic, InputError

            refuse(InputError([Diagnostic("bad-argument", message, file=self.prog)]))
        super().error(message)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        try:
            super()._check_value(action, value)
        except argparse.ArgumentError as error:
            option = getattr(action, DECLARED, None)
            if option and option.hint:
                error.message += f"\n  = {option.hint}"
            raise

    def _print_message(self, message: str, file: SupportsWrite[str] | None = None) -> None:
        super()._print_message(visible_lines(message), file)

    def format_help(self) -> str:
        """Return the help; that of `bw` itself lists the commands by what they are for.

        Options that few users need are only named; `complete_help` describes them.
        """
        if self.prog == "bw":
            return _help_of_bw()
        if self.default_command:
            return self.of([self.default_command]).format_help()
        declared = {a: getattr(a, DECLARED, None) for a in self._actions}
        rare = [action for action, option in declared.items() if option and option.rare]
        if not rare:
            return super().format_help()
        formatter = self._get_formatter()
        formatter.add_usage(self.usage, self._actions, self._mutually_exclusive_groups)
        formatter.add_text(self.description)
        for group in self._action_groups:
            formatter.start_section(group.title)
            formatter.add_text(group.description)
            formatter.add_arguments([a for a in group._group_actions if a not in rare])
            formatter.end_section()
        names = ", ".join(action.option_strings[-1] for action in rare)
        more = f"more options, described by `bw help {self.prog.removeprefix('bw ')}`:"
        lines = textwrap.wrap(names, 76, break_on_hyphens=False)
        text = "\n  ".join((more, *lines))
        formatter.add_text(self.epilog)
        return f"{formatter.format_help()}\n{text}\n"

    def complete_help(self) -> str:
        """Return the help with a description of every option."""
        if self.default_command:
            return self.of([self.default_command]).complete_help()
        return _help_of_bw() if self.prog == "bw" else super().format_help()

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Parse as argparse does, but an optional value follows `=` only, and arguments may stand
        among the options: argparse reports those after an option as unknown."""
        if self.default_command and args is not None:
            args = self._with_command(args)
        words = None if args is None else [self._with_value(word) for word in args]
        arguments, unknown = super().parse_known_args(words, namespace)
        several = [a for a in self._actions if not a.option_strings and a.nargs == "*"]
        if several and unknown and not any(word.startswith("-") for word in unknown):
            (action,) = several
            setattr(arguments, action.dest, [*getattr(arguments, action.dest), *unknown])
            unknown = []
        return arguments, unknown

    def _with_command(self, words: Sequence[str]) -> Sequence[str]:
        """Return the words with the default command before them, if they name no command."""
        if words and (words[0] in ("-h", "--help") or self.of(words[:1]) is not self):
            return words
        return [self.default_command, *words]

    def _with_value(self, word: str) -> str:
        """Return `--shell=/bin/sh` for `--shell`, and other words as they are."""
        action = self._option_string_actions.get(word)
        is_optional = action is not None and action.nargs == "?"
        return f"{word}={action.const}" if action and is_optional else word

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

    def meant(self, word: str) -> str:
        """Return a hint for the unknown option in `word`: the long options that start with its
        name, else the most similar one; empty if there is none."""
        from benchwright.core.errors import suggestion

        name = word.partition("=")[0]
        if not name.startswith("--") or len(name) == len("--"):
            return ""
        known = [option for option in self._option_string_actions if option.startswith("--")]
        if begun := [one for one in known if one.startswith(name)]:
            return f"write {' or '.join(begun)}"
        return suggestion(name, known, least=0.75)


# The help of `bw` fits a screen of 80 columns whatever the terminal's width.
_WIDTH = max(map(len, SUMMARIES))


def _help_of_bw() -> str:
    """Return the help of `bw` itself, with the commands by what they are for."""
    listed = "\n".join(
        f"{heading}:\n" + "".join(f"  {name:<{_WIDTH}}  {summary_of(name)}\n" for name in named)
        for heading, named in COMMANDS.items()
    )
    return (
        "Run benchmarks and load tests, with confidence intervals and known problems.\n\n"
        "usage: bw COMMAND [options]        `bw COMMAND --help` prints the options\n\n"
        f"{listed}\nOptions: -h, --help; -V, --version; --no-config (ignore configuration files)\n"
    )
