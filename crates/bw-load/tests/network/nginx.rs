//! A real nginx on the loopback, which is ended by its process id.

use super::certificates::Authority;
use std::fs;
use std::io::Write as _;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Debian's path of nginx.
pub(crate) const PROGRAM: &str = "/usr/sbin/nginx";

/// A running nginx with one worker; it and its folder are removed on drop.
pub(crate) struct Nginx {
    master: Child,
    folder: PathBuf,
    pub port: u16,
}

impl Nginx {
    /// Returns a server whose `/` is `body_bytes` long, and which closes a connection after `requests` requests;
    /// None, with the reason on stderr, if nginx is not installed.
    pub(crate) fn start(name: &str, body_bytes: usize, requests: u32) -> Option<Self> {
        Self::listen(name, body_bytes, requests, "", "")
    }

    /// Returns the same with HTTP/2 by prior knowledge.
    pub(crate) fn start_http2(name: &str, body_bytes: usize, requests: u32) -> Option<Self> {
        Self::listen(name, body_bytes, requests, "", " http2")
    }

    /// Returns the same with TLS of these versions, such as `TLSv1.3`, and the authority's certificate `server`.
    pub(crate) fn start_tls(
        (name, versions): (&str, &str),
        body_bytes: usize,
        requests: u32,
        authority: &Authority,
    ) -> Option<Self> {
        let tls = Self::tls(versions, authority);
        Self::listen(name, body_bytes, requests, &tls, "")
    }

    /// Returns the same with TLS 1.3 and HTTP/2.
    pub(crate) fn start_tls_http2(
        name: &str,
        body_bytes: usize,
        requests: u32,
        authority: &Authority,
    ) -> Option<Self> {
        let tls = Self::tls("TLSv1.3", authority);
        Self::listen(name, body_bytes, requests, &tls, " http2")
    }

    /// Returns the directives of TLS.
    fn tls(versions: &str, authority: &Authority) -> String {
        let file = |name| authority.file(name).display().to_string();
        format!(
            "ssl_certificate {}; ssl_certificate_key {}; ssl_protocols {versions};",
            file("server.pem"),
            file("server.key")
        )
    }

    fn listen(
        name: &str,
        body_bytes: usize,
        requests: u32,
        tls: &str,
        http2: &str,
    ) -> Option<Self> {
        if !Path::new(PROGRAM).exists() {
            writeln!(std::io::stderr(), "skipped: there is no {PROGRAM}").unwrap();
            return None;
        }
        let folder = std::env::temp_dir().join(format!("bw-nginx-{name}-{}", std::process::id()));
        fs::create_dir_all(folder.join("www")).unwrap();
        fs::write(folder.join("www/index.html"), "n".repeat(body_bytes)).unwrap();
        let port = TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap()
            .port();
        let unix = folder.join("socket");
        fs::write(
            folder.join("conf"),
            configuration(port, &unix, requests, (tls, http2)),
        )
        .unwrap();
        let mut master = Command::new(PROGRAM)
            .args(["-e", "error.log", "-c", "conf", "-p"])
            .arg(&folder)
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert_eq!(master.try_wait().unwrap(), None, "nginx did not start");
            std::thread::sleep(Duration::from_millis(5));
        }
        Some(Self {
            master,
            folder,
            port,
        })
    }

    /// Returns the path of its Unix socket.
    pub(crate) fn unix_socket(&self) -> PathBuf {
        self.folder.join("socket")
    }

    /// Returns the process ids of the master and its worker.
    pub(crate) fn processes(&self) -> Vec<i32> {
        let master = self.master.id();
        let children = format!("/proc/{master}/task/{master}/children");
        let children = fs::read_to_string(children).unwrap_or_default();
        let workers = children.split_whitespace().filter_map(|id| id.parse().ok());
        [i32::try_from(master).unwrap()]
            .into_iter()
            .chain(workers)
            .collect()
    }

    /// Sends a signal to the master and its worker.
    pub(crate) fn signal(&self, signal: i32) {
        for process in self.processes() {
            // SAFETY: takes no pointer; the processes are this test's own.
            unsafe { libc::kill(process, signal) };
        }
    }
}

/// `tls`: the directives of TLS; empty: none. `http2`: the word of `listen` for HTTP/2, or nothing.
fn configuration(port: u16, unix: &Path, requests: u32, (tls, http2): (&str, &str)) -> String {
    let unix = unix.display();
    let secure = if tls.is_empty() { "" } else { " ssl" };
    format!(
        "daemon off; worker_processes 1; pid nginx.pid; error_log error.log;\n\
         events {{ worker_connections 1024; }}\n\
         http {{ access_log off; keepalive_requests {requests};\n\
         client_body_temp_path b; proxy_temp_path p; fastcgi_temp_path f; uwsgi_temp_path u; scgi_temp_path s;\n\
         server {{ listen 127.0.0.1:{port}{secure}{http2}; listen unix:{unix}; {tls} root www; }} }}\n"
    )
}

impl Drop for Nginx {
    fn drop(&mut self) {
        self.signal(libc::SIGCONT);
        self.signal(libc::SIGTERM);
        let _ = self.master.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}
