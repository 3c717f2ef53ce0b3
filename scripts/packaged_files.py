#!/usr/bin/env python3
"""The files of the wheel that are made from the declarations of options: manual pages and
completions.

`scripts/packaged_files.py [DIRECTORY]` writes them below packaging/data/data/share (or DIRECTORY),
from where maturin takes them into the wheel. scripts/setup.sh runs it before each build, so they
are never stale, and they are not in git. `pip install` puts them into the share/ beside the bin/ of
`bw`, where `man` and the shells look.

Decision: our own writer of pages, from the same parsers as `--help`. Rejected: argparse-manpage,
which prints examples as a paragraph below COMMENTS, repeats all commands of `bw trace` in its page,
and has no sections for exit statuses and related pages.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import textwrap
import time
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path

from benchwright import __version__
from benchwright.cli.completion import SHELLS, completion_script
from benchwright.cli.main import parser
from benchwright.cli.parser import COMMANDS, CommandParser, sentence_of

SHARE = Path(__file__).parents[1] / "packaging" / "data" / "data" / "share"
COMPLETIONS = {
    "bash": "bash-completion/completions/bw",
    "zsh": "zsh/site-functions/_bw",
    "fish": "fish/vendor_completions.d/bw.fish",
}
ENVIRONMENT = {
    "BW_LAUNCHER, BW_ENGINE, BW_SAMPLER": "Paths of the native programs, if they are not beside the "
    "Python interpreter.",
    "BW_CONFIG": "The only configuration file to read; /dev/null for none.",
    "XDG_CONFIG_HOME": "Directory of configuration files, instead of ~/.config.",
    "NO_COLOR": "Print without colours.",
}
FILES = {
    "~/.config/benchwright/config.toml": "Your defaults of options: a table for each command, such as "
    '[run] with precision = "2%". bw config prints them.',
    "pyproject.toml": "Defaults of a project, in [tool.benchwright]; stronger than yours.",
    "./bw-study": "The study in which results are stored, unless --study names another.",
}
STATUSES = {
    "0": "Done.",
    "1": "A benchmark failed, or a threshold was missed.",
    "2": "Bad input.",
    "3": "Undecided.",
    "130": "Interrupted; bw resume continues.",
}
_HEADING = re.compile(r"([a-z][a-z ]{2,20})(?: \([^)]*\))?:(?: (.*))?")
"""The first line of a section after the options: `examples:`, `exit status: 0 done; ...`."""


def files() -> dict[str, str]:
    """Return the text of each file by its path below share/."""
    pages = {f"man/man1/{name}.1": text for name, text in manual_pages().items()}
    return pages | {COMPLETIONS[shell]: completion_script(shell, parser()) for shell in SHELLS}


def manual_pages() -> dict[str, str]:
    """Return each manual page by its name: `bw`, `bw-run`, `bw-trace-stat`."""
    root = parser()
    summaries = summaries_of(root)
    pages = {"bw": main_page()}
    for words in root.commands():
        if words:
            pages["-".join(("bw", *words))] = page_of(root.of(words), summaries[words])
    return pages


def summaries_of(command: CommandParser, *words: str) -> dict[tuple[str, ...], str | None]:
    """Return the summary of each command below this one, by its words."""
    found: dict[tuple[str, ...], str | None] = {}
    for action in command._actions:
        if isinstance(action, argparse._SubParsersAction):
            for one in action._choices_actions:
                found[(*words, one.dest)] = one.help
                found |= summaries_of(action.choices[one.dest], *words, one.dest)
    return found


# -- Pages, in the macros of man(7) ----------------------------------------------------


def page_of(command: CommandParser, summary: str | None) -> str:
    """Return the manual page of a command."""
    name = command.prog.replace(" ", "-")
    lines = [*head(name, summary or ""), ".SH SYNOPSIS"]
    usage = command.format_usage().removeprefix("usage: ")
    lines += literal(re.sub(r"( \|\s|\n)\s*bw ", "\nbw ", usage))
    first, *sections = sections_of(command.description or "", "DESCRIPTION")
    lines += first
    for group in command._action_groups:
        lines += options_of(group)
    for one in (*sections, *sections_of(command.epilog or "", "NOTES")):
        lines += one
    below = ["-".join((name, *words)) for words in command.commands() if words]
    lines += [".SH SEE ALSO", references([name.rpartition("-")[0], *below])]
    return text_of(lines)


def main_page() -> str:
    """Return the manual page bw(1): the commands by what they are for."""
    lines = [*head("bw", "run benchmarks and load tests"), ".SH SYNOPSIS"]
    lines += literal("bw COMMAND [options]\nbw help COMMAND\nbw --version")
    lines += [
        ".SH DESCRIPTION",
        "Run benchmarks and load tests, with confidence intervals and known problems.",
    ]
    for heading, named in COMMANDS.items():
        lines.append(f".SS {heading}")
        for name in named:
            lines += [".TP", references([f"bw-{name}"]), escaped(sentence_of(name))]
    lines += [".SH ENVIRONMENT", *definitions(ENVIRONMENT)]
    lines += [".SH FILES", *definitions(FILES)]
    lines += [".SH EXIT STATUS", *definitions(STATUSES)]
    return text_of(lines)


def head(name: str, summary: str) -> list[str]:
    """Return the title of a page and its section NAME."""
    seconds = os.environ.get("SOURCE_DATE_EPOCH")
    now = float(seconds) if seconds else time.time()
    day = datetime.fromtimestamp(now, UTC).date()
    title = f'.TH {escaped(name.upper())} 1 {day} "Benchwright {__version__}" Benchwright'
    return [title, ".SH NAME", f"{escaped(name)} \\- {escaped(summary)}"]


def options_of(group: argparse._ArgumentGroup) -> Iterator[str]:
    """Yield the section of a group of options; nothing if it is empty, or lists only commands."""
    shown = [
        one
        for one in group._group_actions
        if not isinstance(one, argparse._SubParsersAction | argparse._HelpAction)
    ]
    if not shown:
        return
    title = "arguments" if group.title == "positional arguments" else group.title or ""
    yield f".SH {escaped(title.upper())}"
    for action in shown:
        yield from (".TP", spelling_of(action))
        yield escaped((action.help or "").replace("%%", "%"))


def spelling_of(action: argparse.Action) -> str:
    """Return an option with its value as it is typed: options in bold, values in italics."""
    formatter = argparse.HelpFormatter("")
    if not action.option_strings:
        metavar = action.metavar or "|".join(map(str, action.choices or [action.dest]))
        return f"\\fI{escaped(str(metavar))}\\fR"
    flags = ", ".join(f"\\fB{escaped(flag)}\\fR" for flag in action.option_strings)
    if action.nargs == 0:
        return flags
    return f"{flags} \\fI{escaped(formatter._format_args(action, ''))}\\fR"


def sections_of(text: str, heading: str) -> Iterator[list[str]]:
    """Yield the sections of a text in `--help`; what comes before the first is below `heading`."""
    within: list[str] = []
    for line in text.splitlines():
        begun = _HEADING.fullmatch(line)
        if begun:
            yield list(section(heading, within))
            heading, within = begun[1].upper(), [begun[2] or ""]
        else:
            within.append(line)
    yield list(section(heading, within))


def section(heading: str, lines: list[str]) -> Iterator[str]:
    """Yield a section, if it has text: aligned lines as they are, statuses with their meanings,
    sentences as paragraphs."""
    paragraphs = "\n".join(lines).strip("\n").split("\n\n")
    if paragraphs == [""]:
        return
    yield f".SH {heading}"
    for number, text in enumerate(paragraphs):
        plain = " ".join(text.split())
        if number:
            yield ".PP"
        if re.search(r"^  ", text, re.MULTILINE):
            yield from literal(textwrap.dedent(text))
        elif heading == "EXIT STATUS":
            statuses = re.split(r"; (?=[0-9])", plain)
            yield from definitions(dict(one.split(" ", 1) for one in statuses))
        else:
            yield escaped(plain)


def definitions(meanings: dict[str, str]) -> Iterator[str]:
    """Yield names in bold, each with its meaning."""
    for name, meaning in meanings.items():
        yield from (".TP", f".B {escaped(name)}", escaped(meaning))


def references(names: list[str]) -> str:
    """Return the names of manual pages as references: bw(1), bw-run(1)."""
    shown = [f".BR {escaped(name)} (1)" for name in names]
    return ",\n".join(shown)


def literal(text: str) -> Iterator[str]:
    """Yield lines that are shown as they are."""
    yield from (".nf", *escaped(text.rstrip("\n")).split("\n"), ".fi")


def escaped(text: str) -> str:
    """Return a text in which nothing is roff's own syntax."""
    plain = text.replace("\\", "\\e").replace("-", "\\-").replace("`", "\\(ga")
    return re.sub(r"^([.'])", r"\\&\1", plain, flags=re.MULTILINE)


def text_of(lines: Iterable[str]) -> str:
    """Return a page."""
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    place = Path(sys.argv[1]) if len(sys.argv) > 1 else SHARE
    for path, content in files().items():
        file = place / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content, encoding="utf-8")
