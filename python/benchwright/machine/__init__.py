"""The machine: its configuration, its settings (changed and restored), and its caches."""
