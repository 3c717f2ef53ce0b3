"""The features: each is a folder with all of its parts, and can be deleted."""
