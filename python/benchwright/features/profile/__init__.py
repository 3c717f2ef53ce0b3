"""Profiles of trials, and what their I/O is as the kernel sees it."""
