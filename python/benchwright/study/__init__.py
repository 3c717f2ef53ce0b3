"""What is stored: the journal, logs, exports, and parsers of results of other tools.

The journal (journal.py) is the truth; everything under results/ can be made again.
"""
