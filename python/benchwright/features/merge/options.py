"""The options that this feature adds to `bw compare`."""

from __future__ import annotations

from typing import Annotated

import msgspec

from benchwright.inputs.options import Option, Text
from benchwright.suite.common_options import REPLACES


class MergeOptions(msgspec.Struct, frozen=True):
    """One verdict from several jobs, and the files with it."""

    merge: Annotated[
        bool,
        Option(
            "join stored comparisons of the same arms, one STUDY for each job or machine, into one "
            "verdict (docs/merge.md)",
            no_default="it decides what is compared",
            rare=True,
        ),
    ] = False
    html: Annotated[
        Text,
        Option(
            "write the merged result as one HTML page",
            "FILE",
            names="file",
            no_default=REPLACES,
            needs="merge",
            rare=True,
        ),
    ] = None
    markdown: Annotated[
        Text,
        Option(
            "write it as Markdown, for a step summary",
            "FILE",
            names="file",
            no_default=REPLACES,
            needs="merge",
            rare=True,
        ),
    ] = None
    plot: Annotated[
        Text,
        Option(
            "draw it, a row for each job: .svg, .pdf, .png or .eps",
            "FILE",
            names="file",
            no_default=REPLACES,
            needs="merge",
            rare=True,
        ),
    ] = None
