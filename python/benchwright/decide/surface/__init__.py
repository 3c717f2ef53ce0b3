"""The response surface: the samples to search, and predictions of the others.

Pure: functions of the goal and the samples' results so far.
"""
