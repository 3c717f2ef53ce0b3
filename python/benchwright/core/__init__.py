"""The data types that every other package uses.

Purpose: frozen records (msgspec Structs) for the data that flows through the program,
suite -> plan -> trial -> observation -> journal -> estimate -> finding -> report.
Decision: msgspec rather than dataclasses or pydantic; the same types decode the
launcher's records and the journal's payloads (docs/decisions/0002-records.md).
Non-goals: reading a clock, a file or a random source.
"""

SESSION_TOKEN = "BW_SESSION"
"""The environment variable that every process of a session has; it identifies the session."""
