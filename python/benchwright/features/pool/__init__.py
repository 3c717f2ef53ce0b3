"""Pools: the parts of one session on several gangs of hosts, side by side.

The controller (controller.py) leases gangs from an engine (engine.py), gives tasks to their agents
(agent.py), and copies what they measured into the study (adopt.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from benchwright.feature import AddParser, DocumentType, Feature

if TYPE_CHECKING:
    from benchwright.suite.tables import SuiteTable


class Pool(Feature):
    """What this feature adds."""

    name = "pool"

    def add_parser(self, command: str) -> AddParser:
        from benchwright.features.pool.command import add_parser

        return add_parser

    def suite_tables(self) -> Mapping[str, SuiteTable]:
        from benchwright.features.pool.toml import pool_of_suite
        from benchwright.suite.tables import SuiteTable

        return {"pool": SuiteTable(pool_of_suite)}

    def documents(self) -> Mapping[DocumentType, DocumentType | None]:
        from benchwright.features.pool.report import PoolDocument

        return {PoolDocument: None}


FEATURE: Feature = Pool()
