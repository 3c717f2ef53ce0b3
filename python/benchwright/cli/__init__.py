"""The command line: arguments -> request -> call -> output. Thin.

Every module here imports only the standard library's light parts at the top; what a
command needs is imported when it runs, so that `bw --help` stays under 100 ms.
"""
