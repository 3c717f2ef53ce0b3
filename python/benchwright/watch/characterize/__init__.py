"""The I/O of a trial where it arrives: counted, separated by kind, described (docs/characterize.md)."""
