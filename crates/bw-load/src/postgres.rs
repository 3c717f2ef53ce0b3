//! A PostgreSQL server as a target: an operation executes prepared statements in one transaction
//! (see [`bw_protocol::postgres`]).
//!
//! Decision: the password is looked up here, in the environment and the files of PostgreSQL's own clients, and is no
//! field of the request, so that no request that is stored or printed contains it.

mod password;

use crate::net::connection::Endpoint;
use crate::net::tls::settings::TlsSpec;
use crate::net::{ConnectionOptions, Network};
use bw_model::EngineError;
use bw_model::Nanos;
use bw_protocol::postgres::{Login, Postgres, SSL_REQUEST, Statement, Transactions};
use serde::Deserialize;
use std::path::PathBuf;
use std::sync::Arc;

/// The user's specification of the target.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PostgresSpec {
    /// A name or an address.
    pub host: String,
    /// The port; also the end of the name of a Unix socket.
    #[serde(default = "default_port")]
    pub port: u16,
    /// The Unix socket to connect to, instead of host and port.
    #[serde(default)]
    pub unix_socket: Option<PathBuf>,
    /// The role.
    pub user: String,
    /// The database; None: that with the user's name.
    #[serde(default)]
    pub database: Option<String>,
    /// A file whose first line is the password; None: as for PostgreSQL's own clients.
    #[serde(default)]
    pub password_file: Option<PathBuf>,
    /// What operations execute: an operation's `offset` is an index into this. Empty: `SELECT 1`.
    #[serde(default)]
    pub statements: Vec<Vec<StatementSpec>>,
    /// Number of connections.
    pub connections: u32,
    /// Maximum number of operations in progress on a connection (pipelining).
    #[serde(default = "crate::net::default_outstanding")]
    pub outstanding: u32,
    /// After how many operations a connection is closed and established anew; None: never.
    #[serde(default)]
    pub requests_per_connection: Option<u64>,
    /// How long an operation may take, including a wait for a connection; None: no limit.
    #[serde(default = "crate::net::default_timeout")]
    pub timeout_ns: Option<Nanos>,
    /// TLS; None: none.
    #[serde(default)]
    pub tls: Option<TlsSpec>,
}

/// A statement of an operation.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StatementSpec {
    /// The text, one command of SQL.
    pub sql: String,
    /// The values of its parameters ($1 and so on), as texts.
    #[serde(default)]
    pub parameters: Vec<String>,
}

fn default_port() -> u16 {
    5432
}

/// A checked spec with a resolved name and a password: every worker opens its own target from it.
#[derive(Clone, Debug)]
pub struct PostgresPlan {
    endpoint: Endpoint,
    protocol: Postgres,
    operations: usize,
    options: ConnectionOptions,
}

/// A PostgreSQL server as one worker's target.
pub type PostgresTarget = Network<Postgres>;

impl PostgresSpec {
    /// Returns the plan: the statements checked, the password found, the host resolved.
    ///
    /// # Errors
    /// `statement`: a statement cannot be an operation; `login`: the user or the database is no name; `password`: a file
    /// with passwords cannot be read; and as [`Endpoint::find`], [`ConnectionOptions::checked`] and
    /// [`TlsSpec::settings`].
    pub fn plan(&self) -> Result<PostgresPlan, EngineError> {
        let transactions = self.transactions()?;
        let options = ConnectionOptions {
            outstanding: self.outstanding,
            requests_per_connection: self.requests_per_connection,
            timeout: self.timeout_ns,
        };
        let options = options.checked()?;
        let tls = match &self.tls {
            Some(tls) => Some(tls.settings(&self.host, None)?.after(SSL_REQUEST)),
            None => None,
        };
        let endpoint = Endpoint::find(&self.host, self.port, self.unix_socket.as_deref())?;
        let operations = transactions.count();
        let protocol = Postgres::new(self.login()?, Arc::new(transactions), options.outstanding);
        Ok(PostgresPlan {
            endpoint: endpoint.with_tls(tls),
            protocol,
            operations,
            options,
        })
    }

    fn login(&self) -> Result<Login, EngineError> {
        let database = self.database.as_deref().unwrap_or(&self.user);
        for (field, name) in [("user", &*self.user), ("database", database)] {
            if name.is_empty() || name.contains('\0') {
                let message = format!("{field} {name:?}: not a name");
                let remedy = "write postgres://USER@HOST/DATABASE";
                return Err(
                    EngineError::request("login", message, remedy).about(format!("target.{field}"))
                );
            }
        }
        Ok(Login {
            user: self.user.clone(),
            database: database.to_owned(),
            password: password::find(self, database)?,
        })
    }

    fn transactions(&self) -> Result<Transactions, EngineError> {
        let statement = |one: &StatementSpec| Statement {
            sql: one.sql.clone(),
            parameters: one.parameters.clone(),
        };
        let operations = self.statements.iter();
        let mut operations: Vec<Vec<_>> = operations
            .map(|one| one.iter().map(statement).collect())
            .collect();
        if operations.is_empty() {
            operations.push(vec![Statement {
                sql: "SELECT 1".into(),
                parameters: Vec::new(),
            }]);
        }
        if let Some(place) = operations.iter().position(Vec::is_empty) {
            let field = format!("target.statements[{place}]");
            let message = format!("{field}: it has no statement");
            let remedy = "give each operation at least one";
            return Err(EngineError::request("statement", message, remedy).about(field));
        }
        Transactions::new(&operations).map_err(|refused| {
            let (operation, statement) = (refused.operation, refused.statement);
            let field = format!("target.statements[{operation}][{statement}]");
            let sql = &operations[operation][statement].sql;
            let message = format!("{field}: {sql:?}: {}", refused.what);
            EngineError::request("statement", message, refused.remedy).about(field)
        })
    }
}

impl PostgresPlan {
    /// Returns how many different operations there are.
    #[must_use]
    pub(crate) fn operations(&self) -> usize {
        self.operations
    }

    /// Returns a target with `connections` connections, all established, on which all statements are prepared.
    ///
    /// # Errors
    /// As [`Network::open`].
    pub fn open(&self, connections: u32) -> Result<PostgresTarget, EngineError> {
        let protocol = self.protocol.clone();
        Network::open(protocol, &self.endpoint, connections, self.options)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn refused(more: serde_json::Value) -> EngineError {
        let mut fields = json!({"host": "127.0.0.1", "user": "u", "connections": 1});
        let object = fields.as_object_mut().unwrap();
        object.extend(more.as_object().unwrap().clone());
        let spec: PostgresSpec = serde_json::from_value(fields).unwrap();
        spec.plan().unwrap_err()
    }

    #[test]
    fn a_statement_that_is_no_operation_is_refused_at_its_place() {
        let copy = json!({"statements": [[{"sql": "SELECT 1"}], [{"sql": "VALUES (1)"}, {"sql": "COPY a FROM STDIN"}]]});
        let error = refused(copy);
        assert_eq!((error.code, error.status), ("statement", 2));
        assert!(
            error.message.starts_with("target.statements[1][1]: "),
            "{error}"
        );
        assert!(error.message.contains("COPY is not supported"), "{error}");
        assert_eq!(refused(json!({"statements": [[]]})).code, "statement");
    }

    #[test]
    fn names_and_numbers_are_checked() {
        assert_eq!(refused(json!({"user": ""})).code, "login");
        assert_eq!(refused(json!({"database": "a\0b"})).code, "login");
        assert_eq!(refused(json!({"outstanding": 0})).code, "bad-request");
        let missing = json!({"password_file": "/does/not/exist"});
        assert_eq!(refused(missing).code, "password");
    }
}
