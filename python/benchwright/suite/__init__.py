"""The suite languages, and the interpreter of the one program they compile to.

Purpose: `.ap` (Auto-pilot's language), `.toml` and the command line each compile to a
`Program` of steps; `interpret.execute` walks it and yields effects for a session to
answer. The way in is `load.load`.
Decision: one neutral tree of steps, so that journal, resuming and planning exist once.
Non-goals: nothing here runs a command, reads a clock or touches the disk; files are read
through the one function that `load` is given.
Source: Auto-pilot paper, section 3.1; its manual's Directive Reference.
"""
