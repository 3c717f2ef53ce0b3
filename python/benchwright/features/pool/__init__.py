"""Pools: the parts of one session on several gangs of hosts, side by side.

The controller (controller.py) leases gangs from an engine (engine.py), gives tasks to their agents
(agent.py), and copies what they measured into the study (adopt.py).
"""
