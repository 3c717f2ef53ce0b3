//! Calls of gRPC: the texts of `.proto` files and messages as JSON in, the path of a method and the bytes of its requests
//! out.
//!
//! Decision: this happens before a load, and a load has bytes only, so that nothing is encoded while it measures and a
//! stored request needs no files. Files are texts with names, which the caller has read: what a load was made of can be
//! stored with it.
//! Sources: gRPC over HTTP2 (Length-Prefixed-Message), the JSON format of Protocol Buffers.

use base64::Engine as _;
use bw_model::EngineError;
use flate2::Compression;
use flate2::write::GzEncoder;
use prost::Message;
use prost_reflect::prost_types::FileDescriptorProto;
use prost_reflect::{DescriptorPool, DynamicMessage, MethodDescriptor};
use protox::file::{ChainFileResolver, File, FileResolver, GoogleFileResolver};
use protox::{Compiler, Error};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::io::Write as _;

/// A method, and the messages of its requests.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CallRequest {
    /// The `.proto` files that are not part of protobuf itself, by the names of their imports; the first one has the
    /// service.
    #[serde(default)]
    pub files: Vec<ProtoFile>,
    /// Instead of `files`, compiled ones (`FileDescriptorProto`) in base64, as a server's reflection has them, with those of
    /// protobuf itself; the first one has the service.
    #[serde(default)]
    pub descriptors: Vec<String>,
    /// `package.Service/Method`.
    pub method: String,
    /// Messages as JSON: one, several behind each other, or an array of them. Of a method whose requests are streams, an
    /// array has the messages of one request.
    pub data: String,
    /// Whether each message is compressed, with gzip.
    #[serde(default)]
    pub gzip: bool,
}

/// A `.proto` file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProtoFile {
    /// The name that an import has for it.
    pub name: String,
    /// What it contains.
    pub text: String,
}

/// How a method is called.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Call {
    /// `package.Service/Method`.
    pub method: String,
    /// Whether an answer is a stream of messages.
    pub is_stream: bool,
    /// The body of a request for each of the messages, in base64.
    pub bodies: Vec<String>,
}

/// Returns how a method is called.
///
/// # Errors
/// `proto`: the files are wrong; `method`: they do not have it; `message`: the JSON is none, or none of this method.
pub fn call(request: &CallRequest) -> Result<Call, EngineError> {
    let method = method_of(request)?;
    let name = format!("{}/{}", method.parent_service().full_name(), method.name());
    let requests = requests_of(&request.data, method.is_client_streaming())?;
    let mut place = 0;
    let mut body = |messages: Vec<Value>| {
        let mut body = Vec::new();
        for json in messages {
            place += 1;
            append(&mut body, &method, place, json, request.gzip)?;
        }
        Ok(base64::engine::general_purpose::STANDARD.encode(body))
    };
    let bodies: Result<_, EngineError> = requests.into_iter().map(&mut body).collect();
    Ok(Call {
        method: name,
        is_stream: method.is_server_streaming(),
        bodies: bodies?,
    })
}

/// The files of a request.
struct Files(Vec<ProtoFile>);

impl FileResolver for Files {
    fn open_file(&self, name: &str) -> Result<File, Error> {
        match self.0.iter().find(|file| file.name == name) {
            Some(file) => File::from_source(&file.name, &file.text),
            None => Err(Error::file_not_found(name)),
        }
    }
}

/// Returns what the files of a request declare, and the name of the first one.
fn pool_of(request: &CallRequest) -> Result<(DescriptorPool, String), EngineError> {
    let wrong = |message: String| {
        let remedy = "correct the file, or name the directory of its imports (--import-path)";
        EngineError::request("proto", message, remedy).about("files")
    };
    if !request.descriptors.is_empty() {
        return pool_of_descriptors(&request.descriptors).map_err(|message| {
            let remedy = "name the .proto file of the service (--proto)";
            EngineError::request("proto", message, remedy).about("descriptors")
        });
    }
    let Some(first) = request.files.first() else {
        return Err(wrong("there is no .proto file".to_owned()));
    };
    let mut files = ChainFileResolver::new();
    files.add(Files(request.files.clone()));
    files.add(GoogleFileResolver::new());
    let mut compiler = Compiler::with_file_resolver(files);
    // With the position, which only this form has.
    let compiled = compiler.open_file(&first.name);
    compiled.map_err(|error| wrong(format!("{error:?}")))?;
    Ok((compiler.descriptor_pool(), first.name.clone()))
}

/// Returns what compiled files in base64 declare, and the name of the first one.
fn pool_of_descriptors(encoded: &[String]) -> Result<(DescriptorPool, String), String> {
    let mut files = Vec::new();
    for one in encoded {
        let bytes = base64::engine::general_purpose::STANDARD.decode(one);
        let bytes = bytes.map_err(|error| format!("a descriptor is no base64: {error}"))?;
        let file = FileDescriptorProto::decode(&*bytes);
        files.push(file.map_err(|error| format!("a descriptor is none: {error}"))?);
    }
    let name = files[0].name().to_owned();
    let mut pool = DescriptorPool::new();
    pool.add_file_descriptor_protos(files)
        .map_err(|error| format!("{name}: {error}"))?;
    Ok((pool, name))
}

fn method_of(request: &CallRequest) -> Result<MethodDescriptor, EngineError> {
    let (pool, first) = pool_of(request)?;
    let text = request.method.trim_start_matches('/');
    let (service, name) = text.rsplit_once(['/', '.']).unwrap_or(("", text));
    let found = pool.get_service_by_name(service);
    let found = found.and_then(|service| service.methods().find(|method| method.name() == name));
    found.ok_or_else(|| {
        let own =
            |service: &prost_reflect::ServiceDescriptor| service.parent_file().name() == first;
        let methods = pool.services().filter(own).flat_map(|service| {
            let methods: Vec<_> = service.methods().collect();
            methods
                .into_iter()
                .map(move |method| format!("{}/{}", service.full_name(), method.name()))
        });
        let methods: Vec<_> = methods.collect();
        let remedy = match &methods[..] {
            [] => format!("name the file that has the service: {first} has none",),
            _ => format!("use one of {first}: {}", methods.join(", ")),
        };
        let message = format!("{:?} is no method of these files", request.method);
        EngineError::request("method", message, remedy).about("method")
    })
}

/// Returns the messages of each request that a text describes; `streams`: a request is a stream of messages.
fn requests_of(text: &str, streams: bool) -> Result<Vec<Vec<Value>>, EngineError> {
    let wrong = |message: String| {
        let remedy = "write a message as JSON, several behind each other or as an array";
        EngineError::request("message", message, remedy).about("data")
    };
    let mut requests = Vec::new();
    for value in serde_json::Deserializer::from_str(text).into_iter() {
        match value.map_err(|error| wrong(format!("the messages are no JSON: {error}")))? {
            Value::Array(messages) if streams => requests.push(messages),
            Value::Array(several) => requests.extend(several.into_iter().map(|one| vec![one])),
            one => requests.push(vec![one]),
        }
    }
    if requests.is_empty() {
        return Err(wrong("there is no message".to_owned()));
    }
    Ok(requests)
}

/// Appends a message to the body of a request, behind its flag and its length; `place`: its number, from 1.
fn append(
    body: &mut Vec<u8>,
    method: &MethodDescriptor,
    place: usize,
    json: Value,
    gzip: bool,
) -> Result<(), EngineError> {
    let input = method.input();
    let kind = input.full_name().to_owned();
    let message = DynamicMessage::deserialize(input, json).map_err(|error| {
        let message = format!("message {place}: it is no {kind}: {error}");
        let remedy = "write it as the JSON of this message";
        EngineError::request("message", message, remedy).about("data")
    })?;
    let mut bytes = message.encode_to_vec();
    if gzip {
        bytes = compressed(&bytes);
    }
    // A message of 4 GiB would be more than the request that has it.
    let length = bytes.len() as u32;
    body.push(gzip.into());
    body.extend_from_slice(&length.to_be_bytes());
    body.extend_from_slice(&bytes);
    Ok(())
}

/// Returns bytes in the format of gzip.
fn compressed(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    let written = encoder.write_all(bytes);
    written
        .and_then(|()| encoder.finish())
        .unwrap_or_else(|error| unreachable!("a vector takes all: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GREETER: &str = r#"syntax = "proto3";
        package demo;
        import "google/protobuf/timestamp.proto";
        import "kinds.proto";
        service Greeter {
            rpc Hello (HelloRequest) returns (HelloReply);
            rpc Watch (HelloRequest) returns (stream HelloReply);
            rpc Upload (stream HelloRequest) returns (HelloReply);
        }
        message HelloRequest { string name = 1; int64 number = 2; google.protobuf.Timestamp at = 3; Kind kind = 4; }
        message HelloReply { string text = 1; }
    "#;
    const KINDS: &str = r#"syntax = "proto3"; package demo; enum Kind { NONE = 0; SOME = 1; }"#;

    fn request(method: &str, data: &str) -> CallRequest {
        let file = |name: &str, text: &str| ProtoFile {
            name: name.to_owned(),
            text: text.to_owned(),
        };
        CallRequest {
            files: vec![file("greeter.proto", GREETER), file("kinds.proto", KINDS)],
            method: method.to_owned(),
            data: data.to_owned(),
            gzip: false,
            descriptors: Vec::new(),
        }
    }

    fn bytes(call: &Call) -> Vec<Vec<u8>> {
        let decode = |body| base64::engine::general_purpose::STANDARD.decode(body);
        call.bodies
            .iter()
            .map(|body| decode(body).unwrap())
            .collect()
    }

    #[test]
    fn a_message_is_behind_its_length() {
        let json = r#"{"name": "abc", "number": "5", "kind": "SOME"}"#;
        let one = call(&request("demo.Greeter/Hello", json)).unwrap();
        assert_eq!((&*one.method, one.is_stream), ("demo.Greeter/Hello", false));
        let message = b"\x0a\x03abc\x10\x05\x20\x01";
        assert_eq!(bytes(&one), [[&b"\0\0\0\0\x09"[..], message].concat()]);
    }

    #[test]
    fn a_method_is_written_as_grpc_and_ghz_have_it() {
        for method in [
            "demo.Greeter/Watch",
            "demo.Greeter.Watch",
            "/demo.Greeter/Watch",
        ] {
            let found = call(&request(method, "{}")).unwrap();
            assert_eq!(
                (&*found.method, found.is_stream),
                ("demo.Greeter/Watch", true)
            );
            assert_eq!(bytes(&found), [b"\0\0\0\0\0"]);
        }
    }

    #[test]
    fn several_messages_are_behind_each_other_or_an_array() {
        for data in [
            r#"{"name":"a"} {"name":"b"}"#,
            r#"[{"name":"a"},{"name":"b"}]"#,
        ] {
            let found = call(&request("demo.Greeter/Hello", data)).unwrap();
            assert_eq!(
                bytes(&found),
                [*b"\0\0\0\0\x03\x0a\x01a", *b"\0\0\0\0\x03\x0a\x01b"]
            );
        }
    }

    #[test]
    fn of_a_stream_of_requests_an_array_is_one_request() {
        let data = r#"[{"name":"a"},{"name":"b"}] [] {"name":"c"}"#;
        let found = call(&request("demo.Greeter/Upload", data)).unwrap();
        assert!(!found.is_stream);
        let (a, b, c) = (
            b"\0\0\0\0\x03\x0a\x01a",
            b"\0\0\0\0\x03\x0a\x01b",
            b"\0\0\0\0\x03\x0a\x01c",
        );
        assert_eq!(bytes(&found), [[&a[..], b].concat(), vec![], c.to_vec()]);
    }

    #[test]
    fn a_compressed_message_has_its_flag_and_the_length_of_what_is_sent() {
        let json = format!(r#"{{"name": "{}"}}"#, "a".repeat(1000));
        let plain = &bytes(&call(&request("demo.Greeter/Hello", &json)).unwrap())[0];
        let mut asked = request("demo.Greeter/Hello", &json);
        asked.gzip = true;
        let sent = &bytes(&call(&asked).unwrap())[0];
        assert_eq!(sent[0], 1);
        assert_eq!(sent[1..5], ((sent.len() - 5) as u32).to_be_bytes());
        assert!(sent.len() < plain.len() / 10);
        let mut read = Vec::new();
        let mut decoder = flate2::read::GzDecoder::new(&sent[5..]);
        std::io::Read::read_to_end(&mut decoder, &mut read).unwrap();
        assert_eq!(read, plain[5..]);
    }

    #[test]
    fn compiled_files_declare_what_their_texts_do() {
        let texts = request(
            "demo.Greeter/Hello",
            r#"{"name": "a", "at": "1970-01-01T00:00:01Z"}"#,
        );
        let (pool, _) = pool_of(&texts).unwrap();
        let encode = |file: prost_reflect::FileDescriptor| {
            base64::engine::general_purpose::STANDARD.encode(file.encode_to_vec())
        };
        let mut compiled = CallRequest {
            files: Vec::new(),
            descriptors: pool.files().map(encode).collect(),
            ..texts.clone()
        };
        let first = pool.files().position(|file| file.name() == "greeter.proto");
        compiled.descriptors.swap(0, first.unwrap());
        assert_eq!(call(&compiled).unwrap(), call(&texts).unwrap());
        compiled.method = "demo.Greeter/Helo".to_owned();
        assert!(
            call(&compiled)
                .unwrap_err()
                .remedy
                .contains("demo.Greeter/Hello")
        );
        compiled.descriptors.truncate(1);
        let absent = call(&compiled).unwrap_err();
        assert!(absent.message.starts_with("greeter.proto: "), "{absent:?}");
    }

    #[test]
    fn what_is_wrong_is_said_with_its_place() {
        let error = |method: &str, data: &str| call(&request(method, data)).unwrap_err();
        let unknown = error("demo.Greeter/Helo", "{}");
        assert_eq!(unknown.code, "method");
        assert!(
            unknown
                .remedy
                .contains("demo.Greeter/Hello, demo.Greeter/Watch"),
            "{unknown:?}"
        );
        for data in ["", "[]", "{", "7", r#"{"nam": ""}"#, r#"{"number": "x"}"#] {
            assert_eq!(error("demo.Greeter/Hello", data).code, "message", "{data}");
        }
        let second = error("demo.Greeter/Hello", r#"{} {"nam": 1}"#);
        assert!(second.message.contains("message 2") && second.message.contains("nam"));
        let mut broken = request("demo.Greeter/Hello", "{}");
        broken.files[1].text = "syntax = \"proto3\";\nenum {}".to_owned();
        let broken = call(&broken).unwrap_err();
        assert!(broken.message.contains("kinds.proto:2:6"), "{broken:?}");
        let mut absent = request("demo.Greeter/Hello", "{}");
        absent.files.truncate(1);
        let absent = call(&absent).unwrap_err();
        assert!(absent.message.contains("kinds.proto"), "{absent:?}");
        absent.location.unwrap();
    }
}
