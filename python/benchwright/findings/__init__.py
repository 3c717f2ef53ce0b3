"""Findings about results: pure functions from observations to `Finding`s.

A finding is data that travels with a result (ARCHITECTURE.md); the codes are one table
(codes.py), so that scripts can rely on them and documentation cannot lag behind.
"""
