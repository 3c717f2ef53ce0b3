"""`bw completion`: the script with which a shell completes command lines of `bw`.

shtab makes it from the parsers, so it has every option. Decision: a fixed script, not a `bw` that
the shell starts at each press of a key (argcomplete): that takes 0.1 s each time.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable
from typing import Annotated, Any

import msgspec

from benchwright.cli.parser import SUMMARIES, CommandParser, add_command
from benchwright.inputs.options import DECLARED, Option, add_options, request_from

SHELLS = ("bash", "zsh", "fish")
_EXAMPLES = """\
examples:
  eval "$(bw completion bash)"                            in ~/.bashrc
  bw completion zsh > ~/.zfunc/_bw                        a directory of $fpath
  bw completion fish > ~/.config/fish/completions/bw.fish

An installation for all users has these files already, in share/bash-completion,
share/zsh and share/fish.
"""
_WORDS = re.compile(r"[a-z0-9_-]+(\|[a-z0-9_-]+)+")
"""A placeholder that lists all words which are possible: `queue|drop`."""
_COMPLETE = "complete"
"""The attribute of an action by which shtab completes its value."""
_OF_COMMAND = """

# After `--` comes a command and its arguments.
_bw() {
  local i
  for ((i = 1; i < COMP_CWORD; i++)); do
    [[ ${COMP_WORDS[i]} == -- ]] || continue
    if declare -F _command_offset >/dev/null; then
      _command_offset $((i + 1))
    elif ((COMP_CWORD == i + 1)); then
      mapfile -t COMPREPLY < <(compgen -c -- "${COMP_WORDS[COMP_CWORD]}")
    fi
    return
  done
  _shtab_bw
}
complete -o bashdefault -o default -F _bw bw
"""
"""Added to the script of bash, which would complete options after `--`."""


def _documents() -> list[str]:
    from benchwright.cli.schemas import document_types

    return list(document_types())


def _findings() -> list[str]:
    from benchwright.findings.codes import all_codes

    return list(all_codes())


_LISTS: dict[str, Callable[[], list[str]]] = {
    "command": lambda: list(SUMMARIES),
    "document": _documents,
    "finding": _findings,
}
"""The words of each kind of name in `Option.names` that names neither files nor directories."""


class CompletionOptions(msgspec.Struct, frozen=True):
    """The options of `bw completion`."""

    shell: Annotated[str, Option("bash, zsh or fish", "SHELL", choices=SHELLS, positional=True)]


def add_parser(commands: Any) -> None:
    """Add `bw completion` to the commands."""
    parser = add_command(commands, "completion", epilog=_EXAMPLES)
    add_options(parser, CompletionOptions)
    parser.set_defaults(handler=run)


def run(arguments: argparse.Namespace) -> int:
    """Print the script of a shell; return 0."""
    sys.stdout.write(
        completion_script(
            request_from(CompletionOptions, arguments).shell, arguments.parser_of_bw()
        )
    )
    return 0


def completion_script(shell: str, root: CommandParser) -> str:
    """Return the script of a shell for the parser of `bw`, ending with a newline."""
    import shtab

    defaults = []
    for words in root.commands():
        parser = root.of(words)
        for action in parser._actions:
            _prepare(action)
        if parser.default_command:
            _add_options_of_default(parser)
            defaults.append((words[-1], parser.default_command))
    script: str = shtab.complete(root, shell)
    for command, default in defaults:
        script = _with_files(script, shell, command, default)
    return script.rstrip("\n") + "\n" + (_OF_COMMAND if shell == "bash" else "")


def _add_options_of_default(parser: CommandParser) -> None:
    """Let `bw history` complete the options of `bw history show`, which its words belong to unless
    they name another command."""
    for action in parser.of([parser.default_command])._actions:
        known = parser._option_string_actions.keys()
        if action.option_strings and known.isdisjoint(action.option_strings):
            parser._add_action(action)


def _with_files(script: str, shell: str, command: str, default: str) -> str:
    """Return the script with files among the first words of `bw COMMAND`, which shtab completes by
    the names of its commands alone. bash offers files where no name fits, as it is told to."""
    if shell == "fish":
        files = "(__fish_complete_path (commandline -ct))"
        return f"{script}\ncomplete -c bw -n '_shtab_bw_using {command}' -ka \"{files}\"\n"
    if shell != "zsh":
        return script
    described = f"  _describe 'bw {command} commands' _commands\n"
    assert described in script
    script = script.replace(described, f"{described}  _files\n")
    of_default = rf"_arguments -C -s \$_shtab_bw_{command}_{default}_options ;;\n"
    cases = re.compile(rf"( +){default}\) ({of_default})(?: +.*;;\n)*")
    assert cases.search(script)
    return cases.sub(lambda match: f"{match[0]}{match[1]}*) {match[2]}", script)


def _prepare(action: argparse.Action) -> None:
    """Give an action what shtab needs to complete its value."""
    import shtab

    option = getattr(action, DECLARED, None)
    names = option.names if option is not None else ""
    shown = str(action.metavar or "")
    if names in _LISTS:
        action.choices = _LISTS[names]()
    elif names in ("file", "directory"):
        setattr(action, _COMPLETE, names)
    elif names:
        setattr(action, _COMPLETE, shtab.glob(*names.split()))
    elif not action.choices and _WORDS.fullmatch(shown):
        action.choices = shown.split("|")
    if not isinstance(action, argparse._SubParsersAction):
        # zsh reads `:` and `[` in a placeholder as its own syntax.
        action.metavar = None
