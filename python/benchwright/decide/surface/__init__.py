"""Maps a response surface: which samples to search, and what the others would be.

Pure: a function of the goal and of the samples' results so far.
"""
