"""Where trials run: this host through the launcher, or the shipped fake.

The port is narrow on purpose (`Bench` in port.py): a request goes down, records come
back. A pool of hosts will be a third implementation of the same three methods.
"""
