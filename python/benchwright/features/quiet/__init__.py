"""Prepares the machine for a benchmark and restores it afterwards; empties caches."""
