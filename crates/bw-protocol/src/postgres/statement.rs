//! The statements of a load, and the bytes that prepare and execute them.

use crate::postgres::message::{put, put_text};
use crate::values::put_integer;
use crate::{Outgoing, Template, Values};
use std::fmt;

/// A statement with the texts of its parameters ($1 and so on).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement {
    /// The text, one command of SQL.
    pub sql: String,
    /// The texts, in order. The text of a statement itself has no places for values: it is prepared.
    pub parameters: Vec<Template>,
}

/// Why a load cannot have a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsupported {
    /// Which operation, from 0.
    pub operation: usize,
    /// Which of its statements, from 0.
    pub statement: usize,
    /// What is wrong.
    pub what: &'static str,
    /// What to do.
    pub remedy: &'static str,
}

/// A statement that a connection prepares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Prepared {
    pub(super) sql: String,
    pub(super) parameters: u16,
}

/// An operation.
#[derive(Clone, Debug)]
pub(super) struct Request {
    parts: Vec<Part>,
    /// How many statements it executes.
    pub(super) statements: u32,
}

/// A part of an operation.
#[derive(Clone, Debug)]
enum Part {
    /// What is the same each time.
    Bytes(Vec<u8>),
    /// The Bind of the statement with this number: each operation has its own values of the parameters.
    Bind(usize, Box<[Template]>),
}

/// The operations of a load: each executes its statements in order, in one transaction.
#[derive(Clone)]
pub struct Transactions {
    pub(super) prepared: Vec<Prepared>,
    pub(super) requests: Vec<Request>,
    /// What prepares all statements.
    pub(super) preparation: Box<[u8]>,
    values: Values,
}

/// Maximum number of parameters of a statement.
const MOST_PARAMETERS: usize = u16::MAX as usize;
/// Maximum length of the parameters of a statement: a message of the server's own maximum has room for them [bytes].
const MOST_BYTES: usize = 1 << 29;

impl Transactions {
    /// Returns the operations; their parameters have places for these values. Statements with the same text are prepared
    /// once.
    ///
    /// # Errors
    /// A statement cannot be an operation of a load.
    pub fn new(operations: &[Vec<Statement>], values: Values) -> Result<Self, Unsupported> {
        let mut prepared: Vec<Prepared> = Vec::new();
        let mut numbers = std::collections::HashMap::new();
        let mut requests = Vec::with_capacity(operations.len());
        for (operation, statements) in operations.iter().enumerate() {
            let (mut parts, mut bytes) = (Vec::new(), Vec::new());
            for (place, statement) in statements.iter().enumerate() {
                if let Some((what, remedy)) = unsupported(statement, &values) {
                    return Err(Unsupported {
                        operation,
                        statement: place,
                        what,
                        remedy,
                    });
                }
                // `unsupported` has looked at their number.
                let parameters = statement.parameters.len() as u16;
                let key = (statement.sql.as_str(), parameters);
                let number = *numbers.entry(key).or_insert_with(|| {
                    prepared.push(Prepared {
                        sql: statement.sql.clone(),
                        parameters,
                    });
                    prepared.len() - 1
                });
                let own = &statement.parameters;
                if own.iter().all(|text| text.as_literal().is_some()) {
                    put_bind(number, own, &values, 0, &mut bytes);
                } else {
                    parts.push(Part::Bytes(std::mem::take(&mut bytes)));
                    parts.push(Part::Bind(number, own.as_slice().into()));
                }
                put_execute(&mut bytes);
            }
            put(b'S', &mut bytes, |_| ());
            parts.push(Part::Bytes(bytes));
            requests.push(Request {
                parts,
                // Each takes more than 20 bytes of memory.
                statements: statements.len() as u32,
            });
        }
        let mut preparation = Vec::new();
        for (number, statement) in prepared.iter().enumerate() {
            put_preparation(number, &statement.sql, &mut preparation);
        }
        put(b'S', &mut preparation, |_| ());
        Ok(Self {
            prepared,
            requests,
            preparation: preparation.into_boxed_slice(),
            values,
        })
    }

    /// Puts a request with the values of the operation with this number; `scratch` is for a Bind.
    pub(super) fn put(
        &self,
        request: &Request,
        number: u64,
        scratch: &mut Vec<u8>,
        out: &mut Outgoing,
    ) {
        for part in &request.parts {
            match part {
                Part::Bytes(bytes) => out.put(bytes),
                Part::Bind(statement, parameters) => {
                    scratch.clear();
                    put_bind(*statement, parameters, &self.values, number, scratch);
                    out.put(scratch);
                }
            }
        }
    }

    /// Returns how many operations there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.requests.len()
    }
}

impl fmt::Debug for Transactions {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Transactions")
            .field("prepared", &self.prepared)
            .finish_non_exhaustive()
    }
}

/// Appends the name under which a statement is prepared, with its end.
fn put_name(number: usize, out: &mut Vec<u8>) {
    out.extend_from_slice(b"bw");
    // A number of statements fits.
    put_integer(number as i64, 0, out);
    out.push(0);
}

/// Appends Parse and Describe.
fn put_preparation(number: usize, sql: &str, out: &mut Vec<u8>) {
    put(b'P', out, |out| {
        put_name(number, out);
        put_text(sql, out);
        out.extend_from_slice(&0_u16.to_be_bytes());
    });
    put(b'D', out, |out| {
        out.push(b'S');
        put_name(number, out);
    });
}

/// Appends Bind with the values of an operation: parameters and rows are texts.
fn put_bind(
    number: usize,
    parameters: &[Template],
    values: &Values,
    operation: u64,
    out: &mut Vec<u8>,
) {
    put(b'B', out, |out| {
        put_text("", out);
        put_name(number, out);
        out.extend_from_slice(&0_u16.to_be_bytes());
        out.extend_from_slice(&(parameters.len() as u16).to_be_bytes());
        for parameter in parameters {
            let place = out.len();
            out.extend_from_slice(&[0; 4]);
            parameter.fill(values, operation, out);
            // At most MOST_BYTES.
            let length = (out.len() - place - 4) as u32;
            out[place..place + 4].copy_from_slice(&length.to_be_bytes());
        }
        out.extend_from_slice(&0_u16.to_be_bytes());
    });
}

/// Appends Execute: all rows are wanted.
fn put_execute(out: &mut Vec<u8>) {
    put(b'E', out, |out| {
        put_text("", out);
        out.extend_from_slice(&0_u32.to_be_bytes());
    });
}

/// Returns why a statement is refused, and what to do.
fn unsupported(statement: &Statement, values: &Values) -> Option<(&'static str, &'static str)> {
    if statement.parameters.len() > MOST_PARAMETERS {
        return Some((
            "it has more than 65,535 parameters",
            "use fewer: the protocol cannot carry more",
        ));
    }
    let parameters = statement.parameters.iter();
    if parameters
        .map(|text| text.most_bytes(values))
        .sum::<usize>()
        > MOST_BYTES
    {
        return Some((
            "its parameters can have more than 512 MiB",
            "use shorter ones",
        ));
    }
    if statement.sql.contains('\0') {
        return Some(("it contains a zero byte", "remove it"));
    }
    let word = first_word(&statement.sql).to_ascii_uppercase();
    match word.as_str() {
        "" => Some(("it is empty", "write a command of SQL")),
        "COPY" => Some((
            "COPY is not supported: its data is not an answer to one request",
            "use INSERT, or INSERT ... SELECT from unnest of arrays",
        )),
        "BEGIN" | "START" => Some((
            "a transaction that it starts could outlast its operation",
            "give its statements as one operation, a list: they are one transaction",
        )),
        _ => None,
    }
}

/// Returns the first word after white space and comments; empty if there is none.
fn first_word(sql: &str) -> &str {
    let mut rest = sql;
    loop {
        rest = rest.trim_start();
        if let Some(comment) = rest.strip_prefix("--") {
            rest = comment.find('\n').map_or("", |end| &comment[end..]);
        } else if rest.starts_with("/*") {
            rest = after_comment(rest);
        } else {
            break;
        }
    }
    let end = rest.find(|one: char| !one.is_ascii_alphabetic());
    match end {
        // Other beginnings, such as "(SELECT 1)", are a word too.
        Some(0) => rest.get(..1).unwrap_or(rest),
        Some(end) => &rest[..end],
        None => rest,
    }
}

/// Returns what comes after a comment; such comments nest.
fn after_comment(sql: &str) -> &str {
    let mut depth = 0_u32;
    let bytes = sql.as_bytes();
    let mut place = 0;
    while place < bytes.len() {
        let step = match &bytes[place..] {
            [b'/', b'*', ..] => {
                depth += 1;
                2
            }
            [b'*', b'/', ..] => {
                depth -= 1;
                2
            }
            _ => 1,
        };
        place += step;
        if depth == 0 {
            return &sql[place..];
        }
    }
    ""
}

#[cfg(test)]
mod tests {
    use super::*;

    fn statement(sql: &str, parameters: &[&str]) -> Statement {
        Statement {
            sql: sql.to_owned(),
            parameters: parameters
                .iter()
                .map(|text| Template::literal(text.as_bytes()))
                .collect(),
        }
    }

    fn made(operations: &[Vec<Statement>]) -> Transactions {
        Transactions::new(operations, Values::default()).unwrap()
    }

    /// Returns the bytes of a request with the values of an operation.
    fn bytes_of(made: &Transactions, request: usize, number: u64) -> Vec<u8> {
        let (mut scratch, mut out) = (Vec::new(), Outgoing::default());
        made.put(&made.requests[request], number, &mut scratch, &mut out);
        out.next().to_vec()
    }

    #[test]
    fn the_bytes_are_those_of_the_protocol() {
        let one = made(&[vec![statement("SELECT $1", &["7"])]]);
        assert_eq!(
            &*one.preparation,
            b"P\0\0\0\x14bw0\0SELECT $1\0\0\0D\0\0\0\x09Sbw0\0S\0\0\0\x04"
        );
        assert_eq!(
            bytes_of(&one, 0, 3),
            b"B\0\0\0\x14\0bw0\0\0\0\0\x01\0\0\0\x017\0\0E\0\0\0\x09\0\0\0\0\0S\0\0\0\x04"
        );
    }

    #[test]
    fn equal_texts_are_prepared_once() {
        let one = statement("SELECT $1", &["7"]);
        let other = statement("SELECT $1", &["8"]);
        let third = statement("SELECT 1", &[]);
        let all = [vec![one.clone(), third], vec![other], vec![one]];
        let made = made(&all);
        assert_eq!((made.count(), made.prepared.len()), (3, 2));
        assert_eq!(made.requests[0].statements, 2);
        assert_ne!(bytes_of(&made, 1, 0), bytes_of(&made, 2, 0));
    }

    #[test]
    fn parameters_have_the_values_of_the_operation() {
        let values = r#"{"n": {"type": "counter"}, "w": {"type": "line", "lines": ["a", "bc"], "location":
            {"type": "sequential"}}}"#;
        let values = Values::new(&serde_json::from_str(values).unwrap(), 1).unwrap();
        let template = |text| Template::parse(text, &values).unwrap();
        let own = Statement {
            sql: "SELECT $1, $2".to_owned(),
            parameters: vec![template("${n}"), template("<${w}>")],
        };
        let same = statement("SELECT $1, $2", &["x", ""]);
        let all = [vec![same.clone(), own, same]];
        let with = Transactions::new(&all, values.clone()).unwrap();
        assert_eq!(with.prepared.len(), 1);
        for (number, first, second) in [(8, "8", "<a>"), (1001, "1001", "<bc>")] {
            let filled = statement("SELECT $1, $2", &[first, second]);
            let literal = made(&[vec![all[0][0].clone(), filled, all[0][2].clone()]]);
            assert_eq!(bytes_of(&with, 0, number), bytes_of(&literal, 0, number));
        }
    }

    #[test]
    fn parameters_that_no_message_has_room_for_are_refused() {
        let values = r#"{"t": {"type": "text", "length": 1048576}}"#;
        let values = Values::new(&serde_json::from_str(values).unwrap(), 1).unwrap();
        let text = Template::parse(&"${t}".repeat(600), &values).unwrap();
        let sql = "SELECT $1".to_owned();
        let parameters = vec![text];
        let refused = Transactions::new(&[vec![Statement { sql, parameters }]], values);
        assert!(refused.unwrap_err().what.contains("512 MiB"));
    }

    #[test]
    fn statements_that_are_no_request_are_refused_with_their_place() {
        let good = statement("/* a /* COPY */ b */ -- BEGIN\n SELECT 1", &[]);
        let copies = ["COPY a FROM STDIN", " copy a TO STDOUT", "--\n/**/COPY a"];
        for wrong in [
            &copies[..],
            &["BEGIN", "start transaction", "", " -- a", "/*", "SELECT\0"],
        ]
        .concat()
        {
            let all = [
                vec![good.clone()],
                vec![good.clone(), statement(wrong, &[])],
            ];
            let refused = Transactions::new(&all, Values::default());
            let refused = refused.unwrap_err();
            assert_eq!((refused.operation, refused.statement), (1, 1), "{wrong:?}");
        }
        for fine in ["(SELECT 1)", "copyright", "VALUES (1)", "é"] {
            assert_eq!(made(&[vec![statement(fine, &[])]]).count(), 1, "{fine}");
        }
    }
}
