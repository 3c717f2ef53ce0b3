"""Auto-pilot's suites and the commands of its benchmark scripts."""
