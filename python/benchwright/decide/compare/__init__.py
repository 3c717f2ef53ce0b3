"""Comparing arms: blocks, intervals, verdicts."""
