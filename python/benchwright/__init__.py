"""Benchwright: performance numbers that survive scrutiny."""

__version__ = "0.1.0"
