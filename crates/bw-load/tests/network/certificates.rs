//! An authority and certificates of servers, made by openssl in a folder that is removed on drop.

#![allow(dead_code, clippy::unwrap_used)]

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use tempfile::TempDir;

const PROGRAM: &str = "/usr/bin/openssl";
/// A key that openssl makes in a millisecond.
const KEY: [&str; 5] = [
    "-newkey",
    "ec",
    "-pkeyopt",
    "ec_paramgen_curve:P-256",
    "-nodes",
];

/// A time in which a certificate is valid.
#[derive(Clone, Copy)]
pub(crate) enum Validity {
    Now,
    Over,
    Future,
}

/// An authority with the certificates that it issued: `NAME.pem` and `NAME.key`; its own is `ca.pem`.
pub(crate) struct Authority {
    folder: TempDir,
}

impl Authority {
    /// Returns an authority; None, with the reason on stderr, if openssl is not installed.
    pub(crate) fn make(test: &str) -> Option<Self> {
        if !Path::new(PROGRAM).exists() {
            writeln!(std::io::stderr(), "skipped: there is no {PROGRAM}").unwrap();
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let authority = Self { folder };
        authority.configure("DNS:localhost");
        fs::write(authority.file("index"), "").unwrap();
        fs::write(authority.file("serial"), "01").unwrap();
        let own = ["-x509", "-extensions", "authority", "-days", "10"];
        authority.request(&own, "ca", &format!("authority of {test}"), "ca.pem");
        Some(authority)
    }

    /// Returns the path of a file in the folder.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Issues a certificate of a server for these names, such as `DNS:localhost,IP:127.0.0.1`.
    pub(crate) fn issue(&self, name: &str, names: &str, validity: Validity) {
        self.configure(names);
        self.request(&[], name, name, &format!("{name}.csr"));
        let (from, until) = match validity {
            Validity::Now => ("20200101000000Z", "20990101000000Z"),
            Validity::Over => ("20200101000000Z", "20210101000000Z"),
            Validity::Future => ("20980101000000Z", "20990101000000Z"),
        };
        let (request, certificate) = (format!("{name}.csr"), format!("{name}.pem"));
        let mut arguments = vec!["ca", "-batch", "-notext", "-config", "conf"];
        arguments.extend([
            "-cert",
            "ca.pem",
            "-keyfile",
            "ca.key",
            "-extensions",
            "server",
        ]);
        arguments.extend(["-startdate", from, "-enddate", until]);
        arguments.extend(["-in", &request, "-out", &certificate]);
        self.run(&arguments);
    }

    /// Makes a certificate that its own key signed.
    pub(crate) fn sign_itself(&self, name: &str, names: &str) {
        self.configure(names);
        let own = ["-x509", "-extensions", "server", "-days", "10"];
        self.request(&own, name, name, &format!("{name}.pem"));
    }

    /// Returns the configuration of a server of rustls with an issued certificate.
    pub(crate) fn server_config(&self, name: &str) -> Arc<ServerConfig> {
        let chain = fs::read(self.file(&format!("{name}.pem"))).unwrap();
        let chain = CertificateDer::pem_slice_iter(&chain).map(Result::unwrap);
        let key = fs::read(self.file(&format!("{name}.key"))).unwrap();
        let key = PrivateKeyDer::from_pem_slice(&key).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(chain.collect(), key)
            .unwrap();
        Arc::new(config)
    }

    fn request(&self, kind: &[&str], name: &str, subject: &str, out: &str) {
        let (key, subject) = (format!("{name}.key"), format!("/CN={subject}"));
        let mut arguments = vec!["req", "-new", "-config", "conf"];
        arguments.extend(KEY);
        arguments.extend(kind);
        arguments.extend(["-keyout", &key, "-subj", &subject, "-out", out]);
        self.run(&arguments);
    }

    fn configure(&self, names: &str) {
        let text = format!(
            "[req]\ndistinguished_name = subject\n[subject]\n\
             [authority]\nbasicConstraints = critical,CA:TRUE\nkeyUsage = critical,keyCertSign\n\
             [server]\nbasicConstraints = critical,CA:FALSE\nsubjectAltName = {names}\n\
             [ca]\ndefault_ca = own\n\
             [own]\ndatabase = index\nserial = serial\nnew_certs_dir = .\ndefault_md = sha256\npolicy = any\nunique_subject = no\n\
             [any]\ncommonName = supplied\n"
        );
        fs::write(self.file("conf"), text).unwrap();
    }

    fn run(&self, arguments: &[&str]) {
        let mut command = Command::new(PROGRAM);
        command.args(arguments).current_dir(self.folder.path());
        let output = command.output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "openssl {arguments:?}: {errors}");
    }
}
