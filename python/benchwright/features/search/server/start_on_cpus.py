"""A program that starts another one: bound to CPUs, in cgroups, or in the background.

    start_on_cpus.py pin CPUS GROUPS -- COMMAND...
    start_on_cpus.py leave CPUS GROUPS PIDFILE LOG -- COMMAND...

CPUS is `0,2` or `-`; GROUPS are the directories of cgroups that the command joins, `A:B` or `-`.
`leave` starts the command in its own session with its output in LOG.out and LOG.err, writes its
process id to PIDFILE and exits; the exit status is 127 if the command cannot be started. Decision:
our own script, run by this Python without its libraries (-I -S, 10 ms). Rejected: `taskset` and
`setsid`, which some systems lack, and a shell's `&`, which makes the server ignore SIGINT. The
script imports nothing of this package.
"""

from __future__ import annotations

import os
import signal
import sys

NOT_STARTED = 127


def bind(cpus: str) -> None:
    """Bind this process and its future command to CPUs."""
    if cpus != "-":
        os.sched_setaffinity(0, {int(cpu) for cpu in cpus.split(",")})


def join(groups: str) -> None:
    """Move this process and its future command into cgroups."""
    for group in groups.split(":") if groups != "-" else ():
        with open(f"{group}/cgroup.procs", "w") as file:
            file.write("0")


def unignore() -> None:
    """Restore the signals that Python ignores: a command would inherit that, and a
    shell's `yes | head` would not end."""
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)


def replace_by(argv: list[str]) -> None:
    """Replace this process by a command; exit with 127 if that fails."""
    unignore()
    try:
        os.execvp(argv[0], argv)
    except OSError as error:
        text = f"{argv[0]} cannot be started: {error.strerror}\n"
        sys.stderr.write(text)
        sys.stderr.flush()
        os._exit(NOT_STARTED)


def run_in_background(pid_file: str, log: str, argv: list[str]) -> int:
    """Start a command in the background; return the exit status."""
    # A successful exec closes the pipe, so the read below then sees the end of file.
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
    """Execute the arguments; return the exit status."""
    own, argv = words[: words.index("--")], words[words.index("--") + 1 :]
    bind(own[1])
    join(own[2])
    if own[0] == "pin":
        replace_by(argv)
    return run_in_background(own[3], own[4], argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
