"""Options that `bw load` and `bw replay` share: target, run, output.

Decision: one function reads an option's text and the key of `[run]` or `[target]` with the same
meaning. All mistakes are reported together. Slow imports are inside functions.
"""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from benchwright.cli.shared_options import (
    RESULT,
    AboutOptions,
    LiveOptions,
    NotifyOptions,
    ServerOptions,
)
from benchwright.core.errors import Diagnostic
from benchwright.core.hosts import HostsSettings
from benchwright.features.load import parse as targets
from benchwright.features.load.options import (
    BareOptions,
    GoodOptions,
    HostOptions,
    LimitOptions,
    LoadOptions,
    OutputOptions,
    TargetOptions,
    TraceOptions,
)
from benchwright.features.load.plan import PreparedLoad
from benchwright.features.load.request import LoadTarget, SchedulePart, StreamLimit, filament_field
from benchwright.inputs.mistakes import Where, option_mistake
from benchwright.inputs.option_reader import OptionReader
from benchwright.inputs.options import Option, add_options, given, request_from
from benchwright.inputs.toml_table import one_of_words

if TYPE_CHECKING:
    from benchwright.features.load.criteria import LoadLimit


def add_options_of_load(parser: argparse.ArgumentParser, helps: Mapping[str, str]) -> None:
    """Add the options of target, run and output; `helps` replaces help texts."""
    add_options(parser, TargetOptions)
    # For --study: the programs of the server. A loopback target's are found by its port.
    add_options(parser, ServerOptions, "target")
    add_options(parser, LoadOptions, helps=helps)
    add_options(parser, GoodOptions)
    add_options(parser, LimitOptions, RESULT)
    add_options(parser, OutputOptions, RESULT)
    add_options(parser, LiveOptions, RESULT)
    add_options(parser, AboutOptions, RESULT)
    add_options(parser, NotifyOptions, RESULT)
    add_options(parser, HostOptions, RESULT)


def path_of(arguments: argparse.Namespace) -> str | None:
    """Return the path of the workload or of the first trace, None if there is neither."""
    traces = getattr(arguments, "trace", None) or [None]
    path: str | None = getattr(arguments, "workload", None) or traces[0]
    return path


def run_fields(arguments: argparse.Namespace, wrong: list[Diagnostic]) -> dict[str, Any]:
    """Return the fields of the request that the options set, and `limits` and `good` where they are
    given; mistakes are in `wrong`."""
    fields = _fields(LoadOptions, arguments, wrong)
    lists = {"limits": _limits(arguments, wrong), "good": _good(arguments, wrong)}
    return fields | {name: found for name, found in lists.items() if found}


def _good(arguments: argparse.Namespace, wrong: list[Diagnostic]) -> tuple[StreamLimit, ...]:
    reader = OptionReader(request_from(GoodOptions, arguments))
    limits = tuple(reader.values("good"))
    wrong += reader.found
    return limits


def _limits(arguments: argparse.Namespace, wrong: list[Diagnostic]) -> tuple[LoadLimit, ...]:
    if not arguments.limits:
        return ()
    # Imported here: few loads have limits.
    from benchwright.features.load.criteria import check_limits

    reader = OptionReader(request_from(LimitOptions, arguments))
    limits = tuple(reader.values("limits"))
    wrong += reader.found
    try:
        check_limits(limits)
    except ValueError as error:
        wrong.append(option_mistake("--limit", str(error), text=arguments.limits[-1]))
    return limits


def check_limited(plan: PreparedLoad, arguments: argparse.Namespace) -> None:
    """Raise InputError for a limit of operations or of a metric that this load cannot have."""
    # Imported here: the help of a command needs no engine.
    from benchwright.features.load.engine import metric_names
    from benchwright.features.load.groups import group_names, one_of_groups
    from benchwright.features.load.limits import why_not_streamed

    kinds = plan.request.kinds
    known = group_names(plan.request.workload.filaments, plan.request.target)
    events = bool(plan.request.events)
    names = metric_names(kinds, streams=events)
    wrong = [
        option_mistake("--limit", why, hint, limit.text)
        for limit in plan.limits
        for why, hint in why_not_streamed(limit.criterion, plan.request)
    ]
    if plan.request.streams is not msgspec.UNSET and not events:
        hint = "add --events sse, or --llm"
        wrong.append(option_mistake("--good", "no answer is read as events", hint))
    wrong += [
        option_mistake(
            "--limit",
            f"this load has no operations {limit.criterion.of!r}",
            one_of_groups(limit.criterion.of, known),
            limit.text,
        )
        for limit in plan.limits
        if limit.criterion.of and limit.criterion.of not in known
    ]
    wrong += [
        option_mistake(
            "--limit",
            f"this load has no metric {limit.criterion.key!r}",
            one_of_words(limit.criterion.key, names),
            limit.text,
        )
        for limit in plan.limits
        if limit.criterion.statistic == "metric" and limit.criterion.key not in names
    ]
    raise_all(wrong)
    if arguments.junit is not None:
        from benchwright.cli.output_file import check_output

        check_output(arguments.junit, "--junit", [])


def hosts_of(arguments: argparse.Namespace, wrong: list[Diagnostic]) -> HostsSettings | None:
    """Return the hosts that issue the load; None: this machine."""
    fields = _fields(HostOptions, arguments, wrong)
    if arguments.hosts is None and arguments.ssh_config is not None:
        wrong.append(
            option_mistake("--ssh-config", "--ssh-config is for --hosts", "add --hosts HOST,HOST")
        )
    return HostsSettings(**fields) if "names" in fields else None


def on_hosts(
    plan: PreparedLoad, hosts: HostsSettings | None, arguments: argparse.Namespace
) -> PreparedLoad:
    """Return the plan of a load that these hosts issue together; None: this machine.

    Raises InputError for what they cannot issue together.
    """
    if hosts is None:
        return plan
    from benchwright.features.load.host_parts import hosts_mistakes

    places = {**plan.places, **option_places(arguments)}
    if getattr(arguments, "mapped", ()):
        places["target"] = Where("--map")
    raise_all(hosts_mistakes(plan.request, places))
    part = SchedulePart(of=len(hosts.names))
    request = msgspec.structs.replace(plan.request, part=part)
    return msgspec.structs.replace(plan, request=request, hosts=hosts)


def trace_fields(arguments: argparse.Namespace, wrong: list[Diagnostic]) -> dict[str, Any]:
    """Return the fields of a trace that the options set; mistakes are in `wrong`."""
    return _fields(TraceOptions, arguments, wrong)


def _fields(
    kind: type[msgspec.Struct], arguments: argparse.Namespace, wrong: list[Diagnostic]
) -> dict[str, Any]:
    """Return the fields that the options of a kind set; mistakes are in `wrong`."""
    reader = OptionReader(request_from(kind, arguments))
    fields = reader.fields()
    wrong += reader.found
    return fields


def trial_seed() -> dict[str, int]:
    """Return the default seed inside a trial: the epoch; empty outside a trial.

    Trials must have different seeds, or their interval does not include random variation. The
    arms of a comparison have the same epochs, and so the same operations.
    """
    import os

    epoch = os.environ.get("APEPOCH", "")
    return {"seed": int(epoch)} if epoch.isascii() and epoch.isdecimal() else {}


def target_of(
    arguments: argparse.Namespace, own: LoadTarget | None, wrong: list[Diagnostic]
) -> LoadTarget | None:
    """Return the target with the values of its options; `own`: that of a workload's file, which was
    read with the target of the command line and has the file's options."""
    reader = OptionReader(request_from(TargetOptions, arguments))
    target: LoadTarget | None = own or reader.value("target", None)
    fields = reader.fields()
    wrong += reader.found
    if target is None:
        return None
    for option in given(arguments, TargetOptions):
        if option.field and (message := targets.why_refused(target, option.field, option.flag)):
            text = getattr(arguments, option.name)
            shown = option.flag if text is True else text
            wrong.append(option_mistake(option.flag, message, text=shown))
    try:
        return targets.with_own_options(target, fields)
    except ValueError as error:
        wrong.append(option_mistake("--commands", str(error), text=arguments.commands or ""))
        return target


OUTPUT_FILES = ("samples", "actions")
"""Options that name a file that the engine writes; in a study the directory of such files."""


def named_files(arguments: argparse.Namespace) -> dict[str, str]:
    """Return the files that the command line names for the engine to write, by their options."""
    return {name: path for name in OUTPUT_FILES if (path := getattr(arguments, name)) is not None}


def output_files(arguments: argparse.Namespace, inputs: list[str]) -> dict[str, str]:
    """Return the files that the engine writes besides its result, by their fields of the request.
    Raises InputError if one cannot be written.

    Nothing is checked with --study, where they are files in the study, nor for such a file
    inside the study's trial, which removes that of an interrupted attempt.
    """
    files = named_files(arguments)
    if arguments.study is None:
        for name, path in files.items():
            _check_output(path, name, inputs)
    return files


def _check_output(path: str, name: str, inputs: list[str]) -> None:
    import os

    study = os.environ.get("BW_STUDY")
    directory = os.path.dirname(os.path.realpath(path))
    if study and directory.startswith(os.path.join(os.path.realpath(study), "logs", "")):
        if os.path.basename(directory) == name:
            with contextlib.suppress(FileNotFoundError):
                os.remove(path)
        return
    from benchwright.cli.output_file import check_output

    check_output(path, f"--{name}", inputs)


def bare_mistakes(arguments: argparse.Namespace, workload: str) -> list[Diagnostic]:
    """Return a mistake for each option that describes a load without a workload's file."""
    hint = "write it into the workload's [[filament]]"
    return [
        option_mistake(option.flag, f"{option.flag} is for a load without a file", hint, workload)
        for option in given(arguments, BareOptions)
        if option.name != "rate"
    ]


def unfiled_mistakes(
    arguments: argparse.Namespace, target: LoadTarget | None, command: str
) -> list[Diagnostic]:
    """Return the mistake that a target with files has no workload's file."""
    if target is None or not targets.has_files(target):
        return []
    message = f"a {targets.kind_of(target)} target needs a workload on files"
    hint = f"{command} WORKLOAD.toml --target {arguments.target} (docs/workload-toml.md)"
    return [option_mistake("--target", message, hint, arguments.target)]


def option_places(arguments: argparse.Namespace) -> dict[str, Where]:
    """Return the command-line options that set the fields of the request."""
    run = given(arguments, LoadOptions, with_defaults=True)
    fields = {option.field: option for option in run}
    if getattr(arguments, "workload", None) is None:
        bare = given(arguments, BareOptions, with_defaults=True)
        bare += _sizes(arguments)
        fields |= {f"{filament_field(0)}.{option.field}": option for option in bare}
    places = {
        field: Where(option.flag, text=getattr(arguments, option.name))
        for field, option in fields.items()
    }
    if arguments.commands is not None:
        where = Where("--commands", text=arguments.commands)
        places |= {"target.commands": where, "target.statements": where}
    return places


def _sizes(arguments: argparse.Namespace) -> list[Option]:
    """Return --size, if given, as an option for the filament's region, which it limits."""
    return [
        option._replace(field="region")
        for option in given(arguments, TargetOptions, with_defaults=True)
        if option.name == "size"
    ]


def raise_all(wrong: list[Diagnostic]) -> None:
    """Raise InputError if there are mistakes."""
    if wrong:
        from benchwright.core.errors import InputError

        raise InputError(wrong)


def no_target(command: str) -> Exception:
    """Return the error of a load without a target."""
    from benchwright.core.errors import argument_error

    return argument_error(
        command,
        "",
        "there is no target",
        "--target null, --target FILE, --target http://HOST/, --target grpc://HOST:PORT, "
        "--target redis://HOST, "
        "--target postgres://USER@HOST/DB, --target tcp://HOST:PORT, --target udp://HOST:PORT, "
        "--target dir:PATH or --target nfs://HOST/EXPORT",
    )
