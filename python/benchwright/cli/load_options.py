"""Options that `bw load` and `bw replay` share: target, run, output; and their meaning.

Decision: an option's text is read by the same function as the key of `[run]` or
`[target]`, and all mistakes are told at once. Heavy imports are inside the functions.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from benchwright.cli.shared_options import add_notify, add_servers

if TYPE_CHECKING:
    from benchwright.core.errors import Diagnostic
    from benchwright.load.request import LoadTarget
    from benchwright.suite.program import Where


_RUN = (
    "duration",
    "drain",
    "warm_up",
    "interval",
    "seed",
    "depth",
    "workers",
    "cpus",
    "full",
    "late",
    "pacer",
    "clock",
    "fifo",
    "max_errors",
)
_TARGET = ("engine", "size", "connections", "timeout", "service")
_OPTION = {"cpus": "--cpu"}
_BARE = {
    "rate": "rate",
    "arrival": "arrival",
    "size": "block",
    "kinds": "read",
    "location": "location",
    "think": "think",
    "region": "size",
}
"""Keys of a filament, and the options that say them where there is no workload's file."""


def add_target(parser: argparse.ArgumentParser) -> None:
    """Add what the load is applied to."""
    group = parser.add_argument_group("target")
    add = group.add_argument
    add("--target", metavar="T", help="null, a path, http://HOST/PATH, tcp://HOST:PORT")
    add("--direct", action="store_true", help="past the page cache (O_DIRECT)")
    add("--size", metavar="1G", help="make a regular file this large")
    add(
        "--overwrite",
        action="store_true",
        help="allow writes over what a file or device holds",
    )
    add(
        "--allow-writes-to-mounted",
        action="store_true",
        help="with --overwrite: also a mounted file system (destroys it)",
    )
    add("--engine", metavar="auto|io_uring|threads", help="how files are accessed")
    add("--connections", metavar="N", help="to a server (default 64)")
    add(
        "--timeout",
        metavar="30s",
        help="time limit of an exchange with a server, or none (default 30s)",
    )
    add("--service", metavar="0ns", help="what an operation of `null` takes")
    # With --study: whose CPU time is the server's. A loopback target's is found by its port.
    add_servers(group)


def add_run(parser: argparse.ArgumentParser, depth: str) -> None:
    """Add how the load is run."""
    group = parser.add_argument_group("how it is run")
    add = group.add_argument
    add("--depth", metavar="N", help=depth)
    add("--workers", metavar="N", help="threads that issue operations (default 1)")
    add("--cpu", dest="cpus", metavar="LIST", help="a processor for each worker: 1,3")
    add(
        "--late",
        metavar="POLICY",
        help="late operations: catch-up (default), skip:1ms, burst:10",
    )
    add(
        "--full",
        metavar="queue|drop",
        help="an arrival without room in flight waits (default), or is dropped",
    )
    add(
        "--pacer",
        metavar="NAME",
        help="spin (default), or a naive one: select, sleep, ded-clock",
    )
    add("--clock", metavar="auto|tsc|monotonic", help="what time is read from")
    add("--fifo", metavar="PRIORITY", help="real-time priority (SCHED_FIFO)")
    add("--warm-up", metavar="1s", help="leave the beginning out of the figures")
    add("--drain", metavar="30s", help="how long to wait for the last operations")
    add("--interval", metavar="1s", help="length of the intervals of the series")
    add(
        "--seed",
        metavar="N",
        help="of all that is random (default 1; in a trial: its epoch)",
    )


def add_output(parser: argparse.ArgumentParser) -> None:
    """Add what becomes of the result."""
    group = parser.add_argument_group("result")
    add = group.add_argument
    add("--samples", metavar="FILE", help="write every operation as a row")
    add("--plot", metavar="FILE", help="draw it: .svg, .png, .pdf or .eps")
    add(
        "--max-errors",
        metavar="1%",
        help="exit status 1 when more operations failed or never ended (default 1%%); "
        "where it is given, dropped and skipped ones count too",
    )
    add("--json", action="store_true", help="one JSON document on stdout")
    add("--quiet", action="store_true", help="no progress")
    add(
        "--study",
        metavar="DIR",
        help="run it as a trial of a study, which keeps the result",
    )
    add_notify(group)


def path_of(arguments: argparse.Namespace) -> str | None:
    """Return the path of the workload or of the first trace, None where there is neither."""
    traces = getattr(arguments, "trace", None) or [None]
    path: str | None = getattr(arguments, "workload", None) or traces[0]
    return path


def run_fields(
    arguments: argparse.Namespace, wrong: list[Diagnostic]
) -> dict[str, Any]:
    """Return the fields of the request that the options say."""
    from benchwright.load.workload_toml import RUN

    said = {}
    for name in _RUN:
        text = getattr(arguments, name, None)
        if text is not None:
            into, parse = RUN[name]
            said[into] = _parsed(_option(name), text, parse, wrong)
    return said


def trial_seed() -> dict[str, int]:
    """Return the seed of a load that says none inside a trial: the epoch.

    Trials must differ in what is random, or their interval says nothing of it; the arms
    of a comparison have the same epochs, and so the same operations.
    """
    import os

    epoch = os.environ.get("APEPOCH", "")
    return {"seed": int(epoch)} if epoch.isascii() and epoch.isdecimal() else {}


def target_of(
    arguments: argparse.Namespace, own: LoadTarget | None, wrong: list[Diagnostic]
) -> LoadTarget | None:
    """Return the target of the command line, else `own`, with the options' values."""
    from benchwright.load import parse as targets

    named = None
    if arguments.target is not None:
        named = _parsed("--target", arguments.target, targets.parse_target, wrong)
    target: LoadTarget | None = named or own
    said = _target_options(arguments, wrong)
    if target is None:
        return None
    kind = targets.kind_of(target)
    for into, (option, text, _) in said.items():
        if into not in targets.options_of(kind):
            _refuse(option, text, f"{option} is no option of a {kind} target", wrong)
    known = targets.options_of(kind)
    values = {into: v for into, (_, _, v) in said.items() if into in known}
    return targets.with_options(target, values)


def _target_options(
    arguments: argparse.Namespace, wrong: list[Diagnostic]
) -> dict[str, tuple[str, str, Any]]:
    """Return what was said: the target's field -> (option, its text, its value)."""
    from benchwright.load.workload_toml import FLAGS, TARGET

    said: dict[str, tuple[str, str, Any]] = {}
    for name in _TARGET:
        text = getattr(arguments, name)
        if text is not None:
            into, parse = TARGET[name]
            said[into] = (
                _option(name),
                text,
                _parsed(_option(name), text, parse, wrong),
            )
    for flag in FLAGS:
        if getattr(arguments, flag):
            option = "--" + flag.replace("_", "-")
            said[flag] = (option, option, True)
    return said


def check_samples(arguments: argparse.Namespace, inputs: list[str]) -> None:
    """Check that --samples can be written. Raises InputError.

    With --study the name is that of a file in the study; inside its trial the place has
    been made for it.
    """
    import os

    path = arguments.samples
    study = os.environ.get("BW_STUDY")
    if path is None or arguments.study is not None:
        return
    if study and os.path.dirname(os.path.realpath(path)).startswith(
        os.path.join(os.path.realpath(study), "logs", "")
    ):
        return
    from benchwright.cli.output_file import check_output

    check_output(path, "--samples", inputs)


def option_places(arguments: argparse.Namespace) -> dict[str, Where]:
    """Return where on the command line the fields of the request were said."""
    from benchwright.load.request import filament_field
    from benchwright.load.workload_toml import RUN
    from benchwright.suite.program import Where

    said = {RUN[name][0]: name for name in _RUN}
    if getattr(arguments, "workload", None) is None:
        said |= {f"{filament_field(0)}.{key}": name for key, name in _BARE.items()}
    texts = {field: getattr(arguments, name, None) for field, name in said.items()}
    return {
        field: Where(_option(said[field]), text=text)
        for field, text in texts.items()
        if text is not None
    }


def raise_all(wrong: list[Diagnostic]) -> None:
    """Raise InputError when there is a mistake."""
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
        "--target null, --target FILE, --target http://HOST/ or --target tcp://HOST:PORT",
    )


def _option(name: str) -> str:
    return _OPTION.get(name, "--" + name.replace("_", "-"))


def _parsed(option: str, text: str, parse: Any, wrong: list[Diagnostic]) -> Any:
    from benchwright.cli.shared_options import checked

    return checked(option, text, parse, None, wrong)


def _refuse(option: str, text: str, message: str, wrong: list[Diagnostic]) -> None:
    from benchwright.core.errors import Diagnostic

    wrong.append(Diagnostic("bad-argument", message, file=option, text=text))
