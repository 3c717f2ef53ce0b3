"""Controllers: history -> run more, ask a program, or stop.

Pure: `decide` is a function of what was observed and of nothing else, so the same code
runs in a simulation of ten thousand benchmarks, in a replay of the journal and live.
"""
