"""From the sampler's series to what a trial used, as the series goes by (docs/watch-format.md)."""
