"""Ramping load: levels, throughput with its noise, the decision to go on, the profile."""
