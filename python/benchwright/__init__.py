"""Benchwright: benchmarks and load tests, with confidence intervals and known problems."""

__version__ = "0.1.0"
