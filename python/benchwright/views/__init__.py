"""Results as blocks, and the renderers of blocks: terminal, page."""
