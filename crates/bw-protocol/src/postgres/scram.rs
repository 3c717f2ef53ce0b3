//! SCRAM-SHA-256 as PostgreSQL uses it, the client's side: it proves that it knows the password without sending it, and
//! verifies that the server knows it too.
//!
//! Decisions. The salted password is kept for the connections that follow ([`SaltedPasswords`]): it takes thousands of
//! hashes, and a reconnection during the run must not hold the worker for milliseconds. A server that asks for more
//! than [`MOST_ITERATIONS`] is refused, or its number would decide how long the worker stands still. A password that
//! SASLprep refuses is used as it is, as PostgreSQL does.
//! Rejected: the crate postgres-protocol, which computes the hashes again for each connection: 0.72 ms of the worker at
//! 4096 iterations with SHA instructions, in which no operation is issued; and it needs 15 more crates.
//! Sources: RFC 5802, RFC 7677, RFC 4013; PostgreSQL's documentation, "SASL Authentication".

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::{digest, hmac, pbkdf2};
use std::num::NonZeroU32;
use std::sync::{Mutex, PoisonError};

/// The mechanism's name.
pub(super) const SCRAM_SHA_256: &str = "SCRAM-SHA-256";
/// Its name with channel binding.
pub(super) const SCRAM_SHA_256_PLUS: &str = "SCRAM-SHA-256-PLUS";
/// Maximum number of iterations: about a second. PostgreSQL's default is 4096.
const MOST_ITERATIONS: u32 = 1_000_000;
/// Random bytes of a nonce.
pub(super) const NONCE_BYTES: usize = 18;
const HASH_BYTES: usize = digest::SHA256_OUTPUT_LEN;

/// The salted password of the last salt: it is the same for all connections of a user.
#[derive(Default)]
pub(super) struct SaltedPasswords(Mutex<Option<Salted>>);

struct Salted {
    salt: Vec<u8>,
    iterations: NonZeroU32,
    hash: [u8; HASH_BYTES],
}

impl SaltedPasswords {
    fn hash(&self, password: &str, salt: &[u8], iterations: NonZeroU32) -> [u8; HASH_BYTES] {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(one) = &*last
            && one.salt == salt
            && one.iterations == iterations
        {
            return one.hash;
        }
        let prepared = stringprep::saslprep(password);
        let prepared = prepared.as_deref().unwrap_or(password);
        let mut hash = [0; HASH_BYTES];
        pbkdf2::derive(
            pbkdf2::PBKDF2_HMAC_SHA256,
            iterations,
            salt,
            prepared.as_bytes(),
            &mut hash,
        );
        *last = Some(Salted {
            salt: salt.to_vec(),
            iterations,
            hash,
        });
        hash
    }
}

/// How an exchange is bound to the connection that carries it.
pub(super) enum Binding {
    /// Not: there is no TLS, or no hash of the server's certificate.
    Impossible,
    /// Not, because the server does not offer it; a server that does notices that its offer was removed.
    NotOffered,
    /// To the server with the certificate of this hash.
    EndPoint(Box<[u8]>),
}

impl Binding {
    /// Returns the name of the mechanism.
    pub(super) fn mechanism(&self) -> &'static str {
        match self {
            Self::EndPoint(_) => SCRAM_SHA_256_PLUS,
            Self::Impossible | Self::NotOffered => SCRAM_SHA_256,
        }
    }

    fn header(&self) -> &'static str {
        match self {
            Self::Impossible => "n,,",
            Self::NotOffered => "y,,",
            Self::EndPoint(_) => "p=tls-server-end-point,,",
        }
    }

    /// Returns what the last message says of it.
    fn proof(&self) -> String {
        let data = match self {
            Self::EndPoint(hash) => hash,
            Self::Impossible | Self::NotOffered => &[][..],
        };
        STANDARD.encode([self.header().as_bytes(), data].concat())
    }
}

/// One exchange.
pub(super) struct Scram {
    binding: Binding,
    nonce: String,
    /// The first message without its header.
    first_bare: String,
}

impl Scram {
    /// Returns an exchange with a nonce of these random bytes. PostgreSQL ignores its user: the startup message names it.
    pub(super) fn new(binding: Binding, random: [u8; NONCE_BYTES]) -> Self {
        Self::with_nonce(binding, "", STANDARD.encode(random))
    }

    fn with_nonce(binding: Binding, user: &str, nonce: String) -> Self {
        let first_bare = format!("n={user},r={nonce}");
        Self {
            binding,
            nonce,
            first_bare,
        }
    }

    /// Returns the client's first message: the name of the mechanism, and its own.
    pub(super) fn first(&self) -> (&'static str, String) {
        let text = format!("{}{}", self.binding.header(), self.first_bare);
        (self.binding.mechanism(), text)
    }

    /// Returns the client's last message, and what verifies the server's.
    ///
    /// # Errors
    /// What is wrong with the server's first message.
    pub(super) fn last(
        &self,
        server_first: &[u8],
        password: &str,
        salted: &SaltedPasswords,
    ) -> Result<(String, Verifier), &'static str> {
        const MALFORMED: &str = "its first message of SCRAM is malformed";
        let server_first = std::str::from_utf8(server_first).map_err(|_| MALFORMED)?;
        let mut fields = server_first.split(',');
        let mut field = |name: &str| fields.next().and_then(|field| field.strip_prefix(name));
        let nonce = field("r=").ok_or(MALFORMED)?;
        let salt = field("s=").ok_or(MALFORMED)?;
        let iterations = field("i=").ok_or(MALFORMED)?;
        if !nonce.starts_with(&self.nonce) || nonce.len() == self.nonce.len() {
            return Err("its nonce of SCRAM does not begin with ours");
        }
        let salt = STANDARD.decode(salt).map_err(|_| MALFORMED)?;
        let iterations: NonZeroU32 = iterations.parse().map_err(|_| MALFORMED)?;
        if iterations.get() > MOST_ITERATIONS {
            return Err("it asks for more than 1,000,000 iterations of SCRAM");
        }
        let key = hmac_key(&salted.hash(password, &salt, iterations));
        let without_proof = format!("c={},r={nonce}", self.binding.proof());
        let transcript = format!("{},{server_first},{without_proof}", self.first_bare);
        let client_key = hmac::sign(&key, b"Client Key");
        let stored_key = digest::digest(&digest::SHA256, client_key.as_ref());
        let signature = hmac::sign(&hmac_key(stored_key.as_ref()), transcript.as_bytes());
        let pairs = client_key.as_ref().iter().zip(signature.as_ref());
        let proof: Vec<u8> = pairs.map(|(key, signature)| key ^ signature).collect();
        let server_key = hmac_key(hmac::sign(&key, b"Server Key").as_ref());
        let last = format!("{without_proof},p={}", STANDARD.encode(proof));
        Ok((
            last,
            Verifier {
                server_key,
                transcript,
            },
        ))
    }
}

fn hmac_key(bytes: &[u8]) -> hmac::Key {
    hmac::Key::new(hmac::HMAC_SHA256, bytes)
}

/// Verifies the server's last message.
pub(super) struct Verifier {
    server_key: hmac::Key,
    transcript: String,
}

impl Verifier {
    /// Returns whether the server knows the password.
    pub(super) fn accepts(&self, server_last: &[u8]) -> bool {
        let signature = server_last.strip_prefix(b"v=");
        let signature = signature.and_then(|text| STANDARD.decode(text).ok());
        signature.is_some_and(|signature| {
            hmac::verify(&self.server_key, self.transcript.as_bytes(), &signature).is_ok()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // RFC 7677, section 3.
    const NONCE: &str = "rOprNGfwEbeRWgbNEkqO";
    const SERVER_FIRST: &str =
        "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";
    const CLIENT_LAST: &str = "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
                               p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";
    const SERVER_LAST: &[u8] = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=";

    #[test]
    fn the_exchange_of_rfc_7677() {
        let scram = Scram::with_nonce(Binding::Impossible, "user", NONCE.to_owned());
        assert_eq!(
            scram.first(),
            (SCRAM_SHA_256, "n,,n=user,r=rOprNGfwEbeRWgbNEkqO".to_owned())
        );
        let salted = SaltedPasswords::default();
        // The second time with the salted password that was kept.
        for _ in 0..2 {
            let (last, verifier) = scram
                .last(SERVER_FIRST.as_bytes(), "pencil", &salted)
                .unwrap();
            assert_eq!(last, CLIENT_LAST);
            assert!(verifier.accepts(SERVER_LAST));
            assert!(!verifier.accepts(b"v=7rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="));
            assert!(!verifier.accepts(b"v="));
            assert!(!verifier.accepts(b"e=other-error"));
        }
    }

    #[test]
    fn another_salt_or_number_of_iterations_is_another_key() {
        let scram = Scram::with_nonce(Binding::Impossible, "", NONCE.to_owned());
        let salted = SaltedPasswords::default();
        let mut proofs: Vec<_> = ["s=QUFB,i=1", "s=QUFB,i=2", "s=QUFC,i=2", "s=QUFB,i=1"]
            .iter()
            .map(|rest| {
                let first = format!("r={NONCE}x,{rest}");
                scram.last(first.as_bytes(), "a", &salted).unwrap().0
            })
            .collect();
        assert_eq!(proofs.pop().as_ref(), proofs.first());
        assert!(proofs[0] != proofs[1] && proofs[1] != proofs[2]);
    }

    #[test]
    fn a_server_that_does_not_follow_scram_is_refused() {
        let scram = Scram::with_nonce(Binding::Impossible, "", NONCE.to_owned());
        let salted = SaltedPasswords::default();
        let wrong = [
            "",
            "r=",
            "e=unknown-user",
            "r=rOprNGfwEbeRWgbNEkqO,s=QUFB,i=1",
            "r=another,s=QUFB,i=1",
            "r=rOprNGfwEbeRWgbNEkqOx,s=?,i=1",
            "r=rOprNGfwEbeRWgbNEkqOx,s=QUFB,i=0",
            "r=rOprNGfwEbeRWgbNEkqOx,s=QUFB,i=4294967296",
            "r=rOprNGfwEbeRWgbNEkqOx,s=QUFB,i=1000001",
            "r=rOprNGfwEbeRWgbNEkqOx,s=QUFB",
        ];
        for first in wrong {
            let refused = scram.last(first.as_bytes(), "a", &salted);
            assert!(refused.is_err(), "{first}");
        }
        assert!(scram.last(&[0xff], "a", &salted).is_err());
    }
}
