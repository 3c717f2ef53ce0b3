"""Sessions: one run of an experiment against a study, live or resumed (runner.py).

Every effect goes through the journal: one whose outcome is recorded is answered from there;
any other is started, done, and recorded, in that order (ledger.py).
"""
