//! Whole watches over a simulated /proc and /sys: processes and devices that appear and disappear, and other machines.

#![allow(clippy::unwrap_used)]

use bw_watch::arguments::Roots;
use bw_watch::series::WatchRequest;
use bw_watch::watch::Watch;
use serde_json::Value;
use std::fs;
use std::io::Read as _;
use std::path::Path;
use tempfile::TempDir;

/// A machine in a directory, removed on drop.
struct Machine {
    folder: TempDir,
}

impl Machine {
    /// Returns a machine with one CPU, one disk with a partition, and process 10 with a child 11 and a thread.
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let machine = Self { folder };
        machine.write(
            "proc/stat",
            "cpu  1 2\ncpu0 10 0 5 100 0 0 0 0 0 0\nctxt 5\nprocesses 20\n",
        );
        machine.write(
            "proc/diskstats",
            "8 0 sda 1 0 8 1 0 0 0 0 0 1 1\n8 1 sda1 1 0 8 1 0 0 0 0 0 1 1\n",
        );
        machine.write("sys/block/sda/size", "2048\n");
        machine.process(10, 1, "root");
        machine.process(11, 10, "child");
        machine
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn process(&self, pid: i32, ppid: i32, name: &str) {
        let stat =
            format!("{pid} ({name}) S {ppid} 0 0 0 -1 0 0 0 1 0 7 3 2 1 20 0 1 0 {pid}00 0 25 0\n");
        self.write(&format!("proc/{pid}/stat"), &stat);
        self.write(&format!("proc/{pid}/task/{pid}/stat"), &stat);
    }

    /// Watches while `act` changes something between two samples; returns the lines.
    fn watch(&self, act: impl FnOnce(&Self)) -> Vec<Value> {
        let out = self.folder.path().join("series.jsonl.gz");
        let watch = Watch::begin(request(&out), &self.roots()).unwrap();
        act(self);
        let done = watch.end();
        assert_eq!(done.error, "");
        assert_eq!(done.samples, 2);
        read(&out)
    }

    fn roots(&self) -> Roots {
        Roots {
            proc: self.folder.path().join("proc"),
            sys: self.folder.path().join("sys"),
            kmsg: self.folder.path().join("kmsg"),
        }
    }
}

fn request(out: &Path) -> WatchRequest {
    WatchRequest {
        id: 1,
        out: out.to_owned(),
        root_pid: 10,
        interval_ns: 1_000_000,
        copies: false,
        watcher_pids: Vec::new(),
        extra_pids: Vec::new(),
    }
}

fn read(out: &Path) -> Vec<Value> {
    let mut text = String::new();
    let file = fs::File::open(out).unwrap();
    let mut file = flate2::read::GzDecoder::new(file);
    file.read_to_string(&mut text).unwrap();
    let lines = text.lines();
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn of<'a>(lines: &'a [Value], kind: &str) -> Vec<&'a Value> {
    lines.iter().filter(|line| line["type"] == kind).collect()
}

/// Returns the value of a column in row number `row`, by the last column names before it.
fn value(lines: &[Value], row: usize, name: &str) -> Value {
    let mut names = &Value::Null;
    let mut seen = 0;
    for line in lines {
        if line["type"] == "columns" {
            names = &line["names"];
        }
        if line["type"] == "row" {
            if seen == row {
                let place = names.as_array().unwrap().iter().position(|n| n == name);
                return place.map_or(Value::Null, |place| line["v"][place].clone());
            }
            seen += 1;
        }
    }
    Value::Null
}

#[test]
fn a_machine_that_tells_little_is_watched_and_what_is_missing_is_named() {
    let lines = Machine::new().watch(|_| {});
    let absent = of(&lines, "series")[0]["absent"].as_array().unwrap();
    let absent: Vec<&str> = absent
        .iter()
        .map(|pair| pair[0].as_str().unwrap())
        .collect();
    for what in [
        "memory",
        "vm",
        "net",
        "tcp",
        "softnet",
        "pressure",
        "frequency",
        "kernel",
    ] {
        assert!(absent.contains(&what), "{what}");
    }
    assert_eq!(value(&lines, 0, "cpu/0/user"), 10);
    assert_eq!(value(&lines, 1, "cpu/0/user"), 0);
    assert_eq!(value(&lines, 0, "disk/sda1/reads"), Value::Null);
    assert_eq!(value(&lines, 0, "disk/sda/flushes"), Value::Null);
    assert_eq!(
        of(&lines, "series")[0]["limits"]["disk/sda/size_bytes"],
        2048 * 512
    );
    assert_eq!(of(&lines, "columns").len(), 1);
    assert_eq!(lines.last().unwrap()["type"], "end");
}

#[test]
fn a_tree_without_children_files_schedstat_and_io_is_found_by_parents() {
    let lines = Machine::new().watch(|machine| {
        machine.process(5, 11, "low");
        machine.process(12, 5, "new");
        machine.process(13, 1, "other");
        machine.write("proc/stat", "cpu0 10 0 5 100 0 0 0 0 0 0\nprocesses 23\n");
    });
    let own = of(&lines, "own");
    let pids = |line: &Value| -> Vec<i64> {
        let rows = line["rows"].as_array().unwrap().iter();
        rows.map(|row| row[0].as_i64().unwrap()).collect()
    };
    assert_eq!(pids(own[0]), [10, 11]);
    assert_eq!(pids(own[1]), [5, 10, 11, 12]);
    // 7 + 3 ticks; the waiting time is unknown.
    let ticks = 1_000_000_000 / 100;
    assert_eq!(own[0]["rows"][0][4], 10 * ticks);
    assert_eq!(own[0]["rows"][0][5], Value::Null);
    assert_eq!(value(&lines, 0, "own/user_ns"), 2 * (7 + 2) * ticks);
    assert_eq!(value(&lines, 0, "own/read_chars"), Value::Null);
    assert_eq!(
        of(&lines, "processes")[1]["rows"].as_array().unwrap().len(),
        5
    );
}

#[test]
fn a_disk_that_comes_makes_new_columns_and_its_values_are_whole() {
    let lines = Machine::new().watch(|machine| {
        machine.write("sys/block/nvme0n1/size", "1\n");
        machine.write(
            "proc/diskstats",
            "8 0 sda 3 0 8 1 0 0 0 0 0 1 1\n259 0 nvme0n1 9 0 8 1 0 0 0 0 0 1 1\n",
        );
    });
    assert_eq!(of(&lines, "columns").len(), 2);
    assert_eq!(value(&lines, 0, "disk/nvme0n1/reads"), Value::Null);
    assert_eq!(value(&lines, 1, "disk/nvme0n1/reads"), 9);
    assert_eq!(value(&lines, 1, "disk/sda/reads"), 3);
}

#[test]
fn a_processor_that_goes_has_no_columns_any_more() {
    let machine = Machine::new();
    machine.write("proc/stat", "cpu0 1 1 1 1\ncpu1 1 1 1 1\nprocesses 20\n");
    let lines = machine.watch(|machine| {
        machine.write("proc/stat", "cpu0 4 1 1 1\nprocesses 20\n");
    });
    assert_eq!(of(&lines, "series")[0]["cpus"], 2);
    assert_eq!(value(&lines, 0, "cpu/1/user"), 1);
    assert_eq!(value(&lines, 1, "cpu/1/user"), Value::Null);
    assert_eq!(value(&lines, 1, "cpu/0/user"), 4);
}

#[test]
fn a_file_that_cannot_be_read_any_more_is_absent_and_named_at_the_end() {
    let machine = Machine::new();
    machine.write("proc/sys/fs/file-nr", "7 0 100\n");
    let lines = machine.watch(|machine| {
        let path = machine.folder.path().join("proc/sys/fs/file-nr");
        fs::remove_file(&path).unwrap();
        // The open file still exists: only a change elsewhere triggers the search for it.
        machine.write("proc/diskstats", "");
    });
    assert_eq!(value(&lines, 0, "files/open"), 7);
    assert_eq!(value(&lines, 1, "files/open"), Value::Null);
    let end = lines.last().unwrap();
    assert_eq!(end["absent"][0][0], "files");
}

#[test]
fn cgroups_of_version_2_are_reported_with_their_ancestors_limits() {
    let machine = Machine::new();
    let mount = "41 31 0:38 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
    machine.write("proc/self/mountinfo", mount);
    machine.write("proc/10/cgroup", "0::/slice/bench\n");
    machine.write("proc/11/cgroup", "0::/slice/bench\n");
    machine.write("sys/devices/system/cpu/online", "0-7\n");
    machine.write("sys/fs/cgroup/slice/cpu.max", "150000 100000\n");
    machine.write(
        "sys/fs/cgroup/slice/cpu.stat",
        "usage_usec 1\nnr_throttled 2\n",
    );
    let group = "sys/fs/cgroup/slice/bench";
    machine.write(&format!("{group}/cpu.max"), "max 100000\n");
    machine.write(&format!("{group}/cpuset.cpus.effective"), "0-3\n");
    machine.write(&format!("{group}/memory.max"), "1048576\n");
    machine.write(&format!("{group}/memory.high"), "2097152\n");
    machine.write(&format!("{group}/memory.current"), "4096\n");
    machine.write(
        &format!("{group}/memory.events"),
        "low 0\nhigh 0\nmax 5\noom_kill 1\n",
    );
    machine.write(
        &format!("{group}/io.max"),
        "8:0 rbps=max wbps=1000 riops=max wiops=max\n",
    );
    let lines = machine.watch(|machine| {
        machine.write(
            &format!("{group}/memory.events"),
            "low 0\nhigh 30\nmax 9\noom_kill 1\n",
        );
    });
    let reported = of(&lines, "cgroup");
    assert_eq!(reported.len(), 2);
    assert_eq!(reported[0]["path"], "/slice/bench");
    let limits = &reported[0]["limits"];
    assert_eq!(
        (&limits["cpus"], &limits["memory_bytes"]),
        (&"0-3".into(), &1_048_576.into())
    );
    assert_eq!(limits["io"][0]["name"], "sda");
    assert_eq!(limits["io"][0]["write_bytes_per_s"], 1000);
    assert_eq!(limits["cpu_cores"], Value::Null);
    assert_eq!(reported[1]["limits"]["cpu_cores"], 1.5);
    assert_eq!(value(&lines, 0, "cgroup/0/memory_limit_hits"), 5);
    assert_eq!(value(&lines, 1, "cgroup/0/memory_limit_hits"), 34);
    assert_eq!(value(&lines, 1, "cgroup/1/throttled"), 0);
}

#[test]
fn speeds_are_reported_of_devices_and_bonds_only() {
    let machine = Machine::new();
    for (link, speed) in [
        ("eth0", "1000"),
        ("eth1", "-1"),
        ("bond0", "2000"),
        ("veth1", "10000"),
        ("tun0", "10"),
    ] {
        machine.write(&format!("sys/class/net/{link}/speed"), speed);
    }
    for link in ["eth0", "eth1"] {
        machine.write(&format!("sys/class/net/{link}/device/vendor"), "0x8086\n");
    }
    machine.write("sys/class/net/bond0/bonding/mode", "802.3ad 4\n");
    let lines = machine.watch(|_| {});
    let limits = of(&lines, "series")[0]["limits"].as_object().unwrap();
    let speeds: Vec<_> = limits
        .iter()
        .filter(|(name, _)| name.starts_with("net/"))
        .map(|(name, speed)| (name.as_str(), speed.as_i64().unwrap()))
        .collect();
    let expected = [
        ("net/bond0/speed_mbit", 2000),
        ("net/eth0/speed_mbit", 1000),
    ];
    assert_eq!(speeds, expected);
}

#[test]
fn frequencies_temperatures_and_throttling_are_reported_where_they_are() {
    let machine = Machine::new();
    let cpus = "sys/devices/system/cpu";
    for (cpu, khz) in [(0, "3500000\n"), (10, "800000\n")] {
        machine.write(&format!("{cpus}/cpu{cpu}/cpufreq/scaling_cur_freq"), khz);
    }
    let throttled = format!("{cpus}/cpu0/thermal_throttle/core_throttle_count");
    machine.write(&throttled, "4\n");
    machine.write("sys/class/thermal/thermal_zone1/temp", "-5000\n");
    let lines = machine.watch(|machine| {
        machine.write(&throttled, "6\n");
        machine.write("sys/class/thermal/thermal_zone1/temp", "oops\n");
    });
    assert_eq!(value(&lines, 0, "frequency/10"), 800_000);
    assert_eq!(value(&lines, 0, "thermal/1"), -5000);
    assert_eq!(value(&lines, 1, "thermal/1"), Value::Null);
    assert_eq!(value(&lines, 1, "throttle/0"), 2);
}

#[test]
fn children_are_found_in_the_lists_of_threads() {
    let machine = Machine::new();
    machine.write("proc/10/task/10/children", "11 ");
    machine.write("proc/11/task/11/children", "");
    let out = machine.folder.path().join("series.jsonl.gz");
    let mut watch = Watch::begin(request(&out), &machine.roots()).unwrap();
    machine.process(12, 11, "listed");
    machine.process(13, 11, "unlisted");
    machine.write("proc/11/task/11/children", "12 ");
    machine.write("proc/stat", "cpu0 1 1 1 1\nprocesses 22\n");
    watch.sample();
    // At the end all of /proc is searched.
    watch.end();
    let lines = read(&out);
    let own = of(&lines, "own");
    let counts = own
        .iter()
        .map(|line| line["rows"].as_array().unwrap().len());
    assert_eq!(counts.collect::<Vec<_>>(), [2, 3, 4]);
}

#[test]
fn children_of_a_watcher_in_the_own_tree_are_the_trials_and_not_itself() {
    let machine = Machine::new();
    machine.process(12, 11, "server");
    let out = machine.folder.path().join("series.jsonl.gz");
    let asked = WatchRequest {
        watcher_pids: vec![10, 11],
        extra_pids: vec![12],
        ..request(&out)
    };
    let mut watch = Watch::begin(asked, &machine.roots()).unwrap();
    machine.process(9, 11, "generator");
    machine.process(13, 12, "backend");
    machine.process(14, 1, "other");
    machine.write("proc/stat", "cpu0 1 1 1 1\nprocesses 23\n");
    watch.sample();
    watch.end();
    let lines = read(&out);
    let last = |kind| -> Vec<i64> {
        let tables = of(&lines, kind);
        let rows = tables.last().unwrap()["rows"].as_array().unwrap().iter();
        rows.map(|row| row[0].as_i64().unwrap()).collect()
    };
    assert_eq!(last("watcher"), [10, 11]);
    assert_eq!(last("target"), [12, 13]);
    assert_eq!(last("own"), [9]);
    // What the two watchers waited for (2 ticks each) counts for the trial; their own 7 do not.
    let ticks = 1_000_000_000 / 100;
    assert_eq!(value(&lines, 0, "own/user_ns"), 2 * 2 * ticks);
    assert_eq!(value(&lines, 0, "watcher/user_ns"), 2 * 7 * ticks);
    assert_eq!(value(&lines, 1, "own/user_ns"), (7 + 2) * ticks);
}

#[test]
fn a_thread_of_the_trial_has_its_place_and_a_thread_that_runs_has_none() {
    let machine = Machine::new();
    let arguments = "0x3 0x1 0x0 0x0 0x0 0x0 0x7ffc 0x7f98\n";
    let call = format!("{} {arguments}", libc::SYS_read);
    machine.write("proc/11/task/11/syscall", &call);
    machine.write("proc/11/task/11/wchan", "pipe_read");
    fs::create_dir_all(machine.folder.path().join("proc/11/fd")).unwrap();
    let link = |target: &str| {
        let _ = fs::remove_file(machine.folder.path().join("proc/11/fd/3"));
        std::os::unix::fs::symlink(target, machine.folder.path().join("proc/11/fd/3")).unwrap();
    };
    link("pipe:[77]");
    let lines = machine.watch(|machine| {
        machine.write("proc/11/task/11/syscall", "running\n");
    });
    let places: Vec<&Value> = of(&lines, "own")
        .into_iter()
        .map(|line| row_of(line, 11))
        .collect();
    assert_eq!(places[0][7], 10);
    assert_eq!(
        places[0][8],
        serde_json::json!(["read", "pipe_read", ["pipe"]])
    );
    assert_eq!(places[1][8], Value::Null);
    // Without the file only the kernel's function is known, and the reason is reported.
    fs::remove_file(machine.folder.path().join("proc/11/task/11/syscall")).unwrap();
    let out = machine.folder.path().join("second.jsonl.gz");
    let watch = Watch::begin(request(&out), &machine.roots()).unwrap();
    watch.end();
    let lines = read(&out);
    let place = &row_of(of(&lines, "own")[0], 11)[8];
    assert_eq!(*place, serde_json::json!(["", "pipe_read", []]));
    let absent = of(&lines, "end")[0]["absent"].to_string();
    assert!(
        absent.contains("own/waits") && absent.contains("No such file"),
        "{absent}"
    );
}

#[test]
fn an_event_loop_that_only_its_own_process_wakes_up_has_its_time_limit() {
    let wait = format!(
        "{} 0x3 0x7f98 0x1 0x258 0x0 0x8 0x7ffc 0x7f98\n",
        libc::SYS_epoll_pwait
    );
    // A link of these directories is readable and writable: both ends.
    for (holders, object) in [(&[11][..], "own pipe"), (&[10, 11], "pipe")] {
        let machine = Machine::new();
        machine.write("proc/11/task/11/syscall", &wait);
        machine.write("proc/11/task/11/wchan", "ep_poll");
        machine.write("proc/11/fdinfo/3", "pos: 0\ntfd:        4 events: 19\n");
        for pid in [10, 11] {
            let open = machine.folder.path().join(format!("proc/{pid}/fd"));
            fs::create_dir_all(&open).unwrap();
            if holders.contains(&pid) {
                std::os::unix::fs::symlink("pipe:[77]", open.join("4")).unwrap();
            }
        }
        let lines = machine.watch(|_| {});
        assert_eq!(
            row_of(of(&lines, "own")[0], 11)[8],
            serde_json::json!(["epoll_pwait", "ep_poll", [object], true])
        );
    }
}

fn row_of(line: &Value, pid: i64) -> &Value {
    let rows = line["rows"].as_array().unwrap();
    rows.iter().find(|row| row[0] == pid).unwrap()
}

#[test]
fn the_disks_of_open_files_and_of_the_working_directory_are_named() {
    let machine = Machine::new();
    let found = fs::metadata(machine.folder.path()).unwrap();
    use std::os::linux::fs::MetadataExt as _;
    let (major, minor) = (found.st_dev() >> 8 & 0xfff, found.st_dev() & 0xff);
    let block = machine
        .folder
        .path()
        .join(format!("sys/dev/block/{major}:{minor}"));
    fs::create_dir_all(block.parent().unwrap()).unwrap();
    std::os::unix::fs::symlink("../../devices/pci0/block/sdq/sdq1", block).unwrap();
    std::os::unix::fs::symlink(
        machine.folder.path(),
        machine.folder.path().join("proc/11/cwd"),
    )
    .unwrap();
    fs::create_dir_all(machine.folder.path().join("proc/11/fd")).unwrap();
    std::os::unix::fs::symlink("/dev/null", machine.folder.path().join("proc/11/fd/0")).unwrap();
    let lines = machine.watch(|_| {});
    let row = row_of(of(&lines, "files_open")[0], 11);
    assert_eq!(row[4], serde_json::json!(["sdq"]));
}
