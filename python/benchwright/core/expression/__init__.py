"""The safe expression language of predicates, VAREX and conditions.

Purpose: Perl's expression syntax, as Auto-pilot's suites use it, read by a lexer and a
Pratt parser into a small frozen tree, and evaluated over it.
Decision: our own parser instead of any form of eval. Rejected: Python's `ast`, whose
precedence and strings differ from Perl's.
Regular expressions of `=~` are matched by RE2 in linear time (core/pattern.py).
Non-goals: assignment, arrays, hashes, substitution, calls beyond a fixed table.
Source: perlop(1), perldata(1); Auto-pilot paper, section 3.3.
"""

from __future__ import annotations

from benchwright.core.expression.parser import parse
from benchwright.core.expression.tree import (
    PREDICATE_VARIABLES,
    EvaluationError,
    Expression,
    Value,
    to_number,
    to_text,
    truth,
)

__all__ = [
    "PREDICATE_VARIABLES",
    "EvaluationError",
    "Expression",
    "Value",
    "parse",
    "to_number",
    "to_text",
    "truth",
]
