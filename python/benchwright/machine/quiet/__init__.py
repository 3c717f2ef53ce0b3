"""The machine put in order for a benchmark, and back as it was (docs/quiet.md)."""
