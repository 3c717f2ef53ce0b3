//! Why a handshake failed, and what to do, in the user's words.

use rustls::{AlertDescription, CertificateError, InvalidMessage, PeerIncompatible};
use std::io;

const OLD: &str = "it supports neither TLS 1.2 nor TLS 1.3";
const ENABLE: &str = "enable TLS 1.2 or 1.3 on the server; older versions are not supported";
const NOT_TLS: &str = "connect to the server's port for TLS, or leave TLS out (http://, tcp://)";
const SECONDS_PER_DAY: u64 = 86_400;

/// What failed, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// A stable word for scripts.
    pub code: &'static str,
    pub what: String,
    pub remedy: &'static str,
}

impl Refusal {
    fn new(what: impl Into<String>, remedy: &'static str) -> Self {
        Self {
            code: "tls",
            what: what.into(),
            remedy,
        }
    }

    fn certificate(what: impl Into<String>, remedy: &'static str) -> Self {
        Self {
            code: "tls-certificate",
            ..Self::new(what, remedy)
        }
    }

    /// Returns the refusal of a server that was asked for TLS, and did not agree.
    pub(super) fn declined() -> Self {
        Self::new(
            "it does not use TLS",
            "enable TLS on the server (ssl of PostgreSQL, which has none on a Unix socket), or leave TLS out",
        )
    }

    /// Returns the refusal that the library found.
    pub(super) fn of(error: &rustls::Error) -> Self {
        match error {
            rustls::Error::InvalidCertificate(error) => of_certificate(error),
            rustls::Error::AlertReceived(alert) => of_alert(*alert),
            rustls::Error::PeerIncompatible(
                PeerIncompatible::ServerDoesNotSupportTls12Or13
                | PeerIncompatible::ServerTlsVersionIsDisabledByOurConfig,
            ) => Self::new(OLD, ENABLE),
            rustls::Error::InvalidMessage(
                InvalidMessage::InvalidContentType | InvalidMessage::UnknownProtocolVersion,
            ) => Self::new("its answer is not TLS", NOT_TLS),
            rustls::Error::NoApplicationProtocol => Self::new(
                "it does not support the requested version of HTTP",
                "request another version with --http, or enable this one on the server",
            ),
            error => Self::new(
                error.to_string(),
                "look into the server's log; openssl s_client -connect HOST:PORT shows what it sends",
            ),
        }
    }

    /// Returns the refusal by the end of the connection, or of the time.
    pub(super) fn of_connection(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::TimedOut => Self::new("no answer in the handshake", NOT_TLS),
            io::ErrorKind::ConnectionReset | io::ErrorKind::UnexpectedEof => {
                Self::new("it closed the connection in the handshake", NOT_TLS)
            }
            _ => Self::new(error.to_string(), "check the route and the server"),
        }
    }
}

fn of_certificate(error: &CertificateError) -> Refusal {
    match error {
        // An authority of the same name, with another key.
        CertificateError::BadSignature
        | CertificateError::UnsupportedSignatureAlgorithmForPublicKeyContext { .. } => {
            Refusal::certificate(
                "its certificate was not signed by the key of the authority that it names",
                "name the authority's certificate with --ca, or accept any certificate with --insecure",
            )
        }
        CertificateError::UnknownIssuer => Refusal::certificate(
            "its certificate is self-signed, or of an unknown authority",
            "name the authority's certificate with --ca, or accept any certificate with --insecure",
        ),
        CertificateError::Expired => expired(None),
        CertificateError::ExpiredContext { time, not_after } => {
            expired(Some(time.as_secs().saturating_sub(not_after.as_secs())))
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            Refusal::certificate(
                "its certificate is not valid yet",
                "check the clocks of the server and of this machine (date)",
            )
        }
        CertificateError::NotValidForName => wrong_name(String::new()),
        CertificateError::NotValidForNameContext {
            expected,
            presented,
        } => wrong_name(format!(
            " {}, but for {}",
            expected.to_str(),
            match &presented[..] {
                [] => "no name".to_owned(),
                names => names.join(", "),
            }
        )),
        CertificateError::Other(other) if other.to_string().contains("CaUsedAsEndEntity") => {
            Refusal::certificate(
                "its certificate is that of an authority (CA:TRUE), which the TLS library here (rustls) does not accept from a server, although others do",
                "make one with basicConstraints=CA:FALSE, or accept any certificate with --insecure",
            )
        }
        other => Refusal::certificate(
            format!(
                "its certificate is not valid: {}",
                rustls::Error::from(other.clone())
            ),
            "give the server another certificate, or accept any certificate with --insecure",
        ),
    }
}

fn expired(seconds: Option<u64>) -> Refusal {
    let ago = seconds.map_or(String::new(), |seconds| {
        format!(" {} days ago", seconds / SECONDS_PER_DAY)
    });
    Refusal::certificate(
        format!("its certificate expired{ago}"),
        "renew it, or accept any certificate with --insecure",
    )
}

fn wrong_name(names: String) -> Refusal {
    Refusal::certificate(
        format!("its certificate is not for the name{names}"),
        "connect to a name of the certificate, or give one with --server-name",
    )
}

fn of_alert(alert: AlertDescription) -> Refusal {
    match alert {
        AlertDescription::ProtocolVersion => Refusal::new(OLD, ENABLE),
        AlertDescription::HandshakeFailure => Refusal::new(
            "it refused the handshake: it has no version or cipher in common with bw, or no certificate for the name",
            "compare its settings with openssl s_client -connect HOST:PORT, or give the name with --server-name",
        ),
        AlertDescription::UnrecognisedName => Refusal::new(
            "it does not know the name",
            "connect to a name that it serves, or give one with --server-name",
        ),
        AlertDescription::NoApplicationProtocol => Refusal::new(
            "it does not support the requested version of HTTP",
            "request another version with --http, or enable this one on the server",
        ),
        AlertDescription::CertificateRequired => Refusal::new(
            "it requires a certificate of the client, which is not supported",
            "let the server accept clients without a certificate",
        ),
        alert => Refusal::new(
            format!("it refused the handshake with the alert {alert:?}"),
            "look into the server's log",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_has_its_remedy() {
        let remedy = |error: rustls::Error| Refusal::of(&error).remedy;
        assert!(remedy(CertificateError::UnknownIssuer.into()).contains("--ca"));
        assert!(remedy(CertificateError::NotValidForName.into()).contains("--server-name"));
        assert!(remedy(CertificateError::BadEncoding.into()).contains("--insecure"));
        let alert = rustls::Error::AlertReceived;
        assert_eq!(remedy(alert(AlertDescription::ProtocolVersion)), ENABLE);
        assert!(remedy(alert(AlertDescription::CertificateRequired)).contains("without"));
        assert!(remedy(rustls::Error::NoApplicationProtocol).contains("version"));
        let silent = Refusal::of_connection(&io::ErrorKind::TimedOut.into());
        assert_eq!((silent.code, silent.remedy), ("tls", NOT_TLS));
    }
}
