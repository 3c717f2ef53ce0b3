"""The journal's tables; version 1."""

JOURNAL = "journal.sqlite"
APPLICATION_ID = 0x62776A6C
"""`bwjl`, in the database's header."""
VERSION = 1

SCHEMA = f"""
PRAGMA application_id = {APPLICATION_ID};
PRAGMA user_version = {VERSION};
BEGIN;
CREATE TABLE session (
    number INTEGER PRIMARY KEY,
    info BLOB NOT NULL,
    digest BLOB NOT NULL
) STRICT;
CREATE TABLE entry (
    seq INTEGER PRIMARY KEY,
    session INTEGER NOT NULL REFERENCES session (number),
    kind TEXT NOT NULL CHECK (
        kind IN (
            'begin', 'outcome', 'void', 'checkpoint', 'restore', 'stop', 'finding',
            'resume', 'end'
        )
    ),
    key TEXT NOT NULL,
    begin INTEGER REFERENCES entry (seq),
    payload BLOB NOT NULL,
    chain BLOB NOT NULL
) STRICT;
-- Nothing can be counted twice.
CREATE UNIQUE INDEX outcome_once ON entry (session, key) WHERE kind = 'outcome';
CREATE INDEX entry_by_kind ON entry (session, kind);
CREATE TRIGGER entry_never_changes BEFORE UPDATE ON entry
BEGIN SELECT raise(ABORT, 'the journal is append-only'); END;
CREATE TRIGGER entry_never_goes BEFORE DELETE ON entry
BEGIN SELECT raise(ABORT, 'the journal is append-only'); END;
CREATE TRIGGER session_never_changes BEFORE UPDATE ON session
BEGIN SELECT raise(ABORT, 'the journal is append-only'); END;
CREATE TRIGGER session_never_goes BEFORE DELETE ON session
BEGIN SELECT raise(ABORT, 'the journal is append-only'); END;
COMMIT;
"""
