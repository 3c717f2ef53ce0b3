"""One declaration of options: what `--help` promises holds, and old requests are read."""

from __future__ import annotations

import argparse
import ast
from pathlib import Path
from typing import Annotated

import msgspec
import pytest

import benchwright
from benchwright.cli.env import EnvOptions
from benchwright.cli.plot_options import PlotOptions
from benchwright.cli.resume import ResumeOptions
from benchwright.cli.run import SuiteOptions
from benchwright.cli.schema import SchemaOptions
from benchwright.cli.shared_options import NotifyOptions, StudyOptions, TrialWatchOptions
from benchwright.cli.stats_options import StatsOptions
from benchwright.cli.why import WhyOptions
from benchwright.core.criterion import Criterion
from benchwright.features.load.options import (
    BareOptions,
    LoadOptions,
    OutputOptions,
    TargetOptions,
    TraceOptions,
)
from benchwright.features.quiet.chill_command import ChillOptions
from benchwright.features.quiet.command import QuietOptions
from benchwright.features.replay.trace_options import (
    CaptureOptions,
    ConvertOptions,
    PairingOptions,
    StatOptions,
)
from benchwright.features.search.options import PeakRequest, RampRequest, SurfaceRequest
from benchwright.features.search.ramp.types import RampGoal
from benchwright.features.search.session import stored_request
from benchwright.features.search.types import PeakGoal
from benchwright.inputs.form import Form, keys_of
from benchwright.inputs.option_reader import OptionReader
from benchwright.inputs.options import Option, Text, add_options, given, options_of, request_from
from benchwright.study.journal import SessionInfo
from benchwright.suite.command_line import CommandRequest
from benchwright.suite.comparison import ComparisonRequest

PACKAGE = Path(benchwright.__file__).parent
DERIVED = "inputs/options.py"
"""The one module that calls `add_argument`."""
DECLARED = (
    *(PeakRequest, RampRequest, SurfaceRequest, CommandRequest, ComparisonRequest),
    *(LoadOptions, TargetOptions, TraceOptions, OutputOptions, BareOptions),
    *(ChillOptions, EnvOptions, PlotOptions, QuietOptions, ResumeOptions),
    *(SchemaOptions, StatsOptions, WhyOptions, SuiteOptions, StudyOptions),
    *(NotifyOptions, TrialWatchOptions),
    *(StatOptions, PairingOptions, ConvertOptions, CaptureOptions),
)


class Everything(msgspec.Struct, frozen=True, kw_only=True):
    """Each kind of option and argument."""

    first: Annotated[str, Option("an argument", "FIRST", positional=True)]
    rest: Annotated[tuple[str, ...], Option("more", "REST", positional=True)] = ()
    pair: Annotated[tuple[str, str] | None, Option("two values", "A B")] = None
    files: Annotated[tuple[str, ...], Option("files", "FILE", several=True)] = ()
    factor: Annotated[Text, Option("a factor", "F", short="-x")] = None
    this: Annotated[bool, Option("one way", excludes="ways")] = False
    that: Annotated[bool, Option("another way", excludes="ways")] = False
    steps: Annotated[
        tuple[tuple[str, str], ...],
        Option("select rows", "E", flag="--select"),
        Option("merge rows", flag="--merge-rows"),
    ] = ()


def named(kind: type) -> str:
    """Return a request's name."""
    return kind.__name__


def parsed(kind: type[msgspec.Struct], *words: str) -> argparse.Namespace:
    """Return what argparse makes of these words."""
    parser = argparse.ArgumentParser()
    add_options(parser, kind)
    return parser.parse_args(words)


@pytest.mark.parametrize("kind", DECLARED, ids=named)
def test_help_is_in_one_style(kind: type[msgspec.Struct]) -> None:
    for option in options_of(kind).values():
        first = option.help[0]
        assert not first.isupper() or option.help.split()[0] in ("CPU", "JSON"), option
        assert not option.help.endswith("."), option
        assert "(default" not in option.help, "a default is declared as one"


@pytest.mark.parametrize(
    ("kind", "goal"),
    [
        (PeakRequest, PeakGoal(criteria=(Criterion("response_ms_mean", 1.0),))),
        (RampRequest, RampGoal()),
    ],
)
def test_the_defaults_of_help_are_those_of_the_goal(
    kind: type[msgspec.Struct], goal: msgspec.Struct
) -> None:
    checked = 0
    for option in options_of(kind).values():
        held = getattr(goal, option.field, None) if option.field else None
        if held is None or option.parse is None or not option.default:
            continue
        try:
            declared = option.parse(option.default)
        except ValueError:
            continue
        assert declared == held, option.flag
        checked += 1
    assert checked


def test_a_request_holds_what_was_typed() -> None:
    arguments = parsed(PeakRequest, "--start", "100", "--limit", "1ms", "-P", "n=2")
    request = request_from(PeakRequest, arguments, drawn_seed=7)
    assert request == PeakRequest(start="100", limits=("1ms",), factors=("n=2",), drawn_seed=7)
    assert [one.flag for one in given(arguments, PeakRequest)] == [*("--limit", "-P", "--start")]


def test_every_wrong_value_is_noted_at_its_option() -> None:
    reader = OptionReader(PeakRequest(start="fast", budget="0s", lowest="5"))
    assert reader.fields() == {"lowest_rate": 5.0}
    assert [(one.file, one.text) for one in reader.found] == [
        ("--start", "fast"),
        ("--budget", "0s"),
    ]


def test_a_key_has_the_name_of_its_field_or_its_own() -> None:
    assert {"start", "max_trials", "claim"} <= set(Form(keys_of(PeakRequest)).names)
    assert {"from", "for", "speed"} <= set(Form(keys_of(TraceOptions)).names)
    assert "target_size" not in Form(keys_of(TraceOptions)).names


def test_the_request_of_an_earlier_ramp_is_read() -> None:
    old = '{"command":null,"options":{"axis":"rate","max_errors":"2%"},"seed":"3"}'
    info = SessionInfo(*(0, "", "", "/", (), (), "<request>", (("<request>", old),), {}, "ramp"))
    assert stored_request(info, RampRequest) == RampRequest(axis="rate", max_errors="2%", seed="3")


def calls(name: str) -> dict[str, int]:
    """Return how often each module names a method, whether it calls it or passes it on."""
    found: dict[str, int] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute) and node.attr == name:
                module = str(path.relative_to(PACKAGE))
                found[module] = found.get(module, 0) + 1
    return found


def test_one_place_derives_argparse_from_declarations() -> None:
    assert calls("add_argument") == {DERIVED: 1}
    assert set(calls("add_argument_group")) == {DERIVED}
    assert set(calls("add_mutually_exclusive_group")) == {DERIVED}


def test_every_kind_of_option_reaches_the_request() -> None:
    words = "-x fs --select a --merge-rows --select b --pair 1 2 --that one two --files p q"
    arguments = parsed(Everything, *words.split())
    assert request_from(Everything, arguments) == Everything(
        first="one",
        rest=("two",),
        pair=("1", "2"),
        files=("p", "q"),
        factor="fs",
        that=True,
        steps=(("--select", "a"), ("--merge-rows", ""), ("--select", "b")),
    )
    assert request_from(Everything, parsed(Everything, "one")) == Everything(first="one")
    for wrong in ((), ("one", "--this", "--that"), ("one", "--pair", "1")):
        with pytest.raises(SystemExit):
            parsed(Everything, *wrong)
