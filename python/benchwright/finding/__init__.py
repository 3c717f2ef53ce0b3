"""The name that rule files written for version 0.1 import: see benchwright.findings."""
