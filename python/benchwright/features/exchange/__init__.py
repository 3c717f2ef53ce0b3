"""Results of other tools, read and written."""
