"""Notices: telling a person that a session has failed or ended."""
