//! What operations send as datagrams or messages, as requests say it.

use base64::Engine;
use bw_model::{EngineError, ExchangeAddress};
use bw_protocol::Values;
use bw_protocol::payload::Payload;
use serde::Deserialize;

/// What an operation sends; a text and digits are templates.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PayloadSpec {
    /// A text.
    Text(String),
    /// Hexadecimal digits of the bytes.
    Hex(String),
    /// The bytes in base64, without places for values.
    Base64(String),
}

/// Returns the payloads of a target with these values, each at most `most` bytes.
///
/// # Errors
/// `payload`: one of them is wrong, or there are too many.
pub(crate) fn payloads(
    specs: &[PayloadSpec],
    values: &Values,
    most: usize,
) -> Result<Vec<Payload>, EngineError> {
    let refused = |message: String| {
        EngineError::request("payload", message, "correct the payload").about("target.payloads")
    };
    if specs.len() as u64 > ExchangeAddress::REQUESTS {
        let message = format!("more than {} payloads", ExchangeAddress::REQUESTS);
        return Err(refused(message));
    }
    let payload = |(place, spec): (usize, &PayloadSpec)| {
        let made = match spec {
            PayloadSpec::Text(text) => Payload::text(text, values, most),
            PayloadSpec::Hex(digits) => Payload::hex(digits, values, most),
            PayloadSpec::Base64(text) => base64::prelude::BASE64_STANDARD
                .decode(text)
                .map_err(|error| format!("no base64: {error}"))
                .and_then(|bytes| Payload::bytes(&bytes, most)),
        };
        made.map_err(|what| refused(format!("payload {}: {what}", place + 1)))
    };
    specs.iter().enumerate().map(payload).collect()
}
