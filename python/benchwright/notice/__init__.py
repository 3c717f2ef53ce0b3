"""Notices: sends a message when a session ends or fails, by mail, webhook, command or apprise."""
