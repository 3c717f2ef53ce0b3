"""Answers `bw compare --merge` in place of `bw compare`."""

from __future__ import annotations

from argparse import Namespace

from benchwright.cli.shared_options import AddedOptions
from benchwright.core.errors import InputError
from benchwright.features.merge.options import MergeOptions
from benchwright.inputs.mistakes import option_mistake
from benchwright.inputs.options import given


def _answer(arguments: Namespace) -> int | None:
    if arguments.merge:
        from benchwright.features.merge.run import merge

        return merge(arguments)
    wrong = [
        option_mistake(option.flag, f"{option.flag} is of a merged result", "add --merge")
        for option in given(arguments, MergeOptions)
    ]
    if wrong:
        raise InputError(wrong)
    return None


ADDED = AddedOptions(MergeOptions, lambda begun, _: begun.info, "several jobs", answer=_answer)
