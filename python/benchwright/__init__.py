"""Benchwright: benchmarks and load tests, with confidence intervals and known problems."""

from __future__ import annotations

__version__ = "0.1.0"
