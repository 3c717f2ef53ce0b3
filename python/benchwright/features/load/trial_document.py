"""The result of a load in the output of a trial, as the core shows it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from benchwright.features.load.document import TrialLoad
    from benchwright.features.load.page import ShownLoad
    from benchwright.page.kinds import StoredDocument, TrialDocument
    from benchwright.report.charts.sheet import Sheet
    from benchwright.views.blocks import Section, Tile


class TrialLoads:
    """Loads that trials applied."""

    noun = "load"
    mark = b'"benchwright/load/1"'

    def read(self, output: bytes) -> TrialLoad | None:
        """Return the load; None for another program's document."""
        from benchwright.features.load.document import read_trial_load

        return read_trial_load(output)

    def tiles(self, one: StoredDocument) -> Iterator[Tile]:
        """Yield the figures of its answer."""
        from benchwright.features.load.page import load_tiles

        return load_tiles(_shown(one))

    def section(self, part: str, found: Sequence[StoredDocument]) -> Section:
        """Return the section about loads."""
        from benchwright.features.load.page import loads_section

        return loads_section(part, [_shown(stored_document) for stored_document in found])

    def sheet(self, named: Sequence[tuple[str, TrialDocument]]) -> Sheet:
        """Return the chart of loads."""
        from benchwright.features.load.chart import NamedLoad, load_sheet
        from benchwright.features.load.document import TrialLoad

        loads = [
            NamedLoad(name, trial_document.result)
            for name, trial_document in named
            if isinstance(trial_document, TrialLoad)
        ]
        return load_sheet(loads)


def _shown(one: StoredDocument) -> ShownLoad:
    from benchwright.features.load.document import TrialLoad
    from benchwright.features.load.page import ShownLoad

    load = one.document
    assert isinstance(load, TrialLoad)
    report = msgspec.structs.replace(load.report, verbose=True)
    return ShownLoad(one.id, one.name, one.test, load.result, report)


LOADS = TrialLoads()
