"""One declaration of options: what `--help` promises holds, and old requests are read."""

from __future__ import annotations

import argparse

import msgspec
import pytest

from benchwright.core.ramp import RampGoal
from benchwright.core.search import Criterion, PeakGoal
from benchwright.load.options import LoadOptions, TargetOptions, TraceOptions
from benchwright.load.search_options import PeakRequest, RampRequest, SurfaceRequest
from benchwright.run.search import stored_request
from benchwright.study.journal import SessionInfo
from benchwright.suite.command_line import CommandRequest
from benchwright.suite.comparison import ComparisonRequest
from benchwright.suite.option_reader import OptionReader
from benchwright.suite.options import (
    add_options,
    given,
    keys_of,
    options_of,
    request_from,
)

DECLARED = (
    *(PeakRequest, RampRequest, SurfaceRequest, CommandRequest, ComparisonRequest),
    *(LoadOptions, TargetOptions, TraceOptions),
)


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
    assert checked >= 2


def test_a_request_holds_what_was_typed() -> None:
    arguments = parsed(PeakRequest, "--start", "100", "--limit", "1ms", "-P", "n=2")
    request = request_from(PeakRequest, arguments, drawn_seed=7)
    assert request == PeakRequest(
        start="100", limits=("1ms",), factors=("n=2",), drawn_seed=7
    )
    assert [one.flag for one in given(arguments, PeakRequest)] == [
        *("--limit", "-P", "--start")
    ]


def test_every_wrong_value_is_noted_at_its_option() -> None:
    reader = OptionReader(PeakRequest(start="fast", budget="0s", lowest="5"))
    assert reader.fields() == {"lowest_rate": 5.0}
    assert [(one.file, one.text) for one in reader.found] == [
        ("--start", "fast"),
        ("--budget", "0s"),
    ]


def test_a_key_has_the_name_of_its_field_or_its_own() -> None:
    assert {"start", "max_trials", "claim"} <= set(keys_of(PeakRequest))
    assert {"from", "for", "speed"} <= set(keys_of(TraceOptions))
    assert "target_size" not in keys_of(TraceOptions)


def test_the_request_of_an_earlier_ramp_is_read() -> None:
    old = '{"command":null,"options":{"axis":"rate","max_errors":"2%"},"seed":"3"}'
    info = SessionInfo(
        *(0, "", "", "/", (), (), "<request>", (("<request>", old),), {}, "ramp")
    )
    assert stored_request(info, RampRequest) == RampRequest(
        axis="rate", max_errors="2%", seed="3"
    )
