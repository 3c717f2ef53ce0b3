"""Results as text, JSON documents and charts. Pure: `cli` reads and writes the files."""
