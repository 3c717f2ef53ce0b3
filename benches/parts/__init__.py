"""What the benches of replay share: the engine, traces, loop devices, peers, agreement.

Decision: a folder of its own, because `make bench` runs every file of benches/ itself.
"""
