"""Charts: first a frozen description of what is drawn, then the drawing of it.

What is in a chart (`sheet.py` and what composes it) is plain numbers that a test can
read; drawing turns them into the bytes of a file and decides nothing. Pure: files are
read and written in `cli/`. matplotlib is imported where a chart is drawn, never before.
Source: Auto-pilot paper, section 3.4 (Graphit).
"""
