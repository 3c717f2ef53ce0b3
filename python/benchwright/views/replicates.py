"""By how much the replicates of levels differ, as a table."""

from __future__ import annotations

from benchwright.core.results import LevelSpread
from benchwright.core.text import plural_of
from benchwright.views.blocks import (
    Column,
    TableBlock,
    Words,
    count_number,
    heading,
    share_number,
    table_of,
)


def levels_table(
    part: str, levels: tuple[LevelSpread, ...], title: str = "Levels of replication"
) -> TableBlock:
    """Return a row for each level; `part` begins its id."""
    return table_of(
        f"{part}-levels",
        title,
        ((f"{part}.levels.{one.level}", one) for one in levels),
        (
            (Column("Level"), lambda _, one: Words(heading(plural_of(one.level)))),
            (
                Column("Replicates", "of all together", numeric=True),
                lambda key, one: count_number(f"{key}.replicates", one.replicates),
            ),
            (
                Column("Differ by", "standard deviation, of the mean", numeric=True),
                lambda key, one: share_number(f"{key}.spread", one.spread),
            ),
            (
                Column("From", "lower end of its interval", numeric=True),
                lambda key, one: share_number(f"{key}.low", one.low),
            ),
            (
                Column("To", "upper end of its interval", numeric=True),
                lambda key, one: share_number(f"{key}.high", one.high),
            ),
            (
                Column("Of the error", "its part of the squared error of the mean", numeric=True),
                lambda key, one: share_number(f"{key}.error", one.share_of_error),
            ),
        ),
    )
