"""Answers `bw compare --io A B` in place of `bw compare`: how alike the I/O of two workloads is."""

from __future__ import annotations

import sys
from argparse import Namespace
from pathlib import Path

import msgspec

from benchwright.cli.terminal import report_width
from benchwright.core.errors import InputError, argument_error
from benchwright.core.quantity import parse_share
from benchwright.core.text import duration_text, number_text, percent_text
from benchwright.core.untrusted import open_regular, visible
from benchwright.features.profile.kinds import CHARACTERIZE
from benchwright.features.profile.similarity import (
    MARGIN,
    DimensionDistance,
    Similarity,
    similarity,
    working_set_text,
)
from benchwright.features.profile.types import Characterization
from benchwright.inputs.mistakes import option_mistake
from benchwright.report.documents import encode
from benchwright.results.inputs import read_inputs
from benchwright.views.blocks import Column, Words, table_of
from benchwright.views.terminal import table_text, wrapped

_SUFFIX = ".io.json"
_TWO = "give two: files of --characterize (NAME.io.json), or STUDY:TEST"


class IoComparison(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="schema", tag="benchwright/io-comparison/1"
):
    """How alike the I/O of two workloads is."""

    similarity: Similarity
    seconds: tuple[float, float]
    """How long each was counted."""
    differs: bool


def compare_io(arguments: Namespace) -> int:
    """Run `bw compare --io`; return the exit status. Raises InputError."""
    texts = arguments.inputs
    if len(texts) != 2 or arguments.command_argv:
        raise InputError([option_mistake("--io", "two workloads are compared", _TWO)])
    first, second = (_recorded(text) for text in texts)
    found = similarity(first, second, _names(texts), _margin(arguments))
    if arguments.json:
        document = IoComparison(
            similarity=found, seconds=(first.seconds, second.seconds), differs=found.differs
        )
        sys.stdout.write(encode(document))
    else:
        sys.stdout.write("\n".join(_lines(found, first, second)) + "\n")
    return 0


def _margin(arguments: Namespace) -> float:
    if arguments.margin is None:
        return MARGIN
    try:
        return parse_share(arguments.margin)
    except ValueError as error:
        raise argument_error("--margin", arguments.margin, str(error)) from None


def _names(texts: list[str]) -> tuple[str, str]:
    """Return the shortest names that distinguish two paths: what they do not have in common."""
    first, second = ([part for part in text.split("/") if part] for text in texts)
    while len(first) > 1 and len(second) > 1 and first[0] == second[0]:
        first, second = first[1:], second[1:]
    while len(first) > 1 and len(second) > 1 and first[-1] == second[-1]:
        first, second = first[:-1], second[:-1]
    a, b = ("/".join(parts).removesuffix(_SUFFIX) for parts in (first, second))
    return (a, b) if a != b else (f"{a} (first)", f"{b} (second)")


def _recorded(text: str) -> Characterization:
    """Return what a file or a test of a study has. Raises InputError."""
    if text.endswith(".json"):
        try:
            with open_regular(Path(text)) as file:
                recorded = msgspec.json.decode(file.read(), type=Characterization)
            if recorded.seconds <= 0:
                raise ValueError(f"it lasted {recorded.seconds:g} s")
            return recorded
        except (OSError, msgspec.MsgspecError, ValueError) as error:
            raise argument_error(
                "--io", text, f"no characterization can be read from it: {error}", _TWO
            ) from None
    tests = read_inputs([text], _TWO)
    found: list[Characterization] = [
        test.recorded[CHARACTERIZE.record] for test in tests if CHARACTERIZE.record in test.recorded
    ]
    if len(found) != 1:
        what = "no test of it was characterized" if not found else f"{len(found)} of its tests were"
        raise argument_error("--io", text, f"{what}; one is compared", _TWO)
    return found[0]


_CHANGES = {
    "calls": "to be another call, or to another kind of file",
    "sizes": "to have another size",
    "locality": "to be elsewhere in the file",
    "arrivals": "to come at another time, at equal rates",
}


def _lines(found: Similarity, first: Characterization, second: Characterization) -> list[str]:
    width = report_width()
    a, b = visible(found.baseline), visible(found.candidate)
    differing = [one for one in found.dimensions if one.differs]
    lines = wrapped(_answer_text(found, differing), width)
    for one in differing:
        for text in one.differences:
            lines += wrapped(f"{one.dimension}: {visible(text)}", width, "  ")
    table = table_of(
        "io-comparison",
        "Operations that would have to be changed",
        [("", one) for one in found.dimensions],
        (
            (Column("dimension"), lambda _, one: Words(one.dimension)),
            (Column("share", numeric=True), lambda _, one: Words(_share(one.distance))),
            (Column("by chance", numeric=True), lambda _, one: Words(_share(one.noise))),
            (Column("that is"), lambda _, one: Words(one.absent or _CHANGES[one.dimension])),
        ),
    )
    lines += [
        "",
        table.title,
        *(f"  {line}" for line in table_text(table, width - 2, wrap=True)),
        "",
    ]
    for at, recorded in enumerate((first, second)):
        name, reached = (a, b)[at], working_set_text(recorded)
        text = (
            f"{name}: {found.operations[at]:,} calls in {duration_text(recorded.seconds)}, "
            f"{number_text(found.per_s[at])}/s{f'; {reached}' if reached else ''}"
        )
        lines += wrapped(text, width)
        if recorded.lost_events:
            lines += wrapped(f"{name}: {recorded.lost_events:,} events were lost", width, "  ")
    return lines


def _answer_text(found: Similarity, differing: list[DimensionDistance]) -> str:
    names = f"{visible(found.baseline)} and {visible(found.candidate)}"
    if differing:
        most = differing[0]
        return (
            f"{names} differ most in {most.dimension}: {_share(most.distance)} of the operations "
            f"would have {_CHANGES[most.dimension]}"
        )
    known = [one for one in found.dimensions if one.distance is not None]
    if not known:
        return f"nothing of {names} can be compared"
    undecided = [one.dimension for one in known if (one.distance or 0.0) > found.margin]
    texts = []
    if alike := [one.dimension for one in known if one.dimension not in undecided]:
        texts.append(
            f"{names} do not differ by more than {percent_text(found.margin)} of the operations in "
            f"{', '.join(alike)}"
        )
    if undecided:
        whose = "" if alike else f" of {names}"
        texts.append(
            f"whether {', '.join(undecided)}{whose} differ is undecided: two recordings of one "
            f"workload may differ as much"
        )
    return "; ".join(texts)


def _share(share: float | None) -> str:
    return "-" if share is None else percent_text(share)
