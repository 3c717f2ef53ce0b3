//! The user's settings of TLS, and what all connections of a target share.
//!
//! Decisions. Without `ca` the authorities are those of the system, as for curl. A file of authorities replaces them, so
//! that a test of one's own authority cannot pass by another one. Every connection has a full handshake: no session is
//! stored, so the cost of a handshake does not depend on the connections before it. With `insecure` the certificate is
//! not examined at all, as malformed ones are common on servers under test, and the result says so.
//! Rejected: certificates compiled into the program (they become old with it); aws-lc-rs instead of ring (it needs
//! cmake, and its C library is several times as large).

use bw_model::EngineError;
use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use serde::Deserialize;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The name that ALPN has for HTTP/1.1, which is also what a server without ALPN speaks.
pub(crate) const HTTP_1_1: &str = "http/1.1";
/// The name that ALPN has for HTTP/2.
pub(crate) const HTTP_2: &str = "h2";

/// How a target uses TLS.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TlsSpec {
    /// A PEM file with the certificates of the authorities; None: those of the system.
    pub ca: Option<PathBuf>,
    /// Whether any certificate is accepted.
    pub insecure: bool,
    /// The name that the certificate must have, and that the server is asked for; None: the target's host.
    pub server_name: Option<String>,
}

/// What the connections of a target have in common.
#[derive(Clone, Debug)]
pub(crate) struct TlsSettings {
    pub(super) config: Arc<ClientConfig>,
    pub(super) name: ServerName<'static>,
    /// Whether certificates are verified.
    pub(super) verified: bool,
    /// The protocol that is offered by ALPN; None: nothing is offered.
    pub(super) protocol: Option<&'static str>,
    /// What is sent before TLS, and the byte with which the server agrees to it; None: TLS begins at once.
    pub(super) question: Option<(&'static [u8], u8)>,
}

impl TlsSpec {
    /// Returns the settings of connections to `host` that carry `protocol`, a name of ALPN.
    ///
    /// # Errors
    /// `server-name`: the host cannot be in a certificate; `ca`: the authorities cannot be read.
    pub(crate) fn settings(
        &self,
        host: &str,
        protocol: Option<&'static str>,
    ) -> Result<TlsSettings, EngineError> {
        let name = self.server_name.as_deref().unwrap_or(host);
        let name = ServerName::try_from(name.to_owned()).map_err(|_| {
            let message = format!("server name {name:?}: not a name or address of a server");
            let remedy = "give the name that is in the server's certificate";
            EngineError::request("server-name", message, remedy)
        })?;
        let provider = Arc::new(ring::default_provider());
        let schemes = provider
            .signature_verification_algorithms
            .supported_schemes();
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| unusable(&error))?;
        let mut config = if self.insecure {
            builder
                .dangerous()
                .with_custom_certificate_verifier(Arc::new(AnyCertificate { schemes }))
                .with_no_client_auth()
        } else {
            let authorities = match &self.ca {
                Some(path) => authorities_of(path)?,
                None => authorities_of_system()?,
            };
            builder
                .with_root_certificates(authorities)
                .with_no_client_auth()
        };
        config.resumption = Resumption::disabled();
        config.alpn_protocols = protocol.iter().map(|name| name.as_bytes().into()).collect();
        Ok(TlsSettings {
            config: Arc::new(config),
            name,
            verified: !self.insecure,
            protocol,
            question: None,
        })
    }
}

impl TlsSettings {
    /// Returns the same settings for a server that is asked for TLS first: with these bytes, to which it agrees with
    /// this byte.
    #[must_use]
    pub(crate) fn after(self, question: (&'static [u8], u8)) -> Self {
        Self {
            question: Some(question),
            ..self
        }
    }

    /// Returns whether connections can be used on which the server chose this protocol.
    pub(super) fn accepts(&self, chosen: Option<&[u8]>) -> bool {
        match (self.protocol, chosen) {
            (None | Some(HTTP_1_1), None) => true,
            (offered, chosen) => offered.map(str::as_bytes) == chosen,
        }
    }
}

fn unusable(error: &rustls::Error) -> EngineError {
    let message = format!("TLS cannot be used: {error}");
    EngineError::operating("tls", message, "please report this")
}

fn authorities_of(path: &Path) -> Result<RootCertStore, EngineError> {
    let refused = |what: &str| {
        let message = format!("ca {}: {what}", path.display());
        let remedy = "name a PEM file with the certificates of the authorities";
        EngineError::request("ca", message, remedy)
    };
    let mut text = Vec::new();
    bw_sys::regular::open_regular(path)
        .and_then(|mut file| file.read_to_end(&mut text))
        .map_err(|error| refused(&error.to_string()))?;
    let mut authorities = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&text) {
        let certificate = certificate.map_err(|error| refused(&error.to_string()))?;
        authorities
            .add(certificate)
            .map_err(|error| refused(&error.to_string()))?;
    }
    if authorities.is_empty() {
        return Err(refused("it has no certificate"));
    }
    Ok(authorities)
}

fn authorities_of_system() -> Result<RootCertStore, EngineError> {
    let found = rustls_native_certs::load_native_certs();
    let mut authorities = RootCertStore::empty();
    authorities.add_parsable_certificates(found.certs);
    if authorities.is_empty() {
        let why = found
            .errors
            .first()
            .map_or(String::new(), |error| format!(": {error}"));
        let message = format!("this system has no certificates of authorities{why}");
        let remedy = "install them (apt-get install ca-certificates), or name a file with --ca";
        return Err(EngineError::request("ca", message, remedy));
    }
    Ok(authorities)
}

/// Accepts every certificate.
#[derive(Debug)]
struct AnyCertificate {
    schemes: Vec<SignatureScheme>,
}

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _certificate: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.schemes.clone()
    }
}
