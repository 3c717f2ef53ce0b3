"""Options that `bw ramp`, `bw peak` and `bw surface` share; reads their spec."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace, _SubParsersAction
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

import msgspec

from benchwright.cli.output_file import check_plot
from benchwright.cli.parser import add_command
from benchwright.cli.shared_options import (
    RESULT,
    WATCHING,
    AboutOptions,
    BegunSession,
    DetailOptions,
    LiveOptions,
    NotifyOptions,
    StudyOptions,
    WatchOptions,
    drawn_seed,
    with_features_options,
    with_session_options,
)
from benchwright.core.errors import Diagnostic, InputError, argument_error
from benchwright.core.extras import require
from benchwright.features.load import parse as targets
from benchwright.features.load.command_line import bare_mistakes, target_of, unfiled_mistakes
from benchwright.features.load.options import BareOptions, HostOptions, LoadOptions, TargetOptions
from benchwright.features.search.options import SurfaceRequest
from benchwright.features.search.target_spec import (
    LOAD_OPTIONS,
    TARGET_BUDGET,
    TARGET_CLAIM,
    is_workload,
    target_source,
)
from benchwright.inputs.mistakes import (
    SourceFile,
    Unreadable,
    option_mistake,
    read_regular,
    read_text,
)
from benchwright.inputs.option_reader import OptionReader
from benchwright.inputs.options import Option, Text, add_options, given, options_of, request_from
from benchwright.study.directory import JOURNAL

# -- Reading SPEC.toml -----------------------------------------------------------------


def spec_source(path: str, command: str) -> SourceFile:
    """Return a spec's text with its path as the user wrote it. Raises InputError.

    `command`: the name of the command, for the advice in error messages.
    """
    if "://" in path:
        hint = f"--target {path}"
        raise argument_error(command, "", f"{path} is a target, not a file", hint)
    try:
        text = read_text(path, read_regular)
    except Unreadable as error:
        hint = "a spec is a TOML file (docs/workbench.md)"
        raise argument_error(path, "", error.message, hint) from None
    if text is None:
        hint = f"{command} needs a SPEC.toml (docs/workbench.md)"
        raise argument_error(path, "", f"there is no file {path}", hint)
    return SourceFile(path, text)


# --------------------------------------------------------------------------------------
# Shared by `bw ramp`, `bw peak` and `bw surface`: options, and the start of a new search or the
# report of a stored one.

NEW_SESSION = (WatchOptions, AboutOptions, NotifyOptions, LiveOptions)
"""Options that apply only to a new search."""


def add_session(parser: ArgumentParser) -> None:
    """Add the options for watching, the study and notices."""
    add_options(parser, StudyOptions, RESULT)
    add_options(parser, DetailOptions, RESULT)
    add_options(parser, LiveOptions, RESULT)
    add_options(parser, AboutOptions, RESULT)
    add_options(parser, NotifyOptions, RESULT)
    add_options(parser, WatchOptions, WATCHING)


_LOAD = "load of a running server, instead of a SPEC"
"""Heading of --target and the other options of `bw load`."""
_HELPS = {
    "depth": "most operations in flight, per worker (default: 128)",
    "drain": "longest wait at the end for requests in flight (default: 3 times the longest "
    "limit, 1 s to 10 s)",
}


def _add_target(parser: ArgumentParser, kind: str) -> None:
    """Add --target, and the options of `bw load` that describe the load of a search."""
    for request, names in LOAD_OPTIONS:
        only = [name for name in names if kind == "ramp" or name != "think"]
        add_options(parser, request, _LOAD, only=only, helps=_HELPS, regroup=True)


def _target_options(arguments: Namespace, *, with_defaults: bool = False) -> list[Option]:
    """Return the given options that describe the load of a search."""
    return [
        option
        for request, names in LOAD_OPTIONS
        for option in given(arguments, request, with_defaults=with_defaults)
        if option.name in names
    ]


def _target_source(arguments: Namespace, kind: str, workload: str | None = None) -> SourceFile:
    """Return the spec that --target, its options and a workload's file describe.

    Raises InputError with all mistakes.
    """
    wrong = [] if workload is None else bare_mistakes(arguments, workload)
    target = target_of(arguments, None, wrong)
    for request in (BareOptions, LoadOptions, HostOptions):
        reader = OptionReader(request_from(request, arguments))
        reader.fields()
        wrong += reader.found
    if workload is None:
        wrong += unfiled_mistakes(arguments, target, f"bw {kind}")
    if workload is None and target is not None and targets.is_network(target):
        wrong += [
            option_mistake(flag, f"{flag} is for a file or a device", text=text)
            for flag, text in (("--read", arguments.read), ("--location", arguments.location))
            if text is not None
        ]
    if wrong:
        raise InputError(wrong)
    # A default for other targets does not apply; a typed option was refused above.
    fields = targets.options_of(target) if target is not None else ()
    others = {option.name for option in options_of(TargetOptions).values() if option.field}
    said = {
        target_option.name: getattr(arguments, target_option.name)
        for target_option in _target_options(arguments, with_defaults=True)
        if target_option.name not in others or target_option.field in fields
    }
    return target_source(said if workload is None else said | {"workload": workload})


class SpecArgument(msgspec.Struct, frozen=True):
    """The argument SPEC.toml of a search; each command has its own help for it."""

    spec: Annotated[
        Text,
        Option(
            "server, load and criteria", "SPEC.toml", positional=True, names="*.toml", decides=True
        ),
    ] = None


def _no_mistakes(_arguments: Namespace) -> list[Diagnostic]:
    return []


class CommandSearch(msgspec.Struct, frozen=True):
    """A command that searches by a spec or a generator's --command: the differences between
    `bw peak` and `bw ramp`."""

    kind: str
    """Kind of the session; also the name of the command."""
    request: type[msgspec.Struct]
    verb: str
    """Verb in the message `there is nothing to ...`."""
    noun: str
    """Noun in the message `for a stored ...`."""
    level: str
    """Noun for the load level that the generator takes: `a rate`."""
    command: str
    """An example of the generator's command line."""
    for_command: tuple[str, ...]
    """Options that are valid only with --command."""
    spec: str
    """Help text of SPEC.toml."""
    usage: str
    examples: str
    helps: Mapping[str, str] = {}
    """Help texts, with the default, of options whose default depends on --target."""
    check: Callable[[Namespace], list[Diagnostic]] = _no_mistakes
    """Returns further mistakes in the arguments."""

    def add_parser(self, commands: _SubParsersAction[ArgumentParser]) -> None:
        """Add the command."""
        parser = add_command(commands, self.kind, epilog=self.examples, usage=self.usage)
        add_options(parser, SpecArgument, helps={"spec": self.spec})
        _add_target(parser, self.kind)
        add_options(parser, self.request, helps=self.helps)
        add_session(parser)
        parser.set_defaults(handler=self.run)

    def _mistakes(self, arguments: Namespace) -> list[Diagnostic]:
        """Return options that cannot be combined, or the error that there is nothing to search."""
        spec, command, target = arguments.spec, arguments.command, arguments.target
        if arguments.command_argv is not None:
            message = f"a command after -- cannot take {self.level}"
            hint = f"give it in one word: --command '{self.command}'"
            return [option_mistake("--", message, hint)]
        if {spec, command, target} == {None} and not self._is_stored(arguments):
            message = f"there is nothing to {self.verb}"
            hint = (
                f"bw {self.kind} --target T, or SPEC.toml, or --command '{self.command}'; for a "
                f"stored {self.noun} bw {self.kind} --study DIR --plot FILE, without "
                "options of a new one"
            )
            return [option_mistake(f"bw {self.kind}", message, hint)]
        if spec is not None and command is not None:
            message, hint = f"there is a spec too, {spec}", "leave one of them out"
            return [option_mistake("--command", message, hint, command)]
        if target is not None and command is not None:
            message, hint = "there is --command too", "leave one of them out"
            return [option_mistake("--target", message, hint, target)]
        misplaced = [
            option_mistake(
                option.flag,
                f"{option.flag} is for --target",
                "write it into [load] of the spec" if spec is not None else "",
                str(getattr(arguments, option.name)),
            )
            for option in _target_options(arguments)
            if target is None
        ]
        if misplaced:
            return misplaced
        return [
            option_mistake(
                option.flag,
                f"{option.flag} is for --command",
                "write it into [load] of a spec",
                getattr(arguments, option.name),
            )
            for option in given(arguments, self.request)
            if command is None and option.name in self.for_command
        ]

    def _is_stored(self, arguments: Namespace) -> bool:
        """Return whether the arguments describe a stored search.

        The study exists, and no option of a new search is given except --plot.
        """
        new = [*given(arguments, self.request, *NEW_SESSION), *_target_options(arguments)]
        journal = Path(arguments.study) / JOURNAL
        return all(one.name == "plot" for one in new) and journal.is_file()

    def run(self, arguments: Namespace) -> int:
        """Run a new search, or print the stored one if the arguments describe no load.

        Return the exit code. Raises InputError with all mistakes.
        """
        wrong = [*self._mistakes(arguments), *self.check(arguments)]
        if wrong:
            raise InputError(wrong)
        if {arguments.spec, arguments.target, arguments.command} == {None}:
            print_stored_search(self.kind, arguments)
            return 0
        spec = self._spec(arguments)
        settled: dict[str, Any] = {"drawn_seed": drawn_seed()}
        if arguments.target is not None and self.kind == "peak":
            settled["claim"] = arguments.claim or TARGET_CLAIM
            settled["budget"] = arguments.budget or TARGET_BUDGET
        if self.kind == "peak" and arguments.earlier is not None:
            require_search_extra(self.kind)
            from benchwright.features.search.peak.earlier import earlier_peak

            settled["earlier_peak"] = earlier_peak(arguments.earlier)
        request = request_from(self.request, arguments, **settled)
        return begin_search(self.kind, arguments, request, spec)

    def _spec(self, arguments: Namespace) -> SourceFile | None:
        """Return the spec of the arguments: a file, or --target with its options and perhaps a
        workload; None for --command. Raises InputError."""
        target = arguments.target
        if arguments.spec is None:
            return None if target is None else _target_source(arguments, self.kind)
        file = spec_source(arguments.spec, f"bw {self.kind}")
        workload = is_workload(file)
        if target is None and workload:
            message = f"{file.path} is a workload, and there is no target"
            hint = "add --target T, or name the file in a spec: [load] with target and workload"
            raise argument_error(file.path, "", message, hint)
        if target is None:
            return file
        if not workload:
            message = f"there is {file.path} too, a spec with a target of its own"
            hint = "leave one of them out"
            raise InputError([option_mistake("--target", message, hint, target)])
        return _target_source(arguments, self.kind, file.path)


def print_stored_search(
    kind: str, arguments: Namespace, asked: SurfaceRequest | None = None
) -> None:
    """Print the study's last search of a kind; `asked`: what is asked of a surface instead of its
    own questions. Raises StudyError or InputError."""
    from benchwright.features.search.output import print_last_search
    from benchwright.run.runner import OutputOptions

    place, plot = Path(arguments.study), arguments.plot
    print_last_search(
        kind, place, plot, OutputOptions(json=arguments.json, verbose=arguments.verbose), asked
    )


def require_search_extra(kind: str) -> None:
    """Raise InputError if a search of this kind needs a package that is not installed."""
    if kind != "ramp":
        require("scipy", f"bw {kind}", "a search")


def begin_search(
    kind: str, arguments: Namespace, request: msgspec.Struct, spec: SourceFile | None
) -> int:
    """Run a search of a kind as a new session of a study; return the exit code.

    Raises InputError with all mistakes before it creates a study.
    """
    check_plot(arguments.plot, [] if arguments.spec is None else [arguments.spec])
    require_search_extra(kind)
    from benchwright.cli.session_output import start
    from benchwright.features.search.experiments import search_experiment
    from benchwright.features.search.session import search_info

    info = search_info(kind, request, spec, sys.argv[1:])
    experiment = search_experiment(info)
    info = msgspec.structs.replace(info, sources=(*info.sources, *experiment.spec.files))
    info = with_session_options(info, arguments)
    if kind == "surface":
        begun = BegunSession(info, experiment.spec.tables)
        info = with_features_options(begun, arguments, kind)
    experiment.info = info
    experiment.check()
    return start(experiment, arguments)
