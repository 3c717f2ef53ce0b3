"""A program that starts another one: it binds it to CPUs, or leaves it in the background.

    start_on_cpus.py pin CPUS -- COMMAND...
    start_on_cpus.py leave CPUS PIDFILE LOG -- COMMAND...

CPUS is `0,2` or `-`. `leave` starts the command in a session of its own with its output in
LOG.out and LOG.err, writes its process id to PIDFILE and ends; a command that cannot be
started is status 127 here. Decision: a script of ours, run by this Python without its
libraries (-I -S, 10 ms); `taskset` and `setsid` lost, which not every system has, and a shell's
`&`, which makes the server ignore SIGINT. It imports nothing of this package.
"""

from __future__ import annotations

import os
import signal
import sys

NOT_STARTED = 127


def bind(cpus: str) -> None:
    """Bind this process, and what it becomes, to CPUs."""
    if cpus != "-":
        os.sched_setaffinity(0, {int(cpu) for cpu in cpus.split(",")})


def unignore() -> None:
    """Give back the signals that Python ignores: an ignored one stays so in a command, and
    a shell's `yes | head` would not end."""
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)


def replace_by(argv: list[str]) -> None:
    """Replace this process by a command; end with 127 where it cannot be."""
    unignore()
    try:
        os.execvp(argv[0], argv)
    except OSError as error:
        text = f"{argv[0]} cannot be started: {error.strerror}\n"
        sys.stderr.write(text)
        sys.stderr.flush()
        os._exit(NOT_STARTED)


def run_in_background(pid_file: str, log: str, argv: list[str]) -> int:
    """Start a command in the background; return the status to end with."""
    # Closed by a successful exec: then the read below sees the end of file.
    told, telling = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(told)
        os.setsid()
        for stream, end in ((1, "out"), (2, "err")):
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
            os.dup2(os.open(f"{log}.{end}", flags, 0o644), stream)
        unignore()
        try:
            os.execvp(argv[0], argv)
        except OSError as error:
            text = f"{argv[0]} cannot be started: {error.strerror}\n"
            os.write(telling, text.encode())
            os._exit(NOT_STARTED)
    os.close(telling)
    with os.fdopen(told) as pipe:
        trouble = pipe.read()
    if trouble:
        os.waitpid(child, 0)
        sys.stderr.write(trouble)
        return NOT_STARTED
    with open(pid_file, "w") as file:
        file.write(f"{child}\n")
    return 0


def main(words: list[str]) -> int:
    """Carry out the arguments; return the exit status."""
    own, argv = words[: words.index("--")], words[words.index("--") + 1 :]
    bind(own[1])
    if own[0] == "pin":
        replace_by(argv)
    return run_in_background(own[2], own[3], argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
