"""Parsers of results: ours, Auto-pilot's, and those of other tools.

Each is a plug-in of the entry-point group `benchwright.parsers`; api.py is the contract.
"""
