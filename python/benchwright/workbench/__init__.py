"""Trials under load: what a server is, how it is started, loaded, watched and stopped."""
