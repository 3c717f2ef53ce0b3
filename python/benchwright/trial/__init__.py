"""One trial: the request to the launcher, its record, and the place where it runs.

The port is narrow on purpose (`Bench` in bench.py): a request goes down, records come back.
"""
