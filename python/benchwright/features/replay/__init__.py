"""Recorded traces: measured, compared, converted, recorded and replayed."""
