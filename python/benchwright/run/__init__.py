"""Sessions: one run of an experiment against a study, live or resumed (runner.py).

Every effect goes through the journal: a recorded outcome is returned without running the effect
again; any other effect is recorded as started, run, and recorded as done (ledger.py).
"""

from benchwright import make_callable

make_callable(__name__)
