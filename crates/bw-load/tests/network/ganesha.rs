//! A real NFS-Ganesha, in a network and mount namespace of its own, where its portmapper disturbs nobody.
//!
//! The test that wants it runs its own program a second time inside of the namespaces: see [`inside`].

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const PROGRAM: &str = "/usr/bin/ganesha.nfsd";
const NEEDED: [&str; 5] = [
    PROGRAM,
    "/usr/sbin/rpcbind",
    "/usr/bin/unshare",
    "/usr/bin/nfs-cat",
    "/usr/bin/nfs-ls",
];
/// Set in the second run of the test's program.
const INSIDE: &str = "BW_TEST_IN_NAMESPACE";

/// Runs `test`, the body of the test of this name, in namespaces of its own; prints why it was skipped.
pub(crate) fn inside(name: &str, test: impl FnOnce()) {
    if std::env::var_os(INSIDE).is_some() {
        return test();
    }
    let missing = NEEDED.iter().find(|program| !Path::new(program).exists());
    let root = rustix::process::geteuid().is_root();
    if missing.is_some() || !root {
        let why = missing.map_or("it needs root".to_owned(), |missing| {
            format!("there is no {missing}")
        });
        writeln!(std::io::stderr(), "skipped: {why}").unwrap();
        return;
    }
    let own = std::env::current_exe().unwrap();
    let status = Command::new("/usr/bin/unshare")
        .args(["--net", "--mount"])
        .arg(own)
        .args(["--exact", name, "--nocapture"])
        .env(INSIDE, "1")
        .status()
        .unwrap();
    assert!(status.success(), "{name} failed in its namespaces");
}

/// A running server with one export, `/e`; it and its folder are removed on drop.
pub(crate) struct Ganesha {
    portmapper: Child,
    server: Option<Child>,
    folder: PathBuf,
}

impl Ganesha {
    pub(crate) const PORT: u16 = 13_049;
    pub(crate) const MOUNT_PORT: u16 = 13_050;

    /// Starts a portmapper and a server that exports an empty folder.
    pub(crate) fn start(name: &str) -> Self {
        // Both programs have files in /run whose names do not depend on the namespace.
        for folder in ["/run", "/var/lib/nfs"] {
            fs::create_dir_all(folder).unwrap();
            run(&["mount", "-t", "tmpfs", "tmpfs", folder]);
        }
        fs::create_dir_all("/run/ganesha").unwrap();
        run(&["ip", "link", "set", "lo", "up"]);
        let folder = std::env::temp_dir().join(format!("bw-ganesha-{name}-{}", std::process::id()));
        fs::create_dir_all(folder.join("export")).unwrap();
        let mut portmapper = Command::new("/usr/sbin/rpcbind");
        let portmapper = portmapper
            .args(["-f", "-w"])
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut ganesha = Self {
            portmapper,
            server: None,
            folder,
        };
        wait_for("rpcbind", || Path::new("/run/rpcbind.sock").exists());
        ganesha.begin();
        ganesha
    }

    /// Returns the folder that is exported.
    pub(crate) fn export(&self) -> PathBuf {
        self.folder.join("export")
    }

    /// Ends the server and starts it again, in a later second: its write verifier is the second of its start.
    pub(crate) fn restart(&mut self) {
        self.stop();
        std::thread::sleep(Duration::from_millis(1100));
        self.begin();
    }

    fn begin(&mut self) {
        let configuration = self.folder.join("conf");
        fs::write(&configuration, configured(&self.export())).unwrap();
        let log = self.folder.join("log");
        let _ = fs::remove_file(&log);
        let server = Command::new(PROGRAM)
            .args(["-F", "-p", "/run/ganesha.pid", "-f"])
            .arg(&configuration)
            .arg("-L")
            .arg(&log)
            .spawn()
            .unwrap();
        self.server = Some(server);
        let ready = || {
            fs::read_to_string(&log)
                .unwrap_or_default()
                .contains("NFS SERVER INITIALIZED")
        };
        wait_for("ganesha.nfsd", ready);
    }

    /// Ends the server.
    pub(crate) fn stop(&mut self) {
        if let Some(mut server) = self.server.take() {
            send(&server, libc::SIGTERM);
            server.wait().unwrap();
        }
    }

    /// Stops all threads of the server, until [`libc::SIGCONT`].
    pub(crate) fn pause(&self) {
        self.signal(libc::SIGSTOP);
        let server = self.server.as_ref().unwrap().id();
        let stopped = |thread: fs::DirEntry| {
            let about = fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
            about.rsplit(") ").next().unwrap().starts_with('T')
        };
        wait_for("the stop of ganesha.nfsd", || {
            let mut threads = fs::read_dir(format!("/proc/{server}/task")).unwrap();
            threads.all(|thread| stopped(thread.unwrap()))
        });
    }

    /// Sends a signal to the server.
    pub(crate) fn signal(&self, signal: i32) {
        if let Some(server) = &self.server {
            send(server, signal);
        }
    }

    /// Returns the output of one of libnfs's programs about a path below the export.
    pub(crate) fn libnfs(program: &str, path: &str) -> Vec<u8> {
        let ports = format!("nfsport={}&mountport={}", Self::PORT, Self::MOUNT_PORT);
        let url = format!("nfs://127.0.0.1/e/{path}?version=3&{ports}");
        let output = Command::new(program).arg(&url).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{program} {url}: {errors}");
        output.stdout
    }
}

fn configured(export: &Path) -> String {
    let export = export.display();
    let (port, mount_port) = (Ganesha::PORT, Ganesha::MOUNT_PORT);
    format!(
        "NFS_CORE_PARAM {{ NFS_Port = {port}; MNT_Port = {mount_port}; Protocols = 3; Enable_NLM = false;\n\
         Enable_RQUOTA = false; Enable_UDP = false; mount_path_pseudo = true;\n\
         Plugins_Dir = /usr/lib/x86_64-linux-gnu/ganesha; }}\n\
         EXPORT {{ Export_Id = 77; Path = {export}; Pseudo = /e; Access_Type = RW; Squash = No_Root_Squash;\n\
         SecType = sys; Protocols = 3; Transports = TCP; FSAL {{ Name = VFS; }} }}\n"
    )
}

fn run(words: &[&str]) {
    let status = Command::new(words[0]).args(&words[1..]).status().unwrap();
    assert!(status.success(), "{words:?}");
}

fn wait_for(what: &str, ready: impl Fn() -> bool) {
    let patience = Instant::now() + Duration::from_secs(60);
    while !ready() {
        assert!(Instant::now() < patience, "{what}: not within a minute");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn send(child: &Child, signal: i32) {
    // SAFETY: takes no pointer; the process is this test's own child, which was not waited for.
    unsafe { libc::kill(child.id() as i32, signal) };
}

impl Drop for Ganesha {
    fn drop(&mut self) {
        self.signal(libc::SIGCONT);
        self.stop();
        send(&self.portmapper, libc::SIGTERM);
        let _ = self.portmapper.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}
