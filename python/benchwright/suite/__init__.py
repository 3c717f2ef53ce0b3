"""The suite languages, and the interpreter of the one program they compile to.

Purpose: `.ap` (Auto-pilot's language), `.toml` and the command line each compile to a
`Program` of steps; `interpret.execute` walks it and yields effects, which a session answers.
The entry point for files is `compile.load`.
Decision: one tree of steps for all languages, so that journal, resuming and planning exist once.
Non-goals: commands and clocks. Files are read only through a function that the caller passes
(`source.read_regular` is the one for the disk).
Source: Auto-pilot paper, section 3.1; its manual's Directive Reference.
"""
