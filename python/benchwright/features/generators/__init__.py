"""Load generators that are separate programs."""
