//! Channel binding of the type tls-server-end-point: the hash of the certificate with which the server secured the
//! connection, by which it notices that somebody else is in between.
//!
//! Decision: the algorithm of the hash is that of the certificate's signature, which is the second element of the
//! certificate; finding it takes two steps into its DER. Rejected: a crate that reads whole certificates.
//! Sources: RFC 5929, section 4; RFC 5280, section 4.1.

use ring::digest::{Algorithm, SHA256, SHA384, SHA512, digest};

/// Algorithms of signatures, and the hash that each prescribes. RFC 5929 has SHA-256 in place of MD5 and SHA-1.
const SIGNATURES: [(&[u8], &Algorithm); 9] = [
    // The names of PKCS #1: RSA with MD5, SHA-1, SHA-256, SHA-384, SHA-512.
    (b"\x2a\x86\x48\x86\xf7\x0d\x01\x01\x04", &SHA256),
    (b"\x2a\x86\x48\x86\xf7\x0d\x01\x01\x05", &SHA256),
    (b"\x2a\x86\x48\x86\xf7\x0d\x01\x01\x0b", &SHA256),
    (b"\x2a\x86\x48\x86\xf7\x0d\x01\x01\x0c", &SHA384),
    (b"\x2a\x86\x48\x86\xf7\x0d\x01\x01\x0d", &SHA512),
    // Those of ANSI X9.62: ECDSA with SHA-1, SHA-256, SHA-384, SHA-512.
    (b"\x2a\x86\x48\xce\x3d\x04\x01", &SHA256),
    (b"\x2a\x86\x48\xce\x3d\x04\x03\x02", &SHA256),
    (b"\x2a\x86\x48\xce\x3d\x04\x03\x03", &SHA384),
    (b"\x2a\x86\x48\xce\x3d\x04\x03\x04", &SHA512),
];

const SEQUENCE: u8 = 0x30;
const OBJECT_IDENTIFIER: u8 = 0x06;

/// Returns the hash of a certificate in DER; None if its signature prescribes none (Ed25519), or another one.
pub(super) fn hash(certificate: &[u8]) -> Option<Box<[u8]>> {
    let (whole, _) = element(certificate, SEQUENCE)?;
    let (_, after) = element(whole, SEQUENCE)?;
    let (algorithm, _) = element(after, SEQUENCE)?;
    let (name, _) = element(algorithm, OBJECT_IDENTIFIER)?;
    let (_, algorithm) = SIGNATURES.iter().find(|(other, _)| *other == name)?;
    Some(digest(algorithm, certificate).as_ref().into())
}

/// Returns the content of the first element, which must have this tag, and what is behind it.
fn element(der: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (&first, rest) = der.split_first()?;
    let (&short, rest) = rest.split_first()?;
    let (length, rest) = if short < 0x80 {
        (usize::from(short), rest)
    } else {
        let (digits, rest) = rest.split_at_checked(usize::from(short & 0x7f))?;
        let more =
            |length: usize, digit: &u8| length.checked_mul(256)?.checked_add(usize::from(*digit));
        (digits.iter().try_fold(0, more)?, rest)
    };
    (first == tag).then(|| rest.split_at_checked(length))?
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Returns a certificate as far as it is looked at, with a body of `length` bytes.
    fn certificate(signature: &[u8], length: usize) -> Vec<u8> {
        let element = |tag: u8, content: &[u8]| {
            let length = (content.len() as u32).to_be_bytes();
            [&[tag, 0x84][..], &length, content].concat()
        };
        let algorithm = element(OBJECT_IDENTIFIER, signature);
        let parts = [
            element(SEQUENCE, &vec![1; length]),
            element(SEQUENCE, &algorithm),
        ];
        element(SEQUENCE, &parts.concat())
    }

    #[test]
    fn the_signature_says_which_hash() {
        for (name, algorithm) in SIGNATURES {
            let bytes = certificate(name, 700);
            let expected = digest(algorithm, &bytes);
            assert_eq!(hash(&bytes).as_deref(), Some(expected.as_ref()));
        }
        // Ed25519, and RSASSA-PSS, whose parameters say it.
        for other in [
            &b"\x2b\x65\x70"[..],
            b"\x2a\x86\x48\x86\xf7\x0d\x01\x01\x0a",
        ] {
            assert_eq!(hash(&certificate(other, 10)), None);
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read(bytes in prop::collection::vec(any::<u8>(), 0..60), cut in 0..90_usize) {
            hash(&bytes);
            let whole = certificate(SIGNATURES[0].0, 60);
            prop_assert_eq!(hash(&whole[..cut.min(whole.len() - 1)]), None);
        }
    }
}
