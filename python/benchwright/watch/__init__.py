"""Observers of a trial (sampler, profiler, characterization) and the evaluation of their data."""
