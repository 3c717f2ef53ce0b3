"""Controllers: history -> run more, ask a program, or stop.

Pure: a decision depends only on what was observed, so the same code runs in a simulation
of ten thousand benchmarks, in a replay of the journal and in a live session.
"""
