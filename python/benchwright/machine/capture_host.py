"""The host: operating system, kernel, firmware, virtualisation, clock.

Decision: virtualisation is read from the places that systemd-detect-virt looks at; asking
the processor itself (CPUID) takes machine code, so a hypervisor without DMI has no name
here. The machine's id is kept as a hash made for us alone, as machine-id(5) asks for.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator

from benchwright.machine.redact import redacted_text
from benchwright.machine.tree import NOT_IN_FILE, Tree, known, missing
from benchwright.machine.vocabulary import EXPECTED, FATAL, FIRMWARE, HOST, SUSPICIOUS
from benchwright.model.machine import Fact

_VENDORS = (
    *(("KVM", "kvm"), ("QEMU", "qemu"), ("Amazon EC2", "amazon"), ("Google", "google")),
    *(("VMware", "vmware"), ("VMW", "vmware"), ("innotek GmbH", "oracle")),
    *(("VirtualBox", "oracle"), ("Xen", "xen"), ("Bochs", "bochs")),
    *(("Parallels", "parallels"), ("BHYVE", "bhyve"), ("Hyper-V", "microsoft")),
    *(("Microsoft Corporation", "microsoft"), ("Apple Virtualization", "apple")),
    *(("OpenStack", "kvm"), ("KubeVirt", "kvm"), ("DigitalOcean", "kvm")),
)
_DMI = ("product_name", "sys_vendor", "board_vendor", "bios_vendor")
_CONTAINER_MARKS = (
    ("/run/.containerenv", "podman"),
    ("/.dockerenv", "docker"),
)
_IN_CGROUP = re.compile(r"docker|kubepods|lxc|containerd|libpod|garden")


def host_facts(tree: Tree) -> Iterator[Fact]:
    """Yield what is known of operating system, kernel, firmware and clock."""
    yield from _system(tree)
    yield from tree.facts(HOST)
    yield tree.fact("kernel.command_line", "/proc/cmdline", change=redacted_text)
    yield _modules(tree)
    yield from tree.facts(FIRMWARE)
    yield _machine_id(tree)


def virtualisation_facts(tree: Tree) -> Iterator[Fact]:
    """Yield the virtual machine and the container that this runs in, or `none`."""
    kind, source = _hypervisor(tree)
    if kind:
        yield known("virtual.machine", kind, source, FATAL)
    else:
        reason = "this architecture's /proc/cpuinfo does not tell"
        yield missing("virtual.machine", source, reason, FATAL)
    kind, source = _container(tree)
    if kind:
        yield known("virtual.container", kind, source, SUSPICIOUS)
    else:
        yield missing("virtual.container", source, "no such file", SUSPICIOUS)


def _system(tree: Tree) -> Iterator[Fact]:
    path = "/etc/os-release"
    text, absent = tree.read(path)
    if text is None:
        path = "/usr/lib/os-release"
        text, absent = tree.read(path)
    pairs = dict(
        line.split("=", 1) for line in (text or "").splitlines() if "=" in line
    )
    for name, key in (("os.name", "PRETTY_NAME"), ("os.version", "VERSION_ID")):
        if key in pairs:
            yield known(name, pairs[key].strip("\"'"), path, SUSPICIOUS)
        else:
            yield missing(name, path, absent or NOT_IN_FILE, SUSPICIOUS)
    yield tree.fact("os.debian_version", "/etc/debian_version")


def _modules(tree: Tree) -> Fact:
    """Return the loaded modules' names. They come and go as file systems are mounted."""
    text, absent = tree.read("/proc/modules")
    if text is None:
        return missing("kernel.modules", "/proc/modules", absent, EXPECTED)
    names = sorted(line.split(" ", 1)[0] for line in text.splitlines())
    return known("kernel.modules", ", ".join(names), "/proc/modules", EXPECTED)


def _machine_id(tree: Tree) -> Fact:
    path = "/etc/machine-id"
    text, absent = tree.read(path)
    if not text:
        return missing("host.id_hash", path, absent or "empty", SUSPICIOUS)
    hashed = hashlib.sha256(f"benchwright machine {text}".encode()).hexdigest()
    return known("host.id_hash", hashed[:16], path, SUSPICIOUS)


def _hypervisor(tree: Tree) -> tuple[str, str]:
    """Return what virtual machine this is, or `none`, and where that is from; empty where
    nothing tells."""
    path = "/sys/hypervisor/type"
    kind = tree.read(path).text
    if kind or tree.exists("/proc/xen"):
        path = path if kind else "/proc/xen"
        if "control_d" in tree.text("/proc/xen/capabilities"):
            return "none (xen's own host)", "/proc/xen/capabilities"
        return kind or "xen", path
    for file in _DMI:
        path = f"/sys/class/dmi/id/{file}"
        text = tree.text(path)
        for vendor, name in _VENDORS:
            if text.startswith(vendor) and _is_guest(tree, name):
                return name, path
    if "qemu" in tree.text("/proc/device-tree/hypervisor/compatible"):
        return "qemu", "/proc/device-tree/hypervisor/compatible"
    if "User Mode Linux" in _cpuinfo(tree):
        return "uml", "/proc/cpuinfo"
    if _has_hypervisor_flag(tree):
        return "a virtual machine of unknown kind", "/proc/cpuinfo"
    # Only x86 has a flag for it: without flags nothing is known.
    has_flags = re.search(r"^flags\s*:", _cpuinfo(tree), re.MULTILINE)
    return "none" if has_flags else "", "/proc/cpuinfo"


def _is_guest(tree: Tree, name: str) -> bool:
    """Tell whether a vendor's name means a guest: some also build real machines."""
    return name not in ("amazon", "google", "microsoft") or _has_hypervisor_flag(tree)


def _has_hypervisor_flag(tree: Tree) -> bool:
    found = re.search(r"^flags\s*:.*\bhypervisor\b", _cpuinfo(tree), re.MULTILINE)
    return found is not None


def _cpuinfo(tree: Tree) -> str:
    return tree.read("/proc/cpuinfo", 1 << 14).text or ""


def _container(tree: Tree) -> tuple[str, str]:
    """Return what container this is, or `none`, and where that is from."""
    path = "/run/systemd/container"
    if kind := tree.text(path):
        return kind, path
    path = "/proc/1/environ"
    found = re.search(r"(?:^|\0)container=([\w.-]+)", tree.text(path))
    if found:
        return found[1], path
    for path, kind in _CONTAINER_MARKS:
        if tree.exists(path):
            return kind, path
    if tree.exists("/proc/vz") and not tree.exists("/proc/bc"):
        return "openvz", "/proc/vz"
    if "microsoft" in tree.text("/proc/sys/kernel/osrelease").lower():
        return "wsl", "/proc/sys/kernel/osrelease"
    path = "/proc/self/cgroup"
    text = tree.read(path).text
    if text is None:
        return "", path
    found = _IN_CGROUP.search(text)
    return (found[0] if found else "none"), path
