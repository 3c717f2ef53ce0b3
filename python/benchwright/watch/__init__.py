"""Observers of a trial and the evaluation of their data: the sampler; others are of features."""
