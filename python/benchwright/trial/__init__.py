"""One trial: the request to the launcher, its record, and the bench that runs it.

The port (`Bench` in bench.py) is narrow on purpose: it takes a request and returns records.
"""
