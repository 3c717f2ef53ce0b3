"""Answers `bw compare` of two stored peak searches or surfaces in place of the command, which compares
tests."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

import msgspec

from benchwright.cli.shared_options import AddedOptions
from benchwright.study.directory import JOURNAL

KINDS = ("peak", "surface")


class NoOptions(msgspec.Struct, frozen=True):
    """Two searches are compared by the options of `bw compare`."""


def _answer(arguments: Namespace) -> int | None:
    places = [Path(text) for text in arguments.inputs]
    if arguments.command_argv or len(places) != 2:
        return None
    if not all((place / JOURNAL).is_file() for place in places):
        return None
    from benchwright.features.search.compared.run import compare_searches, kinds_of

    kinds = kinds_of(places)
    if not all(kind in KINDS for kind in kinds):
        return None
    return compare_searches(arguments, places)


ADDED = AddedOptions(NoOptions, lambda begun, _: begun.info, answer=_answer)
