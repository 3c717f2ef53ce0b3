"""Counts and describes the I/O of a trial, as the kernel sees it (docs/characterize.md)."""
