"""Computes each trial's resource use from the sampler's series (docs/watch-format.md)."""
