//! What the machine tells of its own limits, once: the object `limits` of the first line.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::roots::Roots;
use crate::text::only;

/// Returns `net/I/speed_mbit` (of a device or a bond, where told), `disk/D/{size_bytes,requests,rotational}`,
/// `processes`, `threads`, `files`.
pub fn of_machine(roots: &Roots) -> BTreeMap<String, i64> {
    let mut found = BTreeMap::new();
    for name in entries(&roots.sys.join("class/net")) {
        let link = roots.sys.join("class/net").join(&name);
        // A virtual interface states a speed that holds nothing back: veth 10000, tun 10.
        if link.join("device").exists() || link.join("bonding").exists() {
            // -1: unknown.
            let path = link.join("speed");
            add(&mut found, format!("net/{name}/speed_mbit"), &path, 1);
        }
    }
    for name in entries(&roots.sys.join("block")) {
        let block = roots.sys.join("block").join(&name);
        let disk = format!("disk/{}", name.replace('!', "/"));
        add(
            &mut found,
            format!("{disk}/size_bytes"),
            &block.join("size"),
            512,
        );
        add(
            &mut found,
            format!("{disk}/requests"),
            &block.join("queue/nr_requests"),
            1,
        );
        add(
            &mut found,
            format!("{disk}/rotational"),
            &block.join("queue/rotational"),
            1,
        );
    }
    for (name, path) in [
        ("processes", "sys/kernel/pid_max"),
        ("threads", "sys/kernel/threads-max"),
        ("files", "sys/fs/file-max"),
    ] {
        add(&mut found, name.to_owned(), &roots.proc.join(path), 1);
    }
    found
}

fn add(found: &mut BTreeMap<String, i64>, name: String, path: &Path, unit: i64) {
    let value = fs::read(path).ok().and_then(|text| only(&text));
    if let Some(value) = value.filter(|value| *value >= 0) {
        found.insert(name, value.saturating_mul(unit));
    }
}

fn entries(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect()
}
