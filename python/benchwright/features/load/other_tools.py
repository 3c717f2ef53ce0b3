"""Options of other load generators, and what has their meaning in `bw load` and `bw replay`.

Decision: hints, not aliases, because the meanings differ: fio's `rate` is in bytes per second, its
`iodepth` without a rate a closed loop. Sources: fio(1), wrk2's README.
"""

from __future__ import annotations

OPTIONS = {
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
