//! All sources of the machine as a whole, in the order of their columns.

use crate::clocks::Clocks;
use crate::columns::{FileSource, Source};
use crate::cpu::Cpu;
use crate::disks::Disks;
use crate::interfaces::Interfaces;
use crate::keyed::{MEMORY, Memory, VM, Vm};
use crate::pressure::Pressure;
use crate::roots::Roots;
use crate::small::FileTable;
use crate::sockets::{NETSTAT, SNMP, Sockets, Softnet};
use crate::softirqs::SoftIrqs;

/// Returns the sources. The processors come first: they tell of forks.
pub fn sources(roots: &Roots) -> Vec<Box<dyn Source>> {
    let proc = |name: &str| roots.proc.join(name);
    let disks = Disks::new(roots.sys.join("block"));
    vec![
        Box::new(FileSource::new(proc("stat"), Cpu::default())),
        Box::new(FileSource::new(proc("softirqs"), SoftIrqs::default())),
        Box::new(FileSource::new(
            proc("meminfo"),
            Memory::new("memory/", MEMORY),
        )),
        Box::new(FileSource::new(proc("vmstat"), Vm::new("vm/", VM))),
        Box::new(FileSource::new(proc("diskstats"), disks)),
        Box::new(FileSource::new(proc("net/dev"), Interfaces::default())),
        Box::new(FileSource::new(proc("net/snmp"), Sockets::new(SNMP))),
        Box::new(FileSource::new(proc("net/netstat"), Sockets::new(NETSTAT))),
        Box::new(FileSource::new(proc("net/softnet_stat"), Softnet)),
        Box::new(FileSource::new(proc("sys/fs/file-nr"), FileTable)),
        Box::new(FileSource::new(proc("pressure/cpu"), Pressure::new("cpu"))),
        Box::new(FileSource::new(
            proc("pressure/memory"),
            Pressure::new("memory"),
        )),
        Box::new(FileSource::new(proc("pressure/io"), Pressure::new("io"))),
        Box::new(Clocks::new(roots)),
    ]
}
