"""The nouns: what every other room speaks of.

Purpose: frozen records (msgspec Structs) for the things that flow through the house,
suite -> plan -> trial -> observation -> journal -> estimate -> finding -> report.
Decision: msgspec rather than dataclasses or pydantic; the same types decode the
launcher's records and the journal's payloads (docs/decisions/0002-records.md).
Non-goals: no behaviour that reads a clock, a file or a random source.
"""
