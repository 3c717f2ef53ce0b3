//! A PostgreSQL server as a target: an operation executes prepared statements in one transaction
//! (see [`bw_protocol::postgres`]).
//!
//! Decision: the password is looked up here, in the environment and the files of PostgreSQL's own clients, and is no
//! field of the request, so that no request that is stored or printed contains it.

mod password;

use crate::labels;
use crate::net::Network;
use crate::net::plan::{PlanOptions, ServerPlan};
use crate::net::spec::server_spec;
use bw_model::{EngineError, ExchangeAddress};
use bw_protocol::postgres::{Login, Postgres, SSL_REQUEST, Statement, Transactions};
use bw_protocol::values::ValueSpec;
use bw_protocol::{Template, Values};
use password::Wanted;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

server_spec! {
    /// The user's specification of the target.
    pub struct PostgresSpec {
        /// A name or an address.
        pub host: String,
        /// The port; also the end of the name of a Unix socket.
        #[serde(default = "default_port")]
        pub port: u16,
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
        /// The labels of the operations, in order; empty: they have none.
        #[serde(default)]
        pub labels: Vec<String>,
        /// The values of the parameters' templates, by name.
        #[serde(default)]
        pub values: BTreeMap<String, ValueSpec>,
    }
}

/// A statement of an operation.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StatementSpec {
    /// The text, one command of SQL.
    pub sql: String,
    /// The texts of its parameters ($1 and so on), templates.
    #[serde(default)]
    pub parameters: Vec<String>,
}

fn default_port() -> u16 {
    5432
}

/// The plan of a load on a PostgreSQL server.
pub type PostgresPlan = ServerPlan<Postgres>;

/// A PostgreSQL server as one worker's target.
pub type PostgresTarget = Network<Postgres>;

impl PostgresSpec {
    /// Returns the plan: the statements checked, the password found, the host resolved.
    ///
    /// # Errors
    /// `statement`: a statement cannot be an operation; `labels`, `values`: bad input; `login`: the user or the database
    /// is no name; `password`: a file with passwords cannot be read; and as
    /// [`Connecting::to`](crate::net::spec::Connecting::to) and
    /// [`TlsSpec::settings`](crate::net::tls::settings::TlsSpec::settings).
    pub fn plan(&self, options: PlanOptions) -> Result<PostgresPlan, EngineError> {
        let transactions = Arc::new(self.transactions(options.values(&self.values)?)?);
        labels::check(&self.labels, self.statements.len())?;
        let tls = self.tls.as_ref().map(|tls| tls.settings(&self.host, None));
        let tls = tls.transpose()?.map(|tls| tls.after(SSL_REQUEST));
        let connecting = self.connecting(&self.host, self.port, tls)?;
        let count = transactions.count();
        let protocol = Postgres::new(self.login()?, transactions, connecting.outstanding());
        let plan = ServerPlan::new("postgres", connecting, move |_| protocol.clone());
        Ok(plan.with_requests(count, self.labels.clone()))
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
            password: password::find(&Wanted {
                password_file: self.password_file.as_deref(),
                unix_socket: self.unix_socket.as_deref(),
                host: &self.host,
                port: self.port,
                database,
                user: &self.user,
            })?,
        })
    }

    fn transactions(&self, values: Values) -> Result<Transactions, EngineError> {
        if self.statements.len() as u64 > ExchangeAddress::REQUESTS {
            let message = format!("more than {} operations", ExchangeAddress::REQUESTS);
            let remedy = "use a statement with a parameter that is a value";
            let refused = EngineError::request("statement", message, remedy);
            return Err(refused.about("target.statements"));
        }
        if let Some(place) = self.statements.iter().position(Vec::is_empty) {
            let field = format!("target.statements[{place}]");
            let message = format!("{field}: it has no statement");
            let remedy = "give each operation at least one";
            return Err(EngineError::request("statement", message, remedy).about(field));
        }
        let refused = |operation: usize, statement: usize, what: &str, remedy: &str| {
            let field = format!("target.statements[{operation}][{statement}]");
            let sql = &self.statements[operation][statement].sql;
            let message = format!("{field}: {sql:?}: {what}");
            EngineError::request("statement", message, remedy).about(field)
        };
        let mut operations = Vec::with_capacity(self.statements.len().max(1));
        for (operation, statements) in self.statements.iter().enumerate() {
            let template = |place: usize, text: &String| {
                let remedy = "correct the parameter";
                Template::parse(text, &values)
                    .map_err(|what| refused(operation, place, &what, remedy))
            };
            let statement = |(place, one): (usize, &StatementSpec)| {
                let parameters = one.parameters.iter().map(|text| template(place, text));
                Ok(Statement {
                    sql: one.sql.clone(),
                    parameters: parameters.collect::<Result<_, EngineError>>()?,
                })
            };
            let made = statements.iter().enumerate().map(statement);
            operations.push(made.collect::<Result<Vec<_>, EngineError>>()?);
        }
        if operations.is_empty() {
            operations.push(vec![Statement {
                sql: "SELECT 1".into(),
                parameters: Vec::new(),
            }]);
        }
        Transactions::new(&operations, values)
            .map_err(|one| refused(one.operation, one.statement, one.what, one.remedy))
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
        spec.plan(PlanOptions::default()).unwrap_err()
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
        let unknown = json!({"statements": [[{"sql": "SELECT $1", "parameters": ["${id}"]}]]});
        let error = refused(unknown);
        assert_eq!((error.code, error.status), ("statement", 2));
        assert!(
            error.message.starts_with("target.statements[0][0]: "),
            "{error}"
        );
        let labels = json!({"statements": [[{"sql": "SELECT 1"}]], "labels": ["a", "b"]});
        assert_eq!(refused(labels).code, "labels");
        let values = json!({"values": {"a b": {"type": "counter"}}});
        assert_eq!(refused(values).code, "values");
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
