"""What watches a trial from beside it: the sampler, profiles, traces; and what it saw."""
