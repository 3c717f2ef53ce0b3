"""Options of other load generators, and what they are called here.

Purpose: who knows fio or wrk2 types its names first; the error then says ours.
Decision: hints, not aliases: an alias would promise the other tool's meaning (fio's `rate` is
bytes a second, its `iodepth` without a rate a closed loop). Source: fio(1), wrk2's README.
"""

from __future__ import annotations

from collections.abc import Sequence

_NAMES = {
    "--bs": "--block 4k",
    "--blocksize": "--block 4k",
    "--bsrange": "--block 'uniform 4k..64k'",
    "--iodepth": "--depth 32",
    "--rw": "--read 70% and --location sequential",
    "--readwrite": "--read 70% and --location sequential",
    "--rwmixread": "--read 70%",
    "--random_distribution": "--location zipf:1.2",
    "--ioengine": "--engine io_uring",
    "--filename": "--target FILE",
    "--runtime": "--duration 30s",
    "--ramp_time": "--warm-up 1s",
    "--numjobs": "--workers 2",
    "--rate_iops": "--rate 10k",
    "--rate_process": "--arrival poisson",
    "--thinktime": "--think 1ms",
    "--cpus_allowed": "--cpu 1",
    "--randseed": "--seed 1",
    "--read_iolog": "bw replay TRACE",
    "--replay_time_scale": "--speed 4x",
    "-R": "--rate 10k",
    "--rps": "--rate 10k",
    "-c": "--connections 64",
    "-t": "--workers 2",
    "--threads": "--workers 2",
    "-d": "--duration 30s",
    "--vus": "--depth 10 without --rate (a closed loop)",
    "-u": "--depth 10 without --rate (a closed loop)",
}


def hints_of(command: str, unknown: Sequence[str]) -> list[str]:
    """Return a hint for each unknown option of `bw load` or `bw replay` known elsewhere."""
    if command not in ("load", "replay"):
        return []
    said = dict.fromkeys(word.partition("=")[0] for word in unknown)
    return [f"{name}: here {_NAMES[name]}" for name in said if name in _NAMES]
