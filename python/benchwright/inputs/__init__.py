"""Reads what the user wrote: options, keys of TOML, values, and the places of mistakes."""
