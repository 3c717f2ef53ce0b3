"""One verdict from the comparisons of several jobs, machines or boots."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from benchwright.feature import DocumentType, Feature

if TYPE_CHECKING:
    from benchwright.cli.shared_options import AddedOptions
    from benchwright.findings.codes import Code
    from benchwright.page.document import PartWords


class Merge(Feature):
    """What this feature adds."""

    name = "merge"

    def options(self, command: str) -> Sequence[AddedOptions]:
        if command != "compare":
            return ()
        from benchwright.features.merge.command import ADDED

        return (ADDED,)

    def documents(self) -> Mapping[DocumentType, DocumentType | None]:
        from benchwright.features.merge.document import MergeDocument

        return {MergeDocument: None}

    def finding_codes(self) -> Mapping[str, Code]:
        from benchwright.features.merge.codes import CODES

        return CODES

    def part_words(self) -> Mapping[str, PartWords]:
        from benchwright.page.document import PartWords

        return {"merge": PartWords("merged comparison", "jobs", "the studies of jobs")}


FEATURE: Feature = Merge()
