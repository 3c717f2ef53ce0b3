"""The options of the commands of `bw trace`, and what they set."""

from __future__ import annotations

import argparse
from functools import partial
from typing import Annotated, Any

import msgspec

from benchwright.core.errors import Diagnostic, argument_error
from benchwright.features.load import parse as words
from benchwright.features.load.command_line import trace_fields
from benchwright.features.load.options import TraceOptions, comma_separated
from benchwright.features.load.request import WRITTEN
from benchwright.inputs.mistakes import option_mistake
from benchwright.inputs.option_reader import OptionReader
from benchwright.inputs.options import Option, Text, options_of, request_from
from benchwright.inputs.template import choice
from benchwright.suite.common_options import REPLACES

# -- Options of the commands of `bw trace` ---------------------------------------------
#
# Decision: one function reads an option's text and the corresponding key of a trace filament in
# TOML. All mistakes are reported together. Slow imports are inside functions.

READING = (
    *("format", "lenient", "window", "duplicates", "start", "length", "devices"),
    *("v2_wait", "arrivals", "stamp_unit"),
)
MAPPING = ("offsets", "target_size", "source_size", "align")
COMPARED = (
    *("format", "lenient", "duplicates", "start", "length", "devices", *MAPPING),
    *("speed", "window", "unsafe_methods", "credentials"),
)


OF_COMPARED = {
    "format": "format of A (default: detected from the content)",
    "speed": "speed of B compared with A (default: estimated)",
    "window": "largest distance in time of a pair",
    "duplicates": "operations of A with equal time stamps, as in the replay",
    "start": "skip what comes earlier in A, if the replay did",
    "length": "read only this much of A, by A's time",
    "devices": "read only these devices of A",
    "unsafe_methods": "A's requests have all methods, as in the replay",
    "credentials": "A's requests have their credentials, as in the replay",
}
OF_CONVERTED = {
    "speed": "make it this many times as fast (default: 1x)",
    "unsafe_methods": "also convert recorded requests other than GET, HEAD and OPTIONS",
}


def _signed_ns(text: str) -> int:
    bare = text.strip()
    sign = -1 if bare.startswith("-") else 1
    return sign * words.duration_ns(bare.removeprefix("-"))


def _buffer_kib(text: str) -> int:
    kib = words.some_bytes(text) // 1024
    if not 4 <= kib <= 2**22:
        raise ValueError(f"{text!r} is outside 4k .. 4G per CPU")
    return kib


_pair = partial(Option, group="how operations are paired")
_SAME = options_of(TraceOptions)


class StatOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The arguments of `bw trace stat`."""

    traces: Annotated[
        tuple[str, ...], Option("trace; - is stdin", "TRACE", positional=True, names="file")
    ]
    merge: Annotated[bool, Option("merge the TRACEs by time into one")] = False


class CompareArguments(msgspec.Struct, frozen=True, kw_only=True):
    """The arguments of `bw trace compare`."""

    a: Annotated[str, Option("trace that was replayed", "A", positional=True, names="file")]
    b: Annotated[
        str, Option("capture or samples of the replay", "B", positional=True, names="file")
    ]


class PairingOptions(msgspec.Struct, frozen=True):
    """Options for pairing the operations of two traces, and for reading B."""

    shift: Annotated[
        Text,
        _pair(
            "time in B of A's time zero, such as =-1ms",
            "1ms",
            _signed_ns,
            "shift_ns",
            default="from B's own intended starts, else estimated",
        ),
    ] = None
    by_device: Annotated[bool, _pair("pair only within devices of equal name")] = False
    format_b: Annotated[Text, _pair("format of B", "F", _SAME["format"].parse)] = None
    devices_b: Annotated[Text, _pair("read only these devices of B", "A,B", comma_separated)] = None


class ConvertOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The arguments of `bw trace convert`."""

    trace: Annotated[str, Option("trace; - is stdin", "IN", positional=True, names="file")]
    output: Annotated[
        Text,
        Option(
            "file to write; it must not exist yet",
            "OUT",
            short="-o",
            names="file",
            no_default=REPLACES,
        ),
    ] = None
    to: Annotated[
        Text,
        Option(
            "format to write",
            "bw|fio-iolog",
            choice("format that is written", *WRITTEN),
            default="bw",
        ),
    ] = None


class CaptureOptions(msgspec.Struct, frozen=True):
    """The options of `bw trace capture`."""

    device: Annotated[
        Text, Option("record only this block device or partition", "/dev/X", names="file")
    ] = None
    pid: Annotated[Text, Option("record this process and all its descendants", "N", words.some)] = (
        None
    )
    length: Annotated[Text, Option("stop after this time", "10s", words.some_ns, flag="--for")] = (
        None
    )
    output: Annotated[
        Text,
        Option(
            "trace to write, in the format of bw",
            "OUT",
            short="-o",
            names="file",
            no_default=REPLACES,
        ),
    ] = None
    buffer: Annotated[Text, Option("kernel buffer per CPU", "16M", _buffer_kib, default="16M")] = (
        None
    )


def compare_fields(
    arguments: argparse.Namespace, wrong: list[Diagnostic]
) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Return the fields of A, those of B, and those of their pairing; mistakes are in `wrong`."""
    a = trace_fields(arguments, wrong)
    request = request_from(PairingOptions, arguments)
    reader = OptionReader(request)
    pairing = {"by_device": request.by_device, **reader.fields()}
    for into in ("speed_micro", "window_ns"):
        if into in a:
            pairing[into] = a.pop(into)
    b = {"lenient": a.get("lenient", False)}
    for into, name in (("format", "format_b"), ("devices", "devices_b")):
        if (value := reader.value(name)) is not None:
            b[into] = value
    wrong += reader.found
    check_places(a, wrong)
    return a, b, pairing


def check_places(fields: dict[str, Any], wrong: list[Diagnostic]) -> None:
    """Add a mistake to `wrong` if offsets are to be mapped to a target of unknown size."""
    policy = fields.get("offsets")
    if policy in ("wrap", "scale") and fields.get("target_bytes") is None:
        message = f"to {policy} offsets the target's size is needed"
        hint = "give it: --target-size 1G"
        wrong.append(option_mistake("--offsets", message, hint, policy))


def refuse_command(arguments: argparse.Namespace, command: str) -> None:
    """Raise InputError if there is a command after `--`."""
    if arguments.command_argv is not None:
        raise argument_error(
            f"bw trace {command}",
            " ".join(arguments.command_argv),
            f"bw trace {command} does not run a command after --",
            "bw trace capture -- CMD records what a command does",
        )
