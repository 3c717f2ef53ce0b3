"""The programs `getstats` and `graphit`: `bw stats` and `bw plot` under Auto-pilot's names.

Getstats prints the table of the paper's Figure 2, and every doubt in full before it.
"""

from __future__ import annotations

from benchwright.cli import plot, stats
from benchwright.cli.parser import CommandParser, sentence_of
from benchwright.report.stats_document import PERL_DIGITS, StatsWords

_GETSTATS = StatsWords("epoch", PERL_DIGITS, is_plain=True)


def getstats() -> CommandParser:
    """Return the parser of `getstats`."""
    parser = CommandParser(prog="getstats", description=sentence_of("stats"))
    stats.add_arguments(parser, _GETSTATS)
    return parser


def graphit() -> CommandParser:
    """Return the parser of `graphit`."""
    return plot.parser_of("graphit")
