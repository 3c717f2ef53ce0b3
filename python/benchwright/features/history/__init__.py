"""Histories: results run after run, and which change is real."""
