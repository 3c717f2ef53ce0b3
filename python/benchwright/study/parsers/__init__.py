"""Parsers of results: ours, Auto-pilot's, and what other tools leave.

Each is a plug-in of the entry-point group `benchwright.parsers`; api.py is the contract.
"""
