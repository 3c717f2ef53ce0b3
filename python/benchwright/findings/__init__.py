"""Findings about results: pure functions from observations to `Finding`s.

A finding is data that is stored with a result (ARCHITECTURE.md). All codes are in one table
(codes.py), from which the documentation is generated.
"""
