"""Telling a person that a session has failed or is done: mail, webhook, command."""
