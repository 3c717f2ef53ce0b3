"""How one trial runs: a request made of a plan, a trial made of a record.

Pure. The launcher does the running (bench), the study keeps the outcome.
"""
