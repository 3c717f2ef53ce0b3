"""The response surface: the samples to search, and predictions of the others."""
