"""Captures of made-up machines: bare metal, a guest, a container."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchwright.machine.capture_hardware import mount_of, read_mount
from benchwright.machine.sources import MachineFiles
from machine_trees import CPU, MachineTree, bare_metal, container, guest

NOT_ALLOWED = "permission denied"


@pytest.fixture
def metal(tmp_path: Path) -> MachineTree:
    """Return the bare machine."""
    return bare_metal(tmp_path)


def test_the_processors_of_bare_metal(metal: MachineTree) -> None:
    found = metal.values()
    expected = {
        "cpu.model": "Xeon Made Up",
        "cpu.microcode": "0xd0003b9",
        "cpu.flags": "sse2 fpu avx2",
        "cpu.packages": "2",
        "cpu.cores": "4",
        "cpu.threads": "8",
        "cpu.cache_l1d": "48K x 4",
        "cpu.cache_l3": "24576K x 2",
        "cpu.governor": "performance",
        "cpu.no_turbo": "0",
        "cpu.smt": "on",
        "mitigation.retbleed": "Vulnerable",
        "numa.nodes": "2",
        "numa.1.cpus": "2-3,6-7",
        "numa.1.distances": "21 10",
        "virtual.machine": "none",
        "virtual.container": "none",
        "firmware.product_name": "PowerEdge R650",
    }
    assert {name: found[name] for name in expected} == expected


def test_a_policy_that_differs_says_for_which_processors(metal: MachineTree) -> None:
    metal.write({f"{CPU}/cpufreq/policy7/scaling_governor": "powersave\n"})
    assert metal.values()["cpu.governor"] == "performance (cpu 0,1,2,3,4,5,6); powersave (cpu 7)"


def test_disks_partitions_and_interfaces(metal: MachineTree) -> None:
    found = metal.values()
    expected = {
        "block.nvme0n1.size_bytes": "512000",
        "block.nvme0n1.scheduler": "[none] kyber",
        "block.nvme0n1.rotational": "0",
        "block.nvme0n1.model": "Made Up SSD 1T",
        "partition.nvme0n1p2.size_bytes": "307200",
        "partition.nvme0n1p2.start_bytes": "4096",
        "net.eth0.mtu": "9000",
        "net.eth0.speed": "25000",
        "net.eth0.queues": "1 rx, 2 tx",
        "net.eth0.offloads": "tso on, gro off",
        "net.eth0.firmware": "22.5",
    }
    assert {name: found[name] for name in expected} == expected
    serial = found["block.nvme0n1.serial_hash"]
    assert serial
    assert "S3R1AL" not in serial
    metal.write({"sys/block/nvme0n1/device/serial": "AN0THER\n"})
    assert metal.values()["block.nvme0n1.serial_hash"] != serial


def test_mounts_and_the_working_directory(metal: MachineTree) -> None:
    facts = metal.capture().named()
    assert facts["workdir.mount"].value == "/data/work"
    assert facts["workdir.type"].value == "xfs"
    assert facts["workdir.free_bytes"].value == "1024"
    assert facts["mount./.options"].value == "rw,noatime,data=ordered"
    assert facts["mount./data.device"].value == "//nas/b x"
    assert facts["mount.pseudo"].value == "cgroup2 1, proc 1"
    # A network file system is not asked: the stand-in would raise KeyError.
    assert facts["mount./data.free_bytes"].value is None
    assert "may hang" in facts["mount./data.free_bytes"].absent


def test_no_secret_is_in_a_capture(metal: MachineTree) -> None:
    command = ("curl", "--user-token", "hunter2", "https://me:verysecret@host/")
    for fact in metal.capture(command).facts:
        assert "hunter2" not in (fact.value or "")
        assert "verysecret" not in (fact.value or "")
    found = metal.values(command)
    assert found["env.API_TOKEN"] == "set"
    assert found["mount./data.options"] == "rw,username=set,password=set"
    assert found["kernel.command_line"] == (
        "root=/dev/nvme0n1p2 quiet luks.key=set mitigations=off"
    )


def test_only_variables_that_change_how_programs_run_have_values(metal: MachineTree) -> None:
    secret = "horse1battery"
    names = ("SSHPASS", "LDAP_BINDPW", "MYPASS", "HMAC", "SIGNING", "HOME", "X_ODD")
    metal.environment |= dict.fromkeys(names, secret)
    metal.environment |= {"CFLAGS": f"-O2 -DPASS={secret} -DDB_PW={secret}"}
    metal.environment |= {"OMP_NUM_THREADS": "4", "LC_ALL": "C", "TZ": "UTC"}
    found = metal.values()
    assert {found[f"env.{name}"] for name in names} == {"set"}
    assert found["env.CFLAGS"] == "-O2 -DPASS=[redacted] -DDB_PW=[redacted]"
    assert (found["env.OMP_NUM_THREADS"], found["env.LC_ALL"]) == ("4", "C")
    assert secret not in str(found)


def test_services_timers_and_processes(metal: MachineTree) -> None:
    found = metal.values()
    assert found["systemd.services"] == "cron.service, ssh.service"
    assert found["systemd.timers"] == "apt-daily.timer"
    assert found["cron.files"] == "/etc/cron.d/backup"
    assert found["process.names"] == "a (b) c, chronyd, worker x 2"
    assert found["process.running"] == "a (b) c R, worker D"
    assert found["clock.sync_daemons"] == "chronyd"
    assert found["load.5min"] == "0.20"


def test_the_kernel_s_own_list_of_threads_spares_reading_them(metal: MachineTree) -> None:
    metal.write({"proc/2/task/2/children": "70 71 "})
    found = metal.values()
    assert found["process.names"] == "worker x 2"
    assert found["process.count"] == "2"


def test_graphics_processors(metal: MachineTree) -> None:
    there = {n: v for n, v in metal.values().items() if n.startswith("gpu.")}
    assert there == {"gpu.cards": None}
    nvidia = "proc/driver/nvidia"
    metal.write(
        {
            "sys/class/drm/card0/device/vendor": "0x1002\n",
            "sys/class/drm/card0-DP-1/status": "connected\n",
            f"{nvidia}/gpus/0000:01:00.0/information": "Model: \t Made Up H1\nIRQ: 1\n",
            f"{nvidia}/version": "NVRM version: 555.42\nGCC version: 12\n",
        }
    )
    found = metal.values()
    expected = {
        "gpu.cards": "card0, 0000:01:00.0",
        "gpu.card0.vendor": "0x1002",
        "gpu.nvidia0.model": "Made Up H1",
        "gpu.nvidia_driver": "NVRM version: 555.42",
    }
    assert {n: v for n, v in found.items() if n.startswith("gpu.")} == expected


def test_systemctl_that_does_not_answer_is_absent(metal: MachineTree) -> None:
    del metal.answers["systemctl"]
    fact = metal.capture().named()["systemd.services"]
    assert (fact.value, fact.absent) == (None, "systemctl is not installed")


def test_the_tightest_limit_of_the_ancestors_is_told(metal: MachineTree) -> None:
    facts = metal.capture().named()
    assert facts["cgroup.cpu_limit_cores"].value == "1.5"
    assert facts["cgroup.cpu_limit_cores"].source == "/sys/fs/cgroup/a/cpu.max"
    assert facts["cgroup.memory_max_bytes"].value == "no limit"
    assert facts["cgroup.io_max"].value == "259:0 rbps=1048576 wbps=max"
    assert facts["limit.open_files"].value == "1024, hard 1048576"
    assert facts["self.cpus_allowed"].value == "0-7"
    assert facts["self.user_id"].value == "1000"


def test_a_guest_has_less_and_says_so(tmp_path: Path) -> None:
    facts = guest(tmp_path).capture().named()
    assert facts["virtual.machine"].value == "qemu"
    assert facts["cpu.governor"].value is None
    assert facts["cpu.governor"].absent == "no such file"
    assert facts["numa.nodes"].value is None
    assert facts["systemd.services"].absent == "systemd does not run here"
    assert facts["block.vda.scheduler"].value == "[none] mq-deadline"
    # A loop device without a file behind it is none.
    assert not any(name.startswith("block.loop0") for name in facts)
    # Not a word of the kernel's about turbo is not "off".
    assert facts["cpu.no_turbo"].value is None


def test_a_container_has_its_own_limits(tmp_path: Path) -> None:
    found = container(tmp_path).values()
    assert found["virtual.container"] == "podman"
    assert found["cgroup.cpu_limit_cores"] == "0.5"
    assert found["cgroup.memory_max_bytes"] == "268435456"
    assert found["cgroup.pids_max"] == "64"


def test_both_versions_of_cgroups_at_once(tmp_path: Path) -> None:
    machine = guest(tmp_path)
    machine.write(
        {
            "proc/self/cgroup": "4:memory:/job\n1:cpu,cpuacct:/job\n0::/job\n",
            "proc/self/mountinfo": (
                "1 0 0:1 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n"
                "2 0 0:2 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
                "3 0 0:3 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
            ),
            "sys/fs/cgroup/cpu/job/cpu.cfs_quota_us": "25000\n",
            "sys/fs/cgroup/cpu/job/cpu.cfs_period_us": "100000\n",
            "sys/fs/cgroup/memory/job/memory.limit_in_bytes": "9223372036854771712\n",
            "sys/fs/cgroup/unified/cgroup.controllers": "hugetlb\n",
        }
    )
    facts = machine.capture().named()
    assert facts["cgroup.cpu_limit_cores"].value == "0.25"
    assert facts["cgroup.memory_max_bytes"].value == "no limit"
    assert facts["cgroup.memory_high_bytes"].absent == "cgroup version 1 has none"
    assert "no cgroup hierarchy" in facts["cgroup.pids_max"].absent


@pytest.mark.parametrize(
    ("files", "kind"),
    [
        ({"sys/hypervisor/type": "xen\n"}, "xen"),
        ({"sys/class/dmi/id/product_name": "KVM\n"}, "kvm"),
        ({"sys/class/dmi/id/sys_vendor": "VMware, Inc.\n"}, "vmware"),
        ({"sys/class/dmi/id/sys_vendor": "Microsoft Corporation\n"}, "none"),
        ({"proc/cpuinfo": "flags : fpu hypervisor\n"}, "a virtual machine of unknown kind"),
    ],
)
def test_what_virtual_machine_it_is(tmp_path: Path, files: dict[str, str], kind: str) -> None:
    machine = container(tmp_path)
    machine.write(files)
    assert machine.values()["virtual.machine"] == kind


@pytest.mark.parametrize(
    "stat",
    [
        "",
        "7 (x) S",
        "x (x) S 1 1 0 0 0 0",
        "7 (x) S p 1 0 0 0 f 0",
        "7 (x) S 1 1 0 0 0 f",
        "7 (x) S 1 1 0 0 0 0" + 12 * " 0",
        "7 (x) S 1 1 0 0 0 0" + 12 * " 0" + " f",
    ],
)
def test_a_process_that_cannot_be_read_is_left_out(metal: MachineTree, stat: str) -> None:
    metal.write({"proc/71/stat": stat})
    assert metal.values()["process.names"] == "chronyd, worker x 2"


def test_an_endless_list_of_processors_ends(metal: MachineTree) -> None:
    """A number of a CPU that no kernel has: the list is not read."""
    metal.write({f"{CPU}/online": f"0-{10**18}\n"})
    assert metal.values()["cpu.threads"] is None


def test_an_empty_machine_is_all_absent(tmp_path: Path) -> None:
    machine = MachineTree(tmp_path, {})
    facts = machine.capture().facts
    assert all(f.absent for f in facts if f.value is None)
    from_files = [f for f in facts if f.source.startswith(("/proc", "/sys"))]
    there = {f.name: f.value for f in from_files if f.value is not None}
    assert there == {}


def test_names_are_in_order_and_each_once(metal: MachineTree) -> None:
    names = [f.name for f in metal.capture().facts]
    assert names == sorted(set(names))


def test_a_fifo_in_the_way_holds_nothing_up(tmp_path: Path) -> None:
    import os

    os.mkfifo(tmp_path / "fifo")
    assert MachineFiles(str(tmp_path)).read("/fifo").text == ""


def test_the_mount_of_a_directory_is_the_innermost_and_the_last() -> None:
    lines = (
        "1 0 0:1 / / rw - ext4 a rw",
        "2 0 0:1 / /data rw - ext4 b rw",
        "3 0 0:1 / /data rw - ext4 c rw",
        "4 0 0:1 / /data2 rw - ext4 d rw",
    )
    mounts = [m for m in map(read_mount, lines) if m is not None]
    assert len(mounts) == 4
    for directory, source in (("/data/x", "c"), ("/data2", "d"), ("/datax", "a")):
        found = mount_of(mounts, directory)
        assert found is not None
        assert found.source == source
    assert read_mount("no such line") is None
