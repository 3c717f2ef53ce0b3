"""Prepares the machine for a benchmark and restores it afterwards (docs/quiet.md)."""
