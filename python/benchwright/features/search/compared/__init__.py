"""`bw compare` of two stored searches: the ratio of their peaks, and where two surfaces cross."""
