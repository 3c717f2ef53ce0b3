"""The highest rate that a server sustains: policies, each a pure function of its trials."""
