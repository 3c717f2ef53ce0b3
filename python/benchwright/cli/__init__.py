"""The command line: arguments -> request -> call -> output.

Imports that take long are inside functions, and the module of a command is imported only for
that command, so that `bw --help` takes less than 100 ms.
"""
