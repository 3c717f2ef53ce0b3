"""A session: one run of a program against a study, live or resumed.

Runs the interpreter's effects through the journal: an effect whose outcome is recorded
is answered from there; any other is begun, done, and recorded, in that order.
"""
