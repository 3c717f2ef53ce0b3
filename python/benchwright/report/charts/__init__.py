"""Charts: modules compose a frozen `Sheet`, then `render.py` draws it.

A sheet is plain numbers that a test can read; drawing turns it into the bytes of a file and
decides nothing. Pure: `cli` reads and writes the files. matplotlib is imported only when a
chart is drawn. Source: Auto-pilot paper, section 3.4 (Graphit).
"""
