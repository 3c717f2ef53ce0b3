"""What is kept: the journal, logs, exports, and parsers of what others kept.

The journal (journal.py) is the truth; everything under results/ can be made again.
"""
