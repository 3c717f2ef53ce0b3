"""The machine itself: what it is, putting it in order and back, and its caches."""
