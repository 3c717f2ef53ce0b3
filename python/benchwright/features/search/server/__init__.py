"""The server under test: its life, its resources, and the hosts it runs on."""
