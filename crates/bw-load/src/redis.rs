//! A Redis server as a target: an operation is one command and its reply (see [`bw_protocol::redis`]).
//!
//! Commands are made before the run; an operation's `offset` selects one. Their words are templates, filled for each
//! operation.
//!
//! Decision: the engine itself reads the password, from the environment variable of redis-cli or from a file, so that no
//! request, study or process list contains it.

use crate::labels;
use crate::net::Network;
use crate::net::plan::{PlanOptions, ServerPlan};
use crate::net::spec::server_spec;
use bw_model::{EngineError, ExchangeAddress};
use bw_protocol::redis::{Commands, Login, Password, Redis};
use bw_protocol::values::ValueSpec;
use bw_protocol::{Template, Values};
use std::collections::BTreeMap;
use std::io::Read;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The environment variable with the password, the same as that of redis-cli.
const PASSWORD: &str = "REDISCLI_AUTH";
/// Maximum size of a file with a password [bytes].
const PASSWORD_BYTES: u64 = 64 * 1024;
/// Commands without a reply of their own, or with several.
const REFUSED: [&str; 12] = [
    "SUBSCRIBE",
    "PSUBSCRIBE",
    "SSUBSCRIBE",
    "UNSUBSCRIBE",
    "PUNSUBSCRIBE",
    "SUNSUBSCRIBE",
    "MONITOR",
    "SYNC",
    "PSYNC",
    "SHUTDOWN",
    "RESET",
    "QUIT",
];

server_spec! {
    /// The user's specification of the target.
    pub struct RedisSpec {
        /// A name or an address.
        pub host: String,
        /// The port.
        pub port: u16,
        /// The commands, each as its words: an operation's `offset` is an index into this. Empty: PING.
        #[serde(default)]
        pub commands: Vec<Vec<String>>,
        /// The labels of the commands, in order; empty: they have none.
        #[serde(default)]
        pub labels: Vec<String>,
        /// The values of the words' templates, by name.
        #[serde(default)]
        pub values: BTreeMap<String, ValueSpec>,
        /// The database; None: that of a new connection, 0.
        #[serde(default)]
        pub database: Option<u32>,
        /// The user; None: the default one.
        #[serde(default)]
        pub user: Option<String>,
        /// The file with the password; None: the environment variable REDISCLI_AUTH has it, or there is none.
        #[serde(default)]
        pub password_file: Option<PathBuf>,
        /// The version of the protocol, 2 or 3.
        #[serde(default = "resp2")]
        pub resp: u8,
    }
}

fn resp2() -> u8 {
    2
}

/// The plan of a load on a Redis server.
pub type RedisPlan = ServerPlan<Redis>;

/// A Redis server as one worker's target.
pub type RedisTarget = Network<Redis>;

impl RedisSpec {
    /// Returns the plan, with the addresses of the host and the password.
    ///
    /// # Errors
    /// `command`, `labels`, `values`, `resp`, `user`: bad input; `password-file`: it cannot be read; and as
    /// [`Connecting::to`](crate::net::spec::Connecting::to) and
    /// [`TlsSpec::settings`](crate::net::tls::settings::TlsSpec::settings).
    pub fn plan(&self, options: PlanOptions) -> Result<RedisPlan, EngineError> {
        let commands = Arc::new(self.commands(options.values(&self.values)?)?);
        labels::check(&self.labels, self.commands.len())?;
        let tls = self.tls.as_ref().map(|tls| tls.settings(&self.host, None));
        let tls = tls.transpose()?;
        let login = self.login()?;
        let connecting = self.connecting(&self.host, self.port, tls)?;
        let count = commands.count();
        let redis = move |outstanding| Redis::new(Arc::clone(&commands), &login, outstanding);
        let plan = ServerPlan::new("redis", connecting, redis);
        Ok(plan.with_requests(count, self.labels.clone()))
    }

    fn commands(&self, values: Values) -> Result<Commands, EngineError> {
        if self.commands.is_empty() {
            let ping = vec![Template::literal(b"PING")];
            return Ok(Commands::new(&[ping], values));
        }
        if self.commands.len() as u64 > ExchangeAddress::REQUESTS {
            let message = format!("more than {} commands", ExchangeAddress::REQUESTS);
            let remedy = "use a command with a value, one of several lines";
            return Err(EngineError::request("command", message, remedy));
        }
        let command = |words: &Vec<String>| {
            let templates = words.iter().map(|word| Template::parse(word, &values));
            let templates = templates.collect::<Result<Vec<_>, _>>().map_err(|error| {
                let name = words.first().map(String::as_str).unwrap_or_default();
                let message = format!("command {name:?}: {error}");
                EngineError::request("command", message, "correct the word")
            })?;
            check_command(words, &templates)?;
            Ok(templates)
        };
        let commands = self.commands.iter().map(command);
        let commands = commands.collect::<Result<Vec<_>, EngineError>>();
        let commands = commands.map_err(|error| error.about("target.commands"))?;
        Ok(Commands::new(&commands, values))
    }

    fn login(&self) -> Result<Login, EngineError> {
        if !matches!(self.resp, 2 | 3) {
            let message = format!("resp {}: there is no such version of RESP", self.resp);
            return Err(EngineError::request("resp", message, "use 2 or 3"));
        }
        let password = match &self.password_file {
            Some(path) => Some(password_of(path)?),
            None => std::env::var_os(PASSWORD)
                .filter(|text| !text.is_empty())
                .map(OsStringExt::into_vec),
        };
        if let (Some(user), None) = (&self.user, &password) {
            let message = format!("user {user:?}: there is no password");
            let remedy =
                "set the environment variable REDISCLI_AUTH, or name a file with password_file";
            return Err(EngineError::request("user", message, remedy));
        }
        Ok(Login {
            user: self.user.clone(),
            password: password.map(Password::new),
            resp3: self.resp == 3,
            database: self.database,
        })
    }
}

/// Returns the content of the file without its last line end.
fn password_of(path: &Path) -> Result<Vec<u8>, EngineError> {
    let refused = |what: &str| {
        let message = format!("password file {}: {what}", path.display());
        let remedy = "name a file that has the password and nothing else";
        EngineError::request("password-file", message, remedy)
    };
    let file = bw_sys::regular::open_regular(path).map_err(|error| refused(&error.to_string()))?;
    let mut text = Vec::new();
    let read = file.take(PASSWORD_BYTES + 1).read_to_end(&mut text);
    read.map_err(|error| refused(&error.to_string()))?;
    if text.len() as u64 > PASSWORD_BYTES {
        return Err(refused("it is too long"));
    }
    if text.ends_with(b"\n") {
        text.pop();
    }
    if text.is_empty() {
        return Err(refused("it is empty"));
    }
    Ok(text)
}

/// Refuses a command that has no reply of its own, and one with a password.
fn check_command(words: &[String], templates: &[Template]) -> Result<(), EngineError> {
    let is = |place: usize, word: &str| {
        let other = words.get(place);
        other.is_some_and(|other| other.eq_ignore_ascii_case(word))
    };
    let name = words.first().map(String::as_str).unwrap_or_default();
    let refused = |what: &str, remedy: &str| {
        // Not its other words: one of them may be a password.
        let message = format!("command {name:?}: {what}");
        Err(EngineError::request("command", message, remedy))
    };
    if name.is_empty() {
        return refused("it has no name", "write it like \"GET key\"");
    }
    if templates
        .first()
        .is_some_and(|name| name.as_literal().is_none())
    {
        return refused("its name is a value", "write a command for each name");
    }
    if REFUSED.iter().any(|one| is(0, one)) || (is(0, "CLIENT") && is(1, "REPLY")) {
        let what = "it has no reply of its own, or ends the connection or its login";
        return refused(what, "use commands that have one reply each");
    }
    let authenticates = words.iter().any(|word| word.eq_ignore_ascii_case("AUTH"));
    if is(0, "AUTH") || (is(0, "HELLO") && authenticates) {
        let remedy =
            "set the environment variable REDISCLI_AUTH, or name a file with password_file";
        return refused("a password would be in the results", remedy);
    }
    Ok(())
}
