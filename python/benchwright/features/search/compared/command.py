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
    if arguments.command_argv or len(arguments.inputs) != 2:
        return None
    from benchwright.study.catalogue import split_selector

    parts = [split_selector(Path(text)) for text in arguments.inputs]
    if not all(part.test is None and (part.place / JOURNAL).is_file() for part in parts):
        return None
    from benchwright.features.search.compared.run import compare_searches, kind_of

    if not all(kind_of(part) in KINDS for part in parts):
        return None
    return compare_searches(arguments, parts)


ADDED = AddedOptions(NoOptions, lambda begun, _: begun.info, answer=_answer)
