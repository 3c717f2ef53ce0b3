//! The statements of a load, and the bytes that prepare and execute them.

use crate::postgres::message::{put, put_text};
use std::fmt;

/// A statement with the values of its parameters ($1 and so on), as texts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement {
    /// The text, one command of SQL.
    pub sql: String,
    /// The values, in order.
    pub parameters: Vec<String>,
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

/// The bytes of an operation.
#[derive(Clone, Debug)]
pub(super) struct Request {
    pub(super) bytes: Box<[u8]>,
    /// How many statements they execute.
    pub(super) statements: u32,
}

/// The operations of a load: each executes its statements in order, in one transaction.
#[derive(Clone)]
pub struct Transactions {
    pub(super) prepared: Vec<Prepared>,
    pub(super) requests: Vec<Request>,
    /// What prepares all statements.
    pub(super) preparation: Box<[u8]>,
}

/// Maximum number of parameters of a statement.
const MOST_PARAMETERS: usize = u16::MAX as usize;

impl Transactions {
    /// Returns the operations. Statements with the same text are prepared once.
    ///
    /// # Errors
    /// A statement cannot be an operation of a load.
    pub fn new(operations: &[Vec<Statement>]) -> Result<Self, Unsupported> {
        let mut prepared: Vec<Prepared> = Vec::new();
        let mut numbers = std::collections::HashMap::new();
        let mut requests = Vec::with_capacity(operations.len());
        for (operation, statements) in operations.iter().enumerate() {
            let mut bytes = Vec::new();
            for (place, statement) in statements.iter().enumerate() {
                if let Some((what, remedy)) = unsupported(statement) {
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
                put_execution(number, &statement.parameters, &mut bytes);
            }
            put(b'S', &mut bytes, |_| ());
            requests.push(Request {
                bytes: bytes.into_boxed_slice(),
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
        })
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

/// Returns the name under which a statement is prepared.
fn name(number: usize) -> String {
    format!("bw{number}")
}

/// Appends Parse and Describe.
fn put_preparation(number: usize, sql: &str, out: &mut Vec<u8>) {
    let name = name(number);
    put(b'P', out, |out| {
        put_text(&name, out);
        put_text(sql, out);
        out.extend_from_slice(&0_u16.to_be_bytes());
    });
    put(b'D', out, |out| {
        out.push(b'S');
        put_text(&name, out);
    });
}

/// Appends Bind and Execute: parameters and rows are texts, and all rows are wanted.
fn put_execution(number: usize, parameters: &[String], out: &mut Vec<u8>) {
    put(b'B', out, |out| {
        put_text("", out);
        put_text(&name(number), out);
        out.extend_from_slice(&0_u16.to_be_bytes());
        out.extend_from_slice(&(parameters.len() as u16).to_be_bytes());
        for parameter in parameters {
            // A request of ours is far below 2 GiB.
            out.extend_from_slice(&(parameter.len() as u32).to_be_bytes());
            out.extend_from_slice(parameter.as_bytes());
        }
        out.extend_from_slice(&0_u16.to_be_bytes());
    });
    put(b'E', out, |out| {
        put_text("", out);
        out.extend_from_slice(&0_u32.to_be_bytes());
    });
}

/// Returns why a statement is refused, and what to do.
fn unsupported(statement: &Statement) -> Option<(&'static str, &'static str)> {
    if statement.parameters.len() > MOST_PARAMETERS {
        return Some((
            "it has more than 65,535 parameters",
            "use fewer: the protocol cannot carry more",
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
            parameters: parameters.iter().map(|text| (*text).to_owned()).collect(),
        }
    }

    #[test]
    fn the_bytes_are_those_of_the_protocol() {
        let operations = [vec![statement("SELECT $1", &["7"])]];
        let one = Transactions::new(&operations).unwrap();
        assert_eq!(
            &*one.preparation,
            b"P\0\0\0\x14bw0\0SELECT $1\0\0\0D\0\0\0\x09Sbw0\0S\0\0\0\x04"
        );
        assert_eq!(
            &*one.requests[0].bytes,
            b"B\0\0\0\x14\0bw0\0\0\0\0\x01\0\0\0\x017\0\0E\0\0\0\x09\0\0\0\0\0S\0\0\0\x04"
        );
    }

    #[test]
    fn equal_texts_are_prepared_once() {
        let one = statement("SELECT $1", &["7"]);
        let other = statement("SELECT $1", &["8"]);
        let third = statement("SELECT 1", &[]);
        let all = [vec![one.clone(), third], vec![other], vec![one]];
        let made = Transactions::new(&all).unwrap();
        assert_eq!((made.count(), made.prepared.len()), (3, 2));
        assert_eq!(made.requests[0].statements, 2);
        assert_ne!(made.requests[1].bytes, made.requests[2].bytes);
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
            let refused = Transactions::new(&[
                vec![good.clone()],
                vec![good.clone(), statement(wrong, &[])],
            ]);
            let refused = refused.unwrap_err();
            assert_eq!((refused.operation, refused.statement), (1, 1), "{wrong:?}");
        }
        for fine in ["(SELECT 1)", "copyright", "VALUES (1)", "é"] {
            assert!(
                Transactions::new(&[vec![statement(fine, &[])]]).is_ok(),
                "{fine}"
            );
        }
    }
}
