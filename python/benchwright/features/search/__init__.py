"""Searches over loads: the peak rate of a server, ramps, and maps of the peak rate over factors."""
