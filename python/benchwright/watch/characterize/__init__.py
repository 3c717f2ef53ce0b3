"""The I/O of a trial where it arrives: counted, told apart, described (docs/characterize.md)."""
