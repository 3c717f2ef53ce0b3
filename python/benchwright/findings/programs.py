"""Kinds of programs by their names: generators, servers, storage benchmarks, kernel threads.

Purpose: a thread at 100 % means something different in a load generator and in what it drives.
Decision: lists of names; a program in no list counts as the measured program, never as a
generator. Names have at most 15 characters, as in the kernel.
"""

from __future__ import annotations

import re

_GENERATORS = (
    "ab autocannon bombardier cassowary dnsperf drill flent gatling ghz goose h2load hammer "
    "hey httperf iperf iperf3 k6 locust mcperf memaslap memcslap memslap memtier_benchmark "
    "memtier_benchma mutilate mysqlslap netperf oha perf_client pgbench plow qperf "
    "queryperf redis-benchmark resperf siege sockperf sysbench tsung vegeta weighttp wrk wrk2 ycsb"
)
_SERVERS = (
    "apache2 caddy clickhouse-serv etcd envoy glusterfsd h2o haproxy httpd iperf iperf3 lighttpd "
    "mariadbd memcached mongod mysqld named netserver nfsd nginx ntpd postgres postmaster "
    "redis-server smbd squid sshd traefik unbound unfsd uwsgi valkey-server varnishd"
)
_STORAGE = (
    "bonnie bonnie++ bw-engine bw-worker dbench dd diskspd fileio filebench fio fs_mark fsx fsmark hdparm "
    "ioping ior iozone mdtest postmark sysbench xdd"
)
GENERATORS = frozenset(name[:15] for name in _GENERATORS.split())
"""Programs that drive another process, and do no work of their own."""
SERVERS = frozenset(_SERVERS.split())
"""Programs that a generator may drive without being named as a target."""
STORAGE = frozenset(_STORAGE.split())
"""Programs that measure a disk or a file system."""
_KERNEL = re.compile(
    r"(kworker|ksoftirqd|migration|rcu\w*|cpuhp|irq|idle_inject|jbd2|xfs(aild|\w*)?|nvme\w*|"
    r"kdmflush|scsi_\w+|dm\w*|md\w*)[/:-].*|"
    r"(kthreadd|kswapd\d*|kcompactd\d*|khugepaged|ksmd|kblockd|kauditd|khungtaskd|oom_reaper|"
    r"writeback|loop\d+|md\d+_\w+|btrfs-.*|rcu_\w+|kdevtmpfs|watchdogd|kthrotld|z_\w+)"
)
_OWN = ("bw-launcher", "bw-sampler")
_ENGINE = ("bw-worker-", "bw-engine", "bw-file-", "bw-reporter")


def plain(name: str) -> str:
    """Return a thread's name without its number or role: `nginx: worker` -> `nginx`."""
    return re.split(r"[:\s\[(/]", name.strip(), maxsplit=1)[0][:15]


def is_generator(name: str) -> bool:
    """Return whether a thread of this name belongs to a known load generator."""
    return plain(name) in GENERATORS or is_engine(name)


def is_engine(name: str) -> bool:
    """Return whether it is our engine, which spins, so that it is busy even without work."""
    return name.startswith(_ENGINE)


def is_own(name: str) -> bool:
    """Return whether it is a program with which bw starts or watches trials."""
    return name.startswith(_OWN)


def is_server(name: str) -> bool:
    """Return whether a process of this name is a known server."""
    return plain(name) in SERVERS


def has_one_thread(name: str) -> bool:
    """Return whether a server answers all requests in one thread, even if it has others."""
    return plain(name) in ("redis-server", "valkey-server")


def may_drive_nothing(name: str) -> bool:
    """Return whether a generator also has tests of the machine itself: `sysbench cpu`."""
    return plain(name) == "sysbench"


def polls(name: str) -> bool:
    """Return whether it is the kernel's thread that polls an io_uring ring."""
    return name.startswith("iou-sqp-")


def is_storage(name: str) -> bool:
    """Return whether a thread of this name belongs to a known benchmark of storage."""
    found = plain(name)
    return found in STORAGE or is_engine(name)


def is_kernel(name: str) -> bool:
    """Return whether a process of this name is a kernel thread, which works for any process; the
    sampler writes such names in brackets."""
    return name.startswith("[") or _KERNEL.fullmatch(name) is not None
