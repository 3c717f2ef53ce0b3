"""The option `bw compare --io`."""

from __future__ import annotations

from argparse import Namespace
from typing import Annotated

import msgspec

from benchwright.cli.shared_options import AddedOptions
from benchwright.inputs.options import Option


class IoOptions(msgspec.Struct, frozen=True):
    """Compare what two workloads do, and not how fast they are."""

    io: Annotated[
        bool,
        Option(
            "compare the I/O that --characterize recorded of two workloads, NAME.io.json or STUDY:TEST "
            "(docs/characterize.md)",
            no_default="it decides what is compared",
            rare=True,
        ),
    ] = False


def _answer(arguments: Namespace) -> int | None:
    if not arguments.io:
        return None
    from benchwright.features.profile.compare import compare_io

    return compare_io(arguments)


ADDED = AddedOptions(IoOptions, lambda begun, _: begun.info, "I/O", answer=_answer)
