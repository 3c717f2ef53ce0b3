"""Results as blocks, and how a terminal shows blocks (a page: page/html.py)."""
