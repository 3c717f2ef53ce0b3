"""The highest rate that a server sustains."""
