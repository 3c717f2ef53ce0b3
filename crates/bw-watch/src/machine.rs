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

/// How often a source is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// At every sample.
    Sample,
    /// Once a second and at both ends; between these its columns keep their values.
    Second,
}

/// A source, how often it is read, and how many columns it has now.
pub struct Paced {
    /// The source.
    pub source: Box<dyn Source>,
    /// How often it is read.
    pub pace: Pace,
    /// Its columns.
    pub width: usize,
}

/// Returns the sources, the processors first. Two of the network's files cost as much as all
/// others together and tell of rare events: they have the slow pace.
pub fn sources(roots: &Roots) -> Vec<Paced> {
    let proc = |name: &str| roots.proc.join(name);
    let disks = Disks::new(roots.sys.join("block"));
    vec![
        paced(Pace::Sample, FileSource::new(proc("stat"), Cpu::default())),
        paced(
            Pace::Sample,
            FileSource::new(proc("softirqs"), SoftIrqs::default()),
        ),
        paced(
            Pace::Sample,
            FileSource::new(proc("meminfo"), Memory::new("memory/", MEMORY)),
        ),
        paced(
            Pace::Sample,
            FileSource::new(proc("vmstat"), Vm::new("vm/", VM)),
        ),
        paced(Pace::Sample, FileSource::new(proc("diskstats"), disks)),
        paced(
            Pace::Sample,
            FileSource::new(proc("net/dev"), Interfaces::default()),
        ),
        paced(
            Pace::Second,
            FileSource::new(proc("net/snmp"), Sockets::new(SNMP)),
        ),
        paced(
            Pace::Second,
            FileSource::new(proc("net/netstat"), Sockets::new(NETSTAT)),
        ),
        paced(
            Pace::Second,
            FileSource::new(proc("net/softnet_stat"), Softnet),
        ),
        paced(
            Pace::Sample,
            FileSource::new(proc("sys/fs/file-nr"), FileTable),
        ),
        paced(
            Pace::Sample,
            FileSource::new(proc("pressure/cpu"), Pressure::new("cpu")),
        ),
        paced(
            Pace::Sample,
            FileSource::new(proc("pressure/memory"), Pressure::new("memory")),
        ),
        paced(
            Pace::Sample,
            FileSource::new(proc("pressure/io"), Pressure::new("io")),
        ),
        paced(Pace::Second, Clocks::new(roots)),
    ]
}

fn paced(pace: Pace, source: impl Source + 'static) -> Paced {
    Paced {
        source: Box::new(source),
        pace,
        width: 0,
    }
}
