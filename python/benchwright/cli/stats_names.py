"""Names that options give: of quantities, as the table or the data write them.

Purpose: `--metric` and `--drift` take `elapsed`, `Elapsed` and `cpu%` alike, and refuse
what no input has.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from benchwright.cli.stats_request import Request
from benchwright.model.errors import Diagnostic, InputError
from benchwright.stats.rows import EXTRAS, TIMES, RowBook
from benchwright.stats.transform import COMPUTED
from benchwright.study.parsers.api import ParsedInput

_ALWAYS = (*TIMES, *COMPUTED, *sorted(EXTRAS))
"""Names that are never a mistake, only absent."""


def with_known_names(request: Request, inputs: Sequence[ParsedInput]) -> Request:
    """Return the request with quantities by their names in the data.

    Raises InputError with every name that no input has; where nothing was measured,
    any name may be one.
    """
    there = dict.fromkeys(_names_of(inputs))
    if not there:
        return request
    known = dict.fromkeys((*there, *_ALWAYS))
    wrong: list[Diagnostic] = []
    metrics = [_known("--metric", name, known, wrong) for name in request.metrics]
    changes = {
        _known("--drift", name, known, wrong): share
        for name, share in request.least_changes.items()
    }
    if wrong:
        raise InputError(wrong)
    return msgspec.structs.replace(
        request, metrics=tuple(metrics), least_changes=changes
    )


def _names_of(inputs: Iterable[ParsedInput]) -> list[str]:
    found: list[str] = []
    for one in inputs:
        found += [spec.name for spec in one.specs]
        blocks = (
            one.blocks
            if one.trials is None
            else (block for trial in one.trials for block in trial.blocks)
        )
        found += dict.fromkeys(name for block in blocks for name in block.values)
    return found


def _known(
    option: str, said: str, known: Iterable[str], wrong: list[Diagnostic]
) -> str:
    """Return the name that was meant: as it is, or whatever its case, or by its label."""
    names, book = list(known), RowBook()
    if said in names:
        return said
    for name in names:
        if said.lower() in (name.lower(), book.row(name).label.lower()):
            return name
    message = f"no input has {said!r}"
    hint = "there are: " + ", ".join(names)
    wrong.append(Diagnostic("bad-argument", message, hint, file=option, text=said))
    return said
