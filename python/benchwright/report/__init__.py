"""Pure rendering: tables, findings, stop lines, progress lines. Writers at the edge."""
